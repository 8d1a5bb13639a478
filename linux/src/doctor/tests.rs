// SPDX-License-Identifier: GPL-2.0-only
//! Hosts of all kinds, as trees of files.

use super::*;
use crate::environment::KICK;
use std::fs;
use std::os::unix::fs::symlink;

/// BTF with a function of so many parameters, and callbacks of `struct sched_ext_ops`.
fn btf(name: &str, parameters: u32, callbacks: &[&str]) -> Vec<u8> {
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    let text = |text: &str, strings: &mut Vec<u8>| {
        let at = strings.len() as u32;
        strings.extend(text.bytes().chain([0]));
        at
    };
    let mut put = |words: &[u32]| types.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    let (int, function, argument) = (text("int", &mut strings), text(name, &mut strings), text("a", &mut strings));
    put(&[int, 1 << 24, 4, 32]);
    put(&[0, 13 << 24 | parameters, 0]);
    (0..parameters).for_each(|_| put(&[argument, 1]));
    put(&[function, 12 << 24, 2]);
    let ops = text("sched_ext_ops", &mut strings);
    put(&[ops, 4 << 24 | callbacks.len() as u32, 4 * callbacks.len() as u32]);
    for (i, callback) in callbacks.iter().enumerate() {
        let name = text(callback, &mut strings);
        put(&[name, 1, 32 * i as u32]);
    }
    let (types_len, strings_len) = (types.len() as u32, strings.len() as u32);
    let mut all = [0xeb9fu16.to_ne_bytes(), [1, 0]].concat();
    all.extend([24, 0, types_len, types_len, strings_len].iter().flat_map(|w: &u32| w.to_ne_bytes()));
    [all, types, strings].concat()
}

const ALL: [&str; 3] = ["cgroup_init", "cgroup_set_weight", "cgroup_set_bandwidth"];

/// A thread with a cookie, or none.
struct Has(Option<u32>);

impl Cookies for Has {
    fn of(&self, tid: u32) -> std::result::Result<u64, i32> {
        Ok(u64::from(self.0 == Some(tid)))
    }
}

/// A host that lacks nothing.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.put("proc/sys/kernel/osrelease", "7.3.4+deb13-amd64\n");
        tree.put("sys/kernel/sched_ext/state", "disabled\n");
        tree.put("sys/kernel/btf/vmlinux", btf(KICK.0, 2, &ALL));
        tree.put("sys/devices/system/cpu/possible", "0-3\n");
        tree.put("sys/devices/system/cpu/online", "0-3\n");
        tree.put("sys/devices/system/cpu/smt/active", "1\n");
        tree.put("sys/module/kvm/parameters/halt_poll_ns", "0\n");
        tree.put("dev/kvm", "");
        tree.put("proc/devices", "Character devices:\n 10 misc\n\nBlock devices:\n");
        tree
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn gone(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    /// Process `pid` runs a VM called so.
    fn vm(&self, pid: u32, name: &str, arguments: &str) {
        self.put(&format!("proc/{pid}/cmdline"), format!("qemu\0-name\0{name}\0{arguments}"));
        self.put(&format!("proc/{pid}/task/{pid}/cgroup"), "0::/machine\n");
        self.put(&format!("proc/{pid}/fdinfo/5"), "iff:\ttap0\n");
        fs::create_dir_all(self.0.path().join(format!("proc/{pid}/fd"))).unwrap();
        symlink("anon_inode:kvm-vcpu:0", self.0.path().join(format!("proc/{pid}/fd/9"))).unwrap();
    }

    fn as_user(&self, uid: u32, cookies: &Has) -> Examination {
        let tun = |path: &Path| path.ends_with("fd/5").then_some((10, 200));
        examine(&Host { root: self.0.path(), uid, cookies, device: tun })
    }

    fn examined(&self) -> Examination {
        self.as_user(0, &Has(None))
    }
}

/// The checks that are not ok, as `verdict check: text`.
fn bad(all: &Examination) -> Vec<String> {
    let bad = all.checks.iter().filter(|c| c.verdict != Verdict::Ok);
    bad.map(|c| format!("{} {}: {}", c.verdict.word(), c.check, c.text)).collect()
}

/// `what` is the only line that is not ok, from its beginning.
#[track_caller]
fn only(all: &Examination, what: &str) {
    let bad = bad(all);
    assert!(bad.len() == 1 && bad[0].starts_with(what), "{what}: {bad:#?}");
}

#[test]
fn a_host_that_lacks_nothing() {
    let tree = Tree::new();
    let all = tree.examined();
    assert_eq!(bad(&all), [""; 0]);
    let checks: Vec<_> = all.checks.iter().map(|c| c.check.as_str()).collect();
    let want = ["root", "sched_ext", "btf", "scheduler", "services", "cpus", "kvm", "halt_poll_ns", "core scheduling"];
    assert_eq!(checks, [&want[..], &["cgroups", "vms"]].concat());
    assert_eq!(all.checks[1].text, "Linux 7.3.4+deb13-amd64 has sched_ext");
    assert_eq!(all.checks[5].text, "4 online, 4 possible, 64 supported");
}

#[test]
fn what_keeps_takt_from_starting() {
    let bad_of = bad(&Tree::new().as_user(1000, &Has(Some(1))));
    assert!(bad_of.len() == 2 && bad_of[0].starts_with("fail root: takt run needs root"), "{bad_of:#?}");
    assert!(bad_of[1].starts_with("warn processes: core scheduling, cgroups and VMs are not checked"), "{bad_of:#?}");

    let tree = Tree::new();
    tree.put("proc/xen/capabilities", "control_d\n");
    only(&tree.examined(), "fail xen: this is Xen's Dom0");

    let tree = Tree::new();
    tree.gone("sys/kernel/sched_ext/state");
    only(&tree.examined(), "fail sched_ext: this kernel (7.3.4+deb13-amd64) was built without sched_ext");
    tree.put("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n");
    only(&tree.examined(), "fail sched_ext: this kernel has no sched_ext");
    tree.put("sys/kernel/sched_ext/state", "disabled\n");
    only(
        &tree.examined(),
        "fail sched_ext: this kernel (6.12.48+deb13-amd64) is too old: Takt needs Linux 6.16 or later",
    );

    for (parameters, what) in [(3, "describes its own functions wrongly"), (1, "describes its own functions wrongly")] {
        let tree = Tree::new();
        tree.put("sys/kernel/btf/vmlinux", btf(KICK.0, parameters, &ALL));
        only(&tree.examined(), &format!("fail btf: this kernel's BTF {what}"));
    }
    let tree = Tree::new();
    tree.put("sys/kernel/btf/vmlinux", btf("other", 2, &ALL));
    only(&tree.examined(), "fail btf: this kernel's BTF has no scx_bpf_kick_cpu");
    tree.put("sys/kernel/btf/vmlinux", "BTF");
    assert!(bad(&tree.examined())[0].contains("vmlinux cannot be read"), "{:?}", bad(&tree.examined()));
    tree.gone("sys/kernel/btf/vmlinux");
    only(&tree.examined(), "fail btf: this kernel has no BTF");

    let tree = Tree::new();
    tree.put("sys/kernel/sched_ext/state", "enabled\n");
    tree.put("sys/kernel/sched_ext/root/ops", "lavd_1.0.9\n");
    only(&tree.examined(), "fail scheduler: another scheduler is loaded: lavd_1.0.9");
    tree.put("sys/kernel/sched_ext/root/ops", "takt_0.1.0\n");
    assert_eq!(bad(&tree.examined()), [""; 0]);

    let tree = Tree::new();
    tree.put("sys/devices/system/cpu/possible", "0-127\n");
    only(&tree.examined(), "fail cpus: this host may have 128 CPUs, but Takt supports 64");

    let tree = Tree::new();
    tree.put("proc/7/task/7/comm", "chrome\n");
    only(
        &tree.as_user(0, &Has(Some(7))),
        "fail core scheduling: process 7, thread 7 (chrome), has a core scheduling cookie",
    );

    let tree = Tree::new();
    tree.put("sys/kernel/btf/vmlinux", btf(KICK.0, 2, &ALL[..2]));
    assert_eq!(bad(&tree.examined()), [""; 0]);
    tree.put("sys/fs/cgroup/backup/cpu.max", "20000 100000\n");
    tree.put("sys/fs/cgroup/backup/cpu.weight", "100\n");
    only(&tree.examined(), "fail cgroups: this kernel does not report cpu.max of ordinary threads");
}

#[test]
fn what_should_be_mended() {
    let tree = Tree::new();
    tree.gone("dev/kvm");
    only(&tree.examined(), "warn kvm: no /dev/kvm");

    let tree = Tree::new();
    tree.put("sys/module/kvm/parameters/halt_poll_ns", "?\n");
    only(&tree.examined(), "warn halt_poll_ns: /sys/module/kvm/parameters/halt_poll_ns cannot be read");
    tree.put("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
    only(&tree.examined(), "warn halt_poll_ns: a VCPU polls for up to 200 us before it sleeps");

    let tree = Tree::new();
    fs::create_dir_all(tree.0.path().join(&WANTS[1..])).unwrap();
    symlink("/usr/lib/systemd/system/scx.service", tree.0.path().join(&WANTS[1..]).join("scx.service")).unwrap();
    only(&tree.examined(), "warn services: scx.service loads another scheduler when the host boots");
    fs::create_dir_all(tree.0.path().join(&UNITS[1..]).join("scx_loader.service")).unwrap();
    only(&tree.examined(), "warn services: scx_loader.service is active");
}

#[test]
fn vms_that_can_be_watched_and_blind_ones() {
    let tree = Tree::new();
    tree.vm(12, "web", "");
    symlink("/dev/net/tun", tree.0.path().join("proc/12/fd/5")).unwrap();
    tree.vm(13, "pbx", "-netdev\0vhost-user,id=n\0");
    tree.vm(14, "dark", "");
    let all = tree.examined();
    let web = all.checks.iter().find(|c| c.check == "vm web").unwrap();
    assert_eq!((web.verdict, web.text.as_str()), (Verdict::Ok, "process 12: its packets pass tap0 (tap)"));
    let by_hand = "if it is real-time, mark it by hand (takt set, rt=on)";
    assert_eq!(
        bad(&all),
        [
            format!("warn vm pbx: process 13: its packets cannot be seen (vhost-user): {by_hand}"),
            format!("warn vm dark: process 14: no network device found: {by_hand}"),
        ]
    );
}
