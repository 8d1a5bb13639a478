// SPDX-License-Identifier: GPL-2.0-only
//! The lab with Xen: the real hypervisor with Dom0, and small PV guests that do what the scenario's VMs do, in a cpupool under one
//! of Takt's policies or a scheduler of Xen's own.
//!
//! A scenario with a VM that is called takes a boot for each scheduler: Linux guests with SIPp, and Dom0 under the scheduler as well.
//!
//! `plan` and `calls` make a script for Dom0 of a scenario, `xen/lab` boots the machine that follows
//! it, `read` and `console` take what it leaves apart.

mod calls;
mod console;
mod domain;
mod fanout;
mod lines;
mod parties;
mod plan;
mod read;
mod scheduler;

pub use calls::together;
pub use parties::{any as has_calls, needs_network};
pub use scheduler::Scheduler;

use crate::INSTRUCTIONS_PER_ITERATION;
use crate::result::{self, LabRun};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_sim::{Scenario, Workload};

/// What boots the machine, beside the sources of hypervisor and guests that it builds.
const BOOT: &str = "xen/lab/boot.sh";
const BUILD: &str = "scripts/xen.sh";
const PACKAGES: &str = "xen/lab/packages.sh";
/// What Dom0 says when something goes wrong.
const FAIL: &str = "LAB FAIL ";
/// Real time for a boot and for each VM's creation, and for each virtual second, s.
const PATIENCE: u64 = 600;
const VM_PATIENCE: u64 = 5;
const SECOND_PATIENCE: u64 = 60;
/// An instruction takes 2^n ns, whichever PCPU's turn it is. Where packets are carried, as in the lab with Linux; where tasks leave a
/// scheduler little of the time, faster than else, for many PCPUs that are busy for long take their time here. A single PCPU has all turns
/// but for what Dom0 needs, and so is as fast without.
const SHIFT: u8 = 2;
const SHIFT_OF_TASKS: u8 = 1;
const SHIFT_OF_CALLS: u8 = 0;
/// Lines of the console that an error shows.
const TAIL: usize = 30;

/// What is booted beside a plan.
#[derive(Default)]
struct Machine<'a> {
    cpus: u32,
    shift: u8,
    /// Of the hypervisor.
    options: String,
    /// Guests with SIPp are in it.
    calls: bool,
    /// Runs in Dom0 where there are calls.
    takt: Option<&'a Path>,
}

/// Where the machine comes from.
#[derive(Clone, Debug)]
pub struct Lab {
    source: PathBuf,
}

impl Lab {
    /// With the sources in the current directory, or those that this program was built from.
    ///
    /// # Errors
    /// They are in neither place.
    pub fn new() -> Result<Self> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("sources")?;
        let here = std::env::current_dir().context("current directory")?;
        match [&here, built].into_iter().find(|dir| dir.join(BOOT).is_file()) {
            Some(dir) => Ok(Self { source: dir.to_owned() }),
            None => bail!(
                "{BOOT}: neither in {} nor in {}; the Xen lab needs Takt's sources",
                here.display(),
                built.display()
            ),
        }
    }

    /// Fetches and builds what a boot needs, if that is not there yet.
    ///
    /// # Errors
    /// What it cannot have.
    pub fn prepare(&self) -> Result<()> {
        let cache = std::env::var_os("TAKT_CACHE").map_or_else(|| self.source.join(crate::linux::CACHE), PathBuf::from);
        for (script, argument) in [(BUILD, "lab".as_ref()), (PACKAGES, cache.as_os_str())] {
            let out = Command::new(self.source.join(script)).arg(argument).output().context(script)?;
            let said = String::from_utf8_lossy(&out.stderr);
            ensure!(out.status.success(), "{script}: {}: {}", out.status, said.lines().last().unwrap_or_default());
        }
        Ok(())
    }

    /// Runs a scenario under all schedulers with all seeds in one boot; the runs of one scheduler come one after the other. With
    /// `trace` also what xentrace writes of the first run.
    ///
    /// # Errors
    /// What the lab cannot do, or what went wrong in the machine.
    pub fn run(
        &self,
        scenario: &Scenario,
        schedulers: &[Scheduler],
        seeds: &[u64],
        trace: bool,
    ) -> Result<(Vec<LabRun>, Option<Vec<u8>>)> {
        let plan = plan::plan(scenario, schedulers, seeds, trace)?;
        let tasks = scenario.vms.iter().any(|vm| matches!(vm.workload(), Workload::Tasks(_)));
        let shift = if tasks && scenario.machine.pcpus > 1 { SHIFT_OF_TASKS } else { SHIFT };
        let left = self.boot(&plan, &Machine { cpus: scenario.machine.pcpus + 1, shift, ..Machine::default() })?;
        let (said, traced) = read::parts(&left).context("result of the lab's Dom0")?;
        ensure!(traced.is_some() == trace, "the lab's Dom0 produced no trace");
        let mut outcome = read::outcome(said, &[scenario], &plan.phases).context("result of the lab's Dom0")?;
        let mut phases: Vec<_> = plan.phases.iter().zip(std::mem::take(&mut outcome.phases)).collect();
        phases.sort_by_key(|(which, _)| (which.scheduler, which.seed));
        let mut runs = Vec::new();
        for (which, phase) in phases {
            let one = crate::outcome::Outcome { phases: vec![phase], ..outcome.clone() };
            let label = schedulers[which.scheduler].to_string();
            runs.extend(result::read(scenario, &label, &seeds[which.seed..=which.seed], one, vec![None]));
        }
        Ok((runs, traced.map(<[u8]>::to_vec)))
    }

    /// Runs scenarios with calls under a scheduler with all seeds in one boot. `takt` is the program that watches in Dom0, if the
    /// scheduler is Takt's. The runs are in the order of scenarios and seeds.
    ///
    /// # Errors
    /// What the lab cannot do, or what went wrong in the machine.
    pub fn call(
        &self,
        scenarios: &[&Scenario],
        scheduler: &Scheduler,
        seeds: &[u64],
        takt: Option<&Path>,
    ) -> Result<Vec<LabRun>> {
        let calls::Boot { plan, options } = calls::plan(scenarios, scheduler, seeds)?;
        ensure!(takt.is_some() || !matches!(scheduler, Scheduler::Takt(_)), "{scheduler}: no program to watch in Dom0");
        let pcpus = scenarios[0].machine.pcpus;
        let left = self.boot(&plan, &Machine { cpus: pcpus + 1, shift: SHIFT_OF_CALLS, options, calls: true, takt })?;
        let (said, _) = read::parts(&left).context("result of the lab's Dom0")?;
        let mut outcome = read::outcome(said, scenarios, &plan.phases).context("result of the lab's Dom0")?;
        // Runs of several boots are compared: no boot's own measure, but what the PCPUs had if the callers needed nothing.
        let instructions_per_s = 1e9 / f64::from(1 << SHIFT_OF_CALLS);
        outcome.iterations_per_s = instructions_per_s / f64::from(pcpus) / INSTRUCTIONS_PER_ITERATION;
        let phases = std::mem::take(&mut outcome.phases);
        let run = |(which, phase): (&plan::Phase, _)| {
            let one = crate::outcome::Outcome { phases: vec![phase], ..outcome.clone() };
            let seed = &seeds[which.seed..=which.seed];
            result::read(scenarios[which.scenario], &scheduler.to_string(), seed, one, vec![None])
        };
        Ok(plan.phases.iter().zip(phases).flat_map(run).collect())
    }

    /// What Dom0 emits.
    fn boot(&self, plan: &plan::Plan, machine: &Machine) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().context("temporary directory")?;
        let (script, log) = (dir.path().join("plan"), dir.path().join("log"));
        fs::write(&script, &plan.script).context("plan")?;
        let patience = PATIENCE + u64::from(plan.vms) * VM_PATIENCE + plan.virtual_ns / 1_000_000_000 * SECOND_PATIENCE;
        let mut boot = Command::new(self.source.join(BOOT));
        let case = if machine.calls { "lab.case=calls" } else { "lab.case=scenario" };
        boot.arg(&log).args([&machine.options, case]).env("PLAN", &script).env("CPUS", machine.cpus.to_string());
        if machine.calls {
            boot.env("CALLS", "1");
        }
        boot.env("TMPDIR", dir.path());
        boot.env("SHIFT", machine.shift.to_string());
        boot.env("TAKT", machine.takt.unwrap_or(Path::new("")));
        boot.env("SECONDS_MAX", patience.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let out = boot.output().context(BOOT)?;
        let console = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).replace('\r', "");
        if let Some((_, failed)) = console.lines().find_map(|l| l.split_once(FAIL)) {
            bail!("in the lab's Dom0: {failed}\n{}", tail(&console));
        }
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{BOOT}: {}: {}\n{}", out.status, errors.trim(), tail(&console));
        let data = dir.path().join("log.data");
        fs::read(&data).context("what the lab's Dom0 emitted")
    }
}

/// Whether the lab can run a scenario under a scheduler.
///
/// # Errors
/// What it cannot do, by the scenario's key.
pub fn check(scenario: &Scenario, scheduler: &Scheduler) -> Result<()> {
    if parties::any(scenario) {
        return calls::plan(&[scenario], scheduler, &[0]).map(drop);
    }
    plan::plan(scenario, std::slice::from_ref(scheduler), &[0], false).map(drop)
}

fn tail(console: &str) -> String {
    let lines: Vec<_> = console.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
