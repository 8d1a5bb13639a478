// SPDX-License-Identifier: GPL-2.0-only
//! Columns of the table of VMs and of `takt sim --csv`.

use super::seen::Seen;
use crate::seeds::Seeds;
use anyhow::{Result, bail};
use std::ops::Range;
use takt_control::near;

pub(super) struct Column {
    /// For `--columns` and in CSV: that of the JSON field, if there is one, with its unit.
    pub name: &'static str,
    /// In the table.
    pub head: &'static str,
    /// Head in the table if `--columns` names none: it leaves out what the column before says.
    first: Option<&'static str>,
    /// In CSV if `--columns` names none.
    csv: bool,
    pub cell: Cell,
}

/// What stands in a column.
pub(super) enum Cell {
    /// Nothing where a VM can have none.
    Text(fn(&Seen) -> Option<String>),
    Number {
        of: fn(&Seen) -> Option<f64>,
        /// The table divides by this, and shows so many decimals.
        unit: f64,
        decimals: usize,
    },
}

const fn text(name: &'static str, head: &'static str, of: fn(&Seen) -> Option<String>) -> Column {
    Column { name, head, first: None, csv: false, cell: Cell::Text(of) }
}

const fn number(
    name: &'static str,
    head: &'static str,
    (unit, decimals): (f64, usize),
    of: fn(&Seen) -> Option<f64>,
) -> Column {
    Column { name, head, first: None, csv: false, cell: Cell::Number { of, unit, decimals } }
}

impl Column {
    const fn csv(self) -> Self {
        Self { csv: true, ..self }
    }

    /// Also in the table, under this head.
    const fn both(self, head: &'static str) -> Self {
        Self { csv: true, first: Some(head), ..self }
    }
}

const S: f64 = 1e9;
const MS: f64 = 1e6;
const US: f64 = 1e3;

/// All columns, in the order of the docs.
pub(super) static COLUMNS: [Column; 16] = [
    text("scenario", "scenario", |s| Some(s.runs[0].0.scenario.clone())).csv(),
    text("policy", "policy", |s| Some(s.policy.to_owned())).both("policy"),
    text("seed", "seeds", |s| Some(Seeds(s.runs.iter().map(|(run, _)| run.seed).collect()).to_string())).csv(),
    text("name", "VM", |s| Some(s.name.to_owned())).both("VM"),
    text("workload", "workload", |s| Some(s.runs[0].1.workload.clone())).csv(),
    text("rule", "real-time", |s| s.rule()).both("real-time"),
    number("since_ns", "since s", (S, 2), |s| s.since()).both("since s"),
    number("period_ns", "period ms", (MS, 2), |s| s.period()).both("period ms"),
    number("wait_p50_ns", "wait p50 us", (US, 1), |s| s.wait(|w| w.p50_ns)).both("wait p50 us"),
    number("wait_p99_ns", "wait p99 us", (US, 1), |s| s.wait(|w| w.p99_ns)).both("p99 us"),
    number("wait_max_ns", "wait max us", (US, 0), |s| s.wait(|w| w.max_ns)).both("max us"),
    number("late_pct", "late %", (1.0, 2), |s| s.promise.as_ref().map(|p| p.failed * 100.0)).csv(),
    number("work_s", "work CPU-s", (1.0, 2), |s| s.mean(|_, vm| Some(vm.work))).csv(),
    number("cpu_time_ns", "CPU s", (S, 2), |s| s.mean(|_, vm| Some(vm.cpu_time_ns as f64))),
    number("promotions", "promotions", (1.0, 0), |s| s.mean(|_, vm| Some(vm.promotions as f64))),
    text("did", "what it did", |s| Some(s.did())).both("what it did"),
];

/// Chosen columns, each with its head in the table.
#[derive(Clone)]
pub(crate) struct Columns(Vec<(&'static Column, &'static str)>);

impl Columns {
    /// Those of a table of VMs, which begins with the VM.
    pub fn table() -> Self {
        let mut all: Vec<_> = COLUMNS.iter().filter_map(|c| Some((c, c.first?))).collect();
        all.sort_by_key(|(c, _)| c.name != "name");
        Self(all)
    }

    pub fn csv() -> Self {
        Self(COLUMNS.iter().filter(|c| c.csv).map(|c| (c, c.head)).collect())
    }

    /// Reads `--columns`.
    ///
    /// # Errors
    /// One line that names the column and what is allowed.
    pub fn parse(list: &str) -> Result<Self> {
        let mut all: Vec<(&Column, &str)> = Vec::new();
        for name in list.split(',').map(str::trim) {
            let Some(column) = COLUMNS.iter().find(|c| c.name == name) else {
                bail!("no column `{name}`{}", near::allowed(name, COLUMNS.iter().map(|c| c.name)));
            };
            if all.iter().any(|(c, _)| c.name == name) {
                bail!("column `{name}` is named twice");
            }
            all.push((column, column.head));
        }
        Ok(Self(all))
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(c, _)| c.name).collect()
    }

    pub fn heads(&self) -> Vec<&'static str> {
        self.0.iter().map(|(_, head)| *head).collect()
    }

    /// Positions of columns of numbers.
    pub fn numbers(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|&n| matches!(self.0[n].0.cell, Cell::Number { .. })).collect()
    }

    /// The same where all of them lie together.
    pub fn range(&self) -> Range<usize> {
        let all = self.numbers();
        all.first().copied().unwrap_or(0)..all.last().map_or(0, |n| n + 1)
    }

    /// A row of a table.
    pub(super) fn row(&self, seen: &Seen) -> Vec<String> {
        let cell = |(column, _): &(&Column, &str)| match column.cell {
            Cell::Text(of) => of(seen),
            Cell::Number { of, unit, decimals } => of(seen).map(|v| format!("{:.decimals$}", v / unit)),
        };
        self.0.iter().map(|c| cell(c).unwrap_or_else(|| "-".into())).collect()
    }

    /// A row of CSV, in full precision; a cell without a value is empty.
    pub(super) fn values(&self, seen: &Seen) -> Vec<String> {
        let cell = |(column, _): &(&Column, &str)| match column.cell {
            Cell::Text(of) => of(seen),
            Cell::Number { of, .. } => of(seen).map(|v| v.to_string()),
        };
        self.0.iter().map(|c| cell(c).unwrap_or_default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_in_the_docs() {
        let docs = include_str!("../../../docs/scenarios.md");
        for column in &COLUMNS {
            assert!(docs.contains(&format!("\n| `{}` | {} | ", column.name, column.head)), "{}", column.name);
            assert_eq!(Columns::parse(column.name).unwrap().names(), [column.name]);
        }
        assert_eq!(Columns::table().names()[..3], ["name", "policy", "rule"]);
        assert!(Columns::table().numbers().into_iter().eq(Columns::table().range()));
        let marked = |mark: &str| docs.lines().filter(|l| l.starts_with("| `") && l.ends_with(mark)).count();
        assert_eq!(COLUMNS.len() - Columns::csv().names().len(), marked(" (only if chosen) |"));
        assert_eq!(Columns::csv().names().len() - Columns::table().names().len(), marked(" (`csv`) |"));
    }

    #[test]
    fn an_unknown_column_is_named_with_those_that_are_allowed() {
        let error = |list| Columns::parse(list).err().unwrap().to_string();
        let all = COLUMNS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
        assert_eq!(error("name,polcy"), format!("no column `polcy` (did you mean `policy`?); allowed: {all}"));
        assert_eq!(error(""), format!("no column ``; allowed: {all}"));
        assert_eq!(error("name, name"), "column `name` is named twice");
    }
}
