// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames: what a VM's I/O thread lets in, ARP answers, RTP, and the mark by which a sender knows its packets again.

use anyhow::{Context, Result, ensure};
use etherparse::{ArpEthIpv4Packet, ArpOperation, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use std::net::Ipv4Addr;

pub type Mac = [u8; 6];

// Taps are separate links, so all VMs may have the same addresses. The peer's is that of no interface: the host's IP stack
// leaves alone what is sent to it, and the monitor sees it all the same.
pub const GUEST_MAC: Mac = [0x02, 0x54, 0x4b, 0, 0, 0x01];
pub const PEER_MAC: Mac = [0x02, 0x54, 0x4b, 0, 0, 0xfe];
pub const GUEST_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const GUEST_PORT: u16 = 5004;

pub const RTP_HEADER: usize = 12;
pub const MEDIA: usize = 160; // bytes: 20 ms of G.711
/// A binding response: type, length, cookie (RFC 8489 §5). The length is that of an RTP packet without STUN's header.
pub const STUN: [u8; 8] = [1, 1, 0, (RTP_HEADER + MEDIA - 20) as u8, 0x21, 0x12, 0xa4, 0x42];
const HEADERS: usize = 14 + 20 + 8;
const MAGIC: &[u8; 8] = b"TAKTSEND";

/// One end of a UDP flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub mac: Mac,
    pub ip: Ipv4Addr,
    pub port: u16,
}

/// What a packet is to a VM.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// For the guest; when its sender sent it (TSC), if that says so.
    Guest(Option<u64>),
    /// A question for the guest's address, and the answer to it.
    Question(Vec<u8>),
    Other,
}

pub fn parse_mac(text: &str) -> Result<Mac> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|b| u8::from_str_radix(b, 16))
        .collect::<Result<_, _>>()
        .with_context(|| format!("'{text}' is no MAC address"))?;
    let mac: Mac = bytes.try_into().ok().with_context(|| format!("'{text}' is no MAC address"))?;
    ensure!(mac[0] & 1 == 0, "'{text}' is a group address");
    Ok(mac)
}

pub fn format_mac(mac: Mac) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// Judges `frame` for the guest that has `mac` and `ip`.
pub fn classify(frame: &[u8], mac: Mac, ip: Ipv4Addr) -> Incoming {
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Incoming::Other };
    if !packet.link_exts.is_empty() {
        return Incoming::Other; // the guest does not look for VLAN tags
    }
    match (packet.net, packet.transport) {
        (Some(NetSlice::Ipv4(v4)), Some(TransportSlice::Udp(udp))) => {
            if frame[..6] == mac && v4.header().destination_addr() == ip {
                Incoming::Guest(Mark::read(udp.payload()).map(|m| m.tsc))
            } else {
                Incoming::Other
            }
        }
        (Some(NetSlice::Arp(arp)), _) => {
            let Ok(ask) = arp.to_packet().try_eth_ipv4() else { return Incoming::Other };
            if ask.operation != ArpOperation::REQUEST || ask.target_ipv4_addr() != ip {
                return Incoming::Other;
            }
            let answer = ArpEthIpv4Packet {
                operation: ArpOperation::REPLY,
                sender_mac: mac,
                sender_ipv4: ip.octets(),
                target_mac: ask.sender_mac,
                target_ipv4: ask.sender_ipv4,
            };
            Incoming::Question(build(|out| PacketBuilder::ethernet2(mac, ask.sender_mac).arp(answer.into()).write(out)))
        }
        _ => Incoming::Other,
    }
}

fn build<E: std::fmt::Debug>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame).expect("small frames fit and vectors grow");
    frame
}

/// A UDP frame.
pub fn frame(from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(from.mac, to.mac).ipv4(from.ip.octets(), to.ip.octets(), 64);
    build(|out| builder.udp(from.port, to.port).write(out, payload))
}

/// An RTP packet of G.711's size: valid header (RFC 3550), silence.
pub fn rtp(payload_type: u8, seq: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0xd5; RTP_HEADER + MEDIA];
    packet[0] = 2 << 6;
    packet[1] = payload_type & 0x7f;
    packet[2..4].copy_from_slice(&seq.to_be_bytes());
    packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
    packet[8..12].copy_from_slice(&ssrc.to_be_bytes());
    packet
}

/// The frame that a source guest completes: it changes ports and RTP fields, so it goes without a UDP checksum.
pub fn template(from: End, to: End, payload_type: u8) -> Vec<u8> {
    let mut frame = frame(from, to, &rtp(payload_type, 0, 0, 0));
    frame[HEADERS - 2..HEADERS].fill(0);
    frame
}

/// What a sender writes into the media of its packets, to know the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub tsc: u64,
    pub index: u64,
    pub run: u64,
}

impl Mark {
    const LEN: usize = 32;

    pub fn write(self, rtp: &mut [u8]) {
        let at = &mut rtp[RTP_HEADER..RTP_HEADER + Self::LEN];
        at[..8].copy_from_slice(MAGIC);
        at[8..16].copy_from_slice(&self.tsc.to_le_bytes());
        at[16..24].copy_from_slice(&self.index.to_le_bytes());
        at[24..].copy_from_slice(&self.run.to_le_bytes());
    }

    pub fn read(rtp: &[u8]) -> Option<Self> {
        let at = rtp.get(RTP_HEADER..RTP_HEADER + Self::LEN)?.strip_prefix(MAGIC)?;
        let word = |i: usize| u64::from_le_bytes(at[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        Some(Self { tsc: word(0), index: word(1), run: word(2) })
    }
}

/// The UDP payload of a frame.
pub fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    match SlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Udp(udp) => Some(udp.payload()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: End = End { mac: GUEST_MAC, ip: GUEST_IP, port: GUEST_PORT };
    const PEER: End = End { mac: PEER_MAC, ip: PEER_IP, port: 20_000 };

    #[test]
    fn udp_for_the_guest_is_let_in_with_its_mark() {
        let mut media = rtp(8, 7, 1120, 99);
        assert_eq!(media[..12], [0x80, 8, 0, 7, 0, 0, 4, 0x60, 0, 0, 0, 99]);
        let mark = Mark { tsc: 5, index: 6, run: 7 };
        assert_eq!(classify(&frame(PEER, GUEST, &media), GUEST_MAC, GUEST_IP), Incoming::Guest(None));
        mark.write(&mut media);
        let sent = frame(PEER, GUEST, &media);
        assert_eq!(sent.len(), 214);
        assert_eq!(classify(&sent, GUEST_MAC, GUEST_IP), Incoming::Guest(Some(5)));
        assert_eq!(udp_payload(&sent).and_then(Mark::read), Some(mark));
    }

    #[test]
    fn what_is_not_for_the_guest_stays_out() {
        let sent = frame(PEER, GUEST, b"x");
        assert_eq!(classify(&sent, PEER_MAC, GUEST_IP), Incoming::Other);
        assert_eq!(classify(&sent, GUEST_MAC, PEER_IP), Incoming::Other);
        for cut in 0..sent.len() {
            assert_eq!(classify(&sent[..cut], GUEST_MAC, GUEST_IP), Incoming::Other, "{cut} bytes");
        }
    }

    #[test]
    fn arp_is_answered() {
        let ask = ArpEthIpv4Packet {
            operation: ArpOperation::REQUEST,
            sender_mac: PEER_MAC,
            sender_ipv4: PEER_IP.octets(),
            target_mac: [0; 6],
            target_ipv4: GUEST_IP.octets(),
        };
        let frame = |ask: ArpEthIpv4Packet| {
            build(|out| PacketBuilder::ethernet2(PEER_MAC, [0xff; 6]).arp(ask.to_arp_packet()).write(out))
        };
        let Incoming::Question(answer) = classify(&frame(ask.clone()), GUEST_MAC, GUEST_IP) else {
            panic!("no answer")
        };
        assert_eq!((&answer[..6], &answer[6..12]), (&PEER_MAC[..], &GUEST_MAC[..]));
        assert_eq!(&answer[20..32], &[0, 2, 2, 0x54, 0x4b, 0, 0, 1, 10, 77, 0, 2]);
        let other = ArpEthIpv4Packet { target_ipv4: [10, 77, 0, 3], ..ask };
        assert_eq!(classify(&frame(other), GUEST_MAC, GUEST_IP), Incoming::Other);
    }

    #[test]
    fn a_template_has_no_udp_checksum_and_fits() {
        let t = template(GUEST, PEER, 8);
        assert_eq!(t[40..42], [0, 0]);
        assert!(t.len() <= crate::layout::TEMPLATE);
        assert_eq!(udp_payload(&t).map(<[u8]>::len), Some(172));
    }

    #[test]
    fn mac_addresses() {
        assert_eq!(parse_mac(&format_mac(GUEST_MAC)).unwrap(), GUEST_MAC);
        for bad in ["", "1:2:3", "02:00:00:00:00:0g", "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:00:00"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }
}
