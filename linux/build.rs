// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs; the objects become part of the library, so that only building needs clang.

#[path = "../monitor/build-support/clang.rs"]
mod clang;
#[path = "../policy/build-support/policies.rs"]
mod policies;

use std::path::{Path, PathBuf};

const OBJECTS: [&str; 3] = ["sched", "kvm", "net"];
/// Those with two pools: the policy outside of the rt-pool, and the rt-pool's.
const POOLS: [(&str, &str); 1] = [("credit", "vgedf")];

fn main() {
    for dir in ["bpf", "../policy", "../monitor/core", "../monitor/bpf"] {
        println!("cargo:rerun-if-changed={dir}");
    }
    let clang = clang::find();
    // The kernel takes no other characters in a name.
    let version = env!("CARGO_PKG_VERSION").replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
    let version = format!("-DTAKT_VERSION=\"{version}\"");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR"));
    let mut table = String::from("&[\n");
    // One object of each kind per policy: the verifier has a third of the work, and a decision has
    // no policy to choose.
    let text = std::fs::read_to_string("../policy/policies.def").expect("policies.def");
    let mut names: Vec<String> = policies::policies(&text).into_iter().map(|p| p.name).collect();
    names.sort();
    let all = names.iter().map(|p| (p.as_str(), None)).chain(POOLS.iter().map(|&(p, rt)| (p, Some(rt))));
    for (policy, rt) in all {
        let name = rt.map_or(policy.to_owned(), |rt| format!("{policy}-{rt}"));
        let file = |object: &str| out.join(format!("{object}-{name}.bpf.o"));
        let only = format!("-DTAKT_ONLY={policy}");
        let second = rt.map(|rt| format!("-DTAKT_RT_POOL={rt}"));
        let flags = ["-Ibpf", "-I../policy/core", "-I../monitor/core", "-I../monitor/bpf", &only, &version];
        let flags: Vec<&str> = flags.into_iter().chain(second.as_deref()).collect();
        for object in OBJECTS {
            clang::compile(&clang, &Path::new("bpf").join(format!("{object}.bpf.c")), &file(object), &flags);
        }
        let [sched, kvm, net] = OBJECTS.map(|o| format!("include_bytes!({:?})", file(o)));
        table += &format!("Objects {{ policy: {policy:?}, rt: {rt:?}, sched: {sched}, kvm: {kvm}, net: {net} }},\n");
    }
    std::fs::write(out.join("objects.rs"), table + "]").expect("OUT_DIR");
}
