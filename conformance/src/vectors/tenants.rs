// SPDX-License-Identifier: GPL-2.0-only
//! The life of a VM: what one tenant of a slot had, did and was given is gone when the next one comes.

use super::bench::{Bench, IO, MS};
use crate::core::Maker;
use crate::run::same_but_outputs;
use takt_policy::{NEVER, OpCode, Res};

/// PCPUs 0 and 1, Dom0's VCPU 0, VMs 1 and 3 with VCPUs of the same numbers, all of them on PCPU 0.
fn pool(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 2, 0);
    b.vcpu(0, 0, 0);
    for vm in [1, 3] {
        b.ok(0, OpCode::VmAdd, (0, 0, vm), [0, 256, 0]);
        b.vcpu(vm, vm, 0);
    }
    [0, 1, 3].into_iter().for_each(|v| b.pin(0, v, 0b01));
    b
}

/// Whether the policy has such a thing (else: EOPNOTSUPP) or has room for it (else: ENOSPC).
fn may_refuse(res: &Res, what: &str) {
    assert!([0, -28, -95].contains(&res.ret), "{what}: {}", res.ret);
}

/// VM 2 with VCPUs 20 and 21 and the I/O thread 22 gets all that a VM can have, and runs on both PCPUs.
fn live(b: &mut Bench) {
    b.ok(0, OpCode::VmAdd, (0, 0, 2), [0, 512, 0]);
    for (v, kind) in [(20, 0), (21, 0), (22, 1)] {
        b.ok(0, OpCode::VcpuAdd, (v % 2, v, 2), [kind, 0, 0]);
    }
    let all = [
        ("weight", 777),
        ("cap", 150),
        ("priority", 3),
        ("extra", 0),
        ("laxity", 3 * MS),
        ("latency", 7 * MS),
        ("period", 20 * MS),
        ("budget", 2 * MS),
    ];
    for (name, value) in all {
        may_refuse(&b.set(0, Some(2), name, value), name);
    }
    may_refuse(&b.op(0, OpCode::SetGroup, (0, 0, 2), [5 | 1 << 16, 0, 0]), "group");
    b.rt(0, 2, 4 * MS);
    b.pin(0, 20, 0b01);
    b.ok(0, OpCode::SetAffinity, (0, 21, 0), [1, 0b10, 0]);
    b.ok(0, OpCode::SetPlacement, (0, 21, 0), [0b11, 0, 0]);
    for v in [20, 21, 22, 1, 3, 0] {
        b.event(MS, v, IO);
        b.wake(MS, v);
    }
    for ms in 2..70 {
        b.serve(ms * MS);
        if ms % 5 == 0 {
            b.event(ms * MS, 20, IO);
            b.event(ms * MS, 22, IO);
        }
    }
    // All of it stops.
    for _ in 0..8 {
        (0..2).for_each(|cpu| _ = b.stop(70 * MS, cpu));
    }
    for v in [20, 21, 22] {
        let _ = b.op(70 * MS, OpCode::Block, (0, v, 0), [0; 3]);
    }
    assert_eq!(b.core.check(), Ok(()));
}

/// Removes VM 2; returns what its VCPUs had of credit.
fn remove(b: &mut Bench) -> Vec<i32> {
    let had = [21, 20, 22].map(|v| b.credit(v)).to_vec();
    let others = b.core.ledger().total - had.iter().map(|&c| i64::from(c)).sum::<i64>();
    for v in [21, 20, 22] {
        b.ok(70 * MS, OpCode::VcpuRemove, (0, v, 0), [0; 3]);
        assert_eq!(b.core.check(), Ok(()), "after VCPU {v}");
    }
    b.ok(70 * MS, OpCode::VmRemove, (0, 0, 2), [0; 3]);
    assert_eq!((b.core.ledger().total, b.core.check()), (others, Ok(())), "what it had and owed is booked");
    had
}

pub fn nothing_is_left(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let mut used = pool(make, policy);
        live(&mut used);
        let had = remove(&mut used);
        let earns = takt_policy::has(policy, "credit");
        assert_eq!(earns, had.iter().any(|&c| c != 0), "{policy}: {had:?}");
        let mut fresh = pool(make, policy);
        for b in [&mut used, &mut fresh] {
            b.ok(80 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
        }
        assert!(same_but_outputs(used.core.bytes(), fresh.core.bytes()), "{policy}: something of VM 2 is left");
        // Its next tenant, too, is as the first one of the slot.
        for b in [&mut used, &mut fresh] {
            b.ok(81 * MS, OpCode::VmAdd, (0, 0, 2), [0, 256, 0]);
            b.ok(81 * MS, OpCode::VcpuAdd, (1, 20, 2), [0, 0, 0]);
            b.wake(82 * MS, 20);
            b.serve(83 * MS);
        }
        assert!(same_but_outputs(used.core.bytes(), fresh.core.bytes()), "{policy}: the next tenant of VM 2 differs");
    }
}

/// The types of three VMs end in every order: those that remain are counted, found, and end in their turn.
pub fn types_end(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut b = Bench::new(make, policy, 1, 3);
            (1..=3).for_each(|v| b.vcpu(v, v, 0));
            for (n, &vm) in (1..).zip(&order) {
                b.ok(0, OpCode::SetRt, (0, 0, vm), [1, 5 * MS, n * 30 * MS]);
            }
            for (n, &vm) in (1..).zip(&order) {
                b.account(n * 30 * MS - 1);
                let stat = b.core.vm_stat(vm.into()).expect("a VM");
                assert_eq!((stat.rt, stat.period), (1, 5 * MS), "{policy}: VM {vm}, 1 ns before its lease ends");
                b.account(n * 30 * MS);
                assert_eq!(b.core.check(), Ok(()), "{policy}: {order:?}, {n}");
                let stat = b.core.vm_stat(vm.into()).expect("a VM");
                assert_eq!((stat.rt, stat.period), (0, 0), "{policy}: VM {vm}, at the end of its lease");
                for &other in &order[n as usize..] {
                    assert_eq!(b.core.vm_stat(other.into()).expect("a VM").rt, 1, "{policy}: VM {other}");
                }
            }
            // By the monitor's word, and by the VM's end.
            (1..=3).for_each(|vm| b.rt(100 * MS, vm, 5 * MS));
            b.ok(100 * MS, OpCode::SetRt, (0, 0, order[0]), [0, 0, 0]);
            assert_eq!(b.core.check(), Ok(()));
            b.ok(100 * MS, OpCode::VcpuRemove, (0, order[1], 0), [0; 3]);
            b.ok(100 * MS, OpCode::VmRemove, (0, 0, order[1]), [0; 3]);
            assert_eq!(b.core.check(), Ok(()));
            b.ok(100 * MS, OpCode::SetRt, (0, 0, order[2]), [1, 0, NEVER]);
            assert_eq!(b.core.vm_stat(order[2].into()).expect("a VM").rt, 1);
        }
    }
}

/// A PCPU that goes and comes back is as one that is new.
pub fn pcpus(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let build = || {
            let mut b = pool(make, policy);
            b.set(0, None, "tickle", 1);
            for v in [1, 3] {
                b.wake(0, v);
            }
            b
        };
        let mut used = build();
        for ms in 1..50 {
            used.serve(ms * MS);
        }
        (0..4).for_each(|n| _ = used.stop(50 * MS, n % 2));
        used.ok(50 * MS, OpCode::CpuRelease, (1, 0, 0), [0; 3]);
        used.ok(51 * MS, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
        used.ok(60 * MS, OpCode::CpuAdd, (1, 0, 0), [1, 0, 0]);
        let mut fresh = build();
        for b in [&mut used, &mut fresh] {
            b.ok(60 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
        assert!(same_but_outputs(used.core.bytes(), fresh.core.bytes()), "{policy}: something of PCPU 1 is left");
        // One that goes for good leaves nothing, nor its core, cache and node.
        let mut used = pool(make, policy);
        used.ok(0, OpCode::CpuAdd, (2, 0, 0), [5, 6, 7]);
        used.ok(0, OpCode::CpuRemove, (2, 0, 0), [0; 3]);
        let mut fresh = pool(make, policy);
        for b in [&mut used, &mut fresh] {
            b.ok(0, OpCode::Epoch, (0, 0, 0), [0; 3]);
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
        assert!(same_but_outputs(used.core.bytes(), fresh.core.bytes()), "{policy}: something of PCPU 2 is left");
    }
}

/// The period of Dom0 is the shortest known one (rule D2) of the VMs that are there (rule D33).
pub fn dom0s_period(make: &Maker) {
    let mut b = Bench::new(make, "doris", 1, 4);
    (0..2).for_each(|v| b.vcpu(v, v, 0));
    b.wake(0, 1);
    b.turn(0, 0);
    let mut now = 0;
    let mut is = |b: &mut Bench, period: u64, why: &str| {
        now += MS;
        b.wake(now, 0);
        assert_eq!(b.deadline(0), if period == 0 { 0 } else { now + period }, "{why}");
        b.ok(now, OpCode::Block, (0, 0, 0), [0; 3]);
    };
    is(&mut b, 0, "no VM is real-time");
    b.rt(0, 2, 0);
    is(&mut b, 0, "nor is a period known");
    b.rt(0, 3, 20 * MS);
    is(&mut b, 20 * MS, "one is not known");
    b.rt(0, 4, 5 * MS);
    is(&mut b, 5 * MS, "the shortest");
    b.ok(0, OpCode::VmRemove, (0, 0, 4), [0; 3]);
    is(&mut b, 20 * MS, "its VM has gone");
    b.ok(0, OpCode::VmRemove, (0, 0, 3), [0; 3]);
    is(&mut b, 0, "VM 2 is left");
    b.rt(0, 2, 30 * MS);
    is(&mut b, 30 * MS, "now it is known");
    b.ok(0, OpCode::VmRemove, (0, 0, 2), [0; 3]);
    is(&mut b, 0, "none is real-time any more");
}

/// The last PCPU may go with its last VCPU, whatever VMs are left.
pub fn last_pcpu(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let mut b = Bench::new(make, policy, 1, 2);
        b.vcpu(1, 1, 0);
        assert_eq!(b.op(0, OpCode::CpuRemove, (0, 0, 0), [0; 3]).ret, -16, "{policy}: it has a VCPU");
        b.ok(0, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
        assert_eq!(b.op(0, OpCode::CpuRemove, (0, 0, 0), [0; 3]).ret, 0, "{policy}");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
        assert_eq!(b.op(0, OpCode::VcpuAdd, (0, 1, 1), [0; 3]).ret, -2, "{policy}: there is no PCPU");
        b.ok(MS, OpCode::CpuAdd, (0, 0, 0), [0; 3]);
        b.vcpu(1, 1, 0);
        b.wake(MS, 1);
        assert_eq!(b.turn(MS, 0), Some(1), "{policy}");
    }
}

/// dom0=off takes the type from Dom0 and from I/O threads, not from the VCPUs of the VM that has it.
pub fn without_dom0(make: &Maker) {
    for (on, want) in [(0, [false, true, false]), (1, [true, true, true])] {
        let mut b = Bench::new(make, "doris", 1, 2);
        for (v, vm, kind) in [(0, 0, 2), (1, 1, 0), (2, 1, 1), (5, 2, 0)] {
            b.ok(0, OpCode::VcpuAdd, (0, v, vm), [kind, 0, 0]);
        }
        b.set(0, None, "dom0", on);
        b.rt(0, 1, 20 * MS);
        b.wake(0, 5);
        b.turn(0, 0);
        for v in 0..3 {
            b.wake(MS, v);
            b.event(MS, v, IO);
        }
        assert_eq!([0, 1, 2].map(|v| b.class(v) == takt_policy::Class::Rt), want, "dom0={on}");
    }
}
