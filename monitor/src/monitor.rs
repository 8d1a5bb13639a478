// SPDX-License-Identifier: GPL-2.0-only
//! Safe wrapper of one VM's monitor. All times are ns.

use crate::ffi::{self, Head, Link, Parsed, PeriodSource, RawConfig, SNAP, Work};
use crate::traffic::RtpFields;
use anyhow::{Result, ensure};
use std::ffi::{CStr, c_void};
use std::net::IpAddr;

/// How often a host calls [`Monitor::timer`]: every 30 ms (rule M10).
pub const REPORT_NS: u64 = 30_000_000;

/// Parameters of a monitor; the defaults are those of rules M9 and M11.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time without a real-time packet after which the VM is demoted; 1 s.
    pub timeout: u64,
    /// How long the receiver of a report may believe it without a new one; the timeout and two reports.
    pub lease: u64,
    /// Floor of the period; 10 µs (rule D3).
    pub min_period: u64,
    /// A longer gap counts as this one; none by default (rule D16).
    pub gap_cap: Option<u64>,
    /// Weight of the newest gap in 1/1000; 200.
    pub alpha: u32,
    /// Report the least period since the last report instead of the last one (rule D16).
    pub report_min: bool,
    pub source: PeriodSource,
    /// The period that [`PeriodSource::Given`] reports.
    pub given: u64,
}

impl Default for Config {
    fn default() -> Self {
        let mut raw = RawConfig::default();
        // SAFETY: the C side fills a structure of the same layout (tested in ffi.rs).
        unsafe { ffi::takt_native_defaults(&mut raw) };
        Self {
            timeout: raw.timeout,
            lease: raw.lease,
            min_period: raw.min_period,
            gap_cap: None,
            alpha: raw.alpha,
            report_min: false,
            source: PeriodSource::Ewma,
            given: 0,
        }
    }
}

impl Config {
    /// # Errors
    /// A parameter out of its range, with that range.
    pub(crate) fn raw(&self) -> Result<RawConfig> {
        const HOUR: u64 = 3_600_000_000_000;
        let range = |key: &str, value: u64, low: u64, high: u64| -> Result<()> {
            ensure!((low..=high).contains(&value), "monitor: {key} must be between {low} and {high} (got {value})");
            Ok(())
        };
        range("timeout", self.timeout, REPORT_NS, HOUR)?;
        range("lease", self.lease, self.timeout, 2 * HOUR)?;
        range("min_period", self.min_period, 1, HOUR)?;
        range("gap_cap", self.gap_cap.unwrap_or(1), 1, HOUR)?;
        range("alpha", self.alpha.into(), 1, 1000)?;
        if self.source == PeriodSource::Given {
            range("given", self.given, 1, HOUR)?;
        }
        Ok(RawConfig {
            timeout: self.timeout,
            lease: self.lease,
            min_period: self.min_period,
            gap_cap: self.gap_cap.unwrap_or(0),
            given: self.given,
            alpha: self.alpha,
            source: self.source as u32,
            report_min: self.report_min.into(),
            pad: 0,
        })
    }
}

/// A packet's first bytes and what the parser found in them.
#[derive(Clone)]
pub struct Packet(pub(crate) Box<Work>);

impl Default for Packet {
    fn default() -> Self {
        Self::new()
    }
}

impl Packet {
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: all fields are integers, for which zero is a value.
        Self(Box::new(unsafe { std::mem::zeroed() }))
    }

    /// Parses `data`, the captured bytes of a packet that had `len` bytes on the wire.
    pub fn load(&mut self, link: Link, data: &[u8], len: usize) -> Parsed {
        self.load_segments(link, data, len, 0)
    }

    /// As [`Packet::load`], for a packet that the device is to cut into parts of `segment` bytes (UDP segmentation).
    pub fn load_segments(&mut self, link: Link, data: &[u8], len: usize, segment: u32) -> Parsed {
        let n = data.len().min(SNAP);
        let w = &mut *self.0;
        w.b[..n].copy_from_slice(&data[..n]);
        w.link = link as u32;
        w.caplen = n as u32;
        w.len = u32::try_from(len.max(data.len())).unwrap_or(u32::MAX);
        w.segment = segment;
        // SAFETY: `w` has the layout that C expects.
        unsafe { ffi::takt_native_parse(w) };
        self.parsed()
    }

    #[must_use]
    pub fn parsed(&self) -> Parsed {
        match self.0.parsed {
            0 => Parsed::Ports,
            1 => Parsed::Other,
            2 => Parsed::Fragment,
            3 => Parsed::Truncated,
            _ => Parsed::Malformed,
        }
    }

    /// Source and destination address, when there is an IP header.
    #[must_use]
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let w = &*self.0;
        let l3 = w.l3 as usize;
        let at = |from: usize, n: usize| w.b.get(l3 + from..l3 + from + n);
        match w.family {
            4 => {
                let take = |from| Some(IpAddr::from(<[u8; 4]>::try_from(at(from, 4)?).ok()?));
                Some((take(12)?, take(16)?))
            }
            6 => {
                let take = |from| Some(IpAddr::from(<[u8; 16]>::try_from(at(from, 16)?).ok()?));
                Some((take(8)?, take(24)?))
            }
            _ => None,
        }
    }

    /// Source and destination port; zero unless [`Parsed::Ports`].
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (self.0.sport as u16, self.0.dport as u16)
    }

    /// Source of the Ethernet header.
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        let w = &*self.0;
        (w.link == Link::Ethernet as u32 && w.caplen >= 14).then(|| [6, 7, 8, 9, 10, 11].map(|n| w.b[n]))
    }

    /// What a rule could learn from it.
    pub(crate) fn matters(&mut self) -> Matters {
        // SAFETY: `w` has the layout that C expects.
        match unsafe { ffi::takt_native_matters(&mut *self.0) } {
            0 => Matters::Not,
            1 => Matters::WithOthers,
            _ => Matters::Alone,
        }
    }

    /// What RTP has there, after a monitor has seen the packet.
    pub(crate) fn rtp(&self) -> Option<RtpFields> {
        let w = &*self.0;
        let at = w.b.get(w.media as usize..)?.get(..12)?;
        let word = |n: usize| u32::from_be_bytes([at[n], at[n + 1], at[n + 2], at[n + 3]]);
        (w.mediacap >= 12 && at[0] >> 6 == 2).then(|| RtpFields {
            seq: u16::from_be_bytes([at[2], at[3]]),
            timestamp: word(4),
            ssrc: word(8),
        })
    }

    /// Of a packet with ports: the same for each copy of it that another device shows.
    pub(crate) fn copy_key(&self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let w = &*self.0;
        let word = |at: u32| w.b.get(at as usize..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
        // IPv4 has an id, which tells an immediate repeat from a copy.
        let id = if w.family == 4 { word(w.l3 + 4) & 0xffff } else { 0 };
        let ports = u64::from(w.sport) << 48 | u64::from(w.dport) << 32 | u64::from(w.paylen);
        [ports, word(w.pay), word(w.pay + 8)].iter().fold(id, |hash, w| (hash.rotate_left(23) ^ w).wrapping_mul(ODD))
    }

    /// Of a cooked capture: by which device, and in which direction, as far as it says.
    pub(crate) fn device(&self) -> u32 {
        let b = &self.0.b;
        match self.0.link {
            link if link == Link::Sll as u32 => u32::from(b[1]),
            link if link == Link::Sll2 as u32 => {
                u32::from_be_bytes([b[4], b[5], b[6], b[7]]) << 3 | u32::from(b[10] & 7)
            }
            _ => 0,
        }
    }

    /// Whether the capture's head tells the direction only.
    pub(crate) fn is_cooked_v1(&self) -> bool {
        self.0.link == Link::Sll as u32
    }

    /// Protocol above IP: 6 is TCP, 17 is UDP.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.0.proto as u8
    }

    /// Length of the payload of UDP or TCP in bytes, on the wire.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.0.paylen
    }
}

/// What a rule could learn from a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matters {
    /// Nothing: a monitor would only count it.
    Not,
    /// It could be one of a stream's.
    WithOthers,
    /// It decides.
    Alone,
}

/// Why and when a VM became real-time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The detector's name (`rtp`, `rtsp`), or `port` for a port that the user named.
    pub rule: &'static str,
    /// Packets of the real-time stream seen up to the verdict, this one included.
    pub after: u32,
}

/// What a packet or a timer changed. In one call a demotion comes before a promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// This packet was a real-time packet.
    pub rt_packet: bool,
    pub demoted: bool,
    pub promoted: Option<Promotion>,
    /// The period to report; 0 means that it is undefined (rule D2).
    pub period: Option<u64>,
    /// Nothing new, but the lease has to be renewed.
    pub renew: bool,
    /// How long whatever is reported now may be believed.
    pub lease: u64,
}

impl Outcome {
    pub(crate) fn of(w: &Work) -> Self {
        let on = |bit| w.events & bit != 0;
        Self {
            rt_packet: on(ffi::EV_PACKET),
            demoted: on(ffi::EV_DEMOTE),
            promoted: on(ffi::EV_SET_RT).then(|| Promotion { rule: rule_name(w.rule), after: w.after }),
            period: on(ffi::EV_PERIOD).then_some(w.period),
            renew: on(ffi::EV_RENEW),
            lease: w.lease,
        }
    }
}

/// What a monitor has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub packets: u64,
    pub rt_packets: u64,
    pub fragments: u64,
    pub truncated: u64,
    pub malformed: u64,
    pub promotions: u32,
    pub demotions: u32,
}

/// One VM's monitor.
pub struct Monitor {
    /// `struct takt_mon`, which has the alignment of a `u64`.
    state: Box<[u64]>,
    timer: Packet,
}

impl Monitor {
    /// # Errors
    /// A parameter out of its range.
    pub fn new(config: &Config) -> Result<Self> {
        let raw = config.raw()?;
        // SAFETY: a constant function.
        let size = unsafe { ffi::takt_native_mon_size() } as usize;
        let mut monitor = Self { state: vec![0; size / 8].into_boxed_slice(), timer: Packet::new() };
        // SAFETY: the state has the size that C asked for, and is zero.
        unsafe { ffi::takt_native_init(monitor.ptr(), &raw) };
        Ok(monitor)
    }

    /// As new, with the configuration of `raw`; its memory is used again.
    pub(crate) fn reset(&mut self, raw: &RawConfig) {
        self.state.fill(0);
        // SAFETY: as in `new`.
        unsafe { ffi::takt_native_init(self.ptr(), raw) };
    }

    fn ptr(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    fn head(&self) -> &Head {
        // SAFETY: `Head` is the beginning of the state (tested in ffi.rs) and consists of integers.
        unsafe { &*self.state.as_ptr().cast() }
    }

    /// The user names a source port of the VM's application; it survives demotions (rule M5).
    pub fn add_port(&mut self, port: u16) {
        // SAFETY: as in `new`.
        unsafe { ffi::takt_native_port(self.ptr(), port.into(), 1) }
    }

    pub fn remove_port(&mut self, port: u16) {
        // SAFETY: as in `new`.
        unsafe { ffi::takt_native_port(self.ptr(), port.into(), 0) }
    }

    /// Whether the port is in the port set, named or learned.
    pub fn has_port(&mut self, port: u16) -> bool {
        // SAFETY: as in `new`.
        unsafe { ffi::takt_native_port_test(self.ptr(), port.into()) != 0 }
    }

    /// A packet that the VM sent at `now`. Time that goes back counts as no time.
    pub fn packet(&mut self, packet: &mut Packet, now: u64) -> Outcome {
        // SAFETY: both have the layout that C expects.
        unsafe { ffi::takt_native_packet(self.ptr(), &mut *packet.0, now) };
        Outcome::of(&packet.0)
    }

    /// To be called every [`REPORT_NS`]: reports a changed period, demotes a silent VM.
    pub fn timer(&mut self, now: u64) -> Outcome {
        let state = self.ptr();
        // SAFETY: as above.
        unsafe { ffi::takt_native_timer(state, &mut *self.timer.0, now) };
        Outcome::of(&self.timer.0)
    }

    #[must_use]
    pub fn is_rt(&self) -> bool {
        self.head().rt != 0
    }

    /// By which rule it became real-time last; kept after a demotion. `None` if it never was.
    #[must_use]
    pub fn rule(&self) -> Option<&'static str> {
        Some(rule_name(self.head().rule)).filter(|name| !name.is_empty())
    }

    /// The present period; `None` before the second real-time packet (rule D2).
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        let p = self.head().p;
        (p != 0).then_some(p)
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        let h = self.head();
        Counters {
            packets: h.packets.iter().sum(),
            rt_packets: h.rt_packets,
            fragments: h.packets[Parsed::Fragment as usize],
            truncated: h.packets[Parsed::Truncated as usize],
            malformed: h.packets[Parsed::Malformed as usize],
            promotions: h.promotions,
            demotions: h.demotions,
        }
    }

    /// The state's bytes, to be compared with those of another host of the same code.
    #[must_use]
    pub fn state(&self) -> &[u64] {
        &self.state
    }
}

/// The name of a rule (`enum takt_rule`): `port`, `rtp`, …; none for 0.
#[must_use]
pub fn rule_name(rule: u32) -> &'static str {
    // SAFETY: C returns a pointer to a constant string for every argument.
    let name = unsafe { CStr::from_ptr(ffi::takt_native_rule(rule)) };
    name.to_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Ethernet, IPv4 and the beginning of UDP, TCP, ICMP or GRE, with a payload of zeros.
    fn plain(proto: u8) -> Vec<u8> {
        let head = match proto {
            6 => vec![3, 232, 7, 208, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x7f, 0xff, 0, 0, 0, 0],
            17 => vec![3, 232, 7, 208, 0, 108, 0, 0],
            _ => vec![0; 20],
        };
        let n = 20 + head.len() + 100;
        let ip = [0x45, 0, 0, n as u8, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&[2; 12][..], &[8, 0], &ip, &head, &[0; 100]].concat()
    }

    /// Plain headers have a way of their own through the parser. It finds what the other way finds in the
    /// same packet behind a VLAN tag.
    #[test]
    fn plain_headers_are_parsed_as_others() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut seen = BTreeMap::new();
        for turn in 0..100_000 {
            let mut data = plain([6, 17, 1, 47][turn % 4]);
            // Anything in the headers but the type, and the end of what is captured or was sent.
            for _ in 0..rng.usize(..3) {
                let at = rng.usize(14..60);
                data[at] = [rng.u8(..), 0, 5, 8, 20, 39, 0x45, 0x50][rng.usize(..8)];
            }
            if rng.bool() {
                data.truncate(rng.usize(14..data.len()));
            }
            let len = data.len() + [0, 0, 40][rng.usize(..3)];
            let mut tagged = data.clone();
            tagged.splice(12..12, [0x81, 0, 0, 9]);
            let fields = |data: &[u8], len: usize, tag: u32| {
                let mut p = Packet::new();
                let parsed = p.load(Link::Ethernet, data, len);
                let w = &p.0;
                let from = |at: u32| at.saturating_sub(tag);
                (
                    parsed,
                    [
                        w.family,
                        w.proto,
                        w.sport,
                        w.dport,
                        w.paylen,
                        w.paycap,
                        from(w.l3),
                        from(w.pay),
                        from(w.inner),
                        w.tunnel,
                    ],
                )
            };
            let of = fields(&data, len, 0);
            assert_eq!(of, fields(&tagged, len + 4, 4), "{len}: {data:02x?}");
            *seen.entry(format!("{:?}", of.0)).or_insert(0) += 1;
        }
        assert!(seen.len() == 5 && seen.values().all(|&n| n > 300), "{seen:?}");
    }
}
