// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the guest, a freestanding 64-bit program, into the flat binary that the VMM puts into each VM's memory.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=guest");
    let image = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("guest.bin");
    let mut link = cc::Build::new().no_default_flags(true).opt_level(2).get_compiler().to_command();
    link.args(["guest/main.c", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"])
        // The handlers save no vector registers, and an interrupt would overwrite a red zone.
        .args(["-m64", "-ffreestanding", "-mgeneral-regs-only", "-mno-red-zone", "-fno-builtin"])
        .args(["-fno-pic", "-fno-stack-protector", "-fcf-protection=none", "-fno-asynchronous-unwind-tables"])
        // clang warns of every function that a handler calls; all of them are inlined.
        .arg("-Wno-interrupt-service-routine")
        .args(["-nostdlib", "-static", "-Wl,--build-id=none", "-Wl,--oformat=binary", "-Wl,-T,guest/guest.ld"])
        .arg("-o")
        .arg(&image);
    let status = link.status().unwrap_or_else(|e| panic!("{:?} does not run: {e}", link.get_program()));
    assert!(status.success(), "{:?} cannot build the guest", link.get_program());
}
