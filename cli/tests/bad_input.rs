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

/// A group that needs more subgroups than there are is refused by the policy that knows groups; the others do not mind.
#[test]
fn a_group_larger_than_the_machine() {
    let dir = workdir();
    let large = SCENARIO.replacen("vcpus = 1\n", "vcpus = 40\nrt = \"on\"\ngroup = \"web\"\n", 1);
    std::fs::write(dir.path().join("host.toml"), large).unwrap();
    refused(dir.path(), &["sim", "host.toml", "-p", "poris"], &["group web", "40 VCPUs on 2 PCPUs", "at most 16"]);
    assert!(takt(dir.path(), &["sim", "host.toml", "-p", "credit", "--duration", "10ms"]).status.success());
}

#[test]
fn scenarios() {
    refused_scenario("pcpus = 2", "pcpu = 2", &["machine.pcpu", "allowed", "pcpus"]);
    refused_scenario("vcpus = 1\n", "", &["voip", "vcpus", "allowed", "1 to "]);
    refused_scenario("vcpus = 1\n", "vcpus = 0\n", &["voip", "vcpus", "allowed", "1 to "]);
    refused_scenario("vcpus = 1\n", "vcpus = 1\nweight = -1\n", &["voip", "weight", "-1", "1 to 65535"]);
    refused_scenario("pcpus = 2", "pcpus = 65", &["machine.pcpus", "65", "1 to 64"]);
    for (key, names) in [
        ("laxity = \"0\"", ["laxity", "1us"]),
        ("laxity = \"11s\"", ["laxity", "10s"]),
        ("latency = \"100us\"", ["latency", "1ms"]),
        ("group = \"a b\"", ["`group` must have at most 64 letters", "(got `a b`)"]),
    ] {
        refused_scenario("vcpus = 1\n", &format!("vcpus = 1\n{key}\n"), &[&["voip"][..], &names].concat());
    }
    refused_scenario("[machine]", "[machine]\nswitch = \"5s\"", &["machine.switch", "5s", "1ms"]);
    refused_scenario("\"doris\"]", "\"fifo\"]", &["policies", "fifo", "credit", "doris"]);
    refused_scenario("\"doris\"]", "\"doris(slice=1000s)\"]", &["policies", "slice", "between 100us and 10s"]);
    refused_scenario("duration = \"1s\"", "duration = 1 s", &["line 2"]);
}

#[test]
fn arguments() {
    let dir = workdir();
    let at = dir.path();
    refused(at, &["sim", "host.toml", "--policy", "fifo"], &["fifo", "credit", "doris", "pin"]);
    refused(at, &["sim", "host.toml", "--policy", "doris(slize=1ms)"], &["`slize` (did you mean `slice`?)"]);
    refused(at, &["sim", "host.toml", "--policy", "crdit"], &["`crdit` (did you mean `credit`?)"]);
    refused(at, &["sim", "host.toml", "--set", "vm.viop.calls=4"], &["no VM 'viop' (did you mean `voip`?)"]);
    refused(
        at,
        &["sim", "host.toml", "--set", "machin.pcpus=4"],
        &["machin.pcpus: unknown key (did you mean `machine`?)"],
    );
    refused(at, &["experiment", "DORIS-2"], &["`DORIS-2` (did you mean `DORIS-E2`?)"]);
    refused(at, &["sim", "host.toml", "--policy", "doris(slice=1000s)"], &["slice", "between 100us and 10s"]);
    refused(at, &["sim", "host.toml", "--policy", "doris", "--policy", "doris"], &["doris", "twice"]);
    refused(at, &["sim", "host.toml", "--policy", "doris", "--policy", "doris(dom0=on)"], &["dom0=on", "twice"]);
    refused(
        at,
        &["sim", "host.toml", "--policy", "credit", "--policy", "pin", "--set", "machine.pcpus=1"],
        &["pin", "allowed"],
    );
    refused(at, &["sim", "host.toml", "--set", "machine.pcpus=0"], &["host.toml", "machine.pcpus", "1 to 64"]);
    refused(at, &["sim", "host.toml", "--set", "nothing=1"], &["host.toml", "nothing", "allowed"]);
    refused(at, &["sim", "host.toml", "--columns", "name,polcy"], &["--columns", "`polcy` (did you mean `policy`?)"]);
    refused(at, &["sim", "host.toml", "--csv", "--json"], &["--csv", "--json"]);
    refused(at, &["sim", "host.toml", "--set", "nothing"], &["--set", "KEY=VALUE"]);
    refused(at, &["sim", "host.toml", "--duration", "0"], &["--duration", "1ms to "]);
    refused(at, &["sim", "host.toml", "--duration", "5"], &["--duration", "5", "ms"]);
    refused(at, &["sim", "host.toml", "--duration", "-1s"], &["--duration", "-1s", "1ms to "]);
    refused(at, &["sim", "host.toml", "--seed", "9-1"], &["--seed", "9-1"]);
    refused(at, &["sim", "host.toml", "--seed", "-1"], &["--seed", "-1", "allowed: 0 to "]);
    refused(at, &["sim", "host.toml", "--sed", "1"], &["--sed", "did you mean `--seed`?", "`takt sim --help`"]);
    refused(at, &["sim", "missing.toml"], &["missing.toml", "No such file"]);
    refused(at, &["sim", "."], &["."]);
    refused(at, &["sim", "voip.toml"], &["voip.toml", "No such file", "did you mean `voip`"]);
    refused(at, &["sim", "voop"], &["`voop`: no such file or scenario (did you mean `voip`?)", "`takt scenarios`"]);
    refused(at, &["scenarios", "rtxenn"], &["`rtxenn`", "did you mean `rtxen`?"]);
    refused(at, &["scenarios", "voip", "--json"], &["--json"]);
    refused(at, &["experiment", "DORIS-E99"], &["DORIS-E99", "DORIS-E2", "list"]);
    refused(at, &["experiment", "DORIS-E2", "--set", "vm.voip.calls=-1"], &["vm.voip.calls", "0 to 10000"]);
    refused(at, &["experiment", "DORIS-E1", "--set", "machine.switch=1us"], &["--set machine.switch", "DORIS-E1"]);
    refused(at, &["experiment", "DORIS-E1", "--duration", "1ms"], &["--duration 1ms", "DORIS-E1"]);
    refused(at, &["experiment", "list", "--html", "x.html"], &["list"]);
    // Before anything is fetched, and by a takt without the Linux host as well.
    let compare = ["lab", "compare", "host.toml", "-p", "credit", "-p", "doris"];
    refused(at, &compare, &["host", "vm.voip.workload", "voip needs a network", "allowed", "periodic"]);
    refused(at, &["frobnicate"], &["frobnicate", "`takt --help`"]);
    refused(at, &["simm", "host.toml"], &["simm", "did you mean `sim`?", "`takt --help`"]);
    refused(at, &["lab"], &["no command; allowed: linux, xen, compare, shell", "`takt lab --help`"]);
    refused(at, &["lab", "linux", "x", "--frre"], &["--frre", "did you mean `--free`?", "`takt lab linux --help`"]);
    refused(at, &["bench-host", "--minutes", "0"], &["--minutes", "1..=1440"]);
    refused(at, &["policies", "--jsn"], &["--jsn", "`takt policies --help`"]);
    refused(at, &[], &["no command", "policies", "sim", "experiment", "inspect"]);
    std::fs::write(at.join("wild.toml"), format!("\"\\u001b[31m{}\" = 1", "k".repeat(9000))).unwrap();
    let line = refused(at, &["sim", "wild.toml"], &["wild.toml", "allowed"]);
    assert!(line.len() < 1000 && !line.contains('\u{1b}'), "{line}");
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
    // What is whole is reported, and what is not is a warning, unless that is not enough.
    for (strict, status, lines) in [(&["--json"][..], 0, 1), (&["--json", "--strict"], 2, 2)] {
        let out = takt(at, &[&["inspect", "cut.pcap"], strict].concat());
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), said.lines().count()), (Some(status), lines), "{said}");
        assert!(said.contains("cut.pcap: truncated: ends within block 2"), "{said}");
        assert!(String::from_utf8(out.stdout).unwrap().contains("\"packets\": 0"));
    }
    std::fs::write(at.join("head.pcap"), &header[..20]).unwrap();
    refused(at, &["inspect", "head.pcap", "--json"], &["head.pcap", "truncated"]);
    refused(at, &["inspect"], &["FILE"]);
    refused(at, &["inspect", "-", "-"], &["-: standard input"]);
    refused(at, &["inspect", "cut.pcap", "--port", "65536"], &["--port", "65536"]);
    refused(at, &["inspect", "cut.pcap", "--vm", "10.0.0.1"], &["--vm 10.0.0.1", "IP=NAME"]);
    refused(at, &["inspect", "cut.pcap", "--vm", "10.0.0=a"], &["--vm 10.0.0=a", "IP address"]);
    refused(at, &["inspect", "cut.pcap", "--vm", "1.2.3.4=a", "--vm", "1.2.3.4=b"], &["another name"]);
    refused(at, &["inspect", "cut.pcap", "--html", "cut.pcap"], &["cut.pcap", "it is an input"]);
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
        let line = refused(
            at,
            &[&day[..], &[option, "no/such/dir/out"]].concat(),
            &["no/such/dir/out: cannot be written: No such file"],
        );
        assert!(!line.contains(".takt-"), "{line}");
        refused(at, &[&day[..], &[option, "."]].concat(), &["cannot be written", "directory"]);
    }
    refused(at, &[&day[..], &["--trace", "out"]].concat(), &["--trace", "86400s", "120s"]);
    refused(at, &["experiment", "DORIS-E2", "--duration", "86400s", "--html", "no/out"], &["no/out"]);
}

#[test]
fn outputs_take_the_place_of_nothing_else() {
    let dir = workdir();
    let at = dir.path();
    let run = ["sim", "host.toml", "--duration", "100ms"];
    refused(at, &[&run[..], &["--html", "host.toml"]].concat(), &["host.toml", "it is an input"]);
    refused(at, &[&run[..], &["--html", "./host.toml"]].concat(), &["host.toml", "it is an input"]);
    refused(at, &[&run[..], &["--html", "out", "--trace", "out"]].concat(), &["out", "named twice"]);
    assert_eq!(std::fs::read_to_string(at.join("host.toml")).unwrap(), SCENARIO);
}

/// A device stays a device, a link a link.
#[test]
#[cfg(target_os = "linux")]
fn devices_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let dir = workdir();
    let at = dir.path();
    let run = ["sim", "host.toml", "--duration", "100ms"];
    symlink("/dev/full", at.join("full")).unwrap();
    refused(at, &[&run[..], &["--html", "full"]].concat(), &["full", "cannot be written"]);
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    symlink("nowhere", at.join("dangling")).unwrap();
    refused(at, &[&run[..], &["--html", "dangling"]].concat(), &["dangling", "cannot be written"]);
    std::fs::write(at.join("target"), "").unwrap();
    symlink("target", at.join("link")).unwrap();
    assert!(takt(at, &[&run[..], &["--html", "link"]].concat()).status.success());
    assert!(at.join("link").is_symlink() && std::fs::metadata(at.join("target")).unwrap().len() > 1000);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    use std::process::{Command, Stdio};
    let dir = workdir();
    for args in [&["policies", "--json"][..], &["sim", "host.toml", "--duration", "20ms", "--csv"], &["scenarios"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_takt"))
            .current_dir(dir.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// A step of the script, or a call, that the run is too short for: one line each, and the run goes on.
#[test]
fn what_comes_after_the_end_is_told() {
    let dir = workdir();
    let text = "duration = \"20ms\"\nwarmup = \"1s\"\npolicies = [\"laxs\"]\n[machine]\npcpus = 2\n[voip]\nramp = 10\n\
        [[vm]]\nname = \"a\"\nvcpus = 1\nworkload = \"hog\"\n[[vm]]\nname = \"calls\"\nvcpus = 1\n\
        workload = { type = \"voip\", calls = 12 }\n\
        [[at]]\ntime = \"10ms\"\nvm = \"a\"\nlaxity = \"2ms\"\n[[at]]\ntime = \"20ms\"\nvm = \"a\"\nlaxity = \"1ms\"\n\
        [[at]]\ntime = \"30ms\"\ndestroy = \"a\"\n";
    std::fs::write(dir.path().join("at.toml"), text).unwrap();
    let lines = |args: &[&str]| {
        let out = takt(dir.path(), &[&["sim", "at.toml", "--json"], args].concat());
        assert_eq!(out.status.code(), Some(0));
        let err = String::from_utf8(out.stderr).unwrap();
        err.lines().filter(|l| l.contains("warning")).map(str::to_owned).collect::<Vec<_>>()
    };
    let want = [
        "takt: warning: at.toml: at.1: a change of a at 20ms never happens: the run lasts 20ms",
        "takt: warning: at.toml: at.2: destroy a at 30ms never happens: the run lasts 20ms",
        "takt: warning: at.toml: vm.calls.calls: 2 of 12 never begin: the last is due after 1200ms (voip.ramp), the run with warmup ends \
         after 1020ms",
    ];
    assert_eq!(lines(&[]), want);
    assert_eq!(lines(&["--duration", "1s"]), [""; 0]);
    // The experiments' scripts, when they are cut short.
    let out = takt(dir.path(), &["experiment", "RISA-E1", "--known", "--seeds", "1", "--duration", "1s", "--json"]);
    let err = String::from_utf8(out.stderr).unwrap();
    let told: Vec<_> = err.lines().filter(|l| l.starts_with("takt: warning: scenarios/risa-pools.toml: at.")).collect();
    assert!(!told.is_empty() && told.iter().all(|l| l.ends_with("never happens: the run lasts 1s")), "{err}");
}

/// Version, commit and features, on one line.
#[test]
fn the_version_says_what_was_built() {
    let dir = workdir();
    for option in ["-V", "--version"] {
        let line = String::from_utf8(takt(dir.path(), &[option]).stdout).unwrap();
        let rest = line.strip_prefix(concat!("takt ", env!("CARGO_PKG_VERSION"), " (commit ")).expect(&line);
        let (commit, features) = rest.split_once(", features: ").expect(&line);
        let hash = commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit());
        assert!(hash || commit == "unknown", "{line}");
        assert!(features.ends_with(")\n") && features.contains("linux") == cfg!(feature = "linux"), "{line}");
    }
}
