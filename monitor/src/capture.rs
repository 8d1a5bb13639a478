// SPDX-License-Identifier: GPL-2.0-only
//! Packets of a capture file: pcap (µs, ns and Kuznetzov's, both orders of bytes) and pcapng, plain or compressed by gzip or zstd.
//!
//! People's captures end within a packet, have interfaces of a link type that nobody knows, and blocks that are spoiled. What is whole is
//! read; what is not, is told in warnings.

use crate::ffi::Link;
use anyhow::{Context, Result, bail, ensure};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The reader's buffer, and the largest block that it may grow to (libpcap's largest packet is 256 KiB).
const BUFFER: usize = 1 << 16;
const LARGEST: usize = 1 << 20;
/// Of a pcapng block: its type, and its length at both ends.
const SMALLEST: u32 = 12;
/// Different reasons to leave out packets that are told apart.
const REASONS: usize = 16;
/// The name of standard input.
pub const STDIN: &str = "-";

/// One captured packet.
pub struct Record<'a> {
    /// Time of capture in ns since the epoch of the file.
    pub time: u64,
    /// `None`: of a link type that is not known, or of no time; it can only be counted.
    pub link: Option<Link>,
    pub data: &'a [u8],
    /// Length on the wire.
    pub len: usize,
    /// The interface of a pcapng section on which it was captured.
    pub interface: u32,
}

/// Calls `each` for every packet of the file at `path`, or of standard input for `-`. Returns what was not whole, a line each.
///
/// # Errors
/// The file's name and one reason, when nothing of it can be read: it is not there, no capture, ends within its header, or has a link
/// type that is not known. Whatever `each` returns.
pub fn read(path: &Path, each: impl FnMut(&Record) -> Result<()>) -> Result<Vec<String>> {
    if path == Path::new(STDIN) {
        return read_from(std::io::stdin(), each).context("standard input");
    }
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    ensure!(!file.metadata().with_context(name)?.is_dir(), "{}: is a directory, not a capture file", path.display());
    read_from(file, each).with_context(name)
}

/// As [`read`], from anything that yields bytes; neither errors nor warnings name it.
///
/// # Errors
/// See [`read`].
pub fn read_from(source: impl Read + Send, mut each: impl FnMut(&Record) -> Result<()>) -> Result<Vec<String>> {
    let source = decompressed(source)?;
    let mut reader = create_reader(BUFFER, source).map_err(|e| match e {
        PcapError::Eof => anyhow::anyhow!("empty file, not a capture"),
        PcapError::ReadError => anyhow::anyhow!("cannot be read"),
        PcapError::Incomplete(_) => anyhow::anyhow!("truncated: ends within the file header"),
        _ => anyhow::anyhow!("not a pcap or pcapng capture"),
    })?;
    let mut state = State::default();
    let mut at = 0;
    let stopped = blocks(&mut *reader, &mut state, &mut at, &mut each)?;
    match stopped {
        Some(reason) if at == 0 => bail!("{reason}"),
        stopped => Ok(state.warnings().chain(stopped).collect()),
    }
}

/// Bytes of what is compressed, by its first bytes.
fn decompressed<'a>(source: impl Read + Send + 'a) -> Result<Box<dyn Read + Send + 'a>> {
    let mut source = BufReader::with_capacity(BUFFER, source);
    let head = source.fill_buf().context("cannot be read")?;
    Ok(match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd { source: Some(source), frame: None }),
        [b's', b'n', b'o', b'o', b'p', 0, ..] => {
            bail!("a snoop file; convert it with editcap -F pcapng")
        }
        _ => Box::new(source),
    })
}

/// All frames of a zstd file, one after the other (its decoder reads one).
struct Zstd<R: Read> {
    source: Option<R>,
    frame: Option<ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let n = frame.read(to)?;
                if n > 0 || to.is_empty() {
                    return Ok(n);
                }
                self.source = self.frame.take().map(ruzstd::decoding::StreamingDecoder::into_inner);
            }
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if source.fill_buf()?.is_empty() {
                self.source = Some(source);
                return Ok(0);
            }
            let frame = ruzstd::decoding::StreamingDecoder::new(source);
            self.frame = Some(frame.map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.to_string()))?);
        }
    }
}

/// Reads to the end, or until nothing can be read any more: then the reason. `at` is the number of whole blocks.
fn blocks(
    reader: &mut (dyn PcapReaderIterator + Send + '_),
    state: &mut State,
    at: &mut u64,
    each: &mut impl FnMut(&Record) -> Result<()>,
) -> Result<Option<String>> {
    let mut capacity = BUFFER;
    loop {
        let next = *at + 1;
        if !state.has_room(reader.data()) {
            return Ok(Some(format!("block {next}: malformed")));
        }
        match reader.next() {
            Ok((size, block)) => {
                *at = next;
                state.block(&block, each).with_context(|| format!("block {next}"))?;
                reader.consume(size);
            }
            Err(PcapError::Eof) => return Ok(None),
            Err(PcapError::Incomplete(_)) => {
                if reader.refill().is_err() {
                    return Ok(Some(format!("block {next}: cannot be read, the file is damaged or ends early")));
                }
            }
            Err(PcapError::BufferTooSmall) => {
                if capacity >= LARGEST {
                    return Ok(Some(format!("block {next}: larger than {LARGEST} bytes")));
                }
                capacity *= 2;
                reader.grow(capacity);
                if reader.refill().is_err() {
                    return Ok(Some(format!("block {next}: cannot be read, the file is damaged or ends early")));
                }
            }
            Err(PcapError::UnexpectedEof) => return Ok(Some(format!("truncated: ends within block {next}"))),
            Err(_) => return Ok(Some(format!("block {next}: malformed"))),
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
    /// Why packets were left out, and how many.
    left_out: BTreeMap<String, u64>,
}

struct Interface {
    link: i32,
    /// Units per second, and seconds to add.
    resolution: Option<u64>,
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

    fn warnings(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|(why, n)| format!("{n} packets skipped: {why}"))
    }

    /// A packet that can only be counted.
    fn leave_out(&mut self, why: &str, each: &mut impl FnMut(&Record) -> Result<()>) -> Result<()> {
        let why = if self.left_out.len() < REASONS || self.left_out.contains_key(why) { why } else { "other reasons" };
        *self.left_out.entry(why.to_owned()).or_default() += 1;
        each(&Record { time: 0, link: None, data: &[], len: 0, interface: 0 })
    }

    fn block(&mut self, block: &PcapBlockOwned, each: &mut impl FnMut(&Record) -> Result<()>) -> Result<()> {
        match block {
            PcapBlockOwned::LegacyHeader(h) => {
                let unit = if h.is_nanosecond_precision() { 1 } else { 1000 };
                let number = h.network.0 & 0x03ff_ffff;
                self.legacy = Some((link(number).with_context(|| unknown_link(number))?, unit));
            }
            PcapBlockOwned::Legacy(b) => {
                let (link, unit) = self.legacy.context("packet before the file header")?;
                each(&Record {
                    time: u64::from(b.ts_sec) * 1_000_000_000 + u64::from(b.ts_usec) * unit,
                    link: Some(link),
                    data: b.data,
                    len: b.origlen as usize,
                    interface: 0,
                })?;
            }
            PcapBlockOwned::NG(Block::SectionHeader(h)) => {
                self.big_endian = Some(h.big_endian());
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(i)) => self.interfaces.push(Interface {
                link: i.linktype.0,
                resolution: resolution(i.if_tsresol),
                offset: i.ts_offset(),
            }),
            PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
                let Some(interface) = self.interfaces.get(b.if_id as usize) else {
                    return self.leave_out("their interface is not described", each);
                };
                let Some(link) = link(interface.link) else {
                    let why = unknown_link(interface.link);
                    return self.leave_out(&why, each);
                };
                let units = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
                let Some(time) = interface.time(units) else { return self.leave_out("impossible timestamp", each) };
                let (data, len) = (b.packet_data(), b.origlen as usize);
                each(&Record { time, link: Some(link), data, len, interface: b.if_id })?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                self.leave_out("they have no timestamp (simple packet blocks)", each)?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }
}

impl Interface {
    /// ns since the epoch.
    fn time(&self, units: u64) -> Option<u64> {
        let ns =
            i128::from(units) * 1_000_000_000 / i128::from(self.resolution?) + i128::from(self.offset) * 1_000_000_000;
        i64::try_from(ns).ok().and_then(|ns| u64::try_from(ns).ok())
    }
}

/// Units per second of `if_tsresol`: a power of ten, or of two with the highest bit. (pcap-parser 0.17 refuses all powers of two.)
fn resolution(exponent: u8) -> Option<u64> {
    let power = u32::from(exponent & 0x7f);
    if exponent & 0x80 == 0 { 10u64.checked_pow(power) } else { 1u64.checked_shl(power) }
}

/// The link types of <https://www.tcpdump.org/linktypes.html> that carry IP the way the parser knows.
fn link(number: i32) -> Option<Link> {
    Some(match Linktype(number) {
        Linktype::ETHERNET => Link::Ethernet,
        Linktype::NULL | Linktype::LOOP => Link::Null,
        Linktype(12 | 14 | 101 | 228 | 229) => Link::Raw,
        Linktype::LINUX_SLL => Link::Sll,
        Linktype::LINUX_SLL2 => Link::Sll2,
        _ => return None,
    })
}

fn unknown_link(number: i32) -> String {
    format!(
        "link type {number} is not supported; allowed: Ethernet 1, raw IP 101, 228, 229, loopback 0, 108, Linux cooked 113, 276"
    )
}
