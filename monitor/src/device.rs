// SPDX-License-Identifier: GPL-2.0-only
//! A program on a VM's network device, also on one in another network namespace, for every live host.

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type, bpf_link_create, bpf_link_detach};
use libbpf_rs::query::{LinkInfo, LinkTypeInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Error;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr;

/// How a device is named where it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    Name(String),
    /// By its number; it must have that name, too.
    Numbered(u32, String),
}

/// Which way a VM's packets pass its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    In,
    Out,
}

impl Way {
    /// Where programs see what the VM sends by the device.
    fn sent(self) -> bpf_attach_type {
        if self == Way::In { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS }
    }

    fn received(self) -> bpf_attach_type {
        if self == Way::In { BPF_TCX_EGRESS } else { BPF_TCX_INGRESS }
    }
}

/// `struct device_key`: a device of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    pub netns: u64,
    pub ifindex: u32,
    pub pad: u32,
}

impl Key {
    /// As a map takes it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        [&self.netns.to_ne_bytes()[..], &self.ifindex.to_ne_bytes(), &self.pad.to_ne_bytes()].concat()
    }
}

/// `struct net_times`: a monitor's acts, ns of the monotonic clock, 0 = not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[repr(C)]
pub struct Times {
    /// First packet after a demotion, or after a silence as long as that takes.
    pub first: u64,
    /// When the VM became real-time.
    pub verdict: u64,
    /// Last real-time packet.
    pub last_rt: u64,
    /// When the VM ceased to be real-time.
    pub demoted: u64,
    /// Last packet of any kind.
    pub last: u64,
    /// Reports to the pool, a number.
    pub told: u64,
    /// Packets from the first one up to the verdict.
    pub packets: u32,
    /// Packets of the real-time stream up to the verdict.
    pub after: u32,
    /// What the pool answered last: 0 or a negative error number (`-EBUSY`: the VM must not be real-time).
    pub ret: i32,
    #[serde(skip)]
    pub pad: u32,
}

/// `enum takt_link` of the monitor.
const LINK_ETHER: u32 = 0;
const LINK_RAW: u32 = 1;

/// Programs that see a device's packets until this is dropped.
pub struct Attached {
    pub name: String,
    pub key: Key,
    /// What the device's packets begin with, `enum takt_link`.
    pub link_layer: u32,
    way: Way,
    sends: Link,
    receives: Option<Link>,
}

/// An attachment, which ends when this is dropped. Closing its descriptor would not be enough: a
/// process that any thread is just starting has a copy of the descriptor until it executes its
/// program, and the same program cannot be attached twice.
struct Link(OwnedFd);

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open. The call fails if the device is gone, and the attachment
        // with it.
        unsafe { bpf_link_detach(self.0.as_raw_fd()) };
    }
}

impl Link {
    /// Attaches `program` to a device of the present network namespace, which messages call `name`.
    fn new(program: BorrowedFd, name: &str, ifindex: u32, place: bpf_attach_type) -> Result<Self> {
        // SAFETY: the descriptor is open; without options there is nothing else to read.
        let fd = unsafe { bpf_link_create(program.as_raw_fd(), ifindex as i32, place, ptr::null()) };
        ensure!(fd >= 0, "{name}: cannot attach to the device: {}", Error::from_raw_os_error(-fd));
        // SAFETY: the descriptor is new and ours.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl Attached {
    /// Attaches `sends` to the device in the present network namespace.
    fn new(handle: &Handle, way: Way, sends: BorrowedFd) -> Result<Self> {
        let (name, ifindex) = resolve(handle)?;
        let socket = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0")).context("socket")?;
        let key = Key { netns: cookie(&socket)?, ifindex, pad: 0 };
        let link_layer = link_layer(&socket, &name)?;
        let sends = Link::new(sends, &name, ifindex, way.sent())?;
        Ok(Self { name, key, link_layer, way, sends, receives: None })
    }

    /// Which way the VM sends by it.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
    }

    /// From now on `program` sees what the VM receives by the device, or none does. A device that has
    /// gone receives nothing. `tgid` as for [`attach`].
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn receive(&mut self, tgid: Option<u32>, program: Option<BorrowedFd>) -> Result<()> {
        match program {
            None => self.receives = None,
            Some(_) if self.receives.is_some() || !self.alive() => {}
            Some(program) => {
                let link = || Link::new(program, &self.name, self.key.ifindex, self.way.received());
                self.receives = Some(in_netns(tgid, link)?);
            }
        }
        Ok(())
    }

    /// Whether the device is still there.
    #[must_use]
    pub fn alive(&self) -> bool {
        let info = LinkInfo::from_fd(self.sends.0.as_fd());
        info.is_ok_and(|i| matches!(i.info, LinkTypeInfo::Tcx(tcx) if tcx.ifindex == self.key.ifindex))
    }
}

/// A network namespace; equal if it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Netns(u64, u64);

/// That of process `tgid`, or of this thread.
///
/// # Errors
/// The process has gone.
pub fn netns(tgid: Option<u32>) -> Result<(Netns, File)> {
    let path = tgid.map_or("/proc/thread-self/ns/net".into(), |t| format!("/proc/{t}/ns/net"));
    let file = File::open(&path).with_context(|| path.clone())?;
    let meta = file.metadata().with_context(|| path)?;
    Ok((Netns(meta.dev(), meta.ino()), file))
}

/// Attaches `sends`, the program for what a VM sends, to a device of process `tgid`'s network
/// namespace, or of ours.
///
/// # Errors
/// No such device, a link layer that the monitor does not know, or what the kernel refuses.
pub fn attach(tgid: Option<u32>, handle: &Handle, way: Way, sends: BorrowedFd) -> Result<Attached> {
    in_netns(tgid, || Attached::new(handle, way, sends))
}

/// Does that in process `tgid`'s network namespace, or in ours.
fn in_netns<T: Send>(tgid: Option<u32>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let there = netns(tgid)?;
    if netns(None)?.0 == there.0 {
        return work();
    }
    // A namespace is a thread's: one that ends afterwards goes there.
    let go = || {
        // SAFETY: a plain system call on an open descriptor.
        let failed = unsafe { libc::setns(there.1.as_raw_fd(), libc::CLONE_NEWNET) };
        ensure!(failed == 0, "cannot enter the VMM's network namespace: {}", Error::last_os_error());
        work()
    };
    std::thread::scope(|s| s.spawn(go).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn resolve(handle: &Handle) -> Result<(String, u32)> {
    match handle {
        Handle::Name(name) => {
            let c = CString::new(name.as_str()).with_context(|| format!("{name:?} is not a device name"))?;
            // SAFETY: a string that ends by 0.
            let ifindex = unsafe { libc::if_nametoindex(c.as_ptr()) };
            ensure!(ifindex != 0, "{name}: no such network device");
            Ok((name.clone(), ifindex))
        }
        Handle::Numbered(ifindex, expected) => {
            let mut name = [0; libc::IF_NAMESIZE];
            // SAFETY: the buffer has the size that the function demands.
            let known = unsafe { libc::if_indextoname(*ifindex, name.as_mut_ptr()) };
            ensure!(
                !known.is_null(),
                "{expected}: no network device has its number {ifindex} in the VMM's network namespace"
            );
            // SAFETY: the function has ended the string by 0.
            let name = unsafe { CStr::from_ptr(name.as_ptr()) };
            let name = name.to_string_lossy().into_owned();
            ensure!(
                name == *expected,
                "{expected}: number {ifindex} is another network device in the VMM's network namespace"
            );
            Ok((name, *ifindex))
        }
    }
}

/// The number of the namespace of a socket that BPF programs know it by.
fn cookie(socket: &UdpSocket) -> Result<u64> {
    let mut cookie = 0u64;
    let mut size = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the value lives through the call and has the size that is given.
    let failed = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, value, &mut size)
    };
    ensure!(failed == 0, "cannot determine the network namespace: {}", Error::last_os_error());
    Ok(cookie)
}

fn link_layer(socket: &UdpSocket, name: &str) -> Result<u32> {
    // SAFETY: integers and arrays of them, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()).take(libc::IF_NAMESIZE - 1) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request lives through the call and is what it expects.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    ensure!(failed == 0, "{name}: {}", Error::last_os_error());
    // SAFETY: the call has filled this member.
    known_link(name, unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Of a device with that kind of address (`ARPHRD_…`).
fn known_link(name: &str, address: u16) -> Result<u32> {
    match address {
        libc::ARPHRD_ETHER => Ok(LINK_ETHER),
        libc::ARPHRD_NONE => Ok(LINK_RAW),
        other => anyhow::bail!("{name}: link layer {other} is not supported; allowed: Ethernet {}, none {}", 1, 0xfffe),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixteen_bytes() {
        let key = Key { netns: 0x0102_0304_0506_0708, ifindex: 0x1112_1314, pad: 0 };
        let words = [key.netns.to_ne_bytes().to_vec(), key.ifindex.to_ne_bytes().to_vec(), vec![0; 4]].concat();
        assert_eq!((key.bytes(), size_of::<Key>(), size_of::<Times>()), (words, 16, 64));
    }

    /// The loopback device has number 1 in every namespace.
    #[test]
    fn a_device_is_found_by_name_or_by_number_and_name() {
        let lo = || Ok(("lo".to_owned(), 1));
        let of = |handle| resolve(&handle).map_err(|e| e.to_string());
        assert_eq!(of(Handle::Name("lo".into())), lo());
        assert_eq!(of(Handle::Numbered(1, "lo".into())), lo());
        assert_eq!(of(Handle::Name("no-such".into())).unwrap_err(), "no-such: no such network device");
        assert_eq!(of(Handle::Name("a\0b".into())).unwrap_err(), "\"a\\0b\" is not a device name");
        let other = "mv0: number 1 is another network device in the VMM's network namespace";
        assert_eq!(of(Handle::Numbered(1, "mv0".into())).unwrap_err(), other);
        let none = "mv0: no network device has its number 2147483647 in the VMM's network namespace";
        assert_eq!(of(Handle::Numbered(i32::MAX as u32, "mv0".into())).unwrap_err(), none);
    }

    #[test]
    fn link_layers_are_those_that_the_monitor_knows() {
        assert_eq!((known_link("x", 1).unwrap(), known_link("x", 0xfffe).unwrap()), (0, 1));
        for other in [0, 2, 772, 0xfffd, 0xffff] {
            let want = format!("x: link layer {other} is not supported; allowed: Ethernet 1, none 65534");
            assert_eq!(known_link("x", other).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn a_namespace_is_that_of_the_process() {
        let here = netns(None).unwrap().0;
        assert_eq!(netns(Some(std::process::id())).unwrap().0, here);
        assert!(netns(Some(u32::MAX)).is_err(), "no such process");
        assert_eq!(Netns(1, 2), Netns(1, 2));
        assert!(Netns(1, 2) != Netns(1, 3) && Netns(1, 2) != Netns(2, 2));
    }
}
