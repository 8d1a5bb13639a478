// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of each VM's waits: a day of minutes.

use super::cause::Cause;
use std::collections::{BTreeMap, VecDeque};
use takt_policy::{Class, Hist};

const MINUTE: u64 = 60_000_000_000;
/// A wait as long as this is late where a VM has no period, ns.
pub const LATE: u64 = 5_000_000;
/// For how long minutes are kept, ns.
pub const DAY: u64 = 24 * 60 * MINUTE;
/// Longest waits of a VM that are kept of each minute.
const LONGEST: usize = 3;
/// Minutes of all VMs together: those of 69 VMs that run all day.
const MOST: usize = 100_000;

/// A long wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Long {
    /// ns of the monotonic clock.
    pub from: u64,
    pub to: u64,
    pub cpu: u16,
    pub class: Class,
    /// An I/O thread waited.
    pub io: bool,
    pub refused: u64,
    /// The longest part first, ns.
    pub by: Vec<(Cause, u64)>,
}

impl Long {
    pub fn ns(&self) -> u64 {
        self.to - self.from
    }
}

/// Of one VM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Minute {
    /// Number of the minute by the monotonic clock.
    pub number: u64,
    /// Upper end (ns) and number of waits ([`Hist::buckets`]).
    waits: Vec<(u64, u64)>,
    pub ran: u64,
    pub waited: u64,
    pub refused: u64,
    pub late: u64,
    pub longest: Vec<Long>,
}

impl Minute {
    /// Adds its waits.
    pub fn add_to(&self, hist: &mut Hist) {
        self.waits.iter().for_each(|&(to, times)| hist.add_bucket(to, times));
    }
}

#[derive(Default)]
struct Of {
    now: Minute,
    hist: Hist,
    past: VecDeque<Minute>,
}

impl Of {
    /// The minute of `at`; the one before is closed.
    fn at(&mut self, at: u64) -> (&mut Minute, &mut Hist) {
        let number = at / MINUTE;
        if number > self.now.number {
            self.close();
            self.now.number = number;
        }
        (&mut self.now, &mut self.hist)
    }

    fn close(&mut self) {
        let waits = self.hist.buckets().collect();
        let minute = Minute { waits, ..std::mem::take(&mut self.now) };
        self.hist = Hist::default();
        if minute.ran + minute.waited + minute.refused > 0 {
            self.past.push_back(minute);
        }
    }
}

/// All VMs', by name. A VM that has ended is kept as long.
#[derive(Default)]
pub struct Minutes {
    all: BTreeMap<String, Of>,
}

impl Minutes {
    fn of(&mut self, vm: &str) -> &mut Of {
        if !self.all.contains_key(vm) {
            self.all.insert(vm.to_owned(), Of::default());
        }
        self.all.get_mut(vm).expect("just added")
    }

    pub fn ran(&mut self, vm: &str, at: u64, ns: u64) {
        self.of(vm).at(at).0.ran += ns;
    }

    pub fn refused(&mut self, vm: &str, at: u64) {
        self.of(vm).at(at).0.refused += 1;
    }

    /// A wait that ended at `at`; whether it is one of the longest of its minute, so that what it was for is worth finding.
    pub fn waited(&mut self, vm: &str, at: u64, ns: u64, late: bool) -> bool {
        let (minute, hist) = self.of(vm).at(at);
        hist.add(ns);
        minute.waited += ns;
        minute.late += u64::from(late);
        minute.longest.len() < LONGEST || minute.longest.iter().any(|l| l.ns() < ns)
    }

    /// Keeps a wait of which [`Minutes::waited`] said so.
    pub fn keep(&mut self, vm: &str, long: Long) {
        let longest = &mut self.of(vm).at(long.to).0.longest;
        longest.push(long);
        longest.sort_by_key(|l| std::cmp::Reverse(l.ns()));
        longest.truncate(LONGEST);
    }

    /// Forgets what is older than a day at `now`, and the oldest if there is too much.
    pub fn forget(&mut self, now: u64) {
        let oldest = now.saturating_sub(DAY) / MINUTE;
        for of in self.all.values_mut() {
            while of.past.front().is_some_and(|m| m.number < oldest) {
                of.past.pop_front();
            }
        }
        self.all.retain(|_, of| !of.past.is_empty() || of.now.number >= oldest);
        while self.all.values().map(|of| of.past.len()).sum::<usize>() > MOST {
            let of = self.all.values_mut().filter(|of| !of.past.is_empty());
            let Some(of) = of.min_by_key(|of| of.past.front().map(|m| m.number)) else { break };
            of.past.pop_front();
        }
    }

    /// A VM's minutes since `from`, the last one as it is now; `None` if nothing is known of it.
    pub fn since(&self, vm: &str, from: u64) -> Option<Vec<Minute>> {
        let of = self.all.get(vm)?;
        let open = Minute { waits: of.hist.buckets().collect(), ..of.now.clone() };
        Some(of.past.iter().cloned().chain([open]).filter(|m| m.number >= from / MINUTE).collect())
    }

    /// Names of the VMs that something is known of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(from: u64, ns: u64) -> Long {
        Long { from, to: from + ns, cpu: 0, class: Class::Under, io: false, refused: 0, by: Vec::new() }
    }

    #[test]
    fn the_longest_waits_of_a_minute_are_kept() {
        let mut all = Minutes::default();
        for ns in [5, 1, 9, 7, 3, 8] {
            let at = 10 * MINUTE + ns;
            if all.waited("a", at, ns, ns > 8) {
                all.keep("a", long(at - ns, ns));
            }
        }
        all.ran("a", 10 * MINUTE, 100);
        let minutes = all.since("a", 0).unwrap();
        let kept: Vec<u64> = minutes[0].longest.iter().map(Long::ns).collect();
        assert_eq!((kept, minutes[0].late, minutes[0].waited, minutes[0].ran), (vec![9, 8, 7], 1, 33, 100));
        let mut hist = Hist::default();
        minutes.iter().for_each(|m| m.add_to(&mut hist));
        assert_eq!((hist.count(), hist.max(), hist.percentile(50)), (6, 9, 5));
    }

    #[test]
    fn minutes_end_and_are_forgotten_after_a_day() {
        let mut all = Minutes::default();
        for minute in [1, 2, 5] {
            all.ran("a", minute * MINUTE, minute);
        }
        let ran = |all: &Minutes, from: u64| all.since("a", from).unwrap().iter().map(|m| m.ran).collect::<Vec<_>>();
        assert_eq!(ran(&all, 0), [1, 2, 5]);
        assert_eq!(ran(&all, 2 * MINUTE), [2, 5]);
        all.forget(2 * MINUTE + DAY);
        assert_eq!(ran(&all, 0), [2, 5]);
        all.forget(6 * MINUTE + DAY);
        assert!(all.since("a", 0).is_none() && all.names().next().is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = Minutes::default();
        for minute in 1..=1000 {
            for vm in 0..150 {
                all.ran(&format!("vm{vm}"), minute * MINUTE, 1);
            }
        }
        all.forget(1000 * MINUTE);
        assert_eq!(all.all.values().map(|of| of.past.len()).sum::<usize>(), MOST);
        assert!(all.all.values().all(|of| of.past.front().is_some_and(|m| m.number >= 333)));
    }
}
