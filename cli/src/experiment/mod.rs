// SPDX-License-Identifier: GPL-2.0-only
//! `takt experiment`: published results, computed anew and judged by the rules in `experiments/*.toml`.

mod along;
mod analysis;
pub mod check;
pub mod data;
pub mod measure;
mod page;
mod plan;
mod queues;
pub mod row;
mod sensitivity;
mod show;
mod traffic;
mod xen;

use crate::{args, output};
use anyhow::{Result, bail};
use check::{Kind, Verdict, round};
use data::Experiment;
use plan::Options;
use row::Row;
use schemars::JsonSchema;
use sensitivity::Violation;
use serde::Serialize;
use takt_control::Document;

/// An experiment that was run; its JSON is a stable interface.
#[derive(Serialize, JsonSchema)]
pub struct Outcome {
    /// Its name, such as `DORIS-E2`.
    pub id: String,
    pub title: String,
    /// By policy, point of the sweep, seed.
    pub rows: Vec<Row>,
    pub checks: Vec<Verdict>,
    pub paper: Vec<PaperRow>,
    /// What a reader should know, a line each.
    pub notes: Vec<String>,
    /// Gates that do not hold with a constant moved; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Moved>,
}

impl Document for Outcome {
    const NAME: &'static str = "experiment";
    const VERSION: u32 = 1;
}

/// An experiment of `takt experiment list --json`.
#[derive(Serialize, JsonSchema)]
pub struct Listed {
    /// Its name, such as `DORIS-E2`.
    pub id: String,
    /// What a reader should know, a line each.
    pub notes: Vec<String>,
    /// Paper and figure.
    pub source: String,
    pub title: String,
}

impl Document for Listed {
    const NAME: &'static str = "experiment-list";
    const VERSION: u32 = 1;
}

/// A published value beside ours.
#[derive(Serialize, JsonSchema)]
pub struct PaperRow {
    pub what: String,
    /// A number, or words where the paper has no number.
    #[schemars(with = "serde_json::Value", extend("type" = ["number", "string"]))]
    pub paper: toml::Value,
    /// Null if there is nothing to measure.
    pub ours: Option<f64>,
}

/// What `--sensitivity` found.
#[derive(Serialize, JsonSchema)]
pub struct Moved {
    /// What was run, in words.
    pub run: String,
    pub violations: Vec<Violation>,
}

impl From<Experiment> for Listed {
    fn from(e: Experiment) -> Self {
        Self { id: e.id, notes: e.notes, source: e.source, title: e.title }
    }
}

impl Outcome {
    fn new(e: &Experiment, rows: Vec<Row>) -> Self {
        let ours = |p: &data::Paper| p.ours.values(&rows)?.first().copied().map(round);
        Self {
            id: e.id.clone(),
            title: e.title.clone(),
            checks: e.check.iter().map(|c| c.evaluate(&rows)).collect(),
            paper: e
                .paper
                .iter()
                .map(|p| PaperRow { what: p.what.clone(), paper: p.value.clone(), ours: ours(p) })
                .collect(),
            notes: e.notes.clone(),
            sensitivity: None,
            rows,
        }
    }

    /// Whether every gate holds, or, with `known`, every gate but those that are known to be missed.
    pub fn holds(&self, known: bool) -> bool {
        self.checks.iter().all(|c| c.ok || c.kind != Kind::Gate || known && c.missed.is_some())
    }
}

/// Runs the command; the value says whether all gates hold.
///
/// # Errors
/// Bad input, a run that fails, or output that cannot be written.
pub fn run(args: &args::Experiment) -> Result<bool> {
    if args.id == "list" {
        if args.out.html.is_some() || args.out.svg.is_some() {
            bail!("list: writes no report, allowed is --json");
        }
        return list(args.out.json);
    }
    // What needs the Xen lab is asked for by its name.
    let experiments = if args.id == "all" {
        Experiment::all()?.into_iter().filter(|e| e.xen.is_empty()).collect()
    } else {
        vec![Experiment::find(&args.id)?]
    };
    let options = Options::new(args)?;
    let has_host = experiments.iter().any(|e| e.scenario.is_some());
    if let (false, Some((key, value))) = (has_host, options.set.first()) {
        bail!("--set {key}={value}: {} has no scenario, allowed are --seeds and --duration", args.id);
    }
    for e in &experiments {
        options.fits(e)?;
    }
    if args.out.svg.is_some() && !has_host {
        bail!("--svg: {} has no chart", args.id);
    }
    let [html, svg] = output::open([args.out.html.as_ref(), args.out.svg.as_ref()], &[])?;
    let mut outcomes = plan::run(&experiments, &options)?;
    if args.sensitivity {
        for (e, outcome) in experiments.iter().zip(&mut outcomes) {
            outcome.sensitivity = sensitivity::run(e, &options)?;
        }
    }
    if let Some(file) = html {
        file.write(page::page(&experiments, &outcomes, &options)?.html().as_bytes())?;
    }
    if let Some(file) = svg {
        file.write(page::main_chart(&experiments, &outcomes)?.as_bytes())?;
    }
    if args.out.json {
        match &outcomes[..] {
            [one] if args.id != "all" => output::print_json(one)?,
            all => output::print_list(all)?,
        }
    } else {
        output::print(
            &experiments.iter().zip(&outcomes).map(|(e, o)| show::text(e, o)).collect::<Vec<_>>().join("\n"),
        )?;
    }
    Ok(outcomes.iter().all(|o| o.holds(args.known)))
}

fn list(json: bool) -> Result<bool> {
    let all = Experiment::all()?;
    if json {
        output::print_list(&all.into_iter().map(Listed::from).collect::<Vec<_>>())?;
    } else {
        output::print(&show::list(&all))?;
    }
    Ok(true)
}
