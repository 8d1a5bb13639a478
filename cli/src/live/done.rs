// SPDX-License-Identifier: GPL-2.0-only
//! How long a recording may last, and what is said of one that has ended (`takt record --json`).

use crate::{args, output};
use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use takt_control::{Document, duration};

/// How long a recording may last, ns.
pub const SPANS: RangeInclusive<u64> = 1_000_000..=86_400_000_000_000;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Done {
    /// Where it is.
    pub file: PathBuf,
    /// How many, since the recording's epoch.
    pub operations: u64,
    /// How long it lasted.
    pub seconds: f64,
    /// It ended because no recording holds more.
    pub cut: bool,
    /// File of the rt-pool's log, where there is one.
    pub rt_pool: Option<PathBuf>,
}

impl Document for Done {
    const NAME: &'static str = "record";
    const VERSION: u32 = 1;
}

/// The duration of a recording in ms.
///
/// # Errors
/// It is none, or not allowed.
pub fn span(text: &str) -> Result<u64> {
    within(text, &SPANS)
}

/// A duration in ms; `allowed` is in ns.
///
/// # Errors
/// It is none, or not allowed.
pub fn within(text: &str, allowed: &RangeInclusive<u64>) -> Result<u64> {
    let ns = duration::parse(text).ok().filter(|ns| allowed.contains(ns));
    let (low, high) = (duration::format(*allowed.start()), duration::format(*allowed.end()));
    Ok(ns.with_context(|| format!("--duration `{text}` is not allowed, allowed {low}..={high}"))? / 1_000_000)
}

impl Done {
    /// Prints it.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn print(&self, args: &args::Record) -> Result<bool> {
        if args.json {
            output::print_json(self)?;
        } else {
            output::print(&format!("{}\n", self.line(&args.file)))?;
        }
        Ok(true)
    }

    /// The same in words; `file` as the user calls it.
    pub fn line(&self, file: &Path) -> String {
        let why = if self.cut { " (the most a recording holds)" } else { "" };
        let rt = self.rt_pool.as_ref().map(|f| format!(", the rt-pool's in {}", f.display())).unwrap_or_default();
        format!("{}: {} operations in {:.1} s{why}{rt}", file.display(), self.operations, self.seconds)
    }
}
