// SPDX-License-Identifier: GPL-2.0-only
//! Packets and capture files made by the tests.
#![allow(dead_code)] // each test file uses its part

pub mod bag;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use takt_monitor::{Config, Link, Monitor, Outcome, Packet, Report, Sender};

pub const MS: u64 = 1_000_000;

/// The tests' only source of randomness, seeded.
pub use fastrand::Rng;

/// Compiles C to a program, with warnings as errors.
pub fn compile(sources: &[PathBuf], include: &[PathBuf], program: &Path) {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let build = Command::new(cc)
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
        .args(std::env::var("CFLAGS").iter().flat_map(|f| f.split_whitespace()))
        .args(["-fwrapv", "-fno-strict-aliasing"])
        .args(sources)
        .args(include.iter().map(|d| format!("-I{}", d.display())))
        .arg("-o")
        .arg(program)
        .output()
        .expect("compiler");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
}

pub fn bytes(rng: &mut Rng, n: usize) -> Vec<u8> {
    std::iter::repeat_with(|| rng.u8(..)).take(n).collect()
}

/// How packets travel: addresses, ports and VLAN tags.
#[derive(Clone, Debug)]
pub struct Flow {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub sport: u16,
    pub dport: u16,
    /// Tag protocol identifiers, outermost first.
    pub vlan: Vec<u16>,
    /// Zero bytes of IPv4 options, a multiple of four.
    pub options: usize,
}

pub fn flow(src: &str, dst: &str, sport: u16, dport: u16) -> Flow {
    Flow {
        src: src.parse().expect("address"),
        dst: dst.parse().expect("address"),
        sport,
        dport,
        vlan: Vec::new(),
        options: 0,
    }
}

impl Flow {
    pub fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut l4 = Vec::new();
        for v in [self.sport, self.dport, (8 + payload.len()) as u16, 0] {
            l4.extend(v.to_be_bytes());
        }
        l4.extend(payload);
        self.frame(17, &l4, 0)
    }

    pub fn tcp(&self, payload: &[u8]) -> Vec<u8> {
        let mut l4 = Vec::new();
        for v in [self.sport, self.dport, 0, 1, 0, 1, 0x5018, 0x7fff, 0, 0] {
            l4.extend(v.to_be_bytes());
        }
        l4.extend(payload);
        self.frame(6, &l4, 0)
    }

    /// An Ethernet frame; `fragment` is IPv4's field of flags and offset.
    pub fn frame(&self, proto: u8, l4: &[u8], fragment: u16) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in &self.vlan {
            f.extend(tag.to_be_bytes());
            f.extend([0, 7]);
        }
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                f.extend([8, 0, 0x45 + (self.options / 4) as u8, 0]);
                f.extend(((20 + self.options + l4.len()) as u16).to_be_bytes());
                f.extend([0, 1]);
                f.extend(fragment.to_be_bytes());
                f.extend([64, proto, 0, 0]);
                f.extend(src.octets());
                f.extend(dst.octets());
                f.extend(vec![0; self.options]);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                f.extend((l4.len() as u16).to_be_bytes());
                f.extend([proto, 64]);
                f.extend(src.octets());
                f.extend(dst.octets());
            }
            _ => panic!("two families in one flow"),
        }
        f.extend(l4);
        f
    }
}

pub fn rtp(pt: u8, seq: u16, ssrc: u32) -> Vec<u8> {
    let mut p = vec![0x80, pt];
    p.extend(seq.to_be_bytes());
    p.extend((u32::from(seq) * 160).to_be_bytes());
    p.extend(ssrc.to_be_bytes());
    p.extend([0xd5; 160]);
    p
}

/// A monitor with its defaults.
pub fn monitor() -> Monitor {
    Monitor::new(&Config::default()).expect("configuration")
}

/// The VM sends an Ethernet frame at `now`.
pub fn send(m: &mut Monitor, data: &[u8], now: u64) -> Outcome {
    let mut p = Packet::new();
    p.load(Link::Ethernet, data, data.len());
    m.packet(&mut p, now)
}

/// The same of which only the first bytes were captured.
pub fn send_cut(m: &mut Monitor, data: &[u8], captured: usize, now: u64) -> Outcome {
    let mut p = Packet::new();
    p.load(Link::Ethernet, &data[..captured], data.len());
    m.packet(&mut p, now)
}

/// A capture: time in ns, bytes, length on the wire.
#[derive(Clone, Default)]
pub struct Capture(pub Vec<(u64, Vec<u8>, usize)>);

impl Capture {
    pub fn add(&mut self, time: u64, data: Vec<u8>) {
        let len = data.len();
        self.0.push((time, data, len));
    }

    /// `n` RTP packets every `gap` ns from `start`.
    pub fn stream(&mut self, flow: &Flow, pt: u8, ssrc: u32, start: u64, gap: u64, n: u16) {
        for i in 0..n {
            let seq = 65_500u16.wrapping_add(i); // wraps soon
            self.add(start + u64::from(i) * gap, flow.udp(&rtp(pt, seq, ssrc)));
        }
    }

    pub fn sorted(mut self) -> Self {
        self.0.sort_by_key(|p| p.0);
        self
    }

    /// A pcap file with ns precision.
    pub fn pcap(&self, link: u32) -> Vec<u8> {
        let mut f = Vec::new();
        for v in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, link] {
            f.extend(u32::to_le_bytes(v));
        }
        for (time, data, len) in &self.0 {
            for v in [time / 1_000_000_000, time % 1_000_000_000, data.len() as u64, *len as u64] {
                f.extend((v as u32).to_le_bytes());
            }
            f.extend(data);
        }
        f
    }

    /// A pcapng file with µs precision, its default.
    pub fn pcapng(&self, link: u16) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let mut b = kind.to_le_bytes().to_vec();
            let pad = body.len().next_multiple_of(4);
            let size = (12 + pad as u32).to_le_bytes();
            b.extend(size);
            b.extend(body);
            b.resize(8 + pad, 0);
            b.extend(size);
            b
        };
        let mut header = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        header.extend([0xff; 8]);
        let mut f = block(0x0a0d_0d0a, &header);
        let mut interface = link.to_le_bytes().to_vec();
        interface.extend([0, 0, 0, 0, 4, 0]);
        f.extend(block(1, &interface));
        for (time, data, len) in &self.0 {
            let us = time / 1000;
            let mut body = vec![0; 4];
            for v in [us >> 32, us & 0xffff_ffff, data.len() as u64, *len as u64] {
                body.extend((v as u32).to_le_bytes());
            }
            body.extend(data);
            f.extend(block(6, &body));
        }
        f
    }

    pub fn report(&self) -> Report {
        Report::from_reader(&self.pcap(1)[..]).expect("report")
    }

    /// The only sender of the capture.
    pub fn sender(&self) -> Sender {
        let report = self.report();
        assert_eq!(report.senders.len(), 1, "{report:?}");
        report.senders[0].clone()
    }
}

/// Reads back what [`Capture::pcap`] or another writer of Ethernet captures wrote.
pub fn read_capture(path: &std::path::Path) -> Capture {
    let mut c = Capture::default();
    takt_monitor::capture::read(path, |r| {
        c.0.push((r.time, r.data.to_vec(), r.len));
        Ok(())
    })
    .expect("capture");
    c
}

pub fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut f = tempfile::NamedTempFile::new().expect("temporary file");
    f.write_all(bytes).expect("write");
    f
}

/// Real-time by RTP within five packets, and a period within 15% of `us`.
pub fn assert_rtp(s: &Sender, us: f64) {
    assert!(s.rt && s.rule == Some("rtp"), "{s:?}");
    assert!(s.verdict_after.is_some_and(|n| n <= 5), "{s:?}");
    let p = s.period_us.expect("period");
    assert!((p / us - 1.0).abs() <= 0.15, "period {p} us is not within 15% of {us}: {s:?}");
}

/// A file of Debian's package sip-tester, or a skip that is a failure when CI=true.
pub fn sip_tester(test: &str, name: &str) -> Option<PathBuf> {
    let path = PathBuf::from("/usr/share/sip-tester").join(name);
    if path.is_file() {
        return Some(path);
    }
    skip(test, "the package sip-tester is not installed");
    None
}

pub fn skip(test: &str, reason: &str) {
    let ci = std::env::var("CI").is_ok_and(|v| v == "true");
    assert!(!ci, "{test}: may not be skipped when CI=true, but: {reason}");
    writeln!(std::io::stderr(), "SKIPPED {test}: {reason}").expect("stderr"); // past libtest, which would hide it
}
