// SPDX-License-Identifier: GPL-2.0-only
//! `takt bench-host`: this host and its VMs under the kernel's scheduler and under Takt by turns, and a report to send back.

mod drive;
mod host;
mod show;

use super::top::Waited;
use crate::output::{Pending, complain};
use crate::{args, interrupt, output};
use anyhow::{Context, Result, bail, ensure};
use drive::{Measured, PHASES, Times, drive};
use host::{Live, News, Reading, abort};
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use takt_control::HostConfig;
use takt_control::bench::{Host, Phase, Plan, Report, TaktWaits};
use takt_control::doctor::Verdict;
use takt_control::document::Versioned;
use takt_linux::bench::{Roles, Sample, cpu_model, cpus_online};
use takt_linux::status::Status;
use takt_linux::{Environment, doctor, scheduler_name};

/// Where the service has its configuration.
const CONFIG: &str = "/etc/takt/takt.toml";
/// Takt's names in the kernel begin with this.
const OURS: &str = "takt_";
const ROOT: &str = "/";
/// The key that ends a measurement.
const QUIT: u8 = b'q';

/// Runs the command; false if the report is partial.
///
/// # Errors
/// Takt would not start here, one runs already, no VM runs, there is no consent; nothing has changed then.
pub fn bench(args: &args::BenchHost) -> Result<bool> {
    ready()?;
    let config = args.config.clone().or_else(|| Some(PathBuf::from(CONFIG)).filter(|path| path.is_file()));
    let read = config.as_deref().map_or(Ok(HostConfig::default()), HostConfig::read)?;
    let policy = read.linux_policy(None)?.to_string();
    let first = Sample::of(Path::new(ROOT), Duration::ZERO)?;
    let vms = first.vms().count();
    ensure!(vms > 0, "bench-host: no VM runs on this host, so there is nothing to measure; start the VMs first");
    first.counts_waits()?;
    let host = Host {
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").context("osrelease")?.trim().to_owned(),
        cpu: cpu_model(Path::new(ROOT)),
        cpus: cpus_online(Path::new(ROOT))?,
        policy,
        configured: config.is_some(),
    };
    let times = Times::of(Duration::from_secs(60) * args.minutes);
    if !args.yes {
        consent(&show::plan(&host, vms, times, config.as_deref(), args))?;
    }
    let (send, news) = channel();
    let ends = send.clone();
    interrupt::instead(move || abort(&ends))?;
    // Before anything is measured; a signal leaves no file behind from here on.
    let out = args.out.as_deref().map(Pending::open).transpose()?;
    let typed = std::io::stdin().is_terminal();
    if typed {
        listen_to_keys(send.clone())?;
    }
    let socket = args.socket.socket.clone();
    let mut live = Live { socket, config, times, begun: Instant::now(), news, send, takt: None };
    let (done, why) = drive(&mut live, times);
    drop(live);
    if typed {
        interrupt::give_back_terminal();
    }
    if let Some(why) = &why {
        complain(&format!("the report is partial: {why}; the kernel's scheduler is in force"));
    }
    let report = report(host, times, &done, why, args.names);
    if let Some(file) = out {
        file.write(format!("{}\n", serde_json::to_string_pretty(&Versioned::from(&report))?).as_bytes())?;
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&show::text(&report))?;
    }
    Ok(report.partial.is_none())
}

/// Whether Takt would start here, and none runs.
fn ready() -> Result<()> {
    if let Some(name) = scheduler_name().filter(|name| name.starts_with(OURS)) {
        bail!("bench-host: a Takt runs on this host ({name}); end it first, e.g. systemctl stop takt");
    }
    Environment::check().context("bench-host")?;
    let found = doctor::examine(&doctor::Host::live());
    let failed = found.checks.iter().find(|check| check.verdict == Verdict::Fail);
    if let Some(check) = failed {
        bail!("bench-host: takt run would not start on this host: {}: {} (see takt doctor)", check.check, check.text);
    }
    Ok(())
}

/// Asks on the terminal.
fn consent(plan: &str) -> Result<()> {
    let stdin = std::io::stdin();
    ensure!(
        stdin.is_terminal() && std::io::stderr().is_terminal(),
        "bench-host: replaces the scheduler of this host by turns, and there is no terminal to ask on; --yes agrees"
    );
    plan.lines().for_each(complain);
    complain("Do you agree? Type yes:");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).context("stdin")?;
    ensure!(answer.trim() == "yes", "bench-host: the answer was not yes; nothing was changed");
    Ok(())
}

/// Has the key `q` end the measurement. The terminal hands out keys one by one from now on, and Ctrl-C stays a signal.
fn listen_to_keys(send: Sender<News>) -> Result<()> {
    interrupt::keep_terminal()?;
    interrupt::hand_out_keys()?;
    complain("q or Ctrl-C ends the measurement and unloads Takt at once");
    std::thread::spawn(move || {
        let keys = std::io::stdin().lock().bytes().map_while(Result::ok);
        keys.filter(|key| *key == QUIT).for_each(|_| abort(&send));
    });
    Ok(())
}

/// What the measured times come to.
fn report(host: Host, times: Times, done: &[Measured<Reading>], partial: Option<String>, names: bool) -> Report {
    let mut roles = Roles::default();
    let statuses = done.iter().flat_map(|m| [&m.from.status, &m.to.status]).flatten();
    statuses.for_each(|status| roles.learn(status));
    let mut labels = Labels { names, all: BTreeMap::new() };
    let phases: Vec<_> = done.iter().map(|measured| phase(measured, &roles, &mut labels)).collect();
    let mut notes = Vec::new();
    if !phases.is_empty() && phases.iter().flat_map(|p| &p.vms).all(|vm| vm.vcpus.threads == 0) {
        notes.push("No thread was found to be a VCPU.".to_owned());
    }
    if phases.iter().all(|p| p.host.bpf_run_s.is_none()) {
        notes.push("The kernel did not count the CPU time of BPF programs (kernel.bpf_stats_enabled is 0).".to_owned());
    }
    let plan = Plan { phases: PHASES, phase_s: times.phase.as_secs_f64(), warmup_s: times.warm_up.as_secs_f64() };
    let mut report = Report { partial, host, plan, phases, ratios: Vec::new(), notes };
    report.compare();
    report
}

/// What VMs are called in a report.
struct Labels {
    names: bool,
    /// By process and name.
    all: BTreeMap<(u32, String), String>,
}

impl Labels {
    fn of(&mut self, tgid: u32, name: String) -> String {
        let next = self.all.len() + 1;
        let taken = self.names && self.all.keys().any(|(other, taken)| *other != tgid && *taken == name);
        let label = match (self.names, taken) {
            (true, false) => name.clone(),
            (true, true) => format!("{name}-{tgid}"),
            (false, _) => next.to_string(),
        };
        self.all.entry((tgid, name)).or_insert(label).clone()
    }
}

fn phase(measured: &Measured<Reading>, roles: &Roles, labels: &mut Labels) -> Phase {
    let (from, to) = (&measured.from, &measured.to);
    let mut host = from.sample.host_until(&to.sample);
    let statuses = from.status.as_ref().zip(to.status.as_ref());
    host.bpf_run_s = statuses.and_then(|(was, now)| {
        // The kernel begins to count at the first run.
        Some(now.host.cost?.run_s - was.host.cost.map_or(0.0, |cost| cost.run_s))
    });
    let mut vms = Vec::new();
    for (tgid, mut vm) in from.sample.vms_until(&to.sample, roles) {
        vm.waits = statuses.and_then(|(was, now)| waits(tgid, was, now));
        vm.vm = labels.of(tgid, vm.vm);
        vms.push(vm);
    }
    let seconds = (to.sample.at - from.sample.at).as_secs_f64();
    Phase { scheduler: measured.scheduler, seconds, host, vms }
}

/// Takt's own account of a VM.
fn waits(tgid: u32, was: &Status, now: &Status) -> Option<TaktWaits> {
    let of = |status: &Status| status.vms.iter().find(|vm| vm.tgid == tgid).map(|vm| vm.waits.clone());
    let all = Waited::since(&of(was).unwrap_or_default(), &of(now)?, f64::INFINITY);
    (all.count > 0).then_some(TaktWaits { count: all.count, p50_us: all.p50_us, p99_us: all.p99_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vms_have_numbers_unless_names_are_asked_for() {
        let of = |names: bool| {
            let mut labels = Labels { names, all: BTreeMap::new() };
            [(7, "web"), (9, "db"), (7, "web"), (11, "web")].map(|(tgid, name)| labels.of(tgid, name.to_owned()))
        };
        assert_eq!(of(false), ["1", "2", "1", "3"]);
        assert_eq!(of(true), ["web", "db", "web", "web-11"]);
    }

    #[test]
    fn without_a_terminal_nothing_is_asked() {
        // Tests have none on stderr and stdin at once.
        if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            return;
        }
        assert!(consent("").unwrap_err().to_string().contains("--yes agrees"));
    }
}
