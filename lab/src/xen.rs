// SPDX-License-Identifier: GPL-2.0-only
//! The lab with Xen: the real hypervisor with Dom0, and small PV guests that do what the scenario's VMs do, in a cpupool under one
//! of Takt's policies or a scheduler of Xen's own.
//!
//! `plan` makes a script for Dom0 of a scenario, `xen/lab` boots the machine that follows it, `read` takes what it leaves apart.

mod plan;
mod read;
mod scheduler;

pub use scheduler::Scheduler;

use crate::result::{self, LabRun};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_sim::Scenario;

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
/// Lines of the console that an error shows.
const TAIL: usize = 30;

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
        let left = self.boot(&plan, scenario.machine.pcpus + 1)?;
        let (said, traced) = read::parts(&left).context("what the lab's Dom0 left")?;
        ensure!(traced.is_some() == trace, "the lab's Dom0 left no trace");
        let mut outcome = read::outcome(said, scenario, &plan.phases).context("what the lab's Dom0 left")?;
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

    /// What Dom0 emits.
    fn boot(&self, plan: &plan::Plan, cpus: u32) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().context("temporary directory")?;
        let (script, log) = (dir.path().join("plan"), dir.path().join("log"));
        fs::write(&script, &plan.script).context("plan")?;
        let patience = PATIENCE + u64::from(plan.vms) * VM_PATIENCE + plan.virtual_ns / 1_000_000_000 * SECOND_PATIENCE;
        let mut boot = Command::new(self.source.join(BOOT));
        boot.arg(&log).args(["", "lab.case=scenario"]).env("PLAN", &script).env("CPUS", cpus.to_string());
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
    plan::plan(scenario, std::slice::from_ref(scheduler), &[0], false).map(drop)
}

fn tail(console: &str) -> String {
    let lines: Vec<_> = console.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
