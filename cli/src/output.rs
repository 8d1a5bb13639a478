// SPDX-License-Identifier: GPL-2.0-only
//! What leaves the program: files whole or not at all, stdout without a panic when its reader has gone.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file to be written: opened (and so refused) before the long run, visible under its name only when complete.
pub struct Pending {
    file: NamedTempFile,
    path: PathBuf,
}

impl Pending {
    /// Prepares to write `path`.
    ///
    /// # Errors
    /// One line that names the file, if it cannot be written there.
    pub fn open(path: &Path) -> Result<Self> {
        let context = || format!("{}: cannot be written", path.display());
        if path.is_dir() {
            anyhow::bail!("{}: cannot be written: is a directory", path.display());
        }
        // A file that exists and is read-only is not to be replaced behind its owner's back.
        if path.exists() {
            std::fs::OpenOptions::new().append(true).open(path).with_context(context)?;
        }
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".takt-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(dir).with_context(context)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes `bytes` and gives the file its name.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn write(mut self, bytes: &[u8]) -> Result<()> {
        let context = || format!("{}: cannot be written", self.path.display());
        self.file.write_all(bytes).and_then(|()| self.file.flush()).with_context(context)?;
        let path = self.path.clone();
        self.file.persist(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(())
    }
}

/// [`Pending::open`] for an optional file.
///
/// # Errors
/// Those of [`Pending::open`].
pub fn open(path: Option<&PathBuf>) -> Result<Option<Pending>> {
    path.map(|p| Pending::open(p)).transpose()
}

/// Prints to stdout in one piece. A reader that has gone is no error.
///
/// # Errors
/// stdout cannot be written for any other reason.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("stdout: cannot be written"),
        _ => Ok(()),
    }
}

/// [`print`] of a value as JSON.
///
/// # Errors
/// Those of [`print`].
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// One line on stderr; nothing can be done when stderr has gone.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "takt: {line}");
}
