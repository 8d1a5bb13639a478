// SPDX-License-Identifier: GPL-2.0-only
//! `takt completions` and `takt man`, as shells and man read them.

mod common;

use common::{files, takt, workdir};
use std::io::Write;
use std::process::{Command, Stdio};

/// What a command prints that must succeed.
fn printed(args: &[&str]) -> String {
    let out = takt(workdir().path(), args);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// What a program says to a text on stdin; nothing if the program is not installed.
fn ask(program: &str, args: &[&str], text: &str) -> Option<String> {
    let all = || (Stdio::piped(), Stdio::piped(), Stdio::piped());
    let (stdin, stdout, stderr) = all();
    let mut command = Command::new(program);
    let Ok(mut child) = command.args(args).stdin(stdin).stdout(stdout).stderr(stderr).spawn() else {
        println!("SKIPPED: {program} is not installed");
        return None;
    };
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("read");
    let out = child.wait_with_output().expect("an end");
    assert!(out.status.success() && out.stderr.is_empty(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).expect("text"))
}

/// Commands of a help text.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let list = help.split("Commands:\n").nth(1).expect("commands").split("\n\n").next().expect("a list");
    list.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_shell_gets_every_command() {
    let commands = commands();
    assert!(commands.len() > 12 && commands.iter().any(|c| c == "completions"), "{commands:?}");
    for shell in ["bash", "fish", "zsh"] {
        let script = printed(&["completions", shell]);
        for command in commands.iter().filter(|c| *c != "help") {
            assert!(script.contains(&format!("'takt {command}'")), "{shell}: {command}");
        }
        let check: &[&str] = if shell == "fish" { &["--no-execute", "/dev/stdin"] } else { &["-n"] };
        ask(shell, check, &script);
    }
}

/// The words that bash offers.
fn offered(words: &[&str]) -> Option<Vec<String>> {
    let script = printed(&["completions", "bash"]);
    let line = words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" ");
    let text = format!(
        "{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={}\n_takt\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words.len() - 1
    );
    Some(ask("bash", &["--norc", "-s"], &text)?.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_options_and_names() {
    let Some(all) = offered(&["takt", ""]) else { return };
    assert_eq!(all, commands());
    assert_eq!(offered(&["takt", "lab", ""]).unwrap(), ["linux", "xen", "compare", "shell", "help"]);
    assert_eq!(offered(&["takt", "sim", "--col"]).unwrap(), ["--columns"]);
    assert_eq!(offered(&["takt", "lab", "linux", "--fr"]).unwrap(), ["--free"]);
    assert_eq!(offered(&["takt", "sim", "tiny", "-p", "dor"]).unwrap(), ["doris"]);
    assert_eq!(offered(&["takt", "completions", ""]).unwrap(), ["bash", "fish", "zsh"]);
    assert_eq!(offered(&["takt", "sim", "tiny", "--html", ""]).unwrap(), [""; 0], "a file");
    let scenarios = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut offered = offered(&["takt", "sim", ""]).unwrap();
    offered.sort();
    let mut names: Vec<_> =
        files(&scenarios).iter().filter_map(|f| Some(f.strip_suffix(".toml")?.to_owned())).collect();
    names.sort();
    assert_eq!(offered, names);
}

#[test]
fn the_manual_page_is_one_that_groff_takes() {
    let page = printed(&["man"]);
    let Some(text) = ask("groff", &["-man", "-Tutf8", "-ww", "-P-c", "-P-b", "-P-u", "-P-o"], &page) else { return };
    for command in commands().iter().filter(|c| !["help", "lab"].contains(&c.as_str())) {
        assert!(text.contains(&format!("takt {command}")), "{command}: {text}");
    }
    for section in ["FILES", "EXAMPLES", "SEE ALSO"] {
        assert!(text.lines().any(|line| line == section), "{section}: {text}");
    }
    let (_, examples) = page.split_once(".SH EXAMPLES\n").expect("examples");
    let shown: Vec<_> = examples.lines().filter_map(|line| line.strip_prefix(".B takt ")?.split(' ').next()).collect();
    assert!(shown.len() > 5 && shown.iter().all(|word| commands().iter().any(|c| c == word)), "{shown:?}");
}
