// SPDX-License-Identifier: GPL-2.0-only
//! What the command line says of experiments, and the scenarios that follow.

use super::data::{Experiment, Sweep, Variant};
use crate::row::X;
use crate::seeds::Seeds;
use crate::{args, simulate};
use anyhow::{Context, Result, bail};
use takt_control::duration;
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
            bail!("--duration {given}: {} needs at least {least}", e.id);
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

    /// The experiment's scenario at point `x`, of a variant, as it is under `policy`, with all settings.
    ///
    /// # Errors
    /// One line that names key and range.
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
