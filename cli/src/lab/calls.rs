// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios with calls in the lab with Xen: a boot for each scheduler, which runs all that fit together.

use super::without;
use crate::jobs;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use takt_lab::{LabRun, xen};
use takt_sim::Scenario;

/// The runs of a scenario are in the order of schedulers and seeds.
///
/// # Errors
/// Something that the lab needs is missing, or a run that fails.
pub fn run(
    lab: &xen::Lab,
    scenarios: &[&Scenario],
    schedulers: &[xen::Scheduler],
    seeds: &[u64],
) -> Result<Vec<LabRun>> {
    if scenarios.is_empty() {
        return Ok(Vec::new());
    }
    let takt = program(schedulers)?;
    let mut groups: Vec<Vec<&Scenario>> = Vec::new();
    for &s in scenarios {
        match groups.iter_mut().find(|g| xen::together(g[0], s)) {
            Some(group) => group.push(s),
            None => groups.push(vec![s]),
        }
    }
    let work: Vec<_> = groups.iter().flat_map(|g| schedulers.iter().map(move |s| (g, s))).collect();
    let runs = jobs::run("running in the lab", &work, |(group, scheduler), _| {
        lab.call(group, scheduler, seeds, takt.as_deref()).with_context(|| format!("under {scheduler}"))
    })?;
    Ok(runs.concat())
}

/// This one watches in Dom0, if it can.
fn program(schedulers: &[xen::Scheduler]) -> Result<Option<PathBuf>> {
    if !schedulers.iter().any(|s| matches!(s, xen::Scheduler::Takt(_))) {
        return Ok(None);
    }
    if !cfg!(feature = "xen") {
        bail!("calls in the Xen lab: {}", without::XEN);
    }
    std::env::current_exe().context("own path").map(Some)
}

/// What the monitor has found out by itself, a line for each run with calls under Takt.
pub fn found(runs: &[LabRun]) -> String {
    let mut text = String::new();
    for run in runs.iter().filter(|r| r.lab.dom0_cpu_ns.is_some()) {
        let Some(vms) = run.lab.status.as_ref().and_then(|s| s["vms"].as_array()) else { continue };
        let said = |vm: &serde_json::Value| {
            let rule = vm["rule"].as_str()?;
            let (name, promotions) = (vm["name"].as_str()?, vm["promotions"].as_u64()?);
            let period = vm["period_us"].as_f64().map_or("no period".to_owned(), |us| format!("{:.1} ms", us / 1e3));
            Some(format!("{name} ({rule}, {period}, promoted {promotions} times)"))
        };
        let all: Vec<_> = vms.iter().filter_map(said).collect();
        let all = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        text += &format!("{} under {}: real-time VMs found: {all}\n", run.result.scenario, run.result.policy);
    }
    text
}
