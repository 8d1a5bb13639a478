// SPDX-License-Identifier: GPL-2.0-only
//! `takt sim`: scenarios under policies, side by side.

mod charts;
pub(crate) mod columns;
pub(crate) mod compare;
mod csv;
mod seen;
mod vm;
mod vms;

use crate::{args, jobs, output, scenarios, watch};
use anyhow::{Context, Result, bail};
use columns::Columns;
use compare::{Comparison, Job};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Display;
use std::path::PathBuf;
use takt_conformance::LogFile;
use takt_control::{Document, PolicySpec, document, duration as time};
use takt_sim::{RunResult, Scenario};

/// Policies to compare if neither the command line nor the scenario names any.
const DEFAULT: [&str; 2] = ["credit", "doris"];
/// Measured time: less tells nothing, more is a mistake.
const DURATIONS: [u64; 2] = [1_000_000, 86_400_000_000_000];
/// Most runs of one command.
const MAX_RUNS: usize = 100_000;
/// Longest time that is recorded: some GB of operations under a busy network.
const RECORDED: u64 = 120_000_000_000;

/// What `takt sim --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Runs {
    /// By scenario, policy and seed, in the order of the command.
    #[serde(serialize_with = "document::sorted")]
    pub runs: Vec<RunResult>,
}

impl Document for Runs {
    const NAME: &'static str = "sim";
    const VERSION: u32 = 1;
}

/// Runs the command.
///
/// # Errors
/// Bad input, a run that fails, or output that cannot be written.
pub fn run(args: &args::Sim) -> Result<bool> {
    let given = PolicySpec::list(args.policies.iter().map(String::as_str)).context("--policy")?;
    let columns = args.columns.as_deref().map(|list| Columns::parse(list).context("--columns")).transpose()?;
    let settings = settings(&args.set.set)?;
    let scenarios = scenarios(&args.files, args.duration.as_deref(), &settings)?;
    for (file, scenario) in args.files.iter().zip(&scenarios) {
        warn(&file.display(), scenario);
    }
    let mut jobs = Vec::new();
    for scenario in &scenarios {
        for policy in policies(&given, scenario)? {
            let seeds = args.seed.0.iter();
            jobs.extend(seeds.map(|&seed| Job { scenario, policy: policy.clone(), seed }));
        }
    }
    if jobs.len() > MAX_RUNS {
        bail!("{} runs; allowed: at most {MAX_RUNS}", jobs.len());
    }
    for job in jobs.iter().filter(|j| j.seed == args.seed.0[0]) {
        check(job.scenario, &job.policy)?;
    }
    let files = [args.trace.as_ref(), args.record.as_ref(), args.out.html.as_ref(), args.out.svg.as_ref()];
    let [trace, record, html, svg] = output::open(files, &args.files)?;

    if let (true, Some(s)) = (trace.is_some(), scenarios.iter().find(|s| s.duration > watch::TRACED)) {
        let (given, most) = (time::format(s.duration), time::format(watch::TRACED));
        bail!("--trace: {} measures {given}; allowed: at most {most} (see --duration)", s.name);
    }
    if let (true, Some(s)) = (record.is_some(), scenarios.first().filter(|s| s.duration > RECORDED)) {
        let (given, most) = (time::format(s.duration), time::format(RECORDED));
        bail!("--record: {} measures {given}; allowed: at most {most} (see --duration)", s.name);
    }
    if let (true, Some(job)) = (record.is_some(), jobs.first().filter(|j| j.policy.pools.is_some())) {
        bail!("--record: {} has two pools; a recording holds only one", job.policy);
    }
    let runs = jobs::run("simulating", &jobs, |j, progress| one(j.scenario, &j.policy, j.seed, progress))?;
    if let (Some(file), Some(job)) = (trace, jobs.first()) {
        file.write(&watch::perfetto(job.scenario, &job.policy, job.seed)?)?;
    }
    if let (Some(file), Some(job)) = (record, jobs.first()) {
        file.write(&recording(job)?)?;
    }
    let comparisons =
        Comparison::all(&scenarios, &jobs, &runs, args.all, columns.as_ref().unwrap_or(&Columns::table()));
    if let Some(file) = svg {
        file.write(comparisons[0].main_chart()?.as_bytes())?;
    }
    let text = comparisons.iter().map(Comparison::text).collect::<Vec<_>>().join("\n");
    if let Some(file) = html {
        file.write(compare::page(comparisons, &args.seed, &settings)?.html()?.as_bytes())?;
    }
    if args.out.json {
        output::print_json(&Runs { runs })?;
    } else if args.csv {
        output::print(&csv::text(&jobs, &runs, &columns.unwrap_or_else(Columns::csv)))?;
    } else {
        output::print(&text)?;
    }
    Ok(true)
}

/// A line for all that a scenario asks for after the end of its run.
pub fn warn(file: &dyn Display, scenario: &Scenario) {
    for line in scenario.too_late() {
        output::complain(&format!("warning: {file}: {line}"));
    }
}

/// Refuses before the first run what only one of many would refuse.
///
/// # Errors
/// The scenario cannot be run under this policy.
pub fn check(scenario: &Scenario, policy: &PolicySpec) -> Result<()> {
    takt_sim::check(scenario, policy).with_context(|| format!("{} under {policy}", scenario.name))
}

/// One run.
///
/// # Errors
/// The scenario cannot be run under this policy.
pub fn one(scenario: &Scenario, policy: &PolicySpec, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<RunResult> {
    let options = takt_sim::Options { progress: Some(progress), ..Default::default() };
    let done = takt_sim::run(scenario, policy, seed, options);
    done.map(|(result, ..)| result).with_context(|| format!("{} under {policy}, seed {seed}", scenario.name))
}

/// The operations of a run, in a file for `takt replay`.
fn recording(job: &Job) -> Result<Vec<u8>> {
    let logs = jobs::run("recording", &[job], |j, progress| {
        let options = takt_sim::Options { record: true, progress: Some(progress), ..Default::default() };
        let done = takt_sim::run(j.scenario, &j.policy, j.seed, options);
        done.map(|(result, _, logs)| (result, logs)).with_context(|| format!("{} under {}", j.scenario.name, j.policy))
    })?;
    let (result, logs) = logs.into_iter().next().context("the simulator kept no log")?;
    let records = logs.into_iter().next().context("the simulator kept no log")?;
    LogFile {
        policy: job.policy.name.clone(),
        pool_size: takt_policy::pool_size() as u64,
        pool_hash: 0,
        names: result.vms.into_iter().enumerate().map(|(n, vm)| (n as u16, vm.name)).collect(),
        records,
        ..LogFile::default()
    }
    .to_bytes()
}

/// Reads scenarios, and changes in each what the command line says.
///
/// # Errors
/// One line that names the file, and the key or option.
pub(crate) fn scenarios(
    files: &[PathBuf],
    duration: Option<&str>,
    settings: &[(String, String)],
) -> Result<Vec<Scenario>> {
    let duration = duration.map(self::duration).transpose()?;
    let one = |file: &PathBuf| {
        let mut scenario = scenarios::read(file)?;
        if let Some(ns) = duration {
            let context = || format!("{}: --duration", file.display());
            scenario.set("duration", &time::format(ns)).with_context(context)?;
        }
        for (key, value) in settings {
            let context = || format!("{}: --set {key}={value}", file.display());
            scenario.set(key, value).with_context(context)?;
        }
        Ok(scenario)
    };
    files.iter().map(one).collect()
}

/// `key=value` of each `--set`.
///
/// # Errors
/// One line that names the malformed one.
pub fn settings(set: &[String]) -> Result<Vec<(String, String)>> {
    set.iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => bail!("--set {pair}: must be KEY=VALUE"),
        })
        .collect()
}

/// `--duration`.
///
/// # Errors
/// One line with the allowed range.
pub fn duration(text: &str) -> Result<u64> {
    let [min, max] = DURATIONS;
    match time::parse(text) {
        Ok(ns) if (min..=max).contains(&ns) => Ok(ns),
        Ok(_) => bail!("--duration {text} is out of range; allowed: {} to {}", time::format(min), time::format(max)),
        Err(e) => bail!("--duration: {e}; allowed: {} to {}", time::format(min), time::format(max)),
    }
}

/// Those of the command line, else those of the scenario, else a default.
pub(crate) fn policies(given: &[PolicySpec], scenario: &Scenario) -> Result<Vec<PolicySpec>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let default = || DEFAULT.map(str::to_owned).to_vec();
    let names = if scenario.policies.is_empty() { default() } else { scenario.policies.clone() };
    names.iter().map(|p| PolicySpec::parse(p)).collect()
}
