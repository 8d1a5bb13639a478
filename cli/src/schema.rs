// SPDX-License-Identifier: GPL-2.0-only
//! `takt schema`: what the JSON is like that Takt prints and reads (docs/json.md).

use crate::{args, output, table};
use anyhow::{Context, Result};
use takt_control::near;

macro_rules! schemas {
    ($($name:literal: $what:literal,)*) => {
        /// Name of each document, what it is, and its schema.
        pub const SCHEMAS: &[(&str, &str, &str)] =
            &[$(($name, $what, include_str!(concat!("../../docs/schema/", $name, ".json"))),)*];
    };
}

schemas! {
    "analyze": "takt analyze --json",
    "answer": "an answer of the control socket",
    "bench-host": "takt bench-host --json, and its report",
    "compare": "takt lab compare --json",
    "doctor": "takt doctor --json",
    "experiment": "takt experiment ID --json; a list of them for `all`",
    "experiment-list": "takt experiment list --json: a list of them",
    "guest-status": "what takt run in Dom0 reports to takt status",
    "inspect": "takt inspect --json",
    "lab": "takt lab linux --json, takt lab xen --json",
    "overhead": "takt overhead --json",
    "policies": "takt policies --json",
    "record": "takt record --json",
    "replay": "takt replay --json",
    "request": "a request to the control socket",
    "run": "takt run --json: one per line",
    "scenarios": "takt scenarios --json",
    "set-linux": "takt set --json, on Linux",
    "set-xen": "takt set --json, in Xen's Dom0",
    "sim": "takt sim --json",
    "status-linux": "takt status --json, on Linux",
    "status-xen": "takt status --json, in Xen's Dom0",
    "why": "takt why --json",
}

/// Names that scripts may still use, and the document that each means.
pub const OLD_NAMES: &[(&str, &str)] = &[("told", "guest-status")];

/// Runs the command.
///
/// # Errors
/// There is no such document, or stdout cannot be written.
pub fn run(args: &args::Schema) -> Result<bool> {
    let Some(name) = &args.name else {
        let rows: Vec<_> = SCHEMAS.iter().map(|(name, what, _)| vec![(*name).into(), (*what).into()]).collect();
        output::print(&table::render("", &["document", "description"], &rows, 9..))?;
        return Ok(true);
    };
    let current = OLD_NAMES.iter().find(|(old, _)| old == name).map_or(name.as_str(), |(_, current)| *current);
    let found = SCHEMAS.iter().find(|(other, ..)| *other == current);
    let known = || near::known_are(name, SCHEMAS.iter().map(|(name, ..)| *name));
    let (.., schema) = found.with_context(|| format!("no document `{name}`{}", known()))?;
    output::print(schema)?;
    Ok(true)
}
