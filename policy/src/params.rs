// SPDX-License-Identifier: GPL-2.0-only
//! Policies and parameters as the core declares them (`policies.def`, `settings.def`): one list for
//! every host and for the docs.

use crate::ffi;
use std::ffi::{CStr, c_char};
use std::sync::LazyLock;

/// A parameter that `adjust` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    pub name: &'static str,
    pub doc: &'static str,
    /// "ns", "credits", "" …
    pub unit: &'static str,
    pub key: u32,
    pub min: u64,
    pub max: u64,
    /// As published; what the simulator begins with.
    pub default: u64,
    /// What a live Linux host begins with, and a live Xen host.
    pub linux: u64,
    pub xen: u64,
    /// A VM's parameter, else the pool's.
    pub per_vm: bool,
    /// A value by which a guest may gain what others lose, and how (docs/security.md): live hosts refuse it unless told.
    pub unfair: Option<(u64, &'static str)>,
    /// An older name, and its words (or unit), which users may still type.
    pub old: Option<(&'static str, &'static str)>,
}

impl ParamInfo {
    /// Whether `name` means it.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.old.is_some_and(|(old, _)| old == name)
    }

    /// Which of its words a user means, in either form.
    #[must_use]
    pub fn word(&self, text: &str) -> Option<u64> {
        let of = |unit: &str| unit.split('|').position(|word| word == text);
        of(self.unit).or_else(|| of(self.old?.1)).map(|n| n as u64)
    }
}

/// A policy of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    pub name: &'static str,
    pub doc: &'static str,
    pub id: u32,
    /// Bits of [`TraitInfo`].
    traits: u32,
}

impl PolicyInfo {
    /// Whether it has a trait, by its name in `core/traits.h`.
    ///
    /// # Panics
    /// There is no such trait.
    pub fn has(&self, name: &str) -> bool {
        let of = traits().into_iter().find(|t| t.name == name);
        self.traits & of.unwrap_or_else(|| panic!("no trait `{name}`")).bit != 0
    }
}

/// What a policy may have (`core/traits.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraitInfo {
    pub name: &'static str,
    pub doc: &'static str,
    bit: u32,
}

/// Every parameter.
pub fn params() -> Vec<ParamInfo> {
    (0..)
        .map_while(|n| unsafe { ffi::takt_params(n).as_ref() })
        .map(|p| ParamInfo {
            name: text(p.name),
            doc: text(p.doc),
            unit: text(p.unit),
            key: p.key,
            min: p.min,
            max: p.max,
            default: p.default,
            linux: p.linux,
            xen: p.xen,
            per_vm: p.per_vm != 0,
            unfair: unfair(p.key),
            old: old(p.key),
        })
        .collect()
}

/// The parameter of that name, of a VM or of the pool.
pub fn param(name: &str, per_vm: bool) -> Option<ParamInfo> {
    params().into_iter().find(|p| p.per_vm == per_vm && p.name == name)
}

/// The pool's parameters that a live host begins with at another value than the published one: `of` says that value.
pub fn live(of: impl Fn(&ParamInfo) -> u64) -> Vec<(ParamInfo, u64)> {
    params().into_iter().filter(|p| !p.per_vm).map(|p| (p, of(&p))).filter(|(p, v)| *v != p.default).collect()
}

fn old(key: u32) -> Option<(&'static str, &'static str)> {
    let mut all = (0..).map_while(|n| unsafe { ffi::takt_old_names(n).as_ref() });
    all.find(|old| old.key == key).map(|old| (text(old.name), text(old.unit)))
}

fn unfair(key: u32) -> Option<(u64, &'static str)> {
    let mut all = (0..).map_while(|n| unsafe { ffi::takt_unfair(n).as_ref() });
    all.find(|unfair| unfair.key == key).map(|unfair| (unfair.value, text(unfair.why)))
}

/// The settings of a VM, by ascending key.
pub fn vm_settings() -> &'static [ParamInfo] {
    static TABLE: LazyLock<Vec<ParamInfo>> = LazyLock::new(|| params().into_iter().filter(|p| p.per_vm).collect());
    &TABLE
}

/// Every policy.
pub fn policies() -> Vec<PolicyInfo> {
    (0..)
        .map_while(|n| unsafe { ffi::takt_policies(n).as_ref() })
        .map(|p| PolicyInfo { name: text(p.name), doc: text(p.doc), id: p.id, traits: p.traits })
        .collect()
}

/// Every trait.
pub fn traits() -> Vec<TraitInfo> {
    (0..)
        .map_while(|n| unsafe { ffi::takt_traits(n).as_ref() })
        .map(|t| TraitInfo { name: text(t.name), doc: text(t.doc), bit: t.id })
        .collect()
}

/// Whether the policy of that name has a trait; one that is not known has none.
pub fn has(policy: &str, name: &str) -> bool {
    policies().iter().any(|p| p.name == policy && p.has(name))
}

/// Static strings of the core.
fn text(s: *const c_char) -> &'static str {
    unsafe { CStr::from_ptr(s) }.to_str().expect("the core's strings are ASCII")
}
