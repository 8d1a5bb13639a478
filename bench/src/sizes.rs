// SPDX-License-Identifier: GPL-2.0-only
//! How the cost of an operation grows: every policy, from one VCPU to all that a pool may have, and from one PCPU to all.
//!
//! Times as in [`crate::decisions`]: each is the least of several replays. Beside each row stands what the rules ask for, by which it may grow.

use crate::clock::Clock;
use crate::decisions::{record, times};
use crate::table;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use takt::report::chart::{Axis, Chart, Line, Lines, Scale, Width};
use takt_policy::{Log, OpCode, Pool, Record};

pub const POLICIES: [&str; 9] =
    ["credit", "doris", "rr", "deferrable", "polling", "periodic", "sporadic", "sedf", "vgedf"];
/// On one PCPU, where all that wait are in one queue.
const VCPUS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// With [`EACH`] VCPUs each.
const CPUS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const EACH: u32 = 8;

/// Operations that one rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Group {
    /// `schedule`
    Decide,
    /// `wake`, and `put` of what goes on waiting
    Queue,
    /// `put` of what sleeps
    Block,
    /// `timer(cpu)`: ticks, and what ends a turn
    Tick,
    /// `timer(pool)` that gives budgets anew: each of them
    Refill,
    /// Any other: accounting
    Account,
}

impl Group {
    const ALL: [Group; 6] = [Group::Decide, Group::Queue, Group::Block, Group::Tick, Group::Refill, Group::Account];

    fn of(r: &Record, budgets: usize) -> Option<Self> {
        Some(match OpCode::from_u16(r.op.op)? {
            OpCode::Schedule => Group::Decide,
            OpCode::Wake => Group::Queue,
            OpCode::Put if r.op.arg[0] != 0 => Group::Queue,
            OpCode::Put => Group::Block,
            OpCode::TimerCpu => Group::Tick,
            OpCode::TimerPool if budgets > 0 => Group::Refill,
            OpCode::TimerPool => Group::Account,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Group::Decide => "decide",
            Group::Queue => "wake, queue",
            Group::Block => "block",
            Group::Tick => "timer(cpu)",
            Group::Refill => "budget, each",
            Group::Account => "accounting",
        }
    }

    /// What it may grow with by the rules of `policy`: n VCPUs or s servers of the pool, q of them in the queue of a PCPU, m PCPUs, r pieces
    /// of a sporadic server (64 at most), t real-time VMs. The due queue, where a server waits for its next budget, has s places to look at: a
    /// sporadic server comes there when it has nothing left, those of EDF when they wake.
    fn rule(self, policy: &str) -> &'static str {
        match (self, policy) {
            (Group::Refill, _) => "O(s)",
            (Group::Account, "credit" | "doris") => "O(n)",
            (Group::Account, _) => "O(t)",
            (Group::Tick, "credit" | "doris") => "O(q)",
            (Group::Decide | Group::Queue | Group::Block, "periodic") => "O(s)",
            (Group::Queue, "sporadic") => "O(q+r)",
            (Group::Queue, "doris" | "deferrable" | "polling") => "O(q)",
            (Group::Queue, "sedf") => "O(q+s)",
            (Group::Queue, "vgedf") => "O(q+s+m)",
            (Group::Decide, "vgedf") => "O(q+m)",
            (_, "sporadic") => "O(s+r)",
            _ => "O(1)",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    group: Group,
    /// What it may grow with.
    pub rule: &'static str,
    pub pcpus: u32,
    pub vcpus: u32,
    pub count: usize,
    pub mean_ns: f64,
    pub median_ns: f64,
    pub p99_ns: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    pub rows: Vec<Row>,
}

fn recorded(policy: &str, pcpus: u32, vcpus: u32, skip: u32, count: u32) -> Result<(Pool, Log)> {
    match pcpus {
        1 => record::<1>(policy, vcpus, skip, count),
        2 => record::<2>(policy, vcpus, skip, count),
        4 => record::<4>(policy, vcpus, skip, count),
        8 => record::<8>(policy, vcpus, skip, count),
        16 => record::<16>(policy, vcpus, skip, count),
        32 => record::<32>(policy, vcpus, skip, count),
        64 => record::<64>(policy, vcpus, skip, count),
        _ => bail!("{pcpus} PCPUs: a power of two up to 64 is expected"),
    }
}

pub fn measure(quick: bool) -> Result<Sizes> {
    let clock = Clock::calibrate();
    let (skip, count) = if quick { (10_000, 5_000) } else { (20_000, 40_000) };
    let by_vcpus = VCPUS.map(|vcpus| (1, vcpus)).into_iter();
    let sizes: Vec<_> = by_vcpus.chain(CPUS.map(|pcpus| (pcpus, pcpus * EACH))).collect();
    let mut rows = Vec::new();
    for policy in POLICIES {
        for (n, &(pcpus, vcpus)) in sizes.iter().enumerate() {
            if !sizes[..n].contains(&(pcpus, vcpus)) {
                let (start, log) = recorded(policy, pcpus, vcpus, skip, count)?;
                rows.extend(one(policy, pcpus, vcpus, &start, &log, clock)?);
            }
        }
    }
    Ok(Sizes { rows })
}

/// Performs the operation; how many budgets it gave anew, if it is the pool's timer.
fn given(pool: &mut Pool, r: &Record, vcpus: u32) -> usize {
    let timer = r.op.op == OpCode::TimerPool as u16;
    let look = |pool: &Pool| match timer && takt_policy::has(pool.policy(), "budgets") {
        true => (0..vcpus).map(|v| (pool.deadline(v), pool.class(v), pool.state(v))).collect(),
        false => Vec::new(),
    };
    let before = look(pool);
    pool.op(r.op);
    before.iter().zip(look(pool)).filter(|(before, after)| **before != *after).count()
}

fn one(policy: &'static str, pcpus: u32, vcpus: u32, start: &Pool, log: &Log, clock: Clock) -> Result<Vec<Row>> {
    let mut end = start.clone();
    let budgets: Vec<usize> = log.iter().map(|r| given(&mut end, r, vcpus)).collect();
    let mut groups: BTreeMap<Group, Vec<f64>> = BTreeMap::new();
    for ((r, budgets), ns) in log.iter().zip(budgets).zip(times(start, &end, log, clock)?) {
        if let Some(group) = Group::of(r, budgets) {
            groups.entry(group).or_default().push(ns / budgets.max(1) as f64);
        }
    }
    let row = |(group, mut ns): (Group, Vec<f64>)| {
        ns.sort_by(f64::total_cmp);
        let n = ns.len();
        Row {
            policy,
            group,
            rule: group.rule(policy),
            pcpus,
            vcpus,
            count: n,
            mean_ns: ns.iter().sum::<f64>() / n as f64,
            median_ns: ns[n / 2],
            p99_ns: ns[(n * 99 / 100).min(n - 1)],
        }
    };
    Ok(groups.into_iter().map(row).collect())
}

impl Sizes {
    fn at(&self, policy: &str, group: Group, pcpus: u32, vcpus: u32) -> Option<&Row> {
        self.rows.iter().find(|r| r.policy == policy && r.group == group && (r.pcpus, r.vcpus) == (pcpus, vcpus))
    }

    /// A line per policy and group; the last column is how much the cost grew over the last `over` sizes.
    fn table(&self, sizes: &[(u32, u32)], head: &[String], over: usize) -> String {
        let mut lines = Vec::new();
        for group in Group::ALL {
            for policy in POLICIES {
                let ns: Vec<Option<f64>> =
                    sizes.iter().map(|&(pcpus, vcpus)| Some(self.at(policy, group, pcpus, vcpus)?.mean_ns)).collect();
                if ns.iter().all(Option::is_none) {
                    continue;
                }
                let mut line = vec![group.name().to_owned(), policy.to_owned()];
                line.extend(ns.iter().map(|ns| ns.map_or("-".into(), |ns| format!("{ns:.0}"))));
                let grown = ns[ns.len() - 1].zip(ns[ns.len() - 1 - over]);
                line.push(grown.map_or("-".into(), |(to, from)| format!("{:.1}", to / from)));
                line.push(group.rule(policy).to_owned());
                lines.push(line);
            }
        }
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        table::render(&head, &lines)
    }

    pub fn print(&self) {
        let head = |sizes: &[u32], grown: String| {
            let mut head = vec!["mean ns".to_owned(), "policy".to_owned()];
            head.extend(sizes.iter().map(u32::to_string));
            head.extend([grown, "by the rules".into()]);
            head
        };
        println!("== Sizes: ns per operation by number of VCPUs, on one PCPU ==\n");
        let sizes: Vec<_> = VCPUS.map(|vcpus| (1, vcpus)).into();
        println!("{}", self.table(&sizes, &head(&VCPUS, "1024/64".into()), 2));
        println!("== Sizes: ns per operation by number of PCPUs, with {EACH} VCPUs each ==\n");
        let sizes: Vec<_> = CPUS.map(|pcpus| (pcpus, pcpus * EACH)).into();
        println!("{}", self.table(&sizes, &head(&CPUS, "64/4".into()), 4));
        println!(
            "  By the rules: of n VCPUs or s servers of the pool, q of them in the queue of a PCPU, m PCPUs, r pieces of a sporadic \
             server (64 at most),\n  t real-time VMs. A third of the VCPUs beside Dom0's are real-time, or servers.\n"
        );
    }

    /// Decisions by number of VCPUs; both axes are logarithmic.
    pub fn chart(&self) -> Result<String> {
        let line = |(n, policy): (usize, &&str)| {
            let point = |&vcpus: &u32| {
                let ns = self.at(policy, Group::Decide, 1, vcpus)?.mean_ns.max(1.0);
                Some([vcpus.into(), ns, ns, ns])
            };
            let faint = ["credit", "rr"].contains(policy);
            Line { label: (*policy).to_owned(), style: n, faint, points: VCPUS.iter().filter_map(point).collect() }
        };
        let lines: Vec<Line> = POLICIES.iter().enumerate().map(line).collect();
        let ends = lines.iter().flat_map(|l| &l.points).map(|p| p[1]);
        let most = ends.fold(0.0, f64::max);
        ensure!(most > 0.0, "nothing was measured");
        let axis = |title: &str, from, to, base| Axis { title: title.into(), from, to, scale: Scale::Powers(base) };
        let x = axis("VCPUs", VCPUS[0].into(), VCPUS[VCPUS.len() - 1].into(), 2.0);
        let y = axis("ns per decision (mean)", 1.0, 10f64.powf(most.log10().ceil()).max(10.0), 10.0);
        Chart::Lines(Lines { x, y, lines }).svg(Width::Wide).context("chart")
    }
}
