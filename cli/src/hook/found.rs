// SPDX-License-Identifier: GPL-2.0-only
//! What a hook has found, and the file in which it is kept.

use crate::output::Pending;
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

/// Writes what was found, or takes away what an earlier start has written.
pub fn keep(dir: &Path, found: &Found) -> Result<()> {
    let path =
        metadata::file(dir, &found.vm).with_context(|| format!("`{}` cannot be the name of a file", found.vm))?;
    let Some(entry) = &found.entry else { return remove(&path) };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let text = format!("# by takt hook\n{}", toml::to_string(entry)?);
    Pending::open_private(&path)?.write(text.as_bytes())
}

pub fn forget(dir: &Path, vm: &str) -> Result<()> {
    metadata::file(dir, vm).map_or(Ok(()), |path| remove(&path))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).with_context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// `key=value` pairs in one text.
pub fn pairs(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
