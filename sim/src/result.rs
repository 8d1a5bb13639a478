// SPDX-License-Identifier: GPL-2.0-only
//! What a run yields: a stable JSON interface. Times are ns, and all figures are of the measured window (after the warm-up).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use takt_control::overhead::Times;
use takt_policy::Overhead;

/// One run of one scenario under one policy with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Label of the policy, as the user wrote it.
    pub policy: String,
    pub seed: u64,
    /// Simulated time before the measured window, ns.
    pub warmup_ns: u64,
    /// Length of the measured window, ns.
    pub duration_ns: u64,
    /// VMs in the order of the scenario, Dom0 first.
    pub vms: Vec<VmResult>,
    pub host: HostResult,
    /// Each PCPU; empty where the host does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pcpus: Vec<PcpuResult>,
    /// Only where there are several pools, or a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<PoolsResult>,
}

/// One VM, or Dom0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmResult {
    /// Name from the scenario; with `count` above 1 a number is appended ("hog-2"). Dom0 is "dom0".
    pub name: String,
    /// Name from the scenario without the number, if one is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// "host" (Dom0) or "guest".
    pub kind: String,
    /// Type of the workload, as in the scenario; "dom0" for Dom0.
    pub workload: String,
    pub weight: u64,
    /// Time its VCPUs held a PCPU, ns.
    pub cpu_time_ns: u64,
    /// Batch work done, CPU-seconds of useful work: without refills of cold caches, interrupts and guest ticks. 0 for non-batch VMs.
    pub work: f64,
    /// Time lost to cold caches, ns.
    pub cold_ns: u64,
    /// Whether the policy holds it for real-time at the end.
    pub rt: bool,
    /// By what it was found to be real-time, if the monitor has found it and it still is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// Period the policy holds at the end, ns; 0 = none.
    pub period_ns: u64,
    /// Promotions of its VCPUs to the real-time class by events.
    pub promotions: u64,
    /// Events that promoted nothing: no credit, more than its share, or more than `event_max`.
    pub refusals: u64,
    /// Waits in run queues by class at enqueue ("rt", "boost", "under", "over"), and "all". In the labs "all" is from an event to its handler.
    pub wait: BTreeMap<String, WaitStat>,
    pub vcpus: Vec<VcpuResult>,
    /// Only for VoIP servers.
    pub voip: Option<VoipResult>,
    /// Only for streaming servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vod: Option<VodResult>,
    /// Only for games and media players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoResult>,
    /// Only for senders on a timer of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamResult>,
    /// Only for VMs with periodic tasks.
    pub periodic: Option<PeriodicResult>,
    /// Only for VMs with sets of tasks: each of them, by priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskResult>,
    /// Only for cyclictest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cyclictest: Option<CyclicResult>,
    /// Only for parallel programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelResult>,
    /// Only for the front of an application of several VMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fanout: Option<FanoutResult>,
    /// Only for builds and Postmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobsResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<PingResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netperf: Option<NetperfResult>,
    /// Only for VMs that send packets: gaps between them as netback sees them.
    pub tx: Option<TxResult>,
    pub drops: Drops,
}

/// The monitor's verdict upon a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Rule of the monitor.
    pub rule: String,
    /// When, ns since the measured window began; before it negative.
    pub at_ns: i64,
}

/// One VCPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VcpuResult {
    /// Number within the pool, as in logs and traces.
    pub vcpu: u32,
    /// Time it held a PCPU, ns.
    pub cpu_time_ns: u64,
    /// Waits in run queues by class, as for the whole VM.
    pub wait: BTreeMap<String, WaitStat>,
    /// Only beside media servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionStat>,
}

/// Predicted minus actual waits in a run queue: predicted is what those ahead ran when they ran last, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionStat {
    pub entries: u64,
    pub p5_ns: i64,
    pub p25_ns: i64,
    pub p50_ns: i64,
    pub p75_ns: i64,
    pub p95_ns: i64,
}

/// Waits from entering a run queue to running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitStat {
    /// Entries into a queue.
    pub entries: u64,
    pub mean_ns: u64,
    /// Quantiles are exact to 1.6%; 0 by class in the labs, where none is counted.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Mean run time that followed an entry, ns.
    pub run_per_entry_ns: u64,
    /// Time run while in this class, ns, whatever the class was at the entry.
    #[serde(default)]
    pub held_ns: u64,
}

/// The calls of a VoIP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VoipResult {
    pub calls: Vec<CallResult>,
    /// Mean over the calls; 1 to 4.5.
    pub mean_pesq: f64,
    pub min_pesq: f64,
    pub p25_pesq: f64,
    pub p50_pesq: f64,
    pub p75_pesq: f64,
    pub max_pesq: f64,
    /// Mean of the E-model's MOS, without noise.
    pub mean_mos: f64,
    /// Packets late or lost, percent of those sent.
    pub late_lost_pct: f64,
    /// Mean time from client to client, ns; of packets that arrived.
    pub delay_mean_ns: u64,
    /// The longest, ns.
    pub delay_max_ns: u64,
    /// Mean MOS with the delay until play-out; where every packet is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_mos: Option<f64>,
    /// Mean difference between the times of packets that came one after the other, which RFC 3550 smooths, ns; where every packet is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
    /// Quantiles of the time from client to client, where every packet is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_p50_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_p99_ns: Option<u64>,
}

/// One call, as its client hears it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallResult {
    /// Number of the call, from 0 in the order of the ramp; of a media server twice that, and one more for the way back.
    pub id: u32,
    /// Packets the client sent.
    pub sent: u64,
    /// Packets that came back after their play-out time.
    pub late: u64,
    /// Packets that never came back.
    pub lost: u64,
    /// Mean length of the loss bursts over that of random loss; 1 = random.
    pub burst_ratio: f64,
    /// E-model, 1 to 4.5.
    pub mos: f64,
    /// PESQ stand-in: MOS + 0.04 with seeded noise, at most 4.5.
    pub pesq: f64,
}

/// The streams of a server, as they leave the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VodResult {
    pub users: u32,
    pub packets: u64,
    /// Frames that were sent, and those that the server left out because they were too late.
    #[serde(default)]
    pub frames: u64,
    pub skipped_frames: u64,
    /// Packets that the server's socket had no room for.
    #[serde(default)]
    pub dropped_packets: u64,
    /// Bits of the stream per second: mean, least and greatest over the users.
    pub rate_mean: f64,
    pub rate_min: f64,
    pub rate_max: f64,
    /// From a frame's time until its packets leave; quantiles are exact to 1.6%.
    pub lag_p50_ns: u64,
    pub lag_p99_ns: u64,
    pub lag_max_ns: u64,
}

/// The frames of a game or of a media player, as they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VideoResult {
    pub frames: u64,
    /// Frames that were left out, or of which packets were lost.
    pub lost: u64,
    /// Frames that were shown more than a period after their time.
    pub late: u64,
    /// Frames in each whole second while it plays: mean, standard deviation, least.
    pub fps_mean: f64,
    pub fps_sd: f64,
    pub fps_min: f64,
    /// From a frame's time until it is shown; quantiles are exact to 1.6%.
    pub lag_p50_ns: u64,
    pub lag_p99_ns: u64,
    pub lag_max_ns: u64,
    /// Time to play a video whole, if it has ended, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
}

/// Jobs that compute and wait for a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobsResult {
    /// Files that were compiled, or transactions.
    pub steps: u64,
    /// Answers of the disk.
    pub requests: u64,
}

/// Pings, by the client's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingResult {
    pub sent: u64,
    /// The rest is lost, or still on its way at the end.
    pub answered: u64,
    /// Round trips, ns.
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// What left the host of a program that sends as fast as it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetperfResult {
    pub packets: u64,
    /// Of messages.
    pub bytes: u64,
    /// Bits of messages per second.
    pub rate: f64,
}

/// The bursts of a sender, each of which is a frame; a frame is there when its last packet is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamResult {
    pub frames: u64,
    /// Frames for which the gap before them had room: 1 in a gap of 1.5 to 2.5 periods, and so on.
    pub late: u64,
    /// From frame to frame, the one that is overdue at the end included; quantiles are exact to 1.6%.
    pub gap_p50_ns: u64,
    pub gap_p99_ns: u64,
    pub gap_max_ns: u64,
}

/// The jobs of a VM's periodic tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeriodicResult {
    /// Jobs completed.
    pub jobs: u64,
    /// Jobs completed after their deadline, and those still incomplete past it at the end.
    pub missed: u64,
    /// From a job's release to its beginning.
    pub latency: WaitStat,
}

/// One task of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// CPU time of a job, ns.
    pub cost_ns: u64,
    /// Period and deadline, ns.
    pub period_ns: u64,
    /// Jobs completed, and those incomplete past their deadline at the end.
    pub jobs: u64,
    /// Of them, those that were not complete at their deadline.
    pub missed: u64,
    /// Longest time from release to completion, or of an overdue job to the end, ns.
    pub response_max_ns: u64,
}

/// One PCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PcpuResult {
    /// Calls of `schedule`.
    pub decisions: u64,
    /// Context switches between different VCPUs; in the Xen lab each time that a VCPU is taken off.
    pub switches: u64,
    /// What they took, as modelled: `machine.decision` each, and `machine.switch` and `machine.resume` each; in the Xen lab as measured; ns.
    pub decision_ns: u64,
    pub switch_ns: u64,
    /// The same as a live host tells it (`takt overhead`).
    pub decision: Times,
    #[serde(rename = "switch")]
    pub change: Times,
}

impl From<&Overhead> for PcpuResult {
    fn from(took: &Overhead) -> Self {
        Self {
            decisions: took.decision.count(),
            switches: took.switch.count(),
            decision_ns: took.decision.total(),
            switch_ns: took.switch.total(),
            decision: (&took.decision).into(),
            change: (&took.switch).into(),
        }
    }
}

/// Latencies of cyclictest's threads: from the expiry of the timer until the thread runs, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CyclicResult {
    pub samples: u64,
    /// Exact to 1.6%, as are the quantiles.
    pub min_ns: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    /// 99.9%.
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// A parallel program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParallelResult {
    pub threads: u32,
    /// Iterations that all threads have completed together.
    pub iterations: u64,
    /// Time that an iteration of each thread took, while the program ran; ns. 0 if none was completed.
    pub iteration_ns: u64,
    /// From its beginning to its end, ns; `None` if it has not come to one.
    pub time_ns: Option<u64>,
    /// Barriers that were passed, and how often a thread slept at one.
    pub barriers: u64,
    pub sleeps: u64,
    /// Time that its threads burnt in spinning, for the lock and at barriers, ns.
    pub spun_ns: u64,
}

/// Requests to an application, as its clients see them; times from leaving a client to being back there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FanoutResult {
    /// Requests sent, and those of them that were answered.
    pub requests: u64,
    pub answered: u64,
    pub mean_ns: u64,
    /// Quantiles are exact to 1.6%.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Requests answered after the deadline, if there is one.
    pub missed: u64,
    /// Parts that those answered had in all.
    #[serde(default)]
    pub parts: u64,
}

/// Packets a VM sent, at netback's transmit side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TxResult {
    pub packets: u64,
    /// Gaps between packets, ns.
    pub gap_mean_ns: u64,
    pub gap_p50_ns: u64,
    pub gap_p99_ns: u64,
}

/// Packets that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Packets for this VM at the NIC's ring.
    pub nic: u64,
    /// At the VM's receive ring and the queue before it.
    pub rx: u64,
    /// At the VM's transmit ring.
    pub tx: u64,
}

/// The machine as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostResult {
    pub pcpus: u32,
    /// Context switches between different VCPUs.
    pub switches: u64,
    /// PCPUs kicked by the policy.
    pub kicks: u64,
    /// Calls of `schedule`.
    pub decisions: u64,
    /// VCPUs that started on another PCPU than the one they ran on before.
    pub migrations: u64,
    /// Migrations to another last-level cache.
    pub llc_migrations: u64,
    /// Time PCPUs idled, ns, summed over them.
    pub idle_ns: u64,
    /// Time spent in decisions and switches, ns, summed over PCPUs.
    pub overhead_ns: u64,
    /// Events the engine handled, over the whole run.
    pub events: u64,
    /// Timers dequeued after they had been cancelled or moved, over the whole run.
    pub cancelled_events: u64,
    /// Operations the policy handled, over the whole run.
    pub policy_ops: u64,
    /// Jain's fairness index over the work of the batch VMs: 1 = equal shares; 1 if there are fewer than two.
    pub jain: f64,
    /// Packets dropped anywhere.
    pub ring_drops: u64,
    /// VCPUs that were runnable for over 1 s without running.
    pub stalls: u64,
    /// Longest time a VCPU was runnable without running, ns.
    pub longest_wait_ns: u64,
}

/// The pools, and what became of them. Times are from the beginning of the measured window, ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsResult {
    /// Pool commands that an administrator has typed.
    pub commands: u64,
    /// As they are at the end.
    pub list: Vec<PoolResult>,
    /// PCPUs that changed their pool.
    pub moves: Vec<PoolMove>,
    /// Times of the script's steps.
    pub steps_ns: Vec<u64>,
    /// Second by second: CPU time of the VMs that the scenario gives no budget, in percent of one PCPU.
    pub rest_cpu_pct: Vec<f64>,
    /// PCPUs of the real-time pool at the end of each second.
    pub rt_pcpus: Vec<u32>,
}

/// A pool at the end of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolResult {
    /// "main", "rt", or as the scenario says.
    pub name: String,
    pub policy: String,
    pub pcpus: Vec<u32>,
    /// Names of its VMs.
    pub vms: Vec<String>,
}

/// A PCPU that changed its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolMove {
    /// Negative before the measured window.
    pub at_ns: i64,
    pub pcpu: u32,
    /// Name of the pool.
    pub to: String,
}

/// The `q`-quantile, 0 to 1, of sorted values, of which there is one at least: linear between the two nearest ranks.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}
