// SPDX-License-Identifier: GPL-2.0-only
//! `takt hook`: what libvirt and Proxmox call when a VM starts or ends. It writes what the VM's own configuration says
//! for Takt to the VM's file of metadata, and takes that file away again. It never fails, or the VM would not start:
//! what is wrong is a line on stderr, and the VM has no metadata then.

mod found;
pub mod libvirt;
pub mod proxmox;

use crate::{args, output};
use anyhow::Result;

/// Runs the command.
///
/// # Errors
/// None.
pub fn run(args: &args::Hook) -> Result<bool> {
    let done = match &args.of {
        args::HookOf::Libvirt(a) => libvirt::run(a, &mut std::io::stdin().lock(), &args.dir),
        args::HookOf::Proxmox(a) => proxmox::run(a, &args.dir),
    };
    if let Err(e) = done {
        output::complain(&takt_control::one_line(&e).to_string());
    }
    Ok(true)
}
