// SPDX-License-Identifier: GPL-2.0-only
//! An experiment as text.

use super::check::{Kind, Verdict, Violation};
use super::data::Experiment;
use super::{Moved, Outcome};
use crate::row::Row;
use crate::stat::{Stat, distinct};
use crate::table;

/// `takt experiment list`.
pub fn list(all: &[Experiment]) -> String {
    let rows: Vec<_> = all.iter().map(|e| vec![e.id.clone(), e.source.clone(), e.title.clone()]).collect();
    table::render("", &["experiment", "source", "what"], &rows, 9..)
}

/// Means over seeds, the checks, and the published values beside ours.
pub fn text(e: &Experiment, o: &Outcome) -> String {
    let mut out = format!("{}  {} ({})\n\n", e.id, e.title, e.source);
    let (head, rows) = means(e, &o.rows);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    out += &(table::render("", &head, &rows, 1..) + "\n");
    if rows.iter().any(|r| r[0].ends_with(" *")) {
        out += "* for comparison only\n\n";
    }
    out += &checks(&o.checks);
    let paper: Vec<_> = o.paper.iter().map(|p| vec![p.what.clone(), plain(&p.paper), number(p.ours)]).collect();
    out += &(table::render("", &["published", "paper", "ours"], &paper, 1..) + "\n");
    for note in &o.notes {
        out += &table::wrapped(&format!("Note: {note}"));
    }
    if let Some(moved) = &o.sensitivity {
        out += &sensitivity(moved);
    }
    out
}

/// Columns of a table of runs: metric, head, what to divide by, decimals.
const COLUMNS: [(&str, &str, f64, usize); 11] = [
    ("pesq_mean", "PESQ", 1.0, 2),
    ("pesq_p25", "p25", 1.0, 2),
    ("late_lost_pct", "late+lost%", 1.0, 2),
    ("rt_wait_p50_ns", "RT wait p50 us", 1e3, 1),
    ("rt_wait_p99_ns", "p99 us", 1e3, 0),
    ("rt_wait_max_ns", "max us", 1e3, 0),
    ("dom0_wait_p50_ns", "Dom0 p50 us", 1e3, 1),
    ("dom0_wait_p99_ns", "p99 us", 1e3, 0),
    ("dom0_wait_max_ns", "max us", 1e3, 0),
    ("work", "batch CPU-s", 1.0, 1),
    ("jain", "Jain", 1.0, 3),
];

const TASKS: [(&str, &str, f64, usize); 12] = [
    ("missed_pct", "missed %", 1.0, 2),
    ("missed_pct_d1", "d1", 1.0, 2),
    ("missed_pct_d2", "d2", 1.0, 2),
    ("missed_pct_d3", "d3", 1.0, 2),
    ("missed_pct_d4", "d4", 1.0, 2),
    ("missed_pct_d5", "d5", 1.0, 2),
    ("pcpu1_decisions", "decisions", 1.0, 0),
    ("pcpu1_decision_total_us", "decisions us", 1.0, 0),
    ("pcpu1_switches", "switches", 1.0, 0),
    ("pcpu1_switch_total_us", "switches us", 1.0, 0),
    ("pcpu1_loss_pct", "loss %", 1.0, 2),
    ("accepted", "accepted", 1.0, 2),
];

const LATENCY: [(&str, &str, f64, usize); 7] = [
    ("latency_samples", "samples", 1.0, 0),
    ("latency_min_ns", "min us", 1e3, 1),
    ("latency_mean_ns", "mean us", 1e3, 1),
    ("latency_p50_ns", "p50 us", 1e3, 1),
    ("latency_p99_ns", "p99 us", 1e3, 0),
    ("latency_p999_ns", "p99.9 us", 1e3, 0),
    ("latency_max_ns", "max us", 1e3, 0),
];

/// Of a media server and its run queues: UC is entries as UNDER, UT the run time after an entry
/// (rule L38).
const QUEUES: [(&str, &str, f64, usize); 14] = [
    ("pesq_mean", "PESQ", 1.0, 2),
    ("pesq_p25", "p25", 1.0, 2),
    ("pesq_p50", "p50", 1.0, 2),
    ("below4_pct", "below 4 %", 1.0, 1),
    ("late_lost_pct", "late+lost%", 1.0, 2),
    ("media-s_under_entries", "UC", 1.0, 0),
    ("media-s_under_run_ns", "UT us", 1e3, 0),
    ("media-s_under_mean_ns", "wait us", 1e3, 0),
    ("media-s_under_max_ns", "max us", 1e3, 0),
    ("media-s_under_run_pct", "in UNDER %", 1.0, 0),
    ("media-s_over_run_pct", "OVER %", 1.0, 0),
    ("dom0_boost_run_pct", "Dom0 BOOST %", 1.0, 0),
    ("migrations", "migrations", 1.0, 0),
    ("work", "batch CPU-s", 1.0, 1),
];

/// Of a script with three steps.
const POOLS: [(&str, &str, f64, usize); 10] = [
    ("rest_pct_0_end", "others %, first", 1.0, 0),
    ("rest_pct_1_begin", "created", 1.0, 0),
    ("rest_pct_1_end", "later", 1.0, 0),
    ("rest_pct_2_begin", "changed", 1.0, 0),
    ("rest_pct_2_end", "later", 1.0, 0),
    ("rest_pct_3_begin", "destroyed", 1.0, 0),
    ("rest_pct_3_end", "later", 1.0, 0),
    ("pool_moves", "moves", 1.0, 0),
    ("pool_commands", "commands", 1.0, 0),
    ("work", "batch CPU-s", 1.0, 1),
];

/// Of streams.
const STREAMS: [(&str, &str, f64, usize); 10] = [
    ("rate_mbit", "Mbit/s", 1.0, 3),
    ("rate_min_mbit", "least", 1.0, 3),
    ("lag_p50_ms", "lag p50 ms", 1.0, 1),
    ("lag_p99_ms", "p99 ms", 1.0, 1),
    ("vod_wait_p99_ns", "wait p99 us", 1e3, 0),
    ("vod_wait_max_ns", "max us", 1e3, 0),
    ("dom0_wait_p99_ns", "Dom0 p99 us", 1e3, 0),
    ("dom0_wait_max_ns", "max us", 1e3, 0),
    ("work", "batch CPU-s", 1.0, 1),
    ("jain", "Jain", 1.0, 3),
];

/// Of parallel programs.
const PARALLEL: [(&str, &str, f64, usize); 7] = [
    ("iteration_us", "iteration ms", 1e3, 3),
    ("iterations", "iterations", 1.0, 0),
    ("spun_pct", "spun %", 1.0, 1),
    ("sleeps", "sleeps", 1.0, 0),
    ("program_cpu_s", "CPU-s", 1.0, 1),
    ("work", "batch CPU-s", 1.0, 1),
    ("jain", "Jain", 1.0, 3),
];

/// Of applications of several VMs.
const RESPONSE: [(&str, &str, f64, usize); 7] = [
    ("answered", "answers", 1.0, 0),
    ("response_mean_ms", "mean ms", 1.0, 2),
    ("response_p50_ms", "p50 ms", 1.0, 2),
    ("response_p99_ms", "p99 ms", 1.0, 1),
    ("response_max_ms", "max ms", 1.0, 1),
    ("response_missed_pct", "late %", 1.0, 1),
    ("work", "batch CPU-s", 1.0, 1),
];

const TRAFFIC: [(&str, &str, f64, usize); 7] = [
    ("packets", "packets", 1.0, 0),
    ("gap_p50_ms", "median gap ms", 1.0, 3),
    ("period_ms", "EWMA ms", 1.0, 3),
    ("period_peak_ms", "after a pause ms", 1.0, 3),
    ("verdict_after", "packets to verdict", 1.0, 0),
    ("verdict_frames", "frames to verdict", 1.0, 0),
    ("rt", "real-time", 1.0, 0),
];

/// Head and rows of the table of means over seeds; rows that decide nothing end their name with a star.
pub fn means(e: &Experiment, rows: &[Row]) -> (Vec<String>, Vec<Vec<String>>) {
    let has = |metric: &str| rows.iter().any(|r| r.metrics.contains_key(metric));
    let own: Vec<_> = e.columns.iter().map(|c| (c.as_str(), c.as_str(), 1.0, 2)).collect();
    let columns = match () {
        () if !own.is_empty() => &own[..],
        () if !e.traffic.is_empty() => &TRAFFIC[..],
        () if has("telephony_cores") => &QUEUES,
        () if has("missed_pct") => &TASKS,
        () if has("latency_samples") => &LATENCY,
        () if has("rest_pct_1_end") => &POOLS,
        () if has("rate_mbit") => &STREAMS,
        () if has("iteration_us") => &PARALLEL,
        () if has("response_mean_ms") => &RESPONSE,
        () => &COLUMNS,
    };
    let groups = distinct(rows.iter().map(|r| (r.variant.as_str(), r.policy.as_str(), &r.x)));
    let cells = groups
        .iter()
        .map(|(variant, policy, x)| {
            let mark = if e.literal.iter().chain(&e.reference).any(|p| p == policy) { " *" } else { "" };
            let variant_of = if variant.is_empty() { String::new() } else { format!("{variant}: ") };
            let mut cells = vec![format!("{variant_of}{policy}{mark}"), x.to_string()];
            for (metric, _, unit, decimals) in columns {
                let here = rows.iter().filter(|r| r.variant == *variant && r.policy == *policy && r.x == **x);
                let value = Stat::Mean.of(&here.flat_map(|r| r.get(metric)).collect::<Vec<_>>());
                cells.push(value.map_or("-".into(), |v| format!("{:.*}", decimals, v / unit)));
            }
            cells
        })
        .collect();
    let x = e.sweep.as_ref().map_or("server", |s| &s.name);
    (["policy", x].into_iter().chain(columns.iter().map(|c| c.1)).map(str::to_owned).collect(), cells)
}

fn checks(all: &[Verdict]) -> String {
    let rows: Vec<_> = all
        .iter()
        .map(|c| {
            let outcome = match (c.ok, c.kind) {
                (true, _) => "ok",
                (false, Kind::Gate) if c.missed.is_some() => "MISSED",
                (false, Kind::Gate) => "FAILS",
                (false, _) => "not reached",
            };
            vec![outcome.into(), kind(c.kind).into(), c.name.clone(), c.want.clone(), number(c.got)]
        })
        .collect();
    let known = |c: &Verdict| {
        let why = c.missed.as_ref().filter(|_| !c.ok)?;
        Some(table::wrapped(&format!("Missed: {}: {why}", c.name)))
    };
    let known: String = all.iter().filter_map(known).collect();
    let condition = |c: &Verdict| Some(table::wrapped(&format!("Condition: {}: {}", c.name, c.at.as_ref()?)));
    let conditions: String = all.iter().filter_map(condition).collect();
    table::render("", &["", "kind", "check", "want", "got"], &rows, 3..) + &known + &conditions + "\n"
}

fn sensitivity(moved: &Moved) -> String {
    let head = format!("Sensitivity: {}\n", moved.run);
    if moved.violations.is_empty() {
        return head + "Every gate holds with every constant moved.\n";
    }
    let rows: Vec<_> = moved.violations.iter().map(violation).collect();
    head + &table::render("Gates that do not hold:", &["constant", "at", "gate", "want", "got"], &rows, 3..)
}

pub fn violation(v: &Violation) -> Vec<String> {
    let constant = if v.constant.is_empty() { "(none moved)" } else { &v.constant };
    vec![constant.to_owned(), v.value.clone(), v.verdict.name.clone(), v.verdict.want.clone(), number(v.verdict.got)]
}

pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gate => "gate",
        Kind::Stretch => "stretch",
        Kind::Modelled => "modelled",
        Kind::Condition => "condition",
    }
}

pub fn number(v: Option<f64>) -> String {
    v.map_or("-".into(), |v| format!("{v:.3}").trim_end_matches('0').trim_end_matches('.').to_owned())
}

pub fn plain(v: &toml::Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}
