// SPDX-License-Identifier: GPL-2.0-only
//! How long a recording may last, and what is said of one that has ended (`takt record --json`).

use crate::{args, output};
use anyhow::{Context, Result};
use std::ops::RangeInclusive;
use takt_control::duration;
use takt_control::event::Done;

/// How long a recording may last, ns.
pub const SPANS: RangeInclusive<u64> = 1_000_000..=86_400_000_000_000;

/// The duration of a recording in ms.
///
/// # Errors
/// It is none, or not allowed.
pub fn span(text: &str) -> Result<u64> {
    within("--duration", text, &SPANS)
}

/// The duration of an option in ms; `allowed` is in ns.
///
/// # Errors
/// It is none, or not allowed.
pub fn within(option: &str, text: &str, allowed: &RangeInclusive<u64>) -> Result<u64> {
    let ns = duration::parse(text).ok().filter(|ns| allowed.contains(ns));
    let (low, high) = (duration::format(*allowed.start()), duration::format(*allowed.end()));
    Ok(ns.with_context(|| format!("{option} must be between {low} and {high} (got `{text}`)"))? / 1_000_000)
}

/// Prints what became of a recording.
///
/// # Errors
/// Stdout cannot be written.
pub fn print(done: &Done, args: &args::Record) -> Result<bool> {
    if args.json {
        output::print_json(done)?;
    } else {
        output::print(&format!("{}\n", done.line(&args.file)))?;
    }
    Ok(true)
}
