// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use crate::carried::TEMPLATES;
use crate::seeds::Seeds;
use clap::{Args as Group, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use takt_control::settings;

/// What `takt -V` prints behind the name.
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("TAKT_COMMIT"), ", features: ", env!("TAKT_FEATURES"), ")");

/// Scheduling of soft real-time virtual machines: simulate hosts, reproduce published results, inspect traffic.
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
        "VM and what to set: {usage}, group=NAME, ports=554,5000-5010, dev=IFNAME; period goes with rt=on or budget"
    )
}

fn config_help() -> String {
    let names = settings::names();
    format!("What to set of VMs by name when they appear (TOML, `[vm.NAME]` with {names}, group, ports, cgroup, uid)")
}

fn new_help() -> String {
    let kinds: Vec<_> = TEMPLATES.iter().map(|(name, _)| *name).collect();
    format!("What the scenario is of: {}", kinds.join(", "))
}

/// Exit status of a command that did what it should, and found what should not be.
pub const DIFFERS: u8 = 1;
/// Exit status of a command that could not do it.
pub const BAD_INPUT: u8 = 2;

/// Exit statuses of every command.
pub const EXIT: [(u8, &str); 3] = [
    (0, "All is well."),
    (DIFFERS, "A gate of an experiment does not hold, a recording differs, or the kernel has taken the scheduler out."),
    (BAD_INPUT, "Bad input, or output that cannot be written."),
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
    /// List the schedulers and their parameters
    Policies(Policies),
    /// List the scenarios that need no file, or print one
    Scenarios(Scenarios),
    /// Write a scenario with comments to begin with
    New(New),
    /// Run scenarios in the simulator under one or more policies and compare
    Sim(Sim),
    /// Reproduce a published figure or table, its value beside ours
    Experiment(Experiment),
    /// Show what the monitor sees in a capture: per sender, real-time or not, by which rule, which period
    Inspect(Inspect),
    /// Say whether budgets suffice, before anything runs: response times, deadlines, PCPUs that are needed
    Analyze(Analyze),
    /// Run scenarios on a real kernel or hypervisor, in an emulated machine, under one or more policies and compare
    Lab(Lab),
    /// Schedule this host's virtual machines until Ctrl-C (Linux, root; in Xen's Dom0: only find out which are real-time, or manage pools)
    Run(Run),
    /// Show the VMs of a running Takt: real-time or not and why, period, waits, devices
    Status(Status),
    /// Change a VM or the policy of a running Takt, all values or none
    Set(SetLive),
    /// Record every operation of a running Takt, to be verified by `takt replay`
    Record(Record),
    /// Count what decisions and switches of a running Takt take: how many, together, median, 99 %, longest
    Overhead(Overhead),
    /// Judge a recording by the state table and repeat it natively: exit status 1 if either disagrees
    Replay(Replay),
    /// List the documents that --json prints, or print the JSON schema of one
    Schema(Schema),
    /// Print what a shell needs to complete commands, options and names
    Completions(Completions),
    /// Print the manual page, for `man -l -`
    Man,
}

impl Command {
    /// Whether it is about a host that runs: it ends in its own way.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Status(_) | Self::Set(_) | Self::Record(_) | Self::Overhead(_))
    }
}

#[derive(Group, Debug)]
pub struct Completions {
    /// Shell
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
    /// Document, e.g. sim [default: list them all]
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
    /// Print the text of this one, e.g. voip [default: list them all]
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
    /// Scenarios: TOML files, or names that `takt scenarios` lists
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy, e.g. doris or 'credit(slice=5ms)'; repeat to compare [default: those of the scenario]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-8 or 1-8,101-108
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Simulated time after warm-up, e.g. 60s [default: that of the scenario]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Show every VM, also those with nothing to do in time
    #[arg(long)]
    pub all: bool,
    /// Print CSV instead of tables: a row for each VM, policy and seed
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Columns of the table of VMs, or of CSV, e.g. name,policy,wait_p99_ns; docs/scenarios.md lists them
    #[arg(long, value_name = "LIST", conflicts_with = "json")]
    pub columns: Option<String>,
    #[command(flatten)]
    pub out: Out,
    /// Write a Perfetto trace of the first policy and seed to F (open with ui.perfetto.dev)
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
    /// Record every operation of the first policy and seed to F, to be verified by `takt replay`
    #[arg(long, value_name = "F")]
    pub record: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Experiment {
    /// `list`, `all`, or an experiment's name such as DORIS-E2
    #[arg(value_name = "ID")]
    pub id: String,
    /// Seeds, e.g. 1-8 or 1-8,101-108 [default: those of the experiment]
    #[arg(long, alias = "seed", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seeds: Option<Seeds>,
    /// Simulated time after warm-up, e.g. 60s [default: that of the experiment]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Evaluate the gates again with each constant of the model moved by 25 % either way, and list violations
    #[arg(long)]
    pub sensitivity: bool,
    /// Exit with 0 if the only gates that do not hold are those that the experiment's file knows to be missed
    #[arg(long)]
    pub known: bool,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Group, Debug)]
pub struct Inspect {
    /// Captures (pcap or pcapng, also .gz and .zst), read one after the other; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Take what is sent from this port for real-time; repeat for more
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<u16>,
    /// Call the sender with this address by a name; a VM with several addresses is one sender; repeat for more
    #[arg(long = "vm", value_name = "MAC|IP=NAME")]
    pub vms: Vec<String>,
    /// End with status 2 if anything could not be read
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
    /// Scenario of VMs with budget, period and tasks, or of real-time VMs (rt = "on") with latency
    /// and group: a TOML file, or a name that `takt scenarios` lists
    #[arg(value_name = "SCENARIO")]
    pub file: PathBuf,
    /// Policy that is asked whether it has room, e.g. rtxen or 'sedf(reserve=0)'; repeat for more
    /// [default: those of the scenario that keep budgets, else all that do]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seed of the sets of tasks that are drawn at random
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
    /// Linux and KVM: Debian's kernel in QEMU, a small KVM guest for each VM
    Linux(LabLinux),
    /// Xen 4.20 with Dom0 in QEMU, a small PV guest for each VM (no network); from Takt's source directory
    Xen(LabXen),
    /// Both of them and the simulator: one table, and what differs
    Compare(LabCompare),
}

#[derive(Group, Debug)]
pub struct LabXen {
    /// Scenarios: TOML files, or names that `takt scenarios` lists
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy as for `takt run`, or xen-credit, xen-credit2, xen-rtds; repeat to compare [default: xen-credit2, credit, doris]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-5; each shifts the phases of tasks and hogs
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time of the machine, e.g. 5s [default: that of the scenario]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write what xentrace records of the first policy and seed to F (read with xenalyze)
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct LabCompare {
    /// Scenario with periodic VMs, and hogs, and nothing that needs a network: a TOML file, or a
    /// name that `takt scenarios` lists
    #[arg(value_name = "SCENARIO")]
    pub file: PathBuf,
    /// Policy, e.g. doris or 'credit(slice=5ms)'; two or more [default: those of the scenario]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-5
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time, e.g. 5s [default: that of the scenario]
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
    /// Scenarios: TOML files, or names that `takt scenarios` lists
    #[arg(required = true, value_name = "SCENARIO")]
    pub files: Vec<PathBuf>,
    /// Policy as for `takt run`, or eevdf, eevdf(weight=10), fifo; repeat to compare [default: eevdf, credit, doris]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Kernel series: 7.3 or 6.18
    #[arg(long, short, default_value = takt_lab::linux::KERNELS[0], value_name = "SERIES")]
    pub kernel: String,
    /// Seeds, e.g. 1 or 1-5; each shifts the phases of clients, senders, tasks and hogs
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Measured time of the machine, e.g. 5s [default: that of the scenario]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Let time pass as it does here instead of counting instructions: faster, and no two runs are equal
    #[arg(long)]
    pub free: bool,
    #[command(flatten)]
    pub set: Set,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Record every operation of the first policy, one of Takt's, and seed to F, to be verified by `takt replay`
    #[arg(long, value_name = "F")]
    pub record: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Set {
    /// Change a key of the scenario, e.g. --set vm.voip.calls=45 or --set machine.switch=2us; repeat for more
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
    /// Policy, e.g. doris or 'credit(slice=5ms)'; see `takt policies` [default: doris; on Xen what the hypervisor has]
    #[arg(long, short, value_name = "P")]
    pub policy: Option<String>,
    #[arg(long, value_name = "FILE", help = config_help())]
    pub config: Option<PathBuf>,
    /// Record from the start to FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Inspect the packets of VMs in this cgroup (version 2) only; repeat for more [default: of all VMs]
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Longest wait of a thread before the kernel takes the scheduler out, ms [default: 30000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1_000..=30_000))]
    pub timeout_ms: Option<u32>,
    /// Most VMs of one cgroup, or of one user's where there is none; the threads of further ones are host threads [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub tenant_vms: Option<u32>,
    /// Most VCPU and I/O threads of one cgroup's or user's VMs, likewise [default: 480]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=960))]
    pub tenant_threads: Option<u32>,
    /// Run although threads have core scheduling cookies: with SMT one may hang the machine
    #[arg(long)]
    pub accept_core_scheduling: bool,
    /// Run although cgroups of ordinary threads set what this kernel tells no scheduler but its own: it has no effect meanwhile
    #[arg(long)]
    pub accept_unheeded_cgroups: bool,
    /// Take parameters by which a guest may gain what others lose
    #[arg(long)]
    pub accept_unfair: bool,
    /// Print how much of its limit the kernel's verifier needed for each program
    #[arg(long)]
    pub verifier: bool,
    /// Say what happens as JSON, a document a line
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
    /// Again every second, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct SetLive {
    /// Parameters of the policy instead of a VM's; see `takt policies`
    #[arg(long)]
    pub pool: bool,
    #[arg(required = true, value_names = ["VM", "KEY=VALUE"], num_args = 1.., help = set_help())]
    pub words: Vec<String>,
    /// Take parameters of the policy by which a guest may gain what others lose
    #[arg(long)]
    pub accept_unfair: bool,
    /// Print what the VM, or the policy, has now as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub cpupool: Cpupool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Record {
    /// Where to; readable by root only
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long, e.g. 10s [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// How many operations at most
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
pub struct Overhead {
    /// How long, e.g. 1s; Ctrl-C ends it before [default: 10s]
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
    /// Recording of `takt record`, or any log of operations
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Cpupool {
    /// Xen: which cpupool [default: the first one under Takt]
    #[arg(long, value_name = "ID")]
    pub cpupool: Option<u32>,
}

#[derive(Group, Debug)]
pub struct Socket {
    /// Control socket
    #[arg(long, default_value = "/run/takt.sock", value_name = "PATH")]
    pub socket: PathBuf,
}
