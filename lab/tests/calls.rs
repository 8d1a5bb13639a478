// SPDX-License-Identifier: GPL-2.0-only
//! SIPp calls a VM of the real hypervisor through netback while hogs compute; Dom0 is under the scheduler as everybody is, and nobody
//! tells Takt which VM it is.
//!
//! `cargo build --release -p takt --features takt/linux,takt/xen && cargo test --release -p takt-lab --test calls -- --nocapture --include-ignored`

use std::path::{Path, PathBuf};
use takt_lab::{LabRun, xen};
use takt_sim::Scenario;
use takt_sim::result::{VmResult, VoipResult};

const LOADS: [u32; 3] = [4, 8, 12];
const SEEDS: [u64; 3] = [1, 2, 3];
const ALL: [&str; 6] = ["doris", "doris(dom0=off)", "credit", "xen-credit", "xen-credit2", "xen-rtds"];
const CREDIT2: usize = 4;
/// Packets late or lost under Doris, percent at most.
const LATE: f64 = 1.0;
/// Hogs' work beside that under Xen's credit2, at least. Not their CPU time: PCPUs are not equally fast, only all together are.
const WORK: f64 = 0.97;
/// Measured in the short one, ns.
const SHORT: u64 = 3_000_000_000;

/// The lab, and the program that watches in Dom0; `None`: this machine cannot have them.
fn lab(test: &str) -> Option<(xen::Lab, PathBuf)> {
    let lab = || {
        let programs = takt_lab::programs(env!("CARGO_BIN_EXE_takt-lab-init").as_ref(), &["takt"])?;
        let lab = xen::Lab::new()?;
        lab.prepare().map(|()| (lab, programs.join("takt")))
    };
    lab().map_err(|e| takt_bpf_build::skip(test, format!("{e:#}"))).ok()
}

fn scenario(calls: u32) -> Scenario {
    let name = format!("sipp-{calls}.toml");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(&name);
    let text = std::fs::read_to_string(&file).expect("scenario");
    Scenario::from_toml(&text, &name).expect("scenario")
}

/// Under each scheduler the runs of each scenario, one a seed.
fn runs(test: &str, scenarios: &[Scenario], schedulers: &[&str], seeds: &[u64]) -> Option<Vec<Vec<Vec<LabRun>>>> {
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

fn calls(run: &LabRun) -> &VoipResult {
    run.result.vms.iter().find_map(|vm| vm.voip.as_ref()).expect("calls")
}

fn hogs(run: &LabRun) -> impl Iterator<Item = &VmResult> {
    run.result.vms.iter().filter(|v| v.workload == "hog")
}

fn work(run: &LabRun) -> f64 {
    hogs(run).map(|v| v.work).sum()
}

/// s
fn cpu(run: &LabRun) -> f64 {
    hogs(run).map(|v| v.cpu_time_ns as f64 / 1e9).sum()
}

/// All calls spoke all the time, and the recording's packets came as they are: one each 30 ms.
fn spoke(run: &LabRun, n: u32) {
    let due = run.result.duration_ns / 30_000_000;
    assert_eq!(calls(run).calls.len(), n as usize);
    for c in &calls(run).calls {
        assert!(c.sent.abs_diff(due) <= due / 20, "{}: {} packets of a call of {due}", run.result.policy, c.sent);
    }
}

/// By its packets the VM, and Dom0 for its sake; promotions as well.
fn found(run: &LabRun) {
    let status = run.lab.status.as_ref().expect("status");
    for (name, rule) in [("calls", "rtp"), ("Domain-0", "dom0")] {
        let vm = status["vms"].as_array().expect("VMs").iter().find(|v| v["name"] == name).expect(name);
        assert_eq!((vm["rt"].as_bool(), vm["rule"].as_str()), (Some(true), Some(rule)), "{name}: {vm}");
        assert!(vm["promotions"].as_u64() > Some(0), "{name}: {vm}");
    }
    let vms = status["vms"].as_array().expect("VMs").iter();
    let hogs = vms.filter(|v| v["name"].as_str().is_some_and(|n| n.starts_with("hog")));
    let found: Vec<_> = hogs.map(|v| v["rt"].as_bool()).collect();
    assert_eq!(found, [Some(false); 3]);
}

/// Of all seeds together, doris serves all calls and lets them wait less than credit2 does; and what that costs others.
fn served(doris: &[LabRun], credit2: &[LabRun]) {
    let load = &doris[0].result.scenario;
    let sum = |runs: &[LabRun], of: &dyn Fn(&LabRun) -> f64| runs.iter().map(of).sum::<f64>();
    let late = |run: &LabRun| calls(run).late_lost_pct;
    let p99 = |run: &LabRun| calls(run).delay_p99_ns.expect("measured") as f64;
    let missing = sum(doris, &late) / doris.len() as f64;
    let share = |of: &dyn Fn(&LabRun) -> f64| sum(doris, of) / sum(credit2, of);
    let (wait, done) = (share(&p99), share(&work));
    println!("{load}: of credit2's p99 {wait:.3}, of the hogs' work {done:.3}");
    assert!(missing <= LATE, "{load}: {missing} % late or lost");
    assert!(wait <= 1.0, "{load}: {wait} of the p99 under credit2");
    assert!(done >= WORK, "{load}: {done} of the work under credit2");
}

#[test]
#[ignore = "five minutes, and fails as the other does; that a VM is found by its packets, `takt` in Dom0 shows in the tests of the hypervisor"]
fn a_called_vm_is_found_and_served() {
    let scenarios = [Scenario { duration: SHORT, ..scenario(4) }];
    let Some(runs) = runs("calls in Xen", &scenarios, &["doris", "xen-credit2"], &[1]) else { return };
    let [doris, credit2] = [0, 1].map(|n: usize| &runs[n][0]);
    spoke(&doris[0], 4);
    spoke(&credit2[0], 4);
    found(&doris[0]);
    assert_eq!(credit2[0].lab.status, None);
    served(doris, credit2);
}

/// An hour: a boot for each scheduler.
#[test]
#[ignore = "the whole table; fails: the p99 under Doris is above that under credit2"]
fn doris_serves_calls_at_every_load() {
    let scenarios = LOADS.map(scenario);
    let Some(runs) = runs("calls in Xen", &scenarios, &ALL, &SEEDS) else { return };
    for (load, &n) in LOADS.iter().enumerate() {
        runs[0][load].iter().for_each(found);
        served(&runs[0][load], &runs[CREDIT2][load]);
        for run in runs.iter().flat_map(|r| &r[load]) {
            spoke(run, n);
        }
    }
}
