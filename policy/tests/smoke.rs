// SPDX-License-Identifier: GPL-2.0-only
//! The interface end to end: one PCPU, one VM, a boost, a preemption.

use takt_policy::{CUR_STOPS, Class, Kind, NEVER, Pool, Source, State, policies};

fn pool(policy: &str) -> Pool {
    let mut p = Pool::new(policy).expect("policy");
    p.cpu_add(0, 0, 0, 0, 0).unwrap();
    p.vm_add(0, 1, Kind::Guest, 256).unwrap();
    p.vm_add(0, 2, Kind::Guest, 256).unwrap();
    p.vcpu_add(0, 10, 1, 0, Kind::Guest).unwrap();
    p.vcpu_add(0, 20, 2, 0, Kind::Guest).unwrap();
    p
}

#[test]
fn every_policy_runs_what_wakes() {
    for policy in policies() {
        let mut p = pool(policy.name);
        p.wake(1_000, 10, Source::Io).unwrap();
        assert_eq!(p.kicks(), 1, "{}", policy.name);
        assert_eq!(p.schedule(2_000, 0, 0).unwrap().0, Some(10));
        p.started(3_000, 10).unwrap();
        assert_eq!(p.state(10), State::Running);
        assert_eq!(p.schedule(1_000_000, 0, CUR_STOPS).unwrap(), (None, NEVER));
        p.put(1_001_000, 10, false, NEVER).unwrap();
        assert_eq!(p.state(10), State::Blocked);
        p.check().unwrap();
    }
}

#[test]
fn a_boosted_waker_preempts_and_keeps_its_boost_when_preempted() {
    let mut p = pool("credit");
    p.wake(0, 10, Source::Other).unwrap();
    p.schedule(0, 0, 0).unwrap();
    p.started(0, 10).unwrap();
    p.timer_cpu(10_000_000, 0).unwrap();
    assert_eq!(p.class(10), Class::Under, "the tick ends the boost");
    p.wake(12_000_000, 20, Source::Io).unwrap();
    assert_eq!((p.class(20), p.kicks()), (Class::Boost, 1));
    assert_eq!(p.schedule(12_000_000, 0, 0).unwrap(), (Some(20), 30_000_000));
    p.put(12_000_000, 10, true, NEVER).unwrap();
    assert_eq!(p.credit(10), -120);
    p.check().unwrap();
}

#[test]
fn unknown_policies_are_none() {
    assert!(Pool::new("fifo").is_none());
}

#[test]
fn indices_beyond_the_arrays_reach_nobody() {
    let mut p = pool("credit");
    let before = p.bytes()[p.bytes().len() / 2..].to_vec();
    for beyond in [1024, 65_536 + 10, u32::MAX] {
        assert!(p.wake(1, beyond, Source::Io).is_err(), "{beyond}");
        assert!(p.schedule(1, beyond, 0).is_err(), "{beyond}");
        assert!(p.adjust(1, beyond, 1, 20_000_000).is_err(), "{beyond}");
    }
    assert_eq!(p.bytes()[p.bytes().len() / 2..], before);
}

/// A host in BPF leaves loop counters in three words that are no state; a recording of it must replay nevertheless.
#[test]
fn a_copy_keeps_all_of_a_pool_but_its_scratches() {
    let p = pool("credit");
    let changed: Vec<u8> = p.bytes().iter().map(|b| b ^ 1).collect();
    let mut lost = 0;
    for at in (0..changed.len()).step_by(4) {
        let mut bytes = p.bytes().to_vec();
        bytes[at..at + 4].copy_from_slice(&changed[at..at + 4]);
        // Another policy's number may be none.
        lost += Pool::from_bytes(&bytes).map_or(0, |copy| usize::from(copy.bytes() == p.bytes()));
    }
    assert_eq!(lost, 3);
}
