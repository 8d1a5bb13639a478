// SPDX-License-Identifier: GPL-2.0-only
//! Policies and parameters as the core declares them (`core/params.h`): one list for every host and for the docs.

use crate::ffi;
use std::ffi::{CStr, c_char};

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
    pub default: u64,
    /// A VM's parameter, else the pool's.
    pub per_vm: bool,
}

/// A policy of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    pub name: &'static str,
    pub doc: &'static str,
    pub id: u32,
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
            per_vm: p.per_vm != 0,
        })
        .collect()
}

/// Every policy.
pub fn policies() -> Vec<PolicyInfo> {
    (0..)
        .map_while(|n| unsafe { ffi::takt_policies(n).as_ref() })
        .map(|p| PolicyInfo { name: text(p.name), doc: text(p.doc), id: p.id })
        .collect()
}

/// Static strings of the core.
fn text(s: *const c_char) -> &'static str {
    unsafe { CStr::from_ptr(s) }.to_str().expect("the core's strings are ASCII")
}
