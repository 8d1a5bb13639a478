// SPDX-License-Identifier: GPL-2.0-only
//! The guest kernel in motion: interrupts, choice of threads, idling.

use super::Machine;
use crate::engine::{NEVER, What};
use crate::guest::{Body, NET, OTHER, TICK, Vcpu};
use takt_policy::{Source, State};

/// What the policy is told of an interrupt.
fn source(bit: u8) -> Source {
    match bit {
        NET => Source::Io,
        TICK => Source::Timer,
        _ => Source::Other,
    }
}

impl Machine<'_> {
    /// Raises an interrupt of VCPU `v` on behalf of PCPU `own`: its pending bit, `event` on the edge, and the wake that a
    /// blocked VCPU needs (rule C5). A VCPU in execution takes it at once.
    pub(crate) fn interrupt(&mut self, v: u32, bit: u8, own: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        if vcpu.pending & bit != 0 || vcpu.state == State::Absent {
            return;
        }
        vcpu.pending |= bit;
        let n = vcpu.pool;
        self.observe.event(self.now, v, source(bit));
        let res = self.pools[n].pool.event(self.now, v, source(bit));
        self.apply(n, res, own, "event", v);
        self.observe.promoted(self.now, v, &self.pools[n].pool);
        let vcpu = &mut self.vcpus[v as usize];
        if vcpu.idle {
            vcpu.idle = false;
            let queued = vcpu.state == State::Blocked;
            if queued {
                vcpu.state = State::Queued;
            }
            self.observe.wake(self.now, v);
            let res = self.pools[n].pool.wake(self.now, v, source(bit));
            self.apply(n, res, own, "wake", v);
            if queued {
                self.observe.enqueued(self.now, v, &self.pools[n].pool);
            }
        } else if vcpu.state == State::Running {
            vcpu.advance(self.now);
            self.take_interrupts(v);
            self.run_guest(v);
        }
    }

    /// A timer of VCPU `v`'s guest expires.
    pub(crate) fn expire(&mut self, v: u32) {
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// Wakes thread `t` of VCPU `v` from PCPU `cpu`: a wake within the VCPU that runs there, else
    /// an IPI, which is no I/O.
    pub(crate) fn signal(&mut self, v: u32, t: u8, cpu: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        if vcpu.state == State::Running && vcpu.pcpu == cpu {
            vcpu.wake_thread(t);
        } else {
            self.interrupt(v, OTHER, cpu);
        }
    }

    /// What thread `t` of VCPU `v` waits for, spinning, has come. It sees that when it runs: at once, or as soon as its VCPU does.
    pub(crate) fn end_spin(&mut self, v: u32, t: u8) {
        let vcpu = &mut self.vcpus[v as usize];
        let running = vcpu.state == State::Running && vcpu.current == Some(t);
        if running {
            vcpu.advance(self.now);
        }
        vcpu.threads[usize::from(t)].left = 0;
        if running {
            self.run_guest(v);
        }
    }

    /// The VCPU in execution handles what is pending.
    fn take_interrupts(&mut self, v: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        let pending = std::mem::take(&mut vcpu.pending);
        if pending & TICK != 0 {
            vcpu.overhead += self.c.tick;
        }
        for bit in [NET, OTHER] {
            if pending & bit == 0 {
                continue;
            }
            vcpu.overhead += self.c.irq;
            for t in 0..vcpu.threads.len() {
                let thread = &vcpu.threads[t];
                let woken = match thread.body {
                    Body::Spin => bit == OTHER,
                    Body::Serve(_) | Body::Netback(_) => bit == NET,
                    Body::Program(kind, n) => self.programs.wakes(kind, n, bit),
                    Body::Jobs(_) => bit == OTHER && thread.jobs > 0,
                };
                if woken {
                    vcpu.wake_thread(t as u8);
                }
            }
        }
    }

    /// The VCPU has come onto its PCPU, or goes on after a decision in its favour.
    pub(crate) fn resume_guest(&mut self, v: u32) {
        self.vcpus[v as usize].since = self.now;
        if self.vcpus[v as usize].pending != 0 {
            self.take_interrupts(v);
        }
        self.vcpus[v as usize].spins_on();
        self.run_guest(v);
    }

    /// Picks a thread if there is none, and sets the PCPU's completion timer; without any work the VCPU idles.
    pub(crate) fn run_guest(&mut self, v: u32) {
        while self.vcpus[v as usize].current.is_none() && !self.vcpus[v as usize].ready.is_empty() {
            let vcpu = &mut self.vcpus[v as usize];
            let t = vcpu.ready.remove(0);
            vcpu.current = Some(t);
            let thread = &mut vcpu.threads[usize::from(t)];
            if thread.slice == 0 {
                thread.slice = self.c.rr;
            }
            vcpu.spins_on();
            let busy = self.vcpus[v as usize].threads[usize::from(t)].busy;
            if !busy && !self.begin_unit(v, t) {
                let vcpu = &mut self.vcpus[v as usize];
                vcpu.threads[usize::from(t)].ready = false;
                vcpu.current = None;
            }
        }
        let vcpu = &mut self.vcpus[v as usize];
        let cpu = vcpu.pcpu;
        let left = vcpu.until_done();
        if vcpu.current.is_none() && left == 0 {
            vcpu.idle = true;
            vcpu.tick.cancel();
            self.pcpus[cpu as usize].done.cancel();
            self.request_schedule(cpu, self.now);
            return;
        }
        if vcpu.tick.when() == NEVER && vcpu.pending & TICK == 0 && self.c.hz > 0 {
            let gap = 1_000_000_000_000 / self.c.hz;
            let since = self.now.checked_sub(vcpu.tick_phase);
            let next = since.map_or(vcpu.tick_phase, |since| since / gap * gap + gap + vcpu.tick_phase);
            vcpu.tick.set(&mut self.queue, next, What::Tick, v);
        }
        let when = self.now.saturating_add(left);
        self.pcpus[cpu as usize].done.set(&mut self.queue, when, What::Done, cpu);
    }

    /// The completion timer of a PCPU: a unit of work is complete, or a round-robin slice over.
    pub(crate) fn guest_done(&mut self, v: u32) {
        let vcpu = &mut self.vcpus[v as usize];
        vcpu.advance(self.now);
        if let Some(t) = vcpu.current {
            let contended = vcpu.contended();
            let thread = &mut vcpu.threads[usize::from(t)];
            if thread.body != Body::Spin && thread.left == 0 {
                thread.busy = false;
                self.complete_unit(v, t);
                // What completed may have kicked, woken or interrupted anything but this thread.
                if self.vcpus[v as usize].current == Some(t) && !self.begin_unit(v, t) {
                    let vcpu = &mut self.vcpus[v as usize];
                    vcpu.threads[usize::from(t)].ready = false;
                    vcpu.current = None;
                }
            } else if contended && thread.slice == 0 {
                vcpu.current = None;
                vcpu.enqueue(t, false);
            }
        }
        self.run_guest(v);
    }

    /// A guest's timer tick.
    pub(crate) fn guest_tick(&mut self, v: u32) {
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, TICK, own);
    }

    /// A timer or daemon has work for VCPU `v`.
    pub(crate) fn housekeeping(&mut self, v: u32) {
        if self.vcpus[v as usize].state == State::Absent {
            return;
        }
        let Some(gap) = self.housekeeping[v as usize].as_mut().map(|h| h.next()) else { return };
        self.queue.push(self.now + gap, What::Housekeeping, v);
        let vcpu: &mut Vcpu = &mut self.vcpus[v as usize];
        let own = vcpu.pcpu;
        for thread in &mut vcpu.threads {
            if matches!(thread.body, Body::Jobs(_)) {
                thread.jobs += 1;
            }
        }
        self.interrupt(v, OTHER, own);
    }
}
