// SPDX-License-Identifier: GPL-2.0-only
//! The file in which a hook keeps what it has found of a VM.

use crate::output::Pending;
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::Path;
use takt_control::{Entry, metadata};

/// Takes away what an earlier start of `vm` has written, and writes what it `says` now, if that is anything. `vm` is its
/// UUID, in small letters, or else its name.
///
/// # Errors
/// That of `says`, and the file cannot be written: the VM has no metadata then.
pub fn renew(dir: &Path, vm: &str, says: impl FnOnce() -> Result<Option<Entry>>) -> Result<()> {
    let path = metadata::file(dir, vm).with_context(|| format!("`{vm}` cannot be the name of a file"))?;
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(|| path.display().to_string()),
        _ => {}
    }
    let Some(entry) = says()? else { return Ok(()) };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let text = format!("# by takt hook\n{}", toml::to_string(&entry)?);
    Pending::open_private(&path)?.write(text.as_bytes())
}
