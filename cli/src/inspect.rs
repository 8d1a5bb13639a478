// SPDX-License-Identifier: GPL-2.0-only
//! `takt inspect`: what the monitor sees in a capture.

use crate::{args, output, table};
use anyhow::Result;
use takt_monitor::{Report, Sender};

/// Runs the command.
///
/// # Errors
/// The file is no whole capture, or stdout cannot be written.
pub fn run(args: &args::Inspect) -> Result<bool> {
    let report = takt_monitor::inspect(&args.file)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(true)
}

fn text(report: &Report) -> String {
    let row = |s: &Sender| {
        let or_dash = |v: Option<String>| v.unwrap_or_else(|| "-".into());
        vec![
            s.sender.clone(),
            if s.rt { "yes" } else { "no" }.into(),
            s.rule.unwrap_or("-").into(),
            or_dash(s.period_us.map(|p| format!("{:.3}", p / 1e3))),
            s.packets.to_string(),
            or_dash(s.verdict_after.map(|n| n.to_string())),
            s.streams.to_string(),
        ]
    };
    let head = ["sender", "real-time", "rule", "period ms", "packets", "verdict after", "streams"];
    let rows: Vec<_> = report.senders.iter().map(row).collect();
    let tail = format!("{} packets, {} without a sender\n", report.packets, report.unattributed);
    table::render("", &head, &rows, 3) + &tail
}
