// SPDX-License-Identifier: GPL-2.0-only
//! A mixed bag of packets: streams plain and carried, tunnels, lookalikes, what is no media, text,
//! fragments, cuts and noise.

use super::{Flow, MS, Rng, bytes, flow, rtp};
use takt_monitor::Link;

/// One of 24 streams of sound or pictures: its packet at `now`.
pub fn stream(rng: &mut Rng, now: u64, turn: u64) -> (u64, Vec<u8>) {
    let which = rng.u64(..24);
    let (seq, clock) = (turn as u16 / 24, if which % 2 == 0 { now / 125_000 } else { now * 9 / 100_000 / 1500 * 1500 });
    let mut p = rtp(96 + (which % 4) as u8, seq, which as u32);
    p[4..8].copy_from_slice(&(clock as u32).to_be_bytes());
    if which == 5 {
        p[4..8].fill(0);
    }
    p.resize(if which % 2 == 0 { 172 } else { 12 + rng.u64(..1000) as usize }, 7);
    (which, p)
}

/// A packet of the bag: link, bytes, and the size of the parts that the device is to cut it into.
pub fn packet(rng: &mut Rng, turn: u64, now: u64) -> (Link, Vec<u8>, u32) {
    let v6 = rng.u64(..4) == 0;
    let mut f: Flow = if v6 { flow("fd00::1", "fd00::2", 0, 9) } else { flow("10.0.0.1", "10.0.0.2", 0, 9) };
    f.sport = 5000 + rng.u64(..6) as u16;
    if rng.u64(..4) == 0 {
        f.vlan = vec![0x8100; 1 + rng.u64(..2) as usize];
    }
    f.options = if rng.u64(..6) == 0 { 8 } else { 0 };
    let n = rng.u64(..300) as usize;
    let mut data = match rng.u64(..20) {
        0..=3 => f.udp(&rtp(96 + rng.u64(..4) as u8, (turn / 4 + rng.u64(..8)) as u16, f.sport.into())),
        4 => f.udp(&[&[0x80, 0][..], &bytes(rng, n)].concat()),
        5 => f.tcp(
            [&b"GET / HTTP/1.1\r\n"[..], b"PLAY rtsp://a RTSP/1.0\r\n", b"RTSP/1.0 200 OK", b"\x16\x03\x01"]
                [rng.u64(..4) as usize],
        ),
        6 if !v6 => f.frame(17, &bytes(rng, n), rng.u64(..) as u16 & 0x3fff),
        6 => f.frame(
            [0, 43, 44, 51, 60][rng.u64(..5) as usize],
            &[&[60, 0, 0, 0, 0, 0, 0, 0, 17, 0], &bytes(rng, n)[..]].concat(),
            0,
        ),
        7 => bytes(rng, 15 + n),
        8 => f.udp(&bytes(rng, n)),
        9..=11 => {
            let (which, p) = stream(rng, now, turn);
            f.sport = 6000 + which as u16;
            f.udp(&p)
        }
        12 => {
            let head = [
                &[0x00, 0x01, 0, 0, 0x21, 0x12, 0xa4, 0x42][..],
                &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0],
                &[0x2c, 1, 2, 0, 15, 0, 0, 0],
                &[0x81, 200, 0, 6, 0, 0, 0, 0],
                b"\x10\0\0\0ZRTP",
            ][rng.u64(..5) as usize];
            f.udp(&[head, &bytes(rng, 20)].concat())
        }
        13 => {
            let (which, p) = stream(rng, now, turn);
            f.sport = 6100 + which as u16;
            let size = (p.len() as u16).to_be_bytes();
            match rng.u64(..7) {
                0 => f.udp(&[&[0x40, 1], &size[..], &p].concat()),
                1 => f.tcp(&[&[b'$', 0], &size[..], &p].concat()),
                2 => f.tcp(&[&size[..], &p].concat()),
                3 => f.udp(&[&[5, 0, 0, 0, 0, 0, 0, 4, 15][..], &[0; 18], &p].concat()),
                4 => f.udp(&[&[16][..], &[0; 19], &p].concat()),
                5 => f.udp(&[&[13, 0, 0, 0, 0, 0, 0, 30][..], &[0; 19], &p].concat()),
                _ => {
                    let cookie = [0, 0x16, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    f.udp(&[&cookie[..], &[0, 0x12, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0x13], &size, &p].concat())
                }
            }
        }
        14 | 15 => {
            let (which, p) = stream(rng, now, turn);
            let inner = Flow { vlan: vec![], options: 0, sport: 6200 + which as u16, ..f.clone() };
            let ether = if rng.u64(..4) == 0 { inner.frame(1, &p, 0) } else { inner.udp(&p) };
            let gre = |flags: u8, kind: [u8; 2], more: usize, data: &[u8]| {
                f.frame(47, &[&[flags, 0][..], &kind, &vec![0; more], data].concat(), 0)
            };
            let kind = if v6 { [0x86, 0xdd] } else { [8, 0] };
            match rng.u64(..5) {
                0 => Flow { dport: 2152, ..f.clone() }.udp(&[&[0x30, 0xff, 0, 0, 0, 0, 0, 1], &ether[14..]].concat()),
                1 => Flow { dport: 2152, ..f.clone() }
                    .udp(&[&[0x34, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0], &ether[14..]].concat()),
                2 => Flow { dport: 4789, ..f.clone() }.udp(&[&[8, 0, 0, 0, 0, 0, 1, 0], &ether[..]].concat()),
                3 => gre(0xb0, kind, 12, &ether[14..]),
                _ => gre(0, [0x65, 0x58], 0, &ether),
            }
        }
        16 => {
            let count = 1 + rng.u64(..9) as usize;
            let ts: Vec<u8> = (0..count).flat_map(|_| [&[0x47, 1, 0, 0x10][..], &[0xaa; 184]].concat()).collect();
            f.udp(&ts)
        }
        17 => {
            let call = [0, 5, 0x8005][rng.u64(..3) as usize] | rng.u64(..3) as u16;
            (f.sport, f.dport) = (4569, 4569);
            f.udp(&[&call.to_be_bytes()[..], &((now / MS / 20 * 20) as u16).to_be_bytes(), &[0; 40]].concat())
        }
        _ => {
            let mut cut = f.udp(&bytes(rng, n));
            cut.truncate(15 + rng.u64(..cut.len() as u64 - 14) as usize);
            cut
        }
    };
    for _ in 0..rng.u64(..3).saturating_sub(1) {
        let at = rng.u64(..data.len() as u64) as usize;
        data[at] ^= 1 << rng.u64(..8);
    }
    let segment = if rng.u64(..8) == 0 { 1 + rng.u64(..1400) as u32 } else { 0 };
    let (link, data) = match rng.u64(..8) {
        0 if f.vlan.is_empty() && data.len() >= 34 => (Link::Raw, data[14..].to_vec()),
        1 => (Link::Sll, [&[0, 0], &data[..]].concat()),
        _ => (Link::Ethernet, data),
    };
    (link, data, segment)
}
