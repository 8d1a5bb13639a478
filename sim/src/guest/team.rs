// SPDX-License-Identifier: GPL-2.0-only
//! A parallel program in motion: threads that compute, enter critical sections under one spin lock
//! and meet at barriers (rule P42, docs/scenarios.md).
//!
//! The lock is a plain one: when it becomes free, it goes to the thread that came first of those
//! that spin *and run*. With tickets, the next thread in line would get it even while its VCPU
//! waits for a PCPU, which makes everything worse wherever VCPUs run apart. The plain lock is the
//! one that favours scheduling VCPUs together least. A thread that spins burns its VCPU's time, and
//! nothing reports this to the hypervisor.

use super::{Host, OTHER};
use crate::engine::NEVER;
use crate::machine::Machine;
use crate::parallel::Plan;
use crate::rng::Rng;

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Computes, up to its next critical section or the end of the iteration.
    Compute,
    /// Spins for the lock.
    Lock,
    /// In the critical section.
    Held,
    /// Spins at the barrier.
    Barrier,
    /// Sleeps at the barrier, as in a futex.
    Asleep,
    /// The last one has come: it goes on.
    Passed,
    Done,
}

/// A thread of a parallel program.
#[derive(Debug)]
pub struct Member {
    pub team: u32,
    pub vcpu: u32,
    /// Number among the threads of its VCPU.
    thread: u8,
    phase: Phase,
    rng: Rng,
    /// What it computes before its next critical section, ns.
    part: u64,
    /// Critical sections to come in this iteration.
    locks: u32,
    iterations: u32,
}

/// The threads of a VM, their lock and their barrier.
#[derive(Debug)]
pub struct Team {
    plan: Plan,
    spin: u64,
    /// Iterations of each thread; 0 = without end.
    work: u32,
    /// Its members are consecutive.
    first: u32,
    pub threads: u32,
    locked: bool,
    /// Those that spin for the lock, in the order they came.
    waiting: Vec<u32>,
    /// How many wait at the barrier.
    arrived: u32,
    finished: u32,
    /// When the first thread began and the last one ended.
    pub began: Option<u64>,
    pub ended: Option<u64>,
    /// In the measured window: iterations of all threads, barriers that were passed, how often a thread slept at one.
    pub iterations: u64,
    pub barriers: u64,
    pub sleeps: u64,
}

impl Team {
    pub fn new(plan: Plan, spin: u64, work: u32, first: u32, threads: u32) -> Self {
        Self {
            plan,
            spin,
            work,
            first,
            threads,
            locked: false,
            waiting: Vec::new(),
            arrived: 0,
            finished: 0,
            began: None,
            ended: None,
            iterations: 0,
            barriers: 0,
            sleeps: 0,
        }
    }

    /// Figures start from nothing.
    pub fn reset(&mut self) {
        (self.iterations, self.barriers, self.sleeps) = (0, 0, 0);
    }

    /// Iterations of each thread, if they end.
    pub fn work(&self) -> Option<u32> {
        (self.work > 0).then_some(self.work)
    }
}

impl Member {
    pub fn new(team: u32, vcpu: u32, thread: u8, rng: Rng) -> Self {
        Self { team, vcpu, thread, phase: Phase::Passed, rng, part: 0, locks: 0, iterations: 0 }
    }

    /// Whether an interrupt may make it run.
    pub fn is_ready(&self) -> bool {
        !matches!(self.phase, Phase::Asleep | Phase::Done)
    }

    /// Another iteration: its work is cut into equal parts, each followed by a critical section.
    fn begin(&mut self, plan: &Plan) {
        let width = plan.compute / 100 * u64::from(plan.spread);
        let compute = plan.compute - width + self.rng.below(2 * width + 1);
        self.locks = plan.locks;
        self.part = (compute / u64::from(plan.locks.max(1))).max(1);
        self.phase = Phase::Compute;
    }
}

impl Machine<'_> {
    /// What thread `n` does next, and whether it only waits then; `None` if it sleeps.
    pub(super) fn team_next(&mut self, n: u32) -> Option<(u64, bool)> {
        let member = &mut self.members[n as usize];
        let team = &mut self.teams[member.team as usize];
        match member.phase {
            Phase::Passed => {
                team.began.get_or_insert(self.now);
                member.begin(&team.plan);
                Some((member.part, false))
            }
            Phase::Compute => Some((member.part, false)),
            Phase::Lock if team.locked => {
                if !team.waiting.contains(&n) {
                    team.waiting.push(n);
                }
                Some((NEVER, true))
            }
            Phase::Lock => {
                team.waiting.retain(|&w| w != n);
                team.locked = true;
                member.phase = Phase::Held;
                Some((team.plan.held, false))
            }
            Phase::Held => Some((team.plan.held, false)),
            Phase::Barrier if team.spin > 0 => Some((team.spin, true)),
            Phase::Barrier => {
                member.phase = Phase::Asleep;
                team.sleeps += 1;
                None
            }
            Phase::Asleep | Phase::Done => None,
        }
    }

    /// Thread `n` on PCPU `cpu` has done what it was at.
    pub(super) fn team_done(&mut self, n: u32, cpu: u32) {
        let member = &mut self.members[n as usize];
        let team = &mut self.teams[member.team as usize];
        match member.phase {
            Phase::Compute if member.locks > 0 => member.phase = Phase::Lock,
            Phase::Compute => self.iterated(n, cpu),
            Phase::Held => {
                member.locks -= 1;
                member.phase = Phase::Compute;
                team.locked = false;
                let (last, waiting) = (member.locks == 0, team.waiting.clone());
                waiting.into_iter().for_each(|w| self.look(w));
                if last {
                    self.iterated(n, cpu);
                }
            }
            // It has spun for long enough.
            Phase::Barrier => {
                member.phase = Phase::Asleep;
                team.sleeps += 1;
            }
            Phase::Lock | Phase::Passed | Phase::Asleep | Phase::Done => (),
        }
    }

    /// Thread `n` has come to the end of an iteration.
    fn iterated(&mut self, n: u32, cpu: u32) {
        let member = &mut self.members[n as usize];
        let team = &mut self.teams[member.team as usize];
        member.iterations += 1;
        team.iterations += 1;
        if !team.plan.barrier {
            return self.pass(n);
        }
        team.arrived += 1;
        if team.arrived < team.threads {
            member.phase = Phase::Barrier;
            return;
        }
        team.arrived = 0;
        team.barriers += 1;
        for other in team.first..team.first + team.threads {
            let (asleep, v, t) = {
                let m = &self.members[other as usize];
                (m.phase == Phase::Asleep, m.vcpu, m.thread)
            };
            self.pass(other);
            if other == n {
                continue;
            }
            if asleep {
                self.signal(v, t, cpu);
            } else {
                self.look(other);
            }
        }
    }

    /// Thread `n` goes on to its next iteration, or has done its work.
    fn pass(&mut self, n: u32) {
        let member = &mut self.members[n as usize];
        let team = &mut self.teams[member.team as usize];
        member.phase = Phase::Passed;
        if team.work().is_some_and(|work| member.iterations >= work) {
            member.phase = Phase::Done;
            team.finished += 1;
            if team.finished == team.threads {
                team.ended = Some(self.now);
            }
        }
    }

    /// What thread `n` spins for may be there. It sees that when it runs: at once, or as soon as its VCPU does.
    fn look(&mut self, n: u32) {
        let Member { vcpu: v, thread: t, phase, .. } = self.members[n as usize];
        let vcpu = &mut self.vcpus[v as usize];
        let running = vcpu.state == Host::Running && vcpu.current == Some(t);
        if running {
            vcpu.advance(self.now);
        }
        // Who spins for the lock and does not run looks again when it does (`spins_on`).
        if running || phase != Phase::Lock {
            vcpu.threads[usize::from(t)].left = 0;
        }
        if running {
            self.run_guest(v);
        }
    }

    /// Wakes thread `t` of VCPU `v` from PCPU `cpu`: a wake within the VCPU that runs there, else an IPI, which is no I/O.
    pub(super) fn signal(&mut self, v: u32, t: u8, cpu: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        if vcpu.state == Host::Running && vcpu.pcpu == cpu {
            vcpu.wake_thread(t);
        } else {
            self.interrupt(v, OTHER, cpu);
        }
    }
}
