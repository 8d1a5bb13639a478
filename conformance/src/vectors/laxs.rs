// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/laxs.md, A and B: where a real-time VCPU queues, and what an event does for it there.

use super::bench::{Bench, IO, MS, TIMER, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode};

/// One PCPU and VMs of one VCPU each; the 5th is real-time.
fn pool(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "laxs", 1, 9);
    (1..=9).for_each(|v| b.vcpu(v, v, 0));
    b.rt(0, 5, 0);
    b
}

/// Has `v` run until `t`, a tick's time, for `e`, and queue from then on: as UNDER, or as BOOST one tick before.
fn queue_after(b: &mut Bench, v: u16, t: u64, e: u64, class: Class) {
    b.wake(t - e, v);
    assert_eq!(b.turn(t - e, 0), Some(v.into()), "BOOST runs first");
    if class == Class::Under {
        b.timer(t, 0);
    }
    b.idle(t, 0);
    assert_eq!(b.class(v), class);
}

/// The paper's queue (rule L22): VCPU 4 in the BOOST region, then 2, 7 and 1; up to and with 7 they
/// took 12 µs. Then VCPU 5 comes.
fn example(make: &Maker, laxity: u64, class: Class) -> Vec<u32> {
    let mut b = pool(make);
    b.set(0, None, "laxity", laxity);
    b.run(4, 0, MS, MS + 4 * US);
    for (n, (v, e)) in [(2, 3 * US), (7, 5 * US), (1, 30 * US)].into_iter().enumerate() {
        queue_after(&mut b, v, (n as u64 + 1) * 10 * MS, e, Class::Under);
    }
    b.wake(40 * MS - US, 5);
    assert_eq!(b.turn(40 * MS - US, 0), Some(5));
    assert_eq!(b.wake(40 * MS - US, 4).kick, 0, "both are BOOST");
    if class == Class::Under {
        b.timer(40 * MS, 0);
    }
    b.idle(40 * MS, 0);
    assert_eq!(b.class(5), class);
    b.order(40 * MS, 0)
}

/// The re-sort moves a VCPU that is OVER and no other: the place that laxity gave stays (rules C22
/// and L3).
pub fn resort(make: &Maker) {
    for (laxity, want) in [(3 * US, [5, 4]), (5 * US, [4, 5])] {
        let mut b = pool(make);
        b.set(0, None, "laxity", laxity);
        b.run(4, 0, MS, MS + 4 * US);
        queue_after(&mut b, 5, 20 * MS, US, Class::Under);
        assert_eq!(b.turn(20 * MS, 0), Some(5));
        [8, 4].into_iter().for_each(|v| _ = b.wake(20 * MS, v));
        assert_eq!((b.turn(20 * MS, 0), b.class(5), b.class(4)), (Some(8), Class::Under, Class::Boost));
        b.account(30 * MS);
        b.timer(30 * MS, 0);
        assert_eq!([(); 2].map(|()| b.stop(30 * MS, 0)), want.map(Some), "{laxity} ns");
    }
}

/// A prediction is kept up to 4.2 s and is no shorter for having been longer.
pub fn longest(make: &Maker) {
    for ran in [4_000, 5_000] {
        let mut b = pool(make);
        b.set(0, None, "laxity", 3_000 * MS);
        b.wake(0, 2);
        assert_eq!(b.turn(0, 0), Some(2));
        b.idle(ran * MS, 0);
        // Accounting pays the debt back: both are UNDER.
        (1..400).for_each(|n| _ = b.account((ran + 30 * n) * MS));
        b.timer((ran + 12_000) * MS, 0);
        assert_eq!(b.class(2), Class::Under);
        b.wake((ran + 12_000) * MS, 5);
        b.timer((ran + 12_010) * MS, 0);
        assert_eq!(b.order((ran + 12_010) * MS, 0)[0], 5, "{ran} ms are more than its laxity");
    }
}

pub fn insertion(make: &Maker) {
    assert_eq!(example(make, 5 * US, Class::Under), [4, 5, 2, 7, 1], "4 us are before it, not 7");
    assert_eq!(example(make, 20 * US, Class::Under), [4, 2, 7, 5, 1], "12 us are, not 42");
    assert_eq!(example(make, 12 * US, Class::Under), [4, 2, 7, 5, 1], "its laxity may be reached");
    assert_eq!(example(make, 12 * US - 1, Class::Under), [4, 2, 5, 7, 1]);
    assert_eq!(example(make, 20 * US, Class::Boost), [4, 5, 2, 7, 1], "the tail of its class is before that");
    assert_eq!(example(make, 3 * US, Class::Under), [5, 4, 2, 7, 1], "rule L3: before the BOOST region");
    assert_eq!(example(make, 10_000 * MS, Class::Under), [4, 2, 7, 1, 5], "no predicted wait is that long");
}

/// Rule L2, and that no VCPU keeps a PCPU by laxity for more than a slice.
pub fn limits(make: &Maker) {
    let mut b = pool(make);
    queue_after(&mut b, 2, 10 * MS, 50 * US, Class::Under);
    b.wake(20 * MS - US, 5);
    b.turn(20 * MS - US, 0);
    b.timer(20 * MS, 0);
    let (who, slice) = b.turn_slice(25 * MS, 0);
    assert_eq!(who, Some(5), "50 us are before it, and it waits 10 us at most: it goes on");
    assert_eq!(slice, 30 * MS - 5 * MS - US, "for what is left of its slice");
    assert_eq!(b.turn(50 * MS, 0), Some(2), "it has had a slice: behind its equals");
    assert_eq!(b.stop(51 * MS, 0), Some(5));
    // In debt it queues as others do.
    b.account(400 * MS);
    b.turn(400 * MS, 0);
    assert_eq!(b.class(5), Class::Over);
    b.wake(401 * MS, 3);
    b.wake(401 * MS, 2);
    assert_eq!(b.turn(401 * MS, 0), Some(3));
    assert_eq!(b.stop(402 * MS, 0), Some(2), "rule L2: 2 goes before it, whatever 2 takes");
    // With queueing=credit it has no place of its own.
    let mut b = pool(make);
    b.set(0, None, "queueing", 0);
    queue_after(&mut b, 2, 10 * MS, 50 * US, Class::Under);
    b.wake(20 * MS - US, 5);
    b.turn(20 * MS - US, 0);
    b.timer(20 * MS, 0);
    assert_eq!(b.turn(25 * MS, 0), Some(2));
}

/// A place at the head of the queue preempts no VCPU of the same class (rule L25).
pub fn preempts_none(make: &Maker) {
    let mut b = pool(make);
    b.run(5, 0, MS, 2 * MS);
    queue_after(&mut b, 3, 10 * MS, 50 * US, Class::Under);
    queue_after(&mut b, 2, 20 * MS, 50 * US, Class::Under);
    assert_eq!(b.turn(20 * MS, 0), Some(3));
    b.wake(29 * MS, 5);
    b.account(30 * MS);
    assert_eq!([3, 5].map(|v| b.class(v)), [Class::Under; 2], "accounting ends the boost");
    assert_eq!(b.ok(30 * MS, OpCode::Move, (0, 5, 0), [0; 3]).kick, 0, "it is queued again, by its laxity");
    assert_eq!([(); 2].map(|()| b.stop(30 * MS, 0)), [Some(5), Some(2)], "before 2, and behind what runs");
}

pub fn laxity(make: &Maker) {
    for (own, next) in [(None, 5), (Some(60 * US), 2)] {
        let mut b = pool(make);
        if let Some(own) = own {
            assert_eq!(b.set(0, Some(5), "laxity", own).ret, 0);
        }
        queue_after(&mut b, 2, 10 * MS, 50 * US, Class::Under);
        queue_after(&mut b, 5, 20 * MS, US, Class::Under);
        assert_eq!(b.turn(20 * MS, 0), Some(next), "the VM's own laxity: {own:?}");
    }
    let mut b = pool(make);
    for wrong in [0, 999, 10_000 * MS + 1] {
        assert_eq!(b.set(0, Some(5), "laxity", wrong).ret, -34, "{wrong}");
    }
}

pub fn boost(make: &Maker) {
    for (value, vm, source, want) in
        [(1, 5, IO, Class::Boost), (0, 5, IO, Class::Under), (1, 6, IO, Class::Under), (1, 5, TIMER, Class::Under)]
    {
        let mut b = pool(make);
        b.set(0, None, "boost", value);
        queue_after(&mut b, vm, 10 * MS, 50 * US, Class::Under);
        b.wake(15 * MS, 1);
        assert_eq!(b.turn(15 * MS, 0), Some(1));
        b.timer(20 * MS, 0);
        let kick = b.event(21 * MS, vm, source).kick;
        assert_eq!((b.class(vm), kick), (want, u64::from(want == Class::Boost)), "boost={value}, VM {vm}");
    }
    // Not one without credit (rule L2).
    let mut b = pool(make);
    b.set(0, None, "boost", 1);
    b.run(5, 0, 0, 390 * MS);
    b.account(400 * MS);
    b.wake(400 * MS, 1);
    b.turn(400 * MS, 0);
    b.wake(401 * MS, 5);
    b.event(401 * MS, 5, IO);
    assert_eq!(b.class(5), Class::Over);
    assert_eq!(b.core.vm_stat(5).map(|s| (s.promotions, s.refusals)), Some((0, 1)));
    // An event while it is on its way into the queue.
    let mut b = pool(make);
    b.set(0, None, "boost", 1);
    b.wake(10 * MS - US, 5);
    b.turn(10 * MS - US, 0);
    b.timer(10 * MS, 0);
    b.ok(10 * MS, takt_policy::OpCode::Schedule, (0, 0, 0), [takt_policy::FORCE_IDLE, 0, 0]);
    b.event(10 * MS, 5, IO);
    b.ok(10 * MS, takt_policy::OpCode::Put, (0, 5, 0), [1, takt_policy::NEVER, 0]);
    assert_eq!(b.class(5), Class::Boost);
    assert_eq!(b.core.vm_stat(5).map(|s| s.promotions), Some(1));
}

pub fn infinite(make: &Maker) {
    for (value, want) in [(0, Class::Over), (1, Class::Under)] {
        let mut b = pool(make);
        b.set(0, None, "infinite", value);
        for v in [5, 6] {
            b.run(v, 0, u64::from(v - 5) * 100 * MS, u64::from(v - 5) * 100 * MS + 90 * MS);
        }
        b.account(190 * MS);
        assert_eq!((b.class(5), b.class(6)), (want, Class::Over), "infinite={value}");
    }
}

/// By which class the figures count a wait (rule L38): that of the entry, whatever an event or a
/// tick makes of it later.
pub fn entered(make: &Maker) {
    let mut b = pool(make);
    b.set(0, None, "boost", 1);
    queue_after(&mut b, 5, 10 * MS, 50 * US, Class::Under);
    b.wake(15 * MS, 1);
    assert_eq!(b.turn(15 * MS, 0), Some(1));
    assert_eq!((b.core.entered(5), b.core.entered(1)), (Class::Under, Class::Boost));
    b.timer(20 * MS, 0);
    b.event(21 * MS, 5, IO);
    assert_eq!((b.class(5), b.core.entered(5)), (Class::Boost, Class::Under));
    assert_eq!((b.class(1), b.core.entered(1)), (Class::Under, Class::Boost));
    assert_eq!(b.turn(21 * MS, 0), Some(5));
    assert_eq!(b.core.entered(1), Class::Under, "put back");
}
