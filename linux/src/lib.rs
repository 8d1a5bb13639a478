// SPDX-License-Identifier: GPL-2.0-only
//! The Linux/KVM host: policies under `sched_ext`, VMs found as KVM runs them, the monitor on their network devices.
//!
//! [`Scheduler`] loads and attaches the programs of `bpf/` and speaks for them; dropping it unloads them, and the kernel's
//! own scheduler is back.

pub mod bench;
mod control;
pub mod core_sched;
pub mod doctor;
mod environment;
pub mod keeper;
pub mod net;
mod object;
mod ops;
mod partition;
mod ran;
mod record;
mod scheduler;
#[cfg(test)]
#[path = "../../cli/tests/common/schema.rs"]
mod schema;
mod shared;
pub mod status;

pub use control::{LOOK, Live, Options};
pub use environment::{Environment, scheduler_name};
pub use ops::TIMEOUT_MS;
pub use record::{LONGEST, Recorder};
pub use scheduler::{Ended, Notice, Scheduler, policies};
pub use shared::{Counts, FIRST_GUEST, HOST_VM, HostCpu, HostVcpu, HostVm, Quota, Snapshot};
pub use takt_monitor::object::{Verified, verified};
