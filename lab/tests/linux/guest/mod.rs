// SPDX-License-Identifier: GPL-2.0-only
//! A whole Linux as a guest, in QEMU with vhost-net, on a host that Takt schedules. The test boots an emulated machine whose init is this
//! program again ([`host`]); QEMU there starts a guest whose init is this program, too ([`vm`]).

mod host;
mod vm;

use crate::common::programs;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use takt_bpf_build::skip;
use takt_lab::{Kernel, linux};
use takt_qemu::{Archive, MODEL, Machine, Timing};

const TEST: &str = "a Linux guest with vhost-net";
const CPUS: u32 = 2;
const MEMORY: u32 = 2048;
/// Two kernels boot, one of them emulated twice over.
const PATIENCE: Duration = Duration::from_secs(900);
/// What QEMU loads besides the kernel, and where distributions have it.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "pvh.bin"];
const FIRMWARE_AT: [&str; 2] = ["/usr/share/qemu", "/usr/share/seabios"];

/// What the machine is made of.
struct Parts {
    kernel: Kernel,
    takt: PathBuf,
    qemu: PathBuf,
    firmware: Vec<PathBuf>,
}

impl Parts {
    /// # Errors
    /// What is missing here.
    fn find() -> Result<Self> {
        linux::qemu()?;
        let takt = programs()?.join("takt");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let qemu = in_one_of(std::env::split_paths(&path), "qemu-system-x86_64")?;
        let firmware = FIRMWARE.iter().map(|name| in_one_of(FIRMWARE_AT.map(PathBuf::from), name));
        let firmware = firmware.collect::<Result<_>>()?;
        Ok(Self { kernel: Kernel::get(linux::KERNELS[0])?, takt, qemu, firmware })
    }

    /// The host's files.
    fn host(&self) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        archive.program("init", &std::env::current_exe()?)?;
        archive.program("bin/takt", &self.takt)?;
        archive.program("bin/ip", Path::new("/sbin/ip"))?;
        archive.program(host::QEMU, &self.qemu)?;
        for file in &self.firmware {
            let name = file.file_name().and_then(|n| n.to_str()).context("firmware")?;
            archive.file(&format!("{}/{name}", host::FIRMWARE), file)?;
        }
        self.kernel.modules(&mut archive)?;
        archive.file(host::KERNEL, &self.kernel.image())?;
        archive.data(host::INITRAMFS, &self.guest()?);
        Ok(archive.finish())
    }

    /// The guest's.
    fn guest(&self) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        archive.program("init", &std::env::current_exe()?)?;
        archive.program("bin/ip", Path::new("/sbin/ip"))?;
        self.kernel.guest_modules(&mut archive)?;
        Ok(archive.finish())
    }
}

fn in_one_of(directories: impl IntoIterator<Item = PathBuf>, name: &str) -> Result<PathBuf> {
    let found = directories.into_iter().map(|d| d.join(name)).find(|f| f.is_file());
    found.with_context(|| format!("{name}: not found"))
}

/// What a machine has left; `None`: it broke down.
fn boot(parts: &Parts) -> Result<Option<Value>> {
    let dir = tempfile::tempdir()?;
    let initramfs = dir.path().join("initramfs");
    std::fs::write(&initramfs, parts.host()?)?;
    let machine = Machine {
        kernel: parts.kernel.image(),
        initramfs,
        disk: None,
        command_line: "loglevel=4 -- guest::begins_as_host --exact --nocapture".into(),
        cpus: CPUS,
        memory: MEMORY,
        model: MODEL,
        // Emulated in turn, such a guest stands still while it boots.
        timing: Timing::Parallel,
        patience: PATIENCE,
    };
    let remains = machine.run(dir.path())?;
    let Some(outcome) = remains.files.get(host::OUTCOME) else {
        println!("the machine left nothing\n{}", remains.console);
        return Ok(None);
    };
    let outcome: Value = serde_json::from_slice(outcome)?;
    ensure!(outcome.get("error").is_none(), "in the machine: {outcome:#}\n{}", remains.console);
    for bad in ["BUG:", "Oops", "WARNING:"] {
        ensure!(!remains.console.contains(bad), "the kernel complains:\n{}", remains.console);
    }
    Ok(Some(outcome))
}

/// The program in the emulated machine; anywhere else there is nothing to do.
#[test]
fn begins_as_host() {
    if std::process::id() == 1 {
        host::main();
    }
}

/// The program in the guest.
#[test]
fn begins_as_guest() {
    if std::process::id() == 1 {
        vm::main();
    }
}

#[test]
fn a_linux_guest_is_found_and_real_time_by_its_packets() {
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(e) => return skip(TEST, format!("{e:#}")),
    };
    let boot = || boot(&parts).unwrap_or_else(|e| panic!("{TEST}: {e:#}"));
    // CPUs emulated at once go wrong now and then; what a scheduler does to a machine it does twice.
    let outcome = boot().or_else(boot).expect("the machine broke down twice");
    println!("{outcome:#}");
    let vm = &outcome["vm"];
    assert_eq!(vm["rule"], "rtp", "{outcome:#}");
    assert_eq!(vm["blind"], Value::Null, "{outcome:#}");
    assert_eq!(vm["vcpus"].as_array().map(Vec::len), Some(host::VCPUS as usize), "{outcome:#}");
    let called =
        |of: &str| -> Vec<&str> { outcome[of].as_array().into_iter().flatten().filter_map(Value::as_str).collect() };
    // VCPUs are found by what they do: QEMU has not named their threads.
    assert!(called("vcpu_threads").iter().all(|name| name.starts_with("qemu-system")), "{outcome:#}");
    assert!(called("io_threads").iter().any(|name| name.starts_with("vhost-")), "{outcome:#}");
    let vcpus = vm["vcpus"].as_array().into_iter().flatten();
    let runs: u64 = vcpus.filter_map(|v| v["waits"]["rt"]["count"].as_u64()).sum();
    assert!(runs > 0, "no VCPU ran as real-time: {outcome:#}");
}
