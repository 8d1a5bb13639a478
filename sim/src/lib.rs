// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic machine in simulated time: PCPUs, guests, Dom0 and the network between them, scheduled by
//! `takt_policy::Pool`s through the operations of `docs/states.md`.
//!
//! Equal scenario, policy and seed give equal results on every machine: integer time, seeded randomness, no clock.

pub mod constants;
pub mod emodel;
mod engine;
mod guest;
mod keys;
mod machine;
mod net;
mod observe;
mod options;
mod pool;
pub mod promise;
mod report;
pub mod result;
mod rng;
pub mod scenario;
mod script;
mod server;
mod spec;
mod timer;
pub mod units;
pub mod vm;
pub mod workload;

pub use constants::{CONSTANTS, ConstantInfo, Constants};
pub use observe::{Marker, MarkerKind, Slice, Trace, TraceVcpu, Window};
pub use options::{CheckFailed, Options};
pub use pool::PoolSpec;
pub use report::jain;
pub use result::{RunResult, quantile};
pub use scenario::Scenario;
pub use script::{Act, Settings, Step};
pub use spec::{Chosen, KeyInfo, Kind, TaskSpec};
pub use vm::VmSpec;
pub use workload::{Workload, fanout, parallel, tasks};

use anyhow::Result;
use machine::Machine;
use takt_control::PolicySpec;
use takt_policy::Log;
use workload::PROGRAMS;

/// Whether a scenario can be run under a policy at all.
///
/// # Errors
/// Those of [`run`] that depend on neither seed nor time.
pub fn check(scenario: &Scenario, policy: &PolicySpec) -> Result<()> {
    Machine::new(scenario, policy, PROGRAMS, 0, &Options::default()).map(drop)
}

/// Whether each VM that is there from the beginning has room for its budget, as [`run`] would find; steps of the script are not looked at.
/// Nothing: no pool has a policy that keeps budgets.
pub fn admits(scenario: &Scenario, policy: &PolicySpec, seed: u64) -> Option<Result<()>> {
    machine::server::has_servers(scenario, policy).then(|| machine::server::admit(scenario, policy, PROGRAMS, seed))
}

/// PCPUs, a bit each, of each VCPU under `pin`: Dom0's first, then those of the VMs in their order.
///
/// # Errors
/// Too few PCPUs; the message names the numbers.
pub fn pinned(scenario: &Scenario) -> Result<Vec<u64>> {
    machine::pin::masks(scenario, true)
}

/// Runs a scenario under a policy. With `record` there is a log for each pool, the main one's first.
///
/// # Errors
/// The policy does not fit the scenario (too few PCPUs to pin, a parameter refused), or with `checker` a [`CheckFailed`].
pub fn run(
    scenario: &Scenario,
    policy: &PolicySpec,
    seed: u64,
    mut options: Options,
) -> Result<(RunResult, Option<Trace>, Vec<Log>)> {
    let mut machine = Machine::new(scenario, policy, PROGRAMS, seed, &options)?;
    machine.run(&mut options)?;
    machine.finish();
    Ok((machine.result(), machine.trace(), machine.logs()))
}
