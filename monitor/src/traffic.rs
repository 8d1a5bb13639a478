// SPDX-License-Identifier: GPL-2.0-only
//! What a sender's real-time packets are like, beside what the monitor makes of them: pace, frames, jitter, loss, and when.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

/// Streams of a sender that are told apart; more are counted only.
const MAX_STREAMS: usize = 1024;
/// Columns of the timeline; it begins with seconds, and takes two for one when it is full.
const COLUMNS: usize = 600;
/// A payload that no network carries in one packet: its sequence numbers do not go by one.
const SUPER_PACKET: u32 = 9000;
/// Units of the histograms: 0.1 µs, to an hour.
const UNIT_NS: u64 = 100;
const MOST: u64 = 36_000_000_000;

/// Source port, destination and its port.
pub type StreamKey = (u16, IpAddr, u16);

/// The fields of RTP that tell packets of a stream apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpFields {
    pub seq: u16,
    pub timestamp: u32,
    pub ssrc: u32,
}

struct Stream {
    /// Of RTP: the present source, its first and highest number (the latter goes on beyond 16 bits), and packets of it.
    source: Option<(u32, u64, u64, u64)>,
    timestamp: u32,
    /// When the present frame began, and how long after the one before.
    frame: u64,
    distance: Option<u64>,
}

/// Real-time packets by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// ns since the epoch of the capture.
    pub begin_ns: u64,
    /// ns of a column.
    pub column_ns: u64,
    /// Real-time packets of each.
    pub packets: Vec<u32>,
}

impl Timeline {
    fn new(begin: u64) -> Self {
        Self { begin_ns: begin, column_ns: 1_000_000_000, packets: Vec::new() }
    }

    /// A packet `past` ns after the first one; a jump back in time is no time.
    fn add(&mut self, past: u64) {
        while past / self.column_ns >= COLUMNS as u64 {
            self.packets = self.packets.chunks(2).map(|c| c.iter().sum()).collect();
            self.column_ns = self.column_ns.saturating_mul(2);
        }
        let column = (past / self.column_ns) as usize;
        if self.packets.len() <= column {
            self.packets.resize(column + 1, 0);
        }
        self.packets[column] += 1;
    }
}

/// See the fields of the report's sender.
pub struct Traffic {
    streams: BTreeMap<StreamKey, Stream>,
    more_streams: bool,
    last: u64,
    /// Gaps together, ns.
    span: u64,
    packets: u64,
    gaps: Histogram<u32>,
    frames: Histogram<u32>,
    /// ns, smoothed as RFC 3550 §6.4.1 does.
    jitter: f64,
    expected: u64,
    received: u64,
    counted: bool,
    timeline: Timeline,
}

/// ms of a quantile, of at least one value.
fn ms(h: &Histogram<u32>, quantile: f64) -> Option<f64> {
    (!h.is_empty()).then(|| h.value_at_quantile(quantile) as f64 * UNIT_NS as f64 / 1e6)
}

/// What [`Traffic`] has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub streams: usize,
    pub rate: Option<f64>,
    pub gap_ms: [Option<f64>; 2],
    pub frame_ms: Option<f64>,
    pub jitter_ms: Option<f64>,
    pub loss_pct: Option<f64>,
    pub timeline: Option<Timeline>,
}

impl Traffic {
    pub fn new(now: u64) -> Self {
        let histogram = || Histogram::new_with_max(MOST, 2).expect("a valid range");
        Self {
            streams: BTreeMap::new(),
            more_streams: false,
            last: now,
            span: 0,
            packets: 0,
            gaps: histogram(),
            frames: histogram(),
            jitter: 0.0,
            expected: 0,
            received: 0,
            counted: true,
            timeline: Timeline::new(now),
        }
    }

    /// A real-time packet of `len` bytes of payload.
    pub fn add(&mut self, now: u64, key: StreamKey, rtp: Option<RtpFields>, len: u32) {
        if now < self.last {
            // The capture goes on in another time.
            self.streams.values_mut().for_each(|s| (s.frame, s.distance) = (now, None));
        } else if self.packets > 0 {
            self.gaps.saturating_record((now - self.last) / UNIT_NS);
            self.span += now - self.last;
        }
        self.last = now;
        self.packets += 1;
        self.timeline.add(self.span);
        self.counted &= len <= SUPER_PACKET;
        let known = self.streams.len();
        let timestamp = rtp.map_or(0, |r| r.timestamp);
        let stream = match self.streams.entry(key) {
            Entry::Occupied(e) => e.into_mut(),
            Entry::Vacant(_) if known >= MAX_STREAMS => {
                self.more_streams = true;
                return;
            }
            Entry::Vacant(e) => {
                let stream = e.insert(Stream { source: None, timestamp, frame: now, distance: None });
                if let Some(rtp) = rtp {
                    stream.number(rtp, &mut self.expected, &mut self.received);
                }
                return;
            }
        };
        if let Some(rtp) = rtp {
            stream.number(rtp, &mut self.expected, &mut self.received);
        }
        // A frame is what has one timestamp; without RTP each packet is one.
        if rtp.is_some() && timestamp == stream.timestamp {
            return;
        }
        let distance = now - stream.frame;
        self.frames.saturating_record(distance / UNIT_NS);
        if let Some(before) = stream.distance {
            self.jitter += (distance.abs_diff(before) as f64 - self.jitter) / 16.0;
        }
        (stream.distance, stream.frame, stream.timestamp) = (Some(distance), now, timestamp);
    }

    pub fn facts(mut self) -> Facts {
        for stream in self.streams.values_mut() {
            stream.close(&mut self.expected, &mut self.received);
        }
        let time = self.span as f64 / 1e9;
        Facts {
            streams: self.streams.len() + usize::from(self.more_streams),
            rate: (self.packets > 1 && time > 0.0).then(|| (self.packets - 1) as f64 / time),
            gap_ms: [ms(&self.gaps, 0.5), ms(&self.gaps, 0.99)],
            frame_ms: ms(&self.frames, 0.5),
            jitter_ms: (self.frames.len() > 1).then_some(self.jitter / 1e6),
            loss_pct: (self.counted && self.expected > 0)
                .then(|| 100.0 * self.expected.saturating_sub(self.received) as f64 / self.expected as f64),
            timeline: Some(self.timeline),
        }
    }
}

impl Stream {
    /// RFC 3550 §A.3: what was expected goes from the first number to the highest.
    fn number(&mut self, rtp: RtpFields, expected: &mut u64, received: &mut u64) {
        const FAR: u16 = 3000;
        let seq = u64::from(rtp.seq) + (1 << 16);
        match &mut self.source {
            Some((ssrc, _, highest, n)) if *ssrc == rtp.ssrc => {
                let ahead = rtp.seq.wrapping_sub(*highest as u16);
                if ahead < FAR {
                    *highest += u64::from(ahead);
                    *n += 1;
                } else if ahead.wrapping_neg() < FAR {
                    *n += 1;
                } else {
                    self.close(expected, received);
                    self.source = Some((rtp.ssrc, seq, seq, 1));
                }
            }
            _ => {
                self.close(expected, received);
                self.source = Some((rtp.ssrc, seq, seq, 1));
            }
        }
    }

    fn close(&mut self, expected: &mut u64, received: &mut u64) {
        if let Some((_, first, highest, n)) = self.source.take() {
            *expected += highest - first + 1;
            *received += n.min(highest - first + 1);
        }
    }
}
