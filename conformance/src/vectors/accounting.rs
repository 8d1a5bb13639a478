// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/credit.md: charging, accounting, caps. 10 credits are 1 ms.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, NEVER, OpCode, State};

/// The kind of an I/O thread.
const IO: u64 = 1;

/// One PCPU, VMs 1… with one VCPU each of the same number.
fn pool(make: &Maker, vms: u16) -> Bench {
    let mut b = Bench::new(make, "credit", 1, vms);
    (1..=vms).for_each(|i| b.vcpu(i, i, 0));
    b
}

pub fn burn(make: &Maker) {
    let mut b = pool(make, 1);
    b.wake(0, 1);
    b.turn(0, 0);
    b.turn(1060 * US, 0);
    assert_eq!(b.credit(1), -11, "1.06 ms is 10.6 credits");
    b.turn(1980 * US, 0);
    assert_eq!(b.credit(1), -20, "1.98 ms in all, not 11 + 9.2 rounded apart");
    b.stop(1980 * US, 0);
    // Twenty runs of 30 µs are 600 µs: none of them is worth a credit alone.
    let mut b = pool(make, 1);
    for i in 0..20 {
        b.run(1, 0, i * MS, i * MS + 30 * US);
    }
    assert_eq!(b.credit(1), -6);
    let mut b = pool(make, 1);
    b.run(1, 0, 0, 50 * US);
    assert_eq!(b.credit(1), -1, "half a credit is rounded up");
    b.run(1, 0, MS, MS + 140 * US);
    assert_eq!(b.credit(1), -2, "190 µs");
}

pub fn taken(make: &Maker) {
    let mut b = pool(make, 1);
    b.wake(0, 1);
    b.turn(0, 0);
    b.ok(MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    b.timer(3 * MS, 0);
    b.ok(5 * MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    b.stop(6 * MS, 0);
    assert_eq!(b.credit(1), -20);
}

pub fn put_corrects(make: &Maker) {
    let mut b = pool(make, 1);
    b.wake(0, 1);
    b.turn(0, 0);
    b.ok(10 * MS, OpCode::Schedule, (0, 0, 0), [2, 0, 0]);
    assert_eq!(b.credit(1), -100);
    b.ok(11 * MS, OpCode::Put, (0, 1, 0), [0, 5 * MS, 0]);
    assert_eq!(b.credit(1), -50, "the host says it ran 5 ms");
}

/// Credits that an accounting pass at 30 ms gives to VMs of these weights.
fn given(make: &Maker, weights: &[u64]) -> Vec<i32> {
    let n = weights.len() as u16;
    let mut b = pool(make, n);
    for (v, &w) in (1..).zip(weights) {
        b.set(0, Some(v), "weight", w);
        b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + 100 * US);
        assert_eq!(b.credit(v), -1);
    }
    b.account(30 * MS);
    (1..=n).map(|v| b.credit(v) + 1).collect()
}

pub fn weights(make: &Maker) {
    assert_eq!(given(make, &[256, 512]), [100, 200]);
    assert_eq!(given(make, &[1, 1, 5]), [43, 43, 215], "⌈300/7⌉, ⌈1500/7⌉");
    assert_eq!(given(make, &[256]), [300]);
}

pub fn split(make: &Maker) {
    let mut b = Bench::new(make, "credit", 1, 2);
    (1..=3).for_each(|v| b.vcpu(v, 1, 0));
    b.vcpu(4, 2, 0);
    b.vcpu(5, 2, 0);
    for v in 1..=4 {
        b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + 100 * US);
    }
    b.account(30 * MS);
    let got: Vec<_> = (1..=5).map(|v| b.credit(v)).collect();
    assert_eq!(got, [49, 49, 49, 149, 0], "150 for each VM; three, one and no active VCPUs");
}

/// Pinned together on one of four PCPUs they earn as if they could use all.
pub fn pinned(make: &Maker) {
    let mut b = Bench::new(make, "credit", 4, 3);
    for v in 1..=3 {
        b.vcpu(v, v, 0);
        b.ok(0, OpCode::SetAffinity, (0, v, 0), [0, 1, 0]);
        b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + 100 * US);
    }
    b.account(30 * MS);
    let got: Vec<_> = (1..=3).map(|v| b.credit(v)).collect();
    assert_eq!(got, [299; 3], "1200 for three who can take 300 each");
}

pub fn negative_balance(make: &Maker) {
    let mut b = pool(make, 1);
    b.run(1, 0, 0, 60 * MS);
    assert_eq!(b.credit(1), -600);
    b.account(60 * MS);
    assert_eq!(b.credit(1), -300);
    assert_eq!(b.class(1), Class::Over);
    b.account(90 * MS);
    assert_eq!(b.credit(1), 300, "pool and peak are larger by the missing 300");
    assert_eq!(b.class(1), Class::Under);
}

pub fn surplus(make: &Maker) {
    let mut b = pool(make, 2);
    b.set(0, Some(1), "cap", 10);
    b.run(1, 0, 0, 100 * US);
    b.run(2, 0, MS, MS + 100 * US);
    b.account(30 * MS);
    assert_eq!(b.credit(1), 29, "⌈3·10⌉ at most");
    let before = b.credit(2);
    b.run(2, 0, 30 * MS, 60 * MS);
    b.account(60 * MS);
    assert_eq!(b.credit(2), before - 300 + 270, "150 and what the capped VM may not take");
    assert_eq!(b.credit(1), 59);
}

pub fn parking(make: &Maker) {
    let mut b = pool(make, 1);
    b.set(0, Some(1), "cap", 20);
    b.wake(0, 1);
    b.turn(0, 0);
    b.turn(30 * MS, 0);
    let res = b.account(30 * MS);
    assert_eq!(b.credit(1), -240, "60 of cap 20%");
    assert_eq!(res.kick, 1, "its PCPU has to give it up");
    assert_eq!(b.turn(30 * MS, 0), None);
    assert_eq!(b.state(1), State::Parked);
    for (t, credit) in [(60, -180), (90, -120), (120, -60)] {
        b.account(t * MS);
        assert_eq!((b.credit(1), b.state(1)), (credit, State::Parked));
    }
    let res = b.account(150 * MS);
    assert_eq!((b.credit(1), b.state(1), res.kick), (0, State::Queued, 1));
    assert_eq!(b.class(1), Class::Under, "no boost");
    assert_eq!(b.turn(150 * MS, 0), Some(1));
    // A cap that is taken away parks nobody; another one does.
    b.turn(180 * MS, 0);
    b.account(180 * MS);
    assert_eq!(b.turn(180 * MS, 0), None);
    b.set(181 * MS, Some(1), "cap", 25);
    b.set(181 * MS, Some(1), "weight", 100);
    assert_eq!((b.state(1), b.turn(181 * MS, 0)), (State::Parked, None));
    b.set(181 * MS, Some(1), "cap", 0);
    assert_eq!(b.turn(181 * MS, 0), Some(1));
}

pub fn limits(make: &Maker) {
    let mut b = pool(make, 1);
    b.run(1, 0, 0, 90 * MS);
    b.account(90 * MS);
    assert_eq!(b.credit(1), -300, "reserve");
    assert_eq!(b.core.ledger().clipped, -300);
    let mut b = pool(make, 1);
    b.run(1, 0, 0, 100 * US);
    b.account(30 * MS);
    assert_eq!(b.credit(1), 299);
    b.account(60 * MS);
    assert_eq!(b.credit(1), 0, "above 300: reset");
    b.account(90 * MS);
    assert_eq!(b.credit(1), 0, "and inactive");
    let l = b.core.ledger();
    assert_eq!((l.given, l.burned, l.clipped, l.total), (600, 1, 599, 0));
}

/// Of a VM whose I/O thread takes a thirtieth of a PCPU, the VCPU has the rest, not half.
pub fn io_threads(make: &Maker) {
    let mut b = pool(make, 1);
    b.ok(0, OpCode::VcpuAdd, (0, 2, 1), [IO, 0, 0]);
    b.run(2, 0, 0, 100 * US);
    b.account(30 * MS);
    b.account(60 * MS);
    assert_eq!((b.credit(2), b.core.ledger().given), (0, 1), "it earns what it owes, once it runs");
    b.run(2, 0, 60 * MS, 61 * MS);
    b.run(1, 0, 61 * MS, 90 * MS);
    b.account(90 * MS);
    assert_eq!((b.credit(2), b.credit(1)), (0, 0), "29 ms run, 29 ms earned");
    // Whatever it runs, its VM pays, as far as it can.
    b.run(2, 0, 90 * MS, 119 * MS);
    b.run(1, 0, 119 * MS, 120 * MS);
    b.account(120 * MS);
    assert_eq!((b.credit(2), b.credit(1)), (0, 0));
    b.run(2, 0, 120 * MS, 155 * MS);
    b.run(1, 0, 155 * MS, 160 * MS);
    b.account(160 * MS);
    assert_eq!((b.credit(2), b.credit(1)), (-50, -50));
    let l = b.core.ledger();
    assert_eq!(l.total, l.given - l.burned - l.clipped);
    // Where nothing lapses it is one of them: a VM with an I/O thread that never stops cannot have
    // its VCPU's debt forgiven.
    let mut b = pool(make, 1);
    b.set(0, None, "surplus", 1);
    b.ok(0, OpCode::VcpuAdd, (0, 2, 1), [IO, 0, 0]);
    b.run(2, 0, 0, 15 * MS);
    b.run(1, 0, 15 * MS, 30 * MS);
    b.account(30 * MS);
    assert_eq!((b.credit(2), b.credit(1)), (0, 0));
}

/// What a VCPU cannot hold lapses, or is the others': they earn what they run beside a Dom0 that
/// runs little.
pub fn spare(make: &Maker) {
    for (share, host, guest) in [(0, [0, 210], [-140, -210]), (1, [300, 300], [-140, -140])] {
        let mut b = pool(make, 1);
        b.vcpu(2, 0, 0);
        b.set(0, None, "surplus", share);
        b.run(2, 0, 0, MS);
        b.account(30 * MS);
        assert_eq!(b.credit(2), 290);
        for (i, at) in [30, 60].into_iter().enumerate() {
            b.run(2, 0, at * MS, (at + 1) * MS);
            b.run(1, 0, (at + 1) * MS, (at + 30) * MS);
            b.account((at + 30) * MS);
            assert_eq!((b.credit(2), b.credit(1)), (host[i], guest[i]), "spare={share}, {at} ms");
        }
        let l = b.core.ledger();
        assert_eq!(l.total, l.given - l.burned - l.clipped);
    }
    // All others have it: 45 each of Dom0's 90, from the second time that it is full. It comes back
    // at the list's front then.
    let mut b = pool(make, 2);
    b.vcpu(3, 0, 0);
    b.set(0, None, "surplus", 1);
    for at in (0..180).step_by(30) {
        b.run(3, 0, at * MS, (at + 1) * MS);
        b.run(1, 0, (at + 1) * MS, (at + 14) * MS);
        b.run(2, 0, (at + 14) * MS, (at + 27) * MS);
        b.account((at + 30) * MS);
    }
    assert_eq!([3, 1, 2].map(|v| b.credit(v)), [300, -90, -90], "four times 100 for 130 each, twice 145");
    // One lacks 10 when there are 150 for each: the rest of its part is first of all its VM's,
    // whichever comes first.
    for (idle, busy) in [(3, 2), (2, 3)] {
        let mut b = pool(make, 1);
        b.vcpu(2, 0, 0);
        b.vcpu(3, 0, 0);
        b.set(0, None, "surplus", 1);
        b.run(idle, 0, 0, MS);
        b.run(busy, 0, MS, 30 * MS);
        for (at, credits) in [(30, (140, -140)), (60, (290, 10)), (90, (300, 300))] {
            b.account(at * MS);
            assert_eq!((b.credit(idle), b.credit(busy)), credits, "{at} ms");
        }
        // The class is that of all it is paid: its own part leaves it 130 in debt, the rest of the
        // other's lifts it above.
        let mut b = pool(make, 1);
        b.vcpu(2, 0, 0);
        b.vcpu(3, 0, 0);
        b.set(0, None, "surplus", 1);
        b.run(idle, 0, 0, MS);
        b.run(busy, 0, MS, 30 * MS);
        b.account(30 * MS);
        b.account(60 * MS);
        b.run(busy, 0, 60 * MS, 89 * MS);
        b.account(90 * MS);
        assert_eq!((b.credit(idle), b.credit(busy), b.class(busy)), (300, 10, Class::Under));
    }
    // What one owes below the floor is forgiven, or its VM pays, whichever comes first: 20 ms of 30
    // ms here.
    for (share, credits) in [(0, (-300, 140, 290)), (1, (-250, 40, 290))] {
        for (debtor, other) in [(1, 3), (3, 1)] {
            let mut b = Bench::new(make, "credit", 2, 2);
            [(1, 1), (2, 2), (3, 1)].into_iter().for_each(|(v, vm)| b.vcpu(v, vm, 0));
            b.set(0, None, "surplus", share);
            b.run(debtor, 0, 0, 50 * MS);
            b.run(other, 1, 50 * MS, 51 * MS);
            b.run(2, 1, 51 * MS, 52 * MS);
            b.account(60 * MS);
            assert_eq!((b.credit(debtor), b.credit(other), b.credit(2)), credits, "spare={share}");
        }
    }
}

/// Credit that a VM cannot hold is the others' only if it does not want it: not that of a guest
/// which waits for a PCPU.
pub fn waiting(make: &Maker) {
    for (vm, waits, others) in [(2, false, [140, 300]), (2, true, [0, 150]), (0, true, [140, 300])] {
        let mut b = Bench::new(make, "credit", 1, 2);
        [(1, 1), (2, vm)].into_iter().for_each(|(v, vm)| b.vcpu(v, vm, 0));
        b.set(0, None, "surplus", 1);
        for at in (0..120).step_by(30) {
            b.run(2, 0, at * MS, (at + 1) * MS);
            b.run(1, 0, (at + 1) * MS, (at + 16) * MS);
            if at == 90 && waits {
                b.wake(119 * MS, 2);
            }
            b.account((at + 30) * MS);
        }
        // Full for the second time, it leaves 140 of 150.
        assert_eq!((b.credit(2), b.credit(1)), (300, others[0]), "VM {vm}, waits: {waits}");
        // One that waits does not leave the list either; else the other one's share were all there
        // is.
        b.account(150 * MS);
        assert_eq!((b.credit(2), b.credit(1)), (300, others[1]), "VM {vm}, waits: {waits}");
    }
    // Where credit lapses, an I/O thread that owes nothing leaves the list though it waits, and with
    // it its VM.
    let mut b = pool(make, 2);
    b.ok(0, OpCode::VcpuAdd, (0, 3, 1), [IO, 0, 0]);
    for at in (0..120).step_by(30) {
        b.run(3, 0, at * MS, (at + 1) * MS);
        b.run(2, 0, (at + 1) * MS, (at + 16) * MS);
        if at == 90 {
            b.wake(119 * MS, 3);
        }
        b.account((at + 30) * MS);
    }
    assert_eq!((b.credit(3), b.credit(2)), (0, 0));
    b.account(150 * MS);
    assert_eq!((b.credit(3), b.credit(2)), (0, 300));
}

/// VCPU 1 computes, 2 hardly, and 3, of a VM of `debtors` VCPUs, for so long at first that what it owes is below its floor.
fn one_is_quiet(make: &Maker, debtors: u16) -> Bench {
    let mut b = Bench::new(make, "credit", 1, 3);
    (1..=3).for_each(|v| b.vcpu(v, v, 0));
    (1..debtors).for_each(|n| b.vcpu(3 + n, 3, 0));
    b.set(0, None, "surplus", 1);
    b.set(0, None, "claim", 1);
    if debtors > 0 {
        (1..debtors).for_each(|n| b.run(3 + n, 0, 0, MS));
        b.run(3, 0, MS, 90 * MS);
    }
    b
}

/// An interval after that, in which VCPU 1 runs until `ms` and 3 for the rest of it, if it
/// `goes_on`. What 1 is paid at its end, when 2 has nothing to do, or `waits`.
fn paid(b: &mut Bench, n: u64, ms: u64, goes_on: bool, waits: bool) -> i32 {
    let at = 90 + n * 30;
    b.run(2, 0, at * MS, (at + 1) * MS);
    b.run(1, 0, (at + 1) * MS, (at + ms) * MS);
    if goes_on {
        b.run(3, 0, (at + ms) * MS, (at + 29) * MS);
    }
    if waits {
        b.wake((at + 29) * MS, 2);
    }
    let before = b.credit(1);
    b.account((at + 30) * MS);
    b.credit(1) - before
}

/// While a VM is below its floor, others have also what one cannot hold that has saved all it can,
/// and waits at one accounting.
pub fn waiting_by_chance(make: &Maker) {
    for (debtors, ms, all, own) in [(0, 21, 290, 150), (1, 9, 145, 100), (2, 9, 145, 100)] {
        let last = |waits: std::ops::Range<u64>| {
            let mut b = one_is_quiet(make, debtors);
            let all: Vec<_> = (0..6).map(|n| paid(&mut b, n, ms, debtors > 0, waits.contains(&n))).collect();
            [all[4], all[5]]
        };
        assert_eq!(last(0..0), [all, all], "debtors: {debtors}");
        let by_chance = if debtors > 0 { all } else { own };
        assert_eq!(last(4..5), [by_chance, all], "debtors: {debtors}");
        assert_eq!(last(4..6), [by_chance, own], "it waits twice in a row; debtors: {debtors}");
        assert_eq!(last(0..6), [own, own], "it has never stopped with all it can hold; debtors: {debtors}");
    }
    // Sixteen accountings after VCPU 3 has paid all but what it can save that is over.
    for (after, want) in [(17, 280), (18, 145)] {
        let mut b = one_is_quiet(make, 1);
        let all: Vec<_> = (0..=after).map(|n| paid(&mut b, n, if n < 8 { 9 } else { 29 }, false, n == after)).collect();
        assert_eq!(all.last(), Some(&want), "after {after} accountings");
    }
}

pub fn activation(make: &Maker) {
    let mut b = pool(make, 1);
    b.set(0, None, "activate", 0);
    b.run(1, 0, 0, 5 * MS);
    b.account(30 * MS);
    assert_eq!(b.credit(1), -50, "no tick found it: it pays and does not earn");
    b.wake(30 * MS, 1);
    b.turn(30 * MS, 0);
    b.timer(40 * MS, 0);
    b.stop(41 * MS, 0);
    assert_eq!(b.credit(1), -160, "activation does not reset credit");
    b.account(60 * MS);
    assert_eq!(b.credit(1), 140);
    let mut b = pool(make, 1);
    b.set(0, None, "activate", 1);
    b.run(1, 0, 0, 5 * MS);
    b.account(30 * MS);
    assert_eq!(b.credit(1), 250);
}

pub fn resort(make: &Maker) {
    let mut b = pool(make, 3);
    b.wake(0, 1);
    b.turn(0, 0);
    b.stop(0, 0);
    // 2 and 3 queue as equals while 1 runs; 2 has a debt that accounting will see.
    b.run(2, 0, MS, 81 * MS);
    b.wake(81 * MS, 1);
    b.turn(81 * MS, 0);
    b.wake(82 * MS, 2);
    b.wake(82 * MS, 3);
    assert_eq!((b.class(2), b.class(3)), (Class::Boost, Class::Boost));
    b.account(83 * MS);
    assert_eq!((b.class(2), b.class(3)), (Class::Over, Class::Boost));
    b.timer(90 * MS, 0);
    assert_eq!(b.stop(90 * MS, 0), Some(3), "OVER stands behind after the tick");
    assert_eq!(b.stop(91 * MS, 0), Some(2));
    assert_eq!(b.op(91 * MS, OpCode::Put, (0, 2, 0), [2, NEVER, 0]).ret, -34);
}

/// Rule C49: what has used up its credit runs to the end of its slice, or to the tick after accounting.
pub fn resort_preempts(make: &Maker) {
    for policy in ["credit", "doris", "laxs", "poris", "gang"] {
        for (resort, kicked) in [(0, 0), (1, 1)] {
            let mut b = Bench::new(make, policy, 1, 2);
            [1, 2].into_iter().for_each(|v| b.vcpu(v, v, 0));
            b.set(0, None, "turns", 0);
            b.set(0, None, "resort", resort);
            b.set(0, None, "slice", 10 * MS);
            b.wake(10 * MS, 2);
            assert_eq!(b.turn(10 * MS, 0), Some(2), "{policy}");
            b.timer(20 * MS, 0);
            b.event(22 * MS, 1, IO);
            b.wake(22 * MS, 1);
            assert_eq!(b.turn(22 * MS, 0), Some(1), "{policy}");
            b.set(22 * MS, None, "slice", 200 * MS);
            b.timer(30 * MS, 0);
            b.account(30 * MS);
            assert_eq!([1, 2].map(|v| b.class(v)), [Class::Under; 2], "{policy}");
            assert_eq!(b.timer(40 * MS, 0).kick, 0, "{policy}: they are equals");
            b.timer(110 * MS, 0);
            b.account(120 * MS);
            assert_eq!([1, 2].map(|v| b.class(v)), [Class::Over, Class::Under], "{policy}");
            assert_eq!(b.timer(120 * MS, 0).kick, kicked, "{policy}: resort={resort}");
            assert_eq!(b.timer(130 * MS, 0).kick, 0, "{policy}: once");
            b.stop(130 * MS, 0);
            b.account(150 * MS);
            assert_eq!(b.timer(150 * MS, 0).kick, 0, "{policy}: nothing waits");
        }
    }
}

/// The re-sort keeps the order of RT VCPUs among each other (rule D13b).
pub fn resort_rt(make: &Maker) {
    let mut b = Bench::new(make, "doris", 1, 5);
    (1..=5).for_each(|v| b.vcpu(v, v, 0));
    (2..=4).for_each(|vm| b.rt(0, vm, 0));
    b.wake(0, 1);
    assert_eq!(b.turn(0, 0), Some(1));
    b.wake(MS, 5);
    for v in [3, 2, 4] {
        b.event(29 * MS, v, IO);
        b.wake(29 * MS, v);
        assert_eq!(b.class(v), Class::Rt);
    }
    b.account(30 * MS);
    b.timer(30 * MS, 0);
    assert_eq!([(); 4].map(|()| b.stop(30 * MS, 0)), [Some(3), Some(2), Some(4), Some(5)], "as they were promoted");
}
