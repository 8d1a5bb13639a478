// SPDX-License-Identifier: GPL-2.0-only
//! The documents show what the program prints. `TAKT_BLESS=1` writes it there instead of comparing.

use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `TAKT_PROGRAM` names another build of the program, for a release build is ten times faster.
fn takt(args: &[&str]) -> Output {
    let program = std::env::var("TAKT_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_takt").to_owned());
    Command::new(program).current_dir(root()).args(args).output().expect("takt runs")
}

fn bless() -> bool {
    std::env::var_os("TAKT_BLESS").is_some()
}

/// README.md and the pages of docs/, relative to the source tree.
fn pages() -> Vec<String> {
    let names = |dir: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root().join(dir)).expect(dir);
        let names = entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{dir}{name}")).collect()
    };
    let mut all = [vec!["README.md".to_owned()], names("docs/"), names("docs/rules/")].concat();
    all.sort();
    all
}

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).expect(page)
}

/// Compares `printed` with what `range` of the page has, or writes it there.
fn expect(page: &str, printed: &str, range: Range<usize>, command: &str) {
    let mut whole = text(page);
    if bless() {
        whole.replace_range(range, printed);
        std::fs::write(root().join(page), whole).expect(page);
        return;
    }
    assert_eq!(printed, &whole[range], "{page} shows another output of `{command}`; `make docs` writes it");
}

/// A command of a page, and where its output is.
struct Block {
    command: String,
    output: Range<usize>,
}

/// All blocks that begin with `prompt` and `takt`, and go on with an output.
fn blocks(page: &str, prompt: &str) -> Vec<Block> {
    let whole = text(page);
    let start = format!("```\n{prompt} takt ");
    let block = |(at, _)| {
        let command = at + "```\n".len() + prompt.len() + 1;
        let line = command + whole[command..].find('\n').expect("a command line");
        let end = line + 1 + whole[line + 1..].find("```").expect("end of the block");
        Block { command: whole[command..line].to_owned(), output: line + 1..end }
    };
    let all = whole.match_indices(&start).map(block);
    all.filter(|b| !b.output.is_empty() && !whole[b.output.clone()].starts_with(prompt)).collect()
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

/// What the program prints, statuses of judgement allowed. Where `TAKT_EXPERIMENTS` names a directory,
/// experiments have run already, with the options of `make test`: their outputs are its files, by
/// their ids and options. `None`: not among them.
fn printed(command: &str, words: &[&str]) -> Option<String> {
    if let (Ok(dir), "experiment") = (std::env::var("TAKT_EXPERIMENTS"), words[1]) {
        return std::fs::read_to_string(Path::new(&dir).join(words[2..].join(" "))).ok();
    }
    let out = takt(&words[1..]);
    let judged = matches!(words[1], "experiment" | "analyze") && out.status.code() == Some(1);
    assert!(out.status.success() || judged, "{command}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).expect("text"))
}

/// Of an output whose first line is "…" the page has the end, from the line that follows or, if none
/// does, from the first of the judgement of an experiment.
fn shown(page: &str, block: &Block, printed: String) -> String {
    let was = text(page)[block.output.clone()].to_owned();
    let Some(end) = was.strip_prefix("…\n") else { return printed };
    let first = end.lines().next().unwrap_or("kind check want got");
    let heading = |line: &&str| line.split_whitespace().eq(first.split_whitespace());
    let lines: Vec<&str> = printed.lines().collect();
    let from = lines.iter().position(heading);
    let from = from.unwrap_or_else(|| panic!("{page}: `{}` prints no line {first:?}", block.command));
    format!("…\n{}\n", lines[from..].join("\n").trim_end())
}

/// Runs the commands of all pages with one of these names.
fn check(names: &[&str]) {
    let mut checked = 0;
    for page in pages() {
        // From the last: what is written moves no block before it.
        for block in blocks(&page, "$").into_iter().rev() {
            let all = words(&block.command);
            let words: Vec<&str> = all.iter().map(String::as_str).collect();
            if !names.contains(&words[1]) || measured(&page, &block) {
                continue;
            }
            if words[1] == "inspect" && !words[2..].iter().all(|file| root().join(file).exists()) {
                println!("SKIPPED `{}` of {page}: the package sip-tester is not installed", block.command);
                continue;
            }
            let Some(printed) = printed(&block.command, &words) else { continue };
            expect(&page, &shown(&page, &block, printed), block.output, &block.command);
            checked += 1;
        }
    }
    assert!(checked > 0, "no page shows an output of {names:?}");
}

/// Commands that take seconds.
const QUICK: [&str; 6] = ["sim", "analyze", "inspect", "policies", "scenarios", "schema"];

#[test]
fn quick_commands_print_what_the_documents_show() {
    check(&QUICK);
    table();
}

#[test]
#[ignore = "ten minutes"]
fn experiments_print_what_the_documents_show() {
    check(&["experiment"]);
}

/// What stands above figures that no quick command prints: commit and command.
const MEASURED: &str = "<!-- measured at ";

fn measured(page: &str, block: &Block) -> bool {
    let whole = text(page);
    let fence = whole[..block.output.start].rfind("```\n").expect("the block's begin");
    let above = &whole[..fence];
    above.ends_with(" -->\n") && above.rfind("<!--").is_some_and(|at| above[at..].starts_with(MEASURED))
}

/// Everything that was measured has a commit and a command; other blocks can be run again.
#[test]
fn figures_name_their_commands() {
    let commit = |word: &str| word.len() == 8 && word.bytes().all(|c| c.is_ascii_hexdigit());
    for page in pages() {
        for line in text(&page).split("<!-- measured").skip(1) {
            let inner = line.split_once(" -->\n").and_then(|(inner, _)| inner.strip_prefix(" at "));
            let form = inner.and_then(|inner| inner.split_once(": "));
            let whole = form.is_some_and(|(at, command)| commit(at) && !command.trim().is_empty());
            let shown = line.lines().next().unwrap_or_default();
            assert!(whole, "{page}: {shown}: must be `{MEASURED}COMMIT: COMMAND -->`, the commit of 8 digits");
        }
        let on_a_host = blocks(&page, "#").into_iter().map(|b| (b, false));
        for (block, again) in on_a_host.chain(blocks(&page, "$").into_iter().map(|b| (b, true))) {
            let name = block.command.split(' ').nth(1).unwrap_or_default();
            let again = again && (name == "experiment" || QUICK.contains(&name));
            let named = again || measured(&page, &block);
            assert!(named, "{page}: above the output of `{}` must be `{MEASURED}COMMIT: COMMAND -->`", block.command);
        }
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

/// The README's table of three schedulers.
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
    let rows: String = all.iter().zip(&names).map(|(run, name)| row(run, name)).collect();
    let readme = text("README.md");
    let from = readme.find("| cores of its own (`pin`) |").expect("the table");
    let end = from + readme[from..].find("\n\n").expect("its end") + 1;
    expect("README.md", &rows, from..end, "takt sim scenarios/voip.toml -p pin -p credit -p doris");
}
