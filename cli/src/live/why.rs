// SPDX-License-Identifier: GPL-2.0-only
//! `takt why`: how long a VM waited for a PCPU, and for what.

use super::done::within;
use crate::{args, output, table};
use anyhow::Result;
use takt_control::socket::{Client, Request};
use takt_control::{document, duration};
use takt_linux::keeper::{LongWait, Share, Why};

/// How far one may look back, ns.
const SINCE: std::ops::RangeInclusive<u64> = 60_000_000_000..=takt_linux::keeper::DAY;
/// Part of all long waits below which a cause has no row of its own.
const LEAST: f64 = 0.01;
/// Causes of a wait that a line has room for.
const SHOWN: usize = 2;

/// Runs `takt why`.
///
/// # Errors
/// No Takt runs, it keeps nothing, or knows no such VM.
pub fn why(args: &args::Why) -> Result<bool> {
    let since_ms = within("--since", &args.since, &SINCE)?;
    let request = Request::Why { vm: args.vm.clone(), since_ms };
    let why: Why = document::read(Client::connect(&args.socket.socket)?.ask(&request)?)?;
    if args.json {
        output::print_json(&why)?;
    } else {
        output::print(&text(&why))?;
    }
    Ok(true)
}

fn us(us: f64) -> String {
    duration::human(us * 1e3)
}

fn span(seconds: f64) -> String {
    duration::human((seconds * 1e9).round())
}

fn count(n: u64, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

fn text(why: &Why) -> String {
    let mut parts = vec![head(why), table::wrapped(&why.verdict)];
    if !why.causes.is_empty() {
        let row = |what: String, time: f64| vec![what, us(time)];
        let least = why.causes.iter().map(|s| s.us).sum::<f64>() * LEAST;
        let (main, small): (Vec<&Share>, Vec<&Share>) = why.causes.iter().partition(|s| s.us >= least);
        let mut rows: Vec<_> = main.iter().map(|s| row(s.what.to_string(), s.us)).collect();
        if !small.is_empty() {
            rows.push(row(format!("{} others", small.len()), small.iter().map(|s| s.us).sum()));
        }
        parts.push(table::render("", &["the longest waits were for", "together"], &rows, 1..));
    }
    if !why.longest.is_empty() {
        let rows: Vec<_> = why.longest.iter().map(wait).collect();
        parts.push(table::render("", &["until", "wait", "PCPU", "class", "for"], &rows, 1..3));
    }
    if !why.incidents.is_empty() {
        let rows = why.incidents.iter().map(|i| vec![i.at.clone(), us(i.us), i.file.display().to_string()]);
        parts.push(table::render(
            "",
            &["saved", "wait", "recording, for takt replay"],
            &rows.collect::<Vec<_>>(),
            1..2,
        ));
    }
    let kept = span(why.operations_s.floor());
    parts.push(format!("operations of the last {kept} are kept, {:.1} MiB\n", why.operations_bytes as f64 / 1048576.0));
    parts.join("\n")
}

fn head(why: &Why) -> String {
    let real_time = match (why.real_time, &why.rule) {
        (None, _) => "has ended".to_owned(),
        (Some(true), Some(rule)) => format!("real-time ({rule})"),
        (Some(true), None) => "real-time".to_owned(),
        (Some(false), _) => "not real-time".to_owned(),
    };
    let period = why.period_us.map_or_else(String::new, |p| format!(", period {}", us(p)));
    let blind = why.blind.as_ref().map_or_else(String::new, |b| format!("its packets are not seen: {b}\n"));
    let demoted = match why.demoted {
        0 => String::new(),
        n => format!("; stopped being real-time {}", count(n, "time", "times")),
    };
    let known = match why.known_s < why.since_s {
        true => format!("the last {} are known", span(why.known_s.floor())),
        false => format!("the last {}, by whole minutes", span(why.since_s)),
    };
    let gaps = match why.gaps {
        0 => String::new(),
        n => format!("operations were lost {n} times: what happened then is not known\n"),
    };
    format!(
        "{}: {real_time}{period}; {known}\n{blind}{gaps}ran {}, waited {} in {} waits: p50 {}, p99 {}, longest {}; {} as long as {}; \
         {}{demoted}\n",
        output::shown(&why.vm),
        span(why.ran_s),
        span(why.waited_s),
        why.waits,
        us(why.p50_us),
        us(why.p99_us),
        us(why.longest_us),
        why.late,
        if why.period_us.is_some() { "its period" } else { "5ms" },
        count(why.promotions_refused, "promotion refused", "promotions refused"),
    )
}

fn wait(w: &LongWait) -> Vec<String> {
    let cause = |s: &Share| format!("{} {}", s.what, us(s.us));
    let mut causes: Vec<_> = w.causes.iter().take(SHOWN).map(cause).collect();
    if w.promotions_refused > 0 {
        causes.push("promotion refused".into());
    }
    let who = if w.io_thread { format!("{} (I/O thread)", w.class) } else { w.class.clone() };
    vec![w.at.clone(), us(w.us), w.pcpu.to_string(), who, causes.join(", ")]
}
