// SPDX-License-Identifier: GPL-2.0-only
//! One phase: VMs and clients under a scheduler; wait, measure, collect.

use super::guest::Guest;
use super::sched::{self, InForce};
use super::system::{Tick, read};
use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use takt_lab::{Scheduler, outcome, plan};

/// A VM that calibrates runs this long, ns.
const CALIBRATION: u64 = 300_000_000;
/// In the last of so many parts of the measured time Takt is asked for its status, while all VMs still run.
const STATUS: u64 = 20;
/// `/proc/stat` counts in these, ns.
const JIFFY: u64 = 10_000_000;

/// Carries out a phase.
pub fn run(plan: &plan::Phase, force: &InForce, tick: Option<u16>, speed: Speed) -> Result<outcome::Phase> {
    let _tick = tick.map(Tick::start).transpose()?;
    let mut guests = Vec::new();
    for vm in &plan.vms {
        guests.push(Guest::start(vm, &plan.scheduler, speed.iterations(vm))?);
    }
    for guest in &mut guests {
        guest.complete(&plan.scheduler)?;
    }
    sleep(plan.warmup_ns);
    guests.iter_mut().try_for_each(Guest::mark)?;
    let (from, before) = (now()?, Counters::read()?);
    sleep(plan.measure_ns - plan.measure_ns / STATUS);
    let status = force.status();
    status.as_ref().map_or(Ok(()), |s| force.has_budgets(s))?;
    sleep((from + plan.measure_ns).saturating_sub(now()?));
    let (to, after) = (now()?, Counters::read()?);
    guests.iter_mut().try_for_each(Guest::end)?;
    let vms = guests.into_iter().map(Guest::finish).collect::<Result<_>>()?;
    Ok(outcome::Phase {
        ops: force.ops.clone(),
        from_ns: from,
        measured_ns: to - from,
        switches: after.switches - before.switches,
        idle_ns: after.idle_ns - before.idle_ns,
        dom0_cpu_ns: None,
        vms,
        status,
        took: None,
    })
}

/// What a guest can do on this machine while all its CPUs are busy.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Iterations of a guest's loop per second of a CPU.
    pub iterations_per_s: f64,
    /// CPU time that a packet costs the VCPU which answers it without any work of its own: exits, interrupts, ns.
    pub packet_ns: u64,
}

impl Speed {
    /// Iterations that `vm` does per job (`/work`) and otherwise, so that each takes as long as it is said to.
    pub fn iterations(&self, vm: &plan::Vm) -> BTreeMap<String, u64> {
        let itself = if vm.clients.is_some() { self.packet_ns } else { 0 };
        let work = vm.work_ns.map(|ns| ("/work".to_owned(), ns.saturating_sub(itself)));
        let others = vm.cpu_ns.iter().map(|(name, &ns)| (name.clone(), ns));
        work.into_iter()
            .chain(others)
            .map(|(name, ns)| (name, (ns as f64 / 1e9 * self.iterations_per_s) as u64))
            .collect()
    }
}

/// Finds that out, or but for what is `known` of the loop.
pub fn calibrate(tick: Option<u16>, known: Option<f64>) -> Result<Speed> {
    let cpus = sched::count()?;
    let vms = serde_json::from_value(json!([
        {
            "name": "calibration", "serves": false, "config": {}, "affinity": [],
            "vcpus": cpus, "start_ms": 0, "workload": {"kind": "hog"},
        },
        {
            "name": "packets", "serves": true, "config": {}, "affinity": [],
            "vcpus": 1, "start_ms": 0, "workload": {"kind": "echo", "tap": "packets", "work": 0},
            "clients": ["--dev", "packets", "--streams", "8", "--period-ns", "20000000"],
        },
    ]))?;
    let scheduler = Scheduler::Eevdf { weight: 1 };
    let phase = plan::Phase { scheduler, warmup_ns: CALIBRATION, measure_ns: CALIBRATION, vms };
    let nothing = Speed { iterations_per_s: 0.0, packet_ns: 0 };
    let done = run(&phase, &InForce::start(&phase, None)?, tick, nothing).context("calibration")?;
    let sum = |vm: usize, of: fn(&outcome::Vcpu) -> u64| done.vms[vm].report.vcpus.iter().map(of).sum::<u64>();
    let (cpu, jobs) = (|vm| sum(vm, |v| v.cpu_ns), sum(1, |v| v.jobs));
    ensure!(jobs > 0, "calibration: no packet was answered");
    let measured = sum(0, |v| v.work) as f64 * 1e9 / cpu(0) as f64;
    Ok(Speed { iterations_per_s: known.unwrap_or(measured), packet_ns: cpu(1) / jobs })
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
