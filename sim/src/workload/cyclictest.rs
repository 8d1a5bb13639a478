// SPDX-License-Identifier: GPL-2.0-only
//! cyclictest: on each VCPU a thread of the highest priority that a timer wakes every `interval`.
//! Beside it the kernel's own wakes. The time from an expiry until the thread runs is measured.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_TIMER};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::observe::Hist;
use crate::result::{CyclicResult, VmResult};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cyclictest {
    pub interval: u64,
    /// What the thread does before it waits again.
    pub work: u64,
}

impl Default for Cyclictest {
    fn default() -> Self {
        Self { interval: 1_000_000, work: 2_000 }
    }
}

/// A timer and the thread that waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cyclic {
    vcpu: u32,
    interval: u64,
    work: u64,
    /// The oldest expiry that the thread has not seen.
    due: u64,
    waiting: u64,
    /// From an expiry until the thread runs, in the measured window.
    latency: Hist,
}

impl Cyclic {
    fn new(vcpu: u32, interval: u64, work: u64) -> Self {
        Self { vcpu, interval, work, ..Self::default() }
    }

    /// The timer first expires at that time.
    fn begin(&mut self, at: u64) {
        self.due = at;
    }

    /// The thread runs at `now`, if the timer has expired.
    fn run(&mut self, now: u64) -> Option<u64> {
        (self.waiting > 0).then(|| {
            self.latency.add(now - self.due);
            self.work
        })
    }

    /// It waits for the next expiry, which may have been.
    fn wait(&mut self) {
        self.waiting -= 1;
        self.due += self.interval;
    }
}

impl Spec for Cyclictest {}

impl Keys for Cyclictest {
    const KIND: Kind = Kind::Cyclictest;
    const DOC: &'static str = "a timer thread of the highest priority per VCPU; its wake latency is measured";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::time(
            "interval",
            (10_000, 10 * SECOND),
            |c| c.interval.into(),
            |c, ns| c.interval = ns,
            "period of the timer",
        ),
        Key::time(
            "work",
            (1_000, 1_000_000),
            |c| c.work.into(),
            |c, ns| c.work = ns,
            "work of the thread at each expiry",
        ),
    ];
}

impl Program for Cyclictest {
    type State = Vec<Cyclic>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        for v in m.vms[vm].range() {
            let n = m.programs.of::<Self>().len() as u32;
            m.add_thread(v, Body::Program(Kind::Cyclictest, n), PRIO_TIMER, false);
            m.programs.of_mut::<Self>().push(Cyclic::new(v, self.interval, self.work));
            m.add_housekeeping(v, m.c.idle_hz, m.c.idle_job);
        }
        Ok(())
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, cyclic) in (0..).zip(m.programs.of_mut::<Self>()).filter(|(_, cyclic)| vcpus.contains(&cyclic.vcpu)) {
            cyclic.begin(m.now + SETTLE);
            m.queue.push(m.now + SETTLE, What::Program(Kind::Cyclictest), n);
        }
    }

    /// A timer expires.
    fn due(m: &mut Machine, n: u32) {
        let v = m.programs.of::<Self>()[n as usize].vcpu;
        if m.is_there(v) {
            let cyclic = &mut m.programs.of_mut::<Self>()[n as usize];
            cyclic.waiting += 1;
            m.queue.push(m.now + cyclic.interval, What::Program(Kind::Cyclictest), n);
            m.expire(v);
        }
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[n as usize].waiting > 0
    }

    /// The thread runs when what its VCPU has to pay first is paid.
    fn next(m: &mut Machine, n: u32, v: u32) -> Option<(u64, bool)> {
        let first = m.vcpus[v as usize].overhead;
        Some((m.programs.of_mut::<Self>()[n as usize].run(m.now + first)?, false))
    }

    fn done(m: &mut Machine, n: u32, _cpu: u32) {
        m.programs.of_mut::<Self>()[n as usize].wait();
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(|cyclic| cyclic.latency = Hist::default());
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let vcpus = m.vms[vm].range();
        let mut all = Hist::default();
        let own = m.programs.of::<Self>().iter().filter(|cyclic| vcpus.contains(&cyclic.vcpu));
        own.for_each(|cyclic| all.merge(&cyclic.latency));
        out.cyclictest = Some(CyclicResult {
            samples: all.n,
            min_ns: all.least(),
            mean_ns: all.mean(),
            p50_ns: all.percentile(50),
            p99_ns: all.percentile(99),
            p999_ns: all.part(999, 1000),
            max_ns: all.max,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_from_the_expiry_also_of_one_that_was_missed() {
        let mut c = Cyclic::new(0, 100, 5);
        c.begin(1000);
        assert_eq!(c.run(1000), None);
        c.waiting = 2;
        assert_eq!(c.run(1130), Some(5));
        c.wait();
        assert_eq!(c.run(1135), Some(5));
        c.wait();
        assert_eq!((c.run(1199), c.latency.n, c.latency.least(), c.latency.max), (None, 2, 35, 130));
    }
}
