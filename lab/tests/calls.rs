// SPDX-License-Identifier: GPL-2.0-only
//! SIPp calls a VM of the real hypervisor through netback while hogs compute; Dom0 is under the scheduler as everybody is, and nobody
//! tells Takt which VM it is.
//!
//! `cargo build --release -p takt --features takt/linux,takt/xen && cargo test --release -p takt-lab --test calls -- --nocapture --include-ignored`

use std::path::{Path, PathBuf};
use takt_lab::{LabRun, xen};
use takt_sim::Scenario;
use takt_sim::result::VoipResult;

const LOADS: [u32; 3] = [3, 5, 8];
const ALL: [&str; 6] = ["doris", "doris(dom0=off)", "credit", "xen-credit", "xen-credit2", "xen-rtds"];
const CREDIT2: usize = 4;
/// Packets late or lost under Doris, percent at most.
const LATE: f64 = 1.0;
/// Hogs' work beside that under Xen's credit2, at least. Seen are 0.93 to 1.04: the monitor is work of Dom0's, too.
const WORK: f64 = 0.97;
/// Measured in the short one, ns.
const SHORT: u64 = 3_000_000_000;

/// The lab, and the program that watches in Dom0; `None`: this machine cannot have them.
fn lab(test: &str) -> Option<(xen::Lab, PathBuf)> {
    let lab = || {
        let takt = Path::new(env!("CARGO_BIN_EXE_takt-lab-init")).with_file_name("takt");
        anyhow::ensure!(
            takt.is_file(),
            "{}: missing; `cargo build -p takt --features takt/xen` makes it",
            takt.display()
        );
        let lab = xen::Lab::new()?;
        lab.prepare().map(|()| (lab, takt))
    };
    lab().map_err(|e| takt_bpf_build::skip(test, format!("{e:#}"))).ok()
}

fn scenario(calls: u32) -> Scenario {
    let name = format!("sipp-{calls}.toml");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(&name);
    let text = std::fs::read_to_string(&file).expect("scenario");
    Scenario::from_toml(&text, &name).expect("scenario")
}

/// Under each scheduler the runs of all scenarios.
fn runs(test: &str, scenarios: &[Scenario], schedulers: &[&str]) -> Option<Vec<Vec<LabRun>>> {
    let (lab, takt) = lab(test)?;
    let scenarios: Vec<_> = scenarios.iter().collect();
    let run = |name: &&str| {
        let scheduler = xen::Scheduler::parse(name).expect("scheduler");
        let runs = lab.call(&scenarios, &scheduler, &[1], Some(&takt)).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        runs.iter().for_each(show);
        runs
    };
    Some(schedulers.iter().map(run).collect())
}

fn show(run: &LabRun) {
    let v = calls(run);
    let ms = |ns: Option<u64>| ns.expect("measured") as f64 / 1e6;
    println!(
        "{} {}: {:.2}/{:.1} ms, {:.2} % late or lost, MOS {:.2}, hogs {:.2} CPU-s",
        run.result.scenario,
        run.result.policy,
        ms(v.delay_p50_ns),
        ms(v.delay_p99_ns),
        v.late_lost_pct,
        v.mean_mos,
        work(run)
    );
}

fn calls(run: &LabRun) -> &VoipResult {
    run.result.vms.iter().find_map(|vm| vm.voip.as_ref()).expect("calls")
}

fn work(run: &LabRun) -> f64 {
    run.result.vms.iter().filter(|v| v.workload == "hog").map(|v| v.work).sum()
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
    let hogs = status["vms"]
        .as_array()
        .expect("VMs")
        .iter()
        .filter(|v| v["name"].as_str().is_some_and(|n| n.starts_with("hog")));
    let found: Vec<_> = hogs.map(|v| v["rt"].as_bool()).collect();
    assert_eq!(found, [Some(false); 3]);
}

/// Doris serves all calls, and what that costs others.
fn served(doris: &LabRun, credit2: &LabRun) {
    let (missing, share) = (calls(doris).late_lost_pct, work(doris) / work(credit2));
    println!("{}: {:.3} of the work under {}", doris.result.scenario, share, credit2.result.policy);
    assert!(missing <= LATE, "{}: {missing} % late or lost", doris.result.scenario);
    assert!(share >= WORK, "{}: {share} of the work under credit2", doris.result.scenario);
}

#[test]
#[ignore = "Dom0's programs die now and then in the emulated machine, whatever the scheduler; it is not known why"]
fn a_called_vm_is_found_and_served() {
    let scenarios = [Scenario { duration: SHORT, ..scenario(3) }];
    let Some(runs) = runs("calls in Xen", &scenarios, &["doris", "xen-credit2"]) else { return };
    let [doris, credit2] = [0, 1].map(|n: usize| &runs[n][0]);
    spoke(doris, 3);
    spoke(credit2, 3);
    found(doris);
    assert_eq!(credit2.lab.status, None);
    served(doris, credit2);
}

/// Half an hour: a boot for each scheduler.
#[test]
#[ignore = "the whole table"]
fn doris_serves_calls_at_every_load() {
    let scenarios = LOADS.map(scenario);
    let Some(runs) = runs("calls in Xen", &scenarios, &ALL) else { return };
    for (load, &n) in LOADS.iter().enumerate() {
        let doris = &runs[0][load];
        found(doris);
        served(doris, &runs[CREDIT2][load]);
        for run in runs.iter().map(|r| &r[load]) {
            spoke(run, n);
        }
    }
}
