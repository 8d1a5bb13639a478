// SPDX-License-Identifier: GPL-2.0-only
//! What the lab's init is told to do, as JSON in the machine's `/plan.json`.

use crate::scheduler::Scheduler;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use takt_control::VmConfig;

/// Slots of a guest's ring, in either lab: nobody sends a message again that found no room.
pub const MESSAGES: u64 = 256;

/// Where the machine has it.
pub const FILE: &str = "/plan.json";
/// The outcome's name in the outbox.
pub const OUTCOME: &str = "outcome.json";
/// What goes wrong in the machine, by name in the outbox.
pub const ERROR: &str = "error";
/// Phase `n`'s recording in the outbox, of a policy of Takt's.
pub fn recording(n: usize) -> String {
    format!("recording-{n}")
}

/// What CPU `cpu` ran in phase `n`, as pages of the kernel's ring buffer; the format of an event; bytes of a page.
pub fn trace(n: usize, cpu: usize) -> String {
    format!("trace-{n}-{cpu}")
}
pub const TRACE_FORMAT: &str = "trace-format";
pub const TRACE_PAGE: usize = 4096;

/// One boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Divisor of the i8254's 1.193 MHz; bounds how long one CPU is emulated before the next. `None` where time is not counted.
    pub tick: Option<u16>,
    /// Iterations of a guest's loop per second of a CPU where time is counted, and so known; else init measures.
    pub iterations_per_s: Option<f64>,
    /// Time that a booted kernel gets to come to rest, ns.
    pub settle_ns: u64,
    /// Whether policies of Takt's are recorded.
    pub record: bool,
    /// Whether the kernel traces who runs where.
    pub trace: bool,
    /// One after the other.
    pub phases: Vec<Phase>,
}

/// VMs from their start to their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// In force since the phase before if that had the same, and the same VMs, and no recording is made.
    pub scheduler: Scheduler,
    pub warmup_ns: u64,
    pub measure_ns: u64,
    pub vms: Vec<Vm>,
}

/// One process of `takt-vmm`, and the clients of that VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    pub name: String,
    /// Whether it answers clients or a clock: the kernel's own schedulers are told so.
    pub serves: bool,
    /// What its operator says of it.
    pub config: VmConfig,
    /// CPUs it may run on; empty = all.
    pub affinity: Vec<u32>,
    /// The VMM's specification, with 0 for what init is to fill in.
    pub vcpus: u32,
    pub start_ms: u64,
    pub workload: Map<String, Value>,
    /// CPU time of a job (`work`), ns: init knows how many iterations that are, and what a packet costs besides.
    pub work_ns: Option<u64>,
    /// Other CPU times of the workload, by where they are in it (a JSON pointer), ns: init makes iterations of them as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_ns: BTreeMap<String, u64>,
    /// Arguments of `takt-vmm send`, if the VM has clients.
    pub clients: Option<Vec<String>>,
    /// Arguments of `takt-vmm ask`, if the VM is an application's front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Vec<String>>,
}
