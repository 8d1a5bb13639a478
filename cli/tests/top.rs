// SPDX-License-Identifier: GPL-2.0-only
//! `takt top` on a terminal of tmux, as over ssh: it fits, keys work, and the terminal is as before when it ends.
#![cfg(feature = "linux")]

#[path = "common/answers.rs"]
mod answers;

use answers::{Host, STATUS};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};
use takt_bpf_build::skip;

const PATIENCE: Duration = Duration::from_secs(60);

/// The process of a command with this word in its line.
fn process(word: &str) -> Option<u32> {
    let all =
        std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let ours = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).nth(1) == Some(b"top") && String::from_utf8_lossy(&line).contains(word)
    };
    all.into_iter().find(ours)
}

/// A server of tmux with one terminal, which ends with the test.
struct Terminal(std::path::PathBuf);

impl Terminal {
    /// One that runs `line`; `None`: there is no tmux.
    fn new(host: &Host, (width, height): (usize, usize), line: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("takt top", "tmux is not installed");
            return None;
        }
        // A server that ends keeps its socket for a moment.
        let terminal = Self(host.dir().join(format!("tmux-{width}")));
        let (width, height) = (width.to_string(), height.to_string());
        // Without a configuration of the user's.
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, line]);
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = Command::new("tmux").arg("-S").arg(&self.0).args(args).env_remove("TMUX").output().expect("tmux");
        assert!(out.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    }

    /// Waits until the screen is as it should be.
    fn shows(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is(&screen) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: {screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.0).arg("kill-server").output();
    }
}

#[test]
fn it_fits_and_keys_work() {
    let status: Value = serde_json::from_str(STATUS).expect("JSON");
    let name = status["vms"][0]["name"].as_str().expect("a VM").to_owned();
    let host = Host::new();
    let takt = env!("CARGO_BIN_EXE_takt");
    let line =
        format!("echo before; NO_COLOR=1 {takt} top --socket {}; echo ended $?; sleep 100", host.socket().display());
    for size in [(80, 24), (200, 60)] {
        let Some(terminal) = Terminal::new(&host, size, &line) else { return };
        let screen = terminal.shows("the table", |screen| screen.contains("\nVM "));
        let lines: Vec<_> = screen.lines().collect();
        assert_eq!(lines.len(), size.1, "{screen}");
        assert!(lines.iter().all(|line| line.chars().count() <= size.0), "{screen}");
        assert!(lines[size.1 - 1].starts_with("up/down: choose") && screen.contains(&format!("\n{name} ")), "{screen}");
        // Without colours (39 is the terminal's own), and with nothing of the shell.
        let codes = terminal.tmux(&["capture-pane", "-p", "-e"]);
        let coloured = (0..9).find(|n| codes.contains(&format!("\u{1b}[3{n}")) || codes.contains(&format!(";3{n}m")));
        assert_eq!(coloured, None, "{codes:?}");
        assert!(!screen.contains("before"), "{screen}");

        terminal.tmux(&["send-keys", "Down"]);
        terminal.tmux(&["send-keys", "Enter"]);
        terminal.shows("a VM alone", |screen| !screen.contains("prom/s") && screen.contains("VCPU 0"));
        terminal.tmux(&["send-keys", "Escape"]);
        terminal.shows("all VMs", |screen| screen.contains("prom/s"));
        terminal.tmux(&["send-keys", "q"]);
        let screen = terminal.shows("the end", |screen| screen.contains("ended 0"));
        assert!(screen.contains("before") && !screen.contains("prom/s"), "{screen}");
    }
}

/// As where a connection of ssh breaks.
#[test]
fn it_ends_with_its_terminal() {
    let host = Host::new();
    let socket = host.socket().display().to_string();
    // Neither a shell nor the kernel tells it.
    let line = format!("trap '' HUP; exec {} top --socket {socket}", env!("CARGO_BIN_EXE_takt"));
    let Some(terminal) = Terminal::new(&host, (80, 24), &line) else { return };
    terminal.shows("the table", |screen| screen.contains("\nVM "));
    assert!(process(&socket).is_some());
    drop(terminal);
    let begin = Instant::now();
    while let Some(pid) = process(&socket) {
        assert!(begin.elapsed() < PATIENCE, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}
