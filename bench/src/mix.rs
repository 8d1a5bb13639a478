// SPDX-License-Identifier: GPL-2.0-only
//! A busy pool on some PCPUs and hosts that feed it: what the decisions are measured on.
//!
//! A [`Feeder`] plays the host for some of the PCPUs: it obeys kicks, slices and timers, and between them VCPUs block, wake and
//! get I/O events at random. It knows VCPUs only by what the policy hands it, so several can share one pool.

use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use takt_control::PolicySpec;
use takt_policy::{CUR_STOPS, Kind, NEVER, NIL, NVM, Op, OpCode, Pool, Res, Source, params};

/// Policies, where they are not what is varied.
pub const POLICIES: [&str; 2] = ["credit", "doris"];
/// PCPUs, where their number is not what is varied.
pub const PCPUS: usize = 8;
/// Mean simulated time between operations about a PCPU, ns: 6,250 operations per second.
const STEP: u64 = 160_000;
/// What servers may take of the PCPUs together, and each of one, in percent.
const SERVED: u64 = 60;
const SERVED_EACH: u64 = 50;

/// VM number of a VCPU: Dom0 is 0 and has up to eight, every other VM has four.
fn vm_of(v: u32, dom0: u32) -> u32 {
    if v < dom0 { 0 } else { 1 + (v - dom0) / 4 }
}

/// A pool and what its hosts share under its lock.
pub struct Shared<const N: usize> {
    pub pool: Pool,
    now: u64,
    kicks: u64,
    armed: u64,
}

/// What a host learns from an operation while it holds the lock.
pub struct Answer<const N: usize> {
    res: Res,
    now: u64,
    /// Its PCPUs that shall decide.
    kicks: u64,
    /// Its PCPUs whose timer changed, and to what.
    armed: u64,
    timers: [u64; N],
}

/// Every PCPU of so many.
fn all(pcpus: usize) -> u64 {
    u64::MAX >> (64 - pcpus)
}

impl<const N: usize> Shared<N> {
    /// `vcpus` VCPUs: Dom0, and by turns a hog VM, a VM that blocks and wakes, and a real-time one, which has a server where the policy
    /// has such.
    ///
    /// # Errors
    /// The policy is unknown, or the core refuses something.
    pub fn new(policy: &str, vcpus: u32) -> Result<Self> {
        let spec = PolicySpec::parse(policy)?;
        let refused = |e: takt_policy::Error| anyhow!("{policy}, {N} PCPUs, {vcpus} VCPUs: {e}");
        let mut pool = Pool::new(&spec.name).with_context(|| format!("no policy {}", spec.name))?;
        let dom0 = (vcpus / 4).min(8);
        // As many real-time VMs as there are.
        let rt_max = params().into_iter().find(|p| p.name == "rt_max").map(|p| (p.key, u64::from(NVM)));
        for (key, value) in rt_max.into_iter().chain(spec.params) {
            pool.adjust(0, NIL, key, value).map_err(refused)?;
        }
        for cpu in 0..N as u32 {
            pool.cpu_add(0, cpu, cpu, cpu / 4, 0).map_err(refused)?;
        }
        for v in 0..vcpus {
            let vm = vm_of(v, dom0);
            let kind = if vm == 0 { Kind::Host } else { Kind::Guest };
            if v == 0 || vm != vm_of(v - 1, dom0) {
                pool.vm_add(0, vm, kind, 256).map_err(refused)?;
                if vm % 3 == 2 {
                    pool.set_rt(0, vm, true, 20_000_000, NEVER).map_err(refused)?;
                }
            }
            pool.vcpu_add(0, v, vm, v % N as u32, kind).map_err(refused)?;
        }
        let mut shared = Self { pool, now: 0, kicks: all(N), armed: all(N) };
        if takt_policy::has(&spec.name, "budgets") {
            shared.serve(vcpus, dom0).map_err(refused)?;
        }
        Ok(shared)
    }

    /// Gives the real-time VMs servers: equal shares, periods of 5 to 40 ms, priorities in no order.
    fn serve(&mut self, vcpus: u32, dom0: u32) -> takt_policy::Result<()> {
        let key = |name: &str| params().into_iter().find(|p| p.per_vm && p.name == name).map_or(NIL, |p| p.key);
        let (budget, period, priority) = (key("budget"), key("period"), key("priority"));
        let served = (0..vcpus).filter(|&v| vm_of(v, dom0) % 3 == 2).count() as u64;
        // In millionths of a PCPU.
        let share = (SERVED * N as u64 * 10_000).checked_div(served).unwrap_or(0).min(SERVED_EACH * 10_000);
        let vms = vcpus.checked_sub(1).map_or(0, |last| vm_of(last, dom0) + 1);
        for vm in (2..vms).step_by(3) {
            let ns = 5_000_000 + u64::from(vm) * 7 % 36 * 1_000_000;
            self.pool.adjust(0, vm, period, ns)?;
            self.pool.adjust(0, vm, budget, ns / 1_000_000 * share)?;
            self.pool.adjust(0, vm, priority, 1 + u64::from(vm) * 31 % 97)?;
        }
        Ok(())
    }

    /// Performs `op` a moment later and hands out what concerns the PCPUs in `mine`.
    pub fn call(&mut self, mut op: Op, after: u64, mine: u64) -> Answer<N> {
        self.now += after;
        op.now = self.now;
        let res = self.pool.op(op);
        self.kicks |= res.kick;
        self.armed |= res.armed;
        let (kicks, armed) = (self.kicks & mine, self.armed & mine);
        self.kicks &= !mine;
        self.armed &= !mine;
        let mut timers = [NEVER; N];
        for cpu in bits(armed) {
            timers[cpu as usize] = self.pool.cpu_timer(cpu);
        }
        Answer { res, now: self.now, kicks, armed, timers }
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let cpu = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (cpu < 64).then_some(cpu)
    })
}

#[derive(Clone, Copy)]
struct Pcpu {
    cur: u32,
    slice_end: u64,
    timer: u64,
}

/// The host of some PCPUs.
pub struct Feeder<const N: usize> {
    rng: fastrand::Rng,
    mine: u64,
    /// Whether it looks after the pool's timer, too.
    first: bool,
    vcpus: u32,
    dom0: u32,
    pcpu: [Pcpu; N],
    kicks: u64,
    now: u64,
    pool_timer: u64,
    blocked: Vec<u32>,
    todo: VecDeque<Op>,
}

impl<const N: usize> Feeder<N> {
    /// Number `n` of `of` feeders, which share PCPUs and sleeping VCPUs evenly.
    pub fn new(vcpus: u32, n: u32, of: u32, seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed.wrapping_mul(64) + u64::from(n)),
            mine: (0..N as u32).filter(|c| c % of == n).map(|c| 1 << c).sum(),
            first: n == 0,
            vcpus,
            dom0: (vcpus / 4).min(8),
            pcpu: [Pcpu { cur: NIL, slice_end: NEVER, timer: NEVER }; N],
            kicks: 0,
            now: 0,
            pool_timer: NEVER,
            blocked: (0..vcpus).filter(|v| v % of == n).collect(),
            todo: VecDeque::new(),
        }
    }

    /// One operation through `call`, which is [`Shared::call`] under whatever lock; false if there was nothing to do.
    pub fn step(&mut self, call: impl FnOnce(Op, u64, u64) -> Answer<N>) -> bool {
        if self.todo.is_empty() {
            self.choose();
        }
        // What belongs to one event follows at once.
        let after = if self.todo.len() > 1 { 0 } else { self.rng.u64(0..2 * STEP / N as u64) };
        let Some(op) = self.todo.pop_front() else { return false };
        let answer = call(op, after, self.mine);
        self.learn(&op, &answer);
        true
    }

    fn learn(&mut self, op: &Op, a: &Answer<N>) {
        self.now = a.now;
        self.kicks |= a.kicks;
        self.pool_timer = a.res.pool_timer;
        for cpu in bits(a.armed) {
            self.pcpu[cpu as usize].timer = a.timers[cpu as usize];
        }
        if op.op != OpCode::Schedule as u16 || a.res.ret < 0 {
            return;
        }
        let c = &mut self.pcpu[usize::from(op.cpu)];
        let (old, next) = (c.cur, a.res.next);
        c.cur = next;
        c.slice_end = a.now.saturating_add(a.res.slice);
        if old != next && old != NIL {
            let stops = op.arg[0] & CUR_STOPS != 0;
            if stops {
                self.blocked.push(old);
            }
            self.push(OpCode::Put, 0, old, [u64::from(!stops), NEVER]);
        }
        if old != next && next != NIL {
            self.push(OpCode::Started, 0, next, [0; 2]);
        }
    }

    fn push(&mut self, code: OpCode, cpu: u32, vcpu: u32, arg: [u64; 2]) {
        self.todo.push_back(Op {
            op: code as u16,
            cpu: cpu as u16,
            vcpu: vcpu as u16,
            arg: [arg[0], arg[1], 0, 0],
            ..Op::default()
        });
    }

    /// The next operations: what is due, else something of the VCPUs.
    fn choose(&mut self) {
        if self.first && self.pool_timer <= self.now {
            return self.push(OpCode::TimerPool, 0, 0, [0; 2]);
        }
        for cpu in bits(self.mine) {
            let c = self.pcpu[cpu as usize];
            if c.timer <= self.now {
                // It has fired; the answer tells when the next one is due.
                self.pcpu[cpu as usize].timer = NEVER;
                return self.push(OpCode::TimerCpu, cpu, 0, [0; 2]);
            }
            if self.kicks & 1 << cpu != 0 || c.slice_end <= self.now {
                self.kicks &= !(1 << cpu);
                return self.push(OpCode::Schedule, cpu, 0, [0; 2]);
            }
        }
        let real_time = self.vcpus.checked_sub(1).map_or(0, |last| (vm_of(last, self.dom0) + 1) / 3);
        match self.rng.u32(0..100) {
            0..45 if !self.blocked.is_empty() => {
                let v = self.blocked.swap_remove(self.rng.usize(0..self.blocked.len()));
                if self.rng.bool() {
                    self.push(OpCode::Event, 0, v, [Source::Io as u64, 0]);
                }
                self.push(OpCode::Wake, 0, v, [Source::Io as u64, 0]);
            }
            45..85 => self.stop_one(),
            85..87 if real_time > 0 => {
                let vm = self.rng.u32(0..real_time) * 3 + 2;
                let period = self.rng.u64(5..40) * 1_000_000;
                self.push(OpCode::SetRt, 0, 0, [1, period]);
                if let Some(op) = self.todo.back_mut() {
                    (op.vm, op.arg[2]) = (vm as u16, NEVER);
                }
            }
            87..89 => {
                let running = self.pcpu[self.own_pcpu() as usize].cur;
                if running != NIL {
                    self.push(OpCode::Yield, 0, running, [NIL.into(), 0]);
                }
            }
            _ => {
                let v = self.rng.u32(0..self.vcpus);
                self.push(OpCode::Event, 0, v, [Source::Io as u64, 0]);
            }
        }
    }

    fn own_pcpu(&mut self) -> u32 {
        let nth = self.rng.usize(0..self.mine.count_ones() as usize);
        bits(self.mine).nth(nth).unwrap_or(0)
    }

    /// A running VCPU goes to sleep, unless it is a hog's.
    fn stop_one(&mut self) {
        let cpu = self.own_pcpu();
        let running = self.pcpu[cpu as usize].cur;
        if running != NIL && vm_of(running, self.dom0) % 3 != 1 {
            self.push(OpCode::Schedule, cpu, 0, [CUR_STOPS, 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_the_contract<const N: usize>(policy: &str, of: u32, vcpus: u32) {
        let mut shared = Shared::<N>::new(policy, vcpus).unwrap();
        let mut feeders: Vec<_> = (0..of).map(|n| Feeder::<N>::new(vcpus, n, of, 7)).collect();
        let mut started = vec![false; vcpus as usize];
        for i in 0..60_000 {
            let feeder = &mut feeders[i % of as usize];
            feeder.step(|op, after, mine| {
                let answer = shared.call(op, after, mine);
                // With several hosts a VCPU may have left its PCPU when another one's yield comes.
                assert!(answer.res.ret == 0 || (of > 1 && op.op == OpCode::Yield as u16), "{op:?} {:?}", answer.res);
                if op.op == OpCode::Started as u16 {
                    started[usize::from(op.vcpu)] = true;
                }
                answer
            });
        }
        shared.pool.check().unwrap();
        assert!(started.iter().all(|&s| s), "{policy}");
    }

    #[test]
    fn hosts_keep_the_contract_and_no_vcpu_is_forgotten() {
        for (policy, of) in [("credit", 1), ("doris", 1), ("doris", 4)] {
            keeps_the_contract::<8>(policy, of, 64);
        }
    }

    #[test]
    fn every_policy_is_fed_with_one_pcpu_and_with_all() {
        for policy in crate::sizes::POLICIES {
            keeps_the_contract::<1>(policy, 1, 1);
            keeps_the_contract::<1>(policy, 1, 8);
            keeps_the_contract::<64>(policy, 1, 512);
        }
    }
}
