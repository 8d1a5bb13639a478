// SPDX-License-Identifier: GPL-2.0-only
//! A report as one HTML file that needs nothing else: no network, no font, no library.

use super::html::escape;
use super::theme;
use super::timeline::Timeline;
use std::fmt::Write;
use std::ops::Range;

const CSS: &str = include_str!("../../assets/report.css");
const DARK: &str = include_str!("../../assets/dark.css");
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
}

/// A chart with its caption.
pub struct Section {
    pub title: String,
    pub caption: String,
    pub svg: String,
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
    pub fn html(&self) -> String {
        let mut h = String::with_capacity(1 << 20);
        let title = escape(&self.title);
        let dark =
            format!("@media screen and (prefers-color-scheme: dark) {{\n{DARK}{}}}\n", theme::dark_rules("section"));
        let _ = write!(
            h,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{CSS}{dark}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"
        );
        for line in &self.lead {
            let _ = writeln!(h, "<p>{}</p>", escape(line));
        }
        h += "<ul class=\"facts\">\n";
        for (name, value) in &self.facts {
            let _ = writeln!(h, "<li>{} <b>{}</b></li>", escape(name), escape(value));
        }
        h += "</ul>\n</header>\n";
        if !self.headline.is_empty() {
            h += "<div class=\"headline\">\n";
            for (value, what) in &self.headline {
                let _ = writeln!(h, "<div><b>{}</b><span>{}</span></div>", escape(value), escape(what));
            }
            h += "</div>\n";
        }
        for block in &self.blocks {
            match block {
                Block::Chart(s) => s.write(&mut h),
                Block::Table(t) => t.write(&mut h),
                Block::Timeline(t) => t.write(&mut h),
            }
        }
        let _ = writeln!(h, "<footer>Made by takt {}.</footer>\n</main>", env!("CARGO_PKG_VERSION"));
        if self.blocks.iter().any(|b| matches!(b, Block::Timeline(_))) {
            let _ = writeln!(h, "<script>\n{SCRIPT}</script>");
        }
        h += "</body>\n</html>\n";
        h
    }
}

impl Section {
    fn write(&self, h: &mut String) {
        let _ = writeln!(
            h,
            "<section>\n<h2>{}</h2>\n<p>{}</p>\n{}\n</section>",
            escape(&self.title),
            escape(&self.caption),
            scalable(&self.svg)
        );
    }
}

impl Table {
    fn write(&self, h: &mut String) {
        let class = |n: usize| if self.numbers.contains(&n) { " class=\"n\"" } else { "" };
        let _ = writeln!(h, "<section>\n<h2>{}</h2>\n<p>{}</p>", escape(&self.title), escape(&self.caption));
        if self.folded {
            *h += "<details><summary>Show the table</summary>\n";
        }
        *h += "<div class=\"scroll\"><table>\n<thead><tr>";
        for (n, head) in self.head.iter().enumerate() {
            let _ = write!(h, "<th{}>{}</th>", class(n), escape(head));
        }
        *h += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            *h += "<tr>";
            for (n, cell) in row.iter().enumerate() {
                let class = match cell.chars().next() {
                    Some('✓') => " class=\"ok\"",
                    Some('✗') => " class=\"no\"",
                    _ => class(n),
                };
                let _ = write!(h, "<td{class}>{}</td>", escape(cell));
            }
            *h += "</tr>\n";
        }
        *h += "</tbody>\n</table></div>\n";
        *h += if self.folded { "</details>\n</section>\n" } else { "</section>\n" };
    }
}

/// Without its size in pixels, so that the page decides.
fn scalable(svg: &str) -> String {
    let Some(end) = svg.find('>') else { return svg.to_owned() };
    let (head, body) = svg.split_at(end);
    let kept: Vec<_> = head.split(' ').filter(|a| !a.starts_with("width=") && !a.starts_with("height=")).collect();
    format!("{} role=\"img\"{body}", kept.join(" "))
}
