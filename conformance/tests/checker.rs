// SPDX-License-Identifier: GPL-2.0-only
//! The checker refuses logs that break a rule, one example per rule, without any core.

use takt_conformance::{Checker, Limits, Rule};
use takt_policy::{NEVER, NIL, Op, OpCode, Record, Res};

const MS: u64 = 1_000_000;

/// Writes a log by hand: two PCPUs, a VM, two VCPUs.
struct Script(Checker, u64);

fn res() -> Res {
    Res { next: NIL, cpu_timer: NEVER, pool_timer: NEVER, ..Res::default() }
}
fn op(code: OpCode, now: u64, cpu: u16, vcpu: u16, vm: u16, arg: [u64; 2]) -> Op {
    Op { seq: 0, now, op: code as u16, cpu, vcpu, vm, arg: [arg[0], arg[1], 0, 0] }
}

impl Script {
    fn new(limits: Limits) -> Self {
        let mut s = Self(Checker::new(limits), 0);
        for c in 0..2 {
            s.ok(op(OpCode::CpuAdd, 0, c, 0, 0, [c.into(), 0]), Res { kick: 1 << c, ..res() });
            s.ok(op(OpCode::Schedule, 0, c, 0, 0, [0, 0]), Res { slice: NEVER, ..res() });
        }
        s.ok(op(OpCode::VmAdd, 0, 0, 0, 1, [0, 256]), res());
        for v in 0..2 {
            s.ok(op(OpCode::VcpuAdd, 0, 0, v, 1, [0, 0]), res());
        }
        s
    }
    fn add(&mut self, mut op: Op, res: Res) -> Option<Rule> {
        self.1 += 1;
        op.seq = self.1;
        self.0.step(&Record { op, res }).err().map(|v| v.rule)
    }
    fn ok(&mut self, op: Op, res: Res) {
        assert_eq!(self.add(op, res), None, "{op:?}");
    }
    fn wake(&mut self, now: u64, v: u16) {
        self.ok(op(OpCode::Wake, now, 0, v, 0, [0, 0]), Res { kick: 3, ..res() });
    }
    fn pick(&mut self, now: u64, cpu: u16, v: u32) -> Option<Rule> {
        self.add(op(OpCode::Schedule, now, cpu, 0, 0, [0, 0]), Res { next: v, slice: MS, ..res() })
    }
    /// VCPU 0 runs on PCPU 0, PCPU 1 has scheduled and idles.
    fn running(limits: Limits) -> Self {
        let mut s = Self::new(limits);
        s.wake(0, 0);
        assert_eq!(s.pick(0, 0, 0), None);
        s.ok(op(OpCode::Started, 0, 0, 0, 0, [0, 0]), res());
        s.ok(op(OpCode::Schedule, 0, 1, 0, 0, [0, 0]), Res { slice: NEVER, ..res() });
        s
    }
}

#[test]
fn picks() {
    let mut s = Script::running(Limits::default());
    assert_eq!(s.pick(MS, 1, 0), Some(Rule::Pick), "two PCPUs with one VCPU");
    let mut s = Script::running(Limits::default());
    assert_eq!(s.pick(MS, 1, 1), Some(Rule::Pick), "blocked");
    let mut s = Script::new(Limits::default());
    s.ok(op(OpCode::SetAffinity, 0, 0, 1, 0, [0, 1]), res());
    s.wake(0, 1);
    assert_eq!(s.pick(0, 1, 1), Some(Rule::Pick), "not allowed there");
    let mut s = Script::new(Limits::default());
    s.wake(0, 1);
    let zero = Res { next: 1, ..res() };
    assert_eq!(s.add(op(OpCode::Schedule, 0, 0, 0, 0, [0, 0]), zero), Some(Rule::Slice));
    let mut s = Script::new(Limits::default());
    s.wake(0, 1);
    let forced = Res { next: 1, slice: MS, ..res() };
    assert_eq!(s.add(op(OpCode::Schedule, 0, 0, 0, 0, [1, 0]), forced), Some(Rule::Pick));
}

#[test]
fn transitions() {
    let bad = |code, v, arg, ret| {
        let mut s = Script::running(Limits::default());
        s.add(op(code, MS, 0, v, 0, arg), Res { ret, ..res() })
    };
    let wrong = Some(Rule::Transition);
    assert_eq!(bad(OpCode::Started, 0, [0, 0], 0), wrong, "running already");
    assert_eq!(bad(OpCode::Started, 0, [0, 0], -2), wrong, "the wrong error");
    assert_eq!(bad(OpCode::Started, 0, [0, 0], -16), None);
    assert_eq!(bad(OpCode::Wake, 1, [0, 0], -16), wrong, "a legal operation refused");
    assert_eq!(bad(OpCode::Wake, 7, [0, 0], 0), wrong, "absent");
    assert_eq!(bad(OpCode::Put, 1, [0, NEVER], 0), wrong, "blocked");
    assert_eq!(bad(OpCode::Block, 0, [0, 0], 0), wrong, "running");
    assert_eq!(bad(OpCode::Adjust, 0, [9999, 0], 0), wrong, "unknown key");
    assert_eq!(bad(OpCode::VcpuRemove, 0, [0, 0], 0), wrong, "running");
}

#[test]
fn conservation() {
    let quiet = |s: &mut Script, v| s.add(op(OpCode::Wake, MS, 0, v, 0, [0, 0]), res());
    assert_eq!(quiet(&mut Script::running(Limits::default()), 1), Some(Rule::WorkConservation), "nobody is kicked");
    let mut s = Script::running(Limits::default());
    s.wake(MS, 1);
    let idle = Res { slice: NEVER, ..res() };
    let schedule = op(OpCode::Schedule, MS, 1, 0, 0, [0, 0]);
    assert_eq!(s.add(schedule, idle), Some(Rule::WorkConservation), "idle beside a queued one");
    // Rule 1: a wake while it runs, then a put that says it blocks.
    let mut s = Script::running(Limits::default());
    s.ok(op(OpCode::Wake, MS, 0, 0, 0, [0, 0]), res());
    let lost = s.add(op(OpCode::Put, MS, 0, 0, 0, [0, NEVER]), res());
    assert_eq!(lost, Some(Rule::LostWake));
}

/// Rule C13: with `tickle=xen` a VCPU may wait beside an idle PCPU, but not on one, and no PCPU
/// begins to idle meanwhile.
#[test]
fn a_pool_as_xens_may_idle_beside_what_waits() {
    let xen = |begun: fn(Limits) -> Script| {
        let mut s = begun(Limits::default());
        let tickle = takt_policy::params().into_iter().find(|p| p.name == "tickle").expect("tickle").key;
        s.ok(op(OpCode::Adjust, 0, 0, 0, NIL as u16, [tickle.into(), 2]), res());
        s
    };
    let quiet = |s: &mut Script, v| s.add(op(OpCode::Wake, MS, 0, v, 0, [0, 0]), res());
    let mut s = xen(Script::running);
    assert_eq!(quiet(&mut s, 1), None, "PCPU 0 is busy, and 1 may be where it is queued");
    let schedule = op(OpCode::Schedule, MS, 1, 0, 0, [0, 0]);
    assert_eq!(s.add(schedule, Res { slice: NEVER, ..res() }), Some(Rule::WorkConservation), "it begins to idle");
    assert_eq!(quiet(&mut xen(Script::new), 1), Some(Rule::WorkConservation), "both PCPUs idle");
    let mut s = xen(Script::running);
    s.ok(op(OpCode::SetAffinity, 0, 0, 1, 0, [0, 2]), res());
    assert_eq!(quiet(&mut s, 1), Some(Rule::WorkConservation), "PCPU 1 is its only one");
}

#[test]
fn kicks_and_timers() {
    let mut s = Script::running(Limits::default());
    let far = Res { kick: 4, ..res() };
    assert_eq!(s.add(op(OpCode::Wake, MS, 0, 1, 0, [0, 0]), far), Some(Rule::Kick), "offline");
    let mut s = Script::running(Limits::default());
    assert_eq!(s.add(op(OpCode::Pause, MS, 0, 0, 0, [0, 0]), res()), Some(Rule::Kick), "its PCPU is not told");
    let mut s = Script::running(Limits::default());
    let past = Res { cpu_timer: MS, ..res() };
    assert_eq!(s.add(op(OpCode::TimerCpu, MS, 0, 0, 0, [0, 0]), past), Some(Rule::Timer));
    let mut s = Script::running(Limits { timer_slack: Some(0), ..Limits::default() });
    s.ok(op(OpCode::TimerCpu, MS, 0, 0, 0, [0, 0]), Res { cpu_timer: 2 * MS, ..res() });
    let event = op(OpCode::Event, 3 * MS, 0, 1, 0, [0, 0]);
    assert_eq!(s.add(event, res()), Some(Rule::Timer), "the host did not call it");
}

#[test]
fn hosts_duties() {
    let mut s = Script::running(Limits::default());
    let gap = Record { op: Op { seq: 99, ..op(OpCode::Wake, MS, 0, 1, 0, [0, 0]) }, res: res() };
    assert_eq!(s.0.step(&gap).map_err(|v| v.rule), Err(Rule::Sequence));
    let event = |s: &mut Script, now| s.add(op(OpCode::Event, now, 0, 1, 0, [0, 0]), res());
    let mut s = Script::running(Limits::default());
    assert_eq!(event(&mut s, 5), None);
    assert_eq!(event(&mut s, 4), Some(Rule::Time));
    let mut s = Script::running(Limits { max_pending: Some(MS), ..Limits::default() });
    s.wake(0, 1);
    assert_eq!(event(&mut s, 3 * MS), Some(Rule::Counts), "kicked and never scheduled");
    let mut s = Script::running(Limits { wait: Some(MS), ..Limits::default() });
    s.wake(0, 1);
    assert_eq!(event(&mut s, 3 * MS), Some(Rule::WaitBound));
    let mut s = Script::running(Limits::default());
    let lie = op(OpCode::Put, MS, 0, 0, 0, [0, 2 * MS]);
    assert_eq!(s.add(lie, Res { kick: 1, ..res() }), Some(Rule::Arguments), "ran longer than time passed");
    let mut s = Script::running(Limits::default());
    let extra = Op { vm: 3, ..op(OpCode::Wake, MS, 0, 1, 0, [0, 0]) };
    assert_eq!(s.add(extra, res()), Some(Rule::Arguments), "an unused field");
}

#[test]
fn counts_that_cannot_match() {
    let mut s = never_scheduled();
    for i in 0..10 {
        s.wake(i, 0);
        s.ok(op(OpCode::Block, i, 0, 0, 0, [0, 0]), res());
    }
    assert_eq!(s.0.finish().map_err(|v| v.rule).err(), Some(Rule::Counts), "ten wakes and no schedule");
    let mut s = Script::new(Limits::default());
    s.wake(0, 0);
    for _ in 0..70 {
        assert_eq!(s.pick(0, 0, 0), None);
        s.ok(op(OpCode::Refused, 0, 0, 0, 0, [0, 0]), Res { kick: 1, ..res() });
    }
    assert_eq!(s.0.finish().map_err(|v| v.rule).err(), Some(Rule::Counts), "every pick is refused");
    let s = Script::running(Limits::default());
    let summary = s.0.finish().expect("sane");
    assert_eq!(summary.operations["schedule"].accepted, 4);
    assert_eq!((summary.vcpus[&0].wakes, summary.vcpus[&0].started), (1, 1));
}

/// A pool whose PCPU never scheduled.
fn never_scheduled() -> Script {
    let mut s = Script(Checker::new(Limits::default()), 0);
    for c in 0..2 {
        s.ok(op(OpCode::CpuAdd, 0, c, 0, 0, [0, 0]), Res { kick: 1 << c, ..res() });
    }
    s.ok(op(OpCode::VmAdd, 0, 0, 0, 1, [0, 256]), res());
    s.ok(op(OpCode::VcpuAdd, 0, 0, 0, 1, [0, 0]), res());
    s
}
