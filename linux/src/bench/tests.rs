// SPDX-License-Identifier: GPL-2.0-only
//! Samples of a `/proc` that is a tree of files.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.stat([100, 0, 50, 1000, 0, 5, 5, 2], 7000);
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(&self, cpu: [u64; 8], switches: u64) {
        let numbers = cpu.map(|n| n.to_string()).join(" ");
        self.put("proc/stat", &format!("cpu  {numbers} 90 0\ncpu0 1 2 3\nintr 5 0\nctxt {switches}\n"));
    }

    /// A process with a VM; its program has a name that is hard to read.
    fn vm(&self, tgid: u32, name: &str, began: u64) {
        let dir = self.0.path().join(format!("proc/{tgid}/fd"));
        if !dir.exists() {
            fs::create_dir_all(&dir).unwrap();
            symlink("anon_inode:kvm-vcpu:0", dir.join("9")).unwrap();
        }
        self.put(&format!("proc/{tgid}/cmdline"), &format!("qemu\0-name\0{name}\0"));
        let before = ["0"; 18].join(" ");
        self.put(&format!("proc/{tgid}/stat"), &format!("{tgid} (a) 1 (b) S {before} {began} 5 6\n"));
    }

    /// Run and wait in ns, slices, switches of both kinds.
    fn thread(&self, tgid: u32, tid: u32, name: &str, [run, wait, slices, own, others]: [u64; 5]) {
        let dir = format!("proc/{tgid}/task/{tid}");
        self.put(&format!("{dir}/schedstat"), &format!("{run} {wait} {slices}\n"));
        self.put(&format!("{dir}/comm"), &format!("{name}\n"));
        let status = format!("Name:\tx\nvoluntary_ctxt_switches:\t{own}\nnonvoluntary_ctxt_switches:\t{others}\n");
        self.put(&format!("{dir}/status"), &status);
    }

    fn sample(&self, seconds: u64) -> Sample {
        Sample::of(self.0.path(), Duration::from_secs(seconds)).unwrap()
    }
}

#[test]
fn a_vm_is_what_its_threads_did_meanwhile() {
    let tree = Tree::new();
    tree.vm(70, "pbx", 500);
    tree.thread(70, 70, "qemu", [1_000, 1_000, 1, 1, 0]);
    tree.thread(70, 71, "CPU 0/KVM", [2_000_000_000, 1_000_000_000, 100, 60, 40]);
    tree.thread(70, 72, "worker", [0, 0, 0, 0, 0]);
    tree.put("proc/71/comm", "no VM");
    let before = tree.sample(0);
    assert_eq!(before.vms().collect::<Vec<_>>(), [(70, "pbx")]);
    tree.thread(70, 71, "CPU 0/KVM", [5_000_000_000, 1_500_000_000, 1100, 660, 440]);
    tree.thread(70, 72, "worker", [500_000_000, 0, 5, 5, 0]);
    // A thread that is new counts in full.
    tree.thread(70, 73, "vhost-70", [250_000_000, 1_000_000, 10, 10, 0]);
    let now = tree.sample(10);

    let mut roles = Roles::default();
    roles.vcpus.insert(72);
    roles.io.insert(73);
    let vm = &before.vms_until(&now, &roles)[&70];
    assert_eq!(vm.vm, "pbx");
    // One by its name, one because Takt has seen it run a VCPU.
    let of = |t: &Threads| (t.threads, t.run_s, t.wait_s, t.slices, t.voluntary, t.involuntary);
    assert_eq!(of(&vm.vcpus), (2, 3.5, 0.5, 1005, 605, 400));
    assert_eq!(of(&vm.io), (1, 0.25, 0.001, 10, 10, 0));
    assert_eq!(of(&vm.others), (1, 0.0, 0.0, 0, 0, 0));
}

#[test]
fn a_vm_that_did_not_run_all_the_time_is_left_out() {
    let tree = Tree::new();
    tree.vm(70, "old", 500);
    tree.vm(80, "stays", 500);
    let before = tree.sample(0);
    // Another process has got the number; a third VM has just begun.
    tree.vm(70, "new", 900);
    tree.vm(90, "begins", 900);
    let now = tree.sample(10);
    let all = before.vms_until(&now, &Roles::default());
    assert_eq!(all.keys().collect::<Vec<_>>(), [&80]);
    assert_eq!(now.vms().count(), 3);
}

#[test]
fn a_thread_that_got_the_number_of_another_counts_from_nothing() {
    let tree = Tree::new();
    tree.vm(70, "pbx", 500);
    tree.thread(70, 71, "CPU 0/KVM", [9_000_000_000, 9, 900, 9, 9]);
    let before = tree.sample(0);
    tree.thread(70, 71, "CPU 0/KVM", [1_000_000_000, 2_000_000_000, 3, 4, 5]);
    let vcpus = before.vms_until(&tree.sample(1), &Roles::default())[&70].vcpus;
    assert_eq!((vcpus.run_s, vcpus.wait_s, vcpus.slices), (1.0, 2.0, 3));
}

#[test]
fn the_host_is_what_its_cpus_did_meanwhile() {
    let tree = Tree::new();
    let before = tree.sample(0);
    tree.stat([300, 100, 150, 9000, 70, 15, 25, 12], 17_000);
    let host = before.host_until(&tree.sample(10));
    let want = HostUse { busy_s: 4.3, system_s: 1.0, irq_s: 0.3, steal_s: 0.1, switches: 10_000, bpf_run_s: None };
    assert!((host.busy_s - want.busy_s).abs() < 1e-9 && (host.irq_s - want.irq_s).abs() < 1e-9, "{host:?}");
    assert_eq!((host.system_s, host.steal_s, host.switches), (want.system_s, want.steal_s, want.switches));
    for bad in ["", "cpu  1 2 3\nctxt 5\n", "cpu  1 2 3 4 5 6 7 8\n"] {
        tree.put("proc/stat", bad);
        assert!(Sample::of(tree.0.path(), Duration::ZERO).is_err(), "{bad:?}");
    }
}

#[test]
fn a_kernel_that_counts_no_waits_is_found() {
    let tree = Tree::new();
    tree.vm(70, "pbx", 500);
    tree.thread(70, 71, "CPU 0/KVM", [0, 0, 0, 4, 5]);
    assert!(tree.sample(0).counts_waits().unwrap_err().to_string().contains("CONFIG_SCHED_INFO"));
    tree.thread(70, 72, "x", [1, 1, 1, 4, 5]);
    assert!(tree.sample(0).counts_waits().is_ok());
    // A thread of which a file is missing has ended.
    fs::remove_file(tree.0.path().join("proc/70/task/72/status")).unwrap();
    assert!(tree.sample(0).counts_waits().is_err());
}

#[test]
fn the_model_is_that_of_the_first_cpu() {
    let tree = Tree::new();
    assert_eq!(cpu_model(tree.0.path()), "unknown");
    tree.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: A: B\nflags\t: x\n\nmodel name\t: C\n");
    assert_eq!(cpu_model(tree.0.path()), "A: B");
}
