// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs; the objects become part of the library, so that only building needs clang.

#[path = "../monitor/build-support/clang.rs"]
mod clang;

use std::path::{Path, PathBuf};

const OBJECTS: [&str; 3] = ["sched", "kvm", "net"];
/// One object of each kind a policy: the verifier has a third of the work, and a decision no choice to make.
const POLICIES: [&str; 6] = ["credit", "doris", "rr", "rtxen", "sedf", "vgedf"];

fn main() {
    for dir in ["bpf", "../policy", "../monitor/core", "../monitor/bpf"] {
        println!("cargo:rerun-if-changed={dir}");
    }
    let clang = clang::find();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let mut table = String::from("&[\n");
    for policy in POLICIES {
        let file = |object: &str| out.join(format!("{object}-{policy}.bpf.o"));
        let only = format!("-DTAKT_ONLY={policy}");
        let flags = [&only, "-Ibpf", "-I../policy/core", "-I../monitor/core", "-I../monitor/bpf"];
        for object in OBJECTS {
            clang::compile(&clang, &Path::new("bpf").join(format!("{object}.bpf.c")), &file(object), &flags);
        }
        let [sched, kvm, net] = OBJECTS.map(|o| format!("include_bytes!({:?})", file(o)));
        table += &format!("Objects {{ policy: {policy:?}, sched: {sched}, kvm: {kvm}, net: {net} }},\n");
    }
    std::fs::write(out.join("objects.rs"), table + "]").expect("OUT_DIR");
}
