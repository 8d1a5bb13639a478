// SPDX-License-Identifier: GPL-2.0-only
//! Files that the program carries: `experiments/*.toml`, `scenarios/*.toml` and
//! `cli/templates/*.toml`.

// By name: EXPERIMENTS, SCENARIOS and TEMPLATES, which build.rs lists.
include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// The text of the scenario of that name.
pub fn scenario(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
