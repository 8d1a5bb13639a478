// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios with calls in the hypervisor: a boot for each scheduler, and what came of it.

use std::path::PathBuf;
use takt_bpf_build::skip;
use takt_lab::{LabRun, xen};
use takt_sim::Scenario;
use takt_sim::result::{VmResult, VoipResult};

/// The lab, and the program that watches in Dom0; `None`: this machine cannot have them.
fn lab(test: &str) -> Option<(xen::Lab, PathBuf)> {
    let lab = || {
        let programs = takt_lab::programs(env!("CARGO_BIN_EXE_takt-lab-init").as_ref(), &["takt"])?;
        let lab = xen::Lab::new()?;
        lab.prepare().map(|()| (lab, programs.join("takt")))
    };
    lab().map_err(|e| skip(test, format!("{e:#}"))).ok()
}

/// Under each scheduler the runs of each scenario, one a seed.
pub fn runs(test: &str, scenarios: &[Scenario], schedulers: &[&str], seeds: &[u64]) -> Option<Vec<Vec<Vec<LabRun>>>> {
    let (lab, takt) = lab(test)?;
    let scenarios: Vec<_> = scenarios.iter().collect();
    let run = |name: &&str| {
        let scheduler = xen::Scheduler::parse(name).expect("scheduler");
        let runs = lab.call(&scenarios, &scheduler, seeds, Some(&takt)).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        runs.iter().for_each(show);
        runs.chunks(seeds.len()).map(<[LabRun]>::to_vec).collect()
    };
    Some(schedulers.iter().map(run).collect())
}

fn show(run: &LabRun) {
    let v = calls(run);
    let ms = |ns: Option<u64>| ns.expect("measured") as f64 / 1e6;
    println!(
        "{} {}: {:.2}/{:.1} ms, {:.2} % late or lost, MOS {:.2}, hogs {:.2} CPU-s of work in {:.2} s",
        run.result.scenario,
        run.result.policy,
        ms(v.delay_p50_ns),
        ms(v.delay_p99_ns),
        v.late_lost_pct,
        v.mean_mos,
        work(run),
        cpu(run)
    );
}

pub fn calls(run: &LabRun) -> &VoipResult {
    run.result.vms.iter().find_map(|vm| vm.voip.as_ref()).expect("calls")
}

fn hogs(run: &LabRun) -> impl Iterator<Item = &VmResult> {
    run.result.vms.iter().filter(|v| v.workload == "hog")
}

/// Of the hogs, CPU-seconds.
pub fn work(run: &LabRun) -> f64 {
    hogs(run).map(|v| v.work).sum()
}

/// Of the hogs, s.
pub fn cpu(run: &LabRun) -> f64 {
    hogs(run).map(|v| v.cpu_time_ns as f64 / 1e9).sum()
}

/// All calls spoke all the time, and the recording's packets came as they are: one each 30 ms.
pub fn spoke(run: &LabRun, n: u32) {
    let due = run.result.duration_ns / 30_000_000;
    assert_eq!(calls(run).calls.len(), n as usize);
    for c in &calls(run).calls {
        assert!(c.sent.abs_diff(due) <= due / 20, "{}: {} packets of a call of {due}", run.result.policy, c.sent);
    }
}

pub fn sum(runs: &[LabRun], of: impl Fn(&LabRun) -> f64) -> f64 {
    runs.iter().map(of).sum()
}
