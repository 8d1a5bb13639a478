// SPDX-License-Identifier: GPL-2.0-only
//! Console lines beside those of a boot without Takt.

use std::collections::BTreeSet;

/// What Takt may say that a stock boot does not; numbers are `#`.
const ANNOUNCED: [&str; 5] = [
    "(XEN) Command line: ",
    "(XEN) Using scheduler: Takt (takt)",
    "(XEN) takt: a pool with policy ",
    // By what number Takt goes.
    "xen_scheduler          : null",
    "Pool-#               #      null ",
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

#[test]
fn foreign_lines_are_found() {
    let stock = "(XEN) CPU0: 12 MHz\n(XEN) at ffff82d0, 0x1f\n";
    let ours =
        "(XEN) CPU1: 7 MHz\n(XEN) at ffff83d1, 0x2\n(XEN) takt: a pool with policy rr\n(XEN) takt: oh\n(d1) TINY\n";
    assert_eq!(foreign(ours, stock), ["(XEN) takt: oh"]);
}
