// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy core natively. `TAKT_MUTANT=n` builds a deliberately broken core (see conformance/).

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
}
