// SPDX-License-Identifier: GPL-2.0-only
//! The monitor of Doris (docs/rules/monitor.md): packets that a virtual machine sends in, "it is
//! real-time, its period is p" out.
//!
//! The decision is made in freestanding C (`core/`), which runs here natively and, with the feature `bpf`, in the
//! kernel. [`Monitor`] wraps one VM's state; [`inspect()`] runs one monitor per sender of a capture file.

#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
#[cfg(feature = "device")]
pub mod device;
mod ffi;
mod inspect;
mod monitor;
#[cfg(feature = "device")]
pub mod object;
mod statistic;
mod traffic;

pub use ffi::{Link, Parsed, PeriodSource};
pub use inspect::{Inspector, Named, Options, Others, Report, Sender, inspect, inspect_with};
pub use monitor::{Config, Counters, Monitor, Outcome, Packet, Promotion, REPORT_NS, rule_name};
pub use traffic::Timeline;
