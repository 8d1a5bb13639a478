// SPDX-License-Identifier: GPL-2.0-only
//! Puts a scheduler in force, and takes it out again.

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use takt_control::{HostConfig, ServerStatus};
use takt_lab::{Scheduler, plan};

const TAKT: &str = "/bin/takt";
const CONFIG: &str = "/tmp/takt.toml";
const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";
const CGROUPS: &str = "/sys/fs/cgroup";
/// The kernel's verifier takes its time in an emulated machine.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(10);

/// SCHED_FIFO priorities: the clients are the world outside and wait for nobody; then this program; then VMs under `fifo`.
pub const CLIENTS: i32 = 99;
pub const CONDUCTOR: i32 = 90;
pub const GUESTS: i32 = 50;
/// An ordinary VM's weight in a scenario, and in the kernel.
const WEIGHT: [u64; 2] = [256, 100];
const WEIGHTS: [u64; 2] = [1, 10_000];
/// µs, over which the kernel enforces a cap.
const CAP_PERIOD: u64 = 100_000;

/// A scheduler in force.
pub struct InForce {
    scheduler: Scheduler,
    config: HostConfig,
    takt: Option<Child>,
    /// As the kernel names it.
    pub ops: String,
}

impl InForce {
    /// Returns when the kernel says so.
    pub fn start(phase: &plan::Phase, record: Option<&str>) -> Result<Self> {
        let (scheduler, config) = (phase.scheduler.clone(), config(phase));
        let Scheduler::Takt { policy, .. } = &scheduler else {
            return Ok(Self { scheduler, config, takt: None, ops: "none".into() });
        };
        fs::write(CONFIG, toml::to_string(&config).context(CONFIG)?).context(CONFIG)?;
        let mut takt = Command::new(TAKT);
        // A lab measures published variants as well.
        takt.args(["run", "--policy", policy, "--accept-unfair", "--config", CONFIG]);
        if let Some(file) = record {
            takt.args(["--record", file, "--verifier"]);
        }
        let mut takt = takt.spawn().context(TAKT)?;
        wait("takt run", || {
            if let Some(status) = takt.try_wait().context(TAKT)? {
                bail!("takt run --policy {policy}: {status} before it was in force");
            }
            Ok(is("enabled"))
        })?;
        Ok(Self { config, takt: Some(takt), ops: super::system::read(OPS)?, scheduler })
    }

    /// Whether a phase can go on with it: an emulated machine loads a large BPF program in half a minute.
    pub fn suits(&self, phase: &plan::Phase) -> bool {
        self.scheduler == phase.scheduler && self.config == config(phase) && (self.takt.is_none() || is("enabled"))
    }

    /// What Takt says of itself, if it runs and does.
    pub fn status(&self) -> Option<Value> {
        self.takt.as_ref()?;
        let out = Command::new(TAKT).args(["status", "--json"]).output().ok()?;
        serde_json::from_slice(&out.stdout).ok()
    }

    /// Whether every VM has the budget that its scenario gives it, by `status`: without, the run would be another experiment's. One
    /// that has not begun is in no status.
    pub fn has_budgets(&self, status: &Value) -> Result<()> {
        for (name, want) in &self.config.vm {
            let want = ServerStatus::from(&want.params.server());
            let vm = status["vms"].as_array().and_then(|vms| vms.iter().find(|vm| vm["name"] == **name));
            let Some(vm) = vm else { continue };
            let have = ServerStatus::deserialize(&vm["server"]).with_context(|| format!("takt status: {name}"))?;
            ensure!(have == want, "VM `{name}`: a budget of {}, in its scenario {}", have.share(), want.share());
        }
        Ok(())
    }

    /// Returns when the kernel's own scheduler is back.
    pub fn stop(self) -> Result<()> {
        let Some(mut takt) = self.takt else { return Ok(()) };
        if !is("enabled") {
            let state = super::system::read(STATE)?;
            takt.wait().context("takt run")?; // it says why
            bail!("sched_ext: {state} at the end of the phase");
        }
        kill(Pid::from_raw(takt.id() as i32), Signal::SIGINT).context("takt run")?;
        let status = takt.wait().context("takt run")?;
        ensure!(status.success(), "takt run: {status}");
        wait("end of takt run", || Ok(is("disabled")))
    }
}

/// What operators say of a phase's VMs.
fn config(phase: &plan::Phase) -> HostConfig {
    let entry = |vm: &plan::Vm| (vm.name.clone(), vm.config.clone().into());
    HostConfig { vm: phase.vms.iter().map(entry).collect(), ..HostConfig::default() }
}

fn is(state: &str) -> bool {
    super::system::read(STATE).is_ok_and(|s| s == state)
}

/// Looks until `done`.
pub fn wait(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        if done()? {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    bail!("{what}: not after {} s", PATIENCE.as_secs())
}

/// Gives a VM a group of its own, as libvirt does. The kernel's own schedulers find its weight and cap there.
pub fn group(vm: &plan::Vm, scheduler: &Scheduler) -> Result<String> {
    let dir = format!("{CGROUPS}/{}", vm.name);
    let write =
        |file: &str, text: String| fs::write(format!("{dir}/{file}"), text).with_context(|| format!("{dir}/{file}"));
    fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu").context(CGROUPS)?;
    fs::create_dir(&dir).with_context(|| dir.clone())?;
    let times = match scheduler {
        Scheduler::Takt { .. } => return Ok(dir),
        Scheduler::Eevdf { weight } if vm.serves => *weight,
        _ => 1,
    };
    let [scenario, kernel] = WEIGHT;
    let weight = (vm.config.params.value("weight") * kernel * times / scenario).clamp(WEIGHTS[0], WEIGHTS[1]);
    write("cpu.weight", weight.to_string())?;
    let cap = vm.config.params.value("cap");
    if cap > 0 {
        write("cpu.max", format!("{} {CAP_PERIOD}", cap * CAP_PERIOD / 100))?;
    }
    Ok(dir)
}

/// Removes a group whose processes have ended.
pub fn ungroup(dir: &str) -> Result<()> {
    wait(dir, || match fs::remove_dir(dir) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => Ok(false),
        Err(e) => Err(e).with_context(|| dir.to_owned()),
    })
}

/// Runs `start` with the affinity that its children shall have; empty = all CPUs.
pub fn on<T>(cpus: &[u32], start: impl FnOnce() -> Result<T>) -> Result<T> {
    let set = |cpus: &[u32]| -> Result<()> {
        let mut mask = CpuSet::new();
        cpus.iter().try_for_each(|&c| mask.set(c as usize)).context("affinity")?;
        sched_setaffinity(Pid::from_raw(0), &mask).context("affinity")
    };
    if cpus.is_empty() {
        return start();
    }
    set(cpus)?;
    let done = start();
    set(&(0..count()? as u32).collect::<Vec<_>>())?;
    done
}

/// CPUs of this machine.
pub fn count() -> Result<usize> {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).context("CPUs")?;
    online.map(|n| n as usize).context("CPUs")
}

/// SCHED_FIFO for all threads that a process has, but not for its children.
pub fn real_time(pid: u32, priority: i32) -> Result<()> {
    let tasks = format!("/proc/{pid}/task");
    for entry in fs::read_dir(Path::new(&tasks)).with_context(|| tasks.clone())? {
        let name = entry.with_context(|| tasks.clone())?.file_name();
        let tid = name.to_string_lossy().parse().with_context(|| tasks.clone())?;
        let parameters = libc::sched_param { sched_priority: priority };
        // SAFETY: the kernel only reads the parameters.
        let failed =
            unsafe { libc::sched_setscheduler(tid, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) };
        ensure!(failed == 0, "SCHED_FIFO: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
