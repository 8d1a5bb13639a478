// SPDX-License-Identifier: GPL-2.0-only
//! Bad input: one line on stderr that names the culprit and what is allowed, exit status 2, nothing written.

mod common;

use common::{SCENARIO, files, takt, workdir};
use std::path::Path;

/// Runs `args` in `dir` and checks all that every refusal has in common; returns the line.
fn refused(dir: &Path, args: &[&str], names: &[&str]) -> String {
    let before = files(dir);
    let out = takt(dir, args);
    let line = String::from_utf8(out.stderr).expect("UTF-8");
    assert_eq!(out.status.code(), Some(2), "{args:?}: {line}");
    assert!(out.stdout.is_empty(), "{args:?}: prints to stdout");
    assert!(line.starts_with("takt: ") && line.trim_end().lines().count() == 1, "{args:?}: {line}");
    for name in names {
        assert!(line.contains(name), "{args:?}: `{name}` is not in: {line}");
    }
    assert_eq!(files(dir), before, "{args:?}: leaves a file");
    line
}

/// Runs a scenario with one passage replaced, with all outputs asked for.
fn refused_scenario(from: &str, to: &str, names: &[&str]) {
    let dir = workdir();
    let text = SCENARIO.replacen(from, to, 1);
    assert_ne!(text, SCENARIO, "{from}");
    std::fs::write(dir.path().join("host.toml"), text).unwrap();
    let names: Vec<&str> = ["host.toml"].into_iter().chain(names.iter().copied()).collect();
    refused(dir.path(), &["sim", "host.toml", "--json", "--html", "out.html", "--trace", "out.trace"], &names);
}

#[test]
fn scenarios() {
    refused_scenario("pcpus = 2", "pcpu = 2", &["machine.pcpu", "allowed", "pcpus"]);
    refused_scenario("vcpus = 1\n", "", &["voip", "vcpus", "allowed", "1 .. "]);
    refused_scenario("vcpus = 1\n", "vcpus = 0\n", &["voip", "vcpus", "allowed", "1 .. "]);
    refused_scenario("vcpus = 1\n", "vcpus = 1\nweight = -1\n", &["voip", "weight", "-1", "1 .. 65535"]);
    refused_scenario("pcpus = 2", "pcpus = 65", &["machine.pcpus", "65", "1 .. 64"]);
    refused_scenario("[machine]", "[machine]\nswitch = \"5s\"", &["machine.switch", "5s", "1ms"]);
    refused_scenario("\"doris\"]", "\"fifo\"]", &["policies", "fifo", "credit", "doris"]);
    refused_scenario("\"doris\"]", "\"doris(slice=1000s)\"]", &["policies", "slice", "100us..=10s"]);
    refused_scenario("duration = \"1s\"", "duration = 1 s", &["line 2"]);
}

#[test]
fn arguments() {
    let dir = workdir();
    let at = dir.path();
    refused(at, &["sim", "host.toml", "--policy", "fifo"], &["fifo", "credit", "doris", "pin"]);
    refused(at, &["sim", "host.toml", "--policy", "doris(slize=1ms)"], &["slize", "slice"]);
    refused(at, &["sim", "host.toml", "--policy", "doris(slice=1000s)"], &["slice", "100us..=10s"]);
    refused(at, &["sim", "host.toml", "--policy", "doris", "--policy", "doris"], &["doris", "twice"]);
    refused(at, &["sim", "host.toml", "--set", "machine.pcpus=0"], &["host.toml", "machine.pcpus", "1 .. 64"]);
    refused(at, &["sim", "host.toml", "--set", "nothing=1"], &["host.toml", "nothing", "allowed"]);
    refused(at, &["sim", "host.toml", "--set", "nothing"], &["--set", "KEY=VALUE"]);
    refused(at, &["sim", "host.toml", "--duration", "0"], &["--duration", "1ms..="]);
    refused(at, &["sim", "host.toml", "--duration", "5"], &["--duration", "5", "ms"]);
    refused(at, &["sim", "host.toml", "--seed", "9-1"], &["--seed", "9-1"]);
    refused(at, &["sim", "host.toml", "--sed", "1"], &["--sed"]);
    refused(at, &["sim", "missing.toml"], &["missing.toml", "No such file"]);
    refused(at, &["sim", "."], &["."]);
    refused(at, &["experiment", "DORIS-E99"], &["DORIS-E99", "DORIS-E2", "list"]);
    refused(at, &["experiment", "DORIS-E2", "--set", "vm.voip.calls=-1"], &["vm.voip.calls", "0 .. 10000"]);
    refused(at, &["frobnicate"], &["frobnicate"]);
}

#[test]
fn captures() {
    let dir = workdir();
    let at = dir.path();
    refused(at, &["inspect", "missing.pcap", "--json"], &["missing.pcap", "No such file"]);
    std::fs::write(at.join("empty.pcap"), []).unwrap();
    refused(at, &["inspect", "empty.pcap", "--json"], &["empty.pcap", "empty"]);
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    std::fs::write(at.join("cut.pcap"), [&header[..], &[1, 0, 0, 0, 2]].concat()).unwrap();
    refused(at, &["inspect", "cut.pcap", "--json"], &["cut.pcap", "truncated"]);
    let noise: Vec<u8> = (0u32..4096).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(at.join("noise.pcap"), noise).unwrap();
    refused(at, &["inspect", "noise.pcap", "--json"], &["noise.pcap", "not a pcap"]);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let dir = workdir();
    let at = dir.path();
    // A run of a day would take minutes: the refusal must come before.
    let day = ["sim", "host.toml", "--duration", "86400s"];
    for option in ["--html", "--trace", "--svg"] {
        refused(at, &[&day[..], &[option, "no/such/dir/out"]].concat(), &["no/such/dir/out", "cannot be written"]);
        refused(at, &[&day[..], &[option, "."]].concat(), &["cannot be written", "directory"]);
    }
    refused(at, &["experiment", "DORIS-E2", "--duration", "86400s", "--html", "no/out"], &["no/out"]);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_takt"))
        .args(["policies", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}
