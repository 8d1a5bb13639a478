// SPDX-License-Identifier: GPL-2.0-only
//! The hypervisor's lab, for tests that run scenarios in it.

use takt_bpf_build::skip;
use takt_lab::xen::Lab;

/// Unless this machine cannot have it.
pub fn lab(test: &str) -> Option<Lab> {
    let lab = || {
        let lab = Lab::new()?;
        lab.prepare().map(|()| lab)
    };
    lab().map_err(|e| skip(test, format!("{e:#}"))).ok()
}
