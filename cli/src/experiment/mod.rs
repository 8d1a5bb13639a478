// SPDX-License-Identifier: GPL-2.0-only
//! `takt experiment`: published results, computed anew and judged by the rules in `experiments/*.toml`.

mod along;
mod analysis;
mod charts;
pub mod check;
mod command;
pub mod data;
pub mod measure;
mod metrics;
mod options;
mod page;
mod plan;
mod points;
mod sensitivity;
mod show;
mod traffic;
mod xen;

pub use command::run;

use crate::row::Row;
use check::{Kind, Verdict, Violation, round};
use data::Experiment;
use schemars::JsonSchema;
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
