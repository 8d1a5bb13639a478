// SPDX-License-Identifier: GPL-2.0-only
//! Lists the experiments, scenarios and templates that the program carries: all files in
//! `experiments/`, `scenarios/` and `cli/templates/`. Names the commit and the features for `takt -V`, and
//! generates the messages of traces.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// DORIS-E2 before DORIS-E10, RISA-E2 before RISA-E2-50.
fn order(path: &Path) -> Vec<(String, u64)> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let part = |p: &str| {
        let digits = p.trim_start_matches(|c: char| !c.is_ascii_digit());
        (p[..p.len() - digits.len()].to_owned(), digits.parse().unwrap_or(0))
    };
    name.split('-').map(part).collect()
}

/// `pub const NAME: &[(stem, text)]` of the TOML files of a directory of the repository.
fn list(name: &str, directory: &str) -> String {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory);
    println!("cargo::rerun-if-changed={}", at.display());
    let entries = fs::read_dir(&at).unwrap_or_else(|e| panic!("{}: {e}", at.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort_by_key(|f| order(f));
    let mut text = format!("pub const {name}: &[(&str, &str)] = &[\n");
    for f in files {
        let stem = f.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(text, "    ({stem:?}, include_str!({:?})),", f.display().to_string());
    }
    text + "];\n"
}

/// What git prints.
fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}

/// The commit that this directory is of; a tarball within another repository has none.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // A commit and a checkout are each a line in this log.
    for file in ["logs/HEAD", "HEAD"] {
        let at = root.join("cli").join(git(&["rev-parse", "--git-path", file])?);
        if at.exists() {
            println!("cargo::rerun-if-changed={}", at.display());
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Names of the features that are on.
fn features() -> String {
    let name = |(key, _): (String, String)| Some(key.strip_prefix("CARGO_FEATURE_")?.to_lowercase());
    let mut names: Vec<_> = std::env::vars().filter_map(name).collect();
    names.sort();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TAKT_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    println!("cargo::rustc-env=TAKT_FEATURES={}", features());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let text =
        list("EXPERIMENTS", "experiments") + &list("SCENARIOS", "scenarios") + &list("TEMPLATES", "cli/templates");
    fs::write(out.join("carried.rs"), text).expect("OUT_DIR");
    println!("cargo::rerun-if-changed=proto");
    let mut messages = protobuf_codegen::Codegen::new();
    messages.pure().include("proto").input("proto/trace.proto").cargo_out_dir("proto").run_from_script();
}
