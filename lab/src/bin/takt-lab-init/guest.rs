// SPDX-License-Identifier: GPL-2.0-only
//! One VM and its clients: processes of `takt-vmm`.

use super::sched;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use takt_lab::{Scheduler, outcome, plan};

const VMM: &str = "/bin/takt-vmm";
/// Each line ends with a name.
const SOCKETS: &str = "/proc/net/unix";
/// Bit 0 of an interface's flags: it is up.
const UP: u64 = 1;

/// A running VM.
pub struct Guest<'a> {
    plan: &'a plan::Vm,
    vmm: Child,
    clients: Option<Child>,
    group: String,
    before: BTreeMap<u32, outcome::Thread>,
    threads: Vec<outcome::Thread>,
}

impl<'a> Guest<'a> {
    /// `iterations`: what the workload has of those, by where they are in it.
    pub fn start(plan: &'a plan::Vm, scheduler: &Scheduler, iterations: BTreeMap<String, u64>) -> Result<Self> {
        let mut workload = Value::Object(plan.workload.clone());
        for (at, n) in iterations {
            *workload.pointer_mut(&at).with_context(|| format!("{}: no {at} in its workload", plan.name))? = n.into();
        }
        let spec = json!({"vcpus": plan.vcpus, "start_ms": plan.start_ms, "workload": workload});
        let file = format!("/tmp/{}.json", plan.name);
        fs::write(&file, spec.to_string()).with_context(|| file.clone())?;
        let group = sched::group(plan, scheduler)?;
        let vmm = sched::on(&plan.affinity, || {
            let mut c = Command::new(VMM);
            c.args(["--name", &plan.name, "--spec", &file]).stdout(Stdio::piped()).spawn().context(VMM)
        })?;
        let procs = format!("{group}/cgroup.procs");
        fs::write(&procs, vmm.id().to_string()).context(procs)?;
        Ok(Self { plan, vmm, clients: None, group, before: BTreeMap::new(), threads: Vec::new() })
    }

    /// Whether it answers nobody.
    pub fn computes(&self) -> bool {
        !self.plan.serves
    }

    /// Process of its VMM.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.vmm.id() as i32)
    }

    /// What must wait until the VM runs: its clients, and the scheduling class of its threads.
    pub fn complete(&mut self, scheduler: &Scheduler) -> Result<()> {
        if let Some(Value::String(tap)) = self.plan.workload.get("tap") {
            let flags = format!("/sys/class/net/{tap}/flags");
            sched::wait(tap, || {
                let text = fs::read_to_string(&flags).unwrap_or_default();
                let flags = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap_or(0);
                self.alive()?;
                Ok(flags & UP != 0)
            })?;
        }
        if *scheduler == Scheduler::Fifo && self.plan.serves {
            self.started()?;
            sched::real_time(self.vmm.id(), sched::GUESTS)?;
        }
        self.has_peers()?;
        let send = self.plan.clients.as_ref().map(|arguments| ("send", arguments));
        let ask = || self.plan.requests.as_ref().map(|arguments| ("ask", arguments));
        if let Some((command, arguments)) = send.or_else(ask) {
            let clients = Command::new(VMM).arg(command).args(arguments).stdout(Stdio::piped()).spawn().context(VMM)?;
            sched::real_time(clients.id(), sched::CLIENTS)?;
            self.clients = Some(clients);
        }
        Ok(())
    }

    /// Returns when messages reach an application's front and those that it asks. The first peer is whom it answers.
    fn has_peers(&mut self) -> Result<()> {
        if self.plan.requests.is_none() {
            return Ok(());
        }
        let workload = &self.plan.workload;
        let peers = workload.get("peers").and_then(Value::as_array).into_iter().flatten().skip(1);
        let names = workload.get("socket").into_iter().chain(peers).filter_map(Value::as_str);
        let names: Vec<_> = names.map(|name| format!(" @{name}")).collect();
        sched::wait("sockets of an application", || {
            self.alive()?;
            let sockets = fs::read_to_string(SOCKETS).context(SOCKETS)?;
            Ok(names.iter().all(|name| sockets.lines().any(|l| l.ends_with(name))))
        })
    }

    /// Returns when the VMM has all its threads, which is after it has seen to its signals.
    fn started(&mut self) -> Result<()> {
        sched::wait("threads of the VMM", || {
            self.alive()?;
            Ok(self.read_threads()?.len() > self.plan.vcpus as usize)
        })
    }

    /// Begins the measured time. Without a warm-up the VM may still be about to start.
    pub fn mark(&mut self) -> Result<()> {
        self.started()?;
        self.before = self.read_threads()?;
        signal(&self.vmm, Signal::SIGUSR1)?;
        self.clients.as_ref().map_or(Ok(()), |c| signal(c, Signal::SIGUSR1))
    }

    /// Ends the measured time. A VM that has clients goes on until they have their last answers.
    pub fn end(&mut self) -> Result<()> {
        self.alive()?;
        let now = self.read_threads()?;
        let since = |(tid, t): (u32, outcome::Thread)| {
            let before = self.before.get(&tid);
            let minus = |of: fn(&outcome::Thread) -> u64| of(&t) - before.map_or(0, of);
            outcome::Thread {
                cpu_ns: minus(|t| t.cpu_ns),
                wait_ns: minus(|t| t.wait_ns),
                runs: minus(|t| t.runs),
                ..t.clone()
            }
        };
        self.threads = now.into_iter().map(since).collect();
        signal(self.clients.as_ref().unwrap_or(&self.vmm), Signal::SIGTERM)
    }

    /// What VMM and clients say of themselves.
    pub fn finish(self) -> Result<outcome::Vm> {
        let name = self.plan.name.clone();
        let (mut clients, mut requests) = (None, None);
        if let Some(child) = self.clients {
            let who = format!("clients of {name}");
            match self.plan.requests {
                None => clients = Some(said(child, &who)?),
                Some(_) => requests = Some(said(child, &who)?),
            }
            signal(&self.vmm, Signal::SIGTERM)?;
        }
        let report = said(self.vmm, &name)?;
        sched::ungroup(&self.group)?;
        Ok(outcome::Vm { name, report, clients, requests, threads: self.threads })
    }

    fn alive(&mut self) -> Result<()> {
        for child in [Some(&mut self.vmm), self.clients.as_mut()].into_iter().flatten() {
            let ended = child.try_wait().context(VMM)?;
            ensure!(ended.is_none(), "{}: ended before its time", self.plan.name);
        }
        Ok(())
    }

    fn read_threads(&self) -> Result<BTreeMap<u32, outcome::Thread>> {
        let tasks = format!("/proc/{}/task", self.vmm.id());
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let dir = entry.with_context(|| tasks.clone())?.path();
            let read = |file: &str| fs::read_to_string(dir.join(file)).with_context(|| dir.display().to_string());
            let numbers: Vec<u64> = read("schedstat")?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let [cpu_ns, wait_ns, runs] = numbers[..] else { continue };
            let tid = dir.file_name().and_then(|n| n.to_str()?.parse().ok()).with_context(|| tasks.clone())?;
            all.insert(tid, outcome::Thread { name: read("comm")?.trim_end().to_owned(), cpu_ns, wait_ns, runs });
        }
        Ok(all)
    }
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(child.id() as i32), signal).context(VMM)
}

fn said<T: DeserializeOwned>(child: Child, who: &str) -> Result<T> {
    let out = child.wait_with_output().with_context(|| who.to_owned())?;
    ensure!(out.status.success(), "{who}: {}", out.status);
    serde_json::from_slice(&out.stdout).with_context(|| format!("{who}: {}", String::from_utf8_lossy(&out.stdout)))
}
