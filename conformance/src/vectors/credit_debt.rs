// SPDX-License-Identifier: GPL-2.0-only
//! What a VM owes outlives its threads (rule C44, `policy/core/credit_debt.h`).

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode, State};

const CREDIT: [&str; 5] = ["credit", "doris", "poris", "laxs", "gang"];

/// VM 1 with these VCPUs, and VM 2 with VCPU 9, on one PCPU.
fn pool(make: &Maker, policy: &str, vcpus: &[u16]) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    vcpus.iter().for_each(|&v| b.vcpu(v, 1, 0));
    b.vcpu(9, 2, 0);
    b
}

fn remove(b: &mut Bench, now: u64, v: u16) {
    b.ok(now, OpCode::VcpuRemove, (0, v, 0), [0; 3]);
    assert_eq!(b.core.check(), Ok(()));
}

/// A VCPU that begins where another has gone begins with its debt, and is not boosted; the VM pays.
pub fn replaced(make: &Maker) {
    for policy in CREDIT {
        for (debts, credit, class) in [(1, -200, Class::Over), (0, 0, Class::Under)] {
            let mut b = pool(make, policy, &[1]);
            b.set(0, None, "debts", debts);
            b.run(1, 0, 0, 20 * MS);
            remove(&mut b, 20 * MS, 1);
            b.vcpu(2, 1, 0);
            assert_eq!((b.credit(2), b.class(2)), (credit, class), "{policy}: debts={debts}");
            b.wake(20 * MS, 2);
            let boosted = policy != "gang" && debts == 0;
            assert_eq!(b.class(2) == Class::Boost, boosted, "{policy}: debts={debts}");
            let earned = b.credit(2);
            b.account(30 * MS);
            assert_eq!(b.credit(2) > earned, debts == 1, "{policy}: it earns as one that owes");
            assert_eq!(b.core.check(), Ok(()));
        }
    }
}

/// Threads that are there already do not help: they owe it together, also a new one among them.
pub fn shared(make: &Maker) {
    for policy in CREDIT {
        let mut b = pool(make, policy, &[1, 2]);
        b.run(1, 0, 0, 20 * MS);
        remove(&mut b, 20 * MS, 1);
        assert_eq!((b.credit(2), b.class(2), b.state(2)), (-200, Class::Over, State::Blocked), "{policy}");
        b.vcpu(3, 1, 0);
        assert_eq!([2, 3].map(|v| b.credit(v)), [-100; 2], "{policy}");
        assert_eq!((b.class(3), b.credit(9)), (Class::Over, 0), "{policy}: it is this VM's debt");
        b.vcpu(4, 1, 0);
        assert_eq!([2, 3, 4].map(|v| b.credit(v)), [-66; 3], "{policy}: two are owed on");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
    }
}

/// With claim=vm no VCPU takes on more of a debt than it can save: the VM keeps the rest, which accounting would forgive
/// below a floor.
pub fn floor(make: &Maker) {
    for policy in CREDIT {
        for (claim, credit, owed) in [(1, -300, 300), (0, -600, 0)] {
            let mut b = Bench::new(make, policy, 4, 1);
            (1..=3).for_each(|v| b.vcpu(v, 1, v));
            b.set(0, None, "claim", claim);
            (1..=3).for_each(|v| b.run(v, v, u64::from(v) * 20 * MS, u64::from(v + 1) * 20 * MS));
            remove(&mut b, 80 * MS, 1);
            assert_eq!(([2, 3].map(|v| b.credit(v)), b.core.owes(1)), ([-300; 2], 0), "{policy}: claim={claim}");
            remove(&mut b, 80 * MS, 2);
            assert_eq!((b.credit(3), b.core.owes(1)), (credit, owed), "{policy}: claim={claim}");
            b.vcpu(1, 1, 0);
            assert_eq!(([1, 3].map(|v| b.credit(v)), b.core.owes(1)), ([-300; 2], 0), "{policy}: claim={claim}");
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
}

/// What a VM keeps is limited to twice what its VCPUs may owe: it has run for long in what others left.
pub fn most(make: &Maker) {
    for policy in CREDIT {
        for (claim, credit, owed) in [(1, -300, 600), (0, -3000, 0)] {
            let mut b = pool(make, policy, &[1, 2]);
            b.set(0, None, "claim", claim);
            b.run(1, 0, 0, 300 * MS);
            remove(&mut b, 300 * MS, 1);
            assert_eq!((b.credit(2), b.core.owes(1)), (credit, owed), "{policy}: claim={claim}");
        }
    }
}

/// What is owed is at most 2^30 credits, which are more than a day: what a VCPU leaves beyond is forgiven.
pub fn beyond(make: &Maker) {
    for policy in CREDIT {
        let mut b = Bench::new(make, policy, 1, 0);
        b.set(0, None, "claim", 0);
        b.ok(0, OpCode::VmAdd, (0, 0, 1), [0, 256 | 1 << 62, 0]);
        b.vcpu(1, 1, 0);
        assert_eq!((b.credit(1), b.core.owes(1)), (-(1 << 30), 0), "{policy}: as it began");
        b.run(1, 0, 0, 40 * US);
        remove(&mut b, MS, 1);
        assert_eq!(b.core.owes(1), 1 << 30, "{policy}: not the credit of a short run besides");
    }
}

/// A VM without debt gives a new VCPU nothing, and takes nothing from it.
pub fn none(make: &Maker) {
    for policy in CREDIT {
        let mut b = pool(make, policy, &[1, 2]);
        b.run(1, 0, 0, 10 * MS);
        b.account(30 * MS);
        assert!(b.credit(1) > 0, "{policy}");
        let before = [1, 2].map(|v| b.credit(v));
        b.vcpu(3, 1, 0);
        assert_eq!(([1, 2].map(|v| b.credit(v)), b.credit(3)), (before, 0), "{policy}");
        // What a VCPU has saved goes with it if none of its siblings earns.
        remove(&mut b, 30 * MS, 1);
        assert_eq!((b.credit(2), b.credit(3)), (before[1], 0), "{policy}");
    }
}

/// What a VCPU has as it goes its siblings have, as far as they can hold it: it was its VM's.
pub fn left(make: &Maker) {
    for policy in CREDIT {
        for debts in [1, 0] {
            let mut b = pool(make, policy, &[1, 2]);
            b.set(0, None, "debts", debts);
            b.run(1, 0, 0, 5 * MS);
            b.run(2, 0, 5 * MS, 10 * MS);
            b.account(30 * MS);
            let (one, two) = (b.credit(1), b.credit(2));
            assert!(one > 0 && two > 0, "{policy}");
            remove(&mut b, 30 * MS, 1);
            assert_eq!(b.credit(2), if debts == 1 { one + two } else { two }, "{policy}: debts={debts}");
        }
        let mut b = pool(make, policy, &[1, 2, 3]);
        b.set(0, None, "surplus", 1);
        (1..=3).for_each(|v| b.run(v, 0, u64::from(v) * MS, u64::from(v) * MS + 100 * US));
        (1..=9).for_each(|i| _ = b.account(i * 30 * MS));
        let saved = b.credit(2);
        (1..=3).for_each(|v| assert_eq!(b.credit(v), saved, "{policy}: all that it can hold"));
        remove(&mut b, 280 * MS, 1);
        assert_eq!([2, 3].map(|v| b.credit(v)), [saved; 2], "{policy}: more it cannot hold");
    }
}

/// A cap is the VM's: a new VCPU that is in debt waits until it is paid, as the one that has gone would.
pub fn capped(make: &Maker) {
    for policy in CREDIT {
        for (debts, activate, state) in [(1, 1, State::Parked), (1, 0, State::Parked), (0, 1, State::Queued)] {
            let mut b = pool(make, policy, &[1]);
            b.set(0, None, "debts", debts);
            b.set(0, None, "activate", activate);
            b.set(0, Some(1), "cap", 20);
            b.run(1, 0, 0, 10 * MS);
            remove(&mut b, 10 * MS, 1);
            b.vcpu(2, 1, 0);
            b.wake(10 * MS, 2);
            assert_eq!(b.state(2), state, "{policy}: debts={debts}");
            (1..=3).for_each(|i| _ = b.account(i * 30 * MS));
            assert_eq!(b.state(2), State::Queued, "{policy}: debts={debts}, activate={activate}: it is paid");
        }
    }
}

/// What its VCPUs have saved pays what a VM owes.
pub fn paid(make: &Maker) {
    for policy in CREDIT {
        let mut b = pool(make, policy, &[1, 2]);
        b.run(1, 0, 0, 10 * MS);
        b.account(30 * MS);
        let saved = b.credit(1);
        b.run(2, 0, 30 * MS, 31 * MS);
        remove(&mut b, 31 * MS, 2);
        assert_eq!(b.credit(1), saved - 10, "{policy}");
        b.vcpu(3, 1, 0);
        assert_eq!((b.credit(1), b.credit(3)), (saved - 10, 0), "{policy}: nothing is owed any more");
    }
}

/// What rounding has paid too much is paid out of what a VCPU leaves; it is no debt that a new one shares.
pub fn rounded(make: &Maker) {
    for policy in CREDIT {
        let mut b = pool(make, policy, &[1, 2, 3, 4]);
        b.set(0, None, "claim", 1);
        b.set(0, None, "surplus", 1);
        for from in [0, 30 * MS] {
            b.run(9, 0, from, from + MS);
            (1..=4).for_each(|v| b.run(v, 0, from + u64::from(v) * MS, from + u64::from(v) * (MS + 100 * US)));
            b.account(from + 30 * MS);
        }
        // The VM has 146 credits, after what it owes, which are 37 for each of four: two are owed.
        assert_eq!([1, 2, 3, 4].map(|v| b.credit(v)), [72, 71, 70, 69], "{policy}");
        b.vcpu(5, 1, 0);
        assert_eq!([1, 2, 3, 4, 5].map(|v| b.credit(v)), [72, 71, 70, 69, 0], "{policy}");
        remove(&mut b, 30 * MS, 4);
        assert_eq!([1, 2, 3].map(|v| b.credit(v)), [80, 100, 100], "{policy}: of 69 two are paid, 100 is the ceiling");
        remove(&mut b, 30 * MS, 3);
        assert_eq!([1, 2].map(|v| b.credit(v)), [130, 150], "{policy}: nothing is owed any more");
    }
}

/// Runs that are too short to be charged are one credit; a VM that goes takes its debt with it.
pub fn ends(make: &Maker) {
    for policy in CREDIT {
        let mut b = pool(make, policy, &[1]);
        b.run(1, 0, 0, 40 * US);
        remove(&mut b, MS, 1);
        b.vcpu(2, 1, 0);
        assert_eq!(b.credit(2), -1, "{policy}: a thread for each 40 us is not free");
        remove(&mut b, MS, 2);
        b.ok(MS, OpCode::VmRemove, (0, 0, 1), [0; 3]);
        assert_eq!(b.core.check(), Ok(()), "{policy}");
        b.ok(MS, OpCode::VmAdd, (0, 0, 1), [0, 256, 0]);
        b.vcpu(1, 1, 0);
        assert_eq!((b.credit(1), b.class(1)), (0, Class::Under), "{policy}: the next tenant owes nothing");
        b.run(1, 0, MS, 21 * MS);
        remove(&mut b, 21 * MS, 1);
        b.ok(21 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
        b.vcpu(1, 1, 0);
        assert_eq!((b.credit(1), b.core.check()), (0, Ok(())), "{policy}: at the beginning of time");
    }
}

/// If the host lets a new VM owe what a VM that ended did, the new VM begins in debt and without a boost, until the debt is
/// paid. Nothing else of the VM that ended is left.
pub fn inherited(make: &Maker) {
    for policy in CREDIT {
        for (debts, owed) in [(1, 200), (0, 0)] {
            let mut b = pool(make, policy, &[1]);
            b.set(0, None, "debts", debts);
            b.set(0, Some(1), "cap", 50);
            b.run(1, 0, 0, 20 * MS);
            remove(&mut b, 20 * MS, 1);
            assert_eq!(b.core.owes(1), owed, "{policy}: debts={debts}");
            b.ok(20 * MS, OpCode::VmRemove, (0, 0, 1), [0; 3]);
            assert_eq!(b.core.check(), Ok(()), "{policy}: forgiven");
            b.ok(20 * MS, OpCode::VmAdd, (0, 0, 1), [0, 256 | 200 << 32, 0]);
            assert_eq!((b.core.owes(1), b.core.check()), (owed, Ok(())), "{policy}: and owed again");
            b.vcpu(1, 1, 0);
            let (credit, class) = if debts == 1 { (-200, Class::Over) } else { (0, Class::Under) };
            assert_eq!((b.credit(1), b.class(1), b.core.owes(1)), (credit, class, 0), "{policy}: debts={debts}");
            b.wake(20 * MS, 1);
            assert_eq!(b.class(1) == Class::Boost, policy != "gang" && debts == 0, "{policy}: debts={debts}");
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
    // Under bvt it is how far its VCPUs are ahead of a VCPU that waits, in virtual time.
    let mut b = pool(make, "bvt", &[1]);
    b.run(1, 0, 0, 100 * MS);
    b.wake(100 * MS, 1);
    assert_eq!(b.turn(100 * MS, 0), Some(1));
    b.wake(100 * MS, 9);
    b.stop(103 * MS, 0);
    remove(&mut b, 103 * MS, 1);
    assert_eq!(b.core.owes(1), 3_000, "us of virtual time");
    b.ok(103 * MS, OpCode::VmRemove, (0, 0, 1), [0; 3]);
    assert_eq!(b.core.owes(1), 0);
    b.ok(103 * MS, OpCode::VmAdd, (0, 0, 1), [0, 256 | 3_000 << 32, 0]);
    assert_eq!(b.core.owes(1), 3_000);
    b.vcpu(1, 1, 0);
    remove(&mut b, 103 * MS, 1);
    assert_eq!(b.core.owes(1), 3_000, "its VCPUs are as far ahead");
    // Under policies with budgets it is what a VM has had of the time that budgets leave.
    for policy in ["rtxen", "sedf", "vgedf"] {
        let mut b = pool(make, policy, &[1]);
        b.set(0, None, "leftover", 1);
        b.wake(0, 1);
        assert_eq!(b.turn(0, 0), Some(1));
        b.wake(MS, 9);
        b.stop(4 * MS, 0);
        remove(&mut b, 4 * MS, 1);
        let owed = b.core.owes(1);
        assert!((1_000..=4_000).contains(&owed), "{policy}: {owed} us");
        b.ok(4 * MS, OpCode::VmRemove, (0, 0, 1), [0; 3]);
        b.ok(4 * MS, OpCode::VmAdd, (0, 0, 1), [0, 256 | u64::from(owed) << 32, 0]);
        assert_eq!((b.core.owes(1), b.core.check()), (owed, Ok(())), "{policy}");
    }
}
