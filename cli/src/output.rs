// SPDX-License-Identifier: GPL-2.0-only
//! What leaves the program: files whole or not at all, stdout without a panic when its reader has gone.

use crate::temporary::Temporary;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use takt_control::Document;
use takt_control::document::Versioned;
use tempfile::NamedTempFile;

/// A file to be written: opened (and so refused) before the long run, visible under its name only when complete.
/// Devices and pipes are written as they are: nothing may take their place.
pub struct Pending {
    file: Target,
    path: PathBuf,
}

enum Target {
    Whole(NamedTempFile, Temporary),
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
        no_strange_link(path).with_context(context)?;
        let is_link = path.is_symlink();
        let mut before = None;
        let path = match path.metadata() {
            // A file that exists and is read-only is not to be replaced behind its owner's back.
            Ok(at) => {
                let file = OpenOptions::new().append(true).open(path).with_context(context)?;
                let at = file.metadata().unwrap_or(at);
                if !at.is_file() {
                    return Ok(Self { file: Target::Device(file), path: path.to_owned() });
                }
                before = Some(at);
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
        let (file, until) =
            Temporary::create(|| builder.tempfile_in(dir), |f| f.path()).map_err(bare).with_context(context)?;
        #[cfg(unix)]
        if let Some(before) = before {
            own::take_over(file.as_file(), &before, dir, mode).with_context(context)?;
        }
        Ok(Self { file: Target::Whole(file, until), path })
    }

    /// Writes `bytes` and gives the file its name. Whatever has that name is replaced; a link is not followed any more.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        match self.file {
            Target::Device(mut file) => file.write_all(bytes).and_then(|()| file.flush()),
            Target::Whole(mut file, _until) => {
                let written = file.write_all(bytes).and_then(|()| file.flush());
                written.and_then(|()| file.persist(path).map(drop).map_err(|e| e.error))
            }
        }
        .with_context(|| format!("{}: cannot be written", path.display()))
    }
}

/// Refuses a path that leads through a link which somebody else may have put there.
fn no_strange_link(path: &Path) -> Result<()> {
    #[cfg(unix)]
    for at in path.ancestors().filter(|at| at.is_symlink()) {
        let dir = at.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (dir, link) = (dir.metadata()?, at.symlink_metadata()?);
        let strange = own::others_may_write(&dir, &link);
        anyhow::ensure!(!strange, "{} is a link in a directory that other users can write", at.display());
    }
    Ok(())
}

/// Who owns a file, and who may write beside it.
#[cfg(unix)]
mod own {
    use anyhow::{Result, ensure};
    use std::fs::{File, Metadata, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    use std::path::Path;

    const ROOT: u32 = 0;

    /// Whether directory `dir` is one where others than root and this user could have put `file`.
    pub fn others_may_write(dir: &Metadata, file: &Metadata) -> bool {
        let own = |uid: u32| uid == ROOT || Some(uid) == user();
        !own(dir.uid()) || !own(file.uid()) || dir.mode() & 0o022 != 0
    }

    /// The user that this runs as.
    fn user() -> Option<u32> {
        std::fs::metadata("/proc/self").ok().map(|m| m.uid())
    }

    /// Gives the new `file` in `dir` owner and mode of the one that it replaces. What is private stays so: it is not given to
    /// somebody who could have put a file there to get it.
    pub fn take_over(file: &File, before: &Metadata, dir: &Path, mode: u32) -> Result<()> {
        let (new, private) = (file.metadata()?, mode & 0o077 == 0);
        if (new.uid(), new.gid()) != (before.uid(), before.gid()) {
            let strange = private && before.uid() != new.uid() && others_may_write(&dir.metadata()?, before);
            ensure!(!strange, "the existing file belongs to another user");
            fchown(file, Some(before.uid()), Some(before.gid()))?;
        }
        let keep = if private { 0o700 } else { 0o7777 };
        Ok(file.set_permissions(Permissions::from_mode(before.mode() & keep))?)
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
            bail!("{}: cannot be written: it is an input", path.display());
        }
        if paths[..n].iter().copied().flatten().any(same) {
            bail!("{}: cannot be written: named twice", path.display());
        }
        files[n] = Some(Pending::open(path)?);
    }
    Ok(files)
}

/// Prints to stdout in one piece; what would drive a terminal is shown instead. A reader that has gone is no error.
///
/// # Errors
/// stdout cannot be written for any other reason.
pub fn print(text: &str) -> Result<()> {
    print_raw(&lines(text))
}

/// Clears a terminal and begins at its top.
///
/// # Errors
/// Those of [`print`].
#[cfg(any(feature = "linux", feature = "xen"))]
pub fn clear() -> Result<()> {
    print_raw("\x1b[H\x1b[2J")
}

fn print_raw(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("stdout: cannot be written"),
        _ => Ok(()),
    }
}

/// [`print`] of a document as JSON.
///
/// # Errors
/// Those of [`print`].
pub fn print_json<T: Document>(document: &T) -> Result<()> {
    print_value(&Versioned::from(document))
}

/// [`print_json`] of a list: each document in it has its version.
///
/// # Errors
/// Those of [`print`].
pub fn print_list<T: Document>(documents: &[T]) -> Result<()> {
    print_value(&documents.iter().map(Versioned::from).collect::<Vec<_>>())
}

fn print_value(value: &impl serde::Serialize) -> Result<()> {
    print_raw(&(json(&serde_json::to_string_pretty(value)?) + "\n"))
}

/// One line of what a program that runs for long has to say. Where stdout has no room or no reader nobody hears it, and
/// the program goes on.
#[cfg(any(feature = "linux", feature = "xen"))]
pub fn say(line: &str) {
    say_to(&mut std::io::stdout().lock(), line);
}

/// [`say`] of a document, which is one line of JSON.
#[cfg(any(feature = "linux", feature = "xen"))]
pub fn say_json<T: Document>(document: &T) {
    let Ok(text) = serde_json::to_string(&Versioned::from(document)) else { return };
    let mut out = std::io::stdout().lock();
    let _ = out.write_all((json(&text) + "\n").as_bytes()).and_then(|()| out.flush());
}

#[cfg(any(feature = "linux", feature = "xen", test))]
fn say_to(out: &mut dyn Write, line: &str) {
    let line = format!("takt: {}\n", shown(line));
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// One line on stderr; nothing can be done when stderr has gone.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "takt: {}", shown(line));
}

/// Names of VMs, interfaces, threads and cgroups are others' to choose: what of them drives a terminal, breaks a line or
/// turns its direction is shown as an escape.
pub fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut all, c| {
        if drives(c) {
            all.extend(c.escape_default())
        } else {
            all.push(c)
        }
        all
    })
}

/// [`shown`] of each line of a text.
fn lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// The same for JSON that is well formed: within its strings only, where it has an escape of its own. serde leaves those above
/// the first 32 as they are.
fn json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut all, c| {
        if drives(c) && c != '\n' {
            all += &format!("\\u{:04x}", u32::from(c))
        } else {
            all.push(c)
        }
        all
    })
}

/// Control characters, separators of lines, and what turns the direction of text.
fn drives(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
