// SPDX-License-Identifier: GPL-2.0-only
//! What Poris makes of a scenario's real-time VMs, by its formulas (rules P21 and P40).

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use takt_control::RtMode;
use takt_control::analysis::{self, Fit};
use takt_sim::{Scenario, VmSpec};

/// Of a machine with real-time VMs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Poris {
    /// From 1.
    pub machine: u32,
    pub pcpus: u64,
    pub vcpus: u64,
    /// N_V.
    pub vcpus_per_pcpu: u64,
    pub slice_ns: u64,
    /// Longest wait of a VCPU.
    pub wait_ns: u64,
    pub vms: Vec<Latency>,
    pub groups: Vec<Group>,
}

/// A real-time VM.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Latency {
    pub vm: String,
    pub latency_ns: u64,
    pub holds: bool,
    /// Latency minus longest wait.
    pub slack_ns: i64,
}

/// VMs that start together, or one alone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Group {
    /// The group's name, or that of the VM.
    pub name: String,
    pub vms: u64,
    pub vcpus: u64,
    pub subgroups: u64,
    /// Whether all its VCPUs run at once.
    pub fits: bool,
    /// If not, how many of them have no PCPU then.
    pub too_many: u64,
    /// Turns of a round that each launch gives, if there are subgroups.
    pub rounds: u64,
    /// How far apart its VCPUs start at most (C_sync): under Credit.
    pub lag_credit_ns: u64,
    /// The same with Poris' slice alone.
    pub lag_alone_ns: u64,
    /// The same with groups.
    pub lag_group_ns: u64,
    /// The same with groups and rounds.
    pub lag_rounds_ns: u64,
}

/// One for each machine that has real-time VMs.
pub fn all(s: &Scenario) -> Result<Vec<Poris>> {
    let machines = (1..=s.machine.machines).filter_map(|m| of(s, m).transpose());
    machines.collect()
}

/// A parameter's value if nobody sets it.
fn default(name: &str) -> u64 {
    takt_policy::param(name, false).map_or(0, |p| p.default)
}

fn of(s: &Scenario, machine: u32) -> Result<Option<Poris>> {
    let here: Vec<&VmSpec> = s.vms.iter().filter(|vm| vm.on == machine).collect();
    let rt = |vm: &&&VmSpec| vm.rt() == RtMode::On;
    let latency = |vm: &VmSpec| vm.params.said().get("latency").unwrap_or_else(|| default("latency"));
    let Some(shortest) = here.iter().filter(rt).map(|vm| latency(vm)).min() else { return Ok(None) };
    let guests: u64 = here.iter().map(|vm| u64::from(vm.vcpus) * u64::from(vm.count)).sum();
    let host = analysis::Host {
        vcpus: guests + u64::from(s.dom0_vcpus()),
        pcpus: s.machine.pcpus.into(),
        latency: Some(shortest),
        long_slice: default("slice"),
        min_slice: default("min_slice"),
        t_round: default("t_round"),
    };
    let wait = host.wait();
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let vm_row = |name: String, latency: u64| Latency {
        vm: name,
        latency_ns: latency,
        holds: wait <= latency,
        slack_ns: signed(latency) - signed(wait),
    };
    let vms = here.iter().filter(rt).flat_map(|vm| vm.names().map(|name| vm_row(name, latency(vm)))).collect();
    let mut groups = Vec::new();
    for ((_, name), list) in groups_of(&here) {
        let fit = host.fit(&list).with_context(|| format!("group {name}")).map_err(one_line)?;
        groups.push(group(name, list.len() as u64, &fit));
    }
    Ok(Some(Poris {
        machine,
        pcpus: host.pcpus,
        vcpus: host.vcpus,
        vcpus_per_pcpu: host.per_pcpu(),
        slice_ns: host.slice(),
        wait_ns: wait,
        vms,
        groups,
    }))
}

fn one_line(e: anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{e:#}")
}

/// The VCPUs of each VM of each group in which somebody is real-time, whoever else is; a real-time VM without one is a group, after those.
fn groups_of(here: &[&VmSpec]) -> BTreeMap<(bool, String), Vec<u32>> {
    let mut groups: BTreeMap<(bool, String), Vec<u32>> = BTreeMap::new();
    for vm in here {
        let joins = here.iter().any(|other| other.group == vm.group && other.rt() == RtMode::On);
        for name in vm.names() {
            if vm.group.is_empty() && vm.rt() == RtMode::On {
                groups.insert((true, name), vec![vm.vcpus]);
            } else if !vm.group.is_empty() && joins {
                groups.entry((false, vm.group.clone())).or_default().push(vm.vcpus);
            }
        }
    }
    groups
}

fn group(name: String, vms: u64, fit: &Fit) -> Group {
    Group {
        name,
        vms,
        vcpus: fit.vcpus,
        subgroups: fit.subgroups,
        fits: fit.too_many == 0,
        too_many: fit.too_many,
        rounds: fit.rounds,
        lag_credit_ns: fit.lags.credit,
        lag_alone_ns: fit.lags.alone,
        lag_group_ns: fit.lags.group,
        lag_rounds_ns: fit.lags.rounds,
    }
}
