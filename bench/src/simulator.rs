// SPDX-License-Identifier: GPL-2.0-only
//! The simulator on one core: dequeued events per second of CPU time in the VoIP scenario, and how much of the time is the policy's.
//!
//! The policy's part is not sampled: the run's operations are logged by a second run and replayed alone.

use crate::clock::cpu_seconds;
use crate::table;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use takt_control::PolicySpec;
use takt_policy::{Log, Pool};
use takt_sim::{Options, Scenario};

const RUNS: u32 = 5;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    /// Dequeued events, cancelled timers among them.
    pub events: u64,
    pub cancelled: u64,
    pub policy_ops: u64,
    pub cpu_s: f64,
    pub events_per_s: f64,
    pub ns_per_event: f64,
    /// Mean of the run's operations, replayed.
    pub ns_per_op: f64,
    pub policy_share_pct: f64,
    /// Simulated time per CPU time.
    pub speed: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Simulator {
    pub scenario: String,
    pub simulated_s: f64,
    pub rows: Vec<Row>,
}

/// The demo scenario; with `quick` a tenth of its time.
pub fn scenario(quick: bool) -> Result<Scenario> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/voip.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut scenario = Scenario::from_toml(&text, "scenarios/voip.toml")?;
    if quick {
        scenario.duration /= 10;
    }
    Ok(scenario)
}

/// The operations of a run, from an empty pool on.
pub fn log(scenario: &Scenario, policy: &str) -> Result<Log> {
    let options = Options { record: true, ..Options::default() };
    let (_, _, mut logs) = takt_sim::run(scenario, &PolicySpec::parse(policy)?, 1, options)?;
    logs.pop().context("the simulator kept no log")
}

/// Mean time of an operation when the log is replayed into a copy of `start`, ns. Of each stretch of operations the best of several
/// replays counts, because a whole replay is rarely left alone by other programs.
pub fn replay(start: &Pool, log: &Log) -> f64 {
    const STRETCH: usize = 500;
    let mut best = vec![f64::INFINITY; log.len().div_ceil(STRETCH)];
    for _ in 0..RUNS {
        let mut pool = start.clone();
        for (stretch, best) in log.chunks(STRETCH).zip(&mut best) {
            let from = Instant::now();
            for r in stretch {
                pool.op(r.op);
            }
            *best = best.min(from.elapsed().as_nanos() as f64);
        }
    }
    best.iter().sum::<f64>() / log.len().max(1) as f64
}

pub fn measure(quick: bool) -> Result<Simulator> {
    let scenario = scenario(quick)?;
    let simulated_s = (scenario.warmup() + scenario.duration) as f64 / 1e9;
    let rows = crate::mix::POLICIES.iter().map(|p| one(&scenario, p, simulated_s)).collect::<Result<_>>()?;
    Ok(Simulator { scenario: scenario.name.clone(), simulated_s, rows })
}

fn one(scenario: &Scenario, policy: &'static str, simulated_s: f64) -> Result<Row> {
    let spec = PolicySpec::parse(policy)?;
    let mut best: Option<(f64, takt_sim::result::HostResult)> = None;
    for _ in 0..RUNS {
        let (result, cpu_s) = cpu_seconds(|| takt_sim::run(scenario, &spec, 1, Options::default()));
        let host = result?.0.host;
        if best.as_ref().is_none_or(|(least, _)| cpu_s < *least) {
            best = Some((cpu_s, host));
        }
    }
    let (cpu_s, host) = best.context("no run")?;
    let start = Pool::new(policy).with_context(|| format!("no policy {policy}"))?;
    let ns_per_op = replay(&start, &log(scenario, policy)?);
    let events = host.events + host.cancelled_events;
    Ok(Row {
        policy,
        events,
        cancelled: host.cancelled_events,
        policy_ops: host.policy_ops,
        cpu_s,
        events_per_s: events as f64 / cpu_s,
        ns_per_event: 1e9 * cpu_s / events as f64,
        ns_per_op,
        policy_share_pct: 100.0 * ns_per_op * host.policy_ops as f64 / (1e9 * cpu_s),
        speed: simulated_s / cpu_s,
    })
}

impl Simulator {
    pub fn print(&self) {
        println!(
            "== Simulator: scenario {}, {:.0} s simulated, one core (goal: 10 M events/s) ==\n",
            self.scenario, self.simulated_s
        );
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|r| {
                vec![
                    r.policy.to_string(),
                    table::grouped(r.events as f64),
                    format!("{:.2}", r.events_per_s / 1e6),
                    format!("{:.0}", r.ns_per_event),
                    table::grouped(r.policy_ops as f64),
                    format!("{:.1}", r.ns_per_op),
                    format!("{:.0}%", r.policy_share_pct),
                    format!("{:.0}", r.speed),
                ]
            })
            .collect();
        let head =
            ["policy", "events", "M events/s", "ns/event", "policy ops", "ns/op", "policy's share", "times real time"];
        println!("{}", table::render(&head, &rows));
        println!("  Best of {RUNS} runs, CPU time. Events: dequeued, cancelled timers among them.\n");
    }
}
