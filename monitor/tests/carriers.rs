// SPDX-License-Identifier: GPL-2.0-only
//! Media that is not RTP at the beginning of a datagram: what carries it, the tunnels, MPEG-TS and IAX2, each with its negative twin.

mod common;
use common::{Flow, MS, Rng, bytes, flow, monitor, rtp, send, send_cut};
use takt_monitor::{Link, Packet, Parsed};

fn v4(sport: u16, dport: u16) -> Flow {
    flow("10.0.0.1", "10.0.0.2", sport, dport)
}

/// Rule and packets up to the verdict, of packets 20 ms apart.
fn found(packet: impl Fn(u16) -> Vec<u8>) -> Option<(&'static str, usize)> {
    let mut m = monitor();
    let at = (0..40u16).position(|n| send(&mut m, &packet(n), u64::from(n) * 20 * MS).promoted.is_some());
    at.map(|n| (m.rule().expect("rule"), n + 1))
}

const RTP: Option<(&str, usize)> = Some(("rtp", 4));

/// `payload` with bytes before it and padding behind.
fn framed(head: &[u8], payload: &[u8], padding: usize) -> Vec<u8> {
    [head, payload, &vec![0; padding]].concat()
}

#[test]
fn turn_channels_carry_rtp() {
    let channel = |channel: u16, more: i32, padding: usize| {
        found(|n| {
            let media = rtp(111, n, 7);
            let head = [channel.to_be_bytes(), ((media.len() as i32 + more) as u16).to_be_bytes()].concat();
            v4(3478, 50_000).udp(&framed(&head, &media, padding))
        })
    };
    for number in [0x4000, 0x4001, 0x4fff] {
        assert_eq!(channel(number, 0, 0), RTP, "{number:x}");
        assert_eq!(channel(number, 0, 3), RTP, "padded to four bytes");
    }
    assert_eq!(channel(0x3fff, 0, 0), None);
    assert_eq!(channel(0x5000, 0, 0), None);
    assert_eq!(channel(0x4001, 1, 0), None, "longer than the datagram");
    assert_eq!(channel(0x4001, 0, 4), None, "something else follows");
    assert_eq!(channel(0x4001, -4, 0), None);
    // What is no media stays none when it is relayed.
    let mut m = monitor();
    let relayed = |p: &[u8]| v4(3478, 50_000).udp(&framed(&[0x40, 1, 0, p.len() as u8], p, 0));
    for n in 0..4 {
        send(&mut m, &relayed(&rtp(111, n, 7)), u64::from(n) * 20 * MS);
    }
    assert!(m.is_rt() && send(&mut m, &relayed(&rtp(111, 4, 7)), 80 * MS).rt_packet);
    let stun = [&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[0; 12]].concat();
    assert!(!send(&mut m, &relayed(&stun), 90 * MS).rt_packet);
    assert!(!send(&mut m, &v4(3478, 50_000).udp(&stun), 90 * MS).rt_packet);
}

#[test]
fn turn_indications_carry_rtp() {
    let indication = |kind: u16, cookie: u32, attributes: &[(u16, usize)], lie: i32| {
        found(|n| {
            let mut body = Vec::new();
            for &(kind, size) in attributes {
                body.extend(kind.to_be_bytes());
                let data = if kind == 0x13 { rtp(96, n, 7) } else { vec![1; size] };
                body.extend(((data.len() as i32 + if kind == 0x13 { lie } else { 0 }) as u16).to_be_bytes());
                body.extend(&data);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            let mut p = [kind.to_be_bytes(), (body.len() as u16).to_be_bytes()].concat();
            p.extend(cookie.to_be_bytes());
            p.extend([9; 12]);
            p.extend(body);
            v4(3478, 50_000).udp(&p)
        })
    };
    let (cookie, peer, data) = (0x2112_a442, (0x12, 8), (0x13, 0));
    for kind in [0x16, 0x17] {
        assert_eq!(indication(kind, cookie, &[peer, data], 0), RTP, "{kind:x}");
        assert_eq!(indication(kind, cookie, &[peer, (0x1a, 0), (0x8022, 13), data], 0), RTP);
    }
    assert_eq!(indication(0x16, cookie, &[peer, peer, peer, peer, data], 0), RTP, "four attributes before");
    assert_eq!(indication(0x16, cookie, &[peer, peer, peer, peer, peer, data], 0), None, "five");
    assert_eq!(indication(0x18, cookie, &[peer, data], 0), None, "another method");
    assert_eq!(indication(0x16, cookie ^ 1, &[peer, data], 0), None);
    assert_eq!(indication(0x16, cookie, &[peer, data], 1), None, "longer than the datagram");
    assert_eq!(indication(0x16, cookie, &[peer], 0), None);
}

#[test]
fn tcp_carries_rtp_in_frames() {
    let f = v4(8554, 40_000);
    // "$", channel, length: what follows in the segment is of no account.
    let interleaved = |first: u8, lie: i32| {
        found(|n| {
            let media = rtp(96, n, 7);
            let [high, low] = ((media.len() as i32 + lie) as u16).to_be_bytes();
            f.tcp(&framed(&[first, 0, high, low], &media, 0))
        })
    };
    assert_eq!(interleaved(b'$', 0), RTP);
    assert_eq!(interleaved(b'%', 0), None);
    assert_eq!(interleaved(b'$', -161), None, "shorter than a header");
    // RFC 4571: the length alone, which is that of the segment, or another packet follows.
    let counted = |lie: i32, behind: &'static [u8]| {
        found(|n| {
            let media = rtp(96, n, 7);
            f.tcp(&framed(
                &[((media.len() as i32 + lie) as u16).to_be_bytes(), [0; 2]].concat()[..2],
                &[&media, behind].concat(),
                0,
            ))
        })
    };
    assert_eq!(counted(0, &[]), RTP);
    assert_eq!(counted(1, &[]), None);
    assert_eq!(counted(0, &[0, 172, 0x80, 96]), RTP, "two packets in a segment");
    assert_eq!(counted(0, &[0, 172, 0x40, 96]), None);
    // UDP has no such frames, and RTP at the beginning of a segment is none.
    assert_eq!(found(|n| v4(8554, 40_000).udp(&framed(&[b'$', 0, 0, 172], &rtp(96, n, 7), 0))), None);
    assert_eq!(found(|n| f.tcp(&rtp(96, n, 7))), None);
    // A transfer: random bytes have a length that fits once in 65536 segments.
    let mut rng = Rng::with_seed(3);
    let mut m = monitor();
    for n in 0..20_000u64 {
        let data = bytes(&mut rng, 1400);
        assert_eq!(send(&mut m, &v4(443, 40_000).tcp(&data), n * MS).promoted, None);
    }
}

#[test]
fn zoom_has_headers_of_its_own() {
    let zoom = |head: Vec<u8>| found(|n| v4(8801, 50_000).udp(&framed(&head, &rtp(98, n, 7), 0)));
    let of = |server: Option<u8>, kind: u8, at: Option<(usize, u8)>, size: usize| {
        let mut inner = vec![0; size];
        inner[0] = kind;
        if let Some((at, value)) = at {
            inner[at] = value;
        }
        let outer = server.map_or(vec![], |way| vec![5, 0, 1, 0, 0, 0, 0, way]);
        zoom([outer, inner].concat())
    };
    for server in [Some(0), Some(4), None] {
        assert_eq!(of(server, 15, None, 19), RTP, "sound");
        assert_eq!(of(server, 16, Some((20, 2)), 24), RTP, "pictures");
        assert_eq!(of(server, 16, None, 20), RTP, "pictures, the short header");
        assert_eq!(of(server, 13, Some((7, 30)), 27), RTP, "a screen");
        assert_eq!(of(server, 13, None, 27), None);
        assert_eq!(of(server, 30, None, 20), RTP, "a screen between two");
        assert_eq!(of(server, 14, None, 19), None);
        assert_eq!(of(server, 15, None, 20), None);
    }
    assert_eq!(of(Some(1), 15, None, 19), None, "neither way");
    for kind in [13, 14] {
        assert_eq!(found(|n| v4(8801, 50_000).udp(&framed(&[kind], &rtp(98, n, 7), 0))), None, "no header");
    }
}

#[test]
fn tunnels_are_looked_into() {
    let inner = v4(5004, 5006);
    let ip = |n| inner.udp(&rtp(0, n, 7))[14..].to_vec();
    let ether = |n| inner.udp(&rtp(0, n, 7));
    let vlan = |n| Flow { vlan: vec![0x8100], ..v4(5004, 5006) }.udp(&rtp(0, n, 7));
    let within = |f: &Flow, head: &[u8], data: Vec<u8>| f.udp(&[head, &data].concat());
    for outer in [v4(2152, 2152), flow("fd00::1", "fd00::2", 2152, 2152)] {
        let gtpu = |head: &'static [u8]| found(|n| within(&outer, head, ip(n)));
        assert_eq!(gtpu(&[0x30, 0xff, 0, 200, 0, 0, 0, 7]), RTP);
        assert_eq!(gtpu(&[0x32, 0xff, 0, 200, 0, 0, 0, 7, 0, 1, 0, 0]), RTP, "a sequence number");
        assert_eq!(gtpu(&[0x34, 0xff, 0, 200, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0x10, 9, 0]), RTP, "an extension");
        assert_eq!(gtpu(&[0x30, 0xfe, 0, 200, 0, 0, 0, 7]), None, "no user's data");
        assert_eq!(gtpu(&[0x50, 0xff, 0, 200, 0, 0, 0, 7]), None, "another version");
    }
    let vxlan = |flags: u8, port: u16| found(|n| within(&v4(40_000, port), &[flags, 0, 0, 0, 0, 0, 7, 0], ether(n)));
    assert_eq!((vxlan(8, 4789), vxlan(0, 4789), vxlan(8, 4790)), (RTP, None, None));
    assert_eq!(found(|n| within(&v4(1, 4789), &[8, 0, 0, 0, 0, 0, 7, 0], vlan(n))), RTP);
    let gre = |head: &'static [u8], data: &dyn Fn(u16) -> Vec<u8>| {
        found(|n| v4(0, 0).frame(47, &[head, &data(n)].concat(), 0))
    };
    assert_eq!(gre(&[0, 0, 8, 0], &ip), RTP);
    assert_eq!(gre(&[0, 0, 0x65, 0x58], &ether), RTP);
    assert_eq!(gre(&[0xb0, 0, 8, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3], &ip), RTP, "check sum, key and number");
    assert_eq!(gre(&[0x20, 0, 8, 0, 2, 2, 2, 2], &ip), RTP);
    assert_eq!(gre(&[0x20, 0, 8, 0], &ip), None, "a key that is not there");
    assert_eq!(gre(&[0x40, 0, 8, 0], &ip), None, "routing");
    assert_eq!(gre(&[0, 1, 8, 0], &ip), None, "version 1");
    assert_eq!(gre(&[0, 0, 8, 6], &ip), None, "ARP");
}

/// Ports are those inside, the sender is the outer address; what has no ports inside keeps those of the tunnel.
#[test]
fn a_tunnel_has_the_ports_of_what_it_carries() {
    let mut p = Packet::new();
    let inner = flow("192.0.2.1", "192.0.2.2", 5004, 5006);
    let head = [0x30, 0xff, 0, 0, 0, 0, 0, 7];
    let mut load = |inner: &[u8], cut: usize| {
        let data = v4(2152, 2152).udp(&[&head, inner].concat());
        let parsed = p.load(Link::Ethernet, &data[..data.len() - cut], data.len());
        (parsed, p.ports(), p.addresses().map(|a| a.0.to_string()).unwrap_or_default(), p.payload_len())
    };
    let media = rtp(0, 1, 7);
    let udp = inner.udp(&media)[14..].to_vec();
    let own = |size: usize| (Parsed::Ports, (2152, 2152), "10.0.0.1".to_owned(), size as u32);
    assert_eq!(load(&udp, 0), (Parsed::Ports, (5004, 5006), "10.0.0.1".to_owned(), 172));
    assert_eq!(load(&udp, 172), (Parsed::Ports, (5004, 5006), "10.0.0.1".to_owned(), 172), "cut behind the ports");
    assert_eq!(load(&udp, 173), own(208), "cut before");
    let icmp = inner.frame(1, &[8, 0, 0, 0], 0)[14..].to_vec();
    assert_eq!(load(&icmp, 0), own(32));
    let part = inner.frame(17, &[0; 100], 7)[14..].to_vec();
    assert_eq!(load(&part, 0), own(128), "a fragment");
    assert_eq!(load(&[], 0), own(8));
    // A tunnel in a tunnel is not looked into.
    let twice = inner.udp(&[1; 8])[14..].to_vec();
    let second = flow("192.0.2.1", "192.0.2.2", 2152, 2152).udp(&[&head, &twice[..]].concat())[14..].to_vec();
    assert_eq!(load(&second, 0).1, (2152, 2152));
}

fn ts(packets: usize) -> Vec<u8> {
    (0..packets).flat_map(|_| [&[0x47, 1, 0, 0x10][..], &[0xaa; 184]].concat()).collect()
}

#[test]
fn transport_streams_have_a_sync_byte_each_188_bytes() {
    let f = v4(50_000, 1234);
    let stream = |change: &dyn Fn(&mut Vec<u8>)| {
        found(|_| {
            let mut p = ts(7);
            change(&mut p);
            f.udp(&p)
        })
    };
    let yes = Some(("mpegts", 3));
    assert_eq!(stream(&|_| {}), yes);
    for (count, want) in [(1, None), (2, yes), (8, yes), (9, None)] {
        assert_eq!(stream(&|p| *p = ts(count)), want, "{count} transport packets");
    }
    for at in [0, 188] {
        assert_eq!(stream(&|p| p[at] = 0x46), None, "byte {at}");
        assert_eq!(stream(&|p| p[at + 1] |= 0x80), None, "an error, byte {at}");
        assert_eq!(stream(&|p| p[at + 3] &= 0xcf), None, "nothing follows, byte {at}");
    }
    for size in [1315, 1317, 1316 - 94] {
        assert_eq!(stream(&|p| p.resize(size, 0)), None, "{size} bytes");
    }
    assert_eq!(found(|_| v4(50_000, 1234).tcp(&ts(7))), None);
    // A text of that length.
    let text: Vec<u8> = b"GET / HTTP/1.1\r\nX: ".iter().copied().cycle().take(1316).collect();
    assert_eq!(found(|_| v4(50_000, 1234).udp(&text)), None);
    // Each pair of ports by itself, and none that is a second old.
    assert_eq!(found(|n| v4(50_000 + n % 20, 1234).udp(&ts(7))), None);
    assert_eq!(found(|n| v4(50_000 + n % 2, 1234).udp(&ts(7))), Some(("mpegts", 5)));
    let mut m = monitor();
    for n in 0..10 {
        assert_eq!(send(&mut m, &f.udp(&ts(7)), n * 1001 * MS).promoted, None);
    }
    // Where the second sync byte was not captured, the length and the first decide.
    let mut m = monitor();
    for n in 0..3 {
        send_cut(&mut m, &f.udp(&ts(7)), 96, n * 2 * MS);
    }
    assert!(m.is_rt());
    // The device is to cut what is 45 times as long.
    let segments = |segment: u32| {
        let mut m = monitor();
        let mut p = Packet::new();
        let data = f.udp(&ts(28));
        (0..3).any(|n| {
            p.load_segments(Link::Ethernet, &data[..256], data.len(), segment);
            m.packet(&mut p, n * MS).promoted.is_some()
        })
    };
    assert!(segments(1316) && !segments(0) && !segments(1300));
}

fn mini(call: u16, clock: u32, size: usize) -> Vec<u8> {
    [&call.to_be_bytes()[..], &(clock as u16).to_be_bytes(), &vec![0xd5; size]].concat()
}

#[test]
fn iax_has_a_call_and_a_clock() {
    let call = |sport: u16, dport: u16, number: u16, step: u32, size: usize| {
        found(|n| v4(sport, dport).udp(&mini(number, 65_500 + u32::from(n) * step, size)))
    };
    let yes = Some(("iax2", 4));
    assert_eq!(call(4569, 4569, 5, 20, 160), yes);
    assert_eq!(call(4569, 30_000, 5, 20, 160), yes);
    assert_eq!(call(30_000, 4569, 0x7fff, 20, 1), yes);
    assert_eq!(call(4570, 4570, 5, 20, 160), None, "another port");
    assert_eq!(call(4569, 4569, 0, 20, 160), None, "a meta frame");
    assert_eq!(call(4569, 4569, 0x8005, 20, 160), None, "a full frame");
    assert_eq!(call(4569, 4569, 5, 20, 0), None, "nothing in it");
    for (step, want) in [(0, None), (9, None), (10, yes), (40, yes), (41, None), (201, None)] {
        assert_eq!(call(4569, 4569, 5, step, 160), want, "{step} ms in 20 ms");
    }
    // However even they are, longer steps are none.
    let even = |step: u64| {
        let mut m = monitor();
        let packet = |n: u64| v4(4569, 4569).udp(&mini(5, (n * step) as u32, 160));
        (0..10).any(|n| send(&mut m, &packet(n), n * step * MS).promoted.is_some())
    };
    assert_eq!([even(200), even(201)], [true, false]);
    // Steps that differ, and calls by turns: each has its own clock.
    assert_eq!(found(|n| v4(4569, 4569).udp(&mini(5, u32::from(n) * 20 + u32::from(n % 2), 160))), None);
    assert_eq!(found(|n| v4(4569, 4569).udp(&mini(5 + n % 2, u32::from(n / 2) * 40, 160))), Some(("iax2", 7)));
    let mut rng = Rng::with_seed(2);
    let mut m = monitor();
    for n in 0..20_000 {
        let data = bytes(&mut rng, 30);
        assert_eq!(send(&mut m, &v4(4569, 4569).udp(&data), n * 20 * MS).promoted, None);
    }
    assert_eq!(found(|n| v4(4569, 4569).tcp(&mini(5, u32::from(n) * 20, 160))), None);
}
