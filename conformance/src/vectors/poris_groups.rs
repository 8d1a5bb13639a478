// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/poris.md: groups, subgroups and their rounds.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

fn group(b: &mut Bench, vm: u16, group: u64, sub: u64) -> i32 {
    b.op(0, OpCode::SetGroup, (0, 0, vm), [group | sub << 16, 0, 0]).ret
}

/// PORIS-E2: four PCPUs, a group of four VMs with two VCPUs each, S = 5 ms, T_round = 1 ms. All compute without end, from 0 on.
/// VM n has VCPUs 2n - 1 and 2n; VMs 1 and 2 are a subgroup, 3 and 4 the other.
fn e2(make: &Maker, parallel: u64) -> Bench {
    let mut b = Bench::new(make, "poris", 4, 4);
    b.set(0, None, "parallel", parallel);
    b.set(0, None, "latency", 5 * MS);
    for v in 0..8 {
        b.vcpu(v + 1, v / 2 + 1, 0);
    }
    for vm in 1..=4 {
        b.rt(0, vm, 0);
        assert_eq!(group(&mut b, vm, 1, u64::from(vm > 2)), 0);
    }
    (1..=8).for_each(|v| _ = b.wake(0, v));
    b
}

/// What each PCPU runs in each ms of the first `ms`.
fn schedule(b: &mut Bench, ms: u64) -> [String; 4] {
    let mut all: [String; 4] = Default::default();
    for t in 0..ms {
        for (c, line) in all.iter_mut().enumerate() {
            *line += &b.watch(c as u16, t * MS, (t + 1) * MS, MS);
        }
    }
    all
}

pub fn rounds(make: &Maker) {
    let want = ["1515151515", "2626262626", "3737373737", "4848484848"];
    for preempted in [0, 1] {
        let mut b = e2(make, 2);
        b.set(0, None, "preempted", preempted);
        assert_eq!(schedule(&mut b, 10), want, "C_sync is a round of 1 ms, and each has five in 10 ms");
        // A VM without VCPUs takes no turn.
        let mut b = e2(make, 2);
        b.set(0, None, "preempted", preempted);
        b.ok(0, OpCode::VmAdd, (0, 0, 5), [0, 256, 0]);
        b.rt(0, 5, 0);
        assert_eq!(group(&mut b, 5, 1, 0), 0);
        assert_eq!(schedule(&mut b, 10), want, "preempted={preempted}");
        // A turn that a decision cuts short is over as well: three laps of a VM on one PCPU.
        let mut b = Bench::new(make, "poris", 1, 1);
        b.set(0, None, "preempted", preempted);
        (1..=3).for_each(|v| b.vcpu(v, 1, 0));
        b.rt(0, 1, 0);
        (1..=3).for_each(|v| _ = b.wake(0, v));
        let ran: std::collections::BTreeSet<_> = (0..3).map(|n| b.turn(n * MS / 2, 0)).collect();
        assert_eq!(ran.len(), 3, "preempted={preempted}: {ran:?}");
    }
    let mut b = e2(make, 1);
    let got = schedule(&mut b, 20);
    let turns = |line: &str| line.as_bytes().chunk_by(|a, b| a == b).map(<[u8]>::len).collect::<Vec<_>>();
    for line in &got {
        assert_eq!(turns(line), [5; 4], "without groups a turn is a slice: {got:?}");
    }
}

/// With its rounds used up a VCPU is UNDER; the first that is scheduled then starts all anew.
pub fn after_rounds(make: &Maker) {
    for preempted in [0, 1] {
        let mut b = e2(make, 2);
        b.set(0, None, "preempted", preempted);
        let all = schedule(&mut b, 40);
        for line in &all {
            let (a, b) = (line.matches(&line[..1]).count(), line.matches(&line[1..2]).count());
            assert!((a, b) == (20, 20), "turn by turn, for ever: {all:?}");
        }
    }
    let mut b = e2(make, 2);
    schedule(&mut b, 10);
    assert_ne!(b.class(1), Class::Rt, "it has had its five turns");
    // One that blocks in a round has none when it wakes (rule P4).
    let mut b = e2(make, 2);
    assert_eq!(b.turn_slice(0, 0), (Some(1), MS));
    assert_eq!(b.class(5), Class::Rt, "it waits for its round behind the other subgroup");
    assert_eq!(b.stop(20 * US, 0), Some(5));
    b.wake(20 * US, 1);
    assert_eq!(b.class(1), Class::Boost);
    assert_eq!(b.turn_slice(40 * US, 0), (Some(5), MS), "RT goes on before BOOST");
    assert_eq!(b.stop(60 * US, 0), Some(1));
    assert_eq!(b.class(1), Class::Rt, "and starts all anew");
}

pub fn spread(make: &Maker) {
    let b = e2(make, 2);
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(|v| b.core.vcpu_cpu(v)), [0, 1, 2, 3, 0, 1, 2, 3]);
    // A VM alone is a group of its own; whoever is not real-time may go anywhere.
    let mut b = Bench::new(make, "poris", 4, 2);
    b.set(0, None, "spread", 1);
    (0..4).for_each(|v| b.vcpu(v, 1 + v / 2, 3));
    (0..4).for_each(|c| b.idle(0, c));
    b.rt(0, 1, 0);
    (0..4).for_each(|v| _ = b.wake(0, v));
    assert_eq!([0, 1, 2, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1, 3, 3]);
    assert_eq!(b.order(0, 2), [2, 3], "not the bound ones");
    // Rule P7: of those that are left the one with the fewest.
    b.rt(0, 2, 0);
    b.pin(0, 2, 0b0111);
    b.wake(0, 2);
    assert_eq!(b.core.vcpu_cpu(2), 2);
    // Not where one of its own is, though fewer are bound there.
    let mut c = Bench::new(make, "poris", 2, 2);
    (0..4).for_each(|v| c.vcpu(v, 1 + v / 2, 0));
    [1, 2].into_iter().for_each(|vm| c.rt(0, vm, 0));
    [2, 3].into_iter().for_each(|v| c.pin(0, v, 0b10));
    [2, 3, 0, 1].into_iter().for_each(|v| _ = c.wake(0, v));
    assert_eq!([0, 1, 2, 3].map(|v| c.core.vcpu_cpu(v)), [0, 1, 1, 1]);
    // Where masks leave none of its own it shares one.
    b.pin(0, 3, 0b0100);
    b.wake(0, 3);
    assert_eq!(b.core.vcpu_cpu(3), 2);
}

/// Four VCPUs in pairs, until there is room: PCPUs that come, and masks.
pub fn again(make: &Maker) {
    let at = |b: &Bench| [1, 2, 3, 4].map(|v| b.core.vcpu_cpu(v));
    let mut b = Bench::new(make, "poris", 2, 1);
    (1..=4).for_each(|v| b.vcpu(v, 1, 0));
    b.rt(0, 1, 0);
    (1..=4).for_each(|v| _ = b.wake(0, v));
    assert_eq!(at(&b), [0, 1, 0, 1]);
    let run = |b: &mut Bench, ms: u64| {
        for cpu in [0, 1].repeat(2) {
            b.stop(ms * MS, cpu);
        }
        (1..=4).for_each(|v| _ = b.wake(ms * MS + 1, v));
    };
    (0..2).for_each(|cpu| _ = b.turn(0, cpu));
    run(&mut b, 1);
    assert_eq!(at(&b), [0, 1, 0, 1], "there is no better one");
    for cpu in [2, 3] {
        b.ok(2 * MS, OpCode::CpuAdd, (cpu, 0, 0), [0; 3]);
    }
    assert_eq!(at(&b), [0, 1, 0, 1], "a queue is not looked at");
    (0..2).for_each(|cpu| _ = b.turn(2 * MS, cpu));
    run(&mut b, 3);
    assert_eq!(at(&b), [2, 3, 0, 1], "each on one of its own; those that are alone stay");
    // Both may run on PCPU 0 only, then one of them on PCPU 1 as well.
    let mut b = Bench::new(make, "poris", 2, 1);
    (1..=2).for_each(|v| b.vcpu(v, 1, 0));
    (1..=2).for_each(|v| b.pin(0, v, 1));
    b.rt(0, 1, 0);
    (1..=2).for_each(|v| _ = b.wake(0, v));
    b.pin(0, 2, 3);
    assert_eq!([1, 2].map(|v| b.core.vcpu_cpu(v)), [0, 0]);
    b.turn(0, 0);
    b.stop(MS, 0);
    b.stop(MS, 0);
    (1..=2).for_each(|v| _ = b.wake(2 * MS, v));
    assert_eq!([1, 2].map(|v| b.core.vcpu_cpu(v)), [0, 1]);
    assert_eq!(b.core.check(), Ok(()));
    // Who shares its PCPU with those of other groups only stays, though another has nobody.
    let mut b = Bench::new(make, "poris", 4, 2);
    [1, 2, 3].into_iter().for_each(|v| b.vcpu(v, 1 + v / 3, 0));
    (1..=2).for_each(|vm| b.rt(0, vm, 0));
    (1..=2).for_each(|v| _ = b.wake(0, v));
    b.pin(0, 3, 1);
    b.wake(0, 3);
    assert_eq!(b.order(0, 0), [1, 3]);
    b.wake(MS, 1);
    assert_eq!([1, 3].map(|v| b.core.vcpu_cpu(v)), [0, 0]);
}

/// Six VCPUs on four PCPUs: four at once, then two, by rounds.
pub fn split(make: &Maker) {
    let mut b = Bench::new(make, "poris", 4, 1);
    b.set(0, None, "latency", 4 * MS);
    (1..=6).for_each(|v| b.vcpu(v, 1, 0));
    b.rt(0, 1, 0);
    (1..=6).for_each(|v| _ = b.wake(0, v));
    assert_eq!([1, 2, 3, 4, 5, 6].map(|v| b.core.vcpu_cpu(v)), [0, 1, 2, 3, 0, 1]);
    assert_eq!(schedule(&mut b, 4), ["1515", "2626", "3333", "4444"]);
}

pub fn refusals(make: &Maker) {
    let mut b = Bench::new(make, "poris", 4, 5);
    for v in 0..10 {
        b.vcpu(v, 1 + v / 3, 0);
    }
    assert_eq!(group(&mut b, 1, 7, 0), 0);
    assert_eq!(group(&mut b, 1, 8, 0), -16, "rule P10: it is in another");
    assert_eq!(group(&mut b, 1, 7, 0), -16, "also where that is the same");
    assert_eq!(group(&mut b, 1, 7, 1), -16, "nor does it change its subgroup");
    assert_eq!(group(&mut b, 2, 7, 0), -28, "six VCPUs on four PCPUs");
    assert_eq!(group(&mut b, 2, 7, 1), 0, "its own subgroup");
    assert_eq!(group(&mut b, 4, 7, 0), 0, "one has room beside three");
    assert_eq!(group(&mut b, 1, 0, 0), 0);
    assert_eq!(group(&mut b, 1, 8, 0), 0, "it has left the other");
    for wrong in [(256, 0), (1, 16), (0, 1)] {
        assert_eq!(group(&mut b, 3, wrong.0, wrong.1), -34, "{wrong:?}");
    }
    assert_eq!(b.op(0, OpCode::SetGroup, (0, 0, 3), [1 << 32, 0, 0]).ret, -34);
    assert_eq!(group(&mut b, 0, 1, 0), -95, "not Dom0");
    assert_eq!(group(&mut b, 99, 1, 0), -2);
    let mut credit = Bench::new(make, "credit", 4, 5);
    assert_eq!(group(&mut credit, 1, 1, 0), -95);
    // A VM of more VCPUs than there are PCPUs takes two subgroups, the second in part.
    let mut b = Bench::new(make, "poris", 2, 3);
    (0..3).for_each(|v| b.vcpu(v, 1, 0));
    b.vcpu(3, 2, 0);
    b.vcpu(4, 3, 0);
    assert_eq!(group(&mut b, 1, 1, 0), 0);
    assert_eq!(group(&mut b, 2, 1, 0), -28);
    assert_eq!(group(&mut b, 2, 1, 1), 0);
    assert_eq!(group(&mut b, 3, 1, 1), -28);
    assert_eq!(b.core.check(), Ok(()));
}

/// Rule P8 counts VCPUs; an I/O thread between them takes no place.
pub fn seats(make: &Maker) {
    let mut b = Bench::new(make, "poris", 2, 1);
    for (v, kind) in [(1, 0), (2, 1), (3, 0), (4, 0), (5, 0)] {
        b.ok(0, OpCode::VcpuAdd, (0, v, 1), [kind, 0, 0]);
    }
    b.rt(0, 1, 0);
    [1, 3, 4, 5].into_iter().for_each(|v| _ = b.wake(0, v));
    assert_eq!([1, 3, 4, 5].map(|v| b.core.vcpu_cpu(v)), [0, 1, 0, 1]);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!([1, 3, 4, 5].map(|v| b.class(v)), [Class::Rt; 4], "two subgroups, and all are launched");
}

/// Rule P11: a launch gives one round at least, also where a round is longer than a slice.
pub fn one_round(make: &Maker) {
    for (t_round, want) in [(9 * MS, 9 * MS), (2 * MS, 2 * MS)] {
        let mut b = e2(make, 2);
        b.set(0, None, "t_round", t_round);
        assert_eq!(b.turn_slice(0, 0), (Some(1), want), "{t_round}");
    }
}

/// Where masks leave no PCPU without a sibling a VCPU shares one, and is bound to it.
pub fn shared(make: &Maker) {
    let mut b = Bench::new(make, "poris", 3, 1);
    for (v, mask) in [(1, 0b001), (2, 0b010), (3, 0b011)] {
        b.vcpu(v, 1, if v == 3 { 1 } else { 0 });
        b.pin(0, v, mask);
    }
    b.rt(0, 1, 0);
    (0..3).for_each(|c| b.idle(0, c));
    (1..=3).for_each(|v| _ = b.wake(0, v));
    assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1, 0], "of two that are used the first");
    assert_eq!(b.order(0, 1), [2], "and PCPU 1 does not take it");
    // One goes; it looks again where it queues next.
    assert_eq!(b.order(0, 0), [3, 1]);
    b.ok(MS, OpCode::VcpuRemove, (0, 2, 0), [0; 3]);
    [1, 3].into_iter().for_each(|v| _ = b.wake(MS, v));
    assert_eq!([1, 3].map(|v| b.core.vcpu_cpu(v)), [0, 1], "a VCPU of its own has left PCPU 1");
}

/// A VM that joins a group loses its bindings until its VCPUs queue again; those that wait may run wherever a PCPU idles.
pub fn unbound(make: &Maker) {
    let mut b = Bench::new(make, "poris", 2, 2);
    b.set(0, None, "spread", 1);
    (1..=2).for_each(|v| b.vcpu(v, v, 0));
    b.pin(0, 2, 1);
    b.rt(0, 1, 0);
    b.wake(0, 2);
    assert_eq!(b.turn(0, 0), Some(2));
    b.idle(0, 1);
    b.pin(0, 1, 1);
    b.wake(0, 1);
    b.pin(0, 1, 3);
    b.idle(0, 1);
    assert_eq!((b.core.vcpu_cpu(1), b.turn(MS, 1)), (0, None), "it waits where it is bound");
    assert_eq!(b.op(MS, OpCode::SetGroup, (0, 0, 1), [1, 0, 0]).kick, 0b10);
    assert_eq!(b.turn(MS, 1), Some(1));
}

/// A VM of more VCPUs than sixteen subgroups have PCPUs: the next VCPU is in the first subgroup
/// again, and starts with it (rule P8).
pub fn wraps(make: &Maker) {
    let mut b = Bench::new(make, "poris", 1, 1);
    (1..=18).for_each(|v| b.vcpu(v, 1, 0));
    b.rt(0, 1, 0);
    (1..=18).for_each(|v| _ = b.wake(0, v));
    assert!(b.turn(0, 0).is_some());
    (1..=18).for_each(|v| assert_eq!(b.class(v), Class::Rt, "VCPU {v} starts with the others"));
}

/// VM 1 is real-time with VCPUs 1 and 2, bound to PCPUs 0 and 1 of three; `others` are a VCPU, its
/// VM and its PCPU.
fn pair(make: &Maker, others: [(u16, u16, u16); 2]) -> Bench {
    let mut b = Bench::new(make, "poris", 3, 3);
    for (v, vm, cpu) in [(1, 1, 0), (2, 1, 1)].into_iter().chain(others) {
        b.vcpu(v, vm, cpu);
    }
    b.rt(0, 1, 0);
    b
}

/// Rule P7: a VCPU may be on every PCPU that none of its siblings has; with spread=one on its own
/// PCPU alone.
pub fn apart(make: &Maker) {
    // Hog 5 of VM 2 runs on PCPU 0.
    let setup = |spread: u64| {
        let mut b = pair(make, [(5, 2, 0), (6, 3, 0)]);
        b.set(0, None, "spread", spread);
        b.pin(0, 5, 0b001);
        b.wake(0, 5);
        assert_eq!(b.turn(0, 0), Some(5));
        b.ok(0, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
        (1..=2).for_each(|v| _ = b.wake(0, v));
        assert_eq!([1, 2].map(|v| b.core.vcpu_cpu(v)), [0, 1]);
        b
    };
    let mut b = setup(0);
    assert_eq!(b.turn(MS, 1), Some(2), "on its own PCPU");
    assert_eq!(b.stop(2 * MS, 1), None, "PCPU 1 is its sibling's, also while that sleeps");
    assert_eq!(b.turn(2 * MS, 2), Some(1), "PCPU 2 is no sibling's");
    // It has PCPU 2 now, and PCPU 0 is free for the other one.
    b.stop(3 * MS, 2);
    b.ok(3 * MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
    b.pin(3 * MS, 6, 0b010);
    b.wake(3 * MS, 6);
    assert_eq!(b.turn(3 * MS, 1), Some(6));
    b.wake(3 * MS, 2);
    assert_eq!(b.stop(3 * MS, 0), Some(2), "where a sibling was");
    assert_eq!(b.core.check(), Ok(()));
    let mut b = setup(1);
    assert_eq!((b.turn(2 * MS, 2), b.state(1)), (None, State::Queued), "it has PCPU 0 alone");
    // A VM of one VCPU is as free as under Credit.
    for (spread, next) in [(0, Some(1)), (1, None)] {
        let mut b = Bench::new(make, "poris", 2, 2);
        b.set(0, None, "spread", spread);
        (1..=2).for_each(|v| b.vcpu(v, v, 0));
        b.rt(0, 1, 0);
        b.pin(0, 2, 0b01);
        b.wake(0, 2);
        assert_eq!(b.turn(0, 0), Some(2));
        b.pin(0, 1, 0b01);
        b.wake(0, 1);
        b.pin(0, 1, 0b11);
        assert_eq!(b.turn(MS, 1), next, "spread={spread}");
    }
}

/// Rule P7: the PCPU that a VCPU leaves is free for its siblings, and is asked if one of them waits.
pub fn left(make: &Maker) {
    for (leaves, cpu) in [(OpCode::Move, 2), (OpCode::VcpuRemove, 0)] {
        let mut b = pair(make, [(5, 2, 2), (6, 3, 1)]);
        b.pin(0, 5, 0b100);
        b.pin(0, 6, 0b010);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        assert_eq!(b.stop(MS, 0), None, "it sleeps, and has PCPU 0");
        for (v, cpu) in [(6, 1), (5, 2)] {
            b.wake(MS, v);
            assert_eq!(b.turn(MS, cpu), Some(v.into()));
        }
        assert_eq!((b.wake(2 * MS, 2).kick, b.core.vcpu_cpu(2)), (0, 1), "PCPU 0 is its sibling's");
        assert_eq!(b.ok(3 * MS, leaves, (cpu, 1, 0), [0; 3]).kick, 0b001, "{leaves:?}: not any more");
        assert_eq!(b.turn(3 * MS, 0), Some(2));
    }
}
