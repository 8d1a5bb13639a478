// SPDX-License-Identifier: GPL-2.0-only
//! The Linux host without a kernel: linux/bpf compiled natively against a fake of BPF and sched_ext (linux/test), with sanitizers. Its own
//! tests look at each program and do random work; what that leaves in recordings is judged here by the state table and by replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use takt_conformance::{Checker, Limits, LogFile, changed, log_between, records, replay};
use takt_policy::{OpCode, Pool};

const FLAGS: [&str; 15] = [
    "-std=gnu11",
    "-g",
    "-O0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter", // callbacks take what the kernel passes
    "-Wno-unused-function",
    "-Wno-attributes", // CO-RE
    "-Wno-unknown-pragmas",
    "-Wno-sign-compare",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];
/// With its seed. One object decides by the policy of its pool; the other has two pools.
const OBJECTS: [(&str, &str, &[&str]); 2] =
    [("one", "1", &[]), ("two", "7", &["-DTAKT_ONLY=credit", "-DTAKT_RT_POOL=vgedf"])];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn succeeded(out: &Output, what: &str) {
    assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
}

fn build(dir: &Path, name: &str, defines: &[&str]) -> PathBuf {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let program = dir.join(name);
    let include = ["linux/test", "linux/bpf", "policy/core", "monitor/core", "monitor/bpf"];
    let out = Command::new(cc)
        .args(FLAGS)
        .args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace())
        .args(defines)
        .args(include.iter().flat_map(|d| ["-I".into(), root().join(d)]))
        .args(["all.c", "fake.c"].map(|f| root().join("linux/test").join(f)))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("C compiler");
    succeeded(&out, name);
    program
}

/// What the harness recorded of the pool on `side`, as user space assembles it (linux/src/record.rs).
fn recording(dir: &Path, run: &str, side: usize) -> LogFile {
    let read = |what: &str| fs::read(dir.join(format!("{run}.{what}{side}"))).expect("what the harness leaves");
    let pool = |what: &str| Pool::from_bytes(&read(what)).expect("a pool of this core");
    log_between(&pool("begin"), records(&read("log")).expect(run), &pool("end"), None).expect(run)
}

/// What the recording of a run says: kept, replays, and is no recording of nothing.
fn judge(log: &LogFile, run: &str, every: &[(OpCode, usize)]) {
    let mut checker = Checker::of_log(log, Limits::of(&log.policy)).expect("a log of this core");
    let kept = log.records.iter().try_for_each(|r| checker.step(r)).and_then(|()| checker.finish());
    kept.unwrap_or_else(|e| panic!("{run}: {e}"));
    replay(log).unwrap_or_else(|e| panic!("{run}: {e:#}"));
    let count = |code: OpCode| log.records.iter().filter(|r| r.op.op == code as u16).count();
    for &(code, least) in every {
        assert!(count(code) >= least, "{run}: {} of {code:?}, of at least {least}", count(code));
    }
}

const EVERY: [(OpCode, usize); 12] = [
    (OpCode::Wake, 50),
    (OpCode::Block, 8),
    (OpCode::Event, 1),
    (OpCode::Schedule, 100),
    (OpCode::Started, 50),
    (OpCode::Put, 50),
    (OpCode::SetAffinity, 20),
    (OpCode::VcpuAdd, 10),
    (OpCode::VcpuRemove, 4),
    (OpCode::CpuRelease, 20),
    (OpCode::CpuRemove, 2),
    (OpCode::TimerPool, 10),
];

#[test]
fn linux_bpf_does_what_the_kernel_and_the_state_table_demand() {
    let dir = tempfile::tempdir().expect("directory");
    let mut others = Vec::new();
    let seen =
        |policy: &str| fs::read_to_string(dir.path().join(format!("{policy}.seen"))).expect("what the host knows");
    for (name, seed, defines) in OBJECTS {
        let program = build(dir.path(), name, defines);
        let out = Command::new(&program).arg(dir.path()).arg(seed).output().expect("harness");
        succeeded(&out, &format!("linux/test, {name}, seed {seed}"));
        if defines.is_empty() {
            for policy in takt_policy::policies().into_iter().map(|p| p.name) {
                let log = recording(dir.path(), policy, 0);
                judge(&log, policy, &EVERY);
                others.extend(changed(&format!("linux/{name}/{policy}"), &[&log], &seen(policy)));
            }
        } else {
            let logs = [0, 1].map(|side| recording(dir.path(), "credit", side));
            judge(&logs[0], "credit of two pools", &EVERY);
            judge(&logs[1], "vgedf of two pools", &[]);
            others.extend(changed(&format!("linux/{name}/credit"), &[&logs[0], &logs[1]], &seen("credit")));
        }
    }
    assert!(others.is_empty(), "outcomes have changed; if that is meant, their lines are\n{}", others.concat());
}
