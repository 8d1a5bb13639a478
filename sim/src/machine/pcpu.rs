// SPDX-License-Identifier: GPL-2.0-only
//! A PCPU: decision, context switch, slice.

use super::Machine;
use crate::engine::{NEVER, What};
use crate::guest::Host;
use crate::timer::Timer;
use takt_policy::{CUR_STOPS, Overhead};

/// What a PCPU is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Offline,
    Idle,
    Switching,
    Running,
}

#[derive(Debug)]
pub(crate) struct Pcpu {
    pub phase: Phase,
    /// VCPU running, or coming.
    pub next: Option<u32>,
    /// VCPU whose context is being saved.
    prev: Option<u32>,
    /// VCPU whose registers are still loaded: going idle and back costs no switch.
    loaded: Option<u32>,
    /// Time up to which the next slice lasts, ns.
    slice_end: u64,
    /// Kicked during a switch.
    again: bool,
    /// Number of the switch under way; one that was broken off has another.
    switch: u32,
    /// Index of its pool.
    pub pool: usize,
    pub llc: u32,
    /// What its calls of `schedule` and its switches between different VCPUs cost in the measured window.
    pub took: Box<Overhead>,
    /// Time VCPUs have run here, ns: its private caches' clock.
    pub run: u64,
    /// Idle, or running, since.
    since: u64,
    pub slice: Timer,
    pub done: Timer,
    pub resched: Timer,
    pub timer: Timer,
}

impl Pcpu {
    pub fn new(llc: u32, pool: usize) -> Self {
        Self {
            phase: Phase::Offline,
            next: None,
            prev: None,
            loaded: None,
            slice_end: NEVER,
            again: false,
            switch: 0,
            pool,
            llc,
            took: Box::default(),
            run: 0,
            since: 0,
            slice: Timer::default(),
            done: Timer::default(),
            resched: Timer::default(),
            timer: Timer::default(),
        }
    }
}

impl Pcpu {
    /// Whether a VCPU runs here, comes, or has its context saved.
    pub fn holds(&self, v: u32) -> bool {
        self.next == Some(v) || self.prev == Some(v)
    }

    /// Whether a switch with this number is the one under way.
    pub fn is_switch(&self, number: u32) -> bool {
        self.switch == number
    }

    /// Forgets what it does: returns what that was, the VCPU that leaves, and the one that runs or comes.
    pub fn stop(&mut self) -> (Phase, Option<u32>, Option<u32>) {
        self.slice.cancel();
        self.done.cancel();
        self.resched.cancel();
        (self.again, self.loaded, self.slice_end) = (false, None, NEVER);
        if self.phase == Phase::Switching {
            self.switch = self.switch.wrapping_add(1);
        }
        (std::mem::replace(&mut self.phase, Phase::Idle), self.prev.take(), self.next.take())
    }
}

impl Machine<'_> {
    /// Asks for a decision on a PCPU.
    #[inline]
    pub(crate) fn request_schedule(&mut self, cpu: u32, when: u64) {
        self.pcpus[cpu as usize].resched.set_earlier(&mut self.queue, when, What::Resched, cpu);
    }

    /// Accounts idle and run time of a PCPU up to now.
    pub(super) fn settle(&mut self, cpu: u32) {
        let p = &mut self.pcpus[cpu as usize];
        let time = self.now - p.since;
        p.since = self.now;
        match p.phase {
            Phase::Idle => self.count.idle += time,
            Phase::Switching => self.count.overhead += time,
            Phase::Running => {
                p.run += time;
                self.llc_run[p.llc as usize] += time;
                if let Some(v) = p.next {
                    self.vcpus[v as usize].advance(self.now);
                    let class = self.pools[p.pool].pool.class(v);
                    self.observe.ran(v, time, class);
                }
            }
            Phase::Offline => (),
        }
    }

    /// What the VCPU on this PCPU was doing is complete.
    pub(super) fn pcpu_done(&mut self, cpu: u32) {
        let p = &self.pcpus[cpu as usize];
        if let (Phase::Running, Some(v)) = (p.phase, p.next) {
            self.guest_done(v);
        }
    }

    /// A decision: the present VCPU goes on, or a context switch begins.
    pub(super) fn schedule(&mut self, cpu: u32) {
        let p = &mut self.pcpus[cpu as usize];
        // Whoever asked later is served by this decision.
        p.resched.cancel();
        p.slice.cancel();
        if p.phase == Phase::Switching {
            p.again = true;
            return;
        }
        self.settle(cpu);
        self.count.decisions += 1;
        let p = &mut self.pcpus[cpu as usize];
        p.took.decision.add(self.c.decision);
        let cur = if p.phase == Phase::Running { p.next } else { None };
        let stops = cur.is_some_and(|v| self.vcpus[v as usize].idle);
        let n = p.pool;
        let decided = self.pools[n].pool.schedule(self.now, cpu, if stops { CUR_STOPS } else { 0 });
        let (next, slice) = decided.unwrap_or((None, NEVER));
        self.apply(n, decided.map(|_| ()), cpu, "schedule", cpu);
        if self.refused.is_some() {
            return;
        }
        let end = self.now.saturating_add(slice);
        let p = &mut self.pcpus[cpu as usize];
        if next == cur {
            if let Some(v) = cur {
                p.slice.set(&mut self.queue, end, What::Slice, cpu);
                self.vcpus[v as usize].overhead += self.c.decision;
                self.resume_guest(v);
            }
            return;
        }
        let mut cost = self.c.decision;
        if let Some(v) = next.filter(|_| next != p.loaded) {
            cost += self.c.switch;
            self.count.switches += 1;
            p.took.switch.add(self.c.switch + self.c.resume);
            self.vcpus[v as usize].overhead += self.c.resume;
        }
        p.done.cancel();
        p.phase = Phase::Switching;
        p.prev = cur;
        p.next = next;
        p.slice_end = end;
        self.queue.push_generation(self.now + cost, What::Switched, cpu, p.switch);
        if let Some(v) = cur {
            self.leave(v, cpu);
        }
        if let Some(v) = next {
            let vcpu = &mut self.vcpus[v as usize];
            vcpu.state = Host::Picked;
            self.observe.picked(v, &self.pools[n].pool);
        }
    }

    /// A VCPU's execution stops; its context is still to be saved.
    pub(super) fn leave(&mut self, v: u32, cpu: u32) {
        let p = &self.pcpus[cpu as usize];
        let vcpu = &mut self.vcpus[v as usize];
        vcpu.state = Host::Descheduling;
        vcpu.left_at = Some((p.run, self.llc_run[p.llc as usize]));
        self.observe.stopped(self.now, cpu, v);
    }

    /// A VCPU's context is saved: it queues, or blocks.
    pub(super) fn put(&mut self, v: u32, cpu: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        let (n, runnable) = (vcpu.pool, !vcpu.idle);
        let res = self.pools[n].pool.put(self.now, v, runnable, NEVER);
        vcpu.state = if runnable { Host::Queued } else { Host::Blocked };
        self.apply(n, res, cpu, "put", v);
        if runnable {
            self.observe.enqueued(self.now, v, &self.pools[n].pool);
        }
    }

    /// The old context is saved, the new one loaded.
    pub(super) fn switched(&mut self, cpu: u32) {
        self.settle(cpu);
        let p = &mut self.pcpus[cpu as usize];
        let (prev, next, end) = (p.prev.take(), p.next, p.slice_end);
        p.phase = if next.is_some() { Phase::Running } else { Phase::Idle };
        if next.is_some() {
            p.loaded = next;
        }
        if std::mem::take(&mut p.again) {
            self.request_schedule(cpu, self.now);
        }
        if let Some(v) = prev {
            self.put(v, cpu);
        }
        let Some(v) = next else { return };
        let n = self.pcpus[cpu as usize].pool;
        let res = self.pools[n].pool.started(self.now, v);
        self.apply(n, res, cpu, "started", v);
        self.observe.started(self.now, cpu, v, &self.pools[n].pool);
        self.warm_up(v, cpu);
        self.vcpus[v as usize].state = Host::Running;
        let p = &mut self.pcpus[cpu as usize];
        p.slice.set(&mut self.queue, end.max(self.now), What::Slice, cpu);
        self.resume_guest(v);
    }
}
