// SPDX-License-Identifier: GPL-2.0-only
//! Periodic tasks: a job of fixed length at every release, due by the next release. The first releases of all that have the same phase are at the
//! same time. A late job goes on, later ones queue behind it.

use super::OTHER;
use crate::engine::What;
use crate::machine::Machine;
use crate::observe::Hist;

#[derive(Clone, Debug, Default)]
pub struct Task {
    pub vcpu: u32,
    /// ns
    pub period: u64,
    /// CPU time of a job, ns.
    pub work: u64,
    /// From the creation of VMs to the first release, ns.
    pub phase: u64,
    /// Deadline of the oldest job that is not complete, ns.
    deadline: u64,
    /// Jobs released and not complete.
    pub waiting: u64,
    /// Jobs completed in the measured window.
    pub done: u64,
    /// Of those, jobs completed after their deadline.
    pub missed: u64,
    /// From a job's release to its beginning, in the measured window.
    pub latency: Hist,
    /// Longest time from a job's release to its completion, in the measured window.
    response: u64,
}

impl Task {
    pub fn new(vcpu: u32, period: u64, work: u64, phase: u64) -> Self {
        Self { vcpu, period, work, phase, ..Self::default() }
    }

    /// VMs have been created: returns the time of the first release.
    pub fn begin(&mut self, now: u64) -> u64 {
        self.deadline = now + self.phase + self.period;
        now + self.phase
    }

    /// Figures start from nothing.
    pub fn reset(&mut self) {
        (self.done, self.missed, self.response) = (0, 0, 0);
        self.latency = Hist::default();
    }

    /// The oldest job begins, if there is one.
    pub fn start(&mut self, now: u64) -> Option<u64> {
        (self.waiting > 0).then(|| {
            self.latency.add(now + self.period - self.deadline);
            self.work
        })
    }

    /// Jobs that the end of the run meets after their deadline.
    pub fn overdue(&self, now: u64) -> u64 {
        match now.checked_sub(self.deadline) {
            Some(late) if self.waiting > 0 => (late / self.period + 1).min(self.waiting),
            _ => 0,
        }
    }

    /// Longest response, of a job that the end of the run meets after its deadline as far as it is known.
    pub fn response(&self, now: u64) -> u64 {
        let waiting = if self.overdue(now) > 0 { now + self.period - self.deadline } else { 0 };
        self.response.max(waiting)
    }

    fn complete(&mut self, now: u64) {
        self.waiting -= 1;
        self.done += 1;
        self.missed += u64::from(now > self.deadline);
        self.response = self.response.max(now + self.period - self.deadline);
        self.deadline += self.period;
    }
}

impl Machine<'_> {
    /// A job of task `n` is released in its guest.
    pub(crate) fn release(&mut self, n: u32) {
        let task = &mut self.tasks[n as usize];
        task.waiting += 1;
        self.queue.push(self.now + task.period, What::Release, n);
        let v = task.vcpu;
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// A job of task `n` is complete.
    pub(super) fn job_done(&mut self, n: u32) {
        self.tasks[n as usize].complete(self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_the_next_release() {
        let mut t = Task::new(0, 10, 3, 40);
        assert_eq!(t.begin(60), 100);
        assert_eq!(t.start(100), None);
        t.waiting = 3;
        assert_eq!(t.start(107), Some(3));
        t.complete(110);
        t.complete(121);
        assert_eq!((t.done, t.missed), (2, 1));
        assert_eq!((t.latency.n, t.latency.max), (1, 7));
        assert_eq!((t.overdue(129), t.overdue(130), t.overdue(200)), (0, 1, 1));
        assert_eq!((t.response(129), t.response(200)), (11, 80));
    }
}
