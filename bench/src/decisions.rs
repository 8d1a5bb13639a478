// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a decision, by operation.
//!
//! A log of operations is recorded once and replayed [`REPLAYS`] times into copies of the same pool, each operation between two readings of
//! the clock. The policies are deterministic, so an operation meets the same pool in each replay: the least of its times is its cost without
//! interrupts and other tenants, and the spread that remains over the operations of a kind comes from the states they met.

use crate::clock::{Clock, ticks};
use crate::mix::{Feeder, PCPUS, POLICIES, Shared};
use crate::simulator;
use crate::table;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use takt_policy::{CUR_STOPS, Class, Log, NIL, OpCode, Pool, State};

pub const SIZES: [u32; 3] = [8, 64, 512];
const REPLAYS: u32 = 7;

/// Operations of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    /// As in [`Mean::mix`].
    pub mix: &'static str,
    pub vcpus: u32,
    pub operation: &'static str,
    pub count: u64,
    pub share_pct: f64,
    pub median_ns: f64,
    pub p99_ns: f64,
    pub mean_ns: f64,
}

/// All operations of one pool.
#[derive(Clone, Debug, Serialize)]
pub struct Mean {
    pub policy: &'static str,
    /// "random", or "voip": the operations of the simulator's demo scenario.
    pub mix: &'static str,
    pub vcpus: u32,
    /// VCPUs queued on average when an operation came.
    pub queued: f64,
    pub operations: u64,
    /// Replayed at full speed, without the clock between operations: the figure to compare hosts by.
    pub mean_ns: f64,
    /// Mean of the single times, which cannot overlap.
    pub fenced_mean_ns: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Decisions {
    pub clock_overhead_ns: f64,
    pub replays: u32,
    pub means: Vec<Mean>,
    pub rows: Vec<Row>,
}

pub fn measure(quick: bool) -> Result<Decisions> {
    let clock = Clock::calibrate();
    let (skip, count) = if quick { (20_000, 30_000) } else { (50_000, 300_000) };
    let mut all =
        Decisions { clock_overhead_ns: clock.overhead_ns(), replays: REPLAYS, means: Vec::new(), rows: Vec::new() };
    for policy in POLICIES {
        let log = simulator::log(&simulator::scenario(quick)?, policy)?;
        let start = Pool::new(policy).with_context(|| format!("no policy {policy}"))?;
        let vcpus = log.iter().filter(|r| r.op.op == OpCode::VcpuAdd as u16).count() as u32;
        one(&mut all, clock, Source { policy, mix: "voip", vcpus, start, log })?;
        for vcpus in SIZES {
            let (start, log) = record::<PCPUS>(policy, vcpus, skip, count)?;
            one(&mut all, clock, Source { policy, mix: "random", vcpus, start, log })?;
        }
    }
    Ok(all)
}

/// A pool after `skip` operations, and the `count` operations that follow.
pub fn record<const N: usize>(policy: &str, vcpus: u32, skip: u32, count: u32) -> Result<(Pool, Log)> {
    let mut shared = Shared::<N>::new(policy, vcpus)?;
    let mut feeder = Feeder::new(vcpus, 0, 1, u64::from(vcpus));
    for _ in 0..skip {
        feeder.step(|op, after, mine| shared.call(op, after, mine));
    }
    let start = shared.pool.clone();
    shared.pool.record();
    for _ in 0..count {
        feeder.step(|op, after, mine| shared.call(op, after, mine));
    }
    Ok((start, shared.pool.take_log()))
}

/// What each operation of `log` takes, ns: the least of its times. `end` is the pool after it.
pub fn times(start: &Pool, end: &Pool, log: &Log, clock: Clock) -> Result<Vec<f64>> {
    let mut least = vec![u64::MAX; log.len()];
    for _ in 0..REPLAYS {
        let mut pool = start.clone();
        for (r, least) in log.iter().zip(&mut least) {
            // Out of the log before the clock starts: no host reads its operations from memory that cold.
            let op = black_box(r.op);
            let from = ticks();
            pool.op(op);
            *least = (*least).min(ticks() - from);
        }
        ensure!(pool.bytes() == end.bytes(), "a replay under {} ended in another state", end.policy());
    }
    Ok(least.into_iter().map(|t| clock.ns(t)).collect())
}

/// What each operation was, told by the pool before and after it; how many VCPUs were queued on average.
fn classify(pool: &mut Pool, log: &Log, vcpus: u32) -> (Vec<&'static str>, f64) {
    let mut queued = 0;
    let kinds = log
        .iter()
        .enumerate()
        .map(|(i, r)| {
            let (v, cpu) = (u32::from(r.op.vcpu), u32::from(r.op.cpu));
            if i % 64 == 0 {
                queued += (0..vcpus).filter(|&v| pool.state(v) == State::Queued).count();
            }
            let next_at = (r.res.next != NIL).then(|| pool.vcpu_cpu(r.res.next));
            let (before, class, cur) = (pool.state(v), pool.class(v), pool.cur(cpu));
            pool.op(r.op);
            match OpCode::from_u16(r.op.op) {
                Some(OpCode::Wake) if before == State::Blocked => "wake",
                Some(OpCode::Wake) => "wake, already awake",
                Some(OpCode::Event) if class != Class::Rt && pool.class(v) == Class::Rt => "event, promotes",
                Some(OpCode::Event) => "event",
                Some(OpCode::Schedule) => match next_at {
                    None => "schedule, nothing anywhere",
                    Some(_) if cur == Some(r.res.next) => "schedule, runs on",
                    Some(at) if at != cpu => "schedule, steals",
                    Some(_) if r.op.arg[0] & CUR_STOPS != 0 => "schedule, current stops",
                    Some(_) => "schedule, switches",
                },
                Some(OpCode::Started) => "started",
                Some(OpCode::Put) if r.op.arg[0] != 0 => "put, to the queue",
                Some(OpCode::Put) => "put, blocks",
                Some(OpCode::TimerCpu) => "timer(cpu)",
                Some(OpCode::TimerPool) => "timer(pool), accounting",
                Some(OpCode::SetRt) => "set_rt",
                Some(OpCode::Yield) => "yield",
                _ => "other",
            }
        })
        .collect();
    (kinds, queued as f64 / log.len().div_ceil(64).max(1) as f64)
}

/// Where a log comes from.
struct Source {
    policy: &'static str,
    mix: &'static str,
    vcpus: u32,
    start: Pool,
    log: Log,
}

fn one(all: &mut Decisions, clock: Clock, source: Source) -> Result<()> {
    let Source { policy, mix, vcpus, start, log } = source;
    let mut end = start.clone();
    let (kinds, queued) = classify(&mut end, &log, vcpus);
    let mean_ns = simulator::replay(&start, &log);
    let mut by_kind: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (kind, t) in kinds.into_iter().zip(times(&start, &end, &log, clock)?) {
        by_kind.entry(kind).or_default().push(t);
    }
    let fenced: f64 = by_kind.values().flatten().sum();
    let operations = log.len() as u64;
    let fenced_mean_ns = fenced / operations as f64;
    all.means.push(Mean { policy, mix, vcpus, queued, operations, mean_ns, fenced_mean_ns });
    for (operation, mut times) in by_kind {
        times.sort_by(f64::total_cmp);
        let n = times.len();
        all.rows.push(Row {
            policy,
            mix,
            vcpus,
            operation,
            count: n as u64,
            share_pct: 100.0 * n as f64 / operations as f64,
            median_ns: times[n / 2],
            p99_ns: times[(n * 99 / 100).min(n - 1)],
            mean_ns: times.iter().sum::<f64>() / n as f64,
        });
    }
    Ok(())
}

impl Decisions {
    pub fn print(&self) {
        println!("== Decisions: ns per operation on 8 PCPUs ==\n");
        for policy in POLICIES {
            let rows: Vec<&Row> = self.rows.iter().filter(|r| r.policy == policy).collect();
            let mut kinds: Vec<_> = rows.iter().map(|r| r.operation).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let columns = [("voip", None)].into_iter().chain(SIZES.map(|n| ("random", Some(n))));
            let lines: Vec<Vec<String>> = kinds
                .into_iter()
                .map(|kind| {
                    let mut line = vec![kind.to_string()];
                    for (mix, vcpus) in columns.clone() {
                        let fits =
                            |r: &&&Row| r.operation == kind && r.mix == mix && vcpus.is_none_or(|n| r.vcpus == n);
                        let figure = |f: fn(&Row) -> String| rows.iter().find(fits).map_or("-".into(), |r| f(r));
                        line.extend([
                            figure(|r| format!("{:.0}", r.median_ns)),
                            figure(|r| format!("{:.0}", r.p99_ns)),
                        ]);
                        if vcpus.is_none() {
                            line.insert(1, figure(|r| format!("{:.1}%", r.share_pct)));
                        }
                    }
                    line
                })
                .collect();
            let head =
                [policy, "voip: share", "median", "p99", "8: median", "p99", "64: median", "p99", "512: median", "p99"];
            println!("{}", table::render(&head, &lines));
        }
        let rows: Vec<_> = self
            .means
            .iter()
            .map(|m| {
                vec![
                    m.policy.to_string(),
                    m.mix.to_string(),
                    m.vcpus.to_string(),
                    format!("{:.0}", m.queued),
                    format!("{:.1}", m.mean_ns),
                    format!("{:.1}", m.fenced_mean_ns),
                ]
            })
            .collect();
        let head = ["all operations", "mix", "VCPUs", "queued", "mean", "mean of single ones"];
        println!("{}", table::render(&head, &rows));
        println!(
            "  voip: the simulator's scenario; 8, 64, 512: random mix with as many VCPUs. Single times: least of {} replays,\n  \
             less {:.1} ns of clock. Mean: replay without the clock.\n",
            self.replays, self.clock_overhead_ns
        );
    }
}
