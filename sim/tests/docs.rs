// SPDX-License-Identifier: GPL-2.0-only
//! `docs/scenarios.md` says what the code says.

use takt_control::spec::PRESETS;
use takt_sim::parallel::PROFILES;
use takt_sim::units::Unit;
use takt_sim::{CONSTANTS, Kind};

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

#[test]
fn every_workload_is_documented() {
    let doc = include_str!("../../docs/scenarios.md");
    let mut table = String::new();
    for kind in Kind::ALL {
        table += &format!("| `{}` | | | | {} |\n", kind.name(), kind.doc());
        for key in kind.keys() {
            table += &format!("| | `{}` | {} | {} | {} |\n", key.name, key.default, key.allowed, key.doc);
        }
    }
    assert!(doc.contains(&table), "the table of workloads should read\n{table}");
}

/// The worked example of docs/writing-a-workload.md is the workload that runs.
#[test]
fn the_example_in_the_docs_is_the_workload_that_runs() {
    let doc = include_str!("../../docs/writing-a-workload.md");
    let code = doc.split("```rust\n").nth(1).and_then(|s| s.split("\n```").next()).expect("a Rust block");
    assert!(
        include_str!("../src/workload/lookbusy.rs").ends_with(&format!("{code}\n")),
        "docs/writing-a-workload.md quotes a sim/src/workload/lookbusy.rs that is gone"
    );
}

#[test]
fn every_profile_is_documented() {
    let doc = include_str!("../../docs/scenarios.md");
    let time = |ns| Unit::Time.show(ns);
    let row = |p: &takt_sim::parallel::Profile| {
        let plan = p.plan;
        let (compute, held) = (time(plan.compute), time(plan.held));
        let ways = format!("{compute} | {} | {} | {held} | {}", plan.spread, plan.locks, plan.barrier);
        format!("| `{}` | {ways} | {} |\n", p.name, p.reason)
    };
    let table: String = PROFILES.iter().map(row).collect();
    assert!(doc.contains(&table), "the table of profiles should read\n{table}");
}

#[test]
fn every_preset_is_documented() {
    let doc = include_str!("../../docs/scenarios.md");
    let table: String = PRESETS.iter().map(|p| format!("| `{}` | `{}` | {} |\n", p.name, p.means, p.doc)).collect();
    assert!(doc.contains(&table), "the table of presets should read\n{table}");
}
