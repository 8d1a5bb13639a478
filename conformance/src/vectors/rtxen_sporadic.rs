// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/rtxen.md, sporadic servers: each piece comes back a period after its chunk began.

use super::bench::{Bench, MS, US};
use super::rtxen::{HALF, SPORADIC, pool};
use crate::core::Maker;
use takt_policy::{OpCode, State};

pub fn pieces(make: &Maker) {
    // 1 ms from 0 on, 3 ms from 3 ms on: 1 comes back at 10, 3 at 13.
    let mut b = pool(make, SPORADIC, &[(4, 10, 1)]);
    b.run(1, 0, 0, MS);
    b.wake(3 * MS, 1);
    assert_eq!(b.watch(0, 3 * MS, 26 * MS, MS), "111....1..111....1..111");
    // A piece ends when another runs, not only at a block; the chunk is still the one that began at 0.
    let mut b = pool(make, SPORADIC, &[(4, 10, 2), (2, 20, 1)]);
    b.wake(0, 1);
    assert_eq!(b.watch(0, 0, MS, MS), "1");
    b.wake(MS, 2);
    assert_eq!(b.watch(0, MS, 14 * MS, MS), "22111....1111");
    // Pieces that are due together are one: all from here on come back together.
    let mut b = pool(make, SPORADIC, &[(4, 10, 1)]);
    b.run(1, 0, 0, MS);
    b.run(1, 0, 2 * MS, 3 * MS);
    b.wake(15 * MS, 1);
    assert_eq!(b.watch(0, 15 * MS, 29 * MS, MS), "1111......1111", "due at 10 and 12, used at 15, back at 25 ms");
    // Work that waits for others makes a piece no later: due at 10 and 12, used from 14 on, back at 20 and 22.
    let mut b = pool(make, SPORADIC, &[(4, 10, 2), (4, 40, 1)]);
    b.run(1, 0, 0, 2 * MS);
    b.run(1, 0, 2 * MS, 4 * MS);
    b.wake(5 * MS, 1);
    assert_eq!(b.watch(0, 5 * MS, 10 * MS, MS), ".....");
    b.wake(10 * MS, 2);
    assert_eq!(b.watch(0, 10 * MS, 14 * MS, MS), "2222");
    b.stop(14 * MS, 0);
    assert_eq!(b.watch(0, 14 * MS, 26 * MS, MS), "1111..1111..");
    // No work for long: the budget is what it was, the time is that of the work.
    let mut b = pool(make, SPORADIC, &[(4, 10, 1)]);
    b.wake(57 * MS, 1);
    assert_eq!(b.watch(0, 57 * MS, 71 * MS, MS), "1111......1111");
    // Work that comes while there is no budget waits for the next piece, and makes it no later.
    let mut b = pool(make, SPORADIC, &[(2, 10, 1)]);
    b.run(1, 0, 0, 2 * MS);
    b.wake(5 * MS, 1);
    assert_eq!((b.state(1), b.core.pool_timer()), (State::Parked, 10 * MS));
    assert_eq!(b.watch(0, 5 * MS, 22 * MS, MS), ".....11........11");
    b.stop(22 * MS, 0);
    assert_eq!(b.watch(0, 22 * MS, 34 * MS, MS), "............");
    b.wake(34 * MS, 1);
    assert_eq!(b.watch(0, 34 * MS, 46 * MS, MS), "11........11", "back at 30, used from 34 on");
}

/// What was run beyond the budget is a part of the next chunk that was used before its time.
pub fn overrun(make: &Maker) {
    let mut b = pool(make, SPORADIC, &[(2, 10, 1)]);
    b.wake(0, 1);
    b.turn(0, 0);
    assert_eq!(b.turn(2 * MS + HALF, 0), None, "half a ms late");
    let expected = ["111", &".".repeat(17), "1111", &".".repeat(16), "1111"].concat();
    assert_eq!(b.watch(0, 10 * MS, 32 * MS, HALF), expected, "1.5 ms at 10, 2 at 20 and at 30 ms");
    // Always half a ms late: no more than 2 ms in 10 for all that.
    let mut b = pool(make, SPORADIC, &[(2, 10, 1)]);
    b.wake(0, 1);
    b.turn(0, 0);
    assert_eq!(b.turn(2 * MS + HALF, 0), None);
    for t in (1..5).map(|i| i * 10 * MS) {
        b.account(t);
        assert_eq!(b.turn_slice(t, 0), (Some(1), MS));
        assert_eq!(b.turn_slice(t + MS, 0), (Some(1), HALF), "at {t}");
        assert_eq!(b.turn(t + 2 * MS, 0), None);
    }
    // More than a whole budget too much.
    let mut b = pool(make, SPORADIC, &[(2, 10, 1)]);
    b.wake(0, 1);
    b.turn(0, 0);
    assert_eq!(b.turn(5 * MS, 0), None);
    assert_eq!(b.watch(0, 10 * MS, 32 * MS, MS), "..........1.........11", "3 ms too much: 2 at 10, 1 at 20 ms");
    // Less than the clock says.
    let mut b = pool(make, SPORADIC, &[(2, 10, 1)]);
    b.wake(0, 1);
    b.turn(0, 0);
    b.off(MS, 0, 400 * US);
    b.wake(MS, 1);
    assert_eq!(b.watch(0, MS, 4 * MS, 100 * US), "1".repeat(16) + &".".repeat(14));
}

/// 64 pieces; what would be more joins the latest, which is late for some of it and early for none.
pub fn bounded(make: &Maker) {
    let mut b = pool(make, SPORADIC, &[(90, 100, 1)]);
    (0..66).for_each(|i| b.run(1, 0, i * MS, i * MS + HALF));
    assert_eq!(b.core.check(), Ok(()), "pieces and the rest are the budget");
    b.wake(66 * MS, 1);
    // 57 ms are left, and what was run until 23 ms is back by then: 24 pieces, 12 more, 6, 3, 1…
    assert_eq!(b.watch(0, 66 * MS, 146 * MS, HALF), "1".repeat(160));
    b.watch(0, 146 * MS, 162 * MS, HALF);
    // The 64th, 65th and 66th and the 57 ms were merged: back when the last of them is, at 66 + 100 ms.
    assert_eq!(b.watch(0, 162 * MS, 170 * MS, HALF), "1.......11111111");
    assert_eq!(b.core.check(), Ok(()));
}

/// 3000 pieces for 60 servers; a pool has 2048.
/// VM 1 has 40 VCPUs, each of which runs 60 times in its period: they want 2400 pieces. VM 2's comes back in time all the same.
pub fn parts(make: &Maker) {
    let mut b = Bench::new(make, "rtxen", 2, 2);
    b.set(0, None, "server", SPORADIC);
    (1..=40).for_each(|v| b.vcpu(v, 1, 0));
    (1..=40).for_each(|v| b.pin(0, v, 1));
    b.vcpu(50, 2, 1);
    b.pin(0, 50, 2);
    b.server(0, 1, 10 * MS, 1_000 * MS, 1);
    b.server(0, 2, 10 * MS, 1_000 * MS, 1);
    for i in 0..60 {
        for v in 1..=40 {
            let t = (i * 40 + u64::from(v)) * 100 * US;
            b.run(v, 0, t, t + 20 * US);
        }
    }
    // What runs at 300 and at 600 ms is back at 1300 and at 1600 ms: two pieces, not one that comes later.
    b.run(50, 1, 300 * MS, 304 * MS);
    b.run(50, 1, 600 * MS, 606 * MS);
    b.wake(700 * MS, 50);
    assert_eq!(b.state(50), State::Parked);
    b.serve(1300 * MS);
    assert_eq!(b.turn(1300 * MS, 1), Some(50), "4 ms are back");
    assert_eq!(b.core.check(), Ok(()));
}

/// A VM that was alone has all pieces. One that comes has none before some are free: what it runs comes back as one.
pub fn empty(make: &Maker) {
    let mut b = Bench::new(make, "rtxen", 2, 1);
    b.ok(0, OpCode::VmRemove, (0, 0, 0), [0; 3]);
    b.set(0, None, "server", SPORADIC);
    (1..=40).for_each(|v| b.vcpu(v, 1, 0));
    (1..=40).for_each(|v| b.pin(0, v, 1));
    b.server(0, 1, 10 * MS, 1_000 * MS, 1);
    for i in 0..60 {
        for v in 1..=40 {
            let t = (i * 40 + u64::from(v)) * 100 * US;
            b.run(v, 0, t, t + 20 * US);
        }
    }
    b.ok(250 * MS, OpCode::VmAdd, (0, 0, 2), [0, 256, 0]);
    b.vcpu(50, 2, 1);
    b.pin(250 * MS, 50, 2);
    b.server(250 * MS, 2, 10 * MS, 1_000 * MS, 1);
    b.run(50, 1, 300 * MS, 304 * MS);
    assert_eq!(b.core.check(), Ok(()));
    b.run(50, 1, 600 * MS, 606 * MS);
    assert_eq!(b.core.check(), Ok(()));
    b.wake(700 * MS, 50);
    assert_eq!(b.state(50), State::Parked, "it has had its 10 ms, if no piece tells of them");
    b.serve(1600 * MS);
    assert_eq!((b.state(50), b.core.check()), (State::Running, Ok(())));
}

pub fn slab(make: &Maker) {
    let vms = 60;
    let mut b = Bench::new(make, "rtxen", 8, vms);
    b.set(0, None, "server", SPORADIC);
    for v in 1..=vms {
        b.vcpu(v, v, v % 8);
        b.server(0, v, 100 * MS, 1_000 * MS, 1);
    }
    for i in 0..50 {
        for v in 1..=vms {
            let t = (i * 60 + u64::from(v)) * 100 * US;
            b.wake(t, v);
            let home = (0..8).find(|&c| b.turn(t, c) == Some(v.into())).expect("a PCPU");
            b.stop(t + 50 * US, home);
        }
        assert_eq!(b.core.check(), Ok(()), "round {i}: the slab is shared out, and empty in the end");
    }
}
