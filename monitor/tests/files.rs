// SPDX-License-Identifier: GPL-2.0-only
//! Capture files: formats, link types, files that are none, and files that are not whole: the report of what is, and a line for the rest.

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
    for head in [1, 23] {
        assert_refused(file(&call().pcap(1)[..head]).path(), "truncated: ends within the file header");
    }
    assert_refused(file(b"snoop\0\0\0\0\0\0\x02\0\0\0\x04").path(), "snoop");
}

/// What is whole of a file, and the only warning.
#[track_caller]
fn rest(bytes: &[u8], warning: &str) -> Report {
    let f = file(bytes);
    let report = inspect(f.path()).expect("report");
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    let line = &report.warnings[0];
    assert!(line.starts_with(&f.path().display().to_string()) && line.contains(warning), "{line}, not {warning}");
    report
}

#[test]
fn what_is_whole_is_reported() {
    let mut noise = call().pcap(1)[..24].to_vec();
    noise.extend(bytes(&mut Rng::with_seed(5), 5000));
    assert_eq!(rest(&noise, "block 2").packets, 0);
    let mut late = call().pcapng(1);
    late[28 + 20 + 12..28 + 20 + 20].fill(0xff);
    let report = rest(&late, "1 packets skipped: impossible timestamp");
    assert_eq!((report.packets, report.unattributed), (100, 1));
    assert_rtp(&report.senders[0], 20_000.0);
    let mut huge = call().pcap(1);
    huge.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x70, 0, 0, 0, 0x70]);
    huge.resize(3_000_000, 0);
    assert_rtp(&rest(&huge, "block 102").senders[0], 20_000.0);
    // An interface that nobody knows, beside one that everybody does.
    let (known, foreign) = (call().pcapng(1), call().pcapng(239));
    let report = rest(&[known, foreign].concat(), "100 packets skipped: link type 239 is not supported");
    assert_eq!((report.packets, report.unattributed, report.senders[0].packets), (200, 100, 100));
    assert_rtp(&report.senders[0], 20_000.0);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut out, bytes).expect("gzip");
    out.finish().expect("gzip")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn compressed_captures_are_read_as_they_are() {
    // More than an unpacker holds back, and nothing that packs well.
    let mut rng = Rng::with_seed(6);
    let mut c = call();
    for n in 0..1000 {
        c.add(1_700_000_002_000 * MS + n * MS, flow("10.0.0.1", "10.0.0.2", 1, 2).udp(&bytes(&mut rng, 1000)));
    }
    for whole in [c.pcap(1), c.pcapng(1)] {
        let plain = Report::from_reader(&whole[..]).expect("report");
        let (first, second) = whole.split_at(whole.len() / 3);
        for packed in
            [gzip(&whole), zstd(&whole), [gzip(first), gzip(second)].concat(), [zstd(first), zstd(second)].concat()]
        {
            assert_eq!(Report::from_reader(&packed[..]).expect("report"), plain);
            // A damaged end: what can be unpacked is read.
            let cut = Report::from_reader(&packed[..packed.len() - 20]).expect("report");
            assert_eq!(cut.warnings.len(), 1, "{:?}", cut.warnings);
            assert_rtp(&cut.senders[0], 20_000.0);
        }
    }
    assert_refused(file(&gzip(b"hello, world, this is text")).path(), "not a pcap");
    assert_refused(file(&[0x1f, 0x8b, 8, 0]).path(), "cannot be read");
    assert_refused(file(&[0x28, 0xb5, 0x2f, 0xfd]).path(), "cannot be read");
}

/// Type and both lengths of a pcapng block are 12 bytes, in either order of bytes.
#[test]
fn blocks_shorter_than_their_own_head_end_the_report() {
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
            [le, be].iter().for_each(|bytes| assert_eq!(rest(bytes, "block 2: malformed").packets, 0));
        }
    }
    assert_eq!(Report::from_reader(&big[..]).expect("no packets").packets, 0);
}

/// Each format, cut at every byte of its first 4 KiB: one line, or the packets that are whole and one line.
#[test]
fn every_cut_leaves_a_report_or_one_line() {
    let (pcap, ng) = (call().pcap(1), call().pcapng(1));
    let mut micro = pcap.clone();
    micro[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    for (whole, first, head, record) in [(&pcap, 24, 24, 230), (&micro, 24, 24, 230), (&ng, 28, 48, 248)] {
        for cut in 0..4096 {
            match Report::from_reader(&whole[..cut]) {
                Err(e) => {
                    assert!(cut < first, "cut at {cut}: {e:#}");
                    assert!(!format!("{e:#}").contains('\n'));
                }
                Ok(report) => {
                    assert!(cut >= first, "cut at {cut}");
                    let packets = cut.saturating_sub(head) / record;
                    let between = cut == first || cut >= head && (cut - head) % record == 0;
                    assert_eq!((report.packets, report.warnings.is_empty()), (packets as u64, between), "cut at {cut}");
                    assert!(report.warnings.iter().all(|w| w.starts_with("truncated: ends within block")));
                }
            }
        }
    }
    for packed in [gzip(&pcap), zstd(&pcap), gzip(&ng), zstd(&ng)] {
        for cut in 0..packed.len().min(4096) {
            match Report::from_reader(&packed[..cut]) {
                Err(e) => assert!(!format!("{e:#}").contains('\n'), "{e:#}"),
                Ok(report) => assert!(report.packets <= 100 && report.warnings.len() <= 1, "cut at {cut}"),
            }
        }
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
            let attributed: u64 = report.senders.iter().map(|s| s.packets + s.copies).sum();
            prop_assert_eq!(report.packets, attributed + report.unattributed + report.others.packets);
        }
    }
}
