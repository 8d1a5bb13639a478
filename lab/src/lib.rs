// SPDX-License-Identifier: GPL-2.0-only
//! The simulator's scenarios on the real kernel: a Debian kernel in QEMU, KVM guests that do what the scenario's VMs do, under
//! one of Takt's policies or a scheduler of the kernel's own, and the result in the simulator's form.
//!
//! [`xen`] does the same with the real hypervisor.
//!
//! `map` makes a [`plan`] of a scenario, [`linux`] boots a machine with it, `takt-lab-init` in that machine carries it out, and
//! `result` reads the [`outcome`].

pub mod hosts;
pub mod linux;
mod map;
pub mod outcome;
pub mod plan;
mod result;
pub mod scheduler;
pub mod xen;

pub use linux::{Boot, Kernel, Lab, check};
pub use result::LabRun;
pub use scheduler::Scheduler;
