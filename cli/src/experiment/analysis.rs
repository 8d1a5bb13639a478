// SPDX-License-Identifier: GPL-2.0-only
//! Analysis against simulation: what `takt analyze` says of a set of tasks beside what became of it.

use crate::analyze::{self, KINDS};
use std::collections::BTreeMap;
use takt_control::PolicySpec;
use takt_control::analysis::Kind;
use takt_sim::{RunResult, Scenario};

/// Seeds of sets that are only analysed, per seed of a run.
const APART: u64 = 1_000;

/// Adds: whether the set that ran was accepted; if it was, the jobs that it missed, those of them under servers
/// that get their budget, and tasks that took longer than their bounds; and how many of `more` sets are rejected.
/// Nothing for policies that are no servers that can be analysed.
pub fn compare(
    metrics: &mut BTreeMap<String, f64>,
    run: &RunResult,
    scenario: &Scenario,
    policy: &PolicySpec,
    seed: u64,
    more: u64,
) {
    let Some(kind) = kind(policy) else { return };
    let mut put = |key: &str, value: f64| metrics.insert(key.to_owned(), value);
    let found = analyze::analyse(scenario, seed);
    let accepted = |a: &analyze::Analysis| a.does_not_fit.get(kind).is_empty();
    let tasks = || run.vms.iter().flat_map(|vm| vm.tasks.iter().map(|t| (vm.name.as_str(), t)));
    let missed: u64 = tasks().map(|(_, t)| t.missed).sum();
    put("accepted", f64::from(u8::from(accepted(&found))));
    put("accepted_missed", if accepted(&found) { missed as f64 } else { 0.0 });
    // By tasks of servers that get their budget whatever the others do.
    let guaranteed = |vm: &str| found.vcpus.iter().any(|v| v.vm == vm && *v.guaranteed.get(kind));
    let missed: u64 = tasks().filter(|(vm, _)| guaranteed(vm)).map(|(_, t)| t.missed).sum();
    put("guaranteed_missed", if accepted(&found) { missed as f64 } else { 0.0 });
    let bounds = found.vcpus.iter().flat_map(|v| v.tasks.iter().map(|t| (v.vm.as_str(), t.response.get(kind))));
    // Both are in the order of VMs, then of priorities.
    let broken = tasks().zip(bounds).filter(|((name, task), (vm, bound))| {
        assert_eq!(name, vm, "a task too many");
        accepted(&found) && bound.response_ns.is_some_and(|most| task.response_max_ns > most)
    });
    put("bounds_broken", broken.count() as f64);
    let rejected = (1..=more).filter(|n| !accepted(&analyze::analyse(scenario, seed * APART + n))).count();
    put("rejected_pct", rejected as f64 * 100.0 / more.max(1) as f64);
}

/// Of `rtxen(server=…)`.
fn kind(policy: &PolicySpec) -> Option<Kind> {
    let server = takt_policy::param("server", false)?;
    let given = policy.params.iter().find(|(key, _)| *key == server.key).map_or(server.default, |p| p.1);
    let word = server.unit.split('|').nth(usize::try_from(given).ok()?)?;
    KINDS.into_iter().find(|k| policy.name == "rtxen" && analyze::name(*k) == word)
}
