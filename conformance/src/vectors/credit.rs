// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/credit.md: boost, preemption, stealing; and what the contract asks of any policy.

use super::bench::{Bench, IO, MS, OTHER, US};
use crate::core::Maker;
use takt_policy::{Class, NEVER, OpCode, State};

/// VMs 1… with one VCPU each of the same number, at home on the PCPUs given.
fn pool(make: &Maker, policy: &str, cpus: u16, homes: &[u16]) -> Bench {
    let mut b = Bench::new(make, policy, cpus, homes.len() as u16);
    (1..).zip(homes).for_each(|(v, &c)| b.vcpu(v, v, c));
    b
}

/// Puts `v` in debt: it is OVER and blocked from `from + 90 ms` on, PCPU `cpu` being idle.
fn indebt(b: &mut Bench, v: u16, cpu: u16, from: u64) {
    b.run(v, cpu, from, from + 90 * MS);
    b.account(from + 90 * MS);
    assert_eq!(b.class(v), Class::Over);
}

pub fn boost(make: &Maker) {
    let mut b = pool(make, "credit", 1, &[0, 0]);
    assert_eq!(b.class(1), Class::Under);
    b.wake(0, 1);
    assert_eq!(b.class(1), Class::Boost);
    b.turn(0, 0);
    b.timer(10 * MS, 0);
    assert_eq!(b.class(1), Class::Under);
    let res = b.wake(11 * MS, 2);
    assert_eq!(res.kick, 1, "BOOST preempts UNDER");
    assert_eq!(b.turn(11 * MS, 0), Some(2));
    assert_eq!(b.class(1), Class::Under, "preempted, not promoted");
}

pub fn boost_ends(make: &Maker) {
    let mut b = pool(make, "credit", 1, &[0, 0]);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.turn(5 * MS, 0), Some(2), "equals take turns");
    assert_eq!(b.class(1), Class::Boost, "preemption does not end it");
    assert_eq!(b.core.cpu_timer(0), 10 * MS);
    b.timer(10 * MS, 0);
    assert_eq!((b.class(1), b.class(2)), (Class::Boost, Class::Under), "a tick ends that of the running one");
    b.account(30 * MS);
    assert_eq!(b.class(1), Class::Under, "accounting ends that of active ones");
}

pub fn no_boost(make: &Maker) {
    let mut b = pool(make, "credit", 1, &[0, 0]);
    b.wake(0, 1);
    b.turn(0, 0);
    b.timer(10 * MS, 0);
    b.wake(10 * MS, 2);
    b.turn(10 * MS, 0);
    assert_eq!((b.state(1), b.class(1)), (State::Queued, Class::Under));
    b.event(11 * MS, 1, IO);
    b.wake(11 * MS, 1);
    assert_eq!(b.class(1), Class::Under, "nothing reaches a queued VCPU");
    b.stop(12 * MS, 0);
    b.stop(12 * MS, 0);
    indebt(&mut b, 1, 0, 20 * MS);
    b.wake(120 * MS, 1);
    assert_eq!(b.class(1), Class::Over, "OVER wakes as OVER");
}

pub fn tickle(make: &Maker) {
    let mut b = pool(make, "credit", 4, &[0, 0, 0]);
    indebt(&mut b, 2, 0, 0);
    b.wake(100 * MS, 1);
    assert_eq!(b.turn(100 * MS, 0), Some(1));
    b.timer(100 * MS, 0);
    let res = b.ok(101 * MS, OpCode::SetAffinity, (0, 2, 0), [0, 0b0101, 0]);
    assert_eq!(res.kick, 0);
    assert_eq!(b.wake(101 * MS, 2).kick, 0b0100, "OVER does not preempt; idle PCPUs in its mask are asked");
    b.ok(102 * MS, OpCode::SetAffinity, (0, 3, 0), [0, 0b0011, 0]);
    assert_eq!(b.wake(102 * MS, 3).kick & 0b0010, 0b0010);
    assert_eq!(b.turn(102 * MS, 1), Some(3), "an idle PCPU takes the better one");
    assert_eq!(b.turn(102 * MS, 3), None, "and none that its mask keeps away");
    assert_eq!(b.turn(102 * MS, 2), Some(2));
}

pub fn stealing(make: &Maker) {
    let mut b = pool(make, "credit", 4, &[0, 1, 2, 3, 0, 1, 2, 3, 3]);
    indebt(&mut b, 3, 2, 0);
    let t = 100 * MS;
    for v in 1..=4 {
        b.wake(t, v);
        assert_eq!(b.turn(t, v - 1), Some(v.into()));
    }
    assert_eq!(b.class(3), Class::Over);
    for v in [6, 5, 8, 9] {
        b.wake(t, v);
    }
    b.ok(t, OpCode::SetAffinity, (0, 8, 0), [0, 0b1000, 0]);
    assert_eq!(b.turn(t, 0), Some(5), "its own queue first: 1 and 5 are equals");
    b.wake(t, 7);
    assert_eq!(b.class(7), Class::Boost);
    assert_eq!(b.turn(t, 2), Some(7), "its own queue holds better than OVER: nothing is stolen");
    // 7 stops: PCPU 2 would run 3 (OVER). It looks at 3 (8 may not leave), then at 0, then at 1.
    assert_eq!(b.stop(t, 2), Some(9), "the first in cyclic order that may come");
    assert_eq!(b.stop(t, 2), Some(1));
    assert_eq!(b.stop(t, 2), Some(6));
    assert_eq!(b.stop(t, 2), Some(3), "nothing better is left");
    indebt_equal(make);
    // From a PCPU that idles as well.
    let mut b = pool(make, "credit", 2, &[1, 1]);
    [1, 2].into_iter().for_each(|v| _ = b.wake(0, v));
    assert_eq!((b.turn(0, 0), b.turn(0, 1)), (Some(1), Some(2)));
}

/// OVER does not steal OVER; an idle PCPU does.
fn indebt_equal(make: &Maker) {
    let mut b = pool(make, "credit", 2, &[0, 0, 1]);
    for v in [2, 3] {
        b.wake(0, v);
        assert_eq!(b.turn(0, v - 2), Some(v.into()));
    }
    b.stop(90 * MS, 0);
    b.stop(90 * MS, 1);
    let t = 90 * MS;
    b.account(t);
    assert_eq!((b.class(2), b.class(3)), (Class::Over, Class::Over));
    b.wake(t, 1);
    b.turn(t, 0);
    b.wake(t, 3);
    b.wake(t, 2);
    assert_eq!(b.turn(t, 1), Some(3), "its own OVER is as good as another's");
    assert_eq!(b.stop(t, 1), Some(2), "an idle PCPU takes what there is");
}

pub fn slice(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, 1, &[0]);
        assert_eq!(b.turn_slice(0, 0), (None, NEVER));
        b.wake(0, 1);
        assert_eq!(b.turn_slice(0, 0), (Some(1), 30 * MS));
        b.set(MS, None, "slice", 5 * MS);
        assert_eq!(b.turn_slice(MS, 0), (Some(1), 5 * MS));
        let res = b.ok(MS, OpCode::Yield, (0, 1, 0), [0xffff, 0, 0]);
        assert_eq!(res.kick, 1);
    }
}

pub fn turns(make: &Maker) {
    let mut b = pool(make, "credit", 1, &[0, 0, 0]);
    for v in 1..=3 {
        b.wake(0, v);
    }
    let order: Vec<_> = (0..6).map(|i| b.turn(i * 100 * US, 0)).collect();
    assert_eq!(order, [Some(1), Some(2), Some(3), Some(1), Some(2), Some(3)]);
}

/// A preempted VCPU goes behind its equals, or before them for the rest of its slice; under S as well, unless it has a
/// place by laxity.
pub fn preempted(make: &Maker) {
    for policy in ["credit", "laxs"] {
        preempted_under(make, policy);
    }
    // Under S a VCPU that uses more than its share goes behind its equals.
    for (policy, next) in [("credit", 1), ("laxs", 2)] {
        let mut b = pool(make, policy, 1, &[0, 0, 0]);
        b.set(0, None, "preempted", 1);
        b.set(0, None, "eligible", 2);
        b.wake(0, 1);
        b.wake(0, 2);
        assert_eq!(b.turn(0, 0), Some(1));
        b.set(MS, None, "eligible", 1);
        b.wake(MS, 3);
        b.set(MS, None, "eligible", 2);
        assert_eq!(b.turn(MS, 0), Some(3), "boosted");
        assert_eq!(b.stop(2 * MS, 0), Some(next), "{policy}");
    }
}

fn preempted_under(make: &Maker, policy: &str) {
    let begin = |head| {
        let mut b = pool(make, policy, 1, &[0, 0, 0]);
        b.set(0, None, "preempted", head);
        b.run(2, 0, 0, MS);
        b.wake(20 * MS, 1);
        b.wake(20 * MS, 2);
        assert_eq!(b.turn(20 * MS, 0), Some(1));
        b.timer(30 * MS, 0);
        b.account(30 * MS);
        b.timer(40 * MS, 0);
        assert_eq!((b.class(1), b.class(2)), (Class::Under, Class::Under), "no boosts are left");
        b.wake(42 * MS, 3);
        assert_eq!(b.turn(42 * MS, 0), Some(3));
        b
    };
    let mut b = begin(0);
    assert_eq!(b.stop(43 * MS, 0), Some(2));
    assert_eq!(b.turn_slice(44 * MS, 0), (Some(1), 30 * MS));
    let mut b = begin(1);
    assert_eq!(b.stop(43 * MS, 0), Some(1));
    assert_eq!(b.turn_slice(44 * MS, 0), (Some(1), 7 * MS), "a decision for nothing costs it nothing");
    assert_eq!(b.turn_slice(51 * MS, 0), (Some(2), 30 * MS), "it has had its slice");
    assert_eq!(b.turn(52 * MS, 0), Some(2));
    b.ok(53 * MS, OpCode::Yield, (0, 2, 0), [0xffff, 0, 0]);
    assert_eq!(b.turn_slice(53 * MS, 0), (Some(1), 30 * MS), "who yields, or has come back, has a new one later");
    b.stop(54 * MS, 0);
    b.wake(55 * MS, 1);
    assert_eq!(b.turn_slice(55 * MS, 0), (Some(1), 30 * MS), "who slept has a whole one");
    // One that its host could not run stands back: it would be picked for ever.
    let mut b = begin(1);
    b.ok(43 * MS, OpCode::Schedule, (0, 0, 0), [2, 0, 0]);
    b.ok(43 * MS, OpCode::Put, (0, 3, 0), [0, NEVER, 0]);
    b.ok(43 * MS, OpCode::Refused, (0, 1, 0), [0; 3]);
    assert_eq!(b.ok(43 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 2);
}

pub fn round_robin(make: &Maker) {
    let mut b = pool(make, "rr", 2, &[0, 0, 0]);
    for v in 1..=3 {
        b.wake(0, v);
    }
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.turn(0, 1), Some(2), "an idle PCPU takes another's head");
    assert_eq!(b.turn(MS, 0), Some(3));
    assert_eq!(b.turn(2 * MS, 0), Some(1));
}

pub fn wakes(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, 1, &[0]);
        b.wake(0, 1);
        b.turn(0, 0);
        b.wake(MS, 1);
        b.stop(MS, 0);
        assert_eq!(b.state(1), State::Queued, "{policy}: woken while it ran");
        b.turn(2 * MS, 0);
        b.wake(2 * MS, 1);
        b.turn(3 * MS, 0);
        b.stop(4 * MS, 0);
        assert_eq!(b.state(1), State::Blocked, "{policy}: it ran on and has seen that wake");
        b.ok(5 * MS, OpCode::Pause, (0, 1, 0), [0; 3]);
        b.wake(5 * MS, 1);
        assert_eq!(b.state(1), State::Paused);
        b.ok(6 * MS, OpCode::Unpause, (0, 1, 0), [0; 3]);
        assert_eq!(b.state(1), State::Queued, "{policy}: woken while paused");
        b.turn(6 * MS, 0);
        let res = b.ok(7 * MS, OpCode::Pause, (0, 1, 0), [0; 3]);
        assert_eq!(res.kick, 1);
        assert_eq!(b.turn(7 * MS, 0), None);
        assert_eq!(b.state(1), State::Paused);
        b.ok(8 * MS, OpCode::Unpause, (0, 1, 0), [0; 3]);
        assert_eq!(b.state(1), State::Queued, "{policy}: was runnable when paused");
    }
}

pub fn masks(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, 4, &[0]);
        b.ok(0, OpCode::SetAffinity, (0, 1, 0), [0, 0b0110, 0]);
        b.ok(0, OpCode::SetPlacement, (0, 1, 0), [0b0100, 0, 0]);
        assert_eq!(b.wake(0, 1).kick, 0b0100, "{policy}: both masks");
        assert_eq!(b.turn(0, 1), None, "{policy}: the placement keeps it away");
        b.ok(MS, OpCode::CpuRemove, (2, 0, 0), [0; 3]);
        assert_eq!(b.turn(MS, 3), None);
        assert_eq!(b.turn(MS, 1), Some(1), "{policy}: nothing of the placement is online: the operator's mask counts");
        b.stop(MS, 1);
        b.ok(MS, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
        b.wake(2 * MS, 1);
        assert_eq!(b.turn(2 * MS, 3), Some(1), "{policy}: no PCPU of its mask is left: any");
        assert_eq!(b.op(2 * MS, OpCode::SetPlacement, (0, 1, 0), [0; 3]).ret, -34);
        assert_eq!(b.op(2 * MS, OpCode::Wake, (0, 9, 0), [OTHER, 0, 0]).ret, -2);
    }
}

pub fn late_tick(make: &Maker) {
    for policy in ["credit", "doris"] {
        let mut b = pool(make, policy, 1, &[0]);
        b.wake(0, 1);
        b.turn(0, 0);
        assert_eq!(b.core.cpu_timer(0), 10 * MS);
        b.timer(57 * MS, 0);
        assert_eq!(b.credit(1), -570);
        assert_eq!(b.core.cpu_timer(0), 60 * MS, "{policy}: the grid stays, however late the tick");
        assert_eq!(b.account(123 * MS).pool_timer, 150 * MS, "{policy}: so does that of accounting");
        b.stop(130 * MS, 0);
        assert_eq!(b.core.cpu_timer(0), NEVER, "{policy}: an idle PCPU has no tick");
    }
}
