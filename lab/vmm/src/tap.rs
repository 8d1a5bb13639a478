// SPDX-License-Identifier: GPL-2.0-or-later
//! The tap device of a VM.

use anyhow::{Context, Result, ensure};
use nix::libc::{self, c_char, ifreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

nix::ioctl_write_int!(tun_set_iff, b'T', 202);
nix::ioctl_read_bad!(get_flags, libc::SIOCGIFFLAGS, ifreq);
nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, ifreq);

/// # Errors
/// The kernel would not take `name` for an interface, or would make another of it.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"/:%".contains(&b);
    let ok = (1..=15).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != "..";
    ensure!(ok, "'{name}' is no name for a network interface (1 to 15 bytes)");
    Ok(())
}

fn request(name: &str) -> ifreq {
    // SAFETY: zeros are a valid ifreq.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request
}

/// Opens the tap `name`, makes it if it is not there (it goes with the process then), and sets it up. Reads do not block. With `offload`
/// each frame has virtio's header before it.
pub fn open(name: &str, offload: bool) -> Result<File> {
    check_name(name)?;
    let ours = !Path::new("/sys/class/net").join(name).exists();
    let mut options = OpenOptions::new();
    let tap = options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .context("/dev/net/tun")?;
    let mut iff = request(name);
    let header = if offload { libc::IFF_VNET_HDR } else { 0 };
    iff.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as i16;
    // SAFETY: TUNSETIFF takes a pointer to an ifreq, which lives until the call is over.
    unsafe { tun_set_iff(tap.as_raw_fd(), (&raw mut iff) as libc::c_ulong) }
        .with_context(|| format!("tap '{name}' cannot be opened"))?;
    if ours {
        // What the host's IPv6 says by itself would be traffic that nobody configured. Absent without IPv6.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    set_up(name).with_context(|| format!("tap '{name}' cannot be set up"))?;
    Ok(tap)
}

fn set_up(name: &str) -> Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut flags = request(name);
    // SAFETY: both calls take a pointer to an ifreq, and the first has filled in the flags when they are read.
    unsafe {
        get_flags(socket.as_raw_fd(), &mut flags)?;
        flags.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
        set_flags(socket.as_raw_fd(), &flags)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces() {
        for good in ["tap0", "vnet-12.3", "a"] {
            check_name(good).unwrap();
        }
        for bad in ["", "sixteen-bytes-xx", "a b", "a/b", "..", "tap%d", "a:1", "ü"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
