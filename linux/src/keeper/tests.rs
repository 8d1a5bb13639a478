// SPDX-License-Identifier: GPL-2.0-only
//! What a keeper says of a host, from operations that come through the kernel's ring.

use super::*;
use crate::record::tests::ring_of;
use std::time::{Duration, SystemTime};
use takt_policy::{Op, OpCode, Pool, Source};

const MS: u64 = 1_000_000;

/// VMs `pbx` (3), which is real-time, and `hog` (4), on PCPU 0: VCPUs 70 and 80.
fn pool() -> Pool {
    let mut p = Pool::new("doris").unwrap();
    p.cpu_add(1, 0, 0, 0, 0).unwrap();
    for (vm, v) in [(3, 70), (4, 80)] {
        p.vm_add(1, vm, Kind::Guest, 256).unwrap();
        p.vcpu_add(1, v, vm, 0, Kind::Guest).unwrap();
    }
    p.set_rt(2, 3, true, 20 * MS, takt_policy::NEVER).unwrap();
    p
}

fn names() -> Names {
    [(3, (1, "pbx".to_owned())), (4, (1, "hog".to_owned()))].into()
}

fn snapshot(pool: &Pool) -> Snapshot {
    Snapshot::new(Snapshot::initial(std::slice::from_ref(pool), crate::Quota::default())).unwrap()
}

/// The hog runs, pbx wakes at 10 ms, a thread of a higher class has the PCPU, then pbx runs from 40 ms on.
fn happens(p: &mut Pool) -> Vec<takt_policy::Record> {
    p.record();
    p.wake(5 * MS, 80, Source::Other).unwrap();
    p.schedule(5 * MS, 0, 0).unwrap();
    p.started(5 * MS, 80).unwrap();
    let who = u64::from(std::process::id()) | takt_policy::BY_HIGHER;
    p.op(Op { op: OpCode::CpuRelease as u16, now: 9 * MS, arg: [who, 0, 0, 0], ..Op::default() });
    p.wake(10 * MS, 70, Source::Io).unwrap();
    p.cpu_acquire(38 * MS, 0).unwrap();
    assert_eq!(p.schedule(40 * MS, 0, 0).unwrap().0, Some(70));
    p.put(40 * MS, 80, true, 5 * MS).unwrap();
    p.started(40 * MS, 70).unwrap();
    p.schedule(41 * MS, 0, takt_policy::CUR_STOPS).unwrap();
    p.put(41 * MS, 70, false, MS).unwrap();
    p.take_log()
}

fn times(now: u64) -> Times {
    Times {
        now,
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30),
        since: Duration::from_secs(600),
        known: 0,
    }
}

#[test]
fn a_wait_is_explained_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let mut p = pool();
    let first = snapshot(&p);
    let before = p.operations();
    let ring = ring_of(before, &happens(&mut p));
    let keeping = Keeping { memory: 8 << 20, limit: 20 * MS, dir: dir.path().join("incidents") };
    let mut keeper = Keeper::start(keeping, ring, &first).unwrap();
    let said = keeper.follow(&names(), 1, || panic!("nothing is lost")).unwrap();
    assert!(said.is_empty(), "what follows belongs to it: {said:?}");
    let said = keeper.follow(&names(), 1, || panic!("nothing is lost")).unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("VM `pbx` waited 30ms: "), "{said:?}");
    let about = About { real_time: Some(true), period_us: Some(20_000.0), ..About::default() };
    let why = keeper.why("pbx", about, times(50 * MS)).unwrap();
    assert_eq!((why.waits, why.late, why.ran_s, why.waited_s), (1, 1, 0.001, 0.03));
    let wait = &why.longest[0];
    assert_eq!((wait.us, wait.pcpu, wait.ago_s), (30_000.0, 0, 0.01));
    let Cause::HigherClass { thread, name } = &wait.causes[0].what else { panic!("{wait:?}") };
    assert_eq!((*thread, wait.causes[0].us, name.is_empty()), (std::process::id(), 28_000.0, false));
    assert_eq!(wait.causes[1].what, Cause::Vm { vm: "hog".into(), class: "boost".into() });
    assert!(why.verdict.contains("mostly for `") && why.verdict.contains("of a higher class"), "{}", why.verdict);
    let log = takt_conformance::read_log(&why.incidents[0].file).unwrap();
    assert_eq!(log.names, BTreeMap::from([(3, "pbx".to_owned()), (4, "hog".to_owned())]));
    takt_conformance::replay(&log).unwrap();
    assert!(keeper.why("nobody", About::default(), times(50 * MS)).is_none());
    assert_eq!(keeper.names(), ["hog", "pbx"]);

    // Another process knows what was saved, and nothing else.
    let keeping = Keeping { memory: 8 << 20, limit: 20 * MS, dir: dir.path().join("incidents") };
    let keeper = Keeper::start(keeping, ring_of(before, &[]), &first).unwrap();
    let later = keeper.why("pbx", About::default(), times(50 * MS)).unwrap();
    assert_eq!((later.waits, &later.incidents), (0, &why.incidents));
    assert!(keeper.why("hog", About::default(), times(50 * MS)).is_none());
}

#[test]
fn what_is_lost_is_said_and_the_rest_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut p = pool();
    let first = snapshot(&p);
    let before = p.operations();
    let mut records = happens(&mut p);
    records[3].res.kick ^= 2;
    let keeping = Keeping { memory: 8 << 20, limit: 20 * MS, dir: dir.path().to_owned() };
    let mut keeper = Keeper::start(keeping, ring_of(before, &records), &first).unwrap();
    let said = keeper.follow(&names(), 1, || Ok(snapshot(&p))).unwrap();
    assert!(said[0].contains("not known for a moment") && said[0].contains("operation"), "{said:?}");
    assert!(keeper.follow(&names(), 1, || panic!("it goes on")).unwrap().is_empty());
    assert_eq!(keeper.kept().gaps, 1);
}

#[test]
fn a_vm_has_no_part_in_what_its_number_did_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut p = pool();
    let first = snapshot(&p);
    let before = p.operations();
    let mut records = happens(&mut p);
    p.record();
    p.started(42 * MS, 80).unwrap();
    p.schedule(45 * MS, 0, takt_policy::CUR_STOPS).unwrap();
    p.put(45 * MS, 80, false, MS).unwrap();
    p.vcpu_remove(50 * MS, 80).unwrap();
    p.vm_remove(50 * MS, 4).unwrap();
    // Nobody has learned what this one was called.
    for (at, vcpu) in [(51, 81), (60, 82)] {
        p.vm_add(at * MS, 4, Kind::Guest, 256).unwrap();
        p.vcpu_add(at * MS, vcpu, 4, 0, Kind::Guest).unwrap();
        p.wake(at * MS, vcpu, Source::Other).unwrap();
        assert_eq!(p.schedule((at + 1) * MS, 0, 0).unwrap().0, Some(vcpu));
        p.started((at + 1) * MS, vcpu).unwrap();
        p.schedule((at + 3) * MS, 0, takt_policy::CUR_STOPS).unwrap();
        p.put((at + 3) * MS, vcpu, false, MS).unwrap();
        if vcpu == 81 {
            p.vcpu_remove((at + 4) * MS, vcpu).unwrap();
            p.vm_remove((at + 4) * MS, 4).unwrap();
        }
    }
    records.extend(p.take_log());
    let keeping = |dir: &tempfile::TempDir| Keeping { memory: 8 << 20, limit: 20 * MS, dir: dir.path().to_owned() };
    let followed = |names: &Names, look: u32| {
        let mut keeper = Keeper::start(keeping(&dir), ring_of(before, &records), &first).unwrap();
        // It has followed once, when the number was that of the hog.
        keeper.parts[0].names = self::names();
        keeper.look = 1;
        keeper.follow(names, look, || panic!("nothing is lost")).unwrap();
        keeper
    };
    let ran =
        |keeper: &Keeper, vm: &str| keeper.why(vm, About::default(), times(70 * MS)).map(|why| (why.ran_s, why.waits));
    let new = Names::from([(3, (1, "pbx".to_owned())), (4, (3, "new".to_owned()))]);
    let keeper = followed(&new, 2);
    assert_eq!((ran(&keeper, "hog"), ran(&keeper, "new")), (Some((0.006, 2)), Some((0.001, 1))));
    // Somebody asks before it is known that the hog has gone: what came after it is nobody's.
    let mut keeper = followed(&names(), 1);
    assert_eq!(ran(&keeper, "hog"), Some((0.006, 2)));
    keeper.follow(&names(), 1, || panic!("nothing is lost")).unwrap();
    assert!(!keeper.parts[0].names.contains_key(&4));
    keeper.follow(&new, 2, || panic!("nothing is lost")).unwrap();
    assert_eq!(keeper.parts[0].names, new);
}

#[test]
fn documents_are_as_published() {
    let cause = Cause::HigherClass { thread: 1234, name: "irq/24-nvme0q1".into() };
    let by = vec![(cause, 28 * MS), (Cause::Vm { vm: "hog".into(), class: "under".into() }, 2 * MS)];
    let class = takt_policy::Class::Rt;
    let long = Long { from: 10 * MS, to: 40 * MS, cpu: 3, class, io: false, refused: 1, by };
    let mut minutes = Minutes::default();
    assert!(minutes.waited("pbx", 40 * MS, 30 * MS, true));
    minutes.keep("pbx", long);
    minutes.ran("pbx", 41 * MS, 970 * MS);
    minutes.refused("pbx", 41 * MS);
    let about = About {
        real_time: Some(true),
        rule: Some("rtp".into()),
        blind: Some("its device is vhost-user".into()),
        period_us: Some(20_000.0),
    };
    let at = "2026-03-01T02:14:07+01:00";
    let file = format!("/var/lib/takt/incidents/{}-30ms-pbx.takt.log", at.replace(':', "-").replace('+', "p")).into();
    let incident = Incident { file, vm: "pbx".into(), at: at.into(), us: 30_000.0 };
    let kept = Kept { bytes: 5 << 20, since: 20 * MS, gaps: 1 };
    let minutes = minutes.since("pbx", 0).unwrap();
    let mut why = Why::new("pbx", about, &minutes, &times(1_000 * MS), &kept, vec![incident]);
    at.clone_into(&mut why.longest[0].at);
    crate::schema::example::<Why>(&takt_control::document::value(&why).unwrap());
}
