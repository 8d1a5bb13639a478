// SPDX-License-Identifier: GPL-2.0-only
//! From scenarios with a VM that is called to what Dom0 is to do: a script of the calls that `xen/lab/cases/calls` defines.
//!
//! Dom0 carries the packets, so it must be under the scheduler as everybody is: that is the boot's, and the scenario's PCPUs are those
//! of the boot's cpupool. One PCPU more is the callers'; what it does not need of the machine's instructions, the others have, so that all
//! schedulers have equally many to give.

use super::plan::{self, Phase, Plan};
use super::{Scheduler, domain};
use crate::map;
use anyhow::{Result, bail, ensure};
use std::fmt::Write;
use takt_sim::{Scenario, VmSpec, Workload};

/// Between two packets of the recording that SIPp plays, ns.
const GAP: u64 = 30_000_000;
/// What the callers can do.
const CALLS: u32 = 100;
/// Ticks of the PIT (5 us) that a PCPU is emulated for before the next one. It loses what is left of them where it sets its timer, which
/// is not to cost more than the packet that it is set for.
const TURN: u32 = 6;
/// Of the meter's, packets of a call.
const PACKETS: u64 = 4_000;

/// A machine under one scheduler.
#[derive(Clone, Debug)]
pub struct Boot {
    pub plan: Plan,
    /// Options of the hypervisor.
    pub options: String,
}

/// Whether there is a VM that is called.
pub fn any(s: &Scenario) -> bool {
    s.vms.iter().any(|vm| matches!(vm.workload, Workload::Voip { .. }))
}

/// A phase for each scenario and seed.
///
/// # Errors
/// The lab cannot do what a scenario asks for, or they cannot share a boot; names the key.
pub fn plan(scenarios: &[&Scenario], scheduler: &Scheduler, seeds: &[u64]) -> Result<Boot> {
    let Some(first) = scenarios.first() else { bail!("no scenario with calls") };
    let mut script = format!("machine {}\n", first.machine.pcpus);
    plan::pool(&mut script, scheduler);
    script += "calibrate\n";
    let (mut phases, mut vms, mut virtual_ns) = (Vec::new(), 0, 0);
    for (scenario, s) in scenarios.iter().enumerate() {
        ensure!(together(first, s), "{}: machine.pcpus and dom0 are not those of {}, in one boot", s.name, first.name);
        plan::check(s, std::slice::from_ref(scheduler))?;
        let (server, calls) = called(s)?;
        for (seed, &value) in seeds.iter().enumerate() {
            let others = s.vms.iter().map(|v| v.count).sum::<u32>() - 1;
            let _ = writeln!(script, "{}", dom0(s, scheduler));
            let _ = writeln!(script, "phase {} {others} {} {}", phases.len(), map::warmup(s), s.duration);
            let (lines, words) = (
                domain::configuration(s, server, scheduler, 0),
                domain::parameters(server, scheduler, group(s, server)?),
            );
            let (rate, speaks) = ((s.constants.ramp / 1_000).max(1), phases_of(calls, value));
            let _ = writeln!(script, "server {calls} {rate} '{speaks}' '{lines}'{words}");
            script += &plan::guests(s, scheduler, value, 0)?;
            script += "run\n";
            let policy = match scheduler {
                Scheduler::Takt(policy) => Some(policy.name.clone()),
                _ => None,
            };
            phases.push(Phase { scenario, scheduler: 0, seed, policy });
            vms += others + 1;
            virtual_ns += map::warmup(s) + s.duration;
        }
    }
    let outside = first.machine.pcpus;
    let options =
        format!("dom0_max_vcpus={} lab_outside={outside} lab_turn={TURN} {}", first.dom0_vcpus(), scheduler.at_boot());
    Ok(Boot { plan: Plan { script, phases, vms, virtual_ns }, options })
}

/// Whether one boot can run both.
pub fn together(a: &Scenario, b: &Scenario) -> bool {
    a.machine.pcpus == b.machine.pcpus && a.dom0_vcpus() == b.dom0_vcpus()
}

/// When each call begins to speak, ms: packets of several meet as the seed has it, and not as their setup does.
fn phases_of(calls: u32, seed: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..calls).map(|_| rng.u64(0..GAP / 1_000_000).to_string()).collect::<Vec<_>>().join(" ")
}

/// The VM that is called, and how many calls it gets.
fn called(s: &Scenario) -> Result<(&VmSpec, u32)> {
    let mut servers = s.vms.iter().filter(|vm| matches!(vm.workload, Workload::Voip { .. }));
    let (Some(server), None) = (servers.next(), servers.next()) else {
        bail!("vm: several VMs that are called in the Xen lab; allowed: one");
    };
    let key = format!("vm.{}", server.name);
    ensure!(server.count == 1, "{key}.count: {} VMs that are called in the Xen lab; allowed: one", server.count);
    ensure!(server.vcpus == 1, "{key}.vcpus: {} of a VM that is called in the Xen lab; allowed: 1", server.vcpus);
    let calls = server.calls();
    ensure!((1..=CALLS).contains(&calls), "{key}.calls: {calls} in the Xen lab; allowed: 1 .. {CALLS}");
    let gap = s.constants.packet_gap;
    ensure!(
        gap == GAP,
        "voip.packet_gap: {} ms in the Xen lab; allowed: 30ms, as SIPp's recording has",
        gap / 1_000_000
    );
    let packets = (map::warmup(s) + s.duration) / gap;
    ensure!(packets <= PACKETS, "duration: {packets} packets of a call in the Xen lab; allowed: at most {PACKETS}");
    Ok((server, calls))
}

/// Group and subgroup of the VM that is called.
fn group(s: &Scenario, server: &VmSpec) -> Result<u64> {
    let before = s.vms.iter().take_while(|vm| vm.name != server.name).map(|vm| vm.count).sum::<u32>();
    Ok(map::groups(s)?[before as usize])
}

/// Dom0's weight, or its budget.
fn dom0(s: &Scenario, scheduler: &Scheduler) -> String {
    let weight = s.dom0.weight;
    match scheduler {
        Scheduler::Credit => format!("dom0 sched-credit -w {weight}"),
        Scheduler::Credit2 => format!("dom0 sched-credit2 -w {weight}"),
        Scheduler::Takt(_) => format!("configure Domain-0 {}={weight}", domain::WEIGHT),
        Scheduler::Rtds => {
            let (period, budget) = domain::dom0_by_hand(s).unwrap_or_default();
            format!("dom0 sched-rtds -v all -p {period} -b {budget} -e 1")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(calls: &str) -> Result<Scenario> {
        let text = format!(
            "duration = \"5s\"\nwarmup = \"2s\"\n[machine]\npcpus = 2\n[dom0]\nweight = 512\n\
             [[vm]]\nname = \"hog\"\nvcpus = 2\nworkload = \"hog\"\n[[vm]]\nname = \"calls\"\nvcpus = 1\n{calls}\n\
             [voip]\npacket_gap = \"30ms\"\nguest_per_packet = \"3ms\"\nramp = 5\n"
        );
        Scenario::from_toml(&text, "test.toml")
    }

    fn boot(scheduler: &str) -> Boot {
        let s = [3, 5].map(|n| scenario(&format!("workload = {{ type = \"voip\", calls = {n} }}")).unwrap());
        plan(&[&s[0], &s[1]], &Scheduler::parse(scheduler).unwrap(), &[1]).unwrap()
    }

    #[test]
    fn all_loads_are_phases_of_one_boot() {
        let boot = boot("doris(dom0=off)");
        let lines: Vec<_> = boot.plan.script.lines().collect();
        assert_eq!(lines[..2], ["machine 2", "pool null 1"]);
        assert!(lines[2].starts_with("param "), "{}", lines[2]);
        let rest = [
            "calibrate",
            "configure Domain-0 101=512",
            "phase 0 1 2000000000 5000000000",
            "server 3 5 '19 16 7' '' 101=256 102=0",
        ];
        assert_eq!(lines[3..7], rest);
        assert!(lines[7].starts_with("vm 2 0 'hog=1 phase="), "{}", lines[7]);
        assert_eq!(lines[8], "run");
        assert_eq!(lines[11], "server 5 5 '19 16 7 23 0' '' 101=256 102=0");
        assert_eq!(boot.options, "dom0_max_vcpus=2 lab_outside=2 lab_turn=6 sched=takt takt_policy=doris");
        let phases: Vec<_> = boot.plan.phases.iter().map(|p| (p.scenario, p.policy.as_deref())).collect();
        assert_eq!(phases, [(0, Some("doris")), (1, Some("doris"))]);
    }

    #[test]
    fn xens_own_schedulers_are_the_boots() {
        assert_eq!(boot("xen-credit2").options, "dom0_max_vcpus=2 lab_outside=2 lab_turn=6 sched=credit2");
        assert!(boot("xen-credit2").plan.script.contains("\ndom0 sched-credit2 -w 512\n"));
        let script = boot("xen-rtds").plan.script;
        assert!(script.contains("\nserver 3 5 '19 16 7' 'period=10000\nbudget=3750\nextratime=1'\n"), "{script}");
    }

    #[test]
    fn what_the_lab_cannot_do_is_named() {
        let error = |calls: &str| {
            let s = scenario(calls).unwrap();
            plan(&[&s], &Scheduler::Credit2, &[1]).unwrap_err().to_string()
        };
        assert!(error("count = 2\nworkload = \"voip\"").starts_with("vm.calls.count: 2 VMs"));
        assert!(error("workload = { type = \"voip\", calls = 101 }").starts_with("vm.calls.calls: 101 in the Xen lab"));
        let mut s = scenario("workload = \"voip\"").unwrap();
        s.constants.packet_gap = 20_000_000;
        let error = plan(&[&s], &Scheduler::Credit2, &[1]).unwrap_err().to_string();
        assert!(error.starts_with("voip.packet_gap: 20 ms"), "{error}");
    }
}
