// SPDX-License-Identifier: GPL-2.0-only
//! `--sensitivity`: do the gates hold when a constant of the model is not quite what we think?

use super::Moved;
use super::check::{Kind, Violation};
use super::data::Experiment;
use super::options::Options;
use super::plan::{self, Job};
use anyhow::{Context, Result};
use takt_control::{PolicySpec, duration};
use takt_sim::{CONSTANTS, ConstantInfo};

/// How far each constant is moved, percent of its value.
const PERCENT: [u64; 2] = [75, 125];

/// Moves each constant alone; `None` for an experiment without a model.
///
/// # Errors
/// A run that fails.
pub fn run(e: &Experiment, options: &Options) -> Result<Option<Moved>> {
    let Some(range) = &e.sensitivity else { return Ok(None) };
    let seeds = options.seeds.as_ref().unwrap_or(&range.seeds);
    let gates: Vec<_> = e.check.iter().filter(|c| c.kind == Kind::Gate && c.missed.is_none()).collect();
    // A constant of 0 stays what it is.
    let at_rest = options
        .scenario_of(e, e.variant.first(), range.values.first().context("sensitivity without points")?, "")?
        .constants;
    let moves = [None].into_iter().chain(CONSTANTS.iter().flat_map(|c| PERCENT.map(|p| Some((c, p)))));
    let moves: Vec<Option<(&ConstantInfo, u64)>> = moves
        .filter(|m| {
            let mut moved = at_rest.clone();
            m.is_none_or(|(c, p)| moved.scale(c.key, p).is_some() && moved != at_rest)
        })
        .collect();
    let mut jobs = Vec::new();
    let mut ends = Vec::new();
    for change in &moves {
        for policy in e.every_policy() {
            for x in range.values.iter().filter(|x| gates.iter().any(|g| g.of.needs(policy, x))) {
                let mut scenario = options.scenario_of(e, e.variant.first(), x, policy)?;
                let policy = PolicySpec::parse(policy)?;
                if let Some((constant, percent)) = change {
                    scenario.constants.scale(constant.key, *percent);
                }
                for &seed in &seeds.0 {
                    let (scenario, policy, x) = (scenario.clone(), policy.clone(), x.clone());
                    jobs.push(Job { scenario, policy, x, seed, variant: String::new(), analysis: None });
                }
            }
        }
        ends.push(jobs.len());
    }
    let rows = plan::simulate_all(&format!("{} with constants moved", e.id), &jobs)?;
    let mut violations = Vec::new();
    let mut from = 0;
    for (change, to) in moves.iter().zip(ends) {
        let label = change.map_or_else(Default::default, |(c, p)| (c.key.to_owned(), format!("{p}%")));
        for verdict in gates.iter().map(|g| g.evaluate(&rows[from..to])).filter(|v| !v.ok) {
            violations.push(Violation { constant: label.0.clone(), value: label.1.clone(), verdict });
        }
        from = to;
    }
    let points: Vec<_> = range.values.iter().map(ToString::to_string).collect();
    let run = format!(
        "{} constants moved to 75% and 125%, one at a time: {} runs of {}, {} at {}, seeds {}; only runs that gates need",
        moves.len() / PERCENT.len(),
        jobs.len(),
        duration::format(options.duration(e)),
        e.sweep.as_ref().map_or("point", |s| &s.name),
        points.join(" and "),
        seeds,
    );
    Ok(Some(Moved { run, violations }))
}
