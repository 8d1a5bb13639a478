// SPDX-License-Identifier: GPL-2.0-only
//! What the monitor sees in capture files: one monitor per sender, which stands for one VM.
//!
//! A capture may have any number of senders, made up ones too. A sender costs a count until its packets could be real-time; only then it gets
//! a monitor. Both are bounded: the least recent goes, a sender that was real-time into the report, any other one into a count.

use crate::capture::{self, Record};
use crate::ffi::{self, Parsed, RawConfig};
use crate::monitor::{Config, Matters, Monitor, Packet, Promotion, REPORT_NS};
use crate::statistic::PeriodStatistic;
use crate::traffic::{Facts, Timeline, Traffic};
use anyhow::{Context, Result, ensure};
use lru::LruCache;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Read;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::Path;

/// Senders that are counted one by one, and real-time ones that are kept when they have gone.
const MAX_SENDERS: NonZeroUsize = NonZeroUsize::new(4096).expect("not 0");
/// Those that have a monitor, about 70 KiB each when they are real-time.
const MAX_WATCHED: NonZeroUsize = NonZeroUsize::new(256).expect("not 0");
/// Time within which a packet's copies are captured on other devices.
const COPIES_NS: u64 = 10_000_000;

/// One sender of a capture. The first six fields are a stable interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sender {
    /// Source address, or the name that the user gave it.
    pub sender: String,
    /// Whether it was ever judged real-time.
    pub rt: bool,
    /// The rule of its first promotion: that of a detector (`rtp`, …), or `port` for a port that the user named.
    pub rule: Option<&'static str>,
    /// Its period in µs: the mean of the EWMA over each second's packets, and of these the median.
    pub period_us: Option<f64>,
    /// Packets that it sent.
    pub packets: u64,
    /// Packets of the first real-time stream up to the verdict, that one included.
    pub verdict_after: Option<u32>,
    /// Real-time streams: different source ports, destinations and destination ports.
    pub streams: usize,
    /// Packets of those streams.
    pub rt_packets: u64,
    /// Whether it is real-time at the end of the capture.
    pub rt_at_end: bool,
    /// How often it ceased to be real-time.
    pub demotions: u32,
    /// Packets that are later fragments of a datagram, cut by the capture, or malformed.
    pub fragments: u64,
    pub truncated: u64,
    pub malformed: u64,
    /// Packets that were captured again on another device; they are counted nowhere else.
    pub copies: u64,
    /// Real-time packets per second, from the first to the last.
    pub rate_pps: Option<f64>,
    /// Gaps between its real-time packets: the median and the 99th percentile, ms.
    pub gap_p50_ms: Option<f64>,
    pub gap_p99_ms: Option<f64>,
    /// Time between the frames of a stream (packets that have one RTP timestamp), ms: the median.
    pub frame_ms: Option<f64>,
    /// How much that time differs from one frame to the next, ms, smoothed as in RFC 3550.
    pub jitter_ms: Option<f64>,
    /// Sequence numbers of RTP that are missing, percent. None: there are none, or packets are larger than a network carries.
    pub loss_pct: Option<f64>,
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

/// Senders that are not told one by one, because there are too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Others {
    /// How many; one that came back after it had gone counts again.
    pub senders: u64,
    pub packets: u64,
}

/// What [`inspect`] finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Ordered by name, then address.
    pub senders: Vec<Sender>,
    /// Packets of the files.
    pub packets: u64,
    /// Those without a source address (not IP, or cut before it), which belong to no sender.
    pub unattributed: u64,
    pub others: Others,
    /// What could not be read, a line each.
    pub warnings: Vec<String>,
}

/// A sender that the user names by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Mac([u8; 6]),
    Ip(IpAddr),
}

/// What the user says beforehand.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub config: Config,
    /// Source ports that are real-time, of every sender.
    pub ports: Vec<u16>,
    /// VMs by their addresses; one may have several.
    pub vms: Vec<(Named, String)>,
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
    let options = Options { config: config.clone(), ports: ports.to_vec(), vms: Vec::new() };
    let mut inspector = Inspector::new(options)?;
    inspector.read(path)?;
    Ok(inspector.finish())
}

impl Report {
    /// As [`inspect`], from anything that yields the bytes of a capture file.
    ///
    /// # Errors
    /// As [`inspect`], without a name.
    pub fn from_reader(source: impl Read + Send) -> Result<Self> {
        let mut inspector = Inspector::new(Options::default())?;
        inspector.report.warnings = capture::read_from(source, |r| inspector.seen.record(r, &mut inspector.report))?;
        Ok(inspector.finish())
    }
}

/// Who sends: one of the named ones, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Named(usize),
    Address(IpAddr),
}

struct Watched {
    known: Known,
    monitor: Monitor,
    now: u64,
    timer: u64,
    promotion: Option<Promotion>,
    period: PeriodStatistic,
    traffic: Option<Box<Traffic>>,
    /// The last packets: key, device and time.
    last: [(u64, u32, u64); 4],
    next: usize,
}

impl Watched {
    /// Runs the timers that are due at `now`.
    fn advance(&mut self, now: u64) {
        if now + ffi::takt_native_clock_back() < self.now {
            (self.now, self.timer) = (now, now.saturating_add(REPORT_NS));
        }
        self.now = self.now.max(now);
        while self.timer <= self.now && self.monitor.is_rt() {
            self.monitor.timer(self.timer);
            self.timer += REPORT_NS;
        }
        if self.timer <= self.now {
            self.timer += (self.now - self.timer) / REPORT_NS * REPORT_NS + REPORT_NS;
        }
    }

    /// A packet that the sender sent.
    fn packet(&mut self, packet: &mut Packet, time: u64, to: IpAddr, device: u32) {
        self.advance(time);
        let parsed = packet.parsed();
        if parsed == Parsed::Ports && self.is_copy(packet.copy_key(), device, packet.is_cooked_v1()) {
            self.known.copies += 1;
            return;
        }
        self.known.count(parsed);
        let outcome = self.monitor.packet(packet, self.now);
        self.promotion = self.promotion.or(outcome.promoted);
        if outcome.rt_packet {
            let (sport, dport) = packet.ports();
            let traffic = self.traffic.get_or_insert_with(|| Box::new(Traffic::new(self.now)));
            traffic.add(self.now, (sport, to, dport), packet.rtp(), packet.payload_len());
            if let Some(p) = self.monitor.period() {
                self.period.add(self.now, p);
            }
        }
    }

    /// What is known at the end, and the monitor's memory.
    fn end(mut self, end: u64) -> (Known, Monitor) {
        self.advance(end);
        let counters = self.monitor.counters();
        if let Some(promotion) = self.promotion {
            self.known.keep(Sender {
                rt: true,
                rule: Some(promotion.rule),
                verdict_after: Some(promotion.after),
                period_us: self.period.value().map(|p| p as f64 / 1000.0),
                rt_packets: counters.rt_packets,
                rt_at_end: self.monitor.is_rt(),
                demotions: counters.demotions,
                ..Sender::of(self.traffic.map(|t| t.facts()).unwrap_or_default())
            });
        }
        (self.known, self.monitor)
    }

    /// Whether another device has shown the packet just before.
    fn is_copy(&mut self, key: u64, device: u32, cooked: bool) -> bool {
        let fresh = |at: u64| self.now.saturating_sub(at) <= COPIES_NS;
        // Version 1 of a cooked capture does not name the device: an equal packet is a copy. (An immediate repeat has another IP id.)
        let copy = self.last.iter().any(|&(k, d, at)| k == key && (d != device || cooked) && fresh(at));
        if !copy {
            self.last[self.next] = (key, device, self.now);
            self.next = (self.next + 1) % self.last.len();
        }
        copy
    }
}

/// What is kept of each sender.
#[derive(Clone, Default)]
struct Known {
    packets: u64,
    fragments: u64,
    truncated: u64,
    malformed: u64,
    copies: u64,
    /// The first packet that could be one of a stream's, its time and device: a second one brings a monitor, which sees both.
    first: Option<Box<(Packet, u64, u32)>>,
    /// Of a monitor that had to go.
    past: Option<Box<Sender>>,
}

struct Senders {
    options: Options,
    raw: RawConfig,
    /// A sender is in one of these two.
    known: LruCache<Key, Known>,
    watched: LruCache<Key, Watched>,
    packet: Packet,
    end: u64,
    /// Real-time ones that had to go.
    gone: Vec<(Key, Sender)>,
    others: Others,
}

/// Reads captures, one after the other, as if they were one.
pub struct Inspector {
    seen: Senders,
    report: Report,
}

impl Inspector {
    /// # Errors
    /// A parameter out of its range.
    pub fn new(options: Options) -> Result<Self> {
        let raw = options.config.raw().context("configuration")?;
        for (address, name) in &options.vms {
            let twice = options.vms.iter().any(|(a, n)| a == address && n != name);
            ensure!(!twice, "{name}: its address already has another name");
        }
        let seen = Senders {
            options,
            raw,
            known: LruCache::new(MAX_SENDERS),
            watched: LruCache::new(MAX_WATCHED),
            packet: Packet::new(),
            end: 0,
            gone: Vec::new(),
            others: Others::default(),
        };
        Ok(Self { seen, report: Report::default() })
    }

    /// Reads one more capture; `-` is standard input.
    ///
    /// # Errors
    /// As [`capture::read`].
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let warnings =
            capture::read(path, |r| self.seen.record(r, &mut self.report)).map_err(|e| anyhow::anyhow!("{e:#}"))?;
        self.report.warnings.extend(warnings.into_iter().map(|w| format!("{}: {w}", path.display())));
        Ok(())
    }

    #[must_use]
    pub fn finish(self) -> Report {
        let Self { mut seen, mut report } = self;
        let mut senders = Vec::new();
        while let Some((key, watched)) = seen.watched.pop_lru() {
            let (known, _) = watched.end(seen.end);
            senders.push((key, seen.sender(key, known)));
        }
        senders.append(&mut seen.gone);
        while let Some((key, known)) = seen.known.pop_lru() {
            senders.push((key, seen.sender(key, known)));
        }
        senders.sort_by_key(|(key, _)| *key);
        report.others = seen.others;
        let copies: u64 = senders.iter().map(|(_, s)| s.copies).sum();
        if copies > 0 {
            report.warnings.push(format!("{copies} packets were captured on several devices and count only once"));
        }
        report.senders = senders.into_iter().map(|(_, s)| s).collect();
        report
    }
}

impl Senders {
    fn key(&self, from: IpAddr) -> Key {
        if self.options.vms.is_empty() {
            return Key::Address(from);
        }
        let mac = self.packet.mac();
        let is = |n: &Named| match n {
            Named::Mac(m) => Some(*m) == mac,
            Named::Ip(ip) => *ip == from,
        };
        match self.options.vms.iter().find(|(n, _)| is(n)) {
            // All addresses of a VM are one sender.
            Some((_, name)) => Key::Named(self.options.vms.iter().position(|(_, n)| n == name).unwrap_or(0)),
            None => Key::Address(from),
        }
    }

    fn record(&mut self, r: &Record, report: &mut Report) -> Result<()> {
        report.packets += 1;
        let Some(link) = r.link else {
            report.unattributed += 1;
            return Ok(());
        };
        self.end = if r.time + ffi::takt_native_clock_back() < self.end { r.time } else { self.end.max(r.time) };
        let parsed = self.packet.load(link, r.data, r.len);
        let Some((from, to)) = self.packet.addresses() else {
            report.unattributed += 1;
            return Ok(());
        };
        let key = self.key(from);
        let device = self.packet.device() ^ r.interface.rotate_left(16);
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.packet(&mut self.packet, r.time, to, device);
            return Ok(());
        }
        let mut known = self.known.pop(&key).unwrap_or_default();
        let matters = match self.packet.matters() {
            Matters::WithOthers if known.first.is_some() => Matters::Alone,
            _ if self.options.ports.contains(&self.packet.ports().0) => Matters::Alone,
            matters => matters,
        };
        match matters {
            Matters::Alone => {
                let first = known.first.take();
                let mut watched = self.watch(known, first.as_ref().map_or(r.time, |f| f.1))?;
                if let Some(first) = first {
                    let (mut packet, at, device) = *first;
                    watched.known.packets -= 1;
                    watched.packet(&mut packet, at, to, device);
                }
                watched.packet(&mut self.packet, r.time, to, device);
                self.watched.push(key, watched);
            }
            matters => {
                known.count(parsed);
                if matters == Matters::WithOthers {
                    known.first = Some(Box::new((self.packet.clone(), r.time, device)));
                }
                self.remember(key, known);
            }
        }
        Ok(())
    }

    /// A monitor for a sender.
    fn watch(&mut self, known: Known, now: u64) -> Result<Watched> {
        let mut spare = None;
        if self.watched.len() == self.watched.cap().get()
            && let Some((key, watched)) = self.watched.pop_lru()
        {
            let (known, monitor) = watched.end(self.end);
            self.remember(key, known);
            spare = Some(monitor);
        }
        let mut monitor = spare.map_or_else(|| Monitor::new(&self.options.config), Ok)?;
        monitor.reset(&self.raw);
        self.options.ports.iter().for_each(|port| monitor.add_port(*port));
        Ok(Watched {
            known,
            monitor,
            now,
            timer: now.saturating_add(REPORT_NS),
            promotion: None,
            period: PeriodStatistic::default(),
            traffic: None,
            last: [(0, 0, 0); 4],
            next: 0,
        })
    }

    /// Keeps what is known of a sender without a monitor; the least recent has to go.
    fn remember(&mut self, key: Key, known: Known) {
        let Some((key, known)) = self.known.push(key, known) else { return };
        if known.past.is_some() && self.gone.len() < MAX_SENDERS.get() {
            let sender = self.sender(key, known);
            self.gone.push((key, sender));
        } else {
            self.others.senders += 1;
            self.others.packets += known.packets;
        }
    }

    fn sender(&self, key: Key, known: Known) -> Sender {
        let name = match key {
            Key::Named(n) => self.options.vms[n].1.clone(),
            Key::Address(a) => a.to_string(),
        };
        let past = known.past.map(|p| *p).unwrap_or_default();
        let Known { packets, fragments, truncated, malformed, copies, .. } = known;
        Sender { sender: name, packets, fragments, truncated, malformed, copies, ..past }
    }
}

impl Known {
    fn count(&mut self, parsed: Parsed) {
        self.packets += 1;
        self.fragments += u64::from(parsed == Parsed::Fragment);
        self.truncated += u64::from(parsed == Parsed::Truncated);
        self.malformed += u64::from(parsed == Parsed::Malformed);
    }

    fn keep(&mut self, found: Sender) {
        self.past = Some(Box::new(match self.past.take() {
            Some(past) => past.then(found),
            None => found,
        }));
    }
}

impl Sender {
    fn of(f: Facts) -> Self {
        let [gap_p50_ms, gap_p99_ms] = f.gap_ms;
        Self {
            streams: f.streams,
            rate_pps: f.rate,
            gap_p50_ms,
            gap_p99_ms,
            frame_ms: f.frame_ms,
            jitter_ms: f.jitter_ms,
            loss_pct: f.loss_pct,
            timeline: f.timeline,
            ..Self::default()
        }
    }

    /// What a later monitor of the same sender adds: counts are summed, the rest is of the one that saw more.
    fn then(self, later: Self) -> Self {
        let (rule, after) = (self.rule, self.verdict_after);
        let [rt_packets, demotions] = [self.rt_packets + later.rt_packets, u64::from(self.demotions + later.demotions)];
        let rt_at_end = later.rt_at_end;
        let most = if later.rt_packets > self.rt_packets { later } else { self };
        Self { rule, verdict_after: after, rt_packets, demotions: demotions as u32, rt_at_end, ..most }
    }
}
