// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/credit.md, the variants: each parameter, with both of its values. And which VCPUs a
//! cap withholds.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, FORCE_IDLE, NEVER, OpCode, State};

/// VMs 1… with one VCPU each of the same number, at home on PCPU 0, and a parameter.
fn pool(make: &Maker, policy: &str, (cpus, vcpus): (u16, u16), (name, value): (&str, u64)) -> Bench {
    let mut b = Bench::new(make, policy, cpus, vcpus);
    (1..=vcpus).for_each(|v| b.vcpu(v, v, 0));
    assert_eq!(b.set(0, None, name, value).ret, 0);
    b
}

fn credits<const N: usize>(b: &Bench, of: [u16; N]) -> [i32; N] {
    of.map(|v| b.credit(v))
}

/// One decision, and whom it asks for another.
fn decide(b: &mut Bench, now: u64, cpu: u16, flags: u64) -> (u32, u64) {
    let res = b.ok(now, OpCode::Schedule, (cpu, 0, 0), [flags, 0, 0]);
    if res.next != takt_policy::NIL {
        b.ok(now, OpCode::Started, (0, res.next as u16, 0), [0; 3]);
    }
    (res.next, res.kick)
}

fn balanced(b: &Bench) {
    let l = b.core.ledger();
    assert_eq!(l.total, l.given - l.burned - l.clipped, "{l:?}");
    assert_eq!(b.core.check(), Ok(()));
}

/// Three VCPUs of VM 1 and one of VM 2 that have run 100 µs each.
fn three_and_one(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "credit", 1, 2);
    (1..=4).for_each(|v| b.vcpu(v, 1 + v / 4, 0));
    (1..=4).for_each(|v| b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + 100 * US));
    b
}

pub fn weights(make: &Maker) {
    for (value, want) in [(0, [49, 49, 49, 149]), (1, [74; 4])] {
        let mut b = three_and_one(make);
        b.set(5 * MS, None, "weights", value);
        balanced(&b);
        b.account(30 * MS);
        assert_eq!(credits(&b, [1, 2, 3, 4]), want, "weights={value}: 150 a VM, or 75 a VCPU");
        b.set(30 * MS, None, "weights", 1 - value);
        balanced(&b);
    }
    let mut b = three_and_one(make);
    b.set(5 * MS, None, "weights", 1);
    b.set(5 * MS, None, "debts", 0);
    b.ok(5 * MS, OpCode::VcpuRemove, (0, 3, 0), [0; 3]);
    b.account(30 * MS);
    assert_eq!(credits(&b, [1, 2, 4]), [99; 3], "a VM weighs less with a VCPU less");
    let mut b = three_and_one(make);
    b.set(5 * MS, None, "weights", 1);
    b.set(5 * MS, Some(2), "weight", 768);
    balanced(&b);
    b.account(30 * MS);
    assert_eq!(credits(&b, [1, 2, 3, 4]), [49, 49, 49, 149], "three times the weight for one instead of three");
}

/// Debt is handed out again by the same weights: 600 and 300 of 900 above the peaks, or 450 and 450.
pub fn weights_of_debt(make: &Maker) {
    for (value, want) in [(0, [225, 225, 0]), (1, [300; 3])] {
        let mut b = Bench::new(make, "credit", 4, 2);
        (1..=3).for_each(|v| b.vcpu(v, 1 + v / 3, v));
        b.set(0, None, "weights", value);
        (1..=3).for_each(|v| _ = b.wake(0, v));
        (1..=3).for_each(|v| assert_eq!(b.turn(0, v), Some(v.into())));
        (1..=3).for_each(|v| _ = b.stop(60 * MS, v));
        b.account(60 * MS);
        assert_eq!(credits(&b, [1, 2, 3]), [-300; 3]);
        b.account(90 * MS);
        assert_eq!(credits(&b, [1, 2, 3]), want, "weights={value}");
        balanced(&b);
    }
}

const YOUNG: u64 = 29_500 * US;

/// UNDER VCPU 1 has run from [`YOUNG`] on when VCPU 2 wakes with a boost 300 µs later.
fn young(make: &Maker, policy: &str, limit: u64) -> Bench {
    let mut b = pool(make, policy, (1, 2), ("ratelimit", 0));
    b.wake(0, 1);
    b.turn(0, 0);
    b.timer(10 * MS, 0);
    b.wake(11 * MS, 2);
    b.set(11 * MS, None, "ratelimit", limit.min(11 * MS));
    assert_eq!(b.turn(11 * MS, 0), Some(2), "one that has run for 11 ms is old enough");
    b.set(11 * MS, None, "ratelimit", limit);
    assert_eq!(b.stop(YOUNG, 0), Some(1));
    let res = b.wake(YOUNG + 300 * US, 2);
    assert_eq!((b.class(1), b.class(2), res.kick), (Class::Under, Class::Boost, 1));
    b
}

pub fn ratelimit(make: &Maker) {
    let now = YOUNG + 300 * US;
    for policy in ["credit", "doris", "laxs", "poris"] {
        let mut b = young(make, policy, 0);
        assert_eq!(b.turn_slice(now, 0), (Some(2), 30 * MS), "{policy}: no limit");
        let mut b = young(make, policy, MS);
        assert_eq!(b.turn_slice(now, 0), (Some(1), 700 * US), "{policy}: it goes on until it has run 1 ms");
        assert_eq!(b.turn_slice(YOUNG + 999 * US, 0), (Some(1), US), "{policy}");
        assert_eq!(b.turn_slice(YOUNG + MS, 0), (Some(2), 30 * MS), "{policy}: then it is preempted");
        let mut b = young(make, policy, MS);
        b.ok(now, OpCode::Yield, (0, 1, 0), [0xffff, 0, 0]);
        assert_eq!(b.turn(now, 0), Some(2), "{policy}: who yields is not spared");
        let mut b = young(make, policy, MS);
        b.ok(now, OpCode::Pause, (0, 1, 0), [0; 3]);
        assert_eq!(b.turn(now, 0), Some(2), "{policy}: nor who is paused");
        let mut b = young(make, policy, MS);
        assert_eq!(b.stop(now, 0), Some(2), "{policy}: nor who blocks");
        let mut b = young(make, policy, MS);
        b.set(now, Some(1), "cap", 10);
        b.account(30 * MS);
        assert_eq!(
            b.turn(30 * MS, 0),
            Some(2),
            "{policy}: nor whom its cap withholds: it owes 85, and 30 is its floor"
        );
        assert_eq!(b.state(1), State::Parked);
        let mut b = young(make, policy, MS);
        b.ok(now, OpCode::CpuAdd, (1, 0, 0), [1, 0, 0]);
        b.ok(now, OpCode::SetAffinity, (0, 1, 0), [0, 0b10, 0]);
        assert_eq!(b.turn(now, 0), Some(2), "{policy}: nor who may not run here any more");
        // A limit above the slice spares nobody for longer than that.
        let mut b = young(make, policy, 500 * MS);
        assert_eq!(b.turn_slice(now, 0), (Some(1), 29_700 * US), "{policy}: its slice ends before the limit");
        assert_eq!(b.turn(YOUNG + 30 * MS, 0), Some(2), "{policy}");
    }
    // A real-time VCPU that waits for it shortens no slice either: the decision would be the same.
    let mut b = young(make, "doris", MS);
    b.rt(now, 2, MS);
    b.event(now, 2, super::bench::IO);
    assert_eq!(b.class(2), Class::Rt);
    assert_eq!(b.turn_slice(now, 0), (Some(1), 700 * US));
    assert_eq!(b.turn(YOUNG + MS, 0), Some(2));
}

pub fn tickle(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, (4, 5), ("tickle", 0));
        b.wake(0, 1);
        assert_eq!(b.wake(0, 2).kick, 0b1111, "{policy}: all");
        let mut b = pool(make, policy, (4, 5), ("tickle", 1));
        assert_eq!(b.wake(0, 1).kick, 0b0001, "{policy}: its own PCPU is idle");
        assert_eq!(b.wake(0, 2).kick, 0b0001, "{policy}: so it is for the second, however many wait");
        assert_eq!(decide(&mut b, 0, 0, 0), (1, 0b0010), "{policy}: it has asked the next for the second");
        assert_eq!(decide(&mut b, 0, 1, 0), (2, 0), "{policy}: nobody waits any more");
        assert_eq!(b.wake(0, 3).kick, 0b0100, "{policy}: one idle PCPU");
        assert_eq!(b.wake(0, 4).kick, 0b1000, "{policy}: each in turn");
        assert_eq!(
            decide(&mut b, 0, 3, 0),
            (3, 0),
            "{policy}: it finds another than the one that asked it, and PCPU 2 is asked"
        );
        assert_eq!(decide(&mut b, 0, 2, 0), (4, 0), "{policy}");
        assert_eq!(b.wake(0, 5).kick, 0, "{policy}: no idle one is left");
    }
}

/// A PCPU that was tickled alone and cannot run the VCPU passes the tickle on; also under policies with budgets.
pub fn tickle_passed_on(make: &Maker) {
    for policy in ["credit", "rr", "doris", "rtxen", "sedf", "vgedf"] {
        let busy = || {
            let mut b = pool(make, policy, (4, 3), ("tickle", 1));
            b.wake(0, 1);
            assert_eq!(b.turn(0, 0), Some(1));
            assert_eq!(b.wake(0, 2).kick, 0b0010);
            b
        };
        let mut b = busy();
        assert_eq!(b.ok(0, OpCode::CpuRelease, (1, 0, 0), [0; 3]).kick, 0b0100, "{policy}: taken");
        let mut b = busy();
        assert_eq!(decide(&mut b, 0, 1, FORCE_IDLE).1, 0b0100, "{policy}: told to idle");
        let mut b = busy();
        assert_eq!(b.ok(0, OpCode::CpuRemove, (1, 0, 0), [0; 3]).kick, 0b0100, "{policy}: gone");
        // The one that asked has gone elsewhere, and another waits, which PCPU 1 may not run.
        let mut b = busy();
        b.ok(0, OpCode::SetAffinity, (0, 3, 0), [0, 0b0101, 0]);
        assert_eq!(b.wake(0, 3).kick, 0b0100);
        b.ok(0, OpCode::Block, (0, 2, 0), [0; 3]);
        assert_eq!(decide(&mut b, 0, 1, 0), (takt_policy::NIL, 0), "{policy}: PCPU 2 is asked as well");
        assert_eq!(decide(&mut b, 0, 2, 0), (3, 0), "{policy}");
        // It is the same after an epoch: nobody is asked, and turns begin anew.
        b.ok(1, OpCode::Epoch, (0, 0, 0), [0; 3]);
        assert_eq!(b.core.check(), Ok(()));
        assert_eq!(b.wake(1, 1).kick, 0b0001, "{policy}");
        assert_eq!(decide(&mut b, 1, 0, 0), (1, 0), "{policy}");
        assert_eq!(b.wake(1, 2).kick, 0b0010, "{policy}");
    }
}

pub fn overflow(make: &Maker) {
    for (value, keeps) in [(0, 0), (1, 299)] {
        let mut b = pool(make, "credit", (1, 1), ("overflow", value));
        b.run(1, 0, 0, 100 * US);
        b.account(30 * MS);
        assert_eq!(b.credit(1), 299, "not above 300");
        b.account(60 * MS);
        assert_eq!(b.credit(1), keeps, "overflow={value}: 599 is above: half of it is 299");
        b.account(90 * MS);
        assert_eq!(b.credit(1), keeps, "and inactive");
        let l = b.core.ledger();
        let clipped = 599 - i64::from(keeps);
        assert_eq!((l.given, l.burned, l.clipped, l.total), (600, 1, clipped, keeps.into()));
        b.run(1, 0, 90 * MS, 91 * MS);
        b.account(120 * MS);
        assert_eq!(b.credit(1), if value == 1 { 294 } else { 290 }, "289 and 300 are above, −10 and 300 are not");
        balanced(&b);
        b.set(120 * MS, None, "surplus", 1);
        b.run(1, 0, 120 * MS, 121 * MS);
        b.account(150 * MS);
        b.account(180 * MS);
        assert_eq!(b.credit(1), 300, "where nothing lapses it keeps what it can hold");
        balanced(&b);
    }
}

pub fn charge(make: &Maker) {
    for policy in ["credit", "doris"] {
        for (value, want, earned) in [(0, [-99, -2], [51, 148]), (1, [0, -100], [0, 200])] {
            let mut b = pool(make, policy, (1, 2), ("charge", value));
            b.run(1, 0, 0, 9_900 * US);
            b.wake(9_900 * US, 2);
            b.turn(9_900 * US, 0);
            b.timer(10 * MS, 0);
            b.stop(10_100 * US, 0);
            assert_eq!(credits(&b, [1, 2]), want, "{policy}, charge={value}: 9.9 ms before a tick, 0.2 ms across it");
            b.account(30 * MS);
            assert_eq!(credits(&b, [1, 2]), earned, "{policy}, charge={value}: who is not found does not earn either");
            balanced(&b);
        }
    }
    let sampled = || {
        let mut b = pool(make, "credit", (1, 1), ("charge", 1));
        b.wake(0, 1);
        b.turn(0, 0);
        b
    };
    let mut b = sampled();
    b.timer(57 * MS, 0);
    assert_eq!(b.credit(1), -100, "a late tick is one tick");
    b.set(57 * MS, None, "tick", 5 * MS);
    b.timer(60 * MS, 0);
    assert_eq!(b.credit(1), -150, "a tick of 5 ms is worth 50");
    b.ok(61 * MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    b.timer(65 * MS, 0);
    assert_eq!(b.credit(1), -150, "what a higher class takes is charged to nobody");
    b.ok(66 * MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    b.ok(67 * MS, OpCode::Schedule, (0, 0, 0), [2, 0, 0]);
    b.ok(67 * MS, OpCode::Put, (0, 1, 0), [0, MS, 0]);
    assert_eq!((b.credit(1), b.core.ledger().burned), (-150, 150), "nor does the host's own account count");
}

pub fn balance(make: &Maker) {
    for (value, want, classes) in [
        (0, [-125, 74, 149, 0], [Class::Over, Class::Under]),
        // −201 is −101 and −100: what does not divide goes to one of them, and nothing is lost.
        (1, [-26, -25, 149, 0], [Class::Over, Class::Over]),
    ] {
        let mut b = Bench::new(make, "credit", 1, 2);
        [(4, 1), (1, 1), (2, 1), (3, 2)].into_iter().for_each(|(v, vm)| b.vcpu(v, vm, 0));
        b.set(0, None, "balance", value);
        b.run(1, 0, 0, 20 * MS);
        b.run(2, 0, 20 * MS, 20_100 * US);
        b.run(3, 0, 21 * MS, 21_100 * US);
        b.account(30 * MS);
        assert_eq!(credits(&b, [1, 2, 3, 4]), want, "balance={value}: of the active ones of a VM");
        assert_eq!([1, 2].map(|v| b.class(v)), classes, "balance={value}");
        let l = b.core.ledger();
        assert_eq!((l.given, l.burned, l.clipped), (300, 202, 0));
    }
    // One runs 29 ms of 30, its sibling 1: they earn what they run, and neither is forgiven or loses anything.
    for (value, want, clipped) in [(0, [-300, 0], 300), (1, [0, 0], 0)] {
        let mut b = Bench::new(make, "credit", 1, 1);
        [1, 2].into_iter().for_each(|v| b.vcpu(v, 1, 0));
        b.set(0, None, "balance", value);
        for at in [0, 30, 60] {
            b.run(1, 0, at * MS, (at + 29) * MS);
            b.run(2, 0, (at + 29) * MS, (at + 30) * MS);
            b.account((at + 30) * MS);
        }
        assert_eq!(credits(&b, [1, 2]), want, "balance={value}");
        assert_eq!(b.core.ledger().clipped, clipped, "balance={value}");
        balanced(&b);
    }
}

/// A cap is divided among the active VCPUs, and withholds each of them wherever it is.
pub fn capped(make: &Maker) {
    let mut b = Bench::new(make, "credit", 1, 2);
    [(1, 1), (2, 1), (3, 2)].into_iter().for_each(|(v, vm)| b.vcpu(v, vm, 0));
    b.set(0, Some(1), "cap", 20);
    b.run(1, 0, 0, 6_100 * US);
    b.run(2, 0, 7 * MS, 13 * MS);
    b.wake(13 * MS, 3);
    b.turn(13 * MS, 0);
    b.wake(14 * MS, 1);
    assert_eq!(b.state(1), State::Queued);
    b.account(30 * MS);
    assert_eq!(credits(&b, [1, 2]), [-31, -30], "60 of cap 20% for two");
    assert_eq!((b.state(1), b.state(2)), (State::Parked, State::Blocked), "30 is the floor of each");
    assert_eq!(b.stop(31 * MS, 0), None, "it is withheld from an idle PCPU");
    b.wake(31 * MS, 2);
    assert_eq!(b.turn(31 * MS, 0), Some(2), "who is at the floor is not below it");
    b.stop(31 * MS, 0);
    b.ok(32 * MS, OpCode::Block, (0, 1, 0), [0; 3]);
    assert_eq!(b.state(1), State::Blocked);
    assert_eq!((b.wake(33 * MS, 1).kick, b.state(1)), (0, State::Parked), "a wake does not help");
    b.account(60 * MS);
    assert_eq!((b.credit(1), b.state(1)), (-1, State::Parked), "nor being above the floor");
    let res = b.account(90 * MS);
    assert_eq!((b.credit(1), b.state(1), res.kick), (29, State::Queued, 1), "without debt it is back");
    assert_eq!(b.class(1), Class::Under, "without a boost");
    assert_eq!(b.turn_slice(90 * MS, 0), (Some(1), 30 * MS));
    assert_eq!(b.op(90 * MS, OpCode::Put, (0, 1, 0), [0, NEVER, 0]).ret, 0);
}
