// SPDX-License-Identifier: GPL-2.0-only
//! What the hypervisor's error numbers mean, in one line each.

use crate::wire;
use anyhow::anyhow;
use std::io::Error;
use takt_control::spec;
use takt_policy::ParamInfo;

/// Schedulers of Xen by number.
pub fn scheduler_name(n: u32) -> String {
    match n {
        5 => "credit".into(),
        6 => "credit2".into(),
        7 => "arinc653".into(),
        8 => "rtds".into(),
        wire::SCHEDULER_NULL => "null".into(),
        _ => format!("scheduler number {n}"),
    }
}

/// One line for what the hypervisor refuses, `what` saying of target it was asked.
pub fn refused(e: &Error, what: &str) -> anyhow::Error {
    match e.raw_os_error() {
        Some(libc::EACCES) => anyhow!(
            "{what}: the hypervisor has another interface version (this takt: Xen 4.20, domctl {:#x}, sysctl {:#x})",
            wire::DOMCTL_VERSION,
            wire::SYSCTL_VERSION
        ),
        Some(libc::EPERM) => anyhow!("{what}: only Dom0 may do this"),
        Some(libc::ENOSPC) => anyhow!("{what}: no PCPU has room for this in addition to the other budgets"),
        Some(libc::ESRCH) => anyhow!("{what}: it is gone"),
        Some(libc::EINVAL) => {
            anyhow!("{what}: its scheduler does not support this; it is not Takt, or another version")
        }
        _ => anyhow!("{what}: the hypervisor refused: {e}"),
    }
}

/// The same for a value, which may be out of range.
pub fn out_of(e: &Error, what: &str, info: &ParamInfo) -> anyhow::Error {
    match e.raw_os_error() {
        Some(libc::ERANGE) => anyhow!("{what}: must be {}", spec::must_be(info)),
        Some(libc::EBUSY) => anyhow!("{what}: the policy already has `rt_max` real-time VMs"),
        Some(libc::EOPNOTSUPP) => anyhow!("{what}: not supported by this policy"),
        _ => refused(e, what),
    }
}
