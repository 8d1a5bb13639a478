// SPDX-License-Identifier: GPL-2.0-only
//! What a BPF program does with a packet (monitor/bpf/load.h, device.h), without a kernel: the part
//! that it copies decides as the whole would, and its times are those of what happened.

mod common;

use common::bag::packet;
use common::{MS, Rng, compile, flow, rtp};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use takt_monitor::Link;

const SECOND: u64 = 1000 * MS;

/// A packet for `hosts.c`.
struct Sent {
    now: u64,
    link: Link,
    data: Vec<u8>,
    segment: u32,
    /// Bytes in one piece.
    linear: usize,
}

fn ether(now: u64, data: Vec<u8>) -> Sent {
    Sent { now, link: Link::Ethernet, linear: data.len(), data, segment: 0 }
}

/// `hosts.c`, built once.
fn program() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts");
        let include = ["bpf", "core", "../policy/core"].map(|d| root.join(d));
        compile(&[root.join("tests/hosts.c")], &include, &program);
        program
    });
    &BUILT
}

/// What `hosts.c` says of the packets, with the ports that the user named.
fn said(ports: &[u16], packets: &[Sent]) -> String {
    let mut run = Command::new(program())
        .args(ports.iter().map(u16::to_string))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run");
    let mut input = Vec::new();
    for p in packets {
        input.extend(p.now.to_ne_bytes());
        for word in [p.link as u32, p.data.len() as u32, p.segment, p.linear as u32] {
            input.extend(word.to_ne_bytes());
        }
        input.extend(&p.data);
    }
    // Written whole before a line is read: it says one, at the end.
    run.stdin.take().expect("input").write_all(&input).expect("write");
    let out = run.wait_with_output().expect("run");
    assert!(out.status.success(), "{}", out.status);
    String::from_utf8(out.stdout).expect("text")
}

/// The number behind a word of what `hosts.c` says.
fn number(said: &str, word: &str) -> u64 {
    let mut words = said.split_whitespace().skip_while(|w| *w != word);
    words.nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {word}: {said}"))
}

#[test]
fn the_part_that_is_copied_decides_as_the_whole() {
    let mut rng = Rng::with_seed(3);
    let mut packets = Vec::new();
    let mut now = 1;
    for turn in 0..200_000 {
        now += [0, MS / 10, MS, 5 * MS][rng.u64(..4) as usize];
        now += if rng.u64(..400) == 0 { 1500 * MS } else { 0 };
        let (link, data, segment) = packet(&mut rng, turn, now);
        let linear = if rng.u64(..8) == 0 { rng.usize(..=data.len()) } else { data.len() };
        packets.push(Sent { now, link, data, segment, linear });
    }
    let said = said(&[5005], &packets);
    assert!(number(&said, "heads") > 20_000, "{said}");
    assert!(number(&said, "verdict") > 0 && number(&said, "demoted") > 0, "{said}");
}

/// Of each kind what decides is behind the head, but for RTP without an extension: its first bytes
/// say where its header ends.
#[test]
fn what_is_behind_the_head_is_copied() {
    let f = |sport| flow("10.0.0.1", "10.0.0.2", sport, 9000);
    let long = "a".repeat(60);
    let with = |n: u16, b0: u8, more: &[u8]| [&[b0][..], &rtp(0, n, 9)[1..12], more].concat();
    let ts = |second: u8| {
        let mut p = [&[0x47, 1, 0, 0x10][..], &[0xaa; 184]].concat().repeat(2);
        p[188] = second;
        p
    };
    let stun = |n: u16| {
        let data = rtp(0, n, 9);
        let cookie = [0, 0x16, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let software = [&[0x80, 0x22, 0, 60][..], &[0; 60]].concat();
        [&cookie[..], &software, &[0, 0x13, 0, data.len() as u8], &data].concat()
    };
    let text = |line: String| move |_: u16| line.clone().into_bytes();
    type Payload<'a> = Box<dyn Fn(u16) -> Vec<u8> + 'a>;
    // Whether it is TCP, the payload of packet n, and which packet is the first that is real-time.
    let kinds: [(&str, bool, Payload<'_>, Option<u64>); 10] = [
        ("RTP with 15 sources", false, Box::new(|n| with(n, 0x8f, &[0; 200])), Some(4)),
        ("RTP that ends with its sources", false, Box::new(|n| with(n, 0x8f, &[0; 60])), None),
        (
            "RTP with an extension as long as it is",
            false,
            Box::new(|n| with(n, 0x9f, &[[0; 63].as_slice(), &[9], &[0; 36]].concat())),
            None,
        ),
        (
            "RTP with a shorter one",
            false,
            Box::new(|n| with(n, 0x9f, &[[0; 63].as_slice(), &[8], &[0; 36]].concat())),
            Some(4),
        ),
        ("RTSP behind a long URL", true, Box::new(text(format!("PLAY {long}?{long} RTSP/1.0\r\n"))), Some(1)),
        ("HTTP/1.1 behind it", true, Box::new(text(format!("PLAY {long}?{long} HTTP/1.1\r\n"))), None),
        ("MPEG-TS", false, Box::new(|_| ts(0x47)), Some(3)),
        ("MPEG-TS without the second sync byte", false, Box::new(|_| ts(0x48)), None),
        ("RTP through a TURN server", false, Box::new(stun), Some(4)),
        (
            "two packets in a segment",
            true,
            Box::new(|n| {
                let one = |n| [&[0, 172][..], &rtp(0, n, 9)].concat();
                [one(2 * n), one(2 * n + 1)].concat()
            }),
            Some(4),
        ),
    ];
    for (port, (what, tcp, payload, after)) in (4000..).zip(kinds) {
        let frame = |n| if tcp { f(port).tcp(&payload(n)) } else { f(port).udp(&payload(n)) };
        let packets: Vec<_> = (0..8).map(|n| ether(SECOND + 20 * MS * u64::from(n), frame(n))).collect();
        let said = said(&[], &packets);
        assert_eq!(number(&said, "after"), after.unwrap_or(0), "{what}: {said}");
    }
}

/// Behind all of TCP's options the head has two bytes of the payload. RTSP is recognised by more.
#[test]
fn a_payload_that_begins_where_the_head_ends_is_copied() {
    let f = flow("10.0.0.1", "10.0.0.2", 4000, 9000);
    let mut tcp = f.tcp(b"")[34..].to_vec();
    tcp[12] = 0xf0;
    let frame = f.frame(6, &[&tcp[..], &[1; 40], b"PLAY rtsp://a/b RTSP/1.0\r\n"].concat(), 0);
    let said = said(&[], &[ether(SECOND, frame)]);
    assert_eq!((number(&said, "after"), number(&said, "heads")), (1, 0), "{said}");
}

/// The second extension header begins where the head ends, so its length is not in the head.
#[test]
fn a_chain_of_headers_that_is_longer_than_the_head_is_followed() {
    let f = flow("10.0.0.1", "10.0.0.2", 4000, 9000);
    let frame = |n: u16| {
        let udp = f.udp(&rtp(0, n, 9))[34..].to_vec();
        let (first, second) = ([&[60, 6][..], &[0; 54]].concat(), [17, 0, 0, 0, 0, 0, 0, 0]);
        let len = (first.len() + second.len() + udp.len()) as u16;
        let header = [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[60, 64], &[1; 32]].concat();
        [header, first, second.to_vec(), udp].concat()
    };
    let packet = |n: u16| Sent { link: Link::Raw, ..ether(SECOND + 20 * MS * u64::from(n), frame(n)) };
    let said = said(&[], &(0..8).map(packet).collect::<Vec<_>>());
    assert_eq!(number(&said, "after"), 4, "{said}");
}

/// The packet that ends a silence is judged whole, although its port is known when it is copied.
#[test]
fn a_port_that_a_silence_takes_back_is_analysed() {
    let long = "a".repeat(100);
    let line = flow("10.0.0.1", "10.0.0.2", 4000, 9000).tcp(format!("PLAY {long} RTSP/1.0\r\n").as_bytes());
    let said = said(&[], &[ether(SECOND, line.clone()), ether(3 * SECOND, line)]);
    let acts = ["verdict", "demoted", "last_rt"].map(|w| number(&said, w));
    assert_eq!(acts, [3 * SECOND; 3], "{said}");
}

/// What a first byte excludes costs neither a copy nor the lock. A port that is known costs no copy.
#[test]
fn the_head_is_enough_for_most_packets() {
    let f = flow("10.0.0.1", "10.0.0.2", 5004, 9000);
    let filled = |first: &[u8]| [first, &[7; 300]].concat();
    let icmp = f.frame(1, &[[8, 0, 0, 0].as_slice(), &[7; 60]].concat(), 0);
    let later = f.frame(17, &[7; 300], 100);
    // Whether the head is enough, and whether the packet passes without the lock.
    let kinds = [
        ("QUIC", f.udp(&filled(&[0xc3, 0])), true, true),
        ("RTP", f.udp(&rtp(0, 1, 9)), true, false),
        ("RTCP", f.udp(&filled(&[0x80, 200, 0, 6])), true, true),
        ("TLS", f.tcp(&filled(&[0x17, 3, 3, 5])), true, true),
        ("HTTP", f.tcp(&filled(b"GET / HTTP/1.1")), true, true),
        ("QUIC with a short header", f.udp(&filled(&[0x40, 9])), true, true),
        ("ping", icmp, true, true),
        ("a later fragment", later, true, true),
        ("SIP", f.udp(&filled(b"INVITE sip:a")), false, false),
        ("STUN", f.udp(&filled(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42])), false, false),
        ("a carrier", f.udp(&filled(&[0x40, 1, 1, 44])), false, false),
        ("interleaved", f.tcp(&filled(b"$\0")), false, false),
        ("IAX2", flow("10.0.0.1", "10.0.0.2", 4569, 9000).udp(&filled(&[0x7b, 1, 1, 2])), true, false),
    ];
    for (what, data, enough, passes) in kinds {
        let one = said(&[], &[ether(1, data.clone())]);
        assert_eq!(number(&one, "heads"), u64::from(enough), "{what}");
        assert_eq!(number(&one, "passed"), u64::from(passes), "{what}");
        let mut cut = ether(1, data);
        cut.linear = 95;
        let cut = said(&[], &[cut]);
        assert_eq!(number(&cut, "heads"), 0, "{what}: not in one piece");
        assert_eq!(number(&cut, "passed"), u64::from(passes), "{what}: not in one piece");
    }
    for (port, heads) in [(5004, 1), (5005, 0)] {
        let n = number(&said(&[port], &[ether(1, f.tcp(&filled(b"PLAY ")))]), "heads");
        assert_eq!(n, heads, "port {port}");
    }
}

/// While a VM is real-time, any packet may show that its media are silent. A packet from a port that the
/// user named is media in any case.
#[test]
fn what_may_matter_to_a_vm_does_not_pass() {
    let other = |now| ether(now, flow("10.0.0.1", "10.0.0.2", 80, 9000).tcp(&[0x17; 200]));
    let named = |now| ether(now, flow("10.0.0.1", "10.0.0.2", 5004, 9000).tcp(&[0x17; 200]));
    let acts = said(
        &[5004],
        &[other(SECOND), named(SECOND + MS), other(SECOND + 2 * MS), other(4 * SECOND), other(5 * SECOND)],
    );
    assert_eq!(number(&acts, "passed"), 2, "{acts}");
    assert_eq!(["verdict", "demoted"].map(|w| number(&acts, w)), [SECOND + MS, 4 * SECOND], "{acts}");
    // Nor does an acknowledgement from such a port.
    let none = ether(SECOND, flow("10.0.0.1", "10.0.0.2", 5004, 9000).tcp(b""));
    assert_eq!(number(&said(&[5004], &[none]), "passed"), 0);
}

/// A silence of two seconds is between two calls; each has three other packets before its own.
#[test]
fn times_are_those_of_what_happened() {
    let f = |sport| flow("10.0.0.1", "10.0.0.2", sport, 9000);
    let other = |now| ether(now, f(80).tcp(b"x"));
    let call = |from: u64| {
        let before = (0..3).map(move |i| other(from + i * MS));
        let own = (0..10).map(move |n| ether(from + (10 + 20 * u64::from(n)) * MS, f(5004).udp(&rtp(0, n, 9))));
        before.chain(own)
    };
    let (one, two) = (2 * SECOND, 10 * SECOND);
    let first: Vec<_> = call(one).collect();
    let acts = said(&[], &first);
    let expected = |from: u64, demoted: u64| {
        let (verdict, last) = (from + 70 * MS, from + 190 * MS);
        format!("first {from} verdict {verdict} last_rt {last} demoted {demoted} last {last} packets 7 after 4 ")
    };
    assert!(acts.starts_with(&expected(one, 0)), "{acts}");
    let both: Vec<_> = call(one).chain(call(two)).collect();
    let acts = said(&[], &both);
    assert!(acts.starts_with(&expected(two, two)), "{acts}");
    // Without a verdict, a silence alone is a new beginning.
    let acts = said(&[], &[other(one), other(one + MS), other(two)]);
    assert!(
        acts.starts_with(&format!("first {two} verdict 0 last_rt 0 demoted 0 last {two} packets 1 after 0 ")),
        "{acts}"
    );
    // The silence of the timeout itself is none.
    let acts = said(&[], &[other(one), other(one + SECOND)]);
    assert!(
        acts.starts_with(&format!("first {one} verdict 0 last_rt 0 demoted 0 last {} packets 2 ", one + SECOND)),
        "{acts}"
    );
}
