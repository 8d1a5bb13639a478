// SPDX-License-Identifier: GPL-2.0-only
//! Where this machine's kernel refuses BPF, another kernel is booted in QEMU: this binary is its init.

use anyhow::{Context, Result, anyhow, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const OBJECT: &str = "/pool.bpf.o";
const ORDER: &str = "/operations";
const PASS: &str = "TAKT-RESULT: PASS";
const FAIL: &str = "TAKT-RESULT: FAIL";
const ATTEMPTS: usize = 3;
/// For boot and comparison; an emulated machine needs a minute or two.
const PATIENCE: Duration = Duration::from_secs(600);

/// As init: performs the comparison, reports on the console, powers the machine off. Does not return.
pub fn init(compare: impl Fn(&Path, u64) -> Result<()>) -> ! {
    let order = std::fs::read_to_string(ORDER).ok().and_then(|s| s.trim().parse().ok());
    let result = order.context("no number of operations").and_then(|n| compare(Path::new(OBJECT), n));
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

/// Boots `kernel` with `runner` as init, compares `operations` operations there, and hands out what it printed.
/// Fails if the comparison does, or if QEMU or the kernel does not get that far.
pub fn boot(kernel: &Path, runner: &Path, object: &Path, operations: u64, dir: &Path) -> Result<String> {
    let initramfs = dir.join("initramfs.cpio");
    let mut cpio = Cpio::default();
    for d in ["dev", "proc", "tmp"] {
        cpio.directory(d);
    }
    // c 5 1: init's standard input and output.
    cpio.entry("dev/console", 0o020_600, &[], (5, 1));
    cpio.file("init", runner)?;
    for library in libraries(runner)? {
        cpio.parents(&library);
        cpio.file(library.to_str().context("path of a library")?.trim_start_matches('/'), &library)?;
    }
    cpio.file(OBJECT.trim_start_matches('/'), object)?;
    cpio.entry(ORDER.trim_start_matches('/'), 0o100_644, operations.to_string().as_bytes(), (0, 0));
    std::fs::write(&initramfs, cpio.finish()).with_context(|| initramfs.display().to_string())?;
    // Emulators trip now and then over what a kernel does while it boots: that is no verdict, and tried again.
    let mut text = String::new();
    for _ in 0..ATTEMPTS {
        text = run(kernel, &initramfs)?;
        let verdict = text.lines().find(|l| l.contains(PASS) || l.contains(FAIL));
        match verdict {
            Some(v) if v.contains(PASS) => return Ok(text),
            Some(v) => bail!("in QEMU: {v}\n{text}"),
            None => continue,
        }
    }
    bail!("the machine in QEMU gave no verdict:\n{text}")
}

/// What one boot prints on its serial console.
fn run(kernel: &Path, initramfs: &Path) -> Result<String> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-m", "1024", "-smp", "1", "-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"]);
    qemu.args(["-machine", "q35", "-cpu", "Nehalem", "-accel", "tcg"]); // emulated: KVM may be there and broken
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = qemu.spawn().context("qemu-system-x86_64")?;
    let out = child.stdout.take().context("QEMU's output")?;
    // A machine that hangs must not hang the tests.
    let (done, running) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let gave_up = running.recv_timeout(PATIENCE).is_err_and(|e| e == mpsc::RecvTimeoutError::Timeout);
        if gave_up { child.kill().and_then(|()| child.wait()) } else { child.wait() }
    });
    let mut text = String::new();
    for line in BufReader::new(out).split(b'\n') {
        text += String::from_utf8_lossy(&line.context("serial console")?).trim_end();
        text.push('\n');
    }
    drop(done);
    let ended = watchdog.join().map_err(|_| anyhow!("watchdog"))?;
    ended.context("qemu-system-x86_64")?;
    Ok(text)
}

/// The Debian kernel for QEMU from `cache`, downloaded by `qemu/kernel.sh` if it is not there.
pub fn kernel(crate_dir: &Path, cache: &Path) -> Result<PathBuf> {
    let script = crate_dir.join("qemu/kernel.sh");
    let out = Command::new("sh").arg(&script).arg(cache).stderr(Stdio::inherit()).output();
    let out = out.with_context(|| script.display().to_string())?;
    ensure!(out.status.success(), "{} found no kernel", script.display());
    Ok(PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()))
}

/// Shared libraries of `program`, the loader included.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let out = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let paths = text.lines().filter_map(|l| l.split_whitespace().find(|w| w.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// An archive for the kernel's initramfs ("newc").
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
    directories: Vec<PathBuf>,
}

impl Cpio {
    fn entry(&mut self, name: &str, mode: u32, data: &[u8], device: (u32, u32)) {
        self.inode += 1;
        let size = (data.len() as u32, name.len() as u32 + 1);
        let fields = [self.inode, mode, 0, 0, 1, 0, size.0, 0, 0, device.0, device.1, size.1, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|f| self.bytes.extend(format!("{f:08x}").into_bytes()));
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
    fn directory(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[], (0, 0));
    }
    fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        let data = std::fs::read(from).with_context(|| from.display().to_string())?;
        self.entry(name, 0o100_755, &data, (0, 0));
        Ok(())
    }
    fn parents(&mut self, of: &Path) {
        let mut parents: Vec<_> = of.ancestors().skip(1).filter(|p| p.parent().is_some()).map(PathBuf::from).collect();
        parents.reverse();
        for p in parents {
            if !self.directories.contains(&p) {
                self.directory(&p.to_string_lossy()[1..]);
                self.directories.push(p);
            }
        }
    }
    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }
}
