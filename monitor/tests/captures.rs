// SPDX-License-Identifier: GPL-2.0-only
//! Synthetic captures: what is real-time, what is not, and with which period.

mod common;
use common::{Capture, Flow, MS, Rng, assert_rtp, bytes, flow, rtp};

fn v4(port: u16) -> Flow {
    flow("10.0.0.1", "10.0.0.2", port, 40_000)
}

#[test]
fn rtp_is_found_whatever_its_ports_type_and_gap() {
    let mut rng = Rng::with_seed(1);
    for gap in [10, 20, 30, 60] {
        for _ in 0..20 {
            let mut c = Capture::default();
            let (sport, dport) = (rng.u64(..65_535) as u16 + 1, rng.u64(..65_535) as u16 + 1);
            let pt = [0, 3, 8, 9, 18, 35, 96, 101, 127][rng.u64(..9) as usize];
            c.stream(&flow("10.0.0.1", "10.0.0.2", sport, dport), pt, rng.u64(..) as u32, 5, gap * MS, 250);
            let s = c.sender();
            assert_rtp(&s, gap as f64 * 1000.0);
            assert_eq!((s.verdict_after, s.streams, s.packets, s.rt_at_end), (Some(4), 1, 250, true));
        }
    }
}

#[test]
fn rtp_is_found_over_ipv6_and_vlan() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        for vlan in [vec![], vec![0x8100], vec![0x88a8, 0x8100]] {
            let mut c = Capture::default();
            c.stream(&Flow { vlan, ..flow(src, dst, 5004, 5004) }, 0, 9, 0, 20 * MS, 100);
            let s = c.sender();
            assert_rtp(&s, 20_000.0);
            assert_eq!(s.sender, src);
        }
    }
}

#[test]
fn reordering_loss_and_duplicates_are_tolerated() {
    let mut worst = 0;
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let mut c = Capture::default();
        c.stream(&v4(5004), 96, 77, 0, 20 * MS, 300);
        c.0.retain(|_| rng.u64(..100) >= 5);
        for p in &mut c.0 {
            p.0 += rng.u64(..50) * MS; // up to two packets overtake one
        }
        let doubled: Vec<_> = c.0.iter().filter(|_| rng.u64(..20) == 0).cloned().collect();
        c.0.extend(doubled);
        let s = c.sorted().sender();
        let p = s.period_us.expect("period");
        assert!(s.rule == Some("rtp") && (p / 20_000.0 - 1.0).abs() <= 0.15, "{s:?}");
        worst = worst.max(s.verdict_after.unwrap_or(0));
    }
    assert!(worst <= 7, "a late or repeated packet proves nothing: {worst}");
}

#[test]
fn many_calls_show_as_one_aggregate_period() {
    for n in [2u16, 10, 30, 90] {
        for in_phase in [false, true] {
            let mut rng = Rng::with_seed(n.into());
            let mut c = Capture::default();
            for call in 0..n {
                let phase = if in_phase { rng.u64(..300_000) } else { rng.u64(..20 * MS) };
                let start = u64::from(call) * 100 * MS / 10 + phase;
                c.stream(
                    &v4(20_000 + 2 * call),
                    0,
                    rng.u64(..) as u32,
                    start / MS / 20 * 20 * MS + phase,
                    20 * MS,
                    500,
                );
            }
            let s = c.sorted().sender();
            assert_rtp(&s, 20_000.0 / f64::from(n));
            assert_eq!(s.streams, usize::from(n));
        }
    }
}

/// All first packets, then all second ones: candidates that meet in the table must not starve one another.
#[test]
fn ninety_calls_in_lockstep_are_all_learned() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let mut c = Capture::default();
        for call in 0..90u16 {
            c.stream(&v4(20_000 + 2 * call), 0, rng.u64(..) as u32, u64::from(call) * 1000, 20 * MS, 30);
        }
        let s = c.sorted().sender();
        assert_eq!((s.streams, s.verdict_after), (90, Some(4)), "seed {seed}");
        assert!(s.rt_packets > 90 * 25, "{s:?}");
    }
}

#[test]
fn streams_of_one_pair_of_ports_do_not_disturb_each_other() {
    let mut c = Capture::default();
    c.stream(&v4(5004), 111, 1, 0, 20 * MS, 100);
    c.stream(&v4(5004), 96, 2, MS, 20 * MS, 100);
    assert_rtp(&c.sorted().sender(), 10_000.0);
}

#[test]
fn rtp_is_found_among_a_flood_of_lookalikes() {
    let mut rng = Rng::with_seed(3);
    let mut c = Capture::default();
    c.stream(&v4(5004), 0, 1, 0, 20 * MS, 100);
    for i in 0..2000 {
        let payload = [&[0x80, 0][..], &bytes(&mut rng, 100)].concat();
        c.add(i * MS, v4(rng.u64(..) as u16 | 1).udp(&payload));
    }
    let s = c.sorted().sender();
    assert_rtp(&s, 20_000.0);
}

#[test]
fn noise_that_was_there_first_gives_way() {
    let mut rng = Rng::with_seed(8);
    let mut c = Capture::default();
    for i in 0..4000 {
        let payload = [&[0x80, 0][..], &bytes(&mut rng, 100)].concat();
        c.add(i * MS / 10, v4(rng.u64(..) as u16 | 1).udp(&payload)); // every place is taken
    }
    c.stream(&v4(5004), 0, 1, 400 * MS, 20 * MS, 20);
    let s = c.sender();
    assert!(s.rt_packets >= 16, "one packet to be let in, four for the proof, the last of which counts: {s:?}");
}

#[test]
fn fragments_and_cut_packets_are_counted_not_misread() {
    let mut c = Capture::default();
    let f = v4(5004);
    for i in 0..100u16 {
        let now = u64::from(i) * 30 * MS;
        let udp = f.udp(&[rtp(96, i, 5), vec![0; 1000]].concat())[34..].to_vec();
        c.add(now, f.frame(17, &udp[..800], 0x2000));
        c.add(now + 1000, f.frame(17, &udp[800..], 100));
    }
    let s = c.sender();
    assert_rtp(&s, 30_000.0);
    assert_eq!((s.fragments, s.rt_packets), (100, 97));

    let mut c = Capture::default();
    c.stream(&f, 0, 5, 0, 20 * MS, 100);
    for p in &mut c.0 {
        p.1.truncate(54); // a snapshot length that just holds the RTP header
    }
    assert_rtp(&c.sender(), 20_000.0);
    for p in &mut c.0 {
        p.1.truncate(40);
    }
    let s = c.sender();
    assert_eq!((s.rt, s.truncated, s.malformed), (false, 100, 0));
}

#[test]
fn calls_that_end_demote_and_new_ones_promote() {
    let mut c = Capture::default();
    c.stream(&v4(5004), 0, 5, 0, 20 * MS, 100);
    c.stream(&v4(5006), 0, 6, 10_000 * MS, 20 * MS, 100);
    for i in 0..700 {
        c.add(i * 20 * MS, v4(53).udp(b"other"));
    }
    let s = c.sorted().sender();
    assert_rtp(&s, 20_000.0);
    assert_eq!((s.demotions, s.rt_at_end, s.rt_packets), (2, false, 194));
}

#[test]
fn rtsp_is_found_by_keyword_and_by_port() {
    let urls = [
        "rtsp://10.0.0.1:8554/a.mp4",
        "*",
        "rtsp://10.0.0.1/a-name-that-is-so-long-that-the-version-behind-it-is-not-\
                looked-at-because-it-lies-beyond-the-bytes-of-a-packet-that-the-monitor-keeps-for-itself-and-for-others",
    ];
    for url in urls {
        let mut c = Capture::default();
        c.add(0, v4(50_000).tcp(format!("OPTIONS {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n").as_bytes()));
        let s = c.sender();
        assert_eq!((s.rt, s.rule, s.verdict_after, s.period_us), (true, Some("rtsp"), Some(1), None), "{url}");
    }
    for (port, payload) in [(8554, &b"RTSP/1.0 200 OK\r\n"[..]), (554, b"$\0\x01\x02....")] {
        let mut c = Capture::default();
        for i in 0..100 {
            c.add(i * 70 * MS, v4(port).tcp(payload));
        }
        let s = c.sender();
        assert_eq!(s.rule, Some("rtsp"));
        assert!(s.period_us.is_some_and(|p| (p / 70_000.0 - 1.0).abs() < 0.15), "{s:?}");
    }
    let mut c = Capture::default();
    c.add(0, v4(554).tcp(b""));
    assert!(!c.sender().rt, "a handshake is no stream");
}

/// Payloads that are not real-time, `n` of them every `gap` from one pair of ports.
fn assert_not_rt(name: &str, f: &Flow, tcp: bool, gap: u64, mut payload: impl FnMut(u64) -> Vec<u8>) {
    let mut c = Capture::default();
    for i in 0..3000 {
        let data = payload(i);
        c.add(i * gap, if tcp { f.tcp(&data) } else { f.udp(&data) });
    }
    let s = c.sender();
    assert!(!s.rt && s.rule.is_none() && s.period_us.is_none() && s.rt_packets == 0, "{name}: {s:?}");
}

#[test]
fn other_protocols_are_not_real_time() {
    let mut rng = Rng::with_seed(11);
    let name = |id: u16, flags: u16| {
        let mut q = id.to_be_bytes().to_vec();
        q.extend(flags.to_be_bytes());
        q.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        q.extend(b"\x03www\x07example\x03org\0\0\x01\0\x01");
        q
    };
    let gap = 20 * MS;
    let dns = flow("10.0.0.1", "10.0.0.2", 40_000, 53);
    let answer = flow("10.0.0.1", "10.0.0.2", 53, 40_000);
    assert_not_rt("DNS, random identifiers", &dns, false, gap, |_| name(rng.u64(..) as u16, 0x0100));
    assert_not_rt("DNS, one identifier", &dns, false, gap, |_| name(0x8000, 0x0100));
    assert_not_rt("DNS, counted identifiers", &dns, false, gap, |i| name(0x8000 + i as u16, 0x0100));
    assert_not_rt("DNS answers", &answer, false, gap, |i| name(0x8000 + i as u16 % 64, 0x8180));
    let web = flow("10.0.0.1", "10.0.0.2", 80, 40_000);
    let pages = [
        &b"HTTP/1.1 200 OK\r\nServer: RTSP/1.0\r\n\r\n"[..],
        b"GET /RTSP/1.0 HTTP/1.1\r\nHost: RTSP\r\n\r\n",
        b"POST /about-RTSP-and-rtsp:/ HTTP/1.1\r\n\r\n RTSP/1.0",
        b"<html>RTSP/1.0</html>",
        b"A",
        b"PLAY RTSP",
        b"PLAY RTSP tutorials for everybody",
        b"PATCH / HTTP/1.1\r\nX: RTSP/1.0\r\n",
    ];
    assert_not_rt("HTTP", &web, true, gap, |i| pages[i as usize % pages.len()].to_vec());
    let ssh = flow("10.0.0.1", "10.0.0.2", 22, 40_000);
    assert_not_rt("SSH", &ssh, true, gap, |i| {
        if i == 0 { b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec() } else { bytes(&mut rng, 64) }
    });
    let rtcp = v4(5005);
    assert_not_rt("RTCP", &rtcp, false, gap, |i| {
        [&[0x80, 200 + (i % 5) as u8][..], &(i as u16).to_be_bytes(), &[0; 4], &[0, 0, 0, 9], &[0; 16]].concat()
    });
    for version in [0x00, 0x40, 0xc0] {
        assert_not_rt("another version", &v4(5004), false, gap, |i| {
            [&[version][..], &rtp(0, i as u16, 9)[1..]].concat()
        });
    }
    assert_not_rt("RTP over TCP's ports", &v4(5004), true, gap, |i| rtp(0, i as u16, 9));
    assert_not_rt("SIP", &v4(5060), false, gap, |_| b"INVITE sip:a@b SIP/2.0\r\nVia: x\r\n\r\n".to_vec());
    assert_not_rt("ESP in UDP", &v4(4500), false, gap, |i| {
        [&[0x80, 0, 0x12, 0x34][..], &(i as u32).to_be_bytes(), &bytes(&mut rng, 80)].concat()
    });
    assert_not_rt("QUIC", &v4(443), false, gap, |_| [&[0xc3, 0, 0, 0, 1, 8][..], &bytes(&mut rng, 100)].concat());
    assert_not_rt("a bare RTP header", &v4(5004), false, gap, |i| rtp(0, i as u16, 9)[..12].to_vec());
}

#[test]
fn random_udp_that_begins_like_rtp_is_not_real_time() {
    let mut rng = Rng::with_seed(5);
    for gap in [20 * MS, MS / 10] {
        let mut c = Capture::default();
        for i in 0..5000 {
            let n = 20 + rng.u64(..1200) as usize;
            let payload = [&[0x80][..], &bytes(&mut rng, n)].concat();
            let (a, b) = (rng.u64(..) as u16, rng.u64(..) as u16);
            c.add(i * gap, flow("10.0.0.1", "10.0.0.2", a, b).udp(&payload));
        }
        assert!(!c.sender().rt);
        let heads: [(&str, &[u8], usize, &[u8]); 4] = [
            ("0x80", &[0x80], 0, &[]),
            ("0x80 and a payload type", &[0x80, 0], 0, &[]),
            ("a constant header", &[0x80, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3], 0, &[]),
            ("a constant SSRC", &[0x80, 0], 6, &[1, 2, 3, 4]),
        ];
        for (name, head, random, ssrc) in heads {
            assert_not_rt(name, &v4(5004), false, gap, |_| {
                [head, &bytes(&mut rng, random), ssrc, &bytes(&mut rng, 160)].concat()
            });
        }
    }
}

#[test]
fn report_is_a_stable_interface() {
    let mut c = Capture::default();
    c.stream(&v4(5004), 0, 5, 0, 20 * MS, 100);
    c.add(0, vec![0; 60]);
    let json = serde_json::to_value(c.sorted().report()).expect("json");
    let s = &json["senders"][0];
    assert_eq!(s["sender"], "10.0.0.1");
    assert_eq!(s["rt"], true);
    assert_eq!(s["rule"], "rtp");
    assert_eq!(s["period_us"], 20_000.0);
    assert_eq!(s["packets"], 100);
    assert_eq!(s["verdict_after"], 4);
    assert_eq!(json["unattributed"], 1);
}
