// SPDX-License-Identifier: GPL-2.0-only
//! Threads with a timer of their own: cyclictest, whose latencies are measured, and lookbusy, which takes a part of a CPU.

use super::OTHER;
use crate::engine::What;
use crate::machine::Machine;
use crate::observe::Hist;

/// cyclictest: a timer that expires every `interval`, and a thread of the highest priority that waits for it.
#[derive(Clone, Debug, Default)]
pub struct Cyclic {
    pub vcpu: u32,
    pub interval: u64,
    /// What the thread does before it waits again, ns.
    pub work: u64,
    /// The oldest expiry that the thread has not seen.
    due: u64,
    pub waiting: u64,
    /// From an expiry until the thread runs, in the measured window.
    pub latency: Hist,
}

impl Cyclic {
    pub fn new(vcpu: u32, interval: u64, work: u64) -> Self {
        Self { vcpu, interval, work, ..Self::default() }
    }

    /// The timer first expires at that time.
    pub fn begin(&mut self, at: u64) {
        self.due = at;
    }

    /// The thread runs at `now`, if the timer has expired.
    pub fn run(&mut self, now: u64) -> Option<u64> {
        (self.waiting > 0).then(|| {
            self.latency.add(now - self.due);
            self.work
        })
    }

    /// It waits for the next expiry, which may have been.
    pub fn wait(&mut self) {
        self.waiting -= 1;
        self.due += self.interval;
    }
}

/// lookbusy: `busy` ns of work, then `idle` ns of sleep.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub vcpu: u32,
    pub busy: u64,
    pub idle: u64,
    /// It does not sleep.
    pub awake: bool,
}

impl Machine<'_> {
    /// Timer `n` of a cyclictest expires.
    pub(crate) fn expired(&mut self, n: u32) {
        let cyclic = &mut self.cyclics[n as usize];
        cyclic.waiting += 1;
        self.queue.push(self.now + cyclic.interval, What::Cyclic, n);
        let v = cyclic.vcpu;
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// The sleep of lookbusy `n` is over.
    pub(crate) fn slept(&mut self, n: u32) {
        let look = &mut self.looks[n as usize];
        look.awake = true;
        let v = look.vcpu;
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// Lookbusy `n` has done its part, and sleeps.
    pub(super) fn sleeps(&mut self, n: u32) {
        let look = &mut self.looks[n as usize];
        look.awake = false;
        self.queue.push(self.now + look.idle, What::Look, n);
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
