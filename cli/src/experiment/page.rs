// SPDX-License-Identifier: GPL-2.0-only
//! Experiments as a report.

use super::data::Experiment;
use super::options::Options;
use super::show::{self, number};
use super::{Outcome, check::Kind};
use crate::report::figures::Figures;
use crate::report::{Block, Page, Section, Table};
use crate::row::X;
use crate::watch;
use anyhow::{Context, Result};
use takt_control::{PolicySpec, duration};

/// All of them on one page.
///
/// # Errors
/// A chart cannot be drawn, or the run for the timeline fails.
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
                .filter(|p| e.scenario.is_some() && !p.paper.is_str())
                .take(3)
                .map(|p| (number(p.ours), format!("{} — paper: {}", p.what, show::plain(&p.paper)))),
        );
        let mut charts = sections(e, o, basis)?.into_iter().map(Block::Chart);
        let mut tables = tables(e, o).into_iter().map(Block::Table);
        // What it shows, whether that is what it should, why.
        page.blocks.extend(charts.next());
        page.blocks.extend(tables.by_ref().take(2));
        page.blocks.extend(charts.chain(tables));
    }
    for (key, value) in &options.set {
        page.facts.push((key.clone(), value.clone()));
    }
    // One timeline is enough: the last point of the first experiment that has a host.
    if let Some((e, o)) = experiments.iter().zip(outcomes).find(|(e, _)| e.scenario.is_some()) {
        if let Some(last) = o.rows.iter().map(|r| &r.x).next_back() {
            let known = ["credit", "doris"].map(str::to_owned);
            let both = known.iter().all(|p| e.policies.contains(p));
            let first = e.policies_of(e.variant.first());
            let ends = first.first().into_iter().chain(first.last()).map(|p| (*p).clone()).collect();
            let policies = if both { known.to_vec() } else { ends };
            let policies = policies.iter().map(|p| PolicySpec::parse(p)).collect::<Result<Vec<_>>>()?;
            let seed = options.seeds(e).0[0];
            let timeline = watch::timeline(&options.scenario(e, last)?, &policies, seed)?;
            page.blocks.push(Block::Timeline(timeline));
        }
    }
    Ok(page)
}

fn figures<'a>(e: &'a Experiment, o: &'a Outcome, basis: String) -> Figures<'a> {
    let faint = e.literal.iter().chain(&e.reference).map(String::as_str).collect();
    Figures { rows: &o.rows, policies: e.every_policy().map(String::as_str).collect(), faint, basis }
}

/// The chart for `--svg`: of the first experiment that has one.
///
/// # Errors
/// The chart cannot be drawn.
pub fn main_chart(experiments: &[Experiment], outcomes: &[Outcome]) -> Result<String> {
    let mut with_host = experiments.iter().zip(outcomes).filter(|(e, _)| !e.chart.is_empty());
    let (e, o) = with_host.next().context("no chart to write")?;
    let f = figures(e, o, String::new());
    let sweep = sweep(e, &f)?;
    let last = o.rows.last().map(|r| &r.x);
    sweep.or(last.map(|x| f.boxes(x)).transpose()?.flatten()).context("no chart to write")
}

fn sweep(e: &Experiment, f: &Figures) -> Result<Option<String>> {
    let x = e.sweep.as_ref().map_or("", |s| &s.name);
    if e.chart == "calls" { Ok(None) } else { f.sweep(&e.chart, "mean PESQ", [1.0, 4.6], x) }
}

fn sections(e: &Experiment, o: &Outcome, basis: String) -> Result<Vec<Section>> {
    // Charts are of calls, and know no variants.
    if e.chart.is_empty() {
        return Ok(Vec::new());
    }
    let f = figures(e, o, basis);
    let mut out = Vec::new();
    if let Some(svg) = sweep(e, &f)? {
        let caption = format!(
            "Mean PESQ of all calls; higher is better. Whiskers span the worst to the best seed. Thin lines are for \
             comparison: pinned cores, and the rules read literally. {}.",
            f.basis
        );
        out.push(Section { title: format!("{}: {}", e.id, e.title), caption, svg });
    }
    if let (Some(sweep), Some(last)) = (&e.sweep, o.rows.last()) {
        let load = match &last.x {
            X::Number(n) => format!("{n} {}", sweep.name),
            X::Name(name) => name.clone(),
        };
        out.extend(f.at(&last.x, &load)?);
    }
    Ok(out)
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
        vec![mark.into(), show::kind(c.kind).into(), c.name.clone(), c.want.clone(), number(c.got)]
    };
    let mut out = vec![
        Table {
            title: format!("{}: acceptance", e.id),
            caption: format!(
                "Gates decide the result; stretch goals and inputs of the model are shown for information. {}",
                e.notes.join(" ")
            ),
            head: strings(&["", "kind", "check", "want", "got"]),
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
