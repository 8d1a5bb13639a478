// SPDX-License-Identifier: GPL-2.0-only
//! Traffic of SIPp: the capture that Debian's package ships, variants of it, and live calls over loopback.

mod common;
#[path = "common/lo.rs"]
mod lo;

use common::{Capture, Flow, MS, Rng, assert_rtp, file, flow, read_capture, sip_tester, skip};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use takt_monitor::inspect;

/// The payloads (RTP with its header) of the shipped call, every `gap` ns.
fn rtp_packets(shipped: &Capture) -> Vec<Vec<u8>> {
    shipped.0.iter().map(|(_, data, _)| data[42..].to_vec()).collect()
}

fn rebuild(payloads: &[Vec<u8>], f: &Flow, gap: u64) -> Capture {
    let mut c = Capture::default();
    for (i, payload) in payloads.iter().enumerate() {
        c.add(i as u64 * gap, f.udp(payload));
    }
    c
}

#[test]
fn the_shipped_captures_are_real_time() {
    let Some(path) = sip_tester("the_shipped_captures_are_real_time", "g711a.pcap") else {
        return;
    };
    let report = inspect(&path).expect("report");
    assert_eq!(report.senders.len(), 1);
    assert_rtp(&report.senders[0], 30_000.0);
    assert_eq!((report.senders[0].packets, report.senders[0].sender.as_str()), (236, "10.1.3.143"));
    for digit in ["0", "5", "9", "star", "pound"] {
        let path = path.with_file_name(format!("dtmf_2833_{digit}.pcap"));
        let s = inspect(&path).expect("report").senders[0].clone();
        assert!(s.rt && s.verdict_after.is_some_and(|n| n <= 5), "{digit}: {s:?}");
    }
}

#[test]
fn rewritten_captures_are_real_time() {
    let Some(path) = sip_tester("rewritten_captures_are_real_time", "g711a.pcap") else {
        return;
    };
    let shipped = rtp_packets(&read_capture(&path));
    let mut rng = Rng::with_seed(42);
    for (gap, v6, vlan, reorder, loss) in
        (0..48).map(|i| ([10, 20, 30, 60][i % 4], i & 4 != 0, i & 8 != 0, i & 16 != 0, i % 3 == 0))
    {
        let mut f = if v6 { flow("fd00::1", "fd00::2", 1, 1) } else { flow("10.9.0.1", "10.9.0.2", 1, 1) };
        f.sport = 1024 + rng.u64(..60_000) as u16;
        f.dport = 1024 + rng.u64(..60_000) as u16;
        if vlan {
            f.vlan = vec![0x8100];
        }
        let pt = 96 + rng.u64(..32) as u8;
        let payloads: Vec<_> = shipped.iter().map(|p| [&p[..1], &[(p[1] & 0x80) | pt], &p[2..]].concat()).collect();
        let mut c = rebuild(&payloads, &f, gap * MS);
        if reorder {
            for p in &mut c.0 {
                p.0 += rng.u64(..2 * gap) * MS;
            }
        }
        if loss {
            c.0.retain(|_| rng.u64(..20) != 0);
        }
        assert_rtp(&c.sorted().sender(), gap as f64 * 1000.0);
    }
}

/// Kills and reaps what a test started, also when the test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn sipp(args: &str, scenario: &Path, dir: &Path) -> std::io::Result<Process> {
    let mut command = Command::new("sipp");
    command.args(args.split(' ')).arg("-nostdin").current_dir(dir);
    if scenario.is_file() {
        command.arg("-sf").arg(scenario);
    }
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map(Process)
}

/// A UDP port of `address` that is free now, as are its neighbours.
fn free_port(address: &str, n: u16) -> u16 {
    (20_000..60_000)
        .step_by(1000)
        .find(|p| (0..n).all(|i| UdpSocket::bind((address, p + i)).is_ok()))
        .expect("a free port")
}

#[test]
fn live_calls_are_real_time_with_the_period_of_their_aggregate() {
    const TEST: &str = "live_calls_are_real_time_with_the_period_of_their_aggregate";
    let Some(path) = sip_tester(TEST, "g711a.pcap") else {
        return;
    };
    let sniffer = match lo::Sniffer::start() {
        Ok(s) => s,
        Err(e) => return skip(TEST, &format!("cannot capture on loopback: {e}")),
    };
    let dir = tempfile::tempdir().expect("directory");
    let dir = dir.path();
    let shipped = rtp_packets(&read_capture(&path));
    let played = rebuild(&shipped, &flow("10.0.0.1", "10.0.0.2", 6000, 6000), 20 * MS);
    let pcap = dir.join("call.pcap");
    std::fs::write(&pcap, micro_pcap(&played)).expect("write");
    let scenario = dir.join("uac.xml");
    let text = include_str!("uac.xml").replace("@PCAP@", &pcap.display().to_string()).replace("@MS@", "5200");
    std::fs::write(&scenario, text).expect("write");

    let mut calls = Vec::new();
    for (caller, callee, n) in [("127.0.0.2", "127.0.0.3", 1), ("127.0.0.4", "127.0.0.5", 5)] {
        let (media, sip) = (free_port(callee, 4), free_port(callee, 1) + 10);
        let (from, source) = (free_port(caller, 40), free_port(caller, 1) + 50);
        let uas = format!("-sn uas -i {callee} -p {sip} -mi {callee} -mp {media} -rtp_echo");
        let uac = format!("{callee}:{sip} -i {caller} -p {source} -mi {caller} -mp {from} -m {n} -r 7 -timeout 30");
        let uas = sipp(&uas, Path::new(""), dir).expect("sipp");
        std::thread::sleep(std::time::Duration::from_millis(500));
        calls.push((uas, sipp(&uac, &scenario, dir).expect("sipp")));
    }
    for (_, uac) in &mut calls {
        let status = uac.0.wait().expect("sipp");
        assert!(status.success(), "sipp: {status}");
    }
    drop(calls);
    let captured = sniffer.finish();
    let written = file(&captured.pcap(1));
    let report = inspect(written.path()).expect("report");
    for (sender, n) in [("127.0.0.2", 1), ("127.0.0.3", 1), ("127.0.0.4", 5), ("127.0.0.5", 5)] {
        let s = report.senders.iter().find(|s| s.sender == sender).expect(sender);
        println!("{}", serde_json::to_string(s).expect("json"));
        assert_eq!(s.streams, n, "{s:?}");
        assert_rtp(s, 20_000.0 / n as f64);
    }
}

/// The oldest format, which every player reads: pcap with µs.
fn micro_pcap(c: &Capture) -> Vec<u8> {
    let mut bytes = c.pcap(1);
    bytes[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    let mut at = 24;
    for (time, data, _) in &c.0 {
        let us = (time % 1_000_000_000 / 1000) as u32;
        bytes[at + 4..at + 8].copy_from_slice(&us.to_le_bytes());
        at += 16 + data.len();
    }
    bytes
}
