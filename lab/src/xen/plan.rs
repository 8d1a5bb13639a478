// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to what Dom0 is to do: a script of the calls that `xen/lab/cases/scenario` defines.
//!
//! PCPUs become those of a cpupool; Dom0 has one of its own beside it. VMs are guests without an operating system, and without a
//! network; scenarios with calls have a plan of their own (`calls`).

use super::{Scheduler, domain, fanout, parties};
use crate::map::{self, HOG_PHASES, Lab, TASKS};
use anyhow::{Result, bail, ensure};
use std::fmt::Write;
use takt_control::Server;
use takt_sim::parallel::{self, Parallel};
use takt_sim::tasks::{TaskSpec, by_priority};
use takt_sim::{Scenario, VmSpec, Workload};

/// What the emulated machine carries beside Dom0's PCPU.
const PCPUS: u32 = 15;
const VMS: u32 = 64;
/// A guest has room for as many VCPUs, and for the latencies of as many jobs of each.
const VCPUS: u32 = 32;
const JOBS: u64 = 16_384;
/// Before the cpupool's.
const DOM0_PCPUS: u32 = 1;
/// VMs of a machine before the scenario's.
const DOM0S: u32 = 1;
/// The calibration's pool.
const CALIBRATED_BY: &str = "credit";

/// A phase: which scheduler, which seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub scenario: usize,
    pub scheduler: usize,
    pub seed: usize,
    /// The policy, if the scheduler is Takt.
    pub policy: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub script: String,
    /// In the order in which they are carried out.
    pub phases: Vec<Phase>,
    /// Created in all.
    pub vms: u32,
    pub virtual_ns: u64,
}

/// A phase for each scheduler and seed. With `trace` the hypervisor traces the first phase of the
/// first scheduler.
///
/// # Errors
/// The lab cannot do what the scenario asks for; names the key.
pub fn plan(s: &Scenario, schedulers: &[Scheduler], seeds: &[u64], trace: bool) -> Result<Plan> {
    check(s, schedulers)?;
    ensure!(!parties::any(s), "{}: a VM that is called needs one boot per scheduler, with Dom0 under it", s.name);
    let mut order: Vec<usize> = (0..schedulers.len()).collect();
    // A cpupool of RTDS must not be destroyed: Xen 4.20 panics.
    order.sort_by_key(|&n| schedulers[n] == Scheduler::Rtds);
    let mut script = format!("machine {}\n", s.machine.pcpus);
    pool(&mut script, &Scheduler::parse(CALIBRATED_BY)?);
    script += "calibrate\n";
    let (mut phases, vms) = (Vec::new(), s.vms.iter().map(|v| v.count).sum::<u32>() + fanout::worlds(s));
    for scheduler in order {
        pool(&mut script, &schedulers[scheduler]);
        let policy = match &schedulers[scheduler] {
            Scheduler::Takt(policy) => Some(policy.name.clone()),
            _ => None,
        };
        for (seed, &value) in seeds.iter().enumerate() {
            let _ = writeln!(script, "phase {} {vms} {} {}", phases.len(), map::warmup(s), s.duration);
            script += &guests(s, &schedulers[scheduler], value, DOM0_PCPUS)?;
            script += if trace && (scheduler, seed) == (0, 0) { "run trace\n" } else { "run\n" };
            phases.push(Phase { scenario: 0, scheduler, seed, policy: policy.clone() });
        }
    }
    let count = phases.len() as u64;
    Ok(Plan { script, vms: vms * count as u32, virtual_ns: (map::warmup(s) + s.duration) * count, phases })
}

pub(super) fn check(s: &Scenario, schedulers: &[Scheduler]) -> Result<()> {
    map::possible(s, Lab::Xen)?;
    if schedulers.iter().any(Scheduler::pins) {
        ensure!(!s.dom0.dedicated, "dom0.dedicated: true under pin in the Xen lab; allowed: false");
        takt_sim::pinned(s)?;
    }
    ensure!(s.machine.pcpus <= PCPUS, "machine.pcpus: {} in the Xen lab; allowed: 1 to {PCPUS}", s.machine.pcpus);
    let vms: u32 = s.vms.iter().map(|v| v.count).sum();
    ensure!(vms <= VMS, "vm: {vms} VMs in the Xen lab; allowed: at most {VMS}");
    fanout::check(s)?;
    for vm in &s.vms {
        let key = format!("vm.{}", vm.name);
        ensure!(vm.vcpus <= VCPUS, "{key}.vcpus: {} in the Xen lab; allowed: 1 to {VCPUS}", vm.vcpus);
        match vm.workload() {
            Workload::Hog(_) | Workload::Parallel(_) => map::threads(vm)?,
            Workload::Signalling(_) => {
                ensure!(
                    parties::any(s),
                    "{key}.workload: signalling in the Xen lab; allowed: together with a media server"
                )
            }
            Workload::Periodic(own) => {
                let jobs = s.duration / own.period;
                ensure!(jobs <= JOBS, "{key}.workload.period: {jobs} jobs in the Xen lab; allowed: at most {JOBS}");
            }
            Workload::Tasks(_) => {
                let tasks = vm.tasks();
                ensure!(tasks <= TASKS, "{key}.workload.tasks: {tasks} in the Xen lab; allowed: at most {TASKS}");
            }
            _ => {}
        }
        if schedulers.contains(&Scheduler::Rtds) {
            ensure!(
                (vm.params.weight() == 256 || vm.server.is_some()) && vm.params.cap() == 0,
                "{key}: xen-rtds has neither weight nor cap; allowed: weight 256, or budget and period; cap 0"
            );
        }
    }
    Ok(())
}

pub(super) fn pool(script: &mut String, scheduler: &Scheduler) {
    let _ = write!(script, "pool {}", scheduler.in_xl());
    if let Scheduler::Takt(policy) = scheduler {
        let number = takt_policy::policies().iter().find(|p| p.name == policy.name).map_or(0, |p| p.id);
        let _ = write!(script, " {number}");
        for (key, value) in &policy.params {
            let _ = write!(script, "\nparam {key} {value}");
        }
    }
    script.push('\n');
}

/// The VMs of a phase but those that are called; the seed shifts them as in the lab with Linux. The scenario's PCPUs begin with `first`.
pub(super) fn guests(s: &Scenario, scheduler: &Scheduler, seed: u64, first: u32) -> Result<String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let together = rng.u64(..);
    let mut script = String::new();
    let (mut number, mut groups) = (0, map::groups(s)?.into_iter());
    for spec in &s.vms {
        for (nth, group) in (0..).zip(groups.by_ref().take(spec.count as usize)) {
            if parties::takes_part(spec) {
                continue;
            }
            let (work, options) = match spec.workload() {
                Workload::Tasks(_) => (0, set_of_tasks(&s.tasks(spec, number, seed))),
                Workload::Hog(_) => (0, format!("hog=1 phase={}", rng.u64(0..HOG_PHASES) * 1_000_000)),
                Workload::Parallel(program) => (0, parallel(program, rng.u32(..))),
                Workload::Fanout(own) => (0, fanout::options(s, number, own, rng.u32(..))),
                Workload::Periodic(own) => (own.work, format!("period={} phase={}", own.period, together % own.period)),
                Workload::Idle(_) => (0, String::new()),
                _ => bail!("vm.{}.workload: no guest for {} in the Xen lab", spec.name, spec.workload.name()),
            };
            let lines = domain::configuration(s, spec, nth, scheduler, first);
            let parameters = domain::parameters(spec, scheduler, group) + &begins(s, spec, scheduler, number, seed);
            let _ = writeln!(script, "vm {} {work} '{options}' '{lines}'{parameters}", spec.vcpus);
            number += 1;
        }
    }
    Ok(script + &fanout::clients(s, &mut rng))
}

/// When the servers of the `nth` VM begin, by the simulator's draw, relative to the work and modulo the period; a word with a blank before it.
fn begins(s: &Scenario, spec: &VmSpec, scheduler: &Scheduler, nth: u32, seed: u64) -> String {
    let Server { budget, period, .. } = spec.server;
    if !spec.server.is_some() || !matches!(scheduler, Scheduler::Takt(_)) {
        return String::new();
    }
    format!(" serve={}:{period}:{budget}", s.server_begins(DOM0S + nth, period, seed))
}

/// As the guest reads it, times in ns.
fn parallel(program: &Parallel, seed: u32) -> String {
    let parallel::Plan { compute, spread, locks, held, barrier } = program.plan();
    format!(
        "compute={compute} spread={spread} locks={locks} held={held} barrier={} spin={} iterations={} seed={seed}",
        u32::from(barrier),
        program.spin,
        program.work
    )
}

/// As the guest reads them, the most important one first.
fn set_of_tasks(tasks: &[TaskSpec]) -> String {
    let mut options = format!("tasks={}", tasks.len());
    for (letter, task) in ('a'..).zip(by_priority(tasks.to_vec())) {
        let _ = write!(options, " c{letter}={} p{letter}={}", task.cost, task.period);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests;
    use takt_sim::Kind;

    const VMS: &str = r#"
        [[vm]]
        name = "task"
        count = 2
        vcpus = 1
        rt = "on"
        affinity = "0,3"
        workload = { type = "periodic", period = "20ms", work = "4ms" }
        [[vm]]
        name = "hog"
        vcpus = 4
        weight = 256
        workload = "hog"
    "#;

    fn scenario(vms: &str) -> Scenario {
        let text = format!("duration = \"2s\"\nwarmup = \"1s\"\n[machine]\npcpus = 4\n{vms}");
        Scenario::from_toml(&text, "test.toml").unwrap()
    }

    fn plan_of(vms: &str, schedulers: &[&str], seeds: &[u64]) -> Result<Plan> {
        let schedulers: Vec<_> = schedulers.iter().map(|s| Scheduler::parse(s).unwrap()).collect();
        plan(&scenario(vms), &schedulers, seeds, false)
    }

    #[test]
    fn each_scheduler_has_a_pool_and_each_seed_a_phase() {
        let plan = plan_of(VMS, &["xen-rtds", "doris(slice=5ms)"], &[1, 2]).unwrap();
        let lines: Vec<_> = plan.script.lines().collect();
        assert_eq!(lines[..5], ["machine 4", "pool null 0", "calibrate", "pool null 1", "param 3 5000000"]);
        assert_eq!(lines[5], "phase 0 3 1000000000 2000000000");
        assert!(lines[6].starts_with("vm 1 4000000 'period=20000000 phase="), "{}", lines[6]);
        assert!(lines[6].ends_with("' 'cpus=\"1,4\"' 101=256 102=0 103=1"), "{}", lines[6]);
        assert!(lines[8].starts_with("vm 4 0 'hog=1 phase="), "{}", lines[8]);
        assert!(lines[8].ends_with("000000' '' 101=256 102=0"), "{}", lines[8]);
        // RTDS comes last, and in the order of the seeds.
        assert!(lines.contains(&"pool rtds"));
        let order: Vec<_> = plan.phases.iter().map(|p| (p.scheduler, p.seed)).collect();
        assert_eq!(order, [(1, 0), (1, 1), (0, 0), (0, 1)]);
        assert_eq!((plan.vms, plan.virtual_ns), (12, 12_000_000_000));
    }

    #[test]
    fn a_set_of_tasks_and_a_server_are_in_the_script() {
        let vms = |tasks: &str| {
            format!(
                "[[vm]]\nname = \"set\"\nvcpus = 1\nbudget = \"2ms\"\nperiod = \"10ms\"\npriority = 3\nextra = \"off\"\n\
                 workload = {{ type = \"tasks\", {tasks} }}"
            )
        };
        let two = vms("tasks = \"5ms/100ms, 1ms/50ms\"");
        let line = |policy: &str| {
            let script = plan_of(&two, &[policy], &[1]).unwrap().script;
            script[script.find("vm 1 ").unwrap()..].split("\nrun").next().unwrap().to_owned()
        };
        let set = "vm 1 0 'tasks=2 ca=1000000 pa=50000000 cb=5000000 pb=100000000'";
        let server = "105=10000000 104=2000000 106=3 107=0 serve=0:10000000:2000000";
        assert_eq!(line("rtxen"), format!("{set} '' 101=256 102=0 {server}"));
        assert_eq!(line("xen-rtds"), format!("{set} 'period=10000\nbudget=2000\nextratime=0'"));
        let error = plan_of(&vms("random = 17"), &["credit"], &[1]).unwrap_err().to_string();
        assert_eq!(error, "vm.set.workload.tasks: 17 in the Xen lab; allowed: at most 16");
    }

    #[test]
    fn servers_begin_as_in_the_simulator() {
        let vms = "[[vm]]\nname = \"v\"\ncount = 2\nvcpus = 1\nbudget = \"2ms\"\nperiod = \"10ms\"";
        let mut apart = scenario(vms);
        apart.set("release", "random").unwrap();
        let script = plan(&apart, &[Scheduler::parse("rtxen").unwrap()], &[7], false).unwrap().script;
        let words: Vec<_> = script.split_whitespace().filter(|w| w.starts_with("serve=")).collect();
        let begins = |id| apart.server_begins(id, 10_000_000, 7);
        assert_eq!(words, [1, 2].map(|id| format!("serve={}:10000000:2000000", begins(id))));
        assert_ne!(begins(1), begins(2));
    }

    #[test]
    fn a_parallel_program_and_its_group_are_in_the_script() {
        let vms = "[[vm]]\nname = \"team\"\ncount = 2\nvcpus = 4\nrt = \"on\"\ngroup = \"both\"\nlatency = \"5ms\"\n\
                   laxity = \"20us\"\nworkload = { type = \"parallel\", profile = \"streamcluster\", spin = \"1s\" }";
        let lines = |policy: &str| {
            let script = plan_of(vms, &[policy], &[1]).unwrap().script;
            script.lines().filter(|l| l.starts_with("vm ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let poris = lines("poris");
        let program =
            "vm 4 0 'compute=1000000 spread=10 locks=2 held=1000 barrier=1 spin=1000000000 iterations=0 seed=";
        assert!(poris[0].starts_with(program), "{}", poris[0]);
        let settings = "' '' 101=256 102=0 103=1 108=20000 109=5000000";
        assert!(poris[0].ends_with(&format!("{settings} group=1")), "{}", poris[0]);
        // Four VCPUs each on four PCPUs: a subgroup each.
        assert!(poris[1].ends_with(&format!("{settings} group=65537")), "{}", poris[1]);
        assert_ne!(poris[0].split("seed=").nth(1), poris[1].split("seed=").nth(1));
        assert!(lines("credit")[0].ends_with(settings), "{:?}", lines("credit"));
        let error = plan_of(&vms.replace("spin", "threads = 3, spin"), &["poris"], &[1]).unwrap_err().to_string();
        assert_eq!(error, "vm.team.threads: 3 on 4 VCPUs in the lab; allowed: one per VCPU");
    }

    #[test]
    fn the_clients_of_an_application_come_after_its_vms() {
        let vms = "[[vm]]\nname = \"front\"\nvcpus = 1\nworkload = { type = \"fanout\", clients = 3 }\n\
                   [[vm]]\nname = \"leaf\"\ncount = 2\nvcpus = 1\nworkload = \"fanout\"";
        let script = plan_of(vms, &["credit"], &[1]).unwrap().script;
        let lines: Vec<_> = script.lines().skip_while(|l| !l.starts_with("phase ")).collect();
        let [phase, front, leaf, other, clients, "run"] = lines[..] else { panic!("{script}") };
        assert_eq!(phase, "phase 0 4 1000000000 2000000000");
        assert!(front.starts_with("vm 1 0 'fanout=1 background=0 seed="), "{front}");
        assert!(leaf.contains(" port=6 front='$((first + 0))'' '' 101=256"), "{leaf}");
        let seed = |line: &str| line.split("seed=").nth(1).and_then(|l| l.split(' ').next().map(str::to_owned));
        assert_ne!(seed(leaf), seed(other));
        assert!(clients.starts_with("clients 0 3 3 'think=") && clients.ends_with("' 1 2"), "{clients}");
    }

    #[test]
    fn one_phase_is_traced() {
        let schedulers = ["xen-rtds", "credit"].map(|s| Scheduler::parse(s).unwrap());
        let script = plan(&scenario(VMS), &schedulers, &[1, 2], true).unwrap().script;
        let runs: Vec<_> = script.lines().filter(|l| l.starts_with("run")).collect();
        assert_eq!(runs, ["run", "run", "run trace", "run"]);
    }

    #[test]
    fn seeds_shift_phases() {
        let script = |seed| plan_of(VMS, &["credit"], &[seed]).unwrap().script;
        assert_eq!(script(1), script(1));
        assert_ne!(script(1), script(2));
    }

    /// The table of guests and the plan agree; calls have a plan of their own.
    #[test]
    fn each_workload_that_the_lab_has_is_a_guest_of_its_own() {
        for &kind in Kind::ALL.iter().filter(|kind| !parties::needs_network(**kind)) {
            let keys = match kind {
                Kind::Tasks => ", tasks = \"1ms/10ms\"",
                Kind::Fanout => ", clients = 1",
                Kind::Player => ", threads = 1",
                _ => "",
            };
            let vm = format!("[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = {{ type = \"{}\"{keys} }}", kind.name());
            match plan_of(&vm, &["credit"], &[1]) {
                Ok(plan) => assert_eq!(plan.script.contains("\nvm 1 0 '' "), kind == Kind::Idle, "{}", plan.script),
                Err(error) => assert!(!guests::of(kind).xen, "{error}"),
            }
        }
    }

    #[test]
    fn what_the_lab_cannot_do_is_named() {
        let error = |vms: &str| plan_of(vms, &["xen-rtds"], &[1]).unwrap_err().to_string();
        let all = Lab::Xen.all();
        assert!(all.starts_with("hog, voip, "), "{all}");
        for kind in Kind::ALL.iter().filter(|kind| !guests::of(**kind).xen).map(|kind| kind.name()) {
            let vm = format!("[[vm]]\nname = \"v\"\nvcpus = 2\nworkload = \"{kind}\"");
            assert_eq!(error(&vm), format!("vm.v.workload: {kind} in the Xen lab; allowed: {all}"));
        }
        assert_eq!(
            error("[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = \"signalling\""),
            "vm.v.workload: signalling in the Xen lab; allowed: together with a media server"
        );
        assert_eq!(error("[[vm]]\nname = \"v\"\nvcpus = 33"), "vm.v.vcpus: 33 in the Xen lab; allowed: 1 to 32");
        let fast =
            "[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = { type = \"periodic\", period = \"100us\", work = \"1us\" }";
        assert_eq!(error(fast), "vm.v.workload.period: 20000 jobs in the Xen lab; allowed: at most 16384");
        assert!(error("[[vm]]\nname = \"v\"\nvcpus = 1\ncap = 10").contains("xen-rtds has neither weight nor cap"));
    }
}
