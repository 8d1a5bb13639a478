// SPDX-License-Identifier: GPL-2.0-only
//! What the tests of the lab need to begin.

use std::path::{Path, PathBuf};
use takt_bpf_build::skip;
use takt_lab::{Kernel, Lab, linux};

/// A lab with a kernel of `series`, unless this machine cannot have one; `record` for recordings of Takt's policies.
pub fn lab(test: &str, series: &str, record: bool) -> Option<Lab> {
    let lab = || {
        linux::qemu()?;
        let programs = Path::new(env!("CARGO_BIN_EXE_takt-lab-init")).parent().map(PathBuf::from).unwrap_or_default();
        for name in ["takt", "takt-vmm"] {
            let file = programs.join(name);
            anyhow::ensure!(
                file.is_file(),
                "{}: missing; `cargo build --release -p takt --features linux -p takt-vmm` makes it",
                file.display()
            );
        }
        Ok(Lab { kernel: Kernel::get(series)?, programs, counted: true, record })
    };
    lab().map_err(|e: anyhow::Error| skip(test, format!("{e:#}"))).ok()
}
