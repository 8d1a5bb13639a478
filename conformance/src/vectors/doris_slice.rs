// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/doris.md: slices, and when an entry leaves the deadline queue.

use super::bench::{Bench, IO, MS, US};
use super::doris::{pool, queue_under};
use crate::core::Maker;
use takt_policy::{Class, OpCode};

pub fn slices(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    queue_under(&mut b, 2, 20 * MS);
    b.ok(22 * MS, OpCode::Block, (0, 2, 0), [0; 3]);
    b.wake(22 * MS, 2);
    assert_eq!(b.turn(22 * MS, 0), Some(2));
    // 2 (RT-VM, UNDER by the tick) goes back at 30 ms, with a deadline 7 ms from then.
    b.timer(30 * MS, 0);
    assert_eq!(b.turn_slice(30 * MS, 0), (Some(1), 7 * MS), "up to the deadline of the one that goes back");
    assert_eq!(b.deadline(2), 37 * MS);
    // An RT head: MIN_TS.
    b.rt(31 * MS, 3, 0);
    b.event(31 * MS, 3, IO);
    b.wake(31 * MS, 3);
    b.event(31 * MS, 2, IO);
    assert_eq!(b.turn_slice(31 * MS, 0), (Some(3), 100 * US), "another RT waits");
    b.set(31 * MS, None, "min_ts", 300 * US);
    assert_eq!(b.turn_slice(32 * MS, 0).1, 30 * MS, "2 runs, 1 and 3 have no deadline");
    let mut b = pool(make);
    b.rt(10 * MS, 2, 50 * US);
    queue_far(&mut b, 2, 20 * MS);
    let (_, slice) = b.turn_slice(20 * MS, 0);
    assert_eq!(slice, 100 * US, "at least MIN_TS");
    let at_deadline = b.timer(20 * MS + 50 * US, 0);
    assert_eq!((b.class(2), at_deadline.kick), (Class::Rt, 1), "and its deadline preempts before that (rule D9)");
    let mut b = pool(make);
    b.rt(10 * MS, 2, 70 * MS);
    queue_under(&mut b, 2, 20 * MS);
    b.wake(21 * MS, 3);
    assert_eq!(b.turn_slice(21 * MS, 0), (Some(3), 30 * MS), "never longer than 30 ms (rule D10)");
}

/// As [`queue_under`], for periods so short that the decision itself promotes.
fn queue_far(b: &mut Bench, v: u16, t: u64) {
    b.wake(t, v);
    b.turn(t, 0);
    b.timer(t, 0);
}

pub fn rtq_left(make: &Maker) {
    // Picked.
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    b.wake(12 * MS, 2);
    assert_eq!(b.core.cpu_timer(0), 19 * MS);
    assert_eq!(b.turn(12 * MS, 0), Some(2));
    assert_eq!(b.core.cpu_timer(0), 20 * MS, "the tick");
    // Promoted by an event (rule D6).
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    queue_under(&mut b, 2, 20 * MS);
    assert_eq!(b.core.cpu_timer(0), 27 * MS);
    b.event(21 * MS, 2, IO);
    assert_eq!(b.core.cpu_timer(0), 30 * MS);
    // Blocked.
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    queue_under(&mut b, 2, 20 * MS);
    b.ok(21 * MS, OpCode::Block, (0, 2, 0), [0; 3]);
    assert_eq!(b.core.cpu_timer(0), 30 * MS);
    // Stolen (rule D12).
    let mut b = Bench::new(make, "doris", 2, 2);
    b.vcpu(1, 1, 0);
    b.vcpu(2, 2, 0);
    b.rt(0, 2, 7 * MS);
    b.wake(0, 1);
    b.turn(0, 0);
    b.wake(MS, 2);
    assert_eq!(b.core.cpu_timer(0), 8 * MS);
    assert_eq!(b.turn(MS, 1), Some(2));
    assert_eq!(b.core.vcpu_cpu(2), 1);
    assert_eq!(b.core.cpu_timer(0), 10 * MS);
    let res = b.timer(10 * MS, 0);
    assert_eq!((res.kick, b.class(2)), (0, Class::Boost));
}

pub fn d14(make: &Maker) {
    let mut b = pool(make);
    b.rt(10 * MS, 2, 7 * MS);
    b.rt(10 * MS, 3, 0);
    queue_under(&mut b, 2, 20 * MS);
    b.event(21 * MS, 3, IO);
    b.wake(21 * MS, 3);
    assert_eq!(b.turn_slice(21 * MS, 0), (Some(3), 6 * MS), "RT runs up to the next deadline");
    let res = b.timer(27 * MS, 0);
    assert_eq!((b.class(2), res.kick), (Class::Rt, 0), "promoted behind it; its slice ends here anyway");
    assert_eq!(b.turn(27 * MS, 0), Some(2));
}
