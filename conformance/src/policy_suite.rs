// SPDX-License-Identifier: GPL-2.0-only
//! Judges one policy, for its writer: what `takt-conform suite --policy` prints. Seeds are fixed,
//! so two calls find the same.

use crate::checker::{Rule, Violation};
use crate::core::{Core, Maker, maker};
use crate::host::{Mode, Shape, variants};
use crate::run::{Invariant, Run};
use crate::suite::{fails, outcomes, unchanged};
use crate::vectors::VECTORS;
use anyhow::{Result, bail};
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use takt_policy::{NEVER, Record};

/// Operations of a random host.
const OPERATIONS: u64 = 6_000;
/// Seeds of hosts, beside those that stand for a variant of the policy.
const SEEDS: [u64; 2] = [1, 2];

/// What is judged, in the order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The worked examples that make a pool of the policy.
    Vectors,
    /// The checker of `docs/states.md` on random hosts.
    Table,
    /// `policy/core/check.h` after each operation of these hosts; on pools of 64 PCPUs after each
    /// eighth.
    Invariants,
    /// The policy's `bound`, on those of these hosts that serve everything at once.
    Waits,
    /// The logs of these hosts again, on another pool.
    Replay,
    /// The digest in `outcomes.txt`.
    Outcomes,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Vectors, Self::Table, Self::Invariants, Self::Waits, Self::Replay, Self::Outcomes];

    fn name(self) -> &'static str {
        match self {
            Self::Vectors => "vectors",
            Self::Table => "state table",
            Self::Invariants => "invariants",
            Self::Waits => "waits",
            Self::Replay => "replay",
            Self::Outcomes => "outcomes",
        }
    }
}

/// What came of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub part: Part,
    pub ok: bool,
    /// What was done, or the first fault; one line.
    pub text: String,
}

/// What came of all parts, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub policy: String,
    pub findings: Vec<Finding>,
}

impl Judgement {
    /// Whether no part has a fault.
    pub fn ok(&self) -> bool {
        self.failed().is_empty()
    }

    /// The parts that have one.
    pub fn failed(&self) -> Vec<Part> {
        self.findings.iter().filter(|f| !f.ok).map(|f| f.part).collect()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { part, ok, text } in &self.findings {
            writeln!(f, "{:12} {:7} {text}", part.name(), if *ok { "ok" } else { "failed" })?;
        }
        let verdict = if self.ok() { "ok" } else { "failed" };
        write!(f, "{}: {verdict}", self.policy)
    }
}

/// One piece of the work; all of them are independent.
enum Job {
    Vectors,
    Outcomes,
    Host(u64, Shape, Mode),
}

/// What a random host has brought.
struct Hosted {
    operations: u64,
    refused: u64,
    checks: u64,
    /// The longest wait, and the bound that it kept, ns; a policy may give none.
    wait: Option<(u64, u64)>,
    fault: Option<(Part, String)>,
}

enum Done {
    Finding(Finding),
    Hosted(Hosted),
}

/// Judges `policy` of this build's core, or of the core in the shared library at `library`, on all
/// CPUs.
///
/// # Errors
/// The library cannot be loaded, or the core has no such policy; names those that it has.
pub fn judge(library: Option<&Path>, policy: &str) -> Result<Judgement> {
    maker(library)?(policy)?;
    let mut jobs = vec![Job::Vectors, Job::Outcomes];
    for &seed in SEEDS.iter().chain(variants(policy)) {
        let modes = [Mode::Faithful, Mode::Chaos];
        jobs.extend(Shape::ALL.into_iter().rev().flat_map(|s| modes.map(|mode| Job::Host(seed, s, mode))));
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        let make = maker(library)?;
        loop {
            let n = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(n) else { return Ok(()) };
            let result = match *job {
                Job::Vectors => Done::Finding(vectors(library, policy)?),
                Job::Outcomes => Done::Finding(digest(&make, policy)),
                Job::Host(seed, shape, mode) => Done::Hosted(host(&make, policy, seed, shape, mode)?),
            };
            done.lock().unwrap_or_else(PoisonError::into_inner).push((n, result));
        }
    };
    std::thread::scope(|s| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cpus.min(jobs.len())).map(|_| s.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|d| d.0);
    let (mut findings, mut hosts) = (Vec::new(), Vec::new());
    for (_, result) in done {
        match result {
            Done::Finding(finding) => findings.push(finding),
            Done::Hosted(hosted) => hosts.push(hosted),
        }
    }
    findings.extend([Part::Table, Part::Invariants, Part::Waits, Part::Replay].map(|part| of_hosts(part, &hosts)));
    findings.sort_by_key(|f| Part::ALL.iter().position(|p| *p == f.part));
    Ok(Judgement { policy: policy.into(), findings })
}

/// The vectors that make a pool of the policy: the others say nothing of it.
fn vectors(library: Option<&Path>, policy: &str) -> Result<Finding> {
    let asked = Rc::new(Cell::new(false));
    let (make, seen, name) = (maker(library)?, asked.clone(), policy.to_owned());
    let make: Maker = Box::new(move |policy: &str| {
        seen.set(seen.get() || policy == name);
        make(policy)
    });
    let (mut count, mut failed) = (0, Vec::new());
    for (name, vector) in VECTORS {
        asked.set(false);
        let fault = fails(*vector, &make);
        if asked.get() {
            count += 1;
            failed.extend(fault.map(|text| format!("{name}: {text}")));
        }
    }
    let text = match (failed.first(), count) {
        (Some(first), _) => format!("{} of {count}; {first}", failed.len()),
        (None, 0) => "none is of this policy; conformance/src/vectors/ has those of others".into(),
        (None, _) => format!("{count} are of this policy"),
    };
    Ok(Finding { part: Part::Vectors, ok: failed.is_empty(), text })
}

/// Whether `outcomes.txt` has the digest that the policy has.
fn digest(make: &Maker, policy: &str) -> Finding {
    let found = outcomes(make, policy).and_then(|digest| match unchanged(policy, digest) {
        Ok(()) => Ok(format!("{digest:016x}, as in conformance/outcomes.txt")),
        Err(e) => bail!("{e:#}; if that is meant, its line is `{policy} {digest:016x}`"),
    });
    let ok = found.is_ok();
    Finding { part: Part::Outcomes, ok, text: found.unwrap_or_else(|e| format!("{e:#}")) }
}

/// A random host under every check, and its log again.
fn host(make: &Maker, policy: &str, seed: u64, shape: Shape, mode: Mode) -> Result<Hosted> {
    let every = if shape.cpus > 8 { 8 } else { 1 };
    let mut run = Run::new(make(policy)?, seed, shape, mode, every);
    let place = |text: &dyn fmt::Display| format!("{mode:?} host, {} PCPUs, seed {seed}: {text}", shape.cpus);
    let (mut records, mut fault) = (Vec::new(), None);
    while fault.is_none() && run.stats.operations < OPERATIONS {
        match run.step() {
            Ok(record) => records.push(record),
            Err(e) => fault = Some((part_of(&e), place(&format!("{e:#}")))),
        }
    }
    if fault.is_none() {
        fault = repeat(make(policy)?.as_mut(), &records, run.core.bytes()).map(|text| (Part::Replay, place(&text)));
    }
    let Run { stats, checker, .. } = run;
    let bound = checker.limits.wait.filter(|&bound| bound != NEVER);
    let longest = match checker.finish() {
        Ok(summary) => summary.vcpus.values().map(|v| v.wait_max).max(),
        Err(e) => {
            fault = fault.or_else(|| Some((Part::Table, place(&e))));
            None
        }
    };
    let (operations, refused, checks) = (stats.operations, stats.refused, stats.checks);
    Ok(Hosted { operations, refused, checks, wait: longest.zip(bound), fault })
}

/// Which part an error of [`Run::step`] belongs to.
fn part_of(e: &anyhow::Error) -> Part {
    match e.downcast_ref::<Violation>() {
        Some(Violation { rule: Rule::WaitBound, .. }) => Part::Waits,
        None if e.is::<Invariant>() => Part::Invariants,
        _ => Part::Table,
    }
}

/// Repeats operations on a fresh pool: what differs. A policy that keeps state outside of its pool
/// differs here.
fn repeat(core: &mut dyn Core, records: &[Record], end: &[u8]) -> Option<String> {
    for Record { op, res } in records {
        let again = core.op(*op);
        if again != *res {
            return Some(format!("operation {} has another answer the second time: {again:?}, not {res:?}", op.seq));
        }
    }
    let differs = core.bytes().iter().zip(end).position(|(a, b)| a != b);
    differs.map(|at| format!("the pools differ at byte {at} after the same operations"))
}

fn of_hosts(part: Part, hosts: &[Hosted]) -> Finding {
    if let Some(text) = hosts.iter().find_map(|h| h.fault.as_ref().filter(|f| f.0 == part)).map(|f| f.1.clone()) {
        return Finding { part, ok: false, text };
    }
    let sum = |of: fn(&Hosted) -> u64| hosts.iter().map(of).sum::<u64>();
    let text = match part {
        Part::Invariants => format!("held {} times, after operations of these hosts", sum(|h| h.checks)),
        Part::Waits => {
            let nearest = hosts.iter().filter_map(|h| h.wait).max_by(|a, b| share(*a).total_cmp(&share(*b)));
            let ms = |ns: u64| ns as f64 / 1e6;
            let told = |(longest, bound)| format!("nearest to its bound: {:.3} ms of {:.3} ms", ms(longest), ms(bound));
            nearest.map_or_else(|| "the policy gives no bound".into(), told)
        }
        Part::Replay => format!("{} operations again: same answers, same bytes", sum(|h| h.operations)),
        _ => {
            let (operations, refused) = (sum(|h| h.operations), sum(|h| h.refused));
            format!("{} random hosts, {operations} operations, {refused} of them refused", hosts.len())
        }
    };
    Finding { part, ok: true, text }
}

/// How much of its bound a wait took.
fn share((longest, bound): (u64, u64)) -> f64 {
    longest as f64 / bound.max(1) as f64
}
