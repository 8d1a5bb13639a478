// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

mod operate;

pub use operate::{BenchHost, Check, Hook, HookOf, Keeping, LibvirtHook, Metrics, ProxmoxHook, Top, Trace, Why};

use crate::carried::TEMPLATES;
use crate::seeds::Seeds;
use clap::{Args as Group, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use takt_control::file::{TENANT_THREADS, TENANT_VMS, TIMEOUTS};
use takt_control::settings;

/// What `takt -V` prints behind the name.
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("TAKT_COMMIT"), ", features: ", env!("TAKT_FEATURES"), ")");

/// Schedule soft real-time virtual machines on KVM or Xen, or simulate the host and reproduce published results.
#[derive(Parser, Debug)]
#[command(name = "takt", version = VERSION, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The settings are those of `policy/settings.def`.
fn set_help() -> String {
    let usage = settings::usage();
    format!(
        "VM and its new settings: {usage}, group=NAME, ports=554,5000-5010, dev=IFNAME; period requires rt=on or budget"
    )
}

fn config_help() -> String {
    let names = settings::names();
    format!(
        "Apply settings of this TOML file: [host], [pool], [vm.NAME] and [cgroup.PATH] ({names}, group, ports, cgroup, uid); SIGHUP reads it again"
    )
}

fn new_help() -> String {
    let kinds: Vec<_> = TEMPLATES.iter().map(|(name, _)| *name).collect();
    format!("Select a template: {}", kinds.join(", "))
}

/// Exit status of a command that did what it should, and found what should not be.
pub const DIFFERS: u8 = 1;
/// Exit status of a command that could not do it.
pub const BAD_INPUT: u8 = 2;

/// Exit statuses of every command.
pub const EXIT: [(u8, &str); 3] = [
    (0, "Success."),
    (
        DIFFERS,
        "A gate of an experiment does not hold, a replay differs, a host should be mended, or the kernel disabled the scheduler.",
    ),
    (BAD_INPUT, "Invalid input, or output that cannot be written."),
];

/// All commands, with what clap adds to them.
pub fn built() -> clap::Command {
    let mut all = Args::command();
    all.build();
    all
}

/// The command that a command line names: those on the way to it, and itself.
fn named(words: &[OsString]) -> (String, clap::Command) {
    let (mut path, mut command) = ("takt".to_owned(), Args::command());
    for word in words.iter().skip(1) {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        path += &format!(" {}", next.get_name());
        command = next;
    }
    (path, command)
}

/// As a user writes it: `takt lab linux`.
pub fn path(words: &[OsString]) -> String {
    named(words).0
}

/// Names of its commands.
pub fn commands(words: &[OsString]) -> Vec<String> {
    named(words).1.get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the policies and their parameters
    Policies(Policies),
    /// List the built-in scenarios, or print one
    Scenarios(Scenarios),
    /// Write a commented scenario to start from
    New(New),
    /// Simulate scenarios under one or more policies and compare the results
    Sim(Sim),
    /// Reproduce a published figure or table and compare its values with ours
    Experiment(Experiment),
    /// Show what the monitor infers from a capture: which senders are real-time, by which rule, and their periods
    Inspect(Inspect),
    /// Check without a run whether budgets suffice: response times, deadlines, required PCPUs
    Analyze(Analyze),
    /// Run scenarios on a real kernel or hypervisor in an emulated machine and compare policies
    Lab(Lab),
    /// Check whether `takt run` would start on this host, and what on it should be mended
    Doctor(Doctor),
    /// Check a file for `takt run --config`, or show what it says of a VM
    Check(Check),
    /// Pass settings from a VM's own configuration to Takt: for libvirt and Proxmox to call, always with status 0
    Hook(Hook),
    /// Schedule this host's VMs until Ctrl-C (Linux, as root); in Xen's Dom0, only detect real-time VMs or manage pools
    Run(Run),
    /// Show the VMs of a running Takt: whether and why they are real-time, periods, waits, devices
    Status(Status),
    /// Watch the VMs of a running Takt on a terminal, the one that suffers most first (Linux)
    Top(Top),
    /// Change settings of a VM or of the policy of a running Takt; if one is refused, none is changed
    Set(SetLive),
    /// Record every operation of a running Takt, for `takt replay` to verify
    Record(Record),
    /// Write what runs where on this host to a file for ui.perfetto.dev (Linux)
    Trace(Trace),
    /// Measure the decisions and switches of a running Takt: count, total, median, 99th percentile, longest
    Overhead(Overhead),
    /// Explain how long a VM waited for a PCPU, and for what (Linux)
    Why(Why),
    /// Offer what a running Takt knows to Prometheus, or print it (Linux)
    Metrics(Metrics),
    /// Measure this host and its VMs under the kernel's scheduler and under Takt by turns, after consent (Linux, as root)
    BenchHost(BenchHost),
    /// Check a recording against the state table and replay it natively; exit status 1 if either differs
    Replay(Replay),
    /// List the documents that --json prints, or print the JSON schema of one
    Schema(Schema),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, to view with `man -l -`
    Man,
}

impl Command {
    /// Whether it is about a host that runs: it ends in its own way.
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Status(_)
                | Self::Set(_)
                | Self::Record(_)
                | Self::Overhead(_)
                | Self::Metrics(_)
                | Self::Top(_)
                | Self::Why(_)
                | Self::Trace(_)
                | Self::BenchHost(_)
        )
    }
}

#[derive(Group, Debug)]
pub struct Completions {
    /// Print the script for this shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Fish,
    Zsh,
}

#[derive(Group, Debug)]
pub struct Schema {
    /// Print the schema of this document, e.g. sim [default: list all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Group, Debug)]
pub struct Policies {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Scenarios {
    /// Print the text of this scenario, e.g. voip [default: list all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "name")]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct New {
    #[arg(value_name = "KIND", help = new_help())]
    pub kind: String,
    /// Write to FILE, which must not exist [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

#[derive(Group, Debug)]
pub struct Sim {
    /// Scenarios: TOML files, or names from `takt scenarios`
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy, e.g. doris or 'credit(slice=5ms)'; repeat to compare [default: the scenario's]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-8 or 1-8,101-108
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Simulated time after warm-up, e.g. 60s [default: the scenario's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Show every VM, also VMs without deadlines
    #[arg(long)]
    pub all: bool,
    /// Print CSV instead of tables: a row per VM, policy and seed
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Select the columns of the VM table or of CSV, e.g. name,policy,wait_p99_ns (see docs/scenarios.md)
    #[arg(long, value_name = "LIST", conflicts_with = "json")]
    pub columns: Option<String>,
    #[command(flatten)]
    pub out: Out,
    /// Write a Perfetto trace of the first policy and seed to F (open it in ui.perfetto.dev)
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
    /// Record every operation of the first policy and seed to F, for `takt replay` to verify
    #[arg(long, value_name = "F")]
    pub record: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Experiment {
    /// Run this experiment, e.g. DORIS-E2; `all` runs those without the Xen lab, `list` lists all
    #[arg(value_name = "ID")]
    pub id: String,
    /// Seeds, e.g. 1-8 or 1-8,101-108 [default: the experiment's]
    #[arg(long, alias = "seed", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seeds: Option<Seeds>,
    /// Simulated time after warm-up, e.g. 60s [default: the experiment's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Evaluate the gates again with each model constant changed by 25 % up and down, and list violations
    #[arg(long)]
    pub sensitivity: bool,
    /// Exit with 0 if only gates fail that the experiment's file lists as missed
    #[arg(long)]
    pub known: bool,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Group, Debug)]
pub struct Inspect {
    /// Read these captures in order (pcap or pcapng, also .gz and .zst); - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Treat packets from this source port as real-time; repeat for more
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<u16>,
    /// Name the sender with this address; addresses with the same name are one sender; repeat for more
    #[arg(long = "vm", value_name = "MAC|IP=NAME")]
    pub vms: Vec<String>,
    /// Exit with 2 if any input could not be read
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained report with a timeline to F
    #[arg(long, value_name = "F")]
    pub html: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Analyze {
    /// Scenario with VMs that have budget, period and tasks, or rt = "on", latency and group: a TOML
    /// file, or a name from `takt scenarios`
    #[arg(value_name = "SCENARIO")]
    pub file: PathBuf,
    /// Check admission under this policy, e.g. rtxen or 'sedf(reserve=0)'; repeat for more
    /// [default: the scenario's policies with budgets, else all with budgets]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seed for task sets that are drawn at random
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub seed: u64,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Lab {
    #[command(subcommand)]
    pub host: LabHost,
}

#[derive(Subcommand, Debug)]
pub enum LabHost {
    /// Run on Linux and KVM: Debian's kernel in QEMU, with a small KVM guest per VM
    Linux(LabLinux),
    /// Run on Xen 4.20 with Dom0 in QEMU, with a small PV guest per VM; needs Takt's source directory
    Xen(LabXen),
    /// Run on Linux, on Xen and in the simulator; print one table and the differences
    Compare(LabCompare),
    /// Open a shell on an emulated Linux host with two VMs to try `takt run` and the like; a script on stdin is run instead
    Shell(LabShell),
}

#[derive(Group, Debug)]
pub struct LabShell {
    /// Kernel series: 7.3 or 6.18
    #[arg(long, short, default_value = takt_lab::linux::KERNELS[0], value_name = "SERIES")]
    pub kernel: String,
}

#[derive(Group, Debug)]
pub struct LabXen {
    /// Scenarios: TOML files, or names from `takt scenarios`
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy as for `takt run`, or xen-credit, xen-credit2, xen-rtds; repeat to compare
    /// [default: xen-credit2, credit, doris]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-5; each seed shifts the phases of tasks and hogs
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time in the emulated machine, e.g. 5s [default: the scenario's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write xentrace's records of the first policy and seed to F (read them with xenalyze)
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct LabCompare {
    /// Scenario with periodic VMs and hogs, without network workloads: a TOML file, or a name from
    /// `takt scenarios`
    #[arg(value_name = "SCENARIO")]
    pub file: PathBuf,
    /// Policy, e.g. doris or 'credit(slice=5ms)'; two or more [default: the scenario's]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-5
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time, e.g. 5s [default: the scenario's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct LabLinux {
    /// Scenarios: TOML files, or names from `takt scenarios`
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy as for `takt run`, or eevdf, eevdf(weight=10), fifo; repeat to compare [default: eevdf, credit, doris]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Kernel series: 7.3 or 6.18
    #[arg(long, short, default_value = takt_lab::linux::KERNELS[0], value_name = "SERIES")]
    pub kernel: String,
    /// Seeds, e.g. 1 or 1-5; each seed shifts the phases of clients, senders, tasks and hogs
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time in the emulated machine, e.g. 5s [default: the scenario's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Use this machine's clock instead of counting instructions: faster, but not repeatable
    #[arg(long)]
    pub free: bool,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Record every operation of the first policy, one of Takt's, and seed to F, for `takt replay` to verify
    #[arg(long, value_name = "F")]
    pub record: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Set {
    /// Override a key of the scenario, e.g. vm.voip.calls=45 or machine.switch=2us; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Group, Debug)]
pub struct Out {
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained report with charts and a timeline to F
    #[arg(long, value_name = "F")]
    pub html: Option<PathBuf>,
    /// Write the main chart to F
    #[arg(long, value_name = "F")]
    pub svg: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Run {
    /// Policy, e.g. doris or 'credit(slice=5ms)'; see `takt policies` [default: doris; on Xen, the hypervisor's]
    #[arg(long, short, value_name = "P")]
    pub policy: Option<String>,
    #[arg(long, value_name = "FILE", help = config_help())]
    pub config: Option<PathBuf>,
    /// Record every operation from the start to FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Inspect only packets of VMs in this cgroup (version 2); repeat for more [default: all VMs]
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Longest wait of a thread before the kernel disables the scheduler, ms [default: 30000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(i64::from(*TIMEOUTS.start())..=i64::from(*TIMEOUTS.end())))]
    pub timeout_ms: Option<u32>,
    /// Limit the VMs per cgroup, or per user without one; threads of further VMs are host threads [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*TENANT_VMS.start())..=i64::from(*TENANT_VMS.end())))]
    pub tenant_vms: Option<u32>,
    /// Limit the VCPU and I/O threads of the VMs per cgroup or user; further ones are host threads [default: 480]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*TENANT_THREADS.start())..=i64::from(*TENANT_THREADS.end())))]
    pub tenant_threads: Option<u32>,
    #[command(flatten)]
    pub keeping: Keeping,
    /// Start even if threads have core scheduling cookies; with SMT, such a thread may hang the machine
    #[arg(long)]
    pub accept_core_scheduling: bool,
    /// Start even if cgroups of ordinary threads have settings that have no effect under Takt on this kernel
    #[arg(long)]
    pub accept_unheeded_cgroups: bool,
    /// Accept parameters by which a guest can gain CPU time at the expense of others
    #[arg(long)]
    pub accept_unfair: bool,
    /// Print for each BPF program how many instructions the kernel's verifier walked
    #[arg(long)]
    pub verifier: bool,
    /// Print events as JSON, one document per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Linux: add to the JSON the histogram of each VM's waits
    #[arg(long, requires = "json")]
    pub histograms: bool,
    /// Refresh every second until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct SetLive {
    /// Set parameters of the policy instead of a VM's; see `takt policies`
    #[arg(long)]
    pub pool: bool,
    #[arg(required = true, value_names = ["VM", "KEY=VALUE"], num_args = 1.., help = set_help())]
    pub words: Vec<String>,
    /// Also write the values to the configuration file of `takt run`, so that they last
    #[arg(long)]
    pub save: bool,
    /// Accept policy parameters by which a guest can gain CPU time at the expense of others
    #[arg(long)]
    pub accept_unfair: bool,
    /// Print the new settings of the VM or policy as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Record {
    /// Write to FILE, readable by root only
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Stop after this time, e.g. 10s [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Stop after this many operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Overhead {
    /// Measure for this time, e.g. 1s; Ctrl-C ends earlier [default: 10s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Replay {
    /// Recording of `takt record`, or another log of operations
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write what ran where to F, for ui.perfetto.dev
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
    /// Write a self-contained report with a timeline to F
    #[arg(long, value_name = "F")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Cpupool {
    /// Select a cpupool (Xen) [default: the first one under Takt]
    #[arg(long, value_name = "ID")]
    pub cpupool: Option<u32>,
}

#[derive(Group, Debug)]
pub struct Socket {
    /// Use this control socket
    #[arg(long, default_value = "/run/takt.sock", value_name = "PATH")]
    pub socket: PathBuf,
}
