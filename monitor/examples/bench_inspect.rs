// SPDX-License-Identifier: GPL-2.0-only
//! What `takt inspect` takes, as one line of JSON: million packets per second, the best of some runs, and the most memory of the process in
//! MiB. The captures are made while they are read: 90 calls, a million senders of one packet each, a million of two that could be RTP.

use anyhow::{Context, Result, ensure};
use std::io::Read;
use std::time::Instant;
use takt_monitor::Report;

const RUNS: usize = 5;
const PACKETS: u64 = 2_000_000;
const SENDERS: u64 = 1_000_000;

/// A pcap file of `n` packets: `make` writes number `i` into a packet that is there already.
struct Capture<F> {
    make: F,
    packet: Vec<u8>,
    n: u64,
    next: u64,
    gap_us: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl<F: FnMut(u64, &mut [u8])> Capture<F> {
    fn new(payload: &[u8], n: u64, gap_us: u64, make: F) -> Self {
        let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1];
        let head = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Self { make, packet: frame(payload), n, next: 0, gap_us, buffer: head, at: 0 }
    }
}

impl<F: FnMut(u64, &mut [u8])> Read for Capture<F> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.next < self.n && self.buffer.len() < 1 << 20 {
                (self.make)(self.next, &mut self.packet);
                let us = self.next * self.gap_us;
                let size = self.packet.len() as u64;
                for word in [us / 1_000_000, us % 1_000_000, size, size] {
                    self.buffer.extend((word as u32).to_le_bytes());
                }
                self.buffer.extend(&self.packet);
                self.next += 1;
            }
        }
        let n = to.len().min(self.buffer.len() - self.at);
        to[..n].copy_from_slice(&self.buffer[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// An Ethernet frame of IPv4 and UDP.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    f.extend((28 + payload.len() as u16).to_be_bytes());
    f.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x4e, 0x20, 0x4e, 0x20]);
    f.extend((8 + payload.len() as u16).to_be_bytes());
    f.extend([0, 0]);
    f.extend(payload);
    f
}

/// Writes sequence number, timestamp and source of an RTP packet.
fn rtp(packet: &mut [u8], seq: u64, ssrc: u64) {
    packet[44..46].copy_from_slice(&(seq as u16).to_be_bytes());
    packet[46..50].copy_from_slice(&((seq * 160) as u32).to_be_bytes());
    packet[50..54].copy_from_slice(&(ssrc as u32).to_be_bytes());
}

/// Million packets per second, the making of them taken off.
fn rate<R: Read + Send>(packets: u64, capture: impl Fn() -> R, right: impl Fn(&Report) -> bool) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let begin = Instant::now();
        std::io::copy(&mut capture(), &mut std::io::sink())?;
        let making = begin.elapsed();
        let begin = Instant::now();
        let report = Report::from_reader(capture())?;
        best = best.min((begin.elapsed().saturating_sub(making)).as_secs_f64());
        ensure!(report.packets == packets && right(&report), "another report than expected");
    }
    Ok((packets as f64 / best / 1e4).round() / 100.0)
}

fn main() -> Result<()> {
    let media = [&[0x80, 0][..], &[0; 10], &[0xd5; 160]].concat();
    let calls = rate(
        PACKETS,
        || {
            Capture::new(&media, PACKETS, 222, |n, p| {
                p[35] = (n % 90) as u8;
                rtp(p, n / 90, n % 90);
            })
        },
        |r| r.senders.len() == 1 && r.senders[0].streams == 90,
    )?;
    let one = rate(
        SENDERS,
        || {
            Capture::new(b"OPTIONS sip:a SIP/2.0\r\n", SENDERS, 20, |n, p| {
                p[26..30].copy_from_slice(&(0x0b00_0000 + n as u32).to_be_bytes());
            })
        },
        |r| r.others.senders > 0,
    )?;
    let two = rate(
        2 * SENDERS,
        || {
            Capture::new(&media, 2 * SENDERS, 20, |n, p| {
                p[26..30].copy_from_slice(&(0x0b00_0000 + n as u32 / 2).to_be_bytes());
                rtp(p, n % 2, n / 2);
            })
        },
        |r| r.others.senders > 0 && r.senders.iter().all(|s| !s.rt),
    )?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("VmHWM")?;
    let kib: f64 = most.trim().trim_end_matches(" kB").parse()?;
    println!(
        "{}",
        serde_json::json!({
            "bench": "inspect", "calls_mpps": calls, "senders_of_one_mpps": one, "senders_of_two_mpps": two,
            "most_memory_mib": (kib / 1024.0).round(),
        })
    );
    Ok(())
}
