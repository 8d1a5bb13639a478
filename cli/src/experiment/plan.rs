// SPDX-License-Identifier: GPL-2.0-only
//! Which runs the experiments need. Runs that two of them share are made once.

use super::analysis;
use super::data::Experiment;
use super::options::Options;
use super::{Outcome, traffic, xen};
use crate::row::{Row, X};
use crate::{jobs, simulate};
use anyhow::Result;
use takt_control::PolicySpec;
use takt_sim::Scenario;

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
