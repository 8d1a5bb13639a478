// SPDX-License-Identifier: GPL-2.0-only
//! Experiments as a report.

use super::charts::charts;
use super::data::Experiment;
use super::options::Options;
use super::show::{self, number};
use super::{Outcome, check::Kind};
use crate::report::chart::Width;
use crate::report::timeline::Timeline;
use crate::report::{Block, Page, Table};
use crate::watch;
use anyhow::{Context, Result};
use takt_control::{PolicySpec, duration};

/// All of them on one page.
///
/// # Errors
/// The run for the timeline fails.
pub fn page(experiments: &[Experiment], outcomes: &[Outcome], options: &Options) -> Result<Page> {
    let gates = || outcomes.iter().flat_map(|o| &o.checks).filter(|c| c.kind == Kind::Gate);
    let mut page = Page {
        title: match experiments {
            [one] => format!("{}: {}", one.id, one.title),
            many => format!("{} reproduced", many.iter().map(|e| e.id.as_str()).collect::<Vec<_>>().join(", ")),
        },
        headline: vec![(format!("{} of {}", gates().filter(|c| c.ok).count(), gates().count()), "gates hold".into())],
        ..Page::default()
    };
    for (e, o) in experiments.iter().zip(outcomes) {
        let basis = format!("Seeds {}, {} each", options.seeds(e), duration::format(options.duration(e)));
        page.lead.push(format!("{} ({}): {}", e.id, e.source, e.about));
        page.facts.push((e.id.clone(), basis.clone()));
        page.headline.extend(
            // Measured values that are numbers on both sides speak for themselves.
            o.paper
                .iter()
                .filter(|p| e.scenario.is_some() && !p.paper.is_str() && p.ours.is_some())
                .take(3)
                .map(|p| (number(p.ours), format!("{} — paper: {}", p.what, show::plain(&p.paper)))),
        );
        let mut charts = charts(e, o, &basis).blocks();
        let mut tables = tables(e, o).into_iter().map(Block::Table);
        // What it shows, whether that is what it should, why.
        page.blocks.extend(charts.next());
        page.blocks.extend(tables.by_ref().take(2));
        page.blocks.extend(charts.chain(tables));
    }
    for (key, value) in &options.set {
        page.facts.push((key.clone(), value.clone()));
    }
    // One timeline is enough: of the first experiment that has a host.
    if let Some((e, o)) = experiments.iter().zip(outcomes).find(|(e, _)| e.scenario.is_some()) {
        page.blocks.extend(timeline(e, o, options)?.map(Block::Timeline));
    }
    Ok(page)
}

/// Every policy of the first variant, at the last point.
fn timeline(e: &Experiment, o: &Outcome, options: &Options) -> Result<Option<Timeline>> {
    let Some(last) = o.rows.iter().map(|r| &r.x).next_back() else { return Ok(None) };
    let variant = e.variant.first();
    let one = |p: &&String| Ok((options.scenario_of(e, variant, last, p)?, PolicySpec::parse(p)?));
    let runs = e.policies_of(variant).iter().map(one).collect::<Result<Vec<_>>>()?;
    let mut timeline = watch::timeline(&runs, &options.seeds(e).0)?;
    if let Some(sweep) = &e.sweep {
        let variant = variant.map_or_else(String::new, |v| format!("{}, ", v.name));
        timeline.caption = format!("{variant}{last} {}: {}", sweep.name, timeline.caption);
    }
    Ok(Some(timeline))
}

/// The chart for `--svg`: the first one of the experiment, or of the first that has some.
///
/// # Errors
/// The chart cannot be drawn.
pub fn main_chart(experiments: &[Experiment], outcomes: &[Outcome]) -> Result<String> {
    let mut all = experiments.iter().zip(outcomes).flat_map(|(e, o)| charts(e, o, "").charts);
    all.next().context("--svg: these runs have no value to draw; they may be too short")?.chart.svg(Width::Wide)
}

fn tables(e: &Experiment, o: &Outcome) -> Vec<Table> {
    let strings = |head: &[&str]| head.iter().map(|h| (*h).to_owned()).collect();
    let check = |c: &super::Verdict| {
        let mark = if c.ok {
            "✓ holds"
        } else if c.kind == Kind::Gate && c.missed.is_some() {
            "✗ missed"
        } else if c.kind == Kind::Gate {
            "✗ fails"
        } else {
            "not reached"
        };
        let name = c.at.as_ref().map_or_else(|| c.name.clone(), |at| format!("{} ({at})", c.name));
        vec![mark.into(), show::kind(c.kind).into(), name, c.want.clone(), number(c.got)]
    };
    let mut out = vec![
        Table {
            title: format!("{}: acceptance", e.id),
            caption: format!(
                "Gates decide the result; stretch goals and inputs of the model are shown for information. {}",
                e.notes.join(" ")
            ),
            head: strings(&["result", "kind", "check", "want", "got"]),
            rows: o.checks.iter().map(check).collect(),
            numbers: 3..usize::MAX,
            folded: false,
        },
        Table {
            title: format!("{}: published values", e.id),
            caption: "Values that the paper states in its text. Figures without stated values are left out.".into(),
            head: strings(&["what", "paper", "ours"]),
            rows: o.paper.iter().map(|p| vec![p.what.clone(), show::plain(&p.paper), number(p.ours)]).collect(),
            numbers: 1..usize::MAX,
            folded: false,
        },
    ];
    out.retain(|table| !table.rows.is_empty());
    let (head, rows) = show::means(e, &o.rows);
    out.push(Table {
        title: format!("{}: means over seeds", e.id),
        caption: "Rows with * are for comparison only.".into(),
        head,
        rows,
        numbers: 1..usize::MAX,
        folded: true,
    });
    if let Some(moved) = &o.sensitivity {
        let none = vec!["✓ every gate holds".to_owned(), String::new(), String::new(), String::new(), String::new()];
        let mut rows: Vec<_> = moved.violations.iter().map(show::violation).collect();
        if rows.is_empty() {
            rows.push(none);
        }
        out.push(Table {
            title: format!("{}: gates that do not hold when a constant is moved", e.id),
            caption: moved.run.clone(),
            head: strings(&["constant", "at", "gate", "want", "got"]),
            rows,
            numbers: 3..usize::MAX,
            folded: false,
        });
    }
    out
}
