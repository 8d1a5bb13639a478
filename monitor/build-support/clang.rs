// SPDX-License-Identifier: GPL-2.0-only
//! Compiling BPF programs in build scripts, which take this file in: a crate would be built for them once more, with libbpf.

use std::path::Path;
use std::process::Command;

/// From 15 on clang knows enumerators of 64 bits. Newest first; `CLANG` in the environment names another.
const CLANGS: [&str; 7] = ["clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"];

/// The clang to use.
pub fn find() -> String {
    println!("cargo:rerun-if-env-changed=CLANG");
    let runs = |c: &str| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success());
    let clang = std::env::var("CLANG").ok().or_else(|| CLANGS.iter().find(|c| runs(c)).map(ToString::to_string));
    clang.unwrap_or_else(|| panic!("no clang of version 15 or newer found (tried {})", CLANGS.join(", ")))
}

/// Compiles `source` to `object`; `flags` are added to the command line.
pub fn compile(clang: &str, source: &Path, object: &Path, flags: &[&str]) {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("target");
    let define = match arch.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    let mut command = Command::new(clang);
    command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-std=gnu11", "-fno-builtin", "-fno-strict-aliasing"]);
    // Callbacks take what the kernel passes, wanted or not.
    command.args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    command.arg(format!("-D__TARGET_ARCH_{define}"));
    command.arg("-idirafter").arg(format!("/usr/include/{arch}-linux-gnu")); // <asm/types.h> of Debian
    let status = command.args(flags).arg("-c").arg(source).arg("-o").arg(object).status();
    assert!(status.is_ok_and(|s| s.success()), "{clang} cannot compile {}", source.display());
}
