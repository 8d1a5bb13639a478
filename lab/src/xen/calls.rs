// SPDX-License-Identifier: GPL-2.0-only
//! From scenarios with a VM that is called to what Dom0 is to do: a script of the calls that `xen/lab/cases/calls` defines. Either one VM
//! answers calls and echoes what is said, or one answers them (`signalling`) and another one echoes, a media server with both parties of
//! each call for clients (`media`).
//!
//! Dom0 carries the packets, so it must be under the scheduler as everybody is: that is the boot's, and the scenario's PCPUs are those
//! of the boot's cpupool. One PCPU more is the callers'; what it does not need of the machine's instructions, the others have, so that all
//! schedulers have equally many to give.

use super::parties::takes_part;
use super::plan::{self, Phase, Plan};
use super::{Scheduler, domain};
use crate::map;
use anyhow::{Result, bail, ensure};
use std::fmt::Write;
use takt_control::settings::param;
use takt_sim::workload::media::Media;
use takt_sim::{Scenario, VmSpec, Workload};

/// Between two packets of the recording that SIPp plays, ns.
const GAP: u64 = 30_000_000;
/// What the callers can do.
const CALLS: u32 = 100;
/// Of 32 PCI clocks (5 us) that a PCPU is emulated for before the next one. It loses what is left of them where it sets its timer, which
/// is not to cost more than the packet that it is set for.
const TURN: u32 = 5;
/// Of the meter's, packets of a call.
const PACKETS: u64 = 4_000;
/// VCPUs of a media server.
const MEDIA_VCPUS: u32 = 8;

/// A machine under one scheduler.
#[derive(Clone, Debug)]
pub struct Boot {
    pub plan: Plan,
    /// Options of the hypervisor.
    pub options: String,
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
        let called = called(s)?;
        for (seed, &value) in seeds.iter().enumerate() {
            let others = s.vms.iter().filter(|vm| !takes_part(vm)).map(|vm| vm.count).sum::<u32>();
            let _ = writeln!(script, "{}", dom0(s, scheduler));
            let _ = writeln!(script, "phase {} {others} {} {}", phases.len(), map::warmup(s), s.duration);
            script += &serve(s, &called, scheduler, value)?;
            script += &plan::guests(s, scheduler, value, 0)?;
            script += "run\n";
            let policy = match scheduler {
                Scheduler::Takt(policy) => Some(policy.name.clone()),
                _ => None,
            };
            phases.push(Phase { scenario, scheduler: 0, seed, policy });
            vms += others + 1 + u32::from(called.media.is_some());
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

/// Who answers calls.
struct Called<'a> {
    server: &'a VmSpec,
    /// Who has their packets, if that is somebody else.
    media: Option<(&'a VmSpec, &'a Media)>,
    /// Clients that speak.
    streams: u32,
    /// Calls a second beside, in which nobody does.
    signals: u64,
}

/// The only VM with such a workload, and what that says.
fn one<'a, T>(s: &'a Scenario, what: &str, of: fn(Workload<'a>) -> Option<T>) -> Result<Option<(&'a VmSpec, T)>> {
    let mut all = s.vms.iter().filter_map(|vm| Some((vm, of(vm.workload())?)));
    let (first, more) = (all.next(), all.next());
    ensure!(more.is_none(), "vm: several VMs {what} in the Xen lab; allowed: one");
    if let Some((vm, _)) = first {
        ensure!(vm.count == 1, "vm.{}.count: {} VMs {what} in the Xen lab; allowed: one", vm.name, vm.count);
    }
    Ok(first)
}

/// The VMs that take part in calls.
fn called(s: &Scenario) -> Result<Called<'_>> {
    let echo = one(s, "that are called", |w| matches!(w, Workload::Voip(_)).then_some(()))?;
    let media = one(s, "with media", |w| if let Workload::Media(media) = w { Some(media) } else { None })?;
    let control = one(s, "that signal", |w| match w {
        Workload::Signalling(own) => Some((own.messages, own.next.as_str())),
        _ => None,
    })?;
    let called = match (echo, media, control) {
        (Some((server, ())), None, None) => Called { server, media: None, streams: server.calls(), signals: 0 },
        (None, Some(media), Some(control)) => with_media(media, control)?,
        _ => bail!("vm: voip, media and signalling in the Xen lab; allowed: voip alone, or one each of the others"),
    };
    let (server, gap, calls) = (called.server, s.constants.packet_gap, called.media.map_or(called.server, |m| m.0));
    ensure!(
        server.vcpus == 1,
        "vm.{}.vcpus: {} of a VM that is called in the Xen lab; allowed: 1",
        server.name,
        server.vcpus
    );
    ensure!(
        (1..=CALLS).contains(&called.streams),
        "vm.{}.calls: {} in the Xen lab; allowed: 1 to {}",
        calls.name,
        calls.calls(),
        CALLS * calls.calls() / called.streams.max(1)
    );
    ensure!(
        gap == GAP,
        "voip.packet_gap: {} ms in the Xen lab; allowed: 30ms, the gap of SIPp's recording",
        gap / 1_000_000
    );
    let packets = (map::warmup(s) + s.duration) / gap;
    ensure!(packets <= PACKETS, "duration: {packets} packets of a call in the Xen lab; allowed: at most {PACKETS}");
    Ok(called)
}

/// A media server beside who answers. The calls in which somebody speaks last until all ends; as many as there are messages for all calls of
/// its length, evenly, others are set up and ended.
fn with_media<'a>(
    (vm, media): (&'a VmSpec, &'a Media),
    (server, (messages, next)): (&'a VmSpec, (u32, &str)),
) -> Result<Called<'a>> {
    let key = format!("vm.{}", server.name);
    ensure!(next.is_empty(), "{key}.next: {next} in the Xen lab; allowed: none");
    let most = MEDIA_VCPUS;
    ensure!((1..=most).contains(&vm.vcpus), "vm.{}.vcpus: {} in the Xen lab; allowed: 1 to {most}", vm.name, vm.vcpus);
    let signals = u64::from(media.calls) * u64::from(messages) * 1_000_000_000 / media.hold;
    Ok(Called { server, media: Some((vm, media)), streams: vm.streams(), signals })
}

/// Those VMs of a phase, and what they are asked.
fn serve(s: &Scenario, called: &Called, scheduler: &Scheduler, seed: u64) -> Result<String> {
    let given = |vm: &VmSpec| -> Result<(String, String)> {
        Ok((domain::configuration(s, vm, 0, scheduler, 0), domain::parameters(vm, scheduler, group(s, vm)?)))
    };
    let mut script = String::new();
    if let Some((vm, media)) = called.media {
        let (lines, words) = given(vm)?;
        let (transcode, buffer, gap) = (media.transcode, s.constants.jitter_buffer, s.constants.packet_gap);
        let _ =
            writeln!(script, "media {} 'transcode={transcode} buffer={buffer} gap={gap}' '{lines}'{words}", vm.vcpus);
    }
    let (lines, words) = given(called.server)?;
    let (rate, speaks) = ((s.constants.ramp / 1_000).max(1), phases_of(called.streams, seed));
    let _ = writeln!(script, "server {} {rate} '{speaks}' {} '{lines}'{words}", called.streams, called.signals);
    Ok(script)
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
        Scheduler::Takt(_) => format!("configure Domain-0 {}={weight}", param("weight").key),
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
            "server 3 5 '19 16 7' 0 '' 101=256 102=0",
        ];
        assert_eq!(lines[3..7], rest);
        assert!(lines[7].starts_with("vm 2 0 'hog=1 phase="), "{}", lines[7]);
        assert_eq!(lines[8], "run");
        assert_eq!(lines[11], "server 5 5 '19 16 7 23 0' 0 '' 101=256 102=0");
        assert_eq!(boot.options, "dom0_max_vcpus=2 lab_outside=2 lab_turn=5 sched=takt takt_policy=doris");
        let phases: Vec<_> = boot.plan.phases.iter().map(|p| (p.scenario, p.policy.as_deref())).collect();
        assert_eq!(phases, [(0, Some("doris")), (1, Some("doris"))]);
    }

    #[test]
    fn xens_own_schedulers_are_the_boots() {
        assert_eq!(boot("xen-credit2").options, "dom0_max_vcpus=2 lab_outside=2 lab_turn=5 sched=credit2");
        assert!(boot("xen-credit2").plan.script.contains("\ndom0 sched-credit2 -w 512\n"));
        let script = boot("xen-rtds").plan.script;
        assert!(script.contains("\nserver 3 5 '19 16 7' 0 'period=10000\nbudget=3750\nextratime=1'\n"), "{script}");
    }

    const MEDIA: &str = "[[vm]]\nname = \"media\"\nvcpus = 2\nrt = \"on\"\ndedicated = \"0-1\"\n\
        workload = { type = \"media\", calls = 2, hold = \"10s\", transcode = \"2ms\" }\n\
        [[vm]]\nname = \"control\"\nvcpus = 1\ndedicated = 2\nworkload = { type = \"signalling\", messages = 10 }\n\
        [[vm]]\nname = \"jobs\"\nvcpus = 2\nworkload = \"hog\"\n";

    fn media(more: &str) -> Result<Boot> {
        let text = format!(
            "duration = \"5s\"\n[machine]\npcpus = 4\n[dom0]\nvcpus = 1\ndedicated = false\n{MEDIA}\
             [voip]\npacket_gap = \"30ms\"\njitter_buffer = \"20ms\"\n{more}"
        );
        let scheduler = if more.is_empty() { "pin" } else { "doris" };
        plan(&[&Scenario::from_toml(&text, "test.toml")?], &Scheduler::parse(scheduler)?, &[1])
    }

    #[test]
    fn a_media_server_has_the_packets_of_calls_that_another_vm_answers() {
        let boot = media("").unwrap();
        let lines: Vec<_> = boot.plan.script.lines().collect();
        assert_eq!(lines[4], "phase 0 1 1000000000 5000000000");
        let buffer = "transcode=2000000 buffer=20000000 gap=30000000";
        assert_eq!(lines[5], format!("media 2 '{buffer}' 'cpus=[\"0,1\",\"0,1\"]' 101=256 102=0 103=1"));
        // Ten messages for each two calls of ten seconds: two a second are set up, beside the four parties that speak.
        assert_eq!(lines[6], "server 4 10 '19 16 7 23' 2 'cpus=[\"2\"]' 101=256 102=0");
        assert!(lines[7].ends_with("' 'cpus=[\"3\",\"3\"]' 101=256 102=0"), "{}", lines[7]);
        assert_eq!((boot.plan.vms, lines[8]), (3, "run"));
        assert_eq!(boot.options, "dom0_max_vcpus=1 lab_outside=4 lab_turn=5 sched=takt takt_policy=credit");
    }

    #[test]
    fn what_the_lab_cannot_do_with_media_is_named() {
        let error = |more: &str| media(more).unwrap_err().to_string();
        let voip = "[[vm]]\nname = \"echo\"\nvcpus = 1\nworkload = \"voip\"";
        assert!(error(voip).starts_with("vm: voip, media and signalling in the Xen lab"));
        let second = "[[vm]]\nname = \"sip\"\nvcpus = 1\nworkload = \"signalling\"";
        assert!(error(second).starts_with("vm: several VMs that signal"));
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
