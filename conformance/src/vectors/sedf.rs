// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/sedf.md: earliest deadline first, wakes within and after a period, extra time.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{CUR_STOPS, Class, OpCode, State};

pub const XEN: u64 = 0;
pub const DEFERRABLE: u64 = 1;
const QUANTUM: u64 = 500 * US;
/// A value of `penalty`: until the next period.
const UNTIL_NEXT: u64 = 0;

/// One PCPU; VMs 1… with one VCPU each of the same number, and (budget, period, extra) in ms from time 0 on.
pub fn pool(make: &Maker, mode: u64, servers: &[(u64, u64, u64)]) -> Bench {
    let mut b = Bench::new(make, "sedf", 1, servers.len() as u16);
    b.set(0, None, "mode", mode);
    for (vm, &(budget, period, extra)) in (1..).zip(servers) {
        b.vcpu(vm, vm, 0);
        b.server(0, vm, budget * MS, period * MS, 1);
        b.set(0, Some(vm), "extra", extra);
    }
    b
}

pub fn order(make: &Maker) {
    for mode in [XEN, DEFERRABLE] {
        let mut b = pool(make, mode, &[(3, 10, 0), (2, 5, 0), (3, 20, 0)]);
        b.set(0, None, "reserve", 0);
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), 3 * MS), "mode {mode}: the slice is the budget");
        assert_eq!(b.wake(MS, 3).kick, 0, "mode {mode}: a later deadline preempts nobody");
        assert_eq!(b.wake(MS, 2).kick, 1, "mode {mode}: an earlier one does");
        assert_eq!(b.turn_slice(MS, 0), (Some(2), 2 * MS));
        assert_eq!(b.turn_slice(3 * MS, 0), (Some(1), 2 * MS), "mode {mode}: the rest of it");
        assert_eq!(b.turn_slice(5 * MS, 0).0, Some(3), "mode {mode}: 1 and 2 have had theirs");
    }
}

/// A period that begins while the VCPU runs: its deadline is the new one, and another may be due before.
pub fn new_period(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(6, 10, 0), (4, 15, 0)]);
    b.wake(6 * MS, 1);
    assert_eq!(b.watch(0, 6 * MS, 7 * MS, MS), "1");
    assert_eq!(b.wake(7 * MS, 2).kick, 0, "15 ms is later than 10");
    assert_eq!(b.watch(0, 7 * MS, 10 * MS, MS), "111");
    assert_eq!(b.account(10 * MS).kick, 1, "the next deadline of 1 is 20 ms");
    assert_eq!(b.watch(0, 10 * MS, 20 * MS, MS), "2222111111");
    // Whoever wakes then compares with the new one, too.
    let mut b = pool(make, DEFERRABLE, &[(6, 10, 0), (4, 15, 0)]);
    b.wake(6 * MS, 1);
    b.watch(0, 6 * MS, 11 * MS, MS);
    assert_eq!(b.deadline(1), 20 * MS);
    assert_eq!(b.wake(11 * MS, 2).kick, 1, "15 before 20 ms");
    // From extra time into the budget: a running VCPU has its place among those with deadlines.
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1), (4, 15, 0)]);
    b.wake(0, 1);
    assert_eq!(b.watch(0, 0, 13 * MS, MS), "1".repeat(13));
    assert_eq!((b.class(1), b.deadline(1)), (Class::Over, 20 * MS));
    let mut b = pool(make, DEFERRABLE, &[(4, 10, 1), (4, 15, 0)]);
    b.wake(0, 1);
    b.watch(0, 0, 11 * MS, MS);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Rt, 20 * MS));
    assert_eq!(b.wake(11 * MS, 2).kick, 1);
}

pub fn wakes(make: &Maker) {
    let mut b = pool(make, XEN, &[(4, 10, 0)]);
    b.set(0, None, "penalty", UNTIL_NEXT);
    b.wake(3 * MS, 1);
    assert_eq!(b.deadline(1), 13 * MS, "(c) the first period begins with the work");
    assert_eq!(b.turn_slice(3 * MS, 0), (Some(1), 4 * MS));
    b.stop(4 * MS, 0);
    // (b) A short block: the rest is forfeited, yet it is first in what is left, although it asks for no extra time.
    b.wake(6 * MS, 1);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Under, 13 * MS));
    assert_eq!(b.turn_slice(6 * MS, 0), (Some(1), QUANTUM));
    assert_eq!(b.watch(0, 6 * MS, 13 * MS, QUANTUM), "1".repeat(14));
    assert_eq!(b.core.pool_timer(), 13 * MS);
    assert_eq!(b.account(13 * MS).kick, 1);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Rt, 23 * MS), "a period on the grid");
    assert_eq!(b.turn_slice(13 * MS, 0), (Some(1), 4 * MS));
    // (a) Nothing is left to forfeit: it waits for the next period and is no L0.
    assert_eq!(b.turn(17 * MS, 0), None);
    b.ok(18 * MS, OpCode::Block, (0, 1, 0), [0; 3]);
    b.wake(19 * MS, 1);
    assert_eq!((b.state(1), b.deadline(1)), (State::Parked, 23 * MS));
    assert_eq!(b.watch(0, 19 * MS, 24 * MS, MS), "....1");
    // (c) After the deadline.
    b.stop(24 * MS, 0);
    assert_eq!(b.watch(0, 24 * MS, 57 * MS, MS), ".".repeat(33));
    b.wake(57 * MS, 1);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Rt, 67 * MS));
    assert_eq!(b.turn_slice(57 * MS, 0), (Some(1), 4 * MS));
    // At the deadline itself the next period begins as well; late timers keep the grid.
    b.stop(58 * MS, 0);
    b.wake(67 * MS, 1);
    assert_eq!((b.class(1), b.deadline(1)), (Class::Rt, 77 * MS));
    b.turn(67 * MS, 0);
    b.turn(71 * MS, 0);
    b.account(102 * MS);
    assert_eq!(b.deadline(1), 107 * MS);
    // Deferrable: a block changes nothing, periods go on without work.
    let mut b = pool(make, DEFERRABLE, &[(4, 10, 0)]);
    b.wake(3 * MS, 1);
    assert_eq!(b.deadline(1), 10 * MS);
    b.turn(3 * MS, 0);
    b.stop(4 * MS, 0);
    b.wake(6 * MS, 1);
    assert_eq!((b.class(1), b.turn_slice(6 * MS, 0)), (Class::Rt, (Some(1), 3 * MS)));
    assert_eq!(b.watch(0, 6 * MS, 11 * MS, MS), "111.1");
    b.stop(11 * MS, 0);
    b.watch(0, 11 * MS, 37 * MS, MS);
    b.wake(37 * MS, 1);
    assert_eq!(b.deadline(1), 40 * MS);
}

/// L0 before L1 before nothing.
pub fn extra(make: &Maker) {
    // 1 has a penalty and no extratime; 2 has extratime; 3 has neither.
    let mut b = pool(make, XEN, &[(2, 10, 0), (1, 10, 1), (1, 10, 0)]);
    b.set(0, None, "reserve", 0);
    b.set(0, None, "penalty", UNTIL_NEXT);
    b.vcpu(9, 0, 0);
    b.run(1, 0, 0, MS);
    b.wake(MS, 2);
    assert_eq!(b.turn_slice(MS, 0), (Some(2), MS));
    b.wake(MS, 3);
    assert_eq!(b.turn_slice(2 * MS, 0), (Some(3), MS), "a budget before extra time");
    b.wake(2 * MS, 9);
    assert_eq!(b.watch(0, 3 * MS, 4 * MS, QUANTUM), "29", "L1 in turns of 500 us");
    assert_eq!((b.class(2), b.state(3)), (Class::Over, State::Parked), "extratime on and off");
    assert_eq!(b.wake(4 * MS, 1).kick, 1);
    assert_eq!(b.watch(0, 4 * MS, 10 * MS, QUANTUM), "1".repeat(12), "L0 before L1");
    assert_eq!(
        b.watch(0, 10 * MS, 16 * MS, QUANTUM),
        "111122332929",
        "budgets are back at 10 (1) and 11 ms (2, 3); 2 had its turn before 9"
    );
    // Alone it goes on in slices of a quantum.
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1)]);
    b.wake(0, 1);
    assert_eq!(b.turn_slice(0, 0), (Some(1), 2 * MS));
    assert_eq!(b.turn_slice(2 * MS, 0), (Some(1), QUANTUM));
    b.set(2 * MS, None, "extra_quantum", 2 * MS);
    assert_eq!(b.turn_slice(2 * MS, 0), (Some(1), 2 * MS));
}

/// A VCPU that waits for extra time keeps its place there while it has a budget (rule K2), not when
/// it blocks.
pub fn extra_place(make: &Maker) {
    let begun = |b: &mut Bench| {
        b.set(0, None, "extra_quantum", 5 * MS);
        b.set(0, None, "reserve", 0);
        b.vcpu(9, 0, 0);
        b.vcpu(8, 0, 0);
        [1, 9, 8].iter().for_each(|&v| _ = b.wake(10 * MS, v));
    };
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1)]);
    begun(&mut b);
    assert_eq!(b.watch(0, 10 * MS, 30 * MS, MS), "11999998881188111119", "1 waits since 10 ms, 9 since 17");
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1)]);
    begun(&mut b);
    assert_eq!(b.watch(0, 10 * MS, 21 * MS, MS), "11999998881");
    assert_eq!(b.stop(21 * MS, 0), Some(8));
    b.wake(22 * MS, 1);
    assert_eq!(b.watch(0, 22 * MS, 30 * MS, MS), "18999991", "1 waits since 22 ms");
}

/// What makes up for a short block does not keep the reserve from Dom0, nor uses it up.
pub fn reserve(make: &Maker) {
    let mut b = pool(make, XEN, &[(2, 400, 0)]);
    b.set(0, None, "penalty", UNTIL_NEXT);
    b.vcpu(9, 0, 0);
    b.run(1, 0, 0, MS);
    b.wake(2 * MS, 1);
    assert_eq!(b.watch(0, 2 * MS, 4 * MS, MS), "11");
    assert_eq!(b.class(1), Class::Under);
    assert_eq!(b.wake(4 * MS, 9).kick, 1);
    assert_eq!(b.watch(0, 4 * MS, 46 * MS, MS), ["9", &"1".repeat(19)].concat().repeat(2) + "91");
}

/// A slice as long as a budget is interrupted for the next interval of the reserve.
pub fn reserve_timer(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(80, 100, 0), (1, 50, 0)]);
    b.vcpu(9, 0, 0);
    b.wake(0, 1);
    b.wake(0, 9);
    assert_eq!(b.watch(0, 0, 5 * MS, MS), "91111");
    b.wake(5 * MS, 2);
    assert_eq!(b.watch(0, 5 * MS, 42 * MS, MS), ["2", &"1".repeat(14), "9", &"1".repeat(19), "91"].concat());
}

/// Budget and period of a running VCPU.
pub fn changes(make: &Maker) {
    for mode in [XEN, DEFERRABLE] {
        let mut b = pool(make, mode, &[(9, 10, 0), (40, 1000, 0)]);
        b.set(0, None, "mode", mode);
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), 9 * MS));
        assert_eq!(b.set(MS, Some(1), "budget", 2 * MS).kick, 1, "mode {mode}: its slice was longer");
        b.serve(MS);
        b.wake(MS, 2);
        assert_eq!(b.watch(0, MS, 12 * MS, MS), "11222222221", "mode {mode}");
        assert_eq!(b.deadline(1), 21 * MS, "mode {mode}");
        assert_eq!(b.set(12 * MS, Some(1), "period", 2000 * MS).kick, 1);
        assert_eq!(b.watch(0, 12 * MS, 14 * MS, MS), "22", "mode {mode}: the other is due first now");
        assert_eq!(b.set(14 * MS, Some(1), "period", 10 * MS).kick, 1, "mode {mode}: and now it is again");
        // Before it has started.
        assert_eq!(b.ok(14 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 1);
        assert_eq!(b.set(14 * MS, Some(1), "budget", 0).kick, 1, "mode {mode}: picked for a budget that is gone");
    }
}

/// A short block forfeits what is left of a budget, and forgives nothing that was run beyond it
/// (rule E7).
pub fn forfeits(make: &Maker) {
    for (ran, next) in [(4 * MS, 10 * MS), (12 * MS, 8 * MS)] {
        let mut b = Bench::new(make, "sedf", 1, 1);
        b.vcpu(1, 1, 0);
        assert_eq!(b.set(0, Some(1), "extra", 0).ret, 0);
        b.server(0, 1, 10 * MS, 20 * MS, 1);
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), 10 * MS));
        b.ok(12 * MS, OpCode::Schedule, (0, 0, 0), [CUR_STOPS, 0, 0]);
        b.ok(12 * MS, OpCode::Put, (0, 1, 0), [0, ran, 0]);
        b.ok(15 * MS, OpCode::Wake, (0, 1, 0), [0; 3]);
        b.account(20 * MS);
        let res = b.ok(20 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
        assert_eq!((res.next, res.slice), (1, next), "it ran {ran} ns of 10 ms");
    }
}
