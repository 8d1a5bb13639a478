// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups say of a VM's share (version 2): `cpu.weight` and `cpu.max`, as libvirt, systemd and Proxmox set them.

use std::path::{Path, PathBuf};

/// Where cgroups are.
pub const ROOT: &str = "/sys/fs/cgroup";

/// Weight and cap as the policy takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub weight: u32,
    pub cap: u32,
}

impl Share {
    /// Within what the policy takes; an infinite `cap` is none.
    pub fn new(weight: f64, cap: f64) -> Self {
        Self {
            weight: weight.round().clamp(1.0, 65_535.0) as u32,
            cap: if cap.is_finite() { (cap - 1e-9).ceil().clamp(1.0, 6_400.0) as u32 } else { 0 },
        }
    }
}

/// Nobody has said anything.
pub const DEFAULT: Share = Share { weight: 256, cap: 0 };

/// The cgroup of a thread below [`ROOT`], without the leading slash.
pub fn of_thread(tgid: u32, tid: u32) -> Option<String> {
    of(format!("/proc/{tgid}/task/{tid}/cgroup").as_ref())
}

/// The cgroup that a thread's file of the kernel's names.
pub fn of(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let path = text.lines().find_map(|l| l.strip_prefix("0::"))?;
    Some(path.trim_start_matches('/').to_owned())
}

/// The share of a VM whose VCPU threads are in the cgroups `threads`. Weights multiply along the levels that all of them
/// have in common; of the limits along them the lowest counts, and limits of single VCPUs add up if each has one.
pub fn share(root: &Path, threads: &[String]) -> Share {
    let Some(first) = threads.first() else { return DEFAULT };
    let levels: Vec<Vec<&str>> = threads.iter().map(|t| t.split('/').filter(|l| !l.is_empty()).collect()).collect();
    let shared = (0..).take_while(|&i| levels[0].get(i).is_some_and(|l| levels.iter().all(|x| x.get(i) == Some(l))));
    let common = shared.count();
    let prefix = below(root, first, 0, common);
    let weight: f64 = prefix.iter().filter_map(|d| weight(d)).map(|w| w / 100.0).product();
    let own: Option<Vec<f64>> = threads.iter().map(|t| lowest(&below(root, t, common, usize::MAX))).collect();
    let caps = [lowest(&prefix), own.map(|all| all.iter().sum())];
    let cap = caps.into_iter().flatten().fold(f64::INFINITY, f64::min);
    Share::new(256.0 * weight, cap)
}

/// The limit of one cgroup in percent of a PCPU.
pub fn limit_of(root: &Path, cgroup: &str) -> Option<f64> {
    lowest(&[root.join(cgroup)])
}

/// The directories of levels `from..to` of a cgroup.
fn below(root: &Path, cgroup: &str, from: usize, to: usize) -> Vec<PathBuf> {
    let mut at = root.to_owned();
    let mut all = Vec::new();
    for (i, level) in cgroup.split('/').filter(|l| !l.is_empty()).enumerate().take(to) {
        at.push(level);
        if i >= from {
            all.push(at.clone());
        }
    }
    all
}

pub fn weight(dir: &Path) -> Option<f64> {
    std::fs::read_to_string(dir.join("cpu.weight")).ok()?.trim().parse().ok()
}

/// The lowest `cpu.max` in percent of a PCPU.
pub fn lowest(dirs: &[PathBuf]) -> Option<f64> {
    dirs.iter().filter_map(|d| limit(&std::fs::read_to_string(d.join("cpu.max")).ok()?)).min_by(f64::total_cmp)
}

/// `max 100000` or `50000 100000`: quota and period, us.
fn limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| 100.0 * quota / period)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree of cgroups: directory, `cpu.weight`, `cpu.max`.
    pub fn tree(all: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fill(root.path(), all);
        root
    }

    pub fn fill(root: &Path, all: &[(&str, &str, &str)]) {
        for (dir, weight, max) in all {
            let dir = root.join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("cpu.weight"), weight).unwrap();
            std::fs::write(dir.join("cpu.max"), max).unwrap();
        }
    }

    fn of(all: &[(&str, &str, &str)], threads: &[&str]) -> (u32, u32) {
        let threads: Vec<String> = threads.iter().map(ToString::to_string).collect();
        let share = share(tree(all).path(), &threads);
        (share.weight, share.cap)
    }

    #[test]
    fn shares() {
        let max = "max 100000\n";
        assert_eq!(of(&[], &[]), (256, 0));
        assert_eq!(of(&[], &["gone"]), (256, 0));
        assert_eq!(of(&[("a", "100\n", max), ("a/b", "200\n", max)], &["a/b"]), (512, 0));
        assert_eq!(of(&[("a", "50\n", max), ("a/b", "200\n", max)], &["a/b", "a/b"]), (256, 0));
        assert_eq!(of(&[("a", "10000\n", max)], &["a"]), (25_600, 0));
        assert_eq!(of(&[("a", "10000\n", max), ("a/b", "10000", max)], &["a/b"]), (65_535, 0));
        assert_eq!(of(&[("a", "1\n", max), ("a/b", "1", max)], &["a/b"]), (1, 0));
        assert_eq!(of(&[("a", "100", "150000 100000"), ("a/b", "100", "50000 100000")], &["a/b"]), (256, 50));
        assert_eq!(of(&[("a", "100", "999 100000")], &["a"]), (256, 1));
        // libvirt: one cgroup a VCPU below the VM's.
        let libvirt = [("m", "200", max), ("m/v0", "100", "50000 100000"), ("m/v1", "300", "50000 100000")];
        assert_eq!(of(&libvirt, &["m/v0", "m/v1"]), (512, 100));
        assert_eq!(of(&[libvirt[0], libvirt[1], ("m/v1", "100", max)], &["m/v0", "m/v1"]), (512, 0));
    }
}
