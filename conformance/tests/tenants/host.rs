// SPDX-License-Identifier: GPL-2.0-only
//! A host with VMs that have something to do, and what each of them gets.

use fastrand::Rng;
use takt_conformance::{Core, maker};
use takt_policy::{CUR_STOPS, NEVER, NIL, Op, OpCode, Res};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// The default accounting interval, and how long before and after an accounting VCPUs go and come.
const ACCT: u64 = 30 * MS;
const NEAR: u64 = 100 * US;

/// What the VCPUs of a VM do.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Nothing but compute.
    Computes,
    /// The same, and each VCPU lives so long, shortest and longest, ns; then another one takes its place.
    Replaces(u64, u64),
    /// The same, but with the first VCPU's life ends that of the VM, and another VM takes its place: it owes what the VM did, or
    /// nothing.
    Restarts(u64, u64, bool),
    /// The same, but all its VCPUs but the first go just before each of so many accountings, and come again just after it. With
    /// `true` the whole VM ends, and the next one, which owes what it did, has one VCPU until then.
    Gathers(u64, bool),
    /// The same, but those of its VCPUs that run stop for a moment just before each of so many accountings.
    Pauses(u64),
    /// Nothing for so long, ns, then it computes.
    Begins(u64),
    /// In each `period` so much `work`, and packets if it has a period by them; ns.
    Works { period: u64, work: u64 },
}

/// Kinds of VCPUs in the state table: a guest's, an I/O thread, the host's own.
pub const GUEST: u64 = 0;
pub const IO: u64 = 1;
pub const HOST: u64 = 2;

/// A VM.
#[derive(Clone, Copy, Debug)]
pub struct Vm {
    pub kind: u64,
    pub weight: u64,
    pub vcpus: u16,
    pub does: Does,
    /// So many threads beside its VCPUs, of this kind, which compute and are replaced as in [`Does::Replaces`].
    pub threads: Option<(u16, u64, u64, u64)>,
    /// VCPUs beside those, of the same kind, that do this.
    pub beside: Option<(u16, Does)>,
    /// What it was found to send each so many ns.
    pub sends: Option<u64>,
    /// Budget and period of each VCPU, ns, and its priority.
    pub server: Option<(u64, u64, u64)>,
    /// Per cent of a PCPU; 0: none.
    pub cap: u64,
    /// PCPUs where its VCPUs may run.
    pub mask: u64,
}

impl Vm {
    pub fn new(weight: u64, vcpus: u16, does: Does) -> Self {
        Self {
            kind: GUEST,
            weight,
            vcpus,
            does,
            threads: None,
            beside: None,
            sends: None,
            server: None,
            cap: 0,
            mask: NEVER,
        }
    }

    /// Budgets that its VCPUs get in `time`.
    pub fn budgets(&self, time: u64) -> u64 {
        self.server.map_or(0, |(_, period, _)| u64::from(self.vcpus) * (time / period + 1))
    }
}

/// What came of it, after a second to settle.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// PCPUs that each VM had on the mean.
    pub had: Vec<f64>,
    /// Jobs of each VM that were done after the next one was due.
    pub late: Vec<u64>,
    pub jobs: Vec<u64>,
    /// PCPUs that were kicked, and had not been since they decided last.
    pub kicks: u64,
    pub wakes: u64,
    /// Times that a VCPU was taken off with work left.
    pub preempted: u64,
    pub switches: u64,
}

struct Vcpu {
    vm: usize,
    kind: u64,
    does: Does,
    /// What is left of its job, or of its life.
    left: u64,
    next: u64,
    sleeps: bool,
}

pub struct Host {
    core: Box<dyn Core>,
    rng: Rng,
    now: u64,
    vms: Vec<Vm>,
    vcpus: Vec<Vcpu>,
    cur: Vec<Option<usize>>,
    since: Vec<u64>,
    /// When VCPUs that gather go or come next, and those that are gone.
    gathers: u64,
    accounts: u64,
    gone: Vec<usize>,
    slice_end: Vec<u64>,
    kicked: u64,
    seen: Outcome,
}

/// The default of each parameter on a live host, where it is another one than as published.
pub fn live(host: &str) -> Vec<(&'static str, u64)> {
    let live = takt_policy::live(|p| if host == "xen" { p.xen } else { p.linux });
    live.into_iter().map(|(p, value)| (p.name, value)).collect()
}

impl Host {
    /// Gives `vms` what they want on `pcpus` PCPUs for `time` ns, after a second.
    pub fn run(policy: &str, set: &[(&str, u64)], pcpus: u16, vms: &[Vm], time: u64) -> Outcome {
        let core = maker(None).expect("native core")(policy).expect("a policy");
        let n = usize::from(pcpus);
        let mut host = Self {
            core,
            rng: Rng::with_seed(1),
            now: MS,
            vms: vms.to_vec(),
            vcpus: Vec::new(),
            cur: vec![None; n],
            since: vec![0; n],
            gathers: NEVER,
            accounts: 0,
            gone: Vec::new(),
            slice_end: vec![NEVER; n],
            kicked: 0,
            seen: Outcome::default(),
        };
        host.begin(set);
        if vms.iter().any(|vm| matches!(vm.does, Does::Gathers(..) | Does::Pauses(_))) {
            host.gathers = host.now + ACCT - NEAR;
        }
        host.until(SECOND);
        host.clear();
        host.until(SECOND + time);
        host.core.check().unwrap_or_else(|e| panic!("{policy}: {e}"));
        let ledger = host.core.ledger();
        assert_eq!(ledger.total, ledger.given - ledger.burned - ledger.clipped, "{policy}: the ledger");
        host.seen.had.iter_mut().for_each(|had| *had /= time as f64);
        host.seen
    }

    fn clear(&mut self) {
        let n = self.vms.len();
        self.seen = Outcome { had: vec![0.0; n], late: vec![0; n], jobs: vec![0; n], ..Outcome::default() };
    }

    fn op(&mut self, code: OpCode, at: (usize, usize, usize), arg: [u64; 2]) -> Res {
        let (cpu, vcpu, vm) = (at.0 as u16, at.1 as u16, at.2 as u16);
        let op = Op { seq: 0, now: self.now, op: code as u16, cpu, vcpu, vm, arg: [arg[0], arg[1], 0, 0] };
        let res = self.core.op(op);
        assert_eq!(res.ret, 0, "{}: {op:?}", self.core.policy());
        // A PCPU that has been kicked already is not kicked again before it decides.
        self.seen.kicks += u64::from((res.kick & !self.kicked).count_ones());
        self.kicked |= res.kick;
        res
    }

    fn set(&mut self, vm: usize, name: &str, value: u64) {
        let per_vm = vm != NIL as usize;
        let key = takt_policy::param(name, per_vm).expect(name).key;
        self.op(OpCode::Adjust, (0, 0, vm), [key.into(), value]);
    }

    fn begin(&mut self, set: &[(&str, u64)]) {
        set.iter().for_each(|&(name, value)| self.set(NIL as usize, name, value));
        (0..self.cur.len()).for_each(|c| _ = self.op(OpCode::CpuAdd, (c, 0, 0), [c as u64, 0]));
        self.clear();
        for vm in 0..self.vms.len() {
            let Vm { kind, weight, vcpus, does, threads, beside, sends, server, cap, .. } = self.vms[vm];
            self.op(OpCode::VmAdd, (0, 0, vm), [if kind == HOST { HOST } else { GUEST }, weight]);
            if let Some((budget, period, priority)) = server {
                self.set(vm, "priority", priority);
                self.set(vm, "period", period);
                self.set(vm, "budget", budget);
            }
            self.set(vm, "cap", cap);
            let mut add = |n: u16, kind, does| {
                for _ in 0..n {
                    self.vcpus.push(Vcpu { vm, kind, does, left: 0, next: 0, sleeps: false });
                    let v = self.vcpus.len() - 1;
                    self.add(v, v % self.cur.len());
                }
            };
            add(vcpus, kind, does);
            if let Some((n, does)) = beside {
                add(n, kind, does);
            }
            if let Some((n, kind, least, most)) = threads {
                add(n, kind, Does::Replaces(least, most));
            }
            if let Some(period) = sends {
                let op = Op { op: OpCode::SetRt as u16, vm: vm as u16, arg: [1, period, NEVER, 0], ..Op::default() };
                assert_eq!(self.core.op(Op { now: self.now, ..op }).ret, 0);
            }
        }
    }

    /// VCPU `v` comes, with work.
    fn add(&mut self, v: usize, cpu: usize) {
        let Vcpu { vm, kind, does, .. } = self.vcpus[v];
        self.vcpus[v].left = match does {
            Does::Computes | Does::Gathers(..) | Does::Pauses(_) | Does::Begins(_) => NEVER,
            Does::Replaces(least, most) | Does::Restarts(least, most, _) => self.rng.u64(least..=most),
            Does::Works { work, .. } => work,
        };
        self.op(OpCode::VcpuAdd, (cpu, v, vm), [kind, 0]);
        if self.vms[vm].mask != NEVER {
            self.op(OpCode::SetAffinity, (0, v, 0), [0, self.vms[vm].mask]);
        }
        match does {
            Does::Works { period, .. } => self.vcpus[v].next = self.now + self.rng.u64(0..period),
            Does::Begins(after) => self.vcpus[v].next = self.now + after,
            _ => _ = self.op(OpCode::Wake, (0, v, 0), [0, 0]),
        }
        self.vcpus[v].sleeps = self.vcpus[v].next > 0;
    }

    /// What ran on `cpu` until now.
    fn account(&mut self, cpu: usize) {
        let Some(v) = self.cur[cpu] else { return };
        let ran = self.now - self.since[cpu];
        self.since[cpu] = self.now;
        self.seen.had[self.vcpus[v].vm] += ran as f64;
        let left = &mut self.vcpus[v].left;
        *left = if *left == NEVER { NEVER } else { left.saturating_sub(ran) };
    }

    fn decide(&mut self, cpu: usize, stops: bool) {
        self.account(cpu);
        self.kicked &= !(1 << cpu);
        let old = self.cur[cpu];
        let res = self.op(OpCode::Schedule, (cpu, 0, 0), [if stops { CUR_STOPS } else { 0 }, 0]);
        self.cur[cpu] = (res.next != NIL).then_some(res.next as usize);
        self.since[cpu] = self.now;
        self.slice_end[cpu] = if res.next == NIL { NEVER } else { self.now.saturating_add(res.slice) };
        if old == self.cur[cpu] {
            return;
        }
        if let Some(v) = old {
            self.op(OpCode::Put, (0, v, 0), [u64::from(!stops), NEVER]);
            self.seen.preempted += u64::from(!stops);
        }
        if let Some(v) = self.cur[cpu] {
            self.op(OpCode::Started, (0, v, 0), [0; 2]);
            self.seen.switches += 1;
        }
    }

    /// When something is due next.
    fn next(&self, end: u64) -> u64 {
        let cpus = (0..self.cur.len()).map(|c| {
            let done = self.cur[c].map_or(NEVER, |v| self.since[c].saturating_add(self.vcpus[v].left));
            self.slice_end[c].min(self.core.cpu_timer(c as u32)).min(done)
        });
        let wakes = self.vcpus.iter().filter(|v| v.next > 0).map(|v| v.next);
        cpus.chain(wakes).fold(end.min(self.core.pool_timer()).min(self.gathers), u64::min).max(self.now)
    }

    fn until(&mut self, end: u64) {
        while self.now < end {
            while self.kicked != 0 {
                self.decide(self.kicked.trailing_zeros() as usize, false);
            }
            self.now = self.next(end);
            (0..self.cur.len()).for_each(|c| self.account(c));
            for c in 0..self.cur.len() {
                if self.core.cpu_timer(c as u32) <= self.now {
                    self.op(OpCode::TimerCpu, (c, 0, 0), [0; 2]);
                }
            }
            if self.core.pool_timer() <= self.now {
                self.op(OpCode::TimerPool, (0, 0, 0), [0; 2]);
            }
            (0..self.cur.len()).for_each(|c| self.done(c));
            (0..self.vcpus.len()).for_each(|v| self.due(v));
            if self.gathers <= self.now {
                self.gather();
            }
            for c in 0..self.cur.len() {
                if self.slice_end[c] <= self.now {
                    self.decide(c, false);
                }
            }
        }
    }

    /// The VCPU on `cpu` may have done its work.
    fn done(&mut self, cpu: usize) {
        let Some(v) = self.cur[cpu].filter(|&v| self.vcpus[v].left == 0) else { return };
        let vm = self.vcpus[v].vm;
        let work = match self.vcpus[v].does {
            Does::Works { work, .. } => work,
            Does::Restarts(_, _, owes) => return self.restart(vm, owes),
            _ => {
                self.decide(cpu, true);
                self.op(OpCode::VcpuRemove, (0, v, 0), [0; 2]);
                return self.add(v, cpu);
            }
        };
        self.seen.jobs[vm] += 1;
        self.vcpus[v].left = work;
        if self.vcpus[v].next > self.now {
            self.vcpus[v].sleeps = true;
            self.decide(cpu, true);
        }
    }

    /// VCPU `v` goes.
    fn remove(&mut self, v: usize) {
        if let Some(cpu) = self.cur.iter().position(|cur| *cur == Some(v)) {
            self.decide(cpu, true);
        }
        self.op(OpCode::VcpuRemove, (0, v, 0), [0; 2]);
    }

    fn of(&self, vm: usize) -> Vec<usize> {
        (0..self.vcpus.len()).filter(|&v| self.vcpus[v].vm == vm).collect()
    }

    /// VM `vm`, which has no VCPU left, ends, and another VM takes its place.
    fn replace(&mut self, vm: usize, owes: bool) {
        let owed = if owes { self.core.owes(vm as u32) } else { 0 };
        self.op(OpCode::VmRemove, (0, 0, vm), [0; 2]);
        self.op(OpCode::VmAdd, (0, 0, vm), [GUEST, self.vms[vm].weight | u64::from(owed) << 32]);
    }

    fn restart(&mut self, vm: usize, owes: bool) {
        let all = self.of(vm);
        all.iter().for_each(|&v| self.remove(v));
        self.replace(vm, owes);
        all.into_iter().for_each(|v| self.add(v, v % self.cur.len()));
    }

    /// Just before an accounting: VCPUs that gather go, and those that pause stop. Just after it: those that have gone come
    /// again.
    fn gather(&mut self) {
        if !self.gone.is_empty() {
            self.gathers += ACCT - 2 * NEAR;
            for v in std::mem::take(&mut self.gone) {
                self.add(v, v % self.cur.len());
            }
            return;
        }
        self.accounts += 1;
        for vm in 0..self.vms.len() {
            match self.vms[vm].does {
                Does::Gathers(each, ends) if self.accounts % each == 0 => self.leave_one(vm, ends),
                Does::Pauses(each) if self.accounts % each == 0 => self.pause(vm),
                _ => {}
            }
        }
        self.gathers += if self.gone.is_empty() { ACCT } else { 2 * NEAR };
    }

    fn leave_one(&mut self, vm: usize, ends: bool) {
        let all = self.of(vm);
        all[usize::from(!ends)..].iter().for_each(|&v| self.remove(v));
        if ends {
            self.replace(vm, true);
            self.add(all[0], all[0] % self.cur.len());
        }
        self.gone.extend(&all[1..]);
    }

    fn pause(&mut self, vm: usize) {
        for cpu in 0..self.cur.len() {
            if let Some(v) = self.cur[cpu].filter(|&v| self.vcpus[v].vm == vm) {
                self.decide(cpu, true);
                self.op(OpCode::Wake, (0, v, 0), [0, 0]);
            }
        }
    }

    /// The next job of a VCPU may be due. What is late is not made up for.
    fn due(&mut self, v: usize) {
        if self.vcpus[v].next == 0 || self.vcpus[v].next > self.now {
            return;
        }
        self.vcpus[v].next = match self.vcpus[v].does {
            Does::Works { period, .. } => self.vcpus[v].next + period,
            _ => 0,
        };
        let sends = self.vms[self.vcpus[v].vm].sends.is_some();
        if self.vcpus[v].sleeps {
            self.vcpus[v].sleeps = false;
            self.seen.wakes += 1;
            self.op(OpCode::Wake, (0, v, 0), [u64::from(sends), 0]);
        } else {
            self.seen.late[self.vcpus[v].vm] += 1;
        }
        if sends {
            self.op(OpCode::Event, (0, v, 0), [1, 0]);
        }
    }
}
