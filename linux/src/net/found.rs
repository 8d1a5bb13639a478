// SPDX-License-Identifier: GPL-2.0-only
//! Which network devices a VMM holds, by its file descriptors and its command line.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use takt_monitor::device::Handle;

/// Major and minor number of a character device.
type Number = (u32, u32);

/// `/dev/net/tun`, the same on every Linux.
const TUN: Number = (10, 200);

/// Where files are looked for.
pub struct Machine<'a> {
    /// `/`, or a tree of a test's.
    pub root: &'a Path,
    /// The number of the character device that a path leads to; `None` if it is none.
    pub device: fn(&Path) -> Option<Number>,
}

impl Machine<'static> {
    /// The one that this runs on.
    pub fn live() -> Self {
        Self { root: Path::new("/"), device: character_device }
    }
}

impl Machine<'_> {
    /// The name of the driver that has the major number of a character device, by `/proc/devices`.
    fn driver(&self, number: Number) -> Option<String> {
        let text = fs::read_to_string(self.root.join("proc/devices")).ok()?;
        let characters = text.lines().skip_while(|l| *l != "Character devices:").skip(1).take_while(|l| !l.is_empty());
        let mut all = characters.filter_map(|l| l.trim().split_once(' '));
        all.find(|(major, _)| major.parse() == Ok(number.0)).map(|(_, name)| name.to_owned())
    }

    /// The interface of a macvtap. The kernel's link for the number of its device says it, in whatever namespace it is:
    /// `…/net/NAME/macvtap/tapINDEX`.
    fn macvtap(&self, number: Number) -> Option<Handle> {
        let link = self.root.join(format!("sys/dev/char/{}:{}", number.0, number.1));
        let target = fs::read_link(link).ok()?;
        let mut parts = target.iter().rev().map(|p| p.to_str());
        let index = parts.next()??.strip_prefix("tap")?.parse().ok()?;
        if parts.next()?? != "macvtap" {
            return None;
        }
        let name = parts.next()??.to_owned();
        (parts.next()?? == "net").then_some(Handle::Numbered(index, name))
    }
}

fn character_device(path: &Path) -> Option<Number> {
    let meta = fs::metadata(path).ok().filter(|m| m.file_type().is_char_device())?;
    Some((libc::major(meta.rdev()), libc::minor(meta.rdev())))
}

/// What a process holds.
#[derive(Debug, Default)]
pub struct Found {
    pub taps: BTreeSet<Handle>,
    pub macvtaps: BTreeSet<Handle>,
    /// Network devices whose packets do not pass the host's network stack.
    pub unseen: BTreeSet<&'static str>,
}

impl Found {
    /// Of process `tgid`; an empty one if it is gone.
    pub fn of(machine: &Machine, tgid: u32) -> io::Result<Self> {
        let proc = machine.root.join(format!("proc/{tgid}"));
        let mut found = Self::default();
        match found.descriptors(machine, &proc).and_then(|()| found.command_line(&proc)) {
            Err(e) if gone(&e) => Ok(Self::default()),
            other => other.map(|()| found),
        }
    }

    /// A descriptor is what the number of its device says: its path is whatever the process has made of it, by a mount of
    /// its own or a file of that name.
    fn descriptors(&mut self, machine: &Machine, proc: &Path) -> io::Result<()> {
        for entry in fs::read_dir(proc.join("fd"))? {
            let entry = entry?;
            let Some(number) = (machine.device)(&entry.path()) else { continue };
            let driver = machine.driver(number);
            if number == TUN {
                let info = fs::read_to_string(proc.join("fdinfo").join(entry.file_name())).unwrap_or_default();
                self.taps.extend(interface(&info).map(|name| Handle::Name(name.into())));
                continue;
            }
            match driver.as_deref() {
                Some("macvtap") => self.macvtaps.extend(machine.macvtap(number)),
                Some("vhost-vdpa") => drop(self.unseen.insert("vdpa")),
                Some("vfio" | "vfio-dev") => {
                    let target = match fs::read_link(entry.path()) {
                        Err(e) if gone(&e) => continue, // closed meanwhile
                        other => other?,
                    };
                    let target = target.to_string_lossy();
                    let node = target.rsplit_once("/dev/vfio/").map(|(_, node)| node);
                    if node.is_some_and(|node| passes_a_network_card(machine.root, node)) {
                        self.unseen.insert("vfio");
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn command_line(&mut self, proc: &Path) -> io::Result<()> {
        let line = fs::read(proc.join("cmdline"))?;
        if has_vhost_user(&String::from_utf8_lossy(&line)) {
            self.unseen.insert("vhost-user");
        }
        Ok(())
    }
}

/// ENOENT when a process or descriptor is gone before it is opened, ESRCH when it goes in between.
fn gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH)
}

/// The interface in the `fdinfo` of a tap; none before the VMM has chosen one.
fn interface(fdinfo: &str) -> Option<&str> {
    fdinfo.lines().find_map(|l| l.strip_prefix("iff:")).map(str::trim).filter(|name| !name.is_empty())
}

/// Whether `node` below `/dev/vfio` stands for a network device: `N` is an IOMMU group, `devices/vfioN` a device.
fn passes_a_network_card(root: &Path, node: &str) -> bool {
    let class = |path: &Path| fs::read_to_string(path.join("class")).is_ok_and(|c| c.starts_with("0x02"));
    if let Some(device) = node.strip_prefix("devices/") {
        return class(&root.join("sys/class/vfio-dev").join(device).join("device"));
    }
    let group = root.join("sys/kernel/iommu_groups").join(node).join("devices");
    fs::read_dir(group).is_ok_and(|devices| devices.flatten().any(|d| class(&d.path())))
}

/// Whether a command line (arguments that end by 0) has a vhost-user network device: QEMU's `-netdev vhost-user,…` in
/// both spellings, Cloud Hypervisor's `--net vhost_user=true,…`. The sockets themselves do not say what they carry.
fn has_vhost_user(line: &str) -> bool {
    let arguments: Vec<&str> = line.split('\0').collect();
    let option = |at: usize, long: &str| at > 0 && arguments[at - 1].trim_start_matches('-') == long;
    arguments.iter().enumerate().any(|(i, a)| {
        let qemu = a.starts_with("vhost-user,") || a.replace(' ', "").contains(r#""type":"vhost-user""#);
        (qemu && option(i, "netdev")) || (a.contains("vhost_user=true") && option(i, "net"))
    })
}

/// Whether process `tgid` is in one of the cgroups, or there are none to choose from.
pub fn in_cgroups(machine: &Machine, tgid: u32, cgroups: &[String]) -> bool {
    if cgroups.is_empty() {
        return true;
    }
    let text = fs::read_to_string(machine.root.join(format!("proc/{tgid}/cgroup"))).unwrap_or_default();
    let own = text.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or_default();
    cgroups.iter().any(|c| is_below(own, c))
}

fn is_below(own: &str, cgroup: &str) -> bool {
    let rest = own.trim_start_matches('/').strip_prefix(cgroup.trim_matches('/'));
    rest.is_some_and(|r| r.is_empty() || r.starts_with('/') || cgroup.trim_matches('/').is_empty())
}

#[cfg(test)]
mod tests;
