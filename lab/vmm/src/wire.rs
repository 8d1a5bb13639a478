// SPDX-License-Identifier: GPL-2.0-or-later
//! What a VM's packets come from and go to: a tap, or the sockets of an application's VMs and clients.

use anyhow::{Context, Result, ensure};
use etherparse::Ipv4Header;
use nix::sys::socket::{setsockopt, sockopt};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::clock::tsc;
use crate::layout::{FRAME, MAX_CLIENTS};
use crate::name::address;
use crate::packet::{Incoming, Mac, classify};
use crate::spec::Workload;
use crate::{packet, tap};

/// Bytes that a socket holds of what its peer has not taken yet: more than messages can be under way.
const BUFFER: usize = 1 << 20;

pub enum Wire {
    Tap {
        tap: File,
        mac: Mac,
        ip: Ipv4Addr,
        /// Nobody reads the rx ring of a VM that only sends.
        receives: bool,
        /// Frames that leave together.
        together: Option<Together>,
    },
    Messages {
        socket: Socket,
        peers: Vec<SocketAddr>,
    },
}

impl Wire {
    /// The one that a workload has, if it has one.
    pub fn open(workload: &Workload) -> Result<Option<Self>> {
        if let Workload::Fanout(site) = workload {
            let peers = site.peers.iter().map(|name| address(name)).collect::<Result<_>>()?;
            return Ok(Some(Self::Messages { socket: Socket::bind(&site.socket)?, peers }));
        }
        let Some(net) = workload.net() else { return Ok(None) };
        let together = match *workload {
            Workload::Source { segments: true, burst, .. } => Some(Together::new(burst as usize)),
            _ => None,
        };
        let (tap, mac) = (tap::open(&net.tap, together.is_some())?, packet::parse_mac(&net.mac)?);
        let receives = matches!(workload, Workload::Echo { .. });
        Ok(Some(Self::Tap { tap, mac, ip: net.ip, receives, together }))
    }

    /// The next packet; does not wait for one.
    pub fn read(&mut self, frame: &mut [u8; FRAME]) -> Result<Option<usize>> {
        let read = match self {
            Self::Tap { tap, .. } => tap.read(frame),
            Self::Messages { socket, .. } => socket.0.recv(frame),
        };
        match read {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e).with_context(|| format!("{} cannot be read", self.name())),
        }
    }

    /// What a packet is to the VM.
    pub fn judge(&self, frame: &[u8]) -> Incoming {
        match *self {
            Self::Tap { mac, ip, receives, .. } => match classify(frame, mac, ip) {
                Incoming::Guest(_) if !receives => Incoming::Other,
                other => other,
            },
            Self::Messages { .. } => Message::read(frame).map_or(Incoming::Other, |m| Incoming::Guest(Some(m.sent))),
        }
    }

    /// Whether there was room for it.
    pub fn write(&mut self, frame: &[u8]) -> Result<bool> {
        let written = match self {
            Self::Tap { tap, together: Some(together), .. } => match together.add(frame)? {
                Some(whole) => tap.write(whole).map(drop),
                None => Ok(()),
            },
            Self::Tap { tap, .. } => tap.write(frame).map(drop),
            Self::Messages { socket, peers } => {
                let message = Message::read(frame).context("the guest sends what is no message")?;
                let to = peers.get(message.to as usize);
                let to = to.with_context(|| format!("the guest sends to {} of {}", message.to, peers.len()))?;
                socket.send(Message { sent: tsc(), ..message }, to)
            }
        };
        match written {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e).with_context(|| format!("{} cannot be written", self.name())),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Tap { .. } => "the tap",
            Self::Messages { .. } => "the socket",
        }
    }
}

/// What a virtio device with UDP segmentation hands to the host: a burst as one packet, to be cut into parts of one size.
pub struct Together {
    burst: usize,
    /// Virtio's header, the first frame and the payloads of the others.
    whole: Vec<u8>,
    n: usize,
}

impl Together {
    /// `struct virtio_net_hdr`: the check sum is still to be made, and the payload is to be cut.
    const HEADER: usize = 10;
    const NEEDS_CSUM: u8 = 1;
    const GSO_UDP_L4: u8 = 5;
    const ETHERNET: usize = 14;
    const IP: usize = 20;
    const HEADERS: usize = Self::ETHERNET + Self::IP + 8;

    fn new(burst: usize) -> Self {
        Self { burst, whole: Vec::new(), n: 0 }
    }

    /// The packet, when this was the last frame of its burst. All frames have the headers of [`packet::template`].
    fn add(&mut self, frame: &[u8]) -> Result<Option<&[u8]>> {
        ensure!(frame.len() > Self::HEADERS, "a frame without a payload cannot be a segment");
        if self.n == self.burst || self.n == 0 {
            let (start, size) = (Self::ETHERNET + Self::IP, frame.len() - Self::HEADERS);
            self.n = 0;
            self.whole.clear();
            self.whole.extend([Self::NEEDS_CSUM, Self::GSO_UDP_L4]);
            for word in [Self::HEADERS, size, start, 6] {
                self.whole.extend((word as u16).to_ne_bytes());
            }
            self.whole.extend(frame);
        } else {
            self.whole.extend(&frame[Self::HEADERS..]);
        }
        self.n += 1;
        if self.n < self.burst {
            return Ok(None);
        }
        let frame = &mut self.whole[Self::HEADER..];
        let udp =
            u16::try_from(frame.len() - Self::ETHERNET - Self::IP).context("a burst is larger than a packet may be")?;
        let (mut ip, _) =
            Ipv4Header::from_slice(&frame[Self::ETHERNET..]).context("the guest sends what is no IPv4")?;
        ip.set_payload_len(udp.into()).context("a burst is larger than a packet may be")?;
        ip.header_checksum = ip.calc_header_checksum();
        frame[Self::ETHERNET..Self::ETHERNET + Self::IP].copy_from_slice(&ip.to_bytes());
        frame[Self::HEADERS - 4..Self::HEADERS - 2].copy_from_slice(&udp.to_be_bytes());
        Ok(Some(&self.whole))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap { tap, .. } => tap.as_fd(),
            Self::Messages { socket, .. } => socket.0.as_fd(),
        }
    }
}

/// Between two VMs of an application, or one and a client: `struct guest_message`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Place among the sender's peers.
    pub to: u64,
    /// TSC.
    pub sent: u64,
    pub client: u64,
    /// It asks, or answers.
    pub request: bool,
    /// Computed for an answer.
    pub parts: u64,
}

impl Message {
    pub const LEN: usize = 40;

    pub fn write(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let words = [self.to, self.sent, self.client, self.request.into(), self.parts];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// None if it is no message that a guest could take.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        let (client, request) = (word(2), word(3));
        (client < MAX_CLIENTS as u64 && request < 2).then(|| Self {
            to: word(0),
            sent: word(1),
            client,
            request: request == 1,
            parts: word(4),
        })
    }
}

/// A datagram socket with a name in the abstract namespace, which goes with it.
pub struct Socket(UnixDatagram);

impl Socket {
    /// Reads and writes do not block.
    pub fn bind(name: &str) -> Result<Self> {
        let address = address(name)?;
        let bind = || -> Result<Self> {
            let socket = Self(UnixDatagram::bind_addr(&address)?);
            socket.0.set_nonblocking(true)?;
            setsockopt(&socket.0, sockopt::SndBuf, &BUFFER)?;
            Ok(socket)
        };
        bind().with_context(|| format!("socket {name}"))
    }

    /// One that is gone needs no message any more.
    pub fn send(&self, message: Message, to: &SocketAddr) -> io::Result<()> {
        match self.0.send_to_addr(&message.write(), to) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => Ok(()),
            sent => sent.map(drop),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = Message { to: 3, sent: 1 << 40, client: 255, request: true, parts: 8 };
        assert_eq!(Message::read(&message.write()), Some(message));
        let none = [Message { client: 256, ..message }.write().to_vec(), message.write()[..32].to_vec(), vec![2; 40]];
        assert!(none.iter().all(|bytes| Message::read(bytes).is_none()));
    }

    #[test]
    fn messages_go_by_name_and_one_that_is_gone_loses_its_own() {
        let name = |end: &str| format!("takt-test-{}-{end}", std::process::id());
        let messages = |end: &str, peer: &str| Wire::Messages {
            socket: Socket::bind(&name(end)).unwrap(),
            peers: vec![address(&name("nobody")).unwrap(), address(&name(peer)).unwrap()],
        };
        let (mut a, mut b, mut frame) = (messages("a", "b"), messages("b", "a"), [0; FRAME]);
        assert_eq!(b.read(&mut frame).unwrap(), None);
        let message = |to| Message { to, client: 7, ..Message::default() }.write();
        assert!(a.write(&message(0)).unwrap() && a.write(&message(1)).unwrap());
        let n = b.read(&mut frame).unwrap().unwrap();
        let Incoming::Guest(Some(sent)) = b.judge(&frame[..n]) else { panic!("{:?}", b.judge(&frame[..n])) };
        assert!(sent > 0 && Message::read(&frame[..n]).unwrap().client == 7);
        assert_eq!(a.write(&message(2)).unwrap_err().to_string(), "the guest sends to 2 of 2");
        assert_eq!(b.judge(b"x"), Incoming::Other);
        let taken = Socket::bind(&name("a")).err().map(|e| format!("{e:#}")).unwrap();
        assert!(taken.starts_with(&format!("socket {}: ", name("a"))), "{taken}");
    }
}
