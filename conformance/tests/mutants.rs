// SPDX-License-Identifier: GPL-2.0-only
//! Every named defect of `mutants/` is caught, and the unchanged tree by nothing (`judge_all` demands that).

use std::path::{Path, PathBuf};
use takt_conformance::mutants::{
    DIRECTORIES, Directory, Entry, Judged, Mutation, Sources, Verdict, directory, judge_all, sample, score,
};

/// Which sample of each directory.
const SEED: u64 = 1;

/// Caught in percent that a sample of a directory must reach.
const LEAST: usize = 90;

fn run(name: &str, mutations: Vec<Mutation>) -> Vec<Judged> {
    let directory = directory(name).expect("directory");
    let runner = Path::new(env!("CARGO_BIN_EXE_takt-conform"));
    // Where `takt-conform mutants` works too: dependencies are built once.
    judge_all(&root(), &root().join("target/mutants"), directory, runner, mutations, |_| ()).expect("judge")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("root")
}

/// Prints the score; the survivors, and how many of the rest are programs.
fn told_score(name: &str, judged: &[Judged], note: &str) -> (Vec<String>, usize) {
    let survivors: Vec<_> = judged.iter().filter(|j| j.verdict == Verdict::Survived).map(told).collect();
    let valid = judged.iter().filter(|j| !matches!(j.verdict, Verdict::DoesNotCompile(_))).count();
    println!("{}{note}", score(name, judged));
    (survivors, valid)
}

fn told(judged: &Judged) -> String {
    format!("{}\n{}", judged.mutation.place(), judged.mutation.diff())
}

/// The entries of a directory's list: each means one change, and none is lost.
fn listed(d: &'static Directory) -> Vec<(Entry, Mutation)> {
    let sources = Sources::read(&root(), d).expect("sources");
    let all = sources.named(&root().join("conformance/mutants")).expect("list");
    assert!(all.len() >= d.least, "{}: entries are lost: {} are left of {}", d.name, all.len(), d.least);
    all
}

/// In seconds what else takes minutes to tell: a source has changed below an entry.
#[test]
fn lists_fit_the_sources() {
    for d in DIRECTORIES {
        listed(d);
    }
}

/// Judges the entries that `chosen` selects.
fn entries(chosen: impl Fn(&Directory, &Entry) -> bool) {
    let mut missed = Vec::new();
    for d in DIRECTORIES {
        let all = listed(d);
        let listed = all.len();
        let some: Vec<_> = all.into_iter().filter(|(e, _)| chosen(d, e)).map(|n| n.1).collect();
        let note = match listed - some.len() {
            0 => String::new(),
            _ => format!(" (of {listed} listed; all: make test-long)"),
        };
        let judged = run(d.name, some);
        missed.extend(told_score(d.name, &judged, &note).0);
        // A named defect must be a program.
        let broken = judged.iter().filter(|j| matches!(j.verdict, Verdict::DoesNotCompile(_)));
        missed.extend(broken.map(|j| format!("does not compile: {}", told(j))));
    }
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

#[test]
fn every_named_mutant_is_caught() {
    entries(Directory::runs);
}

#[test]
#[ignore = "seconds for each entry"]
fn every_entry_of_every_list_is_caught() {
    entries(|_, _| true);
}

#[test]
#[ignore = "minutes for each directory"]
fn most_of_a_sample_is_caught() {
    let mut short = Vec::new();
    for d in DIRECTORIES {
        let sources = Sources::read(&root(), d).expect("sources");
        let judged = run(d.name, sample(sources.all(), d.sample(), SEED));
        let note = format!(" of a sample of {}, seed {SEED}", d.sample());
        let (survivors, valid) = told_score(d.name, &judged, &note);
        if (valid - survivors.len()) * 100 < valid * LEAST {
            short.push(format!("{}:\n{}", d.name, survivors.join("\n")));
        }
    }
    assert!(short.is_empty(), "below {LEAST} %: {}", short.join("\n"));
}
