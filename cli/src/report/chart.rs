// SPDX-License-Identifier: GPL-2.0-only
//! The charts of a report, drawn by plotters as SVG: lines over a sweep, and one row per policy for the rest.

use super::theme::{self, GRID, INK, MUTED, PAPER};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of every chart; pages scale it.
const WIDTH: u32 = 920;
const FONT: &str = "sans-serif";

/// A policy over a sweep.
pub struct Line {
    pub label: String,
    pub colour: usize,
    /// A reference or a variant, drawn thin.
    pub faint: bool,
    /// x, mean, least, greatest.
    pub points: Vec<[f64; 4]>,
}

/// A policy in a chart of rows: what is drawn is up to [`Rows`].
pub struct Row {
    pub label: String,
    pub colour: usize,
    pub values: Vec<f64>,
}

/// What a row's values are.
pub enum Rows {
    /// Least, quartiles, greatest.
    Boxes,
    /// Median, 99th percentile, greatest; on a logarithmic axis.
    Spans,
    /// One value, drawn from `base`.
    Bars { base: f64 },
}

pub struct Axis<'a> {
    pub title: &'a str,
    pub from: f64,
    pub to: f64,
    pub format: &'a dyn Fn(f64) -> String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Lines with whiskers from the least to the greatest seed, labelled at their right end.
///
/// # Errors
/// plotters refuses the drawing.
pub fn lines(x: &Axis, y: &Axis, lines: &[Line]) -> Result<String> {
    drawn(430, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(14)
            .margin_right(220)
            .x_label_area_size(46)
            .y_label_area_size(54)
            .build_cartesian_2d(x.from..x.to, y.from..y.to)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(GRID.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(MUTED)
            .label_style((FONT, 13, &MUTED))
            .axis_desc_style((FONT, 14, &INK))
            .x_desc(x.title)
            .y_desc(y.title)
            .x_label_formatter(&|v| (x.format)(*v))
            .y_label_formatter(&|v| (y.format)(*v))
            .draw()?;
        // Faint ones first, so that they lie below.
        let mut order: Vec<&Line> = lines.iter().collect();
        order.sort_by_key(|l| !l.faint);
        for line in order {
            let colour = theme::series(line.colour);
            let style = colour.stroke_width(if line.faint { 1 } else { 3 });
            for p in line.points.iter().filter(|p| p[3] > p[2]) {
                chart.draw_series([PathElement::new([(p[0], p[2]), (p[0], p[3])], colour.stroke_width(1))])?;
            }
            chart.draw_series(LineSeries::new(line.points.iter().map(|p| (p[0], p[1])), style))?;
            let size = if line.faint { 2 } else { 4 };
            chart.draw_series(line.points.iter().map(|p| Circle::new((p[0], p[1]), size, colour.filled())))?;
        }
        let ends = lines.iter().filter_map(|l| {
            let p = l.points.last()?;
            Some((l, chart.backend_coord(&(p[0], p[1]))))
        });
        end_labels(root, ends.collect())
    })
}

/// Labels at line ends, moved apart so that none covers another.
fn end_labels(root: &Area, mut ends: Vec<(&Line, (i32, i32))>) -> Result<()> {
    const STEP: i32 = 19;
    ends.sort_by_key(|(l, (_, y))| (*y, l.colour));
    let last = 430 - 56;
    let mut at: Vec<i32> = Vec::new();
    for (_, (_, y)) in &ends {
        at.push((*y).max(at.last().map_or(16, |p| p + STEP)));
    }
    // What ran over the bottom is pushed up again.
    let mut limit = last;
    for y in at.iter_mut().rev() {
        *y = (*y).min(limit);
        limit = *y - STEP;
    }
    let column = ends.iter().map(|(_, (x, _))| *x).max().unwrap_or(0) + 26;
    for ((line, (x, y)), at) in ends.iter().zip(at) {
        let colour = theme::series(line.colour);
        root.draw(&PathElement::new([(x + 7, *y), (column - 4, at)], MUTED.mix(0.6).stroke_width(1)))?;
        let style = (FONT, 13, &colour).into_text_style(root).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(line.label.clone(), (column, at), style))?;
    }
    Ok(())
}

/// One row per policy, the first on top.
///
/// # Errors
/// plotters refuses the drawing.
pub fn rows(axis: &Axis, kind: &Rows, rows: &[Row]) -> Result<String> {
    const ROW: u32 = 30;
    let label = rows.iter().map(|r| r.label.len()).max().unwrap_or(0) as u32 * 7 + 24;
    let height = ROW * rows.len() as u32 + 74;
    drawn(height, |root| {
        let log = matches!(kind, Rows::Spans);
        let place = |v: f64| if log { v.max(axis.from).log10() } else { v.clamp(axis.from, axis.to) };
        let n = rows.len() as f64;
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .margin_right(64)
            .x_label_area_size(46)
            .y_label_area_size(label)
            .build_cartesian_2d(place(axis.from)..place(axis.to), n..0.0)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .light_line_style(GRID.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(MUTED)
            .label_style((FONT, 13, &MUTED))
            .axis_desc_style((FONT, 14, &INK))
            .x_desc(axis.title);
        let text = |v: &f64| (axis.format)(if log { 10f64.powf(*v) } else { *v });
        mesh.x_label_formatter(&text).x_labels(if log { 8 } else { 10 }).draw()?;
        let (left, _) = chart.backend_coord(&(place(axis.from), 0.0));
        for (i, row) in rows.iter().enumerate() {
            let y = i as f64 + 0.5;
            let colour = theme::series(row.colour);
            let v: Vec<f64> = row.values.iter().map(|v| place(*v)).collect();
            let (_, py) = chart.backend_coord(&(place(axis.from), y));
            let style = (FONT, 13, &INK).into_text_style(root).pos(Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(row.label.clone(), (left - 10, py), style))?;
            match (kind, &v[..]) {
                (Rows::Boxes, &[min, q1, median, q3, max]) => {
                    chart.draw_series([PathElement::new([(min, y), (max, y)], colour.stroke_width(1))])?;
                    for end in [min, max] {
                        chart.draw_series([PathElement::new(
                            [(end, y - 0.2), (end, y + 0.2)],
                            colour.stroke_width(1),
                        )])?;
                    }
                    let corners = [(q1, y - 0.3), (q3, y + 0.3)];
                    chart.draw_series([Rectangle::new(corners, PAPER.filled())])?;
                    chart.draw_series([Rectangle::new(corners, colour.mix(0.35).filled())])?;
                    chart.draw_series([Rectangle::new(corners, colour.stroke_width(1))])?;
                    chart.draw_series([PathElement::new(
                        [(median, y - 0.3), (median, y + 0.3)],
                        colour.stroke_width(3),
                    )])?;
                }
                (Rows::Spans, &[p50, p99, max]) => {
                    chart.draw_series([PathElement::new([(p50, y), (max, y)], colour.mix(0.55).stroke_width(2))])?;
                    chart.draw_series([Circle::new((p50, y), 5, PAPER.filled())])?;
                    chart.draw_series([Circle::new((p50, y), 5, colour.stroke_width(2))])?;
                    chart.draw_series([Circle::new((p99, y), 5, colour.filled())])?;
                    chart
                        .draw_series([PathElement::new([(max, y - 0.25), (max, y + 0.25)], colour.stroke_width(2))])?;
                }
                (Rows::Bars { base }, &[to]) => {
                    let corners = [(place(*base), y - 0.3), (to, y + 0.3)];
                    chart.draw_series([Rectangle::new(corners, colour.mix(0.85).filled())])?;
                    let (px, _) = chart.backend_coord(&(to, y));
                    let style = (FONT, 12, &MUTED).into_text_style(root).pos(Pos::new(HPos::Left, VPos::Center));
                    root.draw(&Text::new((axis.format)(row.values[0]), (px + 6, py), style))?;
                }
                _ => return Err(anyhow!("a row of {} values does not fit its chart", v.len())),
            }
        }
        Ok(())
    })
}

/// An SVG of the common width whose size a page may change.
fn drawn(height: u32, draw: impl FnOnce(&Area) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&PAPER)?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}
