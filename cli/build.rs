// SPDX-License-Identifier: GPL-2.0-only
//! Lists the experiments, scenarios and templates that the program carries: all files in
//! `experiments/`, `scenarios/` and `cli/templates/`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

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

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let text =
        list("EXPERIMENTS", "experiments") + &list("SCENARIOS", "scenarios") + &list("TEMPLATES", "cli/templates");
    fs::write(out.join("carried.rs"), text).expect("OUT_DIR");
}
