// SPDX-License-Identifier: GPL-2.0-only
//! `takt sim --csv` and `--columns` against `--json`.

mod common;

use common::{files, takt, workdir};
use serde_json::Value;

const RUN: [&str; 8] =
    ["sim", "host.toml", "--duration", "200ms", "--seed=1-2", "-pcredit", "-p", "doris(dom0=off,slice=5ms)"];

#[track_caller]
fn printed(args: &[&str]) -> String {
    let dir = workdir();
    let out = takt(dir.path(), &[&RUN[..], args].concat());
    assert_eq!(files(dir.path()), ["host.toml"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// Cells of a line (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("a cell").push(c),
        }
    }
    cells
}

#[test]
fn a_row_has_what_json_has_of_the_vm() {
    let document: Value = serde_json::from_str(&printed(&["--json"])).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let vms: Vec<(&Value, &Value)> =
        runs.iter().flat_map(|run| run["vms"].as_array().unwrap().iter().map(move |vm| (run, vm))).collect();
    let csv = printed(&["--csv"]);
    let lines: Vec<_> = csv.lines().map(cells).collect();
    assert_eq!(lines.len(), 1 + vms.len());
    let at = |row: &[String], name: &str| row[lines[0].iter().position(|c| c == name).expect(name)].clone();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (row, (run, vm)) in lines[1..].iter().zip(&vms) {
        assert_eq!(row.len(), lines[0].len(), "{row:?}");
        for key in ["scenario", "policy", "seed"] {
            assert_eq!(at(row, key), text(&run[key]), "{row:?}");
        }
        assert_eq!((at(row, "name"), at(row, "workload")), (text(&vm["name"]), text(&vm["workload"])));
        let wait = &vm["wait"]["all"];
        for key in ["p50_ns", "p99_ns", "max_ns"] {
            let want = if wait["entries"] == 0 { String::new() } else { text(&wait[key]) };
            assert_eq!(at(row, &format!("wait_{key}")), want, "{row:?}");
        }
        if let (Some(found), true) = (vm["found"].as_object(), vm["kind"] == "guest" && vm["rt"] == true) {
            let since = found["at_ns"].as_i64().unwrap() + run["warmup_ns"].as_i64().unwrap();
            assert_eq!((at(row, "rule"), at(row, "since_ns")), (text(&found["rule"]), since.to_string()));
        }
    }
    assert!(lines.iter().any(|row| at(row, "rule") == "rtp"), "{csv}");
}

#[test]
fn columns_are_those_that_are_named() {
    let csv = printed(&["--csv", "--columns", "seed,name,wait_max_ns"]);
    assert_eq!(csv.lines().next(), Some("seed,name,wait_max_ns"));
    assert!(csv.lines().all(|line| cells(line).len() == 3));
    let table = printed(&["--columns", "seed,name,wait_max_ns"]);
    let head: Vec<_> = table.lines().nth(1).unwrap().split("  ").filter(|w| !w.is_empty()).map(str::trim).collect();
    assert_eq!(head, ["seeds", "VM", "wait max us"]);
    assert!(table.lines().nth(2).unwrap().starts_with("1-2 "), "{table}");
    assert!(table.contains("batch CPU-s"), "the host's table: {table}");
}
