// SPDX-License-Identifier: GPL-2.0-only
//! The charts of a report, drawn by plotters as SVG: each in a wide and a narrow variant, and as a
//! table of its values.

pub mod axis;
mod dots;
mod lines;
pub(crate) mod pen;
mod rows;

pub use axis::{Axis, Scale};
pub use dots::{Dots, Series};
pub use lines::{Line, Lines};
pub use rows::{Kind, Row, Rows};

use anyhow::Result;

/// A chart of any kind.
pub enum Chart {
    Lines(Lines),
    Rows(Rows),
    Dots(Dots),
}

/// For what width a chart is drawn. Its text is of one size in both, so that it is readable where
/// the page scales it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A screen of 720 px or more, or paper.
    Wide,
    /// A phone.
    Narrow,
}

impl Width {
    /// Width of the drawing, px.
    pub const fn px(self) -> u32 {
        match self {
            Width::Wide => 860,
            Width::Narrow => 340,
        }
    }
}

/// The values of a chart: heads of columns, then rows that begin with a name.
pub type Values = (Vec<String>, Vec<Vec<String>>);

impl Chart {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters refuses the drawing, or a row does not fit the kind of its chart.
    pub fn svg(&self, width: Width) -> Result<String> {
        match self {
            Chart::Lines(lines) => lines.svg(width),
            Chart::Rows(rows) => rows.svg(width),
            Chart::Dots(dots) => dots.svg(width),
        }
    }

    /// Whether nothing would be drawn: a short run may have no value.
    pub fn is_empty(&self) -> bool {
        match self {
            Chart::Lines(lines) => lines.lines.is_empty(),
            Chart::Rows(rows) => rows.rows.is_empty(),
            Chart::Dots(dots) => dots.series.is_empty(),
        }
    }

    /// What is drawn, as a table; `None` where that would be too long to read.
    pub fn values(&self) -> Option<Values> {
        match self {
            Chart::Lines(lines) => lines.values(),
            Chart::Rows(rows) => Some(rows.values()),
            Chart::Dots(dots) => Some(dots.values()),
        }
    }
}
