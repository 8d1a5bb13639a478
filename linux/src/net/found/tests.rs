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
        tree.link("sys/dev/char/241:1", "../../devices/virtual/net/mv0/macvtap/tap5");
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

/// Every driver that Takt knows, each with the number that `/proc/devices` gives it; the path says nothing.
#[test]
fn each_driver_is_known_by_its_major_number_alone() {
    let unseen = |number: &str, path: &str, class: &str| {
        let tree = Tree::new();
        tree.file(
            "proc/devices",
            "Character devices:\n 10 misc\n 24 vfio-dev\n242 vhost-vdpa\n243 vfio\n\nBlock devices:\n",
        );
        tree.file("sys/kernel/iommu_groups/12/devices/0000:01:00.0/class", class);
        tree.file("sys/class/vfio-dev/vfio3/device/class", class);
        tree.open(3, path, &format!("char {number}"));
        tree.found().unseen.into_iter().collect::<Vec<_>>().join(" ")
    };
    for (number, path, class, want) in [
        ("242:0", "dev/vhost-vdpa-0", "0x010000", "vdpa"),
        ("242:9", "dev/whatever", "0x010000", "vdpa"),
        ("24:0", "dev/vhost-vdpa-0", "0x020000", ""),
        ("243:1", "dev/vfio/12", "0x020000", "vfio"),
        ("243:1", "dev/vfio/12", "0x028000\n", "vfio"),
        ("243:1", "dev/vfio/12", "0x010802", ""),
        ("243:1", "dev/vfio/13", "0x020000", ""),
        ("243:1", "dev/other/12", "0x020000", ""),
        ("24:3", "dev/vfio/devices/vfio3", "0x020000", "vfio"),
        ("24:3", "dev/vfio/devices/vfio3", "0x030000", ""),
        ("24:3", "dev/vfio/devices/vfio4", "0x020000", ""),
        ("10:3", "dev/vfio/12", "0x020000", ""),
    ] {
        assert_eq!(unseen(number, path, class), want, "{number} at {path}, class {class}");
    }
}

#[test]
fn one_card_in_a_group_is_enough() {
    let tree = Tree::new();
    tree.file("sys/kernel/iommu_groups/12/devices/0000:01:00.0/class", "0x060400\n");
    tree.open(4, "dev/vfio/12", "char 243:1");
    assert!(tree.found().unseen.is_empty());
    tree.file("sys/kernel/iommu_groups/12/devices/0000:01:00.1/class", "0x020000\n");
    assert_eq!(tree.found().unseen, ["vfio"].into());
}

#[test]
fn all_devices_of_a_process_are_found() {
    let tree = Tree::new();
    tree.link("sys/dev/char/241:2", "../../devices/virtual/net/mv1/macvtap/tap9");
    for (fd, name) in [(3, "tap0"), (4, "tap1"), (5, "")] {
        tree.open(fd, "dev/net/tun", "char 10:200");
        tree.file(&format!("proc/7/fdinfo/{fd}"), &format!("pos:\t0\niff:\t{name}\n"));
    }
    tree.open(6, "dev/tap5", "char 241:1");
    tree.open(7, "dev/tap9", "char 241:2");
    tree.open(8, "dev/null", "char 1:3");
    tree.open(9, "dev/net/tun2", "char 10:200"); // without its fdinfo
    tree.file("proc/7/cmdline", "qemu\0-netdev\0vhost-user,id=n0\0");
    let found = tree.found();
    assert_eq!(found.taps, ["tap0", "tap1"].map(|n| Handle::Name(n.into())).into());
    assert_eq!(found.macvtaps, [Handle::Numbered(5, "mv0".into()), Handle::Numbered(9, "mv1".into())].into());
    assert_eq!(found.unseen, ["vhost-user"].into());
}

#[test]
fn a_machine_without_a_list_of_devices_has_taps_only() {
    let tree = Tree::new();
    fs::remove_file(tree.0.path().join("proc/devices")).unwrap();
    tree.open(3, "dev/tap5", "char 241:1");
    tree.open(4, "dev/net/tun", "char 10:200");
    tree.file("proc/7/fdinfo/4", "iff:\ttap0\n");
    let found = tree.found();
    assert!(found.macvtaps.is_empty() && found.taps.len() == 1);
}

#[test]
fn a_driver_is_that_of_character_devices() {
    let tree = Tree::new();
    let machine = Machine { root: tree.0.path(), device: numbers };
    let driver = |major| machine.driver((major, 0));
    assert_eq!([1, 10, 241, 245].map(|n| driver(n).unwrap_or_default()), ["mem", "misc", "macvtap", ""]);
    tree.file("proc/devices", "Block devices:\n  1 ramdisk\n\nCharacter devices:\n  1 mem\n");
    assert_eq!(driver(1).as_deref(), Some("mem"), "in whichever order");
}

#[test]
fn what_cannot_be_read_is_an_error_unless_it_is_gone() {
    use io::Error;
    assert!(gone(&Error::from_raw_os_error(libc::ENOENT)) && gone(&Error::from_raw_os_error(libc::ESRCH)));
    assert!(!gone(&Error::from_raw_os_error(libc::EACCES)) && !gone(&Error::from_raw_os_error(libc::EIO)));
    let tree = Tree::new();
    fs::remove_dir_all(tree.0.path().join("proc/7/fd")).unwrap();
    tree.file("proc/7/fd", "");
    assert!(Found::of(&Machine { root: tree.0.path(), device: numbers }, 7).is_err(), "no directory");
}

#[test]
fn only_vms_in_the_cgroups_that_are_named_are_inspected() {
    let tree = Tree::new();
    tree.file("proc/7/cgroup", "1:cpu:/machine.slice\n0::/user.slice/vm1\n");
    let machine = Machine { root: tree.0.path(), device: numbers };
    let inside =
        |tgid, cgroups: &[&str]| in_cgroups(&machine, tgid, &cgroups.iter().map(|c| (*c).into()).collect::<Vec<_>>());
    assert!(inside(7, &[]) && inside(8, &[]), "all, where none is named");
    assert!(inside(7, &["user.slice"]) && inside(7, &["/user.slice/vm1/"]) && inside(7, &["other", "user.slice"]));
    assert!(!inside(7, &["machine.slice"]), "of version 1");
    assert!(!inside(7, &["user.slice/vm"]) && !inside(7, &["user.slice/vm1/x"]) && !inside(8, &["user.slice"]));
    assert!(inside(7, &["/"]));
}

#[test]
fn a_vhost_user_device_has_its_option_before_it() {
    let line = |arguments: &[&str]| has_vhost_user(&arguments.join("\0"));
    for yes in [
        &["qemu", "--netdev", "vhost-user,id=n"][..],
        &["qemu", "-netdev", r#"{"id":"n","type":"vhost-user"}"#],
        &["ch", "--net", "mac=1,vhost_user=true"],
        &["ch", "-net", "vhost_user=true"],
        &["qemu", "-netdev", "tap,id=a", "-netdev", "vhost-user,id=n"],
    ] {
        assert!(line(yes), "{yes:?}");
    }
    for no in [
        &["qemu", "-netdev", "vhost-userland"][..],
        &["qemu", "-chardev", "vhost-user,id=n"],
        &["qemu", "-netdev", "tap,vhost-user,id=n"],
        &["vhost-user,id=n"],
        &["qemu", "-net", "vhost-user,id=n"],
        &["ch", "--net", "vhost_user=false"],
        &["ch", "--fs", "vhost_user=true"],
        &["qemu", "vhost-user,id=n", "-netdev"],
        &[],
    ] {
        assert!(!line(no), "{no:?}");
    }
}
