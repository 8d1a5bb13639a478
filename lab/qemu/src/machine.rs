// SPDX-License-Identifier: GPL-2.0-only
//! A machine in QEMU, without hardware virtualisation: that may be missing, or be there and broken.

use crate::outbox;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A number: the machine's randomness. Runs of different seeds differ in what comes first where it does not matter.
const SEED: &str = "TAKT_QEMU_SEED";

/// How often a running machine is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A processor with all that QEMU can emulate, less what makes an emulated one slow and is nothing to a scheduler: copies byte by byte,
/// a fifth level of page tables, checks of who touches whose pages.
pub const MODEL: &str = "max,erms=off,fsrm=off,la57=off,smap=off,smep=off,pku=off";

/// A serial port on stdin and stdout. `mux` knows Ctrl-A x; without `signal` Ctrl-C is a character as any other.
const TERMINAL: [&str; 4] = ["-chardev", "stdio,id=terminal,mux=on,signal=off", "-serial", "chardev:terminal"];

/// How time passes in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// As it passes here, all CPUs emulated in turn.
    Free,
    /// As it passes here, CPUs emulated at once where there are several here. Faster, and now and then wrong.
    Parallel,
    /// An instruction takes 2^`shift` ns, CPUs execute in turn, idle time is skipped: equal runs are equal to the byte.
    Counted { shift: u8 },
}

/// What to boot, and on what.
#[derive(Clone, Debug)]
pub struct Machine {
    /// An image, or an uncompressed kernel.
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    /// An image with a file system, `/dev/vda` in the machine, which writes to it; a kernel needs modules for that.
    pub disk: Option<PathBuf>,
    /// The kernel's, besides the console and what each machine needs.
    pub command_line: String,
    pub cpus: u32,
    /// MiB.
    pub memory: u32,
    /// The processor, as QEMU calls it.
    pub model: &'static str,
    pub timing: Timing,
    /// Real time after which a machine is given up.
    pub patience: Duration,
}

/// What a machine left behind.
#[derive(Debug)]
pub struct Remains {
    /// The text on its serial console.
    pub console: String,
    /// The files that were put into the outbox.
    pub files: outbox::Files,
}

impl Machine {
    /// Boots and waits until the machine powers itself off, or reboots, which ends it as well. `dir` takes files that QEMU needs.
    ///
    /// # Errors
    /// QEMU does not start or fails; the machine is not off in time; `TAKT_QEMU_SEED` is no number.
    pub fn run(&self, dir: &Path) -> Result<Remains> {
        self.run_telling(dir, &mut |_| ())
    }

    /// As [`Machine::run`]; calls `told` with each number that the machine says by [`outbox::tell`].
    ///
    /// # Errors
    /// Those of [`Machine::run`].
    pub fn run_telling(&self, dir: &Path, told: &mut dyn FnMut(u64)) -> Result<Remains> {
        self.carry_out(dir, told, None)
    }

    /// As [`Machine::run`], with a second serial port, `/dev/ttyS1` in the machine: what it writes there goes to this process' stdout, and
    /// it reads `input`. If that is a terminal, its keys go to the machine as they are, Ctrl-C too; Ctrl-A x switches the machine off.
    ///
    /// # Errors
    /// Those of [`Machine::run`].
    pub fn run_attended(&self, dir: &Path, input: Stdio) -> Result<Remains> {
        self.carry_out(dir, &mut |_| (), Some(input))
    }

    fn carry_out(&self, dir: &Path, told: &mut dyn FnMut(u64), attended: Option<Stdio>) -> Result<Remains> {
        let (console, outbox) = (dir.join("console"), dir.join("outbox"));
        outbox::create(&outbox)?;
        let mut qemu = self.command(seed(std::env::var_os(SEED))?, &console, &outbox);
        qemu.stderr(Stdio::piped());
        match attended {
            Some(input) => qemu.args(TERMINAL).stdin(input).stdout(Stdio::inherit()),
            None => qemu.stdin(Stdio::null()).stdout(Stdio::null()),
        };
        let mut child = qemu.spawn().context("qemu-system-x86_64")?;
        let (start, mut last) = (Instant::now(), 0);
        let in_time = loop {
            if child.try_wait().context("qemu-system-x86_64")?.is_some() {
                break true;
            }
            if start.elapsed() > self.patience {
                child.kill().context("qemu-system-x86_64")?;
                break false;
            }
            std::thread::sleep(LOOK);
            let now = outbox::told(&outbox)?;
            if now != last {
                told(now);
                last = now;
            }
        };
        let out = child.wait_with_output().context("qemu-system-x86_64")?;
        let console = String::from_utf8_lossy(&std::fs::read(&console).unwrap_or_default()).replace('\r', "");
        if !in_time {
            bail!("the machine in QEMU was not off after {} s:\n{}", self.patience.as_secs(), tail(&console));
        }
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            bail!("qemu-system-x86_64: {}: {}\n{}", out.status, said.trim(), tail(&console));
        }
        Ok(Remains { console, files: outbox::receive(&outbox)? })
    }

    fn command(&self, seed: u32, console: &Path, outbox: &Path) -> Command {
        let mut q = Command::new("qemu-system-x86_64");
        q.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"]);
        q.args(["-cpu", self.model, "-smp", &self.cpus.to_string(), "-m", &self.memory.to_string()]);
        q.arg("-serial").arg(format!("file:{}", escaped(console)));
        let backend = format!("memory-backend-file,id=outbox,share=on,size={},mem-path=", outbox::SIZE);
        q.args(["-device", "ivshmem-plain,memdev=outbox", "-object"]).arg(backend + &escaped(outbox));
        if let Some(disk) = &self.disk {
            // It is gone with the machine's directory, so nothing need reach what it is kept on.
            q.arg("-drive").arg(format!("file={},format=raw,if=virtio,cache=unsafe", escaped(disk)));
        }
        match self.timing {
            Timing::Free => q.args(["-accel", "tcg,thread=single"]),
            Timing::Parallel => q.args(["-accel", "tcg,thread=multi"]),
            Timing::Counted { shift } => q
                .args(["-accel", "tcg,thread=single", "-rtc", "base=2026-01-01T00:00:00,clock=vm"])
                .arg("-icount")
                .arg(format!("shift={shift},sleep=off"))
                .args(["-seed", &seed.to_string()]),
        };
        // tsc=reliable no_timer_check: calibration against an emulated clock fails now and then.
        // init_on_alloc=0: pages are not cleared twice.
        let fixed = "console=ttyS0 panic=-1 rdinit=/init tsc=reliable no_timer_check nokaslr mitigations=off nowatchdog \
                     init_on_alloc=0";
        q.arg("-append").arg(format!("{fixed} {}", self.command_line));
        q.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initramfs);
        q
    }
}

fn seed(said: Option<OsString>) -> Result<u32> {
    let Some(said) = said else { return Ok(1) };
    let number = said.to_str().and_then(|s| s.parse().ok());
    number.with_context(|| format!("{SEED}={}: not a number from 0 to {}", said.to_string_lossy(), u32::MAX))
}

/// QEMU's options double a comma that is meant.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The end of a console's text, for an error.
fn tail(console: &str) -> String {
    let lines: Vec<_> = console.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(timing: Timing) -> Machine {
        Machine {
            kernel: "k".into(),
            initramfs: "i".into(),
            disk: Some("/d,e".into()),
            command_line: "quiet".into(),
            cpus: 3,
            memory: 512,
            model: MODEL,
            timing,
            patience: Duration::from_secs(1),
        }
    }

    fn arguments(timing: Timing) -> String {
        let command = machine(timing).command(7, Path::new("/a,b/c"), Path::new("/o"));
        command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn time_is_counted_or_free() {
        let counted = arguments(Timing::Counted { shift: 1 });
        assert!(counted.contains("-icount shift=1,sleep=off -seed 7"), "{counted}");
        assert!(counted.contains("clock=vm") && counted.contains("thread=single"), "{counted}");
        assert!(!arguments(Timing::Free).contains("icount"));
        assert!(arguments(Timing::Parallel).contains("thread=multi"));
    }

    #[test]
    fn a_seed_is_a_number() {
        assert_eq!(seed(None).unwrap(), 1);
        assert_eq!(seed(Some("12".into())).unwrap(), 12);
        let refused = seed(Some("-3".into())).unwrap_err().to_string();
        assert!(refused.contains("TAKT_QEMU_SEED=-3"), "{refused}");
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        let arguments = arguments(Timing::Free);
        assert!(arguments.contains("-serial file:/a,,b/c"), "{arguments}");
        assert!(arguments.contains("-drive file=/d,,e,format=raw,if=virtio,cache=unsafe"), "{arguments}");
    }
}
