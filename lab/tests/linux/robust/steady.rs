// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: a policy for ten minutes, with a VM that has what it knows, one that has nothing, and threads of the host's.

use super::CPUS;
use super::guest::Guest;
use super::load::{Threads, beat, spin};
use super::shell::Shell;
use crate::takt::{Takt, state, status, takt, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The scenario's first word; policy and settings follow.
pub const NAME: &str = "steady ";
const TIME: Duration = Duration::from_secs(600);
/// Until `takt run` knows a VM that has begun to run.
const FOUND: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);
const HEARTBEATS: usize = 4;
/// Threads that compute.
const BUSY: usize = 2;

/// `settings` are those of a VM under `policy`, as `takt set` takes them; there may be none.
pub fn steady(policy: &str, settings: &[&str]) -> Result<Value> {
    let shell = Shell::start()?;
    let host = Takt::run_slow(&["--policy", policy])?;
    let (served, plain) = (Guest::hog("served", 1)?, Guest::hog("plain", CPUS)?);
    served.runs(1)?;
    plain.runs(CPUS as usize)?;
    until("both VMs' names", FOUND, || {
        let vms = status()?["vms"].take();
        Ok(["served", "plain"]
            .iter()
            .all(|name| vms.as_array().is_some_and(|all| all.iter().any(|vm| vm["name"] == *name))))
    })?;
    if !settings.is_empty() {
        let out = takt(&[&["set", "served"], settings].concat())?;
        ensure!(out.status.success(), "takt set: {}", String::from_utf8_lossy(&out.stderr));
    }
    let (hearts, busy) = (Threads::start(HEARTBEATS, beat)?, Threads::start(BUSY, spin)?);
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    let before = [served.all_cpu_ns()?, plain.all_cpu_ns()?];
    while start.elapsed() < TIME {
        longest = longest.max(shell.answer()?);
        let now = state()?;
        ensure!(now == "enabled", "after {} s sched_ext is {now}", start.elapsed().as_secs());
        std::thread::sleep(LOOK);
    }
    let seconds = start.elapsed().as_secs_f64();
    let of_a_pcpu =
        |vm: &Guest, before: u64| Ok::<_, anyhow::Error>((vm.all_cpu_ns()? - before) as f64 / seconds / 1e9);
    let (of_served, of_plain) = (of_a_pcpu(&served, before[0])?, of_a_pcpu(&plain, before[1])?);
    let heartbeat = hearts.numbers().into_iter().max().context("heartbeats")?;
    let done = busy.numbers().into_iter().min();
    hearts.end();
    busy.end();
    let counts = status()?["host"]["counts"].clone();
    served.end()?;
    plain.end()?;
    let said = host.stop()?;
    Ok(json!({
        "seconds": seconds, "answer_ms": longest.as_secs_f64() * 1e3, "heartbeat_ms": heartbeat as f64 / 1e6, "busy": done,
        "served": of_served, "plain": of_plain, "counts": counts, "said": said,
    }))
}
