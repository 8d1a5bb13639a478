// SPDX-License-Identifier: GPL-2.0-only
//! The verdict of `takt replay` as a document.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use takt_control::Document;

/// What `takt replay --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    pub file: String,
    pub policy: String,
    /// Operations in the file.
    pub records: usize,
    /// From the first to the last record.
    pub span_us: f64,
    /// By the name of the operation.
    pub operations: BTreeMap<&'static str, Count>,
    /// The first violation of the state table; null if there is none.
    pub violation: Option<String>,
    /// The first difference from the native core; null if there is none.
    pub difference: Option<String>,
    /// The final pool's bytes were recorded, and compared if the decisions are identical.
    pub pool_recorded: bool,
}

#[derive(Default, Serialize, JsonSchema)]
pub struct Count {
    pub accepted: u64,
    pub refused: u64,
}

impl Document for Report {
    const NAME: &'static str = "replay";
    const VERSION: u32 = 1;
}
