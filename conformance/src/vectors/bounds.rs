// SPDX-License-Identifier: GPL-2.0-only
//! How long a VCPU that has work may wait, as each policy promises it (hook `bound`). The checker
//! holds random hosts against this: here it is told how long that is. Figures are worked out from
//! the formulas in the comments of `policy/core/bound.h` and of the policy.

use super::bench::{Bench, MS};
use crate::core::Maker;
use takt_policy::{NEVER, OpCode};

const SECOND: u64 = 1_000 * MS;

/// A pool with these PCPUs, and VMs 1… with so many VCPUs and this weight. VM 0 has no VCPU, and
/// the least weight.
fn pool(make: &Maker, policy: &str, cpus: u16, vms: &[(u16, u64)]) -> Bench {
    let mut b = Bench::new(make, policy, cpus, vms.len() as u16);
    b.set(0, Some(0), "weight", 1);
    let mut v = 0;
    for (vm, &(vcpus, weight)) in (1..).zip(vms) {
        b.set(0, Some(vm), "weight", weight);
        for _ in 0..vcpus {
            b.vcpu(v, vm, v % cpus);
            v += 1;
        }
    }
    b
}

/// The figure, after these settings of the pool.
#[track_caller]
fn is(b: &mut Bench, settings: &[(&str, u64)], want: u64) {
    for &(name, value) in settings {
        assert_eq!(b.set(0, None, name, value).ret, 0, "{name}={value}");
    }
    assert_eq!(b.core.wait_bound(), want, "{}: {settings:?}", b.core.policy());
}

/// Round robin: a slice for each VCPU, and one more.
pub fn of_turns(make: &Maker) {
    let mut b = pool(make, "rr", 2, &[(2, 256), (1, 1)]);
    is(&mut b, &[], 4 * 30 * MS);
    is(&mut b, &[("slice", 7 * MS)], 4 * 7 * MS);
}

/// Virtual time: until each VCPU has passed the latest that may be ahead, by its allowance and a
/// slice.
pub fn of_virtual_time(make: &Maker) {
    let none = ("warp", 0);
    // 35 ms are 34179 units of 1024 ns. A VCPU passes them, in whole multiples of 256, and two
    // slices with the allowance, 68359 units and one more; then 2 slices.
    is(&mut pool(make, "bvt", 1, &[(1, 256)]), &[none], 1024 * (133 * 256 + 68_360) + 60 * MS);
    // A warp of 50 ms counts three times: in how far another is ahead, 83007 units, and twice
    // besides, 97656 more.
    is(&mut pool(make, "bvt", 1, &[(1, 256)]), &[], 1024 * (705 * 256 + 68_360) + 60 * MS);
    // Of three VMs that of 3 VCPUs of weight 512 is not as far ahead as that of 2 of weight 100.
    let vms = [(1, 256), (3, 512), (2, 100)];
    is(&mut pool(make, "bvt", 2, &vms), &[], 1_744_861_312);
    is(&mut pool(make, "bvt", 2, &vms), &[("weights", 1)], 2_494_388_352);
    let short = [none, ("slice", 5 * MS), ("ctx_allow", MS)];
    is(&mut pool(make, "bvt", 2, &vms), &short, 210_892_480);
    is(&mut pool(make, "bvt", 2, &vms), &[short[0], short[1], short[2], ("weights", 1)], 225_310_400);
    // A VM without VCPUs holds up nobody, whatever it weighs.
    is(&mut pool(make, "bvt", 2, &[(1, 256), (3, 512), (0, 1), (2, 100), (0, 65535)]), &[], 1_744_861_312);
    // Dom0's VCPU counts as any: of weight 1 it is 256 times as far ahead.
    let mut b = pool(make, "bvt", 1, &[(1, 256)]);
    b.vcpu(9, 0, 0);
    is(&mut b, &[none], 9_224_820_352);
    // The longest that is told is 2^63 ns.
    let mut vms = vec![(900, 1)];
    vms.resize(17, (1, 65535));
    let mut b = pool(make, "bvt", 2, &vms);
    is(&mut b, &[("ctx_allow", 100 * MS), ("slice", 9_673 * MS)], 9_222_855_375_879_584_064);
    is(&mut b, &[("slice", 9_674 * MS)], NEVER);
    is(&mut b, &[("slice", 10 * SECOND)], NEVER);
}

/// Credit: the accountings in which the poorest VM pays back what it may owe, and then two slices
/// of each VCPU, and of one more.
pub fn of_credit(make: &Maker) {
    let vms = [(1, 255), (2, 512)];
    let slices = 2 * 4 * 30 * MS;
    for policy in ["credit", "doris", "poris", "laxs", "gang"] {
        let mut b = pool(make, policy, 2, &vms);
        b.set(0, None, "turns", 0);
        // 600 credits for each VCPU. Of 600 that are handed out, VM 1 has 255 of 768 parts, which
        // are 199, VM 2 has 400.
        let plain = 30 * MS * (600 / 199 + 2) + slices;
        is(&mut b, &[("claim", 0)], plain);
        // Of 1280 parts, VM 1 has 119 credits, and each of VM 2's VCPUs 239.
        is(&mut b, &[("weights", 1)], 30 * MS * (600 / 119 + 2) + slices);
        is(&mut b, &[("weights", 0)], plain);
        // A cap of 25 % is 75 credits, for two VCPUs.
        assert_eq!(b.set(0, Some(2), "cap", 25).ret, 0);
        is(&mut b, &[], 30 * MS * (600 / 37 + 2) + slices);
        // VM 2 owes 903 for each of two VCPUs, and 1200 besides, and is paid 75 credits of its cap
        // each time; VM 1 owes 2103, and is paid 255 of 768 parts of 600.
        is(&mut b, &[("claim", 1)], 30 * MS * (41 + 3) + slices);
        assert_eq!(b.set(0, Some(2), "cap", 0).ret, 0);
        let exact = 30 * MS * (11 + 3) + slices;
        is(&mut b, &[], exact);
        // As many accountings, and longer ones; shorter slices.
        is(&mut b, &[("acct", 60 * MS), ("slice", 10 * MS)], 60 * MS * (11 + 3) + 80 * MS);
        is(&mut b, &[("acct", 30 * MS), ("slice", 30 * MS)], exact);
        for (name, none, again) in [("activate", 0, 1), ("charge", 1, 0), ("balance", 1, 0)] {
            is(&mut b, &[(name, none)], NEVER);
            is(&mut b, &[(name, again)], exact);
        }
        // What a policy has of its own.
        for (of, name, none, again) in
            [("laxs", "over", 1, 0), ("poris", "promote_over", 1, 0), ("gang", "turns", 1, 0)]
        {
            is(&mut b, &[(name, none)], if policy == of { NEVER } else { exact });
            is(&mut b, &[(name, again)], exact);
        }
        // Siblings that share their credit keep one in debt: only where they start together.
        is(&mut b, &[("balance", 2)], exact);
        assert_eq!(b.set(0, Some(1), "rt", 1).ret, 0);
        for parallel in [0, 1, 2] {
            let shares = policy == "poris" && parallel > 0;
            is(&mut b, &[("parallel", parallel)], if shares { NEVER } else { exact });
        }
        assert_eq!(b.set(0, Some(1), "rt", 0).ret, 0);
        b.rt(0, 1, 0);
        is(&mut b, &[], exact);
        assert_eq!(b.core.check(), Ok(()), "{policy}");
    }
}

/// Budgets: turns in what is left of them.
pub fn of_budgets(make: &Maker) {
    for (policy, name) in [("rtxen", "quantum"), ("sedf", "extra_quantum"), ("vgedf", "extra_quantum")] {
        let mut b = pool(make, policy, 2, &[(1, 256), (2, 256)]);
        is(&mut b, &[("leftover", 0), (name, 2 * MS)], 4 * 2 * MS + 20 * MS);
        is(&mut b, &[(name, MS / 2)], 4 * MS / 2 + 20 * MS);
        // With leftover=vm turns are 1 ms long at least, and each of three VMs may be ahead by 100
        // ms.
        is(&mut b, &[("leftover", 1)], 3 * (4 + 100) * MS + 20 * MS);
        is(&mut b, &[(name, 2 * MS)], 3 * (8 + 100) * MS + 20 * MS);
        is(&mut b, &[("leftover", 0)], 4 * 2 * MS + 20 * MS);
        // VM 1 has 3 ms in 10, VM 2 1 ms in 50 for each of two VCPUs, which are less than the
        // reserve of 5 %: it waits for two periods, then for what others have, and a fiftieth of
        // the PCPU is its own.
        b.server(0, 1, 3 * MS, 10 * MS, 1);
        b.server(0, 2, MS, 50 * MS, 1);
        let others = 40 * MS + 2 * (3 + 2) * MS + 2 * 2 * (1 + 2) * MS + 8 * MS;
        let want = 100 * MS + others * 51;
        is(&mut b, &[], want);
        // A reserve of less than that.
        is(&mut b, &[("reserve", 1)], 100 * MS + others * 101);
        is(&mut b, &[("reserve", 0)], NEVER);
        is(&mut b, &[("reserve", 5)], want);
        is(&mut b, &[("admission", 0)], NEVER);
        is(&mut b, &[("admission", 1)], want);
        // A VM without VCPUs needs no time.
        b.ok(0, OpCode::VmAdd, (0, 0, 7), [0, 256, 0]);
        b.server(0, 7, MS, 10 * SECOND, 1);
        is(&mut b, &[], want);
    }
}
