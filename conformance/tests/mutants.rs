// SPDX-License-Identifier: GPL-2.0-only
//! Every named defect of `mutants/` is caught, and the unchanged tree by nothing (`judge_all` demands that).

use std::path::Path;
use takt_conformance::mutants::{DIRECTORIES, Judged, Mutation, Sources, Verdict, directory, judge_all, sample};

/// Caught in percent that a sample of a directory must reach.
const LEAST: usize = 90;

fn run(name: &str, mutations: impl Fn(&Sources, &Path) -> Vec<Mutation>) -> Vec<Judged> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("root");
    let directory = directory(name).expect("directory");
    let sources = Sources::read(&root, directory).expect("sources");
    let runner = Path::new(env!("CARGO_BIN_EXE_takt-conform"));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let all = mutations(&sources, &root);
    judge_all(&root, &work, directory, runner, all, |_| ()).expect("judge")
}

/// Prints the score; the survivors, and how many of the rest are programs.
fn score(name: &str, judged: &[Judged]) -> (Vec<String>, usize) {
    let is = |v: &Verdict| judged.iter().filter(|j| &j.verdict == v).count();
    let survivors = judged.iter().filter(|j| j.verdict == Verdict::Survived).map(|j| j.mutation.place()).collect();
    let valid = judged.iter().filter(|j| !matches!(j.verdict, Verdict::DoesNotCompile(_))).count();
    println!("{name}: {} of {valid} caught", valid - is(&Verdict::Survived));
    (survivors, valid)
}

#[test]
fn every_named_mutant_is_caught() {
    let mut missed = Vec::new();
    for d in DIRECTORIES {
        let judged = run(d.name, |s, root| {
            let named = s.named(&root.join("conformance/mutants")).expect("list");
            named.into_iter().map(|n| n.1).collect()
        });
        let (survivors, valid) = score(d.name, &judged);
        missed.extend(survivors);
        // A named defect must be a program.
        let broken = judged.iter().filter(|j| matches!(j.verdict, Verdict::DoesNotCompile(_)));
        missed.extend(broken.map(|j| format!("{} does not compile", j.mutation.place())));
        assert!(d.name != "policy" || valid >= 271, "policy: entries are lost, {valid} are left");
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
#[ignore = "minutes for each directory"]
fn most_of_a_sample_is_caught() {
    let mut short = Vec::new();
    for d in DIRECTORIES {
        let (survivors, valid) = score(d.name, &run(d.name, |s, _| sample(s.all(), 200, 1)));
        if (valid - survivors.len()) * 100 < valid * LEAST {
            short.push((d.name, survivors));
        }
    }
    assert!(short.is_empty(), "below {LEAST} %: {short:#?}");
}
