// SPDX-License-Identifier: GPL-2.0-only
//! The same packets at the same times natively and in the kernel: equal outcomes, equal bytes.

mod common;

use common::bag::packet;
use common::{MS, Rng, flow, rtp};
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

/// What a test run takes: it believes bytes 12 and 13 and wants the whole IP header that they promise.
fn runnable(data: &[u8]) -> bool {
    let least = match data[12..14] {
        [0x08, 0] => 34,
        [0x86, 0xdd] => 54,
        _ => 15,
    };
    data.len() >= least
}

/// Where the state has its clock, behind the configuration. In the kernel a packet that passes leaves
/// the clock to the next packet.
const NOW: usize = 7;

/// Words of two states that differ, but for the clock.
fn differences(a: &[u64], b: &[u64]) -> Vec<(usize, (u64, u64))> {
    let all = a.iter().copied().zip(b.iter().copied()).enumerate();
    all.filter(|&(at, (a, b))| at != NOW && a != b).take(9).collect()
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
                let at = differences(native.state(), &bpf.state(vm).expect("state"));
                assert!(at.is_empty(), "VM {vm}, turn {turn}, {link:?} {segment} {data:02x?}: states differ {at:x?}");
            }
        }
        assert_eq!(differences(native.state(), &bpf.state(vm).expect("state")), [], "VM {vm}: states differ");
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
