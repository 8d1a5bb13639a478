// SPDX-License-Identifier: GPL-2.0-only
//! What has waited for too long runs once: docs/rules/credit.md, C48.

use super::bench::{Bench, IO, MS, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

const POLICIES: [&str; 4] = ["credit", "doris", "laxs", "poris"];
const WAIT: u64 = 300 * MS;
/// VCPU 1 ran last then.
const RAN: u64 = 30 * MS;

/// VCPU 1, of a VM with the least weight and a cap of `cap` %, has run for 29 ms; VCPU 2, of one with the most, runs on.
fn starving(make: &Maker, policy: &str, cap: u64) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    b.set(0, None, "longest_wait", WAIT);
    b.set(0, None, "surplus", 1);
    b.set(0, None, "claim", 1);
    b.set(0, Some(1), "weight", 1);
    b.set(0, Some(1), "cap", cap);
    b.set(0, Some(2), "weight", 65535);
    (1..=2).for_each(|v| b.vcpu(v, v, 0));
    b.run(2, 0, 0, MS);
    b.wake(MS, 1);
    assert_eq!(b.turn(MS, 0), Some(1));
    b.wake(RAN, 2);
    b.timer(RAN, 0);
    b.account(RAN);
    assert_eq!(b.turn(RAN, 0), Some(2), "{policy}");
    b
}

/// Ticks and accountings until `to`; what the last one kicks.
fn account(b: &mut Bench, from: u64, to: u64) -> u64 {
    let one = |n| {
        b.timer(n * RAN, 0);
        b.account(n * RAN).kick
    };
    let kick = (from / RAN + 1..=to / RAN).map(one).last().expect("an accounting");
    assert_eq!(b.core.check(), Ok(()));
    kick
}

/// Queued or parked it runs once in that time, for a short slice; then it waits as before.
pub fn fed(make: &Maker) {
    for policy in POLICIES {
        for (cap, waits) in [(0, State::Queued), (1, State::Parked)] {
            let mut b = starving(make, policy, cap);
            account(&mut b, RAN, RAN + WAIT - RAN);
            assert_eq!((b.state(1), b.class(1)), (waits, Class::Over), "{policy}: not yet");
            let mut at = RAN + WAIT;
            for _ in 0..2 {
                assert_eq!(account(&mut b, at - RAN, at), 1, "{policy}: it asks for the PCPU");
                assert_eq!((b.state(1), b.class(1)), (State::Queued, Class::Boost), "{policy}");
                assert_eq!(b.turn_slice(at, 0), (Some(1), 250 * US), "{policy}");
                assert_eq!(b.turn(at + 250 * US, 0), Some(2), "{policy}");
                assert_eq!((b.state(1), b.class(1)), (waits, Class::Over), "{policy}: cap {cap}");
                account(&mut b, at, at + WAIT - RAN);
                assert_eq!((b.state(1), b.class(1)), (waits, Class::Over), "{policy}: not yet again");
                at += WAIT;
            }
        }
        let mut b = starving(make, policy, 0);
        b.set(RAN, None, "longest_wait", 0);
        account(&mut b, RAN, RAN + 3 * WAIT);
        assert_eq!(b.class(1), Class::Over, "{policy}: 0 is never");
    }
}

/// One VCPU of a VM in an accounting, for a short slice whatever the rate limit; one that no cap held back is not parked.
pub fn one_by_one(make: &Maker) {
    for policy in POLICIES {
        let mut b = starving(make, policy, 0);
        b.set(RAN, None, "ratelimit", 5 * MS);
        b.vcpu(3, 1, 0);
        b.wake(RAN, 3);
        b.set(RAN, Some(1), "cap", 100);
        account(&mut b, RAN, RAN + WAIT);
        let boosted = |b: &Bench| [1, 3].iter().filter(|&&v| b.class(v) == Class::Boost).count();
        assert_eq!(boosted(&b), 1, "{policy}");
        let (next, slice) = b.turn_slice(RAN + WAIT, 0);
        assert_eq!(slice, 250 * US, "{policy}");
        assert_eq!(b.turn(RAN + WAIT + 250 * US, 0), Some(2), "{policy}: it is spared no longer");
        let first = next.expect("a VCPU") as u16;
        assert_eq!(b.state(first), State::Queued, "{policy}");
        account(&mut b, RAN + WAIT, RAN + WAIT + RAN);
        assert_eq!(b.class(4 - first), Class::Boost, "{policy}: the other one, next");
    }
    let mut b = starving(make, "gang", 1);
    account(&mut b, RAN, RAN + WAIT);
    let slices: Vec<_> = (0..3).map(|i| b.turn_slice(RAN + WAIT + i * 30 * MS, 0)).collect();
    assert!(slices.contains(&(Some(1), 250 * US)), "{slices:?}");
}

/// Time that it sleeps is no wait, and after it no cap holds it back for a wait before; what is promoted keeps its class.
pub fn not_fed(make: &Maker) {
    for policy in POLICIES {
        let mut b = starving(make, policy, 0);
        b.ok(RAN, OpCode::Block, (0, 1, 0), [0; 3]);
        account(&mut b, RAN, RAN + WAIT);
        b.wake(RAN + WAIT + MS, 1);
        account(&mut b, RAN + WAIT, 2 * WAIT);
        assert_eq!(b.class(1), Class::Over, "{policy}: it has slept");
        account(&mut b, 2 * WAIT, RAN + 2 * WAIT);
        assert_eq!(b.class(1), Class::Boost, "{policy}");
        let mut b = starving(make, policy, 1);
        account(&mut b, RAN, RAN + WAIT);
        b.ok(RAN + WAIT, OpCode::Block, (0, 1, 0), [0; 3]);
        b.set(RAN + WAIT, Some(1), "cap", 100);
        b.wake(RAN + WAIT + MS, 1);
        account(&mut b, RAN + WAIT, 2 * RAN + WAIT);
        assert_eq!(b.stop(2 * RAN + WAIT, 0), Some(1), "{policy}");
        b.timer(2 * RAN + WAIT + MS, 0);
        assert!(b.credit(1) < 0);
        assert_eq!(b.turn(2 * RAN + WAIT + MS, 0), Some(1), "{policy}: it runs on");
    }
    let mut b = starving(make, "doris", 0);
    b.ok(RAN, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    b.rt(RAN, 1, MS);
    b.set(RAN, None, "eligible", 1);
    b.set(RAN, Some(1), "weight", 65535);
    account(&mut b, RAN, WAIT);
    b.event(WAIT, 1, IO);
    assert_eq!(b.class(1), Class::Rt);
    account(&mut b, WAIT, RAN + WAIT);
    assert_eq!(b.class(1), Class::Rt, "RT is better than a boost");
}
