// SPDX-License-Identifier: GPL-2.0-only
//! The simulator's scenarios on the real kernel: a Debian kernel in QEMU, KVM guests that do what the scenario's VMs do, under
//! one of Takt's policies or a scheduler of the kernel's own, and the result in the simulator's form.
//!
//! [`xen`] does the same with the real hypervisor.
//!
//! `map` makes a [`plan`] of a scenario, [`linux`] boots a machine with it, `takt-lab-init` in that machine carries it out, and
//! `result` reads the [`outcome`].

mod apps;
mod guests;
pub mod hosts;
pub mod linux;
mod map;
pub mod outcome;
pub mod plan;
mod result;
pub mod scheduler;
pub mod shell;
pub mod xen;

use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

pub use linux::{Boot, Kernel, Lab, check};
pub use result::LabRun;
pub use scheduler::Scheduler;

/// Of the loop that is a guest's work, on all hosts.
const INSTRUCTIONS_PER_ITERATION: f64 = 2.0;

/// Where the programs of a machine are: beside `program`, or where `TAKT_PROGRAMS` says.
///
/// # Errors
/// One of `names` is missing there.
pub fn programs(program: &Path, names: &[&str]) -> Result<PathBuf> {
    let beside = program.parent().unwrap_or(program).to_owned();
    let dir = std::env::var_os("TAKT_PROGRAMS").map_or(beside, PathBuf::from);
    for name in names {
        let file = dir.join(name);
        ensure!(
            file.is_file(),
            "{}: missing; `cargo build --release -p takt --features takt/linux,takt/xen -p takt-vmm -p takt-lab` builds it; TAKT_PROGRAMS selects another directory",
            file.display()
        );
    }
    Ok(dir)
}
