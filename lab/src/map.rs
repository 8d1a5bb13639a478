// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to a plan: which guest stands for which workload.
//!
//! PCPUs become the machine's CPUs. Dom0 is the host's kernel and the VMM's I/O threads: what the scenario says of Dom0 and of the
//! model's costs has no counterpart, they are what they are.

use crate::apps::App;
use crate::guests;
use crate::plan::{Phase, Plan, Vm};
use crate::scheduler::Scheduler;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use takt_control::RtMode;
use takt_control::groups::{Groups, Member};
use takt_sim::tasks::by_priority;
use takt_sim::{Kind, Scenario, VmSpec, Workload};

/// A booted kernel has timers and workers to get rid of.
const SETTLE: u64 = 5_000_000_000;
/// Before measuring, if the scenario leaves that open: the monitor knows the senders by then.
const WARMUP: u64 = 1_000_000_000;
/// What an emulated machine carries at all.
const PCPUS: u32 = 16;
const VMS: usize = 64;
const CALLS: u32 = 200;
/// Of a set, in either lab; in Xen's one letter names each on a guest's command line.
pub const TASKS: usize = 16;
/// Hogs begin within this, ms.
pub const HOG_PHASES: u64 = 10;

/// A lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    Linux,
    Xen,
}

impl Lab {
    /// As errors call it.
    fn name(self) -> &'static str {
        match self {
            Lab::Linux => "the lab",
            Lab::Xen => "the Xen lab",
        }
    }

    /// Whether it has a guest for a workload.
    fn has(self, workload: Kind) -> bool {
        match self {
            Lab::Linux => guests::of(workload).linux,
            Lab::Xen => guests::of(workload).xen,
        }
    }

    /// # Errors
    /// It has no guest for a VM's workload.
    fn check(self, vm: &VmSpec) -> Result<()> {
        if !self.has(vm.workload.kind()) {
            let (name, kind, lab, all) = (&vm.name, vm.workload.name(), self.name(), self.all());
            bail!("vm.{name}.workload: {kind} in {lab}; allowed: {all}");
        }
        Ok(())
    }

    /// The workloads that it has guests for, for an error.
    pub fn all(self) -> String {
        Kind::ALL.iter().filter(|kind| self.has(**kind)).map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }
}

/// A plan with a phase for each seed, scheduler after scheduler.
///
/// # Errors
/// The lab cannot do what the scenario asks for; names the key.
pub fn plan(scenario: &Scenario, schedulers: &[Scheduler], seeds: &[u64]) -> Result<Plan> {
    check(scenario)?;
    if schedulers.iter().any(Scheduler::pins) {
        ensure!(!scenario.dom0.dedicated, "dom0.dedicated: true under pin in the lab; allowed: false");
        takt_sim::pinned(scenario)?;
    }
    let phases =
        schedulers.iter().flat_map(|scheduler| seeds.iter().map(move |&seed| phase(scenario, scheduler, seed)));
    let phases = phases.collect::<Result<_>>()?;
    Ok(Plan { tick: None, iterations_per_s: None, settle_ns: SETTLE, record: false, trace: false, phases })
}

/// Time before the measured window, ns.
pub fn warmup(scenario: &Scenario) -> u64 {
    scenario.warmup.unwrap_or(WARMUP)
}

fn check(s: &Scenario) -> Result<()> {
    possible(s, Lab::Linux)?;
    ensure!(s.machine.pcpus <= PCPUS, "machine.pcpus: {} in the lab; allowed: 1 to {PCPUS}", s.machine.pcpus);
    let vms: usize = s.vms.iter().map(|v| v.count as usize).sum();
    ensure!(vms <= VMS, "vm: {vms} VMs in the lab; allowed: at most {VMS}");
    for vm in &s.vms {
        let key = format!("vm.{}", vm.name);
        if vm.calls() > CALLS {
            bail!("{key}.calls: {} in the lab; allowed: 0 to {CALLS}", vm.calls());
        }
        let tasks = vm.tasks();
        ensure!(tasks <= TASKS, "{key}.workload.tasks: {tasks} in the lab; allowed: at most {TASKS}");
        threads(vm)?;
    }
    Ok(())
}

/// Whether a lab has what a scenario needs, as far as both labs are alike.
///
/// # Errors
/// The scenario has several machines, pools, a script, a workload without a guest in the lab, an
/// application that is too large, or a group that is too large for its machine.
pub fn possible(s: &Scenario, lab: Lab) -> Result<()> {
    ensure!(s.machine.machines == 1, "machine.machines: {} in the lab; allowed: 1", s.machine.machines);
    ensure!(
        s.parameters.is_empty(),
        "parameters: for the simulator; allowed in the lab: in each policy, as credit(tickle=xen)"
    );
    ensure!(s.pools.is_empty() && s.script.is_empty(), "pool and at: for the simulator; allowed in the lab: neither");
    for vm in &s.vms {
        lab.check(vm)?;
        App::of(s, vm).map_or(Ok(()), |app| app.check())?;
    }
    groups(s).map(drop)
}

/// Group and subgroup of each VM, in the order of the VMs' names, as a policy that knows groups
/// gets them (rule P35); 0 = none.
///
/// # Errors
/// A group is too large for the machine.
pub fn groups(s: &Scenario) -> Result<Vec<u64>> {
    let vms = s.vms.iter().flat_map(|spec| (0..spec.count).map(move |_| spec));
    let members: Vec<_> =
        (0..).zip(vms).map(|(vm, spec)| Member { vm, vcpus: spec.vcpus, group: &spec.group }).collect();
    let mut all = vec![0; members.len()];
    let refused = Groups::default().bring(&members, s.machine.pcpus, |vm, group| {
        all[vm as usize] = group;
        Ok(())
    });
    refused.into_values().next().map_or(Ok(all), Err)
}

/// The guests of no lab have threads.
///
/// # Errors
/// The VM has another number of busy loops, of a program's threads, or of an application's parts, than VCPUs.
pub fn threads(vm: &VmSpec) -> Result<()> {
    let (threads, vcpus) = (vm.threads(), vm.vcpus);
    let (key, allowed) = vm.fanout().map_or(("threads", "one"), |_| ("parts", "0, or one"));
    let one = threads == 0 || threads == vcpus;
    ensure!(one, "vm.{}.{key}: {threads} on {vcpus} VCPUs in the lab; allowed: {allowed} per VCPU", vm.name);
    Ok(())
}

fn phase(s: &Scenario, scheduler: &Scheduler, seed: u64) -> Result<Phase> {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Periodic tasks of a scenario begin together.
    let together = rng.u64(..);
    let vms = s.vms.iter().flat_map(|spec| spec.names().map(move |name| (spec, name)));
    let vms = vms.enumerate().map(|(n, (spec, name))| vm(s, spec, name, n, seed, together, &mut rng));
    let mut vms: Vec<Vm> = vms.collect::<Result<_>>()?;
    if scheduler.pins() {
        pin(s, &mut vms);
    }
    Ok(Phase { scheduler: scheduler.clone(), warmup_ns: warmup(s), measure_ns: s.duration, vms })
}

/// Each VM has the PCPUs that its VCPUs have together under the simulator's `pin`; they find out who runs where, and their I/O threads go along.
fn pin(s: &Scenario, vms: &mut [Vm]) {
    let masks = takt_sim::pinned(s).unwrap_or_default();
    let mut masks = masks.iter().skip(s.dom0_vcpus() as usize);
    for vm in vms {
        let all = masks.by_ref().take(vm.vcpus as usize).fold(0, |all, mask| all | mask);
        vm.affinity = (0..s.machine.pcpus).filter(|cpu| all >> cpu & 1 == 1).collect();
    }
}

fn vm(
    s: &Scenario,
    spec: &VmSpec,
    name: String,
    n: usize,
    seed: u64,
    together: u64,
    rng: &mut fastrand::Rng,
) -> Result<Vm> {
    let tap = format!("tap{n}");
    let mut vm = Vm {
        name,
        serves: spec.rt() != RtMode::Off && spec.workload.kind().serves(),
        config: spec.config().with_server(spec.server),
        affinity: spec.affinity.clone(),
        vcpus: spec.vcpus,
        start_ms: 0,
        workload: Map::new(),
        work_ns: None,
        cpu_ns: BTreeMap::new(),
        clients: None,
        requests: None,
    };
    match spec.workload() {
        Workload::Hog(_) => {
            vm.start_ms = rng.u64(0..HOG_PHASES);
            vm.workload = object(json!({"kind": "hog"}));
        }
        Workload::Periodic(own) => {
            let (period, phase) = (own.period, together % own.period);
            vm.workload = object(json!({"kind": "periodic", "period_ns": period, "phase_ns": phase, "work": 0}));
            vm.work_ns = Some(own.work);
        }
        Workload::Stream(own) => {
            let (period, phase) = (own.period, rng.u64(0..own.period));
            vm.workload = object(json!({
                "kind": "source", "tap": tap, "period_ns": period, "phase_ns": phase, "burst": own.burst, "gap_ns": own.gap,
            }));
        }
        Workload::Voip(own) => {
            let (c, phase, seed) = (&s.constants, rng.u64(0..s.constants.packet_gap), rng.u32(..));
            vm.workload = object(json!({"kind": "echo", "tap": tap, "deadline_ns": c.packet_gap, "work": 0}));
            vm.work_ns = Some(c.voip_packet);
            let arguments = [
                ("dev", tap),
                ("streams", own.calls.to_string()),
                ("period-ns", c.packet_gap.to_string()),
                ("jitter-ns", c.send_jitter.to_string()),
                ("phase-ns", phase.to_string()),
                ("deadline-ns", c.jitter_buffer.to_string()),
                ("seed", seed.to_string()),
            ];
            vm.clients =
                (own.calls > 0).then(|| arguments.iter().flat_map(|(k, v)| [format!("--{k}"), v.clone()]).collect());
        }
        Workload::Parallel(program) => {
            let plan = program.plan();
            vm.workload = object(json!({
                "kind": "parallel", "spread": plan.spread, "locks": plan.locks, "barrier": plan.barrier,
                "rounds": program.work, "seed": rng.u32(..), "compute": 0, "held": 0, "spin": 0,
            }));
            let times = [("/compute", plan.compute), ("/held", plan.held), ("/spin", program.spin)];
            vm.cpu_ns = times.map(|(name, ns)| (name.to_owned(), ns)).into();
        }
        Workload::Fanout(site) => {
            let app = App::of(s, spec).with_context(|| format!("vm.{}: application without clients", spec.name))?;
            let (guest, times) = app.guest(&vm.name, site, rng.u32(..));
            (vm.workload, vm.cpu_ns) = (object(guest), times);
            vm.requests = app.clients(&vm.name, rng.u32(..));
            // Its busy loop would keep everybody else from running under `fifo`.
            vm.serves &= !site.background;
        }
        Workload::Tasks(_) => {
            let set = by_priority(s.tasks(spec, n as u32, seed));
            let periods: Vec<_> = set.iter().map(|t| json!({"period_ns": t.period, "work": 0})).collect();
            vm.workload = object(json!({"kind": "tasks", "tasks": periods}));
            vm.cpu_ns = (0..).zip(&set).map(|(i, t): (u32, _)| (format!("/tasks/{i}/work"), t.cost)).collect();
        }
        Workload::Idle(_) => vm.workload = object(json!({"kind": "idle"})),
        _ => bail!("vm.{}.workload: no guest for {} in the lab", spec.name, spec.workload.name()),
    }
    Ok(vm)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(vms: &str) -> Scenario {
        let text = format!("duration = \"2s\"\n[machine]\npcpus = 4\n{vms}");
        Scenario::from_toml(&text, "test.toml").unwrap()
    }

    fn plan_of(vms: &str, seeds: &[u64]) -> Result<Plan> {
        plan(&scenario(vms), &[Scheduler::Fifo], seeds)
    }

    const ALL: &str = r#"
        [[vm]]
        name = "calls"
        vcpus = 1
        workload = { type = "voip", calls = 3 }
        [[vm]]
        name = "hog"
        count = 2
        vcpus = 4
        workload = "hog"
        [[vm]]
        name = "task"
        vcpus = 1
        rt = "off"
        workload = { type = "periodic", period = "10ms", work = "1ms" }
        [[vm]]
        name = "film"
        vcpus = 1
        workload = { type = "stream", period = "40ms", burst = 5, gap = "100us" }
        [[vm]]
        name = "set"
        vcpus = 1
        budget = "3ms"
        period = "10ms"
        workload = { type = "tasks", tasks = "2ms/50ms, 1ms/20ms" }
    "#;

    #[test]
    fn each_workload_has_its_guest() {
        let plan = plan_of(ALL, &[7]).unwrap();
        let vms = &plan.phases[0].vms;
        let kind = |n: usize| vms[n].workload["kind"].as_str().unwrap();
        assert_eq!(
            vms.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(),
            ["calls", "hog-1", "hog-2", "task", "film", "set"]
        );
        assert_eq!([0, 1, 3, 4, 5].map(kind), ["echo", "hog", "periodic", "source", "tasks"]);
        assert_eq!(vms.iter().map(|v| v.serves).collect::<Vec<_>>(), [true, false, false, false, true, true]);
        assert_eq!((vms[3].work_ns, vms[3].config.params.rt()), (Some(1_000_000), RtMode::Off));
        assert_eq!(vms[0].workload["tap"], "tap0");
        assert_eq!(vms[4].workload["burst"], 5);
        let server = vms[5].config.server();
        assert_eq!((server.budget, server.period), (3_000_000, 10_000_000));
        // The shorter period first.
        assert_eq!(
            vms[5].workload["tasks"],
            json!([{"period_ns": 20_000_000, "work": 0}, {"period_ns": 50_000_000, "work": 0}])
        );
        assert_eq!(vms[5].cpu_ns, [("/tasks/0/work".into(), 1_000_000), ("/tasks/1/work".into(), 2_000_000)].into());
        let clients = vms[0].clients.as_ref().unwrap().join(" ");
        assert!(clients.starts_with("--dev tap0 --streams 3 --period-ns 20000000 "), "{clients}");
    }

    /// The table of guests and the plan agree.
    #[test]
    fn each_workload_that_the_lab_has_is_a_guest_of_its_own() {
        for &kind in Kind::ALL {
            let keys = match kind {
                Kind::Tasks => ", tasks = \"1ms/10ms\"",
                Kind::Fanout => ", clients = 1",
                Kind::Player => ", threads = 1",
                _ => "",
            };
            let vm = format!("[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = {{ type = \"{}\"{keys} }}", kind.name());
            match plan_of(&vm, &[1]) {
                Ok(plan) => {
                    let idle = plan.phases[0].vms[0].workload["kind"] == "idle";
                    assert_eq!(idle, kind == Kind::Idle, "{}", kind.name());
                }
                Err(error) => assert!(!Lab::Linux.has(kind), "{error}"),
            }
        }
    }

    #[test]
    fn pinned_vms_have_the_simulators_pcpus() {
        let vms = "[dom0]\ndedicated = false\n[[vm]]\nname = \"v\"\ncount = 2\nvcpus = 1\ndedicated = true\n[[vm]]\nname = \"hog\"\n\
                   vcpus = 4\nworkload = \"hog\"";
        let schedulers = ["pin", "credit"].map(|s| Scheduler::parse(s).unwrap());
        let phases = plan(&scenario(vms), &schedulers, &[1]).unwrap().phases;
        let of = |n: usize| phases[n].vms.iter().map(|vm| vm.affinity.clone()).collect::<Vec<_>>();
        assert_eq!(of(0), [vec![0], vec![1], vec![2, 3]]);
        assert!(of(1).iter().all(Vec::is_empty));
        let error = plan(&scenario(&vms.replace("false", "true")), &schedulers, &[1]).unwrap_err().to_string();
        assert_eq!(error, "dom0.dedicated: true under pin in the lab; allowed: false");
    }

    #[test]
    fn seeds_shift_phases_and_nothing_else() {
        let plan = plan_of(ALL, &[1, 2, 1]).unwrap();
        let [a, b, c] = &plan.phases[..] else { panic!("{:?}", plan.phases) };
        assert_eq!(a, c);
        assert_ne!(a.vms[0].clients, b.vms[0].clients);
        assert_ne!(a.vms[4].workload["phase_ns"], b.vms[4].workload["phase_ns"]);
        assert_eq!(a.vms[4].workload["period_ns"], b.vms[4].workload["period_ns"]);
    }

    #[test]
    fn a_parallel_program_has_its_settings() {
        let program = r#"
            [[vm]]
            name = "team"
            count = 2
            vcpus = 4
            rt = "on"
            group = "both"
            latency = "5ms"
            laxity = "20us"
            workload = { type = "parallel", profile = "streamcluster", spin = "10s", work = 7 }
        "#;
        let plan = plan_of(program, &[1, 2]).unwrap();
        let vm = &plan.phases[0].vms[0];
        let of = |key: &str| vm.workload[key].clone();
        assert_eq!([of("kind"), of("spread"), of("locks")], [json!("parallel"), json!(10), json!(2)]);
        assert_eq!([of("barrier"), of("rounds")], [json!(true), json!(7)]);
        let times = ["/compute", "/held", "/spin"].map(|key| vm.cpu_ns[key]);
        assert_eq!(times, [1_000_000, 1_000, 10_000_000_000]);
        assert!(!vm.serves, "it waits for nobody outside");
        let config = &vm.config;
        assert_eq!((config.params.rt(), config.group.as_str()), (RtMode::On, "both"));
        assert_eq!(["latency", "laxity"].map(|name| config.params.value(name)), [5_000_000, 20_000]);
        let other = &plan.phases[1].vms[0];
        assert_ne!(of("seed"), other.workload["seed"]);
        assert_ne!(of("seed"), plan.phases[0].vms[1].workload["seed"]);
    }

    #[test]
    fn what_the_lab_cannot_do_is_named() {
        let error = |vms: &str| plan_of(vms, &[1]).unwrap_err().to_string();
        let all = Lab::Linux.all();
        assert!(all.starts_with("hog, voip, "), "{all}");
        for kind in Kind::ALL.iter().filter(|kind| !Lab::Linux.has(**kind)).map(|kind| kind.name()) {
            let vm = format!("[[vm]]\nname = \"v\"\nvcpus = 2\nworkload = \"{kind}\"");
            assert_eq!(error(&vm), format!("vm.v.workload: {kind} in the lab; allowed: {all}"));
        }
        let threads = "[[vm]]\nname = \"h\"\nvcpus = 2\nworkload = { type = \"hog\", threads = 3 }";
        assert_eq!(error(threads), "vm.h.threads: 3 on 2 VCPUs in the lab; allowed: one per VCPU");
        let program = "[[vm]]\nname = \"p\"\nvcpus = 4\nworkload = { type = \"parallel\", threads = 8 }";
        assert_eq!(error(program), "vm.p.threads: 8 on 4 VCPUs in the lab; allowed: one per VCPU");
        let group = "[[vm]]\nname = \"g\"\nvcpus = 5\ncount = 13\ngroup = \"all\"";
        assert_eq!(error(group), "group all: 65 VCPUs on 4 PCPUs need 26 subgroups; allowed: at most 16");
        let set = "[[vm]]\nname = \"s\"\nvcpus = 1\nbudget = \"2ms\"\nperiod = \"10ms\"\nworkload = { type = \"tasks\", random = 17 }";
        assert_eq!(error(set), "vm.s.workload.tasks: 17 in the lab; allowed: at most 16");
        let calls = "[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = { type = \"voip\", calls = 900 }";
        assert_eq!(error(calls), "vm.v.calls: 900 in the lab; allowed: 0 to 200");
        let app = |front: &str, rest: &str| {
            let front = format!("[[vm]]\nname = \"f\"\nvcpus = 2\nworkload = {{ type = \"fanout\", {front} }}");
            error(&format!("{front}\n[[vm]]\nname = \"l\"\ncount = 9\nvcpus = 2\nworkload = \"fanout\"\n{rest}"))
        };
        assert_eq!(
            app("clients = 1, parts = 3", ""),
            "vm.f.parts: 3 on 2 VCPUs in the lab; allowed: 0, or one per VCPU"
        );
        let rings = "[net]\nnic_ring = 1000\nvif_ring = 1000";
        let many = "vm.f.clients: up to 260 messages at once in the lab; allowed: at most 256";
        assert_eq!(app("clients = 26", rings), many);
        let machines = "[[vm]]\nname = \"h\"\nvcpus = 1\non = 2\n[machine]\npcpus = 4\nmachines = 2";
        let machines = Scenario::from_toml(machines, "test.toml").unwrap();
        assert_eq!(
            possible(&machines, Lab::Linux).unwrap_err().to_string(),
            "machine.machines: 2 in the lab; allowed: 1"
        );
        let parameters = "parameters = \"tickle=xen\"\n[[vm]]\nname = \"h\"\nvcpus = 1";
        let parameters = Scenario::from_toml(parameters, "test.toml").unwrap();
        assert!(possible(&parameters, Lab::Linux).unwrap_err().to_string().starts_with("parameters: "));
    }
}
