// SPDX-License-Identifier: GPL-2.0-only
//! Packets of a capture file: pcap (µs and ns, both byte orders) and pcapng.

use crate::ffi::Link;
use anyhow::{Context, Result, bail, ensure};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The reader's buffer, and the largest block that it may grow to (libpcap's largest packet is 256 KiB).
const BUFFER: usize = 1 << 16;
const LARGEST: usize = 1 << 20;
/// Of a pcapng block: its type, and its length at both ends.
const SMALLEST: u32 = 12;

/// One captured packet.
pub struct Record<'a> {
    /// Time of capture in ns since the epoch of the file.
    pub time: u64,
    pub link: Link,
    pub data: &'a [u8],
    /// Length on the wire.
    pub len: usize,
}

/// Calls `each` for every packet of the file at `path`.
///
/// # Errors
/// The file's name and one reason, when it cannot be read, is not a capture, ends within a record, or has a link type
/// that is not known.
pub fn read(path: &Path, each: impl FnMut(&Record) -> Result<()>) -> Result<()> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    ensure!(!file.metadata().with_context(name)?.is_dir(), "{}: is a directory, not a capture file", path.display());
    read_from(file, each).with_context(name)
}

/// As [`read`], from anything that yields bytes; errors do not name it.
///
/// # Errors
/// See [`read`].
pub fn read_from(source: impl Read + Send, mut each: impl FnMut(&Record) -> Result<()>) -> Result<()> {
    let mut reader = create_reader(BUFFER, source).map_err(|e| match e {
        PcapError::Eof => anyhow::anyhow!("empty file, not a capture"),
        PcapError::ReadError => anyhow::anyhow!("cannot be read"),
        PcapError::Incomplete(_) => anyhow::anyhow!("truncated: ends within the file header"),
        _ => anyhow::anyhow!("not a pcap or pcapng capture"),
    })?;
    let mut state = State::default();
    let mut capacity = BUFFER;
    let mut at = 0;
    loop {
        ensure!(state.has_room(reader.data()), "block {}: malformed", at + 1);
        match reader.next() {
            Ok((size, block)) => {
                at += 1;
                state.block(&block, &mut each).with_context(|| format!("block {at}"))?;
                reader.consume(size);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => reader.refill().map_err(|_| anyhow::anyhow!("cannot be read"))?,
            Err(PcapError::BufferTooSmall) => {
                ensure!(capacity < LARGEST, "block {}: larger than {LARGEST} bytes", at + 1);
                capacity *= 2;
                reader.grow(capacity);
                reader.refill().map_err(|_| anyhow::anyhow!("cannot be read"))?;
            }
            Err(PcapError::UnexpectedEof) => bail!("truncated: ends within block {}", at + 1),
            Err(_) => bail!("block {}: malformed", at + 1),
        }
    }
}

/// What earlier blocks said about later ones.
#[derive(Default)]
struct State {
    legacy: Option<(Link, u64)>,
    /// Order of bytes of the pcapng section.
    big_endian: Option<bool>,
    interfaces: Vec<Interface>,
}

struct Interface {
    link: i32,
    /// Units per second, and seconds to add.
    resolution: u64,
    offset: i64,
}

impl State {
    /// Whether the block that `data` begins with is as long as its own type and lengths. (pcap-parser 0.17 panics at a shorter one of
    /// some types.)
    fn has_room(&self, data: &[u8]) -> bool {
        let (Some(big_endian), Some(&length)) = (self.big_endian, data.get(4..).and_then(|d| d.first_chunk())) else {
            return true;
        };
        (if big_endian { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) }) >= SMALLEST
    }

    fn block(&mut self, block: &PcapBlockOwned, each: &mut impl FnMut(&Record) -> Result<()>) -> Result<()> {
        match block {
            PcapBlockOwned::LegacyHeader(h) => {
                let unit = if h.is_nanosecond_precision() { 1 } else { 1000 };
                self.legacy = Some((link(h.network.0 & 0x03ff_ffff)?, unit));
            }
            PcapBlockOwned::Legacy(b) => {
                let (link, unit) = self.legacy.context("packet before the file header")?;
                each(&Record {
                    time: u64::from(b.ts_sec) * 1_000_000_000 + u64::from(b.ts_usec) * unit,
                    link,
                    data: b.data.get(..b.caplen as usize).unwrap_or(b.data),
                    len: b.origlen as usize,
                })?;
            }
            PcapBlockOwned::NG(Block::SectionHeader(h)) => {
                self.big_endian = Some(h.big_endian());
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(i)) => self.interfaces.push(Interface {
                link: i.linktype.0,
                resolution: resolution(i.if_tsresol).context("impossible time resolution")?,
                offset: i.ts_offset(),
            }),
            PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
                let interface = self
                    .interfaces
                    .get(b.if_id as usize)
                    .with_context(|| format!("packet of interface {}, which is not described", b.if_id))?;
                let units = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
                let ns = i128::from(units) * 1_000_000_000 / i128::from(interface.resolution)
                    + i128::from(interface.offset) * 1_000_000_000;
                each(&Record {
                    time: i64::try_from(ns).ok().and_then(|ns| u64::try_from(ns).ok()).context("impossible time")?,
                    link: link(interface.link)?,
                    data: b.packet_data(),
                    len: b.origlen as usize,
                })?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                bail!("packet without a time (simple packet block)")
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }
}

/// Units per second of `if_tsresol`: a power of ten, or of two with the highest bit. (pcap-parser 0.17 refuses all powers of two.)
fn resolution(exponent: u8) -> Option<u64> {
    let power = u32::from(exponent & 0x7f);
    if exponent & 0x80 == 0 { 10u64.checked_pow(power) } else { 1u64.checked_shl(power) }
}

/// The link types of <https://www.tcpdump.org/linktypes.html> that carry IP the way the parser knows.
fn link(number: i32) -> Result<Link> {
    Ok(match Linktype(number) {
        Linktype::ETHERNET => Link::Ethernet,
        Linktype::NULL | Linktype::LOOP => Link::Null,
        Linktype(12 | 14 | 101 | 228 | 229) => Link::Raw,
        Linktype::LINUX_SLL => Link::Sll,
        Linktype::LINUX_SLL2 => Link::Sll2,
        _ => bail!(
            "link type {number} is not known (Ethernet 1, raw IP 101, 228, 229, loopback 0, 108, Linux cooked 113, 276 are)"
        ),
    })
}
