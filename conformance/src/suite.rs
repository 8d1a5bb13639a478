// SPDX-License-Identifier: GPL-2.0-only
//! Judges a core: vectors, random hosts, and whether these still have the outcomes that `outcomes.txt` tells of.
//!
//! A vector says what is right, an invariant what is never right. An outcome says only what was: one that differs is a rule that changed.
//! Where that is meant, `takt-conform outcomes` prints the new list.

use crate::core::Maker;
use crate::host::{Mode, Shape};
use crate::log::LogFile;
use crate::run::{Run, SEED, hash, hash_on};
use crate::vectors::VECTORS;
use anyhow::{Context, Result, ensure};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations per policy, shape and mode.
const OPERATIONS: u64 = 6_000;
/// The same where a seed stands for a variant, with invariants after each 8th.
const VARIANT: u64 = 4_000;

/// How the complaint about a changed outcome begins.
pub(crate) const CHANGED: &str = "outcomes, ";

/// Digests of the random hosts' outcomes, a line for each policy.
pub const OUTCOMES: &str = include_str!("../outcomes.txt");

/// Seeds of a policy that stand for a variant: a kind of server or parameters of its own ([`crate::Host`]).
pub fn variants(policy: &str) -> &'static [u64] {
    match policy {
        "rtxen" | "sedf" | "vgedf" => &[3, 4, 6],
        "credit" => &[8, 16, 24],
        "doris" => &[8, 16],
        "laxs" => &[32, 40, 48, 56, 80],
        "poris" => &[32, 40, 48, 56, 64, 72],
        _ => &[8],
    }
}

/// Runs vectors and random hosts on a core; what caught it, or `None`.
pub fn suite(make: &Maker) -> Option<String> {
    std::panic::set_hook(Box::new(|_| {}));
    for (name, vector) in VECTORS {
        if let Err(e) = catch_unwind(AssertUnwindSafe(|| vector(make))) {
            let text = e.downcast_ref::<String>().map(String::as_str).or(e.downcast_ref::<&str>().copied());
            return Some(format!("vector {name}: {}", text.unwrap_or("panic").replace('\n', " ")));
        }
    }
    let mut digests = Vec::new();
    for p in takt_policy::policies().iter().rev() {
        match outcomes(make, p.name) {
            Ok(digest) => digests.push((p.name, digest)),
            Err(e) => return Some(format!("random host, {}: {e:#}", p.name)),
        }
    }
    // Last: that something changed says less than that something is wrong.
    digests.into_iter().find_map(|(policy, digest)| unchanged(policy, digest).err()).map(|e| format!("{CHANGED}{e:#}"))
}

/// Runs the random hosts on a policy under every check.
///
/// # Errors
/// What a check found.
pub fn outcomes(make: &Maker, policy: &str) -> Result<u64> {
    let small = &Shape::ALL[..4];
    let plain = small.iter().map(|s| (1, s, OPERATIONS, 1));
    let varied = variants(policy).iter().flat_map(|&seed| small.iter().map(move |s| (seed, s, VARIANT, 8)));
    let mut digest = SEED;
    for (seed, shape, operations, every) in plain.chain(varied) {
        for mode in [Mode::Faithful, Mode::Chaos] {
            let mut run = Run::new(make(policy)?, seed, *shape, mode, every);
            run.steps(operations, false).with_context(|| format!("{mode:?}, {} PCPUs, seed {seed}", shape.cpus))?;
            digest = hash_on(digest, &run.digest().to_le_bytes());
        }
    }
    Ok(digest)
}

/// Whether a digest is the listed one.
///
/// # Errors
/// It is another, or not listed.
pub fn unchanged(policy: &str, digest: u64) -> Result<()> {
    let listed = OUTCOMES.lines().find_map(|l| l.strip_prefix(policy)?.strip_prefix(' '));
    let listed = listed.with_context(|| format!("{policy}: outcomes.txt has no line of it"))?;
    ensure!(listed == format!("{digest:016x}"), "{policy}: {digest:016x}, listed is {listed}");
    Ok(())
}

/// What the list should have for a host's run, if it has something else: of its recordings and what it knows beside them.
pub fn changed(name: &str, logs: &[&LogFile], seen: &str) -> Option<String> {
    let told = logs.iter().flat_map(|log| &log.records).map(|r| format!("{r:?}"));
    let digest = told.fold(hash(seen.as_bytes()), |h, r| hash_on(h, r.as_bytes()));
    unchanged(name, digest).err().map(|_| format!("{name} {digest:016x}\n"))
}
