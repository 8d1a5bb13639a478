// SPDX-License-Identifier: GPL-2.0-only
//! A VMM as far as the monitor is concerned: a process that holds a tap, in a network namespace of its own.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

fn check(ret: i32) -> Result<()> {
    if ret < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// This thread goes into a new network namespace.
pub fn new_namespace() -> Result<()> {
    // SAFETY: a plain system call.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

fn request(name: &str, flags: i32) -> libc::ifreq {
    // SAFETY: integers and arrays of them, for which zero is a value.
    let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
    r.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
    r.ifr_ifru.ifru_flags = flags as libc::c_short;
    r
}

fn ioctl(fd: RawFd, code: libc::Ioctl, mut request: libc::ifreq) -> Result<()> {
    // SAFETY: the request lives through the call and is what these codes expect.
    check(unsafe { libc::ioctl(fd, code, &raw mut request) })
}

/// A tap of the VMM, which a test writes to as the VM does.
pub struct Tap(File);

impl Tap {
    /// A descriptor without an interface.
    pub fn open() -> Result<Self> {
        Self::open_at("/dev/net/tun")
    }

    /// The descriptor of a macvtap.
    pub fn open_at(path: &str) -> Result<Self> {
        Ok(Self(File::options().read(true).write(true).open(path)?))
    }

    /// Makes the interface `name` in this thread's namespace, if it is not there; up, and for whole frames.
    pub fn create(&self, name: &str) -> Result<()> {
        ioctl(self.0.as_raw_fd(), libc::TUNSETIFF, request(name, libc::IFF_TAP | libc::IFF_NO_PI))?;
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, request(name, libc::IFF_UP))
    }

    pub fn send(&self, frame: &[u8]) {
        (&self.0).write_all(frame).expect("tap");
    }
}

/// A process of this thread's namespace.
pub struct Vmm(Child);

impl Vmm {
    /// One that holds the descriptor of `tap`.
    pub fn holding(tap: &Tap) -> Result<Self> {
        let fd = tap.0.as_raw_fd();
        // A pipe that nobody writes to: it ends with this process at the latest.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(move || check(libc::fcntl(fd, libc::F_SETFD, 0))) };
        Ok(Self(command.spawn()?))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An Ethernet frame with an IPv4 datagram from 10.0.0.1 to 10.0.0.2.
fn frame(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (20 + transport.len() as u16).to_be_bytes();
    f.extend([0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend(transport);
    f
}

pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let header = [port, 4000, len, 0].map(u16::to_be_bytes).concat();
    frame(17, &[header, payload.to_vec()].concat())
}

pub fn tcp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = [port, 40000].map(u16::to_be_bytes).concat();
    header.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0, 64, 0, 0, 0, 0]);
    frame(6, &[header, payload.to_vec()].concat())
}

/// A packet of voice: 20 ms of G.711.
pub fn rtp(sequence: u16) -> Vec<u8> {
    let s = sequence.to_be_bytes();
    let mut p = vec![0x80, 0, s[0], s[1]];
    p.extend((u32::from(sequence) * 160).to_be_bytes());
    p.extend([1, 2, 3, 4]);
    p.resize(12 + 160, 0xd5);
    p
}
