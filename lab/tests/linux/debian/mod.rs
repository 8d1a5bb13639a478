// SPDX-License-Identifier: GPL-2.0-only
//! Takt's package on a Debian 13 with systemd, as an operator has it. The machine's init is this program again
//! ([`init`]), which hands over to systemd on a disk. A service there is this program once more: it does what an
//! operator does ([`steps`]), and leaves what it saw in the outbox. The disk stays when the machine boots again.

mod host;
mod init;
mod leaves;
mod runs;
mod steps;
mod waits;

use crate::common::programs;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_bpf_build::skip;
use takt_lab::{Kernel, linux};
use takt_qemu::{Archive, MODEL, Machine, Timing};

const TEST: &str = "the package on Debian 13";
/// Boots of one disk, one after the other. What happens in each is in `steps`.
const BOOTS: [&str; 3] = ["installs", "runs", "leaves"];
/// Time is counted: however busy this machine is, no time limit of systemd's passes.
const TIMING: Timing = Timing::Counted { shift: 0 };
const CPUS: u32 = 2;
/// MiB.
const MEMORY: u32 = 1536;
/// The console is slow, and nobody logs in there.
const QUIET: &str = "systemd.show_status=no systemd.mask=serial-getty@ttyS0.service";
/// Real time for a boot.
const PATIENCE: Duration = Duration::from_secs(3600);
const NEWER: &str = "9.9.9";

/// What the machine is made of.
struct Parts {
    kernel: Kernel,
    programs: PathBuf,
    /// An image of a Debian, which stays as it is.
    debian: PathBuf,
}

impl Parts {
    /// # Errors
    /// What is missing here.
    fn find() -> Result<Self> {
        linux::qemu()?;
        let programs = programs()?;
        Ok(Self { kernel: Kernel::get(linux::KERNELS[0])?, programs, debian: debian()? })
    }

    /// The package as `make deb` builds it, and the same as a later version, in `dir`.
    fn packages(&self, dir: &Path) -> Result<[PathBuf; 2]> {
        let mut deb = Command::new(root().join("scripts/deb.sh"));
        deb.current_dir(root()).env("TAKT", self.programs.join("takt")).env("OUT", dir).env("LEVEL", "0");
        let package = PathBuf::from(done(&mut deb)?);
        let (tree, newer) = (dir.join("newer"), dir.join("newer.deb"));
        done(Command::new("dpkg-deb").arg("--raw-extract").arg(&package).arg(&tree))?;
        let control = tree.join("DEBIAN/control");
        let text = std::fs::read_to_string(&control).with_context(|| control.display().to_string())?;
        let version = format!("Version: {}", env!("CARGO_PKG_VERSION"));
        ensure!(text.contains(&version), "{text}: no {version}");
        std::fs::write(&control, text.replace(&version, &format!("Version: {NEWER}")))?;
        let build = ["--root-owner-group", "-z0", "--build"];
        done(Command::new("dpkg-deb").args(build).arg(&tree).arg(&newer))?;
        Ok([package, newer])
    }

    fn initramfs(&self, boot: &str, packages: &[PathBuf; 2]) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        let within = |name: &str| format!("{}/{name}", init::PAYLOAD);
        archive.program(&within(init::OPERATOR), &std::env::current_exe()?)?;
        archive.program(&within("takt-vmm"), &self.programs.join("takt-vmm"))?;
        for (name, package) in ["takt.deb", "newer.deb"].iter().zip(packages) {
            archive.file(&within(name), package)?;
        }
        archive.data(&within(init::BOOT), boot.as_bytes());
        archive.link("init", &within(init::OPERATOR));
        archive.directory(init::DISK);
        self.kernel.disk_modules(&mut archive)?;
        Ok(archive.finish())
    }
}

/// The project's directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The image, which is made if it is not in the cache.
fn debian() -> Result<PathBuf> {
    let mut script = Command::new("sh");
    let image = linux::get(script.arg(root().join("lab/linux/debian.sh")).arg(linux::cache()), "");
    Ok(PathBuf::from(image.context("Debian 13 cannot be made")?))
}

/// What a command prints.
fn done(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
    ensure!(out.status.success(), "{name}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// What an operator saw in a boot.
fn boot(parts: &Parts, dir: &Path, name: &str, packages: &[PathBuf; 2]) -> Result<Value> {
    let initramfs = dir.join("initramfs");
    std::fs::write(&initramfs, parts.initramfs(name, packages)?)?;
    let machine = Machine {
        kernel: parts.kernel.image(),
        initramfs,
        disk: Some(dir.join("disk")),
        command_line: format!("loglevel=4 nr_cpus={CPUS} {QUIET} -- debian::begins_as_init --exact --nocapture"),
        cpus: CPUS,
        memory: MEMORY,
        model: MODEL,
        timing: TIMING,
        patience: PATIENCE,
    };
    let remains = machine.run(dir)?;
    let file = |of: &str| remains.files.get(of).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let seen = || format!("{}\n{}", file(steps::JOURNAL).unwrap_or_default(), remains.console);
    let outcome = file(steps::OUTCOME).with_context(|| format!("the machine left nothing\n{}", seen()))?;
    let outcome: Value = serde_json::from_str(&outcome)?;
    ensure!(outcome.get("error").is_none(), "in the machine: {outcome:#}\n{}", seen());
    for bad in ["BUG:", "Oops", "WARNING:"] {
        ensure!(!remains.console.contains(bad), "the kernel complains:\n{}", seen());
    }
    Ok(outcome)
}

/// The program in the emulated machine; anywhere else there is nothing to do.
#[test]
fn begins_as_init() {
    if std::process::id() == 1 {
        init::main();
    }
}

/// The program as a service of systemd there.
#[test]
fn works_as_operator() {
    if Path::new(init::RUN).join(init::BOOT).exists() {
        steps::main();
    }
}

#[test]
#[ignore = "minutes"]
fn the_package_serves_an_operator_from_installation_to_purge() {
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(e) => return skip(TEST, format!("{e:#}")),
    };
    let all = || {
        let dir = tempfile::tempdir()?;
        let packages = parts.packages(dir.path())?;
        // Copies of a sparse file that are sparse.
        done(Command::new("cp").arg("--sparse=always").arg(&parts.debian).arg(dir.path().join("disk")))?;
        for name in BOOTS {
            let seen = boot(&parts, dir.path(), name, &packages).with_context(|| name.to_owned())?;
            writeln!(std::io::stderr(), "{name}: {seen:#}")?;
        }
        Ok::<_, anyhow::Error>(())
    };
    all().unwrap_or_else(|e| panic!("{TEST}: {e:#}"));
}
