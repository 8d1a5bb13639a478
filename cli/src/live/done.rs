// SPDX-License-Identifier: GPL-2.0-only
//! How long a recording may last, and what is said of one that has ended.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use takt_control::duration;

/// How long a recording may last, ns.
pub const SPANS: RangeInclusive<u64> = 1_000_000..=86_400_000_000_000;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Since the epoch.
    pub operations: u64,
    pub seconds: f64,
    /// It ended because no recording holds more.
    pub cut: bool,
    /// File of the rt-pool's log, where there is one.
    #[serde(default)]
    pub rt_pool: Option<PathBuf>,
}

/// The duration of a recording in ms.
pub fn span(text: &str) -> Result<u64> {
    within(text, &SPANS)
}

/// A duration in ms; `allowed` is in ns.
pub fn within(text: &str, allowed: &RangeInclusive<u64>) -> Result<u64> {
    let ns = duration::parse(text).ok().filter(|ns| allowed.contains(ns));
    let (low, high) = (duration::format(*allowed.start()), duration::format(*allowed.end()));
    Ok(ns.with_context(|| format!("--duration `{text}` is not allowed, allowed {low}..={high}"))? / 1_000_000)
}

impl Done {
    pub fn line(&self, file: &Path) -> String {
        let why = if self.cut { " (the most a recording holds)" } else { "" };
        let rt = self.rt_pool.as_ref().map(|f| format!(", the rt-pool's in {}", f.display())).unwrap_or_default();
        format!("{}: {} operations in {:.1} s{why}{rt}", file.display(), self.operations, self.seconds)
    }
}
