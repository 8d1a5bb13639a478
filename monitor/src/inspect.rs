// SPDX-License-Identifier: GPL-2.0-only
//! What the monitor sees in a capture file: one monitor per sender, which stands for one VM.

use crate::capture::{self, Record};
use crate::monitor::{Config, Monitor, Packet, Promotion, REPORT_NS};
use crate::statistic::PeriodStatistic;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

/// Each sender costs about 24 KiB; a capture with more of them than this is none of one host's VMs.
const MAX_SENDERS: usize = 8192;

/// One sender of a capture. The first six fields are a stable interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sender {
    /// Source address.
    pub sender: String,
    /// Whether it was ever judged real-time.
    pub rt: bool,
    /// The rule of its first promotion: `rtp`, `rtsp`, or `port` for a port that the user named.
    pub rule: Option<&'static str>,
    /// Its period in µs: the mean of the EWMA over each second's packets, and of these the median.
    pub period_us: Option<f64>,
    /// Packets that it sent.
    pub packets: u64,
    /// Packets of the first real-time stream up to the verdict, that one included.
    pub verdict_after: Option<u32>,
    /// Real-time streams: different source ports, destinations and destination ports.
    pub streams: usize,
    pub rt_packets: u64,
    /// Whether it is real-time at the end of the capture.
    pub rt_at_end: bool,
    pub demotions: u32,
    pub fragments: u64,
    pub truncated: u64,
    pub malformed: u64,
}

/// What [`inspect`] finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Ordered by address.
    pub senders: Vec<Sender>,
    /// Packets of the file.
    pub packets: u64,
    /// Those without a source address (not IP, or cut before it), which belong to no sender.
    pub unattributed: u64,
}

/// Runs the monitor with its default configuration over a pcap or pcapng file.
///
/// # Errors
/// One line that names the file and the reason; see [`capture::read`].
pub fn inspect(path: &Path) -> Result<Report> {
    inspect_with(path, &Config::default(), &[])
}

/// As [`inspect`], with a configuration and with source ports that the user names for every sender.
///
/// # Errors
/// As [`inspect`], or a parameter out of its range.
pub fn inspect_with(path: &Path, config: &Config, ports: &[u16]) -> Result<Report> {
    let mut inspector = Inspector::new(config, ports)?;
    capture::read(path, |r| inspector.record(r)).map_err(|e| anyhow::anyhow!("{e:#}"))?;
    Ok(inspector.finish())
}

impl Report {
    /// As [`inspect`], from anything that yields the bytes of a capture file.
    ///
    /// # Errors
    /// As [`inspect`], without a name.
    pub fn from_reader(source: impl Read + Send) -> Result<Self> {
        let mut inspector = Inspector::new(&Config::default(), &[])?;
        capture::read_from(source, |r| inspector.record(r))?;
        Ok(inspector.finish())
    }
}

struct Watched {
    monitor: Monitor,
    now: u64,
    timer: u64,
    promotion: Option<Promotion>,
    period: PeriodStatistic,
    streams: BTreeSet<(u16, IpAddr, u16)>,
}

impl Watched {
    /// Runs the timers that are due at `now`.
    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        while self.timer <= self.now && self.monitor.is_rt() {
            self.monitor.timer(self.timer);
            self.timer += REPORT_NS;
        }
        if self.timer <= self.now {
            self.timer += (self.now - self.timer) / REPORT_NS * REPORT_NS + REPORT_NS;
        }
    }
}

struct Inspector {
    config: Config,
    ports: Vec<u16>,
    watched: BTreeMap<IpAddr, Watched>,
    packet: Packet,
    report: Report,
    end: u64,
}

impl Inspector {
    fn new(config: &Config, ports: &[u16]) -> Result<Self> {
        config.raw().context("configuration")?;
        Ok(Self {
            config: config.clone(),
            ports: ports.to_vec(),
            watched: BTreeMap::new(),
            packet: Packet::new(),
            report: Report::default(),
            end: 0,
        })
    }

    fn record(&mut self, r: &Record) -> Result<()> {
        self.report.packets += 1;
        self.end = self.end.max(r.time);
        self.packet.load(r.link, r.data, r.len);
        let Some((from, to)) = self.packet.addresses() else {
            self.report.unattributed += 1;
            return Ok(());
        };
        if !self.watched.contains_key(&from) {
            ensure!(self.watched.len() < MAX_SENDERS, "more than {MAX_SENDERS} senders");
            self.watched.insert(from, self.watch(r.time)?);
        }
        let Some(w) = self.watched.get_mut(&from) else {
            return Ok(());
        };
        w.advance(r.time);
        let outcome = w.monitor.packet(&mut self.packet, w.now);
        w.promotion = w.promotion.or(outcome.promoted);
        if outcome.rt_packet {
            let (sport, dport) = self.packet.ports();
            w.streams.insert((sport, to, dport));
            if let Some(p) = w.monitor.period() {
                w.period.add(w.now, p);
            }
        }
        Ok(())
    }

    fn watch(&self, now: u64) -> Result<Watched> {
        let mut monitor = Monitor::new(&self.config)?;
        for port in &self.ports {
            monitor.add_port(*port);
        }
        Ok(Watched {
            monitor,
            now,
            timer: now.saturating_add(REPORT_NS),
            promotion: None,
            period: PeriodStatistic::default(),
            streams: BTreeSet::new(),
        })
    }

    fn finish(mut self) -> Report {
        for (address, mut w) in std::mem::take(&mut self.watched) {
            w.advance(self.end);
            let counters = w.monitor.counters();
            self.report.senders.push(Sender {
                sender: address.to_string(),
                rt: w.promotion.is_some(),
                rule: w.promotion.map(|p| p.rule),
                period_us: w.period.value().map(|p| p as f64 / 1000.0),
                packets: counters.packets,
                verdict_after: w.promotion.map(|p| p.after),
                streams: w.streams.len(),
                rt_packets: counters.rt_packets,
                rt_at_end: w.monitor.is_rt(),
                demotions: counters.demotions,
                fragments: counters.fragments,
                truncated: counters.truncated,
                malformed: counters.malformed,
            });
        }
        self.report
    }
}
