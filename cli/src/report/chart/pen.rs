// SPDX-License-Identifier: GPL-2.0-only
//! What charts draw with: text, lines, markers and legends, all in px of the drawing.

use crate::report::theme::{GRID, INK, MUTED, Marker, PAPER, Style};
use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axis, Width};

/// Height of text, px: a page scales charts to three quarters of it at the least.
pub const TEXT: f64 = 14.0;
/// Distance of lines of text, px.
pub const LINE: i32 = 20;
/// Width of a character, as a part of the height: that of wide fonts, so that labels fit in every
/// font.
const CHARACTER: f64 = 0.62;
/// plotters writes heights of text divided by this.
const PLOTTERS: f64 = 1.24;
/// What a legend's sample takes, px.
pub const SAMPLE: i32 = 34;

/// What the title of an axis leaves free, on both sides together, px.
const MARGINS: i32 = 16;

/// What there is for the title of an axis on a phone, px.
#[cfg(test)]
pub const NARROW: i32 = Width::Narrow.px() as i32 - MARGINS;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A drawing.
pub struct Pen<'a>(Area<'a>);

/// Which side of its place a text is on.
#[derive(Clone, Copy)]
pub enum Side {
    Left,
    Right,
    Middle,
}

/// A drawing of a width and height.
///
/// # Errors
/// plotters refuses it.
pub fn drawn(width: Width, height: i32, draw: impl FnOnce(&Pen) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (width.px(), height.max(1) as u32)).into_drawing_area();
        root.fill(&PAPER)?;
        let pen = Pen(root);
        draw(&pen)?;
        pen.0.present()?;
    }
    Ok(svg)
}

/// Width of a text, px.
pub fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * CHARACTER * TEXT).ceil() as i32
}

/// The text, without its middle if it is wider than so many px.
pub fn fitted(text: &str, px: i32) -> String {
    let most = (f64::from(px) / (CHARACTER * TEXT)) as usize;
    let all: Vec<char> = text.chars().collect();
    if all.len() <= most {
        return text.to_owned();
    }
    let end = most.saturating_sub(1) / 2;
    let begin = most.saturating_sub(1) - end;
    all[..begin].iter().chain(&['…']).chain(&all[all.len() - end..]).collect()
}

impl Pen<'_> {
    /// A line of text, its middle at `y`.
    pub fn text(&self, text: &str, (x, y): (i32, i32), colour: &RGBColor, side: Side) -> Result<()> {
        let side = match side {
            Side::Left => HPos::Right,
            Side::Right => HPos::Left,
            Side::Middle => HPos::Center,
        };
        let style = ("sans-serif", TEXT * PLOTTERS, colour).into_text_style(&self.0).pos(Pos::new(side, VPos::Center));
        Ok(self.0.draw(&Text::new(text.to_owned(), (x, y), style))?)
    }

    pub fn line(&self, points: &[(i32, i32)], style: impl Into<ShapeStyle>) -> Result<()> {
        Ok(self.0.draw(&PathElement::new(points.to_vec(), style))?)
    }

    /// A line of a series.
    pub fn series(&self, points: &[(i32, i32)], style: Style, width: u32) -> Result<()> {
        let stroke = style.colour.stroke_width(width);
        match style.dash {
            Some((on, off)) => Ok(self.0.draw(&DashedPathElement::new(points.to_vec(), on, off, stroke))?),
            None => self.line(points, stroke),
        }
    }

    pub fn rectangle(&self, corners: [(i32, i32); 2], style: impl Into<ShapeStyle>) -> Result<()> {
        Ok(self.0.draw(&Rectangle::new(corners, style))?)
    }

    /// A point of a series; `r` is half its width.
    pub fn marker(&self, (x, y): (i32, i32), style: Style, r: i32) -> Result<()> {
        let fill = style.colour.filled();
        match style.marker {
            Marker::Circle => Ok(self.0.draw(&Circle::new((x, y), r, fill))?),
            Marker::Square => self.rectangle([(x - r, y - r), (x + r, y + r)], fill),
            Marker::Triangle => self.polygon(&[(x - r, y + r), (x + r, y + r), (x, y - r)], fill),
            Marker::Diamond => self.polygon(&[(x - r - 1, y), (x, y - r - 1), (x + r + 1, y), (x, y + r + 1)], fill),
        }
    }

    fn polygon(&self, corners: &[(i32, i32)], style: impl Into<ShapeStyle>) -> Result<()> {
        Ok(self.0.draw(&Polygon::new(corners.to_vec(), style))?)
    }

    /// A ring.
    pub fn ring(&self, at: (i32, i32), colour: RGBColor, r: i32) -> Result<()> {
        self.0.draw(&Circle::new(at, r, PAPER.filled()))?;
        Ok(self.0.draw(&Circle::new(at, r, colour.stroke_width(2)))?)
    }

    /// A series' name behind a sample of its look, within so many px.
    pub fn sample(&self, label: &str, style: Style, (x, y): (i32, i32), px: i32, lines: bool) -> Result<()> {
        if lines {
            self.series(&[(x, y), (x + 24, y)], style, 2)?;
        }
        self.marker((x + 12, y), style, 4)?;
        self.text(&fitted(label, px - SAMPLE), (x + SAMPLE, y), &INK, Side::Right)
    }

    /// A horizontal axis below a plot from `left` to `right`: ticks with lines across the plot, and
    /// its title.
    pub fn below(&self, axis: &Axis, [left, right]: [i32; 2], [top, bottom]: [i32; 2]) -> Result<()> {
        let tick = axis.ticks(64).iter().map(|(_, text)| text_width(text)).max().unwrap_or(0).max(30) + 18;
        for (v, text) in axis.ticks(((right - left) / tick) as usize + 1) {
            let x = axis.px(v, [left, right]);
            self.line(&[(x, top), (x, bottom)], GRID)?;
            self.text(&text, (x, bottom + 14), &MUTED, Side::Middle)?;
        }
        self.line(&[(left, bottom), (right, bottom)], MUTED)?;
        // Below the middle of the axis, if there is room for it.
        let px = self.0.dim_in_pixel().0 as i32;
        let half = (text_width(&axis.title).min(px - MARGINS) + MARGINS) / 2;
        let middle = ((left + right) / 2).clamp(half, (px - half).max(half));
        self.text(&fitted(&axis.title, px - MARGINS), (middle, bottom + 36), &INK, Side::Middle)
    }
}

/// What [`Pen::sample`] takes in the whole, px.
pub fn sample_width(label: &str) -> i32 {
    SAMPLE + text_width(label)
}
