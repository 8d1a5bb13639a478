// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs; the objects become part of the library, so that only building needs clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// From 15 on clang knows enumerators of 64 bits. Newest first; `CLANG` in the environment names another.
const CLANGS: [&str; 7] = ["clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"];
const OBJECTS: [&str; 3] = ["sched", "kvm", "net"];
/// One object of each kind a policy: the verifier has a third of the work, and a decision no choice to make.
const POLICIES: [&str; 3] = ["credit", "doris", "rr"];

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    for dir in ["bpf", "../policy", "../monitor/core", "../monitor/bpf"] {
        println!("cargo:rerun-if-changed={dir}");
    }
    let runs = |c: &str| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success());
    let clang = std::env::var("CLANG").ok().or_else(|| CLANGS.iter().find(|c| runs(c)).map(ToString::to_string));
    let clang = clang.unwrap_or_else(|| panic!("no clang of version 15 or newer found (tried {})", CLANGS.join(", ")));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let mut table = String::from("&[\n");
    for policy in POLICIES {
        let file = |object: &str| out.join(format!("{object}-{policy}.bpf.o"));
        for object in OBJECTS {
            compile(&clang, policy, &Path::new("bpf").join(format!("{object}.bpf.c")), &file(object));
        }
        let [sched, kvm, net] = OBJECTS.map(|o| format!("include_bytes!({:?})", file(o)));
        table += &format!("Objects {{ policy: {policy:?}, sched: {sched}, kvm: {kvm}, net: {net} }},\n");
    }
    std::fs::write(out.join("objects.rs"), table + "]").expect("OUT_DIR");
}

fn compile(clang: &str, policy: &str, source: &Path, object: &Path) {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("target");
    let define = match arch.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    let mut command = Command::new(clang);
    command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-std=gnu11", "-fno-builtin"]);
    // Callbacks take what the kernel passes, wanted or not.
    command.args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    command.arg(format!("-D__TARGET_ARCH_{define}")).arg(format!("-DTAKT_ONLY={policy}"));
    command.arg("-idirafter").arg(format!("/usr/include/{arch}-linux-gnu")); // <asm/types.h> of Debian
    command.args(["-Ibpf", "-I../policy/core", "-I../monitor/core", "-I../monitor/bpf"]);
    let status = command.arg("-c").arg(source).arg("-o").arg(object).status();
    assert!(status.is_ok_and(|s| s.success()), "{clang} cannot compile {}", source.display());
}
