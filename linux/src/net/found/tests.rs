// SPDX-License-Identifier: GPL-2.0-only
//! A fabricated `/proc`, `/sys` and `/dev`: a device node is a file that holds its numbers.

use super::*;
use std::os::unix::fs::symlink;

struct Tree(tempfile::TempDir);

/// The numbers that the file at the end of a link holds.
fn numbers(path: &Path) -> Option<Number> {
    let text = fs::read_to_string(path).ok()?;
    let (major, minor) = text.strip_prefix("char ")?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Tree {
    /// Process 7 without descriptors; macvtap has major 241, and one device, `mv0` of index 5 with minor 1.
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let devices = "Character devices:\n  1 mem\n 10 misc\n241 macvtap\n242 vhost-vdpa\n243 vfio\n244 ipvtap\n\n\
                       Block devices:\n245 macvtap\n";
        tree.file("proc/devices", devices);
        tree.file("proc/7/cmdline", "qemu\0");
        tree.file("proc/7/fd/.keep", "");
        tree.link("sys/dev/char/241:1", "../../devices/virtual/net/mv0/tap5");
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Descriptor `fd` of process 7 leads to `path`, which holds `what`.
    fn open(&self, fd: u32, path: &str, what: &str) {
        self.file(path, what);
        self.link(&format!("proc/7/fd/{fd}"), self.0.path().join(path).to_str().unwrap());
    }

    fn found(&self) -> Found {
        Found::of(&Machine { root: self.0.path(), device: numbers }, 7).unwrap()
    }
}

fn mv0() -> BTreeSet<Handle> {
    [Handle::Numbered(5, "mv0".into())].into()
}

#[test]
fn a_macvtap_is_what_its_number_says() {
    let tree = Tree::new();
    tree.open(3, "dev/tap5", "char 241:1");
    assert_eq!(tree.found().macvtaps, mv0());
    let elsewhere = Tree::new();
    elsewhere.open(3, "srv/jail/dev/net", "char 241:1");
    assert_eq!(elsewhere.found().macvtaps, mv0(), "whatever its path");
    // The path of another interface does not make it that one.
    let other = Tree::new();
    other.open(3, "dev/tap6", "char 241:1");
    assert_eq!(other.found().macvtaps, mv0());
}

#[test]
fn what_only_reads_like_a_macvtap_is_none() {
    for (what, why) in [
        ("", "a file"),
        ("char 1:3", "another driver's device"),
        ("char 244:1", "an ipvtap"),
        ("char 245:1", "a number that is a block device's"),
        ("char 241:2", "no interface has that number"),
    ] {
        let tree = Tree::new();
        tree.open(3, "dev/tap5", what);
        assert_eq!(tree.found().macvtaps, BTreeSet::new(), "{why}");
    }
    for (target, why) in [
        ("../../devices/virtual/net/mv0/tun5", "no tap"),
        ("../../devices/virtual/net/mv0/tapx", "no number"),
        ("../../devices/virtual/misc/mv0/tap5", "not below a network interface"),
        ("tap5", "below nothing"),
    ] {
        let tree = Tree::new();
        fs::remove_file(tree.0.path().join("sys/dev/char/241:1")).unwrap();
        tree.link("sys/dev/char/241:1", target);
        tree.open(3, "dev/tap5", "char 241:1");
        assert_eq!(tree.found().macvtaps, BTreeSet::new(), "{why}");
    }
}

#[test]
fn a_tap_is_what_its_number_says() {
    for (what, taps) in [("char 10:200", 1), ("char 10:201", 0), ("char 11:200", 0), ("", 0)] {
        let tree = Tree::new();
        tree.open(3, "dev/net/tun", what);
        tree.file("proc/7/fdinfo/3", "pos:\t0\niff:\ttap0\n");
        assert_eq!(tree.found().taps.len(), taps, "{what}");
    }
}

#[test]
fn devices_without_packets_are_told() {
    let tree = Tree::new();
    tree.open(3, "dev/vhost-vdpa-0", "char 242:0");
    tree.open(4, "dev/vfio/12", "char 243:1");
    assert_eq!(tree.found().unseen, ["vdpa"].into(), "group 12 has no network card");
    tree.file("sys/kernel/iommu_groups/12/devices/0000:01:00.0/class", "0x020000\n");
    assert_eq!(tree.found().unseen, ["vdpa", "vfio"].into());
    let forged = Tree::new();
    forged.open(3, "dev/vhost-vdpa-0", "");
    forged.open(4, "dev/vfio/12", "");
    forged.file("sys/kernel/iommu_groups/12/devices/0000:01:00.0/class", "0x020000\n");
    assert_eq!(forged.found().unseen, BTreeSet::new());
}

#[test]
fn a_process_that_is_gone_holds_nothing() {
    let tree = Tree::new();
    let found = Found::of(&Machine { root: tree.0.path(), device: numbers }, 8).unwrap();
    assert!(found.taps.is_empty() && found.macvtaps.is_empty() && found.unseen.is_empty());
}

#[test]
fn the_live_machine_knows_devices_from_files() {
    let live = Machine::live();
    assert_eq!((live.device)(Path::new("/dev/null")), Some((1, 3)));
    assert_eq!((live.device)(Path::new("/proc/self/cmdline")), None);
    assert_eq!(live.driver((1, 3)).as_deref(), Some("mem"));
}

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
