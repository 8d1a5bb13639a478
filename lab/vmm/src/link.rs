// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender's way to a VM: over its tap, or through the host's IP stack.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrLike,
    bind, connect, recvmsg, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::clock::realtime_offset;
use crate::packet::{self, End, GUEST_IP, GUEST_MAC, GUEST_PORT, Mark, PEER_IP, PEER_MAC};

#[derive(clap::Args)]
pub struct Way {
    /// Through the VM's tap, past the host's IP stack.
    #[arg(long, value_name = "IFNAME", required_unless_present = "to", conflicts_with = "to")]
    dev: Option<String>,
    /// Through the host's IP stack.
    #[arg(long, value_name = "IP:PORT")]
    to: Option<SocketAddrV4>,
    /// Source port of the first stream (--dev; over --to all streams share the system's choice).
    #[arg(long, default_value_t = 20_000)]
    pub port: u16,
    /// The VM's addresses, as in its spec (--dev).
    #[arg(long, default_value_t = packet::format_mac(GUEST_MAC))]
    mac: String,
    #[arg(long, default_value_t = GUEST_IP)]
    ip: Ipv4Addr,
}

/// Where packets go and answers come from.
pub enum Link {
    Raw { socket: OwnedFd, from: End, to: End },
    Udp(OwnedFd),
}

impl Link {
    pub fn open(way: &Way) -> Result<Self> {
        let link = match (&way.dev, way.to) {
            (Some(dev), _) => {
                let to = End { mac: packet::parse_mac(&way.mac).context("--mac")?, ip: way.ip, port: GUEST_PORT };
                let from = End { mac: PEER_MAC, ip: PEER_IP, port: way.port };
                Self::Raw { socket: raw(dev).with_context(|| format!("--dev {dev}"))?, from, to }
            }
            (None, Some(to)) => Self::Udp(udp(to).with_context(|| format!("--to {to}"))?),
            (None, None) => unreachable!("clap requires one"),
        };
        time(link.socket())?;
        setsockopt(link.socket(), sockopt::RcvBuf, &(4 << 20)).context("SO_RCVBUF")?;
        Ok(link)
    }

    fn socket(&self) -> &OwnedFd {
        match self {
            Self::Raw { socket, .. } | Self::Udp(socket) => socket,
        }
    }

    /// Sends; what the system will not take is lost, as on a wire.
    pub fn send(&self, stream: u64, rtp: &[u8]) -> Result<()> {
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
    pub fn receive(&self) -> Result<Option<(Option<Mark>, u64)>> {
        let mut bytes = [0; 2048];
        let (n, at) = match receive(self.socket(), &mut bytes) {
            Ok(Some(got)) => got,
            Ok(None) => return Ok(None),
            Err(e) if e.downcast_ref() == Some(&Errno::ECONNREFUSED) => return Ok(Some((None, 0))),
            Err(e) => return Err(e),
        };
        let mark = match self {
            Self::Raw { .. } => packet::udp_payload(&bytes[..n]).and_then(Mark::read),
            Self::Udp(_) => Mark::read(&bytes[..n]),
        };
        Ok(Some((mark, at)))
    }
}

/// Has the kernel time what comes in.
pub fn time(socket: &impl AsFd) -> Result<()> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &true).context("SO_TIMESTAMPNS")
}

/// The length of the next packet that has come, and when (CLOCK_MONOTONIC).
pub fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> Result<Option<(usize, u64)>> {
    let mut iov = [IoSliceMut::new(bytes)];
    let mut cmsg = nix::cmsg_space!(TimeSpec);
    let fd = socket.as_fd().as_raw_fd();
    let got = match recvmsg::<()>(fd, &mut iov, Some(&mut cmsg), MsgFlags::MSG_DONTWAIT) {
        Ok(got) => got,
        Err(Errno::EAGAIN) => return Ok(None),
        Err(e) => return Err(e).context("answers cannot be received"),
    };
    let stamp = got.cmsgs().context("a packet's time")?.find_map(|c| match c {
        ControlMessageOwned::ScmTimestampns(at) => Some(at.num_nanoseconds() as u64),
        _ => None,
    });
    let at = stamp.context("the kernel does not time packets")?.saturating_sub(realtime_offset());
    Ok(Some((got.bytes, at)))
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
