// SPDX-License-Identifier: GPL-2.0-only
//! Periodic tasks: a job of fixed length at every release, due by the next release. The first
//! releases of all that have the same phase are at the same time. A late job goes on, later ones
//! queue behind it, unless as many wait as may. `tasks` has its sets of them here, too.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::observe::Hist;
use crate::report;
use crate::result::{PeriodicResult, TaskResult, VmResult};
use crate::spec::{Entry, Key, Keys, Kind, Spec, TaskSpec};
use anyhow::Result;
use std::collections::VecDeque;

/// The workload's keys: a task on each VCPU; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periodic {
    pub period: u64,
    /// CPU time of a job.
    pub work: u64,
}

impl Default for Periodic {
    fn default() -> Self {
        Self { period: 20_000_000, work: 5_000_000 }
    }
}

/// A task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    vcpu: u32,
    /// ns
    period: u64,
    /// CPU time of a job, ns.
    work: u64,
    /// From the creation of VMs to the first release, ns.
    phase: u64,
    /// Jobs that may be released and not complete; a further release is lost. 0 = any number.
    most: usize,
    /// Deadlines of the jobs that are, the oldest first, ns.
    jobs: VecDeque<u64>,
    /// Jobs completed in the measured window.
    done: u64,
    /// Of those, jobs completed after their deadline.
    missed: u64,
    /// From a job's release to its beginning, in the measured window.
    latency: Hist,
    /// Longest time from a job's release to its completion, in the measured window.
    response: u64,
}

impl Task {
    fn new(vcpu: u32, period: u64, work: u64, phase: u64, most: usize) -> Self {
        Self { vcpu, period, work, phase, most, ..Self::default() }
    }

    /// VMs have been created: returns the time of the first release.
    fn begin(&mut self, now: u64) -> u64 {
        self.jobs.clear();
        now + self.phase
    }

    /// A job is released, if one more may wait.
    fn release(&mut self, now: u64) {
        if self.most == 0 || self.jobs.len() < self.most {
            self.jobs.push_back(now + self.period);
        }
    }

    /// Figures start from nothing.
    fn reset(&mut self) {
        (self.done, self.missed, self.response) = (0, 0, 0);
        self.latency = Hist::default();
    }

    /// The oldest job begins, if there is one.
    fn start(&mut self, now: u64) -> Option<u64> {
        let deadline = self.jobs.front()?;
        self.latency.add(now + self.period - deadline);
        Some(self.work)
    }

    /// Jobs that the end of the run meets after their deadline.
    fn overdue(&self, now: u64) -> u64 {
        self.jobs.iter().filter(|deadline| **deadline <= now).count() as u64
    }

    /// Longest response, of a job that the end of the run meets after its deadline as far as it is
    /// known.
    fn response(&self, now: u64) -> u64 {
        let late = self.jobs.front().filter(|deadline| **deadline <= now);
        self.response.max(late.map_or(0, |deadline| now + self.period - deadline))
    }

    fn complete(&mut self, now: u64) {
        let Some(deadline) = self.jobs.pop_front() else { return };
        self.done += 1;
        self.missed += u64::from(now > deadline);
        self.response = self.response.max(now + self.period - deadline);
    }
}

impl Spec for Periodic {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("periodic jobs".to_owned())
    }

    fn task_set(&self, _vm: &Entry, _n: u32, _load: u32, _seed: u64) -> Vec<TaskSpec> {
        vec![TaskSpec { cost: self.work, period: self.period }]
    }
}

impl Keys for Periodic {
    const KIND: Kind = Kind::Periodic;
    const DOC: &'static str = "one task per VCPU: a job per release, due at the next release";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::time(
            "period",
            (10_000, 10 * SECOND),
            |p| p.period.into(),
            |p, ns| p.period = ns,
            "time between releases; all tasks of a scenario start together",
        ),
        Key::time("work", (1_000, 10 * SECOND), |p| p.work.into(), |p, ns| p.work = ns, "CPU time of a job"),
    ];
}

impl Program for Periodic {
    type State = Vec<Task>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        for v in m.vms[vm].range() {
            add_task(m, v, TaskSpec { cost: self.work, period: self.period }, (SETTLE, 0), PRIO_NET);
        }
        Ok(())
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, task) in (0..).zip(m.programs.of_mut::<Self>()).filter(|(_, task)| vcpus.contains(&task.vcpu)) {
            m.queue.push(task.begin(m.now), What::Program(Kind::Periodic), n);
        }
    }

    /// A job is released.
    fn due(m: &mut Machine, n: u32) {
        let v = m.programs.of::<Self>()[n as usize].vcpu;
        if m.is_there(v) {
            let task = &mut m.programs.of_mut::<Self>()[n as usize];
            task.release(m.now);
            m.queue.push(m.now + task.period, What::Program(Kind::Periodic), n);
            m.expire(v);
        }
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && !all[n as usize].jobs.is_empty()
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        Some((m.programs.of_mut::<Self>()[n as usize].start(m.now)?, false))
    }

    /// A job is complete.
    fn done(m: &mut Machine, n: u32, _cpu: u32) {
        m.programs.of_mut::<Self>()[n as usize].complete(m.now);
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(Task::reset);
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let sum = |of: &dyn Fn(&Task) -> u64| tasks_of(m, vm).map(of).sum();
        let mut latency = Hist::default();
        tasks_of(m, vm).for_each(|t| latency.merge(&t.latency));
        out.periodic = Some(PeriodicResult {
            jobs: sum(&|t| t.done),
            missed: sum(&|t| t.missed + t.overdue(m.now)),
            latency: report::wait(&latency, 0),
        });
    }
}

/// A task of VCPU `v`, with a thread of that priority, that is first released `phase` ns after its
/// VM is created, and of which `most` jobs may wait (0 = any number).
pub(super) fn add_task(m: &mut Machine, v: u32, task: TaskSpec, (phase, most): (u64, usize), prio: u8) {
    let n = m.programs.of::<Periodic>().len() as u32;
    m.add_thread(v, Body::Program(Kind::Periodic, n), prio, false);
    m.programs.of_mut::<Periodic>().push(Task::new(v, task.period, task.cost, phase, most));
}

fn tasks_of<'a>(m: &'a Machine, vm: usize) -> impl DoubleEndedIterator<Item = &'a Task> {
    let vcpus = m.vms[vm].range();
    m.programs.of::<Periodic>().iter().filter(move |task| vcpus.contains(&task.vcpu))
}

/// The tasks of a VM one by one, the one that was added last first.
pub(super) fn task_results(m: &Machine, vm: usize) -> Vec<TaskResult> {
    let one = |t: &Task| TaskResult {
        cost_ns: t.work,
        period_ns: t.period,
        jobs: t.done + t.overdue(m.now),
        missed: t.missed + t.overdue(m.now),
        response_max_ns: t.response(m.now),
    };
    tasks_of(m, vm).rev().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_the_next_release() {
        let mut t = Task::new(0, 10, 3, 40, 0);
        assert_eq!(t.begin(60), 100);
        assert_eq!(t.start(100), None);
        (0..3).for_each(|n| t.release(100 + 10 * n));
        assert_eq!(t.start(107), Some(3));
        t.complete(110);
        t.complete(121);
        assert_eq!((t.done, t.missed), (2, 1));
        assert_eq!((t.latency.n, t.latency.max), (1, 7));
        assert_eq!((t.overdue(129), t.overdue(130), t.overdue(200)), (0, 1, 1));
        assert_eq!((t.response(129), t.response(200)), (11, 80));
    }

    #[test]
    fn a_release_is_lost_where_no_more_jobs_may_wait() {
        let mut t = Task::new(0, 10, 3, 0, 2);
        t.begin(0);
        [0, 10, 20, 30].into_iter().for_each(|at| t.release(at));
        assert_eq!(t.overdue(100), 2);
        t.complete(35);
        t.release(40);
        t.complete(45);
        t.complete(48);
        // Those released at 0 and 10 are late, that of 40 is in time; those of 20 and 30 are none.
        assert_eq!((t.done, t.missed, t.overdue(100)), (3, 2, 0));
    }
}
