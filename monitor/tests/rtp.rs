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

/// Four packets of one stream, each changed so.
fn spoiled(change: impl Fn(&mut Vec<u8>)) -> Option<usize> {
    let packet = |seq| {
        let mut payload = rtp(0, seq, 7);
        change(&mut payload);
        udp(5004, &payload)
    };
    verdict(&[packet(1), packet(2), packet(3), packet(4)], 20 * MS)
}

#[test]
fn each_field_of_the_header_decides_alone() {
    assert_eq!(spoiled(|_| {}), Some(4));
    for version in 0..4 {
        assert_eq!(spoiled(|p| p[0] = version << 6), (version == 2).then_some(4), "version {version}");
    }
    for pt in 0..=255u8 {
        // Types 64 to 95 are RTCP's; the top bit is the marker.
        let rtcp = (64..=95).contains(&(pt & 0x7f));
        assert_eq!(spoiled(|p| p[1] = pt), (!rtcp).then_some(4), "type {pt}");
    }
    assert_eq!(spoiled(|p| p[0] |= 0x20), Some(4), "padding");
    assert_eq!(spoiled(|p| p[4..8].fill(0xff)), None, "a timestamp that stands still");
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
            assert_eq!(with(csrc, extension, 1), Some(4), "{csrc} {extension:?}");
            // A longer payload is not taken for an extension that the flag does not announce.
            assert_eq!(with(csrc, extension, 8), Some(4), "{csrc} {extension:?}");
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
        Some(4)
    );
}

#[test]
fn the_captured_part_must_hold_the_header() {
    let head = 42;
    for captured in [head, head + 11, head + 12, head + 13, head + 60] {
        let mut m = monitor();
        for i in 0..4 {
            send_cut(&mut m, &udp(5004, &rtp(0, i, 7)), captured, u64::from(i) * 20 * MS);
        }
        assert_eq!(m.is_rt(), captured >= head + 12, "{captured} bytes");
    }
    // Of an extension that was not captured, nothing is known: the stream counts.
    for captured in [12, 15] {
        let mut m = monitor();
        for i in 0..4 {
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
    let alike = |packets: [(u16, u16, u32); 4]| {
        let packet = |(seq, (sport, dport, ssrc)): (u16, (u16, u16, u32))| {
            flow("10.0.0.1", "10.0.0.2", sport, dport).udp(&rtp(0, seq, ssrc))
        };
        let packets: Vec<_> = (1..).zip(packets).map(packet).collect();
        verdict(&packets, 20 * MS)
    };
    let own = (5004, 7000, 0x0102_0304);
    assert_eq!(alike([own; 4]), Some(4));
    for at in 0..4 {
        let with = |other| {
            let mut all = [own; 4];
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
    assert_eq!(alike([own, (7000, 5004, own.2), own, own]), None);
}

/// Sequence numbers of packets of one stream, and at which of them the verdict falls.
#[track_caller]
fn assert_sequence(numbers: &[u16], want: Option<usize>) {
    for first in [0u16, 100, 65_530, 0x7ff0] {
        let packet = |n: &u16| {
            let mut p = rtp(0, first.wrapping_add(*n), 7);
            p[4..8].copy_from_slice(&(u32::from(*n) * 160).to_be_bytes());
            udp(5004, &p)
        };
        let packets: Vec<_> = numbers.iter().map(packet).collect();
        assert_eq!(verdict(&packets, 20 * MS), want, "{numbers:?} from {first}");
    }
}

#[test]
fn four_numbers_that_go_on_prove_a_stream() {
    assert_sequence(&[0, 1, 2], None);
    assert_sequence(&[0, 1, 2, 3], Some(4));
    assert_sequence(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None);
    // Loss, repeats and late packets do no harm, and prove nothing.
    assert_sequence(&[0, 2, 3, 6], Some(4));
    assert_sequence(&[0, 1, 5, 6], None);
    assert_sequence(&[0, 1, 5, 6, 7], Some(5));
    assert_sequence(&[0, 4, 8, 12], Some(4));
    assert_sequence(&[0, 1, 1, 0, 1], None);
    assert_sequence(&[0, 0, 1, 1, 2, 3], Some(6));
    assert_sequence(&[0, 2, 1, 3, 4], Some(5));
    assert_sequence(&[4, 3, 2, 1, 0], None);
    // The ninth in a row that is late begins again.
    assert_sequence(&[100, 0, 0, 0, 0, 0, 0, 0, 0, 101, 102, 103], Some(12));
    assert_sequence(&[100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 101, 102, 103], None);
    // A jump forgets what was seen, whichever way it goes.
    assert_sequence(&[0, 1, 1000, 1001, 1002], None);
    assert_sequence(&[0, 1, 1000, 1001, 1002, 1003], Some(6));
    assert_sequence(&[0, 1, 2, 40_000, 3], None);
}

/// Packets at times of their own: number, timestamp, ns, bytes of the payload.
type Timed = (u16, u32, u64, usize);

/// No stream begins at time 0.
fn timed(packets: impl IntoIterator<Item = Timed>) -> Option<usize> {
    let mut m = monitor();
    packets
        .into_iter()
        .position(|(seq, ts, at, size)| {
            let mut p = rtp(96, seq, 7);
            p[4..8].copy_from_slice(&ts.to_be_bytes());
            p.resize(size, 1);
            send(&mut m, &udp(5004, &p), SECOND + at).promoted.is_some()
        })
        .map(|n| n + 1)
}

#[test]
fn numbers_go_on_by_128_at_most() {
    let packets = |numbers: &[u16], gap: u64| {
        timed(numbers.iter().enumerate().map(|(n, seq)| (1000 + seq, u32::from(*seq) * 80, n as u64 * gap, 172)))
    };
    assert_eq!(packets(&[0, 128, 256, 384], 50 * MS), Some(4));
    assert_eq!(packets(&[0, 129, 258, 387, 516], 50 * MS), None);
    assert_eq!(packets(&[0, 129, 130, 131], 5 * MS), None);
    assert_eq!(packets(&[0, 129, 130, 131, 132], 5 * MS), Some(5));
    // What is up to 128 late is late; what is more, begins again.
    assert_eq!(packets(&[200, 72, 201, 202, 203], 5 * MS), Some(5));
    assert_eq!(packets(&[200, 71, 201, 202, 203], 5 * MS), None);
}

/// A digit that is pressed (RFC 4733): all packets have the time of its beginning, and how long it has been pressed.
#[test]
fn telephone_events_have_a_clock_in_their_payload() {
    let event = |n: u16, step: u16, more: usize, flags: u8| {
        let mut p = rtp(101, n, 7);
        p[0] |= flags;
        p[4..8].copy_from_slice(&1600u32.to_be_bytes());
        p.truncate(12);
        p.extend([1, 10]);
        p.extend((n * step).to_be_bytes());
        p.resize(16 + more, 0);
        udp(5004, &p)
    };
    let found = |step, more, flags| verdict(&(0..12).map(|n| event(n, step, more, flags)).collect::<Vec<_>>(), 20 * MS);
    assert_eq!(found(160, 0, 0), Some(4));
    assert_eq!(found(0, 0, 0), None);
    assert_eq!(found(160, 1, 0), None, "no event");
    assert_eq!(found(160, 0, 0x20), Some(4), "padding");
    for (captured, want) in [(15, false), (16, true)] {
        let mut m = monitor();
        for n in 0..12 {
            send_cut(&mut m, &event(n, 256, 0, 0), 42 + captured, u64::from(n) * 20 * MS);
        }
        assert_eq!(m.is_rt(), want, "{captured} bytes");
    }
}

/// Packet `n` of a stream with a clock of `hz`, one each `ns`.
fn clocked(hz: u64, ns: u64, size: usize) -> Option<usize> {
    timed((0..40u64).map(|n| (n as u16, (n * (ns * hz / 1_000_000_000)) as u32, n * ns, size)))
}

#[test]
fn a_clock_of_samples_is_neither_too_slow_nor_too_fast() {
    for hz in [8000, 11_025, 16_000, 44_100, 48_000, 90_000, 192_000] {
        assert_eq!(clocked(hz, 20 * MS, 172), Some(4), "{hz} Hz");
        assert_eq!(clocked(hz, 20 * MS, 1200), Some(4), "{hz} Hz");
    }
    for (hz, want) in [
        (1000, None),
        (1950, None),
        (2000, Some(9)),
        (3950, Some(9)),
        (4000, Some(4)),
        (250_000, Some(4)),
        (251_000, None),
        (1_000_000, None),
    ] {
        assert_eq!(clocked(hz, 20 * MS, 172), want, "{hz} Hz");
    }
    // AES67: six samples each 125 us. Fewer are a counter.
    assert_eq!(clocked(48_000, MS / 8, 48), Some(9));
    assert_eq!(clocked(40_000, MS / 8, 48), None);
    // What a late host sends at once, is sound if it is small.
    for (step, size, want) in [(160, 172, Some(4)), (2880, 499, Some(4)), (2881, 499, None), (160, 500, None)] {
        let burst = (0..8u32).map(|n| (n as u16, n * step, u64::from(n) * 1000, size));
        assert_eq!(timed(burst), want, "{step} units, {size} bytes");
    }
    // As many units as bytes: sound of a byte a sample, or a file.
    for (size, want) in [(172, Some(4)), (492, Some(4)), (500, None), (1400, None)] {
        assert_eq!(clocked((size as u64 - 12) * 50, 20 * MS, size), want, "{size} bytes");
    }
    for (beside, want) in [(0, None), (64, None), (65, Some(4)), (400, Some(4))] {
        assert_eq!(clocked((1200 - beside) * 50, 20 * MS, 1200), want, "{beside} bytes beside those that are counted");
    }
    // It comes early, late, and a packet may be missing.
    let at = [0, 35, 40, 75];
    assert_eq!(timed(at.iter().enumerate().map(|(n, at)| (n as u16, n as u32 * 160, at * MS, 172))), Some(4));
    // Each step that is another one asks for one more: a pause costs two steps, and a clock that never goes evenly is none.
    let pause = |n: u32, at: u32| if n < at { n } else { n + 3 };
    let stream = |at| timed((0..20u32).map(|n| (n as u16, 160 * pause(n, at), u64::from(pause(n, at)) * 20 * MS, 172)));
    assert_eq!([stream(1), stream(2), stream(3), stream(4)], [Some(6), Some(8), Some(9), Some(4)]);
    let pairs = (0..200u32).map(|n| (n as u16, 160 * n + n / 3 % 2 * 8, u64::from(n) * 20 * MS, 172));
    assert_eq!(timed(pairs), None);
    // Backwards it is none, nor with steps that differ.
    assert_eq!(timed((0..20u32).map(|n| (n as u16, 100_000 - 160 * n, u64::from(n) * 20 * MS, 172))), None);
    assert_eq!(timed((0..20u32).map(|n| (n as u16, 160 * n + n % 2, u64::from(n) * 20 * MS, 172))), None);
}

#[test]
fn a_clock_of_pictures_goes_by_ninety_kilohertz() {
    // Pictures of 3 to 9 packets at distances that differ, as encoders have them.
    let stream = |hz: u64, jitter: u64| {
        let mut rng = Rng::with_seed(hz);
        let (mut all, mut seq, mut at) = (Vec::new(), 0u16, 0u64);
        // Timestamps do not begin at 0.
        let ts = |at: u64| 0xffff_f000_u32.wrapping_add((at * hz / SECOND) as u32);
        for _ in 0..30 {
            for n in 0..3 + rng.u64(..7) {
                all.push((seq, ts(at), at + n * 20_000, 1200));
                seq += 1;
            }
            at += 16 * MS + rng.u64(..=jitter);
        }
        (timed(all.iter().copied()), all)
    };
    for hz in [75_000, 90_000, 105_000] {
        let (found, all) = stream(hz, 2 * MS);
        let found = found.expect("a clock of pictures");
        let times: std::collections::BTreeSet<_> = all[..found].iter().map(|p| p.1).collect();
        assert_eq!(times.len(), 5, "{hz} Hz: within five pictures");
    }
    for hz in [8000, 48_000, 65_536, 115_000, 1_000_000] {
        assert_eq!(stream(hz, 2 * MS).0, None, "{hz} Hz");
    }
    // Pictures are sent after those that refer to them: 0, 3, 1, 2, 6, 4, 5.
    let order = (0..40u32).map(|n| if n == 0 { 0 } else { 3 * ((n - 1) / 3) + [3, 1, 2][(n as usize - 1) % 3] });
    let found = timed(order.enumerate().map(|(n, k)| (n as u16, k * 3600, n as u64 * 40 * MS, 900)));
    assert!(found.is_some_and(|n| n <= 8), "{found:?}");
}

#[test]
fn pictures_without_a_clock_come_in_bursts_at_equal_distances() {
    let stream = |per: u64, distance: u64, size: usize, ts: u32, skip: u64| {
        timed((0..20 * per).map(|n| ((n + n / skip) as u16, ts, n / per * distance + n % per * 10_000, size)))
    };
    let never = u64::MAX;
    // The first of the tenth picture: eight distances are as the one before.
    assert_eq!(stream(10, 16 * MS, 1200, 0, never), Some(91));
    assert_eq!(stream(2, 16 * MS, 1200, 0, never), None, "too few yet");
    assert_eq!(stream(10, 16 * MS, 199, 0, never), None);
    assert_eq!(stream(10, 16 * MS, 200, 0, never), Some(91));
    assert_eq!(stream(10, 16 * MS, 1200, 1, never), None, "a field that stands still is none");
    assert_eq!(stream(10, 16 * MS, 1200, 0, 50), None, "a number is missing");
    assert_eq!(stream(1, 16 * MS, 1200, 0, never), None, "one packet at a time");
    assert_eq!(stream(10, MS, 1200, 0, never), None, "without a pause");
    let uneven = timed((0..400u64).map(|n| (n as u16, 0, (n / 10 + n / 20) * 16 * MS + n % 10 * 10_000, 1200)));
    assert_eq!(uneven, None, "at distances of 16 and 32 ms");
}

#[test]
fn a_silence_of_a_second_begins_anew() {
    let with = |gap: u64| {
        let at = |n: u64| if n < 2 { n * 20 * MS } else { 20 * MS + gap + (n - 2) * 20 * MS };
        timed((0..8u64).map(|n| (n as u16, (at(n) * 8 / MS) as u32, at(n), 172)))
    };
    assert_eq!(with(20 * MS), Some(4));
    // The step is another one, and so is the next.
    assert_eq!(with(SECOND), Some(8));
    assert_eq!(with(SECOND + 1), Some(6));
    // A late or repeated packet is late only within that second.
    for again in [0, 1] {
        let with = |gap: u64| {
            let after = (0..8).map(|n| (again + n as u16, 20 * MS + gap + n * 20 * MS));
            let all = [(0, 0), (1, 20 * MS)].into_iter().chain(after);
            timed(all.map(|(n, at)| (n, u32::from(n) * 160, at, 172)))
        };
        assert_eq!([with(SECOND), with(SECOND + 1)], [Some(7), Some(6)], "{again}");
    }
}

/// A whole picture is one datagram, which the device will cut.
#[test]
fn segments_count_as_what_they_will_be() {
    let one = |seq: u16, packets: usize, segment: u32, m: &mut Monitor, at: u64| {
        let mut payload = rtp(96, seq, 7);
        payload[4..8].fill(0);
        payload.resize(packets * 1392, 0);
        let mut p = takt_monitor::Packet::new();
        let frame = udp(5004, &payload);
        p.load_segments(takt_monitor::Link::Ethernet, &frame[..96], frame.len(), segment);
        m.packet(&mut p, at).promoted.is_some()
    };
    // No clock, so that only numbers can tell: 9 pictures after the first, of which each has 40 packets, the last shorter.
    for (segment, want) in [(1392, true), (1391, false), (0, false), (u32::MAX, false)] {
        let mut m = monitor();
        let found = (0..100u16).any(|n| one(40 * n, 40, segment, &mut m, u64::from(n) * 16 * MS));
        assert_eq!(found, want, "{segment}");
    }
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
        send(&mut m, &udp(5004, &rtp(0, 3, 7)), 23 * MS);
        let found = send(&mut m, &udp(5004, &rtp(0, 4, 7)), 24 * MS);
        assert_eq!(found.promoted.map(|p| (p.rule, p.after)), Some(("rtp", doubles as u32 + 4)));
        assert!(found.rt_packet && !found.demoted && found.period.is_none());
        assert_eq!(m.counters().rt_packets, 1, "the packets of the proof came before the verdict");
        assert!(m.has_port(5004) && !m.has_port(5006) && !m.has_port(7000));
    }
}

#[test]
fn a_second_stream_is_learned_too_and_the_first_rule_stays() {
    let mut m = monitor();
    for i in 0..4 {
        send(&mut m, &udp(5004, &rtp(0, i, 7)), u64::from(i) * MS);
    }
    for i in 0..4 {
        let o = send(&mut m, &udp(5006, &rtp(0, i, 8)), (4 + u64::from(i)) * MS);
        assert_eq!((o.rt_packet, o.promoted), (i == 3, None), "packet {i}");
    }
    assert!(m.has_port(5004) && m.has_port(5006));
    assert_eq!((m.rule(), m.counters().promotions, m.counters().rt_packets), (Some("rtp"), 1, 2));
}

#[test]
fn monitors_of_several_vms_share_nothing() {
    let mut vms = [monitor(), monitor(), monitor()];
    for i in 0..12u16 {
        let o = send(&mut vms[usize::from(i % 3)], &udp(5004, &rtp(0, i / 3, 7)), u64::from(i) * MS);
        assert_eq!(o.promoted.is_some(), i >= 9, "packet {i}");
    }
    let mut split = [monitor(), monitor()];
    for i in 0..6u16 {
        assert!(send(&mut split[usize::from(i % 2)], &udp(5004, &rtp(0, i, 7)), 0).promoted.is_none());
    }
    assert_eq!(split[0].counters().packets, 3);
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
    learned_within(4, m, n, now)
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
    assert_eq!(learned_within(5, &mut m, 50, SECOND), 50, "the second packet finds a place");

    // Fewer than there are places: the first challenge is refused somewhere, the second never.
    for ssrc in 0..200u32 {
        let mut m = monitor();
        let own = udp(5004, &rtp(0, 1, 0x1234 + ssrc));
        send(&mut m, &own, SECOND);
        for seq in 2..4 {
            assert!(!send(&mut m, &udp(5004, &rtp(0, seq, 0x1234 + ssrc)), SECOND).rt_packet);
        }
        assert!(
            send(&mut m, &udp(5004, &rtp(0, 4, 0x1234 + ssrc)), SECOND).rt_packet,
            "{ssrc}: an empty table holds one"
        );
    }
}

#[test]
fn traffic_keeps_a_candidate_fresh() {
    let mut m = monitor();
    let packet = |seq| {
        let mut p = rtp(0, seq, 7);
        p[4..8].copy_from_slice(&(u32::from(seq) * 8000).to_be_bytes()); // a packet a second
        udp(5004, &p)
    };
    (0..3).for_each(|n| assert!(!send(&mut m, &packet(n), u64::from(n) * (SECOND - 1)).rt_packet));
    strong(&mut m, 40 * SLOTS, 3 * (SECOND - 1));
    assert!(send(&mut m, &packet(3), 3 * (SECOND - 1)).rt_packet, "its last packet is 1 s old, not its first");

    let mut m = monitor();
    (0..3).for_each(|n| assert!(!send(&mut m, &packet(n), u64::from(n) * (SECOND - 1)).rt_packet));
    strong(&mut m, 40 * SLOTS, 3 * SECOND - 1);
    assert!(!send(&mut m, &packet(3), 3 * SECOND - 1).rt_packet, "another has its place");
}

#[test]
fn the_next_tenant_of_a_place_inherits_nothing() {
    // Every place is used again and again by streams of two packets: no packet proves another's stream.
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
    for seq in 0..5 {
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
    // Each stream is believed by its fourth packet; the table never fills.
    assert_eq!(learned(&mut m, 2000, SECOND), 2000);
    // Its port is taken back: the stream has to be proved again from its first packet.
    let packet = |seq| udp(5004, &rtp(0, seq, 7));
    for seq in 0..4 {
        send(&mut m, &packet(seq), SECOND);
    }
    m.remove_port(5004);
    for seq in 4..8 {
        assert_eq!(send(&mut m, &packet(seq), SECOND).rt_packet, seq == 7, "packet {seq}");
    }
}

#[test]
fn streams_of_ipv6_are_found_by_the_same_rules() {
    let f: Flow = flow("fd00::1", "fd00::2", 5004, 7000);
    let packets: Vec<_> = (0..4).map(|i| f.udp(&rtp(0, i, 7))).collect();
    assert_eq!(verdict(&packets, 20 * MS), Some(4));
}
