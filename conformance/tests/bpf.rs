// SPDX-License-Identifier: GPL-2.0-only
//! A million random operations natively and in the kernel: equal outcomes, equal pool bytes.
//!
//! Where BPF is refused (or with `TAKT_BPF=qemu`) in the kernel that QEMU boots; `TAKT_CACHE` keeps it between runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use takt_bpf_build::{allowed, clang, skip};
use takt_conformance::{bpf, qemu};

const TEST: &str = "core in the kernel";
const OPERATIONS: u64 = 1_000_000;

#[test]
fn kernel_and_native_core_agree() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("directory");
    if let Err(e) = clang() {
        return skip(TEST, e);
    }
    bpf::compile(crate_dir, dir.path()).expect("compile");
    let runner = Path::new(env!("CARGO_BIN_EXE_takt-conform"));
    let forced = std::env::var("TAKT_BPF").is_ok_and(|v| v == "qemu");
    let refused = allowed();
    if !forced && refused.is_ok() {
        let out =
            Command::new(runner).arg("bpf").arg(dir.path()).args(["--operations", &OPERATIONS.to_string()]).output();
        let out = out.expect("runner");
        println!("{}", String::from_utf8_lossy(&out.stdout));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    if let Err(e) = Command::new("qemu-system-x86_64").arg("--version").output() {
        return skip(
            TEST,
            format!("{}; no QEMU: {e}", refused.err().map_or("QEMU asked for".into(), |e| format!("{e:#}"))),
        );
    }
    let cache = std::env::var_os("TAKT_CACHE").map_or_else(|| crate_dir.join("../target/cache"), PathBuf::from);
    let kernel = match qemu::kernel(crate_dir, &cache) {
        Ok(kernel) => kernel,
        Err(e) => return skip(TEST, format!("{e:#}")),
    };
    println!("{}", qemu::boot(&kernel, runner, OPERATIONS, dir.path()).expect("comparison in QEMU"));
}
