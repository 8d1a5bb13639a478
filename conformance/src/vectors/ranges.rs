// SPDX-License-Identifier: GPL-2.0-only
//! Both ends of every range: what is just inside is taken, what is just outside is refused and changes nothing.

use super::bench::{Bench, MS, OTHER};
use crate::core::Maker;
use crate::run::same_but_outputs;
use takt_policy::{NEVER, NIL, OpCode, param, params};

const EBUSY: i32 = -16;
const ENOENT: i32 = -2;
const EINVAL: i32 = -22;
const ERANGE: i32 = -34;
const EOPNOTSUPP: i32 = -95;
const SECOND: u64 = 1_000 * MS;

/// PCPUs 0 and 1, Dom0's VCPU 0, VMs 1 to 3 with VCPUs of the same numbers.
fn pool(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 2, 3);
    (0..=3).for_each(|v| b.vcpu(v, v, v % 2));
    b
}

/// The operation is refused with `error`, and the pool is what it was.
fn refused(b: &mut Bench, code: OpCode, at: (u16, u16, u16), arg: [u64; 3], error: i32) {
    let before = b.core.bytes().to_vec();
    let res = b.op(0, code, at, arg);
    assert_eq!(res.ret, error, "{}: {code:?} {at:?} {arg:?}", b.core.policy());
    assert!(same_but_outputs(&before, b.core.bytes()), "{code:?} {at:?} {arg:?} was refused and changed the pool");
}

/// The operation is taken, and leaves something.
fn taken(b: &mut Bench, code: OpCode, at: (u16, u16, u16), arg: [u64; 3]) {
    let res = b.op(0, code, at, arg);
    assert_eq!(res.ret, 0, "{}: {code:?} {at:?} {arg:?}", b.core.policy());
    assert_eq!(b.core.check(), Ok(()), "{code:?} {at:?} {arg:?}");
}

pub fn of_the_pool(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        for p in params().into_iter().filter(|p| !p.per_vm) {
            let (key, at) = (u64::from(p.key), (0, 0, NIL as u16));
            // That one changes while all VCPUs are blocked.
            let empty = p.name == "leftover";
            let mut b = if empty { Bench::new(make, policy, 2, 3) } else { pool(make, policy) };
            for value in [p.min, p.max, p.default] {
                taken(&mut b, OpCode::Adjust, at, [key, value, 0]);
            }
            let before = b.core.bytes().to_vec();
            taken(&mut b, OpCode::Adjust, at, [key, if p.default == p.min { p.max } else { p.min }, 0]);
            assert!(!same_but_outputs(&before, b.core.bytes()), "{policy}: {} is not kept", p.name);
            taken(&mut b, OpCode::Adjust, at, [key, p.default, 0]);
            assert!(same_but_outputs(&before, b.core.bytes()), "{policy}: {} touches something else", p.name);
            if p.min > 0 {
                refused(&mut b, OpCode::Adjust, at, [key, p.min - 1, 0], ERANGE);
            }
            refused(&mut b, OpCode::Adjust, at, [key, p.max + 1, 0], ERANGE);
            refused(&mut b, OpCode::Adjust, at, [key, NEVER, 0], ERANGE);
        }
        let mut b = pool(make, policy);
        refused(&mut b, OpCode::Adjust, (0, 0, NIL as u16), [0, 1, 0], EINVAL);
        refused(&mut b, OpCode::Adjust, (0, 0, NIL as u16), [101, 1, 0], EINVAL);
    }
}

pub fn of_a_vm(make: &Maker) {
    for policy in ["credit", "doris", "poris", "laxs"] {
        for p in params().into_iter().filter(|p| p.per_vm) {
            let (key, at) = (u64::from(p.key), (0, 0, 1));
            let (min, max) = match p.name {
                "weight" => (1, 65_535),
                "cap" => (0, 6_400),
                "rt" => (0, 2),
                "budget" | "period" => (0, 10 * SECOND),
                "priority" => (1, 65_535),
                "extra" => (0, 1),
                "laxity" => (1_000, 10 * SECOND),
                "latency" => (MS, SECOND),
                name => panic!("no range for {name}"),
            };
            for value in [min, max] {
                taken(&mut pool(make, policy), OpCode::Adjust, at, [key, value, 0]);
            }
            let mut b = pool(make, policy);
            if min > 0 {
                refused(&mut b, OpCode::Adjust, at, [key, min - 1, 0], ERANGE);
            }
            for value in [max + 1, NEVER] {
                refused(&mut b, OpCode::Adjust, at, [key, value, 0], ERANGE);
            }
            refused(&mut b, OpCode::Adjust, (0, 0, 9), [key, max, 0], ENOENT);
            refused(&mut b, OpCode::Adjust, (0, 0, 256), [key, max, 0], ENOENT);
        }
        let mut b = pool(make, policy);
        let period = param("period", true).expect("period").key;
        let budget = param("budget", true).expect("budget").key;
        taken(&mut b, OpCode::Adjust, (0, 0, 1), [period.into(), MS, 0]);
        refused(&mut b, OpCode::Adjust, (0, 0, 1), [budget.into(), MS + 1, 0], ERANGE);
        taken(&mut b, OpCode::Adjust, (0, 0, 1), [budget.into(), MS, 0]);
        for (value, want) in [(0, ERANGE), (65_536, ERANGE), (65_535, 0)] {
            assert_eq!(b.op(0, OpCode::VmAdd, (0, 0, 7), [0, value, 0]).ret, want, "vm_add with weight {value}");
        }
        refused(&mut b, OpCode::VmAdd, (0, 0, 8), [1, 256, 0], ERANGE);
        refused(&mut b, OpCode::VmAdd, (0, 0, 8), [3, 256, 0], ERANGE);
        refused(&mut b, OpCode::VmAdd, (0, 0, 256), [0, 256, 0], ENOENT);
        taken(&mut b, OpCode::VmAdd, (0, 0, 255), [0, 256, 0]);
        taken(&mut b, OpCode::VcpuAdd, (0, 1_023, 255), [0, 0, 0]);
        taken(&mut b, OpCode::CpuAdd, (63, 0, 0), [63, 0, 0]);
        taken(&mut b, OpCode::Wake, (0, 1_023, 0), [3, 0, 0]);
    }
}

/// As many VMs are real-time as `rt_max` says, by the monitor or by hand; one that ends makes room for one.
pub fn real_time(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        for most in 0..=3_u16 {
            let mut b = pool(make, policy);
            assert_eq!(b.set(0, None, "rt_max", most.into()).ret, 0);
            for vm in 1..=most {
                taken(&mut b, OpCode::SetRt, (0, 0, vm), [1, 5 * MS, NEVER]);
            }
            if most == 3 {
                continue;
            }
            refused(&mut b, OpCode::SetRt, (0, 0, most + 1), [1, 5 * MS, NEVER], EBUSY);
            let rt = param("rt", true).expect("rt").key;
            refused(&mut b, OpCode::Adjust, (0, 0, most + 1), [rt.into(), 1, 0], EBUSY);
            if most > 0 {
                taken(&mut b, OpCode::SetRt, (0, 0, 1), [1, 6 * MS, NEVER]);
                taken(&mut b, OpCode::SetRt, (0, 0, 1), [0, 0, 0]);
                assert_eq!(b.core.vm_stat(1).expect("VM 1").period, 0, "{policy}: its period goes with its type");
                taken(&mut b, OpCode::SetRt, (0, 0, most + 1), [1, 0, NEVER]);
            }
        }
        let mut b = pool(make, policy);
        taken(&mut b, OpCode::SetRt, (0, 0, 1), [1, 10 * SECOND, 1]);
        refused(&mut b, OpCode::SetRt, (0, 0, 2), [1, 10 * SECOND + 1, NEVER], ERANGE);
        refused(&mut b, OpCode::SetRt, (0, 0, 0), [1, MS, NEVER], EOPNOTSUPP);
        refused(&mut b, OpCode::SetRt, (0, 0, 9), [1, MS, NEVER], ENOENT);
        assert_eq!(b.set(0, Some(2), "rt", 2).ret, 0);
        refused(&mut b, OpCode::SetRt, (0, 0, 2), [1, MS, NEVER], EBUSY);
        assert_eq!(b.set(0, Some(0), "rt", 1).ret, EOPNOTSUPP);
    }
}

pub fn of_operations(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let mut b = pool(make, policy);
        let v = |vcpu: u16| (0, vcpu, 0);
        for (code, at, arg, error) in [
            (OpCode::Wake, v(1), [4, 0, 0], ERANGE),
            (OpCode::Wake, v(1_024), [OTHER, 0, 0], ENOENT),
            (OpCode::Wake, v(9), [OTHER, 0, 0], ENOENT),
            (OpCode::Event, v(1), [4, 0, 0], ERANGE),
            (OpCode::Schedule, (0, 0, 0), [4, 0, 0], EINVAL),
            (OpCode::Schedule, (2, 0, 0), [0, 0, 0], ENOENT),
            (OpCode::Schedule, (64, 0, 0), [0, 0, 0], ENOENT),
            (OpCode::CpuAdd, (64, 0, 0), [0, 0, 0], ENOENT),
            (OpCode::VmAdd, (0, 0, 9), [0, 1 << 32, 0], ERANGE),
            (OpCode::VmAdd, (0, 0, 9), [0, 65_536, 0], ERANGE),
            (OpCode::VmAdd, (0, 0, 9), [0, 256 | ((1 << 30) + 1) << 32, 0], ERANGE),
            (OpCode::VmAdd, (0, 0, 256), [0, 256, 0], ENOENT),
            (OpCode::VmRemove, (0, 0, 256), [0, 0, 0], ENOENT),
            (OpCode::SetRt, (0, 0, 256), [1, 0, 1], ENOENT),
            (OpCode::SetGroup, (0, 0, 256), [1, 0, 0], ENOENT),
            (OpCode::Adjust, (0, 0, 256), [101, 1, 0], ENOENT),
            (OpCode::VcpuAdd, (0, 1_024, 1), [0, 0, 0], ENOENT),
            (OpCode::VcpuAdd, (0, 9, 9), [0, 0, 0], ENOENT),
            (OpCode::VcpuAdd, (5, 9, 1), [0, 0, 0], ENOENT),
            (OpCode::VcpuAdd, (0, 9, 1), [3, 0, 0], ERANGE),
            (OpCode::VcpuAdd, (0, 9, 1), [2, 0, 0], ERANGE),
            (OpCode::VcpuAdd, (0, 9, 0), [0, 0, 0], ERANGE),
            (OpCode::SetAffinity, v(1), [2, 1, 0], ERANGE),
            (OpCode::SetAffinity, v(1), [0, 0, 0], ERANGE),
            (OpCode::SetAffinity, v(1), [1, 0, 0], ERANGE),
            (OpCode::SetPlacement, v(1), [0, 0, 0], ERANGE),
            (OpCode::Move, (2, 1, 0), [0, 0, 0], ENOENT),
        ] {
            refused(&mut b, code, at, arg, error);
        }
        b.ok(0, OpCode::VmAdd, (0, 0, 9), [0, 65_535 | 1 << 62, 0]);
        b.ok(0, OpCode::VmRemove, (0, 0, 9), [0; 3]);
        for source in 0..4 {
            b.ok(0, OpCode::Event, v(1), [source, 0, 0]);
        }
        b.pin(0, 1, 1);
        refused(&mut b, OpCode::Move, (1, 1, 0), [0; 3], ERANGE);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1), "{policy}");
        refused(&mut b, OpCode::Yield, v(1), [9, 0, 0], ENOENT);
        refused(&mut b, OpCode::Yield, v(1), [1_024, 0, 0], ENOENT);
        refused(&mut b, OpCode::Yield, v(2), [NIL.into(), 0, 0], EBUSY);
        refused(&mut b, OpCode::Put, v(1), [2, NEVER, 0], ERANGE);
        for to in [NIL.into(), 2] {
            assert_eq!(b.ok(0, OpCode::Yield, v(1), [to, 0, 0]).kick & 1, 1, "{policy}: a yield asks for a decision");
        }
    }
}

/// What a host says a run took counts up to a second beyond the clock, and no more.
pub fn of_reports(make: &Maker) {
    let credit = |ran: u64| {
        let mut b = pool(make, "credit");
        b.wake(0, 1);
        b.turn(0, 1);
        b.ok(10 * MS, OpCode::Schedule, (1, 0, 0), [2, 0, 0]);
        b.ok(10 * MS, OpCode::Put, (0, 1, 0), [0, ran, 0]);
        b.credit(1)
    };
    assert_eq!(credit(NEVER), -100, "as the clock says");
    assert_eq!(credit(0), 0, "what the clock charged too much is given back");
    assert_eq!(credit(SECOND + 10 * MS), -10_100);
    assert_eq!(credit(SECOND + 11 * MS), -10_100, "one more second than the clock is the most");
    assert_eq!(credit(NEVER - 1), -10_100);
}

/// Groups of Poris (rules P8, P10 and P35).
pub fn of_groups(make: &Maker) {
    let mut b = pool(make, "poris");
    let group = |id: u64, sub: u64| [id | sub << 16, 0, 0];
    refused(&mut b, OpCode::SetGroup, (0, 0, 1), group(256, 0), ERANGE);
    refused(&mut b, OpCode::SetGroup, (0, 0, 1), group(1, 16), ERANGE);
    refused(&mut b, OpCode::SetGroup, (0, 0, 1), group(0, 1), ERANGE);
    refused(&mut b, OpCode::SetGroup, (0, 0, 1), [1 << 32 | 1, 0, 0], ERANGE);
    refused(&mut b, OpCode::SetGroup, (0, 0, 0), group(1, 0), EOPNOTSUPP);
    refused(&mut b, OpCode::SetGroup, (0, 0, 9), group(1, 0), ENOENT);
    taken(&mut b, OpCode::SetGroup, (0, 0, 1), group(255, 15));
    refused(&mut b, OpCode::SetGroup, (0, 0, 1), group(1, 0), EBUSY);
    taken(&mut b, OpCode::SetGroup, (0, 0, 1), group(0, 0));
    taken(&mut b, OpCode::SetGroup, (0, 0, 1), group(1, 0));
    for policy in ["credit", "doris", "laxs", "sedf"] {
        refused(&mut pool(make, policy), OpCode::SetGroup, (0, 0, 1), group(1, 0), EOPNOTSUPP);
    }
}
