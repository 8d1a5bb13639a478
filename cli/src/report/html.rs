// SPDX-License-Identifier: GPL-2.0-only
//! Text and tables within a page.

use std::fmt::Write;
use std::ops::Range;

/// Text for HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(c),
        }
    }
    out
}

/// Characters from which on a text gets room to be read, where the table is wider than the page.
const LONG: usize = 28;

/// A table that scrolls within itself, by keys as well.
pub(super) fn table(h: &mut String, name: &str, head: &[String], rows: &[Vec<String>], numbers: &Range<usize>) {
    let class = |n: usize| if numbers.contains(&n) { " class=\"n\"" } else { "" };
    let _ = write!(
        h,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\"><table>\n<thead><tr>",
        escape(name)
    );
    for (n, head) in head.iter().enumerate() {
        let _ = write!(h, "<th scope=\"col\"{}>{}</th>", class(n), escape(head));
    }
    *h += "</tr></thead>\n<tbody>\n";
    for row in rows {
        *h += "<tr>";
        for (n, cell) in row.iter().enumerate() {
            let class = match cell.chars().next() {
                Some('✓') => " class=\"ok\"",
                Some('✗') => " class=\"no\"",
                _ if cell.len() > LONG && !numbers.contains(&n) => " class=\"long\"",
                _ => class(n),
            };
            let _ = write!(h, "<td{class}>{}</td>", escape(cell));
        }
        *h += "</tr>\n";
    }
    *h += "</tbody>\n</table></div>\n";
}
