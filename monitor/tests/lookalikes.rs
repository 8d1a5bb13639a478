// SPDX-License-Identifier: GPL-2.0-only
//! What is not RTP, though it begins as RTP does: protocols with a length, an id, flags, a counter or a clock where RTP has its sequence
//! number and timestamp, and random bytes. None is found, whatever its pace.

mod common;
use common::{Flow, MS, Rng, bytes, flow, monitor, send};
use takt_monitor::{Link, Packet};

const SEEDS: u64 = 25;
const PACKETS: u64 = 400;

/// The payload of packet `n`, sent at `at` ns.
type Make = fn(rng: &mut Rng, n: u64, at: u64) -> Vec<u8>;

/// A head of fields in the order of the network, then `size` bytes.
macro_rules! fields {
    ($rng:expr, $size:expr, $($field:expr),+) => {{
        let mut p = Vec::new();
        $(p.extend($field.to_be_bytes());)+
        let size: u64 = $size;
        p.extend(bytes($rng, size as usize));
        p
    }};
}

/// Name, first byte or bytes by layout, and what differs from packet to packet.
const PROTOCOLS: &[(&str, Make)] = &[
    // ---- a length at bytes 2 and 3 ----
    ("BACnet/IP acknowledgements: length, then service and object", |rng, _, _| {
        let n = 21 + rng.u64(..20);
        fields!(rng, n, 0x810au16, (n + 12) as u16, 0x0100_3000u32 | rng.u32(..256), 0x0c0c_0000u32)
    }),
    ("BACnet/IP, lengths that go up by one", |rng, n, _| {
        fields!(rng, 21 + n % 20, 0x810au16, (33 + n % 20) as u16, 0x0100_3000u32, 0x0c0c_0000u32)
    }),
    ("a record of a length, with a clock in ms behind", |rng, _, at| {
        let n = rng.u64(100..140);
        fields!(rng, n, 0x8001u16, (n + 12) as u16, (at / MS) as u32, 7u32)
    }),
    ("a record of a length, with a counter behind", |rng, n, _| {
        let size = rng.u64(100..140);
        fields!(rng, size, 0x8001u16, (size + 12) as u16, n as u32, 7u32)
    }),
    // ---- ids ----
    ("DNS answers with random ids", |rng, _, _| {
        fields!(rng, 40, rng.u16(0x8000..0xc000), 0x8180u16 + rng.u16(..6), 0x0001_0001u32, 1u32)
    }),
    ("DNS answers with ids one by one", |rng, n, _| {
        fields!(rng, 40, (0x8000 + n % 0x4000) as u16, 0x8180u16 + rng.u16(..6), 0x0001_0001u32, 1u32)
    }),
    ("NetBIOS names", |rng, n, _| fields!(rng, 50, (0x8000 + n) as u16, 0x8500u16, 1u32, 0u32)),
    ("RADIUS, an id in each byte", |rng, n, _| {
        fields!(rng, 80, 0x8000u16 | n as u16 & 0xff, 100u16, rng.u32(..), rng.u32(..))
    }),
    ("an id by one, all else as it was", |rng, n, _| fields!(rng, 100, 0x8000u16, n as u16, 0u32, 9u32)),
    ("an id by one, large", |rng, n, _| fields!(rng, 1200, 0x8060u16, n as u16, 0x0102_0304u32, 9u32)),
    ("an id by one, large, zero behind", |rng, n, _| fields!(rng, 1200, 0x8060u16, n as u16, 0u32, 9u32)),
    ("an id by one, and random bytes", |rng, n, _| fields!(rng, 100, 0x8060u16, n as u16, rng.u32(..), 9u32)),
    ("an id by one, and a check sum", |rng, n, _| {
        fields!(rng, 60, 0xa000u16, n as u16, (n as u32).wrapping_mul(0x9e37_79b1), 9u32)
    }),
    // ---- flags, types, services ----
    ("SOME/IP events in turn", |rng, n, _| fields!(rng, 24, 0x8064u16, 0x8001u16 + n as u16 % 5, 32u32, 0u32)),
    ("SOME/IP with sessions", |rng, n, _| fields!(rng, 24, 0x8064u16, 0x8001u16, 32u32, n as u32)),
    ("flags that change", |rng, _, _| fields!(rng, 30, 0x8000u16, 1u16 << rng.u32(..5), 77u32, 9u32)),
    ("a type, and a clock in s", |rng, _, at| {
        fields!(rng, 30, 0x8000u16, rng.u16(..8), (at / 1_000_000_000) as u32, 9u32)
    }),
    // ---- counters and clocks ----
    ("two counters", |rng, n, _| fields!(rng, 60, 0x8000u16, n as u16, n as u32, 9u32)),
    ("a counter, and five for each packet", |rng, n, _| fields!(rng, 60, 0x8000u16, n as u16, 5 * n as u32, 9u32)),
    ("a counter and a clock in ms", |rng, n, at| fields!(rng, 60, 0x8000u16, n as u16, (at / MS) as u32, 9u32)),
    ("a counter and a clock in us", |rng, n, at| fields!(rng, 600, 0x8000u16, n as u16, (at / 1000) as u32, 9u32)),
    ("a counter and a clock in ns", |rng, n, at| fields!(rng, 60, 0x8000u16, n as u16, at as u32, 9u32)),
    ("a counter and a clock in s", |rng, n, at| {
        fields!(rng, 60, 0x8000u16, n as u16, (at / 1_000_000_000) as u32, 9u32)
    }),
    ("a counter and a fixed-point clock in 1/65536 s, read when it is sent", |rng, n, at| {
        let read = at + rng.u64(..MS / 4);
        fields!(rng, 1000, 0x8000u16, n as u16, (u128::from(read) * 65_536 / 1_000_000_000) as u32, 9u32)
    }),
    ("a file: block and place", |rng, n, _| fields!(rng, 1400, 0x8000u16, n as u16, 1400 * n as u32, 9u32)),
    ("a file in small blocks", |rng, n, _| fields!(rng, 512, 0x8000u16, n as u16, 512 * n as u32, 9u32)),
    ("a file in blocks that are sent in no order", |rng, _, _| {
        let n = rng.u64(..64);
        fields!(rng, 1400, 0x8000u16, n as u16, 1400 * n as u32, 9u32)
    }),
    ("a counter that goes down", |rng, n, _| fields!(rng, 200, 0x8000u16, 60_000 - n as u16, 160 * n as u32, 9u32)),
    ("a counter in the order of a PC", |rng, n, _| {
        let counter = (n as u16).swap_bytes();
        fields!(rng, 200, 0x8000u16, counter, (160 * n as u32).swap_bytes(), 9u32)
    }),
    ("EchoLink: version 3", |rng, n, _| fields!(rng, 132, 0xc003u16, n as u16, 160 * n as u32, 0u32)),
    ("RTCP reports", |rng, n, at| fields!(rng, 16, 0x81c8u16, 6u16, n as u32, (at / MS) as u32)),
    ("QUIC with long headers", |rng, n, _| fields!(rng, 1200, 0xb000u16 | 0x0800, 1u16, 0x0800_0102u32, n as u32)),
    ("ESP in UDP", |rng, n, _| fields!(rng, 80, 0x8a5bu16, 0x0102u16, n as u32, rng.u32(..))),
];

#[test]
fn protocols_that_begin_like_rtp_are_not_found() {
    assert!(PROTOCOLS.len() >= 20);
    for (name, make) in PROTOCOLS {
        for seed in 0..SEEDS {
            let mut rng = Rng::with_seed(seed);
            let mut m = monitor();
            let (ports, pace) = (rng.u16(1024..), [MS / 100, MS / 2, 2 * MS, 10 * MS, 20 * MS][seed as usize % 5]);
            let f: Flow = flow("10.0.0.1", "10.0.0.2", ports, ports);
            let mut at = 0;
            for n in 0..PACKETS {
                // Some senders keep the beat, some do not.
                at += if seed % 2 == 0 { pace } else { pace / 2 + rng.u64(..pace) };
                let found = send(&mut m, &f.udp(&make(&mut rng, n, at)), at).promoted;
                assert_eq!(found, None, "{name}: seed {seed}, packet {n}");
            }
        }
    }
}

/// Sends `n` datagrams of one pair of ports with random bytes from `from` to `to`, the first of them one of RTP's.
fn assert_none_of_random(n: u64, from: usize, to: usize) {
    let mut rng = Rng::with_seed(1);
    let mut m = monitor();
    let mut p = Packet::new();
    let mut frame = flow("10.0.0.1", "10.0.0.2", 5004, 5004).udp(&[0; 200]);
    for n in 0..n {
        rng.fill(&mut frame[42 + from..42 + to]);
        frame[42] = 0x80 | frame[42] & 0x3f;
        p.load(Link::Ethernet, &frame, frame.len());
        assert_eq!(m.packet(&mut p, n * 100_000).promoted, None, "packet {n}");
    }
}

/// The next packet has the SSRC of the one before once in 2^32.
#[test]
fn ten_million_random_datagrams_are_not_found() {
    assert_none_of_random(10_000_000, 0, 16);
}

/// As above, but of one source (SSRC), as a protocol has it that keeps an id there: the numbers must go on by at most 128, three times, with
/// equal steps of the clock. That is (128 / 2^16)^3 for the numbers alone, and less than 2^-40 with the clock.
#[test]
fn two_million_random_datagrams_of_one_source_are_not_found() {
    assert_none_of_random(2_000_000, 1, 8);
}
