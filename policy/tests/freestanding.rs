// SPDX-License-Identifier: GPL-2.0-only
//! The core compiles where it will have to: with the flags of Xen's build, and to BPF.

use std::path::Path;
use std::process::{Command, Stdio};

fn core() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/core"))
}

/// The types that Xen's own <xen/types.h> gives; nothing else of Xen may be needed.
const XEN_TYPES: &str = "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t; typedef int int32_t; typedef long int64_t;\n";

#[test]
fn compiles_with_the_flags_of_xen() {
    let include = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xen-flags");
    std::fs::create_dir_all(include.join("xen")).unwrap();
    std::fs::write(include.join("xen/types.h"), XEN_TYPES).unwrap();
    let flags = "-D__XEN__ -nostdinc -std=gnu99 -ffreestanding -fno-builtin -fno-common -fno-strict-aliasing -fwrapv \
        -mno-red-zone -mno-sse -msoft-float -Wall -Wextra -Wundef -Wstrict-prototypes -Wredundant-decls \
        -Wno-pointer-arith -Wvla -Werror -O2 -fsyntax-only -x c";
    let out = Command::new("cc")
        .args(flags.split_whitespace())
        .arg("-I")
        .arg(&include)
        .args([core().join("takt.h"), core().join("hist.h")])
        .output()
        .expect("a C compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn compiles_to_bpf() {
    let names = ["clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];
    let found = names.into_iter().find(|c| {
        Command::new(c).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    });
    let Some(clang) = found else {
        println!("SKIPPED: no clang to compile the core to BPF");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang is missing on CI");
        return;
    };
    let out = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"])
        .args([core().join("takt.h"), core().join("hist.h")])
        .output()
        .expect("clang");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
