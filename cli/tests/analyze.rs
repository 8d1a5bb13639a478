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

/// PORIS-E2 with Dom0's four VCPUs: twelve on four PCPUs, three to a PCPU.
const GROUP: &str = "[machine]\npcpus = 4\n[[vm]]\nname = \"web\"\ncount = 4\nvcpus = 2\nrt = \"on\"\nlatency = \"10ms\"\n\
    group = \"app\"\n[[vm]]\nname = \"idle\"\nvcpus = 1\n";

#[test]
fn latencies_and_groups() {
    let dir = workdir();
    std::fs::write(dir.path().join("g.toml"), GROUP).unwrap();
    let run = |extra: &[&str]| {
        let out = takt(dir.path(), &[&["analyze", "g.toml", "--json"], extra].concat());
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        (out.status.code(), json["poris"][0].clone())
    };
    let two = ["--set", "vm.web.latency=5ms", "--set", "dom0.vcpus=1", "--set", "vm.idle.vcpus=3"];
    let (status, json) = run(&two);
    let number = |of: &str| json[of].as_u64();
    assert_eq!(
        (status, number("vcpus"), number("slice_ns"), number("wait_ns")),
        (Some(0), Some(12), Some(2_000_000), Some(4_000_000))
    );
    let (_, json) = run(&["--set", "vm.web.latency=5ms", "--set", "dom0.vcpus=1"]);
    assert_eq!(json["vms"].as_array().map(Vec::len), Some(4));
    let group = &json["groups"][0];
    let want =
        [("subgroups", 2), ("too_many", 4), ("rounds", 2), ("lag_group_ns", 2_000_000), ("lag_rounds_ns", 1_000_000)];
    want.iter().for_each(|(key, value)| assert_eq!(group[key], *value, "{key}"));
    // More wait than the shortest slice allows.
    let (status, json) = run(&["--set", "vm.web.latency=1ms"]);
    assert_eq!((status, json["vms"][0]["slack_ns"].as_i64()), (Some(1), Some(-2_000_000)));
    let out = takt(dir.path(), &["analyze", "g.toml", "--set", "vm.web.vcpus=65"]);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.code() == Some(2) && error.trim().lines().count() == 1 && error.contains("group app: "),
        "{error}"
    );
    let text = String::from_utf8(takt(dir.path(), &["analyze", "g.toml"]).stdout).unwrap();
    assert!(text.contains("slice 3ms, longest wait 9ms") && !text.contains("Servers"), "{text}");
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

/// What `takt sim` refuses for want of room, `takt analyze` refuses, of the same VM; and a server
/// has a PCPU if rtxen has room without reserve.
#[test]
fn admission_is_that_of_a_run() {
    let dir = workdir();
    let mut rng = fastrand::Rng::with_seed(1);
    let servers = ["1ms/3ms", "5ms/10ms", "333us/1ms", "2ms/10ms", "9500us/10ms", "10ms/10ms", "1us/10s", "950us/2ms"];
    let (mut admitted, mut refused) = ([0; 3], [0; 3]);
    for case in 0..40 {
        let pcpus = rng.choice([1, 2, 4]).unwrap();
        let release = rng.choice(["random", "synchronous"]).unwrap();
        let mut text =
            format!("duration = \"1ms\"\nrelease = \"{release}\"\n[machine]\npcpus = {pcpus}\n[dom0]\nvcpus = 1\n");
        for n in 0..rng.u32(1..5) {
            let (budget, period) = rng.choice(servers).unwrap().split_once('/').unwrap();
            let (count, vcpus) = (rng.u32(1..3), rng.u32(1..4));
            text += &format!("[[vm]]\nname = \"v{n}\"\ncount = {count}\nvcpus = {vcpus}\n");
            text += &format!("budget = \"{budget}\"\nperiod = \"{period}\"\n");
            if rng.u32(0..4) == 0 {
                text += &format!("affinity = {}\n", rng.u32(0..pcpus));
            }
        }
        std::fs::write(dir.path().join("s.toml"), &text).unwrap();
        for (at, name) in ["rtxen", "sedf", "vgedf"].into_iter().enumerate() {
            let reserve = rng.choice(["", "(reserve=0)", "(reserve=5)", "(reserve=37)"]).unwrap();
            let policy = format!("{name}{reserve}");
            let analysis = takt(dir.path(), &["analyze", "s.toml", "--json", "-p", &policy]);
            let json: serde_json::Value = serde_json::from_slice(&analysis.stdout).expect("JSON");
            let run = takt(dir.path(), &["sim", "s.toml", "-p", &policy]);
            let error = String::from_utf8_lossy(&run.stderr);
            let admission = &json["admission"];
            assert_eq!(admission.as_array().map(Vec::len), Some(1));
            assert_eq!(admission[0]["policy"], policy);
            match admission[0]["refusal"].as_str() {
                None => {
                    admitted[at] += 1;
                    assert!(run.status.success(), "case {case}, {policy}: {error}\n{text}");
                }
                Some(why) => {
                    refused[at] += 1;
                    assert_eq!(analysis.status.code(), Some(1), "case {case}, {policy}");
                    assert!(
                        run.status.code() == Some(2) && error.contains(why),
                        "case {case}, {policy}: {error}\n{text}"
                    );
                    assert!(why.contains("reserve="), "{why}");
                }
            }
            if policy == "rtxen(reserve=0)" || policy == "sedf(reserve=0)" {
                let placed = json["vcpus"].as_array().unwrap().iter().all(|v| v["pcpu"].is_u64());
                assert_eq!(placed, admission[0]["refusal"].is_null(), "case {case}, {policy}\n{text}");
            }
        }
    }
    assert!(admitted.iter().chain(&refused).all(|&n| n >= 5), "{admitted:?} {refused:?}");
}

#[test]
fn the_reserve_of_each_policy_counts() {
    let dir = workdir();
    let vm = "[[vm]]\nname = \"a\"\ncount = 4\nvcpus = 1\nbudget = \"5ms\"\nperiod = \"10ms\"\n";
    let policies = "policies = [\"credit\", \"rtxen\", \"rtxen(reserve=0)\"]\n";
    std::fs::write(dir.path().join("f.toml"), format!("{policies}[machine]\npcpus = 2\n{vm}")).unwrap();
    let out = takt(dir.path(), &["analyze", "f.toml"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1));
    let why =
        "no PCPU has room for a budget of 5ms in 10ms (reserve=5 keeps 5 % of each PCPU for VCPUs without budget)";
    assert!(text.contains(&format!("\nrtxen: a-3: {why}\n")), "{text}");
    assert!(text.contains("\nrtxen(reserve=0): has room for every budget\n") && !text.contains("\ncredit"), "{text}");
    // Where no named policy keeps budgets, those that do are asked instead.
    let text = String::from_utf8(takt(dir.path(), &["analyze", "f.toml", "-p", "credit"]).stdout).unwrap();
    assert!(["rtxen", "sedf", "vgedf"].iter().all(|p| text.contains(&format!("\n{p}: a-"))), "{text}");
}

#[test]
fn a_scenario_without_budgets_is_an_error() {
    let dir = workdir();
    for extra in [&[][..], &["--json"]] {
        let out = takt(dir.path(), &[&["analyze", "host.toml"], extra].concat());
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
        let error = String::from_utf8_lossy(&out.stderr);
        let want = "takt: host.toml: nothing to analyze: no VM has a budget and a period, or rt = \"on\"";
        assert_eq!(error.trim(), want);
    }
}
