// SPDX-License-Identifier: GPL-2.0-only
//! What the machine must have before anything is changed on it.

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::btf::types::{Func, FuncProto};
use libbpf_rs::btf::{Btf, ReferencesType};
use std::path::{Path, PathBuf};
use takt_monitor::object::keep_complaints;
use takt_policy::NCPU;

const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";

/// What the kernel says of its own types and functions.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// The oldest kernel with the functions that Takt needs.
const OLDEST: (u32, u32) = (6, 16);

/// A function of every kernel with sched_ext, and its parameters. BTF of kernels that were built with an old pahole has one more:
/// one that the kernel passes by itself.
pub const KICK: (&str, usize) = ("scx_bpf_kick_cpu", 2);

/// A machine that can run the scheduler.
#[derive(Clone, Debug)]
pub struct Environment {
    /// PCPUs that are online.
    pub online: Vec<Pcpu>,
    /// All that could be.
    pub possible: Vec<u32>,
    /// `kvm` is there (or may be loaded later).
    pub kvm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcpu {
    pub n: u32,
    pub core: u16,
    pub llc: u16,
    pub node: u16,
}

impl Environment {
    /// Looks at the machine; changes nothing.
    ///
    /// # Errors
    /// One line that says what is missing and what would help.
    pub fn check() -> Result<Self> {
        // SAFETY: no arguments, cannot fail.
        is_root(unsafe { libc::geteuid() })?;
        let environment = Self::of(Path::new("/"))?;
        describes_itself(Path::new("/"))?;
        Ok(environment)
    }

    /// The machine with file systems below `root`: `/`, or a tree of a test's.
    fn of(root: &Path) -> Result<Self> {
        is_no_dom0(root)?;
        sched_ext(root)?;
        btf(root)?;
        no_scheduler(root)?;
        let possible = possible(root)?;
        let online = online(root)?.into_iter().map(|n| pcpu(root, n)).collect();
        Ok(Self { online, possible, kvm: below(root, "/sys/kernel/btf/kvm").exists() })
    }
}

/// Whether user `uid` is root.
pub fn is_root(uid: u32) -> Result<()> {
    ensure!(uid == 0, "takt run needs root: it replaces the kernel's scheduler");
    Ok(())
}

/// Whether the kernel schedules the VMs here.
pub fn is_no_dom0(root: &Path) -> Result<()> {
    let xen = read(root, "/proc/xen/capabilities").is_some_and(|text| text.contains("control_d"));
    ensure!(!xen, "this is Xen's Dom0, where the hypervisor schedules; build takt for it with `make takt-xen`");
    Ok(())
}

/// The kernel's release, if it has sched_ext as Takt needs it.
pub fn sched_ext(root: &Path) -> Result<String> {
    let release = read(root, RELEASE).unwrap_or_default().trim().to_owned();
    ensure!(below(root, STATE).exists(), without(&release));
    let (major, minor) = OLDEST;
    ensure!(
        version(&release).is_none_or(|version| version >= OLDEST),
        "this kernel ({release}) is too old: Takt needs Linux {major}.{minor} or later"
    );
    Ok(release)
}

/// Whether the kernel has BTF.
pub fn btf(root: &Path) -> Result<()> {
    ensure!(below(root, VMLINUX).exists(), "this kernel has no BTF ({VMLINUX}); Takt needs CONFIG_DEBUG_INFO_BTF");
    Ok(())
}

/// The kernel's BTF, if it describes its functions as they are.
pub fn describes_itself(root: &Path) -> Result<Btf<'static>> {
    keep_complaints();
    let btf = Btf::from_path(below(root, VMLINUX)).with_context(|| format!("{VMLINUX} cannot be read"))?;
    let (name, parameters) = KICK;
    let has = btf.type_by_name::<Func<'_>>(name).and_then(|f| FuncProto::try_from(f.referenced_type()).ok());
    let has = has.with_context(|| format!("this kernel's BTF has no {name}: Takt needs a kernel with sched_ext"))?;
    ensure!(
        has.iter().count() == parameters,
        "this kernel's BTF describes its own functions wrongly (as in Debian's 7.1 and 7.2); use another kernel"
    );
    Ok(btf)
}

/// Whether no scheduler is loaded.
pub fn no_scheduler(root: &Path) -> Result<()> {
    let state = read(root, STATE).unwrap_or_default();
    let state = state.trim();
    if state != "disabled" {
        bail!(
            "another scheduler is loaded: {} ({STATE} is `{state}`)",
            name_below(root).unwrap_or_else(|| "of unknown name".into())
        );
    }
    Ok(())
}

/// The CPUs that may be, if Takt supports so many.
pub fn possible(root: &Path) -> Result<Vec<u32>> {
    let possible = list(root, "/sys/devices/system/cpu/possible")?;
    let most = possible.iter().max().map_or(0, |n| n + 1);
    ensure!(
        most <= NCPU,
        "this host may have {most} CPUs, but Takt supports {NCPU}: boot with nr_cpus={NCPU} or run Takt on a smaller host"
    );
    Ok(possible)
}

/// The CPUs that are online.
pub fn online(root: &Path) -> Result<Vec<u32>> {
    list(root, "/sys/devices/system/cpu/online")
}

/// Major and minor number of a release, if it begins with them.
fn version(release: &str) -> Option<(u32, u32)> {
    let number = |part: Option<&str>| part?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let mut parts = release.split('.');
    number(parts.next()).zip(number(parts.next()))
}

/// Why there is no sched_ext in the kernel of that release: it is too old, or was built so.
fn without(release: &str) -> String {
    let release = release.trim();
    if version(release).is_some_and(|version| version >= OLDEST) {
        return format!(
            "this kernel ({release}) was built without sched_ext (CONFIG_SCHED_CLASS_EXT); Takt needs a kernel that has it"
        );
    }
    let (major, minor) = OLDEST;
    format!(
        "this kernel has no sched_ext (no {STATE}); Takt needs Linux {major}.{minor} or later with CONFIG_SCHED_CLASS_EXT"
    )
}

/// The loaded scheduler's name as the kernel gives it, if one is loaded.
pub fn scheduler_name() -> Option<String> {
    name_below(Path::new("/"))
}

/// The same on the machine with file systems below `root`.
pub fn name_below(root: &Path) -> Option<String> {
    Some(read(root, NAME)?.trim().to_owned())
}

pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

pub fn read(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(below(root, path)).ok()
}

/// A list as sysfs writes it: `0-3,8`.
fn list(root: &Path, path: &str) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(below(root, path)).with_context(|| path.to_owned())?;
    parse_list(text.trim()).with_context(|| format!("{path}: `{}`", text.trim()))
}

fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        all.extend(a.parse::<u32>().ok()?..=b.parse().ok()?);
    }
    Some(all)
}

/// Who shares a core, a last-level cache and a node with PCPU `n`: the lowest PCPU of each set names it.
fn pcpu(root: &Path, n: u32) -> Pcpu {
    let base = format!("/sys/devices/system/cpu/cpu{n}");
    let first =
        |path: String| list(root, &path).ok().and_then(|l| l.into_iter().min()).and_then(|x| u16::try_from(x).ok());
    let core = first(format!("{base}/topology/core_cpus_list")).unwrap_or(n as u16);
    let caches = (0..8).filter_map(|i| {
        let level = read(root, &format!("{base}/cache/index{i}/level"))?.trim().parse::<u32>().ok()?;
        Some((level, first(format!("{base}/cache/index{i}/shared_cpu_list"))?))
    });
    let llc = caches.max_by_key(|(level, _)| *level).map(|(_, first)| first);
    let package = first(format!("{base}/topology/package_cpus_list"));
    let node = (0..64).find(|i| below(root, &format!("{base}/node{i}")).exists()).unwrap_or(0);
    Pcpu { n, core, llc: llc.or(package).unwrap_or(0), node }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, want) in [
            ("0-2,5", Some(vec![0, 1, 2, 5])),
            ("", Some(vec![])),
            ("7", Some(vec![7])),
            ("3-3", Some(vec![3])),
            ("2-1", Some(vec![])),
            ("x", None),
            ("1-x", None),
            ("-1", None),
            ("1-2-3", None),
        ] {
            assert_eq!(parse_list(text), want, "{text}");
        }
    }

    /// A machine with sched_ext, and with files that come instead of or in addition to the usual ones; an empty one is not there.
    fn machine(more: &[(&str, &str)]) -> Result<Environment, String> {
        let root = tempfile::tempdir().unwrap();
        let usual = [
            ("sys/kernel/sched_ext/state", "disabled\n"),
            ("sys/kernel/btf/vmlinux", "BTF"),
            ("sys/devices/system/cpu/possible", "0-3\n"),
            ("sys/devices/system/cpu/online", "0,2-3\n"),
        ];
        let usual = usual.iter().filter(|(path, _)| more.iter().all(|(other, _)| other != path));
        for (path, text) in usual.chain(more).filter(|(_, text)| !text.is_empty()) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Environment::of(root.path()).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn a_machine_that_can_run_it() {
        let e = machine(&[]).unwrap();
        assert_eq!((e.possible, e.kvm), (vec![0, 1, 2, 3], false));
        // What is not told: each its own core, one cache, one node.
        let alone = |n| Pcpu { n, core: n as u16, llc: 0, node: 0 };
        assert_eq!(e.online, [alone(0), alone(2), alone(3)]);
        assert!(machine(&[("sys/kernel/btf/kvm", "BTF")]).unwrap().kvm);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (path, text, want) in [
            ("sys/kernel/sched_ext/state", "", "this kernel has no sched_ext (no /sys/kernel/sched_ext/state)"),
            ("sys/kernel/btf/vmlinux", "", "this kernel has no BTF (/sys/kernel/btf/vmlinux)"),
            ("proc/xen/capabilities", "control_d\n", "this is Xen's Dom0, where the hypervisor schedules"),
            ("sys/kernel/sched_ext/state", "enabled\n", "another scheduler is loaded: of unknown name"),
            ("sys/devices/system/cpu/possible", "", "/sys/devices/system/cpu/possible"),
            ("sys/devices/system/cpu/online", "?\n", "/sys/devices/system/cpu/online: `?`"),
            ("sys/devices/system/cpu/possible", "0-64\n", "this host may have 65 CPUs, but Takt supports 64"),
        ] {
            let error = machine(&[(path, text)]).map(|_| ()).unwrap_err();
            assert!(error.starts_with(want), "{path}: {error}");
        }
        let named = machine(&[("sys/kernel/sched_ext/state", "enabling"), ("sys/kernel/sched_ext/root/ops", "lavd\n")]);
        let error = named.map(|_| ()).unwrap_err();
        assert_eq!(error, "another scheduler is loaded: lavd (/sys/kernel/sched_ext/state is `enabling`)");
        assert!(machine(&[("sys/devices/system/cpu/possible", "0-63\n")]).is_ok());
        assert!(machine(&[("sys/devices/system/cpu/possible", "64\n")]).is_err());
    }

    #[test]
    fn a_kernel_is_too_old_or_built_without() {
        let old = "this kernel has no sched_ext (no /sys/kernel/sched_ext/state); Takt needs Linux 6.16 or later";
        for release in ["6.12.48+deb13-amd64\n", "6.15.0", "5.19-rc1", "", "x.y"] {
            assert!(without(release).starts_with(old), "{release}: {}", without(release));
        }
        for release in ["6.16-rc1", "6.18.44-fc\n", "7.0", "10.1.2"] {
            let want = format!("this kernel ({}) was built without sched_ext", release.trim());
            assert!(without(release).starts_with(&want), "{release}: {}", without(release));
        }
        let files = [("sys/kernel/sched_ext/state", ""), ("proc/sys/kernel/osrelease", "6.18.5\n")];
        assert!(machine(&files).unwrap_err().starts_with("this kernel (6.18.5) was built without sched_ext"));
    }

    /// The lowest PCPU names a core, the cache of the highest level, or the package where no cache is told; the node is a directory.
    #[test]
    fn who_shares_what() {
        let cpu = "sys/devices/system/cpu/cpu3";
        let with = |files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|(path, text)| (format!("{cpu}/{path}"), *text)).collect();
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            *machine(&files).unwrap().online.last().unwrap()
        };
        let base = Pcpu { n: 3, core: 3, llc: 0, node: 0 };
        assert_eq!(with(&[("topology/core_cpus_list", "3,1\n")]), Pcpu { core: 1, ..base });
        assert_eq!(with(&[("topology/package_cpus_list", "2-3\n")]), Pcpu { llc: 2, ..base });
        assert_eq!(with(&[("node5/cpulist", "3")]), Pcpu { node: 5, ..base });
        assert_eq!(with(&[("node0/cpulist", "3"), ("node63/cpulist", "3")]), base);
        let caches = [
            ("cache/index0/level", "1"),
            ("cache/index0/shared_cpu_list", "3"),
            ("cache/index2/level", "3\n"),
            ("cache/index2/shared_cpu_list", "1-3\n"),
            ("cache/index7/level", "2"),
            ("cache/index7/shared_cpu_list", "2-3"),
            ("topology/package_cpus_list", "0-3"),
        ];
        assert_eq!(with(&caches), Pcpu { llc: 1, ..base });
        assert_eq!(with(&caches[..2]), Pcpu { llc: 3, ..base });
        assert_eq!(with(&caches[4..]), Pcpu { llc: 2, ..base });
        assert_eq!(with(&caches[6..]), base);
    }
}
