// SPDX-License-Identifier: GPL-2.0-only
//! A report as one HTML file that needs nothing else: no network, no font, no library.

use super::chart::{Chart, Width};
use super::html::{escape, table};
use super::theme;
use super::timeline::Timeline;
use anyhow::Result;
use std::fmt::Write;
use std::ops::Range;

const CSS: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/timeline.js");

/// What a report consists of; every text is plain, escaped here.
#[derive(Default)]
pub struct Page {
    pub title: String,
    /// What one looks at, and why.
    pub lead: Vec<String>,
    /// Name and value: seeds, duration, policies.
    pub facts: Vec<(String, String)>,
    /// Figures to be read first: value and what it is.
    pub headline: Vec<(String, String)>,
    /// In the order of the page.
    pub blocks: Vec<Block>,
}

/// A part of a page; it has one timeline at most.
pub enum Block {
    Chart(Section),
    Table(Table),
    Timeline(Timeline),
    /// A remark on what is there, and what is not.
    Note(String),
}

/// A chart with its caption.
pub struct Section {
    pub title: String,
    pub caption: String,
    pub chart: Chart,
}

/// The charts of a scenario or an experiment.
#[derive(Default)]
pub struct Charts {
    pub charts: Vec<Section>,
    /// A remark if some are not there.
    pub left_out: Option<String>,
}

impl Charts {
    /// Most of them: a page of more is searched, not read.
    pub const MOST: usize = 12;

    /// The charts, then the remark.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        self.charts.into_iter().map(Block::Chart).chain(self.left_out.map(Block::Note))
    }
}

/// A table; cells that begin with ✓ or ✗ are coloured.
pub struct Table {
    pub title: String,
    pub caption: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Columns that are numbers.
    pub numbers: Range<usize>,
    /// Behind a line to be opened.
    pub folded: bool,
}

impl Page {
    /// The whole file.
    ///
    /// # Errors
    /// A chart cannot be drawn.
    pub fn html(&self) -> Result<String> {
        let mut h = String::with_capacity(1 << 20);
        let (title, rules) = (escape(&self.title), theme::rules());
        let _ = write!(
            h,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{rules}{CSS}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
        );
        for line in &self.lead {
            let _ = writeln!(h, "<p>{}</p>", escape(line));
        }
        h += "<ul class=\"facts\">\n";
        for (name, value) in &self.facts {
            let _ = writeln!(h, "<li>{} <b>{}</b></li>", escape(name), escape(value));
        }
        h += "</ul>\n</header>\n<main>\n";
        if !self.headline.is_empty() {
            h += "<div class=\"headline\">\n";
            for (value, what) in &self.headline {
                let _ = writeln!(h, "<div><b>{}</b><span>{}</span></div>", escape(value), escape(what));
            }
            h += "</div>\n";
        }
        for (n, block) in self.blocks.iter().enumerate() {
            match block {
                Block::Chart(s) => s.write(&mut h, n)?,
                Block::Table(t) => t.write(&mut h),
                Block::Timeline(t) => t.write(&mut h),
                Block::Note(text) => {
                    let _ = writeln!(h, "<p class=\"note\">{}</p>", escape(text));
                }
            }
        }
        let _ = writeln!(h, "</main>\n<footer>Made by takt {}.</footer>", env!("CARGO_PKG_VERSION"));
        if self.blocks.iter().any(|b| matches!(b, Block::Timeline(_))) {
            let _ = writeln!(h, "<script>\n{SCRIPT}</script>");
        }
        h += "</body>\n</html>\n";
        Ok(h)
    }
}

impl Section {
    /// With a title that says of what it is, and a caption that says which runs it shows.
    #[must_use]
    pub fn based(self, of: &str, basis: &str) -> Self {
        let (title, caption) = (format!("{of}{}", self.title), format!("{} {basis}.", self.caption));
        Self { title, caption, ..self }
    }

    /// Both variants of the chart, of which the style sheet shows one, and its values; `n` tells it
    /// from the others of the page.
    fn write(&self, h: &mut String, n: usize) -> Result<()> {
        let (title, caption) = (escape(&self.title), escape(&self.caption));
        let _ = writeln!(h, "<section>\n<h2 id=\"chart-{n}\">{title}</h2>\n<p id=\"about-{n}\">{caption}</p>");
        for (class, width) in [("wide", Width::Wide), ("narrow", Width::Narrow)] {
            let names = format!("class=\"{class}\" aria-labelledby=\"chart-{n}\" aria-describedby=\"about-{n}\"");
            let _ = writeln!(h, "{}", scalable(&self.chart.svg(width)?, &names));
        }
        if let Some((head, rows)) = self.chart.values() {
            *h += "<details><summary>Values</summary>\n";
            table(h, &format!("Values: {}", self.title), &head, &rows, &(1..usize::MAX));
            *h += "</details>\n";
        }
        *h += "</section>\n";
        Ok(())
    }
}

impl Table {
    fn write(&self, h: &mut String) {
        let _ = writeln!(h, "<section>\n<h2>{}</h2>\n<p>{}</p>", escape(&self.title), escape(&self.caption));
        if self.folded {
            *h += "<details><summary>Show the table</summary>\n";
        }
        table(h, &self.title, &self.head, &self.rows, &self.numbers);
        *h += if self.folded { "</details>\n</section>\n" } else { "</section>\n" };
    }
}

/// Without its size in pixels, so that the page decides, and with other attributes instead.
fn scalable(svg: &str, attributes: &str) -> String {
    let Some(end) = svg.find('>') else { return svg.to_owned() };
    let (head, body) = svg.split_at(end);
    let kept: Vec<_> = head.split(' ').filter(|a| !a.starts_with("width=") && !a.starts_with("height=")).collect();
    format!("{} role=\"img\" {attributes}{body}", kept.join(" "))
}
