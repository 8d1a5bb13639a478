// SPDX-License-Identifier: GPL-2.0-only
//! What is no media on a port of media: it cannot keep a VM real-time, nor make it so.

mod common;
use common::{Capture, MS, flow, monitor, rtp, send};
use takt_monitor::Monitor;

const SECOND: u64 = 1_000_000_000;

fn udp(payload: &[u8]) -> Vec<u8> {
    flow("10.0.0.1", "10.0.0.2", 5004, 7000).udp(payload)
}

/// Real-time by RTP since 60 ms.
fn called() -> Monitor {
    let mut m = monitor();
    for n in 0..4 {
        send(&mut m, &udp(&rtp(0, n, 7)), u64::from(n) * 20 * MS);
    }
    assert!(m.is_rt());
    m
}

fn counts(payload: &[u8]) -> bool {
    let learned = send(&mut called(), &udp(payload), 80 * MS).rt_packet;
    // A port that the user named is judged alike.
    let mut m = monitor();
    m.add_port(5004);
    assert_eq!(send(&mut m, &udp(payload), 0).rt_packet, learned, "{payload:02x?}");
    learned
}

fn with(size: usize, head: &[u8]) -> Vec<u8> {
    let mut p = vec![0; size];
    p[..head.len()].copy_from_slice(head);
    p
}

#[test]
fn stun_has_its_cookie() {
    for kind in 0..8u8 {
        assert_eq!(counts(&with(20, &[kind, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42])), kind >= 4, "{kind}");
    }
    for at in 4..8 {
        let mut p = with(20, &[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        p[at] ^= 1;
        assert!(counts(&p), "byte {at}");
    }
    assert!(counts(&[1, 1, 0, 0, 0x21, 0x12, 0xa4]), "too short to have it");
    assert!(!counts(&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]));
}

#[test]
fn zrtp_has_its_cookie() {
    for kind in 0..=255u8 {
        assert_eq!(counts(&with(30, &[kind, 0, 0, 1, b'Z', b'R', b'T', b'P'])), !(16..20).contains(&kind), "{kind}");
    }
    assert!(counts(&with(40, &[16, 0, 0, 1, b'Z', b'R', b'T', b'Q'])));
}

#[test]
fn dtls_has_a_version_or_a_length_that_fits() {
    for kind in 0..=255u8 {
        for version in [0xfe, 0xfd, 3] {
            let dtls = (20..=26).contains(&kind) && version == 0xfe;
            assert_eq!(counts(&with(40, &[kind, version, 0xfd, 0, 0, 0, 0, 0])), !dtls, "{kind} {version:x}");
        }
    }
    assert!(counts(&with(12, &[22, 0xfe, 0xfd])) && !counts(&with(13, &[22, 0xfe, 0xfd])), "a head of 13 bytes");
    // Version 1.3: sequence numbers of one or two bytes, then the length.
    for first in 0x20..0x40u8 {
        let (length, id, wide) = (first & 4 != 0, first & 0x10 != 0, first & 8 != 0);
        let head = if wide { 5 } else { 4 };
        for body in [15u8, 16, 17] {
            let mut p = with(head + 16, &[first]);
            p[head - 1] = body;
            assert_eq!(counts(&p), !(length && !id && body == 16), "{first:x} {body}");
        }
    }
}

#[test]
fn rtcp_has_a_type_and_a_length_within_the_datagram() {
    for first in [0x40, 0x7f, 0x80, 0x81, 0xbf, 0xc0] {
        for kind in 0..=255u8 {
            let rtcp = first >> 6 == 2 && (192..224).contains(&kind);
            assert_eq!(counts(&with(28, &[first, kind, 0, 6])), !rtcp, "{first:x} {kind}");
        }
    }
    assert!(counts(&with(28, &[0x80, 200, 0, 7])) && counts(&with(28, &[0x80, 200, 1, 0])));
    assert!(!counts(&with(60, &[0x80, 200, 0, 6])), "several reports in one datagram");
}

#[test]
fn over_tcp_all_counts() {
    let mut m = monitor();
    m.add_port(5004);
    let stun = with(20, &[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
    assert!(send(&mut m, &flow("10.0.0.1", "10.0.0.2", 5004, 7000).tcp(&stun), 0).rt_packet);
}

/// A conference server with one port for all: when the talk has ended, it goes on answering STUN.
#[test]
fn a_silent_conference_is_demoted() {
    let mut c = Capture::default();
    c.stream(&flow("10.0.0.1", "10.0.0.2", 10_000, 40_000), 111, 7, 0, 20 * MS, 200);
    for n in 0..300u64 {
        let stun = with(60, &[1, 1, 0, 40, 0x21, 0x12, 0xa4, 0x42]);
        c.add(n * 200 * MS, flow("10.0.0.1", "10.0.0.2", 10_000, 40_001).udp(&stun));
    }
    let s = c.sorted().sender();
    assert!(s.rt && !s.rt_at_end, "{s:?}");
    assert_eq!((s.rt_packets, s.demotions, s.streams), (197, 1, 1));

    let mut m = called();
    let stun = udp(&with(60, &[1, 1, 0, 40, 0x21, 0x12, 0xa4, 0x42]));
    assert!(!send(&mut m, &stun, SECOND + 60 * MS).demoted, "1 s is not more than 1 s");
    assert!(send(&mut m, &stun, SECOND + 60 * MS + 1).demoted, "1 s after the last packet of media");
}
