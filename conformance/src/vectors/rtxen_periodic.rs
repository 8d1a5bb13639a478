// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/rtxen.md, periodic servers: budgets that idle away although others have work.

use super::bench::{Bench, MS};
use super::rtxen::{HALF, PERIODIC, pool};
use crate::core::Maker;
use takt_policy::{NEVER, OpCode, State};

pub fn idles(make: &Maker) {
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
    b.wake(0, 2);
    assert_eq!(b.turn(0, 0), None, "the higher one has no work: its budget first");
    assert_eq!(b.core.cpu_timer(0), 3 * MS, "until it is gone");
    assert_eq!(b.watch(0, 0, 20 * MS, MS), "...2222......2222...");
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, MS, MS), ".");
    assert_eq!(b.wake(MS, 1).kick, 1);
    assert_eq!(b.watch(0, MS, 8 * MS, MS), "112222.", "what has idled until it wakes is gone");
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
    b.wake(3 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "also where nobody else had work");
    // Who stops is without work at once.
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, MS, MS), "1");
    assert_eq!(b.stop(MS, 0), None);
    assert_eq!(b.core.cpu_timer(0), 3 * MS);
    assert_eq!(b.watch(0, MS, 8 * MS, MS), "..2222.");
    // So is one that its host takes off: what ran is not what idled.
    let mut b = pool(make, PERIODIC, &[(3, 10, 2), (4, 10, 1)]);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, HALF, HALF), "2");
    assert_eq!(b.off(MS, 0, NEVER).cpu_timer, 4 * MS, "3 of 4 ms are left to idle");
}

/// Rule R7: only time on idle is charged, and to one after the other.
pub fn charged(make: &Maker) {
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (8, 20, 2)]);
    assert_eq!(b.watch(0, 0, 3 * MS + HALF, HALF), ".......");
    b.wake(3 * MS + HALF, 2);
    // Quanta at each half; at 10 ms the budget of 1 is there, in the midst of one, which ends at 10.5 ms.
    assert_eq!(
        b.watch(0, 3 * MS + HALF, 15 * MS, HALF),
        "2".repeat(14) + "......2..",
        "2 itself had idled from 3 ms on"
    );
    let mut b = pool(make, PERIODIC, &[(2, 10, 1), (4, 10, 3), (3, 10, 2)]);
    b.wake(0, 2);
    b.turn(0, 0);
    assert_eq!(b.core.cpu_timer(0), 2 * MS);
    assert_eq!(b.watch(0, 0, 3 * MS, MS), "...");
    assert_eq!(b.core.cpu_timer(0), 5 * MS, "then the next one's");
    b.wake(3 * MS, 3);
    assert_eq!(b.watch(0, 3 * MS, 10 * MS, MS), "332222.", "1 ms of that had idled");
    b.wake(9 * MS, 1);
    assert_eq!(b.state(1), State::Parked);
    // One look at all that has idled.
    let mut b = pool(make, PERIODIC, &[(2, 10, 1), (4, 10, 3), (3, 10, 2)]);
    b.wake(4 * MS, 3);
    b.wake(4 * MS, 1);
    assert_eq!((b.state(1), b.state(3)), (State::Parked, State::Queued));
    assert_eq!(b.turn_slice(4 * MS, 0), (Some(3), MS), "2 ms of the first, 2 of the second");
    assert_eq!(b.turn(5 * MS, 0), None, "now the third idles");
    // A lower one has no say.
    let mut b = pool(make, PERIODIC, &[(2, 10, 5), (4, 10, 1)]);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, 5 * MS, MS), "2222.");
}

/// A PCPU that its host forces to idle does not idle away a budget.
pub fn forced(make: &Maker) {
    let mut b = pool(make, PERIODIC, &[(3, 10, 1)]);
    b.idle(0, 0);
    b.wake(2 * MS, 1);
    assert_eq!(b.watch(0, 2 * MS, 7 * MS, MS), "111..");
    // Nor up to the decision that ends it; what it has idled before that counts.
    let mut b = pool(make, PERIODIC, &[(3, 10, 1)]);
    assert_eq!(b.turn(0, 0), None);
    b.idle(MS, 0);
    assert_eq!(b.turn(3 * MS, 0), None);
    b.wake(3 * MS, 1);
    assert_eq!(b.watch(0, 3 * MS, 8 * MS, MS), "11...");
}

/// What is left runs meanwhile, and the one that idles may go.
pub fn meanwhile(make: &Maker) {
    let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
    b.set(0, None, "reserve", 0);
    b.vcpu(9, 0, 0);
    b.wake(0, 2);
    b.wake(0, 9);
    assert_eq!(b.watch(0, 0, 10 * MS, MS), "9992222999");
    for remove in [false, true] {
        let mut b = pool(make, PERIODIC, &[(3, 10, 1), (4, 10, 2)]);
        b.wake(0, 2);
        assert_eq!(b.watch(0, 0, MS, MS), ".");
        let res =
            if remove { b.ok(MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]) } else { b.set(MS, Some(1), "budget", 0) };
        assert_eq!(res.kick, 1, "there is nothing to idle for");
        assert_eq!(b.watch(0, MS, 6 * MS, MS), "2222.");
    }
    // Nothing idles away on a PCPU that is taken.
    let mut b = pool(make, PERIODIC, &[(3, 10, 1)]);
    assert_eq!(b.watch(0, 0, MS, MS), ".");
    b.ok(MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    b.ok(6 * MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    b.wake(7 * MS, 1);
    assert_eq!(b.watch(0, 7 * MS, 10 * MS, MS), "1..", "0 to 1 and 6 to 7 ms have");
}

/// A PCPU's idleness of before a server came is not its own; nor that of a PCPU which has gone.
pub fn homes(make: &Maker) {
    let two = || {
        let mut b = Bench::new(make, "rtxen", 2, 2);
        b.set(0, None, "server", PERIODIC);
        b.vcpu(1, 1, 0);
        b.pin(0, 1, 0b10);
        b.watch(0, 0, 100 * MS, 10 * MS);
        b
    };
    let mut b = two();
    b.server(100 * MS, 1, 3 * MS, 10 * MS, 1);
    b.wake(101 * MS, 1);
    assert_eq!(b.watch(1, 101 * MS, 111 * MS, MS), "11.......1", "of 3 ms one has idled");
    let mut b = two();
    b.pin(100 * MS, 1, 0b11);
    b.server(100 * MS, 1, 3 * MS, 10 * MS, 1);
    b.ok(100 * MS, OpCode::Move, (1, 1, 0), [0; 3]);
    b.wake(101 * MS, 1);
    assert_eq!(b.watch(1, 101 * MS, 111 * MS, MS), "11.......1", "moved");
    let mut b = two();
    b.server(100 * MS, 1, 3 * MS, 10 * MS, 1);
    b.ok(100 * MS, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
    b.wake(102 * MS, 1);
    assert_eq!(b.state(1), State::Queued, "nobody idled for it");
    assert_eq!(b.watch(0, 102 * MS, 106 * MS, MS), "111.");
}

/// Only budgets of its own idle away on a PCPU: those at home elsewhere have theirs there.
pub fn own_only(make: &Maker) {
    let mut b = Bench::new(make, "rtxen", 2, 2);
    b.set(0, None, "server", PERIODIC);
    for v in [1, 2] {
        b.vcpu(v, v, v - 1);
        b.pin(0, v, 1 << (v - 1));
        b.server(0, v, 3 * MS, 10 * MS, v.into());
    }
    b.wake(0, 2);
    assert_eq!(b.watch(1, 0, 4 * MS, MS), "222.");
    b.wake(4 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "on PCPU 0 it has idled meanwhile");
}

/// Nor does anything idle away while a higher class has the PCPU, whatever asks meanwhile.
pub fn taken(make: &Maker) {
    let mut b = pool(make, PERIODIC, &[(3, 10, 1)]);
    assert_eq!(b.watch(0, 0, MS, MS), ".");
    b.ok(MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    b.wake(5 * MS, 1);
    assert_eq!(b.state(1), State::Queued, "1 ms has idled, 4 were taken");
    b.ok(6 * MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    assert_eq!(b.watch(0, 6 * MS, 10 * MS, MS), "11..");
}

/// PCPUs that idle on purpose, although one with a lower priority has work, do not ask each other.
pub fn asks_once(make: &Maker) {
    for tickle in [0, 1] {
        let mut b = Bench::new(make, "rtxen", 2, 3);
        b.set(0, None, "server", PERIODIC);
        b.set(0, None, "tickle", tickle);
        for v in [1, 2] {
            b.vcpu(v, v, v - 1);
            b.server(0, v, 8 * MS, 10 * MS, 1);
        }
        [3, 4].into_iter().for_each(|v| b.vcpu(v, 3, v - 3));
        b.server(0, 3, MS, 10 * MS, 2);
        b.serve(0);
        [3, 4].into_iter().for_each(|v| _ = b.wake(0, v));
        b.serve(0);
        assert_eq!([3, 4].map(|v| b.state(v)), [State::Queued; 2], "tickle={tickle}");
    }
}
