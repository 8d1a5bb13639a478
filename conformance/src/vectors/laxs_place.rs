// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/laxs.md, L and LL: which VCPUs a PCPU steals, and where real-time VCPUs are bound.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, NIL, OpCode};

/// Two PCPUs under L (1) or LL (2); VM 5 is real-time, all others have one VCPU at home on the PCPU of their number's parity.
fn pool(make: &Maker, steal: u64) -> Bench {
    let mut b = Bench::new(make, "laxs", 2, 9);
    b.set(0, None, "steal", steal);
    (1..=9).for_each(|v| b.vcpu(v, v, v % 2));
    b.rt(0, 5, 0);
    b
}

/// Has `v` queue as UNDER on its PCPU, which idles, from the tick's time `t` on.
fn queue(b: &mut Bench, v: u16, t: u64) {
    let cpu = v % 2;
    b.wake(t - US, v);
    assert_eq!(b.turn(t - US, cpu), Some(v.into()));
    b.timer(t, cpu);
    b.idle(t, cpu);
    assert_eq!((b.class(v), b.core.vcpu_cpu(v.into())), (Class::Under, cpu.into()));
}

/// `next` waits on PCPU 0 since 20 ms, `other` on PCPU 1 since `since`: whom PCPU 0 runs at 40 ms.
fn taken(make: &Maker, steal: u64, next: u16, other: u16, since: u64) -> Option<u32> {
    let mut b = pool(make, steal);
    let mut each = [(next, 20 * MS), (other, since)];
    each.sort_by_key(|&(_, t)| t);
    b.idle(0, 0);
    b.idle(0, 1);
    each.into_iter().for_each(|(v, t)| queue(&mut b, v, t));
    b.turn(40 * MS, 0)
}

pub fn stealing(make: &Maker) {
    assert_eq!(taken(make, 1, 2, 5, 30 * MS), Some(5), "of the same class, but real-time");
    assert_eq!(taken(make, 0, 2, 5, 30 * MS), Some(2), "Credit takes nothing for an UNDER one");
    assert_eq!(taken(make, 1, 2, 3, 30 * MS), Some(2), "neither is, and it has waited less");
    assert_eq!(taken(make, 1, 2, 3, 10 * MS), Some(3), "it has waited 10 ms longer");
    let age = |b: &mut Bench, ns| b.set(0, None, "steal_age", ns).ret;
    for (ns, want) in [(10 * MS, 3), (10 * MS + 1, 2)] {
        let mut b = pool(make, 1);
        assert_eq!(age(&mut b, ns), 0);
        b.idle(0, 0);
        b.idle(0, 1);
        queue(&mut b, 3, 10 * MS);
        queue(&mut b, 2, 20 * MS);
        assert_eq!(b.turn(40 * MS, 0), Some(want), "steal_age={ns}");
    }
    // One that is real-time is left for none of its class, however long that has waited.
    for other in [3, 5] {
        let mut b = pool(make, 1);
        b.rt(0, 2, 0);
        b.idle(0, 0);
        b.idle(0, 1);
        queue(&mut b, other, 10 * MS);
        queue(&mut b, 2, 20 * MS);
        assert_eq!(b.turn(40 * MS, 0), Some(2), "not {other}");
    }
    // A VCPU that runs counts as queued now: a VCPU that has waited is stolen, unless the runner has a rest of its slice.
    for (preempted, eligible, want) in [(0, 1, 3), (1, 1, 2), (1, 2, 3)] {
        let mut b = pool(make, 1);
        b.set(0, None, "preempted", preempted);
        b.idle(0, 1);
        b.wake(10 * MS, 2);
        b.turn(10 * MS, 0);
        queue(&mut b, 3, 20 * MS);
        b.timer(20 * MS, 0);
        b.set(20 * MS, None, "eligible", eligible);
        assert_eq!(b.turn(21 * MS, 0), Some(2));
        assert_eq!(b.turn(22 * MS, 0), Some(want), "preempted={preempted}, eligible={eligible}");
    }
    // A better class is taken, also instead of BOOST's inferior.
    let mut b = pool(make, 1);
    b.idle(0, 0);
    b.idle(0, 1);
    queue(&mut b, 2, 20 * MS);
    b.wake(21 * MS, 3);
    assert_eq!((b.class(3), b.turn(21 * MS, 0)), (Class::Boost, Some(3)));
}

/// Three PCPUs with queues; PCPU 3 idles and takes the best.
pub fn which(make: &Maker) {
    let fill = |vs: &[u16]| {
        let mut b = Bench::new(make, "laxs", 4, 9);
        b.set(0, None, "steal", 1);
        b.rt(0, 5, 0);
        (0..4).for_each(|c| b.idle(0, c));
        for (n, &v) in vs.iter().enumerate() {
            let (cpu, t) = (n as u16 % 3, (n as u64 + 1) * 10 * MS);
            b.vcpu(v, v, cpu);
            b.wake(t - US, v);
            assert_eq!(b.turn(t - US, cpu), Some(v.into()));
            b.timer(t, cpu);
            b.idle(t, cpu);
        }
        b.turn(100 * MS, 3)
    };
    assert_eq!(fill(&[1, 2, 5]), Some(5), "real-time first");
    assert_eq!(fill(&[1, 2, 3]), Some(1), "then who has waited longest");
    assert_eq!(fill(&[3, 2, 1]), Some(3));
}

pub fn bound(make: &Maker) {
    let mut b = Bench::new(make, "laxs", 4, 3);
    for v in 0..6 {
        b.vcpu(10 + v, 1 + v / 2, 0);
    }
    b.rt(0, 1, 0);
    b.rt(0, 2, 0);
    (0..4).for_each(|c| b.idle(0, c));
    (0..6).for_each(|v| _ = b.wake(0, 10 + v));
    let at = |b: &Bench, v: u32| b.core.vcpu_cpu(v);
    assert_eq!([10, 11, 12, 13].map(|v| at(&b, v)), [0, 1, 2, 3], "each where the fewest are");
    assert_eq!([14, 15].map(|v| at(&b, v)), [0, 0], "not real-time: at home");
    assert_eq!(b.turn(0, 3), Some(13), "its own");
    assert_eq!(b.stop(0, 3), Some(14), "a bound one is not taken, one that is not bound is");
    assert_eq!(b.stop(0, 3), Some(15));
    assert_eq!(b.stop(0, 3), None, "10, 11 and 12 stay where they are bound");
    // It stays where it is bound until its VM is real-time no more.
    assert_eq!(b.turn(0, 0), Some(10));
    b.stop(0, 0);
    b.ok(MS, OpCode::SetRt, (0, 0, 1), [0, 0, 0]);
    b.wake(MS, 10);
    assert_eq!(b.turn(MS, 3), Some(10));
    // What the operator forbids it cannot be bound to.
    b.stop(MS, 3);
    b.rt(MS, 1, 0);
    b.pin(MS, 10, 0b0110);
    b.wake(MS, 10);
    assert_eq!(at(&b, 10), 1);
}

/// With eligible=saved a VCPU that uses all of its share is bound to no PCPU, and stolen like a VCPU that is not real-time.
pub fn saved(make: &Maker) {
    for (eligible, bound) in [(1, true), (2, false)] {
        let mut b = Bench::new(make, "laxs", 2, 3);
        b.set(0, None, "eligible", eligible);
        b.rt(0, 1, 0);
        (1..=3).for_each(|v| b.vcpu(v, v, 0));
        (0..2).for_each(|c| b.idle(0, c));
        (1..=3).for_each(|v| _ = b.wake(0, v));
        assert_eq!(b.turn(0, 0), Some(1));
        assert_eq!(b.turn(0, 1), Some(2));
        b.ok(MS, OpCode::Yield, (0, 1, 0), [0xffff, 0, 0]);
        assert_eq!(b.turn(MS, 0), Some(3));
        assert_eq!(b.stop(2 * MS, 1), if bound { None } else { Some(1) }, "eligible={eligible}");
        // A real-time VCPU is stolen before a VCPU that has waited longer.
        let mut b = pool(make, 1);
        b.idle(0, 0);
        b.idle(0, 1);
        queue(&mut b, 2, 10 * MS);
        queue(&mut b, 5, 20 * MS);
        b.set(30 * MS, None, "eligible", eligible);
        assert_eq!(b.turn(40 * MS, 0), Some(if bound { 5 } else { 2 }), "eligible={eligible}");
    }
}

/// Two of VM 1 and one of VM 2, bound to PCPUs 0, 1 and 0 of two.
pub fn three(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "laxs", 2, 3);
    (1..=3).for_each(|v| b.vcpu(v, 1 + v / 3, 0));
    b.rt(0, 1, 0);
    b.rt(0, 2, 0);
    b.set(0, None, "ll_interval", 1_000 * MS);
    b.ok(0, OpCode::Epoch, (0, 0, 0), [0; 3]);
    b.rt(0, 1, 0);
    b.rt(0, 2, 0);
    b
}

pub fn balance(make: &Maker) {
    let mut b = three(make);
    let ran = |b: &mut Bench, v: u16, cpu: u16, from: u64, ms: u64| b.run(v, cpu, from * MS, (from + ms) * MS);
    ran(&mut b, 1, 0, 100, 300);
    ran(&mut b, 2, 1, 420, 50);
    ran(&mut b, 3, 0, 500, 100);
    let at = |b: &Bench| [1, 2, 3].map(|v| b.core.vcpu_cpu(v));
    assert_eq!(at(&b), [0, 1, 0], "400 ms and 50");
    b.account(990 * MS);
    (1..=3).for_each(|v| _ = b.wake(990 * MS, v));
    assert_eq!(at(&b), [0, 1, 0], "not before the interval is over");
    (0..2).for_each(|c| b.idle(990 * MS, c));
    b.account(1_020 * MS);
    assert_eq!(at(&b), [0, 1, 1], "300 and 150 is best: the one that waits queues there at once");
    b.account(2_040 * MS);
    assert_eq!(at(&b), [0, 1, 1], "nobody has run since: nothing to even out");
    // Only what was run since counts (rule L9): 300 and 100 ms on PCPU 1, and nothing on PCPU 0.
    assert_eq!(b.order(2_040 * MS, 1), [3, 2]);
    ran(&mut b, 2, 1, 2_100, 300);
    ran(&mut b, 3, 1, 2_500, 100);
    b.account(3_090 * MS);
    b.wake(3_090 * MS, 2);
    assert_eq!(b.core.vcpu_cpu(2), 0);
    // One of a PCPU's own stays, however much it runs.
    let mut b = three(make);
    ran(&mut b, 1, 0, 100, 300);
    b.account(1_020 * MS);
    b.wake(1_020 * MS, 1);
    assert_eq!(b.core.vcpu_cpu(1), 0, "moving 300 ms from 300 evens nothing out");
}

/// A VCPU is moved only where it may run.
pub fn balance_within_masks(make: &Maker) {
    for (code, at, want) in [
        (OpCode::SetAffinity, [0, 0b01, 0], [1, 1, 0]),
        (OpCode::SetPlacement, [0b01, 0, 0], [1, 1, 0]),
        (OpCode::SetAffinity, [0, 0b11, 0], [0, 1, 1]),
        (OpCode::SetPlacement, [0b11, 0, 0], [0, 1, 1]),
    ] {
        let mut b = three(make);
        for (v, cpu, from, ms) in [(1, 0, 100, 300), (2, 1, 420, 50), (3, 0, 500, 100)] {
            b.run(v, cpu, from * MS, (from + ms) * MS);
        }
        b.ok(900 * MS, code, (0, 3, 0), at);
        b.account(1_020 * MS);
        (1..=3).for_each(|v| _ = b.wake(1_020 * MS, v));
        assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), want, "{code:?} {at:?}");
    }
}

pub fn moved(make: &Maker) {
    let mut b = three(make);
    (1..=3).for_each(|v| _ = b.wake(0, v));
    assert_eq!(b.core.vcpu_cpu(1), 0);
    b.ok(0, OpCode::Move, (1, 1, 0), [0; 3]);
    assert_eq!(b.core.vcpu_cpu(1), 1);
    b.idle(0, 1);
    assert_eq!(b.order(MS, 0), [3], "it is bound there now");
    // Its PCPU goes: it is bound to another.
    b.ok(MS, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
    assert_eq!(b.order(MS, 0), [1, 2]);
    assert_eq!(b.op(MS, OpCode::Move, (1, 1, 0), [0; 3]).ret, -2);
    assert_ne!(b.core.vcpu_cpu(1), NIL);
}
