// SPDX-License-Identifier: GPL-2.0-only
//! What the lab's init found, as JSON in the outbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takt_control::overhead::Window;
use takt_sim::result::PcpuResult;

/// One boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// As `uname -r` says; in Xen Dom0's.
    pub kernel: String,
    /// As `xl info` names its version.
    #[serde(default)]
    pub hypervisor: Option<String>,
    /// Iterations of a guest's loop per second of a CPU, all CPUs being busy: the plan's, or measured.
    pub iterations_per_s: f64,
    /// CPU time of a packet that a VCPU answers without any work, ns: part of what the scenario says of a packet.
    pub packet_ns: u64,
    pub phases: Vec<Phase>,
}

/// One phase of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The scheduler as the kernel names it: `/sys/kernel/sched_ext/root/ops`, `none` without one; in Xen as the toolstack does.
    pub ops: String,
    /// When measuring began, ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    pub measured_ns: u64,
    pub switches: u64,
    /// Time CPUs idled, summed over them; to 10 ms.
    pub idle_ns: u64,
    /// CPU time of Dom0, if it is under the scheduler that is tested.
    #[serde(default)]
    pub dom0_cpu_ns: Option<u64>,
    pub vms: Vec<Vm>,
    /// What `takt status --json` said at the end.
    pub status: Option<Value>,
    /// Of Takt's policies in Xen, in runs without calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Took>,
}

/// What decisions and switches took over the measured time, as the hypervisor counts it (RTXEN-E2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Together, as `takt overhead --json` has it.
    pub all: Window,
    pub pcpus: Vec<PcpuResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Vm {
    pub name: String,
    /// The VMM's own account.
    pub report: Report,
    /// Its clients'.
    pub clients: Option<Clients>,
    /// Those of an application's front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// The kernel's account of its threads.
    pub threads: Vec<Thread>,
}

/// `/proc/PID/task/TID/schedstat` over the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    pub name: String,
    pub cpu_ns: u64,
    /// Runnable, but not running.
    pub wait_ns: u64,
    pub runs: u64,
}

/// What is read of `takt-vmm`'s result; in Xen the guest itself says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub measured_ns: u64,
    pub vcpus: Vec<Vcpu>,
    pub io: Option<Io>,
    /// Of a set of tasks, by priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// Of a parallel program: its iterations are the jobs of its VCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

/// What its VCPUs did together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    pub barriers: u64,
    pub sleeps: u64,
    /// Iterations of a guest's loop.
    pub spun: u64,
    /// Within the measured time.
    pub ran_ns: u64,
    /// From its beginning to its end, if it has come to one.
    pub time_ns: Option<u64>,
}

/// One of a set; as `TaskResult` counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub jobs: u64,
    pub missed: u64,
    pub response_max_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Vcpu {
    pub cpu_ns: u64,
    /// Iterations.
    pub work: u64,
    pub jobs: u64,
    pub misses: u64,
    /// From the event to the guest's handler.
    pub latency: Latency,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Io {
    pub cpu_ns: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub lost_in: u64,
    pub lost_out: u64,
    /// From a client's sending to the I/O thread's reading.
    pub wait: Latency,
}

/// What is read of `takt-vmm send`'s result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clients {
    pub sent: u64,
    pub late: u64,
    pub lost: u64,
    pub round_trip: Latency,
    /// How long after it was due a packet was sent.
    pub send_delay: Latency,
    /// Each call, where the clients can tell them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    pub sent: u64,
    pub late: u64,
    pub lost: u64,
    /// As the E-model has it.
    pub burst_ratio: f64,
}

/// What an application's clients saw of it; as `FanoutResult` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    pub sent: u64,
    /// Answered after the deadline.
    pub missed: u64,
    /// Parts that the answered ones had in all.
    pub parts: u64,
    /// From leaving a client to being back there, of those answered.
    pub response: Latency,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}
