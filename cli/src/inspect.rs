// SPDX-License-Identifier: GPL-2.0-only
//! `takt inspect`: what the monitor sees in captures.

use crate::output::complain;
use crate::report::chart::{Axis, Chart, Line, Lines, Scale};
use crate::report::{Block, Page, Section, Table};
use crate::{args, output, table};
use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::Serialize;
use takt_control::Document;
use takt_monitor::{Inspector, Named, Options, Report, Sender, Timeline};

/// Senders that a report's chart shows: those with most real-time packets.
const DRAWN: usize = 6;

/// What `takt inspect --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Inspected<'a> {
    #[serde(flatten)]
    report: &'a Report,
}

impl Document for Inspected<'_> {
    const NAME: &'static str = "inspect";
    const VERSION: u32 = 1;
}

/// Runs the command.
///
/// # Errors
/// A file is no capture, an output cannot be written; with `--strict`, a capture is not whole.
pub fn run(args: &args::Inspect) -> Result<bool> {
    let vms = args.vms.iter().map(|text| vm(text).with_context(|| format!("--vm {text}"))).collect::<Result<_>>()?;
    let mut inspector = Inspector::new(Options { ports: args.ports.clone(), vms, ..Options::default() })?;
    let [html] = output::open([args.html.as_ref()], &args.files)?;
    ensure!(args.files.iter().filter(|f| f.as_os_str() == "-").count() < 2, "-: standard input can be read only once");
    args.files.iter().try_for_each(|file| inspector.read(file))?;
    let report = inspector.finish();
    if args.json {
        output::print_json(&Inspected { report: &report })?;
    } else {
        output::print(&text(&report))?;
    }
    if let Some(html) = html {
        html.write(page(&report, args).html()?.as_bytes())?;
    }
    report.warnings.iter().for_each(|line| complain(line));
    if args.strict && !report.warnings.is_empty() {
        bail!("--strict: parts of the input could not be read");
    }
    Ok(true)
}

/// ADDRESS=NAME
fn vm(text: &str) -> Result<(Named, String)> {
    let (address, name) =
        text.split_once('=').filter(|(_, name)| !name.is_empty()).context("must be MAC=NAME or IP=NAME")?;
    let mac = || {
        let bytes: Vec<u8> = address.split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect::<Option<_>>()?;
        bytes.try_into().ok().map(Named::Mac)
    };
    let named = address.parse().map(Named::Ip).ok().or_else(mac);
    Ok((
        named.with_context(|| {
            format!("{address:?} is neither an IP address nor a MAC address such as 02:00:00:00:00:01")
        })?,
        name.to_owned(),
    ))
}

fn or_dash(v: Option<String>) -> String {
    v.unwrap_or_else(|| "-".into())
}

fn number(v: Option<f64>, digits: usize) -> String {
    or_dash(v.map(|v| format!("{v:.digits$}")))
}

const HEAD: [&str; 13] = [
    "sender",
    "real-time",
    "rule",
    "period ms",
    "packets",
    "verdict after",
    "streams",
    "per s",
    "gap ms p50",
    "p99",
    "frame ms",
    "jitter ms",
    "loss %",
];
/// Columns from here on are numbers.
const NUMBERS: usize = 3;

fn row(s: &Sender) -> Vec<String> {
    vec![
        s.sender.clone(),
        if s.rt { "yes" } else { "no" }.into(),
        s.rule.unwrap_or("-").into(),
        number(s.period_us.map(|p| p / 1e3), 3),
        s.packets.to_string(),
        or_dash(s.verdict_after.map(|n| n.to_string())),
        s.streams.to_string(),
        number(s.rate_pps, 1),
        number(s.gap_p50_ms, 3),
        number(s.gap_p99_ms, 3),
        number(s.frame_ms, 3),
        number(s.jitter_ms, 3),
        number(s.loss_pct, 2),
    ]
}

fn tail(report: &Report) -> String {
    let others = match report.others.senders {
        0 => String::new(),
        n => format!(", {} from {n} other senders", report.others.packets),
    };
    format!("{} packets, {} without a sender{others}\n", report.packets, report.unattributed)
}

fn text(report: &Report) -> String {
    let rows: Vec<_> = report.senders.iter().map(row).collect();
    table::render("", &HEAD, &rows, NUMBERS..) + &tail(report)
}

/// The report as a page: the table, and when the real-time senders sent.
fn page(report: &Report, args: &args::Inspect) -> Page {
    let names: Vec<_> = args.files.iter().map(|f| f.display().to_string()).collect();
    let rt = report.senders.iter().filter(|s| s.rt).count();
    let mut blocks = vec![Block::Table(Table {
        title: "Senders".into(),
        caption: "A frame is all packets with one RTP timestamp. Gaps are between all real-time packets of a sender, frame times within one stream. \
                  Jitter is the difference between successive frame times, smoothed as in RFC 3550."
            .into(),
        head: HEAD.map(Into::into).into(),
        rows: report.senders.iter().map(row).collect(),
        numbers: NUMBERS..usize::MAX,
        folded: false,
    })];
    let mut drawn: Vec<_> = report.senders.iter().filter_map(|s| Some((s, s.timeline.as_ref()?))).collect();
    drawn.sort_by_key(|(s, _)| std::cmp::Reverse(s.rt_packets));
    drawn.truncate(DRAWN);
    if let Some(chart) = timeline(&drawn) {
        blocks.push(Block::Chart(Section {
            title: "Real-time packets over time".into(),
            caption: format!(
                "Packets per second that the monitor classified as real-time, for at most {DRAWN} senders."
            ),
            chart,
        }));
    }
    Page {
        title: "What the monitor sees".into(),
        lead: vec![format!("{} senders, {rt} of them real-time. {}", report.senders.len(), tail(report).trim())],
        facts: vec![("captures".into(), names.join(", "))],
        blocks,
        ..Page::default()
    }
}

fn timeline(senders: &[(&Sender, &Timeline)]) -> Option<Chart> {
    let begin = senders.iter().map(|(_, t)| t.begin_ns).min()?;
    let points = |t: &Timeline| -> Vec<[f64; 4]> {
        let column = t.column_ns as f64 / 1e9;
        let at = |n: usize| (t.begin_ns - begin) as f64 / 1e9 + n as f64 * column;
        let rates = t.packets.iter().map(|p| f64::from(*p) / column);
        rates.enumerate().map(|(n, rate)| [at(n), rate, rate, rate]).collect()
    };
    let lines: Vec<_> = senders
        .iter()
        .enumerate()
        .map(|(n, (s, t))| Line { label: s.sender.clone(), style: n, faint: true, points: points(t) })
        .collect();
    let most = |n: usize| lines.iter().flat_map(|l| &l.points).map(|p| p[n]).fold(1.0, f64::max);
    let axis = |title: &str, to| Axis { title: title.into(), from: 0.0, to, scale: Scale::Linear };
    let x = axis("s since the first real-time packet", most(0));
    let y = axis("packets per s", most(1));
    Some(Chart::Lines(Lines { x, y, lines }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vms_are_named_by_one_of_their_addresses() {
        assert_eq!(vm("10.0.0.1=web").unwrap(), (Named::Ip("10.0.0.1".parse().unwrap()), "web".into()));
        assert_eq!(vm("fd00::1=a=b").unwrap(), (Named::Ip("fd00::1".parse().unwrap()), "a=b".into()));
        assert_eq!(vm("02:00:00:00:0a:fF=x").unwrap(), (Named::Mac([2, 0, 0, 0, 10, 255]), "x".into()));
        for wrong in ["", "10.0.0.1", "10.0.0.1=", "=x", "02:00:00:00:0a=x", "02:00:00:00:0a:100=x", "10.0.0=x"] {
            assert!(vm(wrong).is_err(), "{wrong}");
        }
    }
}
