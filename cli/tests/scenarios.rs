// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios by name, from any directory.

mod common;

use common::{files, takt, workdir};
use std::path::{Path, PathBuf};
use std::process::Output;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

/// Names of all files in scenarios/.
fn names() -> Vec<String> {
    let mut names: Vec<_> =
        files(&shipped()).iter().filter_map(|f| f.strip_suffix(".toml")).map(str::to_owned).collect();
    names.sort();
    names
}

/// What a command prints that must succeed.
#[track_caller]
fn printed(out: Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn a_name_is_enough_in_any_directory() {
    let dir = workdir();
    let path = shipped().join("tiny.toml");
    let run =
        |scenario: &str| printed(takt(dir.path(), &["sim", scenario, "--duration", "50ms", "--json", "-p", "credit"]));
    let by_file = run(path.to_str().unwrap());
    assert_eq!(run("tiny"), by_file);
    // A directory of that name changes nothing. A file of that name comes first.
    std::fs::create_dir(dir.path().join("tiny")).unwrap();
    assert_eq!(run("tiny"), by_file);
    std::fs::remove_dir(dir.path().join("tiny")).unwrap();
    std::fs::write(dir.path().join("tiny"), std::fs::read_to_string(path).unwrap() + "\ncount = 2\n").unwrap();
    assert_ne!(run("tiny"), by_file);
}

#[test]
fn every_command_that_takes_a_scenario_takes_a_name() {
    let dir = workdir();
    let analysis = printed(takt(dir.path(), &["analyze", "rtxen", "--set", "load=10"]));
    assert!(analysis.contains("VM"), "{analysis}");
    for command in [&["sim"][..], &["analyze"], &["lab", "linux", "-p", "eevdf"], &["lab", "xen"], &["lab", "compare"]]
    {
        let out = takt(dir.path(), &[command, &["no-such-name"]].concat());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && error.contains("`no-such-name`: no such file or scenario"), "{error}");
    }
}

#[test]
fn the_list_has_every_file() {
    let dir = workdir();
    let list = printed(takt(dir.path(), &["scenarios"]));
    let mut listed: Vec<_> = list.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
    listed.sort_unstable();
    assert_eq!(listed, names());
    for name in listed {
        let text = printed(takt(dir.path(), &["scenarios", name]));
        assert_eq!(text, std::fs::read_to_string(shipped().join(format!("{name}.toml"))).unwrap());
    }
}

/// Names of the templates.
fn kinds() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    files(&dir).iter().filter_map(|f| f.strip_suffix(".toml")).map(str::to_owned).collect()
}

#[test]
fn what_takt_new_writes_runs_without_a_complaint() {
    let dir = workdir();
    assert_eq!(kinds(), ["desktop", "gaming", "pbx", "streaming"]);
    for kind in kinds() {
        let file = format!("my-{kind}.toml");
        let text = printed(takt(dir.path(), &["new", &kind]));
        assert_eq!(printed(takt(dir.path(), &["new", &kind, "-o", &file])), "");
        assert_eq!(std::fs::read_to_string(dir.path().join(&file)).unwrap(), text);
        let out = takt(dir.path(), &["sim", &file, "--duration", "1s"]);
        let progress = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(progress.is_empty(), "{kind}: {progress}");
        let table = printed(out);
        assert!(table.contains("real-time") && table.contains("batch CPU-s"), "{kind}: {table}");
    }
}

#[test]
fn takt_new_replaces_a_file_only_by_force() {
    let dir = workdir();
    let file = dir.path().join("my.toml");
    std::fs::write(&file, "mine").unwrap();
    let refused = |args: &[&str], want: &str| {
        let out = takt(dir.path(), args);
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && error.lines().count() == 1 && error.contains(want), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    };
    refused(&["new", "pbx", "-o", "my.toml"], "my.toml: already exists; --force replaces it");
    refused(&["new", "pbx", "-o", "no/dir.toml"], "no/dir.toml: cannot be written: No such file");
    refused(
        &["new", "pbxx", "-o", "my.toml", "--force"],
        "no template `pbxx` (did you mean `pbx`?); allowed: desktop, ",
    );
    refused(&["new", "pbx", "--force"], "--output");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        refused(&["new", "pbx", "-o", "link"], "link: already exists");
    }
    printed(takt(dir.path(), &["new", "pbx", "-o", "my.toml", "--force"]));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), printed(takt(dir.path(), &["new", "pbx"])));
}
