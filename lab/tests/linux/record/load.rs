// SPDX-License-Identifier: GPL-2.0-only
//! VMs that keep a scheduler busy: what they do matters less than how often they come and go.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use takt_control::{PolicySpec, RtMode, VmConfig};
use takt_lab::Scheduler;
use takt_lab::plan::{Phase, Plan, Vm};

pub const PCPUS: u32 = 4;
/// The VM that is real-time by hand and gets interrupts while it competes with a hog for one PCPU.
pub const RT: &str = "rt";
/// VMs that compute all the time.
pub const HOGS: [&str; 3] = ["hogs", "more", "beside"];
const MS: u64 = 1_000_000;

/// How long the VMs that come and go a thousand times a second keep still, and how long they do not, ns.
pub const CALM: u64 = 4_000 * MS;
pub const BUSY: u64 = 1_500 * MS;
const WARMUP: u64 = 500 * MS;
/// i8254 ticks (40 us) after which the next CPU is emulated at the latest.
const TICK: u16 = 48;

/// One phase under a policy, recorded and traced.
pub fn plan(policy: &str) -> Plan {
    recorded(true, vec![phase(policy, CALM + BUSY)])
}

/// As [`plan`], policy after policy, but only as long as it takes to see that they work, and without a trace.
pub fn short(policies: &[&str]) -> Plan {
    recorded(false, policies.iter().map(|p| phase(p, BUSY)).collect())
}

/// The same where those that compute at intervals have budgets: what they are promised is less than all of a CPU.
pub fn with_budgets(policies: &[&str]) -> Plan {
    let mut plan = short(policies);
    for (n, vm) in plan.phases.iter_mut().flat_map(|p| p.vms.iter_mut().enumerate()) {
        let (budget, period) = match vm.name.as_str() {
            "film" => (2 * MS, 40 * MS),
            RT => (MS, 7 * MS),
            name if name.starts_with("task") => (MS / 5, 2 * MS),
            _ => continue,
        };
        let config = VmConfig::default().with("budget", budget).with("period", period);
        vm.config = config.with("priority", n as u64 + 1);
    }
    plan
}

/// The same with real-time VMs that compute on all CPUs, and in a group with [`RT`] where the policy knows any.
pub fn with_groups(policies: &[&str]) -> Plan {
    let mut plan = short(policies);
    for (policy, phase) in policies.iter().zip(&mut plan.phases) {
        let group = if knows_groups(policy) { "g" } else { "" };
        for vm in phase.vms.iter_mut().filter(|vm| ["hogs", RT].contains(&vm.name.as_str())) {
            let config = VmConfig { group: group.into(), ..VmConfig::default() };
            vm.config = config.with("rt", RtMode::On as u64).with("laxity", MS).with("latency", 10 * MS);
        }
        phase.vms.iter_mut().filter(|vm| vm.name.starts_with("task")).for_each(|vm| vm.start_ms = 0);
    }
    plan
}

/// Whether VMs can be put into groups under `policy`, also one that stands for another.
pub fn knows_groups(policy: &str) -> bool {
    takt_policy::has(&PolicySpec::parse(policy).expect("policy").name, "gangs")
}

fn recorded(trace: bool, phases: Vec<Phase>) -> Plan {
    Plan { tick: Some(TICK), iterations_per_s: None, settle_ns: 2_000 * MS, record: true, trace, phases }
}

fn phase(policy: &str, measure_ns: u64) -> Phase {
    Phase {
        scheduler: Scheduler::Takt { policy: policy.into(), pin: false },
        warmup_ns: WARMUP,
        measure_ns,
        vms: vms(),
    }
}

fn vms() -> Vec<Vm> {
    let mut all = vec![
        vm("hogs", 4, json!({"kind": "hog"})),
        vm("more", 2, json!({"kind": "hog"})),
        vm("film", 1, json!({"kind": "source", "tap": "tap0", "period_ns": 40 * MS, "burst": 3, "gap_ns": MS / 10})),
        // Neither period is a multiple of the other, or of a slice.
        Vm {
            affinity: vec![PCPUS - 1],
            config: VmConfig::default().with("rt", RtMode::On as u64).with("weight", 512),
            ..vm(RT, 1, json!({"kind": "interrupts", "msi_ns": 7_300_000, "timer_ns": 11_900_000}))
        },
        Vm { affinity: vec![PCPUS - 1], ..vm("beside", 1, json!({"kind": "hog"})) },
    ];
    let periodic = |n: u64| Vm {
        start_ms: (WARMUP + CALM) / MS,
        work_ns: Some(MS / 50),
        ..vm(&format!("task-{n}"), 1, json!({"kind": "periodic", "period_ns": MS, "phase_ns": n * MS / 6, "work": 0}))
    };
    all.extend((0..6).map(periodic));
    all
}

fn vm(name: &str, vcpus: u32, workload: Value) -> Vm {
    Vm {
        name: name.into(),
        serves: false,
        config: VmConfig::default(),
        affinity: Vec::new(),
        vcpus,
        start_ms: 0,
        workload: workload.as_object().cloned().unwrap_or_default(),
        work_ns: None,
        cpu_ns: BTreeMap::new(),
        clients: None,
        requests: None,
    }
}
