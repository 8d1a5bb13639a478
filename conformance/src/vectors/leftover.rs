// SPDX-License-Identifier: GPL-2.0-only
//! What budgets leave, and budgets of threads that are replaced (docs/rules/rtxen.md, R37; docs/rules/credit.md, C44).

use super::bench::{Bench, MS};
use crate::core::Maker;
use takt_policy::{OpCode, State};

const BUDGETS: [&str; 3] = ["rtxen", "sedf", "vgedf"];

/// One PCPU without budgets: VM 1 has VCPUs 1 to 4, VM 2 has VCPU 9, Dom0 VCPU 5.
fn pool(make: &Maker, policy: &str, leftover: u64) -> Bench {
    let mut b = Bench::new(make, policy, 1, 2);
    b.set(0, None, "leftover", leftover);
    (1..=4).for_each(|v| b.vcpu(v, 1, 0));
    b.vcpu(9, 2, 0);
    b.vcpu(5, 0, 0);
    b
}

/// VMs take turns, however many VCPUs they have; sleep saves none.
pub fn turns(make: &Maker) {
    for policy in BUDGETS {
        for (leftover, of_20) in [(1, 9..=11), (0, 4..=4)] {
            let mut b = pool(make, policy, leftover);
            [1, 2, 3, 4, 9].into_iter().for_each(|v| {
                b.wake(0, v);
            });
            let ran = b.watch(0, 0, 20 * MS, MS);
            let count = |ran: &str| ran.matches('9').count();
            assert!(of_20.contains(&count(&ran)), "{policy}: leftover={leftover}: {ran}");
            if leftover == 1 {
                b.ok(20 * MS, OpCode::Pause, (0, 9, 0), [0; 3]);
                b.watch(0, 20 * MS, 60 * MS, MS);
                b.ok(60 * MS, OpCode::Unpause, (0, 9, 0), [0; 3]);
                let ran = b.watch(0, 60 * MS, 80 * MS, MS);
                assert!((9..=12).contains(&count(&ran)), "{policy}: {ran}");
            }
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
}

/// The host's own are first, up to the reserve of each 20 ms: 1 ms.
pub fn host(make: &Maker) {
    for policy in BUDGETS {
        for leftover in [1, 0] {
            let mut b = pool(make, policy, leftover);
            [1, 2, 3, 4, 9].into_iter().for_each(|v| {
                b.wake(0, v);
            });
            b.watch(0, 0, 2 * MS, MS);
            b.wake(2 * MS + 1, 5);
            let ran = b.watch(0, 3 * MS, 8 * MS, MS / 2);
            assert_eq!(ran.find('5').is_some_and(|at| at <= 1), leftover == 1, "{policy}: leftover={leftover}: {ran}");
            if leftover == 1 {
                let more = b.watch(0, 8 * MS, 19 * MS, MS / 2);
                let share = (ran + &more).matches('5').count();
                assert!(share <= 20 && more.contains('9'), "{policy}: beyond the reserve it takes turns: {more}");
            }
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
}

/// Places are of one kind as long as a VCPU may have one.
pub fn changed(make: &Maker) {
    for policy in BUDGETS {
        let mut b = pool(make, policy, 1);
        assert_eq!(b.set(0, None, "leftover", 0).ret, 0, "{policy}: all are blocked");
        b.set(0, None, "leftover", 1);
        [1, 2, 3, 4, 9].into_iter().for_each(|v| {
            b.wake(0, v);
        });
        assert_eq!(b.set(0, None, "leftover", 0).ret, -16, "{policy}");
        let ran = b.watch(0, 0, 20 * MS, MS);
        assert!((9..=11).contains(&ran.matches('9').count()), "{policy}: it is as before: {ran}");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
        let mut b = pool(make, policy, 1);
        b.ok(0, OpCode::Pause, (0, 1, 0), [0; 3]);
        assert_eq!(b.set(0, None, "leftover", 0).ret, -16, "{policy}: a paused one keeps its place");
    }
}

/// A budget that a VCPU has had is not another's in the same period.
pub fn spent(make: &Maker) {
    for policy in BUDGETS {
        for server in 0..if policy == "rtxen" { 4 } else { 1 } {
            for debts in [1, 0] {
                let mut b = Bench::new(make, policy, 1, 1);
                b.set(0, None, "debts", debts);
                b.set(0, None, "server", server);
                b.set(0, Some(1), "extra", 0);
                b.vcpu(1, 1, 0);
                b.server(0, 1, MS, 10 * MS, 1);
                b.run(1, 0, 0, MS / 2);
                b.ok(MS, OpCode::VcpuRemove, (0, 1, 0), [0; 3]);
                b.vcpu(2, 1, 0);
                b.wake(MS, 2);
                let waits = b.state(2) == State::Parked;
                assert_eq!(waits, debts == 1, "{policy}, server {server}: debts={debts}");
                assert_eq!(b.core.check(), Ok(()), "{policy}");
                b.serve(11 * MS);
                if debts == 1 {
                    assert_eq!(b.state(2), State::Running, "{policy}, server {server}");
                }
            }
        }
    }
}

/// Two PCPUs: VCPU 9 of VM 1 and VCPUs 1 to 6 of VM 2 may run on the first only. VM 3 has no VCPU yet.
fn apart(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 2, 3);
    b.set(0, None, "leftover", 1);
    b.vcpu(9, 1, 0);
    (1..=6).for_each(|v| b.vcpu(v, 2, 0));
    [9, 1, 2, 3, 4, 5, 6].into_iter().for_each(|v| b.pin(0, v, 1));
    b
}

/// Also where VCPUs of other VMs have had more on other PCPUs.
pub fn everywhere(make: &Maker) {
    for policy in BUDGETS {
        let mut b = apart(make, policy);
        b.vcpu(7, 3, 0);
        b.vcpu(8, 3, 1);
        [9, 1, 2, 3, 4, 5, 6, 7, 8].into_iter().for_each(|v| _ = b.wake(0, v));
        let ran = b.watch(0, 0, 2_000 * MS, MS);
        let count = |c| ran.matches(c).count();
        assert!(count('9') >= 900, "{policy}: {}", count('9'));
        assert!(policy == "vgedf" || count('7') >= 9, "{policy}: {}: none waits for ever", count('7'));
        assert_eq!(b.core.check(), Ok(()), "{policy}");
    }
}

/// A host that computes all the time is one VM of three beyond the reserve.
pub fn busy_host(make: &Maker) {
    for policy in BUDGETS {
        for (reserve, first) in [(5, 1), (0, 0)] {
            let mut b = pool(make, policy, 1);
            b.set(0, None, "reserve", reserve);
            b.vcpu(6, 0, 0);
            [1, 2, 3, 4, 9, 5, 6].into_iter().for_each(|v| _ = b.wake(0, v));
            let ran = b.watch(0, 0, 600 * MS, MS / 2);
            let had = |of: &str| ran.matches(|c| of.contains(c)).count() / 2;
            let fair = (600 - 30 * first) / 3;
            let (host, many, one) = (had("56"), had("1234"), had("9"));
            assert!(host >= 30 * first * 9 / 10, "{policy}: reserve={reserve}: the host has {host} of 600");
            for vm in [many, one] {
                assert!(vm >= fair * 9 / 10, "{policy}: reserve={reserve}: {many} and {one} of 600, fair are {fair}");
            }
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
}

/// A VM with a PCPU of its own can use no more, and does not hold the others back.
pub fn alone(make: &Maker) {
    for policy in BUDGETS {
        let mut b = apart(make, policy);
        b.vcpu(7, 3, 1);
        b.pin(0, 7, 2);
        [7, 9, 1, 2, 3, 4, 5, 6].into_iter().for_each(|v| _ = b.wake(0, v));
        let ran = b.watch(0, 0, 1_000 * MS, MS);
        let one = ran.matches('9').count();
        assert!((450..=550).contains(&one), "{policy}: {one} of 1000");
        assert_eq!(b.core.check(), Ok(()), "{policy}");
    }
}

/// A VM that has had less than the others keeps its PCPU, beyond its turn; what preempts it costs it nothing.
pub fn behind(make: &Maker) {
    for policy in BUDGETS {
        for (leftover, of_1000) in [(1, 850..=1000), (0, 0..=300)] {
            let mut b = Bench::new(make, policy, 2, 2);
            b.set(0, None, "leftover", leftover);
            b.vcpu(9, 1, 0);
            b.pin(0, 9, 1);
            (1..=8).for_each(|v| b.vcpu(v, 2, v % 2));
            [9, 1, 2, 3, 4, 5, 6, 7, 8].into_iter().for_each(|v| _ = b.wake(0, v));
            b.watch(0, 0, 200 * MS, MS);
            let ran = b.watch(0, 200 * MS, 1_200 * MS, MS);
            let one = ran.matches('9').count();
            assert!(of_1000.contains(&one), "{policy}: leftover={leftover}: {one} of 1000");
            assert_eq!(b.core.check(), Ok(()), "{policy}");
        }
    }
}

/// A VCPU with budget keeps to its PCPU and asks no other; one without asks one that idles, or all.
pub fn asks(make: &Maker) {
    for policy in ["rtxen", "sedf"] {
        for (tickle, kicks) in [(1, 1), (0, 3)] {
            let mut b = Bench::new(make, policy, 4, 2);
            b.set(0, None, "tickle", tickle);
            b.set(0, None, "reserve", 0);
            for v in [1, 2] {
                b.vcpu(v, 1, 0);
                b.pin(0, v, 1);
            }
            b.server(0, 1, 2 * MS, 10 * MS, 1);
            b.vcpu(3, 2, 0);
            assert_eq!(b.wake(0, 1).kick, 1, "{policy}");
            assert_eq!(b.wake(0, 2).kick & !1, 0, "{policy}");
            assert_eq!(b.turn(0, 0), Some(1), "{policy}");
            assert_eq!(b.wake(0, 3).kick.count_ones(), kicks, "{policy}: tickle={tickle}");
            assert_eq!(b.core.check(), Ok(()), "{policy}");
            // One without budget that was alone has relied upon its PCPU.
            let mut b = Bench::new(make, policy, 4, 2);
            b.set(0, None, "tickle", tickle);
            b.set(0, None, "reserve", 0);
            b.vcpu(1, 1, 0);
            b.pin(0, 1, 1);
            b.server(0, 1, 2 * MS, 10 * MS, 1);
            b.vcpu(3, 2, 0);
            assert_eq!(b.wake(0, 3).kick, 1, "{policy}");
            b.wake(0, 1);
            b.serve(0);
            assert_eq!([1, 3].map(|v| b.state(v)), [State::Running; 2], "{policy}: tickle={tickle}");
        }
    }
}
