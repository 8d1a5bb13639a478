// SPDX-License-Identifier: GPL-2.0-only
//! One run as a row of an experiment's output: raw metrics, from which everything else is computed.

mod queues;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use takt_sim::result::{
    CallResult, CyclicResult, ParallelResult, PeriodicResult, PoolsResult, RunResult, VmResult, WaitStat,
};

/// A point of a sweep: a number or a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum X {
    Number(u64),
    Name(String),
}

impl fmt::Display for X {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            X::Number(n) => n.fmt(f),
            X::Name(s) => f.pad(s),
        }
    }
}

/// Policy, point of the sweep, seed, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    pub policy: String,
    /// Of the experiment; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Point of the sweep.
    pub x: X,
    pub seed: u64,
    /// Each metric under its own name.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
    /// PESQ of each call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub call_pesq: Vec<f64>,
}

impl Row {
    pub fn of(policy: &str, x: X, seed: u64, metrics: BTreeMap<String, f64>, call_pesq: Vec<f64>) -> Self {
        Self { policy: policy.to_owned(), variant: String::new(), x, seed, metrics, call_pesq }
    }

    /// The values of a metric: one, or one per call.
    pub fn get(&self, metric: &str) -> Vec<f64> {
        if metric == "call_pesq" {
            self.call_pesq.clone()
        } else {
            self.metrics.get(metric).copied().into_iter().collect()
        }
    }

    /// The raw figures of a run; those of VoIP servers only if there is one.
    pub fn from_run(run: &RunResult, policy: &str, x: X) -> Self {
        let mut m = BTreeMap::new();
        let mut put = |key: &str, value: f64| m.insert(key.to_owned(), value);
        put("work", run.vms.iter().map(|vm| vm.work).sum());
        put("jain", run.host.jain);
        put("duration_ns", run.duration_ns as f64);
        for (key, value) in [
            ("switches", run.host.switches),
            ("kicks", run.host.kicks),
            ("decisions", run.host.decisions),
            ("migrations", run.host.migrations),
            ("idle_ns", run.host.idle_ns),
            ("overhead_ns", run.host.overhead_ns),
            ("ring_drops", run.host.ring_drops),
            ("stalls", run.host.stalls),
            ("longest_wait_ns", run.host.longest_wait_ns),
            ("events", run.host.events),
        ] {
            put(key, value as f64);
        }
        periodic(&mut put, run);
        tasks(&mut put, run);
        queues::put(&mut put, run);
        if let Some(p) = &run.pools {
            pools(&mut put, p, run.duration_ns);
        }
        if let Some(c) = run.vms.iter().find_map(|vm| vm.cyclictest.as_ref()) {
            latencies(&mut put, c);
        }
        synchronised(&mut put, run);
        if let Some(dom0) = dom0(run) {
            put("dom0_cpu_ns", dom0.cpu_time_ns as f64);
            waits(&mut put, "dom0_wait", dom0.wait.get("all"));
        }
        streams(&mut put, run);
        video(&mut put, run);
        if let Some(jobs) = run.vms.iter().find_map(|vm| vm.jobs) {
            put("steps_per_s", jobs.steps as f64 * 1e9 / run.duration_ns.max(1) as f64);
        }
        if let Some(ping) = run.vms.iter().find_map(|vm| vm.ping) {
            put("rtt_mean_us", ping.mean_ns as f64 / 1e3);
            put("rtt_p99_us", ping.p99_ns as f64 / 1e3);
            let lost = ping.sent.saturating_sub(ping.answered);
            put("ping_lost_pct", lost as f64 * 100.0 / ping.sent.max(1) as f64);
        }
        if let Some(netperf) = run.vms.iter().find_map(|vm| vm.netperf) {
            put("netperf_mbit", netperf.rate / 1e6);
        }
        each_vm(&mut put, run);
        let mut call_pesq = Vec::new();
        let calls = run.vms.iter().any(|vm| vm.voip.is_some());
        if !calls {
            // The jobs of a set have figures of their own.
            let jobs = run.vms.iter().filter(|vm| vm.tasks.is_empty()).find_map(|vm| vm.periodic.as_ref());
            waits(&mut put, "rt_wait", jobs.map(|p| &p.latency));
        }
        if let Some((vm, voip)) = run.vms.iter().find_map(|vm| Some((vm, vm.voip.as_ref()?))) {
            call_pesq = voip.calls.iter().map(|c| c.pesq).collect();
            for (key, value) in [
                ("pesq_mean", voip.mean_pesq),
                ("pesq_min", voip.min_pesq),
                ("pesq_p25", voip.p25_pesq),
                ("pesq_p50", voip.p50_pesq),
                ("pesq_p75", voip.p75_pesq),
                ("pesq_max", voip.max_pesq),
                ("pesq_iqr", voip.p75_pesq - voip.p25_pesq),
                ("below4_pct", below_4(&call_pesq)),
                ("mos_mean", voip.mean_mos),
                ("late_lost_pct", voip.late_lost_pct),
                ("delay_mean_ns", voip.delay_mean_ns as f64),
                ("delay_max_ns", voip.delay_max_ns as f64),
                ("rt_cpu_ns", vm.cpu_time_ns as f64),
                ("rt_period_ns", vm.period_ns as f64),
                ("promotions", vm.promotions as f64),
                ("refusals", vm.refusals as f64),
            ] {
                put(key, value);
            }
            let part = |f: fn(&CallResult) -> u64| {
                let (sum, sent) = voip.calls.iter().fold((0, 0), |(sum, sent), c| (sum + f(c), sent + c.sent));
                sum as f64 * 100.0 / sent.max(1) as f64
            };
            put("late_pct", part(|c| c.late));
            put("lost_pct", part(|c| c.lost));
            voip.delayed_mos.and_then(|mos| put("mos_delayed", mos));
            voip.jitter_ns.and_then(|ns| put("jitter_ms", ns as f64 / 1e6));
            for (key, value) in [("delay_p50_ns", voip.delay_p50_ns), ("delay_p99_ns", voip.delay_p99_ns)] {
                value.and_then(|ns| put(key, ns as f64));
            }
            waits(&mut put, "rt_wait", vm.wait.get("all"));
            for class in ["rt", "boost", "under", "over"] {
                waits(&mut put, &format!("rt_wait_{class}"), vm.wait.get(class));
            }
        }
        Self::of(policy, x, run.seed, m, call_pesq)
    }
}

/// Jobs of periodic tasks; in how many turns a VCPU did one, and the longest that any waited for a turn. Where all are released at once that
/// is what synchronising them costs (Poris' C_sync, rule P40).
fn periodic(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let vms: Vec<_> = run.vms.iter().filter_map(|vm| Some((vm, vm.periodic.as_ref()?))).collect();
    if vms.is_empty() {
        return;
    }
    let sum = |f: fn(&PeriodicResult) -> u64| vms.iter().map(|(_, p)| f(p)).sum::<u64>();
    let jobs = sum(|p| p.jobs);
    put("jobs", jobs as f64);
    put("missed", sum(|p| p.missed) as f64);
    let (turns, longest) = vms
        .iter()
        .filter_map(|(vm, _)| vm.wait.get("all"))
        .fold((0, 0), |(turns, longest), w| (turns + w.entries, longest.max(w.max_ns)));
    put("turns_per_job", turns as f64 / jobs.max(1) as f64);
    put("turn_wait_max_ms", longest as f64 / 1e6);
}

/// The first streaming server; waits of the real-time VM are its own where there are no calls.
fn streams(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let Some((vm, v)) = run.vms.iter().find_map(|vm| Some((vm, vm.vod?))) else { return };
    for (key, value) in [
        ("rate_mbit", v.rate_mean / 1e6),
        ("rate_min_mbit", v.rate_min / 1e6),
        ("rate_max_mbit", v.rate_max / 1e6),
        ("skipped_frames", v.skipped_frames as f64),
        ("dropped_packets", v.dropped_packets as f64),
        ("lag_p50_ms", v.lag_p50_ns as f64 / 1e6),
        ("lag_p99_ms", v.lag_p99_ns as f64 / 1e6),
        ("lag_max_ms", v.lag_max_ns as f64 / 1e6),
        ("vod_cpu_ns", vm.cpu_time_ns as f64),
        ("vod_period_ns", vm.period_ns as f64),
        ("vod_promotions", vm.promotions as f64),
    ] {
        put(key, value);
    }
    waits(put, "vod_wait", vm.wait.get("all"));
}

/// The first game or media player.
fn video(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let Some((vm, v)) = run.vms.iter().find_map(|vm| Some((vm, vm.video?))) else { return };
    for (key, value) in [
        ("fps_mean", v.fps_mean),
        ("fps_sd", v.fps_sd),
        ("fps_min", v.fps_min),
        ("frames_lost", v.lost as f64),
        ("frames_late", v.late as f64),
        ("video_lag_p99_ms", v.lag_p99_ns as f64 / 1e6),
        ("video_promotions", vm.promotions as f64),
    ] {
        put(key, value);
    }
    v.time_ns.and_then(|ns| put("play_s", ns as f64 / 1e9));
    waits(put, "video_wait", vm.wait.get("all"));
}

/// What the VMs of one entry of a scenario have together.
#[derive(Default)]
struct Sum {
    cpu_ns: u64,
    cold_ns: u64,
    work: f64,
    /// The longest of them.
    wait_p99_ns: u64,
    wait_max_ns: u64,
}

/// Of each VM, or of all that one entry of the scenario stands for together: CPU time, batch work, the longest
/// waits, and the time that cold caches cost; of all VMs together, too.
fn each_vm(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let mut all: BTreeMap<&str, Sum> = BTreeMap::new();
    put("cold_ms", run.vms.iter().map(|vm| vm.cold_ns).sum::<u64>() as f64 / 1e6);
    for vm in &run.vms {
        let of = all.entry(vm.entry.as_deref().unwrap_or(&vm.name)).or_default();
        let wait = vm.wait.get("all").map_or((0, 0), |w| (w.p99_ns, w.max_ns));
        of.cpu_ns += vm.cpu_time_ns;
        of.cold_ns += vm.cold_ns;
        of.work += vm.work;
        (of.wait_p99_ns, of.wait_max_ns) = (of.wait_p99_ns.max(wait.0), of.wait_max_ns.max(wait.1));
    }
    for (name, of) in all {
        put(&format!("vm_{name}_cold_ms"), of.cold_ns as f64 / 1e6);
        put(&format!("vm_{name}_cpu_s"), of.cpu_ns as f64 / 1e9);
        put(&format!("vm_{name}_work"), of.work);
        put(&format!("vm_{name}_wait_p99_us"), of.wait_p99_ns as f64 / 1e3);
        put(&format!("vm_{name}_wait_max_us"), of.wait_max_ns as f64 / 1e3);
    }
}

/// Calls that are not of toll quality, percent.
fn below_4(pesq: &[f64]) -> f64 {
    pesq.iter().filter(|p| **p < 4.0).count() as f64 * 100.0 / pesq.len().max(1) as f64
}

/// Missed jobs of sets of tasks, and what the PCPUs spent on them.
fn tasks(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let (mut all, mut worst) = ((0, 0), 0.0_f64);
    for vm in run.vms.iter().filter(|vm| !vm.tasks.is_empty()) {
        let (jobs, missed) = vm.tasks.iter().fold((0, 0), |s, t| (s.0 + t.jobs, s.1 + t.missed));
        put(&format!("jobs_{}", vm.name), jobs as f64);
        let missed_pct = missed as f64 * 100.0 / jobs.max(1) as f64;
        put(&format!("missed_pct_{}", vm.name), missed_pct);
        worst = worst.max(missed_pct);
        all = (all.0 + jobs, all.1 + missed);
    }
    if all.0 == 0 {
        return;
    }
    put("missed_pct", all.1 as f64 * 100.0 / all.0 as f64);
    put("missed_pct_worst", worst);
    for (n, p) in run.pcpus.iter().enumerate().filter(|(_, p)| p.decisions > 0) {
        let spent = (p.decision_ns + p.switch_ns) as f64;
        put(&format!("pcpu{n}_decisions"), p.decisions as f64);
        put(&format!("pcpu{n}_switches"), p.switches as f64);
        put(&format!("pcpu{n}_overhead_us"), spent / 1e3);
        put(&format!("pcpu{n}_loss_pct"), spent * 100.0 / run.duration_ns as f64);
        for (what, t) in [("decision", p.decision), ("switch", p.change)] {
            put(&format!("pcpu{n}_{what}_total_us"), t.total_us);
            put(&format!("pcpu{n}_{what}_median_ns"), t.median_ns as f64);
            put(&format!("pcpu{n}_{what}_p99_ns"), t.p99_ns as f64);
            put(&format!("pcpu{n}_{what}_max_ns"), t.max_ns as f64);
        }
    }
}

/// Parallel programs, together or in the mean, and the first application of several VMs.
fn synchronised(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let programs: Vec<_> = run.vms.iter().filter_map(|vm| Some((vm, vm.parallel?))).collect();
    if !programs.is_empty() {
        let sum = |of: fn(&ParallelResult) -> u64| programs.iter().map(|(_, p)| of(p)).sum::<u64>() as f64;
        // Nothing in the whole run is at least that slow.
        let slow = |p: &ParallelResult| if p.iterations == 0 { run.duration_ns } else { p.iteration_ns };
        let iteration_ns = programs.iter().map(|(_, p)| slow(p)).sum::<u64>() as f64 / programs.len() as f64;
        let cpu_ns = programs.iter().map(|(vm, _)| vm.cpu_time_ns).sum::<u64>() as f64;
        put("iterations", sum(|p| p.iterations));
        put("iteration_us", iteration_ns / 1e3);
        let ends = programs.iter().map(|(_, p)| p.time_ns).collect::<Option<Vec<_>>>();
        ends.and_then(|all| all.into_iter().max()).and_then(|ns| put("time_s", ns as f64 / 1e9));
        put("barriers", sum(|p| p.barriers));
        put("sleeps", sum(|p| p.sleeps));
        put("spun_pct", sum(|p| p.spun_ns) * 100.0 / cpu_ns.max(1.0));
        put("program_cpu_s", cpu_ns / 1e9);
    }
    if let Some(f) = run.vms.iter().find_map(|vm| vm.fanout) {
        for (key, value) in [
            ("requests", f.requests as f64),
            ("answered", f.answered as f64),
            ("response_mean_ms", f.mean_ns as f64 / 1e6),
            ("response_p50_ms", f.p50_ns as f64 / 1e6),
            ("response_p99_ms", f.p99_ns as f64 / 1e6),
            ("response_max_ms", f.max_ns as f64 / 1e6),
            ("parts_per_s", f.parts as f64 * 1e9 / run.duration_ns.max(1) as f64),
            ("response_missed_pct", f.missed as f64 * 100.0 / f.answered.max(1) as f64),
        ] {
            put(key, value);
        }
    }
}

fn dom0(run: &RunResult) -> Option<&VmResult> {
    run.vms.iter().find(|vm| vm.kind == "host")
}

fn latencies(put: &mut impl FnMut(&str, f64) -> Option<f64>, c: &CyclicResult) {
    for (key, value) in [
        ("samples", c.samples),
        ("min_ns", c.min_ns),
        ("mean_ns", c.mean_ns),
        ("p50_ns", c.p50_ns),
        ("p99_ns", c.p99_ns),
        ("p999_ns", c.p999_ns),
        ("max_ns", c.max_ns),
    ] {
        put(&format!("latency_{key}"), value as f64);
    }
}

/// Seconds at the beginning and at the end of a phase of the script over which CPU time is averaged.
const EDGE: u64 = 5;
const SECOND: u64 = 1_000_000_000;

/// What the pools cost and gave: phase 0 is before the script's first step, phase n begins with the n-th.
fn pools(put: &mut impl FnMut(&str, f64) -> Option<f64>, p: &PoolsResult, duration: u64) {
    put("pool_commands", p.commands as f64);
    put("pool_moves", p.moves.len() as f64);
    let mut edges = [&[0], &p.steps_ns[..], &[duration]].concat();
    edges.dedup();
    for (n, phase) in edges.windows(2).enumerate() {
        let [from, to] = [phase[0].div_ceil(SECOND), phase[1] / SECOND];
        let mean = |from: u64, to: u64| {
            let all = p.rest_cpu_pct.iter().take(to as usize).skip(from as usize);
            let (n, sum) = all.fold((0, 0.0), |(n, sum), pct| (n + 1, sum + pct));
            (n > 0).then(|| sum / f64::from(n))
        };
        // The second after a step belongs to nobody.
        let (after, before) = (from + u64::from(n > 0), to.saturating_sub(EDGE).max(from));
        mean(after, to.min(after + EDGE)).and_then(|pct| put(&format!("rest_pct_{n}_begin"), pct));
        mean(before, to).and_then(|pct| put(&format!("rest_pct_{n}_end"), pct));
        let [from, to] = [phase[0] as i64, phase[1] as i64];
        let back = p.moves.iter().find(|m| m.to == "main" && (from..to).contains(&m.at_ns));
        back.and_then(|m| put(&format!("shrink_{n}_s"), (m.at_ns - from) as f64 / 1e9));
    }
}

fn waits(put: &mut impl FnMut(&str, f64) -> Option<f64>, prefix: &str, stat: Option<&WaitStat>) {
    let Some(w) = stat else { return };
    for (key, value) in [
        ("entries", w.entries),
        ("mean_ns", w.mean_ns),
        ("p50_ns", w.p50_ns),
        ("p99_ns", w.p99_ns),
        ("max_ns", w.max_ns),
        ("run_per_entry_ns", w.run_per_entry_ns),
    ] {
        put(&format!("{prefix}_{key}"), value as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::data::Experiment;
    use crate::simulate;
    use takt_control::PolicySpec;
    use takt_sim::Scenario;

    #[test]
    fn turns_of_jobs_are_counted() {
        let e = Experiment::find("PORIS-E2").unwrap();
        for (policy, turns, wait_ms) in [("poris", 5.0, 1.0), ("poris(t_round=5ms)", 1.0, 5.0)] {
            let mut scenario = e.scenario(None, policy).unwrap();
            scenario.set("duration", "400ms").unwrap();
            let run = simulate::one(&scenario, &PolicySpec::parse(policy).unwrap(), 1, &mut |_| ()).unwrap();
            let row = Row::from_run(&run, policy, X::Number(4));
            assert_eq!(row.get("jobs"), [80.0], "ten of each VCPU");
            assert_eq!((row.get("turns_per_job"), row.get("turn_wait_max_ms")), (vec![turns], vec![wait_ms]));
        }
    }

    #[test]
    fn vms_of_one_entry_count_together_whatever_they_are_called() {
        let vm = |name: &str, more: &str| format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\nworkload = \"hog\"\n{more}");
        let text = format!(
            "duration = \"100ms\"\n[machine]\npcpus = 4\n{}{}{}",
            vm("web-1", ""),
            vm("web-2", ""),
            vm("hog-7", "count = 2\n")
        );
        let scenario = Scenario::from_toml(&text, "few.toml").unwrap();
        let run = simulate::one(&scenario, &PolicySpec::parse("credit").unwrap(), 1, &mut |_| ()).unwrap();
        let row = Row::from_run(&run, "credit", X::Number(1));
        let of: Vec<_> = row.metrics.keys().filter_map(|k| k.strip_prefix("vm_")?.strip_suffix("_cpu_s")).collect();
        assert_eq!(of, ["dom0", "hog-7", "web-1", "web-2"]);
    }
}
