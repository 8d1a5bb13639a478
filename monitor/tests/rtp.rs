// SPDX-License-Identifier: GPL-2.0-only
//! The detector of RTP: each condition alone, at both ends of each range, and the table of candidates.

mod common;
use common::{Flow, MS, Rng, flow, monitor, rtp, send, send_cut};
use takt_monitor::Monitor;

const SECOND: u64 = 1_000_000_000;
/// Candidates of a VM (`TAKT_RTP_SLOTS`).
const SLOTS: usize = 128;

fn udp(sport: u16, payload: &[u8]) -> Vec<u8> {
    flow("10.0.0.1", "10.0.0.2", sport, 7000).udp(payload)
}

/// The number of the packet, from 1, at which the verdict falls; each is `gap` after the one before.
fn verdict(packets: &[Vec<u8>], gap: u64) -> Option<usize> {
    let mut m = monitor();
    let found = packets.iter().enumerate().position(|(i, p)| send(&mut m, p, i as u64 * gap).promoted.is_some());
    assert_eq!(m.rule(), found.map(|_| "rtp"));
    found.map(|i| i + 1)
}

/// Three packets of one stream, each changed so.
fn spoiled(change: impl Fn(&mut Vec<u8>)) -> Option<usize> {
    let packet = |seq| {
        let mut payload = rtp(0, seq, 7);
        change(&mut payload);
        udp(5004, &payload)
    };
    verdict(&[packet(1), packet(2), packet(3)], 20 * MS)
}

#[test]
fn each_field_of_the_header_decides_alone() {
    assert_eq!(spoiled(|_| {}), Some(3));
    for version in 0..4 {
        assert_eq!(spoiled(|p| p[0] = version << 6), (version == 2).then_some(3), "version {version}");
    }
    for pt in 0..=255u8 {
        // Types 64 to 95 are RTCP's; the top bit is the marker.
        let rtcp = (64..=95).contains(&(pt & 0x7f));
        assert_eq!(spoiled(|p| p[1] = pt), (!rtcp).then_some(3), "type {pt}");
    }
    assert_eq!(spoiled(|p| p[0] |= 0x20), Some(3), "padding");
    assert_eq!(spoiled(|p| p[4..8].fill(0xff)), Some(3), "the timestamp decides nothing");
}

#[test]
fn only_udp_has_rtp() {
    let f = flow("10.0.0.1", "10.0.0.2", 5004, 7000);
    let tcp: Vec<_> = (0..8).map(|i| f.tcp(&rtp(0, i, 7))).collect();
    assert_eq!(verdict(&tcp, 20 * MS), None);
}

#[test]
fn a_payload_follows_the_header_with_its_sources_and_extension() {
    let with = |csrc: u8, extension: Option<u16>, payload: usize| {
        spoiled(|p| {
            p.truncate(12);
            p[0] |= csrc;
            p.extend(vec![0; usize::from(csrc) * 4]);
            if let Some(words) = extension {
                p[0] |= 0x10;
                p.extend([0xbe, 0xde]);
                p.extend(words.to_be_bytes());
                p.extend(vec![0; usize::from(words) * 4]);
            }
            p.extend(vec![0xd5; payload]);
        })
    };
    for csrc in 0..16 {
        for extension in [None, Some(0), Some(1), Some(3)] {
            assert_eq!(with(csrc, extension, 0), None, "{csrc} {extension:?}");
            assert_eq!(with(csrc, extension, 1), Some(3), "{csrc} {extension:?}");
            // A longer payload is not taken for an extension that the flag does not announce.
            assert_eq!(with(csrc, extension, 8), Some(3), "{csrc} {extension:?}");
        }
    }
    // The first byte of the extension's length counts, too: 256 words are more than there is.
    let long = |p: &mut Vec<u8>| {
        p[0] |= 0x10;
        p[12..16].copy_from_slice(&[0, 0, 1, 0]);
    };
    assert_eq!(spoiled(long), None);
    assert_eq!(
        spoiled(|p| {
            long(p);
            p.resize(16 + 1024 + 1, 0);
        }),
        Some(3)
    );
}

#[test]
fn the_captured_part_must_hold_the_header() {
    let head = 42;
    for captured in [head, head + 11, head + 12, head + 13, head + 60] {
        let mut m = monitor();
        for i in 0..3 {
            send_cut(&mut m, &udp(5004, &rtp(0, i, 7)), captured, u64::from(i) * 20 * MS);
        }
        assert_eq!(m.is_rt(), captured >= head + 12, "{captured} bytes");
    }
    // Of an extension that was not captured, nothing is known: the stream counts.
    for captured in [12, 15] {
        let mut m = monitor();
        for i in 0..3 {
            let mut payload = rtp(0, i, 7);
            payload[0] |= 0x10;
            payload[12..16].copy_from_slice(&[0, 0, 0xff, 0xff]);
            send_cut(&mut m, &udp(5004, &payload), head + captured, u64::from(i) * 20 * MS);
        }
        assert!(m.is_rt(), "{captured} bytes");
    }
}

#[test]
fn a_stream_has_one_source_and_one_pair_of_ports() {
    let alike = |packets: [(u16, u16, u32); 3]| {
        let packet = |(seq, (sport, dport, ssrc)): (u16, (u16, u16, u32))| {
            flow("10.0.0.1", "10.0.0.2", sport, dport).udp(&rtp(0, seq, ssrc))
        };
        let packets: Vec<_> = (1..).zip(packets).map(packet).collect();
        verdict(&packets, 20 * MS)
    };
    let own = (5004, 7000, 0x0102_0304);
    assert_eq!(alike([own; 3]), Some(3));
    for at in 0..3 {
        let with = |other| {
            let mut all = [own; 3];
            all[at] = other;
            all
        };
        for bit in 0..32 {
            assert_eq!(alike(with((own.0, own.1, own.2 ^ 1 << bit))), None, "packet {at}, bit {bit} of the SSRC");
        }
        for bit in 0..16 {
            assert_eq!(alike(with((own.0 ^ 1 << bit, own.1, own.2))), None, "packet {at}, bit {bit} of the source");
            assert_eq!(
                alike(with((own.0, own.1 ^ 1 << bit, own.2))),
                None,
                "packet {at}, bit {bit} of the destination"
            );
        }
    }
    // Ports the other way round are another stream.
    assert_eq!(alike([own, (7000, 5004, own.2), own]), None);
}

/// Sequence numbers of packets of one stream, and at which of them the verdict falls.
#[track_caller]
fn assert_sequence(numbers: &[u16], want: Option<usize>) {
    for first in [0u16, 100, 65_530, 0x7ff0] {
        let packets: Vec<_> = numbers.iter().map(|n| udp(5004, &rtp(0, first.wrapping_add(*n), 7))).collect();
        assert_eq!(verdict(&packets, 20 * MS), want, "{numbers:?} from {first}");
    }
}

#[test]
fn three_different_numbers_within_a_window_of_32_prove_a_stream() {
    assert_sequence(&[0, 1], None);
    assert_sequence(&[0, 1, 2], Some(3));
    assert_sequence(&[0, 0, 0, 0], None);
    assert_sequence(&[0, 1, 1, 0, 1], None);
    assert_sequence(&[0, 0, 1, 1, 2], Some(5));
    assert_sequence(&[2, 1, 0], Some(3));
    assert_sequence(&[1, 0, 1, 0, 2], Some(5));
    assert_sequence(&[1, 2, 0], Some(3));
    // Steps of 31 still are in the window, steps of 32 begin again.
    assert_sequence(&[0, 31, 62], Some(3));
    assert_sequence(&[0, 32, 64, 96, 128], None);
    assert_sequence(&[0, 31, 63, 94, 125], Some(5));
    assert_sequence(&[40, 9, 10], Some(3));
    assert_sequence(&[40, 8, 7], None);
    assert_sequence(&[40, 8, 7, 6], Some(4));
    // A jump forgets what was seen, whichever way it goes.
    assert_sequence(&[0, 1, 1000, 1001], None);
    assert_sequence(&[0, 1, 1000, 1001, 1002], Some(5));
    assert_sequence(&[0, 1, 40_000, 0, 1], None);
    // Numbers at the window's far end are remembered: a repetition is none of the three.
    assert_sequence(&[0, 31, 0], None);
    assert_sequence(&[0, 31, 0, 31, 1], Some(5));
    assert_sequence(&[0, 20, 0], None);
}

#[test]
fn the_verdict_counts_all_packets_of_the_stream() {
    for doubles in [0, 1, 5] {
        let mut m = monitor();
        for i in 0..doubles {
            assert!(!send(&mut m, &udp(5004, &rtp(0, 1, 7)), i * MS).rt_packet);
        }
        send(&mut m, &udp(5004, &rtp(0, 1, 7)), 20 * MS);
        send(&mut m, &udp(5006, &rtp(0, 9, 8)), 21 * MS);
        send(&mut m, &udp(5004, &rtp(0, 2, 7)), 22 * MS);
        let found = send(&mut m, &udp(5004, &rtp(0, 3, 7)), 23 * MS);
        assert_eq!(found.promoted.map(|p| (p.rule, p.after)), Some(("rtp", doubles as u32 + 3)));
        assert!(found.rt_packet && !found.demoted && found.period.is_none());
        assert_eq!(m.counters().rt_packets, 1, "the packets of the proof came before the verdict");
        assert!(m.has_port(5004) && !m.has_port(5006) && !m.has_port(7000));
    }
}

#[test]
fn a_second_stream_is_learned_too_and_the_first_rule_stays() {
    let mut m = monitor();
    for i in 0..3 {
        send(&mut m, &udp(5004, &rtp(0, i, 7)), u64::from(i) * MS);
    }
    for i in 0..3 {
        let o = send(&mut m, &udp(5006, &rtp(0, i, 8)), (3 + u64::from(i)) * MS);
        assert_eq!((o.rt_packet, o.promoted), (i == 2, None), "packet {i}");
    }
    assert!(m.has_port(5004) && m.has_port(5006));
    assert_eq!((m.rule(), m.counters().promotions, m.counters().rt_packets), (Some("rtp"), 1, 2));
}

#[test]
fn monitors_of_several_vms_share_nothing() {
    let mut vms = [monitor(), monitor(), monitor()];
    for i in 0..9u16 {
        let o = send(&mut vms[usize::from(i % 3)], &udp(5004, &rtp(0, i / 3, 7)), u64::from(i) * MS);
        assert_eq!(o.promoted.is_some(), i >= 6, "packet {i}");
    }
    let mut split = [monitor(), monitor()];
    for i in 0..4u16 {
        assert!(send(&mut split[usize::from(i % 2)], &udp(5004, &rtp(0, i, 7)), 0).promoted.is_none());
    }
    assert_eq!(split[0].counters().packets, 2);
    assert!(split.iter_mut().all(|m| m.rule().is_none() && !m.has_port(5004)));
}

/// Fills the table with candidates of one packet each that have all been challenged or not.
fn flood(m: &mut Monitor, n: usize, now: u64, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..n {
        send(m, &udp(10_000 + rng.u64(..50_000) as u16, &rtp(0, rng.u64(..) as u16, rng.u64(..) as u32)), now);
    }
}

/// Candidates of two packets each, which nobody displaces while they are fresh.
fn strong(m: &mut Monitor, n: usize, now: u64) {
    let mut rng = Rng::with_seed(5);
    for _ in 0..n {
        let (port, ssrc) = (10_000 + rng.u64(..50_000) as u16, rng.u64(..) as u32);
        for seq in 0..2 {
            send(m, &udp(port, &rtp(0, seq, ssrc)), now);
        }
    }
}

/// How many of `n` new streams get their verdict within so many packets, one stream after another.
fn learned_within(packets: u16, m: &mut Monitor, n: u16, now: u64) -> usize {
    let mut rng = Rng::with_seed(99);
    let stream = |port: u16, ssrc: u32, m: &mut Monitor| {
        (0..packets).any(|seq| send(m, &udp(port, &rtp(0, seq, ssrc)), now).rt_packet)
    };
    (0..n).filter(|i| stream(2000 + i, rng.u64(..) as u32, m)).count()
}

fn learned(m: &mut Monitor, n: u16, now: u64) -> usize {
    learned_within(3, m, n, now)
}

#[test]
fn a_table_of_fresh_candidates_is_full_until_they_are_stale() {
    let mut m = monitor();
    strong(&mut m, 40 * SLOTS, SECOND);
    assert_eq!(learned(&mut m, 50, SECOND), 0, "every place is taken");
    assert_eq!(learned(&mut m, 50, 2 * SECOND), 0, "1 s is not more than 1 s");
    assert_eq!(learned(&mut m, 50, 2 * SECOND + 1), 50, "stale ones give way at once");
}

#[test]
fn a_candidate_of_one_packet_gives_way_to_the_second_challenge() {
    let mut m = monitor();
    flood(&mut m, 40 * SLOTS, SECOND, 1);
    let at_once = learned(&mut m, 50, SECOND);
    assert!((1..50).contains(&at_once), "some places were challenged before, some were not: {at_once}");
    let mut m = monitor();
    flood(&mut m, 40 * SLOTS, SECOND, 1);
    assert_eq!(learned_within(4, &mut m, 50, SECOND), 50, "the second packet finds a place");

    // Fewer than there are places: the first challenge is refused somewhere, the second never.
    for ssrc in 0..200u32 {
        let mut m = monitor();
        let own = udp(5004, &rtp(0, 1, 0x1234 + ssrc));
        send(&mut m, &own, SECOND);
        let later = udp(5004, &rtp(0, 2, 0x1234 + ssrc));
        assert!(!send(&mut m, &later, SECOND).rt_packet);
        assert!(
            send(&mut m, &udp(5004, &rtp(0, 3, 0x1234 + ssrc)), SECOND).rt_packet,
            "{ssrc}: an empty table holds one"
        );
    }
}

#[test]
fn traffic_keeps_a_candidate_fresh() {
    let mut m = monitor();
    let packet = |seq| udp(5004, &rtp(0, seq, 7));
    send(&mut m, &packet(1), 0);
    send(&mut m, &packet(2), SECOND - 1);
    strong(&mut m, 40 * SLOTS, 2 * SECOND - 2);
    assert!(send(&mut m, &packet(3), 2 * SECOND - 2).rt_packet, "its last packet is 1 s old, not its first");

    let mut m = monitor();
    send(&mut m, &packet(1), 0);
    send(&mut m, &packet(2), 0);
    strong(&mut m, 40 * SLOTS, SECOND + 1);
    assert!(!send(&mut m, &packet(3), SECOND + 1).rt_packet, "another has its place");
}

#[test]
fn the_next_tenant_of_a_place_inherits_nothing() {
    // Every place is used again and again by streams of two packets: no third packet proves another's stream.
    let mut m = monitor();
    let mut rng = Rng::with_seed(4);
    for round in 0..20 {
        for _ in 0..4 * SLOTS {
            let (port, seq, ssrc) = (10_000 + rng.u64(..50_000) as u16, rng.u64(..) as u16, rng.u64(..) as u32);
            for i in 0..2 {
                let o = send(&mut m, &udp(port, &rtp(0, seq.wrapping_add(i), ssrc)), round * (SECOND + 1));
                assert!(!o.rt_packet);
            }
        }
    }
    // Nor does it inherit the challenge: a table of stale candidates decides as an empty one does.
    let mut empty = monitor();
    let mut rng = Rng::with_seed(77);
    let streams: Vec<(u16, u32)> = (0..600).map(|_| (10_000 + rng.u64(..50_000) as u16, rng.u64(..) as u32)).collect();
    for seq in 0..4 {
        for (port, ssrc) in &streams {
            let packet = udp(*port, &rtp(0, seq, *ssrc));
            let now = 20 * (SECOND + 1) + u64::from(seq);
            let (a, b) = (send(&mut m, &packet, now).rt_packet, send(&mut empty, &packet, now).rt_packet);
            assert_eq!(a, b, "packet {seq} of {port}");
        }
    }
}

#[test]
fn a_believed_stream_leaves_its_place_as_if_it_had_not_been() {
    let mut m = monitor();
    // Each stream is believed by its third packet; the table never fills.
    assert_eq!(learned(&mut m, 2000, SECOND), 2000);
    // Its port is taken back: the stream has to be proved again from its first packet.
    let packet = |seq| udp(5004, &rtp(0, seq, 7));
    for seq in 0..3 {
        send(&mut m, &packet(seq), SECOND);
    }
    m.remove_port(5004);
    for seq in 3..6 {
        assert_eq!(send(&mut m, &packet(seq), SECOND).rt_packet, seq == 5, "packet {seq}");
    }
}

#[test]
fn streams_of_ipv6_are_found_by_the_same_rules() {
    let f: Flow = flow("fd00::1", "fd00::2", 5004, 7000);
    let packets: Vec<_> = (0..3).map(|i| f.udp(&rtp(0, i, 7))).collect();
    assert_eq!(verdict(&packets, 20 * MS), Some(3));
}
