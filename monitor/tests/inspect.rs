// SPDX-License-Identifier: GPL-2.0-only
//! What a report says of each sender, with copies, with more senders than are kept, and with names.

mod common;
use common::{Capture, Flow, MS, assert_rtp, file, flow, rtp};
use takt_monitor::{Inspector, Named, Options, Report, Sender};

fn voip() -> Flow {
    flow("10.0.0.1", "10.0.0.2", 5004, 5004)
}

fn with(c: &Capture, options: Options) -> Report {
    let mut inspector = Inspector::new(options).expect("options");
    inspector.read(file(&c.pcap(1)).path()).expect("capture");
    inspector.finish()
}

fn near(got: Option<f64>, want: f64) -> bool {
    got.is_some_and(|v| (v / want - 1.0).abs() < 0.02)
}

#[test]
fn pace_frames_and_jitter_are_told() {
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 501);
    let s = c.sender();
    assert!(near(s.rate_pps, 50.0) && near(s.gap_p50_ms, 20.0) && near(s.gap_p99_ms, 20.0), "{s:?}");
    assert!(near(s.frame_ms, 20.0) && s.jitter_ms == Some(0.0) && s.loss_pct == Some(0.0), "{s:?}");

    // Pictures of five packets, 1 ms apart, each 40 ms.
    let mut c = Capture::default();
    for n in 0..500u64 {
        let mut p = rtp(96, n as u16, 7);
        p[4..8].copy_from_slice(&((n / 5 * 3600) as u32).to_be_bytes());
        c.add(n / 5 * 40 * MS + n % 5 * MS, voip().udp(&p));
    }
    let s = c.sender();
    assert!(near(s.gap_p50_ms, 1.0) && near(s.gap_p99_ms, 36.0) && near(s.frame_ms, 40.0), "{s:?}");
    assert_eq!(s.jitter_ms, Some(0.0));

    // Every other frame is 8 ms late: 24 and 16 ms by turns.
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 501);
    c.0.iter_mut().skip(1).step_by(2).for_each(|p| p.0 += 4 * MS);
    let s = c.sender();
    assert!(near(s.jitter_ms, 8.0), "{s:?}");
}

#[test]
fn missing_numbers_are_loss() {
    let lost = |keep: &dyn Fn(usize) -> bool, more: &[(u64, u16)]| {
        let mut c = Capture::default();
        c.stream(&voip(), 0, 7, 0, 20 * MS, 404); // passes the end of the numbers
        let mut n = 0;
        c.0.retain(|_| {
            n += 1;
            keep(n)
        });
        c.0.extend(more.iter().map(|(at, seq)| {
            let data = voip().udp(&rtp(0, *seq, 7));
            (*at, data.clone(), data.len())
        }));
        c.sorted().sender().loss_pct.expect("loss")
    };
    assert_eq!(lost(&|_| true, &[]), 0.0);
    assert!((lost(&|n| n % 10 != 5, &[]) - 10.0).abs() < 0.3);
    assert_eq!(lost(&|_| true, &[(8_000 * MS + 1, 65_500)]), 0.0, "more than was expected is none");
    // Another source on the same ports, and a jump of the numbers, begin a count of their own.
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 100);
    c.stream(&voip(), 0, 8, 2_000 * MS, 20 * MS, 100);
    for n in 0..100u16 {
        c.add(4_000 * MS + u64::from(n) * 20 * MS, voip().udp(&rtp(0, 30_000 + n, 8)));
    }
    assert_eq!(c.sender().loss_pct, Some(0.0));
    // No number goes by one where a packet is a whole picture.
    let mut c = Capture::default();
    for n in 0..50u16 {
        let mut p = rtp(96, n * 40, 7);
        p[4..8].copy_from_slice(&(u32::from(n) * 1500).to_be_bytes());
        p.resize(40 * 1392, 0);
        c.add(u64::from(n) * 16_667 * MS / 1000, voip().udp(&p));
    }
    let s = c.sender();
    assert!(s.rt && s.loss_pct.is_none(), "{s:?}");
    // A named port has none without RTP.
    let mut c = Capture::default();
    (0..50).for_each(|n| c.add(n * 20 * MS, voip().udp(&[0; 160])));
    let report = with(&c, Options { ports: vec![5004], ..Options::default() });
    let s = &report.senders[0];
    assert!(s.rt && s.loss_pct.is_none(), "{s:?}");
}

/// A capture on all devices shows each packet several times: by version 2 of the cooked head with the device, by version 1 without.
#[test]
fn copies_count_once() {
    let shown = |gap: u64, version: u8, heads: &[(u64, u8)]| {
        let mut call = Capture::default();
        call.stream(&voip(), 0, 7, 0, gap, 150);
        let mut c = Capture::default();
        for (n, (at, data, _)) in call.0.iter_mut().enumerate() {
            data[18..20].copy_from_slice(&(n as u16).to_be_bytes()); // each has an id of its own
            for (late, device) in heads {
                let mut head = vec![0; if version == 1 { 16 } else { 20 }];
                let (kind, by) = if version == 1 { (14, 1) } else { (0, 7) };
                head[kind] = 8;
                head[by] = *device;
                c.add(*at + late, [&head, &data[14..]].concat());
            }
        }
        let link = if version == 1 { 113 } else { 276 };
        Report::from_reader(&c.sorted().pcap(link)[..]).expect("report")
    };
    let cooked = |version, heads: &[_]| shown(20 * MS, version, heads);
    let check = |report: Report, copies: u64| {
        let s = &report.senders[0];
        assert_rtp(s, 20_000.0);
        // Until there is a monitor, a copy is a packet; and it begins with the first packet here.
        assert_eq!((s.packets, s.copies, s.rt_packets, s.verdict_after), (150, copies, 147, Some(4)), "{report:?}");
        assert_eq!(report.warnings.len(), usize::from(copies > 0));
    };
    check(cooked(2, &[(0, 3)]), 0);
    check(cooked(2, &[(0, 3), (4_000, 4), (11_000, 5)]), 300);
    check(cooked(1, &[(0, 0), (4_000, 4)]), 150);
    check(cooked(1, &[(0, 4), (4_000, 4)]), 150);
    // The same device again, or 10 ms later: other packets.
    assert_eq!(cooked(2, &[(0, 3), (4_000, 3)]).senders[0].copies, 0);
    assert_eq!(cooked(2, &[(0, 3), (10 * MS, 4)]).senders[0].copies, 150);
    assert_eq!(cooked(2, &[(0, 3), (10 * MS + 1, 4)]).senders[0].copies, 0);
    // A copy is compared with the last four packets.
    assert_eq!(shown(MS, 2, &[(0, 3), (3 * MS + 1, 4)]).senders[0].copies, 150);
    assert_eq!(shown(MS, 2, &[(0, 3), (4 * MS + 1, 4)]).senders[0].copies, 0);
}

#[test]
fn the_least_recent_senders_go() {
    // 70,000 scanners of one packet each, a call before them, another one meanwhile.
    let mut c = Capture::default();
    c.stream(&flow("10.0.0.3", "10.0.0.2", 5004, 5004), 0, 9, 0, 20 * MS, 50);
    c.stream(&voip(), 0, 7, 1_000 * MS, 20 * MS, 200);
    for n in 0..70_000u32 {
        let [_, a, b, d] = n.to_be_bytes();
        let from = format!("11.{a}.{b}.{d}");
        c.add(
            1_000 * MS + u64::from(n) * 50_000,
            flow(&from, "10.0.0.2", 5060, 5060).udp(b"OPTIONS sip:a SIP/2.0\r\n"),
        );
    }
    let report = c.sorted().report();
    let of = |name: &str| report.senders.iter().find(|s| s.sender == name).unwrap_or_else(|| panic!("{name}"));
    assert_rtp(of("10.0.0.1"), 20_000.0);
    assert_rtp(of("10.0.0.3"), 20_000.0);
    assert_eq!((of("10.0.0.3").packets, of("10.0.0.3").rt_at_end), (50, false));
    assert_eq!(report.others.senders, report.others.packets);
    assert_eq!(report.senders.len() as u64 + report.others.senders, 70_002);
    let told: u64 = report.senders.iter().map(|s| s.packets).sum();
    assert_eq!(report.packets, told + report.others.packets);
    assert_eq!(report.others.senders, 70_000 - 4096);
}

/// More senders could be real-time than there are monitors: those that are go on.
#[test]
fn monitors_are_lent_to_the_most_recent() {
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 500);
    for n in 0..20_000u32 {
        let [_, a, b, d] = n.to_be_bytes();
        // Two packets that could be RTP; one does not bring a monitor.
        for seq in 0..2 {
            let from = flow(&format!("11.{a}.{b}.{d}"), "10.0.0.2", 4000, 4000);
            c.add(u64::from(n) * MS / 2 + u64::from(seq), from.udp(&rtp(0, seq, n)));
        }
    }
    let report = c.sorted().report();
    assert_eq!(report.senders.iter().filter(|s| s.rt).count(), 1);
    let s = report.senders.iter().find(|s| s.rt).expect("the call");
    assert_rtp(s, 20_000.0);
    assert_eq!((s.packets, s.rt_packets, s.streams), (500, 497, 1));
    // When a monitor had to go, its sender is found again; what it was stays told.
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 100);
    for n in 0..1_000u32 {
        for seq in 0..2 {
            let from = flow(&format!("11.0.{}.{}", n / 256, n % 256), "10.0.0.2", 4000, 4000);
            c.add(3_000 * MS + u64::from(n) * MS + u64::from(seq), from.udp(&rtp(0, seq, n)));
        }
    }
    c.stream(&flow("10.0.0.1", "10.0.0.2", 6000, 6000), 0, 8, 5_000 * MS, 30 * MS, 200);
    let report = c.report();
    let s = report.senders.iter().find(|s| s.rt).expect("the calls");
    assert_eq!((s.packets, s.rt_packets, s.verdict_after, s.demotions, s.rt_at_end), (300, 97 + 197, Some(4), 1, true));
    assert!(near(s.period_us, 30_000.0), "of the one that saw more: {s:?}");
}

#[test]
fn a_named_vm_is_one_sender() {
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 100);
    c.stream(&flow("10.0.0.9", "10.0.0.2", 6000, 6000), 0, 8, 10 * MS, 20 * MS, 100);
    c.stream(&flow("10.0.0.5", "10.0.0.2", 6000, 6000), 0, 9, 10 * MS, 20 * MS, 10);
    let c = c.sorted();
    let ip = |a: &str| Named::Ip(a.parse().expect("address"));
    let vms = vec![(ip("10.0.0.1"), "phones".to_owned()), (ip("10.0.0.9"), "phones".to_owned())];
    let report = with(&c, Options { vms, ..Options::default() });
    let names: Vec<_> = report.senders.iter().map(|s: &Sender| (s.sender.as_str(), s.packets)).collect();
    assert_eq!(names, [("phones", 200), ("10.0.0.5", 10)]);
    assert_rtp(&report.senders[0], 10_000.0);
    // By its card: all that it sends.
    let vms = vec![(Named::Mac([2, 0, 0, 0, 0, 2]), "vm".to_owned())];
    let report = with(&c, Options { vms, ..Options::default() });
    assert_eq!(report.senders.len(), 1);
    assert_eq!(
        (report.senders[0].sender.as_str(), report.senders[0].packets, report.senders[0].streams),
        ("vm", 210, 2)
    );
    let twice = vec![(ip("10.0.0.1"), "a".to_owned()), (ip("10.0.0.1"), "b".to_owned())];
    assert!(Inspector::new(Options { vms: twice, ..Options::default() }).is_err());
}

#[test]
fn several_captures_are_read_as_one() {
    let mut c = Capture::default();
    c.stream(&voip(), 0, 7, 0, 20 * MS, 200);
    let mut second = Capture(c.0.split_off(100));
    let whole = |captures: &[&Capture]| {
        let mut inspector = Inspector::new(Options::default()).expect("options");
        captures.iter().for_each(|c| inspector.read(file(&c.pcap(1)).path()).expect("capture"));
        inspector.finish()
    };
    let report = whole(&[&c, &second]);
    assert_eq!((report.packets, report.senders[0].rt_packets, report.senders[0].demotions), (200, 197, 0));
    // The second one is of an earlier time: the stream is believed again.
    c.0.iter_mut().for_each(|p| p.0 += 3_600_000 * MS);
    second.0.iter_mut().for_each(|p| p.0 += 7 * MS);
    let report = whole(&[&c, &second]);
    let s = &report.senders[0];
    assert_rtp(s, 20_000.0);
    assert_eq!((s.rt_packets, s.demotions, s.rt_at_end), (97 + 97, 1, true));
    assert_eq!(s.timeline.as_ref().expect("timeline").packets, [50, 51, 50, 43]); // the jump takes no time
}

/// A column is a second, and two of them are one when there are too many.
#[test]
fn a_timeline_has_bounds() {
    let columns = |n: u16, gap: u64| {
        let mut c = Capture::default();
        for i in 0..n {
            let mut p = rtp(0, i, 7);
            p[4..8].copy_from_slice(&((u64::from(i) * gap / 125_000) as u32).to_be_bytes());
            c.add(u64::from(i) * gap, voip().udp(&p));
        }
        c.sender().timeline.expect("timeline")
    };
    let short = columns(103, 100 * MS);
    assert_eq!((short.column_ns / MS, &short.packets[..]), (1000, &[10; 10][..]));
    let long = columns(2003, 400 * MS);
    assert_eq!((long.column_ns / MS, long.packets.len()), (2000, 400));
    assert!(long.packets.iter().all(|n| *n == 5), "{long:?}");
}
