// SPDX-License-Identifier: GPL-2.0-only
//! What a VM may claim does not grow with its VCPUs (rule C45, `policy/core/credit_account.h`).

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

/// VM 1 with these VCPUs, and VM 2 with VCPU 99, on one PCPU.
fn pool(make: &Maker, policy: &str, claim: u64, vcpus: u16) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    b.set(0, None, "claim", claim);
    b.set(0, None, "surplus", 1);
    (1..=vcpus).for_each(|v| b.vcpu(v, 1, 0));
    b.vcpu(99, 2, 0);
    b
}

/// Four VCPUs on one PCPU, of which two have run, are as far in debt, earn as much and save as much as one.
pub fn bounded(make: &Maker) {
    for policy in ["credit", "doris", "laxs", "poris"] {
        for (claim, after, saved, slice) in
            [(1, [25; 4], [75; 4], 7500 * US), (0, [50, 50, 0, 0], [200, 200, 0, 0], 30 * MS)]
        {
            let mut b = pool(make, policy, claim, 4);
            b.run(1, 0, 0, 10 * MS);
            b.run(2, 0, 10 * MS, 20 * MS);
            b.account(30 * MS);
            assert_eq!([1, 2, 3, 4].map(|v| b.credit(v)), after, "{policy}: claim={claim}");
            b.wake(30 * MS, 3);
            assert_eq!(b.turn_slice(30 * MS, 0), (Some(3), slice), "{policy}: claim={claim}");
            b.stop(30 * MS, 0);
            b.account(60 * MS);
            assert_eq!([1, 2, 3, 4].map(|v| b.credit(v)), saved, "{policy}: claim={claim}");
            assert_eq!(b.core.check(), Ok(()), "{policy}: claim={claim}");
        }
    }
}

/// A VCPU that has not run yet owes what its siblings have run, and is not boosted; what is below the floors is owed on.
pub fn shared(make: &Maker) {
    for claim in [1, 0] {
        let mut b = pool(make, "credit", claim, 3);
        b.run(99, 0, 0, MS);
        b.run(1, 0, MS, 201 * MS);
        b.run(2, 0, 201 * MS, 401 * MS);
        b.account(410 * MS);
        // With claim=vm 4000 credits are owed, 150 are earned, 300 can be owed by VCPUs and 300 by their VM.
        assert_eq!(b.credit(3), if claim == 1 { -100 } else { 0 }, "claim={claim}");
        assert_eq!(b.class(3) == Class::Over, claim == 1, "claim={claim}");
        b.wake(410 * MS, 3);
        assert_eq!(b.class(3) == Class::Boost, claim == 0, "claim={claim}");
        let pays = (1..=9).map(|i| {
            b.account((410 + 30 * i) * MS);
            b.credit(3)
        });
        let pays: Vec<_> = pays.collect();
        assert!(*pays.last().expect("nine") >= 0, "claim={claim}: {pays:?}: no more is owed than can be borne");
        assert_eq!(pays[0] == -100, claim == 1, "claim={claim}: {pays:?}: first of all it pays what it owes on");
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// A VM with no more VCPUs than there are PCPUs: what a VCPU runs in others' time it owes itself, and with claim=vm twice as deep as it
/// saves. Its sibling does not pay for it unless it is deeper in debt still.
pub fn few(make: &Maker) {
    for (claim, floor) in [(1, -600), (0, -300)] {
        let mut b = Bench::new(make, "credit", 2, 2);
        b.set(0, None, "claim", claim);
        b.set(0, None, "surplus", 1);
        [(1, 1), (2, 1), (9, 2)].into_iter().for_each(|(v, vm)| b.vcpu(v, vm, 0));
        b.run(2, 0, 0, MS);
        b.run(1, 0, MS, 61 * MS);
        b.account(70 * MS);
        let own = [1, 2].map(|v| b.credit(v));
        // 600 credits are owed, and 600 are earned: 300 each, or 300 to reach the floor and 150 each.
        assert_eq!(own, if claim == 1 { [-300, 290] } else { [-150, 140] }, "claim={claim}");
        b.run(1, 0, 70 * MS, 370 * MS);
        b.run(9, 0, 370 * MS, 371 * MS);
        b.account(380 * MS);
        assert_eq!([1, 2].map(|v| b.credit(v)), [floor, own[1]], "claim={claim}: it does not fall below the floor");
        b.account(410 * MS);
        assert!(b.credit(1) > floor, "claim={claim}: and is paid at once: {}", b.credit(1));
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// Of 303 credits for two VCPUs each is paid 152, and in the next interval 151.
pub fn owed(make: &Maker) {
    for (claim, ahead) in [(1, 103), (0, 104)] {
        let mut b = Bench::new(make, "credit", 2, 2);
        b.set(0, None, "claim", claim);
        b.set(0, None, "surplus", 1);
        b.set(0, Some(2), "weight", 251);
        [(1, 1, 0), (2, 1, 0), (9, 2, 1)].into_iter().for_each(|(v, vm, cpu)| b.vcpu(v, vm, cpu));
        for from in [0, 30 * MS] {
            b.wake(from, 9);
            assert_eq!(b.turn(from, 1), Some(9));
            b.run(1, 0, from, from + 10 * MS);
            b.run(2, 0, from + 10 * MS, from + 20 * MS);
            b.stop(from + 29 * MS, 1);
            b.account(from + 30 * MS);
        }
        assert_eq!([1, 2].map(|v| b.credit(v)), [ahead; 2], "claim={claim}");
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// Seven VCPUs that run 3.7 ms each of 30: the 300 credits are 42.9 for each, so in seven intervals each is 41 ahead.
pub fn exact(make: &Maker) {
    for (claim, ahead) in [(1, 41), (0, 42)] {
        let mut b = pool(make, "credit", claim, 7);
        let mut now = 0;
        for _ in 0..7 {
            for v in 1..=7 {
                b.run(v, 0, now, now + 3700 * US);
                now += 3700 * US;
            }
            now += 4100 * US;
            b.account(now);
        }
        assert_eq!((1..=7).map(|v| b.credit(v)).collect::<Vec<_>>(), [ahead; 7], "claim={claim}");
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// What each of two VMs has after eight intervals of 30 ms of which each runs a part, ms. What both hold is not handed out again if the
/// PCPU was busy; if it was idle they save it, and so does one alone.
pub fn held(make: &Maker) {
    for (claim, runs, saved) in
        [(1, [14, 14], [10, 10]), (0, [14, 14], [80, 80]), (1, [10, 10], [300, 300]), (1, [14, 15], [80, 0])]
    {
        let mut b = Bench::new(make, "credit", 1, 2);
        b.set(0, None, "claim", claim);
        b.set(0, None, "surplus", 1);
        (1..=2).for_each(|v| b.vcpu(v, v, 0));
        for n in 0..8 {
            let at = n * 30 * MS;
            b.run(1, 0, at, at + runs[0] * MS);
            b.run(2, 0, at + runs[0] * MS, at + (runs[0] + runs[1]) * MS);
            b.account(at + 30 * MS);
        }
        assert_eq!([1, 2].map(|v| b.credit(v)), saved, "claim={claim}: {runs:?}");
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// Parts of the whole are rounded down as often as up: of 64 VMs that weigh 1 beside one of 256 each has 0.94 credits of 300.
pub fn of_many(make: &Maker) {
    for claim in [1, 0] {
        let mut b = Bench::new(make, "credit", 1, 65);
        b.set(0, None, "claim", claim);
        b.set(0, None, "surplus", 1);
        for vm in 1..=65 {
            b.set(0, Some(vm), "weight", if vm == 65 { 256 } else { 1 });
            b.vcpu(vm, vm, 0);
            b.wake(0, vm);
        }
        // Each begins with a slice for nothing.
        let ran = (0..60_000).map(|i| {
            b.serve(i * MS);
            b.core.state(65) == State::Running
        });
        let others = 30_000 - ran.skip(30_000).filter(|&it| it).count();
        let per_cent = others * 100 / (30_000 * 64 / 320);
        assert_eq!((95..=105).contains(&per_cent), claim == 1, "claim={claim}: {per_cent} % of their part");
        assert_eq!(b.core.check(), Ok(()), "claim={claim}");
    }
}

/// VCPUs that masks, the operator's or control's, keep on a PCPU have one's turns there; those that do nothing do not count.
pub fn together(make: &Maker) {
    type Keep = fn(&mut Bench, u16);
    const PIN: Keep = |b, v| b.pin(0, v, 1);
    const PLACE: Keep = |b, v| _ = b.ok(0, OpCode::SetPlacement, (0, v, 0), [1, 0, 0]);
    const LEAVE: Keep = |_, _| ();
    for (what, claim, keep, run, slice) in [
        ("pinned", 1, PIN, 4, 7500 * US),
        ("placed", 1, PLACE, 4, 7500 * US),
        ("pinned, one runs", 1, PIN, 1, 30 * MS),
        ("anywhere", 1, LEAVE, 4, 30 * MS),
        ("pinned", 0, PIN, 4, 30 * MS),
    ] {
        let mut b = Bench::new(make, "credit", 8, 2);
        b.set(0, None, "claim", claim);
        for v in 1..=4 {
            b.vcpu(v, 1, 0);
            keep(&mut b, v);
        }
        (1..=run).for_each(|v| b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + MS / 2));
        b.account(30 * MS);
        b.wake(30 * MS, 1);
        assert_eq!(b.turn_slice(30 * MS, 0), (Some(1), slice), "claim={claim}, {what}");
        assert_eq!(b.core.check(), Ok(()));
    }
    // No turn is longer than a slice.
    let mut b = pool(make, "credit", 1, 4);
    b.set(0, None, "slice", 200 * US);
    (1..=4).for_each(|v| b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + MS / 2));
    b.wake(10 * MS, 1);
    assert_eq!(b.turn_slice(10 * MS, 0), (Some(1), 200 * US));
}
