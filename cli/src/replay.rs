// SPDX-License-Identifier: GPL-2.0-only
//! `takt replay`: whether a recorded host kept the state table, and whether the native core decides the same.

mod page;
mod report;
mod slices;

use crate::{args, output, table, watch};
use anyhow::Result;
use report::Count;
pub use report::Report;
use std::collections::BTreeMap;
use takt_conformance::{Checker, Limits, LogFile, operation_name, read_log};
use takt_control::duration;
use takt_policy::OpCode;

/// A thread that waits longer is taken for lost: the kernel itself ends a scheduler after this time, ns.
const LOST: u64 = 30_000_000_000;

/// Runs the command; false if the recording breaks the table or differs.
///
/// # Errors
/// The file is no whole log, or stdout cannot be written.
pub fn run(args: &args::Replay) -> Result<bool> {
    let outputs = [args.trace.as_ref(), args.html.as_ref()];
    let [trace, html] = output::open(outputs, std::slice::from_ref(&args.file))?;
    let log = read_log(&args.file)?;
    let difference = match takt_conformance::replay(&log) {
        Ok(_) => None,
        Err(e) if is_foreign(&log) => return Err(e.context(args.file.display().to_string())),
        Err(e) => Some(format!("{e:#}")),
    };
    let report = Report {
        file: args.file.display().to_string(),
        policy: log.policy.clone(),
        records: log.records.len(),
        span_us: span(&log) as f64 / 1e3,
        operations: count(&log),
        violation: judge(&log),
        difference,
        pool_recorded: log.pool_hash != 0,
    };
    if let Some(trace) = trace {
        trace.write(&perfetto(&log, &report.file)?)?;
    }
    if let Some(html) = html {
        html.write(page::page(&log, &report)?.html()?.as_bytes())?;
    }
    if args.json {
        output::print_json(&report)?
    } else {
        output::print(&text(&report))?
    }
    Ok(report.violation.is_none() && report.difference.is_none())
}

/// A recording as a Perfetto trace; `host` is where it was made.
///
/// # Errors
/// As of [`LogFile::pool`].
pub fn perfetto(log: &LogFile, host: &str) -> Result<Vec<u8>> {
    Ok(watch::encode(&slices::trace(log)?, &format!("{host} under {}", log.policy)))
}

/// A log that no build of this core has made cannot be judged by it.
fn is_foreign(log: &LogFile) -> bool {
    log.pool_size != takt_policy::pool_size() as u64 || !takt_policy::policies().iter().any(|p| p.name == log.policy)
}

fn judge(log: &LogFile) -> Option<String> {
    let limits = Limits { wait: Some(LOST), max_pending: Some(LOST), ..Limits::of(&log.policy) };
    let mut checker = match Checker::of_log(log, limits) {
        Ok(checker) => checker,
        Err(e) => return Some(format!("{e:#}")),
    };
    let steps = log.records.iter().try_for_each(|r| checker.step(r));
    steps.and_then(|()| checker.finish().map(drop)).err().map(|v| v.to_string())
}

fn count(log: &LogFile) -> BTreeMap<&'static str, Count> {
    let mut all: BTreeMap<_, Count> = BTreeMap::new();
    for r in &log.records {
        let n = all.entry(OpCode::from_u16(r.op.op).map_or("unknown", operation_name)).or_default();
        if r.res.ret == 0 { n.accepted += 1 } else { n.refused += 1 }
    }
    all
}

/// ns from the first to the last record.
fn span(log: &LogFile) -> u64 {
    match (log.records.first(), log.records.last()) {
        (Some(a), Some(b)) => b.op.now.saturating_sub(a.op.now),
        _ => 0,
    }
}

fn text(report: &Report) -> String {
    let row = |(name, n): (&&str, &Count)| vec![(*name).to_owned(), n.accepted.to_string(), n.refused.to_string()];
    let rows: Vec<_> = report.operations.iter().map(row).collect();
    let verdict = |bad: &Option<String>, good: &str| bad.clone().unwrap_or_else(|| good.to_owned());
    let same = if report.pool_recorded {
        "every decision and the final pool are identical"
    } else {
        "every decision is identical (the final pool was not recorded)"
    };
    format!(
        "{}: policy {}, {} operations in {}\n{}state table: {}\nnative replay: {}\n",
        report.file,
        report.policy,
        report.records,
        duration::human(report.span_us * 1e3),
        table::render("", &["operation", "accepted", "refused"], &rows, 1..),
        verdict(&report.violation, "kept"),
        verdict(&report.difference, same),
    )
}
