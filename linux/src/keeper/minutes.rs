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
/// Bytes for all VMs together.
const MOST: usize = 32 << 20;
/// Causes of a long wait that are told apart.
const CAUSES: usize = 8;

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

    fn bytes(&self) -> usize {
        let by = |(cause, _): &(Cause, u64)| size_of::<(Cause, u64)>() + cause.bytes();
        size_of::<Self>() + self.by.iter().map(by).sum::<usize>()
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
    /// How often it stopped being real-time.
    pub demoted: u64,
    pub late: u64,
    pub longest: Vec<Long>,
}

impl Minute {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.waits) + self.longest.iter().map(Long::bytes).sum::<usize>()
    }

    /// Adds its waits.
    pub fn add_to(&self, hist: &mut Hist) {
        self.waits.iter().for_each(|&(to, times)| hist.add_bucket(to, times));
    }
}

/// A minute that has not ended.
#[derive(Default)]
struct Open {
    minute: Minute,
    hist: Hist,
}

impl Open {
    fn close(self) -> Minute {
        let mut minute = Minute { waits: self.hist.buckets().collect(), ..self.minute };
        minute.waits.shrink_to_fit();
        minute.longest.shrink_to_fit();
        minute
    }
}

#[derive(Default)]
struct Of {
    open: Option<Box<Open>>,
    past: VecDeque<Minute>,
}

impl Of {
    fn close(&mut self) {
        self.past.extend(self.open.take().map(|open| open.close()));
    }

    /// The first minute of which something is known.
    fn first(&self) -> Option<u64> {
        self.past.front().map(|m| m.number)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.open.as_ref().map_or(0, |open| size_of::<Open>() + open.minute.bytes())
            + self.past.iter().map(Minute::bytes).sum::<usize>()
    }
}

/// All VMs', by name. A VM that has ended is kept as long.
pub struct Minutes {
    all: BTreeMap<String, Of>,
    most: usize,
    /// When the bytes were counted last, in minutes, and how many VMs there were.
    counted: (u64, usize),
}

impl Default for Minutes {
    fn default() -> Self {
        Self { all: BTreeMap::new(), most: MOST, counted: (0, 0) }
    }
}

impl Minutes {
    /// The minute of `at`; the one before is closed.
    fn open(&mut self, vm: &str, at: u64) -> &mut Open {
        if !self.all.contains_key(vm) {
            self.all.insert(vm.to_owned(), Of::default());
        }
        let of = self.all.get_mut(vm).expect("just added");
        let number = at / MINUTE;
        if of.open.as_ref().is_some_and(|open| open.minute.number < number) {
            of.close();
        }
        let new = || Box::new(Open { minute: Minute { number, ..Minute::default() }, ..Open::default() });
        of.open.get_or_insert_with(new)
    }

    pub fn ran(&mut self, vm: &str, at: u64, ns: u64) {
        self.open(vm, at).minute.ran += ns;
    }

    pub fn refused(&mut self, vm: &str, at: u64) {
        self.open(vm, at).minute.refused += 1;
    }

    pub fn demoted(&mut self, vm: &str, at: u64) {
        self.open(vm, at).minute.demoted += 1;
    }

    /// A wait that ended at `at`; whether it is one of the longest of its minute, so that what it was for is worth finding.
    pub fn waited(&mut self, vm: &str, at: u64, ns: u64, late: bool) -> bool {
        let Open { minute, hist } = self.open(vm, at);
        hist.add(ns);
        minute.waited += ns;
        minute.late += u64::from(late);
        minute.longest.len() < LONGEST || minute.longest.iter().any(|l| l.ns() < ns)
    }

    /// Keeps a wait of which [`Minutes::waited`] said so.
    pub fn keep(&mut self, vm: &str, mut long: Long) {
        if long.by.len() > CAUSES {
            let rest = long.by.split_off(CAUSES - 1).into_iter().map(|(_, ns)| ns).sum();
            long.by.push((Cause::Others, rest));
            long.by.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        }
        long.by.shrink_to_fit();
        let longest = &mut self.open(vm, long.to).minute.longest;
        longest.push(long);
        longest.sort_by_key(|l| std::cmp::Reverse(l.ns()));
        longest.truncate(LONGEST);
    }

    /// Forgets what is older than a day at `now`, and the oldest if there is too much. Looks once a minute, and where VMs come in
    /// large numbers.
    pub fn forget(&mut self, now: u64) {
        const MANY: usize = 256;
        let (minute, vms) = (now / MINUTE, self.all.len());
        if minute == self.counted.0 && vms < self.counted.1 + MANY {
            return;
        }
        let oldest = now.saturating_sub(DAY) / MINUTE;
        for of in self.all.values_mut() {
            if of.open.as_ref().is_some_and(|open| open.minute.number < minute) {
                of.close();
            }
            while of.first().is_some_and(|first| first < oldest) {
                of.past.pop_front();
            }
        }
        self.shrink();
        self.all.retain(|_, of| of.open.is_some() || !of.past.is_empty());
        self.all.values_mut().for_each(|of| of.past.shrink_to(2 * of.past.len()));
        self.counted = (minute, self.all.len());
    }

    fn shrink(&mut self) {
        let mut bytes = self.bytes();
        if bytes > self.most {
            // What is still open takes most.
            self.all.values_mut().for_each(Of::close);
            bytes = self.bytes();
        }
        while bytes > self.most {
            let Some(first) = self.all.values().filter_map(Of::first).min() else { break };
            for of in self.all.values_mut() {
                while of.first() == Some(first) {
                    bytes -= of.past.pop_front().map_or(0, |m| m.bytes());
                }
            }
            self.all.retain(|name, of| {
                let stays = of.open.is_some() || !of.past.is_empty();
                bytes -= if stays { 0 } else { named(name) + of.bytes() };
                stays
            });
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.all.iter().map(|(name, of)| named(name) + of.bytes()).sum()
    }

    /// A VM's minutes since `from`, the last one as it is now; `None` if nothing is known of it.
    pub fn since(&self, vm: &str, from: u64) -> Option<Vec<Minute>> {
        let of = self.all.get(vm)?;
        let open = of.open.as_ref().map(|open| Minute { waits: open.hist.buckets().collect(), ..open.minute.clone() });
        Some(of.past.iter().cloned().chain(open).filter(|m| m.number >= from / MINUTE).collect())
    }

    /// Names of the VMs that something is known of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }
}

/// Bytes of an entry's name.
fn named(name: &str) -> usize {
    size_of::<String>() + name.len()
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
        let mut all = Minutes { most: 1 << 20, ..Minutes::default() };
        let name = |n: u64| format!("vm{n}");
        for minute in 1..=200 {
            for vm in 0..50 {
                let at = minute * MINUTE;
                all.ran(&name(vm), at, 1);
                all.waited(&name(vm), at, 10, false);
                let by = (0..100).map(|n| (Cause::Vm { vm: "x".repeat(100), class: "under".into() }, n)).collect();
                all.keep(&name(vm), Long { by, ..long(at, 10) });
            }
            all.forget(minute * MINUTE);
            assert!(all.bytes() <= 1 << 20);
        }
        // The oldest went first.
        let first: Vec<_> = all.all.values().map(|of| of.first()).collect();
        assert!(first.len() == 50 && first.iter().all(|f| *f == first[0] && *f > Some(100)), "{first:?}");
        let kept = all.since("vm0", 0).unwrap();
        let by = &kept[0].longest[0].by;
        assert_eq!((by.len(), by.iter().map(|(_, ns)| ns).sum::<u64>()), (CAUSES, 99 * 100 / 2));
    }

    #[test]
    fn vms_that_come_and_go_fill_no_memory() {
        let mut all = Minutes { most: 1 << 20, ..Minutes::default() };
        for n in 0..10_000 {
            all.ran(&format!("vm{n}"), MINUTE + n, 1);
            all.forget(MINUTE + n);
            assert!(all.bytes() <= (1 << 20) + 300 * size_of::<Open>(), "{n}: {}", all.bytes());
        }
        all.forget(2 * MINUTE);
        assert!(all.bytes() <= 1 << 20);
        assert!(all.names().count() > 1000 && all.since("vm9999", 0).is_some());
    }
}
