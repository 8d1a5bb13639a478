// SPDX-License-Identifier: GPL-2.0-only
//! Servers on an idle LAN (DORIS-E1): frames with their times, which the real monitor reads as a capture.

use super::data::{Experiment, Traffic};
use crate::row::{Row, X};
use anyhow::{Context, Result};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use std::collections::BTreeMap;
use takt_monitor::{Config, Link, Monitor, Packet, Report};
use takt_sim::quantile;

/// Packets that are sent by nobody's scheduler.
pub const POLICY: &str = "bare";

/// Every sender once for `seed`.
///
/// # Errors
/// The monitor cannot read what was generated.
pub fn rows(e: &Experiment, duration: u64, seed: u64) -> Result<Vec<Row>> {
    e.traffic.iter().enumerate().map(|(n, t)| row(t, duration, seed, n as u64)).collect()
}

fn row(traffic: &Traffic, duration: u64, seed: u64, stream: u64) -> Result<Row> {
    let frames = frames(traffic, duration, seed, stream);
    let report = Report::from_reader(&capture(&frames)[..]).with_context(|| traffic.name.clone())?;
    let sender = report.senders.first().context("no sender in the capture")?;
    let mut gaps: Vec<f64> = frames.windows(2).map(|w| (w[1].0 - w[0].0) as f64 / 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    let mut m = BTreeMap::from([
        ("packets".to_owned(), sender.packets as f64),
        ("rt".to_owned(), f64::from(u8::from(sender.rt))),
        ("streams".to_owned(), sender.streams as f64),
        ("gap_p50_ms".to_owned(), quantile(&gaps, 0.5)),
        ("gap_p99_ms".to_owned(), quantile(&gaps, 0.99)),
    ]);
    if let Some(n) = sender.verdict_after {
        m.insert("verdict_after".to_owned(), f64::from(n));
        m.insert("verdict_frames".to_owned(), bursts(&frames[..n as usize]) as f64);
    }
    m.extend(sender.period_us.map(|p| ("period_ms".to_owned(), p / 1e3)));
    m.extend(peak(&frames)?.map(|p| ("period_peak_ms".to_owned(), p)));
    Ok(Row::of(POLICY, X::Name(traffic.name.clone()), seed, m, Vec::new()))
}

/// Bursts that the packets belong to: what a picture is sent in has one timestamp.
fn bursts(frames: &[(u64, Vec<u8>)]) -> usize {
    const TIMESTAMP: std::ops::Range<usize> = 46..50;
    1 + frames.windows(2).filter(|w| w[0].1[TIMESTAMP] != w[1].1[TIMESTAMP]).count()
}

/// Median of the EWMA's local maxima: its value right after the pause between two bursts (rule
/// D16), ms.
fn peak(frames: &[(u64, Vec<u8>)]) -> Result<Option<f64>> {
    let mut monitor = Monitor::new(&Config::default())?;
    let mut packet = Packet::new();
    let mut seen = Vec::new();
    for (time, bytes) in frames {
        packet.load(Link::Ethernet, bytes, bytes.len());
        monitor.packet(&mut packet, *time);
        seen.extend(monitor.period().map(|p| p as f64 / 1e6));
    }
    let mut peaks: Vec<f64> = seen.windows(3).filter(|w| w[0] < w[1] && w[1] >= w[2]).map(|w| w[1]).collect();
    peaks.sort_by(f64::total_cmp);
    Ok((!peaks.is_empty()).then(|| quantile(&peaks, 0.5)))
}

/// Time and bytes of each frame. Bursts keep to their grid (a timer does not drift); jitter moves them around it.
fn frames(t: &Traffic, duration: u64, seed: u64, stream: u64) -> Vec<(u64, Vec<u8>)> {
    let mut rng = Pcg32::seed_from_u64((seed << 8) | stream);
    let mut below = |n: u64| if n == 0 { 0 } else { ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64 };
    let mut out: Vec<(u64, Vec<u8>)> = Vec::new();
    let (first, ssrc) = (below(65_536) as u16, below(1 << 32) as u32);
    let phase = t.period + below(t.period);
    for n in 0..duration / t.period {
        let mut now = phase + n * t.period + below(2 * t.jitter + 1) - t.jitter;
        let burst = u64::from(t.burst[0]) + below(u64::from(t.burst[1] - t.burst[0]) + 1);
        for i in 0..burst {
            if i > 0 {
                now += t.gap + below(2 * t.gap_jitter + 1) - t.gap_jitter;
            }
            let seq = first.wrapping_add(out.len() as u16);
            // RTP's clock: 8 kHz for speech, 90 kHz for video.
            let clock = if t.payload_type < 96 { n * 160 } else { n * t.period * 9 / 100_000 };
            let rtp = [
                &[0x80, t.payload_type][..],
                &seq.to_be_bytes(),
                &(clock as u32).to_be_bytes(),
                &ssrc.to_be_bytes(),
                &vec![0x55; t.bytes.into()],
            ]
            .concat();
            out.push((now, ethernet(&rtp)));
        }
    }
    out
}

/// Payload in UDP, IPv4 and Ethernet, from 10.0.0.2:16384 to 10.0.0.9:30000.
fn ethernet(payload: &[u8]) -> Vec<u8> {
    let udp = payload.len() as u16 + 8;
    let ip = udp + 20;
    let [ih, il] = ip.to_be_bytes();
    let [uh, ul] = udp.to_be_bytes();
    [
        &[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 2, 0x08, 0][..],
        &[0x45, 0, ih, il, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 9],
        &[0x40, 0, 0x75, 0x30, uh, ul, 0, 0],
        payload,
    ]
    .concat()
}

/// A pcap file with times in ns.
fn capture(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let words = |list: &[u32]| list.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
    for (time, bytes) in frames {
        let len = bytes.len() as u32;
        out.extend(words(&[(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, len, len]));
        out.extend(bytes);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_row_and_another_one_differs() {
        let e = Experiment::find("DORIS-E1").unwrap();
        let second = 1_000_000_000;
        assert_eq!(rows(&e, 5 * second, 3).unwrap(), rows(&e, 5 * second, 3).unwrap());
        assert_ne!(rows(&e, 5 * second, 3).unwrap(), rows(&e, 5 * second, 4).unwrap());
    }
}
