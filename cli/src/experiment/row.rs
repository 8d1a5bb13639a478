// SPDX-License-Identifier: GPL-2.0-only
//! One run as a row of an experiment's output: raw metrics, from which everything else is computed.

use super::data::X;
use serde::Serialize;
use std::collections::BTreeMap;
use takt_sim::result::{PeriodicResult, RunResult, VmResult, WaitStat};

/// Policy, point of the sweep, seed, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub policy: String,
    /// Of the experiment; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variant: String,
    pub x: X,
    pub seed: u64,
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
        if run.vms.iter().any(|vm| vm.periodic.is_some()) {
            let sum = |f: fn(&PeriodicResult) -> u64| run.vms.iter().filter_map(|vm| vm.periodic.as_ref()).map(f).sum();
            let (jobs, missed): (u64, u64) = (sum(|p| p.jobs), sum(|p| p.missed));
            put("jobs", jobs as f64);
            put("missed", missed as f64);
        }
        tasks(&mut put, run);
        if let Some(dom0) = dom0(run) {
            put("dom0_cpu_ns", dom0.cpu_time_ns as f64);
            waits(&mut put, "dom0_wait", dom0.wait.get("all"));
        }
        let mut call_pesq = Vec::new();
        let calls = run.vms.iter().any(|vm| vm.voip.is_some());
        if let Some(vm) = run.vms.iter().find(|vm| !calls && vm.workload == "periodic") {
            waits(&mut put, "rt_wait", vm.periodic.as_ref().map(|p| &p.latency));
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

/// Missed jobs of sets of tasks, and what the PCPUs spent on them.
fn tasks(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    let mut all = (0, 0);
    for vm in run.vms.iter().filter(|vm| !vm.tasks.is_empty()) {
        let (jobs, missed) = vm.tasks.iter().fold((0, 0), |s, t| (s.0 + t.jobs, s.1 + t.missed));
        put(&format!("jobs_{}", vm.name), jobs as f64);
        put(&format!("missed_pct_{}", vm.name), missed as f64 * 100.0 / jobs.max(1) as f64);
        all = (all.0 + jobs, all.1 + missed);
    }
    if all.0 == 0 {
        return;
    }
    put("missed_pct", all.1 as f64 * 100.0 / all.0 as f64);
    for (n, p) in run.pcpus.iter().enumerate().filter(|(_, p)| p.decisions > 0) {
        let spent = (p.decision_ns + p.switch_ns) as f64;
        put(&format!("pcpu{n}_decisions"), p.decisions as f64);
        put(&format!("pcpu{n}_switches"), p.switches as f64);
        put(&format!("pcpu{n}_overhead_us"), spent / 1e3);
        put(&format!("pcpu{n}_loss_pct"), spent * 100.0 / run.duration_ns as f64);
    }
}

fn dom0(run: &RunResult) -> Option<&VmResult> {
    run.vms.iter().find(|vm| vm.kind == "host")
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
