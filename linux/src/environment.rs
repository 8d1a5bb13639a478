// SPDX-License-Identifier: GPL-2.0-only
//! What the machine must have before anything is changed on it.

use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use takt_policy::NCPU;

const STATE: &str = "/sys/kernel/sched_ext/state";

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
        ensure!(unsafe { libc::geteuid() } == 0, "takt run needs root: it replaces the kernel's scheduler");
        let state = std::fs::read_to_string(STATE).ok();
        let Some(state) = state else {
            bail!(
                "this kernel has no sched_ext (no {STATE}): Linux 6.16 or later with CONFIG_SCHED_CLASS_EXT is needed"
            )
        };
        ensure!(
            Path::new("/sys/kernel/btf/vmlinux").exists(),
            "this kernel has no BTF (/sys/kernel/btf/vmlinux): CONFIG_DEBUG_INFO_BTF is needed"
        );
        let state = state.trim();
        if state != "disabled" {
            bail!(
                "another scheduler is loaded: {} ({STATE} is `{state}`)",
                scheduler_name().unwrap_or("of unknown name".into())
            );
        }
        let possible = list("/sys/devices/system/cpu/possible")?;
        let most = possible.iter().max().map_or(0, |n| n + 1);
        ensure!(
            most <= NCPU,
            "this host may have {most} CPUs, a pool holds {NCPU}: boot with nr_cpus={NCPU} or run Takt on a smaller host"
        );
        let online = list("/sys/devices/system/cpu/online")?.into_iter().map(pcpu).collect();
        Ok(Self { online, possible, kvm: Path::new("/sys/kernel/btf/kvm").exists() })
    }
}

/// The loaded scheduler's name as the kernel gives it, if one is loaded.
pub fn scheduler_name() -> Option<String> {
    let name = std::fs::read_to_string("/sys/kernel/sched_ext/root/ops").ok()?;
    Some(name.trim().to_owned())
}

/// A list as sysfs writes it: `0-3,8`.
fn list(path: &str) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
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
fn pcpu(n: u32) -> Pcpu {
    let base = format!("/sys/devices/system/cpu/cpu{n}");
    let first = |path: String| list(&path).ok().and_then(|l| l.into_iter().min()).and_then(|x| u16::try_from(x).ok());
    let core = first(format!("{base}/topology/core_cpus_list")).unwrap_or(n as u16);
    let caches = (0..8).filter_map(|i| {
        let level = std::fs::read_to_string(format!("{base}/cache/index{i}/level")).ok()?.trim().parse::<u32>().ok()?;
        Some((level, first(format!("{base}/cache/index{i}/shared_cpu_list"))?))
    });
    let llc = caches.max_by_key(|(level, _)| *level).map(|(_, first)| first);
    let package = first(format!("{base}/topology/package_cpus_list"));
    let node = (0..64).find(|i| Path::new(&format!("{base}/node{i}")).exists()).unwrap_or(0);
    Pcpu { n, core, llc: llc.or(package).unwrap_or(0), node }
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("x"), None);
    }
}
