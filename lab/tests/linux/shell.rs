// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab shell` as a script uses it: the program `takt` boots the machine, and its stdout is what the script prints.

use crate::common::programs;
use anyhow::Result;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use takt_bpf_build::skip;
use takt_lab::{Kernel, linux};

/// What a user tries first.
const SCRIPT: &str = r#"
takt run > /said 2>&1 &
until grep -q 'schedules this host' /said; do kill -0 $! || exit 4; sleep 1; done
until takt status | grep -q rtp; do kill -0 $! || exit 5; sleep 1; done
echo "== status"
takt status
takt set batch weight=64
echo "== batch"
takt status --json | grep '"weight"'
takt record --duration 1s /log && takt replay /log > /replayed && echo "== replayed"
kill -INT $!
wait $!
echo "== takt run: $?"
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
"#;

/// What comes of a script; `None`: this machine cannot emulate another.
fn run(test: &str, script: &str) -> Option<Output> {
    let parts = || Ok::<_, anyhow::Error>((linux::qemu()?, Kernel::get(linux::KERNELS[0])?, programs()?));
    let programs = match parts() {
        Ok((.., programs)) => programs,
        Err(e) => {
            skip(test, format!("{e:#}"));
            return None;
        }
    };
    let boot = || -> Result<Output> {
        let mut takt = Command::new(programs.join("takt"));
        takt.args(["lab", "shell"]).env("TAKT_PROGRAMS", &programs);
        let mut takt = takt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        takt.stdin.take().expect("a pipe").write_all(script.as_bytes())?;
        Ok(takt.wait_with_output()?)
    };
    let out = boot().unwrap_or_else(|e| panic!("{test}: {e:#}"));
    println!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    Some(out)
}

#[test]
#[ignore = "two minutes"]
fn a_script_tries_takt_on_two_vms() {
    let Some(out) = run("a script in the lab's shell", SCRIPT) else { return };
    let text = String::from_utf8(out.stdout).expect("text");
    assert_eq!(out.status.code(), Some(0), "{text}");
    let (_, status) = text.split_once("== status\n").expect("a status");
    let (status, rest) = status.split_once("== batch\n").expect("a setting");
    let row =
        |name: &str| status.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {status}"));
    assert!(row("pbx").contains("rtp") && !row("batch").contains("rtp"), "{status}");
    assert!(rest.contains("\"weight\": 64,"), "{rest}");
    assert!(rest.contains("== replayed\n== takt run: 0\n"), "{rest}");
    // Neither a prompt, nor a word of the kernel's, nor what would drive a terminal.
    assert!(text.starts_with("== status") && !text.contains(['\u{1b}', '\r']), "{text:?}");
}

/// The least that there is, eight phases of 7.5 s, and what is refused: without consent, beside a Takt.
const BENCH: &str = r#"
takt bench-host --minutes 1
echo "== $?"
echo 1 > /proc/sys/kernel/bpf_stats_enabled
takt bench-host --minutes 1 --yes --out /report
echo "== $?"
cat /sys/kernel/sched_ext/state /report
takt run > /said 2>&1 &
until grep -q 'schedules this host' /said; do kill -0 $! || exit 4; sleep 1; done
echo "== beside"
takt bench-host --minutes 1 --yes
echo "== $?"
kill -INT $!
wait $!
"#;

#[test]
#[ignore = "five minutes"]
fn a_host_is_measured_under_both_schedulers() {
    let Some(out) = run("takt bench-host in the lab's shell", BENCH) else { return };
    let text = String::from_utf8(out.stdout).expect("text");
    assert_eq!(out.status.code(), Some(0), "{text}");
    let parts: Vec<_> = text.split("== ").collect();
    assert!(parts[0].contains("--yes agrees") && parts[1].starts_with("2\n"), "{text}");
    let report = parts[2].strip_prefix("0\ndisabled\n").unwrap_or_else(|| panic!("{text}"));
    let report: serde_json::Value = serde_json::from_str(report).expect("a report");
    assert_eq!(report["partial"], serde_json::Value::Null, "{report:#}");
    let phases = report["phases"].as_array().expect("phases");
    let order: Vec<_> = phases.iter().map(|p| p["scheduler"].as_str().expect("a scheduler")).collect();
    assert_eq!(order, ["kernel", "takt", "takt", "kernel", "kernel", "takt", "takt", "kernel"], "{report:#}");
    for phase in phases {
        let vms = phase["vms"].as_array().expect("VMs");
        assert_eq!(vms.len(), 2, "{phase:#}");
        for vm in vms {
            assert!(vm["vcpus"]["slices"].as_u64() > Some(0) && vm["vcpus"]["run_s"].as_f64() > Some(0.0), "{phase:#}");
            assert_eq!(vm["waits"].is_object(), phase["scheduler"] == "takt", "{phase:#}");
            assert!(["1", "2"].map(serde_json::Value::from).contains(&vm["vm"]), "a number: {phase:#}");
        }
    }
    let counted = |p: &serde_json::Value| p["host"]["bpf_run_s"].as_f64() > Some(0.0);
    assert!(phases.iter().all(|p| counted(p) == (p["scheduler"] == "takt")), "{report:#}");
    assert!(parts[3].contains("a Takt runs on this host (takt_"), "{text}");
    assert!(parts[4].starts_with("2\n"), "{text}");
    let ratios = report["ratios"].as_array().expect("ratios");
    assert!(ratios.iter().any(|r| r["vm"] == "1" && r["figure"] == "vcpu_wait_us"), "{report:#}");
}

#[test]
fn the_status_of_a_script_is_told_and_its_output_is_whole() {
    let lines = 2000;
    let script =
        format!("n=0\nwhile [ $n -lt {lines} ]; do n=$((n + 1)); echo line $n; done\nls /no-such-file\nexit 3\n");
    let Some(out) = run("the status of a script in the lab's shell", &script) else { return };
    let text = String::from_utf8(out.stdout).expect("text");
    assert_eq!(out.status.code(), Some(1), "{text}");
    let want: String = (1..=lines).map(|n| format!("line {n}\n")).collect();
    assert!(text.starts_with(&want) && text.contains("/no-such-file"), "{text}");
}
