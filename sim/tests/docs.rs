// SPDX-License-Identifier: GPL-2.0-only
//! `docs/scenarios.md` says what the code says.

use takt_sim::CONSTANTS;

#[test]
fn every_constant_is_documented() {
    let doc = include_str!("../../docs/scenarios.md");
    let table: String = CONSTANTS
        .iter()
        .map(|c| {
            let unit = c.unit.name();
            format!("| `{}` | {unit} | {} | {} | {} |\n", c.key, c.unit.show(c.default), c.range(), c.reason)
        })
        .collect();
    assert!(doc.contains(&table), "the table of constants should read\n{table}");
}
