// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab`: scenarios on a real kernel, in an emulated machine, side by side.

use crate::simulate::{self, Job, compare::Comparison};
use crate::{args, jobs, output};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use takt_control::PolicySpec;
use takt_lab::{Kernel, Lab, LabRun, Scheduler, linux};
use takt_sim::{RunResult, Scenario};

/// Policies to compare if the command line names none: a scenario's are the simulator's, `pin` among them.
const DEFAULT: [&str; 3] = ["eevdf", "credit", "doris"];

/// Runs the command.
///
/// # Errors
/// Bad input, something that the lab needs is missing, or a run that fails.
pub fn run(args: &args::Lab) -> Result<bool> {
    let args::LabHost::Linux(args) = &args.host;
    let schedulers = schedulers(&args.policies)?;
    let settings = simulate::settings(&args.set.set)?;
    let scenarios = simulate::scenarios(&args.files, args.duration.as_deref(), &settings)?;
    let work: Vec<_> = scenarios.iter().flat_map(|s| schedulers.iter().map(move |p| (s, p))).collect();
    for (scenario, scheduler) in &work {
        takt_lab::check(scenario, scheduler).with_context(|| format!("{} under {scheduler}", scenario.name))?;
    }
    linux::qemu()?;
    let mut lab = Lab::new(Kernel::get(&args.kernel)?)?;
    lab.counted = !args.free;
    let seeds = &args.seed.0;
    let runs = jobs::run("running in the lab", &work, |(scenario, scheduler), _| {
        lab.run(scenario, scheduler, seeds).with_context(|| format!("{} under {scheduler}", scenario.name))
    })?
    .concat();
    if args.json {
        output::print_json(&serde_json::json!({"runs": runs}))?;
    } else {
        let jobs: Vec<Job> = work
            .iter()
            .flat_map(|(s, p)| seeds.iter().map(|&seed| Job { scenario: s, policy: named(p), seed }))
            .collect();
        output::print(&text(&scenarios, &jobs, &runs, lab.counted))?;
    }
    Ok(true)
}

/// Those of the command line, or the default.
fn schedulers(given: &[String]) -> Result<Vec<Scheduler>> {
    let mut all: Vec<Scheduler> = Vec::new();
    let default = DEFAULT.map(str::to_owned);
    for text in if given.is_empty() { &default } else { given } {
        let scheduler = Scheduler::parse(text).context("--policy")?;
        if all.contains(&scheduler) {
            bail!("--policy: `{scheduler}` is named twice");
        }
        if matches!(scheduler, Scheduler::Takt { .. }) && !cfg!(feature = "linux") {
            bail!("--policy {scheduler}: this takt is built without the Linux host (cargo build --features linux)");
        }
        all.push(scheduler);
    }
    Ok(all)
}

/// As the table names it; it has no parameters that the table would have to know.
fn named(scheduler: &Scheduler) -> PolicySpec {
    let label = scheduler.to_string();
    PolicySpec { name: label.clone(), label, pin: false, params: Vec::new() }
}

/// The tables, and what to know about them.
fn text(scenarios: &[Scenario], jobs: &[Job], runs: &[LabRun], counted: bool) -> String {
    let results: Vec<RunResult> = runs.iter().map(|r| r.result.clone()).collect();
    let mut text =
        Comparison::all(scenarios, jobs, &results).iter().map(Comparison::text).collect::<Vec<_>>().join("\n");
    let kernels: BTreeSet<_> = runs.iter().map(|r| r.lab.kernel.as_str()).collect();
    let schedulers: BTreeSet<_> = runs.iter().map(|r| format!("{} = {}", r.result.policy, r.lab.scheduler)).collect();
    let join = |set: Vec<String>| set.join(", ");
    text += &format!("Linux {}; ", join(kernels.into_iter().map(str::to_owned).collect()));
    text += &format!("sched_ext: {}\n", join(schedulers.into_iter().collect()));
    text += "Waits are from an event to its handler in the guest.\n";
    let packet = runs.iter().map(|r| r.lab.packet_ns).max().unwrap_or(0);
    let answers = |s: &&Scenario| s.vms.iter().any(|v| v.calls() > 0) && s.constants.voip_packet < packet;
    if let Some(s) = scenarios.iter().find(answers) {
        let (us, least) = (s.constants.voip_packet as f64 / 1e3, packet as f64 / 1e3);
        text += &format!("A packet costs its VCPU at least {least:.0} us here, not the {us:.0} us of the scenario.\n");
    }
    if counted {
        text += "An instruction takes the same time everywhere: no caches, no memory latency, and an emulated machine's speed.\n";
    }
    text
}
