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

/// The limit of a VM in percent of a PCPU; its VCPU threads are in the cgroups `threads`. Of the limits along the levels that all
/// threads have in common the lowest counts, and limits of single VCPUs add up if each has one.
pub fn cap(root: &Path, threads: &[String]) -> Option<f64> {
    let first = threads.first()?;
    let levels: Vec<Vec<&str>> = threads.iter().map(|t| t.split('/').filter(|l| !l.is_empty()).collect()).collect();
    let shared = (0..).take_while(|&i| levels[0].get(i).is_some_and(|l| levels.iter().all(|x| x.get(i) == Some(l))));
    let common = shared.count();
    let own: Option<Vec<f64>> = threads.iter().map(|t| lowest(&below(root, t, common, usize::MAX))).collect();
    let caps = [lowest(&below(root, first, 0, common)), own.map(|all| all.iter().sum())];
    caps.into_iter().flatten().min_by(f64::total_cmp)
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
        let share = super::super::shares::shares(tree(all).path(), &[threads])[0];
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
    #[test]
    fn a_share_is_within_what_the_policy_takes() {
        let of = |weight, cap| {
            let share = Share::new(weight, cap);
            (share.weight, share.cap)
        };
        for (weight, want) in [(0.0, 1), (0.4, 1), (1.4, 1), (1.5, 2), (256.0, 256), (65_535.4, 65_535), (1e9, 65_535)]
        {
            assert_eq!(of(weight, f64::INFINITY), (want, 0), "{weight}");
        }
        // A limit is rounded up, for 0 is none, and what a division leaves behind the comma is not one percent more.
        for (cap, want) in [
            (0.0, 1),
            (0.2, 1),
            (1.0, 1),
            (1.000_000_000_1, 1),
            (1.01, 2),
            (99.5, 100),
            (6_400.0, 6_400),
            (6_400.5, 6_400),
            (1e9, 6_400),
        ] {
            assert_eq!(of(256.0, cap), (256, want), "{cap}");
        }
        assert_eq!(ROOT, "/sys/fs/cgroup");
    }

    #[test]
    fn a_limit_is_a_quota_in_a_period() {
        for (text, want) in [
            ("max 100000", None),
            ("max", None),
            ("", None),
            ("50000", None),
            ("50000 0", None),
            ("50000 -1", None),
            ("50000 x", None),
            ("50000 100000\n", Some(50.0)),
            ("100000 50000", Some(200.0)),
            ("1000 1000000", Some(0.1)),
        ] {
            assert_eq!(limit(text), want, "{text}");
        }
        let root = tree(&[("a", "100", "60000 100000"), ("a/b", "70", "30000 100000"), ("c", "x", "max 100000")]);
        let dir = |d: &str| root.path().join(d);
        assert_eq!((limit_of(root.path(), "a"), limit_of(root.path(), "c")), (Some(60.0), None));
        assert_eq!(lowest(&[dir("a"), dir("a/b"), dir("c"), dir("gone")]), Some(30.0));
        assert_eq!((lowest(&[]), lowest(&[dir("gone")])), (None, None));
        assert_eq!([weight(&dir("a/b")), weight(&dir("c")), weight(&dir("gone"))], [Some(70.0), None, None]);
    }

    #[test]
    fn a_cgroup_is_cut_into_its_levels() {
        let root = Path::new("/r");
        let levels =
            |from, to| below(root, "/a/b//c", from, to).iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
        assert_eq!(levels(0, usize::MAX), ["/r/a", "/r/a/b", "/r/a/b/c"]);
        assert_eq!(levels(1, 2), ["/r/a/b"]);
        assert_eq!(levels(2, 2), Vec::<String>::new());
        assert!(below(root, "/", 0, 9).is_empty());
    }

    #[test]
    fn a_thread_is_in_the_cgroup_of_version_2() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cgroup");
        for (text, want) in [
            ("1:cpu:/x\n0::/a/b\n", Some("a/b")),
            ("0::/\n", Some("")),
            ("0::/a\n0::/b\n", Some("a")),
            ("1:cpu:/x\n", None),
            ("10::/x\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(super::of(&file).as_deref(), want, "{text}");
        }
        assert_eq!(super::of(&dir.path().join("gone")), None);
        let own = std::process::id();
        assert_eq!(of_thread(own, own), super::of(Path::new("/proc/thread-self/cgroup")));
        assert_eq!(of_thread(u32::MAX, 1), None);
    }

    /// Of a single VM weights multiply along the levels that all threads have in common; limits of single threads add up if each has one.
    #[test]
    fn levels_in_common_and_beyond() {
        let max = "max 100000";
        let tree = [
            ("a", "50", "400000 100000"),
            ("a/b", "200", "300000 100000"),
            ("a/b/v0", "400", "60000 100000"),
            ("a/b/v1", "25", "50000 100000"),
            ("a/b/v1/x", "100", "20000 100000"),
            ("a/b/v2", "100", max),
        ];
        assert_eq!(of(&tree, &["a/b/v0", "a/b/v1"]), (256, 110));
        assert_eq!(of(&tree, &["a/b/v0", "a/b/v1/x"]), (256, 80), "the lowest of a thread's own");
        assert_eq!(of(&tree, &["a/b/v0", "a/b/v2"]), (256, 300), "one has none");
        assert_eq!(of(&tree, &["a/b/v0"]), (1024, 60), "of one thread all is in common");
        assert_eq!(of(&tree, &["a/b/v0", "a"]), (128, 400), "a is what both have in common");
        assert_eq!(of(&tree, &["a/b/v0", "c"]), (256, 0));
    }
}
