// SPDX-License-Identifier: GPL-2.0-only
//! The lab with a Linux kernel: gets one, puts a machine together, boots it.

use crate::outcome::Outcome;
use crate::plan::{ERROR, FILE, OUTCOME, Plan, recording};
use crate::result::{self, LabRun};
use crate::{INSTRUCTIONS_PER_ITERATION, Scheduler, map};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_control::near;
use takt_qemu::{Archive, MODEL, Machine, Timing, outbox};
use takt_sim::Scenario;

const SCRIPT: &str = include_str!("../linux/kernel.sh");
/// What the script's line begins with that says why it fails; its others say what it does.
const REASON: &str = "error: ";
/// The kernels that the lab knows, the first by default.
pub const KERNELS: [&str; 2] = ["7.3", "6.18"];
/// Where kernels are kept unless `TAKT_CACHE` says otherwise.
pub(crate) const CACHE: &str = "target/cache";
/// Memory of a machine, MiB, and what each VM adds.
const MEMORY: u32 = 768;
const MEMORY_PER_VM: u32 = 32;
/// i8254 ticks (80 us) after which the next CPU is emulated at the latest, where time is counted.
const TICK: u16 = 96;
/// QEMU gives each CPU in turn an equal share of what is left until the next timer, so the last gets least. It counts CPUs that are never
/// started, too: with these the shares are smaller, and closer to equal.
const SHARES: u32 = 2;
/// An instruction takes 2^n ns, whichever CPU's turn it is.
const SHIFT: u8 = 0;
/// Real time that a boot may take, of which the verifier needs 100 s for a large program, and each virtual second: for machines that hang.
const BOOT: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(30);

/// Where kernels are kept, and other things that come once.
pub fn cache() -> PathBuf {
    std::env::var_os("TAKT_CACHE").map_or_else(|| PathBuf::from(CACHE), PathBuf::from)
}

/// Runs a script that gets something into the cache, with `text` as its input: passes on what it says, and returns what
/// it prints.
///
/// # Errors
/// The reason that the script gives.
pub fn get(script: &mut Command, text: &str) -> Result<String> {
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("sh")?;
    child.stdin.take().context("sh")?.write_all(text.as_bytes()).context("sh")?;
    let mut reason = None;
    for line in BufReader::new(child.stderr.take().context("sh")?).lines() {
        let line = line.context("sh")?;
        match line.strip_prefix(REASON) {
            Some(text) => reason = Some(text.to_owned()),
            None => eprintln!("{line}"),
        }
    }
    let out = child.wait_with_output().context("sh")?;
    ensure!(out.status.success(), reason.unwrap_or_else(|| out.status.to_string()));
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// A kernel and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    dir: PathBuf,
}

impl Kernel {
    /// Debian's newest of the series, from the cache or fetched into it.
    ///
    /// # Errors
    /// A series that the lab does not know, or what kept the kernel from being fetched.
    pub fn get(series: &str) -> Result<Self> {
        ensure!(KERNELS.contains(&series), "kernel {series} is not supported{}", near::allowed(series, KERNELS));
        let cache = cache();
        std::fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
        let mut sh = Command::new("sh");
        let dir = get(sh.args(["-s", "--"]).arg(&cache).arg(series), SCRIPT);
        Ok(Self { dir: PathBuf::from(dir.with_context(|| format!("kernel {series}: cannot be fetched"))?) })
    }

    /// The uncompressed kernel.
    pub fn image(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// Puts the modules where the lab's init looks.
    pub fn modules(&self, archive: &mut Archive) -> Result<()> {
        self.loads(archive, &["order"])
    }

    /// Puts those there that a guest of this kernel needs for a virtio network device.
    pub fn guest_modules(&self, archive: &mut Archive) -> Result<()> {
        self.loads(archive, &["guest"])
    }

    /// As [`Kernel::modules`], with those that a machine needs for its disk.
    pub fn disk_modules(&self, archive: &mut Archive) -> Result<()> {
        self.loads(archive, &["disk", "order"])
    }

    fn loads(&self, archive: &mut Archive, orders: &[&str]) -> Result<()> {
        let dir = self.dir.join("modules");
        let read = |order| std::fs::read_to_string(dir.join(order)).with_context(|| dir.display().to_string());
        let order = orders.iter().map(read).collect::<Result<String>>()?;
        archive.data("lib/modules/order", order.as_bytes());
        order.lines().try_for_each(|m| {
            let module = std::fs::read(dir.join(m)).with_context(|| dir.join(m).display().to_string())?;
            archive.data(&format!("lib/modules/{m}"), unsigned(&module));
            Ok(())
        })
    }
}

/// A module without its signature, which an emulated CPU would check for long. It is followed by its length, in the last four bytes of
/// twelve, and a mark.
fn unsigned(module: &[u8]) -> &[u8] {
    const MARK: &[u8] = b"~Module signature appended~\n";
    const INFO: usize = 12;
    let without = || {
        let info = module.strip_suffix(MARK)?;
        let (_, length) = info.split_last_chunk::<4>()?;
        module.get(..info.len().checked_sub(INFO + u32::from_be_bytes(*length) as usize)?)
    };
    without().unwrap_or(module)
}

/// What is left of a boot.
#[derive(Debug)]
pub struct Boot {
    pub outcome: Outcome,
    /// By the names that [`crate::plan`] gives them.
    pub files: outbox::Files,
    pub console: String,
}

/// The programs of a machine, and how time passes there.
#[derive(Clone, Debug)]
pub struct Lab {
    pub kernel: Kernel,
    /// Where `takt`, `takt-vmm` and `takt-lab-init` are.
    pub programs: PathBuf,
    /// Whether time is counted in instructions: slower, and equal runs are equal.
    pub counted: bool,
    /// Whether policies of Takt's are recorded.
    pub record: bool,
}

impl Lab {
    /// With the programs that stand beside this one, or where `TAKT_PROGRAMS` says, and a kernel of the series.
    ///
    /// # Errors
    /// A program that is missing there, before anything is fetched; those of [`Kernel::get`].
    pub fn new(kernel: &str) -> Result<Self> {
        let this = std::env::current_exe().context("own path")?;
        let programs = crate::programs(&this, &["takt-vmm", "takt-lab-init"])?;
        Ok(Self { kernel: Kernel::get(kernel)?, programs, counted: true, record: false })
    }

    /// Runs a scenario under each scheduler once for each seed, all in one boot; the runs of one scheduler come one after the other. Seeds
    /// shift the phases of clients and tasks.
    ///
    /// # Errors
    /// What the lab cannot do, or what went wrong in the machine.
    pub fn run(&self, scenario: &Scenario, schedulers: &[Scheduler], seeds: &[u64]) -> Result<Vec<LabRun>> {
        self.run_telling(scenario, schedulers, seeds, &mut |_| ())
    }

    /// As [`Lab::run`]; calls `progress` with the share of the runs that are done, 0 to 1.
    ///
    /// # Errors
    /// Those of [`Lab::run`].
    pub fn run_telling(
        &self,
        scenario: &Scenario,
        schedulers: &[Scheduler],
        seeds: &[u64],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<LabRun>> {
        let mut plan = map::plan(scenario, schedulers, seeds)?;
        (plan.tick, plan.record) = (self.counted.then_some(TICK), self.record);
        // Policies are compared that ran in several boots: no boot's own measure, which unequal CPUs make differ by two percent.
        let instructions_per_s = 1e9 / f64::from(1 << SHIFT) / f64::from(scenario.machine.pcpus);
        plan.iterations_per_s = self.counted.then_some(instructions_per_s / INSTRUCTIONS_PER_ITERATION);
        let Boot { mut outcome, mut files, .. } = self.boot_telling(&plan, scenario.machine.pcpus, progress)?;
        let (ran, planned) = (outcome.phases.len(), plan.phases.len());
        ensure!(ran == planned, "the lab ran {ran} of {planned} phases");
        let mut phases = std::mem::take(&mut outcome.phases).into_iter().enumerate();
        let mut runs = Vec::new();
        for scheduler in schedulers {
            let (phases, recordings) =
                phases.by_ref().take(seeds.len()).map(|(n, phase)| (phase, files.remove(&recording(n)))).unzip();
            let of_one = Outcome { phases, ..outcome.clone() };
            runs.extend(result::read(scenario, &scheduler.to_string(), seeds, of_one, recordings));
        }
        Ok(runs)
    }

    /// Boots a machine of `cpus` CPUs that carries out a plan.
    ///
    /// # Errors
    /// What went wrong in the machine.
    pub fn boot(&self, plan: &Plan, cpus: u32) -> Result<Boot> {
        self.boot_telling(plan, cpus, &mut |_| ())
    }

    fn boot_telling(&self, plan: &Plan, cpus: u32, progress: &mut dyn FnMut(f64)) -> Result<Boot> {
        let dir = tempfile::tempdir().context("temporary directory")?;
        let initramfs = dir.path().join("initramfs");
        std::fs::write(&initramfs, self.archive(plan)?).context("initramfs")?;
        let vms = plan.phases.iter().map(|p| p.vms.len()).max().unwrap_or(0) as u32;
        let virtual_ns: u64 = plan.phases.iter().map(|p| p.warmup_ns + p.measure_ns).sum();
        let machine = Machine {
            kernel: self.kernel.image(),
            initramfs,
            disk: None,
            // The emulator executes one CPU after the other: ticks of all at once would keep each of them for the sum.
            command_line: format!("quiet nr_cpus={cpus} skew_tick=1"),
            cpus: if self.counted { cpus * SHARES } else { cpus },
            memory: MEMORY + vms * MEMORY_PER_VM,
            model: MODEL,
            timing: if self.counted { Timing::Counted { shift: SHIFT } } else { Timing::Free },
            patience: BOOT + SECOND.mul_f64(virtual_ns as f64 / 1e9),
        };
        let phases = plan.phases.len().max(1) as f64;
        let remains = machine.run_telling(dir.path(), &mut |done| progress(done as f64 / phases))?;
        if let Some(error) = remains.files.get(ERROR) {
            bail!("in the lab's machine: {}\n{}", String::from_utf8_lossy(error), remains.console);
        }
        let outcome = remains.files.get(OUTCOME);
        let outcome = outcome.with_context(|| format!("the lab's machine produced no result\n{}", remains.console))?;
        let outcome = serde_json::from_slice(outcome).context("the lab's outcome")?;
        Ok(Boot { outcome, files: remains.files, console: remains.console })
    }

    fn archive(&self, plan: &Plan) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        archive.program("init", &self.programs.join("takt-lab-init"))?;
        archive.program("bin/takt-vmm", &self.programs.join("takt-vmm"))?;
        if plan.phases.iter().any(|p| matches!(p.scheduler, Scheduler::Takt { .. })) {
            archive.program("bin/takt", &self.programs.join("takt"))?;
        }
        self.kernel.modules(&mut archive)?;
        archive.data(FILE, &serde_json::to_vec(plan)?);
        Ok(archive.finish())
    }
}

/// Whether the lab can run a scenario.
///
/// # Errors
/// What it cannot do, by the scenario's key.
pub fn check(scenario: &Scenario, scheduler: &Scheduler) -> Result<()> {
    map::plan(scenario, std::slice::from_ref(scheduler), &[]).map(drop)
}

/// Whether QEMU is there and new enough: older ones trip over what the lab does.
///
/// # Errors
/// It is not.
pub fn qemu() -> Result<()> {
    const NEEDED: u32 = 10;
    let program = Path::new("qemu-system-x86_64");
    let out = Command::new(program).arg("--version").output().context("qemu-system-x86_64")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let version = text.split_whitespace().find_map(|w| w.split_once('.')?.0.parse::<u32>().ok());
    match version {
        Some(v) if v >= NEEDED => Ok(()),
        Some(v) => bail!("qemu-system-x86_64: version {v} is too old; the lab needs {NEEDED} or later"),
        None => bail!("qemu-system-x86_64: prints no version"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_lose_their_signature_and_nothing_else() {
        let signed =
            |length: u8| [b"module", &b"signature"[..], &[0; 11], &[length], b"~Module signature appended~\n"].concat();
        assert_eq!(unsigned(&signed(9)), b"module");
        // No signature, or a length that cannot be: as it was.
        assert_eq!(unsigned(b"module"), b"module");
        assert_eq!(unsigned(&signed(16)), signed(16));
        assert_eq!(unsigned(b"~Module signature appended~\n"), b"~Module signature appended~\n");
    }
}
