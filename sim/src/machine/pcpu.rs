// SPDX-License-Identifier: GPL-2.0-only
//! A PCPU: decision, context switch, slice.

use super::Machine;
use super::cpu::Phase;
use crate::engine::{NEVER, What};
use takt_policy::{CUR_STOPS, State};

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
            vcpu.state = State::Picked;
            self.observe.picked(v, &self.pools[n].pool);
        }
    }

    /// A VCPU's execution stops; its context is still to be saved.
    pub(super) fn leave(&mut self, v: u32, cpu: u32) {
        let p = &self.pcpus[cpu as usize];
        let vcpu = &mut self.vcpus[v as usize];
        vcpu.state = State::Descheduling;
        vcpu.left_at = Some((p.run, self.llc_run[p.llc as usize]));
        self.observe.stopped(self.now, cpu, v);
    }

    /// A VCPU's context is saved: it queues, or blocks.
    pub(super) fn put(&mut self, v: u32, cpu: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        let (n, runnable) = (vcpu.pool, !vcpu.idle);
        let res = self.pools[n].pool.put(self.now, v, runnable, NEVER);
        vcpu.state = if runnable { State::Queued } else { State::Blocked };
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
        self.vcpus[v as usize].state = State::Running;
        let p = &mut self.pcpus[cpu as usize];
        p.slice.set(&mut self.queue, end.max(self.now), What::Slice, cpu);
        self.resume_guest(v);
    }
}
