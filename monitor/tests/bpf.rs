// SPDX-License-Identifier: GPL-2.0-only
//! The same packets at the same times natively and in the kernel: equal outcomes, equal bytes.

mod common;

use common::{Flow, MS, Rng, bytes, flow, rtp};
use std::net::UdpSocket;
use std::path::Path;
use takt_bpf_build::skip;
use takt_monitor::bpf::{BpfMonitor, compile};
use takt_monitor::{Config, Link, Monitor, Packet, PeriodSource, REPORT_NS};

/// Packets of each VM.
const TURNS: u64 = 340_000;

/// The loaded program, or a skip that fails when CI=true. A program that does not compile is no skip.
fn load(test: &str) -> Option<BpfMonitor> {
    let dir = tempfile::tempdir().expect("directory");
    let object = dir.path().join("monitor.bpf.o");
    if let Err(e) = takt_bpf_build::clang() {
        skip(test, e);
        return None;
    }
    compile(Path::new(env!("CARGO_MANIFEST_DIR")), &object).expect("compile");
    if let Err(e) = takt_bpf_build::allowed() {
        skip(test, e);
        return None;
    }
    Some(BpfMonitor::load(&object).expect("load"))
}

/// One of 24 streams of sound or pictures: its packet at `now`.
fn stream(rng: &mut Rng, now: u64, turn: u64) -> (u64, Vec<u8>) {
    let which = rng.u64(..24);
    let (seq, clock) = (turn as u16 / 24, if which % 2 == 0 { now / 125_000 } else { now * 9 / 100_000 / 1500 * 1500 });
    let mut p = rtp(96 + (which % 4) as u8, seq, which as u32);
    p[4..8].copy_from_slice(&(clock as u32).to_be_bytes());
    if which == 5 {
        p[4..8].fill(0);
    }
    p.resize(if which % 2 == 0 { 172 } else { 12 + rng.u64(..1000) as usize }, 7);
    (which, p)
}

/// A mixed bag: streams plain and carried, tunnels, lookalikes, what is no media, text, fragments, cuts and noise. Link, bytes, and the size
/// of the parts that the device is to cut it into.
fn packet(rng: &mut Rng, turn: u64, now: u64) -> (Link, Vec<u8>, u32) {
    let v6 = rng.u64(..4) == 0;
    let mut f: Flow = if v6 { flow("fd00::1", "fd00::2", 0, 9) } else { flow("10.0.0.1", "10.0.0.2", 0, 9) };
    f.sport = 5000 + rng.u64(..6) as u16;
    if rng.u64(..4) == 0 {
        f.vlan = vec![0x8100; 1 + rng.u64(..2) as usize];
    }
    f.options = if rng.u64(..6) == 0 { 8 } else { 0 };
    let n = rng.u64(..300) as usize;
    let mut data = match rng.u64(..20) {
        0..=3 => f.udp(&rtp(96 + rng.u64(..4) as u8, (turn / 4 + rng.u64(..8)) as u16, f.sport.into())),
        4 => f.udp(&[&[0x80, 0][..], &bytes(rng, n)].concat()),
        5 => f.tcp(
            [&b"GET / HTTP/1.1\r\n"[..], b"PLAY rtsp://a RTSP/1.0\r\n", b"RTSP/1.0 200 OK", b"\x16\x03\x01"]
                [rng.u64(..4) as usize],
        ),
        6 if !v6 => f.frame(17, &bytes(rng, n), rng.u64(..) as u16 & 0x3fff),
        6 => f.frame(
            [0, 43, 44, 51, 60][rng.u64(..5) as usize],
            &[&[60, 0, 0, 0, 0, 0, 0, 0, 17, 0], &bytes(rng, n)[..]].concat(),
            0,
        ),
        7 => bytes(rng, 15 + n),
        8 => f.udp(&bytes(rng, n)),
        9..=11 => {
            let (which, p) = stream(rng, now, turn);
            f.sport = 6000 + which as u16;
            f.udp(&p)
        }
        12 => {
            let head = [
                &[0x00, 0x01, 0, 0, 0x21, 0x12, 0xa4, 0x42][..],
                &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0],
                &[0x2c, 1, 2, 0, 15, 0, 0, 0],
                &[0x81, 200, 0, 6, 0, 0, 0, 0],
                b"\x10\0\0\0ZRTP",
            ][rng.u64(..5) as usize];
            f.udp(&[head, &bytes(rng, 20)].concat())
        }
        13 => {
            let (which, p) = stream(rng, now, turn);
            f.sport = 6100 + which as u16;
            let size = (p.len() as u16).to_be_bytes();
            match rng.u64(..7) {
                0 => f.udp(&[&[0x40, 1], &size[..], &p].concat()),
                1 => f.tcp(&[&[b'$', 0], &size[..], &p].concat()),
                2 => f.tcp(&[&size[..], &p].concat()),
                3 => f.udp(&[&[5, 0, 0, 0, 0, 0, 0, 4, 15][..], &[0; 18], &p].concat()),
                4 => f.udp(&[&[16][..], &[0; 19], &p].concat()),
                5 => f.udp(&[&[13, 0, 0, 0, 0, 0, 0, 30][..], &[0; 19], &p].concat()),
                _ => {
                    let cookie = [0, 0x16, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    f.udp(&[&cookie[..], &[0, 0x12, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0x13], &size, &p].concat())
                }
            }
        }
        14 | 15 => {
            let (which, p) = stream(rng, now, turn);
            let inner = Flow { vlan: vec![], options: 0, sport: 6200 + which as u16, ..f.clone() };
            let ether = if rng.u64(..4) == 0 { inner.frame(1, &p, 0) } else { inner.udp(&p) };
            let gre = |flags: u8, kind: [u8; 2], more: usize, data: &[u8]| {
                f.frame(47, &[&[flags, 0][..], &kind, &vec![0; more], data].concat(), 0)
            };
            let kind = if v6 { [0x86, 0xdd] } else { [8, 0] };
            match rng.u64(..5) {
                0 => Flow { dport: 2152, ..f.clone() }.udp(&[&[0x30, 0xff, 0, 0, 0, 0, 0, 1], &ether[14..]].concat()),
                1 => Flow { dport: 2152, ..f.clone() }
                    .udp(&[&[0x34, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0], &ether[14..]].concat()),
                2 => Flow { dport: 4789, ..f.clone() }.udp(&[&[8, 0, 0, 0, 0, 0, 1, 0], &ether[..]].concat()),
                3 => gre(0xb0, kind, 12, &ether[14..]),
                _ => gre(0, [0x65, 0x58], 0, &ether),
            }
        }
        16 => {
            let count = 1 + rng.u64(..9) as usize;
            let ts: Vec<u8> = (0..count).flat_map(|_| [&[0x47, 1, 0, 0x10][..], &[0xaa; 184]].concat()).collect();
            f.udp(&ts)
        }
        17 => {
            let call = [0, 5, 0x8005][rng.u64(..3) as usize] | rng.u64(..3) as u16;
            (f.sport, f.dport) = (4569, 4569);
            f.udp(&[&call.to_be_bytes()[..], &((now / MS / 20 * 20) as u16).to_be_bytes(), &[0; 40]].concat())
        }
        _ => {
            let mut cut = f.udp(&bytes(rng, n));
            cut.truncate(15 + rng.u64(..cut.len() as u64 - 14) as usize);
            cut
        }
    };
    for _ in 0..rng.u64(..3).saturating_sub(1) {
        let at = rng.u64(..data.len() as u64) as usize;
        data[at] ^= 1 << rng.u64(..8);
    }
    let segment = if rng.u64(..8) == 0 { 1 + rng.u64(..1400) as u32 } else { 0 };
    let (link, data) = match rng.u64(..8) {
        0 if f.vlan.is_empty() && data.len() >= 34 => (Link::Raw, data[14..].to_vec()),
        1 => (Link::Sll, [&[0, 0], &data[..]].concat()),
        _ => (Link::Ethernet, data),
    };
    (link, data, segment)
}

/// What a test run takes: it believes bytes 12 and 13 and wants the whole IP header that they promise.
fn runnable(data: &[u8]) -> bool {
    let least = match data[12..14] {
        [0x08, 0] => 34,
        [0x86, 0xdd] => 54,
        _ => 15,
    };
    data.len() >= least
}

#[test]
fn kernel_and_native_agree_byte_by_byte() {
    let Some(bpf) = load("kernel_and_native_agree_byte_by_byte") else {
        return;
    };
    for (program, insns) in bpf.verified().expect("statistics") {
        println!("verifier: {program}: {insns} instructions of 1000000");
        assert!(insns < 100_000, "{program} is near the verifier's limit");
    }
    let configs = [
        Config::default(),
        Config { report_min: true, gap_cap: Some(MS), alpha: 125, ..Config::default() },
        Config { source: PeriodSource::Given, given: 7 * MS, ..Config::default() },
    ];
    let (mut packets, mut promotions, mut demotions) = (0, 0, 0);
    let mut rules = std::collections::BTreeSet::new();
    for (vm, config) in configs.iter().enumerate() {
        let vm = vm as u32;
        let mut rng = Rng::with_seed(vm.into());
        let mut native = Monitor::new(config).expect("configuration");
        native.add_port(5005);
        bpf.set_state(vm, &native).expect("state");
        let mut work = Packet::new();
        let (mut now, mut timer) = (1, REPORT_NS);
        for turn in 0..TURNS {
            now += [0, MS / 10, MS, 5 * MS][rng.u64(..4) as usize];
            if rng.u64(..400) == 0 {
                now += 1500 * MS;
            }
            let (link, data, segment) = match turn % 2000 {
                // Behind a silence, a call alone.
                n @ 0..8 => {
                    now += if n == 0 { 1500 * MS } else { 0 } + 20 * MS - now % (20 * MS);
                    let clock = ((now / MS) as u16).to_be_bytes();
                    let mini = [&[0, 9][..], &clock, &[0; 160]].concat();
                    (Link::Ethernet, flow("10.0.0.1", "10.0.0.2", 4569, 4569).udp(&mini), 0)
                }
                _ => packet(&mut rng, turn, now),
            };
            if !runnable(&data) {
                continue;
            }
            work.load_segments(link, &data, data.len(), segment);
            let mut want = native.packet(&mut work, now);
            let (mut got, _) = bpf.packet_segments(vm, link, &data, now, 1, segment).expect("run");
            (want.lease, got.lease) = (0, 0); // a packet's test run has no room for it
            assert_eq!(want, got, "VM {vm}, turn {turn}: {data:02x?}");
            if now >= timer {
                timer = now + REPORT_NS;
                assert_eq!(native.timer(now), bpf.timer(vm, now).expect("run"), "VM {vm}, turn {turn}");
            }
            rules.extend(want.promoted.map(|p| p.rule));
            if turn % 256 == 0 || turn < 1000 {
                let got = bpf.state(vm).expect("state");
                let at: Vec<_> =
                    native.state().iter().zip(&got).enumerate().filter(|(_, (a, b))| a != b).take(9).collect();
                assert!(at.is_empty(), "VM {vm}, turn {turn}, {link:?} {segment} {data:02x?}: states differ {at:x?}");
            }
        }
        assert!(native.state() == bpf.state(vm).expect("state"), "VM {vm}: states differ");
        let c = native.counters();
        println!("VM {vm}: {c:?}");
        packets += c.packets;
        promotions += c.promotions;
        demotions += c.demotions;
        assert!(c.fragments > 100 && c.malformed > 100 && c.rt_packets > 1000, "a thin bag: {c:?}");
    }
    assert!(packets > 1_000_000 && promotions > 50 && demotions > 50, "{packets} {promotions} {demotions}");
    assert_eq!(rules, ["iax2", "mpegts", "port", "rtp", "rtsp"].into());
}

#[test]
fn the_live_program_reports_what_a_device_sends() {
    let Some(bpf) = load("the_live_program_reports_what_a_device_sends") else {
        return;
    };
    let native = Monitor::new(&Config::default()).expect("configuration");
    bpf.set_state(9, &native).expect("state");
    let f = flow("10.0.0.1", "10.0.0.2", 5004, 5004);
    let send = |seq: u16| bpf.live_packet(1, &f.udp(&rtp(0, seq, 7))).expect("run");
    (0..5).for_each(send);
    assert!(bpf.reports().expect("reports").is_empty(), "the device is nobody's");
    bpf.set_device(1, 9).expect("device");
    (0..5).for_each(send);
    let reports = bpf.reports().expect("reports");
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!((reports[0].vm, reports[0].after), (9, 4));
    assert_eq!(reports[0].lease, Config::default().lease);
    assert!(bpf.reports().expect("reports").is_empty());
}

/// Real datagrams over the loopback device. Other tests' traffic may cross it too, so only what they cannot undo is asked.
#[test]
fn the_live_program_sees_a_real_device() {
    const TEST: &str = "the_live_program_sees_a_real_device";
    let Some(bpf) = load(TEST) else {
        return;
    };
    // SAFETY: a constant string.
    let lo = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
    bpf.set_state(3, &Monitor::new(&Config::default()).expect("configuration")).expect("state");
    bpf.set_device(lo, 3).expect("device");
    let link = match bpf.attach(lo) {
        Ok(link) => link,
        Err(e) => return skip(TEST, e),
    };
    let to = UdpSocket::bind("127.0.0.1:0").expect("socket");
    let from = UdpSocket::bind("127.0.0.1:0").expect("socket");
    for seq in 0..50 {
        from.send_to(&rtp(0, seq, 7), to.local_addr().expect("address")).expect("send");
    }
    let set_rt = bpf.reports().expect("reports").into_iter().find(|r| r.events & 2 != 0).expect("a promotion");
    assert_eq!(set_rt.vm, 3);
    let period = bpf.timer(3, set_rt.now + REPORT_NS).expect("timer").period;
    assert!(period.is_some_and(|p| p >= 10_000), "{period:?}");
    drop(link);
    assert!(bpf.attach(u32::MAX >> 1).is_err(), "no such device");
}
