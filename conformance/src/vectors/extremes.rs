// SPDX-License-Identifier: GPL-2.0-only
//! The ends of what an operation may say, and a pool begun anew.

use super::bench::{Bench, IO, MS, US};
use crate::core::Maker;
use takt_policy::{NEVER, OpCode, State};

/// No clock gets that far; whoever says so anyway must not turn timers back, nor credit.
pub fn end_of_time(make: &Maker) {
    for (policy, ran) in [("credit", NEVER), ("credit", NEVER - 1), ("credit", 0), ("doris", NEVER), ("rr", 1)] {
        let mut b = Bench::new(make, policy, 2, 2);
        b.vcpu(1, 1, 0);
        b.vcpu(2, 2, 0);
        b.wake(0, 1);
        b.turn(0, 0);
        b.ok(NEVER - 5, OpCode::SetRt, (0, 0, 2), [1, 10_000 * MS, NEVER - 1]);
        b.event(NEVER - 4, 2, IO);
        b.wake(NEVER - 4, 2);
        assert!(b.deadline(2) == 0 || b.deadline(2) > NEVER / 8, "{policy}: {}", b.deadline(2));
        b.timer(NEVER - 3, 0);
        assert!(b.core.cpu_timer(0) > NEVER / 8, "{policy}: a tick at {}", b.core.cpu_timer(0));
        assert!(b.account(NEVER - 3).pool_timer > NEVER / 8, "{policy}: accounting");
        b.ok(NEVER - 2, OpCode::Schedule, (0, 0, 0), [2, 0, 0]);
        b.ok(NEVER, OpCode::Put, (0, 1, 0), [1, ran, 0]);
        assert_eq!(b.state(1), State::Queued, "{policy}");
        // A run of centuries is an error of the host; what it says it ran beyond the clock counts up to a second.
        assert!(b.credit(1).abs() <= 10_300, "{policy}: {}", b.credit(1));
        assert_eq!(b.core.check(), Ok(()), "{policy}");
        let l = b.core.ledger();
        assert_eq!(l.total, l.given - l.burned - l.clipped);
    }
}

/// A recording can begin on a live pool: after `epoch` only what operations say again is left.
pub fn epoch(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        let build = |order: [u16; 3]| {
            let mut b = Bench::new(make, policy, 3, 1);
            b.set(0, None, "server", 1);
            b.server(0, 1, 3 * MS, 10 * MS, 1);
            order.iter().for_each(|&v| b.vcpu(v, 1, v));
            b.vcpu(5, 0, 0);
            b
        };
        let mut live = build([2, 0, 1]);
        live.rt(0, 1, 5 * MS);
        (0..3).for_each(|v| _ = live.wake(0, v));
        (0..3).for_each(|c| _ = live.turn(100 * US, c));
        live.event(MS, 5, IO);
        live.ok(2 * MS, OpCode::CpuRelease, (1, 0, 0), [0; 3]);
        live.timer(10 * MS, 0);
        live.account(30 * MS);
        live.idle(31 * MS, 0);
        (0..3).for_each(|v| _ = live.event(31 * MS, v, IO));
        live.turn(33 * MS, 0);
        let res = live.ok(40 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
        assert_eq!(res.kick, 0b111, "{policy}");
        let ticks = ["credit", "doris"].contains(&policy);
        assert!(!ticks || res.armed == 0b111, "{policy}: the ticks that are off: {:b}", res.armed);
        let mut fresh = build([0, 1, 2]);
        fresh.ok(40 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
        let same = crate::run::same_but_outputs(live.core.bytes(), fresh.core.bytes());
        assert!(same, "{policy}: something of the past is left");
        // What was last on a PCPU that has gone is on the next one.
        live.ok(41 * MS, OpCode::CpuRemove, (1, 0, 0), [0; 3]);
        live.ok(41 * MS, OpCode::Epoch, (0, 0, 0), [0; 3]);
        assert_eq!([0, 1, 2].map(|v| live.core.vcpu_cpu(v)), [0, 2, 2], "{policy}");
        assert_eq!(live.core.check(), Ok(()), "{policy}");
    }
}
