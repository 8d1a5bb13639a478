// SPDX-License-Identifier: GPL-2.0-only
//! Over a million random operations, natively, under all policies and every check.

use takt_conformance::{Mode, OUTCOMES, Run, Shape, maker, outcomes, unchanged, variants};
use takt_policy::PolicyInfo;

/// Per policy, shape and mode; with five shapes and two modes a million operations of each policy.
const OPERATIONS: u64 = 100_000;

/// The same for a variant of a policy that binds VCPUs.
const VARIANT: u64 = 30_000;

/// Invariants after each step on pools of up to 8 PCPUs, after each 8th on the big one.
fn run(policy: &str, shape: Shape, mode: Mode, seed: u64) {
    run_for(OPERATIONS, policy, shape, mode, seed);
}

fn run_for(operations: u64, policy: &str, shape: Shape, mode: Mode, seed: u64) {
    let make = maker(None).expect("native core");
    let every = if shape.cpus > 8 { 8 } else { 1 };
    let mut run = Run::new(make(policy).expect("policy"), seed, shape, mode, every);
    if let Err(e) = run.steps(operations, false) {
        panic!("{policy}, {shape:?}, {mode:?}, seed {seed}: {e:#}");
    }
    if mode == Mode::Chaos {
        assert!(run.stats.compared > operations / 30, "too few forbidden operations: {:?}", run.stats);
    }
    run.checker.finish().expect("sane counts");
}

fn all(mode: Mode, seed: u64) {
    for policy in takt_policy::policies() {
        for shape in Shape::ALL {
            run(policy.name, shape, mode, seed);
        }
    }
}

#[test]
fn chaotic_hosts() {
    all(Mode::Chaos, 1);
}

#[test]
fn faithful_hosts() {
    all(Mode::Faithful, 2);
}

/// A host's seed decides upon the kind of servers, and from 8 on upon parameters.
fn varied(operations: u64, of: impl Fn(&PolicyInfo) -> bool) {
    for policy in takt_policy::policies().into_iter().filter(&of).map(|p| p.name) {
        for &seed in variants(policy) {
            let shapes = Shape::ALL.into_iter().filter(|s| s.cpus < 64);
            shapes.for_each(|shape| run_for(operations, policy, shape, Mode::Faithful, seed));
        }
    }
}

#[test]
fn every_kind_of_server() {
    varied(OPERATIONS, |p| p.has("budgets"));
}

#[test]
fn every_variant_of_others() {
    varied(OPERATIONS, |p| !p.has("budgets") && !p.has("binds"));
}

#[test]
fn every_variant_of_those_that_bind() {
    varied(VARIANT, |p| p.has("binds"));
}

/// A line for each policy and no other, and what each says holds: a rule that changes, changes its digest.
#[test]
fn outcomes_are_as_listed() {
    let policies = takt_policy::policies();
    let named = OUTCOMES.lines().filter_map(|l| l.split(' ').next());
    let listed: Vec<_> = named.filter(|n| !n.contains('/')).collect(); // the others are of the hosts' glue
    assert_eq!(listed, policies.iter().map(|p| p.name).collect::<Vec<_>>());
    let make = maker(None).expect("native core");
    let changed: Vec<_> = policies
        .iter()
        .map(|p| (p.name, outcomes(&make, p.name).expect("a clean run")))
        .filter_map(|(policy, digest)| unchanged(policy, digest).err())
        .map(|e| format!("{e:#}\n"))
        .collect();
    assert!(changed.is_empty(), "rules have changed; if that is meant: takt-conform outcomes\n{}", changed.concat());
}

/// Another outcome is another digest, the same ones are the same.
#[test]
fn a_digest_is_of_outcomes() {
    let make = maker(None).expect("native core");
    let digest = |policy: &str, seed: u64, operations: u64| {
        let mut run = Run::new(make(policy).expect("policy"), seed, Shape::ALL[1], Mode::Faithful, 64);
        run.steps(operations, false).expect("a clean run");
        run.digest()
    };
    assert_eq!(digest("credit", 1, 500), digest("credit", 1, 500));
    for other in [digest("doris", 1, 500), digest("credit", 2, 500), digest("credit", 1, 501)] {
        assert_ne!(digest("credit", 1, 500), other);
    }
    assert!(unchanged("credit", 0).is_err() && unchanged("no policy", 0).is_err());
}
