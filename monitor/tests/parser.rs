// SPDX-License-Identifier: GPL-2.0-only
//! Vectors of the packet parser.

mod common;
use common::{Rng, bytes, flow};
use proptest::prelude::*;
use takt_monitor::{Config, Link, Monitor, Packet, Parsed};

const V4: (&str, &str) = ("10.0.0.1", "10.0.0.2");
const V6: (&str, &str) = ("fd00::1", "fd00::2");

fn parse(link: Link, data: &[u8]) -> (Parsed, Packet) {
    let mut p = Packet::new();
    (p.load(link, data, data.len()), p)
}

#[track_caller]
fn assert_ports(link: Link, data: &[u8], payload: u32) {
    let (parsed, p) = parse(link, data);
    assert_eq!((parsed, p.ports(), p.payload_len()), (Parsed::Ports, (1000, 2000), payload));
}

#[test]
fn link_layers_tags_and_options() {
    for (src, dst) in [V4, V6] {
        let mut f = flow(src, dst, 1000, 2000);
        let plain = f.udp(b"hello");
        let tcp = f.tcp(b"hello");
        assert_ports(Link::Ethernet, &plain, 5);
        assert_ports(Link::Ethernet, &tcp, 5);
        assert_ports(Link::Raw, &plain[14..], 5);
        assert_ports(Link::Null, &[&[2, 0, 0, 0], &plain[14..]].concat(), 5);
        let mut sll = vec![0; 14];
        sll.extend(&plain[12..]);
        assert_ports(Link::Sll, &sll, 5);
        let mut sll2 = plain[12..14].to_vec();
        sll2.resize(20, 0);
        sll2.extend(&plain[14..]);
        assert_ports(Link::Sll2, &sll2, 5);
        let (_, p) = parse(Link::Ethernet, &plain);
        assert_eq!(p.addresses(), Some((f.src, f.dst)));
        for tags in [vec![0x8100], vec![0x88a8, 0x8100]] {
            f.vlan = tags;
            assert_ports(Link::Ethernet, &f.udp(b"hello"), 5);
        }
        f.vlan = vec![0x8100; 3];
        assert_eq!(parse(Link::Ethernet, &f.udp(b"hello")).0, Parsed::Other);
    }
    let mut f = flow(V4.0, V4.1, 1000, 2000);
    f.options = 40;
    assert_ports(Link::Ethernet, &f.udp(b"hello"), 5);
}

/// UDP behind a chain of IPv6 extension headers.
fn with_extensions(kinds: &[u8]) -> Vec<u8> {
    let f = flow(V6.0, V6.1, 1000, 2000);
    let udp = f.udp(b"hello")[54..].to_vec();
    let mut l4 = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let next = kinds.get(i + 1).copied().unwrap_or(17);
        match kind {
            44 => l4.extend([next, 0, 0, 1, 0, 0, 0, 9]), // the first fragment, more follow
            51 => l4.extend([[next, 4, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8]].concat()),
            _ => l4.extend([[next, 1, 1, 4, 0, 0, 0, 0], [0; 8]].concat()),
        }
    }
    l4.extend(udp);
    f.frame(kinds[0], &l4, 0)
}

#[test]
fn ipv6_extension_headers() {
    assert_ports(Link::Ethernet, &with_extensions(&[0, 60, 43, 135, 51, 44]), 5);
    assert_ports(Link::Ethernet, &with_extensions(&[60; 8]), 5);
    assert_eq!(parse(Link::Ethernet, &with_extensions(&[60; 9])).0, Parsed::Other);
    let far = parse(Link::Ethernet, &with_extensions(&[60; 20])).0;
    assert_eq!(far, Parsed::Other, "a chain beyond what is looked at");
    assert_eq!(parse(Link::Ethernet, &with_extensions(&[59])).0, Parsed::Other);
}

#[test]
fn fragments_have_no_ports() {
    let f = flow(V4.0, V4.1, 1000, 2000);
    let udp = f.udp(b"hello")[34..].to_vec();
    assert_eq!(parse(Link::Ethernet, &f.frame(17, &udp, 0x2000)).0, Parsed::Ports, "the first one has");
    for field in [0x2001, 0x0001, 0x1fff, 0x1000] {
        let (parsed, p) = parse(Link::Ethernet, &f.frame(17, &udp, field));
        assert_eq!((parsed, p.ports()), (Parsed::Fragment, (0, 0)));
    }
    let f6 = flow(V6.0, V6.1, 1000, 2000);
    let later = [&[17, 0, 0x05, 0xa9, 0, 0, 0, 9], &udp[..]].concat();
    assert_eq!(parse(Link::Ethernet, &f6.frame(44, &later, 0)).0, Parsed::Fragment);
}

#[test]
fn every_cut_is_truncated_or_malformed_never_misread() {
    for (src, dst) in [V4, V6] {
        let f = flow(src, dst, 1000, 2000);
        for (data, need) in [(f.udp(&[7; 300]), 8), (f.tcp(&[7; 300]), 20)] {
            let l4 = data.len() - 300 - need;
            for cut in 0..data.len() {
                let mut p = Packet::new();
                let want = if cut < l4 + need { Parsed::Truncated } else { Parsed::Ports };
                assert_eq!(p.load(Link::Ethernet, &data[..cut], data.len()), want, "cut at {cut}");
                if cut < l4 + need {
                    let whole = p.load(Link::Ethernet, &data[..cut], cut);
                    assert_eq!(whole, Parsed::Malformed, "{cut} bytes and no more");
                }
            }
        }
    }
}

#[test]
fn contradictions_are_malformed() {
    let f = flow(V4.0, V4.1, 1000, 2000);
    let spoil = |at: usize, value: u8, tcp: bool| {
        let mut data = if tcp { f.tcp(b"hello") } else { f.udp(b"hello") };
        data[at] = value;
        parse(Link::Ethernet, &data).0
    };
    assert_eq!(spoil(14, 0x44, false), Parsed::Malformed, "header shorter than 20 bytes");
    assert_eq!(spoil(17, 19, false), Parsed::Malformed, "total shorter than the header");
    assert_eq!(spoil(39, 7, false), Parsed::Malformed, "UDP shorter than its header");
    assert_eq!(spoil(46, 0x40, true), Parsed::Malformed, "TCP header shorter than 20 bytes");
    assert_eq!(spoil(46, 0xf0, true), Parsed::Malformed, "TCP header longer than the packet");
    assert_eq!(spoil(14, 0x55, false), Parsed::Other, "IP version 5");
    assert_eq!(spoil(12, 0x01, false), Parsed::Other, "802.3 length instead of a type");
    assert_eq!(spoil(23, 1, false), Parsed::Other, "ICMP");
}

#[test]
fn ethernet_padding_is_no_payload() {
    let mut data = flow(V4.0, V4.1, 1000, 2000).udp(b"");
    data.resize(60, 0);
    assert_ports(Link::Ethernet, &data, 0);
    let mut data = flow(V4.0, V4.1, 1000, 2000).tcp(b"");
    data.resize(60, 0);
    assert_ports(Link::Ethernet, &data, 0);
    let mut data = flow(V4.0, V4.1, 1000, 2000).udp(b"hello");
    data[39] = 10; // UDP ends before IP does
    assert_ports(Link::Ethernet, &data, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]
    #[test]
    fn random_bytes_never_break_the_monitor(
        seed: u64, link in 0usize..5, start in 0usize..5, n in 0usize..400, more in 0usize..2000,
    ) {
        let link = [Link::Ethernet, Link::Raw, Link::Null, Link::Sll, Link::Sll2][link];
        let mut rng = Rng::with_seed(seed);
        let mut m = Monitor::new(&Config::default()).expect("configuration");
        let mut p = Packet::new();
        for i in 0..20 {
            let f = flow(V4.0, V4.1, 1000, 2000);
            let base = [vec![], f.udp(b""), f.tcp(b""), with_extensions(&[0, 60]), f.udp(&[0x80, 0])][start].clone();
            let mut data = [base, bytes(&mut rng, n)].concat();
            for _ in 0..rng.u64(..4) {
                let at = rng.u64(..data.len().max(1) as u64) as usize;
                if let Some(b) = data.get_mut(at) { *b = rng.u64(..) as u8; }
            }
            let parsed = p.load(link, &data, data.len() + more);
            prop_assert!(parsed == Parsed::Ports || p.ports() == (0, 0));
            prop_assert!(p.payload_len() as usize <= data.len() + more);
            m.packet(&mut p, i * 1_000_000);
        }
        prop_assert_eq!(m.counters().packets, 20);
        prop_assert!(!m.is_rt() || start != 4, "random bytes after 0x80 are no stream");
    }
}
