// SPDX-License-Identifier: GPL-2.0-only
//! Over a million random operations, natively, under all policies and every check.

use takt_conformance::{Mode, Run, Shape, maker};

/// Per policy, shape and mode; with five shapes and two modes a million operations of each policy.
const OPERATIONS: u64 = 100_000;

/// The same for a variant of S or Poris.
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

/// A host's seed decides upon the kind of servers.
#[test]
fn every_kind_of_server() {
    for seed in [3, 4, 5] {
        for policy in ["rtxen", "sedf", "vgedf"] {
            Shape::ALL.into_iter().filter(|s| s.cpus < 64).for_each(|shape| run(policy, shape, Mode::Faithful, seed));
        }
    }
}

/// So does it upon Credit's variants.
#[test]
fn every_variant_of_credit() {
    for (policy, seeds) in [("credit", &[8, 16, 24][..]), ("doris", &[8, 16]), ("rr", &[8])] {
        for &seed in seeds {
            let shapes = Shape::ALL.into_iter().filter(|s| s.cpus < 64);
            shapes.for_each(|shape| run(policy, shape, Mode::Faithful, seed));
        }
    }
}

/// And upon the parts of S and Poris.
#[test]
fn every_variant_of_s_and_poris() {
    for (policy, seeds) in [("laxs", &[32, 40, 48, 56, 80][..]), ("poris", &[32, 40, 48, 56, 64, 72])] {
        for &seed in seeds {
            let shapes = Shape::ALL.into_iter().filter(|s| s.cpus < 64);
            shapes.for_each(|shape| run_for(VARIANT, policy, shape, Mode::Faithful, seed));
        }
    }
}
