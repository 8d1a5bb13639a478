// SPDX-License-Identifier: GPL-2.0-only
//! Every broken core of `mutants.toml` is caught, the unchanged one is not.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use takt_conformance::mutants::{Mutant, build, read};

/// CPU seconds for a core that loops for ever; the suite takes a few.
const CPU_SECONDS: u32 = 120;

/// What catches the core, if anything: in a process of its own, which may crash or run out of CPU time.
fn caught(mutant: Option<&Mutant>, dir: &Path) -> Option<String> {
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy");
    let library = build(&policy, mutant, dir).expect("a core that compiles");
    let runner = env!("CARGO_BIN_EXE_takt-conform");
    let script = format!("ulimit -t {CPU_SECONDS}; exec \"$0\" suite \"$1\"");
    let out = Command::new("sh").args(["-c", &script, runner]).arg(&library).output().expect("runner");
    match out.status.code() {
        Some(0) => None,
        Some(1) => Some(String::from_utf8_lossy(&out.stdout).trim().to_string()),
        Some(n) => panic!("status {n}: {}", String::from_utf8_lossy(&out.stderr)),
        None => Some(format!("{}", out.status)),
    }
}

#[test]
fn unchanged_core_passes() {
    let dir = tempfile::tempdir().expect("directory");
    assert_eq!(caught(None, dir.path()), None);
}

#[test]
fn every_mutant_is_caught() {
    let dir = tempfile::tempdir().expect("directory");
    let mutants = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.toml")).expect("mutants.toml");
    assert!(mutants.len() >= 20);
    let next = Mutex::new(mutants.iter());
    let missed = Mutex::new(Vec::new());
    let work = || loop {
        let Some(m) = next.lock().expect("list").next() else { break };
        match caught(Some(m), dir.path()) {
            Some(by) => println!("{:32} {}", m.name, by.chars().take(150).collect::<String>()),
            None => missed.lock().expect("list").push(m.name.clone()),
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(work);
        }
    });
    let missed = missed.into_inner().expect("list");
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
