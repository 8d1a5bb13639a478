// SPDX-License-Identifier: GPL-2.0-only
//! Capture files: formats, link types, and files that are none. One line names the file and the reason; nothing partial.

mod common;
use common::{Capture, MS, Rng, assert_rtp, bytes, file, flow};
use proptest::prelude::*;
use std::path::Path;
use takt_monitor::{Config, Report, inspect, inspect_with};

fn call() -> Capture {
    let mut c = Capture::default();
    c.stream(&flow("10.0.0.1", "10.0.0.2", 5004, 5004), 0, 5, 1_700_000_000_000 * MS, 20 * MS, 100);
    c
}

#[test]
fn both_formats_tell_the_same() {
    let c = call();
    let legacy = inspect(file(&c.pcap(1)).path()).expect("pcap");
    let ng = inspect(file(&c.pcapng(1)).path()).expect("pcapng");
    assert_rtp(&legacy.senders[0], 20_000.0);
    assert_eq!(legacy, ng);
}

#[test]
fn link_types() {
    for (link, head) in [(101, 0), (228, 0), (12, 0), (0, 4), (108, 4), (113, 16), (276, 20)] {
        let mut c = call();
        for (_, data, len) in &mut c.0 {
            let mut front = vec![0; head];
            match head {
                16 => front[14] = 8,
                20 => front[0] = 8,
                _ => {}
            }
            data.splice(..14, front);
            *len = data.len();
        }
        let report = inspect(file(&c.pcap(link)).path()).expect("report");
        assert_rtp(&report.senders[0], 20_000.0);
    }
}

#[test]
fn ports_of_the_user_are_real_time() {
    let mut c = Capture::default();
    for i in 0..50 {
        c.add(i * 16 * MS, flow("10.0.0.1", "10.0.0.2", 7777, 1).udp(b"frame"));
    }
    let f = file(&c.pcap(1));
    assert!(!inspect(f.path()).expect("report").senders[0].rt);
    let s = inspect_with(f.path(), &Config::default(), &[7777]).expect("report").senders[0].clone();
    assert_eq!((s.rule, s.verdict_after, s.period_us), (Some("port"), Some(1), Some(16_000.0)));
}

#[test]
fn large_packets_are_read() {
    let mut c = call();
    c.add(1_700_000_100_000 * MS, vec![0; 200_000]);
    assert_eq!(inspect(file(&c.pcap(1)).path()).expect("report").packets, 101);
    assert_eq!(inspect(file(&c.pcapng(1)).path()).expect("report").packets, 101);
}

#[track_caller]
fn assert_refused(path: &Path, reason: &str) {
    let error = inspect(path).expect_err("refused").to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    assert!(error.contains(reason), "{error}");
    assert!(!error.contains('\n') && error.len() < 300, "{error}");
}

#[test]
fn files_that_are_no_captures_are_refused() {
    assert_refused(Path::new("no/such.pcap"), "No such file");
    assert_refused(tempfile::tempdir().expect("directory").path(), "directory");
    assert_refused(file(b"").path(), "empty");
    assert_refused(file(b"hello, world, this is text\n").path(), "not a pcap or pcapng");
    assert_refused(file(&bytes(&mut Rng::with_seed(4), 10_000)).path(), "not a pcap or pcapng");
    assert_refused(file(&call().pcap(147)).path(), "link type 147");
    assert_refused(file(&call().pcapng(147)).path(), "link type 147");
    let mut noise = call().pcap(1)[..24].to_vec();
    noise.extend(bytes(&mut Rng::with_seed(5), 5000));
    assert_refused(file(&noise).path(), "block 2");
    let mut late = call().pcapng(1);
    late[28 + 20 + 12..28 + 20 + 20].fill(0xff);
    assert_refused(file(&late).path(), "impossible time");
    let mut huge = call().pcap(1)[..24].to_vec();
    huge.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x70, 0, 0, 0, 0x70]);
    huge.resize(3_000_000, 0);
    assert_refused(file(&huge).path(), "block 2");
}

/// Type and both lengths of a pcapng block are 12 bytes, in either order of bytes.
#[test]
fn blocks_shorter_than_their_own_head_are_refused() {
    let little = call().pcapng(1)[..28].to_vec();
    let mut big = little.clone();
    for word in [4..8, 8..12, 24..28] {
        big[word].reverse();
    }
    big[12..16].copy_from_slice(&[0, 1, 0, 0]);
    for kind in [1u32, 2, 3, 4, 5, 6, 9, 10, 11, 0xbad, 0x4000_0bad, 0x8000_0001, 0x7fff_ffff] {
        for length in 0..12u32 {
            let (mut le, mut be) = (little.clone(), big.clone());
            le.extend([kind.to_le_bytes(), length.to_le_bytes(), [0; 4], [0; 4]].concat());
            be.extend([kind.to_be_bytes(), length.to_be_bytes(), [0; 4], [0; 4]].concat());
            [le, be].iter().for_each(|bytes| assert_refused(file(bytes).path(), "block 2: malformed"));
        }
    }
    assert_eq!(Report::from_reader(&big[..]).expect("no packets").packets, 0);
}

#[test]
fn every_cut_is_an_error_unless_it_falls_between_records() {
    for (whole, first, record) in [(call().pcap(1), 24, 230), (call().pcapng(1), 28 + 20, 248)] {
        for cut in 1..first + 3 * record {
            let report = Report::from_reader(&whole[..cut]);
            if (first == 48 && cut == 28) || cut >= first && (cut - first) % record == 0 {
                assert!(report.is_ok(), "cut at {cut}: {report:?}");
            } else {
                assert!(report.is_err(), "cut at {cut}: {report:?}");
            }
        }
        let f = file(&whole[..whole.len() - 1]);
        assert_refused(f.path(), "truncated");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]
    /// A bounded run of what the fuzz target does: captures with some bytes replaced, cut or repeated.
    #[test]
    fn spoiled_captures_never_panic(seed: u64, ng: bool, cut in 0usize..6000) {
        let mut c = call();
        c.0.truncate(20);
        let mut bytes = if ng { c.pcapng(1) } else { c.pcap(1) };
        let mut rng = Rng::with_seed(seed);
        for _ in 0..rng.u64(..10) {
            let at = rng.u64(..bytes.len() as u64) as usize;
            bytes[at] = if rng.u64(..2) == 0 { rng.u64(..) as u8 } else { [0, 0xff][rng.u64(..2) as usize] };
        }
        bytes.truncate(cut.max(1));
        if let Ok(report) = Report::from_reader(&bytes[..]) {
            let attributed: u64 = report.senders.iter().map(|s| s.packets).sum();
            prop_assert_eq!(report.packets, attributed + report.unattributed);
        }
    }
}
