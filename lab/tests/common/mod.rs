// SPDX-License-Identifier: GPL-2.0-only
//! What the tests of the lab need to begin.

mod scenarios;

pub use scenarios::scenario;

use std::path::PathBuf;
use takt_bpf_build::skip;
use takt_lab::{Kernel, Lab, linux};

/// Where `takt` (with the live hosts), `takt-vmm` and `takt-lab-init` are.
///
/// # Errors
/// One of them is missing.
pub fn programs() -> anyhow::Result<PathBuf> {
    takt_lab::programs(env!("CARGO_BIN_EXE_takt-lab-init").as_ref(), &["takt", "takt-vmm", "takt-lab-init"])
}

/// A lab with a kernel of `series`, unless this machine cannot have one; `record` for recordings of Takt's policies.
pub fn lab(test: &str, series: &str, record: bool) -> Option<Lab> {
    let lab = || {
        linux::qemu()?;
        Ok(Lab { kernel: Kernel::get(series)?, programs: programs()?, counted: true, record })
    };
    lab().map_err(|e: anyhow::Error| skip(test, format!("{e:#}"))).ok()
}
