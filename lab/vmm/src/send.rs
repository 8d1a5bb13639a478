// SPDX-License-Identifier: GPL-2.0-only
//! The world outside: sends RTP streams to a VM and times the answers.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrLike,
    bind, connect, recvmsg, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::clock::{monotonic, realtime_offset, tsc};
use crate::control::{Alarm, Control, Event};
use crate::packet::{self, End, GUEST_IP, GUEST_MAC, GUEST_PORT, MEDIA, Mark, PEER_IP, PEER_MAC};
use crate::stats::Summary;

const MS: u64 = 1_000_000;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    /// Between two packets of a stream.
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000_000))]
    period_ns: u64,
    /// Streams, spread evenly over the period.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    streams: u64,
    /// Packets of each stream; without it and --duration-ms, until SIGTERM.
    #[arg(long)]
    count: Option<u64>,
    #[arg(long)]
    duration_ms: Option<u64>,
    /// Each packet is sent later by up to this, at random.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000_000_000))]
    jitter_ns: u64,
    /// How long after the start the first packet is due.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000_000_000))]
    phase_ns: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An answer that takes longer is late [default: the period].
    #[arg(long)]
    deadline_ns: Option<u64>,
    /// How long answers to the last packets are waited for.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    grace_ms: u64,
    /// Source port of the first stream (--dev; over --to all streams share the system's choice).
    #[arg(long, default_value_t = 20_000)]
    port: u16,
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(0..=127))]
    payload_type: u8,
    /// The VM's addresses, as in its spec (--dev).
    #[arg(long, default_value_t = packet::format_mac(GUEST_MAC))]
    mac: String,
    #[arg(long, default_value_t = GUEST_IP)]
    ip: Ipv4Addr,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Way {
    /// Through the VM's tap, past the host's IP stack.
    #[arg(long, value_name = "IFNAME")]
    dev: Option<String>,
    /// Through the host's IP stack.
    #[arg(long, value_name = "IP:PORT")]
    to: Option<SocketAddrV4>,
}

#[derive(Serialize)]
struct Report {
    sent: usize,
    received: usize,
    lost: usize,
    late: usize,
    measured_ns: u64,
    /// From sending to the arrival of the answer at the host.
    round_trip: Summary,
    /// How long after it was due a packet was sent.
    send_delay: Summary,
}

/// One packet: when it was sent, and what became of it.
struct Sent {
    at: u64,
    delay: u64,
    answer: Option<u64>,
}

/// Where packets go and answers come from.
enum Link {
    Raw { socket: OwnedFd, from: End, to: End },
    Udp(OwnedFd),
}

impl Link {
    fn open(args: &Args) -> Result<Self> {
        let link = match (&args.way.dev, args.way.to) {
            (Some(dev), _) => {
                let to = End { mac: packet::parse_mac(&args.mac).context("--mac")?, ip: args.ip, port: GUEST_PORT };
                let from = End { mac: PEER_MAC, ip: PEER_IP, port: args.port };
                Self::Raw { socket: raw(dev).with_context(|| format!("--dev {dev}"))?, from, to }
            }
            (None, Some(to)) => Self::Udp(udp(to).with_context(|| format!("--to {to}"))?),
            (None, None) => unreachable!("clap requires one"),
        };
        setsockopt(link.socket(), sockopt::ReceiveTimestampns, &true).context("SO_TIMESTAMPNS")?;
        setsockopt(link.socket(), sockopt::RcvBuf, &(4 << 20)).context("SO_RCVBUF")?;
        Ok(link)
    }

    fn socket(&self) -> &OwnedFd {
        match self {
            Self::Raw { socket, .. } | Self::Udp(socket) => socket,
        }
    }

    /// Sends; what the system will not take is lost, as on a wire.
    fn send(&self, stream: u64, rtp: &[u8]) -> Result<()> {
        let bytes = match *self {
            Self::Raw { from, to, .. } => {
                packet::frame(End { port: from.port.wrapping_add(stream as u16), ..from }, to, rtp)
            }
            Self::Udp(_) => rtp.to_vec(),
        };
        match send(self.socket().as_raw_fd(), &bytes, MsgFlags::MSG_DONTWAIT) {
            Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ECONNREFUSED) => Ok(()),
            Err(e) => Err(e).context("a packet cannot be sent"),
        }
    }

    /// The next packet that has come and when (CLOCK_MONOTONIC), if it is marked.
    fn receive(&self) -> Result<Option<(Option<Mark>, u64)>> {
        let mut bytes = [0; 2048];
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let mut cmsg = nix::cmsg_space!(TimeSpec);
        let got = match recvmsg::<()>(self.socket().as_raw_fd(), &mut iov, Some(&mut cmsg), MsgFlags::MSG_DONTWAIT) {
            Ok(got) => got,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::ECONNREFUSED) => return Ok(Some((None, 0))),
            Err(e) => return Err(e).context("answers cannot be received"),
        };
        let stamp = got.cmsgs().context("a packet's time")?.find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(at) => Some(at.num_nanoseconds() as u64),
            _ => None,
        });
        let at = stamp.context("the kernel does not time packets")?.saturating_sub(realtime_offset());
        let n = got.bytes;
        let mark = match self {
            Self::Raw { .. } => packet::udp_payload(&bytes[..n]).and_then(Mark::read),
            Self::Udp(_) => Mark::read(&bytes[..n]),
        };
        Ok(Some((mark, at)))
    }
}

/// A socket that sees the IP packets which come in by `dev`.
fn raw(dev: &str) -> Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(dev).context("no such interface")?;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthIp)?;
    // SAFETY: zeros are a valid sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    at.sll_ifindex = index as i32;
    // SAFETY: a sockaddr_ll of its size and family.
    let at = unsafe { LinkAddr::from_raw((&raw const at).cast(), Some(size_of_val(&at) as u32)) };
    bind(socket.as_raw_fd(), &at.context("no link address")?)?;
    Ok(socket)
}

fn udp(to: SocketAddrV4) -> Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(socket)
}

/// When which packet is due. Equal seeds give equal plans.
struct Plan {
    due: BinaryHeap<Reverse<(u64, u64, u64)>>, // time, stream, number
    rng: Pcg64Mcg,
    start: u64,
    period: u64,
    streams: u64,
    jitter: u64,
    count: u64,
}

impl Plan {
    fn new(args: &Args, start: u64) -> Self {
        let count = args.duration_ms.map_or(u64::MAX, |ms| (ms * MS).div_ceil(args.period_ns));
        let mut plan = Self {
            due: BinaryHeap::new(),
            rng: Pcg64Mcg::seed_from_u64(args.seed),
            start: start + args.phase_ns,
            period: args.period_ns,
            streams: args.streams,
            jitter: args.jitter_ns,
            count: args.count.unwrap_or(u64::MAX).min(count),
        };
        (0..plan.streams).for_each(|stream| plan.add(stream, 0));
        plan
    }

    fn add(&mut self, stream: u64, number: u64) {
        if number < self.count {
            let late = if self.jitter > 0 { self.rng.next_u64() % (self.jitter + 1) } else { 0 };
            let at = self.start + number * self.period + stream * self.period / self.streams + late;
            self.due.push(Reverse((at, stream, number)));
        }
    }

    fn next(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn take(&mut self) -> Option<(u64, u64, u64)> {
        let Reverse((at, stream, number)) = self.due.pop()?;
        self.add(stream, number + 1);
        Some((at, stream, number))
    }
}

pub fn run(args: &Args) -> Result<String> {
    let ports = u64::from(args.port) + args.streams - 1;
    ensure!(ports <= u16::MAX.into(), "--port {} leaves no room for {} streams", args.port, args.streams);
    let link = Link::open(args)?;
    let mut control = Control::new(false)?;
    nix::sys::prctl::set_timerslack(1).context("timer slack")?;
    realtime_offset(); // read once, before anything is timed
    let begin = monotonic();
    let mut plan = Plan::new(args, begin);
    let mut sent: Vec<Sent> = Vec::new();
    let (mut from, mut measured_from, mut stop) = (0, begin, None);
    loop {
        let alarm = stop.or(plan.next());
        if alarm.is_none() {
            stop = Some(monotonic() + args.grace_ms * MS);
            continue;
        }
        match control.wait(Alarm::first(alarm, None))? {
            Event::Mark => (from, measured_from) = (sent.len(), monotonic()),
            Event::End => stop = Some(monotonic() + args.grace_ms * MS),
            Event::Alarm | Event::Command(_) => {}
        }
        receive(&link, &mut sent, begin)?;
        if stop.is_some_and(|at| monotonic() >= at) {
            break;
        }
        while stop.is_none() && plan.next().is_some_and(|at| at <= monotonic()) {
            let Some((at, stream, number)) = plan.take() else { break };
            // RFC 3550: sequence and timestamp count on; 8 kHz, as G.711 has it.
            let mut rtp =
                packet::rtp(args.payload_type, number as u16, (number * MEDIA as u64) as u32, stream as u32 + 1);
            let now = monotonic();
            Mark { tsc: tsc(), index: sent.len() as u64, run: begin }.write(&mut rtp);
            sent.push(Sent { at: now, delay: now.saturating_sub(at), answer: None });
            link.send(stream, &rtp)?;
        }
    }
    let end = monotonic() - args.grace_ms * MS;
    let report = report(&sent[from..], end.saturating_sub(measured_from), args.deadline_ns.unwrap_or(args.period_ns));
    Ok(serde_json::to_string(&report)?)
}

fn receive(link: &Link, sent: &mut [Sent], run: u64) -> Result<()> {
    while let Some((mark, at)) = link.receive()? {
        let Some(mark) = mark.filter(|m| m.run == run) else { continue };
        if let Some(packet) = sent.get_mut(mark.index as usize) {
            packet.answer.get_or_insert(at.saturating_sub(packet.at));
        }
    }
    Ok(())
}

fn report(sent: &[Sent], measured_ns: u64, deadline: u64) -> Report {
    let answers: Vec<u64> = sent.iter().filter_map(|s| s.answer).collect();
    Report {
        sent: sent.len(),
        received: answers.len(),
        lost: sent.len() - answers.len(),
        late: answers.iter().filter(|&&t| t > deadline).count(),
        measured_ns,
        round_trip: Summary::of(&answers),
        send_delay: Summary::of(&sent.iter().map(|s| s.delay).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(streams: u64, jitter: u64, seed: u64) -> Plan {
        Plan::new(
            &Args {
                way: Way { dev: None, to: None },
                period_ns: 1000,
                streams,
                count: Some(3),
                duration_ms: None,
                jitter_ns: jitter,
                phase_ns: 50,
                seed,
                deadline_ns: None,
                grace_ms: 0,
                port: 1,
                payload_type: 8,
                mac: String::new(),
                ip: GUEST_IP,
            },
            100,
        )
    }

    fn all(mut plan: Plan) -> Vec<(u64, u64, u64)> {
        std::iter::from_fn(|| plan.take()).collect()
    }

    #[test]
    fn streams_are_spread_over_the_period() {
        let due = all(plan(2, 0, 1));
        assert_eq!(due, [(150, 0, 0), (650, 1, 0), (1150, 0, 1), (1650, 1, 1), (2150, 0, 2), (2650, 1, 2)]);
    }

    #[test]
    fn jitter_is_bounded_and_repeats_with_the_seed() {
        let due = all(plan(1, 300, 7));
        assert!(due.iter().all(|&(at, _, n)| (0..=300).contains(&(at - 150 - 1000 * n))), "{due:?}");
        assert_eq!(due, all(plan(1, 300, 7)));
        assert_ne!(due, all(plan(1, 300, 8)));
    }

    #[test]
    fn a_report_counts_lost_and_late() {
        let packet = |answer| Sent { at: 0, delay: 1, answer };
        let r = report(&[packet(Some(5)), packet(None), packet(Some(50))], 9, 10);
        assert_eq!((r.sent, r.received, r.lost, r.late, r.round_trip.max_ns), (3, 2, 1, 1, 50));
    }
}
