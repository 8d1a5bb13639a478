// SPDX-License-Identifier: GPL-2.0-only
//! Every document that the program prints is what docs/schema says of it, and nothing more.

mod common;

#[path = "common/schema.rs"]
mod schema;

use common::{files, takt, workdir};
use schema::{check, example, file, valid};
use serde_json::{Value, json};
use std::path::Path;
use takt::analyze::Analysis;
use takt::experiment::{Listed, Outcome};
use takt::inspect::Inspected;
use takt::lab::compare::Compared;
use takt::policies::Policies;
use takt::scenarios::Scenarios;
use takt::schema::{OLD_NAMES, SCHEMAS};
use takt::{lab, replay, simulate};
use takt_control::bench::{self, HostUse, Report, TaktWaits, Threads, VmUse};
use takt_control::doctor::{Examination, Verdict};
use takt_control::document::{self, TAKT};
use takt_control::event::{Cpupool, Done, Event};
use takt_control::overhead::Window;
use takt_control::socket::{self, Request};
use takt_lab::LabRun;
use takt_lab::hosts::{Comparison, Did, Figures, HostRun, LINUX, SIMULATOR, XEN};
use takt_sim::RunResult;

/// What a command prints.
#[track_caller]
fn printed(dir: &Path, args: &[&str]) -> Value {
    let out = takt(dir, args);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}

/// The same with at most two elements of each list, for an example.
fn short(mut value: Value) -> Value {
    match &mut value {
        Value::Array(all) => {
            all.truncate(2);
            all.iter_mut().for_each(|v| *v = short(v.take()));
        }
        Value::Object(all) => all.values_mut().for_each(|v| *v = short(v.take())),
        _ => {}
    }
    value
}

/// One VM that computes and one that has deadlines, on one PCPU.
const SMALL: &str = "duration = \"100ms\"\n[machine]\npcpus = 1\n[dom0]\nvcpus = 1\n[[vm]]\nname = \"hog\"\nvcpus = 1\n\
    workload = \"hog\"\n[[vm]]\nname = \"rt\"\nvcpus = 1\nworkload = { type = \"periodic\", period = \"10ms\", work = \"1ms\" }\n";

/// The result of a run of it.
fn run() -> Value {
    let dir = workdir();
    std::fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    printed(dir.path(), &["sim", "small.toml", "-p", "credit", "--json"])
}

#[test]
fn the_program_prints_the_schemas_that_the_documents_have() {
    if std::env::var_os("TAKT_BLESS").is_some() {
        return; // the program was built with the old ones
    }
    let dir = workdir();
    let there = files(file("sim").parent().unwrap());
    let mut there: Vec<_> = there.iter().filter_map(|name| name.strip_suffix(".json")).collect();
    there.sort_unstable();
    assert_eq!(there, SCHEMAS.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    let list = String::from_utf8(takt(dir.path(), &["schema"]).stdout).unwrap();
    for (name, ..) in SCHEMAS {
        assert!(list.lines().any(|l| l.split_whitespace().next() == Some(name)), "{name}: {list}");
        let out = takt(dir.path(), &["schema", name]);
        assert_eq!(out.stdout, std::fs::read(file(name)).unwrap(), "{name}");
        let schema: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let example: Value =
            serde_json::from_slice(&std::fs::read(file(&format!("examples/{name}"))).unwrap()).unwrap();
        check(schema, &example).unwrap_or_else(|e| panic!("docs/schema/examples/{name}.json: {e}"));
    }
    for (old, current) in OLD_NAMES {
        assert!(SCHEMAS.iter().all(|(name, ..)| name != old), "{old} is a document");
        let out = takt(dir.path(), &["schema", old]);
        assert_eq!(out.stdout, std::fs::read(file(current)).unwrap(), "{old}");
    }
    let out = takt(dir.path(), &["schema", "simm"]);
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(
        out.status.code() == Some(2)
            && error.starts_with("takt: no document `simm` (did you mean `sim`?); known: analyze, "),
        "{error}"
    );
}

#[test]
fn a_check_can_fail() {
    let good = run();
    valid::<simulate::Runs>(&good);
    let bad = |change: fn(&mut Value)| {
        let mut bad = good.clone();
        change(&mut bad);
        check(document::schema::<simulate::Runs>(), &bad).unwrap_err()
    };
    assert!(bad(|v| v["more"] = 1.into()).contains("more"), "an unknown field at the top");
    assert!(bad(|v| v["runs"][0]["vms"][0]["more"] = 1.into()).contains("more"), "an unknown field further down");
    assert!(bad(|v| v["version"] = 2.into()).contains("version"));
    assert!(bad(|v| drop(v.as_object_mut().unwrap().remove("version"))).contains("version"));
    assert!(bad(|v| v["runs"][0]["seed"] = "1".into()).contains("seed"), "another type");
    assert!(
        bad(|v| drop(v["runs"][0].as_object_mut().unwrap().remove("host"))).contains("host"),
        "a field that is gone"
    );
}

#[test]
fn versions_are_the_first_keys() {
    let dir = workdir();
    let text = String::from_utf8(takt(dir.path(), &["policies", "--json"]).stdout).unwrap();
    assert!(text.starts_with(&format!("{{\n  \"version\": 1,\n  \"takt\": \"{TAKT}\",\n")), "{text}");
}

#[test]
fn policies_and_lists() {
    let dir = workdir();
    let all = printed(dir.path(), &["policies", "--json"]);
    valid::<Policies>(&all);
    example::<Policies>(&short(all));
    let mut all = printed(dir.path(), &["scenarios", "--json"]);
    valid::<Scenarios>(&all);
    let of = |s: &Value| ["tiny", "voip"].map(Value::from).contains(&s["name"]);
    all["scenarios"].as_array_mut().unwrap().retain(of);
    example::<Scenarios>(&short(all));
    let all = printed(dir.path(), &["experiment", "list", "--json"]);
    all.as_array().unwrap().iter().for_each(valid::<Listed>);
    example::<Listed>(&all[0]);
}

#[test]
fn simulations_of_every_kind() {
    let dir = workdir();
    example::<simulate::Runs>(&run());
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut fields = std::collections::BTreeSet::new();
    for scenario in std::fs::read_dir(scenarios).unwrap().map(|e| e.unwrap().path()) {
        let args = ["sim", scenario.to_str().unwrap(), "--duration", "50ms", "--json", "-p"];
        let policy = if scenario.ends_with("risa-pools.toml") { "risa" } else { "doris" };
        let runs = printed(dir.path(), &[&args[..], &[policy]].concat());
        valid::<simulate::Runs>(&runs);
        let vms = runs["runs"][0]["vms"].as_array().unwrap().clone();
        let of =
            |vm: Value| vm.as_object().unwrap().iter().filter(|(_, v)| !v.is_null()).map(|(k, _)| k.clone()).collect();
        vms.into_iter().for_each(|vm| fields.append(&mut of(vm)));
    }
    for kind in ["voip", "vod", "video", "periodic", "tasks", "cyclictest", "parallel", "fanout", "jobs", "tx"] {
        assert!(fields.contains(kind), "no scenario has {kind}");
    }
}

#[test]
fn experiments() {
    let dir = workdir();
    let sets = ["experiment", "RTXEN-E5", "--seeds", "1", "--duration", "200ms", "--set", "load=30", "--json"];
    let all = printed(dir.path(), &sets);
    valid::<Outcome>(&all);
    example::<Outcome>(&short(all));
    let calls = ["experiment", "DORIS-E2", "--seeds", "1", "--duration", "200ms", "--set", "vm.voip.calls=5", "--json"];
    valid::<Outcome>(&printed(dir.path(), &calls));
}

#[test]
fn analyses() {
    let dir = workdir();
    let text = "[machine]\npcpus = 2\n[[vm]]\nname = \"a\"\nvcpus = 1\nbudget = \"2ms\"\nperiod = \"5ms\"\n\
        workload = { type = \"tasks\", tasks = \"1ms/20ms, 3ms/30ms\" }\n\
        [[vm]]\nname = \"b\"\nvcpus = 2\nrt = \"on\"\nlatency = \"10ms\"\ngroup = \"web\"\n";
    std::fs::write(dir.path().join("a.toml"), text).unwrap();
    example::<Analysis>(&printed(dir.path(), &["analyze", "a.toml", "--json"]));
    let late = ["analyze", "a.toml", "--json", "--set", "vm.a.tasks=8ms/20ms,3ms/30ms", "--set", "vm.b.latency=1ms"];
    valid::<Analysis>(&printed(dir.path(), &late));
}

/// A capture of packets of sound, 20 ms from one to the next, and one that is no IP.
fn capture() -> Vec<u8> {
    const RAW: u32 = 101;
    let head = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, RAW];
    let mut bytes: Vec<u8> = head.iter().flat_map(|n: &u32| n.to_le_bytes()).collect();
    let mut add = |us: u32, packet: &[u8]| {
        let record = [us / 1_000_000, us % 1_000_000, packet.len() as u32, packet.len() as u32];
        bytes.extend(record.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(packet);
    };
    for n in 0..50u16 {
        let ip = [0x45, 0, 0, 200, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let udp = [0x13, 0x8c, 0x13, 0x8e, 0, 180, 0, 0];
        let rtp = [&[0x80, 0][..], &n.to_be_bytes(), &(160 * u32::from(n)).to_be_bytes(), &[1, 2, 3, 4]].concat();
        add(20_000 * u32::from(n), &[&ip[..], &udp, &rtp, &[0xd5; 160]].concat());
    }
    add(1_000_000, &[0; 20]);
    bytes
}

#[test]
fn captures() {
    let dir = workdir();
    std::fs::write(dir.path().join("a.pcap"), capture()).unwrap();
    let report = printed(dir.path(), &["inspect", "a.pcap", "--json"]);
    assert_eq!(report["senders"][0]["rule"], "rtp", "{report}");
    example::<Inspected>(&report);
}

#[test]
fn recordings() {
    let dir = workdir();
    let record = ["sim", "host.toml", "-p", "doris", "--duration", "20ms", "--record", "run.log"];
    assert!(takt(dir.path(), &record).status.success());
    example::<replay::Report>(&printed(dir.path(), &["replay", "run.log", "--json"]));
    let done = Done { file: "/root/a.log".into(), operations: 3863, seconds: 1.5, cut: false, rt_pool: None };
    example::<Done>(&document::value(&done).unwrap());
    valid::<Done>(&document::value(&Done { rt_pool: Some("/root/a.log.rt".into()), ..done }).unwrap());
}

#[test]
fn windows() {
    let mut took = takt_policy::Overhead::default();
    (0..1000).for_each(|n| took.decision.add(500 + n));
    (0..100).for_each(|n| took.switch.add(5_000 + n));
    let window = Window::new("doris", 2, (1_000_000, 11_000_000), &took);
    example::<Window>(&document::value(&window).unwrap());
}

#[test]
fn examinations() {
    let mut found = Examination::default();
    found.add("sched_ext", Verdict::Ok, "Linux 7.3.4 has sched_ext");
    found.add("vm pbx", Verdict::Warn, "process 13: its packets cannot be seen (vhost-user)");
    example::<Examination>(&document::value(&found).unwrap());
}

#[test]
fn reports_of_a_host() {
    let host = HostUse { busy_s: 240.5, system_s: 20.0, irq_s: 1.5, steal_s: 0.0, switches: 500_000, bpf_run_s: None };
    let vcpus = Threads { threads: 2, run_s: 60.0, wait_s: 1.3, slices: 20_000, voluntary: 19_000, involuntary: 1_000 };
    let io = Threads { threads: 1, run_s: 6.5, wait_s: 0.2, slices: 40_000, voluntary: 40_000, involuntary: 0 };
    let phase = |n| {
        let scheduler = bench::Scheduler::of_phase(n);
        let takt = scheduler == bench::Scheduler::Takt;
        let waits = takt.then_some(TaktWaits { count: 60_000, p50_us: 2.0, p99_us: 41.0 });
        let vcpus = Threads { wait_s: if takt { 0.65 } else { vcpus.wait_s }, ..vcpus };
        let vm = VmUse { vm: "1".into(), vcpus, io, others: Threads::default(), waits };
        let host = HostUse { bpf_run_s: takt.then_some(1.2), ..host };
        bench::Phase { scheduler, seconds: 65.0, host, vms: vec![vm] }
    };
    let cpu = "AMD EPYC 7763 64-Core Processor".into();
    let host = bench::Host { kernel: "7.3.4".into(), cpu, cpus: 4, policy: "doris".into(), configured: true };
    let plan = bench::Plan { phases: 8, phase_s: 75.0, warmup_s: 10.0 };
    let whole = |phases: u32, partial: Option<&str>| {
        let phases = (0..phases).map(phase).collect();
        let (ratios, notes, partial) = (Vec::new(), Vec::new(), partial.map(str::to_owned));
        let mut report = Report { partial, host: host.clone(), plan, phases, ratios, notes };
        report.compare();
        report
    };
    example::<Report>(&short(document::value(&whole(8, None)).unwrap()));
    valid::<Report>(&document::value(&whole(3, Some("the operator ended it"))).unwrap());
}

#[test]
fn lab_runs() {
    let mut run = run()["runs"][0].clone();
    let result: RunResult = serde_json::from_value(run.clone()).unwrap();
    let latency = json!({"count": 1, "mean_ns": 2, "p50_ns": 2, "p90_ns": 2, "p99_ns": 2, "max_ns": 2});
    let vcpu = json!({"cpu_ns": 1, "work": 2, "jobs": 3, "misses": 0, "latency": latency});
    run["lab"] = json!({
        "kernel": "7.3.4", "scheduler": "takt_doris", "iterations_per_s": 1e9, "packet_ns": 1000,
        "vms": [{
            "name": "hog", "report": {"measured_ns": 100_000_000, "vcpus": [vcpu], "io": null}, "clients": null,
            "threads": [{"name": "vcpu0", "cpu_ns": 5, "wait_ns": 6, "runs": 7}],
        }],
        "status": null,
    });
    let runs: [LabRun; 1] = [serde_json::from_value(run).unwrap()];
    example::<lab::Runs>(&document::value(&lab::Runs { runs: &runs }).unwrap());

    let mut all = Comparison::default();
    for (n, host) in [SIMULATOR, LINUX, XEN].into_iter().enumerate() {
        for (policy, wait) in [("credit", 30.0), ("doris", 10.0)] {
            let wait = wait + n as f64;
            let figures = Figures { missed: 0.0, wait_p50_us: 2.0, wait_p99_us: wait, worst_p99_us: wait, work_s: 4.0 };
            all.rows.push(Did { host, policy: policy.into(), figures });
        }
        all.runs.push(HostRun { host, result: result.clone() });
    }
    all.runs.truncate(1);
    example::<Compared>(&document::value(&Compared::from(&all)).unwrap());
}

#[test]
fn what_a_live_host_says() {
    let name = || "web".to_owned();
    let scheduling = Event::Scheduling { policy: "doris".into(), kernel: "7.3.4".into(), pcpus: 4, vms: 2, kvm: true };
    example::<Event>(&document::value(&scheduling).unwrap());
    let reason = || "runnable task stall".to_owned();
    let done = Done { file: "a.log".into(), operations: 1, seconds: 1.0, cut: false, rt_pool: None };
    let all = [
        Event::Verified { program: "takt_enqueue".into(), walked: 5, size: 3 },
        scheduling,
        Event::Watching { cpupools: vec![Cpupool { id: 0, policy: "doris".into() }] },
        Event::KvmLoaded,
        Event::VmFound { name: name(), tgid: Some(7), domid: None },
        Event::VmFound { name: name(), tgid: None, domid: Some(3) },
        Event::VmGone { name: name() },
        Event::RealTime { name: name(), rule: "rtp".into() },
        Event::NotRealTime { name: name() },
        Event::Share { name: name(), weight: 256, cap: 0 },
        Event::Reloaded { parameters: 1, settings: 2 },
        Event::RtPool { pcpus: vec![1, 2] },
        Event::Moved { name: name(), rt: true },
        Event::Partition { text: "takt-rt: 1 PCPU (1)".into() },
        Event::Recorded(done),
        Event::Warning { text: "a".into() },
        Event::Unloaded { uptime_s: 1.5, switches: 1, kicks: 2, refused: 3 },
        Event::Left { reason: reason() },
        Event::TakenOut { reason: reason() },
        Event::Ended,
    ];
    let values: Vec<Value> = all.iter().map(|event| document::value(event).unwrap()).collect();
    values.iter().for_each(valid::<Event>);
    let kinds = document::schema::<Event>();
    for kind in kinds["oneOf"].as_array().unwrap() {
        let name = &kind["properties"]["event"]["const"];
        assert!(values.iter().any(|v| &v["event"] == name), "{name} is not tried");
    }
}

#[test]
fn requests_and_answers() {
    let set = Request::Set { vm: Some("web".into()), values: vec!["weight=512".into()] };
    example::<Request>(&document::value(&set).unwrap());
    for request in [
        Request::Status { histograms: false },
        Request::Set { vm: None, values: vec!["slice=5ms".into()] },
        Request::Record { file: "/a".into(), duration_ms: Some(5), operations: None },
        Request::Overhead { on: true },
    ] {
        valid::<Request>(&document::value(&request).unwrap());
    }
    valid::<Request>(&json!({"version": 1, "do": "status"}));
    let error = check(document::schema::<Request>(), &json!({"version": 1, "do": "status", "more": 1})).unwrap_err();
    assert!(error.contains("more"), "{error}");
    schema::same(&file("answer"), &socket::answer_schema());
    let line = json!({"error": "no VM `x`; known: web"});
    schema::same(&file("examples/answer"), &line);
    for (answer, good) in [(line, true), (json!({"ok": {}}), true), (json!({"ok": {}, "version": 1}), false)] {
        assert_eq!(check(socket::answer_schema(), &answer).is_ok(), good, "{answer}");
    }
}

/// Each block of JSON in docs/json.md, a document a line.
#[test]
fn the_pages_examples_are_documents() {
    let page = std::fs::read_to_string(file("sim").ancestors().nth(2).unwrap().join("json.md")).unwrap();
    let mut lines = 0;
    for block in page.split("```json\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            let document: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let kind = ["do", "event", "file"].into_iter().find(|key| document.get(key).is_some());
            match kind {
                Some("do") => valid::<Request>(&document),
                Some("event") => valid::<Event>(&document),
                Some(_) => valid::<Done>(&document),
                None => check(socket::answer_schema(), &document).unwrap_or_else(|e| panic!("{e}: {line}")),
            }
            lines += 1;
        }
    }
    assert!(lines >= 8, "{lines} examples");
    for (name, _, schema) in SCHEMAS {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let of = |object: &Value| object["properties"]["version"]["const"].as_u64();
        let version =
            of(&schema).or(of(&schema["oneOf"][0])).map_or("that of the request".to_owned(), |v| v.to_string());
        let row = format!(
            "| {version} | [{name}](schema/{name}.md) | [schema](schema/{name}.json) | [example](schema/examples/{name}.json) |"
        );
        assert!(page.contains(&row), "docs/json.md has no row {row}");
    }
}
