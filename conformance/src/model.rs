// SPDX-License-Identifier: GPL-2.0-only
//! The checker's own picture of a pool: `docs/states.md` as a state machine over operations and their outcomes.

use takt_policy::{CUR_STOPS, FORCE_IDLE, Kind, NCPU, NIL, NVCPU, NVM, Op, OpCode, Pool, Res, State};

/// A VCPU as the log tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vcpu {
    pub state: State,
    pub vm: u16,
    /// A VM's backend thread.
    pub io: bool,
    /// PCPU it holds, or held last.
    pub cpu: u16,
    pub hard: u64,
    pub placement: u64,
    /// A wake that must not be lost (rule 1).
    pub woken: bool,
    /// A `pause` that waits for `put` or `refused`.
    pub pausing: bool,
    /// While paused: `unpause` queues it.
    pub ready: bool,
    /// Queued only because of a remembered wake.
    pub by_memory: bool,
    /// When it entered its present state, ns.
    pub since: u64,
}

/// The least value of `tickle` with which PCPUs may idle beside a VCPU that waits (rule C13).
const TICKLE_XEN: u64 = 2;

const ABSENT: Vcpu = Vcpu {
    state: State::Absent,
    vm: 0,
    io: false,
    cpu: 0,
    hard: u64::MAX,
    placement: u64::MAX,
    woken: false,
    pausing: false,
    ready: false,
    by_memory: false,
    since: 0,
};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vm {
    pub used: bool,
    pub host: bool,
    pub capped: bool,
    /// A budget may keep it from running.
    pub server: bool,
    pub rt_off: bool,
    pub rt_on: bool,
    /// Real-time until then; 0 = not.
    pub rt_until: u64,
    /// It has been real-time since the epoch: its VCPUs may be bound (rule 9).
    pub rt_ever: bool,
    pub vcpus: u16,
}

/// PCPUs, VMs and VCPUs as operations left them.
#[derive(Clone)]
pub struct Model {
    pub(crate) vcpu: Box<[Vcpu; NVCPU as usize]>,
    pub(crate) vm: Box<[Vm; NVM as usize]>,
    /// VCPU picked or running, per PCPU.
    pub(crate) cur: [Option<u16>; NCPU as usize],
    /// Bit per PCPU.
    pub(crate) online: u64,
    pub(crate) taken: u64,
    pub(crate) forced: u64,
    /// Bit per VCPU.
    pub(crate) queued: [u64; NVCPU as usize / 64],
    pub(crate) nr_vcpu: u32,
    pub(crate) now: u64,
    pub(crate) rt_max: Option<u64>,
    /// PCPUs may idle beside a VCPU that waits (`tickle=xen`, rule C13): now, and since the epoch.
    pub(crate) idles: bool,
    pub(crate) idled_ever: bool,
    pub(crate) params: Vec<takt_policy::ParamInfo>,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

/// `cpu` as a bit of a mask.
pub(crate) fn bit(cpu: u16) -> u64 {
    1 << (u32::from(cpu) % NCPU)
}

impl Model {
    /// An empty pool.
    pub fn new() -> Self {
        let params = takt_policy::params();
        Self {
            vcpu: Box::new([ABSENT; NVCPU as usize]),
            vm: Box::new([Vm::default(); NVM as usize]),
            cur: [None; NCPU as usize],
            online: 0,
            taken: 0,
            forced: 0,
            queued: [0; NVCPU as usize / 64],
            nr_vcpu: 0,
            now: 0,
            idles: false,
            idled_ever: false,
            rt_max: params.iter().find(|p| p.name == "rt_max").map(|p| p.default),
            params,
        }
    }

    /// What a pool holds. Since when a VCPU has its state is not known: since now. If the policy has
    /// bound a VCPU, its VM has been real-time.
    pub fn of(pool: &Pool) -> Self {
        let mut m = Self { now: pool.now(), ..Self::new() };
        let key = |name: &str| m.params.iter().find(|p| p.name == name).map_or(NIL, |p| p.key);
        let [cap, budget, rt] = ["cap", "budget", "rt"].map(key);
        for op in pool.describe().iter().filter(|op| op.op == OpCode::Adjust as u16 && u32::from(op.vm) == NIL) {
            m.adjust(op);
        }
        for vm in 0..NVM {
            let Some(stat) = pool.vm_stat(vm) else { continue };
            let set = |key| pool.vm_setting(vm, key).unwrap_or(0);
            let rt_on = set(rt) == 1;
            m.vm[vm as usize] = Vm {
                used: true,
                host: stat.host != 0,
                capped: set(cap) != 0,
                server: set(budget) != 0,
                rt_off: set(rt) == 2,
                rt_on,
                rt_until: if rt_on { u64::MAX } else { stat.lease_end },
                rt_ever: rt_on || stat.lease_end != 0,
                vcpus: 0,
            };
        }
        for cpu in 0..NCPU as u16 {
            let stat = pool.pcpu(cpu.into());
            let all = [(&mut m.online, stat.online), (&mut m.taken, stat.taken), (&mut m.forced, stat.forced)];
            all.into_iter().filter(|(_, is)| *is).for_each(|(mask, _)| *mask |= bit(cpu));
            m.cur[usize::from(cpu)] = pool.cur(cpu.into()).map(|v| v as u16);
        }
        for v in 0..NVCPU as u16 {
            let Some(stat) = pool.vcpu_stat(v.into()) else { continue };
            m.vcpu[usize::from(v)] = Vcpu {
                vm: stat.vm as u16,
                io: stat.kind == Kind::Io as u64,
                cpu: pool.vcpu_cpu(v.into()) as u16,
                hard: stat.hard,
                placement: stat.placement,
                woken: stat.left & 1 != 0,
                pausing: stat.left & 2 != 0,
                since: m.now,
                ..ABSENT
            };
            let vm = &mut m.vm[stat.vm as usize % NVM as usize];
            vm.vcpus += 1;
            vm.rt_ever |= stat.bound != 0;
            m.nr_vcpu += 1;
            let state = pool.state(v.into());
            m.set(v, if state == State::Parked { State::Queued } else { state });
        }
        m
    }

    /// State of a VCPU; parked cannot be told from queued.
    pub fn state(&self, v: u32) -> State {
        self.vcpu.get(v as usize).map_or(State::Absent, |v| v.state)
    }

    /// Where rule 9 lets `v` run.
    pub(crate) fn allowed(&self, v: u16) -> u64 {
        let v = &self.vcpu[usize::from(v)];
        match (v.hard & v.placement & self.online, v.hard & self.online) {
            (0, 0) => self.online,
            (0, hard) => hard,
            (both, _) => both,
        }
    }

    /// Online PCPUs that hold no VCPU.
    pub(crate) fn empty(&self) -> u64 {
        (0..NCPU as u16).filter(|&c| self.cur[usize::from(c)].is_none()).fold(0, |m, c| m | bit(c)) & self.online
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = u16> + '_ {
        self.queued.iter().enumerate().flat_map(|(i, &w)| {
            let mut w = w;
            std::iter::from_fn(move || {
                let b = w.trailing_zeros();
                (w != 0).then(|| {
                    w &= w - 1;
                    (i as u32 * 64 + b) as u16
                })
            })
        })
    }

    fn set(&mut self, v: u16, state: State) {
        let (now, i) = (self.now, usize::from(v));
        let e = &mut self.vcpu[i];
        if e.state != state {
            e.since = now;
        }
        e.state = state;
        let b = 1u64 << (i % 64);
        if state == State::Queued { self.queued[i / 64] |= b } else { self.queued[i / 64] &= !b }
    }

    /// Takes `v` off its PCPU, if it holds it.
    fn release(&mut self, v: u16) {
        let cur = &mut self.cur[usize::from(self.vcpu[usize::from(v)].cpu)];
        if *cur == Some(v) {
            *cur = None;
        }
    }

    /// A VCPU that has nothing to hold it: queued, blocked, or paused if a `pause` came between.
    fn settle(&mut self, v: u16, runnable: bool) {
        self.release(v);
        let e = &mut self.vcpu[usize::from(v)];
        let queue = runnable || e.woken;
        e.by_memory = queue && !runnable;
        e.woken = false;
        if e.pausing {
            e.pausing = false;
            e.ready = queue;
            self.set(v, State::Paused);
        } else {
            self.set(v, if queue { State::Queued } else { State::Blocked });
        }
    }

    /// Performs an operation that the core accepted (`docs/states.md`, states and rules 1–4).
    pub(crate) fn apply(&mut self, op: &Op, res: &Res) {
        let Some(code) = OpCode::from_u16(op.op) else { return };
        let (v, c, m) = (op.vcpu, op.cpu, op.vm);
        let (vi, ci, mi) = (usize::from(v) % NVCPU as usize, usize::from(c) % NCPU as usize, usize::from(m));
        match code {
            OpCode::None
            | OpCode::Yield
            | OpCode::SetGroup
            | OpCode::TimerCpu
            | OpCode::TimerPool
            | OpCode::Event
            | OpCode::Move => {}
            OpCode::Epoch => self.epoch(),
            OpCode::CpuAdd => {
                self.online |= bit(c);
                self.taken &= !bit(c);
                self.forced &= !bit(c);
                self.cur[ci] = None;
            }
            OpCode::CpuRemove => {
                self.online &= !bit(c);
                self.taken &= !bit(c);
                self.forced &= !bit(c);
            }
            OpCode::VmAdd => self.vm[mi] = Vm { used: true, host: op.arg[0] == 2, ..Vm::default() },
            OpCode::VmRemove => self.vm[mi] = Vm::default(),
            OpCode::VcpuAdd => {
                self.vcpu[vi] = Vcpu { vm: m, io: op.arg[0] == Kind::Io as u64, cpu: c, since: self.now, ..ABSENT };
                self.set(v, State::Blocked);
                self.vm[mi].vcpus += 1;
                self.nr_vcpu += 1;
            }
            OpCode::VcpuRemove => {
                self.vm[usize::from(self.vcpu[vi].vm)].vcpus -= 1;
                self.nr_vcpu -= 1;
                self.set(v, State::Absent);
            }
            OpCode::Adjust => self.adjust(op),
            OpCode::SetRt => {
                let vm = &mut self.vm[mi];
                let off = op.arg[0] == 0 || op.arg[2] == 0;
                vm.rt_until = match (vm.rt_on, off) {
                    (true, _) => u64::MAX,
                    (false, true) => 0,
                    (false, false) => self.now.saturating_add(op.arg[2]),
                };
                vm.rt_ever |= vm.rt_until > 0;
            }
            OpCode::SetPlacement => self.vcpu[vi].placement = op.arg[0],
            OpCode::SetAffinity if op.arg[0] == 0 => self.vcpu[vi].hard = op.arg[1],
            OpCode::SetAffinity => {}
            OpCode::Wake => match self.vcpu[vi].state {
                State::Blocked => {
                    self.vcpu[vi].by_memory = false;
                    self.set(v, State::Queued);
                }
                State::Queued | State::Absent => {}
                _ => self.vcpu[vi].woken = true,
            },
            OpCode::Block if self.vcpu[vi].state == State::Queued => self.set(v, State::Blocked),
            OpCode::Block => {
                self.vcpu[vi].woken = false;
                self.vcpu[vi].ready = false;
            }
            OpCode::Pause => match self.vcpu[vi].state {
                s @ (State::Queued | State::Blocked) => {
                    self.vcpu[vi].ready = s == State::Queued;
                    self.set(v, State::Paused);
                }
                _ => self.vcpu[vi].pausing = true,
            },
            OpCode::Unpause if self.vcpu[vi].pausing => self.vcpu[vi].pausing = false,
            OpCode::Unpause => {
                let e = &mut self.vcpu[vi];
                e.by_memory = e.woken;
                let queue = e.ready || e.woken;
                (e.ready, e.woken) = (false, false);
                self.set(v, if queue { State::Queued } else { State::Blocked });
            }
            OpCode::Schedule => self.schedule(c, op.arg[0], res.next),
            OpCode::Started => self.set(v, State::Running),
            OpCode::Refused => self.settle(v, true),
            OpCode::Put => self.settle(v, op.arg[0] != 0),
            OpCode::CpuRelease => self.taken |= bit(c),
            OpCode::CpuAcquire => self.taken &= !bit(c),
        }
    }

    fn schedule(&mut self, c: u16, flags: u64, next: u32) {
        let old = self.cur[usize::from(c)];
        let next = (next != NIL).then_some(next as u16 % NVCPU as u16);
        if flags & FORCE_IDLE != 0 {
            self.forced |= bit(c)
        } else {
            self.forced &= !bit(c)
        }
        if old.is_some() && old == next {
            // Rule 1: what it was woken for, it sees itself.
            self.vcpu[usize::from(next.unwrap_or(0))].woken = false;
            return;
        }
        if let Some(v) = old {
            self.set(v, State::Descheduling);
        }
        self.cur[usize::from(c)] = next;
        if let Some(v) = next {
            self.vcpu[usize::from(v)].cpu = c;
            self.set(v, State::Picked);
        }
        debug_assert!(flags & CUR_STOPS == 0 || old.is_none() || old != next);
    }

    fn epoch(&mut self) {
        for v in 0..NVCPU as u16 {
            if self.vcpu[usize::from(v)].state != State::Absent {
                let e = &mut self.vcpu[usize::from(v)];
                (e.woken, e.pausing, e.ready, e.by_memory) = (false, false, false, false);
                self.set(v, State::Blocked);
            }
        }
        self.cur = [None; NCPU as usize];
        self.taken = 0;
        self.forced = 0;
        self.idled_ever = self.idles;
        for vm in self.vm.iter_mut() {
            vm.rt_until = if vm.rt_on { u64::MAX } else { 0 };
            vm.rt_ever = vm.rt_on;
        }
    }

    fn adjust(&mut self, op: &Op) {
        let Some(name) = self.params.iter().find(|p| u64::from(p.key) == op.arg[0]).map(|p| p.name) else { return };
        if u32::from(op.vm) == NIL {
            match name {
                "rt_max" => self.rt_max = Some(op.arg[1]),
                "tickle" => {
                    self.idles = op.arg[1] >= TICKLE_XEN;
                    self.idled_ever |= self.idles;
                }
                _ => {}
            }
            return;
        }
        let vm = &mut self.vm[usize::from(op.vm)];
        match name {
            "cap" => vm.capped = op.arg[1] != 0,
            "budget" => vm.server = op.arg[1] != 0,
            "rt" => {
                let was_on = vm.rt_on;
                (vm.rt_on, vm.rt_off) = (op.arg[1] == 1, op.arg[1] == 2);
                vm.rt_until = match op.arg[1] {
                    1 => u64::MAX,
                    0 if !was_on => vm.rt_until,
                    _ => 0,
                };
                vm.rt_ever |= vm.rt_on;
            }
            _ => {}
        }
    }
}
