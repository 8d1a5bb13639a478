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
    Column { name, head, cell: Cell::Text(of) }
}

const fn number(
    name: &'static str,
    head: &'static str,
    (unit, decimals): (f64, usize),
    of: fn(&Seen) -> Option<f64>,
) -> Column {
    Column { name, head, cell: Cell::Number { of, unit, decimals } }
}

const S: f64 = 1e9;
const MS: f64 = 1e6;
const US: f64 = 1e3;

/// All columns, in the order of the docs.
pub(super) const COLUMNS: [Column; 16] = [
    text("scenario", "scenario", |s| Some(s.runs[0].0.scenario.clone())),
    text("policy", "policy", |s| Some(s.policy.to_owned())),
    text("seed", "seeds", |s| Some(Seeds(s.runs.iter().map(|(run, _)| run.seed).collect()).to_string())),
    text("name", "VM", |s| Some(s.name.to_owned())),
    text("workload", "workload", |s| Some(s.runs[0].1.workload.clone())),
    text("rule", "real-time", |s| s.rule()),
    number("since_ns", "since s", (S, 2), |s| s.since()),
    number("period_ns", "period ms", (MS, 2), |s| s.period()),
    number("wait_p50_ns", "wait p50 us", (US, 1), |s| s.wait(|w| w.p50_ns)),
    number("wait_p99_ns", "wait p99 us", (US, 1), |s| s.wait(|w| w.p99_ns)),
    number("wait_max_ns", "wait max us", (US, 0), |s| s.wait(|w| w.max_ns)),
    number("late_pct", "late %", (1.0, 2), |s| s.promise.as_ref().map(|p| p.failed * 100.0)),
    number("work_s", "work CPU-s", (1.0, 2), |s| s.mean(|_, vm| Some(vm.work))),
    number("cpu_time_ns", "CPU s", (S, 2), |s| s.mean(|_, vm| Some(vm.cpu_time_ns as f64))),
    number("promotions", "promotions", (1.0, 0), |s| s.mean(|_, vm| Some(vm.promotions as f64))),
    text("did", "what it did", |s| Some(s.did())),
];

/// Those of the table, and of CSV, if `--columns` names none. The table leaves out what the column
/// before says.
const TABLE: [(&str, &str); 9] = [
    ("name", "VM"),
    ("policy", "policy"),
    ("rule", "real-time"),
    ("since_ns", "since s"),
    ("period_ns", "period ms"),
    ("wait_p50_ns", "wait p50 us"),
    ("wait_p99_ns", "p99 us"),
    ("wait_max_ns", "max us"),
    ("did", "what it did"),
];
const CSV: [&str; 14] = [
    "scenario",
    "policy",
    "seed",
    "name",
    "workload",
    "rule",
    "since_ns",
    "period_ns",
    "wait_p50_ns",
    "wait_p99_ns",
    "wait_max_ns",
    "late_pct",
    "work_s",
    "did",
];

/// Chosen columns, each with its head in the table.
#[derive(Clone)]
pub(crate) struct Columns(Vec<(&'static Column, &'static str)>);

fn known(name: &str) -> Option<&'static Column> {
    static ALL: &[Column] = &COLUMNS;
    ALL.iter().find(|c| c.name == name)
}

impl Columns {
    /// Of [`Columns::table`].
    pub const NUMBERS: Range<usize> = 3..8;

    pub fn table() -> Self {
        Self(TABLE.iter().filter_map(|(name, head)| Some((known(name)?, *head))).collect())
    }

    pub fn csv() -> Self {
        Self(CSV.iter().filter_map(|name| known(name)).map(|c| (c, c.head)).collect())
    }

    /// Reads `--columns`.
    ///
    /// # Errors
    /// One line that names the column and what is allowed.
    pub fn parse(list: &str) -> Result<Self> {
        let mut all: Vec<(&Column, &str)> = Vec::new();
        for name in list.split(',').map(str::trim) {
            let names = || COLUMNS.iter().map(|c| c.name);
            let Some(column) = known(name) else {
                let (hint, names) = (near::hint(name, names()), names().collect::<Vec<_>>().join(", "));
                bail!("no column `{name}`{hint}; allowed: {names}");
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
        assert_eq!(Columns::table().names(), TABLE.map(|(name, _)| name));
        assert!(Columns::table().numbers().into_iter().eq(Columns::NUMBERS));
        assert_eq!(Columns::csv().names(), CSV);
    }

    #[test]
    fn an_unknown_column_is_named_with_those_that_are_allowed() {
        let error = |list| Columns::parse(list).err().unwrap().to_string();
        let all = COLUMNS.map(|c| c.name).join(", ");
        assert_eq!(error("name,polcy"), format!("no column `polcy` (did you mean `policy`?); allowed: {all}"));
        assert_eq!(error(""), format!("no column ``; allowed: {all}"));
        assert_eq!(error("name, name"), "column `name` is named twice");
    }
}
