// SPDX-License-Identifier: GPL-2.0-only
//! Settings of cgroups of ordinary threads that have no effect while Takt runs, because the kernel tells them to no scheduler but
//! its own. A host may rely on such a limit, so Takt does not start there unless told to.

use super::cgroups::{self, lowest, weight};
use super::names::{entries, vmms};
use crate::ops::Cgroups;
use anyhow::{Result, bail};
use std::path::Path;

/// The flag that accepts it.
const FLAG: &str = "--accept-unheeded-cgroups";
/// Cgroups that a message names.
const NAMED: usize = 4;

/// Refuses a host that relies on what `kernel` does not tell; `root` is `/`, or a tree of a test's.
///
/// # Errors
/// There are such cgroups.
pub fn check(root: &Path, kernel: Cgroups) -> Result<()> {
    let Some(what) = kernel.unheeded() else { return Ok(()) };
    let vms = of_vms(&root.join("proc"));
    let found = settings(&root.join(cgroups::ROOT.trim_start_matches('/')), &vms, !kernel.weight);
    let more = match found.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    match found.is_empty() {
        true => Ok(()),
        false => bail!(
            "this kernel does not report {what} of ordinary threads to Takt, so the settings of these cgroups would have no effect: {}{more}; \
             use {FLAG} to start anyway",
            found[..found.len().min(NAMED)].join(", ")
        ),
    }
}

/// The cgroups of threads of processes that hold a VCPU of KVM. These reach the policy.
fn of_vms(proc: &Path) -> Vec<String> {
    let threads = vmms(proc).into_iter().flat_map(|p| entries(p.join("task")).map(|e| e.path().join("cgroup")));
    let mut all: Vec<String> = threads.filter_map(|file| cgroups::of(&file)).filter(|c| !c.is_empty()).collect();
    all.sort();
    all.dedup();
    all
}

/// Cgroups below `root` that set a limit or, with `weights`, a weight. `vms` are those of VMs' threads; what is above or below one
/// of them is followed.
fn settings(root: &Path, vms: &[String], weights: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![String::new()];
    while let Some(at) = todo.pop() {
        let dir = root.join(&at);
        let vm = |v: &String| is_below(v, &at) || is_below(&at, v);
        let set = weights && weight(&dir).is_some_and(|w| w != 100.0) || lowest(std::slice::from_ref(&dir)).is_some();
        if set && !at.is_empty() && !vms.iter().any(vm) {
            found.push(at.clone());
        }
        let below = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let below = below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        todo.extend(
            below.map(|e| at.clone() + if at.is_empty() { "" } else { "/" } + &e.file_name().to_string_lossy()),
        );
    }
    found.sort();
    found
}

/// Whether cgroup `a` is `b`, or below it.
fn is_below(a: &str, b: &str) -> bool {
    a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::cgroups::tests::fill;
    use super::*;

    const ALL: Cgroups = Cgroups { weight: true, max: true };
    const WEIGHTS: Cgroups = Cgroups { weight: true, max: false };
    const NOTHING: Cgroups = Cgroups { weight: false, max: false };

    /// A host with a VM in `machine/vm1`, and a process that is none with a file of a VCPU's name in `machine/other`.
    fn host(cgroups: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, fd, cgroup) in
            [("10", "anon_inode:kvm-vcpu:0", "machine/vm1"), ("11", "/anon_inode:kvm-vcpu:0", "machine/other")]
        {
            let process = root.path().join("proc").join(pid);
            std::fs::create_dir_all(process.join("fd")).unwrap();
            std::fs::create_dir_all(process.join("task").join(pid)).unwrap();
            std::os::unix::fs::symlink("/dev/null", process.join("fd/0")).unwrap();
            std::os::unix::fs::symlink(fd, process.join("fd/1")).unwrap();
            std::fs::write(process.join("task").join(pid).join("cgroup"), format!("0::/{cgroup}\n")).unwrap();
        }
        fill(&root.path().join("sys/fs/cgroup"), cgroups);
        root
    }

    #[test]
    fn hosts_that_rely_on_what_a_kernel_does_not_tell_are_refused() {
        let max = "max 100000\n";
        let root = host(&[
            ("machine", "200", "90000 100000"),
            ("machine/vm1", "50", "50000 100000"),
            ("machine/vm1/emulator", "50", max),
            ("machine/other", "50", max),
            ("system", "100", max),
            ("system/backup", "100", "20000 100000"),
        ]);
        check(root.path(), ALL).unwrap();
        let said = |kernel| check(root.path(), kernel).unwrap_err().to_string();
        assert_eq!(
            said(WEIGHTS),
            "this kernel does not report cpu.max of ordinary threads to Takt, so the settings of these cgroups would have no effect: \
             system/backup; use --accept-unheeded-cgroups to start anyway"
        );
        assert!(said(NOTHING).contains("report cpu.weight and cpu.max of"), "{}", said(NOTHING));
        assert!(said(NOTHING).contains("no effect: machine/other, system/backup;"), "{}", said(NOTHING));
    }

    #[test]
    fn hosts_without_such_settings_are_not() {
        let max = "max 100000\n";
        check(host(&[("machine/vm1", "50", "1000 100000"), ("system", "100", max)]).path(), NOTHING).unwrap();
        check(host(&[("system", "50", max)]).path(), WEIGHTS).unwrap();
        check(tempfile::tempdir().unwrap().path(), NOTHING).unwrap();
    }

    #[test]
    fn a_message_names_a_few_of_many() {
        let names: Vec<String> = (0..9).map(|n| format!("user{n}")).collect();
        let all: Vec<_> = names.iter().map(|n| (n.as_str(), "100", "1000 100000")).collect();
        let said = check(host(&all).path(), WEIGHTS).unwrap_err().to_string();
        assert!(said.contains("these cgroups would have no effect: user0, user1, user2, user3 and 5 more;"), "{said}");
    }
}
