// SPDX-License-Identifier: GPL-2.0-only
//! Compiles BPF programs with clang when they are needed, and says so when the machine cannot run them.
//!
//! BPF objects are made at run time, not by a build script: building the project must not need clang.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compilers that are tried, in this order, unless the environment names one in `CLANG`: the newest first, because what
/// older ones make costs older verifiers more than they allow.
const CLANGS: [&str; 9] =
    ["clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang", "clang-14"];

/// The clang to use.
///
/// # Errors
/// None of them runs.
pub fn clang() -> Result<String> {
    let runs = |c: &str| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success());
    if let Ok(named) = std::env::var("CLANG") {
        ensure!(runs(&named), "CLANG={named} does not run");
        return Ok(named);
    }
    CLANGS
        .iter()
        .find(|c| runs(c))
        .map(ToString::to_string)
        .with_context(|| format!("no clang found (tried {})", CLANGS.join(", ")))
}

/// Compiles `source` to the BPF object `object`; `flags` are added to the command line (`-I`, `-D`).
///
/// # Errors
/// No clang, or what clang said.
pub fn compile<S: AsRef<OsStr>>(source: &Path, object: &Path, flags: &[S]) -> Result<()> {
    let clang = clang()?;
    let mut command = Command::new(&clang);
    command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-std=gnu11"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-fno-builtin"]);
    if let Some(multiarch) = multiarch() {
        command.arg("-idirafter").arg(multiarch); // <asm/types.h> of Debian
    }
    command.args(flags).arg("-c").arg(source).arg("-o").arg(object);
    let run = command.output().with_context(|| clang.clone())?;
    if !run.status.success() {
        bail!("{clang} cannot compile {}:\n{}", source.display(), String::from_utf8_lossy(&run.stderr));
    }
    Ok(())
}

fn multiarch() -> Option<PathBuf> {
    let path = PathBuf::from(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    path.is_dir().then_some(path)
}

/// Whether this process may load BPF programs at all; what a test asks before it calls a refusal a failure.
///
/// # Errors
/// The kernel's reason.
pub fn allowed() -> Result<()> {
    let object = tempfile::Builder::new().suffix(".bpf.o").tempfile()?;
    let source = tempfile::Builder::new().suffix(".bpf.c").tempfile()?;
    std::fs::write(source.path(), PROBE)?;
    compile::<&str>(source.path(), object.path(), &[])?;
    libbpf_rs::ObjectBuilder::default().open_file(object.path())?.load().context("the kernel refuses BPF")?;
    Ok(())
}

/// The least program that has a map.
const PROBE: &str = r#"
struct { int (*type)[2]; int (*max_entries)[1]; int *key; int *value; } m __attribute__((section(".maps"), used));
__attribute__((section("tc"), used)) int probe(void *ctx) { (void)ctx; return 0; }
char _license[] __attribute__((section("license"), used)) = "GPL";
"#;

/// For tests that need something the machine may lack: says so, or fails where nothing may be skipped (`CI=true`).
///
/// # Panics
/// If the environment has `CI=true`.
pub fn skip(test: &str, reason: impl std::fmt::Display) {
    let ci = std::env::var("CI").is_ok_and(|v| v == "true");
    assert!(!ci, "{test}: may not be skipped when CI=true, but: {reason}");
    // Not eprintln!, which libtest would hide.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason:#}");
}
