// SPDX-License-Identifier: GPL-2.0-only
//! `takt hook`: what libvirt and Proxmox call when a VM starts or ends. It writes what the VM's own configuration says
//! for Takt to the VM's file of metadata, and takes that file away again. It never fails, or the VM would not start:
//! what is wrong is a line on stderr, and the VM has no metadata then.

pub mod libvirt;
pub mod proxmox;

use crate::output::Pending;
use crate::{args, output};
use anyhow::{Context, Result};
use std::path::Path;
use takt_control::{Entry, metadata};

/// What a VM's configuration says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its UUID, in small letters, or else its name.
    pub vm: String,
    /// `None`: nothing for Takt.
    pub entry: Option<Entry>,
}

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

/// Writes what was found, or takes away what an earlier start has written.
fn keep(dir: &Path, found: &Found) -> Result<()> {
    let path =
        metadata::file(dir, &found.vm).with_context(|| format!("`{}` cannot be the name of a file", found.vm))?;
    let Some(entry) = &found.entry else { return remove(&path) };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let text = format!("# by takt hook\n{}", toml::to_string(entry)?);
    Pending::open_private(&path)?.write(text.as_bytes())
}

fn forget(dir: &Path, vm: &str) -> Result<()> {
    metadata::file(dir, vm).map_or(Ok(()), |path| remove(&path))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).with_context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// `key=value` pairs in one text.
fn pairs(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
