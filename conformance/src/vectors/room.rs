// SPDX-License-Identifier: GPL-2.0-only
//! Room for servers, and what becomes of those without one (`policy/core/server.h`, `room.h`).

use super::bench::{Bench, MS};
use super::rtxen::{DEFERRABLE, pool};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

const REFUSED: i32 = -28;
/// A kind of VCPU.
const IO_THREAD: u64 = 1;
const PARTITIONED: [&str; 2] = ["rtxen", "sedf"];

/// VMs 1 to 3, whose VCPUs are pairs of (VCPU, VM), all on PCPU 0; periods of 100 ms.
fn machine(make: &Maker, policy: &str, cpus: u16, vcpus: &[(u16, u16)]) -> Bench {
    let mut b = Bench::new(make, policy, cpus, 3);
    vcpus.iter().for_each(|&(v, vm)| b.vcpu(v, vm, 0));
    (1..=3).for_each(|vm| _ = b.set(0, Some(vm), "period", 100 * MS));
    b
}

pub fn refusals(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        let mut b = machine(make, policy, 1, &[(1, 1), (2, 2), (3, 3)]);
        let mut set = |vm, percent: u64| b.set(0, Some(vm), "budget", percent * MS).ret;
        assert_eq!(set(1, 90), 0);
        assert_eq!(set(2, 6), REFUSED, "{policy}: 5 % are the reserve");
        assert_eq!(set(2, 5), 0);
        assert_eq!(set(3, 1), REFUSED);
        assert_eq!(set(2, 6), REFUSED, "{policy}: and nothing has changed");
        assert_eq!(set(2, 4), 0, "{policy}: less is always free");
        assert_eq!(set(3, 1), 0);
        assert_eq!(set(1, 101), -34, "{policy}: more than the period (rule K11)");
        assert_eq!(b.set(0, None, "reserve", 0).ret, 0);
        assert_eq!(b.set(0, Some(3), "budget", 6 * MS).ret, 0);
        assert_eq!(b.set(0, Some(3), "budget", 6 * MS + 100).ret, REFUSED, "{policy}: a millionth");
        assert_eq!(b.set(0, None, "reserve", 1).ret, REFUSED, "{policy}: all is promised");
        assert_eq!(b.set(0, Some(1), "budget", 89 * MS).ret, 0);
        assert_eq!(b.set(0, None, "reserve", 1).ret, 0);
        assert_eq!(b.set(0, None, "reserve", 0).ret, 0);
        assert_eq!(b.set(0, Some(1), "period", 10_000 * MS).ret, 0, "{policy}: a smaller share");
        assert_eq!(b.set(0, Some(3), "budget", 90 * MS).ret, 0);
        // Three thirds are one PCPU (rules E14 and K22).
        let mut b = machine(make, policy, 1, &[(1, 1), (2, 2), (3, 3)]);
        b.set(0, None, "reserve", 0);
        for vm in 1..=3 {
            assert_eq!(b.set(0, Some(vm), "budget", MS).ret, 0);
            assert_eq!(b.set(0, Some(vm), "period", 3 * MS).ret, 0, "{policy}");
            b.wake(0, vm);
            assert_eq!(b.class(vm), Class::Rt, "{policy}: the third, too");
        }
        // A share of less than a millionth is one.
        let mut b = machine(make, policy, 1, &[(1, 1), (2, 2)]);
        b.set(0, None, "reserve", 0);
        b.set(0, Some(2), "period", 10_000 * MS);
        assert_eq!(b.set(0, Some(1), "budget", 100 * MS).ret, 0);
        assert_eq!(b.set(0, Some(2), "budget", 1_000).ret, REFUSED, "{policy}: all is promised");
        assert_eq!(b.set(0, Some(1), "budget", 99 * MS).ret, 0);
        assert_eq!(b.set(0, Some(2), "budget", 1_000).ret, 0, "{policy}");
        // No arithmetic overflows: 10 s of 10 s is one PCPU.
        let mut b = machine(make, policy, 1, &[(1, 1)]);
        b.set(0, None, "reserve", 0);
        b.set(0, Some(1), "period", 10_000 * MS);
        assert_eq!(b.set(0, Some(1), "budget", 10_000 * MS).ret, 0);
        assert_eq!(b.core.check(), Ok(()));
    }
}

pub fn partitioned(make: &Maker) {
    for policy in PARTITIONED {
        let mut b = machine(make, policy, 1, &[(1, 1), (2, 1)]);
        assert_eq!(b.set(0, Some(1), "budget", 50 * MS).ret, REFUSED, "{policy}: each of its VCPUs needs as much");
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 1), (3, 2), (4, 3)]);
        assert_eq!(b.set(0, Some(1), "budget", 50 * MS).ret, 0);
        assert_eq!(b.set(0, Some(2), "budget", 50 * MS).ret, REFUSED, "{policy}: 45 % on each make no 50");
        assert_eq!(b.set(0, Some(2), "budget", 40 * MS).ret, 0);
        b.wake(0, 1);
        b.wake(0, 2);
        assert_ne!(b.core.vcpu_cpu(1), b.core.vcpu_cpu(2), "{policy}: the PCPU with most room");
        // Masks count: there is room, but not where it may run.
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 2)]);
        b.pin(0, 1, 0b01);
        b.pin(0, 2, 0b01);
        assert_eq!(b.set(0, Some(1), "budget", 60 * MS).ret, 0);
        assert_eq!(b.set(0, Some(2), "budget", 60 * MS).ret, REFUSED, "{policy}");
        b.pin(0, 2, 0b11);
        assert_eq!(b.set(0, Some(2), "budget", 60 * MS).ret, 0);
        // Two of one PCPU that grow need two.
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 1), (3, 2)]);
        b.pin(0, 1, 0b01);
        b.pin(0, 2, 0b01);
        assert_eq!(b.set(0, Some(1), "budget", 40 * MS).ret, 0);
        b.pin(0, 1, 0b11);
        b.pin(0, 2, 0b11);
        assert_eq!(b.set(0, Some(1), "budget", 60 * MS).ret, 0);
        b.wake(0, 1);
        b.wake(0, 2);
        assert_eq!((b.class(1), b.class(2)), (Class::Rt, Class::Rt), "{policy}: who is let in has a server");
        assert_ne!(b.core.vcpu_cpu(1), b.core.vcpu_cpu(2));
        // They are placed anew, not beside each other's old places.
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 1)]);
        b.pin(0, 1, 0b10);
        b.pin(0, 2, 0b01);
        assert_eq!(b.set(0, Some(1), "budget", 40 * MS).ret, 0);
        b.pin(0, 1, 0b01);
        b.pin(0, 2, 0b11);
        assert_eq!(b.set(0, Some(1), "budget", 60 * MS).ret, 0);
        b.wake(0, 1);
        b.wake(0, 2);
        assert_eq!((b.class(1), b.class(2)), (Class::Rt, Class::Rt), "{policy}");
        // A server whose PCPU has gone takes its room elsewhere.
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 2)]);
        b.pin(0, 1, 0b10);
        assert_eq!(b.set(0, Some(1), "budget", 60 * MS).ret, 0);
        b.ok(0, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
        assert_eq!(b.set(0, Some(2), "budget", 60 * MS).ret, REFUSED, "{policy}");
        assert_eq!(b.set(0, Some(2), "budget", 35 * MS).ret, 0, "{policy}");
        // One more VCPU than there is room for.
        b.vcpu(3, 1, 0);
        b.wake(0, 3);
        assert_eq!((b.class(3), b.state(3)), (Class::Over, State::Queued), "{policy}: it runs in what is left");
    }
}

/// Six servers of 20 % on one PCPU: with `admission=off` as in Xen none is refused, and all of them
/// are late in turn; with `admission=on` the one for which there is no room is refused.
pub fn overload(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        for admission in [0, 1] {
            let mut b = Bench::new(make, policy, 1, 6);
            for (name, value) in [("admission", admission), ("reserve", 0), ("mode", 1)] {
                assert_eq!(b.set(0, None, name, value).ret, 0);
            }
            (1..=6).for_each(|v| b.vcpu(v, v, 0));
            let given: Vec<_> = (1..=6)
                .map(|vm| {
                    b.set(0, Some(vm), "extra", 0);
                    b.set(0, Some(vm), "period", 10 * MS);
                    b.set(0, Some(vm), "budget", 2 * MS).ret
                })
                .collect();
            assert_eq!(given, [0, 0, 0, 0, 0, if admission == 1 { REFUSED } else { 0 }], "{policy}: {admission}");
            (1..=6).for_each(|v| _ = b.wake(0, v));
            assert_eq!(b.class(6), if admission == 1 { Class::Over } else { Class::Rt }, "{policy}");
            let ran = b.watch(0, 0, 100 * MS, MS);
            let sixth = ran.matches('6').count();
            // On one PCPU equals take turns; which of equal deadlines vGEDF runs is not said.
            if admission == 1 {
                assert_eq!(sixth, 0, "{policy}: {ran}");
            } else if policy != "vgedf" {
                assert!((10..=20).contains(&sixth), "{policy}: {ran}");
            }
            assert!(!ran.contains('.'), "{policy}: more is promised than there is: {ran}");
            // A reserve out of what is promised, and a VCPU that comes later.
            let refused = if admission == 1 { REFUSED } else { 0 };
            assert_eq!(b.set(100 * MS, None, "reserve", 5).ret, refused, "{policy}");
            b.ok(100 * MS, OpCode::VcpuAdd, (0, 7, 1), [0, 0, 0]);
            b.wake(100 * MS, 7);
            assert_eq!(b.class(7), if admission == 1 { Class::Over } else { Class::Rt }, "{policy}");
            assert_eq!(b.set(100 * MS, None, "admission", 1).ret, if admission == 1 { 0 } else { REFUSED }, "{policy}");
            assert_eq!(b.core.check(), Ok(()));
        }
    }
}

/// A server that ends only to begin anew, with no more than it had, keeps its place, whatever has become of the room meanwhile.
pub fn kept(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 2)]);
        [1, 2].into_iter().for_each(|vm| assert_eq!(b.set(0, Some(vm), "budget", 60 * MS).ret, 0));
        b.ok(0, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
        assert_eq!(b.set(0, Some(1), "budget", 61 * MS).ret, REFUSED, "{policy}: no more");
        assert_eq!(b.set(0, Some(1), "budget", 60 * MS).ret, 0);
        assert_eq!(b.set(0, Some(2), "budget", 50 * MS).ret, 0);
        assert_eq!(b.set(0, Some(1), "priority", 2).ret, 0);
        let (key, other) = if policy == "rtxen" { ("server", 1) } else { ("mode", 1) };
        assert_eq!(b.set(0, None, key, other).ret, 0);
        assert_eq!(b.set(0, None, "reserve", 6).ret, REFUSED, "{policy}: nor a greater reserve");
        [1, 2].into_iter().for_each(|v| _ = b.wake(0, v));
        assert_eq!([1, 2].map(|v| b.class(v)), [Class::Rt, Class::Rt], "{policy}");
        // One that had none is not let in by that.
        b.vcpu(3, 2, 0);
        assert_eq!(b.set(0, Some(2), "budget", 40 * MS).ret, 0);
        b.wake(0, 3);
        assert_eq!(b.class(3), Class::Over, "{policy}");
        assert_eq!(b.core.check(), Ok(()));
    }
}

/// A VM of a VCPU and two I/O threads takes the room of its VCPU; they run in what is left, as Dom0 does.
pub fn io_threads(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        let mut b = machine(make, policy, 1, &[(1, 1), (2, 2)]);
        b.ok(0, OpCode::VcpuAdd, (0, 3, 1), [IO_THREAD, 0, 0]);
        b.ok(0, OpCode::VcpuAdd, (0, 4, 1), [IO_THREAD, 0, 0]);
        assert_eq!(b.set(0, Some(1), "budget", 50 * MS).ret, 0, "{policy}");
        assert_eq!(b.set(0, Some(2), "budget", 46 * MS).ret, REFUSED, "{policy}");
        assert_eq!(b.set(0, Some(2), "budget", 45 * MS).ret, 0, "{policy}");
        (1..=4).for_each(|v| _ = b.wake(0, v));
        assert_eq!([1, 2, 3, 4].map(|v| b.class(v)), [Class::Rt, Class::Rt, Class::Over, Class::Over], "{policy}");
        // One that comes later has none either.
        assert_eq!(b.set(0, Some(2), "budget", 0).ret, 0);
        b.ok(0, OpCode::VcpuAdd, (0, 5, 1), [IO_THREAD, 0, 0]);
        b.wake(0, 5);
        assert_eq!(b.class(5), Class::Over, "{policy}");
        assert_eq!(b.core.check(), Ok(()));
    }
}

/// vGEDF: all PCPUs together, wherever the VCPUs are.
pub fn of_the_pool(make: &Maker) {
    let mut b = machine(make, "vgedf", 2, &[(1, 1), (2, 1), (3, 2)]);
    assert_eq!(b.set(0, Some(1), "budget", 80 * MS).ret, 0);
    assert_eq!(b.set(0, Some(2), "budget", 31 * MS).ret, REFUSED, "190 % in all, and both of VM 1 are of PCPU 0");
    assert_eq!(b.set(0, Some(2), "budget", 30 * MS).ret, 0);
    b.vcpu(4, 2, 1);
    b.wake(0, 4);
    assert_eq!(b.class(4), Class::Over, "there is no room for a fourth");
    b.wake(0, 3);
    assert_eq!(b.class(3), Class::Rt);
    b.ok(0, OpCode::CpuAdd, (2, 0, 0), [2, 0, 0]);
    b.vcpu(5, 2, 1);
    b.wake(0, 5);
    assert_eq!(b.class(5), Class::Rt, "a third PCPU brings some");
}

/// A reserve that grows: there is no room for it where one PCPU is promised, unless servers run on any.
pub fn of_a_reserve(make: &Maker) {
    for (policy, ret) in [("rtxen", REFUSED), ("sedf", REFUSED), ("vgedf", 0)] {
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 2)]);
        assert_eq!(b.set(0, None, "reserve", 0).ret, 0);
        assert_eq!(b.set(0, Some(1), "budget", 96 * MS).ret, 0);
        assert_eq!(b.set(0, None, "reserve", 5).ret, ret, "{policy}: 96 % on one PCPU, nothing on the other");
        assert_eq!(b.set(0, None, "reserve", 4).ret, 0, "{policy}");
        assert_eq!(b.set(0, Some(2), "budget", 96 * MS).ret, 0, "{policy}");
        assert_eq!(b.set(0, None, "reserve", 5).ret, REFUSED, "{policy}: 96 % on both");
    }
}

/// Dom0 and others without budget: what is left, and `reserve` percent of 20 ms before all others.
pub fn left(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(4, 10, 1)]);
    b.vcpu(9, 0, 0);
    b.vcpu(8, 0, 0);
    b.set(0, None, "reserve", 0);
    (1..=9).filter(|v| [1, 8, 9].contains(v)).for_each(|v| _ = b.wake(0, v));
    assert_eq!(b.watch(0, 0, 20 * MS, MS), "11118989891111898989", "round robin");
    // A whole PCPU promised but for the reserve.
    let mut b = pool(make, DEFERRABLE, &[(19, 20, 1)]);
    b.vcpu(9, 0, 0);
    b.wake(0, 1);
    b.wake(0, 9);
    let turn = "9".to_string() + &"1".repeat(19);
    assert_eq!(b.watch(0, 0, 60 * MS, MS), turn.repeat(3));
    // It is asked for by a wake, and at the begin of an interval.
    let mut b = pool(make, DEFERRABLE, &[(90, 100, 1)]);
    b.vcpu(9, 0, 0);
    b.wake(0, 1);
    assert_eq!(b.watch(0, 0, 5 * MS, MS), "11111");
    assert_eq!(b.wake(5 * MS, 9).kick, 1);
    assert_eq!(b.watch(0, 5 * MS, 27 * MS, MS), "9".to_string() + &"1".repeat(19) + "91");
    // No more than the reserve, however long a quantum is.
    let mut b = pool(make, DEFERRABLE, &[(90, 100, 1)]);
    b.vcpu(9, 0, 0);
    b.set(0, None, "quantum", 10 * MS);
    b.wake(0, 1);
    b.wake(0, 9);
    assert_eq!(b.turn_slice(0, 0), (Some(9), MS));
    assert_eq!(b.turn(MS, 0), Some(1));
}

/// Those without budget are stolen, those with one stay at home.
pub fn stolen(make: &Maker) {
    for policy in PARTITIONED {
        let mut b = machine(make, policy, 2, &[(1, 1), (2, 2)]);
        b.vcpu(9, 0, 0);
        b.vcpu(8, 0, 0);
        [1, 2].into_iter().for_each(|v| b.pin(0, v, 0b01));
        [1, 2].into_iter().for_each(|vm| assert_eq!(b.set(0, Some(vm), "budget", 40 * MS).ret, 0));
        [1, 2].into_iter().for_each(|v| b.pin(0, v, 0b11));
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        assert_eq!(b.wake(0, 2).kick & 0b10, 0, "{policy}");
        assert_eq!(b.turn(0, 1), None, "{policy}: a server keeps to its PCPU");
        assert_eq!(b.wake(0, 9).kick & 0b10, 0b10, "{policy}: who has none does not");
        assert_eq!(b.turn(0, 1), Some(9));
        b.wake(0, 8);
        assert_eq!(b.stop(MS, 1), Some(8));
    }
    // A stolen one that is given a budget goes where there is room for it.
    let mut b = machine(make, "rtxen", 2, &[(1, 1), (2, 2)]);
    b.pin(0, 1, 0b01);
    assert_eq!(b.set(0, Some(1), "budget", 40 * MS).ret, 0);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.turn(0, 0), Some(2), "the reserve");
    b.pin(0, 2, 0b01);
    assert_eq!(b.set(MS, Some(2), "budget", 50 * MS).kick, 1);
    b.serve(MS);
    assert_eq!((b.state(1), b.class(2)), (State::Running, Class::Rt), "an equal priority, and 1 waits");
}

/// A cap of 0 lifts a cap, and not the want of a budget.
pub fn uncapped(make: &Maker) {
    let mut b = pool(make, DEFERRABLE, &[(2, 10, 1)]);
    b.wake(0, 1);
    assert_eq!(b.watch(0, 0, 4 * MS, MS), "11..");
    b.set(4 * MS, Some(1), "cap", 50);
    b.set(4 * MS, Some(1), "cap", 0);
    assert_eq!(b.state(1), State::Parked);
    assert_eq!(b.watch(0, 4 * MS, 11 * MS, MS), "......1");
}
