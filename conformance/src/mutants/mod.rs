// SPDX-License-Identifier: GPL-2.0-only
//! Deliberate defects: named ones of `mutants/`, and all that the operators can make of a directory. `docs/conformance.md`.

mod judge;
mod syntax;
mod tokens;

pub use judge::{Judged, Verdict, Worker, judge_all, score};
pub use syntax::OPERATORS;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use syntax::{Names, Site, Source, pick};

/// How defects of a directory are judged.
#[derive(Clone, Copy, Debug)]
pub enum Judge {
    /// The policy core as a shared library, by `takt-conform suite`.
    Core,
    /// `cargo test` with these arguments in a copy of the tree.
    Cargo(&'static [&'static str]),
}

/// A directory that is judged.
#[derive(Debug)]
pub struct Directory {
    pub name: &'static str,
    /// Where its sources are; `mutants/NAME.toml` and `mutants/NAME/` have its list.
    pub sources: &'static [&'static str],
    /// Files that no sample is taken from, because this judge does not run them.
    pub skip: &'static [&'static str],
    pub judge: Judge,
    /// Entries that the list has at least.
    pub least: usize,
}

/// All of them: to judge one more, add a line.
pub const DIRECTORIES: &[Directory] = &[
    Directory {
        name: "policy",
        sources: &["policy", "policy/core"],
        // Invariants and what only tests and logs read: they judge, or other tests judge them.
        skip: &["bound.h", "check.h", "check_server.h", "describe.h", "hist.h", "native.c"],
        judge: Judge::Core,
        least: 276,
    },
    Directory {
        name: "monitor",
        sources: &["monitor/bpf", "monitor/core", "monitor/src"],
        // These run in the kernel: `--features bpf` and the labs.
        skip: &["bpf.rs", "device.rs", "monitor.bpf.c", "object.rs"],
        judge: Judge::Cargo(&["-p", "takt-monitor", "--tests"]),
        least: 55,
    },
    Directory {
        name: "control",
        sources: &["control/src", "control/src/analysis"],
        skip: &[],
        judge: Judge::Cargo(&["-p", "takt-control", "--tests"]),
        least: 15,
    },
    Directory {
        name: "linux",
        sources: &["linux/bpf"],
        skip: &["kernel.h"],
        judge: Judge::Cargo(&["-p", "takt-conformance", "--test", "linux_bpf"]),
        least: 18,
    },
    Directory {
        name: "xen",
        sources: &["xen/sched"],
        skip: &[],
        judge: Judge::Cargo(&["-p", "takt-conformance", "--test", "xen_sched"]),
        least: 15,
    },
];

impl Directory {
    /// Whether `make test` runs an entry: of those that need no Cargo a third, of the others the chosen ones. Which third follows from the
    /// names, so it stays the same.
    pub fn runs(&self, entry: &Entry) -> bool {
        let third = || entry.name.bytes().map(u32::from).sum::<u32>() % 3 == 0;
        entry.quick || matches!(self.judge, Judge::Core) && third()
    }

    /// Changes in a sample that `make test-long` runs. A core is judged in seconds. Cargo builds
    /// and tests each change for up to a minute: 200 of them in each directory would need hours.
    pub fn sample(&self) -> usize {
        match self.judge {
            Judge::Core => 200,
            Judge::Cargo(_) => 50,
        }
    }
}

/// The directory of that name.
///
/// # Errors
/// There is none; the message lists them.
pub fn directory(name: &str) -> Result<&'static Directory> {
    let names: Vec<_> = DIRECTORIES.iter().map(|d| d.name).collect();
    let found = DIRECTORIES.iter().find(|d| d.name == name);
    found.with_context(|| format!("directory {name:?}: must be one of {}", names.join(", ")))
}

/// An entry of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    /// A function or macro of the directory; `Type::method`, or the method alone, in Rust.
    #[serde(rename = "fn")]
    pub function: String,
    /// One of [`OPERATORS`]; `find` and `replace` otherwise.
    pub op: Option<String>,
    /// Tokens that the changed place has.
    #[serde(default)]
    pub at: String,
    /// Which, of several such places; the first is 1.
    pub nth: Option<usize>,
    /// Tokens that the function has once.
    pub find: Option<String>,
    pub replace: Option<String>,
    /// `make test` runs it although it needs seconds; see [`Directory::runs`].
    #[serde(default)]
    pub quick: bool,
    /// Why it is wrong.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Entry>,
}

/// A file with one change.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Relative to the root of the tree.
    pub path: String,
    pub function: String,
    /// The operator, or the entry's name.
    pub name: String,
    pub line: usize,
    /// All of the changed file.
    pub text: String,
    before: String,
    after: String,
}

impl Mutation {
    fn new(source: &Source, function: &str, name: &str, edit: &Range<usize>, with: &str) -> Self {
        let mut text = source.text.clone();
        text.replace_range(edit.clone(), with);
        let lines = |text: &str, from: usize, to: usize| {
            let from = text[..from].rfind('\n').map_or(0, |n| n + 1);
            let to = text[to..].find('\n').map_or(text.len(), |n| to + n);
            text[from..to].to_string()
        };
        Self {
            path: source.path.clone(),
            function: function.into(),
            name: name.into(),
            line: source.line(edit.start),
            before: lines(&source.text, edit.start, edit.end),
            after: lines(&text, edit.start, edit.start + with.len()),
            text,
        }
    }

    /// Where and what, in one line.
    pub fn place(&self) -> String {
        format!("{}:{} {} {}", self.path, self.line, self.function, self.name)
    }

    /// The changed lines.
    pub fn diff(&self) -> String {
        let mark = |sign: char, text: &str| text.lines().map(|l| format!("    {sign}{l}\n")).collect::<String>();
        mark('-', &self.before) + &mark('+', &self.after)
    }
}

/// The sources of a directory, and its list.
pub struct Sources {
    directory: &'static Directory,
    files: Vec<Source>,
    /// What operators can change, of each file.
    sites: Vec<Vec<Site>>,
}

impl Sources {
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn read(root: &Path, directory: &'static Directory) -> Result<Self> {
        let mut files = Vec::new();
        let mut names = Names::new();
        for sub in directory.sources {
            for path in sorted(&root.join(sub))? {
                if path.extension().is_some_and(|e| e == "c" || e == "h" || e == "rs") {
                    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                    let path = path.strip_prefix(root).unwrap_or(&path);
                    let source = Source::parse(&path.to_string_lossy(), text)?;
                    source.names(&mut names);
                    files.push(source);
                }
            }
        }
        Ok(Self::of(directory, files, &names))
    }

    fn of(directory: &'static Directory, files: Vec<Source>, names: &Names) -> Self {
        let sites = files.iter().map(|f| f.sites(names)).collect();
        Self { directory, files, sites }
    }

    /// All that operators can make of it, in the order of the files.
    pub fn all(&self) -> Vec<Mutation> {
        let skipped = |s: &Source| self.directory.skip.iter().any(|f| Path::new(&s.path).ends_with(f));
        let mut out: Vec<Mutation> = Vec::new();
        for (source, sites) in self.files.iter().zip(&self.sites).filter(|(s, _)| !skipped(s)) {
            for site in sites {
                let m = Mutation::new(source, &site.function, site.op, &site.edit, &site.with);
                if !out.iter().rev().take(16).any(|o| o.path == m.path && o.text == m.text) {
                    out.push(m);
                }
            }
        }
        out
    }

    /// The one change that an entry means.
    ///
    /// # Errors
    /// None, or several; the message names the entry.
    pub fn resolve(&self, entry: &Entry) -> Result<Mutation> {
        let change = match (&entry.op, &entry.find, &entry.replace) {
            (Some(op), None, None) => self.by_operator(entry, op),
            (None, Some(find), Some(replace)) => self.by_tokens(entry, find, replace),
            _ => bail!("{}: must have `op`, or `find` and `replace`", entry.name),
        };
        change.with_context(|| format!("{}: {}, fn {}", entry.name, self.directory.name, entry.function))
    }

    fn by_operator(&self, entry: &Entry, op: &str) -> Result<Mutation> {
        let operators: Vec<_> = OPERATORS.iter().map(|o| o.0).collect();
        ensure!(operators.contains(&op), "op {op:?}: must be one of {}", operators.join(", "));
        let mut found = Vec::new();
        for (source, all) in self.files.iter().zip(&self.sites) {
            let sites: Vec<&Site> =
                all.iter().filter(|s| s.op == op && is_called(&s.function, &entry.function)).collect();
            if !sites.is_empty() {
                let site = pick(&source.text, &sites, &entry.at, entry.nth);
                found.push(site.map(|s| Mutation::new(source, &s.function, &entry.name, &s.edit, &s.with)));
            }
        }
        // A name that several files have: the one where the place is.
        let several = found.len() > 1;
        let mut found: Vec<_> = found.into_iter().filter(|f| !several || f.is_ok()).collect();
        ensure!(found.len() < 2, "functions of several files match");
        found.pop().with_context(|| format!("no such function has a place for {op:?} with {:?}", entry.at))?
    }

    fn by_tokens(&self, entry: &Entry, find: &str, replace: &str) -> Result<Mutation> {
        let mut found = Vec::new();
        let mut known = false;
        for source in &self.files {
            for f in source.functions().into_iter().filter(|f| is_called(&f.name, &entry.function)) {
                known = true;
                let text = &source.text[f.range.clone()];
                for at in tokens::find(text, find) {
                    let edit = f.range.start + at.start..f.range.start + at.end;
                    found.push(Mutation::new(source, &f.name, &entry.name, &edit, replace));
                }
            }
        }
        ensure!(known, "there is no such function");
        ensure!(found.len() == 1, "`find` matches {} places, one must", found.len());
        found.pop().context("nothing found")
    }

    /// The entries of the directory's list, each with its change.
    ///
    /// # Errors
    /// An entry that means nothing or several things, or has another's name.
    pub fn named(&self, lists: &Path) -> Result<Vec<(Entry, Mutation)>> {
        let mut out: Vec<(Entry, Mutation)> = Vec::new();
        for entry in entries(lists, self.directory.name)? {
            ensure!(out.iter().all(|o| o.0.name != entry.name), "{}: two entries have this name", entry.name);
            let change = self.resolve(&entry)?;
            out.push((entry, change));
        }
        Ok(out)
    }
}

fn is_called(name: &str, wanted: &str) -> bool {
    name == wanted || name.rsplit("::").next() == Some(wanted)
}

/// The entries of `NAME.toml` and of the files in `NAME/`.
fn entries(lists: &Path, name: &str) -> Result<Vec<Entry>> {
    let mut files = vec![lists.join(format!("{name}.toml"))];
    if lists.join(name).is_dir() {
        files.extend(sorted(&lists.join(name))?);
    }
    let mut out = Vec::new();
    for path in files.iter().filter(|f| f.is_file()) {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        out.extend(toml::from_str::<List>(&text).with_context(|| path.display().to_string())?.mutant);
    }
    Ok(out)
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut out = list.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
    out.sort();
    Ok(out)
}

/// `n` of `all`, the same ones for the same seed.
pub fn sample(mut all: Vec<Mutation>, n: usize, seed: u64) -> Vec<Mutation> {
    fastrand::Rng::with_seed(seed).shuffle(&mut all);
    all.truncate(n);
    all
}

#[cfg(test)]
mod tests;
