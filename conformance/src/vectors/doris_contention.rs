// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/doris.md, D14 with rt_contention=cut; docs/rules/credit.md, C46.

use super::bench::{Bench, IO, MS, US};
use super::doris::pool;
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

/// VCPUs 2 and 3 are promoted: 2 runs since 20 ms, 3 waits behind it since 20.03 ms.
fn contended(make: &Maker) -> Bench {
    let mut b = pool(make);
    b.set(0, None, "rt_contention", 2);
    b.rt(10 * MS, 2, 0);
    b.rt(10 * MS, 3, 0);
    b.timer(20 * MS, 0);
    b.wake(20 * MS, 2);
    b.event(20 * MS, 2, IO);
    assert_eq!((b.turn(20 * MS, 0), b.class(2)), (Some(2), Class::Rt));
    b.wake(20 * MS + US, 3);
    let res = b.event(20 * MS + 30 * US, 3, IO);
    assert_eq!((b.class(3), res.kick), (Class::Rt, 0), "an RT runner is not preempted");
    assert_eq!(res.cpu_timer, 20 * MS + 100 * US, "but it runs for MIN_TS only");
    b
}

/// A runner gives way after MIN_TS, and comes back behind the other, as RT, until it has had ten turns or blocks.
pub fn turns(make: &Maker) {
    let mut b = contended(make);
    let mut now = 20 * MS + 100 * US;
    assert_eq!(b.timer(now, 0).kick, 1);
    assert_eq!(b.turn_slice(now, 0), (Some(3), 100 * US));
    assert_eq!(b.core.cpu_timer(0), now + 100 * US);
    for round in 0..9 {
        for (next, other) in [(2_u16, 3_u16), (3, 2)] {
            assert_eq!(b.class(other), Class::Rt, "round {round}");
            now += 100 * US;
            assert_eq!(b.turn(now, 0), Some(next.into()), "round {round}");
        }
    }
    now += 100 * US;
    b.turn(now, 0);
    assert_eq!(b.class(3), Class::Over, "it has run 1 ms since it was promoted");
    // One that blocks is not promoted when it wakes.
    let mut b = contended(make);
    b.timer(20 * MS + 100 * US, 0);
    b.stop(20 * MS + 100 * US, 0);
    b.wake(20 * MS + 150 * US, 2);
    assert_ne!(b.class(2), Class::Rt);
    // Nor is one that is paused.
    let mut b = contended(make);
    b.ok(20 * MS + 50 * US, OpCode::Pause, (0, 2, 0), [0; 3]);
    assert_eq!(b.turn(20 * MS + 60 * US, 0), Some(3));
    b.ok(20 * MS + 70 * US, OpCode::Unpause, (0, 2, 0), [0; 3]);
    assert_eq!((b.state(2), b.class(2) == Class::Rt), (State::Queued, false));
    // Where none waits, RT lasts for ten MIN_TS of running all the same, and no longer.
    for (run, class) in [(900 * US, Class::Rt), (1000 * US, Class::Over)] {
        let mut b = pool(make);
        b.set(0, None, "rt_contention", 2);
        b.rt(10 * MS, 2, 0);
        b.wake(20 * MS, 2);
        b.event(20 * MS, 2, IO);
        assert_eq!(b.turn(20 * MS, 0), Some(2));
        // Its PCPU is told to idle.
        b.ok(20 * MS + run, OpCode::Schedule, (0, 0, 0), [1, 0, 0]);
        b.ok(20 * MS + run, OpCode::Put, (0, 2, 0), [1, u64::MAX, 0]);
        assert_eq!(b.class(2), class, "after {run} ns");
    }
    // A PCPU that has been kicked, or is taken, has no timer at once again.
    let mut b = contended(make);
    let res = b.timer(20 * MS + 100 * US, 0);
    assert_eq!((res.kick, res.cpu_timer), (1, 20 * MS + 200 * US));
    let mut b = contended(make);
    let res = b.ok(20 * MS + 90 * US, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
    assert_eq!((res.kick, b.timer(20 * MS + 100 * US, 0).kick), (0, 0));
    assert!(b.core.cpu_timer(0) >= 30 * MS, "{}", b.core.cpu_timer(0));
    // When that PCPU comes back the turn begins again.
    let res = b.ok(20 * MS + 150 * US, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    assert_eq!(res.cpu_timer, 20 * MS + 250 * US);
    assert_eq!(b.timer(20 * MS + 250 * US, 0).kick, 1);
    assert_eq!(b.turn(20 * MS + 250 * US, 0), Some(3));
    // It is over with the type.
    let mut b = contended(make);
    b.ok(20 * MS + 40 * US, OpCode::SetRt, (0, 0, 2), [0; 3]);
    b.timer(20 * MS + 100 * US, 0);
    b.turn(20 * MS + 100 * US, 0);
    assert_ne!(b.class(2), Class::Rt);
}

/// VCPU 2 of a real-time VM beside VCPU 1 that runs all the time; what it has run before each accounting.
fn after(make: &Maker, policy: &str, eligible: u64, ran: &[u64]) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    b.set(0, None, "eligible", eligible);
    b.set(0, None, "surplus", 1);
    b.vcpu(1, 1, 0);
    b.vcpu(2, 2, 0);
    b.rt(0, 2, 0);
    for (i, &ns) in ran.iter().enumerate() {
        let from = i as u64 * 30 * MS;
        b.run(2, 0, from, from + ns);
        b.run(1, 0, from + ns, from + 29 * MS);
        b.account(from + 30 * MS);
    }
    b
}

/// Whether an event promotes VCPU 2 as it queues behind VCPU 1.
fn promoted(b: &mut Bench, now: u64) -> bool {
    b.wake(now, 1);
    b.turn(now, 0);
    b.wake(now, 2);
    b.event(now, 2, IO);
    b.class(2) == Class::Rt
}

pub fn saved(make: &Maker) {
    const LITTLE: u64 = MS;
    for policy in ["doris", "poris"] {
        let tried = |eligible, ran: &[u64]| {
            let mut b = after(make, policy, eligible, ran);
            let now = ran.len() as u64 * 30 * MS + MS;
            let promoted = promoted(&mut b, now);
            assert_eq!(b.core.check(), Ok(()));
            promoted
        };
        assert!(tried(2, &[LITTLE; 3]), "{policy}: it has all that it can hold");
        assert!(!tried(2, &[LITTLE, LITTLE, LITTLE, 20 * MS]), "{policy}: it has used more than its share");
        assert!(!tried(2, &[]), "{policy}: it has saved nothing yet");
        assert!(tried(1, &[LITTLE, LITTLE, LITTLE, 10 * MS]) && tried(1, &[]), "{policy}: UNDER is enough with class");
    }
    // Nor does it count for one that an operator has marked.
    let mut b = after(make, "doris", 2, &[MS, 12 * MS]);
    assert_eq!(b.set(60 * MS, Some(2), "rt", 1).ret, 0);
    assert!(promoted(&mut b, 61 * MS), "UNDER is enough");
    // Waiting saves as well, and is not marked.
    let mut b = after(make, "doris", 2, &[20 * MS]);
    b.wake(30 * MS, 1);
    b.turn(30 * MS, 0);
    b.wake(30 * MS, 2);
    for i in 2..8 {
        b.account(i * 30 * MS);
    }
    assert_eq!((b.credit(2), b.state(2)), (300, State::Queued));
    b.event(240 * MS, 2, IO);
    assert_ne!(b.class(2), Class::Rt);
    // S places it before others, or behind them.
    for (ran, first) in [(LITTLE, 2), (14 * MS, 3)] {
        let mut b = after(make, "laxs", 2, &[ran; 3]);
        b.vcpu(3, 1, 0);
        b.wake(91 * MS, 1);
        b.turn(91 * MS, 0);
        b.wake(91 * MS, 3);
        b.wake(91 * MS, 2);
        assert_eq!(b.order(91 * MS, 0).first(), Some(&first), "it has run {ran} ns of each 30 ms");
    }
}
