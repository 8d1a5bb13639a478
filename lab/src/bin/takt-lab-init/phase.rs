// SPDX-License-Identifier: GPL-2.0-only
//! One phase: scheduler, VMs, clients; wait, measure, collect.

use super::guest::Guest;
use super::sched::{self, InForce};
use super::system::{Tick, read};
use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::time::Duration;
use takt_lab::{Scheduler, outcome, plan};

/// A VM that calibrates runs this long, ns.
const CALIBRATION: u64 = 200_000_000;
/// In the last of so many parts of the measured time Takt is asked for its status, while all VMs still run.
const STATUS: u64 = 20;
/// `/proc/stat` counts in these, ns.
const JIFFY: u64 = 10_000_000;

/// Carries out a phase.
pub fn run(
    plan: &plan::Phase,
    force: InForce,
    scheduler: &Scheduler,
    tick: Option<u16>,
    rate: f64,
) -> Result<outcome::Phase> {
    let tick = tick.map(Tick::start).transpose()?;
    let mut guests = Vec::new();
    for vm in &plan.vms {
        guests.push(Guest::start(vm, scheduler, rate)?);
    }
    for guest in &mut guests {
        guest.complete(scheduler)?;
    }
    sleep(plan.warmup_ns);
    guests.iter_mut().try_for_each(Guest::mark)?;
    let (from, before) = (now()?, Counters::read()?);
    sleep(plan.measure_ns - plan.measure_ns / STATUS);
    let status = force.status();
    sleep((from + plan.measure_ns).saturating_sub(now()?));
    let (to, after) = (now()?, Counters::read()?);
    guests.iter_mut().try_for_each(Guest::end)?;
    let vms = guests.into_iter().map(Guest::finish).collect::<Result<_>>()?;
    drop(tick);
    let ops = force.ops.clone();
    force.stop()?;
    Ok(outcome::Phase {
        ops,
        from_ns: from,
        measured_ns: to - from,
        switches: after.switches - before.switches,
        idle_ns: after.idle_ns - before.idle_ns,
        vms,
        status,
    })
}

/// Iterations of a guest's loop per second of a CPU while all CPUs are busy.
pub fn calibrate(tick: Option<u16>) -> Result<f64> {
    let cpus = sched::count()?;
    let vm: plan::Vm = serde_json::from_value(json!({
        "name": "calibration", "serves": false, "config": {}, "affinity": [],
        "vcpus": cpus, "start_ms": 0, "workload": {"kind": "hog"},
    }))?;
    let scheduler = Scheduler::Eevdf { weight: 1 };
    let phase = plan::Phase { warmup_ns: CALIBRATION, measure_ns: CALIBRATION, vms: vec![vm] };
    let force = InForce::start(&scheduler, &[], None)?;
    let done = run(&phase, force, &scheduler, tick, 0.0).context("calibration")?;
    let report = &done.vms[0].report;
    let work: u64 = report.vcpus.iter().map(|v| v.work).sum();
    let cpu: u64 = report.vcpus.iter().map(|v| v.cpu_ns).sum();
    Ok(work as f64 * 1e9 / cpu as f64)
}

struct Counters {
    switches: u64,
    idle_ns: u64,
}

impl Counters {
    fn read() -> Result<Self> {
        let text = read("/proc/stat")?;
        let line = |key: &str| {
            let line =
                text.lines().find_map(|l| l.strip_prefix(key)).with_context(|| format!("/proc/stat: no {key}"))?;
            line.split_whitespace().map(|n| n.parse::<u64>().context("/proc/stat")).collect::<Result<Vec<_>>>()
        };
        // user nice system idle iowait …
        let idle: u64 = line("cpu ")?.iter().skip(3).take(2).sum();
        Ok(Self { switches: line("ctxt ")?.iter().sum(), idle_ns: idle * JIFFY })
    }
}

fn now() -> Result<u64> {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC).context("CLOCK_MONOTONIC")?;
    Ok(Duration::from(t).as_nanos() as u64)
}

fn sleep(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}
