// SPDX-License-Identifier: GPL-2.0-only
//! From an outcome to a result in the simulator's form.
//!
//! What no counter on a real host tells (time lost to caches, kicks of a policy, quantiles of the waits by class) is 0 or absent here.

use crate::guests;
use crate::map;
use crate::outcome::{self, Call, Clients, Latency, Outcome, Program, Requests};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use takt_control::overhead::Window;
use takt_control::{WaitStatus, Waits};
use takt_sim::result::{
    CallResult, Drops, FanoutResult, HostResult, ParallelResult, PeriodicResult, RunResult, TaskResult, TxResult,
    VcpuResult, VmResult, VoipResult, WaitStat,
};
use takt_sim::tasks::{TaskSpec, by_priority};
use takt_sim::{Kind, Scenario, VmSpec, emodel, quantile};

/// A run in the lab: a result like the simulator's, and what only a real host has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRun {
    #[serde(flatten)]
    pub result: RunResult,
    pub lab: Facts,
    /// What `takt record` would have written, if the lab was asked for it.
    #[serde(skip)]
    pub recording: Option<Vec<u8>>,
}

/// What the table does not show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// As `uname -r` says; in Xen Dom0's.
    pub kernel: String,
    /// Xen's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// As the kernel names it; `none` = its own. As Xen's toolstack does.
    pub scheduler: String,
    /// Iterations of a guest's loop that count as a CPU-second of work.
    pub iterations_per_s: f64,
    /// The least that a packet can cost the VCPU that answers it, ns.
    pub packet_ns: u64,
    /// CPU time of Dom0, if it is under the scheduler that is tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dom0_cpu_ns: Option<u64>,
    /// VMs as measured.
    pub vms: Vec<outcome::Vm>,
    /// What `takt status --json` said at the end, of the host (`host`) since the policy was loaded. In Xen the same of the pool's state.
    pub status: Option<Value>,
    /// What `takt overhead --json` says of the measured time; each PCPU's is in the result. Only in Xen, of Takt's policies, in
    /// runs without calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Window>,
}

/// The result of each phase of an outcome; phases are those of `seeds`.
pub fn read(
    scenario: &Scenario,
    scheduler: &str,
    seeds: &[u64],
    outcome: Outcome,
    recordings: Vec<Option<Vec<u8>>>,
) -> Vec<LabRun> {
    let Outcome { kernel, hypervisor, iterations_per_s, packet_ns, phases } = outcome;
    let run = |((&seed, phase), recording): ((&u64, outcome::Phase), Option<Vec<u8>>)| LabRun {
        result: result(scenario, scheduler, seed, &phase, iterations_per_s),
        lab: Facts {
            kernel: kernel.clone(),
            hypervisor: hypervisor.clone(),
            scheduler: phase.ops,
            iterations_per_s,
            packet_ns,
            dom0_cpu_ns: phase.dom0_cpu_ns,
            vms: phase.vms,
            status: phase.status,
            overhead: phase.took.map(|took| took.all),
        },
        recording,
    };
    seeds.iter().zip(phases).zip(recordings).map(run).collect()
}

fn result(s: &Scenario, scheduler: &str, seed: u64, phase: &outcome::Phase, rate: f64) -> RunResult {
    let specs = s.vms.iter().flat_map(|spec| spec.names().map(move |_| spec));
    let mut first = 0;
    let vms: Vec<VmResult> = (0..)
        .zip(specs)
        .zip(&phase.vms)
        .map(|((n, spec), vm)| {
            let tasks = task_results(s.tasks(spec, n, seed), &vm.report.tasks);
            let result = VmResult { tasks, ..vm_result(s, spec, vm, first, rate, &vm_status(phase, &vm.name)) };
            first += spec.vcpus;
            result
        })
        .collect();
    let work: Vec<f64> = vms.iter().filter(|v| v.workload == "hog").map(|v| v.work).collect();
    let pcpus = phase.took.as_ref().map_or_else(Vec::new, |took| took.pcpus.clone());
    RunResult {
        pools: None,
        scenario: s.name.clone(),
        policy: scheduler.to_owned(),
        seed,
        warmup_ns: map::warmup(s),
        duration_ns: phase.measured_ns,
        host: HostResult {
            pcpus: s.machine.pcpus,
            switches: phase.switches,
            decisions: pcpus.iter().map(|p| p.decisions).sum(),
            overhead_ns: pcpus.iter().map(|p| p.decision_ns + p.switch_ns).sum(),
            idle_ns: phase.idle_ns,
            jain: takt_sim::jain(&work),
            ring_drops: vms.iter().map(|v| v.drops.rx + v.drops.tx).sum(),
            longest_wait_ns: vms.iter().filter_map(|v| v.wait.get("all")).map(|w| w.max_ns).max().unwrap_or(0),
            ..HostResult::default()
        },
        pcpus,
        vms,
    }
}

fn task_results(specs: Vec<TaskSpec>, tasks: &[outcome::Task]) -> Vec<TaskResult> {
    let one = |(spec, task): (TaskSpec, &outcome::Task)| TaskResult {
        cost_ns: spec.cost,
        period_ns: spec.period,
        jobs: task.jobs,
        missed: task.missed,
        response_max_ns: task.response_max_ns,
    };
    by_priority(specs).into_iter().zip(tasks).map(one).collect()
}

fn vm_result(s: &Scenario, spec: &VmSpec, vm: &outcome::Vm, first: u32, rate: f64, status: &VmStatus) -> VmResult {
    let report = &vm.report;
    let hog = spec.workload.kind() == Kind::Hog;
    let apart = vm.clients.as_ref().is_some_and(|c| !c.calls.is_empty());
    let jobs = guests::of(spec.workload.kind()).jobs;
    let work: u64 = report.vcpus.iter().map(|v| v.work).sum();
    let sum = |f: fn(&outcome::Vcpu) -> u64| report.vcpus.iter().map(f).sum::<u64>();
    let vcpus = report.vcpus.iter().enumerate().zip(first..).map(|((nth, v), n)| VcpuResult {
        vcpu: n,
        cpu_time_ns: v.cpu_ns,
        wait: wait(&v.latency, status.vcpus.get(nth).map(|v| &v.waits)),
        prediction: None,
    });
    let busiest = report.vcpus.iter().map(|v| &v.latency).max_by_key(|l| l.count);
    VmResult {
        name: vm.name.clone(),
        entry: (spec.name != vm.name).then(|| spec.name.clone()),
        kind: "guest".into(),
        workload: spec.workload.name().into(),
        weight: spec.params.value("weight"),
        cpu_time_ns: sum(|v| v.cpu_ns),
        work: if hog { work as f64 / rate } else { 0.0 },
        cold_ns: 0,
        rt: status.rt,
        found: None,
        period_ns: (status.period_us.unwrap_or(0.0) * 1e3) as u64,
        promotions: status.promotions,
        refusals: status.refusals,
        wait: busiest.map(|l| wait(l, Some(&status.waits))).unwrap_or_default(),
        vcpus: vcpus.collect(),
        voip: vm.clients.as_ref().map(|c| voip(s, c)),
        vod: None,
        video: None,
        stream: None,
        cyclictest: None,
        periodic: (jobs && !apart).then(|| PeriodicResult {
            jobs: sum(|v| v.jobs),
            missed: sum(|v| v.misses),
            latency: busiest.and_then(wait_stat).unwrap_or_default(),
        }),
        tasks: Vec::new(),
        parallel: report.program.map(|p| parallel(spec, p, sum(|v| v.jobs), rate)),
        fanout: vm.requests.as_ref().map(fanout),
        jobs: None,
        ping: None,
        netperf: None,
        tx: report.io.as_ref().map(|io| TxResult { packets: io.packets_out, ..TxResult::default() }),
        drops: report.io.as_ref().map_or_else(Drops::default, |io| Drops { nic: 0, rx: io.lost_in, tx: io.lost_out }),
    }
}

/// Time in spinning is CPU time: who is preempted meanwhile does not burn it.
fn parallel(spec: &VmSpec, p: Program, iterations: u64, rate: f64) -> ParallelResult {
    let threads = spec.threads();
    ParallelResult {
        threads,
        iterations,
        iteration_ns: (p.ran_ns * u64::from(threads)).checked_div(iterations).unwrap_or(0),
        time_ns: p.time_ns,
        barriers: p.barriers,
        sleeps: p.sleeps,
        spun_ns: (p.spun as f64 * 1e9 / rate) as u64,
    }
}

fn fanout(r: &Requests) -> FanoutResult {
    let l = &r.response;
    FanoutResult {
        requests: r.sent,
        answered: l.count,
        mean_ns: l.mean_ns,
        p50_ns: l.p50_ns,
        p99_ns: l.p99_ns,
        max_ns: l.max_ns,
        missed: r.missed,
        parts: r.parts,
    }
}

/// What is read of a VM in `takt status`.
#[derive(Default, Deserialize)]
struct VmStatus {
    rt: bool,
    period_us: Option<f64>,
    promotions: u64,
    refusals: u64,
    #[serde(default)]
    waits: Waits,
    #[serde(default)]
    vcpus: Vec<VcpuStatus>,
}

#[derive(Deserialize)]
struct VcpuStatus {
    #[serde(default)]
    waits: Waits,
}

fn vm_status(phase: &outcome::Phase, name: &str) -> VmStatus {
    let vms = phase.status.as_ref().and_then(|s| s["vms"].as_array());
    let vm = vms.and_then(|vms| vms.iter().find(|vm| vm["name"] == name));
    vm.and_then(|vm| VmStatus::deserialize(vm).ok()).unwrap_or_default()
}

/// From event to handler under "all", beside the simulator's time in queues; by class what the host has counted since the VM is there.
fn wait(l: &Latency, by_class: Option<&Waits>) -> BTreeMap<String, WaitStat> {
    let all = wait_stat(l).map(|stat| ("all".to_owned(), stat));
    all.into_iter().chain(by_class.into_iter().flatten().map(|(class, w)| (class.clone(), of_class(w)))).collect()
}

fn of_class(w: &WaitStatus) -> WaitStat {
    let ns = |us: f64| (us * 1e3).round() as u64;
    WaitStat {
        entries: w.count,
        mean_ns: ns(w.mean_us),
        max_ns: ns(w.max_us),
        run_per_entry_ns: ns(w.run_us),
        ..WaitStat::default()
    }
}

fn wait_stat(l: &Latency) -> Option<WaitStat> {
    (l.count > 0).then_some(WaitStat {
        entries: l.count,
        mean_ns: l.mean_ns,
        p50_ns: l.p50_ns,
        p99_ns: l.p99_ns,
        max_ns: l.max_ns,
        run_per_entry_ns: 0,
        held_ns: 0,
    })
}

/// The calls of a server. Where the clients count them together: as one, whose losses are spread at random.
fn voip(s: &Scenario, c: &Clients) -> VoipResult {
    let together = [Call { sent: c.sent, late: c.late, lost: c.lost, burst_ratio: 1.0 }];
    let calls = if c.calls.is_empty() { &together[..] } else { &c.calls };
    let percent = |sent: u64, missing: u64| if sent == 0 { 0.0 } else { 100.0 * missing as f64 / sent as f64 };
    let call = |(id, c): (u32, &Call)| {
        let mos = emodel::mos(percent(c.sent, c.late + c.lost), c.burst_ratio, s.constants.bpl as f64 / 1e3);
        let (pesq, burst_ratio) = (emodel::pesq(mos, 0.0), c.burst_ratio);
        CallResult { id, sent: c.sent, late: c.late, lost: c.lost, burst_ratio, mos, pesq }
    };
    let results: Vec<CallResult> = (0..).zip(calls).map(call).collect();
    let mut sorted: Vec<f64> = results.iter().map(|c| c.pesq).collect();
    sorted.sort_by(f64::total_cmp);
    let mean = |of: fn(&CallResult) -> f64| results.iter().map(of).sum::<f64>() / results.len() as f64;
    let measured = |ns: u64| (!c.calls.is_empty()).then_some(ns);
    VoipResult {
        mean_pesq: mean(|c| c.pesq),
        min_pesq: quantile(&sorted, 0.0),
        p25_pesq: quantile(&sorted, 0.25),
        p50_pesq: quantile(&sorted, 0.5),
        p75_pesq: quantile(&sorted, 0.75),
        max_pesq: quantile(&sorted, 1.0),
        mean_mos: mean(|c| c.mos),
        late_lost_pct: percent(c.sent, c.late + c.lost),
        delay_mean_ns: c.round_trip.mean_ns,
        delay_p50_ns: measured(c.round_trip.p50_ns),
        delayed_mos: None,
        jitter_ns: None,
        delay_p99_ns: measured(c.round_trip.p99_ns),
        delay_max_ns: c.round_trip.max_ns,
        calls: results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parallel_program_has_the_figures_of_the_simulator() {
        let text = "[machine]\npcpus = 2\n[[vm]]\nname = \"team\"\nvcpus = 4\nworkload = \"parallel\"";
        let s = Scenario::from_toml(text, "test.toml").unwrap();
        let program = Program { barriers: 10, sleeps: 2, spun: 250_000, ran_ns: 2_000_000_000, time_ns: None };
        let p = parallel(&s.vms[0], program, 40, 1e9);
        assert_eq!((p.threads, p.iterations, p.barriers, p.sleeps, p.time_ns), (4, 40, 10, 2, None));
        assert_eq!((p.iteration_ns, p.spun_ns), (200_000_000, 250_000));
        assert_eq!(parallel(&s.vms[0], program, 0, 1e9).iteration_ns, 0);
    }

    #[test]
    fn waits_by_class_come_from_the_status() {
        let status: VmStatus = serde_json::from_str(
            r#"{"rt": true, "period_us": 1, "promotions": 2, "refusals": 0, "name": "v", "vcpus": [{"tid": 7,
                "waits": {"boost": {"count": 3, "mean_us": 1.5, "max_us": 4.25, "run_us": 10}}}],
                "waits": {"boost": {"count": 5, "mean_us": 2, "max_us": 6, "run_us": 8}}}"#,
        )
        .unwrap();
        let none = Latency::default();
        let vm = wait(&none, Some(&status.waits));
        assert_eq!(vm.keys().collect::<Vec<_>>(), ["boost"]);
        let WaitStat { entries, mean_ns, max_ns, run_per_entry_ns, .. } =
            wait(&none, Some(&status.vcpus[0].waits))["boost"];
        assert_eq!((entries, mean_ns, max_ns, run_per_entry_ns), (3, 1_500, 4_250, 10_000));
        assert!(wait(&none, None).is_empty());
    }
}
