// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: cgroups of ordinary processes with weights and limits, under the kernel's own scheduler and then under Takt.

use super::CPUS;
use super::guest::Guest;
use crate::system::{Tick, read};
use crate::takt::{TICK, Takt, status, until};
use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup";
/// Until shares are even.
const WARMUP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(6);
/// Where VMs take most: what is least gets twenty slices of 4 ms a second at best.
const MEASURED_BESIDE: Duration = Duration::from_secs(18);
/// Processes of each cgroup that has any: one for each PCPU, so that only weights and limits part them.
const PROCESSES: u32 = CPUS;
/// Cgroup, `cpu.weight`, `cpu.max`, whether it has processes or cgroups below it.
const TREE: [(&str, &str, &str, bool); 9] = [
    ("limited", "100", "20000 100000", true),
    ("heavy", "100", "max", true),
    ("light", "10", "max", true),
    ("nest", "100", "max", false),
    ("nest/more", "300", "max", true),
    ("nest/less", "100", "max", true),
    ("above", "100", "30000 100000", false),
    ("above/one", "100", "max", true),
    ("above/other", "100", "max", true),
];
/// Cgroups that a user makes, more than Takt's table has room for, and moves of a process between two of them.
const MANY: u32 = 5000;
const MOVES: u32 = 2000;
/// Less than a slice in each second, for more processes than can run within the watchdog's time.
const TINY: &str = "1000 1000000";
const TINY_PROCESSES: u32 = 12;
const TINY_TIME: Duration = Duration::from_secs(40);

fn set(cgroup: &str, file: &str, value: &str) -> Result<()> {
    let path = PathBuf::from(ROOT).join(cgroup).join(file);
    std::fs::write(&path, value).with_context(|| format!("{}: {value}", path.display()))
}

fn make(cgroup: &str) -> Result<()> {
    std::fs::create_dir(PathBuf::from(ROOT).join(cgroup)).with_context(|| cgroup.to_owned())
}

fn remove(cgroup: &str) -> Result<()> {
    let path = PathBuf::from(ROOT).join(cgroup);
    until("end of a cgroup", Duration::from_secs(30), || Ok(std::fs::remove_dir(&path).is_ok()))
}

/// CPU time of all that is or was in it, s.
fn usage(cgroup: &str) -> Result<f64> {
    let text = read(&format!("{ROOT}/{cgroup}/cpu.stat"))?;
    let us = text.lines().find_map(|l| l.strip_prefix("usage_usec ")).and_then(|n| n.parse::<f64>().ok());
    Ok(us.with_context(|| format!("{cgroup}: no usage_usec"))? / 1e6)
}

fn plant() -> Result<()> {
    set("", "cgroup.subtree_control", "+cpu")?;
    for (cgroup, weight, max, leaf) in TREE {
        make(cgroup)?;
        set(cgroup, "cpu.weight", weight)?;
        set(cgroup, "cpu.max", max)?;
        if !leaf {
            set(cgroup, "cgroup.subtree_control", "+cpu")?;
        }
    }
    Ok(())
}

/// Processes that compute until they are killed.
struct Processes(Vec<Pid>);

impl Processes {
    fn start(n: u32, cgroup: &str) -> Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..n {
            // SAFETY: the child calls nothing.
            match unsafe { fork() }.context("fork")? {
                ForkResult::Parent { child } => all.0.push(child),
                ForkResult::Child => loop {
                    std::hint::black_box(0);
                },
            }
        }
        all.enter(cgroup)?;
        Ok(all)
    }

    /// Each on a PCPU of its own.
    fn spread(&self) -> Result<()> {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(cpu, pid)| {
                let mut mask = CpuSet::new();
                mask.set(cpu)?;
                sched_setaffinity(*pid, &mask)
            })
            .context("affinity of a process")
    }

    fn enter(&self, cgroup: &str) -> Result<()> {
        self.0.iter().try_for_each(|pid| set(cgroup, "cgroup.procs", &pid.to_string()))
    }

    fn end(self) -> Result<()> {
        for pid in self.0 {
            kill(pid, Signal::SIGKILL).and_then(|()| waitpid(pid, None)).context("end of a process")?;
        }
        Ok(())
    }
}

/// Where the processes are.
#[derive(Clone, Copy, PartialEq)]
enum Placed {
    /// In the leaves.
    Leaves,
    /// In the leaves, one of each on each PCPU: the kernel's own scheduler weighs by PCPU, and gives a cgroup that sits on some of
    /// them less.
    Spread,
    /// In the root.
    Root,
}

/// The leaves' CPU time in CPUs, and the VM's, while all of them compute.
fn compete(vm: &Guest, placed: Placed, time: Duration) -> Result<Value> {
    let leaves = TREE.iter().filter(|t| t.3).map(|t| t.0);
    let all = leaves.clone().map(|l| Processes::start(PROCESSES, if placed == Placed::Root { "" } else { l }));
    let all = all.collect::<Result<Vec<_>>>()?;
    if placed == Placed::Spread {
        all.iter().try_for_each(Processes::spread)?;
    }
    std::thread::sleep(WARMUP);
    let look = || Ok::<_, anyhow::Error>((leaves.clone().map(usage).collect::<Result<Vec<_>>>()?, vm.all_cpu_ns()?));
    let (start, before) = (Instant::now(), look()?);
    std::thread::sleep(time);
    let (after, seconds) = (look()?, start.elapsed().as_secs_f64());
    all.into_iter().try_for_each(Processes::end)?;
    let mut seen = Map::new();
    for ((leaf, after), before) in leaves.clone().zip(after.0).zip(before.0) {
        seen.insert(leaf.to_owned(), json!((after - before) / seconds));
    }
    seen.insert("vm".to_owned(), json!((after.1 - before.1) as f64 / 1e9 / seconds));
    Ok(Value::Object(seen))
}

/// The same twice, under the kernel's scheduler and under Takt, beside a VM that leaves PCPUs to them; and under Takt beside one that
/// would have them all.
pub fn compare() -> Result<Value> {
    plant()?;
    let vm = Guest::hog("small", 1)?;
    vm.runs(1)?;
    let kernel = {
        let _tick = Tick::start(TICK)?;
        compete(&vm, Placed::Spread, MEASURED)?
    };
    let takt = Takt::run(&["--policy", "doris"])?;
    let under_takt = compete(&vm, Placed::Leaves, MEASURED)?;
    vm.end()?;
    let vm = Guest::hog("large", CPUS)?;
    vm.runs(CPUS as usize)?;
    let (flat, beside) = (compete(&vm, Placed::Root, MEASURED)?, compete(&vm, Placed::Leaves, MEASURED_BESIDE)?);
    vm.end()?;
    let counts = status()?["host"]["counts"].clone();
    let said = takt.stop()?;
    Ok(json!({"kernel": kernel, "takt": under_takt, "flat": flat, "beside": beside, "counts": counts, "said": said}))
}

/// A user with a cgroup of its own makes thousands below it and moves processes between them, next to one that does not; then one with a
/// quota of less than a slice has more threads than that serves.
pub fn abuse() -> Result<Value> {
    set("", "cgroup.subtree_control", "+cpu")?;
    for user in ["honest", "abuser"] {
        make(user)?;
    }
    set("abuser", "cgroup.subtree_control", "+cpu")?;
    let takt = Takt::run(&["--policy", "doris"])?;
    for n in 0..MANY {
        make(&format!("abuser/{n}"))?;
    }
    let last = MANY - 1;
    let honest = Processes::start(PROCESSES, "honest")?;
    // Some of a cgroup in the table, some of one that found no room.
    let (first, rest) =
        (Processes::start(PROCESSES, "abuser/0")?, Processes::start(PROCESSES, &format!("abuser/{last}"))?);
    std::thread::sleep(WARMUP);
    let look = || Ok::<_, anyhow::Error>([usage("honest")?, usage("abuser")?]);
    let before = look()?;
    for n in 0..MOVES {
        first.enter(&format!("abuser/{}", n % MANY))?;
    }
    std::thread::sleep(MEASURED);
    let after = look()?;
    [first, rest, honest].into_iter().try_for_each(Processes::end)?;
    for n in 0..MANY {
        remove(&format!("abuser/{n}"))?;
    }
    let [own, others] = [1, 0].map(|n| after[n] - before[n]);

    make("tiny")?;
    set("tiny", "cpu.max", TINY)?;
    let tiny = Processes::start(TINY_PROCESSES, "tiny")?;
    std::thread::sleep(TINY_TIME);
    let used = usage("tiny")?;
    takt.schedules()?;
    // Takt ends while they are parked.
    let said = takt.stop()?;
    tiny.end()?;
    Ok(json!({"abuser": own / (own + others), "tiny": used / TINY_TIME.as_secs_f64(), "said": said}))
}
