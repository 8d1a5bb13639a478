// SPDX-License-Identifier: GPL-2.0-only
//! docs/layout.md and docs/layout-tools.md have a row for every source file.

use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/layout.md", "docs/layout-tools.md"];
/// What is source: directories at the top, and endings of names.
const TOPS: [&str; 13] = [
    "bench",
    "cli",
    "conformance",
    "control",
    "experiments",
    "fuzz",
    "lab",
    "linux",
    "monitor",
    "policy",
    "sim",
    "scripts",
    "xen",
];
const ENDINGS: [&str; 6] = ["c", "h", "rs", "sh", "def", "toml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Source files below `dir`, as paths from the root.
fn sources(dir: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path()) {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if entry.is_dir() {
            if name != "target" && !name.starts_with('.') {
                sources(&entry, out);
            }
        } else if ENDINGS.iter().any(|e| name.ends_with(&format!(".{e}"))) && name != "Cargo.toml" {
            let path = entry.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            out.push(path);
        }
    }
}

/// Whether `name` is `pattern`, where `*` and NAME stand for any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once("NAME").or_else(|| pattern.split_once('*')) {
        None => pattern == name,
        Some((before, after)) => {
            let rest = name.strip_prefix(before);
            rest.is_some_and(|rest| (0..=rest.len()).any(|n| rest.is_char_boundary(n) && fits(after, &rest[n..])))
        }
    }
}

/// Whether the row's `token` is about `path`: it is its end, or a directory on the way to it.
fn covers(token: &str, path: &str) -> bool {
    let (token, parts): (Vec<_>, Vec<_>) = (token.split('/').collect(), path.split('/').collect());
    let (token, whole) = match token.split_last() {
        Some((&"", above)) => (above, false),
        _ => (token.as_slice(), true),
    };
    let at = |n: usize| token.iter().zip(&parts[n..]).all(|(t, p)| fits(t, p));
    match parts.len().checked_sub(token.len()) {
        Some(last) if whole => at(last),
        Some(last) => (0..last).any(at),
        None => false,
    }
}

/// What the first cells of a page's tables name, with the directories that the heading above names.
fn tokens(page: &str) -> Vec<(Vec<String>, String)> {
    let (mut tops, mut out) = (Vec::new(), Vec::new());
    for line in page.lines() {
        if line.starts_with('#') {
            let words = line.split([' ', ',']);
            tops = words.filter_map(|w| w.split_once('/')).map(|(top, _)| top.to_owned()).collect();
        }
        let cell = line.strip_prefix("| ").and_then(|l| l.split(" | ").next()).unwrap_or("");
        out.extend(cell.split('`').skip(1).step_by(2).map(|token| (tops.clone(), token.to_owned())));
    }
    out
}

#[test]
fn every_source_file_has_a_row() {
    let pages = PAGES.map(|p| std::fs::read_to_string(root().join(p)).expect(p));
    let rows: Vec<_> = pages.iter().flat_map(|p| tokens(p)).collect();
    let mut files = Vec::new();
    TOPS.iter().for_each(|top| sources(&root().join(top), &mut files));
    assert!(files.len() > 500, "{} files", files.len());
    files.sort();
    // `cli/build.rs` and the like are told in a sentence below their table.
    let named = |path: &String| pages.iter().any(|p| p.contains(&format!("`{path}`")));
    let told = |path: &String| {
        let top = path.split('/').next().expect("a directory");
        rows.iter().any(|(tops, token)| tops.iter().any(|t| t == top) && covers(token, path))
    };
    let missing: Vec<_> = files.iter().filter(|f| !named(f) && !told(f)).collect();
    assert!(missing.is_empty(), "no row in {PAGES:?}: {missing:#?}");
    let bare = ["*", "*.rs", "*.c", "*.h", "*.toml"];
    assert!(!rows.iter().any(|(_, t)| bare.contains(&t.as_str())), "a row for everything");
}

#[test]
fn a_token_is_the_end_of_a_path_or_a_directory() {
    assert!(covers("rr.c", "policy/rr.c") && covers("core/*.h", "policy/core/pool.h"));
    assert!(covers("detect_NAME.h", "monitor/core/detect_rtp.h") && covers("tests/", "cli/tests/a.rs"));
    assert!(!covers("r.c", "policy/rr.c") && !covers("tests/", "cli/tests") && !covers("core/*.h", "policy/core.h"));
}
