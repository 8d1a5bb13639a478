// SPDX-License-Identifier: GPL-2.0-only
//! A signal leaves nothing: no incomplete file, no child process, and one line.

mod common;

use common::{files, takt, workdir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// What `env` does to the signals first: a test that runs in the background may ignore some.
const HEEDED: &str = "--default-signal=INT,TERM,HUP";

fn start(dir: &Path, signals: &str, args: &[&str]) -> Child {
    command(dir, signals, args).spawn().expect("takt runs")
}

fn command(dir: &Path, signals: &str, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.current_dir(dir).args([signals, env!("CARGO_BIN_EXE_takt")]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn interrupted(child: Child, signal: Signal) -> Output {
    kill(Pid::from_raw(child.id() as i32), signal).expect("a signal");
    child.wait_with_output().expect("takt ends")
}

/// Looks until `done`, for a while that no machine needs.
fn wait_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within a minute");
}

/// That it ended by the signal and left what was there before. It says so in one line, or nothing
/// where the system ended it before it heard signals; returns whether it did.
fn left_nothing(dir: &Path, out: &Output, signal: Signal) -> bool {
    let stderr = String::from_utf8_lossy(&out.stderr);
    let line = format!("takt: ended by {signal}, no incomplete file is left");
    let said: Vec<_> = stderr.lines().filter(|line| line.starts_with("takt: ")).collect();
    assert!(said.is_empty() || said == [line], "{stderr}");
    assert_eq!(out.status.signal(), Some(signal as i32), "{stderr}");
    assert_eq!(files(dir), ["host.toml"]);
    !said.is_empty()
}

#[test]
fn commands_that_compute_leave_no_file() {
    let long = ["--html", "a.html", "--svg", "a.svg", "--duration", "10000s"];
    let experiment = ["experiment", "DORIS-E2", "--seeds", "1-8", "--html", "a.html", "--svg", "a.svg"];
    let sim = [&["sim", "host.toml"], &long[..]].concat();
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    for n in 0..10 {
        let dir = workdir();
        let signal = signals[n % signals.len()];
        let args = if n % 2 == 0 { &sim[..] } else { &experiment[..] };
        let child = start(dir.path(), HEEDED, args);
        // From "not yet begun" to "in the middle of it".
        std::thread::sleep(Duration::from_millis(1 << n));
        left_nothing(dir.path(), &interrupted(child, signal), signal);
    }
}

#[test]
fn files_that_are_being_written_go() {
    let dir = workdir();
    let child = start(dir.path(), HEEDED, &["sim", "host.toml", "--html", "a.html", "--duration", "10000s"]);
    wait_until("a file begun", || files(dir.path()).iter().any(|name| name.starts_with(".takt-")));
    let out = interrupted(child, Signal::SIGTERM);
    assert!(left_nothing(dir.path(), &out, Signal::SIGTERM));
    // Nothing hinders the next run.
    assert!(takt(dir.path(), &["sim", "host.toml", "--html", "a.html"]).status.success());
    assert_eq!(files(dir.path()), ["a.html", "host.toml"]);
}

#[test]
fn what_was_ignored_before_stays_so() {
    let dir = workdir();
    let args = ["sim", "host.toml", "--html", "a.html", "--duration", "10000s"];
    let child = start(dir.path(), "--ignore-signal=HUP", &args);
    wait_until("a file begun", || files(dir.path()).iter().any(|name| name.starts_with(".takt-")));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP).expect("a signal");
    assert!(left_nothing(dir.path(), &interrupted(child, Signal::SIGTERM), Signal::SIGTERM));
}

#[test]
fn children_and_theirs_end() {
    let (dir, fake) = (workdir(), tempfile::tempdir().expect("temporary directory"));
    let emulator = fake.path().join("qemu-system-x86_64");
    let script =
        format!("#!/bin/sh\ncd {}\nsleep 1000 &\necho $$ $! > new\nmv new pids\nwait\n", fake.path().display());
    std::fs::write(&emulator, script).expect("a script");
    std::fs::set_permissions(&emulator, PermissionsExt::from_mode(0o755)).expect("a mode");
    let scratch = tempfile::tempdir().expect("temporary directory");
    let mut lab = command(dir.path(), HEEDED, &["lab", "linux", "periodic", "-p", "eevdf"]);
    lab.env("PATH", format!("{}:{}", fake.path().display(), std::env::var("PATH").unwrap_or_default()));
    let lab = lab.env("TMPDIR", scratch.path()).spawn().expect("takt runs");
    let pids = fake.path().join("pids");
    wait_until("an emulator", || pids.exists());
    assert_eq!(files(scratch.path()).len(), 1, "what it removes");
    assert!(left_nothing(dir.path(), &interrupted(lab, Signal::SIGINT), Signal::SIGINT));
    assert!(files(scratch.path()).is_empty());
    let gone = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    for pid in std::fs::read_to_string(pids).expect("pids").split_whitespace() {
        wait_until("its end", || gone(pid));
    }
}
