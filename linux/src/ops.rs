// SPDX-License-Identifier: GPL-2.0-only
//! What is settled about `takt_ops` (`struct sched_ext_ops` of `bpf/kernel.h`) before it is loaded: the timeout, and the callbacks that
//! this kernel has.

use anyhow::{Context, Result, ensure};
use libbpf_rs::OpenObject;
use libbpf_rs::btf::{Btf, types::Struct};
use std::collections::BTreeSet;

/// Longest wait of a thread before the kernel takes a scheduler out, ms: the kernel's own limit.
pub const TIMEOUT_MS: u32 = 30_000;
/// The callbacks of cgroups in the order of `bpf/kernel.h`, where they begin at [`CALLBACKS_AT`].
const CALLBACKS: [&str; 6] =
    ["cgroup_init", "cgroup_exit", "cgroup_move", "cgroup_set_weight", CGROUP_SET_BANDWIDTH, "cgroup_set_idle"];
const CALLBACKS_AT: usize = 16;
const CGROUP_SET_BANDWIDTH: &str = "cgroup_set_bandwidth";

/// What a kernel tells its scheduler of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// `cpu.weight` (`CONFIG_EXT_GROUP_SCHED`).
    pub weight: bool,
    /// `cpu.max` (Linux 6.17 and later).
    pub max: bool,
}

impl Cgroups {
    /// Of a kernel with these callbacks.
    fn of(has: impl Fn(&str) -> bool) -> Self {
        let weight = has(CALLBACKS[0]);
        Self { weight, max: weight && has(CGROUP_SET_BANDWIDTH) }
    }

    /// What of a cgroup's settings has no effect; `None`: all has.
    pub fn unheeded(self) -> Option<&'static str> {
        match self {
            Self { weight: true, max: true } => None,
            Self { weight: true, max: false } => Some("cpu.max"),
            Self { weight: false, .. } => Some("cpu.weight and cpu.max"),
        }
    }
}

/// Writes the timeout, and takes out the callbacks that this kernel does not have.
///
/// # Errors
/// The objects are of another build, or the kernel's BTF cannot be read.
pub fn settle(open: &mut OpenObject, timeout_ms: u32) -> Result<Cgroups> {
    let btf = Btf::from_vmlinux().context("/sys/kernel/btf/vmlinux")?;
    let callbacks = callbacks(&btf)?;
    let has = |name: &str| callbacks.contains(name);
    let mut ops = open.maps_mut().find(|m| m.name() == "takt_ops").context("no map takt_ops")?;
    let value = ops.initial_value_mut().context("map takt_ops has no value")?;
    edit(value, timeout_ms, has)
}

/// The names of the callbacks that a kernel has.
fn callbacks(btf: &Btf<'_>) -> Result<BTreeSet<String>> {
    let ops = btf.type_by_name::<Struct<'_>>("sched_ext_ops").context("this kernel has no struct sched_ext_ops")?;
    Ok(ops.iter().filter_map(|m| Some(m.name?.to_string_lossy().into_owned())).collect())
}

/// What a kernel with this BTF tells its scheduler of cgroups.
///
/// # Errors
/// It has no sched_ext.
pub fn cgroups(btf: &Btf<'_>) -> Result<Cgroups> {
    let callbacks = callbacks(btf)?;
    Ok(Cgroups::of(|name| callbacks.contains(name)))
}

fn edit(value: &mut [u8], timeout_ms: u32, has: impl Fn(&str) -> bool) -> Result<Cgroups> {
    let end = CALLBACKS_AT + CALLBACKS.len() * size_of::<usize>();
    let timeout = 0..size_of::<u32>();
    let ours = value.len() >= end && value[timeout.clone()] == TIMEOUT_MS.to_ne_bytes();
    ensure!(ours, "the BPF objects are from another build");
    value[timeout].copy_from_slice(&timeout_ms.to_ne_bytes());
    let cgroups = Cgroups::of(&has);
    for (name, callback) in CALLBACKS.iter().zip(value[CALLBACKS_AT..end].chunks_exact_mut(size_of::<usize>())) {
        ensure!(callback.iter().any(|&b| b != 0), "the BPF objects are from another build: no {name}");
        if !cgroups.weight || !has(name) {
            callback.fill(0);
        }
    }
    Ok(cgroups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops() -> Vec<u8> {
        let mut ops = vec![7; CALLBACKS_AT + 8 * CALLBACKS.len() + 100];
        ops[..4].copy_from_slice(&TIMEOUT_MS.to_ne_bytes());
        ops
    }

    #[test]
    fn callbacks_that_a_kernel_lacks_are_taken_out_and_no_others() {
        let mut all = ops();
        assert_eq!(edit(&mut all, 5, |_| true).unwrap().unheeded(), None);
        assert_eq!((&all[..4], all[4..].iter().all(|&b| b == 7)), (&5u32.to_ne_bytes()[..], true));

        let mut old = ops();
        let has = |n: &str| !["cgroup_set_bandwidth", "cgroup_set_idle"].contains(&n);
        assert_eq!(edit(&mut old, 5, has).unwrap().unheeded(), Some("cpu.max"));
        assert!(old[16..48].iter().all(|&b| b == 7) && old[48..64].iter().all(|&b| b == 0) && old[64] == 7);

        let mut none = ops();
        assert_eq!(edit(&mut none, 5, |n| n == "cgroup_exit").unwrap().unheeded(), Some("cpu.weight and cpu.max"));
        assert!(none[16..64].iter().all(|&b| b == 0) && none[64] == 7);
    }

    #[test]
    fn objects_of_another_build_are_refused() {
        assert!(edit(&mut [0; 200], 5, |_| true).is_err());
        assert!(edit(&mut ops()[..60], 5, |_| true).is_err());
        let mut lacking = ops();
        lacking[24..32].fill(0);
        assert!(edit(&mut lacking, 5, |_| true).is_err());
    }
}
