// SPDX-License-Identifier: GPL-2.0-only
//! One scenario of periodic VMs and hogs in the simulator, on the real kernel and on the real hypervisor: they put the policies in one
//! order, and where their figures differ by more than a tenth, there is a cause that says how far they may.

mod common;

use std::path::Path;
use takt_control::PolicySpec;
use takt_lab::hosts::{Comparison, Difference, LINUX, XEN};
use takt_lab::{linux, xen};
use takt_sim::Scenario;

const SEEDS: [u64; 2] = [1, 2];
/// Jobs due in a run.
const JOBS: f64 = 200.0 + 133.0 + 80.0;

/// Why a figure may differ by more than a tenth, and how far.
fn explained(d: &Difference) -> bool {
    match d.figure {
        // Decisions, switches and timers are instructions of a slow machine.
        "wait p50 us" => d.here - d.simulated < 1_000.0,
        // Jobs take up to a tenth longer for the same reason, and so need a credit that lapses more often.
        "wait p99 us" => d.here < 3.0 * d.simulated + 3_000.0,
        "missed" => d.here - d.simulated < 0.03 * JOBS,
        // Work is work everywhere.
        _ => false,
    }
}

#[test]
fn three_hosts_agree_on_the_order_of_policies() {
    const TEST: &str = "one scenario on three hosts";
    let Some(lab) = common::lab(TEST, linux::KERNELS[0], false) else { return };
    let hypervisor = || {
        let lab = xen::Lab::new()?;
        lab.prepare().map(|()| lab)
    };
    let Some(hypervisor) = hypervisor().map_err(|e| takt_bpf_build::skip(TEST, format!("{e:#}"))).ok() else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/periodic.toml");
    let text = std::fs::read_to_string(&file).expect("scenario");
    let scenario = Scenario::from_toml(&text, "periodic.toml").expect("scenario");
    let policies = PolicySpec::list(scenario.policies.iter().map(String::as_str)).expect("policies");
    let c = Comparison::run(&scenario, &policies, &SEEDS, &lab, &hypervisor).unwrap_or_else(|e| panic!("{e:#}"));
    c.rows.iter().for_each(|row| println!("{row:?}"));
    for host in [LINUX, XEN] {
        assert_eq!(c.agreement(host, |f| f.wait_p99_us), 1.0, "{host}: another order");
    }
    for d in c.differences() {
        println!("{d:?}");
        assert!(explained(&d), "nothing explains {d:?}");
    }
}
