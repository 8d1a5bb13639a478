// SPDX-License-Identifier: GPL-2.0-only
//! The bytes that the monitor sees: Ethernet, IPv4, UDP and RTP headers of a flow, or those of what is no media.

/// Ethernet 14, IPv4 20, UDP 8, RTP 12.
pub const HEADERS: usize = 54;
/// Payload of a 20 ms G.711 packet.
const PAYLOAD: usize = 160;
/// Bytes of a packet on the wire.
pub const WIRE_BYTES: usize = HEADERS + PAYLOAD;
/// Samples of a G.711 packet.
const SAMPLES: u32 = 160;

/// Headers of one flow; only sequence and timestamp of RTP change from packet to packet.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; HEADERS],
    /// The first sequence number; `None`: it is no RTP.
    first: Option<u32>,
}

impl Template {
    /// Flow `flow` of VM `vm`: a source port and an SSRC of its own; payload type 0 (G.711 µ-law).
    pub fn new(vm: u32, flow: u32) -> Self {
        let mut bytes = [0; HEADERS];
        let port = (10_000 + flow * 2 % 50_000) as u16;
        let ssrc = 0x5eed_0000u32.wrapping_add(flow.wrapping_mul(2_654_435_761));
        bytes[0..6].copy_from_slice(&[2, 0, 0, 0, 1, 1]);
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, vm as u8]);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&((WIRE_BYTES - 14) as u16).to_be_bytes());
        bytes[22] = 64;
        bytes[23] = 17;
        bytes[26..30].copy_from_slice(&[10, 0, 1, vm as u8]);
        bytes[30..34].copy_from_slice(&[10, 0, 0, 1]);
        bytes[34..36].copy_from_slice(&port.to_be_bytes());
        bytes[36..38].copy_from_slice(&port.to_be_bytes());
        bytes[38..40].copy_from_slice(&((WIRE_BYTES - 34) as u16).to_be_bytes());
        bytes[42] = 0x80;
        bytes[50..54].copy_from_slice(&ssrc.to_be_bytes());
        Self { bytes, first: Some(ssrc >> 16) }
    }

    /// UDP with a payload that begins with a time in seconds, as that of iperf3 does.
    pub fn udp(vm: u32, flow: u32) -> Self {
        let mut of = Self { first: None, ..Self::new(vm, flow) };
        of.bytes[42..54].copy_from_slice(&[0x69, 0x2a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        of
    }

    /// TCP without options.
    pub fn tcp(vm: u32, flow: u32) -> Self {
        let mut of = Self::udp(vm, flow);
        of.bytes[23] = 6;
        of.bytes[38..54].fill(0);
        (of.bytes[46], of.bytes[47]) = (5 << 4, 0x10);
        of
    }

    /// The answer to a ping.
    pub fn icmp(vm: u32) -> Self {
        let mut of = Self::udp(vm, 0);
        of.bytes[23] = 1;
        of.bytes[34..54].fill(0);
        of
    }

    /// The headers of packet `sequence`.
    pub fn packet(&mut self, sequence: u32) -> &[u8] {
        let Some(first) = self.first else { return &self.bytes };
        let number = first.wrapping_add(sequence) as u16;
        self.bytes[44..46].copy_from_slice(&number.to_be_bytes());
        self.bytes[46..50].copy_from_slice(&sequence.wrapping_mul(SAMPLES).to_be_bytes());
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_monitor::{Config, Link, Monitor, Packet, Parsed};

    #[test]
    fn the_monitor_takes_a_flow_for_real_time_within_five_packets() {
        let mut flow = Template::new(1, 3);
        let mut monitor = Monitor::new(&Config::default()).unwrap();
        let mut packet = Packet::new();
        let mut verdict = None;
        for n in 0..10u32 {
            packet.load(Link::Ethernet, flow.packet(n), WIRE_BYTES);
            let outcome = monitor.packet(&mut packet, u64::from(n) * 20_000_000);
            verdict = verdict.or(outcome.promoted.map(|p| (p.rule, n + 1)));
        }
        let (rule, after) = verdict.unwrap();
        assert!(rule == "rtp" && after <= 5, "{rule} after {after}");
        assert_eq!(monitor.period(), Some(20_000_000));
    }

    #[test]
    fn the_monitor_parses_what_is_no_media_and_takes_it_for_none() {
        let other = [Template::udp(1, 3), Template::tcp(1, 3), Template::icmp(1)];
        for (mut flow, parsed) in other.into_iter().zip([Parsed::Ports, Parsed::Ports, Parsed::Other]) {
            let mut monitor = Monitor::new(&Config::default()).unwrap();
            let mut packet = Packet::new();
            for n in 0..100u32 {
                assert_eq!(packet.load(Link::Ethernet, flow.packet(n), WIRE_BYTES), parsed);
                let payload = if parsed == Parsed::Ports { packet.payload_len() } else { 160 };
                assert!((160..=172).contains(&payload));
                assert!(monitor.packet(&mut packet, u64::from(n) * 20_000_000).promoted.is_none());
            }
        }
    }
}
