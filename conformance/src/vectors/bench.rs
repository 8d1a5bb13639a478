// SPDX-License-Identifier: GPL-2.0-only
//! A hand-operated host for the worked examples.

use crate::core::{Core, Maker};
use takt_policy::{CUR_STOPS, Class, FORCE_IDLE, NEVER, NIL, Op, OpCode, Res, State};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const OTHER: u64 = 0;
pub const IO: u64 = 1;
pub const TIMER: u64 = 2;

/// A pool on whose PCPUs the example starts and stops VCPUs; times are ns.
pub struct Bench {
    pub core: Box<dyn Core>,
    cur: [Option<u32>; 64],
    /// PCPUs that were kicked and have not decided since, and when each one's slice ends.
    kicked: u64,
    slice_end: [u64; 64],
}

impl Bench {
    /// `cpus` PCPUs at time 0; VM 0 is Dom0, VMs 1 to `guests` have weight 256 and no VCPU yet.
    pub fn new(make: &Maker, policy: &str, cpus: u16, guests: u16) -> Self {
        let core = make(policy).expect("a pool");
        let mut b = Self { core, cur: [None; 64], kicked: 0, slice_end: [NEVER; 64] };
        for c in 0..cpus {
            b.ok(0, OpCode::CpuAdd, (c, 0, 0), [c.into(), 0, 0]);
        }
        for vm in 0..=guests {
            b.ok(0, OpCode::VmAdd, (0, 0, vm), [if vm == 0 { 2 } else { 0 }, 256, 0]);
        }
        b
    }

    /// One operation on (PCPU, VCPU, VM).
    pub fn op(&mut self, now: u64, code: OpCode, at: (u16, u16, u16), arg: [u64; 3]) -> Res {
        let arg = [arg[0], arg[1], arg[2], 0];
        let res = self.core.op(Op { seq: 0, now, op: code as u16, cpu: at.0, vcpu: at.1, vm: at.2, arg });
        self.kicked |= res.kick;
        if code == OpCode::CpuRemove && res.ret == 0 {
            self.kicked &= !(1 << at.0);
        }
        res
    }
    pub fn ok(&mut self, now: u64, code: OpCode, at: (u16, u16, u16), arg: [u64; 3]) -> Res {
        let res = self.op(now, code, at, arg);
        assert_eq!(res.ret, 0, "{code:?} {at:?} {arg:?}");
        res
    }

    /// Adds VCPU `v` to `vm` with its home on `cpu`.
    pub fn vcpu(&mut self, v: u16, vm: u16, cpu: u16) {
        self.ok(0, OpCode::VcpuAdd, (cpu, v, vm), [if vm == 0 { 2 } else { 0 }, 0, 0]);
    }
    /// Sets a parameter by name, of the pool or of a VM.
    pub fn set(&mut self, now: u64, vm: Option<u16>, name: &str, value: u64) -> Res {
        let key = takt_policy::param(name, vm.is_some()).expect("a parameter").key;
        self.op(now, OpCode::Adjust, (0, 0, vm.unwrap_or(NIL as u16)), [key.into(), value, 0])
    }
    /// Gives a VM servers; all three parameters have to be accepted.
    pub fn server(&mut self, now: u64, vm: u16, budget: u64, period: u64, priority: u64) {
        for (name, value) in [("budget", 0), ("priority", priority), ("period", period), ("budget", budget)] {
            assert_eq!(self.set(now, Some(vm), name, value).ret, 0, "{name} of VM {vm}");
        }
    }
    /// Where the operator lets a VCPU run.
    pub fn pin(&mut self, now: u64, v: u16, mask: u64) {
        self.ok(now, OpCode::SetAffinity, (0, v, 0), [0, mask, 0]);
    }
    /// The monitor's report for ever.
    pub fn rt(&mut self, now: u64, vm: u16, period: u64) {
        self.ok(now, OpCode::SetRt, (0, 0, vm), [1, period, NEVER]);
    }
    pub fn wake(&mut self, now: u64, v: u16) -> Res {
        self.ok(now, OpCode::Wake, (0, v, 0), [OTHER, 0, 0])
    }
    pub fn event(&mut self, now: u64, v: u16, source: u64) -> Res {
        self.ok(now, OpCode::Event, (0, v, 0), [source, 0, 0])
    }
    pub fn timer(&mut self, now: u64, cpu: u16) -> Res {
        self.ok(now, OpCode::TimerCpu, (cpu, 0, 0), [0; 3])
    }
    pub fn account(&mut self, now: u64) -> Res {
        self.ok(now, OpCode::TimerPool, (0, 0, 0), [0; 3])
    }

    /// A decision on `cpu` with all that follows: what was there goes back to the queue, what comes starts.
    pub fn turn(&mut self, now: u64, cpu: u16) -> Option<u32> {
        self.decide(now, cpu, 0, true).0
    }
    /// As [`Self::turn`], with the slice.
    pub fn turn_slice(&mut self, now: u64, cpu: u16) -> (Option<u32>, u64) {
        self.decide(now, cpu, 0, true)
    }
    /// What runs on `cpu` blocks; what runs then.
    pub fn stop(&mut self, now: u64, cpu: u16) -> Option<u32> {
        self.decide(now, cpu, CUR_STOPS, false).0
    }

    /// `cpu` has to idle, whatever is queued; what ran there is queued as well.
    pub fn idle(&mut self, now: u64, cpu: u16) {
        assert_eq!(self.decide(now, cpu, FORCE_IDLE, true).0, None);
    }
    /// Who runs on an idle `cpu` one after the other if each blocks at once.
    pub fn order(&mut self, now: u64, cpu: u16) -> Vec<u32> {
        let first = self.turn(now, cpu);
        std::iter::successors(first, |_| self.stop(now, cpu)).collect()
    }

    fn decide(&mut self, now: u64, cpu: u16, flags: u64, runnable: bool) -> (Option<u32>, u64) {
        let old = self.cur[usize::from(cpu)];
        self.kicked &= !(1 << cpu);
        let res = self.ok(now, OpCode::Schedule, (cpu, 0, 0), [flags, 0, 0]);
        let next = (res.next != NIL).then_some(res.next);
        self.slice_end[usize::from(cpu)] = now.saturating_add(res.slice);
        if next != old {
            self.cur[usize::from(cpu)] = next;
            if let Some(v) = old {
                self.ok(now, OpCode::Put, (0, v as u16, 0), [runnable.into(), NEVER, 0]);
            }
            if let Some(v) = next {
                self.ok(now, OpCode::Started, (0, v as u16, 0), [0; 3]);
            }
        }
        (next, res.slice)
    }

    /// Its host takes what runs on `cpu` off, which has no work any more and ran `ran` ns; nothing else runs there.
    pub fn off(&mut self, now: u64, cpu: u16, ran: u64) -> Res {
        let v = self.cur[usize::from(cpu)].take().expect("a VCPU that runs");
        self.ok(now, OpCode::Put, (0, v as u16, 0), [0, ran, 0]);
        self.ok(now, OpCode::Schedule, (cpu, 0, 0), [0; 3])
    }

    /// All that a host owes at `now`: timers first, then decisions where one was asked for or a slice is over.
    pub fn serve(&mut self, now: u64) {
        for _ in 0..1_000 {
            let timer = |b: &Self, c: u16| b.core.cpu_timer(c.into()) <= now;
            let decision = |b: &Self, c: u16| b.kicked >> c & 1 == 1 || b.slice_end[usize::from(c)] <= now;
            if self.core.pool_timer() <= now {
                self.account(now);
            } else if let Some(c) = (0..64).find(|&c| timer(self, c)) {
                self.timer(now, c);
            } else if let Some(c) = (0..64).find(|&c| decision(self, c)) {
                self.turn(now, c);
            } else {
                return;
            }
        }
        panic!("no end of it at {now}");
    }
    /// Serves from `from` on until before `to`, in steps of `step`: who runs on `cpu` in each, '.' nobody.
    pub fn watch(&mut self, cpu: u16, from: u64, to: u64, step: u64) -> String {
        let who = |b: &Self| b.cur[usize::from(cpu)].map_or('.', |v| char::from_digit(v % 10, 10).unwrap_or('?'));
        let steps = (from..to).step_by(step as usize);
        steps.map(|now| (self.serve(now), who(self)).1).collect()
    }

    /// Wakes `v` on an idle `cpu`, runs it from `from` to `to`, and blocks it again.
    pub fn run(&mut self, v: u16, cpu: u16, from: u64, to: u64) {
        self.wake(from, v);
        assert_eq!(self.turn(from, cpu), Some(v.into()), "an idle PCPU runs what wakes");
        self.stop(to, cpu);
    }

    pub fn class(&self, v: u16) -> Class {
        self.core.class(v.into())
    }
    pub fn credit(&self, v: u16) -> i32 {
        self.core.credit(v.into())
    }
    pub fn state(&self, v: u16) -> State {
        self.core.state(v.into())
    }
    pub fn deadline(&self, v: u16) -> u64 {
        self.core.deadline(v.into())
    }
}
