// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: cgroups of ordinary processes with weights and limits, under the kernel's own scheduler and then under Takt.

use super::CPUS;
use super::guest::Guest;
use crate::system::{Tick, read};
use crate::takt::{TICK, Takt, status};
use anyhow::{Context, Result};
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

fn set(cgroup: &str, file: &str, value: &str) -> Result<()> {
    let path = PathBuf::from(ROOT).join(cgroup).join(file);
    std::fs::write(&path, value).with_context(|| format!("{}: {value}", path.display()))
}

fn make(cgroup: &str) -> Result<()> {
    std::fs::create_dir(PathBuf::from(ROOT).join(cgroup)).with_context(|| cgroup.to_owned())
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

/// The leaves' CPU time in CPUs, and the VM's, while all of them compute; `flat`: all processes are in the root instead.
fn compete(vm: &Guest, flat: bool) -> Result<Value> {
    let leaves = TREE.iter().filter(|t| t.3).map(|t| t.0);
    let all = leaves.clone().map(|l| Processes::start(PROCESSES, if flat { "" } else { l }));
    let all = all.collect::<Result<Vec<_>>>()?;
    std::thread::sleep(WARMUP);
    let look = || Ok::<_, anyhow::Error>((leaves.clone().map(usage).collect::<Result<Vec<_>>>()?, vm.all_cpu_ns()?));
    let (start, before) = (Instant::now(), look()?);
    std::thread::sleep(MEASURED);
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
        compete(&vm, false)?
    };
    let takt = Takt::run(&["--policy", "doris"])?;
    let under_takt = compete(&vm, false)?;
    vm.end()?;
    let vm = Guest::hog("large", CPUS)?;
    vm.runs(CPUS as usize)?;
    let (flat, beside) = (compete(&vm, true)?, compete(&vm, false)?);
    vm.end()?;
    let counts = status()?["host"]["counts"].clone();
    let said = takt.stop()?;
    Ok(json!({"kernel": kernel, "takt": under_takt, "flat": flat, "beside": beside, "counts": counts, "said": said}))
}
