// SPDX-License-Identifier: GPL-2.0-only
//! Two parallel programs of a group beside hogs (`scenarios/gang.toml`): the real kernel and the real hypervisor put Poris, its parts and
//! Credit in the simulator's order. Emulated CPUs take turns, so it is the order that counts, not by how much one is ahead.

mod common;
#[path = "common/hypervisor.rs"]
mod hypervisor;

use takt_control::PolicySpec;
use takt_lab::hosts::tau;
use takt_lab::{LabRun, Scheduler, linux, xen};
use takt_sim::result::RunResult;
use takt_sim::{Options, Scenario};

const SEEDS: [u64; 3] = [1, 2, 3];
/// Agreement of two orders (Kendall's τ).
const AGREE: f64 = 0.8;
/// Iterations under Poris of those under Credit, at least.
const FASTER: f64 = 1.5;

/// Iterations of both programs, mean of all seeds.
fn iterations(runs: &[RunResult]) -> f64 {
    let programs = runs.iter().flat_map(|r| &r.vms).filter_map(|vm| vm.parallel.as_ref());
    programs.map(|p| p.iterations as f64).sum::<f64>() / runs.len() as f64
}

/// Under each scheduler.
fn in_the_lab(host: &str, names: &[&str], runs: Vec<LabRun>) -> Vec<f64> {
    let runs: Vec<_> = runs.into_iter().map(|r| r.result).collect();
    let done: Vec<_> = runs.chunks(SEEDS.len()).map(iterations).collect();
    names.iter().zip(&done).for_each(|(name, n)| println!("{host}: {name}: {n:.0} iterations"));
    done
}

/// `here` may have schedulers of the host's own after Takt's.
fn agrees(s: &Scenario, host: &str, here: &[f64]) {
    let simulated = |policy: &String| {
        let spec = PolicySpec::parse(policy).expect("policy");
        let run = |&seed: &u64| takt_sim::run(s, &spec, seed, Options::default()).expect("simulation").0;
        iterations(&SEEDS.iter().map(run).collect::<Vec<_>>())
    };
    let simulated: Vec<_> = s.policies.iter().map(simulated).collect();
    let here = &here[..simulated.len()];
    let tau = tau(here, &simulated);
    assert!(tau >= AGREE, "{host}: tau is {tau}: {here:?} against {simulated:?}");
    let of = |name: &str| here[s.policies.iter().position(|p| p == name).expect("policy")];
    let faster = of("poris") / of("credit");
    assert!(faster >= FASTER, "{host}: {faster} of the iterations under credit");
}

fn names<'a>(s: &'a Scenario, own: &'a str) -> Vec<&'a str> {
    s.policies.iter().map(String::as_str).chain([own]).collect()
}

#[test]
#[ignore = "ten minutes"]
fn on_linux_poris_is_ahead_as_in_the_simulator() {
    let Some(lab) = common::lab("parallel programs on Linux", linux::KERNELS[0], false) else { return };
    let scenario = common::scenario("gang.toml");
    let names = names(&scenario, "eevdf");
    let schedulers: Vec<_> = names.iter().map(|n| Scheduler::parse(n).expect("scheduler")).collect();
    let runs = lab.run(&scenario, &schedulers, &SEEDS).unwrap_or_else(|e| panic!("{e:#}"));
    agrees(&scenario, "linux", &in_the_lab("linux", &names, runs));
}

#[test]
#[ignore = "ten minutes"]
fn in_xen_poris_is_ahead_as_in_the_simulator() {
    let Some(lab) = hypervisor::lab("parallel programs in Xen") else { return };
    let scenario = common::scenario("gang.toml");
    let names = names(&scenario, "xen-credit2");
    let schedulers: Vec<_> = names.iter().map(|n| xen::Scheduler::parse(n).expect("scheduler")).collect();
    let (runs, _) = lab.run(&scenario, &schedulers, &SEEDS, false).unwrap_or_else(|e| panic!("{e:#}"));
    agrees(&scenario, "xen", &in_the_lab("xen", &names, runs));
}
