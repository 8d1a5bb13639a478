// SPDX-License-Identifier: GPL-2.0-only
//! Conformance of hosts and policies to `docs/states.md`.
//!
//! [`Checker`] judges an operation log from outside: it sees operations and outcomes, never a pool.
//! [`LogFile`] stores logs and [`replay`] repeats them natively. [`Host`] makes random, host-like
//! operation sequences; [`Run`] drives a core with them under every check there is; [`judge`] does
//! all of that for one policy; [`agree`] holds a log against the kernel's own trace; [`vectors`]
//! are the worked examples of the rules.

mod agree;
mod checker;
mod core;
mod follow;
mod host;
mod log;
mod model;
mod policy_suite;
mod recording;
mod run;
mod suite;
mod summary;
mod verdict;

pub mod ftrace;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod vectors;
pub mod xen;
pub mod xentrace;

#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(feature = "bpf")]
pub mod qemu;

pub use agree::{Agreement, Changes, Difference, HANDOVER, Holder, Seen, agree, holders};
pub use checker::{Checker, Limits, Rule, Violation};
pub use core::{Core, Loaded, Maker, maker};
pub use follow::{Follower, Had, Told, Waited};
pub use host::{Host, Mode, Shape, variants};
pub use log::{LogFile, MAGIC, VERSION, read_log, records, write_log};
pub use model::Model;
pub use policy_suite::{Finding, Judgement, Part, judge};
pub use recording::{Beginning, log_between};
pub use run::{Invariant, Run, Stats, hash, replay, same_but_outputs};
pub use suite::{OUTCOMES, changed, outcomes, suite, unchanged};
pub use summary::{Summary, name as operation_name};
