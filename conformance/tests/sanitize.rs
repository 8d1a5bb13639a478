// SPDX-License-Identifier: GPL-2.0-only
//! 240,000 random operations on a core built with AddressSanitizer and UndefinedBehaviorSanitizer.

use std::path::Path;
use std::process::Command;
use takt_conformance::{LogFile, Mode, Run, Shape, maker, write_log};

const OPERATIONS: u64 = 20_000;

#[test]
fn sanitized_core_agrees() {
    let dir = tempfile::tempdir().expect("directory");
    let driver = dir.path().join("driver");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("sanitize/driver.c");
    // Without -fwrapv: signed overflow is to be seen.
    let flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-strict-aliasing"];
    let sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"];
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let out = Command::new(cc).args(flags).args(sanitize).arg(&driver).arg(&source).output().expect("C compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let make = maker(None).expect("native core");
    for policy in takt_policy::policies() {
        for shape in Shape::ALL {
            let mut run = Run::new(make(policy.name).expect("policy"), 3, shape, Mode::Chaos, 1024);
            let records = run.steps(OPERATIONS, true).expect("a clean run");
            let pool_size = run.core.bytes().len() as u64;
            let path = dir.path().join("log");
            let log = LogFile { policy: policy.name.into(), pool_size, pool_hash: 0, records, ..LogFile::default() };
            write_log(&path, &log).expect("log");
            let out = Command::new(&driver).arg(&path).output().expect("driver");
            assert!(out.status.success(), "{}: {}", policy.name, String::from_utf8_lossy(&out.stderr));
        }
    }
}
