// SPDX-License-Identifier: GPL-2.0-only
//! Which PCPUs a queued VCPU tickles (rule C12), and that no PCPU idles beside a queued VCPU (rule
//! C13).

use super::bench::{Bench, MS};
use crate::core::Maker;
use takt_policy::{Class, FORCE_IDLE, NEVER, NIL, OpCode, State};

/// VMs 1… with one VCPU each of the same number, at home on PCPU 0 of four.
fn pool(make: &Maker, policy: &str, vcpus: u16) -> Bench {
    let mut b = Bench::new(make, policy, 4, vcpus);
    (1..=vcpus).for_each(|v| b.vcpu(v, v, 0));
    b
}

fn pin(b: &mut Bench, v: u16, mask: u64) {
    b.ok(0, OpCode::SetAffinity, (0, v, 0), [0, mask, 0]);
}

pub fn own_first(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, 3);
        assert_eq!(b.wake(0, 1).kick, 0b0001, "{policy}: its own PCPU is idle, the other idle ones sleep on");
        assert_eq!(b.wake(0, 2).kick, 0b1111, "{policy}: two wait for one idle PCPU");
        assert_eq!(b.turn(0, 0), Some(1));
        assert_eq!(b.turn(0, 3), Some(2));
        assert_eq!(b.wake(0, 3).kick, 0b0110, "{policy}: its own is busy, and busy as BOOST: the idle ones");
    }
}

/// A PCPU that was tickled alone and then does something else passes the tickle on.
pub fn passed_on(make: &Maker) {
    for policy in ["credit", "rr", "doris"] {
        let mut b = pool(make, policy, 2);
        assert_eq!(b.wake(0, 1).kick, 0b0001);
        let res = b.ok(0, OpCode::Schedule, (0, 0, 0), [FORCE_IDLE, 0, 0]);
        assert_eq!(res.kick, 0b1110, "{policy}: told to idle");
        let mut b = pool(make, policy, 2);
        assert_eq!(b.wake(0, 1).kick, 0b0001);
        let res = b.ok(0, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
        assert_eq!(res.kick, 0b1110, "{policy}: taken by a higher class");
        // Another, which may run nowhere else, comes first there (of equals the older one does).
        let mut b = pool(make, policy, 2);
        pin(&mut b, 2, 0b0001);
        b.wake(0, 1);
        assert_eq!(b.wake(0, 2).kick, 0b1111, "{policy}: the first needs another PCPU if the second gets this one");
    }
    over_left(make);
}

/// An idle PCPU that is tickled by its own OVER VCPU steals a better one.
fn over_left(make: &Maker) {
    let mut b = pool(make, "credit", 3);
    b.run(1, 0, 0, 90 * MS);
    b.account(90 * MS);
    let t = 91 * MS;
    pin(&mut b, 2, 0b0010);
    pin(&mut b, 3, 0b0011);
    b.wake(t, 2);
    assert_eq!(b.turn(t, 1), Some(2));
    b.ok(t, OpCode::Move, (1, 3, 0), [0; 3]);
    assert_eq!(b.wake(t, 3).kick, 0b0001, "beside PCPU 1, which is busy");
    assert_eq!(b.class(1), Class::Over);
    assert_eq!(b.wake(t, 1).kick, 0b0001);
    let res = b.ok(t, OpCode::Schedule, (0, 0, 0), [0; 3]);
    assert_eq!((res.next, b.state(1)), (3, State::Queued));
    assert_eq!(res.kick, 0b1100, "PCPU 0 has stolen 3: 1 has to go elsewhere");
    b.ok(t, OpCode::Started, (0, 3, 0), [0; 3]);
    assert_eq!(b.turn(t, 2), Some(1));
    assert_eq!(b.op(t, OpCode::Put, (0, 3, 0), [0, NEVER, 0]).ret, 0);
}

/// A VCPU that is preempted is inserted with a tickle, or as in Xen without one; as in Xen no
/// tickle follows another one either (rules C12, C13 and C38).
pub fn as_xen(make: &Maker) {
    let kinds = [(0, 0b1110, 0b1110), (1, 0b0010, 0b0010), (2, 0, 0b1110), (3, 0, 0b0010)];
    for (policy, (tickle, preempted, woken)) in
        ["credit", "rr", "doris"].iter().flat_map(|p| kinds.map(|kind| (*p, kind)))
    {
        let running = |vcpus| {
            let mut b = pool(make, policy, vcpus);
            assert_eq!(b.set(0, None, "tickle", tickle).ret, 0);
            assert_eq!(b.wake(0, 1).kick, 0b0001, "{policy}, {tickle}: the own PCPU");
            assert_eq!(b.turn(0, 0), Some(1));
            b
        };
        let mut b = running(2);
        pin(&mut b, 2, 0b0001);
        b.wake(50 * MS, 2);
        assert_eq!(b.ok(50 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, 2);
        let put = b.ok(50 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!(put.kick, preempted, "{policy}, {tickle}: preempted");
        assert_eq!(b.state(1), State::Queued);
        b.ok(50 * MS, OpCode::Started, (0, 2, 0), [0; 3]);
        if tickle >= 2 {
            b.ok(50 * MS, OpCode::Block, (0, 1, 0), [0; 3]);
            assert_eq!(b.wake(50 * MS, 1).kick & 0b1110, woken, "{policy}, {tickle}: it wakes later");
        }
        // A PCPU that decides finds it all the same.
        assert_eq!(b.ok(51 * MS, OpCode::Schedule, (3, 0, 0), [0; 3]).next, 1, "{policy}, {tickle}");
        // Of a VCPU that wakes beside a busy PCPU the idle ones are told.
        let mut b = running(3);
        assert_eq!(b.wake(MS, 2).kick & 0b1110, woken, "{policy}, {tickle}");
        let res = b.ok(MS, OpCode::Schedule, (1, 0, 0), [FORCE_IDLE, 0, 0]);
        let passed = if tickle == 1 { 0b0100 } else { 0 };
        assert_eq!(res.kick, passed, "{policy}, {tickle}: told to idle");
        assert_eq!(b.core.check(), Ok(()), "{policy}, {tickle}");
        // Two on one idle PCPU.
        let mut b = pool(make, policy, 2);
        b.set(0, None, "tickle", tickle);
        b.wake(0, 1);
        assert_eq!(b.wake(0, 2).kick, if tickle == 0 { 0b1111 } else { 0b0001 }, "{policy}, {tickle}: the second");
        let res = b.ok(0, OpCode::Schedule, (0, 0, 0), [0; 3]);
        assert_eq!(res.kick, if tickle == 1 { 0b0010 } else { 0 }, "{policy}, {tickle}: what follows");
        // The PCPU where it queues does not idle.
        let mut b = running(1);
        b.pin(MS, 1, 0b0010);
        assert_eq!(b.ok(MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next, NIL);
        let put = b.ok(MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!(put.kick, 0b0010, "{policy}, {tickle}: it has to go there");
    }
}
