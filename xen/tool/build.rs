// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the monitor's BPF program, which becomes part of the library.

#[path = "../../monitor/build-support/clang.rs"]
mod clang;

use std::path::{Path, PathBuf};

fn main() {
    for dir in ["bpf", "../../policy/core", "../../monitor/core", "../../monitor/bpf"] {
        println!("cargo:rerun-if-changed={dir}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR")).join("net.bpf.o");
    let flags = ["-I../../policy/core", "-I../../monitor/core", "-I../../monitor/bpf"];
    clang::compile(&clang::find(), Path::new("bpf/net.bpf.c"), &out, &flags);
}
