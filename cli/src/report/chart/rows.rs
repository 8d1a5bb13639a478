// SPDX-License-Identifier: GPL-2.0-only
//! One row per policy, the first on top.

use super::pen::{self, LINE, Pen, Side};
use super::{Axis, Values, Width};
use crate::report::theme::{self, INK, MUTED, PAPER};
use crate::stat::Stat;
use anyhow::{Result, bail};
use plotters::style::Color;

/// Height of the drawn part of a row, px.
const ROW: i32 = 30;
/// Longest name that stands before its row, px; longer ones stand above.
const BEFORE: i32 = 330;

/// A policy in a chart of rows: what is drawn is up to [`Kind`].
pub struct Row {
    pub label: String,
    /// Number of its look ([`theme::style`]).
    pub style: usize,
    pub values: Vec<f64>,
}

/// What a row's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PESQ of calls.
    Boxes,
    /// Times, ns.
    Spans,
    /// One value, drawn from the beginning of the axis.
    Bars,
}

impl Kind {
    /// The values of a row: the heading of each in a table, and how it sums up all runs. A bar has
    /// the title of its axis for a heading.
    fn stats(self) -> &'static [(&'static str, Stat)] {
        match self {
            Kind::Boxes => &[
                ("least", Stat::Min),
                ("25 %", Stat::Q25),
                ("median", Stat::Q50),
                ("75 %", Stat::Q75),
                ("greatest", Stat::Max),
            ],
            // A run has a median, a 99th percentile and a greatest value.
            Kind::Spans => &[("median", Stat::Mean), ("99 %", Stat::Mean), ("greatest", Stat::Max)],
            Kind::Bars => &[("", Stat::Mean)],
        }
    }

    /// The values of a row, the n-th from what all runs have for it; `None` if one has nothing.
    pub fn sum_up(self, of: impl Fn(usize) -> Vec<f64>) -> Option<Vec<f64>> {
        self.stats().iter().enumerate().map(|(n, (_, stat))| stat.of(&of(n))).collect()
    }

    /// How to read such a chart.
    pub fn caption(self) -> &'static str {
        match self {
            Kind::Boxes => {
                "PESQ of each call. Box: 25th to 75th percentile, with the median. Whiskers: worst and best call. \
                 4.45 is a call without faults. Below 4, faults can be heard. 2.5 is poor."
            }
            Kind::Spans => {
                "Ring: median. Dot: 99th percentile. Both are means over seeds. Bar: longest of all. The axis is logarithmic."
            }
            Kind::Bars => "Means over seeds.",
        }
    }
}

pub struct Rows {
    pub axis: Axis,
    pub kind: Kind,
    pub rows: Vec<Row>,
}

impl Rows {
    /// With the axis that fits the kind.
    pub fn new(kind: Kind, title: impl Into<String>, rows: Vec<Row>) -> Self {
        let all = rows.iter().flat_map(|r| &r.values).copied();
        let axis = match kind {
            Kind::Boxes => Axis::quality(title),
            Kind::Spans => Axis::times(title, all),
            Kind::Bars => Axis::from_zero(title, all),
        };
        Self { axis, kind, rows }
    }

    pub(super) fn svg(&self, width: Width) -> Result<String> {
        let px = width.px() as i32;
        let names = self.rows.iter().map(|r| pen::text_width(&r.label)).max().unwrap_or(0);
        let above = width == Width::Narrow || names > BEFORE;
        // Half a tick, and what bars write behind themselves.
        let left = if above { 28 } else { (names + 20).max(28) };
        let right = px - if self.kind == Kind::Bars { 64 } else { 34 };
        let (row, lead) = if above { (ROW + LINE, LINE) } else { (ROW, 0) };
        let bottom = 8 + row * self.rows.len() as i32;
        pen::drawn(width, bottom + 52, |pen| {
            pen.below(&self.axis, [left, right], [4, bottom])?;
            for (n, r) in (0..).zip(&self.rows) {
                let top = 8 + row * n;
                let y = top + lead + ROW / 2;
                if above {
                    pen.text(&pen::fitted(&r.label, px - 8), (4, top + LINE / 2), &INK, Side::Right)?;
                } else {
                    pen.text(&r.label, (left - 12, y), &INK, Side::Left)?;
                }
                self.row(pen, r, y, [left, right])?;
            }
            Ok(())
        })
    }

    fn row(&self, pen: &Pen, row: &Row, y: i32, ends: [i32; 2]) -> Result<()> {
        let colour = theme::style(row.style).colour;
        let at: Vec<i32> = row.values.iter().map(|v| self.axis.px(*v, ends)).collect();
        match (self.kind, &at[..]) {
            (Kind::Boxes, &[min, q1, median, q3, max]) => {
                pen.line(&[(min, y), (max, y)], colour)?;
                for end in [min, max] {
                    pen.line(&[(end, y - 6), (end, y + 6)], colour)?;
                }
                let corners = [(q1, y - 9), (q3, y + 9)];
                pen.rectangle(corners, PAPER.filled())?;
                pen.rectangle(corners, colour.mix(0.35).filled())?;
                pen.rectangle(corners, colour)?;
                pen.line(&[(median, y - 9), (median, y + 9)], colour.stroke_width(3))
            }
            (Kind::Spans, &[p50, p99, max]) => {
                pen.line(&[(p50, y), (max, y)], colour.mix(0.55).stroke_width(2))?;
                pen.ring((p50, y), colour, 5)?;
                pen.marker((p99, y), theme::Style { marker: theme::Marker::Circle, ..theme::style(row.style) }, 5)?;
                pen.line(&[(max, y - 8), (max, y + 8)], colour.stroke_width(2))
            }
            (Kind::Bars, &[to]) => {
                pen.rectangle([(ends[0], y - 9), (to, y + 9)], colour.mix(0.85).filled())?;
                pen.text(&self.axis.text(row.values[0]), (to + 6, y), &MUTED, Side::Right)
            }
            (kind, at) => bail!("a row of {} values in a chart of {kind:?}", at.len()),
        }
    }

    pub(super) fn values(&self) -> Values {
        let heads = self.kind.stats().iter().map(|(head, _)| if head.is_empty() { &self.axis.title } else { *head });
        let head = ["policy"].into_iter().chain(heads).map(str::to_owned).collect();
        let row = |r: &Row| {
            [r.label.clone()].into_iter().chain(r.values.iter().map(|v| self.axis.text(*v))).collect::<Vec<_>>()
        };
        (head, self.rows.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_each_kind_is_drawn_from_its_stats() {
        for kind in [Kind::Boxes, Kind::Spans, Kind::Bars] {
            let row = |values| Row { label: "credit".into(), style: 0, values };
            let full = kind.sum_up(|n| vec![n as f64 + 1.0, n as f64 + 2.0]).unwrap();
            let chart = Rows::new(kind, "what", vec![row(full.clone())]);
            assert!(chart.svg(Width::Wide).is_ok() && chart.svg(Width::Narrow).is_ok(), "{kind:?}");
            let (head, rows) = chart.values();
            assert!(head.len() == rows[0].len() && !head.iter().any(String::is_empty), "{head:?}: {rows:?}");
            let short = Rows::new(kind, "what", vec![row(full[1..].to_vec())]);
            assert!(short.svg(Width::Wide).is_err(), "{kind:?}");
            assert_eq!(kind.sum_up(|n| if n == 0 { Vec::new() } else { vec![1.0] }), None);
        }
        let spans = Kind::Spans.sum_up(|n| vec![n as f64, n as f64 + 2.0]);
        assert_eq!(spans, Some(vec![1.0, 2.0, 4.0]), "means, but the greatest of all");
    }
}
