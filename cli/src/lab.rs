// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab`: scenarios on a real kernel or hypervisor, in an emulated machine, side by side; or a shell there.

mod calls;
pub mod compare;
mod shell;
mod without;

use crate::simulate::columns::Columns;
use crate::simulate::compare::{Comparison, Job};
use crate::{args, jobs, output, simulate, temporary};
use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::slice;
use takt_control::{Document, PolicySpec, document};
use takt_lab::{Lab, LabRun, Scheduler, linux, xen};
use takt_sim::{RunResult, Scenario};

/// Policies to compare if the command line names none: a scenario's are the simulator's, `pin` among them.
const DEFAULT: [&str; 3] = ["eevdf", "credit", "doris"];
const XEN_DEFAULT: [&str; 3] = ["xen-credit2", "credit", "doris"];

/// What `takt lab linux --json` and `takt lab xen --json` print.
#[derive(Serialize, JsonSchema)]
pub struct Runs<'a> {
    /// By scenario, scheduler and seed, in the order of the command.
    #[serde(serialize_with = "document::sorted")]
    pub runs: &'a [LabRun],
}

impl Document for Runs<'_> {
    const NAME: &'static str = "lab";
    const VERSION: u32 = 1;
}

/// Runs the command.
///
/// # Errors
/// Bad input, something that the lab needs is missing, or a run that fails.
pub fn run(args: &args::Lab) -> Result<bool> {
    let _scratch = temporary::scratch()?;
    match &args.host {
        args::LabHost::Linux(args) => on_linux(args),
        args::LabHost::Xen(args) => on_xen(args),
        args::LabHost::Compare(args) => compare::run(args),
        args::LabHost::Shell(args) => shell::run(args),
    }
}

fn on_linux(args: &args::LabLinux) -> Result<bool> {
    let schedulers = schedulers(&args.policies, &DEFAULT, Scheduler::parse)?;
    for scheduler in &schedulers {
        if matches!(scheduler, Scheduler::Takt { .. }) && !cfg!(feature = "linux") {
            bail!("policy `{scheduler}`: {}", without::LINUX);
        }
    }
    let settings = simulate::settings(&args.set.set)?;
    let scenarios = simulate::scenarios(&args.files, args.duration.as_deref(), &settings)?;
    let work: Vec<_> = scenarios.iter().flat_map(|s| schedulers.iter().map(move |p| (s, p))).collect();
    for (scenario, scheduler) in &work {
        takt_lab::check(scenario, scheduler).with_context(|| format!("{} under {scheduler}", scenario.name))?;
    }
    let takts = matches!(schedulers[0], Scheduler::Takt { .. });
    ensure!(args.record.is_none() || takts, "--record: the first policy must be one of Takt's (got {})", schedulers[0]);
    let [record] = output::open([args.record.as_ref()], &args.files)?;
    linux::qemu()?;
    let mut lab = Lab::new(&args.kernel)?;
    lab.counted = !args.free;
    let seeds = &args.seed.0;
    let runs = jobs::run("running in the lab", &work, |(scenario, scheduler), progress| {
        let first = std::ptr::eq(*scenario, work[0].0) && std::ptr::eq(*scheduler, work[0].1);
        Lab { record: record.is_some() && first, ..lab.clone() }
            .run_telling(scenario, slice::from_ref(scheduler), seeds, progress)
            .with_context(|| format!("{} under {scheduler}", scenario.name))
    })?
    .concat();
    if let Some(file) = record {
        file.write(runs[0].recording.as_ref().context("the lab produced no recording")?)?;
    }
    show(args.json, &scenarios, &schedulers, seeds, &runs, lab.counted)
}

fn on_xen(args: &args::LabXen) -> Result<bool> {
    let schedulers = schedulers(&args.policies, &XEN_DEFAULT, xen::Scheduler::parse)?;
    let settings = simulate::settings(&args.set.set)?;
    let scenarios = simulate::scenarios(&args.files, args.duration.as_deref(), &settings)?;
    for (scenario, scheduler) in scenarios.iter().flat_map(|s| schedulers.iter().map(move |p| (s, p))) {
        xen::check(scenario, scheduler).with_context(|| format!("{} under {scheduler}", scenario.name))?;
    }
    let (called, others): (Vec<_>, Vec<_>) = scenarios.iter().partition(|s| xen::has_calls(s));
    ensure!(args.trace.is_none() || called.is_empty(), "--trace: scenarios with calls cannot be traced");
    let [trace] = output::open([args.trace.as_ref()], &args.files)?;
    let lab = xen::Lab::new()?;
    let seeds = &args.seed.0;
    let done = jobs::run("running in the lab", &others, |scenario, _| {
        let traced = args.trace.is_some() && std::ptr::eq(*scenario, others[0]);
        lab.run(scenario, &schedulers, seeds, traced).with_context(|| scenario.name.clone())
    })?;
    let (runs, traces): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    if let (Some(file), Some(bytes)) = (trace, traces.into_iter().flatten().next()) {
        file.write(&bytes)?;
    }
    let mut runs = runs.concat();
    runs.extend(calls::run(&lab, &called, &schedulers, seeds)?);
    // By the scenario, in the order of the files; those of one are in order.
    runs.sort_by_key(|r| scenarios.iter().position(|s| s.name == r.result.scenario));
    show(args.json, &scenarios, &schedulers, seeds, &runs, true)
}

/// Those of the command line, or the default.
fn schedulers<S: PartialEq + Display>(
    given: &[String],
    default: &[&str],
    parse: fn(&str) -> Result<S>,
) -> Result<Vec<S>> {
    let default: Vec<_> = default.iter().map(|&s| s.to_owned()).collect();
    let mut all: Vec<S> = Vec::new();
    for text in if given.is_empty() { &default } else { given } {
        let scheduler = parse(text).context("--policy")?;
        if all.contains(&scheduler) {
            bail!("--policy: `{scheduler}` is named twice");
        }
        all.push(scheduler);
    }
    Ok(all)
}

/// Runs in the order of scenarios, of schedulers, of seeds.
fn show(
    json: bool,
    scenarios: &[Scenario],
    schedulers: &[impl Display],
    seeds: &[u64],
    runs: &[LabRun],
    counted: bool,
) -> Result<bool> {
    if json {
        output::print_json(&Runs { runs })?;
    } else {
        let work = scenarios.iter().flat_map(|s| schedulers.iter().map(move |p| (s, p)));
        let jobs: Vec<Job> = work
            .flat_map(|(s, p)| seeds.iter().map(move |&seed| Job { scenario: s, policy: named(p), seed }))
            .collect();
        output::print(&text(scenarios, &jobs, runs, counted))?;
    }
    Ok(true)
}

/// As the table names it; it has no parameters that the table would have to know.
fn named(scheduler: &impl Display) -> PolicySpec {
    let label = scheduler.to_string();
    PolicySpec { name: label.clone(), label, pin: false, pools: None, params: Vec::new() }
}

/// The tables, and what to know about them.
fn text(scenarios: &[Scenario], jobs: &[Job], runs: &[LabRun], counted: bool) -> String {
    let results: Vec<RunResult> = runs.iter().map(|r| r.result.clone()).collect();
    let mut text = Comparison::all(scenarios, jobs, &results, false, &Columns::table())
        .iter()
        .map(Comparison::text)
        .collect::<Vec<_>>()
        .join("\n");
    let all = |of: fn(&LabRun) -> String| {
        runs.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let names = all(|r| format!("{} = {}", r.result.policy, r.lab.scheduler));
    text += &match all(|r| r.lab.hypervisor.clone().unwrap_or_default()) {
        none if none.is_empty() => format!("Linux {}; sched_ext: {names}\n", all(|r| r.lab.kernel.clone())),
        xen => format!("Xen {xen}, Dom0's Linux {}; cpupool: {names}\n", all(|r| r.lab.kernel.clone())),
    };
    text += &calls::found(runs);
    if !runs.iter().all(|r| r.lab.dom0_cpu_ns.is_some()) {
        text += "Waits are measured from an event to its handler in the guest.\n";
    }
    let packet = runs.iter().map(|r| r.lab.packet_ns).max().unwrap_or(0);
    let answers = |s: &&Scenario| s.vms.iter().any(|v| v.calls() > 0) && s.constants.voip_packet < packet;
    if let Some(s) = scenarios.iter().find(answers) {
        let (us, least) = (s.constants.voip_packet as f64 / 1e3, packet as f64 / 1e3);
        text += &format!(
            "A packet costs its VCPU at least {least:.0} us in the lab, not the {us:.0} us of the scenario.\n"
        );
    }
    if counted {
        text += "Every instruction takes the same time: no caches, no memory latency, and the speed of an emulated machine.\n";
    }
    text
}
