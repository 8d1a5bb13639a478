// SPDX-License-Identifier: GPL-2.0-only
//! A model host: random, seeded operation sequences that look like a host's.
//!
//! A faithful host serves everything at once: timers, starts, puts, kicks, ends of slices; time passes only when nothing
//! is due. A chaotic one is late with all of that, changes every parameter, mask and population on the way, and asks for
//! about one forbidden thing in twenty. Time moves in coarse steps, so that ties are common.

use crate::checker::Checker;
use crate::core::Core;
use crate::model::bit;
use fastrand::Rng;
use std::collections::VecDeque;
use takt_policy::{CUR_STOPS, FORCE_IDLE, NCPU, NEVER, NIL, NVCPU, NVM, Op, OpCode, Res, State};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// How a host keeps its duties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Faithful,
    Chaos,
}

/// Size of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub cpus: u16,
    pub vms: u16,
    pub vcpus: u16,
}

impl Shape {
    /// The pools that tests use; on the one of 4 PCPUs some idle most of the time.
    pub const ALL: [Shape; 5] = [
        Shape { cpus: 1, vms: 3, vcpus: 5 },
        Shape { cpus: 2, vms: 4, vcpus: 9 },
        Shape { cpus: 4, vms: 3, vcpus: 4 },
        Shape { cpus: 8, vms: 8, vcpus: 40 },
        Shape { cpus: 64, vms: 40, vcpus: 220 },
    ];
}

/// Generates operations; what they led to is told to it by [`Host::observe`].
pub struct Host {
    rng: Rng,
    shape: Shape,
    mode: Mode,
    now: u64,
    quantum: u64,
    setup: VecDeque<Op>,
    slice_end: [u64; NCPU as usize],
}

fn op(code: OpCode) -> Op {
    Op { op: code as u16, ..Op::default() }
}
fn on_cpu(code: OpCode, cpu: u16) -> Op {
    Op { cpu, ..op(code) }
}
fn on_vcpu(code: OpCode, vcpu: u16, arg: [u64; 2]) -> Op {
    Op { vcpu, arg: [arg[0], arg[1], 0, 0], ..op(code) }
}
fn on_vm(code: OpCode, vm: u16, arg: [u64; 3]) -> Op {
    Op { vm, arg: [arg[0], arg[1], arg[2], 0], ..op(code) }
}

/// Period, budget and priority of a VM, as `adjust` takes them.
fn budget(vm: u16, seed: u64) -> [(u16, u32, u64); 3] {
    let period = [4 * MS, 10 * MS, 30 * MS][(usize::from(vm) + seed as usize) % 3];
    let budget = period / if vm % 4 == 1 { 5 } else { 10 };
    [
        (vm, key("period", true), period),
        (vm, key("budget", true), budget),
        (vm, key("priority", true), u64::from(vm % 5) + 1),
    ]
}

/// Parameters of Credit and its kin (docs/rules/credit.md, poris.md, laxs.md) by which a seed
/// differs from the defaults.
fn variant(seed: u64) -> Vec<(&'static str, u64)> {
    let some: &[_] = match seed / 8 % 14 {
        // As on live hosts.
        13 => return takt_policy::live(|p| p.linux).into_iter().map(|(p, value)| (p.name, value)).collect(),
        0 => &[],
        1 => &[("weights", 1), ("ratelimit", MS), ("tickle", 1), ("overflow", 1)],
        2 => &[("charge", 1), ("tickle", 1), ("debts", 0)],
        3 => &[("balance", 1)],
        // S and Poris.
        4 => &[
            ("queueing", 1),
            ("steal", 1),
            ("boost", 1),
            ("across", 0),
            ("running", 1),
            ("parallel", 0),
            ("spread", 1),
            ("demote", 1),
        ],
        5 => &[("debts", 0), ("queueing", 0), ("steal", 2), ("boost", 1), ("history", 1), ("parallel", 1)],
        6 => &[("queueing", 1), ("steal", 0), ("infinite", 1), ("promote", 0), ("spread", 1), ("demote", 1)],
        8 => &[("parallel", 1), ("promote", 0), ("dynamic", 0), ("turns", 0)],
        9 => &[("ratelimit", MS), ("turns", 0)],
        // Not work-conserving, as Xen is.
        11 => &[("tickle", 2), ("queueing", 0), ("steal", 0)],
        12 => &[("tickle", 3), ("ratelimit", MS)],
        10 => &[("over", 1), ("running", 1), ("peer", 1)],
        _ => &[
            ("laxity", 10 * MS),
            ("first_run", MS),
            ("peer", 1),
            ("steal", 1),
            ("steal_age", 0),
            ("ll_interval", 100 * MS),
            ("t_round", 300 * US),
        ],
    };
    some.to_vec()
}

/// Seeds of a policy that stand for a variant: a kind of server or parameters of its own.
pub fn variants(policy: &str) -> &'static [u64] {
    match policy {
        "rtxen" | "sedf" | "vgedf" => &[3, 4, 5, 6, 106],
        "credit" => &[8, 16, 24, 88, 96, 104],
        "doris" => &[8, 16, 88, 104],
        "laxs" => &[32, 40, 48, 56, 80, 88, 104],
        "poris" => &[32, 40, 48, 56, 64, 88, 104],
        "gang" => &[8, 64, 72, 88, 104],
        _ => &[8],
    }
}

fn key(name: &str, per_vm: bool) -> u32 {
    takt_policy::param(name, per_vm).map_or(0, |p| p.key)
}

impl Host {
    pub fn new(seed: u64, shape: Shape, mode: Mode) -> Self {
        let mut setup = VecDeque::new();
        for c in 0..shape.cpus {
            let u = u64::from(c);
            setup.push_back(Op { arg: [u / 2, u / 4, u / 32, 0], ..on_cpu(OpCode::CpuAdd, c) });
        }
        setup.push_back(op(OpCode::Epoch));
        for vm in 0..shape.vms {
            // The first is Dom0.
            setup.push_back(on_vm(OpCode::VmAdd, vm, [if vm == 0 { 2 } else { 0 }, 256, 0]));
        }
        // Each seed has its own kind of servers and their rules, and those from 8 on a variant of Credit.
        let pool = |name, value| on_vm(OpCode::Adjust, NIL as u16, [key(name, false).into(), value, 0]);
        let kinds = [
            ("server", seed % 4),
            ("mode", seed % 3),
            ("spent_wake", seed / 2 % 2),
            ("penalty", seed / 4 % 2),
            ("extra_place", seed / 3 % 2),
            ("polling_literal", seed / 4 % 2),
            ("admission", u64::from(seed % 8 != 5)),
            ("idle_quantum", seed / 2 % 2),
            ("leftover", seed / 3 % 2),
        ];
        setup.extend(kinds.map(|(name, value)| pool(name, value)));
        setup.extend(variant(seed).into_iter().map(|(name, value)| pool(name, value)));
        // Every second VM has a budget, of a fifth or a tenth of a PCPU for each VCPU.
        for (vm, key, value) in (1..shape.vms).step_by(2).flat_map(|vm| budget(vm, seed)) {
            setup.push_back(on_vm(OpCode::Adjust, vm, [key.into(), value, 0]));
        }
        for v in 0..shape.vcpus {
            let vm = v % shape.vms;
            let kind = if vm == 0 { 2 } else { u64::from(v / shape.vms % 3 == 2) };
            setup.push_back(Op { cpu: v % shape.cpus, vm, ..on_vcpu(OpCode::VcpuAdd, v, [kind, 0]) });
        }
        // Half of the guests in two groups; who does not fit in stays out of them.
        for vm in (1..shape.vms).step_by(2) {
            setup.push_back(on_vm(
                OpCode::SetGroup,
                vm,
                [u64::from(vm % 4 / 2 + 1) | u64::from(vm / 4 % 2) << 16, 0, 0],
            ));
        }
        Self { rng: Rng::with_seed(seed), shape, mode, now: 0, quantum: MS, setup, slice_end: [0; NCPU as usize] }
    }

    /// The next operation; `seq` is left to the pool.
    pub fn next(&mut self, core: &dyn Core, checker: &Checker) -> Op {
        let mut op = self.choose(core, checker);
        op.now = self.now;
        // Clocks of PCPUs differ a little.
        if self.mode == Mode::Chaos && self.rng.u8(..) == 0 {
            op.now -= op.now.min(self.rng.u64(0..SKEW));
        }
        op
    }

    /// Takes note of an outcome.
    pub fn observe(&mut self, op: &Op, res: &Res) {
        if res.ret == 0 && op.op == OpCode::Schedule as u16 {
            self.slice_end[usize::from(op.cpu)] = self.now.saturating_add(res.slice);
        }
    }

    fn choose(&mut self, core: &dyn Core, ck: &Checker) -> Op {
        if let Some(op) = self.setup.pop_front() {
            return op;
        }
        if self.mode == Mode::Faithful {
            return self.duty(core, ck).unwrap_or_else(|| self.faithful(core, ck));
        }
        if self.rng.u16(..) < 64 {
            self.quantum = [US, 100 * US, MS, 10 * MS][self.rng.usize(..4)];
        }
        self.pass_time();
        match self.rng.u8(..100) {
            0..5 => self.forbidden(ck),
            5..55 => self.duty(core, ck).unwrap_or_else(|| self.chaos(ck)),
            _ => self.chaos(ck),
        }
    }

    fn pass_time(&mut self) {
        self.now += match self.rng.u16(..1000) {
            0..500 => 0,
            500..900 => self.quantum,
            900..998 => self.quantum * self.rng.u64(1..8),
            998 => 200 * MS,
            _ => 3_000 * MS,
        };
    }

    /// What the host owes now, most urgent first (`docs/states.md`, equal times).
    fn duty(&mut self, core: &dyn Core, ck: &Checker) -> Option<Op> {
        let m = ck.model();
        if core.pool_timer() <= self.now {
            return Some(op(OpCode::TimerPool));
        }
        let cpus = || (0..NCPU as u16).filter(|&c| m.online & bit(c) != 0);
        if let Some(c) = cpus().find(|&c| core.cpu_timer(c.into()) <= self.now) {
            return Some(on_cpu(OpCode::TimerCpu, c));
        }
        let state = |c: u16| m.cur[usize::from(c)].map(|v| (v, m.state(v.into())));
        if let Some((v, _)) = cpus().filter_map(state).find(|&(_, s)| s == State::Picked) {
            let refuse = self.rng.u8(..) < 6;
            return Some(on_vcpu(if refuse { OpCode::Refused } else { OpCode::Started }, v, [0, 0]));
        }
        if let Some(v) = (0..self.shape.vcpus).find(|&v| m.state(v.into()) == State::Descheduling) {
            return Some(self.put(v, ck));
        }
        let kicked = ck.kicked() & !m.taken & m.online;
        let running = |c: u16| m.cur[usize::from(c)].is_some();
        let c = cpus().find(|&c| kicked & bit(c) != 0 || running(c) && self.slice_end[usize::from(c)] <= self.now)?;
        Some(on_cpu(OpCode::Schedule, c))
    }

    fn put(&mut self, v: u16, ck: &Checker) -> Op {
        let most = ck.model().now - ck.started_at(v);
        let ran = if self.rng.u8(..4) == 0 { self.rng.u64(0..=most) } else { NEVER };
        on_vcpu(OpCode::Put, v, [u64::from(self.rng.u8(..10) < 7), ran])
    }

    /// Nothing is due: guests act, or time passes up to the next duty.
    fn faithful(&mut self, core: &dyn Core, ck: &Checker) -> Op {
        let m = ck.model();
        let v = self.rng.u16(..self.shape.vcpus);
        let c = self.rng.u16(..self.shape.cpus);
        match self.rng.u8(..100) {
            0..35 => {
                let mut next = self.now + self.quantum / 2 * self.rng.u64(1..5);
                for c in (0..self.shape.cpus).filter(|&c| m.cur[usize::from(c)].is_some()) {
                    next = next.min(self.slice_end[usize::from(c)]);
                }
                for c in 0..self.shape.cpus {
                    next = next.min(core.cpu_timer(c.into()));
                }
                self.now = next.min(core.pool_timer()).max(self.now);
                on_vcpu(OpCode::Event, v, [self.rng.u64(..4), 0])
            }
            35..60 => on_vcpu(OpCode::Wake, v, [self.rng.u64(..4), 0]),
            60..75 => on_vcpu(OpCode::Event, v, [1, 0]),
            75..90 => match m.cur[usize::from(c)] {
                Some(_) => Op { arg: [CUR_STOPS, 0, 0, 0], ..on_cpu(OpCode::Schedule, c) },
                None => on_cpu(OpCode::Schedule, c),
            },
            90..95 => match m.cur[usize::from(c)] {
                Some(v) if m.state(v.into()) == State::Running => self.put(v, ck),
                _ => on_vcpu(OpCode::Wake, v, [1, 0]),
            },
            _ => self.set_rt(),
        }
    }

    fn set_rt(&mut self) -> Op {
        let vm = if self.shape.vms > 1 { self.rng.u16(1..self.shape.vms) } else { 0 };
        let period = [0, US, 100 * US, MS, 20 * MS, 1_000 * MS][self.rng.usize(..6)];
        let lease = [0, MS, 50 * MS, 1_000 * MS, NEVER][self.rng.usize(..5)];
        on_vm(OpCode::SetRt, vm, [self.rng.u64(..4).min(1), period, lease])
    }

    /// Some operation of any kind, sensible more often than not.
    fn chaos(&mut self, ck: &Checker) -> Op {
        let m = ck.model();
        let v = self.rng.u16(..self.shape.vcpus);
        let c = self.rng.u16(..self.shape.cpus);
        let vm = self.rng.u16(..self.shape.vms);
        let state = m.state(v.into());
        match self.rng.u16(..1000) {
            0..180 => on_vcpu(OpCode::Wake, v, [self.rng.u64(..4), 0]),
            180..290 => on_vcpu(OpCode::Event, v, [self.rng.u64(..4).max(self.rng.u64(..2)), 0]),
            290..430 => {
                let flags = [0, 0, 0, 0, CUR_STOPS, CUR_STOPS, FORCE_IDLE, FORCE_IDLE | CUR_STOPS][self.rng.usize(..8)];
                Op { arg: [flags, 0, 0, 0], ..on_cpu(OpCode::Schedule, c) }
            }
            430..480 => match m.cur[usize::from(c)] {
                Some(v) if m.state(v.into()) == State::Running => self.put(v, ck),
                _ => on_vcpu(OpCode::Wake, v, [0, 0]),
            },
            480..510 => on_vcpu(OpCode::Block, v, [0, 0]),
            510..530 => on_vcpu(
                OpCode::Yield,
                v,
                [[NIL.into(), u64::from(self.rng.u16(..self.shape.vcpus))][self.rng.usize(..2)], 0],
            ),
            530..560 => on_vcpu(OpCode::Pause, v, [0, 0]),
            560..600 => {
                let v = (0..self.shape.vcpus).find(|&v| m.state(v.into()) == State::Paused).unwrap_or(v);
                on_vcpu(OpCode::Unpause, v, [0, 0])
            }
            600..630 => Op { cpu: c, ..on_vcpu(OpCode::Move, v, [0, 0]) },
            630..660 => on_vcpu(OpCode::SetAffinity, v, [u64::from(self.rng.bool()), self.mask()]),
            660..680 => on_vcpu(OpCode::SetPlacement, v, [self.mask(), 0]),
            680..730 => self.set_rt(),
            730..760 => self.adjust(ck),
            760..765 => on_vm(OpCode::SetGroup, vm, [self.rng.u64(..4) | self.rng.u64(..3) << 16, 0, 0]),
            765..785 => on_cpu(OpCode::CpuRelease, c),
            785..825 => {
                let c = (0..self.shape.cpus).find(|&c| m.taken & bit(c) != 0).unwrap_or(c);
                on_cpu(OpCode::CpuAcquire, c)
            }
            825..833 => on_cpu(OpCode::CpuRemove, c),
            833..855 => {
                let c = (0..self.shape.cpus).find(|&c| m.online & bit(c) == 0).unwrap_or(c);
                let core = u64::from(c);
                Op { arg: [core / 2, core / 4, core / 32, 0], ..on_cpu(OpCode::CpuAdd, c) }
            }
            855..860 => on_vm(OpCode::VmRemove, vm, [0; 3]),
            860..875 => {
                let vm = (0..self.shape.vms).find(|&i| !m.vm[usize::from(i)].used).unwrap_or(vm);
                let owed = if self.rng.bool() { self.rng.u64(0..1000) } else { 0 };
                on_vm(OpCode::VmAdd, vm, [if vm == 0 { 2 } else { 0 }, self.rng.u64(1..1024) | owed << 32, 0])
            }
            875..890 if state != State::Absent => on_vcpu(OpCode::VcpuRemove, v, [0, 0]),
            875..920 => {
                let v = (0..self.shape.vcpus).find(|&v| m.state(v.into()) == State::Absent).unwrap_or(v);
                let kind = if m.vm[usize::from(vm)].host { 2 } else { self.rng.u64(..2) };
                Op { cpu: c, vm, ..on_vcpu(OpCode::VcpuAdd, v, [kind, 0]) }
            }
            920..960 => on_cpu(OpCode::TimerCpu, c),
            960..999 => op(OpCode::TimerPool),
            _ if self.rng.u8(..16) == 0 => op(OpCode::Epoch),
            _ => op(OpCode::TimerPool),
        }
    }

    fn mask(&mut self) -> u64 {
        match self.rng.u8(..4) {
            0 => u64::MAX,
            1 => bit(self.rng.u16(..self.shape.cpus)),
            2 => self.rng.u64(..) | bit(self.rng.u16(..self.shape.cpus)),
            _ => bit(self.rng.u16(..self.shape.cpus)) | bit(self.rng.u16(..self.shape.cpus)),
        }
    }

    /// Any parameter in its range: default, a bound, or something between.
    fn adjust(&mut self, ck: &Checker) -> Op {
        let params = &ck.model().params;
        let p = params[self.rng.usize(..params.len())];
        let value = match self.rng.u8(..8) {
            0..4 if !(p.per_vm && p.unit == "ns") => p.default,
            4 => p.min,
            5 => p.max,
            _ if p.per_vm && p.unit == "ns" => [0, 300 * US, MS, 2 * MS, 5 * MS, 10 * MS, 40 * MS][self.rng.usize(..7)],
            _ => p.min + self.rng.u64(0..=(p.max - p.min).min(p.default.saturating_mul(4) + 4)),
        };
        let vm = if p.per_vm { self.rng.u16(..self.shape.vms) } else { NIL as u16 };
        on_vm(OpCode::Adjust, vm, [p.key.into(), value, 0])
    }

    /// An operation that has to be refused in the present state.
    fn forbidden(&mut self, ck: &Checker) -> Op {
        for _ in 0..32 {
            let code = self.rng.u16(..30);
            let wild = self.rng.u8(..4) == 0;
            let index = |rng: &mut Rng, n: u16, max: u32| if wild { rng.u16(max as u16..) } else { rng.u16(..n) };
            let mut o = Op {
                op: code,
                cpu: index(&mut self.rng, self.shape.cpus, NCPU),
                vcpu: index(&mut self.rng, self.shape.vcpus, NVCPU),
                vm: index(&mut self.rng, self.shape.vms, NVM),
                ..Op::default()
            };
            for a in 0..3 {
                o.arg[a] = [0, 0, 1, 2, 3, 4, 5, 1 << 32, NEVER][self.rng.usize(..9)];
            }
            if ck.model().verdict(&o).refuses() {
                return o;
            }
        }
        op(OpCode::None)
    }
}

/// How far a chaotic host's clock may step back, ns; the checker's [`crate::Limits::skew`] has to allow it.
pub(crate) const SKEW: u64 = MS;
