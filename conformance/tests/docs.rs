// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules.md and the tree say the same: each rule names code and a vector or test that exist,
//! each rule that the tree cites exists, and links lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use takt_conformance::vectors::VECTORS;
use takt_policy::params;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Files below `dir` with one of these extensions, relative to the root; not what is built.
fn files(dir: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(dir)];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("directory") {
            let path = entry.expect("entry").path();
            let name = path.file_name().expect("name").to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "out" {
                waiting.push(path);
            } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
                found.push(path.strip_prefix(root()).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether `text` has `name` as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name)
        .any(|(at, _)| !inside(text[..at].chars().next_back()) && !inside(text[at + name.len()..].chars().next()))
}

/// `D14`, `D13b`, `K2`.
fn is_id(word: &str) -> bool {
    let digits = word.get(1..).unwrap_or("").trim_end_matches('b');
    word.starts_with(|c: char| "BCDEKLMPR".contains(c))
        && !digits.is_empty()
        && !digits.starts_with('0')
        && digits.len() <= 2
        && digits.bytes().all(|b| b.is_ascii_digit())
}

struct Rule {
    page: PathBuf,
    title: String,
    body: String,
}

impl Rule {
    /// What stands behind `- Code:` and the like, continuation lines included.
    fn field(&self, name: &str) -> Option<String> {
        let mut lines = self.body.lines().skip_while(|l| !l.starts_with(&format!("- {name}: ")));
        let first = lines.next()?.split_once(": ")?.1.to_owned();
        let rest = lines.take_while(|l| l.starts_with("  ")).map(str::trim);
        Some(rest.fold(first, |all, line| all + " " + line))
    }
}

/// All rules, by id.
fn rules() -> BTreeMap<String, Rule> {
    let mut all = BTreeMap::new();
    for page in files("docs/rules", &["md"]) {
        for section in read(&page).split("\n## ").skip(1) {
            let (head, body) = section.split_once('\n').expect("a body");
            let (id, title) = head.split_once(' ').expect("an id and a title");
            assert!(is_id(id), "{}: `{head}` begins with no id", page.display());
            let rule = Rule { page: page.clone(), title: title.to_owned(), body: body.to_owned() };
            assert!(all.insert(id.to_owned(), rule).is_none(), "{id} is there twice");
        }
    }
    assert!(all.len() > 200, "{} rules", all.len());
    all
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

/// "`name` in path, `name` in path".
fn places(id: &str, list: &str) -> Vec<(String, PathBuf)> {
    let place = |one: &str| {
        let (name, path) =
            one.trim().strip_prefix('`').and_then(|x| x.split_once("` in ")).unwrap_or_else(|| panic!("{id}: `{one}`"));
        (name.to_owned(), PathBuf::from(path.trim_end_matches(',')))
    };
    list.split(", `").map(|one| place(&format!("`{}", one.trim_start_matches('`')))).collect()
}

#[test]
fn docs_rules_name_code_and_vectors_that_exist() {
    let vectors: BTreeSet<&str> = VECTORS.iter().map(|(name, _)| *name).collect();
    for (id, rule) in rules() {
        let code = rule.field("Code").unwrap_or_else(|| panic!("{id} names no code"));
        let test = rule.field("Test");
        assert!(test.is_some() || rule.field("Vector").is_some(), "{id} names neither a vector nor a test");
        for (name, path) in places(&id, &code).into_iter().chain(test.map_or_else(Vec::new, |t| places(&id, &t))) {
            assert!(has_word(&read(&path), &name), "{id}: no `{name}` in {}", path.display());
        }
        for name in rule.field("Vector").unwrap_or_default().split("; ").filter(|name| !name.is_empty()) {
            let name = name.trim_matches('"');
            assert!(vectors.contains(name), "{id}: there is no vector \"{name}\"");
        }
    }
}

/// Words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn docs_rules_name_switches_that_exist() {
    let scenarios = read(Path::new("docs/scenarios.md"));
    let parameters = params();
    for (id, rule) in rules() {
        for switch in quoted(&rule.field("Switch").unwrap_or_default()) {
            let key = switch.rsplit('.').next().expect("a name");
            let known = parameters.iter().any(|p| p.name == switch) || has_word(&scenarios, key);
            assert!(known, "{id}: there is neither a parameter nor a scenario key `{switch}`");
        }
    }
}

#[test]
fn docs_rules_are_all_in_the_index() {
    let index = read(Path::new("docs/rules.md"));
    let listed: Vec<&str> = index.lines().filter(|l| l.starts_with("* [")).collect();
    let all = rules();
    for (id, rule) in &all {
        let page = rule.page.strip_prefix("docs").expect("a page").display().to_string();
        let line = format!("* [{id}]({page}#{}) {}", anchor(&format!("{id} {}", rule.title)), rule.title);
        assert!(listed.contains(&line.as_str()), "docs/rules.md lacks the line\n{line}");
    }
    assert_eq!(listed.len(), all.len(), "docs/rules.md lists what is no rule");
}

/// Ids behind each "rule" or "rules" of a text: "rule D14", "rules C16, C17 and D2".
fn cited(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    for at in
        (0..words.len()).filter(|&at| words[at].eq_ignore_ascii_case("rule") || words[at].eq_ignore_ascii_case("rules"))
    {
        found.extend(
            words[at + 1..]
                .iter()
                .take_while(|w| is_id(w) || **w == "and" || **w == "or")
                .filter(|w| is_id(w))
                .map(|w| (*w).to_owned()),
        );
    }
    found
}

#[test]
fn docs_rules_that_the_tree_cites_exist() {
    let all = rules();
    let mut citations = 0;
    for path in files(".", &["c", "h", "rs", "toml", "md", "sh"]) {
        for id in cited(&read(&path)) {
            citations += 1;
            assert!(all.contains_key(&id), "{} cites rule {id}, which docs/rules.md does not have", path.display());
        }
    }
    assert!(citations > 200, "{citations} citations");
    assert_eq!(cited("(rule D14), rules C16, C17 and D13b: the Rule of 3"), ["D14", "C16", "C17", "D13b"]);
}

/// Targets of a page's links that are in the tree: path, then the heading or nothing.
fn links(text: &str) -> Vec<(String, String)> {
    let target = |rest: &str| rest.split_once(')').map(|(t, _)| t.to_owned());
    let all = text.split("](").skip(1).filter_map(target);
    all.filter(|t| !t.contains("://") && !t.contains(' '))
        .map(|t| {
            let (path, heading) = t.split_once('#').unwrap_or((&t, ""));
            (path.to_owned(), heading.to_owned())
        })
        .collect()
}

#[test]
fn docs_links_lead_somewhere() {
    for page in files(".", &["md"]) {
        let text = read(&page);
        for (path, heading) in links(&text) {
            let to = if path.is_empty() { page.clone() } else { page.parent().expect("a directory").join(&path) };
            assert!(root().join(&to).exists(), "{}: nothing at {path}", page.display());
            if !heading.is_empty() {
                let there =
                    read(&to).lines().any(|l| l.starts_with('#') && anchor(l.trim_start_matches('#')) == heading);
                assert!(there, "{}: {path} has no heading #{heading}", page.display());
            }
        }
    }
}

#[test]
fn docs_parameters_have_a_sentence_each() {
    for p in params() {
        assert!(p.doc.len() > 10, "{} has no sentence", p.name);
    }
}
