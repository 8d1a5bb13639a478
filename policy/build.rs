// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy core natively: one file, which includes the rest of `core/` and every policy.

fn main() {
    let mut build = cc::Build::new();
    build
        .file("core/native.c")
        .include("core")
        .flag("-std=gnu11")
        .flag("-fwrapv")
        .flag("-fno-strict-aliasing")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .opt_level(2);
    build.compile("takt_policy");
    println!("cargo::rerun-if-changed=core");
    let sources = std::fs::read_dir(".").into_iter().flatten().flatten().map(|f| f.path());
    for policy in sources.filter(|f| f.extension().is_some_and(|e| e == "c")) {
        println!("cargo::rerun-if-changed={}", policy.display());
    }
}
