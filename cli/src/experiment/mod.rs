// SPDX-License-Identifier: GPL-2.0-only
//! `takt experiment`: published results, computed anew and judged by the rules in `experiments/*.toml`.

mod along;
mod analysis;
pub mod check;
mod command;
pub mod data;
pub mod measure;
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
use serde::Serialize;

/// An experiment that was run; its JSON is a stable interface.
#[derive(Serialize)]
pub struct Outcome {
    pub id: String,
    pub title: String,
    pub rows: Vec<Row>,
    pub checks: Vec<Verdict>,
    pub paper: Vec<PaperRow>,
    pub notes: Vec<String>,
    /// Gates that do not hold with a constant moved; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Moved>,
}

/// A published value beside ours.
#[derive(Serialize)]
pub struct PaperRow {
    pub what: String,
    pub paper: toml::Value,
    pub ours: Option<f64>,
}

/// What `--sensitivity` found.
#[derive(Serialize)]
pub struct Moved {
    /// What was run, in words.
    pub run: String,
    pub violations: Vec<Violation>,
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
