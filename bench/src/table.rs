// SPDX-License-Identifier: GPL-2.0-only
//! Plain tables: the first column left, all others right.

use std::fmt::Write;

pub fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|r| r[i].chars().count());
        cells.chain([head[i].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (i, (cell, &w)) in cells.zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if i == 0 { write!(text, "  {cell:<w$}") } else { write!(text, "  {cell:>w$}") };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

/// 1234567 as "1,234,567".
pub fn grouped(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}
