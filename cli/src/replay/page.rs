// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a page: what ran where, and what waited longest.

use super::report::{Count, Report};
use super::slices;
use crate::report::timeline::{Lane, Timeline, Vcpu};
use crate::report::{Block, Page, Table};
use crate::watch;
use anyhow::Result;
use std::collections::BTreeMap;
use takt_conformance::LogFile;
use takt_control::duration;
use takt_policy::Class;
use takt_sim::{Slice, Trace};

/// Most stays on PCPUs of a page; each takes some 25 bytes of it.
const MOST: usize = 20_000;
/// Of these, those that end before the wait that the page is about.
const BEFORE: usize = MOST / 2;
/// VCPUs with a row for their waits, and waits in the table.
const WATCHED: usize = 4;
const TOLD: usize = 10;

/// The page of a recording that has been replayed.
///
/// # Errors
/// As of [`LogFile::pool`].
pub fn page(log: &LogFile, report: &Report) -> Result<Page> {
    let (trace, real_time) = slices::typed_trace(log)?;
    let theirs = |s: &&Slice| real_time.is_empty() || real_time.contains(&trace.vcpus[s.vcpu as usize].vm);
    let mut longest: Vec<&Slice> = trace.slices.iter().filter(|s| s.wait > 0).filter(theirs).collect();
    longest.sort_by_key(|s| std::cmp::Reverse(s.wait));
    let (shown, from, to) = part(&trace, longest.first().copied());
    longest.retain(|s| s.from >= from && s.from < to);

    let span = duration::human(report.span_us * 1e3);
    let verdict =
        |bad: &Option<String>, good: &str| bad.as_ref().map_or_else(|| format!("✓ {good}"), |b| format!("✗ {b}"));
    let judged = [
        ("the state table", verdict(&report.violation, "kept")),
        ("the same decisions when it is replayed", verdict(&report.difference, "each of them")),
    ];
    let rows = judged.map(|(what, said)| vec![what.to_owned(), said]).to_vec();
    let count = |(name, n): (&&str, &Count)| vec![(*name).to_owned(), n.accepted.to_string(), n.refused.to_string()];
    let time = |ns: u64| duration::human(ns as f64);
    let mut caption = if trace.slices.len() <= MOST {
        format!("All {} of the recording.", time(trace.to - trace.from))
    } else {
        let (length, begin) = (time(to - from), time(from.saturating_sub(trace.from)));
        format!("{length} of {span}, from {begin} on: as much of the recording as fits, with the longest wait.")
    };
    if report.difference.is_some() {
        caption += &format!(" It ends where the native core decides otherwise; the recording has {span}.");
    }
    let lane = Lane {
        policy: log.policy.clone(),
        seed: None,
        pcpus: trace.pcpus,
        vcpus: trace.vcpus.iter().map(|v| Vcpu { name: v.name.clone(), vm: v.vm as usize }).collect(),
        watch: watched(&longest),
        runs: shown.iter().map(watch::run).collect(),
    };
    let vms = trace.vms.iter().zip(0..).map(|(name, vm)| (name.clone(), real_time.contains(&vm))).collect();
    let waits = longest.iter().take(TOLD).map(|s| wait(&trace, s, from)).collect();
    let table = |title: &str, caption: &str, head: &[&str], rows| Table {
        title: title.into(),
        caption: caption.into(),
        head: head.iter().map(|&h| h.to_owned()).collect(),
        rows,
        numbers: 0..0,
        folded: false,
    };
    Ok(Page {
        title: report.file.clone(),
        lead: vec![format!("What a host did within {span}, as takt recorded it.")],
        facts: vec![
            ("policy".into(), log.policy.clone()),
            ("PCPUs".into(), trace.pcpus.to_string()),
            ("operations".into(), report.records.to_string()),
        ],
        headline: longest
            .first()
            .map(|s| (duration::human(s.wait as f64), longest_of(&trace, s)))
            .into_iter()
            .collect(),
        blocks: vec![
            Block::Timeline(Timeline { caption, left_out: None, from, to, vms, lanes: vec![lane] }),
            Block::Table(Table {
                numbers: 1..3,
                ..table(
                    "Longest waits",
                    "Of real-time VMs, if there were any. Times are those of the picture.",
                    &["VCPU", "wait", "until", "PCPU", "class", "what ran there meanwhile"],
                    waits,
                )
            }),
            Block::Table(table(
                "Verdict",
                "Whether the recording is what Takt's own rules allow.",
                &["rule", "kept"],
                rows,
            )),
            Block::Table(Table {
                numbers: 1..3,
                folded: true,
                ..table(
                    "Operations",
                    "What the host told the scheduler and asked of it.",
                    &["operation", "accepted", "refused"],
                    report.operations.iter().map(count).collect(),
                )
            }),
        ],
    })
}

/// The slices that a page shows, and from when to when, ns: all, or as many as fit, around this one.
fn part(trace: &Trace, longest: Option<&Slice>) -> (Vec<Slice>, u64, u64) {
    let all = &trace.slices;
    if all.len() <= MOST {
        return (all.clone(), trace.from, trace.to);
    }
    // They are in the order in which they end. What ends before a wait ends may have kept it from running.
    let middle = longest.map_or(0, |l| all.partition_point(|s| s.to < l.from));
    let first = middle.saturating_sub(BEFORE).min(all.len() - MOST);
    let mut shown = all[first..first + MOST].to_vec();
    let to = shown[MOST - 1].to.max(longest.map_or(0, |l| l.from + 1));
    // What waited may run for longer than all others that fit.
    let own = longest.filter(|l| !shown.contains(l)).map(|l| Slice { to: l.to.min(to), ..*l });
    shown.extend(own);
    // Before the first one ended, others are missing; of the wait, all is shown.
    let from = longest.map_or(u64::MAX, |l| l.from.saturating_sub(l.wait)).min(shown[0].to).max(trace.from);
    (shown, from, to)
}

/// VCPUs with the longest waits, each once.
fn watched(longest: &[&Slice]) -> Vec<u32> {
    let mut some = Vec::new();
    for s in longest {
        if some.len() < WATCHED && !some.contains(&s.vcpu) {
            some.push(s.vcpu);
        }
    }
    some
}

fn longest_of(trace: &Trace, s: &Slice) -> String {
    format!("longest wait: {}", trace.vcpus[s.vcpu as usize].name)
}

fn class(of: u8) -> String {
    Class::ALL.get(usize::from(of)).map_or("unknown", |c| c.name()).to_owned()
}

/// A row of the longest waits; times count from `begin`, ns.
fn wait(trace: &Trace, s: &Slice, begin: u64) -> Vec<String> {
    let since = s.from.saturating_sub(s.wait);
    let mut by = BTreeMap::<u32, u64>::new();
    for other in trace.slices.iter().filter(|o| o.pcpu == s.pcpu && o.from < s.from && o.to > since) {
        *by.entry(other.vcpu).or_default() += other.to.min(s.from) - other.from.max(since);
    }
    let known: u64 = by.values().sum();
    let mut by: Vec<_> = by.into_iter().map(|(v, ns)| (ns, trace.vcpus[v as usize].name.clone())).collect();
    // Threads of higher classes, a switch, or nothing.
    by.push((s.wait.saturating_sub(known), "another thread, or nothing".to_owned()));
    by.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let part = |(ns, name): &(u64, String)| format!("{name} {}", duration::human(*ns as f64));
    let by: Vec<_> = by.iter().filter(|(ns, _)| *ns > 0).take(3).map(part).collect();
    vec![
        trace.vcpus[s.vcpu as usize].name.clone(),
        duration::human(s.wait as f64),
        duration::human(s.from.saturating_sub(begin) as f64),
        s.pcpu.to_string(),
        class(s.queued_class),
        by.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_sim::TraceVcpu;

    /// VM 0 with VCPU 0 runs as real-time or not; VM 1 with VCPU 1 has slices of 10 ns on PCPU 0.
    fn trace(slices: u64, class: Class) -> Trace {
        let slice = |vcpu, class: Class, from, to, wait| Slice {
            pcpu: 0,
            vcpu,
            class: class as u8,
            queued_class: class as u8,
            wait,
            from,
            to,
        };
        let mut all: Vec<_> = (0..slices).map(|n| slice(1, Class::Under, 100 + n * 10, 110 + n * 10, 50)).collect();
        let end = 100 + slices * 10;
        all.push(slice(0, class, end, end + 5, 15));
        let vcpu = |name: &str, vm| TraceVcpu { name: name.into(), vm };
        Trace {
            from: 100,
            to: end + 5,
            pcpus: 1,
            vms: vec!["pbx".into(), "batch".into()],
            vcpus: vec![vcpu("pbx.0", 0), vcpu("batch.0", 1)],
            slices: all,
            markers: Vec::new(),
        }
    }

    #[test]
    fn the_longest_wait_is_in_the_page() {
        let few = trace(4, Class::Rt);
        assert_eq!(part(&few, few.slices.last()), (few.slices.clone(), 100, 145));
        let row = wait(&few, few.slices.last().unwrap(), few.from);
        assert_eq!(row, ["pbx.0", "15ns", "40ns", "0", "rt", "batch.0 15ns"]);
        let many = trace(3 * MOST as u64, Class::Rt);
        let (shown, from, to) = part(&many, many.slices.last());
        assert_eq!((shown.len(), to, from), (MOST, many.to, shown[0].to));
        let of = &many.slices[MOST];
        let (shown, from, to) = part(&many, Some(of));
        assert!(shown.len() == MOST && shown.contains(of) && from < of.from && to > of.to && from > many.from);
        // It begins before all others that are shown, and ends after them.
        let mut long = trace(3 * MOST as u64, Class::Rt);
        long.slices.last_mut().unwrap().from = 150;
        let last = long.slices.last().unwrap();
        let (shown, from, to) = part(&long, Some(last));
        let own: Vec<_> = shown.iter().filter(|s| s.vcpu == last.vcpu).collect();
        assert!(shown.len() == MOST + 1 && own.len() == 1 && own[0].from == 150 && own[0].to == to);
        assert!(from <= 150 - last.wait && to < long.to);
    }

    #[test]
    fn what_had_the_pcpu_is_named_as_far_as_it_is_known() {
        let mut few = trace(4, Class::Boost);
        few.slices.remove(3);
        let row = wait(&few, few.slices.last().unwrap(), few.from);
        assert_eq!(row[5], "another thread, or nothing 10ns, batch.0 5ns");
        assert_eq!(watched(&[&few.slices[0], &few.slices[1], &few.slices[3]]), [1, 0]);
    }
}
