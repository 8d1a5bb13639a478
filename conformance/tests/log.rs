// SPDX-License-Identifier: GPL-2.0-only
//! Log files: what is written is read again, what is damaged is refused in one line, replay notices every change.

use proptest::prelude::*;
use std::sync::OnceLock;
use takt_conformance::{LogFile, Mode, Run, Shape, hash, maker, replay};

/// A log of a small random host.
fn sample() -> &'static LogFile {
    static LOG: OnceLock<LogFile> = OnceLock::new();
    LOG.get_or_init(|| {
        let core = maker(None).and_then(|make| make("doris")).expect("pool");
        let mut run = Run::new(core, 5, Shape::ALL[1], Mode::Faithful, 64);
        let records = run.steps(300, true).expect("a clean run");
        let bytes = run.core.bytes();
        LogFile { policy: "doris".into(), pool_size: bytes.len() as u64, pool_hash: hash(bytes), records }
    })
}

fn error(bytes: &[u8]) -> String {
    format!("{:#}", LogFile::from_bytes(bytes).expect_err("damaged"))
}

#[test]
fn written_and_read_again() {
    let log = sample();
    let bytes = log.to_bytes().expect("bytes");
    assert_eq!(bytes.len(), 64 + 104 * 300);
    assert_eq!(&LogFile::from_bytes(&bytes).expect("log"), log);
    assert_eq!(replay(log).expect("identical"), log.pool_hash);
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
    assert!(error(&bytes[..63]).contains("truncated"));
    assert!(error(&bytes[..bytes.len() - 1]).contains("truncated: 299 of 300 records"));
    assert!(error(&[&bytes[..], &[0]].concat()).contains("1 bytes after the 300 records"));
    assert!(changed(8, 9).contains("log version 9, this build reads version 1"));
    assert!(changed(12, 1).contains("record size 1, expected 104"));
    assert!(changed(64 + 104, 7).contains("record 2: sequence gap: seq 7, expected 2"));
    assert!(changed(64 + 104 + 16, 99).contains("record 2: unknown operation 99"));
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
    fn damaged_logs_never_panic(at in 0usize..64 + 104 * 300, to in any::<u8>(), cut in 0usize..64 + 104 * 300) {
        let mut bytes = sample().to_bytes().expect("bytes");
        bytes[at] = to;
        if let Ok(log) = LogFile::from_bytes(&bytes) {
            // Whatever it says now, replaying it is safe.
            let _ = replay(&log);
        }
        bytes.truncate(cut);
        prop_assert!(!error(&bytes).contains('\n'));
    }
}
