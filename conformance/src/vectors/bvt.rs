// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/baselines.md: borrowed virtual time.

use super::bench::{Bench, MS};
use crate::core::Maker;
use takt_policy::OpCode;

/// VMs 1... with one VCPU each of the same number and these weights, all with work from time 0 on;
/// an allowance of 1 ms.
fn pool(make: &Maker, cpus: u16, weights: &[u64]) -> Bench {
    let mut b = Bench::new(make, "bvt", cpus, weights.len() as u16);
    b.set(0, None, "ctx_allow", MS);
    for (vm, &weight) in (1..).zip(weights) {
        b.set(0, Some(vm), "weight", weight);
        b.vcpu(vm, vm, (vm - 1) % cpus);
        b.wake(0, vm);
    }
    b
}

/// How often `c` is in `text`.
fn count(text: &str, c: char) -> usize {
    text.chars().filter(|&x| x == c).count()
}

/// Rules B19 and B21: time by weight, in turns of the allowance and what the other was ahead.
pub fn weights(make: &Maker) {
    let mut b = pool(make, 1, &[256, 512]);
    assert_eq!(b.watch(0, 0, 13 * MS, MS / 2), "11222222111222222111222222", "each until it is 1 ms of its run later");
    let later = b.watch(0, 13 * MS, 463 * MS, MS / 2);
    assert_eq!((count(&later, '1'), count(&later, '2')), (300, 600));
    // What is set counts from now on.
    b.set(463 * MS, Some(1), "weight", 512);
    let equal = b.watch(0, 463 * MS, 663 * MS, MS);
    assert!((98..=102).contains(&count(&equal, '1')), "{equal}");
}

/// Rule B19: the VCPUs of a VM share its weight, with weights=vcpu each has it.
pub fn siblings(make: &Maker) {
    for (each, want) in [(0, 100), (1, 134)] {
        let mut b = pool(make, 1, &[256, 256]);
        b.set(0, None, "weights", each);
        b.vcpu(3, 2, 0);
        b.wake(0, 3);
        let all = b.watch(0, 0, 200 * MS, MS);
        let own = count(&all, '2') + count(&all, '3');
        assert!((want - 3..=want + 3).contains(&own), "weights={each}: {all}");
    }
}

/// Rule B20: sleep saves no virtual time, and a VCPU that was ahead is ahead when it wakes.
pub fn sleeps(make: &Maker) {
    let mut b = pool(make, 1, &[256, 256]);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.stop(MS, 0), Some(2));
    let alone = b.watch(0, MS, 101 * MS, MS);
    assert_eq!(count(&alone, '2'), 100);
    b.wake(101 * MS, 1);
    let both = b.watch(0, 101 * MS, 121 * MS, MS);
    assert!((9..=12).contains(&count(&both, '1')), "not the 100 ms that it slept: {both}");
    // 3 runs ahead of 4 and sleeps for a moment: that forgives nothing.
    let mut b = pool(make, 1, &[256, 256]);
    b.set(0, None, "ctx_allow", 10 * MS);
    assert_eq!(b.watch(0, 0, 8 * MS, MS), "11111111");
    assert_eq!(b.stop(8 * MS, 0), Some(2));
    b.wake(8 * MS, 1);
    assert_eq!(b.watch(0, 8 * MS, 28 * MS, MS), "22222222222222222211", "8 ms behind, and 10 ms of allowance");
}

/// Rules B21 and B22: a VCPU that borrows preempts at once, if it is earlier by more than the
/// allowance.
pub fn warps(make: &Maker) {
    let mut b = pool(make, 1, &[256, 256, 256]);
    b.set(0, None, "warp", 20 * MS);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.stop(0, 0), Some(2));
    assert_eq!(b.stop(0, 0), Some(3));
    b.rt(0, 1, 20 * MS);
    assert_eq!(b.wake(100_000, 2).kick, 0, "no earlier than 3 by the allowance");
    assert_eq!(b.wake(200_000, 1).kick, 1, "20 ms earlier");
    assert_eq!(b.turn(200_000, 0), Some(1));
    // With a warp within the allowance it waits.
    let mut b = pool(make, 1, &[256, 256]);
    b.set(0, None, "warp", MS / 2);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.stop(0, 0), Some(2));
    b.rt(0, 1, 20 * MS);
    assert_eq!(b.wake(MS / 4, 1).kick, 0);
    // Dom0 works for real-time VMs, unless it shall not count.
    for (mode, kick) in [(0, 1), (2, 0)] {
        let mut b = pool(make, 1, &[256, 256]);
        b.set(0, Some(0), "rt", mode);
        b.vcpu(3, 0, 0);
        assert_eq!(b.turn(0, 0), Some(1));
        b.rt(0, 2, 20 * MS);
        assert_eq!(b.wake(MS, 3).kick, kick, "rt={mode}");
    }
}

/// Rule B22: what is borrowed is paid back, so a VM that is taken for real-time gains `warp` once.
pub fn pays_back(make: &Maker) {
    let mut b = pool(make, 1, &[256, 256]);
    b.set(0, None, "warp", 30 * MS);
    b.set(0, None, "warp_limit", 10_000 * MS);
    b.rt(0, 2, 20 * MS);
    let all = b.watch(0, 0, 1000 * MS, MS);
    assert!((510..=520).contains(&count(&all, '2')), "half, and half of 30 ms: {all}");
}

/// Rule B23: without a block no longer than the limit at a time, then not for `unwarp`.
pub fn limit(make: &Maker) {
    let mut b = pool(make, 1, &[256, 256]);
    for (name, value) in [("warp", 1000 * MS), ("warp_limit", 5 * MS), ("unwarp", 20 * MS)] {
        b.set(0, None, name, value);
    }
    b.rt(0, 2, 20 * MS);
    assert_eq!(b.turn(0, 0), Some(1), "it was first");
    assert_eq!(b.stop(0, 0), Some(2));
    b.wake(0, 1);
    let all = b.watch(0, 0, 25 * MS, MS);
    assert_eq!((count(&all[..5], '2'), count(&all[5..11], '1')), (5, 6), "5 ms, which the other has after it: {all}");
    // A block begins a new run.
    let mut b = pool(make, 1, &[256, 256]);
    for (name, value) in [("warp", 1000 * MS), ("warp_limit", 5 * MS), ("unwarp", 20 * MS)] {
        b.set(0, None, name, value);
    }
    b.rt(0, 2, 20 * MS);
    assert_eq!(b.turn(0, 0), Some(1));
    for now in [1, 6, 11].map(|t| t * MS) {
        if now > MS {
            assert_eq!(b.wake(now, 2).kick, 1, "{now}: before the limit");
        }
        assert_eq!(b.turn(now, 0), Some(2), "{now}");
        assert_eq!(b.stop(now + 4 * MS, 0), Some(1));
    }
}

/// Rule B24: virtual time is the pool's, so three VCPUs have two PCPUs in equal parts.
pub fn pool_wide(make: &Maker) {
    let mut b = pool(make, 2, &[256; 3]);
    let (mut ran, mut now) = ([0; 4], 0);
    while now < 600 * MS {
        for cpu in 0..2 {
            let on = b.watch(cpu, now, now + MS, MS);
            ran[on.parse::<usize>().expect("no PCPU idles")] += 1;
        }
        now += MS;
    }
    for v in 1..=3 {
        assert!((390..=410).contains(&ran[v]), "{ran:?}");
    }
    // A PCPU that idles takes what waits, however late it is.
    let mut b = pool(make, 2, &[256, 256, 256]);
    b.serve(0);
    b.watch(0, 0, 50 * MS, MS);
    assert!(b.stop(50 * MS, 1).is_some(), "one waits");
}

/// Rule B24: where masks let a VCPU run alone it is far ahead; that is forgiven but for a slice.
pub fn forgiven(make: &Maker) {
    let mut b = pool(make, 2, &[256; 4]);
    b.pin(0, 1, 1);
    (2..=4).for_each(|v| b.pin(0, v, 2));
    for now in (0..3000).map(|t| t * MS) {
        b.serve(now);
    }
    b.set(3000 * MS, None, "warp", 20 * MS);
    b.pin(3000 * MS, 2, 1);
    let both = b.watch(0, 3000 * MS, 3200 * MS, MS);
    let first = both.chars().take_while(|&c| c == '2').count();
    assert!((49..=55).contains(&first), "a slice, the allowance, the warp, an allowance: {both}");
    assert!((70..=76).contains(&count(&both, '1')), "then both: {both}");
}

/// A yield lets the next VCPU run, even if the one that yields is earlier.
pub fn yields(make: &Maker) {
    let mut b = pool(make, 1, &[256, 256]);
    b.set(0, None, "ctx_allow", 100 * MS);
    assert_eq!(b.turn(0, 0), Some(1));
    b.ok(MS, OpCode::Yield, (0, 1, 0), [0xffff, 0, 0]);
    assert_eq!(b.turn(MS, 0), Some(2));
    assert_eq!(b.turn(2 * MS, 0), Some(2), "once");
    // Alone it runs on, and gives way to no VCPU that comes later.
    let mut b = pool(make, 1, &[256, 256]);
    b.set(0, None, "ctx_allow", 100 * MS);
    assert_eq!(b.turn(0, 0), Some(1));
    assert_eq!(b.stop(0, 0), Some(2));
    b.ok(MS, OpCode::Yield, (0, 2, 0), [0xffff, 0, 0]);
    assert_eq!(b.turn(MS, 0), Some(2));
    b.wake(2 * MS, 1);
    assert_eq!(b.turn(3 * MS, 0), Some(2));
}

/// Rule B20: a VCPU with a PCPU of its own does not hold back the time of the others, which says which of them is ahead.
pub fn held_back(make: &Maker) {
    let mut b = Bench::new(make, "bvt", 2, 3);
    b.set(0, None, "ctx_allow", MS);
    b.set(0, Some(1), "weight", 1024);
    b.vcpu(1, 1, 0);
    b.pin(0, 1, 1);
    for (v, vm) in [(2, 2), (3, 2), (4, 2), (5, 3)] {
        b.vcpu(v, vm, 1);
        b.pin(0, v, 2);
    }
    (1..=5).for_each(|v| _ = b.wake(0, v));
    let ran = b.watch(1, 0, 2_000 * MS, MS);
    assert!((980..=1020).contains(&count(&ran, '5')), "a VM of one VCPU beside one of three: {}", count(&ran, '5'));
}

/// Virtual time is a VM's as well (bvt): a new thread is as far ahead as the one before it was.
pub fn outlives(make: &Maker) {
    for (debts, next) in [(1, 9), (0, 2)] {
        let mut b = Bench::new(make, "bvt", 1, 2);
        b.set(0, None, "debts", debts);
        b.vcpu(1, 1, 0);
        b.vcpu(9, 2, 0);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        b.wake(0, 9);
        assert_eq!(b.stop(5 * MS, 0), Some(9));
        b.ok(5 * MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
        b.vcpu(2, 1, 0);
        b.wake(5 * MS, 2);
        assert_eq!(b.turn(11 * MS, 0), Some(next), "debts={debts}");
        assert_eq!(b.core.check(), Ok(()));
    }
}
