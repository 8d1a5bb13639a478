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

/// Numbers, hexadecimal ones and those in a name too, stand for any.
fn form(line: &str) -> String {
    let mut out = String::new();
    for word in line.trim_end().split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let hex = digits.strip_prefix("0x").unwrap_or(digits);
        if hex.chars().all(|c| c.is_ascii_hexdigit()) && hex.contains(|c: char| c.is_ascii_digit()) {
            out.push('#');
        } else {
            out.push_str(
                &digits.split(|c: char| c.is_ascii_digit()).filter(|p| !p.is_empty()).collect::<Vec<_>>().join("#"),
            );
            out.push_str(if digits.ends_with(|c: char| c.is_ascii_digit()) { "#" } else { "" });
        }
        out.push_str(&word[digits.len()..]);
    }
    out
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
