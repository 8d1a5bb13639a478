// SPDX-License-Identifier: GPL-2.0-only
//! ns per packet of the monitor, parsing included, as one line of JSON: natively, and with the feature `bpf` also in the
//! kernel. Each figure is the least of several runs. Those of the kernel are net of `bpf_test_run_overhead`, what
//! `BPF_PROG_TEST_RUN` takes for a program that does nothing.

use std::time::Instant;
use takt_monitor::{Config, Link, Monitor, Packet};

const CALLS: u16 = 90;
const PACKETS: u64 = 1 << 12;
const RUNS: usize = 500;

/// An Ethernet frame of IPv4 with `proto` (6 or 17) and `payload`.
fn frame(proto: u8, sport: u16, payload: &[u8]) -> Vec<u8> {
    let mut l4 = [sport.to_be_bytes(), 4000u16.to_be_bytes()].concat();
    if proto == 6 {
        l4.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x7f, 0xff, 0, 0, 0, 0]);
    } else {
        l4.extend(((8 + payload.len()) as u16).to_be_bytes());
        l4.extend([0, 0]);
    }
    l4.extend(payload);
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    f.extend(((20 + l4.len()) as u16).to_be_bytes());
    f.extend([0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend(l4);
    f
}

/// G.711 of 20 ms; the sequence number stays, so that an unlearned stream is analysed for ever.
fn rtp(call: u16) -> Vec<u8> {
    let mut p = vec![0x80, 0, 0, 1, 0, 0, 0, 160];
    p.extend((u32::from(call) * 0x9e37).to_be_bytes());
    p.extend([0xd5; 160]);
    p
}

struct Case {
    name: &'static str,
    learned: bool,
    packets: Vec<Vec<u8>>,
}

fn cases() -> Vec<Case> {
    let calls = || (0..CALLS).map(|c| frame(17, 20_000 + 2 * c, &rtp(c))).collect();
    let tls: Vec<u8> = (0..1400).map(|i| if i == 0 { 0x17 } else { (i * 37) as u8 }).collect();
    let http = b"GET /index.html?a=b HTTP/1.1\r\nHost: www.example.org\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n";
    let sip = b"REGISTER sip:registrar.example.org:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1:5060\r\n\r\n";
    vec![
        Case { name: "rtp_learned_port", learned: true, packets: calls() },
        Case { name: "rtp_analysed", learned: false, packets: calls() },
        Case { name: "tcp_tls", learned: false, packets: vec![frame(6, 443, &tls)] },
        Case { name: "tcp_http_request", learned: false, packets: vec![frame(6, 50_000, http)] },
        Case { name: "udp_sip_request", learned: false, packets: vec![frame(17, 5060, sip)] },
    ]
}

fn monitor(case: &Case) -> anyhow::Result<Monitor> {
    let mut m = Monitor::new(&Config::default())?;
    if case.learned {
        (0..CALLS).for_each(|c| m.add_port(20_000 + 2 * c));
    }
    Ok(m)
}

fn native(case: &Case) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let mut m = monitor(case)?;
        let mut work = Packet::new();
        let begin = Instant::now();
        for (i, data) in (0..PACKETS).zip(case.packets.iter().cycle()) {
            work.load(Link::Ethernet, std::hint::black_box(data), data.len());
            std::hint::black_box(m.packet(&mut work, i * 200_000));
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    Ok(best)
}

#[cfg(feature = "bpf")]
fn kernel(case: &Case, bpf: &takt_monitor::bpf::BpfMonitor) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        bpf.set_state(0, &monitor(case)?)?;
        let (_, each) = bpf.packet(0, Link::Ethernet, &case.packets[0], 1, PACKETS as u32)?;
        best = best.min(each.as_nanos() as f64);
    }
    Ok(best)
}

fn main() -> anyhow::Result<()> {
    let mut line = serde_json::Map::new();
    line.insert("bench".into(), "monitor_packet".into());
    line.insert("unit".into(), "ns".into());
    #[cfg(feature = "bpf")]
    let bpf = {
        let dir = std::env::temp_dir().join(format!("takt-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let object = dir.join("monitor.bpf.o");
        takt_monitor::bpf::compile(std::path::Path::new(env!("CARGO_MANIFEST_DIR")), &object)?;
        let loaded = takt_monitor::bpf::BpfMonitor::load(&object);
        std::fs::remove_dir_all(&dir)?;
        loaded?
    };
    #[cfg(feature = "bpf")]
    let overhead = (0..RUNS).try_fold(f64::MAX, |best, _| {
        let each = bpf.overhead(PACKETS as u32)?;
        anyhow::Ok(best.min(each.as_nanos() as f64))
    })?;
    #[cfg(feature = "bpf")]
    line.insert("bpf_test_run_overhead".into(), overhead.into());
    for case in cases() {
        let round = |ns: f64| (ns * 10.0).round() / 10.0;
        line.insert(format!("native_{}", case.name), round(native(&case)?).into());
        #[cfg(feature = "bpf")]
        line.insert(format!("bpf_{}", case.name), (kernel(&case, &bpf)? - overhead).into());
    }
    println!("{}", serde_json::Value::Object(line));
    Ok(())
}
