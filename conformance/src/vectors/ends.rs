// SPDX-License-Identifier: GPL-2.0-only
//! Where an interval ends: what holds 1 ns before its end, at it, and 1 ns after it.

use super::bench::{Bench, IO, MS, US};
use crate::core::Maker;
use takt_policy::{Class, NEVER, OpCode, State};

/// No slice of a server is shorter; what is run beyond a budget is owed.
const SHORTEST: u64 = 10 * US;
/// (Policy, kind of server or mode)
const SERVERS: [(&str, &str, u64); 8] = [
    ("rtxen", "server", 0),
    ("rtxen", "server", 1),
    ("rtxen", "server", 2),
    ("rtxen", "server", 3),
    ("sedf", "mode", 0),
    ("sedf", "mode", 1),
    ("vgedf", "mode", 0),
    ("vgedf", "mode", 1),
];
const CREDIT: [&str; 4] = ["credit", "doris", "poris", "laxs"];

/// One PCPU, no reserve, slices as long as budgets; VCPU 1 has work and 4 ms in 10 from 0 on, and
/// runs.
fn server(make: &Maker, (policy, name, value): (&str, &str, u64)) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    for (name, value) in [(name, value), ("reserve", 0), ("quantum", 100 * MS), ("extra_quantum", 100 * MS)] {
        assert_eq!(b.set(0, None, name, value).ret, 0);
    }
    (1..=2).for_each(|v| b.vcpu(v, v, 0));
    (1..=2).for_each(|vm| assert_eq!(b.set(0, Some(vm), "extra", 0).ret, 0));
    b.wake(0, 1);
    b.server(0, 1, 4 * MS, 10 * MS, 5);
    assert_eq!(b.turn_slice(0, 0), (Some(1), 4 * MS), "{policy}, {name}={value}");
    b
}

/// A budget is used up when all of it has been run, not before; what was run beyond it is owed. The next one comes as its period begins.
pub fn budgets(make: &Maker) {
    for kind in SERVERS {
        for (left, slice) in
            [(SHORTEST + 1, SHORTEST + 1), (SHORTEST, SHORTEST), (SHORTEST - 1, SHORTEST), (1, SHORTEST)]
        {
            let mut b = server(make, kind);
            assert_eq!(b.turn_slice(4 * MS - left, 0), (Some(1), slice), "{kind:?}: {left} ns are left");
            assert_eq!((b.class(1), b.state(1)), (Class::Rt, State::Running));
        }
        for owed in [0, 1, MS] {
            let mut b = server(make, kind);
            assert_eq!(b.turn(4 * MS + owed, 0), None, "{kind:?}: nothing is left");
            assert_eq!((b.state(1), b.core.pool_timer()), (State::Parked, 10 * MS), "{kind:?}");
            assert_eq!((b.account(10 * MS - 1).kick, b.state(1)), (0, State::Parked), "{kind:?}: 1 ns too early");
            assert_eq!((b.account(10 * MS).kick, b.state(1)), (1, State::Queued), "{kind:?}");
            assert_eq!(b.turn_slice(10 * MS, 0), (Some(1), 4 * MS - owed), "{kind:?}: {owed} ns are owed");
        }
        // A late timer: the period that it is in.
        for (now, next) in [(20 * MS - 1, 20 * MS), (20 * MS, 30 * MS), (20 * MS + 1, 30 * MS)] {
            let mut b = server(make, kind);
            assert_eq!(b.turn(4 * MS, 0), None);
            b.account(now);
            assert_eq!(b.turn_slice(now, 0), (Some(1), 4 * MS), "{kind:?}: one budget, however late");
            if kind != SERVERS[3] {
                assert_eq!(b.deadline(1), next, "{kind:?}: at {now}");
            }
        }
    }
}

/// What a server owes as it is removed is not the next one's to pay with debts=vcpu; nor is credit.
pub fn debts(make: &Maker) {
    for kind in SERVERS {
        let mut b = server(make, kind);
        b.set(0, None, "debts", 0);
        assert_eq!(b.turn(5 * MS, 0), None, "{kind:?}: 1 ms too much");
        b.ok(5 * MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
        assert_eq!(b.core.check(), Ok(()), "{kind:?}");
        b.vcpu(1, 1, 0);
        b.wake(5 * MS, 1);
        assert_eq!(b.state(1), State::Queued, "{kind:?}");
        assert_eq!(b.turn_slice(5 * MS, 0), (Some(1), 4 * MS), "{kind:?}: a whole budget");
    }
    // A strict polling server gets it with the next period.
    let mut b = server(make, SERVERS[2]);
    b.set(0, None, "debts", 0);
    b.set(0, None, "polling_literal", 0);
    b.turn(5 * MS, 0);
    b.ok(5 * MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
    b.vcpu(1, 1, 0);
    b.wake(5 * MS, 1);
    assert_eq!(b.state(1), State::Parked);
    b.account(15 * MS);
    assert_eq!(b.turn_slice(15 * MS, 0), (Some(1), 4 * MS), "a whole budget");
    for policy in CREDIT {
        let mut b = Bench::new(make, policy, 1, 1);
        b.set(0, None, "debts", 0);
        b.vcpu(1, 1, 0);
        b.run(1, 0, 0, 390 * MS);
        b.account(400 * MS);
        let (owed, before) = (b.credit(1), b.core.ledger());
        assert!(owed < 0 && b.class(1) == Class::Over, "{policy}: {owed}");
        b.ok(400 * MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
        let after = b.core.ledger();
        assert_eq!((after.clipped - before.clipped, after.total), (i64::from(owed), 0), "{policy}: it is forgiven");
        b.vcpu(1, 1, 0);
        b.wake(401 * MS, 1);
        assert_eq!((b.credit(1), b.class(1)), (0, Class::Boost), "{policy}");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
    }
}

/// A VCPU of equal deadline or priority does not preempt; at a decision RT-Xen and SEDF change turns, vGEDF does not.
pub fn ties(make: &Maker) {
    for kind in SERVERS {
        for less in [2, 1, 0] {
            let mut b = server(make, kind);
            let (period, priority) = (10 * MS + 1 - less, 6 - less);
            b.server(0, 2, 4 * MS, period, priority);
            if kind == SERVERS[2] {
                b.ok(0, OpCode::Wake, (0, 2, 0), [0; 3]);
                b.account(10 * MS);
                continue;
            }
            let first = less == 2;
            assert_eq!(b.wake(0, 2).kick, u64::from(first), "{kind:?}: {period}, {priority}");
            let turns = less == 1 && kind.0 != "vgedf";
            assert_eq!(b.turn(0, 0), Some(if first || turns { 2 } else { 1 }), "{kind:?}: {period}, {priority}");
        }
    }
}

/// A wake 1 ns before the period ends is a short block, a wake at its end begins the next period
/// (rules E7 and E8).
pub fn short_blocks(make: &Maker) {
    for policy in ["sedf", "vgedf"] {
        for (now, forfeits) in [(10 * MS - 1, true), (10 * MS, false), (10 * MS + 1, false)] {
            let mut b = server(make, (policy, "mode", 0));
            b.stop(MS, 0);
            b.wake(now, 1);
            let want = if forfeits { (Class::Under, 10 * MS) } else { (Class::Rt, now + 10 * MS) };
            assert_eq!((b.class(1), b.deadline(1)), want, "{policy}: at {now}");
        }
        for (left, forfeits) in [(1, true), (0, false)] {
            let mut b = server(make, (policy, "mode", 0));
            b.stop(4 * MS - left, 0);
            b.wake(5 * MS, 1);
            assert_eq!(b.class(1) == Class::Under, forfeits, "{policy}: {left} ns are left to forfeit");
        }
    }
}

/// A periodic server without work idles away: not 1 ns less than its budget.
pub fn idles_away(make: &Maker) {
    let idles = || {
        let mut b = server(make, SERVERS[1]);
        b.server(0, 2, 4 * MS, 20 * MS, 9);
        b.wake(0, 2);
        assert_eq!(b.stop(MS, 0), None, "3 ms of 1 idle away before 2 runs");
        assert_eq!(b.core.cpu_timer(0), 4 * MS);
        assert_eq!(b.turn(4 * MS - 1, 0), None, "1 ns is left");
        assert_eq!(b.core.cpu_timer(0), 4 * MS);
        b
    };
    let mut b = idles();
    assert_eq!(b.turn(4 * MS, 0), Some(2));
    b.wake(4 * MS, 1);
    assert_eq!(b.state(1), State::Parked);
    let mut b = idles();
    b.wake(4 * MS - 1, 1);
    assert_eq!(b.turn_slice(4 * MS - 1, 0), (Some(1), SHORTEST), "it is there to use it");
    // What has idled until a server ends was its own, not the next one's.
    let mut b = Bench::new(make, "rtxen", 1, 2);
    for (name, value) in [("server", 1), ("reserve", 0), ("quantum", 100 * MS)] {
        assert_eq!(b.set(0, None, name, value).ret, 0);
    }
    (1..=2).for_each(|v| b.vcpu(v, v, 0));
    (1..=2).for_each(|vm| b.server(0, vm, 4 * MS, 20 * MS, vm.into()));
    b.ok(MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
    b.wake(MS, 2);
    assert_eq!(b.turn_slice(MS, 0), (Some(2), 4 * MS));
    // A VCPU of the same priority does not wait for it.
    let mut b = server(make, SERVERS[1]);
    b.server(0, 2, 4 * MS, 20 * MS, 5);
    b.wake(0, 2);
    assert_eq!(b.stop(MS, 0), Some(2));
}

/// A sporadic server that wakes with 1 ns left: that comes back a period after the wake, the rest a period after it began.
pub fn last_piece(make: &Maker) {
    let mut b = server(make, SERVERS[3]);
    b.stop(4 * MS - 1, 0);
    b.wake(6 * MS, 1);
    assert_eq!(b.turn_slice(6 * MS, 0), (Some(1), SHORTEST));
    assert_eq!(b.turn(6 * MS + 1, 0), None);
    assert_eq!(b.account(10 * MS).kick, 1);
    assert_eq!(b.turn_slice(10 * MS, 0), (Some(1), 4 * MS - 1));
    assert_eq!(b.turn(14 * MS, 0), None, "1 ns too much");
    assert_eq!(b.core.pool_timer(), 16 * MS, "the piece of 1 ns");
    assert_eq!(b.core.check(), Ok(()));
}

/// The reserve: so many percent of each 20 ms, from when it is asked for.
pub fn reserve(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        for percent in [1, 5, 50] {
            let share = percent * 200 * US;
            let mut b = Bench::new(make, policy, 1, 1);
            for (name, value) in [("reserve", percent), ("quantum", 100 * MS), ("extra_quantum", 100 * MS), ("mode", 1)]
            {
                assert_eq!(b.set(0, None, name, value).ret, 0);
            }
            b.vcpu(1, 1, 0);
            b.vcpu(9, 0, 0);
            b.server(0, 1, 45 * MS, 100 * MS, 1);
            b.wake(0, 1);
            assert_eq!(b.turn(0, 0), Some(1));
            assert_eq!(b.wake(0, 9).kick, 1, "{policy}: it is owed");
            assert_eq!(b.turn_slice(0, 0), (Some(9), share), "{policy}: {percent}%");
            assert_eq!(b.turn_slice(share - 1, 0), (Some(9), SHORTEST), "{policy}: 1 ns is owed yet");
            assert_eq!(b.turn(share, 0), Some(1), "{policy}");
            assert_eq!(b.core.cpu_timer(0), 20 * MS, "{policy}: the next interval");
            assert_eq!(b.turn(20 * MS - 1, 0), Some(1), "{policy}");
            assert_eq!(b.turn_slice(20 * MS, 0), (Some(9), share), "{policy}");
        }
    }
}

/// One PCPU; VCPU 1 runs since 0, UNDER from the tick of 10 ms on.
fn hog(make: &Maker, policy: &str, parameters: &[(&str, u64)]) -> Bench {
    let mut b = Bench::new(make, policy, 1, 4);
    parameters.iter().for_each(|&(name, value)| assert_eq!(b.set(0, None, name, value).ret, 0, "{name}"));
    (1..=4).for_each(|v| b.vcpu(v, v, 0));
    b.wake(0, 1);
    assert_eq!(b.turn(0, 0), Some(1));
    b.timer(10 * MS - 1, 0);
    assert_eq!(b.class(1), Class::Boost, "{policy}: its boost ends with the tick, not before");
    b.timer(10 * MS, 0);
    assert_eq!(b.class(1), Class::Under, "{policy}");
    b
}

/// A rate limit ends: with its time, or with the slice.
pub fn ratelimits(make: &Maker) {
    for policy in CREDIT {
        for (limit, end) in [(12 * MS, 12 * MS), (40 * MS, 30 * MS)] {
            for (now, runs) in [(end - 1, 1), (end, 2), (end + 1, 2)] {
                let mut b = hog(make, policy, &[("ratelimit", limit)]);
                assert_eq!(b.wake(11 * MS, 2).kick, 1);
                let (next, slice) = b.turn_slice(now, 0);
                assert_eq!(next, Some(runs), "{policy}: limit {limit}, at {now}");
                if runs == 1 {
                    assert_eq!(slice, 1, "{policy}: limit {limit}: until it ends");
                }
            }
        }
    }
}

/// With preempted=head what is left of a turn is kept, unless it is no longer than the shortest slice.
pub fn turns(make: &Maker) {
    for policy in ["credit", "doris"] {
        for (left, next) in
            [(100 * US + 1, (Some(1), 100 * US + 1)), (100 * US, (Some(2), 20 * MS)), (1, (Some(2), 20 * MS))]
        {
            let mut b = Bench::new(make, policy, 1, 3);
            b.set(0, None, "preempted", 1);
            (1..=3).for_each(|v| b.vcpu(v, v, 0));
            b.wake(0, 2);
            b.turn(0, 0);
            b.timer(10 * MS, 0);
            b.wake(10 * MS, 1);
            assert_eq!(b.turn(10 * MS, 0), Some(1));
            b.timer(20 * MS, 0);
            let now = 40 * MS - left;
            b.wake(now, 3);
            assert_eq!(b.turn(now, 0), Some(3));
            b.ok(now, OpCode::Schedule, (0, 0, 0), [2, 0, 0]);
            b.ok(now, OpCode::Put, (0, 3, 0), [0, NEVER, 0]);
            let who = if next.0 == Some(1) { 1 } else { 2 };
            assert_eq!(b.state(who), State::Picked, "{policy}: {left} ns of its turn are left");
            b.ok(now, OpCode::Started, (0, who, 0), [0; 3]);
            assert_eq!(b.ok(now, OpCode::Schedule, (0, 0, 0), [0; 3]).slice, next.1, "{policy}: {left}");
        }
    }
}

/// Ticks come on a grid: a PCPU that begins to run on it has its first one an interval later.
pub fn ticks(make: &Maker) {
    for policy in CREDIT {
        for (now, tick) in [(20 * MS - 1, 20 * MS), (20 * MS, 30 * MS), (20 * MS + 1, 30 * MS)] {
            let mut b = Bench::new(make, policy, 1, 1);
            b.vcpu(1, 1, 0);
            b.wake(now, 1);
            b.turn(now, 0);
            assert_eq!(b.core.cpu_timer(0), tick, "{policy}: at {now}");
            b.timer(tick, 0);
            assert_eq!(b.core.cpu_timer(0), tick + 10 * MS, "{policy}");
        }
        // None on a PCPU that runs nothing, also where its host has taken off what ran.
        let mut b = Bench::new(make, policy, 1, 1);
        b.vcpu(1, 1, 0);
        b.wake(0, 1);
        b.turn(0, 0);
        b.ok(5 * MS, OpCode::Put, (0, 1, 0), [0, NEVER, 0]);
        b.timer(10 * MS, 0);
        assert_eq!(b.core.cpu_timer(0), NEVER, "{policy}: a tick of an idle PCPU");
        // Accounting.
        let mut b = hog(make, policy, &[]);
        b.account(30 * MS - 1);
        assert_eq!(b.core.ledger().given, 0, "{policy}: 1 ns too early");
        b.account(30 * MS);
        assert_eq!((b.core.ledger().given, b.core.pool_timer()), (300, 60 * MS), "{policy}");
        for (now, next) in [(90 * MS - 1, 90 * MS), (90 * MS, 120 * MS), (90 * MS + 1, 120 * MS)] {
            let mut b = hog(make, policy, &[]);
            b.account(now);
            assert_eq!((b.core.ledger().given, b.core.pool_timer()), (300, next), "{policy}: one pass, however late");
        }
    }
}

/// So many events of a VM promote in an accounting interval: the last of them, not one more; then those of the next interval.
pub fn events(make: &Maker) {
    for policy in ["doris", "poris", "laxs"] {
        for most in 0..=3_u64 {
            let mut b = Bench::new(make, policy, 4, 2);
            for (name, value) in [("boost", 1), ("parallel", 0), ("event_max", most)] {
                assert_eq!(b.set(0, None, name, value).ret, 0);
            }
            b.rt(0, 2, 0);
            for (cpu, v) in (0..4).zip(21..) {
                b.vcpu(v, 2, cpu);
                b.pin(0, v, 1 << cpu);
                b.wake(0, v);
                assert_eq!(b.turn(0, cpu), Some(v.into()));
            }
            (0..4).for_each(|cpu| _ = b.timer(10 * MS, cpu));
            (0..4).for_each(|cpu| b.idle(10 * MS, cpu));
            assert_eq!([21, 22, 23, 24].map(|v| b.class(v)), [Class::Under; 4], "{policy}");
            for (n, v) in (1..).zip(21..=24) {
                b.event(11 * MS, v, IO);
                assert_eq!(b.class(v) < Class::Under, n <= most, "{policy}: event {n} of {most}");
            }
            let count = |b: &Bench| b.core.vm_stat(2).map(|s| (s.promotions, s.refusals));
            assert_eq!(count(&b), Some((most, 4 - most)), "{policy}");
            b.account(30 * MS - 1);
            b.event(30 * MS - 1, 24, IO);
            assert_eq!(count(&b), Some((most, 5 - most)), "{policy}: 1 ns before the interval ends");
            b.account(30 * MS);
            b.event(30 * MS, 24, IO);
            let one = u64::from(most > 0);
            assert_eq!(count(&b), Some((most + one, 6 - most - one)), "{policy}: in the next interval");
        }
    }
}

/// As many VMs are real-time as `rt_max` says: a lease that ends, a VM that goes, and a type that was held by hand leave room for one.
pub fn types(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let mut b = Bench::new(make, policy, 1, 4);
        (1..=4).for_each(|v| b.vcpu(v, v, 0));
        b.set(0, None, "rt_max", 2);
        let set =
            |b: &mut Bench, now: u64, vm: u16, lease: u64| b.op(now, OpCode::SetRt, (0, 0, vm), [1, MS, lease]).ret;
        assert_eq!(set(&mut b, 0, 4, 0), 0, "{policy}: a lease of nothing is no type");
        assert_eq!(b.core.vm_stat(4).map(|s| (s.rt, s.period, s.lease_end)), Some((0, 0, 0)));
        assert_eq!([1, 2, 3].map(|vm| set(&mut b, 0, vm, 30 * MS)), [0, 0, -16], "{policy}");
        assert_eq!(b.set(0, Some(3), "rt", 1).ret, -16, "{policy}");
        assert_eq!(set(&mut b, 1, 2, 60 * MS), 0, "{policy}: renewing takes no more room");
        b.account(30 * MS - 1);
        assert_eq!(set(&mut b, 30 * MS - 1, 3, 60 * MS), -16, "{policy}: 1 ns before VM 1's lease ends");
        b.account(30 * MS);
        assert_eq!(set(&mut b, 30 * MS, 3, 600 * MS), 0, "{policy}: at its end");
        assert_eq!(set(&mut b, 30 * MS, 1, 600 * MS), -16, "{policy}: one, not two");
        b.ok(31 * MS, OpCode::VcpuRemove, (0, 3, 0), [0; 3]);
        assert_eq!(set(&mut b, 31 * MS, 1, 600 * MS), -16, "{policy}: a VM without VCPUs is one yet");
        b.ok(31 * MS, OpCode::VmRemove, (0, 0, 3), [0; 3]);
        assert_eq!(b.set(31 * MS, Some(1), "rt", 1).ret, 0, "{policy}: VM 3 has gone");
        assert_eq!(set(&mut b, 31 * MS, 4, 600 * MS), -16, "{policy}");
        assert_eq!(b.set(31 * MS, Some(1), "rt", 0).ret, 0);
        assert_eq!(set(&mut b, 31 * MS, 4, 600 * MS), 0, "{policy}: what was held by hand has ended");
        assert_eq!(b.set(31 * MS, Some(1), "rt", 1).ret, -16, "{policy}");
        assert_eq!(b.set(31 * MS, Some(2), "rt", 2).ret, 0);
        assert_eq!(b.set(31 * MS, Some(1), "rt", 1).ret, 0, "{policy}: VM 2 must not be one any more");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
        // Leases at the end of time.
        for (lease, end) in [(NEVER - 32 * MS - 1, NEVER - 1), (NEVER - 32 * MS, NEVER), (NEVER - 1, NEVER)] {
            assert_eq!(set(&mut b, 32 * MS, 4, lease), 0);
            assert_eq!(b.core.vm_stat(4).map(|s| s.lease_end), Some(end), "{policy}: {lease}");
        }
    }
}

/// Doris: the shortest period, and the shortest slice before a deadline.
pub fn deadlines(make: &Maker) {
    for (period, wait) in [(0, 0), (1, 10 * US), (10 * US - 1, 10 * US), (10 * US, 10 * US), (10 * US + 1, 10 * US + 1)]
    {
        let mut b = hog(make, "doris", &[]);
        b.rt(10 * MS, 2, period);
        b.wake(10 * MS, 2);
        let want = if period == 0 { 0 } else { 10 * MS + wait };
        assert_eq!(b.deadline(2), want, "a period of {period} ns");
    }
    for (left, slice) in
        [(101 * US, 101 * US), (100 * US + 1, 100 * US + 1), (100 * US, 100 * US), (100 * US - 1, 100 * US)]
    {
        let mut b = hog(make, "doris", &[]);
        b.rt(10 * MS, 2, 5 * MS);
        b.turn(10 * MS, 0);
        b.wake(11 * MS, 2);
        assert_eq!(b.turn(11 * MS, 0), Some(2));
        b.timer(20 * MS, 0);
        assert_eq!(b.turn(20 * MS, 0), Some(1));
        assert_eq!(b.deadline(2), 25 * MS);
        // Neither the one that comes nor the one that goes has a deadline.
        b.wake(25 * MS - left, 3);
        assert_eq!(b.turn_slice(25 * MS - left, 0), (Some(3), slice), "{left} ns before the deadline");
    }
}

/// Co-scheduling: a turn ends when its slice does; until then its VM goes on, for the shortest slice at least.
pub fn gangs(make: &Maker) {
    for (left, next) in
        [(100 * US + 1, (1, 100 * US + 1)), (100 * US, (1, 100 * US)), (1, (1, 100 * US)), (0, (2, 30 * MS))]
    {
        let mut b = Bench::new(make, "gang", 1, 2);
        (1..=2).for_each(|v| b.vcpu(v, v, 0));
        (1..=2).for_each(|v| _ = b.wake(0, v));
        assert_eq!(b.turn_slice(0, 0), (Some(1), 30 * MS));
        assert_eq!(b.turn_slice(30 * MS - left, 0), (Some(next.0), next.1), "{left} ns before its end");
    }
}

/// LL looks at the first accounting at or after its interval's end.
pub fn looks(make: &Maker) {
    for (interval, moves) in [(1_000 * MS - 1, true), (1_000 * MS, true), (1_000 * MS + 1, false)] {
        let mut b = Bench::new(make, "laxs", 2, 2);
        (1..=3).for_each(|v| b.vcpu(v, 1 + v / 3, 0));
        b.set(0, None, "acct", 100 * MS);
        b.set(0, None, "ll_interval", interval);
        b.ok(0, OpCode::Epoch, (0, 0, 0), [0; 3]);
        (1..=2).for_each(|vm| b.rt(0, vm, 0));
        b.run(1, 0, 0, 300 * MS);
        b.run(2, 1, 400 * MS, 450 * MS);
        b.run(3, 0, 500 * MS, 600 * MS);
        b.account(900 * MS);
        b.account(1_000 * MS);
        b.wake(1_000 * MS, 3);
        assert_eq!(b.core.vcpu_cpu(3) == 1, moves, "interval {interval}");
    }
}
