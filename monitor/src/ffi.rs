// SPDX-License-Identifier: GPL-2.0-only
//! The C side: `core/packet.h`, `core/period.h`, `core/monitor.h`, `core/native.c`. A test compares the sizes.

use std::ffi::{c_char, c_void};

pub const SNAP: usize = 256;

pub const EV_PACKET: u32 = 1;
pub const EV_SET_RT: u32 = 2;
pub const EV_PERIOD: u32 = 4;
pub const EV_RENEW: u32 = 8;
pub const EV_DEMOTE: u32 = 16;

/// What the first byte of a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Link {
    Ethernet,
    /// IPv4 or IPv6 without a link layer.
    Raw,
    /// BSD loopback: four bytes of address family.
    Null,
    /// Linux cooked capture, versions 1 and 2.
    Sll,
    Sll2,
}

/// What the parser made of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Parsed {
    /// UDP or TCP with ports.
    Ports,
    /// Neither IP, nor UDP or TCP on IP.
    Other,
    /// A fragment that is not the first one: it has no ports.
    Fragment,
    /// The capture ends before the ports.
    Truncated,
    /// The packet contradicts itself.
    Malformed,
}

pub const NPARSED: usize = 5;

/// Where a VM's period comes from (`TAKT_PERIODS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PeriodSource {
    /// Exponentially weighted mean of the gaps between real-time packets.
    Ewma,
    /// A given constant.
    Given,
}

/// `struct takt_work`
#[derive(Clone)]
#[repr(C)]
pub struct Work {
    pub zero: u32,
    pub scratch: u32,
    pub link: u32,
    pub caplen: u32,
    pub len: u32,
    pub parsed: u32,
    pub family: u32,
    pub l3: u32,
    pub proto: u32,
    pub sport: u32,
    pub dport: u32,
    pub pay: u32,
    pub paylen: u32,
    pub paycap: u32,
    pub inner: u32,
    pub carried: u32,
    pub media: u32,
    pub medialen: u32,
    pub mediacap: u32,
    pub tunnel: u32,
    pub events: u32,
    pub rule: u32,
    pub after: u32,
    pub segment: u32,
    pub period: u64,
    pub lease: u64,
    pub b: [u8; SNAP],
    pub slack: [u8; 8],
}

/// `struct takt_config`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawConfig {
    pub timeout: u64,
    pub lease: u64,
    pub min_period: u64,
    pub gap_cap: u64,
    pub given: u64,
    pub alpha: u32,
    pub source: u32,
    pub report_min: u32,
    pub pad: u32,
}

/// `struct takt_mon` up to the detectors' state.
#[repr(C)]
pub struct Head {
    pub cfg: RawConfig,
    pub now: u64,
    pub last_rt: u64,
    pub renewed: u64,
    pub p: u64,
    pub p_min: u64,
    pub reported: u64,
    pub packets: [u64; NPARSED],
    pub rt_packets: u64,
    pub promotions: u32,
    pub demotions: u32,
    pub rt: u32,
    pub rule: u32,
}

unsafe extern "C" {
    pub fn takt_native_mon_size() -> u64;
    #[cfg(test)]
    pub fn takt_native_work_size() -> u64;
    #[cfg(test)]
    pub fn takt_native_head_size() -> u64;
    pub fn takt_native_defaults(c: *mut RawConfig);
    pub fn takt_native_init(m: *mut c_void, c: *const RawConfig);
    pub fn takt_native_port(m: *mut c_void, port: u32, on: u32);
    pub fn takt_native_port_test(m: *mut c_void, port: u32) -> u32;
    pub fn takt_native_parse(w: *mut Work) -> u32;
    pub fn takt_native_packet(m: *mut c_void, w: *mut Work, now: u64) -> u32;
    pub fn takt_native_timer(m: *mut c_void, w: *mut Work, now: u64) -> u32;
    pub fn takt_native_matters(w: *mut Work) -> u32;
    pub safe fn takt_native_clock_back() -> u64;
    pub fn takt_native_rule(rule: u32) -> *const c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_agree_with_c() {
        let sizes = unsafe { (takt_native_work_size(), takt_native_head_size()) };
        assert_eq!(size_of::<Work>() as u64, sizes.0);
        assert_eq!(size_of::<Head>() as u64, sizes.1);
    }
}
