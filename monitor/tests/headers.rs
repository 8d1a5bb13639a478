// SPDX-License-Identifier: GPL-2.0-only
//! Headers of packets: each cut at each byte, each length at both ends of its range, each kind of number and its neighbours.

mod common;
use common::{Flow, flow};
use std::net::IpAddr;
use takt_monitor::{Link, Packet, Parsed};

fn v4() -> Flow {
    flow("10.1.2.3", "10.4.5.6", 1000, 2000)
}

fn v6() -> Flow {
    flow("fd00:1:2:3:4:5:6:7", "fd00:8:9:a:b:c:d:e", 1000, 2000)
}

fn parse(link: Link, data: &[u8], wire: usize) -> Packet {
    let mut p = Packet::new();
    p.load(link, data, wire);
    p
}

fn parsed(data: &[u8]) -> Parsed {
    parse(Link::Ethernet, data, data.len()).parsed()
}

/// Ports are found in all of `data`, whose headers end at `need` and of whose payload there are so many bytes; and in no
/// shorter part of it.
#[track_caller]
fn assert_headers(link: Link, data: &[u8], need: usize, payload: usize, ip: usize, proto: u8) {
    for cut in 0..=data.len().min(need + 2) {
        let p = parse(link, &data[..cut], data.len());
        let want = if cut < need { Parsed::Truncated } else { Parsed::Ports };
        assert_eq!(p.parsed(), want, "{cut} of {need} bytes captured");
        let ports = if cut < need { (0, 0) } else { (1000, 2000) };
        assert_eq!(p.ports(), ports, "{cut} bytes captured");
        let whole = parse(link, &data[..cut], cut);
        assert_eq!(whole.parsed() == Parsed::Ports, cut >= need, "{cut} bytes, all there is");
        if cut < need {
            assert_eq!(whole.parsed(), Parsed::Malformed, "{cut} bytes, all there is");
        }
        let least = match p.addresses() {
            Some((IpAddr::V4(_), _)) => ip + 20,
            Some((IpAddr::V6(_), _)) => ip + 40,
            None => continue,
        };
        assert!(cut >= least, "addresses in {cut} bytes");
    }
    let p = parse(link, data, data.len());
    assert_eq!((p.payload_len() as usize, p.protocol()), (payload, proto));
}

#[test]
fn every_link_layer_is_cut_at_every_byte() {
    for f in [v4(), v6()] {
        let ip = if f.src.is_ipv4() { 20 } else { 40 };
        for (data, head, proto) in [(f.udp(&[7; 20]), 8, 17), (f.tcp(&[7; 20]), 20, 6)] {
            let packet = &data[14..];
            let kind = &data[12..14];
            let links = [
                (Link::Ethernet, data[..14].to_vec()),
                (Link::Raw, vec![]),
                (Link::Null, vec![0xff; 4]),
                (Link::Sll, [&[9; 14][..], kind].concat()),
                (Link::Sll2, [kind, &[9; 18]].concat()),
            ];
            for (link, front) in links {
                let whole = [&front[..], packet].concat();
                assert_headers(link, &whole, front.len() + ip + head, 20, front.len(), proto);
                let p = parse(link, &whole, whole.len());
                assert_eq!(p.addresses(), Some((f.src, f.dst)), "{link:?}");
            }
        }
    }
}

#[test]
fn one_or_two_tags_of_each_kind() {
    for f in [v4(), v6()] {
        let ip = if f.src.is_ipv4() { 20 } else { 40 };
        for outer in [0x8100, 0x88a8, 0x9100] {
            let one = Flow { vlan: vec![outer], ..f.clone() };
            assert_headers(Link::Ethernet, &one.udp(&[7; 20]), 18 + ip + 8, 20, 18, 17);
            let sll = [&[9; 2][..], &one.udp(&[7; 20])].concat();
            assert_headers(Link::Sll, &sll, 20 + ip + 8, 20, 20, 17);
            for inner in [0x8100, 0x88a8, 0x9100] {
                let two = Flow { vlan: vec![outer, inner], ..f.clone() };
                assert_headers(Link::Ethernet, &two.tcp(&[7; 20]), 22 + ip + 20, 20, 22, 6);
                assert_eq!(parse(Link::Ethernet, &two.udp(b""), 200).addresses(), Some((f.src, f.dst)));
                let three = Flow { vlan: vec![outer, inner, outer], ..f.clone() };
                assert_eq!(parsed(&three.udp(&[7; 20])), Parsed::Other);
            }
            for near in [outer - 1, outer + 1, outer ^ 0x100] {
                let other = Flow { vlan: vec![near], ..f.clone() };
                assert_eq!(parsed(&other.udp(&[7; 20])), Parsed::Other, "{near:#x}");
                let second = Flow { vlan: vec![outer, near], ..f.clone() };
                assert_eq!(parsed(&second.udp(&[7; 20])), Parsed::Other, "{outer:#x} {near:#x}");
            }
        }
    }
}

#[test]
fn only_ip_follows_the_link_layer() {
    for (f, kind) in [(v4(), 0x0800u16), (v6(), 0x86dd)] {
        for near in [kind - 1, kind + 1, kind ^ 0x100, kind ^ 0x8000] {
            let mut data = f.udp(b"hello");
            data[12..14].copy_from_slice(&near.to_be_bytes());
            assert_eq!(parsed(&data), Parsed::Other, "{near:#x}");
            assert_eq!(parse(Link::Ethernet, &data, data.len()).addresses(), None);
        }
        for version in 0..16u8 {
            let mut data = f.udp(b"hello");
            data[14] = data[14] & 0x0f | version << 4;
            let own = if f.src.is_ipv4() { 4 } else { 6 };
            assert_eq!(parsed(&data) == Parsed::Ports, version == own, "version {version}");
        }
    }
    // The version decides, not the type: a type of IPv4 before IPv6 is read as what it is.
    let mut data = v6().udp(b"hello");
    data[12..14].copy_from_slice(&[8, 0]);
    assert_eq!(parsed(&data), Parsed::Ports);
}

#[test]
fn every_length_of_the_ipv4_header() {
    for words in 0..16usize {
        let mut f = v4();
        f.options = words.saturating_sub(5) * 4;
        let mut data = f.udp(&[7; 20]);
        data[14] = 0x40 | words as u8;
        if words < 5 {
            assert_eq!(parsed(&data), Parsed::Malformed, "{words} words");
        } else {
            assert_headers(Link::Ethernet, &data, 14 + words * 4 + 8, 20, 14, 17);
        }
    }
}

/// IPv4 with a total length, TCP or UDP, and 20 bytes of payload.
fn total(tcp: bool, options: usize, total: u16) -> Packet {
    let f = Flow { options, ..v4() };
    let mut data = if tcp { f.tcp(&[7; 20]) } else { f.udp(&[7; 20]) };
    data[16..18].copy_from_slice(&total.to_be_bytes());
    if !tcp {
        let at = 34 + options + 4;
        data[at..at + 2].fill(0); // the length of UDP says nothing
    }
    parse(Link::Ethernet, &data, data.len())
}

#[test]
fn the_total_length_of_ipv4_at_both_ends() {
    for (tcp, head) in [(false, 8), (true, 20)] {
        for options in [0, 4, 40] {
            let least = 20 + options as u16 + head;
            for short in [1, 19, 20 + options as u16, least - 1] {
                assert_eq!(total(tcp, options, short).parsed(), Parsed::Malformed, "{short} of {least}");
            }
            for (length, payload) in [(least, 0), (least + 1, 1), (least + 19, 19), (least + 20, 20)] {
                let p = total(tcp, options, length);
                assert_eq!((p.parsed(), p.payload_len()), (Parsed::Ports, payload), "{length}");
            }
            // Longer than what there is, or left to the device: the packet ends where it ends.
            for length in [least + 21, 0xffff, 0] {
                let p = total(tcp, options, length);
                assert_eq!((p.parsed(), p.payload_len()), (Parsed::Ports, 20), "{length}");
            }
        }
    }
}

#[test]
fn the_length_of_udp_at_both_ends() {
    for f in [v4(), v6()] {
        let at = if f.src.is_ipv4() { 38 } else { 58 };
        let with = |length: u16| {
            let mut data = f.udp(&[7; 20]);
            data[at..at + 2].copy_from_slice(&length.to_be_bytes());
            let p = parse(Link::Ethernet, &data, data.len());
            (p.parsed(), p.payload_len())
        };
        for length in 1..8 {
            assert_eq!(with(length).0, Parsed::Malformed, "{length}");
        }
        for (length, payload) in [(8, 0), (9, 1), (27, 19), (28, 20), (29, 20), (0x1008, 20), (0xffff, 20), (0, 20)] {
            assert_eq!(with(length), (Parsed::Ports, payload), "{length}");
        }
    }
}

#[test]
fn every_length_of_the_tcp_header() {
    for f in [v4(), v6()] {
        let at = if f.src.is_ipv4() { 46 } else { 66 };
        for words in 0..16u8 {
            let mut data = f.tcp(&[7; 28]);
            data[at] = words << 4 | 0x0f;
            let p = parse(Link::Ethernet, &data, data.len());
            match words {
                0..5 | 13.. => assert_eq!(p.parsed(), Parsed::Malformed, "{words} words"),
                _ => {
                    assert_eq!((p.parsed(), p.payload_len()), (Parsed::Ports, 48 - u32::from(words) * 4));
                    // Ports are there with the first 20 bytes, wherever options end.
                    let cut = parse(Link::Ethernet, &data[..at + 8], data.len());
                    assert_eq!(cut.parsed(), Parsed::Ports);
                }
            }
        }
    }
}

#[test]
fn every_bit_of_the_fragment_field_of_ipv4() {
    let udp = v4().udp(b"hello")[34..].to_vec();
    for bit in 0..16 {
        let p = parse(Link::Ethernet, &v4().frame(17, &udp, 1 << bit), 100);
        let want = if bit < 13 { Parsed::Fragment } else { Parsed::Ports };
        assert_eq!((p.parsed(), p.addresses()), (want, Some((v4().src, v4().dst))), "bit {bit}");
        assert_eq!(p.protocol(), 17);
    }
}

/// IPv6 with one extension header of `kind` and `bytes` bytes, of which `first` are the second to fourth, then UDP.
fn extended(kind: u8, first: [u8; 3], bytes: usize) -> Vec<u8> {
    let mut l4 = vec![17, first[0], first[1], first[2]];
    l4.resize(bytes, 0xee);
    l4.extend(&v6().udp(&[7; 20])[54..]);
    v6().frame(kind, &l4, 0)
}

#[test]
fn every_kind_and_length_of_extension_headers() {
    for kind in 0..=255u8 {
        for n in [0u8, 1, 2, 3, 8] {
            let bytes = match kind {
                0 | 43 | 60 | 135 => (usize::from(n) + 1) * 8,
                51 => (usize::from(n) + 2) * 4,
                44 => 8,
                6 | 17 => continue,
                _ => {
                    let data = extended(kind, [n, 0, 0], 80);
                    let p = parse(Link::Ethernet, &data, data.len());
                    assert_eq!((p.parsed(), p.protocol()), (Parsed::Other, kind), "kind {kind}");
                    continue;
                }
            };
            let data = extended(kind, [n, 0, 0], bytes);
            assert_headers(Link::Ethernet, &data, 54 + bytes + 8, 20, 14, 17);
        }
    }
}

#[test]
fn every_bit_of_the_fragment_field_of_ipv6() {
    for bit in 0..16 {
        let field = (1u16 << bit).to_be_bytes();
        let p = parse(Link::Ethernet, &extended(44, [0, field[0], field[1]], 8), 100);
        // The lowest bit says that more follow, the next two are reserved.
        let want = if bit < 3 { Parsed::Ports } else { Parsed::Fragment };
        assert_eq!((p.parsed(), p.addresses()), (want, Some((v6().src, v6().dst))), "bit {bit}");
    }
    // A fragment's offset in another header means nothing.
    assert_eq!(parsed(&extended(60, [0, 0xff, 0xff], 8)), Parsed::Ports);
}

#[test]
fn the_payload_length_of_ipv6_at_both_ends() {
    for (tcp, head) in [(false, 8u16), (true, 20)] {
        let with = |length: u16| {
            let mut data = if tcp { v6().tcp(&[7; 20]) } else { v6().udp(&[7; 20]) };
            data[18..20].copy_from_slice(&length.to_be_bytes());
            let p = parse(Link::Ethernet, &data, data.len());
            (p.parsed(), p.payload_len())
        };
        for short in [1, head - 1] {
            assert_eq!(with(short).0, Parsed::Malformed, "{short}");
        }
        for (length, payload) in [(head, 0), (head + 1, 1), (head + 20, 20), (head + 21, 20), (0xffff, 20), (0, 20)] {
            assert_eq!(with(length), (Parsed::Ports, payload), "{length}");
        }
    }
}

#[test]
fn ports_are_read_in_the_order_of_the_network() {
    for (sport, dport) in [(0, 0), (1, 0x100), (0x1234, 0xfedc), (65_535, 1)] {
        for base in [v4(), v6()] {
            let f = Flow { sport, dport, ..base };
            for data in [f.udp(b""), f.tcp(b"")] {
                assert_eq!(parse(Link::Ethernet, &data, data.len()).ports(), (sport, dport));
            }
        }
    }
}

#[test]
fn bytes_beyond_256_are_not_looked_at() {
    // UDP after extension headers that end just at the snapshot's end, or one unit beyond.
    let chain = |units: u8| {
        let bytes = (usize::from(units) + 1) * 8;
        let data = extended(60, [units, 0, 0], bytes);
        (54 + bytes + 8, parse(Link::Ethernet, &data, data.len()).parsed())
    };
    assert_eq!(chain(22), (246, Parsed::Ports));
    assert_eq!(chain(23), (254, Parsed::Ports));
    assert_eq!(chain(24), (262, Parsed::Truncated));
    let long = v4().udp(&[7; 1400]);
    assert_eq!(parse(Link::Ethernet, &long, long.len()).payload_len(), 1400);
    assert_eq!(parse(Link::Ethernet, &long, 5).payload_len(), 1400, "no shorter than what was captured");
}
