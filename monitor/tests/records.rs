// SPDX-License-Identifier: GPL-2.0-only
//! Records of capture files: each number of a header in its place, in both orders of bytes and every unit of time.

use takt_monitor::{Link, capture};

/// Time, link, bytes and length on the wire.
type Packet = (u64, Link, Vec<u8>, usize);

/// All packets, or the first reason for which there are not all.
fn records(bytes: &[u8]) -> Result<Vec<Packet>, String> {
    let mut all = Vec::new();
    let done = capture::read_from(bytes, |r| {
        all.extend(r.link.map(|link| (r.time, link, r.data.to_vec(), r.len)));
        Ok(())
    });
    match done {
        Ok(warnings) => warnings.first().map_or(Ok(all), |w| Err(w.clone())),
        Err(e) => Err(format!("{e:#}")),
    }
}

/// A pcap file of one packet "abc" at 7 s and 5 units.
fn pcap(magic: u32, link: u32, big: bool, caplen: u32, len: u32) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let head = [word(magic), version, word(0), word(0), word(262_144), word(link)];
    let record = [word(7), word(5), word(caplen), word(len)];
    [head.concat(), record.concat(), b"abc"[..caplen as usize].to_vec()].concat()
}

#[test]
fn times_of_pcap_are_micro_or_nanoseconds() {
    for big in [false, true] {
        for (magic, ns) in [(0xa1b2_c3d4, 5_000), (0xa1b2_3c4d, 5)] {
            let want = (7_000_000_000 + ns, Link::Ethernet, b"abc".to_vec(), 1500);
            assert_eq!(records(&pcap(magic, 1, big, 3, 1500)), Ok(vec![want]), "{magic:x} {big}");
        }
    }
}

#[test]
fn link_types_are_told_from_their_neighbours() {
    for link in 0..300u32 {
        let want = match link {
            1 => Some(Link::Ethernet),
            0 | 108 => Some(Link::Null),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            113 => Some(Link::Sll),
            276 => Some(Link::Sll2),
            _ => None,
        };
        match (records(&pcap(0xa1b2_c3d4, link, false, 3, 3)), want) {
            (Ok(all), Some(want)) => assert_eq!(all[0].1, want, "{link}"),
            (Err(e), None) => assert!(e.starts_with(&format!("block 1: link type {link} is not supported")), "{e}"),
            (other, want) => panic!("{link}: {other:?}, not {want:?}"),
        }
    }
    // What the upper bits of the word say is not the type.
    assert_eq!(records(&pcap(0xa1b2_c3d4, 0xfc00_0001, false, 3, 3)).unwrap()[0].1, Link::Ethernet);
    assert!(records(&pcap(0xa1b2_c3d4, 0x0200_0001, false, 3, 3)).is_err());
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let size = (12 + padded as u32).to_le_bytes();
    let zeros = vec![0; padded - body.len()];
    [&kind.to_le_bytes()[..], &size, body, &zeros, &size].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat())
}

/// An interface with a resolution and an offset of its times.
fn interface(link: u16, resolution: Option<u8>, offset: Option<i64>) -> Vec<u8> {
    let mut body = [&link.to_le_bytes()[..], &[0, 0, 0, 0, 4, 0]].concat();
    if let Some(r) = resolution {
        body.extend([9, 0, 1, 0, r, 0, 0, 0]);
    }
    if let Some(s) = offset {
        body.extend([14, 0, 8, 0]);
        body.extend(s.to_le_bytes());
    }
    body.extend([0; 4]);
    block(1, &body)
}

fn packet(interface: u32, units: u64, len: u32) -> Vec<u8> {
    let words = [interface, (units >> 32) as u32, units as u32, 3, len];
    block(6, &[&words.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>()[..], b"abc"].concat())
}

fn time(resolution: Option<u8>, offset: Option<i64>, units: u64) -> Result<u64, String> {
    let file = [section(), interface(1, resolution, offset), packet(0, units, 9)].concat();
    records(&file).map(|all| {
        assert_eq!((all.len(), &all[0].2[..], all[0].3), (1, &b"abc"[..], 9));
        all[0].0
    })
}

#[test]
fn times_of_pcapng_have_the_unit_and_the_offset_of_their_interface() {
    for (resolution, offset, units, ns) in [
        (None, None, 7, 7_000),
        (Some(6), None, 7, 7_000),
        (Some(9), None, 7, 7),
        (Some(3), None, 7, 7_000_000),
        (Some(0), None, 7, 7_000_000_000),
        (Some(0x8a), None, 1024, 1_000_000_000),
        (Some(0x8a), None, 1, 976_562),
        (Some(0x80), None, 7, 7_000_000_000),
        (Some(0xbf), None, 1 << 62, 500_000_000),
        (Some(19), None, 10_000_000_000, 1),
        (None, None, 1 << 32, (1 << 32) * 1_000),
        (None, None, 5 << 32 | 3, ((5 << 32) + 3) * 1_000),
        (None, Some(3), 7, 3_000_007_000),
        (Some(9), Some(-1), 1_500_000_000, 500_000_000),
        (Some(9), None, i64::MAX as u64, i64::MAX as u64),
    ] {
        assert_eq!(time(resolution, offset, units), Ok(ns), "{resolution:?} {offset:?} {units}");
    }
    for (resolution, offset, units) in [(Some(9), None, 1 << 63), (None, Some(-1), 7), (Some(0), None, u64::MAX)] {
        assert_eq!(time(resolution, offset, units).unwrap_err(), "1 packets skipped: impossible timestamp");
    }
    for resolution in [20, 0x7f, 0xc0, 0xff] {
        assert_eq!(time(Some(resolution), None, 7).unwrap_err(), "1 packets skipped: impossible timestamp");
    }
}

#[test]
fn a_packet_is_of_the_interface_that_it_names() {
    let two = [section(), interface(1, None, None), interface(101, Some(9), None)].concat();
    let file = [two.clone(), packet(0, 7, 3), packet(1, 7, 3)].concat();
    let got: Vec<_> = records(&file).unwrap().into_iter().map(|r| (r.0, r.1)).collect();
    assert_eq!(got, [(7_000, Link::Ethernet), (7, Link::Raw)]);
    let beyond = [two.clone(), packet(2, 7, 3)].concat();
    assert_eq!(records(&beyond).unwrap_err(), "1 packets skipped: their interface is not described");
    // A new section has interfaces of its own; blocks of other kinds are passed over.
    let again = [two, block(0x0bad, b"what"), section(), packet(0, 7, 3)].concat();
    assert_eq!(records(&again).unwrap_err(), "1 packets skipped: their interface is not described");
    let simple = [section(), interface(1, None, None), block(3, &[3, 0, 0, 0, 1, 2, 3, 0])].concat();
    assert_eq!(records(&simple).unwrap_err(), "1 packets skipped: they have no timestamp (simple packet blocks)");
}

#[test]
fn an_interface_of_an_unknown_link_matters_when_it_is_used() {
    let unused = [section(), interface(147, None, None), interface(1, None, None), packet(1, 7, 3)].concat();
    assert_eq!(records(&unused).unwrap().len(), 1);
    let used = [section(), interface(147, None, None), packet(0, 7, 3)].concat();
    assert!(records(&used).unwrap_err().starts_with("1 packets skipped: link type 147 is not supported"));
}

#[test]
fn files_that_end_too_early_are_named_by_their_block() {
    let whole = pcap(0xa1b2_c3d4, 1, false, 3, 3);
    assert_eq!(records(&whole[..24]), Ok(vec![]), "a header alone is a capture without packets");
    for end in 25..whole.len() {
        assert_eq!(records(&whole[..end]).unwrap_err(), "truncated: ends within block 2", "{end} bytes");
    }
    assert_eq!(records(b"").unwrap_err(), "empty file, not a capture");
    let failed = capture::read_from(&whole[..], |_| Err(anyhow::anyhow!("enough")));
    assert_eq!(format!("{:#}", failed.unwrap_err()), "block 2: enough");
}
