// SPDX-License-Identifier: GPL-2.0-only
//! Console lines beside those of a boot without Takt.

use std::collections::BTreeSet;

/// What Takt may say that a stock boot does not; numbers are `#`.
const ANNOUNCED: [&str; 4] = [
    "(XEN) Command line: ",
    "(XEN) Using scheduler: Takt (takt)",
    "(XEN) takt: a pool with policy ",
    "xen_scheduler          : null",
];

/// What the case prints, and differs by nature.
const OF_THE_CASE: [&str; 5] = ["(XEN) cost ", "(d", "T[", "takt-ctl:", "LAB "];

/// Numbers, hexadecimal ones too, stand for any.
fn form(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let digits = word.strip_prefix("0x").unwrap_or(&word);
        let number = digits.chars().all(|c| c.is_ascii_hexdigit()) && digits.chars().any(|c| c.is_ascii_digit());
        out.push_str(if number { "#" } else { &word });
        out.push(c);
        word.clear();
    }
    out.trim_end().into()
}

fn lines(console: &str) -> BTreeSet<String> {
    console.lines().filter(|l| !OF_THE_CASE.iter().any(|p| l.starts_with(p))).map(form).collect()
}

/// Lines of `console` that `stock` has none of their kind of, and that are not announced.
pub fn foreign(console: &str, stock: &str) -> Vec<String> {
    let known = lines(stock);
    lines(console).into_iter().filter(|l| !known.contains(l) && !ANNOUNCED.iter().any(|a| l.starts_with(a))).collect()
}
