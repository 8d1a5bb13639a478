// SPDX-License-Identifier: GPL-2.0-only
//! Log files: what is written is read again, what is damaged is refused in one line, replay notices every change.

use proptest::prelude::*;
use std::sync::OnceLock;
use takt_conformance::{Checker, Limits, LogFile, Mode, Run, Shape, hash, log_between, maker, replay};
use takt_policy::Pool;

const HEADER: usize = 80;

/// A log of a small random host.
fn sample() -> &'static LogFile {
    static LOG: OnceLock<LogFile> = OnceLock::new();
    LOG.get_or_init(|| {
        let core = maker(None).and_then(|make| make("doris")).expect("pool");
        let mut run = Run::new(core, 5, Shape::ALL[1], Mode::Faithful, 64);
        let records = run.steps(300, true).expect("a clean run");
        let bytes = run.core.bytes();
        LogFile {
            policy: "doris".into(),
            pool_size: bytes.len() as u64,
            pool_hash: hash(bytes),
            records,
            ..LogFile::default()
        }
    })
}

/// A log that begins in the midst of what that host does, with names.
fn later() -> &'static LogFile {
    static LOG: OnceLock<LogFile> = OnceLock::new();
    LOG.get_or_init(|| {
        let mut pool = Pool::new("doris").expect("pool");
        let (before, after) = sample().records.split_at(170);
        before.iter().for_each(|r| _ = pool.op(r.op));
        let first = pool.clone();
        after.iter().for_each(|r| assert_eq!(pool.op(r.op), r.res));
        let log = log_between(&first, after.to_vec(), &pool, None).expect("a log");
        LogFile { names: [(3, "web".to_owned()), (9, "a \"b\"".to_owned())].into(), ..log }
    })
}

fn error(bytes: &[u8]) -> String {
    format!("{:#}", LogFile::from_bytes(bytes).expect_err("damaged"))
}

#[test]
fn written_and_read_again() {
    let log = sample();
    let bytes = log.to_bytes().expect("bytes");
    assert_eq!(bytes.len(), HEADER + 104 * 300);
    assert_eq!(&LogFile::from_bytes(&bytes).expect("log"), log);
    assert_eq!(replay(log).expect("identical"), log.pool_hash);
}

#[test]
fn a_log_may_begin_with_any_pool() {
    let log = later();
    let bytes = log.to_bytes().expect("bytes");
    assert_eq!(&LogFile::from_bytes(&bytes).expect("log"), log);
    assert_eq!(replay(log).expect("identical"), sample().pool_hash);
    let mut checker = Checker::of_log(log, Limits { timer_slack: Some(0), ..Limits::of("doris") }).expect("a checker");
    log.records.iter().try_for_each(|r| checker.step(r)).expect("kept");
    checker.finish().expect("kept");
    // From an empty pool none of that is possible.
    let empty = LogFile { start: Vec::new(), ..log.clone() };
    assert!(replay(&empty).is_err());
}

#[test]
fn a_pool_at_the_beginning_is_looked_at() {
    let log = later();
    let other = LogFile { policy: "credit".into(), ..log.clone() };
    assert!(format!("{:#}", replay(&other).expect_err("another policy")).contains("its pool of \"doris\""));
    let mut broken = log.clone();
    let at = takt_policy::field("nr_vcpu", 0).expect("a field");
    broken.start[at.start] ^= 0x40;
    let error_of = |log: &LogFile| format!("{:#}", replay(log).expect_err("broken"));
    assert!(error_of(&broken).contains("contradicts itself"), "{}", error_of(&broken));
    let bytes = log.to_bytes().expect("bytes");
    let changed = |at: usize, to: u64| {
        let mut b = bytes.clone();
        b[at..at + 8].copy_from_slice(&to.to_le_bytes());
        error(&b)
    };
    assert!(changed(64, 5).contains("a pool of 5 bytes at the beginning"), "{}", changed(64, 5));
    assert!(changed(72, u64::MAX).contains("names of 18446744073709551615 bytes"));
    assert!(changed(72, 200_000).contains("truncated"));
    assert!(changed(72, 3).contains("names of VMs"));
    let names = [(300, "x".to_owned())].into();
    let wild = LogFile { names, ..log.clone() }.to_bytes().expect("bytes");
    assert!(error(&wild).contains("a name of VM 300, but VMs are 0 to 255"), "{}", error(&wild));
    let names = [(1, "x".repeat(1 << 18))].into();
    assert!(LogFile { names, ..log.clone() }.to_bytes().is_err());
}

#[test]
fn damage_is_named() {
    let bytes = sample().to_bytes().expect("bytes");
    let changed = |at: usize, to: u8| {
        let mut b = bytes.clone();
        b[at] = to;
        error(&b)
    };
    assert!(error(&[]).contains("not a Takt log"));
    assert!(changed(0, 0).contains("not a Takt log"));
    assert!(error(&bytes[..HEADER - 1]).contains("truncated"));
    assert!(error(&bytes[..bytes.len() - 1]).contains("truncated: 299 of 300 records"));
    assert!(error(&[&bytes[..], &[0]].concat()).contains("1 bytes after the 300 records"));
    assert!(changed(8, 9).contains("log version 9, this build reads version 2"));
    assert!(changed(12, 1).contains("record size 1, expected 104"));
    assert!(changed(HEADER + 104, 7).contains("record 2: sequence gap: seq 7, expected 2"));
    assert!(changed(HEADER + 104 + 16, 99).contains("record 2: unknown operation 99"));
    assert!(changed(40, 0xff).contains("not text"));
}

#[test]
fn replay_notices_every_change() {
    let mut log = sample().clone();
    log.records[200].res.pool_timer += 1;
    assert!(format!("{:#}", replay(&log).expect_err("changed")).contains("record 201"));
    let mut log = sample().clone();
    log.pool_hash ^= 1;
    assert!(format!("{:#}", replay(&log).expect_err("changed")).contains("final pool"));
    let mut log = sample().clone();
    log.pool_size += 8;
    assert!(format!("{:#}", replay(&log).expect_err("changed")).contains("another core"));
    let log = LogFile { policy: "nosuch".into(), ..sample().clone() };
    assert!(format!("{:#}", replay(&log).expect_err("changed")).contains("unknown policy \"nosuch\""));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(!error(&bytes).contains('\n'));
    }

    #[test]
    fn damaged_logs_never_panic(at in 0usize..HEADER + 104 * 300, to in any::<u8>(), cut in 0usize..HEADER + 104 * 300) {
        let mut bytes = sample().to_bytes().expect("bytes");
        bytes[at] = to;
        if let Ok(log) = LogFile::from_bytes(&bytes) {
            // Whatever it says now, replaying it is safe.
            let _ = replay(&log);
        }
        bytes.truncate(cut);
        prop_assert!(!error(&bytes).contains('\n'));
    }

    /// A pool that passes its own check is fit for any operation, whatever else its bytes say.
    #[test]
    fn damaged_pools_are_safe(at in 0usize..100_000, to in any::<u8>(), bit in 0u32..8) {
        let mut log = later().clone();
        let at = at % log.start.len();
        log.start[at] = if to % 2 == 0 { to } else { log.start[at] ^ 1 << bit };
        let _ = replay(&log);
        if let Ok(mut checker) = Checker::of_log(&log, Limits::of("doris")) {
            let _ = log.records.iter().try_for_each(|r| checker.step(r));
        }
    }
}
