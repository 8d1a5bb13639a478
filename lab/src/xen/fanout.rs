// SPDX-License-Identifier: GPL-2.0-only
//! Applications that answer requests from several VMs together. Their messages are events: a channel for each client between the front and each
//! other VM that computes, and one between the front and the guest that plays the clients, the world outside.

use super::lines::{Lines, vcpu};
use super::parties;
use crate::outcome::{Requests, Vm};
use crate::{apps, map};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use takt_sim::fanout::Fanout;
use takt_sim::{Scenario, VmSpec};

/// The front's first channel; a domain that has just been created has those of its console and of xenstore.
const PORT: u32 = 3;
/// That a VCPU can wait for, beside one of its own.
const CHANNELS: u32 = 127;

/// VMs by their numbers, in the order of their names.
struct App<'a> {
    front: u32,
    spec: &'a Fanout,
    /// Those that compute, as far as the front reaches.
    computing: Vec<u32>,
}

impl App<'_> {
    /// Those to which the front sends messages.
    fn others(&self) -> impl Iterator<Item = u32> {
        self.computing.iter().copied().filter(|&vm| vm != self.front)
    }

    /// The front's first channel to the clients, as its VM 0, and to another VM.
    fn port(&self, other: u32) -> u32 {
        PORT + other * self.spec.clients
    }
}

fn vms(s: &Scenario) -> impl Iterator<Item = (u32, &VmSpec)> {
    (0..).zip(s.vms.iter().flat_map(|spec| (0..spec.count).map(move |_| spec)))
}

fn apps(s: &Scenario) -> Vec<App<'_>> {
    let names: Vec<_> = s.vms.iter().flat_map(VmSpec::names).collect();
    let fronts = vms(s).filter_map(|(n, vm)| Some((n, vm, vm.fanout().filter(|f| f.clients > 0)?)));
    let with_numbers = fronts.filter_map(|(front, vm, spec)| {
        let computing = apps::App::of(s, vm)?.computing;
        let numbers = (0..).zip(&names).filter(|(_, name)| computing.contains(name));
        Some(App { front, spec, computing: numbers.map(|(n, _)| n).collect() })
    });
    with_numbers.collect()
}

/// What the lab cannot do with them.
///
/// # Errors
/// Names the key.
pub(super) fn check(s: &Scenario) -> Result<()> {
    for (_, vm) in vms(s).filter(|(_, vm)| vm.fanout().is_some()) {
        map::threads(vm)?;
        ensure!(
            !parties::any(s),
            "vm.{}.workload: fanout together with calls in the Xen lab; allowed: without calls",
            vm.name
        );
    }
    for app in apps(s) {
        let others = app.others().count() as u32;
        let (clients, most) = (app.spec.clients, CHANNELS / (1 + others));
        let name = vms(s).find(|(n, _)| *n == app.front).map_or("", |(_, vm)| &vm.name);
        ensure!(
            clients <= most,
            "vm.{name}.clients: {clients} with {others} other VMs that compute in the Xen lab; allowed: 1 to {most}"
        );
    }
    Ok(())
}

/// Guests beside the scenario's VMs: those of the clients.
pub(super) fn worlds(s: &Scenario) -> u32 {
    apps(s).len() as u32
}

/// Options of the guest of VM `n`, times in ns; Dom0 fills in the number of the front's domain.
pub(super) fn options(s: &Scenario, n: u32, own: &Fanout, seed: u32) -> String {
    let mut options = format!("fanout=1 background={} seed={seed}", u32::from(own.background));
    let Some(app) = apps(s).into_iter().find(|app| app.spec.app == own.app) else { return options };
    if app.computing.contains(&n) {
        let part = own.work * app.spec.longer(app.computing.len() as u64) / 1_000;
        let _ = write!(options, " part={part} spread={}", own.spread);
    }
    let (clients, message) = (app.spec.clients, own.message);
    if app.front == n {
        let (others, Fanout { split, stages, .. }) = (app.others().count(), own);
        let _ = write!(
            options,
            " clients={clients} message={message} port={PORT} others={others} split={split} stages={stages}"
        );
    } else if let Some(place) = app.others().position(|vm| vm == n) {
        let port = app.port(place as u32 + 1);
        let _ = write!(options, " clients={clients} message={message} port={port} front='$((first + {}))'", app.front);
    }
    options
}

/// The guests of the clients, each with its channels.
pub(super) fn clients(s: &Scenario, rng: &mut fastrand::Rng) -> String {
    let mut script = String::new();
    for app in apps(s) {
        let Fanout { clients, think, deadline, .. } = app.spec;
        let _ = write!(script, "clients {} {PORT} {clients}", app.front);
        let _ = write!(script, " 'think={think} deadline={deadline} seed={}'", rng.u32(..));
        app.others().for_each(|vm| {
            let _ = write!(script, " {vm}");
        });
        script.push('\n');
    }
    script
}

/// What the clients say, whose guests come after the VMs.
///
/// # Errors
/// Something is missing, or no number; a VCPU has not computed a part of every request that was answered.
pub(super) fn read(lines: &mut Lines, s: &Scenario, vms: &mut [Vm]) -> Result<()> {
    for app in apps(s) {
        let front = &vms[app.front as usize].name;
        let requests = requests(lines).with_context(|| format!("the clients of {front}"))?;
        let (due, mut workers) = (requests.response.count * u64::from(app.spec.stages), 0);
        for vm in app.computing.iter().map(|&n| &vms[n as usize]) {
            for (id, vcpu) in vm.report.vcpus.iter().enumerate() {
                let (name, jobs) = (&vm.name, vcpu.jobs);
                ensure!(
                    jobs >= due,
                    "{name}: VCPU {id} has computed {jobs} parts; of what was answered alone {due} are"
                );
            }
            workers += vm.report.vcpus.len() as u64;
        }
        vms[app.front as usize].requests = Some(Requests { parts: due * workers, ..requests });
    }
    Ok(())
}

/// Without the parts, of which clients know nothing.
fn requests(lines: &mut Lines) -> Result<Requests> {
    lines.need("vm")?;
    lines.need("up")?;
    let said = vcpu(lines.need("vcpu")?, 0)?;
    lines.need("end")?;
    Ok(Requests { sent: said.jobs, missed: said.misses, parts: 0, response: said.latency })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Latency, Report, Vcpu};

    const LEAVES_FIRST: &str = r#"
        [[vm]]
        name = "leaf"
        count = 2
        vcpus = 1
        workload = { type = "fanout", work = "2ms", spread = 10 }
        [[vm]]
        name = "front"
        vcpus = 2
        workload = { type = "fanout", clients = 4, stages = 2, contention = 500, work = "1ms", background = true }
        [[vm]]
        name = "hog"
        vcpus = 1
        workload = "hog"
    "#;

    fn scenario(vms: &str) -> Scenario {
        let text = format!("duration = \"2s\"\n[machine]\npcpus = 2\n{vms}");
        Scenario::from_toml(&text, "test.toml").unwrap()
    }

    fn options_of(s: &Scenario, n: u32) -> String {
        let (_, vm) = vms(s).nth(n as usize).unwrap();
        options(s, n, vm.fanout().unwrap(), 7)
    }

    #[test]
    fn each_vm_has_its_part_and_its_channels() {
        let s = scenario(LEAVES_FIRST);
        check(&s).unwrap();
        assert_eq!(worlds(&s), 1);
        // Of three VMs that compute each takes twice as long as alone.
        let leaf = "fanout=1 background=0 seed=7 part=4000000 spread=10 clients=4 message=20000";
        assert_eq!(options_of(&s, 0), format!("{leaf} port=7 front='$((first + 2))'"));
        assert_eq!(options_of(&s, 1), format!("{leaf} port=11 front='$((first + 2))'"));
        let front = "fanout=1 background=1 seed=7 part=2000000 spread=20 clients=4 message=20000 port=3";
        assert_eq!(options_of(&s, 2), format!("{front} others=2 split=100000 stages=2"));
        let script = clients(&s, &mut fastrand::Rng::with_seed(1));
        assert!(script.starts_with("clients 2 3 4 'think=100000000 deadline=0 seed="), "{script}");
        assert!(script.ends_with("' 0 1\n"), "{script}");
    }

    #[test]
    fn who_is_out_of_reach_or_has_no_parts_takes_no_part() {
        let s = scenario(&LEAVES_FIRST.replace("clients = 4", "clients = 4, reach = 1"));
        assert_eq!(options_of(&s, 1), "fanout=1 background=0 seed=7");
        let front = "fanout=1 background=1 seed=7 clients=4 message=20000 port=3 others=1 split=100000 stages=2";
        assert_eq!(options_of(&s, 2), front);
        let s = scenario(&LEAVES_FIRST.replace("clients = 4", "clients = 4, parts = 0"));
        assert!(options_of(&s, 2).starts_with("fanout=1 background=1 seed=7 clients=4 "), "{}", options_of(&s, 2));
        assert!(options_of(&s, 0).contains(" part=3000000 "), "{}", options_of(&s, 0));
    }

    #[test]
    fn what_the_lab_cannot_do_is_named() {
        let error = |from: &str, to: &str| check(&scenario(&LEAVES_FIRST.replace(from, to))).unwrap_err().to_string();
        let many = "vm.front.clients: 43 with 2 other VMs that compute in the Xen lab; allowed: 1 to 42";
        assert_eq!(error("clients = 4", "clients = 43"), many);
        let parts = "vm.front.parts: 3 on 2 VCPUs in the lab; allowed: 0, or one per VCPU";
        assert_eq!(error("stages = 2", "parts = 3"), parts);
        let calls = "vm.leaf.workload: fanout together with calls in the Xen lab; allowed: without calls";
        assert_eq!(error("workload = \"hog\"", "workload = { type = \"voip\", calls = 1 }"), calls);
    }

    /// As many parts as each VCPU computed.
    fn requests_of(said: &str, jobs: u64) -> Result<Option<Requests>> {
        let s = scenario(LEAVES_FIRST);
        let vcpu = Vcpu { cpu_ns: 0, work: 0, jobs, misses: 0, latency: Latency::default() };
        let vm = |(_, spec): (u32, &VmSpec)| {
            let vcpus = vec![vcpu.clone(); spec.vcpus as usize];
            let report = Report { measured_ns: 0, vcpus, io: None, tasks: Vec::new(), program: None };
            Vm { name: spec.name.clone(), report, clients: None, requests: None, threads: Vec::new() }
        };
        let mut all: Vec<Vm> = vms(&s).map(vm).collect();
        read(&mut Lines::of(said), &s, &mut all)?;
        Ok(all[2].requests)
    }

    #[test]
    fn what_clients_say_is_the_fronts() {
        let said = "vm\nup 5\nvcpu 0 900 0 30 2 25 700 600 1100 1200 1300\nend\n";
        let requests = requests_of(said, 50).unwrap().unwrap();
        assert_eq!((requests.sent, requests.missed, requests.response.count), (30, 2, 25));
        assert_eq!((requests.response.p50_ns, requests.response.max_ns), (600, 1300));
        // Two stages on four VCPUs.
        assert_eq!(requests.parts, 200);
        let error = |said: &str, jobs| format!("{:#}", requests_of(said, jobs).unwrap_err());
        assert_eq!(error(said, 49), "leaf: VCPU 0 has computed 49 parts; of what was answered alone 50 are");
        assert_eq!(error("vm\nup 5\nunbound\n", 50), "the clients of front: no `vcpu` at `unbound`");
    }
}
