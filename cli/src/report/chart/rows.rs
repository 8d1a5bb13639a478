// SPDX-License-Identifier: GPL-2.0-only
//! One row per policy, the first on top.

use super::pen::{self, LINE, Pen, Side};
use super::{Axis, Values, Width};
use crate::report::theme::{self, INK, MUTED, PAPER};
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
    /// Least, quartiles, greatest.
    Boxes,
    /// Median, 99th percentile, greatest.
    Spans,
    /// One value, drawn from the beginning of the axis.
    Bars,
}

pub struct Rows {
    pub axis: Axis,
    pub kind: Kind,
    pub rows: Vec<Row>,
}

impl Rows {
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
        let heads: &[&str] = match self.kind {
            Kind::Boxes => &["least", "25 %", "median", "75 %", "greatest"],
            Kind::Spans => &["median", "99 %", "greatest"],
            Kind::Bars => &[&self.axis.title],
        };
        let head = ["policy"].iter().chain(heads).map(|h| (*h).to_owned()).collect();
        let row = |r: &Row| {
            [r.label.clone()].into_iter().chain(r.values.iter().map(|v| self.axis.text(*v))).collect::<Vec<_>>()
        };
        (head, self.rows.iter().map(row).collect())
    }
}
