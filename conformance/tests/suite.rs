// SPDX-License-Identifier: GPL-2.0-only
//! `takt-conform suite --policy`: the template of a policy (policy/template/fifo.c) passes it as
//! one more policy of the core, and each part of it finds a fault that is put into a copy of the
//! template.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use takt_conformance::{Judgement, Part, judge};

#[path = "../../policy/build-support/policies.rs"]
mod policies;

const FLAGS: [&str; 7] = ["-std=gnu11", "-O1", "-fwrapv", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"];

fn policy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy")
}

fn template() -> String {
    fs::read_to_string(policy().join("template/fifo.c")).expect("the template")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("directory");
    for entry in fs::read_dir(from).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copy");
        }
    }
}

/// A name, what of the template is changed, and into what; it has each once.
const BROKEN: [(&str, &str, &str); 4] = [
    ("unkicked", "	kick_idle(p, vi);", "	(void)p;"),
    ("untidy", "	fifo_of(vcpu_of(p, vi))->used = 0;\n", ""),
    ("unfair", "	runq_insert(p, vi);", "	runq_insert_first(p, vi);"),
    ("shared", "	return p->par.slice - ", "	static u64 more;\n\n	return p->par.slice + more++ % 2 - "),
];

/// The template's text with another name.
fn named(text: &str, name: &str) -> String {
    text.replace("fifo_", &format!("{name}_")).replace("(fifo,", &format!("({name},"))
}

/// A core with more policies than those that ship: the template, as `fifo`, and with one fault
/// each. And its `rr` is the template, too. What is done here, docs/writing-a-policy.md asks of a
/// writer.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("template/policy");
        copy(&policy(), &tree);
        copy(&policy().join("core"), &tree.join("core"));
        let mut list = fs::read_to_string(tree.join("policies.def")).expect("list");
        let mut add = |name: &str, text: &str| {
            fs::write(tree.join(format!("{name}.c")), named(text, name)).expect("policy");
            let number = policies::policies(&list).len();
            list += &format!("TAKT_POLICY({number}, {name}, 0, \"turns in order of arrival\")\n");
        };
        add("fifo", &template());
        for (name, what, with) in BROKEN {
            assert_eq!(template().matches(what).count(), 1, "{what}");
            add(name, &template().replace(what, with));
        }
        fs::write(tree.join("rr.c"), named(&template(), "rr")).expect("policy");
        fs::write(tree.join("core/policies.h"), policies::list(&policies::policies(&list))).expect("list");
        let library = tree.join("core.so");
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compiler = Command::new(cc);
        compiler.args(FLAGS).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(tree.join("core/native.c"));
        let out = compiler.output().expect("a C compiler");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        library
    })
}

fn verdict(policy: &str) -> Judgement {
    judge(Some(library()), policy).expect("a verdict")
}

fn text(judgement: &Judgement, part: Part) -> &str {
    let finding = judgement.findings.iter().find(|f| f.part == part);
    &finding.expect("every part").text
}

#[test]
fn the_template_is_a_policy_that_lacks_nothing_but_its_line_of_outcomes() {
    let judgement = verdict("fifo");
    assert_eq!(judgement.failed(), [Part::Outcomes], "{judgement}");
    assert_eq!(judgement.findings.iter().map(|f| f.part).collect::<Vec<_>>(), Part::ALL);
    assert!(text(&judgement, Part::Outcomes).contains("its line is `fifo "), "{judgement}");
    let waits = text(&judgement, Part::Waits);
    assert!(waits.starts_with("nearest to its bound: ") && !waits.contains(": 0.000 ms"), "{waits}");
}

#[test]
fn an_idle_pcpu_without_a_kick_breaks_the_state_table() {
    let judgement = verdict("unkicked");
    assert!(judgement.failed().contains(&Part::Table), "{judgement}");
    assert!(text(&judgement, Part::Table).contains("WorkConservation"), "{judgement}");
}

#[test]
fn a_field_with_a_wrong_value_breaks_an_invariant() {
    let judgement = verdict("untidy");
    assert!(judgement.failed().contains(&Part::Invariants), "{judgement}");
    assert!(text(&judgement, Part::Invariants).contains("queued within its turn: VCPU"), "{judgement}");
}

#[test]
fn the_last_that_comes_first_breaks_the_bound() {
    let judgement = verdict("unfair");
    assert_eq!(judgement.failed(), [Part::Waits, Part::Outcomes], "{judgement}");
    assert!(text(&judgement, Part::Waits).contains("WaitBound"), "{judgement}");
}

#[test]
fn state_outside_of_the_pool_breaks_replay() {
    let judgement = verdict("shared");
    assert!(judgement.failed().contains(&Part::Replay), "{judgement}");
    assert!(text(&judgement, Part::Replay).contains("has another answer the second time"), "{judgement}");
}

#[test]
fn another_rule_breaks_vectors_and_the_digest() {
    let judgement = verdict("rr");
    assert_eq!(judgement.failed(), [Part::Vectors, Part::Outcomes], "{judgement}");
    assert!(text(&judgement, Part::Outcomes).contains("listed is "), "{judgement}");
}

fn suite(arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_takt-conform")).arg("suite").args(arguments).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn the_command_prints_a_line_for_each_part() {
    let (status, out, error) = suite(&["--policy", "rr"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((status, error.as_str(), lines.len()), (Some(0), "", Part::ALL.len() + 1), "{out}");
    assert!(lines[..Part::ALL.len()].iter().all(|l| l[12..].starts_with(" ok      ")), "{out}");
    assert_eq!(lines.last(), Some(&"rr: ok"));
}

#[test]
fn a_name_that_no_policy_has_is_refused_with_those_that_there_are() {
    let names: Vec<_> = takt_policy::policies().into_iter().map(|p| p.name).collect();
    let want = format!("takt-conform: unknown policy \"fifo\"; allowed: {}\n", names.join(", "));
    assert_eq!(suite(&["--policy", "fifo"]), (Some(2), String::new(), want));
}
