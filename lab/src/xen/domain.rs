// SPDX-License-Identifier: GPL-2.0-only
//! What a VM's domain is given: lines of its configuration, parameters of Takt's, and periods and budgets under RTDS.

use super::Scheduler;
use std::fmt::Write;
use takt_control::VmParams;
use takt_control::params::is_server;
use takt_control::settings::param;
use takt_sim::{Scenario, VmSpec};

/// Under RTDS, µs: the period of who serves calls, and is to be early; that of a VCPU that nobody waits for, long so that its deadlines
/// come after all others'; and the least budget.
const PERIOD: u64 = 10_000;
const LONG: u64 = 100_000;
const LEAST: u64 = 100;

/// Lines of the configuration of the `nth` VM of a kind; the scenario's PCPUs begin with `first`.
pub fn configuration(s: &Scenario, spec: &VmSpec, nth: u32, scheduler: &Scheduler, first: u32) -> String {
    let mut lines = Vec::new();
    if scheduler.pins() {
        lines.push(pinned(s, spec, nth, first));
    } else if !spec.affinity.is_empty() {
        let cpus: Vec<_> = spec.affinity.iter().map(|cpu| (cpu + first).to_string()).collect();
        lines.push(format!("cpus=\"{}\"", cpus.join(",")));
    }
    match scheduler {
        Scheduler::Credit | Scheduler::Credit2 => {
            lines.push(format!("cpu_weight={}", spec.params.weight()));
            lines.push(format!("cap={}", spec.params.cap()));
        }
        Scheduler::Rtds => {
            let (period, budget) = by_hand(s, spec);
            let extra = u32::from(!spec.server.is_some() || spec.server.extra);
            lines.extend([format!("period={period}"), format!("budget={budget}"), format!("extratime={extra}")]);
        }
        Scheduler::Takt(_) => {}
    }
    lines.join("\n")
}

/// The PCPUs of each VCPU, for VMs that have some of their own and for those that have not.
fn pinned(s: &Scenario, spec: &VmSpec, nth: u32, first: u32) -> String {
    let before: u32 = s.vms.iter().take_while(|vm| vm.name != spec.name).map(|vm| vm.count * vm.vcpus).sum();
    let own = (s.dom0_vcpus() + before + nth * spec.vcpus) as usize;
    let masks = takt_sim::pinned(s).unwrap_or_default();
    let list = |mask: &u64| {
        let cpus: Vec<_> =
            (0..u64::BITS).filter(|cpu| mask >> cpu & 1 == 1).map(|cpu| (cpu + first).to_string()).collect();
        format!("\"{}\"", cpus.join(","))
    };
    let each: Vec<_> = masks.iter().skip(own).take(spec.vcpus as usize).map(list).collect();
    format!("cpus=[{}]", each.join(","))
}

/// Takt's parameters, each a word with a blank before it; `group`: its number and the subgroup's, 0 = none.
pub fn parameters(spec: &VmSpec, scheduler: &Scheduler, group: u64) -> String {
    let mut words = String::new();
    if let Scheduler::Takt(policy) = scheduler {
        let mut say = |name: &str, value: u64| {
            let _ = write!(words, " {}={value}", param(name).key);
        };
        let mut server = spec.server.is_some().then(|| VmParams::from(&spec.server));
        for (info, value) in spec.params.iter() {
            if is_server(info) {
                let Some(server) = server.take() else { continue };
                // A budget may not exceed its period.
                ["period", "budget", "priority", "extra"].into_iter().for_each(|name| say(name, server.value(name)));
            } else if ["weight", "cap"].contains(&info.name) || value != info.default {
                say(info.name, value);
            }
        }
        if group > 0 && takt_policy::has(&policy.name, "gangs") {
            let _ = write!(words, " group={group}");
        }
    }
    words
}

/// Period and budget of a VCPU under RTDS, µs, as its operator says, or as one would set them who knows all tasks: what a job needs and a
/// quarter more, and for everybody else an equal part of what that leaves.
fn by_hand(s: &Scenario, spec: &VmSpec) -> (u64, u64) {
    let rest = || {
        let (mut taken, mut others) = (dom0_by_hand(s).map_or(0, |(_, budget)| u64::from(s.dom0_vcpus()) * budget), 0);
        for vm in &s.vms {
            let vcpus = u64::from(vm.count) * u64::from(vm.vcpus);
            match needed(s, vm) {
                Some((period, budget)) => taken += vcpus * budget * PERIOD / period.max(1),
                None => others += vcpus,
            }
        }
        let rest = (u64::from(s.machine.pcpus) * PERIOD).saturating_sub(taken) * (LONG / PERIOD);
        (LONG, (rest / others.max(1)).clamp(LEAST, LONG))
    };
    needed(s, spec).unwrap_or_else(rest)
}

/// Of a VM with work that is known: by its budget, by the job of each VCPU, or by packets.
fn needed(s: &Scenario, spec: &VmSpec) -> Option<(u64, u64)> {
    if spec.server.is_some() {
        return Some((spec.server.period / 1_000, spec.server.budget / 1_000));
    }
    if let [task] = s.tasks(spec, 0, 0)[..] {
        return Some(server(task.period, task.cost));
    }
    spec.per_packet(&s.constants).map(|each| packets(spec.calls(), each, s))
}

/// Of each of Dom0's VCPUs, if Dom0 is among those that are scheduled: they share the packets.
pub fn dom0_by_hand(s: &Scenario) -> Option<(u64, u64)> {
    let calls: u32 = s.vms.iter().map(|vm| vm.streams() * vm.count).sum();
    let each = (s.constants.dom0_rx + s.constants.dom0_tx) / u64::from(s.dom0_vcpus());
    (calls > 0).then(|| packets(calls, each, s))
}

/// What the packets of `calls` need that take `each` ns, those of one period: whole ones, for their senders do not wait for each other.
fn packets(calls: u32, each: u64, s: &Scenario) -> (u64, u64) {
    let (period, gap) = (PERIOD * 1_000, s.constants.packet_gap);
    server(period, (u64::from(calls) * period).div_ceil(gap) * each)
}

/// Of ns.
fn server(period: u64, work: u64) -> (u64, u64) {
    (period / 1_000, (work * 5 / 4).min(period).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(vms: &str) -> Scenario {
        let text = format!("duration = \"2s\"\n[machine]\npcpus = 4\n{vms}\n[[vm]]\nname = \"hog\"\nvcpus = 4");
        Scenario::from_toml(&text, "test.toml").unwrap()
    }

    #[test]
    fn budgets_by_hand_leave_the_rest_to_the_rest() {
        let s = scenario(
            "[[vm]]\nname = \"task\"\ncount = 2\nvcpus = 1\n\
             workload = { type = \"periodic\", period = \"20ms\", work = \"4ms\" }",
        );
        assert_eq!(by_hand(&s, &s.vms[0]), (20_000, 5_000));
        // Two of four PCPUs' quarters are taken: 3.5 of them are left for four VCPUs.
        assert_eq!(by_hand(&s, &s.vms[1]), (100_000, 87_500));
        assert_eq!(dom0_by_hand(&s), None);
    }

    #[test]
    fn packets_need_their_work_and_a_quarter_more() {
        let s = scenario(
            "[voip]\npacket_gap = \"20ms\"\nguest_per_packet = \"1ms\"\n[dom0]\nrx_per_packet = \"200us\"\n\
             tx_per_packet = \"200us\"\n[[vm]]\nname = \"calls\"\nvcpus = 1\nworkload = { type = \"voip\", calls = 8 }",
        );
        assert_eq!(by_hand(&s, &s.vms[0]), (10_000, 5_000));
        assert_eq!(dom0_by_hand(&s), Some((10_000, 500)));
        // Four times 10 ms, less half of that and four times half a ms, for four VCPUs.
        assert_eq!(by_hand(&s, &s.vms[1]), (100_000, 82_500));
        // Of five calls, three may send in the same half of a gap.
        let mut s = s;
        s.set("vm.calls.calls", "5").unwrap();
        assert_eq!(by_hand(&s, &s.vms[0]), (10_000, 3_750));
    }
}
