// SPDX-License-Identifier: GPL-2.0-only
//! Which operations `docs/states.md` refuses, and with which errors.

use crate::model::{Model, bit};
use takt_policy::{CUR_STOPS, FORCE_IDLE, NCPU, NIL, NVCPU, NVM, Op, OpCode, State};

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ERANGE: i32 = 34;
const EOPNOTSUPP: i32 = 95;

/// What the table says of one operation in the present state: errors that must and errors that may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    must: u128,
    may: u128,
}

impl Verdict {
    fn must(mut self, when: bool, errors: &[i32]) -> Self {
        if when {
            self.must |= errors.iter().fold(0, |m, e| m | 1 << e);
        }
        self
    }
    fn may(mut self, when: bool, errors: &[i32]) -> Self {
        if when {
            self.may |= errors.iter().fold(0, |m, e| m | 1 << e);
        }
        self
    }
    /// The operation has to be refused.
    pub fn refuses(&self) -> bool {
        self.must != 0
    }
    pub fn permits(&self, ret: i32) -> bool {
        match ret {
            0 => self.must == 0,
            -127..0 => (self.must | self.may) >> -ret & 1 == 1,
            _ => false,
        }
    }
    /// The permitted return values, for messages.
    pub fn describe(&self) -> String {
        let ok = (self.must == 0).then(|| "0".to_string());
        let errors = (1..128).filter(|e| (self.must | self.may) >> e & 1 == 1).map(|e| format!("-{e}"));
        ok.into_iter().chain(errors).collect::<Vec<_>>().join(" or ")
    }
}

/// Credits that a new VM may owe: a day on a PCPU.
const OWED_MOST: u64 = 1 << 30;
/// Longest period that `set_rt` takes, ns.
const LONGEST_PERIOD: u64 = 10_000_000_000;

/// Errors of an index that no array has.
const NO_INDEX: &[i32] = &[ENOENT, EINVAL, ERANGE];

impl Model {
    pub(crate) fn verdict(&self, op: &Op) -> Verdict {
        use OpCode::*;
        let none = Verdict::default();
        let Some(code) = OpCode::from_u16(op.op) else { return none.must(true, &[EINVAL]) };
        let (a, v, c, m) = (&op.arg, op.vcpu, op.cpu, op.vm);
        let by_vcpu = matches!(
            code,
            VcpuAdd
                | VcpuRemove
                | SetPlacement
                | SetAffinity
                | Wake
                | Event
                | Block
                | Yield
                | Pause
                | Unpause
                | Move
                | Started
                | Refused
                | Put
        );
        let by_cpu =
            matches!(code, CpuAdd | CpuRemove | VcpuAdd | Move | Schedule | CpuRelease | CpuAcquire | TimerCpu);
        let by_vm =
            matches!(code, VmAdd | VmRemove | VcpuAdd | SetRt | SetGroup) || code == Adjust && u32::from(m) != NIL;
        let wild = Verdict::default()
            .must(by_vcpu && u32::from(v) >= NVCPU, NO_INDEX)
            .must(by_cpu && u32::from(c) >= NCPU, NO_INDEX)
            .must(by_vm && u32::from(m) >= NVM, NO_INDEX);
        if wild.refuses() {
            return wild.may(true, &[ENOENT, EBUSY, EEXIST, EINVAL, ERANGE, EOPNOTSUPP]);
        }
        let e = &self.vcpu[usize::from(v) % NVCPU as usize];
        let s = e.state;
        let on = self.online & bit(c) != 0;
        let vm = &self.vm[usize::from(m) % NVM as usize];
        let holds = matches!(s, State::Picked | State::Running);
        let off_queue = holds || s == State::Descheduling;
        let r = none
            .must(by_vcpu && code != VcpuAdd && s == State::Absent, &[ENOENT])
            .must(by_cpu && code != CpuAdd && !on, &[ENOENT]);
        let r = r.must(by_vm && code != VmAdd && !vm.used, &[ENOENT]);
        let cur = self.cur[usize::from(c) % NCPU as usize];
        match code {
            None | Epoch | TimerCpu | TimerPool => r,
            CpuAdd => r.must(on, &[EEXIST]).may(a[..3].iter().any(|&x| x >= 0xffff), &[ERANGE]),
            CpuRemove => {
                let last = self.online & !bit(c) == 0 && self.nr_vcpu > 0;
                r.must(on && (cur.is_some() || last), &[EBUSY])
            }
            VmAdd => r
                .must(vm.used, &[EEXIST])
                .must(a[0] > 2 || a[0] == 1, &[ERANGE, EINVAL])
                .must(!self.in_range("weight", a[1] & u64::from(u32::MAX)), &[ERANGE])
                .must(a[1] >> 32 > OWED_MOST, &[ERANGE]),
            VmRemove => r.must(vm.vcpus > 0, &[EBUSY]),
            VcpuAdd => {
                r.must(s != State::Absent, &[EEXIST]).must(a[0] > 2 || vm.used && (a[0] == 2) != vm.host, &[ERANGE])
            }
            VcpuRemove => r.must(off_queue, &[EBUSY]),
            Adjust => self.verdict_adjust(op, r),
            SetRt => self.verdict_set_rt(op, r),
            // The policy decides who fits in where.
            SetGroup => r.may(true, &[EOPNOTSUPP, ERANGE, EBUSY, ENOSPC]),
            SetPlacement => r.must(a[0] == 0, &[ERANGE]),
            SetAffinity => r.must(a[0] > 1, &[ERANGE, EINVAL]).must(a[1] == 0, &[ERANGE]),
            Wake => r.must(a[0] > 3, &[ERANGE]),
            Event => r.must(a[0] > 3, &[ERANGE]),
            Block => r.must(off_queue, &[EBUSY]),
            Yield => {
                let to = a[0] as usize;
                let gone = a[0] != u64::from(NIL) && self.vcpu.get(to).is_none_or(|t| t.state == State::Absent);
                r.must(s != State::Running && s != State::Absent, &[EBUSY]).may(gone, NO_INDEX)
            }
            Pause => r.must(s == State::Paused || e.pausing, &[EBUSY]),
            Unpause => r.must(s != State::Paused && !e.pausing && s != State::Absent, &[EBUSY]),
            Move => r.must(holds, &[EBUSY]).must(on && s != State::Absent && self.allowed(v) & bit(c) == 0, &[ERANGE]),
            Schedule => {
                let picked = cur.is_some_and(|v| self.vcpu[usize::from(v)].state == State::Picked);
                r.must(picked, &[EBUSY]).must(a[0] & !(FORCE_IDLE | CUR_STOPS) != 0, &[EINVAL])
            }
            Started | Refused => r.must(s != State::Picked && s != State::Absent, &[EBUSY]),
            Put => {
                let away = !matches!(s, State::Running | State::Descheduling | State::Absent);
                r.must(away, &[EBUSY]).must(a[0] > 1, &[ERANGE, EINVAL])
            }
            CpuRelease => r.must(on && self.taken & bit(c) != 0, &[EBUSY]),
            CpuAcquire => r.must(on && self.taken & bit(c) == 0, &[EBUSY]),
        }
    }

    fn in_range(&self, name: &str, value: u64) -> bool {
        self.params.iter().find(|p| p.name == name).is_none_or(|p| (p.min..=p.max).contains(&value))
    }

    /// Whether a VCPU is not blocked.
    fn has_work(&self) -> bool {
        self.vcpu.iter().any(|v| !matches!(v.state, State::Absent | State::Blocked))
    }

    fn verdict_adjust(&self, op: &Op, r: Verdict) -> Verdict {
        let pool = u32::from(op.vm) == NIL;
        match self.params.iter().find(|p| u64::from(p.key) == op.arg[0]) {
            Option::None => r.must(true, &[EINVAL]),
            Some(p) => r
                .must(p.per_vm == pool, &[EINVAL, ENOENT, ERANGE])
                .must(!(p.min..=p.max).contains(&op.arg[1]), &[ERANGE])
                .must(
                    p.name == "rt" && op.arg[1] == 1 && !pool && self.vm[usize::from(op.vm) % NVM as usize].host,
                    &[EOPNOTSUPP],
                )
                // `rt=on` is subject to rt_max.
                .may(p.name == "rt", &[EBUSY])
                // A budget needs a period that is as long, and room.
                .may(!pool && ["budget", "period"].contains(&p.name), &[ERANGE, ENOSPC])
                // Places of two kinds are in no queue; only policies with budgets have such places.
                .may(pool && p.name == "leftover" && self.has_work(), &[EBUSY])
                // No reserve comes out of what servers are promised, and no admission is right while that is too much.
                .may(pool && ["reserve", "admission"].contains(&p.name), &[ENOSPC]),
        }
    }

    fn verdict_set_rt(&self, op: &Op, r: Verdict) -> Verdict {
        let vm = &self.vm[usize::from(op.vm) % takt_policy::NVM as usize];
        let on = op.arg[0] != 0 && op.arg[2] != 0 && vm.used;
        // A lease that has run out may or may not have been noticed.
        let others = |held: &dyn Fn(u64) -> bool| {
            let n = self.vm.iter().enumerate().filter(|(i, m)| *i != usize::from(op.vm) && held(m.rt_until)).count();
            n as u64
        };
        let max = self.rt_max.unwrap_or(u64::MAX);
        let full = on && vm.rt_until == 0 && others(&|t| t > self.now) >= max;
        let maybe = on && others(&|t| t > 0) >= max;
        r.must(vm.used && vm.host, &[EOPNOTSUPP])
            .must(on && vm.rt_off, &[EBUSY])
            .must(full, &[EBUSY])
            .may(maybe, &[EBUSY])
            .must(op.arg[1] > LONGEST_PERIOD, &[ERANGE])
            .may(true, &[EOPNOTSUPP])
            .may(op.arg[0] > 1, &[ERANGE, EINVAL])
    }
}
