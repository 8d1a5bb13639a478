// SPDX-License-Identifier: GPL-2.0-only
//! The README shows what the program prints. `TAKT_BLESS=1` writes it there instead of comparing.

use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn takt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_takt")).current_dir(root()).args(args).output().expect("takt runs")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// Compares `text` with what `range` of the README has, or writes it there.
fn expect(text: &str, range: Range<usize>, command: &str) {
    let mut readme = readme();
    if std::env::var_os("TAKT_BLESS").is_some() {
        readme.replace_range(range, text);
        std::fs::write(root().join("README.md"), readme).expect("README.md");
        return;
    }
    assert_eq!(text, &readme[range], "README.md shows another output of `{command}`; see scripts/docs.sh");
}

/// A command of the README, and where its output is.
struct Block {
    command: String,
    output: Range<usize>,
}

/// All blocks of code that begin with `$ takt` and `name`.
fn blocks(name: &str) -> Vec<Block> {
    let readme = readme();
    let start = format!("```\n$ takt {name} ");
    let block = |(at, _)| {
        let command = at + "```\n$ ".len();
        let line = command + readme[command..].find('\n').expect("a command line");
        let end = line + 1 + readme[line + 1..].find("```").expect("end of the block");
        Block { command: readme[command..line].to_owned(), output: line + 1..end }
    };
    readme.match_indices(&start).map(block).collect()
}

/// What a shell makes of a command line with plain words and single quotes.
fn words(command: &str) -> Vec<String> {
    let mut quoted = false;
    let mut words = vec![String::new()];
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("a word").push(c),
        }
    }
    words
}

/// Runs the commands of that name; of one whose output begins with "…" the README has the end.
fn check(name: &str) {
    // From the last: what is written moves no block before it.
    let all = blocks(name);
    assert!(!all.is_empty(), "README.md shows no `takt {name}`");
    for block in all.into_iter().rev() {
        let words = words(&block.command);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let out = takt(&args);
        assert!(out.status.success(), "{}: {}", block.command, String::from_utf8_lossy(&out.stderr));
        let printed = String::from_utf8(out.stdout).expect("text");
        let shown = readme()[block.output.clone()].to_owned();
        let text = match shown.strip_prefix("…\n") {
            Some(end) => {
                let first = end.lines().next().expect("more than …");
                let heading = |line: &str| line.split_whitespace().eq(first.split_whitespace());
                let lines: Vec<&str> = printed.lines().collect();
                let from = lines.iter().position(|l| heading(l)).expect("the heading is printed");
                format!("…\n{}\n", lines[from..].join("\n").trim_end())
            }
            None => printed,
        };
        expect(&text, block.output, &block.command);
    }
}

#[test]
fn simulations_print_what_the_readme_shows() {
    check("sim");
    table();
}

#[test]
#[ignore = "two minutes"]
fn experiments_print_what_the_readme_shows() {
    check("experiment");
}

#[test]
fn packets_are_judged_as_the_readme_shows() {
    if blocks("inspect").iter().all(|b| words(&b.command)[2..].iter().all(|file| Path::new(file).exists())) {
        check("inspect");
    } else {
        println!("SKIPPED the README's `takt inspect`: the package sip-tester is not installed");
    }
}

/// The runs of `scenarios/voip.toml`.
fn runs(args: &[&str]) -> Vec<Value> {
    let out = takt(&[&["sim", "scenarios/voip.toml", "--json"], args].concat());
    let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    document["runs"].as_array().expect("runs").clone()
}

/// The server of calls.
fn server(run: &Value) -> &Value {
    run["vms"].as_array().expect("VMs").iter().find(|vm| vm["name"] == "voip").expect("the server")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn pesq(run: &Value) -> f64 {
    number(&server(run)["voip"]["mean_pesq"])
}

/// The table of three schedulers.
fn table() {
    let seeds = runs(&["--seed", "1-8", "-p", "credit"]);
    let mean = seeds.iter().map(pesq).sum::<f64>() / seeds.len() as f64;
    let work = |run: &Value| run["vms"].as_array().expect("VMs").iter().map(|vm| number(&vm["work"])).sum::<f64>();
    let all = runs(&["-p", "pin", "-p", "credit", "-p", "doris"]);
    let credit = work(&all[1]);
    let row = |run: &Value, name: &str| {
        let us = |wait: &str| number(&server(run)["wait"]["all"][wait]) / 1e3;
        let longest = us("max_ns");
        let longest = if longest < 100.0 { format!("{longest:.0} µs") } else { format!("{:.1} ms", longest / 1e3) };
        let bold = if name.starts_with("**") { "**" } else { "" };
        format!(
            "| {name} | {bold}{:.2}{bold} | {bold}{:.2} %{bold} | {bold}{:.0} µs / {longest}{bold} | {bold}{:.1} %{bold} |\n",
            pesq(run),
            number(&server(run)["voip"]["late_lost_pct"]),
            us("p99_ns"),
            work(run) * 100.0 / credit,
        )
    };
    let names =
        ["cores of its own (`pin`)".to_owned(), format!("`credit` ({mean:.1} over eight seeds)"), "**`doris`**".into()];
    let text: String = all.iter().zip(&names).map(|(run, name)| row(run, name)).collect();
    let readme = readme();
    let from = readme.find("| cores of its own (`pin`) |").expect("the table");
    let end = from + readme[from..].find("\n\n").expect("its end") + 1;
    expect(&text, from..end, "takt sim scenarios/voip.toml -p pin -p credit -p doris");
}
