// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic machine in simulated time: PCPUs, guests, Dom0 and the network between them, scheduled by one
//! `takt_policy::Pool` through the operations of `docs/states.md`.
//!
//! Equal scenario, policy and seed give equal results on every machine: integer time, seeded randomness, no clock.

pub mod constants;
mod keys;
pub mod result;
pub mod scenario;
pub mod units;
pub mod vm;

pub use constants::{CONSTANTS, ConstantInfo, Constants};
pub use result::RunResult;
pub use scenario::Scenario;
pub use vm::{VmSpec, Workload};
