// SPDX-License-Identifier: GPL-2.0-only
//! A wake that meets a VCPU between `schedule` and `put` (docs/states.md, rule 1): a VCPU that stopped has woken, one that was
//! preempted was runnable all the time.

use super::bench::{Bench, IO, MS, OTHER};
use crate::core::Maker;
use takt_policy::{CUR_STOPS, Class, NEVER, OpCode, State};

const BOOSTING: [&str; 4] = ["credit", "doris", "laxs", "poris"];

/// VCPUs 1 and 2 on PCPU 0; 1 runs and is UNDER.
fn running(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    b.vcpu(1, 1, 0);
    b.vcpu(2, 2, 0);
    b.wake(0, 1);
    assert_eq!(b.turn(0, 0), Some(1));
    b.timer(10 * MS, 0);
    assert_eq!(b.class(1), Class::Under, "{policy}: a tick ends the boost");
    b
}

/// The next decision on PCPU 0 takes VCPU 1 off; with `woken` it is woken before its `put`.
fn put(b: &mut Bench, flags: u64, woken: bool, runnable: u64) -> (State, Class) {
    b.ok(11 * MS, OpCode::Schedule, (0, 0, 0), [flags, 0, 0]);
    assert_eq!(b.state(1), State::Descheduling);
    if woken {
        b.ok(11 * MS, OpCode::Event, (0, 1, 0), [IO, 0, 0]);
        b.ok(11 * MS, OpCode::Wake, (0, 1, 0), [OTHER, 0, 0]);
        assert_eq!(b.state(1), State::Descheduling, "a wake is remembered");
    }
    b.ok(11 * MS, OpCode::Put, (0, 1, 0), [runnable, NEVER, 0]);
    (b.state(1), b.class(1))
}

pub fn stopped(make: &Maker) {
    for policy in BOOSTING {
        for runnable in [0, 1] {
            let mut b = running(make, policy);
            let boosted = (State::Queued, Class::Boost);
            assert_eq!(put(&mut b, CUR_STOPS, true, runnable), boosted, "{policy}: put({runnable})");
            // The boost is this wake's: the next time it is taken off, nothing is left of it.
            b.ok(11 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
            b.ok(11 * MS, OpCode::Started, (0, 1, 0), [0; 3]);
            b.timer(20 * MS, 0);
            b.ok(21 * MS, OpCode::Wake, (0, 2, 0), [OTHER, 0, 0]);
            b.ok(21 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
            b.ok(21 * MS, OpCode::Wake, (0, 1, 0), [OTHER, 0, 0]);
            b.ok(21 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
            assert_eq!((b.state(1), b.class(1)), (State::Queued, Class::Under), "{policy}: preempted later");
        }
        let mut b = running(make, policy);
        assert_eq!(put(&mut b, CUR_STOPS, false, 0), (State::Blocked, Class::Under), "{policy}: nobody woke it");
        let mut b = running(make, policy);
        assert_eq!(put(&mut b, CUR_STOPS, false, 1), (State::Queued, Class::Under), "{policy}: no wake, no boost");
        // In debt it wakes as OVER, here as anywhere.
        let mut b = running(make, policy);
        b.ok(90 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
        b.account(90 * MS);
        assert_eq!(b.class(1), Class::Over, "{policy}");
        b.ok(91 * MS, OpCode::Schedule, (0, 0, 0), [CUR_STOPS, 0, 0]);
        b.ok(91 * MS, OpCode::Wake, (0, 1, 0), [OTHER, 0, 0]);
        b.ok(91 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!((b.state(1), b.class(1)), (State::Queued, Class::Over), "{policy}: in debt");
    }
}

pub fn preempted(make: &Maker) {
    for policy in BOOSTING {
        for runnable in [0, 1] {
            let mut b = running(make, policy);
            b.wake(11 * MS, 2);
            assert_eq!(b.class(2), Class::Boost, "{policy}: it preempts");
            let (state, class) = put(&mut b, 0, true, runnable);
            assert_eq!((state, class), (State::Queued, Class::Under), "{policy}: put({runnable})");
        }
        // What it was woken for while it ran, it saw itself.
        let mut b = running(make, policy);
        b.wake(11 * MS, 1);
        b.wake(11 * MS, 2);
        assert_eq!(put(&mut b, 0, false, 1), (State::Queued, Class::Under), "{policy}: woken while it ran");
    }
}

/// Its host takes it off outside a decision.
pub fn off(make: &Maker) {
    for policy in BOOSTING {
        for (runnable, class) in [(1, Class::Under), (0, Class::Boost)] {
            let mut b = running(make, policy);
            b.wake(11 * MS, 1);
            b.ok(11 * MS, OpCode::Put, (0, 1, 0), [runnable, NEVER, 0]);
            assert_eq!((b.state(1), b.class(1)), (State::Queued, class), "{policy}: put({runnable})");
        }
    }
}

/// A pause between them obeys the wake when it ends, with its boost.
pub fn paused(make: &Maker) {
    for policy in BOOSTING {
        let mut b = running(make, policy);
        b.ok(11 * MS, OpCode::Schedule, (0, 0, 0), [CUR_STOPS, 0, 0]);
        b.ok(11 * MS, OpCode::Wake, (0, 1, 0), [OTHER, 0, 0]);
        b.ok(11 * MS, OpCode::Pause, (0, 1, 0), [0; 3]);
        b.ok(11 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!(b.state(1), State::Paused, "{policy}");
        b.ok(12 * MS, OpCode::Unpause, (0, 1, 0), [0; 3]);
        assert_eq!((b.state(1), b.class(1)), (State::Queued, Class::Boost), "{policy}");
    }
}

/// SEDF's rules are those of a wake as well: a VCPU that stopped inside its period forfeits its
/// budget (rule E7), a VCPU that was preempted keeps it.
pub fn budgets(make: &Maker) {
    for (stops, class) in [(true, Class::Under), (false, Class::Rt)] {
        let mut b = Bench::new(make, "sedf", 1, 2);
        assert_eq!(b.set(0, None, "mode", 0).ret, 0);
        b.vcpu(1, 1, 0);
        b.vcpu(2, 2, 0);
        b.server(0, 1, 10 * MS, 20 * MS, 1);
        b.server(0, 2, 2 * MS, 10 * MS, 1);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        b.wake(MS, 2);
        b.ok(MS, OpCode::Schedule, (0, 0, 0), [if stops { CUR_STOPS } else { 0 }, 0, 0]);
        b.ok(MS, OpCode::Wake, (0, 1, 0), [OTHER, 0, 0]);
        b.ok(MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!((b.state(1), b.class(1)), (State::Queued, class), "stops: {stops}");
    }
}
