// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/doris.md: deadlines, promotion, the collector.

use super::bench::{Bench, IO, MS, OTHER, TIMER, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

/// One PCPU. VCPU 1 is the hog and runs since 0, UNDER since a tick at 10 ms; VCPUs 2 and 3 belong to VMs 2 and 3.
pub fn pool(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "doris", 1, 3);
    (1..=3).for_each(|v| b.vcpu(v, v, 0));
    b.vcpu(10, 0, 0);
    b.wake(0, 1);
    b.turn(0, 0);
    b.timer(10 * MS, 0);
    assert_eq!(b.class(1), Class::Under);
    b
}

/// Has `v` queue as UNDER at `t`: it wakes, loses its boost to a tick at `t`, and another runs.
pub fn queue_under(b: &mut Bench, v: u16, t: u64) {
    b.wake(t, v);
    b.turn(t, 0);
    b.timer(t, 0);
    b.turn(t, 0);
    assert_eq!((b.state(v), b.class(v)), (State::Queued, Class::Under), "VCPU {v} queues as UNDER");
}

pub fn deadlines(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 20 * MS);
    b.wake(15 * MS, 2);
    assert_eq!(b.deadline(2), 35 * MS);
    b.wake(15 * MS, 3);
    assert_eq!(b.deadline(3), 0, "no real-time VM");
    b.turn(15 * MS, 0);
    b.turn(21 * MS, 0);
    assert_eq!(b.deadline(2), 41 * MS, "counted from each insertion");
}

pub fn promotion(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    queue_under(&mut b, 2, 20 * MS);
    assert_eq!(b.core.cpu_timer(0), 27 * MS, "the timer is at the first deadline");
    b.timer(27 * MS - 1, 0);
    assert_eq!(b.class(2), Class::Under);
    let res = b.timer(27 * MS, 0);
    assert_eq!((b.class(2), res.kick), (Class::Rt, 1), "at the deadline, not after it (rule D11)");
    assert_eq!(res.cpu_timer, 30 * MS, "the tick is next");
    assert_eq!(b.turn(27 * MS, 0), Some(2));
    // A decision promotes as well.
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    queue_under(&mut b, 2, 20 * MS);
    assert_eq!(b.turn(28 * MS, 0), Some(2));
    assert_eq!(b.class(2), Class::Rt);
}

/// One rtq holds several VCPUs in order of their deadlines, those with equal deadlines in order of
/// their insertion (rule D25).
pub fn deadline_order(make: &Maker) {
    // VCPU 3 queues first, with its deadline at 37 ms, then VCPU 2.
    let two = |period| {
        let mut b = pool(make);
        b.rt(10 * MS, 3, 7 * MS);
        queue_under(&mut b, 2, 20 * MS);
        queue_under(&mut b, 3, 30 * MS);
        b.rt(30 * MS, 2, period);
        assert_eq!(b.turn(30 * MS, 0), Some(1));
        assert_eq!((b.deadline(3), b.deadline(2)), (37 * MS, 30 * MS + period));
        b
    };
    let mut b = two(5 * MS);
    assert_eq!(b.core.cpu_timer(0), 35 * MS, "the later insertion has the first deadline");
    b.timer(35 * MS, 0);
    assert_eq!((b.class(2), b.class(3)), (Class::Rt, Class::Under));
    assert_eq!(b.core.cpu_timer(0), 37 * MS);
    b.timer(37 * MS, 0);
    assert_eq!(b.class(3), Class::Rt);
    let mut b = two(7 * MS);
    b.timer(37 * MS, 0);
    assert_eq!((b.turn(37 * MS, 0), b.stop(37 * MS, 0)), (Some(3), Some(2)), "equal ones: the first insertion");
}

pub fn events(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 0);
    queue_under(&mut b, 2, 20 * MS);
    assert_eq!(b.event(21 * MS, 2, TIMER).kick, 0, "a timer's interrupt is no I/O (rule D5)");
    assert_eq!(b.event(21 * MS, 2, OTHER).kick, 0);
    assert_eq!(b.class(2), Class::Under);
    assert_eq!(b.event(21 * MS, 2, IO).kick, 1);
    assert_eq!(b.class(2), Class::Rt, "queued, and promoted where it is");
    assert_eq!(b.core.vm_stat(2).map(|s| s.promotions), Some(1));
    assert_eq!(b.turn(21 * MS, 0), Some(2));
    assert_eq!(b.stop(21 * MS, 0), Some(1));
    b.set(21 * MS, None, "promote_on_timer", 1);
    queue_under(&mut b, 3, 30 * MS);
    b.event(31 * MS, 3, IO);
    assert_eq!(b.class(3), Class::Under, "no real-time VM");
    b.rt(31 * MS, 3, 0);
    b.event(31 * MS, 3, TIMER);
    assert_eq!(b.class(3), Class::Rt, "promote_on_timer");
    // While picked: what starts sees it, what is refused does not.
    for refused in [false, true] {
        let mut b = pool(make);
        b.rt(10 * MS, 2, 0);
        b.wake(12 * MS, 2);
        assert_eq!(b.ok(12 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 2);
        b.event(12 * MS, 2, IO);
        if refused {
            b.ok(12 * MS, OpCode::Refused, (0, 2, 0), [0; 3]);
        } else {
            b.ok(12 * MS, OpCode::Started, (0, 2, 0), [0; 3]);
            b.ok(13 * MS, OpCode::Put, (0, 2, 0), [1, MS, 0]);
        }
        assert_eq!(b.class(2) == Class::Rt, refused);
    }
    // The event before the wake.
    let mut b = pool(make);
    b.rt(10 * MS, 2, 20 * MS);
    b.event(12 * MS, 2, IO);
    b.wake(12 * MS, 2);
    assert_eq!(b.class(2), Class::Rt);
}

/// VCPU 2 after a debt of 2 ms that accounting has not seen, or has.
fn indebt(make: &Maker, seen: bool) -> Bench {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 5 * MS);
    b.wake(20 * MS, 2);
    b.turn(20 * MS, 0);
    b.timer(20 * MS, 0);
    b.turn(if seen { 400 * MS } else { 22 * MS }, 0);
    if seen {
        b.account(400 * MS);
    }
    b
}

pub fn eligibility(make: &Maker) {
    let mut b = indebt(make, false);
    assert_eq!((b.credit(2), b.class(2)), (-20, Class::Under));
    b.event(23 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Rt, "eligible=class: UNDER at the last accounting");
    let mut b = indebt(make, false);
    b.set(22 * MS, None, "eligible", 0);
    b.event(23 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Under, "eligible=credit: in debt now");
    assert_eq!(b.core.vm_stat(2).map(|s| s.refusals), Some(1));
    let mut b = indebt(make, true);
    assert_eq!((b.class(2), b.state(2)), (Class::Over, State::Queued));
    b.event(401 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Over);
    b.timer(406 * MS, 0);
    assert_eq!(b.class(2), Class::Over, "nor at its deadline (rule D8)");
    assert!(b.core.cpu_timer(0) > 406 * MS, "it has left the deadline queue");
}

pub fn demotion(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 20 * MS);
    b.event(12 * MS, 2, IO);
    b.wake(12 * MS, 2);
    assert_eq!(b.turn(12 * MS, 0), Some(2));
    b.timer(20 * MS, 0);
    assert_eq!(b.class(2), Class::Rt, "no tick ends it");
    b.account(30 * MS);
    assert_eq!(b.class(2), Class::Rt, "nor accounting (rule D13b)");
    assert_eq!(b.turn(31 * MS, 0), Some(1), "descheduled it is an equal again");
    assert!(b.class(2) > Class::Boost);
}

pub fn order(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 0);
    b.rt(10 * MS, 3, 0);
    queue_under(&mut b, 3, 20 * MS);
    queue_under(&mut b, 2, 30 * MS);
    b.ok(30 * MS, OpCode::Block, (0, 1, 0), [0; 3]);
    assert_eq!(b.turn(30 * MS, 0), Some(2));
    b.wake(30 * MS, 10);
    assert_eq!(b.turn(30 * MS, 0), Some(10));
    b.wake(31 * MS, 1);
    assert_eq!((b.class(1), b.class(2), b.class(3)), (Class::Boost, Class::Under, Class::Under));
    b.event(31 * MS, 2, IO);
    b.event(32 * MS, 3, IO);
    assert_eq!(b.turn(32 * MS, 0), Some(2), "RT before BOOST");
    assert_eq!(b.stop(32 * MS, 0), Some(3), "in order of promotion, not of queueing");
    assert_eq!(b.stop(32 * MS, 0), Some(1));
}

pub fn dom0(make: &Maker) {
    let mut b = pool(make);
    let stat = |b: &Bench| b.core.vm_stat(0).map(|s| (s.rt, s.period));
    assert_eq!(stat(&b), Some((0, 0)));
    b.rt(10 * MS, 2, 20 * MS);
    b.rt(10 * MS, 3, 5 * MS);
    assert_eq!(stat(&b), Some((1, 5 * MS)), "the shortest period");
    b.wake(12 * MS, 10);
    assert_eq!(b.deadline(10), 17 * MS);
    b.ok(13 * MS, OpCode::SetRt, (0, 0, 3), [0, 0, 0]);
    assert_eq!(stat(&b), Some((1, 20 * MS)));
    assert_eq!(b.turn(13 * MS, 0), Some(10));
    b.set(13 * MS, None, "dom0", 0);
    b.wake(14 * MS, 3);
    assert_eq!(b.turn(14 * MS, 0), Some(3));
    assert_eq!((b.state(10), b.deadline(10)), (State::Queued, 0), "dom0=off");
    b.event(14 * MS, 10, IO);
    assert!(b.class(10) != Class::Rt);
    b.set(14 * MS, None, "dom0", 1);
    b.event(14 * MS, 10, IO);
    assert_eq!(b.class(10), Class::Rt);
    b.set(15 * MS, Some(0), "rt", 2);
    assert_eq!(stat(&b).map(|s| s.0), Some(0), "rt=off: the host's threads are no Dom0");
    b.ok(15 * MS, OpCode::VcpuAdd, (0, 11, 0), [2, 0, 0]);
    b.wake(15 * MS, 11);
    assert_eq!(b.deadline(11), 0);
    let (key, refused) = (u64::from(takt_policy::params().iter().find(|p| p.name == "rt").map_or(0, |p| p.key)), -95);
    assert_eq!(b.op(15 * MS, OpCode::Adjust, (0, 0, 0), [key, 1, 0]).ret, refused, "the collector decides, or nobody");
    b.set(15 * MS, Some(0), "rt", 0);
    assert_eq!(stat(&b).map(|s| s.0), Some(1));
    b.ok(15 * MS, OpCode::SetRt, (0, 0, 2), [0, 0, 0]);
    assert_eq!(stat(&b).map(|s| s.0), Some(0));
    assert_eq!(b.op(15 * MS, OpCode::SetRt, (0, 0, 0), [1, 0, MS]).ret, -95, "the collector's, not the monitor's");
}

pub fn periods(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 0);
    b.wake(12 * MS, 2);
    assert_eq!(b.deadline(2), 0, "none before two packets were seen (rule D2)");
    b.rt(12 * MS, 3, US);
    b.wake(12 * MS, 3);
    assert_eq!(b.deadline(3), 12 * MS + 10 * US, "at least 10 µs (rule D3)");
    b.set(12 * MS, None, "period", MS);
    b.wake(12 * MS, 10);
    assert_eq!(b.deadline(10), 13 * MS, "a fixed period holds for Dom0 too");
}

/// A VM's own backend thread is promoted and charged with its VM, unless dom0=off.
pub fn io_threads(make: &Maker) {
    let mut b = pool(make);
    b.ok(10 * MS, OpCode::VcpuAdd, (0, 20, 2), [1, 0, 0]);
    b.rt(10 * MS, 2, 20 * MS);
    b.wake(12 * MS, 20);
    assert_eq!(b.deadline(20), 32 * MS);
    b.event(12 * MS, 20, IO);
    assert_eq!(b.class(20), Class::Rt);
    assert_eq!(b.core.vm_stat(2).map(|s| s.promotions), Some(1));
    assert_eq!(b.op(12 * MS, OpCode::VcpuAdd, (0, 21, 0), [1, 0, 0]).ret, -34, "Dom0 has no VM of its own to serve");
    let mut b = pool(make);
    b.set(10 * MS, None, "dom0", 0);
    b.ok(10 * MS, OpCode::VcpuAdd, (0, 20, 2), [1, 0, 0]);
    b.rt(10 * MS, 2, 20 * MS);
    b.event(12 * MS, 20, IO);
    b.wake(12 * MS, 20);
    assert_eq!((b.class(20), b.deadline(20)), (Class::Boost, 0), "the privileged are not special");
}

pub fn restored(make: &Maker) {
    let mut b = indebt(make, true);
    b.timer(410 * MS, 0);
    assert_eq!(b.class(2), Class::Over, "its deadline has passed, and it has left the deadline queue");
    assert!(b.core.cpu_timer(0) > 410 * MS);
    b.account(420 * MS);
    assert_eq!((b.class(2), b.state(2)), (Class::Under, State::Queued), "accounting paid its debt");
    assert!(b.core.cpu_timer(0) <= 420 * MS, "it is back, and due at once: {}", b.core.cpu_timer(0));
    assert_eq!(b.timer(420 * MS, 0).kick, 1);
    assert_eq!(b.class(2), Class::Rt);
}

pub fn leases(make: &Maker) {
    let mut b = pool(make);
    let rt = |b: &Bench| b.core.vm_stat(2).map(|s| s.rt);
    b.ok(10 * MS, OpCode::SetRt, (0, 0, 2), [1, MS, 50 * MS]);
    b.account(30 * MS);
    assert_eq!(rt(&b), Some(1));
    b.ok(40 * MS, OpCode::SetRt, (0, 0, 2), [1, MS, 50 * MS]);
    b.account(60 * MS);
    assert_eq!(rt(&b), Some(1), "renewed");
    b.account(90 * MS);
    assert_eq!(rt(&b), Some(0), "lapsed");
    assert_eq!(b.core.vm_stat(0).map(|s| s.rt), Some(0), "and Dom0 with it");
    b.event(91 * MS, 2, IO);
    b.wake(91 * MS, 2);
    assert!(b.class(2) != Class::Rt);
}

pub fn modes(make: &Maker) {
    let mut b = pool(make);
    let rt = |b: &Bench| b.core.vm_stat(2).map(|s| s.rt);
    b.rt(10 * MS, 2, MS);
    assert_eq!(b.set(10 * MS, Some(2), "rt", 2).ret, 0);
    assert_eq!(rt(&b), Some(0));
    assert_eq!(b.op(10 * MS, OpCode::SetRt, (0, 0, 2), [1, MS, MS]).ret, -16, "off wins");
    b.set(11 * MS, Some(2), "rt", 1);
    assert_eq!(rt(&b), Some(1), "on needs no report");
    b.account(300 * MS);
    assert_eq!(rt(&b), Some(1), "nor does it lapse");
    b.ok(300 * MS, OpCode::SetRt, (0, 0, 2), [1, MS, 20 * MS]);
    assert_eq!(b.core.vm_stat(2).map(|s| s.period), Some(MS));
    b.account(330 * MS);
    assert_eq!(b.core.vm_stat(2).map(|s| (s.rt, s.period)), Some((1, 0)), "only what was reported lapses");
    b.set(300 * MS, Some(2), "rt", 0);
    assert_eq!(rt(&b), Some(0));
}

pub fn caps(make: &Maker) {
    let mut b = pool(make);
    b.set(10 * MS, None, "rt_max", 1);
    b.rt(10 * MS, 2, 0);
    assert_eq!(b.op(10 * MS, OpCode::SetRt, (0, 0, 3), [1, MS, MS]).ret, -16);
    b.rt(10 * MS, 2, 0);
    b.set(10 * MS, None, "event_max", 1);
    b.event(12 * MS, 2, IO);
    b.wake(12 * MS, 2);
    assert_eq!(b.class(2), Class::Rt);
    b.turn(12 * MS, 0);
    b.stop(12 * MS, 0);
    b.event(13 * MS, 2, IO);
    b.wake(13 * MS, 2);
    assert_eq!(b.class(2), Class::Boost, "one in an accounting interval");
    assert_eq!(b.core.vm_stat(2).map(|s| (s.promotions, s.refusals)), Some((1, 1)));
    b.account(30 * MS);
    b.event(31 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Rt, "the next one");
}

/// What it owes by then counts when RT ends (rule D29).
pub fn demotion_in_debt(make: &Maker) {
    for (ran, class) in [(5, Class::Under), (400, Class::Over)] {
        let mut b = Bench::new(make, "doris", 1, 2);
        (1..=2).for_each(|v| b.vcpu(v, v, 0));
        b.rt(0, 1, 0);
        b.event(0, 1, IO);
        b.wake(0, 1);
        assert_eq!((b.turn(0, 0), b.class(1)), (Some(1), Class::Rt));
        b.wake(MS, 2);
        b.timer(ran * MS, 0);
        b.account(ran.max(30) * MS);
        assert_eq!(b.class(1), Class::Rt, "as long as it runs");
        assert_eq!(b.turn(ran.max(30) * MS, 0), Some(2));
        assert_eq!(b.class(1), class, "{ran} ms: {}", b.credit(1));
    }
}

/// VCPU 2 runs as RT on PCPU 0, VCPU 1 computes on PCPU 1; a message wakes VCPU 3, whose PCPU is 0.
pub fn crowds(make: &Maker) {
    const PATIENCE: u64 = 100 * US;
    let begin = |moves: bool, may_run: u64| {
        let mut b = Bench::new(make, "doris", 2, 3);
        (1..=3).for_each(|v| b.vcpu(v, v, 0));
        b.set(0, None, "rt_contention", moves.into());
        b.pin(0, 1, 2);
        b.pin(0, 3, may_run);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 1), Some(1));
        (2..=3).for_each(|vm| b.rt(0, vm, 0));
        b.event(0, 2, IO);
        b.wake(0, 2);
        assert_eq!((b.turn(0, 0), b.class(2)), (Some(2), Class::Rt));
        b.event(MS, 3, IO);
        let kick = b.wake(MS, 3).kick;
        assert_eq!((kick, b.class(3)), (0, Class::Rt));
        assert_eq!(b.core.cpu_timer(0), if moves { MS + PATIENCE } else { 10 * MS });
        let early = b.timer(MS + PATIENCE - 1, 0).kick;
        assert_eq!((early, b.core.vcpu_cpu(3)), (0, 0));
        let kick = b.timer(MS + PATIENCE, 0).kick;
        (b, kick)
    };
    let (b, kick) = begin(false, 3);
    assert_eq!((kick, b.core.vcpu_cpu(3)), (0, 0), "as published it waits");
    let (mut b, kick) = begin(true, 3);
    assert_eq!((kick, b.turn(2 * MS, 1)), (2, Some(3)));
    // Both PCPUs have one now: who comes asks again and again.
    b.vcpu(4, 3, 0);
    b.event(3 * MS, 4, IO);
    b.wake(3 * MS, 4);
    let kick = b.timer(3 * MS + PATIENCE, 0).kick;
    assert_eq!((kick, b.core.vcpu_cpu(4), b.core.cpu_timer(0)), (0, 0, 3 * MS + 2 * PATIENCE));
    // It queues already when a message comes for it.
    let (mut b, _) = begin(true, 3);
    b.wake(2 * MS, 2);
    b.vcpu(4, 3, 0);
    b.wake(2 * MS, 4);
    b.event(3 * MS, 4, IO);
    assert_eq!(b.core.cpu_timer(0), 3 * MS + PATIENCE);
    // A higher class has the other PCPU.
    let (mut b, _) = begin(true, 1);
    b.stop(2 * MS, 1);
    b.ok(2 * MS, OpCode::CpuRelease, (1, 0, 0), [0; 3]);
    b.pin(2 * MS, 3, 3);
    let kick = b.timer(2 * MS, 0).kick;
    assert_eq!((kick, b.core.vcpu_cpu(3)), (0, 0), "nobody runs there");
    b.ok(3 * MS, OpCode::CpuAcquire, (1, 0, 0), [0; 3]);
    b.timer(3 * MS, 0);
    assert_eq!(b.core.vcpu_cpu(3), 1);
    // It may run on its own PCPU only.
    let (b, kick) = begin(true, 1);
    assert_eq!((kick, b.core.vcpu_cpu(3), b.core.cpu_timer(0)), (0, 0, MS + 2 * PATIENCE));
}
