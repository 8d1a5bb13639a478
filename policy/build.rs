// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy core natively: one file, which includes the rest of `core/` and every
//! policy. Before that `core/policies.h` is made from `policies.def` if it is another; it is kept
//! in the tree so that the core compiles without Rust.

#[path = "build-support/policies.rs"]
mod policies;

use std::fs;

const LIST: &str = "core/policies.h";

fn main() {
    let all = policies::policies(&fs::read_to_string("policies.def").expect("policies.def"));
    let text = policies::list(&all);
    if fs::read_to_string(LIST).is_ok_and(|old| old != text) || !fs::exists(LIST).unwrap_or(false) {
        fs::write(LIST, text).expect(LIST);
    }
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
    let here = fs::read_dir(".").expect("policy").map(|e| e.expect("an entry").path());
    for source in here.filter(|f| f.extension().is_some_and(|e| ["c", "h", "def"].iter().any(|x| e == *x))) {
        println!("cargo::rerun-if-changed={}", source.display());
    }
}
