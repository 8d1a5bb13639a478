// SPDX-License-Identifier: GPL-2.0-only
//! `takt replay`, and what the commands of the live host refuse without one.

mod common;

use common::{takt, workdir};
use std::path::Path;
use takt_conformance::{LogFile, hash};
use takt_policy::{Kind, Pool, Record, Source};

/// What a host of one PCPU may have recorded.
fn log() -> LogFile {
    let mut pool = Pool::new("doris").unwrap();
    pool.record();
    pool.cpu_add(5, 0, 0, 0, 0).unwrap();
    pool.vm_add(5, 1, Kind::Guest, 256).unwrap();
    pool.vcpu_add(5, 64, 1, 0, Kind::Guest).unwrap();
    pool.epoch(5).unwrap();
    for n in 1..20 {
        let now = n * 1_000_000;
        pool.wake(now, 64, Source::Io).unwrap();
        assert_eq!(pool.schedule(now, 0, 0).unwrap().0, Some(64));
        pool.started(now, 64).unwrap();
        pool.put(now + 500_000, 64, false, u64::MAX).unwrap();
        pool.schedule(now + 500_000, 0, 0).unwrap();
    }
    let records = pool.take_log();
    LogFile {
        policy: "doris".into(),
        pool_size: pool.bytes().len() as u64,
        pool_hash: hash(pool.bytes()),
        records,
        ..LogFile::default()
    }
}

/// Exit status and what was printed.
fn replay(dir: &Path, bytes: &[u8], options: &[&str]) -> (i32, String) {
    std::fs::write(dir.join("a.log"), bytes).unwrap();
    let out = takt(dir, &[&["replay", "a.log"], options].concat());
    let text = String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap();
    (out.status.code().unwrap(), text)
}

/// Bytes of the log after a change.
fn changed(change: impl FnOnce(&mut LogFile)) -> Vec<u8> {
    let mut log = log();
    change(&mut log);
    log.to_bytes().unwrap()
}

#[test]
fn a_simulated_run_is_recorded_as_a_real_one() {
    let dir = workdir();
    let record = |more: &[&str]| takt(dir.path(), &[&["sim", "host.toml", "--record", "run.log"], more].concat());
    let out = record(&["-p", "doris", "-p", "credit", "--duration", "100ms"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = takt(dir.path(), &["replay", "run.log"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}");
    assert!(text.contains("policy doris, ") && text.contains("every decision is identical"), "{text}");
    for (more, said) in [(["-p", "risa"], "risa has two pools"), (["--duration", "1h"], "allowed: at most 120s")] {
        let out = record(&more);
        assert_eq!(out.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&out.stderr).contains(said), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn a_true_recording_is_identical() {
    let dir = workdir();
    let (status, text) = replay(dir.path(), &changed(|_| {}), &[]);
    assert_eq!(status, 0, "{text}");
    for part in ["policy doris, 99 operations", "state table: kept", "every decision and the final pool are identical"]
    {
        assert!(text.contains(part), "{text}");
    }
    let (status, text) = replay(dir.path(), &changed(|l| l.pool_hash = 0), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 0);
    assert_eq!(json["operations"]["wake"]["accepted"], 19);
    assert_eq!((&json["difference"], &json["pool_recorded"]), (&serde_json::Value::Null, &false.into()));
}

#[test]
fn a_recording_becomes_a_trace() {
    let dir = workdir();
    let log = LogFile { names: [(1, "voip".to_owned())].into(), ..log() };
    let (status, text) = replay(dir.path(), &log.to_bytes().unwrap(), &["--trace", "a.pftrace"]);
    assert_eq!(status, 0, "{text}");
    let trace = std::fs::read(dir.path().join("a.pftrace")).unwrap();
    let has = |text: &str| trace.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has("voip.0") && has("PCPU 0") && has("running on PCPU 0, boost"));
}

#[test]
fn a_recording_becomes_a_page() {
    let dir = workdir();
    let log = LogFile { names: [(1, "<voip>".to_owned())].into(), ..log() };
    let (status, text) = replay(dir.path(), &log.to_bytes().unwrap(), &["--html", "a.html"]);
    assert_eq!(status, 0, "{text}");
    let page = std::fs::read_to_string(dir.path().join("a.html")).unwrap();
    for part in ["&lt;voip&gt;", "class=\"ok\">✓ each of them", "id=\"timeline-data\"", "All 19.5ms of"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("id=\"seed\"") && !page.contains("<voip>"));
    // What differs is in the page as well.
    let (status, _) = replay(dir.path(), &changed(|l| l.records[10].res.slice += 1), &["--html", "b.html"]);
    assert_eq!(status, 1);
    let page = std::fs::read_to_string(dir.path().join("b.html")).unwrap();
    assert!(page.contains("class=\"no\">✗ record 11: schedule gives"));
    assert!(page.contains("It ends where the native core decides otherwise; the recording has 19.5ms."));
}

#[test]
fn what_differs_is_named() {
    let dir = workdir();
    let at = |l: &mut LogFile, n: usize, f: fn(&mut Record)| f(&mut l.records[n]);
    for (bytes, want) in [
        (changed(|l| at(l, 10, |r| r.res.slice += 1)), "record 11: schedule gives"),
        (changed(|l| l.pool_hash += 1), "the final pool differs"),
        // A start of what nobody has picked.
        (changed(|l| at(l, 11, |r| r.op.vcpu = 65)), "state table: record 12: Transition"),
    ] {
        let (status, text) = replay(dir.path(), &bytes, &[]);
        assert!(status == 1 && text.contains(want), "{want}: {status} {text}");
    }
}

#[test]
fn what_is_no_recording_is_refused_in_one_line() {
    let dir = workdir();
    let whole = changed(|_| {});
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, want) in [
        (vec![], "not a Takt log"),
        (b"hello world, this is text".to_vec(), "not a Takt log"),
        (whole[..40].to_vec(), "truncated"),
        (whole[..whole.len() - 1].to_vec(), "truncated: 98 of 99 records"),
        ([&whole[..], b"x"].concat(), "1 bytes after the 99 records"),
        (with(8, 9), "log version 9"),
        (with(64, 7), "a pool of 7 bytes at the beginning"),
        (with(80, 7), "sequence gap"),
        (with(80 + 16, 99), "unknown operation 99"),
        (with(16, whole[16] ^ 1), "another core"),
        (with(40, b'b'), "unknown policy"),
    ] {
        let (status, text) = replay(dir.path(), &bytes, &["--json"]);
        assert!(status == 2 && text.contains(want) && text.contains("a.log"), "{want}: {status} {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let out = takt(dir.path(), &["replay", "missing"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn the_live_host_is_refused_in_one_line_where_there_is_none() {
    let dir = workdir();
    std::fs::write(dir.path().join("bad.toml"), "[vm.web]\nweight = 0\n").unwrap();
    std::fs::write(dir.path().join("worse.toml"), "[vm.web]\ngroup = \"a b\"\n").unwrap();
    let built = cfg!(feature = "linux");
    let none = ["--socket", "no.sock"];
    for (args, want) in [
        (&["run", "--policy", "fifo"][..], "unknown policy `fifo`; known: "),
        (&["run", "--policy", "pin"], "for the simulator"),
        (&["run", "--config", "bad.toml"], "`weight` must be between 1 and 65535 (got `0`)"),
        (&["run", "--config", "worse.toml"], "worse.toml: VM `web`: `group` must have at most 64"),
        (&["run", "--config", "missing.toml"], "missing.toml"),
        (&["status", none[0], none[1]], "Takt is not running"),
        (&["set", "web", "weight=0", none[0], none[1]], "`weight` must be between 1 and 65535 (got `0`)"),
        (&["set", "web", "size=3", none[0], none[1]], "unknown key `size`; known: rt, period"),
        (&["set", "web", none[0], none[1]], "nothing to set"),
        (&["set", "weight=3", none[0], none[1]], "is given instead of a VM"),
        (&["set", "--pool", "slice=5ms", none[0], none[1]], "Takt is not running"),
        (&["record", "a", "--duration", "0s", none[0], none[1]], "between 1ms and 86400s"),
        (&["record", "a", none[0], none[1]], "Takt is not running"),
    ] {
        let out = takt(dir.path(), args);
        let line = String::from_utf8(out.stderr).unwrap();
        let want = match (built, cfg!(feature = "xen")) {
            (true, _) => want,
            (false, true) => "does not run on Xen (/sys/hypervisor/type); for a KVM host build takt with",
            (false, false) => "built without the Linux host; build it with",
        };
        assert!(out.status.code() == Some(2) && line.contains(want), "{args:?}: {line}");
        assert!(line.lines().count() == 1 && out.stdout.is_empty(), "{args:?}: {line}");
    }
    for args in [&["run", "--timeout-ms", "5"][..], &["record", "a", "--operations", "0"], &["set"], &["record"]] {
        let out = takt(dir.path(), args);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{args:?}");
    }
    let left: Vec<_> = common::files(dir.path());
    assert_eq!(left, ["bad.toml", "host.toml", "worse.toml"], "nothing is written");
}
