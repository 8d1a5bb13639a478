// SPDX-License-Identifier: GPL-2.0-only
//! The Xen host without a hypervisor: xen/sched compiled natively against a fake Xen (xen/test), with sanitizers. Its own tests look at each
//! hook and do random work on two cpupools; what that leaves in recordings is judged here by the state table and by replay.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use takt_conformance::{Checker, Limits, LogFile, changed, replay, xen};
use takt_policy::{OpCode, policies};

/// Random work, and another run of it.
const SEEDS: [&str; 2] = ["1", "7"];
const FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-sign-compare", // Xen's own flags do not have it
    "-fwrapv",
    "-fno-strict-aliasing",
    "-D__XEN__",
];
const SANITIZED: [&str; 4] = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread"];
/// Copies of the policy core are not what is tested here, take longest to compile, and are sanitized elsewhere (sanitize.rs).
const CORE: [&str; 1] = ["-O0"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn succeeded(out: &Output, what: &str) {
    assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Files of `dir` that end in `.end`.
fn files(dir: &str, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(root().join(dir)).expect(dir).map(|e| e.expect(dir).path());
    let mut all: Vec<_> = all.filter(|p| p.extension().is_some_and(|e| e == end)).collect();
    all.sort();
    all
}

/// Xen's headers, each of which is xen/test/fake.h, and what the patch adds to Xen's interface.
fn headers(at: &Path) {
    fs::create_dir_all(at.join("xen")).expect("directory");
    fs::create_dir_all(at.join("takt")).expect("directory");
    let fake = "#include \"fake.h\"\n";
    let sources = files("xen/sched", "c").into_iter().chain(files("xen/sched", "h"));
    for text in sources.map(|path| fs::read_to_string(path).expect("source")) {
        for name in text.lines().filter_map(|l| l.strip_prefix("#include <xen/")?.strip_suffix('>')) {
            fs::write(at.join("xen").join(name), fake).expect("header");
        }
    }
    fs::write(at.join("xen/types.h"), fake).expect("header");
    fs::write(at.join("private.h"), fake).expect("header");
    let patch = fs::read_to_string(root().join("xen/patches/0001-plug-in.patch")).expect("patch");
    let added =
        patch.lines().skip_while(|l| !l.starts_with("+#define XEN_SCHEDULER_TAKT")).map_while(|l| l.strip_prefix('+'));
    let text: Vec<_> = added.collect();
    let end = text.iter().position(|l| *l == "};").expect("struct xen_takt_op");
    fs::write(at.join("takt_op.h"), text[..=end].join("\n") + "\n").expect("header");
}

/// Compiles all, a few files at a time; returns the program.
fn build(dir: &Path) -> PathBuf {
    headers(dir);
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    // A file for each policy, as scripts/xen.sh makes it.
    let ones = policies().into_iter().map(|p| {
        let path = dir.join(format!("one-{}.c", p.name));
        fs::write(&path, format!("#define TAKT_ONLY {}\n#include \"one.h\"\n", p.name)).expect("source");
        path
    });
    let todo: Vec<_> = files("xen/sched", "c").into_iter().chain(files("xen/test", "c")).chain(ones).collect();
    let object = |n: usize| dir.join(format!("{n}.o"));
    let next = Mutex::new(0..todo.len());
    let work = || loop {
        let Some(n) = next.lock().expect("queue").next() else { return };
        let core = todo[n].file_name().is_some_and(|name| name.to_string_lossy().starts_with("one-"));
        let out = Command::new(&cc)
            .args(FLAGS)
            .args(if core { &CORE[..] } else { &SANITIZED })
            .args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace())
            .arg("-iquote")
            .arg(dir.join("takt")) // host.h includes ../private.h
            .arg("-iquote")
            .arg(root())
            .arg("-iquote")
            .arg(root().join("xen/sched"))
            .arg("-I")
            .arg(dir)
            .arg("-I")
            .arg(root().join("xen/test"))
            .arg("-c")
            .arg(&todo[n])
            .arg("-o")
            .arg(object(n))
            .output()
            .expect("C compiler");
        succeeded(&out, &todo[n].display().to_string());
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(work);
        }
    });
    let program = dir.join("harness");
    let objects = (0..todo.len()).map(object);
    let out = Command::new(&cc).args(SANITIZED).args(objects).arg("-o").arg(&program).output().expect("C compiler");
    succeeded(&out, "link");
    program
}

/// What the recording of a policy's run says: kept, replays, and is no recording of nothing.
fn judge(dir: &Path, policy: &str) -> LogFile {
    let read = |what: &str| fs::read(dir.join(format!("{policy}.{what}"))).expect("what the harness leaves");
    let log = xen::assemble(&read("begin"), &read("log"), &read("end")).expect(policy);
    let mut checker = Checker::new(Limits::of(policy));
    let kept = log.records.iter().try_for_each(|r| checker.step(r)).and_then(|()| checker.finish());
    kept.unwrap_or_else(|e| panic!("{policy}: {e}"));
    replay(&log).unwrap_or_else(|e| panic!("{policy}: {e:#}"));
    let epoch = log.records.iter().rposition(|r| r.op.op == OpCode::Epoch as u16).expect("epoch");
    let live = &log.records[epoch + 1..];
    let count = |code: OpCode| live.iter().filter(|r| r.op.op == code as u16).count();
    let every = [
        (OpCode::Wake, 200),
        (OpCode::Block, 50),
        (OpCode::Yield, 10),
        (OpCode::Move, 50),
        (OpCode::Schedule, 300),
        (OpCode::Started, 150),
        (OpCode::Put, 150),
        (OpCode::SetAffinity, 300),
        (OpCode::VcpuAdd, 100),
        (OpCode::VcpuRemove, 100),
        (OpCode::VmAdd, 50),
        (OpCode::VmRemove, 50),
        (OpCode::CpuAdd, 20),
        (OpCode::CpuRemove, 20),
        (OpCode::TimerPool, 40),
        (OpCode::SetRt, 50),
        (OpCode::Event, 10),
    ];
    for (code, least) in every {
        assert!(count(code) >= least, "{policy}: {} of {code:?}, of at least {least}", count(code));
    }
    log
}

#[test]
fn xen_sched_does_what_xen_and_the_state_table_demand() {
    let dir = tempfile::tempdir().expect("directory");
    let program = build(dir.path());
    let mut others = Vec::new();
    let mut refused = BTreeMap::new();
    for seed in SEEDS {
        let out = Command::new(&program).arg(dir.path()).arg(seed).output().expect("harness");
        succeeded(&out, &format!("xen/test, seed {seed}"));
        for policy in takt_policy::policies().into_iter().map(|p| p.name) {
            let log = judge(dir.path(), policy);
            // A VCPU that blocks just when it is picked: a matter of luck in one run.
            let of_log = log.records.iter().filter(|r| r.op.op == OpCode::Refused as u16).count();
            *refused.entry(policy).or_insert(0) += of_log;
            others.extend(changed(&format!("xen/{seed}/{policy}"), &[&log], ""));
        }
    }
    assert!(refused.values().all(|&n| n > 0), "picks refused: {refused:?}");
    assert!(others.is_empty(), "outcomes have changed; if that is meant, their lines are\n{}", others.concat());
}
