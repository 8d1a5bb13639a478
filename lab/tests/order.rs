// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios on the real kernel: what a policy is for, and that the simulator foresees it. `TAKT_LONG=1` runs five seeds, and
//! every scheduler there is.

mod common;

use std::path::Path;
use takt_control::PolicySpec;
use takt_lab::hosts::tau;
use takt_lab::{Scheduler, linux};
use takt_sim::result::RunResult;
use takt_sim::{Options, Scenario};

/// Agreement of two orders (Kendall's τ) where more than two policies are compared.
const AGREE: f64 = 0.8;
/// A server's longest waits under Doris, of those under the kernel's own scheduler.
const WAITS: f64 = 0.5;
/// What is left of the hogs' work.
const LEFT: f64 = 0.97;

fn scenario(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let text = std::fs::read_to_string(&file).expect("scenario");
    Scenario::from_toml(&text, &file.display().to_string()).expect("scenario")
}

fn long() -> bool {
    std::env::var_os("TAKT_LONG").is_some_and(|v| v == "1")
}

fn seeds() -> Vec<u64> {
    (1..=if long() { 5 } else { 2 }).collect()
}

/// What one scheduler did, over all seeds.
#[derive(Clone, Debug)]
struct Did {
    /// Mean of the servers' 99th percentiles, ns.
    wait_p99: f64,
    /// Packets late or lost, per cent.
    missed: f64,
    /// Of the hogs, CPU-seconds.
    work: f64,
}

impl Did {
    fn of(label: &str, runs: &[RunResult]) -> Self {
        let mean = |of: &dyn Fn(&RunResult) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let server = |r: &RunResult| r.vms.iter().position(|v| v.voip.is_some()).expect("a server");
        let did = Self {
            wait_p99: mean(&|r| r.vms[server(r)].wait["all"].p99_ns as f64),
            missed: mean(&|r| r.vms[server(r)].voip.as_ref().map_or(0.0, |v| v.late_lost_pct)),
            work: mean(&|r| r.vms.iter().filter(|v| v.workload == "hog").map(|v| v.work).sum()),
        };
        println!("{label}: {did:?}");
        did
    }
}

fn in_the_lab(lab: &takt_lab::Lab, scenario: &Scenario, scheduler: &str) -> Did {
    let parsed = Scheduler::parse(scheduler).expect("scheduler");
    let runs = lab.run(scenario, &parsed, &seeds()).unwrap_or_else(|e| panic!("{scheduler}: {e:#}"));
    Did::of(scheduler, &runs.into_iter().map(|r| r.result).collect::<Vec<_>>())
}

fn simulated(scenario: &Scenario, policy: &str) -> Did {
    let spec = PolicySpec::parse(policy).expect("policy");
    let run = |&seed: &u64| takt_sim::run(scenario, &spec, seed, Options::default()).expect("simulation").0;
    Did::of(policy, &seeds().iter().map(run).collect::<Vec<_>>())
}

fn agree(metric: &str, real: &[Did], model: &[Did], of: fn(&Did) -> f64) {
    let both = |all: &[Did]| all.iter().map(of).collect::<Vec<f64>>();
    let tau = tau(&both(real), &both(model));
    assert!(tau >= AGREE, "{metric}: tau is {tau}: {real:#?} against {model:#?}");
}

#[test]
#[ignore = "the 99th percentile of two seeds says little; with TAKT_LONG=1 twenty minutes"]
fn simulator_and_kernel_agree_on_the_order_of_policies() {
    let Some(lab) = common::lab("order of the policies", linux::KERNELS[0], false) else { return };
    let scenario = scenario("busy.toml");
    let policies = &scenario.policies;
    assert!(policies.len() > 2);
    let real: Vec<Did> = policies.iter().map(|p| in_the_lab(&lab, &scenario, p)).collect();
    let model: Vec<Did> = policies.iter().map(|p| simulated(&scenario, p)).collect();
    agree("wait p99", &real, &model, |d| d.wait_p99);
    agree("late or lost", &real, &model, |d| d.missed);
}

#[test]
fn a_server_waits_least_under_doris_and_hogs_keep_their_work() {
    let Some(lab) = common::lab("a server under Doris", linux::KERNELS[0], false) else { return };
    let scenario = scenario("echo.toml");
    let [doris, eevdf] = std::thread::scope(|threads| {
        let runs = ["doris", "eevdf"].map(|s| threads.spawn(|| in_the_lab(&lab, &scenario, s)));
        runs.map(|run| run.join().expect("a run"))
    });
    assert!(doris.wait_p99 <= WAITS * eevdf.wait_p99, "{doris:?}, {eevdf:?}");
    assert!(doris.work >= LEFT * eevdf.work, "{doris:?}, {eevdf:?}");
    if long() {
        let others = ["credit", "doris(dom0=off)", "eevdf(weight=10)", "fifo"];
        let [credit, ..] = others.map(|s| in_the_lab(&lab, &scenario, s));
        assert!(doris.wait_p99 <= credit.wait_p99, "{doris:?}, {credit:?}");
    }
}
