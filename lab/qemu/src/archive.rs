// SPDX-License-Identifier: GPL-2.0-only
//! An archive for the kernel's initramfs ("newc"). Equal calls give equal bytes: no times, no owners.

use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_600;

/// Files for an initramfs. Directories on the way to a file are made; what is there already stays.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: HashSet<String>,
}

impl Archive {
    /// With the mount points of a small system, and a console for init.
    pub fn new() -> Self {
        let mut a = Self::default();
        for d in ["dev", "proc", "sys", "tmp", "run"] {
            a.directory(d);
        }
        a.entry("dev/console", CHARACTER, &[], (5, 1));
        a
    }

    /// An empty directory.
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, &[], (0, 0));
    }

    /// A file with these bytes.
    pub fn data(&mut self, name: &str, data: &[u8]) {
        self.entry(name, REGULAR | 0o644, data, (0, 0));
    }

    /// A symbolic link.
    pub fn link(&mut self, name: &str, to: &str) {
        self.entry(name, LINK, to.as_bytes(), (0, 0));
    }

    /// A copy of a file, executable if that is.
    ///
    /// # Errors
    /// `from` cannot be read.
    pub fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let context = || from.display().to_string();
        let mode = from.metadata().with_context(context)?.permissions().mode() & 0o777;
        let data = std::fs::read(from).with_context(context)?;
        self.entry(name, REGULAR | mode, &data, (0, 0));
        Ok(())
    }

    /// A copy of a program, with the shared libraries that it needs, each under its own path.
    ///
    /// # Errors
    /// `from` cannot be read, or is no program that `ldd` understands.
    pub fn program(&mut self, name: &str, from: &Path) -> Result<()> {
        self.file(name, from)?;
        for library in libraries(from)? {
            self.file(library.to_str().context("path of a library")?, &library)?;
        }
        Ok(())
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8], device: (u32, u32)) {
        let name = name.trim_matches('/');
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent);
        }
        if !self.names.insert(name.to_owned()) {
            return;
        }
        let (inode, size, length) = (self.names.len() as u32, data.len() as u32, name.len() as u32 + 1);
        let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, length, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|f| self.bytes.extend(format!("{f:08x}").into_bytes()));
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Shared libraries of `program`, the loader included; none if it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let out = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if let Some(missing) = text.lines().find(|l| l.ends_with("not found")) {
        bail!("{}: {}", program.display(), missing.trim());
    }
    let paths = text.lines().filter_map(|l| l.split_whitespace().find(|w| w.starts_with('/')));
    Ok(paths.map(PathBuf::from).filter(|p| p.is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in the order of the archive.
    fn names(bytes: &[u8]) -> Vec<String> {
        let (mut at, mut names) = (0, Vec::new());
        while at < bytes.len() {
            let field = |n: usize| {
                let hex = &bytes[at + 6 + 8 * n..][..8];
                usize::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, length) = (field(6), field(11));
            names.push(String::from_utf8(bytes[at + 110..at + 110 + length - 1].to_vec()).unwrap());
            at = (at + 110 + length).next_multiple_of(4) + size.next_multiple_of(4);
        }
        names
    }

    #[test]
    fn parents_come_first_and_once() {
        let mut a = Archive::default();
        a.data("/a/b/c", b"one");
        a.data("a/b/d", b"");
        a.data("a/b/d", b"again");
        a.link("a/e", "b");
        assert_eq!(names(&a.finish()), ["a", "a/b", "a/b/c", "a/b/d", "a/e", "TRAILER!!!"]);
    }

    #[test]
    fn a_program_brings_its_libraries() {
        let mut a = Archive::new();
        a.program("init", &std::env::current_exe().unwrap()).unwrap();
        let names = names(&a.finish());
        assert!(names.iter().any(|n| n.contains("libc.so")), "{names:?}");
        assert!(names.contains(&"dev/console".to_owned()));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Archive::new().file("x", Path::new("/nonexistent/x")).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/x");
    }
}
