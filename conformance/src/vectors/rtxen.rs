// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/rtxen.md: priorities, quanta, and what becomes of budgets that are not used.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{NEVER, State};

pub const DEFERRABLE: u64 = 0;
pub const PERIODIC: u64 = 1;
pub const POLLING: u64 = 2;
pub const SPORADIC: u64 = 3;
/// Half a ms.
pub const HALF: u64 = 500 * US;

/// One PCPU, which decides when something comes; VMs 1… with one VCPU each of the same number, and
/// (budget, period, priority) in ms from time 0 on.
pub fn pool(make: &Maker, kind: u64, servers: &[(u64, u64, u64)]) -> Bench {
    let mut b = Bench::new(make, "rtxen", 1, servers.len() as u16);
    b.set(0, None, "server", kind);
    b.set(0, None, "idle_quantum", 0);
    for (vm, &(budget, period, priority)) in (1..).zip(servers) {
        b.vcpu(vm, vm, 0);
        b.server(0, vm, budget * MS, period * MS, priority);
    }
    b
}

pub fn priorities(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 2), (3, 10, 1), (4, 20, 1)]);
    assert_eq!(b.wake(0, 1).kick, 1);
    assert_eq!(b.watch(0, 0, MS, MS), "1");
    assert_eq!(b.wake(MS, 2).kick, 1, "a higher priority preempts");
    assert_eq!(b.watch(0, MS, MS + 1, MS), "2");
    assert_eq!(b.wake(MS, 3).kick, 0, "an equal one does not");
    // 2 and 3 in turns of a quantum until 2 has had 3 ms and 3 has had 4; then the second ms of 1.
    assert_eq!(b.watch(0, 2 * MS, 20 * MS, MS), "3232331.22211.....");
    // Not forced to be rate-monotonic: the long period first, if it says so.
    let mut b = pool(make, DEFERRABLE, &[(2, 5, 9), (10, 40, 1)]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, 15 * MS, MS), "222222222211...", "2 ms of 5, whenever it is let");
}

pub fn slices(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(5, 20, 1), (5, 20, 2)]);
    b.set(0, Some(1), "budget", 2 * MS + 300 * US);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.turn_slice(0, 0), (Some(1), MS), "a quantum");
    assert_eq!(b.turn_slice(MS, 0), (Some(1), MS));
    assert_eq!(b.turn_slice(2 * MS, 0), (Some(1), 300 * US), "rule R3: or the budget");
    assert_eq!(b.turn_slice(2 * MS + 300 * US, 0), (Some(2), MS));
    b.set(3 * MS, None, "quantum", 100 * US);
    assert_eq!(b.turn_slice(3 * MS, 0), (Some(2), 100 * US));
}

/// A PCPU that idles decides after each quantum (rule R23), or when something comes.
pub fn idle_quantum(make: &Maker) {
    for (on, decisions) in [(1, 10), (0, 0)] {
        let mut b = pool(make, DEFERRABLE, &[(1, 10, 1)]);
        b.set(0, None, "idle_quantum", on);
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), MS));
        assert_eq!(b.core.cpu_timer(0), NEVER, "{on}: it runs");
        assert_eq!(b.stop(HALF, 0), None);
        let mut fired = 0;
        for now in (1..=10).map(|n| HALF + n * MS) {
            if b.core.cpu_timer(0) == now {
                assert_eq!(b.timer(now, 0).kick, 1, "a decision");
                assert_eq!(b.turn(now, 0), None);
                fired += 1;
            }
        }
        assert_eq!(fired, decisions, "{on}");
        // What idles away ends sooner.
        let mut b = pool(make, PERIODIC, &[(1, 10, 1)]);
        b.set(0, None, "idle_quantum", on);
        b.wake(0, 1);
        b.turn(0, 0);
        b.stop(HALF, 0);
        assert_eq!(b.core.cpu_timer(0), MS, "{on}: the budget");
    }
}

/// Rules R4 and R5.
pub fn without_budget(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(1, 10, 1), (16, 20, 2)]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, 2 * MS, MS), "12");
    assert_eq!(b.state(1), State::Parked, "it has work and no budget");
    b.ok(2 * MS, takt_policy::OpCode::Block, (0, 1, 0), [0; 3]);
    assert_eq!(b.wake(3 * MS, 1).kick, 0, "rule R4");
    assert_eq!(b.state(1), State::Parked);
    assert_eq!(b.watch(0, 3 * MS, 10 * MS, MS), "2222222");
    assert_eq!(b.core.pool_timer(), 10 * MS);
    assert_eq!(b.account(10 * MS).kick, 1, "a replenished one beats the current one");
    assert_eq!(b.turn_slice(10 * MS, 0), (Some(1), MS), "rule R5: replenished before the decision at the same time");
    assert_eq!(b.watch(0, 11 * MS, 21 * MS, MS), "2222222..1", "16 ms of 20, then both anew");
}

pub fn deferrable(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(3, 10, 1), (5, 10, 2)]);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, 9 * MS, MS), "22222....");
    assert_eq!(b.wake(9 * MS, 1).kick, 1, "kept while there was no work");
    // 1 ms at the end of the first period; the 2 ms left are dropped: 3 in the second, not 5.
    assert_eq!(b.watch(0, 9 * MS, 20 * MS, MS), "111122222..");
    let mut b = pool(make, DEFERRABLE, &[(3, 10, 1)]);
    b.run(1, 0, 0, MS);
    b.wake(2 * MS, 1);
    assert_eq!(b.watch(0, 2 * MS, 11 * MS, MS), "11......1", "a block loses nothing");
    // Half a ms too much is owed.
    let mut b = pool(make, DEFERRABLE, &[(3, 10, 1)]);
    b.wake(0, 1);
    b.turn(0, 0);
    assert_eq!(b.turn(3 * MS + HALF, 0), None);
    assert_eq!(b.watch(0, 10 * MS, 23 * MS, HALF), ["11111", &".".repeat(15), "111111"].concat());
    let mut b = pool(make, DEFERRABLE, &[(3, 10, 1)]);
    b.run(1, 0, 0, MS);
    b.wake(2 * MS, 1);
    b.watch(0, 2 * MS, 11 * MS, MS);
    // A late timer: one refill, and the grid stays.
    b.stop(11 * MS, 0);
    assert_eq!(b.account(57 * MS).pool_timer, 60 * MS);
    b.wake(57 * MS, 1);
    assert_eq!(b.watch(0, 57 * MS, 64 * MS, MS), "111111.", "at 57 and, full again, at 60");
}

pub fn polling(make: &Maker) {
    let begun = |literal| {
        let mut b = pool(make, POLLING, &[(3, 10, 1)]);
        assert_eq!(b.set(0, None, "polling_literal", literal).ret, 0);
        b.set(0, Some(1), "priority", 1);
        b
    };
    let mut b = begun(0);
    b.wake(2 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "rule R2, strict: replenished without work it has nothing");
    assert_eq!(b.watch(0, 2 * MS, 12 * MS, MS), "........11", "the poll of 10 ms finds work");
    assert_eq!(b.stop(12 * MS, 0), None);
    b.wake(13 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "out of work at 12 ms: the third ms is lost");
    assert_eq!(b.watch(0, 13 * MS, 21 * MS, MS), ".......1");
    b.stop(21 * MS, 0);
    assert_eq!(b.watch(0, 21 * MS, 31 * MS, MS), "..........");
    b.wake(31 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "strict: also at 30 ms there was no work");
    let mut b = begun(1);
    b.wake(2 * MS, 1);
    assert_eq!(b.watch(0, 2 * MS, 3 * MS, MS), "1", "rule R2, literal: nobody took it at its refill");
    b.stop(3 * MS, 0);
    b.wake(4 * MS, 1);
    assert_eq!(b.state(1), State::Parked, "but when it ran out of work");
    b.ok(5 * MS, takt_policy::OpCode::Block, (0, 1, 0), [0; 3]);
    assert_eq!(b.watch(0, 5 * MS, 12 * MS, MS), ".......");
    b.wake(12 * MS, 1);
    assert_eq!(b.watch(0, 12 * MS, 16 * MS, MS), "111.");
}

/// A polling server that is preempted has work yet: its budget stays.
pub fn polling_preempted(make: &Maker) {
    let mut b = pool(make, POLLING, &[(5, 10, 2), (1, 5, 1)]);
    b.set(0, None, "polling_literal", 0);
    (1..=2).for_each(|vm| _ = b.set(0, Some(vm), "extra", 0));
    (1..=2).for_each(|v| _ = b.wake(2 * MS, v));
    assert_eq!(b.watch(0, 2 * MS, 20 * MS, MS), "...2....2111121...");
}

/// Budget, period, priority and kind that change while the VCPU runs, or waits.
pub fn changes(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(4, 10, 2), (2, 10, 3)]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, MS, HALF), "11");
    assert_eq!(b.set(MS, Some(1), "budget", MS + HALF).kick, 1, "its slice is another server's");
    assert_eq!(b.watch(0, MS, 3 * MS, HALF), "1112", "a new budget from here");
    assert_eq!(b.watch(0, 3 * MS, 12 * MS, HALF), "222...........2211", "and a new period, which ends at 11 ms");
    assert_eq!(b.deadline(1), 21 * MS);
    b.set(12 * MS, Some(1), "period", 40 * MS);
    assert_eq!(b.deadline(1), 52 * MS);
    // Priorities.
    let mut b = pool(make, DEFERRABLE, &[(4, 10, 2), (2, 10, 3)]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, HALF, HALF), "1");
    assert_eq!(b.set(HALF, Some(1), "priority", 4).kick, 1);
    assert_eq!(b.watch(0, HALF, 5 * MS, HALF), "222211111", "it has become the lower one");
    b.set(5 * MS, Some(2), "priority", 1);
    assert_eq!(b.watch(0, 5 * MS, 6 * MS, HALF), "22", "one that was parked begins anew, and first");
    // The kind.
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1)]);
    b.wake(0, 1);
    assert_eq!(b.watch(0, 0, 4 * MS, MS), "11..");
    for kind in [SPORADIC, POLLING, PERIODIC, DEFERRABLE] {
        assert_eq!(b.set(4 * MS, None, "server", kind).ret, 0);
        assert_eq!(b.state(1), State::Queued, "kind {kind}: all begin anew");
    }
    assert_eq!(b.watch(0, 4 * MS, 8 * MS, MS), "11..");
    assert_eq!(b.set(8 * MS, Some(1), "budget", 0).kick, 1, "no server any more: it runs in what is left");
    assert_eq!(b.watch(0, 8 * MS, 12 * MS, MS), "1111");
}
