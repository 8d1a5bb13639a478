// SPDX-License-Identifier: GPL-2.0-only
//! Groups of Poris beside hogs: two parallel programs (`scenarios/gang.toml`), where the real kernel and the real hypervisor put Poris, its parts
//! and Credit in the simulator's order, and an application that answers from four VMs together (`scenarios/search.toml`). Emulated CPUs take
//! turns, so it is the order that counts, not by how much one is ahead.

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
/// Response of an application under Takt's policies of that under the kernel's own scheduler, at most.
const SOONER: f64 = 0.7;

/// What a scenario is about: a figure of the runs of all seeds.
type Figure = fn(&[RunResult]) -> f64;

/// Iterations of both programs, mean of all seeds.
fn iterations(runs: &[RunResult]) -> f64 {
    let programs = runs.iter().flat_map(|r| &r.vms).filter_map(|vm| vm.parallel.as_ref());
    programs.map(|p| p.iterations as f64).sum::<f64>() / runs.len() as f64
}

/// Mean response of the application, ms, mean of all seeds. A message that was lost would have left a client without an answer.
fn response(runs: &[RunResult]) -> f64 {
    let vms = || runs.iter().flat_map(|r| &r.vms);
    for vm in vms().filter(|vm| vm.workload == "fanout") {
        assert_eq!((vm.drops.rx, vm.drops.tx), (0, 0), "{}", vm.name);
    }
    vms().filter_map(|vm| vm.fanout.as_ref()).map(|f| f.mean_ns as f64 / 1e6).sum::<f64>() / runs.len() as f64
}

/// Under each scheduler.
fn in_the_lab(host: &str, names: &[&str], of: Figure, runs: Vec<LabRun>) -> Vec<f64> {
    let runs: Vec<_> = runs.into_iter().map(|r| r.result).collect();
    let figures: Vec<_> = runs.chunks(SEEDS.len()).map(of).collect();
    names.iter().zip(&figures).for_each(|(name, figure)| println!("{host}: {name}: {figure:.1}"));
    figures
}

/// A figure of a scenario by scheduler, the simulator's and a host's.
struct Compared {
    names: Vec<String>,
    simulated: Vec<f64>,
    /// Those of the host's own schedulers come after Takt's.
    here: Vec<f64>,
}

impl Compared {
    fn new(s: &Scenario, names: &[&str], of: Figure, here: Vec<f64>) -> Self {
        let simulated = |policy: &String| {
            let spec = PolicySpec::parse(policy).expect("policy");
            let run = |&seed: &u64| takt_sim::run(s, &spec, seed, Options::default()).expect("simulation").0;
            of(&SEEDS.iter().map(run).collect::<Vec<_>>())
        };
        let simulated: Vec<_> = s.policies.iter().map(simulated).collect();
        println!("the simulator: {simulated:.1?}");
        Self { names: names.iter().map(|&n| n.to_owned()).collect(), simulated, here }
    }

    /// Takt's policies are in the simulator's order.
    fn agrees(&self) {
        let Self { simulated, here, .. } = self;
        let here = &here[..simulated.len()];
        let tau = tau(here, simulated);
        assert!(tau >= AGREE, "tau is {tau}: {here:?} against {simulated:?}");
    }

    /// The figure here under `a` of that under `b`.
    fn ratio(&self, a: &str, b: &str) -> f64 {
        let of = |name: &str| self.here[self.names.iter().position(|n| n == name).expect("scheduler")];
        of(a) / of(b)
    }
}

/// Runs of `file` under its policies and the kernel's own scheduler.
fn on_linux(test: &str, file: &str, of: Figure) -> Option<Compared> {
    let lab = common::lab(test, linux::KERNELS[0], false)?;
    let scenario = common::scenario(file);
    let names = names(&scenario, "eevdf");
    let schedulers: Vec<_> = names.iter().map(|n| Scheduler::parse(n).expect("scheduler")).collect();
    let runs = lab.run(&scenario, &schedulers, &SEEDS).unwrap_or_else(|e| panic!("{e:#}"));
    Some(Compared::new(&scenario, &names, of, in_the_lab("linux", &names, of, runs)))
}

/// Runs of `file` under its policies and one of the hypervisor's own.
fn in_xen(test: &str, file: &str, of: Figure) -> Option<Compared> {
    let lab = hypervisor::lab(test)?;
    let scenario = common::scenario(file);
    let names = names(&scenario, "xen-credit2");
    let schedulers: Vec<_> = names.iter().map(|n| xen::Scheduler::parse(n).expect("scheduler")).collect();
    let (runs, _) = lab.run(&scenario, &schedulers, &SEEDS, false).unwrap_or_else(|e| panic!("{e:#}"));
    Some(Compared::new(&scenario, &names, of, in_the_lab("xen", &names, of, runs)))
}

fn names<'a>(s: &'a Scenario, own: &'a str) -> Vec<&'a str> {
    s.policies.iter().map(String::as_str).chain([own]).collect()
}

fn poris_is_ahead(compared: &Compared) {
    compared.agrees();
    let faster = compared.ratio("poris", "credit");
    assert!(faster >= FASTER, "{faster} of the iterations under credit");
}

#[test]
#[ignore = "ten minutes"]
fn on_linux_poris_is_ahead_as_in_the_simulator() {
    let Some(compared) = on_linux("parallel programs on Linux", "gang.toml", iterations) else { return };
    poris_is_ahead(&compared);
}

#[test]
#[ignore = "ten minutes"]
fn in_xen_poris_is_ahead_as_in_the_simulator() {
    let Some(compared) = in_xen("parallel programs in Xen", "gang.toml", iterations) else { return };
    poris_is_ahead(&compared);
}

/// Not that Poris is ahead of Credit: an answer waits for the slowest part, emulated CPUs are not equally fast, and Poris leaves a VCPU where it is.
#[test]
#[ignore = "ten minutes"]
fn on_linux_an_application_answers_sooner_than_under_the_kernels_own_scheduler() {
    let Some(compared) = on_linux("an application on Linux", "search.toml", response) else { return };
    for policy in ["credit", "poris_s", "poris"] {
        let of = compared.ratio(policy, "eevdf");
        assert!(of <= SOONER, "{policy}: {of} of the response under eevdf");
    }
}
