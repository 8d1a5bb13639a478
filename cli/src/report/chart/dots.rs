// SPDX-License-Identifier: GPL-2.0-only
//! Several policies under each of several circumstances: a row per circumstance, a dot per policy.

use super::pen::{self, LINE, Pen, Side};
use super::{Axis, Values, Width};
use crate::report::theme::{self, GRID, INK};
use anyhow::Result;

/// Height of a policy's lane within a row, and of a row at the least, px.
const LANE: i32 = 9;
const LEAST: i32 = 24;

/// A policy.
pub struct Series {
    pub label: String,
    /// Number of its look ([`theme::style`]).
    pub style: usize,
    /// One per group, if it ran there.
    pub values: Vec<Option<f64>>,
}

pub struct Dots {
    pub axis: Axis,
    /// What the groups are: "program".
    pub of: String,
    pub groups: Vec<String>,
    pub series: Vec<Series>,
}

impl Dots {
    pub(super) fn svg(&self, width: Width) -> Result<String> {
        let px = width.px() as i32;
        let names = self.groups.iter().map(|g| pen::text_width(g)).max().unwrap_or(0);
        let above = width == Width::Narrow;
        let left = if above { 28 } else { (names.min(px / 3) + 20).max(28) };
        let right = px - 34;
        let lanes = (self.series.len() as i32 * LANE + 8).max(LEAST);
        let (row, lead) = if above { (lanes + LINE, LINE) } else { (lanes, 0) };
        let bottom = 8 + row * self.groups.len() as i32;
        let columns = if above { 1 } else { self.columns(px) };
        let lines = (self.series.len() as i32 + columns - 1) / columns;
        let begin = bottom + 66;
        pen::drawn(width, begin + lines * LINE, |pen| {
            pen.below(&self.axis, [left, right], [4, bottom])?;
            for (n, group) in (0..).zip(&self.groups) {
                let top = 8 + row * n;
                if above {
                    pen.text(&pen::fitted(group, px - 8), (4, top + LINE / 2), &INK, Side::Right)?;
                } else {
                    pen.text(&pen::fitted(group, left - 20), (left - 12, top + lanes / 2), &INK, Side::Left)?;
                    pen.line(&[(12, top), (right, top)], GRID)?;
                }
                self.group(pen, n as usize, [left, right], top + lead + (lanes - self.series.len() as i32 * LANE) / 2)?;
            }
            for (n, s) in (0..).zip(&self.series) {
                let place = (4 + n % columns * (px / columns), begin + n / columns * LINE);
                pen.sample(&s.label, theme::style(s.style), place, px / columns - 8, false)?;
            }
            Ok(())
        })
    }

    /// Columns of the legend.
    fn columns(&self, px: i32) -> i32 {
        let widest = self.series.iter().map(|s| pen::sample_width(&s.label)).max().unwrap_or(1) + 12;
        (px / widest).clamp(1, 4)
    }

    fn group(&self, pen: &Pen, n: usize, ends: [i32; 2], top: i32) -> Result<()> {
        for (lane, s) in (0..).zip(&self.series) {
            if let Some(v) = s.values[n] {
                pen.marker((self.axis.px(v, ends), top + lane * LANE + LANE / 2), theme::style(s.style), 4)?;
            }
        }
        Ok(())
    }

    pub(super) fn values(&self) -> Values {
        let head = [&self.of].into_iter().chain(self.series.iter().map(|s| &s.label)).cloned().collect();
        let value = |s: &Series, n: usize| s.values[n].map_or_else(|| "-".to_owned(), |v| self.axis.text(v));
        let row = |(n, group): (usize, &String)| {
            [group.clone()].into_iter().chain(self.series.iter().map(|s| value(s, n))).collect::<Vec<_>>()
        };
        (head, self.groups.iter().enumerate().map(row).collect())
    }
}
