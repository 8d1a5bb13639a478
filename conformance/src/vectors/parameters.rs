// SPDX-License-Identifier: GPL-2.0-only
//! What is set is what is kept: each parameter in its own place, its default until then, and nothing else changes.

use super::bench::{Bench, MS, US};
use crate::core::{Core, Maker};
use crate::run::same_but_outputs;
use std::collections::BTreeMap;
use takt_policy::{NEVER, NIL, Op, OpCode, ParamInfo, VmStat, vm_settings};

const SEC: u64 = 1_000 * MS;
const POOL: u16 = NIL as u16;

/// Parameters of a pool: key, name, lowest, highest, default (docs/rules.md; docs/scenarios.md).
/// Keys are a part of the log's format.
const OF_THE_POOL: &[(u64, &str, u64, u64, u64)] = &[
    (1, "tick", MS, SEC, 10 * MS),
    (2, "acct", MS, 10 * SEC, 30 * MS),
    (3, "slice", 100 * US, 10 * SEC, 30 * MS),
    (4, "min_ts", US, 30 * MS, 100 * US),
    (5, "period", 0, 10 * SEC, 0),
    (6, "period_floor", US, SEC, 10 * US),
    (7, "activate", 0, 1, 1),
    (8, "eligible", 0, 2, 1),
    (9, "dom0", 0, 1, 1),
    (10, "promote_on_timer", 0, 1, 0),
    (11, "rt_max", 0, 256, 64),
    (12, "event_max", 0, 1_000_000, 3_000),
    (13, "surplus", 0, 1, 0),
    (14, "preempted", 0, 1, 0),
    (15, "server", 0, 3, 0),
    (16, "polling_literal", 0, 1, 1),
    (17, "quantum", 10 * US, 100 * MS, MS),
    (18, "extra_quantum", 10 * US, 100 * MS, 500 * US),
    (19, "mode", 0, 2, 2),
    (20, "cache_hot", 0, SEC, MS),
    (21, "reserve", 0, 50, 5),
    (22, "weights", 0, 1, 0),
    (23, "ratelimit", 0, 500 * MS, 0),
    (24, "tickle", 0, 3, 0),
    (25, "overflow", 0, 1, 0),
    (26, "charge", 0, 1, 0),
    (27, "balance", 0, 2, 0),
    (28, "queueing", 0, 1, 1),
    (29, "laxity", US, 10 * SEC, 10 * US),
    (30, "boost", 0, 1, 0),
    (31, "steal", 0, 2, 2),
    (32, "steal_age", 0, SEC, 2 * MS),
    (33, "ll_interval", 100 * MS, 10 * SEC, SEC),
    (34, "infinite", 0, 1, 0),
    (35, "latency", MS, SEC, 15 * MS),
    (36, "t_round", 100 * US, 30 * MS, MS),
    (37, "min_slice", 100 * US, 30 * MS, MS),
    (38, "promote", 0, 1, 1),
    (39, "dynamic", 0, 2, 1),
    (40, "parallel", 0, 2, 2),
    (41, "promote_over", 0, 1, 0),
    (43, "rt_contention", 0, 2, 0),
    (44, "over", 0, 1, 0),
    (45, "across", 0, 1, 1),
    (46, "running", 0, 1, 0),
    (47, "first_run", 0, SEC, 0),
    (48, "peer", 0, 1, 0),
    (49, "history", 0, 1, 0),
    (50, "ctx_allow", 100 * US, 100 * MS, 5 * MS),
    (51, "warp", 0, SEC, 50 * MS),
    (52, "warp_limit", 100 * US, 10 * SEC, 10 * MS),
    (53, "unwarp", 0, 10 * SEC, 10 * MS),
    (54, "turns", 0, 1, 1),
    (55, "demote", 0, 1, 0),
    (56, "spread", 0, 1, 0),
    (57, "debts", 0, 1, 1),
    (58, "claim", 0, 1, 0),
    (59, "leftover", 0, 1, 0),
    (60, "spent_wake", 0, 1, 1),
    (61, "penalty", 0, 1, 1),
    (62, "extra_place", 0, 1, 1),
    (63, "admission", 0, 1, 1),
    (64, "idle_quantum", 0, 1, 1),
    (65, "wake_cpu", 0, 1, 0),
    (66, "longest_wait", 0, 60_000_000_000, 0),
    (67, "boost_turn", 0, 100_000_000, 0),
    (68, "resort", 0, 1, 0),
];

/// What a VM has until it is given something else.
const FRESH: [(&str, u64); 9] = [
    ("weight", 256),
    ("cap", 0),
    ("rt", 0),
    ("budget", 0),
    ("period", 0),
    ("priority", 1_000),
    ("extra", 1),
    ("laxity", 0),
    ("latency", 0),
];

fn names() -> impl Iterator<Item = &'static str> {
    takt_policy::policies().into_iter().map(|p| p.name)
}

/// What `describe` says of the pool's parameters, by key.
fn told(b: &Bench) -> Vec<(u64, u64)> {
    let of_pool = |o: &&Op| o.op == OpCode::Adjust as u16 && o.vm == POOL;
    let mut told: Vec<_> = b.core.describe().iter().filter(of_pool).map(|o| (o.arg[0], o.arg[1])).collect();
    told.sort_unstable();
    told
}

/// The defaults, and with one of them set to another value: that one, and the defaults of all others.
pub fn of_the_pool(make: &Maker) {
    let known: Vec<_> = takt_policy::params().into_iter().filter(|p| !p.per_vm).collect();
    assert_eq!(known.len(), OF_THE_POOL.len());
    for (p, &(key, name, min, max, default)) in known.iter().zip(OF_THE_POOL) {
        assert_eq!((u64::from(p.key), p.name, p.min, p.max, p.default), (key, name, min, max, default));
    }
    for policy in names() {
        let defaults: Vec<_> = OF_THE_POOL.iter().map(|p| (p.0, p.4)).collect();
        let mut empty = make(policy).expect("a pool");
        let res = empty.op(Op { op: OpCode::VmAdd as u16, arg: [0, 1, 0, 0], ..Op::default() });
        assert_eq!(
            (res.ret, res.cpu_timer, res.pool_timer),
            (0, NEVER, NEVER),
            "{policy}: an empty pool has no timers"
        );
        let mut b = Bench::new(make, policy, 1, 1);
        assert_eq!(told(&b), defaults, "{policy}");
        for (i, &(key, name, min, max, default)) in OF_THE_POOL.iter().enumerate() {
            let other = if default == min { max } else { min };
            for value in [min, min + (max - min) / 3, max, other] {
                b.ok(0, OpCode::Adjust, (0, 0, POOL), [key, value, 0]);
                let mut want = defaults.clone();
                want[i].1 = value;
                assert_eq!(told(&b), want, "{policy}: {name} = {value}");
            }
            if min > 0 {
                assert_eq!(b.op(0, OpCode::Adjust, (0, 0, POOL), [key, min - 1, 0]).ret, -34, "{policy}: {name}");
            }
            assert_eq!(b.op(0, OpCode::Adjust, (0, 0, POOL), [key, max + 1, 0]).ret, -34, "{policy}: {name}");
            b.ok(0, OpCode::Adjust, (0, 0, POOL), [key, default, 0]);
        }
        assert_eq!(told(&b), defaults, "{policy}");
    }
}

/// A reserve out of what servers are promised is refused and not kept: 95% are, so 5% it may be,
/// and less, and 5% again.
pub fn reserve(make: &Maker) {
    for policy in ["rtxen", "sedf", "vgedf"] {
        let mut b = Bench::new(make, policy, 1, 1);
        b.vcpu(1, 1, 0);
        b.server(0, 1, 95 * MS, 100 * MS, 1);
        for (reserve, want, kept) in [(6, -28, 5), (5, 0, 5), (50, -28, 5), (0, 0, 0), (6, -28, 0), (5, 0, 5)] {
            assert_eq!(b.set(0, None, "reserve", reserve).ret, want, "{policy}: {reserve}%");
            assert!(told(&b).contains(&(21, kept)), "{policy}: {reserve}%: {kept}% are kept");
        }
    }
}

/// What a VM has until it is given something else, and each of its parameters by itself.
pub fn of_a_vm(make: &Maker) {
    for policy in names() {
        let mut b = Bench::new(make, policy, 1, 2);
        let stat = |b: &Bench| b.core.vm_stat(1).expect("VM 1");
        let has = |b: &Bench, vm: u32| {
            let one = |info: &ParamInfo| (info.name, b.core.vm_setting(vm, info.key).expect(info.name));
            vm_settings().iter().map(one).collect::<BTreeMap<_, _>>()
        };
        let fresh = BTreeMap::from(FRESH);
        assert_eq!((stat(&b), has(&b, 1)), (VmStat::default(), fresh.clone()), "{policy}");
        assert_eq!((b.core.vm_setting(1, 100), b.core.vm_setting(9, 101)), (None, None), "{policy}");
        let mut want = fresh.clone();
        for (name, value) in [
            ("weight", 300),
            ("cap", 40),
            ("period", 20 * MS),
            ("budget", 3 * MS),
            ("priority", 7),
            ("extra", 0),
            ("laxity", 4 * MS),
            ("latency", 9 * MS),
            ("cap", 0),
        ] {
            assert_eq!(b.set(0, Some(1), name, value).ret, 0, "{policy}: {name}");
            want.insert(name, value);
            assert_eq!(has(&b, 1), want, "{policy}: {name}");
            assert_eq!(has(&b, 2), fresh, "{policy}: {name} of another VM");
        }
        let mut want = VmStat::default();
        assert_eq!(stat(&b), want, "{policy}");
        // Its type: as reported; by hand for ever, with the period of the report; by hand never.
        b.ok(7, OpCode::SetRt, (0, 0, 1), [1, 5 * MS, 30 * MS]);
        want = VmStat { rt: 1, period: 5 * MS, lease_end: 7 + 30 * MS, ..want };
        assert_eq!(stat(&b), want, "{policy}");
        b.ok(8, OpCode::SetRt, (0, 0, 1), [1, 6 * MS, 20 * MS]);
        want = VmStat { period: 6 * MS, lease_end: 8 + 20 * MS, ..want };
        assert_eq!(stat(&b), want, "{policy}: the last report counts");
        assert_eq!(b.set(9, Some(1), "rt", 1).ret, 0);
        assert_eq!(stat(&b), want, "{policy}: rt=on leaves a report as it is");
        b.ok(9, OpCode::SetRt, (0, 0, 1), [1, 6 * MS, 0]);
        want.period = 0;
        assert_eq!((stat(&b).rt, stat(&b).period), (1, 0), "{policy}: rt=on holds the type");
        assert_eq!(b.set(10, Some(1), "rt", 0).ret, 0);
        want = VmStat { rt: 0, period: 0, lease_end: 0, ..want };
        assert_eq!(stat(&b), want, "{policy}: the type that was held by hand ends");
        assert_eq!(b.set(10, Some(1), "rt", 1).ret, 0);
        assert_eq!((stat(&b).rt, stat(&b).lease_end), (1, NEVER), "{policy}");
        assert_eq!(b.set(10, Some(1), "rt", 2).ret, 0);
        assert_eq!(stat(&b), want, "{policy}: rt=off");
        assert_eq!(b.op(10, OpCode::SetRt, (0, 0, 1), [1, 0, 1]).ret, -16, "{policy}");
        b.ok(10, OpCode::SetRt, (0, 0, 1), [0, 6 * MS, 1]);
        assert_eq!(stat(&b), want, "{policy}");
        assert_eq!(b.set(10, Some(1), "rt", 0).ret, 0);
        b.ok(10, OpCode::SetRt, (0, 0, 1), [1, 6 * MS, 1]);
        assert_eq!(b.set(10, Some(1), "rt", 0).ret, 0);
        assert_eq!((stat(&b).rt, stat(&b).period), (1, 6 * MS), "{policy}: auto leaves a report as it is");
    }
}

/// A pool with everything set is told as the operations that build one like it: an epoch then gives the same bytes.
pub fn described(make: &Maker) {
    for policy in names() {
        let mut b = Bench::new(make, policy, 0, 3);
        for cpu in [0, 1, 5] {
            b.ok(0, OpCode::CpuAdd, (cpu, 0, 0), [(cpu / 2).into(), (cpu / 3 + 7).into(), (cpu / 5 + 3).into()]);
        }
        for &(key, name, min, max, default) in OF_THE_POOL {
            if !["reserve", "server"].contains(&name) {
                let value = if min + 1 == max { max - default } else { min + (max - min) / 3 };
                b.ok(0, OpCode::Adjust, (0, 0, POOL), [key, value, 0]);
            }
        }
        b.vcpu(0, 0, 5);
        for (vm, v) in [(1, 10), (1, 1_023), (2, 20)] {
            b.vcpu(v, vm, v % 2);
            b.ok(0, OpCode::SetAffinity, (0, v, 0), [0, 0b10_0011 ^ u64::from(vm), 0]);
            b.ok(0, OpCode::SetAffinity, (0, v, 0), [1, 0b10_0001, 0]);
            b.ok(0, OpCode::SetPlacement, (0, v, 0), [0b10_0010, 0, 0]);
        }
        b.ok(0, OpCode::VcpuAdd, (1, 21, 2), [1, 0, 0]);
        for vm in 1..=2 {
            let n = u64::from(vm);
            let all = [
                ("weight", 300 + n),
                ("cap", 200 + n),
                ("period", 20 * MS + n),
                ("budget", MS + n),
                ("priority", 7 + n),
                ("extra", n % 2),
                ("laxity", 4 * MS + n),
                ("latency", 9 * MS + n),
                ("rt", n),
            ];
            for (name, value) in all {
                assert_eq!(b.set(0, Some(vm), name, value).ret, 0, "{policy}: {name}");
            }
            if policy == "poris" {
                b.ok(0, OpCode::SetGroup, (0, 0, vm), [(100 + n) | (n << 16), 0, 0]);
            }
        }
        let ops = b.core.describe();
        let mut copy = make(policy).expect("a pool");
        for op in &ops {
            assert_eq!(copy.op(*op).ret, 0, "{policy}: {op:?}");
        }
        assert_eq!(copy.describe(), ops, "{policy}: what was built is told alike");
        for vm in 0..4 {
            let settings =
                |core: &dyn Core| vm_settings().iter().map(|p| core.vm_setting(vm, p.key)).collect::<Vec<_>>();
            let held = |core: &dyn Core| (core.vm_stat(vm).expect("a VM"), settings(core));
            assert_eq!(held(&*b.core), held(&*copy), "{policy}: VM {vm}");
        }
        let epoch = Op { op: OpCode::Epoch as u16, now: 5, ..Op::default() };
        assert_eq!((copy.op(epoch).ret, b.core.op(epoch).ret), (0, 0));
        assert!(same_but_outputs(copy.bytes(), b.core.bytes()), "{policy}: a pool of the same configuration differs");
        // Each thing that is not told as it is built would be told by nobody.
        let count = |code: OpCode| ops.iter().filter(|o| o.op == code as u16).count();
        assert_eq!(count(OpCode::CpuAdd), 3);
        assert_eq!((count(OpCode::VmAdd), count(OpCode::VcpuAdd)), (4, 5));
        assert_eq!((count(OpCode::SetAffinity), count(OpCode::SetPlacement)), (10, 5));
        let known = |code: OpCode, cpu: u16, v: u16, vm: u16, arg: [u64; 3]| {
            ops.iter().any(|o| o.op == code as u16 && (o.cpu, o.vcpu, o.vm) == (cpu, v, vm) && o.arg[..3] == arg[..])
        };
        for cpu in [0, 1, 5_u16] {
            let arg = [(cpu / 2).into(), (cpu / 3 + 7).into(), (cpu / 5 + 3).into()];
            assert!(known(OpCode::CpuAdd, cpu, 0, 0, arg), "{policy}: PCPU {cpu}");
        }
        assert!(known(OpCode::SetAffinity, 0, 1_023, 0, [0, 0b10_0010, 0]), "{policy}: hard");
        assert!(known(OpCode::SetAffinity, 0, 20, 0, [1, 0b10_0001, 0]), "{policy}: soft");
        assert!(known(OpCode::SetPlacement, 0, 20, 0, [0b10_0010, 0, 0]), "{policy}: placement");
        assert!(known(OpCode::VcpuAdd, 5, 0, 0, [2, 0, 0]), "{policy}: Dom0");
        assert!(known(OpCode::VcpuAdd, 1, 21, 2, [1, 0, 0]), "{policy}: an I/O thread");
    }
}
