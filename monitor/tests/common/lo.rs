// SPDX-License-Identifier: GPL-2.0-only
//! Captures what crosses the loopback device; needs CAP_NET_RAW.

use super::Capture;
use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub struct Sniffer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Capture>,
}

impl Sniffer {
    pub fn start() -> Result<Self> {
        let socket = open()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut capture = Capture::default();
            while !seen.load(Ordering::Relaxed) {
                capture.0.extend(receive(&socket));
            }
            capture
        });
        Ok(Self { stop, thread })
    }

    pub fn finish(self) -> Capture {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("sniffer")
    }
}

fn check(ret: i32) -> Result<i32> {
    if ret < 0 { Err(Error::last_os_error()) } else { Ok(ret) }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> Result<i32> {
    // SAFETY: the value lives through the call and has the size that is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    })
}

fn open() -> Result<OwnedFd> {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain system calls; the address is as large as is said, and the descriptor is ours.
    unsafe {
        let fd = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, all.into()))?;
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = check(libc::if_nametoindex(c"lo".as_ptr()) as i32)?;
        check(libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32))?;
        set(&socket, libc::SO_TIMESTAMPNS, &1i32)?;
        set(&socket, libc::SO_RCVBUF, &(8i32 << 20))?;
        set(&socket, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 100_000 })?;
        Ok(socket)
    }
}

/// One packet with the kernel's time; `None` on time-out and for the second copy that loopback shows of each.
fn receive(socket: &OwnedFd) -> Option<(u64, Vec<u8>, usize)> {
    let mut data = vec![0u8; 65_536];
    let mut control = [0u64; 16];
    // SAFETY: all buffers outlive the call; control messages are read only as far as the kernel filled them.
    unsafe {
        let mut from: libc::sockaddr_ll = zeroed();
        let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let n = libc::recvmsg(socket.as_raw_fd(), &mut message, 0);
        if n <= 0 || from.sll_pkttype == libc::PACKET_OUTGOING {
            return None;
        }
        data.truncate(n as usize);
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null() || (*head).cmsg_type != libc::SCM_TIMESTAMPNS {
            return None;
        }
        let at: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(head).cast());
        let time = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
        Some((time, data, n as usize))
    }
}
