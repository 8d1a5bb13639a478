// SPDX-License-Identifier: GPL-2.0-only
//! A VCPU with the guest kernel on it: threads by fixed priority, interrupts before threads, a tick that stops when idle.

use crate::engine::NEVER;
use crate::spec::Kind;
use crate::timer::Timer;
use takt_policy::State;

/// Priorities of threads: those that handle packets run before daemons, those before busy loops.
pub const PRIO_TIMER: u8 = 255;
pub const PRIO_NET: u8 = 50;
pub const PRIO_JOBS: u8 = 40;
pub const PRIO_BATCH: u8 = 10;

/// Interrupt sources of a VCPU: one pending bit each; the 0→1 edge of a bit is what `event` reports.
pub const NET: u8 = 1;
pub const TICK: u8 = 2;
pub const OTHER: u8 = 4;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A busy loop.
    Spin,
    /// Serves the receive ring of vif `.0`, each packet as its workload says.
    Serve(u32),
    /// Dom0: serves NIC queue `.0` and the transmit rings assigned to it.
    Netback(u32),
    /// Program `.1` of workload `.0`.
    Program(Kind, u32),
    /// Timers and daemons: jobs of `.0` ns.
    Jobs(u64),
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub body: Body,
    /// Greater runs first.
    pub prio: u8,
    /// Round robin among its priority, else FIFO.
    pub rr: bool,
    pub ready: bool,
    /// Within a unit of work (a packet, a job).
    pub busy: bool,
    /// Rest of the unit, ns; `NEVER` = until something else ends it.
    pub left: u64,
    /// The unit is a busy wait.
    pub waits: bool,
    /// Rest of its round-robin slice, ns.
    pub slice: u64,
    /// Jobs waiting (`Body::Jobs`).
    pub jobs: u32,
}

impl Thread {
    pub fn new(body: Body, prio: u8, rr: bool) -> Self {
        Self { body, prio, rr, ready: false, busy: false, left: 0, waits: false, slice: 0, jobs: 0 }
    }
}

pub struct Vcpu {
    /// As its host knows it (`docs/states.md`). A VCPU is absent while it is in no pool: before its VM
    /// is created, after its VM is destroyed, and while its VM changes pools. A VCPU that the policy
    /// parks is queued.
    pub state: State,
    /// Index of its pool.
    pub pool: usize,
    /// The guest idles: not runnable until the next interrupt.
    pub idle: bool,
    pub pending: u8,
    /// PCPU that it is picked or running on, or ran on last.
    pub pcpu: u32,

    /// Interrupts, refills and decisions to be paid before the thread goes on, ns.
    pub overhead: u64,
    /// Progress is accounted up to here.
    pub since: u64,
    pub threads: Vec<Thread>,
    /// Ready threads but the current one, in the order they will run.
    pub ready: Vec<u8>,
    pub current: Option<u8>,
    pub tick: Timer,
    /// Offset of its ticks, so that those of different VCPUs do not coincide.
    pub tick_phase: u64,

    /// Time to refill its working set from nothing, ns.
    pub refill: u64,
    /// Run clocks of its PCPU and LLC when it left them; `None` before its first run.
    pub left_at: Option<(u64, u64)>,

    /// Useful time of busy loops and programs, ns: work, if those of the VM are batch work.
    pub work: u64,
    /// Time in busy waits, ns.
    pub spun: u64,
    pub cold: u64,
}

impl Vcpu {
    pub fn new(pcpu: u32, refill: u64) -> Self {
        Self {
            state: State::Absent,
            pool: 0,
            idle: true,
            pending: 0,
            pcpu,
            overhead: 0,
            since: 0,
            threads: Vec::new(),
            ready: Vec::new(),
            current: None,
            tick: Timer::default(),
            tick_phase: 0,
            refill,
            left_at: None,
            work: 0,
            spun: 0,
            cold: 0,
        }
    }

    /// A thread becomes ready: behind those of its priority, or in front of them if it was preempted.
    pub fn enqueue(&mut self, t: u8, front: bool) {
        let prio = self.threads[usize::from(t)].prio;
        let at = self.ready.iter().position(|&o| {
            let other = self.threads[usize::from(o)].prio;
            other < prio || (front && other == prio)
        });
        self.ready.insert(at.unwrap_or(self.ready.len()), t);
    }

    /// Makes a sleeping thread ready; it takes over from a thread of lower priority.
    pub fn wake_thread(&mut self, t: u8) {
        let thread = &mut self.threads[usize::from(t)];
        if thread.ready {
            return;
        }
        thread.ready = true;
        let prio = thread.prio;
        self.enqueue(t, false);
        if let Some(cur) = self.current.filter(|&c| self.threads[usize::from(c)].prio < prio) {
            self.enqueue(cur, true);
            self.current = None;
        }
    }

    /// Accounts the time run since the last call: overheads first, then the current thread.
    pub fn advance(&mut self, now: u64) {
        let mut time = now - self.since;
        self.since = now;
        let paid = time.min(self.overhead);
        self.overhead -= paid;
        time -= paid;
        if time == 0 {
            return;
        }
        let Some(t) = self.current else { return };
        let thread = &mut self.threads[usize::from(t)];
        if thread.body == Body::Spin {
            self.work += time;
        } else {
            if matches!(thread.body, Body::Program(..)) {
                self.work += time.min(thread.left);
            }
            if thread.waits {
                self.spun += time.min(thread.left);
            }
            if thread.left != NEVER {
                thread.left = thread.left.saturating_sub(time);
            }
        }
        thread.slice = thread.slice.saturating_sub(time);
    }

    /// The current thread, if it spins for a lock, looks at it again: it may have become free while the VCPU did something else.
    pub fn spins_on(&mut self) {
        let Some(thread) = self.current.map(|t| &mut self.threads[usize::from(t)]) else { return };
        if thread.waits && thread.left == NEVER {
            thread.left = 0;
        }
    }

    /// Whether the current thread must share with others of its priority.
    pub fn contended(&self) -> bool {
        match (self.current, self.ready.first()) {
            (Some(c), Some(&n)) => {
                let cur = &self.threads[usize::from(c)];
                cur.rr && cur.prio == self.threads[usize::from(n)].prio
            }
            _ => false,
        }
    }

    /// Time until something of the guest's own happens if it runs on, ns.
    pub fn until_done(&self) -> u64 {
        let Some(t) = self.current else { return self.overhead };
        let thread = &self.threads[usize::from(t)];
        let unit = if thread.body == Body::Spin { NEVER } else { thread.left };
        let next = if self.contended() { unit.min(thread.slice) } else { unit };
        next.saturating_add(self.overhead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcpu(threads: &[(u8, bool)]) -> Vcpu {
        let mut v = Vcpu::new(0, 0);
        v.threads = threads.iter().map(|&(prio, rr)| Thread::new(Body::Jobs(0), prio, rr)).collect();
        v
    }

    #[test]
    fn threads_run_by_priority_then_first_come() {
        let mut v = vcpu(&[(1, true), (5, false), (1, true), (5, false)]);
        for t in [0, 3, 2, 1, 3] {
            v.wake_thread(t);
        }
        assert_eq!(v.ready, [3, 1, 0, 2]);
    }

    #[test]
    fn a_preempted_thread_goes_on_before_its_equals() {
        let mut v = vcpu(&[(1, true), (1, true), (5, false)]);
        v.wake_thread(0);
        v.wake_thread(1);
        v.current = Some(v.ready.remove(0));
        v.wake_thread(2);
        assert_eq!((v.current, v.ready.as_slice()), (None, &[2, 0, 1][..]));
    }

    #[test]
    fn overhead_is_paid_before_work() {
        let mut v = vcpu(&[(1, true)]);
        v.threads[0].body = Body::Spin;
        v.current = Some(0);
        v.overhead = 300;
        v.advance(200);
        assert_eq!((v.overhead, v.work), (100, 0));
        v.advance(1000);
        assert_eq!((v.overhead, v.work), (0, 700));
    }
}
