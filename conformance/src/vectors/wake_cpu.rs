// SPDX-License-Identifier: GPL-2.0-only
//! Which VCPUs are boosted, and where they queue: docs/rules/credit.md, C46 and C47.

use super::bench::{Bench, IO, MS, US};
use crate::core::Maker;
use takt_policy::{Class, NEVER, OpCode};

const POLICIES: [&str; 4] = ["credit", "doris", "laxs", "poris"];
const TURN: u64 = 40 * US;

/// On PCPU 0 VCPU 1 runs, boosted, on PCPU 1 VCPU 2, UNDER, on PCPUs 2 and 3 VCPUs 3 and 4, OVER. VCPUs 5 and 6 of VMs 5
/// and 6 are blocked on PCPU 0. It is 32 ms.
fn busy(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 4, 6);
    b.set(0, None, "wake_cpu", 1);
    for v in [3, 4] {
        assert_eq!(b.set(0, Some(v), "weight", 1).ret, 0);
    }
    for (v, cpu) in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 0), (6, 0)] {
        b.vcpu(v, v, cpu);
    }
    for (v, cpu) in [(2, 1), (3, 2), (4, 3)] {
        b.wake(0, v);
        assert_eq!(b.turn(0, cpu), Some(v.into()));
    }
    (1..4).for_each(|cpu| _ = b.timer(10 * MS, cpu));
    b.account(30 * MS);
    b.wake(31 * MS, 1);
    b.turn(31 * MS, 0);
    assert_eq!([1, 2, 3, 4].map(|v| b.class(v)), [Class::Boost, Class::Under, Class::Over, Class::Over], "{policy}");
    b
}

/// The PCPUs that VCPU 5 kicks as it wakes: where it is the first, or none.
fn kicks(b: &mut Bench) -> u64 {
    let kick = b.wake(32 * MS, 5).kick;
    assert_eq!(b.core.check(), Ok(()));
    kick
}

/// Where its VCPUs rank lowest, of its masks, and not where a better one waits or another class has the PCPU.
pub fn first(make: &Maker) {
    for policy in POLICIES {
        let mut b = busy(make, policy);
        assert_eq!(kicks(&mut b), 1 << 2, "{policy}");
        assert_eq!(b.turn(32 * MS, 2), Some(5), "{policy}");
        let mut b = busy(make, policy);
        b.set(31 * MS, None, "wake_cpu", 0);
        assert_eq!(kicks(&mut b), 0, "{policy}: it stays with wake_cpu=own");
        let mut b = busy(make, policy);
        b.set(31 * MS, None, "eligible", 2);
        assert_eq!(kicks(&mut b), 0, "{policy}: it has saved nothing, so it is not boosted and waits");
        let mut b = busy(make, policy);
        b.pin(31 * MS, 5, 0b0011);
        assert_eq!(kicks(&mut b), 1 << 1, "{policy}: UNDER is better than to wait");
        let mut b = busy(make, policy);
        b.pin(31 * MS, 5, 0b0001);
        assert_eq!(kicks(&mut b), 0, "{policy}: it may run there only");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::SetAffinity, (0, 5, 0), [1, 0b1000, 0]);
        assert_eq!(kicks(&mut b), 1 << 3, "{policy}: of two, the one of its soft affinity");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::SetAffinity, (0, 5, 0), [1, 0b0010, 0]);
        assert_eq!(kicks(&mut b), 1 << 1, "{policy}: the only one of its soft affinity");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::SetAffinity, (0, 5, 0), [1, 0b0001, 0]);
        assert_eq!(kicks(&mut b), 0, "{policy}: its soft affinity leaves no other");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::CpuRelease, (2, 0, 0), [0; 3]);
        assert_eq!(kicks(&mut b), 1 << 3, "{policy}: PCPU 2 is taken");
        let mut b = busy(make, policy);
        b.wake(31 * MS, 6);
        assert_eq!(kicks(&mut b), 1 << 3, "{policy}: on PCPU 2 another one waits");
        let mut b = busy(make, policy);
        b.stop(31 * MS, 0);
        assert_eq!(kicks(&mut b), 1, "{policy}: its own PCPU is as good as any other");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::VcpuAdd, (1, 7, 5), [0; 3]);
        assert_eq!(b.wake(32 * MS, 7).kick, 1 << 1, "{policy}: it is the first on its own PCPU, before UNDER");
        let mut b = busy(make, policy);
        b.ok(31 * MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
        assert_eq!(kicks(&mut b), 1 << 2, "{policy}: its own PCPU is taken");
    }
    // One that is preempted, or has had its slice, likewise: for VCPU 1, which is boosted, that is PCPU 2.
    for policy in POLICIES {
        let mut b = busy(make, policy);
        b.pin(31 * MS, 5, 0b0001);
        b.wake(32 * MS, 5);
        b.ok(32 * MS, OpCode::Yield, (0, 1, 0), [0xffff, 0, 0]);
        assert_eq!(b.ok(32 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 5, "{policy}");
        let kick = b.ok(32 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]).kick;
        assert_eq!(kick, 1 << 2, "{policy}");
    }
    // An event that promotes it next changes nothing, whether a boosted VCPU runs on its PCPU or one that is promoted.
    for rt in [false, true] {
        let mut b = busy(make, "doris");
        [1, 5].iter().for_each(|&vm| b.rt(31 * MS, vm, 0));
        if rt {
            b.stop(31 * MS, 0);
            b.event(31 * MS, 1, IO);
            b.wake(31 * MS, 1);
            b.turn(31 * MS, 0);
            assert_eq!(b.class(1), Class::Rt);
        }
        b.event(32 * MS, 5, IO);
        assert_eq!((kicks(&mut b), b.class(5)), (1 << 2, Class::Rt));
    }
    // S binds its real-time VCPU, wherever it would be the first.
    let mut b = busy(make, "laxs");
    b.rt(31 * MS, 5, 0);
    assert_eq!(kicks(&mut b), 0);
}

/// Where several boosted VCPUs want one PCPU they take turns of 40 us, in the order of their wakes.
pub fn turns(make: &Maker) {
    for policy in POLICIES {
        for preempted in [0, 1] {
            let mut b = alone(make, policy, TURN);
            b.set(0, None, "preempted", preempted);
            // VCPU 1 has run for 20 us when VCPU 2 wakes, and VCPU 3 wakes in the turn of VCPU 2.
            b.wake(20 * US, 2);
            assert_eq!(b.watch(0, 20 * US, 70 * US, 10 * US), "11222", "{policy}");
            b.wake(70 * US, 3);
            assert_eq!(b.watch(0, 70 * US, 330 * US, 10 * US), "21111333322221111333322221", "{policy}");
            assert_eq!([1, 2, 3].map(|v| b.class(v)), [Class::Boost; 3], "{policy}");
        }
        // VCPU 1 has had its turn when VCPU 2 wakes: VCPU 2 runs at once.
        let mut b = alone(make, policy, TURN);
        assert_eq!(b.watch(0, 0, MS, 500 * US), "11", "{policy}");
        assert_eq!(b.wake(MS, 2).kick, 1, "{policy}");
        assert_eq!(b.watch(0, MS, MS + 80 * US, 20 * US), "2211", "{policy}");
        // A decision within a turn changes nothing; under Poris it ends the turn.
        let mut b = alone(make, policy, TURN);
        b.set(0, None, "preempted", 1);
        b.wake(20 * US, 2);
        b.turn(30 * US, 0);
        let expected = if policy == "poris" { "22221" } else { "12222" };
        assert_eq!(b.watch(0, 30 * US, 80 * US, 10 * US), expected, "{policy}");
        // Without turns VCPU 2 waits for the slice of VCPU 1.
        let mut b = alone(make, policy, 0);
        b.wake(20 * US, 2);
        assert_eq!(b.watch(0, 20 * US, 2 * MS, 500 * US), "1111", "{policy}");
        // A VCPU that is UNDER waits for a slice.
        let mut b = alone(make, policy, TURN);
        b.set(0, None, "eligible", 2);
        b.wake(20 * US, 2);
        assert_eq!(b.class(2), Class::Under, "{policy}");
        assert_eq!(b.watch(0, 20 * US, 2 * MS, 500 * US), "1111", "{policy}");
        // A tick ends a boost, and its turn with it; where an accounting pass ends the boost, the turn goes on.
        for (stop, at, expected) in [(MS, 20 * MS, "1122222222"), (21 * MS, 30 * MS, "1111112222")] {
            let mut b = alone(make, policy, TURN);
            b.set(0, None, "tick", 20 * MS);
            b.watch(0, 0, stop, MS);
            b.stop(stop, 0);
            b.wake(at - 20 * US, 1);
            b.turn(at - 20 * US, 0);
            b.wake(at - 10 * US, 2);
            let ran = b.watch(0, at - 10 * US, at + 40 * US, 5 * US);
            assert_eq!((ran.as_str(), b.class(1)), (expected, Class::Under), "{policy}");
        }
        // VCPU 2, which an accounting pass finds in the queue, has one turn before VCPU 3, which is boosted later.
        let mut b = alone(make, policy, TURN);
        [("activate", 1), ("tick", 20 * MS)].iter().for_each(|&(name, value)| _ = b.set(0, None, name, value));
        b.stop(MS, 0);
        b.run(2, 0, 2 * MS, 3 * MS);
        b.wake(30 * MS - 20 * US, 1);
        b.turn(30 * MS - 20 * US, 0);
        b.wake(30 * MS - 10 * US, 2);
        b.account(30 * MS);
        assert_eq!([1, 2].map(|v| b.class(v)), [Class::Under; 2], "{policy}");
        b.wake(30 * MS, 3);
        assert_eq!(b.watch(0, 30 * MS, 30 * MS + 80 * US, 10 * US), "22223333", "{policy}");
        // A turn is no shorter than the rate limit, and no kick comes before.
        let mut b = alone(make, policy, TURN);
        b.set(0, None, "ratelimit", MS);
        b.wake(20 * US, 2);
        b.turn(20 * US, 0);
        assert_eq!((b.wake(500 * US, 3).kick, b.core.cpu_timer(0)), (0, MS), "{policy}");
        // While another class of the kernel has the PCPU, VCPU 1 does not run, and its turn stops.
        let mut b = alone(make, policy, TURN);
        b.ok(10 * US, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
        b.wake(20 * US, 2);
        assert!(b.core.cpu_timer(0) > MS, "{policy}");
        b.ok(MS, OpCode::CpuAcquire, (0, 0, 0), [0; 3]);
        let ran = b.watch(0, MS, MS + 80 * US, 10 * US);
        assert_eq!(ran, "11122221", "{policy}: its turn goes on when it has the PCPU again");
    }
    // A boosted VCPU waits where no other boosted VCPU does.
    for policy in POLICIES {
        let mut b = Bench::new(make, policy, 2, 5);
        b.set(0, None, "wake_cpu", 1);
        [(1, 0), (2, 1), (3, 0), (4, 0), (5, 0)].iter().for_each(|&(v, cpu)| b.vcpu(v, v, cpu));
        [(1, 0), (2, 1)].iter().for_each(|&(v, cpu)| {
            b.wake(0, v);
            assert_eq!(b.turn(0, cpu), Some(v.into()), "{policy}");
        });
        [3, 4, 5].iter().for_each(|&v| _ = b.wake(10 * US, v));
        assert_eq!([3, 4, 5].map(|v| b.core.vcpu_cpu(v)), [0, 1, 0], "{policy}");
    }
    // A place by laxity is lost with the turn.
    let mut b = Bench::new(make, "laxs", 1, 3);
    b.set(0, None, "boost_turn", TURN);
    (1..=3).for_each(|v| b.vcpu(v, v, 0));
    b.rt(0, 1, 0);
    b.run(2, 0, 0, MS);
    b.run(3, 0, MS, 2 * MS);
    b.wake(2 * MS, 1);
    assert_eq!(b.turn(2 * MS, 0), Some(1));
    [2, 3].iter().for_each(|&v| _ = b.wake(2 * MS, v));
    assert_eq!(b.watch(0, 2 * MS, 2 * MS + 160 * US, 20 * US), "11223311");
    // A VCPU that is promoted again and again does not keep boosted VCPUs waiting.
    let mut b = alone(make, "doris", TURN);
    b.set(0, None, "preempted", 1);
    b.rt(0, 3, 0);
    b.wake(10 * US, 2);
    b.event(30 * US, 3, IO);
    b.wake(30 * US, 3);
    assert_eq!(b.turn(30 * US, 0), Some(3));
    assert_eq!(b.stop(35 * US, 0), Some(2), "its turn is over when it is preempted");
    // A boosted VCPU waits behind promoted VCPUs.
    let mut b = alone(make, "doris", TURN);
    b.rt(0, 3, 0);
    b.wake(20 * US, 2);
    b.event(30 * US, 3, IO);
    b.wake(30 * US, 3);
    assert_eq!(b.watch(0, 30 * US, 80 * US, 10 * US), "33333");
}

/// On one PCPU VCPU 1 of VM 1 runs boosted since 0; VCPUs 2 and 3 of VMs 2 and 3 are blocked.
fn alone(make: &Maker, policy: &str, boost_turn: u64) -> Bench {
    let mut b = Bench::new(make, policy, 1, 3);
    b.set(0, None, "boost_turn", boost_turn);
    (1..=3).for_each(|v| b.vcpu(v, v, 0));
    b.wake(0, 1);
    assert_eq!((b.turn(0, 0), b.class(1)), (Some(1), Class::Boost), "{policy}");
    b
}

/// With eligible=saved a VCPU that has used all of its share stays UNDER when it wakes; one of Dom0 does not, nor one with rt=on.
pub fn boosted(make: &Maker) {
    for policy in POLICIES {
        let class = |eligible, rt, dom0, ran: u64| {
            let mut b = Bench::new(make, policy, 1, 2);
            b.set(0, None, "eligible", eligible);
            b.set(0, None, "surplus", 1);
            b.vcpu(1, if dom0 { 0 } else { 1 }, 0);
            b.vcpu(2, 2, 0);
            if rt {
                assert_eq!(b.set(0, Some(1), "rt", 1).ret, 0);
            }
            for i in 0..8 {
                let now = i * 30 * MS;
                b.run(1, 0, now, now + ran);
                b.run(2, 0, now + ran, now + 30 * MS);
                b.account(now + 30 * MS);
            }
            b.wake(240 * MS, 1);
            assert_eq!(b.core.check(), Ok(()));
            b.class(1)
        };
        let much = 14 * MS;
        assert_eq!(class(2, false, false, much), Class::Under, "{policy}");
        assert_eq!(class(2, false, false, MS), Class::Boost, "{policy}: it saves");
        assert_eq!(class(1, false, false, much), Class::Boost, "{policy}: UNDER is enough with class");
        assert_eq!(class(2, true, false, much), Class::Boost, "{policy}: an operator trusts it");
        assert_eq!(class(2, false, true, much), Class::Boost, "{policy}: Dom0");
    }
}
