// SPDX-License-Identifier: GPL-2.0-only
//! A pool of the machine with what belongs to it.

use crate::options::{CheckFailed, Options};
use crate::scenario::Scenario;
use crate::timer::Timer;
use anyhow::{Context, Result, anyhow};
use takt_conformance::{Checker, Limits};
use takt_control::PolicySpec;
use takt_policy::{Log, Pool};

/// Longest a kicked PCPU may leave the checker waiting for its decision, ns: one that switches answers after it.
const MAX_PENDING: u64 = 1_000_000_000;

/// The pool of all that is in no other.
pub(crate) const MAIN: usize = 0;
/// The real-time pool, where the policy has one.
pub(crate) const RT: usize = 1;

/// A pool with what belongs to it.
pub(crate) struct Part {
    pub name: String,
    pub policy: PolicySpec,
    pub pool: Pool,
    /// The policy promotes on events, so that a host with it has a monitor.
    pub listens: bool,
    pub timer: Timer,
    pub checker: Option<Checker>,
    pub log: Option<Log>,
}

impl Part {
    fn new(name: &str, policy: PolicySpec, options: &Options) -> Result<Self> {
        let mut pool = Pool::new(&policy.name).with_context(|| format!("unknown policy '{}'", policy.name))?;
        if options.checker || options.record {
            pool.record();
        }
        let limits = Limits { timer_slack: Some(0), max_pending: Some(MAX_PENDING), ..Limits::of(&policy.name) };
        let checker = options.checker.then(|| Checker::new(limits));
        let log = options.record.then(Vec::new);
        let listens = takt_policy::has(&policy.name, "events");
        Ok(Self { name: name.to_owned(), policy, pool, listens, timer: Timer::default(), checker, log })
    }

    /// Hands what the pool has recorded to the checker and to the log.
    pub fn drain(&mut self) -> Result<()> {
        if self.checker.is_none() && self.log.is_none() {
            return Ok(());
        }
        let records = self.pool.take_log();
        self.pool.record();
        if let Some(checker) = &mut self.checker {
            for record in &records {
                checker.step(record).map_err(|v| anyhow!(CheckFailed(v.to_string())))?;
            }
        }
        if let Some(log) = &mut self.log {
            log.extend(records);
        }
        Ok(())
    }
}

/// The pools of a scenario under a policy: the main one, the real-time one if the policy has it, those of the scenario.
///
/// # Errors
/// An unknown policy.
pub(super) fn parts(s: &Scenario, policy: &PolicySpec, options: &Options) -> Result<Vec<Part>> {
    let mut all = vec![Part::new("main", policy.clone(), options)?];
    if let Some(pools) = &policy.pools {
        let given = |key: u32| policy.params.iter().any(|(other, _)| *other == key);
        let defaults = pools.published().into_iter().filter(|&(key, _)| !given(key));
        let params = policy.params.iter().copied().chain(defaults).collect();
        let rt = PolicySpec { name: pools.rt.clone(), pools: None, params, ..policy.clone() };
        all.push(Part::new("rt", rt, options)?);
    }
    for n in 2..=s.machine.machines {
        all.push(Part::new(&format!("machine-{n}"), policy.clone(), options)?);
    }
    for pool in &s.pools {
        all.push(Part::new(&pool.name, pool.policy.clone(), options)?);
    }
    for part in &mut all {
        part.policy.add_defaults(&s.parameters);
    }
    Ok(all)
}
