// SPDX-License-Identifier: GPL-2.0-only
//! Lines over a sweep.

use super::pen::{self, LINE, Pen, Side};
use super::{Axis, Values, Width};
use crate::report::theme::{self, GRID, INK, MUTED};
use anyhow::Result;
use plotters::style::Color;

/// A line of more points has no table of its values, and no marks.
const FEW: usize = 40;

/// A series over a sweep.
pub struct Line {
    pub label: String,
    /// Number of its look ([`theme::style`]).
    pub style: usize,
    /// A reference or a variant, drawn thin.
    pub faint: bool,
    /// x, mean, least, greatest.
    pub points: Vec<[f64; 4]>,
}

/// Lines with whiskers from the least to the greatest seed.
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// The part of a drawing that the lines are in, px.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Lines {
    pub(super) fn svg(&self, width: Width) -> Result<String> {
        let (px, n) = (width.px() as i32, self.lines.len() as i32);
        let left = self.y.ticks(9).iter().map(|(_, text)| pen::text_width(text)).max().unwrap_or(0) + 24;
        match width {
            Width::Wide => {
                let names = self.lines.iter().map(|l| pen::sample_width(&l.label)).max().unwrap_or(0).min(px / 2 - 60);
                let frame = Frame { left, right: px - names - 40, top: 42, bottom: (n * LINE + 42).max(350) };
                pen::drawn(width, frame.bottom + 56, |pen| {
                    self.plot(pen, &frame)?;
                    self.names_at_ends(pen, &frame, names)
                })
            }
            Width::Narrow => {
                let frame = Frame { left, right: px - 16, top: 42, bottom: 272 };
                let begin = frame.bottom + 68;
                pen::drawn(width, begin + n * LINE, |pen| {
                    self.plot(pen, &frame)?;
                    for (at, line) in (0..).zip(&self.lines) {
                        let place = (4, begin + at * LINE);
                        pen.sample(&line.label, theme::style(line.style), place, px - 8, true)?;
                    }
                    Ok(())
                })
            }
        }
    }

    fn at(&self, frame: &Frame, x: f64, y: f64) -> (i32, i32) {
        (self.x.px(x, [frame.left, frame.right]), self.y.px(y, [frame.bottom, frame.top]))
    }

    fn plot(&self, pen: &Pen, frame: &Frame) -> Result<()> {
        pen.text(&pen::fitted(&self.y.title, frame.right - 8), (8, 14), &INK, Side::Right)?;
        for (v, text) in self.y.ticks(((frame.bottom - frame.top) / 40) as usize) {
            let (_, y) = self.at(frame, self.x.from, v);
            pen.line(&[(frame.left, y), (frame.right, y)], GRID)?;
            pen.text(&text, (frame.left - 8, y), &MUTED, Side::Left)?;
        }
        pen.below(&self.x, [frame.left, frame.right], [frame.bottom, frame.bottom])?;
        // Faint ones first, so that they lie below.
        let mut order: Vec<&Line> = self.lines.iter().collect();
        order.sort_by_key(|l| !l.faint);
        for line in order {
            let style = theme::style(line.style);
            for p in line.points.iter().filter(|p| p[3] > p[2]) {
                let ends = [self.at(frame, p[0], p[2]), self.at(frame, p[0], p[3])];
                pen.line(&ends, style.colour.stroke_width(1))?;
            }
            let points: Vec<_> = line.points.iter().map(|p| self.at(frame, p[0], p[1])).collect();
            pen.series(&points, style, if line.faint { 1 } else { 3 })?;
            for point in points.iter().filter(|_| points.len() <= FEW) {
                pen.marker(*point, style, if line.faint { 3 } else { 4 })?;
            }
        }
        Ok(())
    }

    /// Names beside the ends of their lines, moved apart so that none covers another.
    fn names_at_ends(&self, pen: &Pen, frame: &Frame, px: i32) -> Result<()> {
        let end = |l: &Line| l.points.last().map(|p| self.at(frame, p[0], p[1]));
        let mut ends: Vec<_> = self.lines.iter().filter_map(|l| Some((l, end(l)?))).collect();
        ends.sort_by_key(|(l, (_, y))| (*y, l.style));
        let mut at: Vec<i32> = Vec::new();
        for (_, (_, y)) in &ends {
            at.push((*y).max(at.last().map_or(frame.top - LINE / 2, |p| p + LINE)));
        }
        // What ran over the bottom is pushed up again.
        let mut limit = frame.bottom;
        for y in at.iter_mut().rev() {
            *y = (*y).min(limit);
            limit = *y - LINE;
        }
        for ((line, (x, y)), at) in ends.iter().zip(at) {
            pen.line(&[(x + 7, *y), (frame.right + 28, at)], MUTED.mix(0.6))?;
            pen.sample(&line.label, theme::style(line.style), (frame.right + 32, at), px, true)?;
        }
        Ok(())
    }

    pub(super) fn values(&self) -> Option<Values> {
        let mut points: Vec<f64> = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p[0])).collect();
        points.sort_by(f64::total_cmp);
        points.dedup();
        if points.len() > FEW {
            return None;
        }
        let head = [self.x.title.clone()].into_iter().chain(points.iter().map(|x| self.x.text(*x))).collect();
        let value = |line: &Line, x: &f64| {
            let point = line.points.iter().find(|p| p[0] == *x);
            point.map_or_else(|| "-".to_owned(), |p| self.y.text(p[1]))
        };
        let row = |line: &Line| {
            [line.label.clone()].into_iter().chain(points.iter().map(|x| value(line, x))).collect::<Vec<_>>()
        };
        Some((head, self.lines.iter().map(row).collect()))
    }
}
