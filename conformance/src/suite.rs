// SPDX-License-Identifier: GPL-2.0-only
//! Judges a core: vectors, random hosts, and whether these still have the outcomes that
//! `outcomes.txt` tells of.
//!
//! A vector says what is right, an invariant what is never right. An outcome says only what was:
//! one that differs is a rule that changed. Where that is meant, `takt-conform outcomes` prints the
//! new lines of the policies, and the tests of the hosts' glue print theirs.

use crate::core::Maker;
use crate::host::{Mode, Shape, variants};
use crate::log::LogFile;
use crate::run::{NOTHING, Run, hash, hash_on, hash_record};
use crate::vectors::{VECTORS, Vector};
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Operations per policy, shape and mode.
const OPERATIONS: u64 = 6_000;
/// The same where a seed stands for a variant, with invariants after each 8th.
const VARIANT: u64 = 4_000;

/// How the complaint about a changed outcome begins.
pub(crate) const CHANGED: &str = "outcomes, ";

/// Digests of outcomes: a line for each policy, and one for each run of a host's glue (`linux/...`,
/// `xen/...`).
pub const OUTCOMES: &str = include_str!("../outcomes.txt");

/// Runs vectors and random hosts on a core; what caught it, or `None`.
pub fn suite(make: &Maker) -> Option<String> {
    let failed = |(name, vector): &(&str, Vector)| Some(format!("vector {name}: {}", fails(*vector, make)?));
    if let Some(caught) = VECTORS.iter().find_map(failed) {
        return Some(caught);
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

thread_local! {
    /// Whether a panic of this thread is an answer, which needs no message.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// How a vector fails on a core, in one line; `None` if it does not.
pub(crate) fn fails(vector: Vector, make: &Maker) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !EXPECTED.get() {
                others(panic);
            }
        }));
    });
    EXPECTED.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| vector(make)));
    EXPECTED.set(false);
    let panic = result.err()?;
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Some(text.unwrap_or("panic").replace('\n', " "))
}

/// Runs the random hosts on a policy under every check.
///
/// # Errors
/// What a check found.
pub fn outcomes(make: &Maker, policy: &str) -> Result<u64> {
    let small = &Shape::ALL[..4];
    let plain = small.iter().map(|s| (1, s, OPERATIONS, 1));
    let varied = variants(policy).iter().flat_map(|&seed| small.iter().map(move |s| (seed, s, VARIANT, 8)));
    let mut digest = NOTHING;
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
pub fn unchanged(name: &str, digest: u64) -> Result<()> {
    let listed = OUTCOMES.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    let listed = listed.with_context(|| format!("{name}: outcomes.txt has no line of it"))?;
    ensure!(listed == format!("{digest:016x}"), "{name}: {digest:016x}, listed is {listed}");
    Ok(())
}

/// The line that `outcomes.txt` should have for a run of a host's glue, if it has another: a digest
/// of the run's recordings, and of `seen`, which is what the host knows beside them.
pub fn changed(name: &str, logs: &[&LogFile], seen: &str) -> Option<String> {
    let records = logs.iter().flat_map(|log| &log.records);
    let digest = records.fold(hash(seen.as_bytes()), |h, r| hash_record(h, &r.op, &r.res));
    unchanged(name, digest).err().map(|_| format!("{name} {digest:016x}\n"))
}
