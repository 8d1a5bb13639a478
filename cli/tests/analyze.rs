// SPDX-License-Identifier: GPL-2.0-only
//! `takt analyze`: JSON, exit status, and what it refuses.

mod common;

use common::{files, takt, workdir};

const SERVERS: &str = "[machine]\npcpus = 2\n[[vm]]\nname = \"a\"\nvcpus = 1\naffinity = 1\nbudget = \"2ms\"\nperiod = \"5ms\"\n\
    priority = 1\nworkload = { type = \"tasks\", tasks = \"1ms/20ms, 3ms/30ms\" }\n";

#[test]
fn what_fits_and_by_how_much() {
    let dir = workdir();
    std::fs::write(dir.path().join("a.toml"), SERVERS).unwrap();
    let run = |extra: &[&str]| {
        let out = takt(dir.path(), &[&["analyze", "a.toml", "--json"], extra].concat());
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        (out.status.code(), json)
    };
    let (status, json) = run(&[]);
    assert_eq!(status, Some(0));
    // 1 ms: the budget has just gone, 3 ms until the next; then 4 ms of work: two budgets, 3 + 2 + 3 + 2.
    let tasks = &json["vcpus"][0]["tasks"];
    assert_eq!(tasks[0]["response"]["deferrable"]["response_ns"], 4_000_000);
    assert_eq!(tasks[1]["response"]["periodic"]["slack_ns"], 20_000_000);
    assert_eq!((&json["pools"][0]["pcpus"], &json["does_not_fit"]["deferrable"]), (&1.into(), &serde_json::json!([])));
    let (status, json) = run(&["--set", "vm.a.tasks=8ms/20ms,3ms/30ms"]);
    assert_eq!((status, &json["does_not_fit"]["periodic"]), (Some(1), &serde_json::json!(["a"])));
    let out = takt(dir.path(), &["analyze", "missing.toml"]);
    assert!(out.status.code() == Some(2) && String::from_utf8_lossy(&out.stderr).contains("missing.toml"));
    let text = String::from_utf8(takt(dir.path(), &["analyze", "a.toml"]).stdout).unwrap();
    assert!(text.contains("deferrable servers: every VM fits"), "{text}");
    assert_eq!(files(dir.path()), ["a.toml", "host.toml"], "it writes nothing");
}

#[test]
fn rt_xens_experiments_name_their_variants() {
    let dir = workdir();
    let args = ["experiment", "RTXEN-E5", "--seeds", "1", "--duration", "200ms", "--set", "load=30", "--json"];
    let json: serde_json::Value = serde_json::from_slice(&takt(dir.path(), &args).stdout).expect("JSON");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|r| r["x"] == 30 && r["accepted"].is_f64() && r["variant"].is_string()));
}
