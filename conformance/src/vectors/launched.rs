// SPDX-License-Identifier: GPL-2.0-only
//! Poris: which VCPUs are launched together, and which may be exchanged (rules P32 and P34). Which
//! events count in `event_max`.

use super::bench::{Bench, IO, MS};
use super::poris::{siblings, siblings_with};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

/// PCPUs 0 to 3, each with VCPU 10 + n of its own VM that runs since 0; VM 1 has VCPUs 1 and 2 and the I/O thread 3, VM 2 has VCPU 4,
/// VM 3 has VCPU 5. VMs 1 to 3 are real-time. Nothing is boosted any more, and VCPUs 1 to 5 are queued, UNDER.
fn busy(make: &Maker, groups: [u64; 3]) -> Bench {
    let mut b = Bench::new(make, "poris", 4, 7);
    for n in 0..4 {
        b.vcpu(10 + n, 4 + n, n);
        b.pin(0, 10 + n, 1 << n);
    }
    for (v, vm, kind) in [(1, 1, 0), (2, 1, 0), (3, 1, 1), (4, 2, 0), (5, 3, 0)] {
        b.ok(0, OpCode::VcpuAdd, (0, v, vm), [kind, 0, 0]);
    }
    for (vm, group) in (1..).zip(groups) {
        b.rt(0, vm, 0);
        assert_eq!(b.op(0, OpCode::SetGroup, (0, 0, vm), [group, 0, 0]).ret, 0);
    }
    for n in 0..4 {
        b.wake(0, 10 + n);
        assert_eq!(b.turn(0, n), Some(u32::from(10 + n)));
    }
    b
}

/// Wakes VCPUs `who` while all PCPUs are busy; no boost is left to any of them.
fn queue(b: &mut Bench, who: &[u16]) {
    for &v in who {
        b.wake(MS, v);
    }
    b.account(30 * MS);
}

/// What VCPU 1's PCPU runs next is VCPU 1.
fn start_first(b: &mut Bench) {
    let cpu = b.core.vcpu_cpu(1) as u16;
    assert_eq!(b.stop(31 * MS, cpu), Some(1), "VCPU 1 is the first of its group");
}

pub fn with_whom(make: &Maker) {
    // VM 1 and VM 2 are a group, VM 3 is another.
    let mut b = busy(make, [1, 1, 2]);
    queue(&mut b, &[1, 2, 3, 4, 5]);
    start_first(&mut b);
    let classes = |b: &Bench| [1, 2, 3, 4, 5].map(|v| b.class(v) == Class::Rt);
    assert_eq!(classes(&b), [true, true, false, true, false], "neither I/O threads nor another group");
    // VMs in no group are each a group of its own.
    let mut b = busy(make, [0, 0, 0]);
    queue(&mut b, &[1, 2, 3, 4, 5]);
    start_first(&mut b);
    assert_eq!(classes(&b), [true, true, false, false, false]);
    // Not a VCPU that is blocked or paused, nor a VM that is real-time no more.
    let mut b = busy(make, [1, 1, 1]);
    queue(&mut b, &[1, 2, 4]);
    b.ok(30 * MS, OpCode::Pause, (0, 2, 0), [0; 3]);
    b.ok(30 * MS, OpCode::SetRt, (0, 0, 2), [0, 0, 0]);
    start_first(&mut b);
    assert_eq!(classes(&b), [true, false, false, false, false]);
}

/// What PCPU 0 runs next, where `forbid` comes before it decides.
fn exchange(make: &Maker, forbid: impl Fn(&mut Bench)) -> u32 {
    let mut b = siblings(make, true);
    assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1, 1]);
    forbid(&mut b);
    assert_eq!(b.core.vcpu_cpu(2), 1, "where it is it may stay");
    b.ok(402 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next
}

pub fn exchanged(make: &Maker) {
    assert_eq!(exchange(make, |_| ()), 2, "1 cannot run beside it on one PCPU");
    let only = |code: OpCode, v: u16, mask: u64| {
        move |b: &mut Bench| {
            let arg = if code == OpCode::SetAffinity { [0, mask, 0] } else { [mask, 0, 0] };
            b.ok(401 * MS, code, (0, v, 0), arg);
        }
    };
    for code in [OpCode::SetAffinity, OpCode::SetPlacement] {
        assert_eq!(exchange(make, only(code, 2, 0b10)), 1, "{code:?}: 2 may not come to PCPU 0");
        assert_eq!(exchange(make, only(code, 1, 0b01)), 1, "{code:?}: 1 may not go to PCPU 1");
        assert_eq!(exchange(make, only(code, 2, 0b11)), 2);
        assert_eq!(exchange(make, only(code, 1, 0b11)), 2);
    }
}

/// No exchange without a better sibling that may come at once: not one in debt as well, nor one that is paused or blocked, nor one of
/// another subgroup (rule P8).
pub fn not_exchanged(make: &Maker) {
    assert_eq!(exchange(make, |b| _ = b.ok(401 * MS, OpCode::Pause, (0, 2, 0), [0; 3])), 1, "2 is paused");
    assert_eq!(exchange(make, |b| _ = b.ok(401 * MS, OpCode::Block, (0, 2, 0), [0; 3])), 1, "2 has no work");
    // 2 owes as much as 1.
    let mut b = Bench::new(make, "poris", 2, 2);
    b.set(0, None, "demote", 1);
    (1..=2).for_each(|v| b.vcpu(v, 1, v - 1));
    b.vcpu(3, 2, 1);
    b.rt(0, 1, 0);
    (1..=2).for_each(|v| _ = b.wake(0, v));
    (0..2).for_each(|cpu| _ = b.turn(0, cpu));
    (0..2).for_each(|cpu| _ = b.turn(399 * MS, cpu));
    b.account(400 * MS);
    b.pin(400 * MS, 3, 0b10);
    b.wake(401 * MS, 3);
    assert_eq!((b.turn(401 * MS, 1), b.turn(401 * MS, 0)), (Some(3), Some(1)));
    assert_eq!([1, 2].map(|v| (b.class(v), b.core.vcpu_cpu(v.into()))), [(Class::Over, 0), (Class::Over, 1)]);
    assert_eq!(b.state(2), State::Queued, "behind 3");
    assert_eq!(b.turn(402 * MS, 0), Some(1), "2 is no better");
    // The third VCPU of a VM on two PCPUs is in another subgroup, which runs in turns with this one.
    let mut b = siblings_with(make, true, &[8]);
    assert_eq!([1, 2].map(|v| b.core.vcpu_cpu(v)), [0, 1]);
    assert_eq!(b.ok(402 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 1, "2 is of another subgroup");
}

/// `event_max` limits what a guest makes up. Dom0's events are not a guest's: they are neither limited nor counted.
pub fn of_dom0(make: &Maker) {
    let mut b = Bench::new(make, "doris", 1, 2);
    (0..=2).for_each(|v| b.vcpu(v, v, 0));
    b.set(0, None, "event_max", 0);
    b.rt(0, 2, 20 * MS);
    b.wake(0, 1);
    b.turn(0, 0);
    for n in 1..=3 {
        b.event(n * MS, 0, IO);
        b.wake(n * MS, 0);
        assert_eq!(b.class(0), Class::Rt, "Dom0's promotion {n}");
        assert_eq!(b.turn(n * MS, 0), Some(0));
        b.stop(n * MS, 0);
    }
    assert_eq!(b.core.vm_stat(0).map(|s| (s.promotions, s.refusals)), Some((3, 0)));
    assert_eq!(b.core.check(), Ok(()));
    b.set(3 * MS, None, "event_max", 1);
    b.event(4 * MS, 2, IO);
    b.wake(4 * MS, 2);
    assert_eq!(b.class(2), Class::Rt, "the guest's own is left to it");
}
