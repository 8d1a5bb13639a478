// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the monitor's C natively. The BPF build of the same files is `src/bpf.rs`.

fn main() {
    println!("cargo:rerun-if-changed=core");
    println!("cargo:rerun-if-changed=../policy/core/env.h");
    cc::Build::new()
        .file("core/native.c")
        .include("../policy/core")
        .std("gnu11")
        .opt_level(2)
        .warnings_into_errors(true)
        .extra_warnings(true)
        .flag("-ffreestanding")
        .flag("-fwrapv")
        .flag("-fno-strict-aliasing")
        .compile("takt_monitor_core");
}
