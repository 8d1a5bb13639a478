// SPDX-License-Identifier: GPL-2.0-only
//! Two pools by name, on the command line and in experiments.

mod common;

use common::{takt, workdir};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let out = takt(dir, args);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code(), serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn risa_gives_and_takes_pcpus_without_a_command() {
    let dir = workdir();
    let (status, all) = json(dir.path(), &["experiment", "RISA-E1", "--seeds", "1", "--json"]);
    assert_eq!(status, Some(0), "every gate holds");
    let rows = all["rows"].as_array().unwrap();
    let risa = rows.iter().find(|r| r["policy"] == "risa").unwrap();
    let fixed = rows.iter().find(|r| r["policy"] == "sp(rt=vgedf)").unwrap();
    assert_eq!((&risa["pool_commands"], &fixed["pool_commands"]), (&0.0.into(), &8.0.into()));
    assert_eq!((&risa["shrink_2_s"], &risa["shrink_3_s"]), (&15.0.into(), &15.0.into()));
}

#[test]
fn what_is_withheld_is_reported_and_judged_by_nobody() {
    let dir = workdir();
    let args = ["experiment", "RISA-E4", "--seeds", "1", "--duration", "1s", "--html", "a.html"];
    let out = takt(dir.path(), &args);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.contains("p99.9 us") && text.contains("risa"), "{text}");
    assert!(common::files(dir.path()).contains(&"a.html".to_owned()));
}

#[test]
fn a_scenario_with_pools_and_a_script_runs_by_name() {
    let dir = workdir();
    std::fs::write(dir.path().join("a.toml"), include_str!("../../scenarios/risa-pools.toml")).unwrap();
    let (_, all) = json(dir.path(), &["sim", "a.toml", "-p", "risa(delay=1s)", "--duration", "60s", "--json"]);
    let pools = &all["runs"][0]["pools"];
    assert_eq!((&pools["list"][1]["name"], &pools["list"][1]["pcpus"]), (&"rt".into(), &serde_json::json!([0])));
    assert_eq!(pools["moves"][2]["at_ns"], 51_000_000_000u64);
    for (policy, want) in [("risa(delay=2h)", "between 0 and 1h"), ("sp(pcpus=8)", "8 of 8 PCPUs")] {
        let out = takt(dir.path(), &["sim", "a.toml", "-p", policy]);
        let line = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && line.contains(want) && line.lines().count() == 1, "{line}");
    }
}
