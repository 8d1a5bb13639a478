// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/poris.md: the slice, promotion, and siblings that start together.

use super::bench::{Bench, IO, MS, TIMER, US};
use crate::core::Maker;
use takt_policy::{CUR_STOPS, Class, NEVER, OpCode};

/// `pcpus` with `guests` VCPUs in one real-time VM and `dom0` in Dom0: the slice of the first that runs.
fn slice(make: &Maker, pcpus: u16, guests: u16, dom0: u16, latency: u64) -> u64 {
    let mut b = Bench::new(make, "poris", pcpus, 1);
    b.set(0, None, "parallel", 0);
    b.set(0, None, "latency", latency);
    (0..guests).for_each(|v| b.vcpu(v, 1, 0));
    (0..dom0).for_each(|v| b.vcpu(guests + v, 0, 0));
    b.rt(0, 1, 0);
    b.wake(0, 0);
    b.turn_slice(0, 0).1
}

/// With dynamic=waiting six VCPUs of one PCPU have slices of 3 ms only while the real-time one runs, or waits with credit.
pub fn waiting(make: &Maker) {
    for (dynamic, long) in [(2, 30), (1, 3)] {
        let mut b = Bench::new(make, "poris", 1, 6);
        (1..=6).for_each(|v| b.vcpu(v, v, 0));
        b.set(0, None, "dynamic", dynamic);
        b.rt(0, 6, 0);
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), long * MS), "dynamic={dynamic}: it has no work");
        b.wake(MS, 6);
        assert_eq!(b.turn_slice(MS, 0).1, 3 * MS, "dynamic={dynamic}: it runs");
        b.timer(10 * MS, 0);
        let (next, slice) = b.turn_slice(11 * MS, 0);
        assert_ne!(next, Some(6));
        assert_eq!(slice, 3 * MS, "dynamic={dynamic}: it waits");
    }
    // With eligible=saved not for one that uses more than its share, unless an operator has said that it is real-time.
    for (rt, long) in [(0, 30), (1, 3)] {
        let mut b = Bench::new(make, "poris", 1, 6);
        (1..=6).for_each(|v| b.vcpu(v, v, 0));
        b.set(0, None, "dynamic", 2);
        b.set(0, None, "eligible", 2);
        b.set(0, Some(6), "rt", rt);
        b.rt(0, 6, 0);
        b.wake(0, 6);
        assert_eq!(b.turn_slice(0, 0), (Some(6), long * MS), "rt={rt}: it runs, and has saved nothing");
        b.wake(MS, 1);
        b.timer(10 * MS, 0);
        let (next, slice) = b.turn_slice(30 * MS, 0);
        assert_eq!((next, slice), (Some(1), long * MS), "rt={rt}: it waits");
    }
}

/// One that comes to wait later shortens the slice that runs: a real-time VCPU, or Dom0's while a VM is real-time.
pub fn shortened(make: &Maker) {
    for (v, dynamic, shortens) in [(6, 2, true), (7, 2, true), (5, 2, false), (6, 0, false)] {
        let pool = || {
            let mut b = Bench::new(make, "poris", 1, 6);
            (1..=6).for_each(|v| b.vcpu(v, v, 0));
            b.vcpu(7, 0, 0);
            b.set(0, None, "dynamic", dynamic);
            b.rt(0, 6, 0);
            b.ok(0, OpCode::Pause, (0, v, 0), [0; 3]);
            b.wake(0, v);
            b.wake(0, 1);
            assert_eq!(b.turn_slice(0, 0), (Some(1), 30 * MS), "VCPU {v}, dynamic={dynamic}");
            b
        };
        let unpause = |b: &mut Bench, now: u64| b.ok(now, OpCode::Unpause, (0, v, 0), [0; 3]).kick;
        let mut b = pool();
        assert_eq!(unpause(&mut b, MS), 0, "VCPU {v}, dynamic={dynamic}");
        assert_eq!(b.core.cpu_timer(0) == 2 * MS, shortens, "VCPU {v}, dynamic={dynamic}: 15 ms for the six others");
        if shortens {
            assert_eq!(b.timer(2 * MS, 0).kick, 1, "VCPU {v}");
        }
        let mut b = pool();
        assert_eq!(unpause(&mut b, 5 * MS) == 1, shortens, "VCPU {v}, dynamic={dynamic}: it has run for longer");
    }
}

/// A VCPU that a real-time one preempts has the rest of its slice then, before its equals (rule C15).
pub fn preempted(make: &Maker) {
    for (preempted, dynamic, vcpu, slice) in
        [(1, 0, 1, 28 * MS), (0, 0, 3, 30 * MS), (1, 2, 1, 28 * MS), (0, 2, 3, 30 * MS)]
    {
        let mut b = Bench::new(make, "poris", 1, 3);
        b.set(0, None, "parallel", 0);
        b.set(0, None, "dynamic", dynamic);
        b.set(0, None, "preempted", preempted);
        (1..=3).for_each(|v| b.vcpu(v, v, 0));
        b.rt(0, 2, 0);
        b.wake(0, 1);
        b.turn(0, 0);
        b.wake(MS, 3);
        assert_eq!(b.class(3), b.class(1), "they are equals");
        b.wake(2 * MS, 2);
        b.event(2 * MS, 2, IO);
        assert_eq!((b.turn(2 * MS, 0), b.class(2)), (Some(2), Class::Rt), "preempted={preempted}");
        let res = b.ok(3 * MS, OpCode::Schedule, (0, 0, 0), [CUR_STOPS, 0, 0]);
        assert_eq!((res.next, res.slice), (vcpu, slice), "preempted={preempted}");
        assert_eq!(b.core.check(), Ok(()));
    }
}

/// The worked examples of rules P21, P22 and P23.
pub fn slices(make: &Maker) {
    for (pcpus, guests, dom0, latency, want) in [
        (8, 25, 8, 10, 2),
        (8, 25, 8, 1, 1),
        (8, 32, 8, 15, 3),
        (8, 40, 8, 15, 3),
        (2, 8, 2, 15, 3),
        (1, 4, 0, 15, 5),
        (8, 8, 0, 15, 30),
        (2, 4, 0, 100, 30),
    ] {
        let got = slice(make, pcpus, guests, dom0, latency * MS);
        assert_eq!(got, want * MS, "{guests} + {dom0} VCPUs on {pcpus} PCPUs, L = {latency} ms");
    }
}

pub fn latencies(make: &Maker) {
    let mut b = Bench::new(make, "poris", 1, 4);
    b.set(0, None, "parallel", 0);
    (1..=4).for_each(|v| b.vcpu(v, v, 0));
    let slice = |b: &mut Bench, t: u64| {
        b.wake(t, 4);
        let slice = b.turn_slice(t, 0).1;
        b.stop(t, 0);
        slice
    };
    assert_eq!(slice(&mut b, 0), 30 * MS, "no VM is real-time");
    b.rt(0, 1, 0);
    assert_eq!(slice(&mut b, 0), 5 * MS, "for all, also those that are not");
    assert_eq!(b.set(0, Some(2), "latency", 6 * MS).ret, 0);
    assert_eq!(slice(&mut b, 0), 5 * MS, "VM 2 is not real-time");
    b.rt(0, 2, 0);
    assert_eq!(slice(&mut b, 0), 2 * MS);
    b.set(0, None, "latency", 3 * MS);
    assert_eq!(slice(&mut b, 0), MS, "VM 1 has the pool's");
    b.set(0, None, "min_slice", 4 * MS);
    assert_eq!(slice(&mut b, 0), 4 * MS);
    b.set(0, None, "dynamic", 0);
    assert_eq!(slice(&mut b, 0), 30 * MS);
    b.set(0, None, "dynamic", 1);
    b.ok(0, OpCode::SetRt, (0, 0, 1), [0; 3]);
    b.ok(0, OpCode::SetRt, (0, 0, 2), [0; 3]);
    assert_eq!(slice(&mut b, 0), 30 * MS);
    for wrong in [0, MS - 1, 1_000 * MS + 1] {
        assert_eq!(b.set(0, Some(2), "latency", wrong).ret, -34, "{wrong}");
    }
    // A VM's I/O threads are none of its VCPUs.
    b.rt(0, 1, 0);
    b.set(0, None, "min_slice", MS);
    b.set(0, None, "latency", 15 * MS);
    b.ok(0, OpCode::SetRt, (0, 0, 2), [0; 3]);
    b.ok(0, OpCode::VcpuAdd, (0, 20, 1), [1, 0, 0]);
    assert_eq!(slice(&mut b, 0), 5 * MS);
}

/// One PCPU under RS. VCPU 1 is a hog that runs as UNDER; 2 belongs to real-time VM 2, 3 to no such VM.
fn pool(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "poris", 1, 3);
    b.set(0, None, "parallel", 0);
    (1..=3).for_each(|v| b.vcpu(v, v, 0));
    b.rt(0, 2, 0);
    b.wake(0, 1);
    b.turn(0, 0);
    b.timer(10 * MS, 0);
    b
}

fn queue_under(b: &mut Bench, v: u16, t: u64) {
    b.wake(t, v);
    b.turn(t, 0);
    b.timer(t, 0);
    b.turn(t, 0);
    assert_eq!(b.class(v), Class::Under);
}

pub fn promotion(make: &Maker) {
    let mut b = pool(make);
    queue_under(&mut b, 2, 20 * MS);
    assert_eq!(b.event(21 * MS, 2, TIMER).kick, 0);
    assert_eq!((b.event(21 * MS, 2, IO).kick, b.class(2)), (1, Class::Rt));
    assert_eq!(b.turn(21 * MS, 0), Some(2));
    assert_eq!(b.turn(21 * MS + 40 * US, 0), Some(1), "RT ends when it is descheduled");
    assert_eq!(b.class(2), Class::Under);
    // A blocked one is woken as RT by an event, as BOOST by anything else.
    b.stop(23 * MS, 0);
    b.stop(23 * MS, 0);
    b.event(24 * MS, 2, IO);
    b.wake(24 * MS, 2);
    assert_eq!(b.class(2), Class::Rt);
    b.turn(24 * MS, 0);
    b.stop(24 * MS, 0);
    b.wake(25 * MS, 2);
    assert_eq!(b.class(2), Class::Boost);
    // Neither those of other VMs, nor with promote=off, nor in debt.
    let mut b = pool(make);
    queue_under(&mut b, 3, 20 * MS);
    b.event(21 * MS, 3, IO);
    assert_eq!(b.class(3), Class::Under);
    b.set(21 * MS, None, "promote", 0);
    queue_under(&mut b, 2, 30 * MS);
    b.event(31 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Under);
    let mut b = pool(make);
    b.stop(15 * MS, 0);
    b.run(2, 0, 20 * MS, 400 * MS);
    b.account(400 * MS);
    b.run(1, 0, 401 * MS, 401 * MS);
    b.wake(401 * MS, 1);
    b.turn(401 * MS, 0);
    b.wake(402 * MS, 2);
    b.event(402 * MS, 2, IO);
    assert_eq!(b.class(2), Class::Over, "without credit it waits");
    assert_eq!(b.core.vm_stat(2).map(|s| s.refusals), Some(1));
}

/// Four PCPUs; VM 1 is real-time and has VCPUs 1 to 3, each bound to the PCPU before its number; hogs 4 to 7 run on all, as UNDER.
fn four(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "poris", 4, 5);
    (1..=3).for_each(|v| b.vcpu(v, 1, 0));
    (4..=7).for_each(|v| b.vcpu(v, v - 2, v - 4));
    b.rt(0, 1, 0);
    (4..=7).for_each(|v| _ = b.wake(0, v));
    (0..4).for_each(|c| assert_eq!(b.turn(0, c), Some(u32::from(c) + 4)));
    // Each gets its PCPU when it queues first.
    (1..=3).for_each(|v| _ = b.wake(MS, v));
    assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1, 2]);
    b
}

pub fn launch(make: &Maker) {
    let mut b = four(make);
    assert_eq!([1, 2, 3].map(|v| b.class(v)), [Class::Boost; 3]);
    let res = b.ok(MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
    assert_eq!((res.next, res.kick), (1, 0b110), "its siblings' PCPUs are asked");
    assert_eq!([1, 2, 3].map(|v| b.class(v)), [Class::Rt; 3]);
    b.ok(MS, OpCode::Put, (0, 4, 0), [1, NEVER, 0]);
    b.ok(MS, OpCode::Started, (0, 1, 0), [0; 3]);
    let res = b.ok(MS, OpCode::Schedule, (1, 0, 0), [0; 3]);
    assert_eq!((res.next, res.kick), (2, 0), "rule P2: who has been launched launches nobody");
    // Those of VMs that are not real-time start alone, as do all with parallel=off.
    let mut b = Bench::new(make, "poris", 2, 1);
    (1..=2).for_each(|v| b.vcpu(v, 1, 0));
    (1..=2).for_each(|v| _ = b.wake(0, v));
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.class(2), Class::Boost);
    b.rt(0, 1, 0);
    b.set(0, None, "parallel", 0);
    b.stop(0, 0);
    b.wake(0, 1);
    b.turn(0, 0);
    assert_eq!([b.class(1), b.class(2)], [Class::Boost; 2]);
}

pub fn who_starts(make: &Maker) {
    // Rule P4: what blocks forgets it; rule P6: one that runs is RT and stays there.
    let mut b = four(make);
    b.turn(MS, 0);
    b.turn(MS, 1);
    b.turn(MS, 2);
    assert_eq!([1, 2, 3].map(|v| b.class(v)), [Class::Rt; 3]);
    let t = MS + 20 * US;
    b.stop(t, 0);
    b.wake(t, 1);
    assert_eq!(b.class(1), Class::Boost, "it has blocked");
    assert_eq!(b.turn(t, 0), Some(1));
    assert_eq!(b.class(1), Class::Rt, "and starts the others anew, which run");
    assert_eq!([2, 3].map(|v| b.class(v)), [Class::Rt; 2]);
    assert_eq!(b.turn(MS + 40 * US, 1), Some(5), "until they are descheduled");
    assert_eq!(b.class(2), Class::Under);
    // Rule P5: not without credit, unless promote_over is on.
    for (over, want) in [(0, Class::Over), (1, Class::Rt)] {
        let mut b = four(make);
        b.set(0, None, "promote_over", over);
        b.turn(MS, 1);
        b.turn(399 * MS, 1);
        b.account(400 * MS);
        b.turn(400 * MS, 1);
        assert_eq!(b.class(2), Class::Over);
        b.stop(400 * MS, 0);
        b.stop(400 * MS + 20 * US, 0);
        b.wake(400 * MS + 40 * US, 1);
        b.turn(400 * MS + 40 * US, 0);
        assert_eq!((b.class(1), b.class(2)), (Class::Rt, want), "promote_over={over}");
    }
}

/// Rule P5: the VCPUs of a VM that start together share its credit, if the operator says that it is real-time.
pub fn one_credit(make: &Maker) {
    let (on, auto) = (1, 0);
    for (what, rt, parallel, balance, even) in [
        ("as on live hosts", on, 2, 2, true),
        ("by VM", on, 1, 2, true),
        ("found by its packets", auto, 2, 2, false),
        ("starts alone", on, 0, 2, false),
        ("as published", on, 2, 0, false),
    ] {
        let mut b = Bench::new(make, "poris", 2, 1);
        b.set(0, None, "parallel", parallel);
        b.set(0, None, "balance", balance);
        (1..=2).for_each(|v| b.vcpu(v, 1, v - 1));
        b.set(0, Some(1), "rt", rt);
        b.rt(0, 1, 0);
        b.run(1, 0, 0, 20 * MS);
        b.run(2, 1, 20 * MS, 20_100 * US);
        b.account(30 * MS);
        let want = if even { [199, 200] } else { [100, 299] };
        assert_eq!([1, 2].map(|v| b.credit(v)), want, "{what}");
        assert_eq!(b.core.check(), Ok(()), "{what}");
    }
}

/// VCPU 1 is next on PCPU 0 and OVER, its sibling 2 waits on PCPU 1, behind VCPU 3, as UNDER; with `bound` each on its PCPU.
pub fn siblings(make: &Maker, bound: bool) -> Bench {
    siblings_with(make, bound, &[])
}

/// The same, with more siblings that have no work, which come between 1 and 2.
pub fn siblings_with(make: &Maker, bound: bool, between: &[u16]) -> Bench {
    let mut b = Bench::new(make, "poris", 2, 3);
    b.set(0, None, "parallel", bound.into());
    b.set(0, None, "demote", 1);
    b.set(0, None, "t_round", 30 * MS);
    b.vcpu(1, 1, 0);
    between.iter().for_each(|&v| b.vcpu(v, 1, 0));
    b.vcpu(2, 1, 1);
    b.vcpu(3, 2, 1);
    b.rt(0, 1, 0);
    b.idle(0, 1);
    b.wake(0, 1);
    b.turn(0, 0);
    b.turn(399 * MS, 0);
    b.account(400 * MS);
    b.turn(400 * MS, 0);
    assert_eq!(b.class(1), Class::Over);
    b.wake(401 * MS, 3);
    b.turn(401 * MS, 1);
    b.wake(401 * MS, 2);
    b
}

/// The siblings swap their PCPUs.
pub fn exchange(make: &Maker) {
    let setup = |bound: bool| siblings(make, bound);
    let mut b = setup(true);
    assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1, 1]);
    let res = b.ok(402 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
    assert_eq!(res.next, 2, "1 cannot run beside it on one PCPU");
    b.ok(402 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
    assert_eq!([1, 2].map(|v| b.core.vcpu_cpu(v)), [1, 0]);
    // Where the operator forbids it there is none.
    let mut b = setup(true);
    b.pin(401 * MS, 2, 0b10);
    assert_eq!(b.ok(402 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 1);
    // Unbound ones are taken as Credit takes them.
    let mut b = setup(false);
    assert_eq!(b.ok(402 * MS, OpCode::Schedule, (0, 0, 0), [CUR_STOPS, 0, 0]).next, 2);
}

/// Rule P3: what was RT is UNDER until the next accounting, whatever its credit; with demote=credit
/// it has the class of its credit at once.
pub fn demoted(make: &Maker) {
    for (demote, class) in [(0, Class::Under), (1, Class::Over)] {
        let mut b = Bench::new(make, "poris", 1, 2);
        b.set(0, None, "demote", demote);
        (1..=2).for_each(|v| b.vcpu(v, v, 0));
        b.rt(0, 1, 0);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        assert_eq!(b.class(1), Class::Rt, "launched");
        b.wake(20 * MS, 2);
        // It has run without having earned, so it is in debt.
        b.turn(25 * MS, 0);
        assert_eq!(b.class(1), class, "demote={demote}");
        assert!(b.credit(1) < 0, "{}", b.credit(1));
        b.account(30 * MS);
        assert_eq!(b.class(1), if b.credit(1) < 0 { Class::Over } else { Class::Under }, "by accounting");
    }
}
