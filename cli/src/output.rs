// SPDX-License-Identifier: GPL-2.0-only
//! What leaves the program: files whole or not at all, stdout without a panic when its reader has gone.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file to be written: opened (and so refused) before the long run, visible under its name only when complete.
/// Devices and pipes are written as they are: nothing may take their place.
pub struct Pending {
    file: Target,
    path: PathBuf,
}

enum Target {
    Whole(NamedTempFile),
    Device(File),
}

impl Pending {
    /// Prepares to write `path`.
    ///
    /// # Errors
    /// One line that names the file, if it cannot be written there.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, 0o666)
    }

    /// As [`Pending::open`], for the owner's eyes only.
    ///
    /// # Errors
    /// Those of [`Pending::open`].
    pub fn open_private(path: &Path) -> Result<Self> {
        Self::open_as(path, 0o600)
    }

    fn open_as(path: &Path, mode: u32) -> Result<Self> {
        let context = || format!("{}: cannot be written", path.display());
        if path.is_dir() {
            bail!("{}: cannot be written: is a directory", path.display());
        }
        let is_link = path.is_symlink();
        let path = match path.metadata() {
            // A file that exists and is read-only is not to be replaced behind its owner's back.
            Ok(at) => {
                let file = OpenOptions::new().append(true).open(path).with_context(context)?;
                if !at.is_file() {
                    return Ok(Self { file: Target::Device(file), path: path.to_owned() });
                }
                path.canonicalize().with_context(context)?
            }
            Err(e) if is_link => return Err(e).with_context(context),
            Err(_) => path.to_owned(),
        };
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".takt-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
        let file = builder.tempfile_in(dir).map_err(bare).with_context(context)?;
        Ok(Self { file: Target::Whole(file), path })
    }

    /// Writes `bytes` and gives the file its name.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        match self.file {
            Target::Device(mut file) => file.write_all(bytes).and_then(|()| file.flush()),
            Target::Whole(mut file) => {
                let written = file.write_all(bytes).and_then(|()| file.flush());
                written.and_then(|()| file.persist(path).map(drop).map_err(|e| e.error))
            }
        }
        .with_context(|| format!("{}: cannot be written", path.display()))
    }
}

/// An error without the path of a temporary file, which `tempfile` appends and which tells a user nothing.
fn bare(e: std::io::Error) -> anyhow::Error {
    let text = e.to_string();
    anyhow!("{}", text.split(" at path ").next().unwrap_or_default())
}

/// [`Pending::open`] for each file that is asked for.
///
/// # Errors
/// Those of [`Pending::open`]; a file named twice, or one that is among `inputs`.
pub fn open<const N: usize>(paths: [Option<&PathBuf>; N], inputs: &[PathBuf]) -> Result<[Option<Pending>; N]> {
    let real = |p: &Path| p.canonicalize().unwrap_or_else(|_| p.to_owned());
    let mut files = paths.map(|_| None);
    for (n, path) in paths.iter().enumerate() {
        let Some(path) = path else { continue };
        let same = |other: &PathBuf| path == &other || (path.is_file() && real(path) == real(other));
        if inputs.iter().any(same) {
            bail!("{}: cannot be written: it is read", path.display());
        }
        if paths[..n].iter().copied().flatten().any(same) {
            bail!("{}: cannot be written: named twice", path.display());
        }
        files[n] = Some(Pending::open(path)?);
    }
    Ok(files)
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
