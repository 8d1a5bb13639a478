// SPDX-License-Identifier: GPL-2.0-only
//! What `takt why` answers from: the operations of the live pools, followed natively as they come. Of each VM's waits a day is kept
//! in minutes, and the last operations are kept as they are; a long wait of a real-time VM saves those in a file.
//!
//! Design: the follower repeats each operation in a pool of its own, so that its copies are the beginnings of segments, and the
//! kernel's pool is copied only once, and after a loss. All this happens between two looks of `takt run`, in its only thread.

mod answer;
mod cause;
mod incidents;
mod minutes;
mod segments;

use answer::Kept;
pub(crate) use answer::{About, Times};
pub use answer::{Incident, LongWait, Share, Why};
pub use cause::Cause;
use incidents::Incidents;
pub use minutes::DAY;

use crate::record::Ring;
use crate::shared::Snapshot;
use anyhow::Result;
use cause::thread_name;
use minutes::{LATE, Long, Minutes};
use segments::Segments;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use takt_conformance::{Follower, LogFile, Told, Waited};
use takt_control::partition::Side;
use takt_policy::{Kind, NCPU, OpCode, Record};

/// Shorter waits need no explanation, ns.
const EXPLAINED: u64 = 50_000;

/// How `takt run` keeps what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Bytes for operations.
    pub memory: usize,
    /// A wait of a real-time VM that is longer saves a recording, ns.
    pub limit: u64,
    /// Where; it is made when it is needed.
    pub dir: std::path::PathBuf,
}

/// What VMs are called, by their numbers, each with its generation: how often its number has been given.
pub(crate) type Names = BTreeMap<u16, (u32, String)>;

struct Part {
    side: Side,
    follower: Follower,
    segments: Segments,
    /// Of the VMs by their numbers, as of the operation that it has come to.
    names: Names,
    /// Generations by numbers that have another VM since the last look: their names are not that one's.
    gone: BTreeMap<u16, u32>,
}

/// The keeper of a running Takt.
pub(crate) struct Keeper {
    keeping: Keeping,
    ring: Ring,
    parts: Vec<Part>,
    minutes: Minutes,
    incidents: Incidents,
    gaps: u64,
    /// Since when it follows, ns of the monotonic clock.
    since: u64,
    /// Steal of each PCPU when last asked, ns.
    steal: Vec<u64>,
    batch: Vec<Record>,
    /// Number of the last look after which it followed.
    look: u32,
    /// Long waits that are saved when what followed them is known, by names of VMs.
    pending: BTreeMap<String, Pending>,
}

/// A long wait of a real-time VM.
struct Pending {
    /// Index of its pool.
    part: usize,
    /// ns of the monotonic clock.
    from: u64,
    to: u64,
}

impl Keeper {
    /// Begins with the pools as they are; the kernel records already.
    ///
    /// # Errors
    /// The kernel's ring is from another build.
    pub fn start(keeping: Keeping, ring: Ring, snapshot: &Snapshot) -> Result<Self> {
        let since = snapshot.pool.now();
        let incidents = Incidents::new(keeping.dir.clone());
        let mut new = Self {
            keeping,
            ring,
            parts: Vec::new(),
            minutes: Minutes::default(),
            incidents,
            gaps: 0,
            since,
            steal: steal(),
            batch: Vec::new(),
            look: 0,
            pending: BTreeMap::new(),
        };
        new.restart(snapshot);
        Ok(new)
    }

    /// Goes on with other limits; what is beyond them goes with the next operations.
    pub fn keep(&mut self, keeping: Keeping) {
        let memory = keeping.memory / self.parts.len().max(1);
        self.parts.iter_mut().for_each(|part| part.segments.limit(memory));
        self.incidents.save_in(keeping.dir.clone());
        self.keeping = keeping;
    }

    /// Follows from these pools on.
    fn restart(&mut self, snapshot: &Snapshot) {
        let pools = snapshot.pools().count();
        self.parts = snapshot
            .pools()
            .map(|(side, pool)| {
                let mut segments = Segments::new(self.keeping.memory / pools);
                segments.restart(pool);
                Part {
                    side,
                    follower: Follower::new(pool.clone()),
                    segments,
                    names: Names::new(),
                    gone: BTreeMap::new(),
                }
            })
            .collect();
    }

    /// Follows what has come; `names` are those of the VMs that are known since the look of that number. Lines for the
    /// operator: what was saved, or could not be.
    ///
    /// # Errors
    /// The kernel's state cannot be read.
    pub fn follow(
        &mut self,
        names: &Names,
        look: u32,
        snapshot: impl FnOnce() -> Result<Snapshot>,
    ) -> Result<Vec<String>> {
        let mut said = self.save();
        let stolen = self.stolen();
        if std::mem::replace(&mut self.look, look) != look {
            self.parts.iter_mut().for_each(|part| part.gone.clear());
        }
        for n in 0..self.parts.len() {
            let done = self.follow_part(n, names, &stolen);
            if let Err(e) = done {
                self.gaps += 1;
                said.push(format!("what VMs waited for is not known for a moment: {e:#}"));
                let snapshot = snapshot()?;
                self.restart(&snapshot);
                break;
            }
        }
        if let Some(part) = self.parts.first() {
            self.minutes.forget(part.follower.pool().now());
        }
        Ok(said)
    }

    fn follow_part(&mut self, n: usize, names: &Names, stolen: &[u64]) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        let part = &mut self.parts[n];
        let read = self.ring.read(part.side, part.follower.pool().operations(), &mut batch);
        let mut told = Vec::new();
        let added = last_added(&batch);
        // Those that were there before are called the same as now.
        let known = names.iter().filter(|(vm, name)| !added.contains_key(vm) && part.gone.get(vm) != Some(&name.0));
        part.names.extend(known.map(|(vm, name)| (*vm, name.clone())));
        let done = read.and_then(|()| {
            batch.iter().enumerate().try_for_each(|(at, record)| {
                let part = &mut self.parts[n];
                part.follower.step(record, &mut told)?;
                part.segments.push(*record, part.follower.pool());
                let vm = record.op.vm;
                if is_added(record) {
                    // A number belongs to one VM after the other. Its name is that of the last one, or still that of the
                    // former one: then this one has none before the next look.
                    part.gone.extend(part.names.remove(&vm).map(|(generation, _)| (vm, generation)));
                    let last = added.get(&vm) == Some(&at);
                    let name = names.get(&vm).filter(|name| last && part.gone.get(&vm) != Some(&name.0));
                    part.names.extend(name.map(|name| (vm, name.clone())));
                }
                for what in told.drain(..) {
                    self.hear(n, what, stolen);
                }
                Ok(())
            })
        });
        self.batch = batch;
        done
    }

    /// Saves the long waits that it has heard of before, with what has happened since: lines for the operator.
    fn save(&mut self) -> Vec<String> {
        let pending = std::mem::take(&mut self.pending);
        let now = self.parts.first().map_or(0, |part| part.follower.pool().now());
        let wall = SystemTime::now();
        let one = |(name, p): (String, Pending)| {
            let log = self.log(p.part, p.from);
            let ended = wall - Duration::from_nanos(now.saturating_sub(p.to));
            self.incidents.save(&name, p.to - p.from, (now, ended), log)
        };
        pending.into_iter().map(one).collect()
    }

    fn hear(&mut self, n: usize, what: Told, stolen: &[u64]) {
        let Part { follower, names, .. } = &self.parts[n];
        let pool = follower.pool();
        let now = pool.now();
        match what {
            Told::Ran(vm, ns) => {
                if let Some((_, name)) = names.get(&vm) {
                    self.minutes.ran(name, now, ns);
                }
            }
            Told::Refused(vm) => {
                if let Some((_, name)) = names.get(&vm) {
                    self.minutes.refused(name, now);
                }
            }
            Told::Waited(w) => {
                let Some((_, name)) = names.get(&w.vm) else { return };
                let stat = pool.vm_stat(w.vm.into()).unwrap_or_default();
                let (ns, limit) = (w.to.saturating_sub(w.from), if stat.period > 0 { stat.period } else { LATE });
                if self.minutes.waited(name, w.to, ns, ns >= limit) && ns >= EXPLAINED {
                    let long = self.explain(n, &w, stolen);
                    self.minutes.keep(name, long);
                }
                let longest = self.pending.get(name).is_none_or(|p| p.to - p.from < ns);
                if stat.rt != 0 && ns > self.keeping.limit && longest && self.incidents.are_due(name, ns, now) {
                    self.pending.insert(name.clone(), Pending { part: n, from: w.from, to: w.to });
                }
            }
        }
    }

    fn explain(&self, n: usize, w: &Waited, stolen: &[u64]) -> Long {
        let Part { follower, names, .. } = &self.parts[n];
        let pool = follower.pool();
        let vm = |vm: u16| {
            (vm != w.vm).then(|| names.get(&vm).map_or_else(|| format!("number {vm}"), |(_, name)| name.clone()))
        };
        let mut by = Vec::new();
        if w.parked > 0 {
            let key = takt_policy::param("budget", true).map_or(0, |p| p.key);
            let budget = pool.vm_setting(w.vm.into(), key).unwrap_or(0) > 0;
            by.push((if budget { Cause::Budget } else { Cause::Cap }, w.parked));
        }
        // While it was parked it did not matter who ran; that is known by its length only.
        let from = w.from + w.parked;
        by.extend(follower.had(w.cpu, from, w.to).into_iter().map(|(had, ns)| (Cause::of(had, vm, thread_name), ns)));
        let steal = stolen.get(usize::from(w.cpu)).copied().unwrap_or(0).min(w.to - w.from);
        if steal > 0 {
            by.push((Cause::Steal, steal));
        }
        by.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let io = pool.vcpu_stat(w.vcpu.into()).is_some_and(|s| s.kind == Kind::Io as u64);
        Long { from: w.from, to: w.to, cpu: w.cpu, class: w.class, io, refused: w.refused, by }
    }

    fn log(&self, n: usize, from: u64) -> Result<LogFile> {
        let part = &self.parts[n];
        let log = part.segments.log(from, part.follower.pool())?;
        let names = part.names.iter().map(|(vm, (_, name))| (*vm, name.clone())).collect();
        Ok(LogFile { names, ..log })
    }

    /// What the machine below took of each PCPU since this was last asked, ns.
    fn stolen(&mut self) -> Vec<u64> {
        let now = steal();
        let before = std::mem::replace(&mut self.steal, now);
        self.steal.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before)).collect()
    }

    /// A VM is real-time no longer.
    pub fn demoted(&mut self, vm: &str) {
        let now = self.parts.first().map_or(0, |part| part.follower.pool().now());
        self.minutes.demoted(vm, now);
    }

    /// What is known of a VM; `None` if nothing is.
    pub fn why(&self, vm: &str, about: About, mut times: Times) -> Option<Why> {
        times.known = self.since;
        let from = times.now.saturating_sub(times.since.as_nanos() as u64);
        let (minutes, incidents) = (self.minutes.since(vm, from), self.incidents.of(vm));
        // Its incidents outlive this process, its minutes do not.
        (minutes.is_some() || !incidents.is_empty())
            .then(|| Why::new(vm, about, &minutes.unwrap_or_default(), &times, &self.kept(), incidents))
    }

    /// Names of the VMs of which something is known.
    pub fn names(&self) -> Vec<String> {
        self.minutes.names().map(str::to_owned).collect()
    }

    fn kept(&self) -> Kept {
        let since = self.parts.iter().filter_map(|p| p.segments.since()).min().unwrap_or(self.since);
        Kept { bytes: self.parts.iter().map(|p| p.segments.bytes()).sum(), since, gaps: self.gaps }
    }
}

fn is_added(record: &Record) -> bool {
    record.op.op == OpCode::VmAdd as u16 && record.res.ret == 0
}

/// By the number of a VM, where in `batch` it was added last.
fn last_added(batch: &[Record]) -> BTreeMap<u16, usize> {
    batch.iter().enumerate().filter(|(_, r)| is_added(r)).map(|(at, r)| (r.op.vm, at)).collect()
}

/// Steal of each CPU since the boot, ns; all 0 where the kernel does not say.
fn steal() -> Vec<u64> {
    let mut all = vec![0; NCPU as usize];
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next().and_then(|w| w.strip_prefix("cpu")).and_then(|n| n.parse::<usize>().ok());
        // user nice system idle iowait irq softirq steal, in hundredths of a second
        let ticks = words.nth(7).and_then(|w| w.parse::<u64>().ok());
        if let (Some(Some(ns)), Some(ticks)) = (cpu.map(|n| all.get_mut(n)), ticks) {
            *ns = ticks * 10_000_000;
        }
    }
    all
}

#[cfg(test)]
mod tests;
