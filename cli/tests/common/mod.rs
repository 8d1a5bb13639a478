// SPDX-License-Identifier: GPL-2.0-only
//! The program as a user starts it.

use std::path::Path;
use std::process::{Command, Output};

/// A host small enough for tests: 2 PCPUs, 5 calls, one busy VM.
pub const SCENARIO: &str = include_str!("host.toml");

pub fn takt(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_takt")).current_dir(dir).args(args).output().expect("takt runs")
}

/// A directory with `host.toml`.
pub fn workdir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::write(dir.path().join("host.toml"), SCENARIO).expect("scenario written");
    dir
}

/// Names of the files in `dir`.
pub fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .expect("directory")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
