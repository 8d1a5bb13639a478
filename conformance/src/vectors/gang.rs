// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/baselines.md: co-scheduling and balance scheduling.

use super::bench::{Bench, IO, MS};
use crate::core::Maker;
use takt_policy::{Class, OpCode};

const CO: u64 = 1;
const BALANCE: u64 = 0;

/// Two PCPUs; VMs 1 to 3 have two VCPUs each: VM n 2n - 1 and 2n. None is real-time.
fn pool(make: &Maker, turns: u64) -> Bench {
    let mut b = Bench::new(make, "gang", 2, 3);
    assert_eq!(b.set(0, None, "turns", turns).ret, 0);
    (1..=6).for_each(|v| b.vcpu(v, v.div_ceil(2), 0));
    b
}

/// Who runs on both PCPUs at the end of what is due.
fn both(b: &mut Bench, t: u64) -> String {
    b.watch(0, t, t + 1, 1) + &b.watch(1, t, t + 1, 1)
}

pub fn turns(make: &Maker) {
    let mut b = pool(make, CO);
    (1..=6).for_each(|v| _ = b.wake(0, v));
    let got: Vec<String> = (0..180).map(|ms| both(&mut b, ms * MS)).collect();
    for (n, want) in ["12", "34", "56", "12", "34", "56"].into_iter().enumerate() {
        assert_eq!(got[n * 30..n * 30 + 30], vec![want; 30], "turn {n}: a slice, together");
    }
    // Two of three VMs sleep: the turn begins anew at its end.
    let mut b = pool(make, CO);
    [3, 4].into_iter().for_each(|v| _ = b.wake(0, v));
    assert!((0..100).all(|ms| both(&mut b, ms * MS) == "34"));
}

pub fn left(make: &Maker) {
    // VCPU 2 sleeps: what it leaves of VM 1's turn VM 2 has, until VM 2 starts as a whole.
    let mut b = pool(make, CO);
    [1, 3, 4].into_iter().for_each(|v| _ = b.wake(0, v));
    let first = both(&mut b, 0);
    assert!(first == "14" || first == "13", "{first}");
    assert!((1..30).all(|ms| both(&mut b, ms * MS) == first));
    let second = both(&mut b, 30 * MS);
    assert!(second.contains('3') && second.contains('4'), "{second}");
    assert!((30..59).all(|ms| both(&mut b, ms * MS) == second));
    // Whoever wakes in its VM's turn preempts others, and is stopped with it.
    let res = b.wake(59 * MS, 2);
    assert_eq!(res.kick, 0, "it is VM 2's turn");
    assert_eq!(both(&mut b, 59 * MS).len(), 2);
    assert_eq!(both(&mut b, 60 * MS), "12");
    assert_eq!(both(&mut b, 89 * MS), "12");
    b.stop(89 * MS, 1);
    b.wake(89 * MS, 2);
    assert_eq!((b.class(2), b.turn_slice(89 * MS, 1)), (Class::Rt, (Some(2), MS)));
    let next = both(&mut b, 90 * MS);
    assert!(next == "34" || next == "43", "both stop: {next}");
    // A turn in which nobody can run is over, for all of the next VM.
    let mut b = pool(make, CO);
    (1..=4).for_each(|v| _ = b.wake(0, v));
    assert_eq!(both(&mut b, 0), "12");
    b.stop(5 * MS, 0);
    assert_eq!(b.class(4), Class::Under, "VM 1 has its turn as long as one can run");
    b.stop(6 * MS, 1);
    assert_eq!(both(&mut b, 6 * MS), "34");
    assert_eq!([b.class(3), b.class(4)], [Class::Rt; 2]);
    assert_eq!(both(&mut b, 35 * MS), "34");
}

/// A turn ends at its end, not after it, and takes the class from all of its VM, also from those that queue.
pub fn ends(make: &Maker) {
    for (now, class) in [(30 * MS - 1, Class::Rt), (30 * MS, Class::Under), (30 * MS + 1, Class::Under)] {
        let mut b = pool(make, CO);
        [1, 3, 4].into_iter().for_each(|v| _ = b.wake(0, v));
        both(&mut b, 0);
        b.wake(now, 2);
        assert_eq!(b.class(2), class, "a VCPU that wakes at {now}");
    }
    let mut b = pool(make, CO);
    b.vcpu(7, 1, 0);
    [1, 2, 7, 3, 4].into_iter().for_each(|v| _ = b.wake(0, v));
    both(&mut b, 0);
    let class = |b: &Bench| [1, 2, 7, 3, 4].map(|v| b.class(v) == Class::Rt);
    assert_eq!(class(&b), [true, true, true, false, false], "one of three queues");
    let next = both(&mut b, 30 * MS);
    assert!(next.contains('3') && next.contains('4'), "{next}");
    assert_eq!(class(&b), [false, false, false, true, true], "no class outlives its turn");
}

/// What a turn gave ends where turns are switched off while they are taken.
pub fn turns_end(make: &Maker) {
    let mut b = Bench::new(make, "gang", 1, 2);
    (1..=2).for_each(|v| b.vcpu(v, v, 0));
    (1..=2).for_each(|v| _ = b.wake(0, v));
    assert_eq!((b.turn(0, 0), b.class(1)), (Some(1), Class::Rt));
    assert_eq!(b.set(MS, None, "turns", 0).ret, 0);
    b.turn(30 * MS, 0);
    assert_ne!(b.class(1), Class::Rt, "no class without turns");
    let ran = b.watch(0, 30 * MS, 150 * MS, MS);
    assert!(ran.contains('1') && ran.contains('2'), "{ran}");
}

pub fn no_urgency(make: &Maker) {
    let mut b = pool(make, CO);
    b.rt(0, 2, 0);
    [1, 2].into_iter().for_each(|v| _ = b.wake(0, v));
    assert_eq!(both(&mut b, 0), "12");
    b.event(MS, 3, IO);
    let res = b.wake(MS, 3);
    assert_eq!((res.kick, b.class(3)), (0, Class::Under), "nobody is boosted, nor promoted");
    assert_eq!((b.event(2 * MS, 3, IO).kick, b.class(3)), (0, Class::Under));
    assert_eq!(both(&mut b, 29 * MS), "12");
    assert!(both(&mut b, 30 * MS).contains('3'));
}

pub fn spread(make: &Maker) {
    let mut b = pool(make, BALANCE);
    (0..2).for_each(|c| b.idle(0, c));
    (1..=4).for_each(|v| _ = b.wake(0, v));
    let at = [1, 2, 3, 4].map(|v| b.core.vcpu_cpu(v));
    assert!(at[0] != at[1] && at[2] != at[3], "{at:?}");
    assert_eq!([1, 2, 3, 4].map(|v| b.class(v)), [Class::Boost; 4], "as Credit");
    // Real-time or not: nobody starts others, nor is taken out of turn.
    b.rt(0, 1, 0);
    let res = b.ok(0, OpCode::Schedule, (0, 0, 0), [0; 3]);
    assert_eq!((res.next, res.slice), (1, 30 * MS));
    assert_eq!([b.class(1), b.class(2)], [Class::Boost; 2]);
}

pub fn taken(make: &Maker) {
    let mut b = pool(make, BALANCE);
    [1, 2].into_iter().for_each(|v| _ = b.wake(0, v));
    assert_eq!(both(&mut b, 0), "12");
    // 3 waits behind 1; PCPU 1 idles: it may go there, where 4 is not.
    b.pin(0, 3, 0b01);
    b.wake(0, 3);
    assert_eq!(b.core.vcpu_cpu(3), 0);
    b.pin(0, 3, 0b11);
    assert_eq!(b.stop(MS, 1), Some(3));
    // Its sibling is bound to that PCPU: it waits.
    b.pin(MS, 4, 0b01);
    b.wake(MS, 4);
    b.pin(MS, 4, 0b11);
    assert_eq!(b.core.vcpu_cpu(4), 0);
    assert_eq!(b.stop(2 * MS, 1), None, "4 has its sibling there");
    // What queues while a PCPU idles goes there, unless a sibling is bound to it.
    b.wake(3 * MS, 5);
    assert_eq!(b.core.vcpu_cpu(5), 1);
    b.wake(3 * MS, 6);
    assert_eq!(b.core.vcpu_cpu(6), 0);
}
