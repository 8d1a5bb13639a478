// SPDX-License-Identifier: GPL-2.0-only
//! Files and directories that exist only while the program runs, for [`crate::interrupt`] to remove.

use anyhow::{Context, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tempfile::TempDir;

/// All that exist.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or directory that a signal removes, for as long as this lives.
pub struct Temporary(PathBuf);

impl Temporary {
    /// Creates something; no signal comes between that and its registration.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn create<T>(create: impl FnOnce() -> io::Result<T>, path: impl FnOnce(&T) -> &Path) -> io::Result<(T, Self)> {
        let mut all = all();
        let made = create()?;
        let path = path(&made).to_owned();
        all.push(path.clone());
        Ok((made, Self(path)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        all().retain(|path| *path != self.0);
    }
}

/// All of them; while this is held none is created.
pub fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(|e| e.into_inner())
}

/// A directory in which the temporary files of this process are from now on, until it is dropped.
///
/// # Errors
/// It cannot be made.
pub fn scratch() -> Result<(TempDir, Temporary)> {
    let make = || tempfile::Builder::new().prefix("takt-").tempdir();
    let scratch = Temporary::create(make, |dir| dir.path()).context("temporary directory")?;
    // Refused where there is one already, which does as well.
    let _ = tempfile::env::override_temp_dir(scratch.0.path());
    Ok(scratch)
}
