// SPDX-License-Identifier: GPL-2.0-only
//! Aligned text tables, and the prose below them.

use comfy_table::{CellAlignment, Table, presets};
use std::ops::RangeBounds;

/// Columns of `numbers` are aligned right, those of text left.
pub fn render(title: &str, head: &[&str], rows: &[Vec<String>], numbers: impl RangeBounds<usize>) -> String {
    render_with(title, head, rows, |n| numbers.contains(&n))
}

/// [`render`], where columns of numbers are anywhere.
pub fn render_with(title: &str, head: &[&str], rows: &[Vec<String>], is_number: impl Fn(usize) -> bool) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| crate::output::shown(cell)));
    }
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if n == 0 { 0 } else { 1 }, 1));
        if is_number(n) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let body: String = table.lines().map(|l| format!("{}\n", l.trim_end())).collect();
    if title.is_empty() { body } else { format!("{title}\n{body}") }
}

/// Characters of a line of prose.
const WIDTH: usize = 100;

/// Prose in lines that a terminal and a page show whole; all but the first are indented. No name such as RISA-E2-50 is
/// split.
pub fn wrapped(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH).subsequent_indent("  ");
    textwrap::fill(text, options.word_splitter(textwrap::WordSplitter::NoHyphenation)) + "\n"
}

#[test]
fn names_with_a_hyphen_stay_whole() {
    let text = format!("{} RISA-E2-50", "x".repeat(WIDTH - 8));
    assert_eq!(wrapped(&text), format!("{}\n  RISA-E2-50\n", "x".repeat(WIDTH - 8)));
}
