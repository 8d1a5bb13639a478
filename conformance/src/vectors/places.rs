// SPDX-License-Identifier: GPL-2.0-only
//! Rule C21: the better PCPU that a tick finds; masks that change under a running VCPU.

use super::bench::{Bench, MS};
use crate::core::Maker;
use takt_policy::{NEVER, OpCode, State};

/// Two cores of two threads each, VMs 1 to 3 with one VCPU each of the same number, at home on PCPUs 0 to 2.
fn pool(make: &Maker, policy: &str) -> Bench {
    on(make, policy, |c| [c / 2, 0])
}

/// The same on PCPUs of other cores and caches.
fn on(make: &Maker, policy: &str, topology: fn(u64) -> [u64; 2]) -> Bench {
    let mut b = Bench::new(make, policy, 0, 3);
    for c in 0..4 {
        let [core, llc] = topology(c.into());
        b.ok(0, OpCode::CpuAdd, (c, 0, 0), [core, llc, 0]);
    }
    (1..=3).for_each(|v| b.vcpu(v, v, v - 1));
    b
}

/// VCPUs 1 and 2 share a core beside an idle one; the second tick of PCPU 0 (the first only activates with
/// activate=tick) looks for a better place. Where 1 queues then, if it has to leave.
fn after_tick(b: &mut Bench) -> Option<u32> {
    for v in [1, 2] {
        b.wake(0, v);
        assert_eq!(b.turn(0, v - 1), Some(v.into()));
    }
    b.timer(10 * MS, 0);
    let res = b.timer(20 * MS, 0);
    if res.kick == 0 {
        assert_eq!(b.turn(20 * MS, 0), Some(1));
        return None;
    }
    assert_eq!(res.kick, 0b0001, "PCPU 0 has to give it up");
    assert_eq!(b.turn(20 * MS, 0), None);
    assert_eq!(b.state(1), State::Queued);
    Some(b.core.vcpu_cpu(1))
}

pub fn migration(make: &Maker) {
    for policy in ["credit", "doris", "laxs", "poris"] {
        assert_eq!(after_tick(&mut pool(make, policy)), Some(2), "{policy}: to the idle core, the next PCPU of it");
        let mut b = pool(make, policy);
        b.ok(0, OpCode::SetAffinity, (0, 1, 0), [1, 0b1000, 0]);
        assert_eq!(after_tick(&mut b), Some(3), "{policy}: soft affinity chooses among the idle ones");
        let mut b = pool(make, policy);
        b.ok(0, OpCode::SetAffinity, (0, 1, 0), [0, 0b0011, 0]);
        assert_eq!(after_tick(&mut b), None, "{policy}: hard affinity leaves none");
        let mut b = pool(make, policy);
        b.wake(0, 3);
        b.turn(0, 2);
        assert_eq!(after_tick(&mut b), None, "{policy}: the other core is not idler");
        let mut b = on(make, policy, |c| [c, c / 2]);
        assert_eq!(after_tick(&mut b), Some(2), "{policy}: of equal cores to one whose cache is idler");
        assert_eq!(after_tick(&mut on(make, policy, |c| [c, 0])), None, "{policy}: all are equal");
    }
}

/// Where a VCPU is bound no tick finds a better PCPU (rule L34, and P7 with spread=one); a VCPU that
/// siblings keep apart may go where none of them is.
pub fn bound_stays(make: &Maker) {
    for policy in ["laxs", "poris"] {
        let mut b = pool(make, policy);
        b.set(0, None, "spread", 1);
        b.rt(0, 1, 0);
        assert_eq!(after_tick(&mut b), None, "{policy}");
    }
    let mut b = pool(make, "poris");
    b.rt(0, 1, 0);
    assert_eq!(after_tick(&mut b), Some(2), "as under Credit");
}

/// A tick found a better PCPU, and its host moves the VCPU before it queues: the host's word is the last one.
pub fn moved_on_the_way(make: &Maker) {
    for policy in ["credit", "doris", "laxs", "poris"] {
        let mut b = pool(make, policy);
        for v in [1, 2] {
            b.wake(0, v);
            assert_eq!(b.turn(0, v - 1), Some(v.into()));
        }
        b.timer(10 * MS, 0);
        assert_eq!(b.timer(20 * MS, 0).kick, 0b0001, "{policy}: PCPU 0 has to give it up");
        b.ok(20 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]);
        b.pin(20 * MS, 3, 0b0001);
        b.wake(20 * MS, 3);
        let next = b.ok(20 * MS, OpCode::Schedule, (0, 0, 0), [0; 3]).next;
        assert_eq!(next, 3, "{policy}: the other core is idler still");
        b.ok(20 * MS, OpCode::Move, (1, 1, 0), [0; 3]);
        b.ok(20 * MS, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
        assert_eq!((b.state(1), b.core.vcpu_cpu(1)), (State::Queued, 1), "{policy}");
    }
}

pub fn mask_of_running(make: &Maker) {
    for policy in ["credit", "rr", "doris", "laxs", "poris"] {
        for (code, arg) in [(OpCode::SetAffinity, [0, 0b1000, 0]), (OpCode::SetPlacement, [0b1000, 0, 0])] {
            let mut b = pool(make, policy);
            b.wake(0, 1);
            b.turn(0, 0);
            let res = b.ok(MS, code, (0, 1, 0), arg);
            assert_eq!((res.kick, b.state(1)), (0b0001, State::Running), "{policy}: runs on until PCPU 0 decides");
            assert_eq!(b.turn(MS, 0), None);
            assert_eq!((b.state(1), b.core.vcpu_cpu(1)), (State::Queued, 3), "{policy}");
        }
    }
}

/// A VCPU that is picked and has not started holds its PCPU as one that runs does.
pub fn mask_of_picked(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        for (code, arg) in [(OpCode::SetAffinity, [0, 0b1000, 0]), (OpCode::SetPlacement, [0b1000, 0, 0])] {
            let mut b = pool(make, policy);
            b.wake(0, 1);
            let next = b.ok(0, OpCode::Schedule, (0, 0, 0), [0; 3]).next;
            assert_eq!((next, b.state(1)), (1, State::Picked), "{policy}");
            let kick = b.ok(0, code, (0, 1, 0), arg).kick;
            assert_eq!(kick & 1, 1, "{policy}, {code:?}: PCPU 0 decides again");
            b.ok(0, OpCode::Started, (0, 1, 0), [0; 3]);
            b.ok(0, OpCode::Schedule, (0, 0, 0), [0; 3]);
            b.ok(0, OpCode::Put, (0, 1, 0), [1, NEVER, 0]);
            assert_eq!((b.state(1), b.core.vcpu_cpu(1)), (State::Queued, 3), "{policy}");
        }
    }
}

/// A higher class has the PCPU while a VCPU still holds it: what must stop is asked to, all the same.
pub fn taken_with_a_vcpu(make: &Maker) {
    for policy in takt_policy::policies().into_iter().map(|p| p.name) {
        for (code, arg) in
            [(OpCode::Pause, [0; 3]), (OpCode::SetAffinity, [0, 0b1000, 0]), (OpCode::SetPlacement, [0b1000, 0, 0])]
        {
            let mut b = pool(make, policy);
            b.wake(0, 1);
            assert_eq!(b.turn(0, 0), Some(1));
            b.ok(MS, OpCode::CpuRelease, (0, 0, 0), [0; 3]);
            let kick = b.ok(MS, code, (0, 1, 0), arg).kick;
            assert_eq!(kick & 1, 1, "{policy}, {code:?}");
        }
    }
}
