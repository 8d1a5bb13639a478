// SPDX-License-Identifier: GPL-2.0-only
//! The same packets at the same times natively and in the kernel: equal outcomes, equal bytes.

mod common;

use common::{Flow, MS, Rng, bytes, flow, rtp};
use std::net::UdpSocket;
use std::path::Path;
use takt_bpf_build::skip;
use takt_monitor::bpf::{BpfMonitor, compile};
use takt_monitor::{Config, Link, Monitor, Packet, PeriodSource, REPORT_NS};

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

/// A mixed bag: streams, lookalikes, text, fragments, cuts and noise.
fn packet(rng: &mut Rng, turn: u64) -> (Link, Vec<u8>) {
    let v6 = rng.u64(..4) == 0;
    let mut f: Flow = if v6 { flow("fd00::1", "fd00::2", 0, 9) } else { flow("10.0.0.1", "10.0.0.2", 0, 9) };
    f.sport = 5000 + rng.u64(..6) as u16;
    if rng.u64(..4) == 0 {
        f.vlan = vec![0x8100; 1 + rng.u64(..2) as usize];
    }
    f.options = if rng.u64(..6) == 0 { 8 } else { 0 };
    let n = rng.u64(..300) as usize;
    let mut data = match rng.u64(..10) {
        0..=3 => f.udp(&rtp(96 + rng.u64(..4) as u8, (turn + rng.u64(..8)) as u16, f.sport.into())),
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
    match rng.u64(..8) {
        0 if f.vlan.is_empty() && data.len() >= 34 => (Link::Raw, data[14..].to_vec()),
        1 => (Link::Sll, [&[0, 0], &data[..]].concat()),
        _ => (Link::Ethernet, data),
    }
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
    for (vm, config) in configs.iter().enumerate() {
        let vm = vm as u32;
        let mut rng = Rng::with_seed(vm.into());
        let mut native = Monitor::new(config).expect("configuration");
        native.add_port(5005);
        bpf.set_state(vm, &native).expect("state");
        let mut work = Packet::new();
        let (mut now, mut timer) = (1, REPORT_NS);
        for turn in 0..20_000 {
            now += [0, MS / 10, 5 * MS, 20 * MS][rng.u64(..4) as usize];
            if rng.u64(..400) == 0 {
                now += 1500 * MS;
            }
            let (link, data) = packet(&mut rng, turn / 4);
            if !runnable(&data) {
                continue;
            }
            work.load(link, &data, data.len());
            let mut want = native.packet(&mut work, now);
            let (mut got, _) = bpf.packet(vm, link, &data, now, 1).expect("run");
            (want.lease, got.lease) = (0, 0); // a packet's test run has no room for it
            assert_eq!(want, got, "VM {vm}, turn {turn}: {data:02x?}");
            if now >= timer {
                timer = now + REPORT_NS;
                assert_eq!(native.timer(now), bpf.timer(vm, now).expect("run"), "VM {vm}, turn {turn}");
            }
            if turn % 64 == 0 || turn < 1000 {
                assert!(native.state() == bpf.state(vm).expect("state"), "VM {vm}, turn {turn}: states differ");
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
    assert!(packets > 55_000 && promotions > 50 && demotions > 50);
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
