// SPDX-License-Identifier: GPL-2.0-only
//! Which runs the experiments need. Runs that two of them share are made once.

use super::analysis;
use super::data::{Experiment, Sweep, Variant, X};
use super::row::Row;
use super::{Outcome, traffic, xen};
use crate::seeds::Seeds;
use crate::{args, jobs, simulate};
use anyhow::{Context, Result, bail};
use takt_control::{PolicySpec, duration};
use takt_sim::Scenario;

/// Least periods of a sender that say something of its traffic.
const ROUNDS: u64 = 10;

/// What the command line says of every experiment.
pub struct Options {
    pub seeds: Option<Seeds>,
    pub duration: Option<u64>,
    pub set: Vec<(String, String)>,
}

impl Options {
    /// # Errors
    /// One line that names a malformed argument.
    pub fn new(args: &args::Experiment) -> Result<Self> {
        let duration = args.duration.as_deref().map(simulate::duration).transpose()?;
        Ok(Self { seeds: args.seeds.clone(), duration, set: simulate::settings(&args.set.set)? })
    }

    pub fn seeds<'a>(&'a self, e: &'a Experiment) -> &'a Seeds {
        self.seeds.as_ref().unwrap_or(&e.seeds)
    }

    pub fn duration(&self, e: &Experiment) -> u64 {
        self.duration.unwrap_or(e.duration)
    }

    /// Whether each sender of `e` gets round often enough to have a median.
    ///
    /// # Errors
    /// One line that names the shortest duration.
    pub fn fits(&self, e: &Experiment) -> Result<()> {
        let least = e.traffic.iter().map(|t| t.period * ROUNDS).max().unwrap_or(0);
        if self.duration(e) < least {
            let (given, least) = (duration::format(self.duration(e)), duration::format(least));
            bail!("--duration {given}: {} allows {least} or more", e.id);
        }
        Ok(())
    }

    /// The points of a sweep; a setting of its key replaces them.
    pub fn points(&self, sweep: &Sweep) -> Vec<X> {
        match self.set.iter().rev().find(|(key, _)| *key == sweep.key) {
            Some((_, value)) => vec![value.parse().map_or_else(|_| X::Name(value.clone()), X::Number)],
            None => sweep.values.clone(),
        }
    }

    /// The experiment's scenario at point `x`, of its first variant, with all settings.
    ///
    /// # Errors
    /// One line that names key and range.
    pub fn scenario(&self, e: &Experiment, x: &X) -> Result<Scenario> {
        self.scenario_of(e, e.variant.first(), x, "")
    }

    /// The same of any variant, as it is under `policy`.
    pub fn scenario_of(&self, e: &Experiment, variant: Option<&Variant>, x: &X, policy: &str) -> Result<Scenario> {
        let mut scenario = e.scenario(variant, policy)?;
        scenario.set("duration", &duration::format(self.duration(e)))?;
        if let Some(sweep) = &e.sweep {
            for (key, value) in sweep.settings(x) {
                scenario.set(key, &value).with_context(|| format!("--set {key}={value}"))?;
            }
        }
        for (key, value) in &self.set {
            scenario.set(key, value).with_context(|| format!("--set {key}={value}"))?;
        }
        Ok(scenario)
    }
}

/// One simulation.
#[derive(Clone, PartialEq)]
pub struct Job {
    pub scenario: Scenario,
    pub policy: PolicySpec,
    pub x: X,
    pub seed: u64,
    /// Name of the variant.
    pub variant: String,
    /// Sets to analyse beside the one that runs.
    pub analysis: Option<u64>,
}

/// Runs all of them.
///
/// # Errors
/// Bad settings or a run that fails.
pub fn run(experiments: &[Experiment], options: &Options) -> Result<Vec<Outcome>> {
    let mut unique: Vec<Job> = Vec::new();
    let mut wanted: Vec<Vec<usize>> = Vec::new();
    for e in experiments {
        let mut indices = Vec::new();
        for job in jobs_of(e, options)? {
            let at = unique.iter().position(|u| *u == job).unwrap_or_else(|| {
                unique.push(job);
                unique.len() - 1
            });
            indices.push(at);
        }
        wanted.push(indices);
    }
    for (n, job) in unique.iter().enumerate() {
        if n == 0 || unique[n - 1].scenario != job.scenario || unique[n - 1].policy != job.policy {
            simulate::check(&job.scenario, &job.policy)?;
        }
    }
    let mut warned: Vec<&Scenario> = Vec::new();
    for job in &unique {
        let known = |s: &&Scenario| s.name == job.scenario.name && s.too_late() == job.scenario.too_late();
        if !warned.iter().any(known) {
            simulate::warn(&format!("scenarios/{}.toml", job.scenario.name), &job.scenario);
            warned.push(&job.scenario);
        }
    }
    let rows = simulate_all("experiments", &unique)?;
    experiments
        .iter()
        .zip(wanted)
        .map(|(e, indices)| {
            let mut mine: Vec<Row> = indices.iter().map(|&n| rows[n].clone()).collect();
            if !e.traffic.is_empty() {
                let seeds = &options.seeds(e).0;
                let made = jobs::run(&e.id, seeds, |seed, _| traffic::rows(e, options.duration(e), *seed))?;
                mine.extend(made.into_iter().flatten());
            }
            mine.extend(xen::rows(e, options)?);
            Ok(Outcome::new(e, mine))
        })
        .collect()
}

/// One row per job, over all cores.
///
/// # Errors
/// A run that fails.
pub fn simulate_all(what: &str, jobs: &[Job]) -> Result<Vec<Row>> {
    jobs::run(what, jobs, |job, progress| {
        let run = simulate::one(&job.scenario, &job.policy, job.seed, progress)?;
        let mut row = Row::from_run(&run, &job.policy.label, job.x.clone());
        row.variant.clone_from(&job.variant);
        if let Some(more) = job.analysis {
            analysis::compare(&mut row.metrics, &run, &job.scenario, &job.policy, job.seed, more);
        }
        Ok(row)
    })
}

/// By variant, policy, point, seed: the order of the rows.
fn jobs_of(e: &Experiment, options: &Options) -> Result<Vec<Job>> {
    let Some(sweep) = &e.sweep else { return Ok(Vec::new()) };
    let points = options.points(sweep);
    let mut out = Vec::new();
    for variant in e.variants() {
        for policy in e.policies_of(variant) {
            let spec = PolicySpec::parse(policy)?;
            for x in &points {
                let scenario = options.scenario_of(e, variant, x, policy)?;
                for &seed in &options.seeds(e).0 {
                    let (scenario, policy, x) = (scenario.clone(), spec.clone(), x.clone());
                    let variant = variant.map_or_else(String::new, |v| v.name.clone());
                    out.push(Job { scenario, policy, x, seed, variant, analysis: e.analysis });
                }
            }
        }
    }
    Ok(out)
}
