// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/sedf.md: what Xen's SEDF does literally, and the milder readings of live hosts.

use super::bench::{Bench, MS, US};
use super::sedf::{XEN, pool};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

const QUANTUM: u64 = 500 * US;
const BEGIN: u64 = 0;
const FORFEIT: u64 = 1;
const PERIOD: u64 = 0;
const RUN: u64 = 1;
const LOSE: u64 = 0;
const KEEP: u64 = 1;

/// A VCPU that has used up its budget wakes in the period after that (rule E7), before that period
/// (rule E6), and after it (rule E8).
pub fn spent(make: &Maker) {
    // 4 ms of 10 from 3 ms on; it blocks in extra time in the period of 13 ms to 23 ms.
    let blocked = |policy: &str, spent_wake| {
        let mut b = if policy == "sedf" { pool(make, XEN, &[(4, 10, 1)]) } else { Bench::new(make, policy, 1, 1) };
        if policy == "vgedf" {
            b.vcpu(1, 1, 0);
            b.server(0, 1, 4 * MS, 10 * MS, 1);
            b.set(0, None, "mode", XEN);
        }
        b.set(0, None, "spent_wake", spent_wake);
        b.wake(3 * MS, 1);
        assert_eq!(b.deadline(1), 13 * MS, "{policy}: the first wake begins a period in either reading");
        assert_eq!(b.watch(0, 3 * MS, 18 * MS, MS), "1".repeat(15));
        assert_eq!((b.class(1), b.deadline(1)), (Class::Over, 23 * MS));
        b.stop(18 * MS, 0);
        b
    };
    for policy in ["sedf", "vgedf"] {
        for (now, spent_wake, class, due) in [
            (23 * MS - 1, FORFEIT, Class::Over, 23 * MS),
            (23 * MS, FORFEIT, Class::Under, 33 * MS),
            (24 * MS, FORFEIT, Class::Under, 33 * MS),
            (33 * MS - 1, FORFEIT, Class::Under, 33 * MS),
            (33 * MS, FORFEIT, Class::Rt, 43 * MS),
            (23 * MS - 1, BEGIN, Class::Over, 23 * MS),
            (23 * MS, BEGIN, Class::Rt, 33 * MS),
            (24 * MS, BEGIN, Class::Rt, 34 * MS),
        ] {
            let mut b = blocked(policy, spent_wake);
            b.wake(now, 1);
            assert_eq!((b.class(1), b.deadline(1)), (class, due), "{policy}: {spent_wake}, at {now}");
        }
        // The budget after the forfeited one is whole.
        let mut b = blocked(policy, FORFEIT);
        b.wake(24 * MS, 1);
        b.account(33 * MS);
        assert_eq!((b.class(1), b.deadline(1)), (Class::Rt, 43 * MS));
        assert_eq!(b.turn_slice(33 * MS, 0), (Some(1), 4 * MS));
    }
    // Without extra time it is parked, blocks, and wakes.
    let mut b = pool(make, XEN, &[(4, 10, 0)]);
    b.wake(3 * MS, 1);
    assert_eq!(b.watch(0, 3 * MS, 8 * MS, MS), "1111.");
    b.ok(8 * MS, OpCode::Block, (0, 1, 0), [0; 3]);
    b.wake(14 * MS, 1);
    assert_eq!((b.class(1), b.state(1), b.deadline(1)), (Class::Under, State::Queued, 23 * MS));
}

/// What makes up for a short block: one run, or all that is left until the next period (rule E9).
pub fn penalty(make: &Maker) {
    let blocked = |extra, penalty| {
        let mut b = pool(make, XEN, &[(4, 20, extra)]);
        b.set(0, None, "reserve", 0);
        b.set(0, None, "penalty", penalty);
        b.vcpu(9, 0, 0);
        b.run(1, 0, 0, MS);
        b.wake(2 * MS, 9);
        assert_eq!(b.turn(2 * MS, 0), Some(9));
        assert_eq!(b.wake(2 * MS, 1).kick, 1, "L0 before L1");
        b
    };
    let mut b = blocked(0, RUN);
    assert_eq!(b.watch(0, 2 * MS, 5 * MS, QUANTUM), "199999");
    assert_eq!(b.state(1), State::Parked, "it has no extra time");
    let mut b = blocked(1, RUN);
    assert_eq!(b.watch(0, 2 * MS, 5 * MS, QUANTUM), "191919", "then in turns");
    assert_eq!(b.class(1), Class::Over);
    let mut b = blocked(0, PERIOD);
    assert_eq!(b.watch(0, 2 * MS, 5 * MS, QUANTUM), "111111");
    assert_eq!(b.class(1), Class::Under);
    assert_eq!(b.watch(0, 5 * MS, 22 * MS, MS), ["1".repeat(15), "11".into()].concat());
    // A run that is cut short is a run; one that has not begun is none.
    let mut b = blocked(0, RUN);
    assert_eq!(b.turn(2 * MS, 0), Some(1));
    assert_eq!(b.turn(2 * MS + 100 * US, 0), Some(9));
    assert_eq!(b.state(1), State::Parked);
    let mut b = blocked(0, RUN);
    b.account(3 * MS);
    b.timer(3 * MS, 0);
    assert_eq!(b.turn_slice(3 * MS, 0), (Some(1), QUANTUM));
    assert_eq!(b.class(1), Class::Under);
    // The next short block has a run of its own.
    assert_eq!(b.stop(3 * MS + QUANTUM, 0), Some(9));
    b.wake(21 * MS, 1);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Under, 40 * MS));
}

/// A VCPU that is interrupted in extra time keeps its place there until its turn is over, or loses
/// it (rule E10).
pub fn place(make: &Maker) {
    for policy in ["sedf", "vgedf"] {
        // 9 has run 3 of 5 ms when the next budget of 1 comes; 8 has waited for as long as 9 ran.
        let interrupted = |extra_place| {
            let mut b = Bench::new(make, policy, 1, 1);
            for (name, value) in [("mode", 1), ("reserve", 0), ("extra_quantum", 5 * MS), ("extra_place", extra_place)]
            {
                b.set(0, None, name, value);
            }
            b.vcpu(1, 1, 0);
            b.set(0, Some(1), "extra", 0);
            b.server(0, 1, 2 * MS, 10 * MS, 1);
            [9, 8].iter().for_each(|&v| b.vcpu(v, 0, 0));
            b.wake(0, 1);
            assert_eq!(b.watch(0, 0, 7 * MS, MS), "11.....");
            b.wake(7 * MS - 1, 9);
            b.wake(7 * MS, 8);
            b
        };
        let mut b = interrupted(KEEP);
        assert_eq!(b.watch(0, 7 * MS, 22 * MS, MS), "999119988888911", "{policy}: 2 ms of its turn were left");
        let mut b = interrupted(LOSE);
        assert_eq!(b.watch(0, 7 * MS, 22 * MS, MS), "999118888899911", "{policy}");
        // A decision that brings nothing better does not end a turn, nor does the reserve.
        for reserve in [0, 5] {
            let mut b = interrupted(KEEP);
            b.set(7 * MS, None, "reserve", reserve);
            assert_eq!(b.watch(0, 7 * MS, 9 * MS, MS), "99");
            assert_eq!(b.turn_slice(9 * MS, 0), (Some(9), 3 * MS), "{policy}: {reserve} %");
            let mut b = interrupted(LOSE);
            b.set(7 * MS, None, "reserve", reserve);
            assert_eq!(b.watch(0, 7 * MS, 8 * MS, MS), "9");
            assert_eq!(b.turn(9 * MS, 0), Some(8), "{policy}: {reserve} %");
        }
        // A block does.
        let mut b = interrupted(KEEP);
        assert_eq!(b.watch(0, 7 * MS, 9 * MS, MS), "99");
        assert_eq!(b.stop(9 * MS, 0), Some(8));
        b.wake(9 * MS, 9);
        assert_eq!(b.watch(0, 9 * MS, 21 * MS, MS), "811888899991", "{policy}: more than the 3 ms that were left");
        // A turn without an interruption ends, and another one begins.
        let mut b = interrupted(KEEP);
        [1, 8].iter().for_each(|&v| _ = b.ok(7 * MS, OpCode::Block, (0, v, 0), [0; 3]));
        assert_eq!(b.watch(0, 7 * MS, 13 * MS, MS), "999999");
        b.wake(13 * MS, 8);
        assert_eq!(b.watch(0, 13 * MS, 23 * MS, MS), "9999888889", "{policy}: 4 ms of its second turn were left");
        // That one has its place from its begin on.
        let mut b = interrupted(KEEP);
        [1, 8].iter().for_each(|&v| _ = b.ok(7 * MS, OpCode::Block, (0, v, 0), [0; 3]));
        assert_eq!(b.watch(0, 7 * MS, 18 * MS, MS), "9".repeat(11));
        [8, 1].iter().for_each(|&v| _ = b.wake(18 * MS, v));
        assert_eq!(b.watch(0, 18 * MS, 27 * MS, MS), "111199998", "{policy}: 9 since 17 ms, 8 since 18");
    }
}
