// SPDX-License-Identifier: GPL-2.0-only
//! Which network devices a VMM holds, by its file descriptors and its command line.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use takt_monitor::device::Handle;

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
    pub fn of(tgid: u32) -> io::Result<Self> {
        let proc = PathBuf::from(format!("/proc/{tgid}"));
        let mut found = Self::default();
        match found.descriptors(&proc).and_then(|()| found.command_line(&proc)) {
            Err(e) if gone(&e) => Ok(Self::default()),
            other => other.map(|()| found),
        }
    }

    fn descriptors(&mut self, proc: &Path) -> io::Result<()> {
        for entry in fs::read_dir(proc.join("fd"))? {
            let entry = entry?;
            let target = match fs::read_link(entry.path()) {
                Err(e) if gone(&e) => continue, // closed meanwhile
                other => other?,
            };
            let target = target.to_string_lossy();
            if target == "/dev/net/tun" {
                let info = fs::read_to_string(proc.join("fdinfo").join(entry.file_name())).unwrap_or_default();
                self.taps.extend(interface(&info).map(|name| Handle::Name(name.into())));
            } else if let Some(index) = target.strip_prefix("/dev/tap").and_then(|n| n.parse().ok()) {
                self.macvtaps.insert(Handle::Index(index)); // numbered by interface index
            } else if target.starts_with("/dev/vhost-vdpa") {
                self.unseen.insert("vdpa");
            } else if target.strip_prefix("/dev/vfio/").is_some_and(passes_a_network_card) {
                self.unseen.insert("vfio");
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
fn passes_a_network_card(node: &str) -> bool {
    let class = |path: &Path| fs::read_to_string(path.join("class")).is_ok_and(|c| c.starts_with("0x02"));
    if let Some(device) = node.strip_prefix("devices/") {
        return class(&Path::new("/sys/class/vfio-dev").join(device).join("device"));
    }
    let group = Path::new("/sys/kernel/iommu_groups").join(node).join("devices");
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
pub fn in_cgroups(tgid: u32, cgroups: &[String]) -> bool {
    if cgroups.is_empty() {
        return true;
    }
    let text = fs::read_to_string(format!("/proc/{tgid}/cgroup")).unwrap_or_default();
    let own = text.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or_default();
    cgroups.iter().any(|c| is_below(own, c))
}

fn is_below(own: &str, cgroup: &str) -> bool {
    let rest = own.trim_start_matches('/').strip_prefix(cgroup.trim_matches('/'));
    rest.is_some_and(|r| r.is_empty() || r.starts_with('/') || cgroup.trim_matches('/').is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdinfo_names_the_interface_once_there_is_one() {
        assert_eq!(interface("pos:\t0\nflags:\t0104002\nmnt_id:\t28\niff:\ttap0\n"), Some("tap0"));
        assert_eq!(interface("pos:\t0\niff:\t\n"), None);
        assert_eq!(interface("pos:\t0\n"), None);
    }

    #[test]
    fn vhost_user_is_a_network_device_only_as_one() {
        let line = |arguments: &[&str]| has_vhost_user(&arguments.join("\0"));
        assert!(line(&["qemu", "-netdev", "vhost-user,id=n0,chardev=c0"]));
        assert!(line(&["qemu", "-netdev", r#"{"type": "vhost-user", "id": "n0"}"#]));
        assert!(line(&["cloud-hypervisor", "--net", "vhost_user=true,socket=/s"]));
        assert!(!line(&["cloud-hypervisor", "--disk", "vhost_user=true,socket=/s"]));
        assert!(!line(&["qemu", "-device", "vhost-user-fs-pci,chardev=c0", "-netdev", "tap,id=n0"]));
    }

    #[test]
    fn cgroups_are_compared_by_whole_names() {
        assert!(is_below("/machine.slice/vm1.scope", "/machine.slice"));
        assert!(is_below("/machine.slice", "machine.slice/"));
        assert!(!is_below("/machine.slice2/vm1.scope", "/machine.slice"));
        assert!(is_below("/anything", "/"));
    }
}
