// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/laxs.md, rules L2 to L6 and L9: the other way of each, beside the default.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, OpCode};

/// One PCPU and VMs of one VCPU each; the 5th is real-time, with 10 µs of laxity.
fn pool(make: &Maker, parameter: &str, value: u64) -> Bench {
    let mut b = Bench::new(make, "laxs", 1, 9);
    assert_eq!(b.set(0, None, parameter, value).ret, 0);
    (1..=9).for_each(|v| b.vcpu(v, v, 0));
    b.rt(0, 5, 0);
    b
}

pub fn over(make: &Maker) {
    for (value, want) in [(0, [2, 5]), (1, [5, 2])] {
        let mut b = pool(make, "over", value);
        b.run(2, 0, 0, 50 * US);
        b.run(5, 0, MS, 390 * MS);
        b.account(400 * MS);
        // It has had its slice, so it goes behind its equals once.
        b.run(5, 0, 401 * MS, 402 * MS);
        b.wake(410 * MS, 2);
        b.wake(410 * MS, 5);
        assert_eq!((b.class(2), b.class(5)), (Class::Boost, Class::Over));
        assert_eq!(b.order(410 * MS, 0), want, "over={value}: 50 us before it");
    }
}

/// UNDER, beside a BOOST of 50 µs: as it queues, and as it runs.
pub fn across(make: &Maker) {
    for (value, queued, next) in [(1, [5, 4], 5), (0, [4, 5], 4)] {
        let begin = || {
            let mut b = pool(make, "across", value);
            b.run(4, 0, MS, MS + 50 * US);
            b.wake(10 * MS - US, 5);
            b.turn(10 * MS - US, 0);
            b.wake(10 * MS - US, 4);
            b.timer(10 * MS, 0);
            assert_eq!((b.class(5), b.class(4)), (Class::Under, Class::Boost));
            b
        };
        assert_eq!(begin().turn(10 * MS, 0), Some(next), "across={value}");
        let mut b = begin();
        b.idle(10 * MS, 0);
        assert_eq!(b.order(10 * MS, 0), queued, "across={value}");
    }
    // Within its own class it is before who takes longer, either way.
    let mut b = pool(make, "across", 0);
    b.run(2, 0, MS, MS + 50 * US);
    b.wake(10 * MS, 2);
    b.wake(10 * MS, 5);
    assert_eq!(b.order(10 * MS, 0), [5, 2]);
}

/// VCPU 1 has run for 30 µs, 100 are expected; 2, which takes 50, waits.
pub fn running(make: &Maker) {
    for (value, laxity, want) in
        [(0, 80, [2, 5]), (1, 80, [5, 2]), (1, 119, [5, 2]), (1, 120, [2, 5]), (1, 60, [5, 2]), (0, 49, [5, 2])]
    {
        let mut b = pool(make, "running", value);
        b.set(0, Some(5), "laxity", laxity * US);
        b.run(1, 0, MS, MS + 100 * US);
        b.run(2, 0, 2 * MS, 2 * MS + 50 * US);
        b.wake(20 * MS, 1);
        b.turn(20 * MS, 0);
        b.wake(20 * MS, 2);
        b.wake(20 * MS + 30 * US, 5);
        let mut next = || b.stop(20 * MS + 30 * US, 0);
        assert_eq!([next(), next()], want.map(Some), "running={value}, laxity {laxity} us");
    }
}

pub fn first_run(make: &Maker) {
    for (value, want) in [(0, [2, 5]), (10 * US, [2, 5]), (10 * US + 1, [5, 2])] {
        for epoch in [false, true] {
            let mut b = pool(make, "first_run", value);
            if epoch {
                b.ok(0, OpCode::Epoch, (0, 0, 0), [0; 3]);
                b.rt(0, 5, 0);
            }
            b.wake(0, 2);
            b.wake(0, 5);
            assert_eq!(b.order(0, 0), want, "first_run={value}, epoch: {epoch}");
        }
    }
}

/// Three PCPUs with queues; PCPU 3 idles.
pub fn peer(make: &Maker) {
    for (value, want) in [(0, 5), (1, 1)] {
        let mut b = Bench::new(make, "laxs", 4, 9);
        b.set(0, None, "steal", 1);
        b.set(0, None, "peer", value);
        b.rt(0, 5, 0);
        (0..4).for_each(|c| b.idle(0, c));
        for (cpu, v) in [1, 2, 5].into_iter().enumerate() {
            b.vcpu(v, v, cpu as u16);
            b.wake(MS, v);
        }
        assert_eq!(b.turn(2 * MS, 3), Some(want), "peer={value}");
    }
}

/// As in the vector of LL's balance; 1 is bound to PCPU 0, 2 and 3 to PCPU 1 after its first look, and VCPU 1 had run for 300 ms by then.
pub fn history(make: &Maker) {
    for (value, want) in [(0, [0, 0, 1]), (1, [0, 1, 0])] {
        let mut b = super::laxs_place::three(make);
        b.set(0, None, "history", value);
        for (v, cpu, from, ms) in [(1, 0, 100, 300), (2, 1, 420, 50), (3, 0, 500, 100)] {
            b.run(v, cpu, from * MS, (from + ms) * MS);
        }
        b.account(1_020 * MS);
        b.account(2_040 * MS);
        b.run(2, 1, 2_100 * MS, 2_400 * MS);
        b.run(3, 1, 2_500 * MS, 2_600 * MS);
        b.account(3_090 * MS);
        (1..=3).for_each(|v| _ = b.wake(3_090 * MS, v));
        assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), want, "history={value}");
    }
}

/// Rule L9: history=half halves what was run at each look. 400 ms of PCPU 1 are 50 after three of
/// them.
pub fn halved(make: &Maker) {
    for (looks, want) in [(1, [0, 1, 0]), (4, [0, 1, 1])] {
        let mut b = super::laxs_place::three(make);
        b.set(0, None, "history", 1);
        b.wake(0, 1);
        b.ok(0, OpCode::Block, (0, 1, 0), [0; 3]);
        b.run(2, 1, 100 * MS, 500 * MS);
        let mut now = 0;
        for _ in 0..looks {
            now += 1_020 * MS;
            b.account(now);
        }
        b.run(1, 0, now + 20 * MS, now + 220 * MS);
        b.run(3, 0, now + 300 * MS, now + 400 * MS);
        b.account(now + 1_020 * MS);
        (1..=3).for_each(|v| _ = b.wake(now + 1_020 * MS, v));
        assert_eq!([1, 2, 3].map(|v| b.core.vcpu_cpu(v)), want, "after {looks} looks");
    }
}
