// SPDX-License-Identifier: GPL-2.0-only
//! Where this machine's kernel refuses BPF, another kernel is booted in QEMU: this binary is its init.

use crate::bpf;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_qemu::{Archive, Machine, Timing};

/// Where the objects are in the machine.
const OBJECTS: &str = "/";
const ORDER: &str = "/operations";
const PASS: &str = "TAKT-RESULT: PASS";
const FAIL: &str = "TAKT-RESULT: FAIL";
const ATTEMPTS: usize = 3;
/// For boot and comparison; an emulated machine needs a minute or two.
const PATIENCE: Duration = Duration::from_secs(600);

/// As init: performs the comparison, reports on the console, powers the machine off. Does not return.
pub fn init(compare: impl Fn(&Path, u64) -> Result<()>) -> ! {
    let order = std::fs::read_to_string(ORDER).ok().and_then(|s| s.trim().parse().ok());
    let result = order.context("no number of operations").and_then(|n| compare(Path::new(OBJECTS), n));
    match result {
        Ok(()) => println!("{PASS}"),
        Err(e) => println!("{FAIL}: {e:#}"),
    }
    // SAFETY: no arguments that could be invalid; QEMU ends with the machine.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        std::thread::park();
    }
}

/// Boots `kernel` with `runner` as init, compares `operations` operations on the objects in `dir` there, and hands out what it printed.
/// Fails if the comparison does, or if QEMU or the kernel does not get that far.
pub fn boot(kernel: &Path, runner: &Path, operations: u64, dir: &Path) -> Result<String> {
    let mut archive = Archive::new();
    archive.program("init", runner)?;
    for policy in takt_policy::policies() {
        let object = bpf::object(dir, policy.name);
        let name = bpf::object(Path::new(OBJECTS), policy.name);
        archive.file(&name.to_string_lossy(), &object)?;
    }
    archive.data(ORDER, operations.to_string().as_bytes());
    let initramfs = dir.join("initramfs.cpio");
    std::fs::write(&initramfs, archive.finish()).with_context(|| initramfs.display().to_string())?;
    let machine = Machine {
        kernel: kernel.to_owned(),
        initramfs,
        disk: None,
        command_line: "quiet".into(),
        cpus: 1,
        memory: 1024,
        model: "Nehalem",
        timing: Timing::Free,
        patience: PATIENCE,
    };
    // Emulators trip now and then over what a kernel does while it boots: that is no verdict, and tried again.
    let mut text = String::new();
    for _ in 0..ATTEMPTS {
        text = machine.run(dir)?.console;
        let verdict = text.lines().find(|l| l.contains(PASS) || l.contains(FAIL));
        match verdict {
            Some(v) if v.contains(PASS) => return Ok(text),
            Some(v) => bail!("in QEMU: {v}\n{text}"),
            None => continue,
        }
    }
    bail!("the machine in QEMU gave no verdict:\n{text}")
}

/// The Debian kernel for QEMU from `cache`, downloaded by `qemu/kernel.sh` if it is not there.
pub fn kernel(crate_dir: &Path, cache: &Path) -> Result<PathBuf> {
    let script = crate_dir.join("qemu/kernel.sh");
    let out = Command::new("sh").arg(&script).arg(cache).stderr(Stdio::inherit()).output();
    let out = out.with_context(|| script.display().to_string())?;
    ensure!(out.status.success(), "{} found no kernel", script.display());
    Ok(PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()))
}
