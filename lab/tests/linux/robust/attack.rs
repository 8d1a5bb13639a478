// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: VMs that try to get more than their share, next to VMs that take all they get.

use super::guest::Guest;
use crate::system::read;
use crate::takt::{Takt, status, until};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const VICTIMS: usize = 2;
/// The monitor knows a sender by then, and shares have evened out.
const WARMUP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(8);
/// The same where there is one PCPU and no share to be told from another.
const MEASURED_ALONE: Duration = Duration::from_millis(1500);
const LOOKS: u32 = 6;
/// A VM that has hardly any work, and its period, ns.
const NEIGHBOUR: &str = "neighbour";
const NEIGHBOUR_NS: u64 = 7_000_000;
/// No part of a tick, a slice or an accounting interval.
const BETWEEN_LOOKS: Duration = Duration::from_millis(7);
/// CPU time that one credit stands for.
const CREDIT_NS: i64 = 100_000;
const ATTACKER: &str = "attacker";
const TAP: &str = "tap0";

/// The attackers, each in place of a VM that only takes what it gets, beside two that do as well and one that works now and then. All
/// VMs have as many VCPUs as there are PCPUs, or one more with `more`, but for one attacker.
pub fn attacks(times: u32, more: bool) -> Result<Value> {
    let cpus = std::thread::available_parallelism().context("PCPUs")?.get() as u32;
    let vcpus = if more && cpus > 1 { cpus + 1 } else { cpus };
    let arguments = ["--policy", "doris"];
    let takt = if cpus > 1 { Takt::run(&arguments)? } else { Takt::run_free(&arguments)? };
    let source = |period: u64, ports: u32, compute: bool| {
        json!({
            "kind": "source", "tap": TAP, "period_ns": period, "ports": ports, "compute": compute, "others": "hog",
        })
    };
    let of = |workload: Value| json!({"vcpus": vcpus, "workload": workload});
    let hog = json!({"kind": "hog"});
    let attackers = [
        ("none", of(hog.clone())),
        ("1000 ports", of(source(500_000, 1000, true))),
        ("10 us", of(source(10_000, 1, true))),
        ("dodge", of(json!({"kind": "dodge"}))),
        ("dodge more", of(json!({"kind": "dodge", "guard_ns": 1_000_000}))),
        ("asleep for 10 us", of(source(10_000, 1, false))),
        ("asleep for 1 ms", of(source(1_000_000, 1, false))),
        ("threads of 20 ms", json!({"vcpus": vcpus, "workload": hog, "replace_ms": 20})),
        ("64 VCPUs", json!({"vcpus": 64, "workload": hog})),
    ];
    let time = if cpus > 1 { MEASURED } else { MEASURED_ALONE };
    let all = attackers.iter().map(|(name, spec)| attack(name, spec, vcpus, time * times));
    let all = all.collect::<Result<Vec<_>>>()?;
    takt.stop()?;
    Ok(json!({"attacks": all}))
}

fn attack(name: &str, spec: &Value, vcpus: u32, time: Duration) -> Result<Value> {
    let victims = (0..VICTIMS).map(|n| Guest::hog(&format!("victim-{n}"), vcpus)).collect::<Result<Vec<_>>>()?;
    let neighbour = Guest::start(NEIGHBOUR, 1, &json!({"kind": "periodic", "period_ns": NEIGHBOUR_NS, "work": 0}))?;
    let attacker = Guest::with(ATTACKER, spec)?;
    victims.iter().try_for_each(|v| v.runs(vcpus as usize))?;
    until(ATTACKER, Duration::from_secs(60), || Ok(attacker.all_cpu_ns()? > u64::from(vcpus) * 10_000_000))?;
    std::thread::sleep(WARMUP);
    victims.iter().chain([&neighbour]).try_for_each(Guest::mark)?;
    let sends = spec["workload"]["tap"].is_string();
    let (switched, sent) = (switches()?, if sends { packets()? } else { 0 });
    let before = Got::look(&attacker, &victims)?;
    std::thread::sleep(time);
    let after = Got::look(&attacker, &victims)?;
    let (seconds, switched) = ((after.at - before.at).as_secs_f64(), switches()? - switched);
    let sent = if sends { packets()? - sent } else { 0 };
    let status = status()?;
    victims.iter().chain([&neighbour, &attacker]).try_for_each(Guest::stop)?; // all at once: the attack goes on until then
    let of = vms(&status)?.iter().find(|v| v["name"] == ATTACKER);
    let of = of.with_context(|| format!("{name}: no {ATTACKER} in {status:#}"))?.clone();
    let works = victims.into_iter().map(|v| work(&v.report()?)).collect::<Result<Vec<_>>>()?;
    attacker.report()?;
    let waits = &neighbour.report()?["vcpus"][0]["latency"];
    let [work, work_ns] = [0, 1].map(|n| works.iter().map(|w| w[n]).sum::<f64>());
    let [own, others] = [0, 1].map(|n| after.cpu[n] - before.cpu[n]);
    Ok(json!({
        "attack": name, "share": after.share_since(&before), "cpus": (own + others) / 1e9 / seconds,
        "cpu_share": own / (own + others), "victims_cpus": others / 1e9 / seconds, "work_per_cpu_s": work / work_ns * 1e9, "switches_per_s": switched as f64 / seconds,
        "neighbour_jobs": waits["count"].as_f64().context("latency")? / (seconds * 1e9 / NEIGHBOUR_NS as f64), "neighbour_p99_us": waits["p99_ns"].as_f64().context("latency")? / 1e3,
        "packets_per_s": sent as f64 / seconds,
        "real_time": of["rt"], "promotions": of["promotions"], "refusals": of["refusals"], "period_us": of["period_us"],
    }))
}

/// Iterations of all VCPUs, and the CPU time in which they were done, ns.
fn work(report: &Value) -> Result<[f64; 2]> {
    let vcpus = report["vcpus"].as_array().context("vcpus")?;
    let sum = |key: &str| vcpus.iter().filter_map(|v| v[key].as_f64()).sum();
    Ok([sum("work"), sum("cpu_ns")])
}

/// What the attacker and the others have got, ns: their CPU time and their credit. A VM that spends what it saved before, or what others
/// owe it, takes from nobody, and over some seconds that may be more than a per cent.
struct Got {
    at: Instant,
    cpu: [f64; 2],
    credit: [f64; 2],
}

impl Got {
    /// The mean of some looks: a run is charged when it ends or a tick finds it, up to 10 ms later.
    fn look(attacker: &Guest, victims: &[Guest]) -> Result<Self> {
        let mut got = Self { at: Instant::now(), cpu: [0.0; 2], credit: [0.0; 2] };
        for _ in 0..LOOKS {
            let credit = credits(&status()?)?;
            let cpu = [attacker.all_cpu_ns()?, victims.iter().map(Guest::all_cpu_ns).sum::<Result<_>>()?];
            for n in 0..2 {
                got.cpu[n] += cpu[n] as f64 / f64::from(LOOKS);
                got.credit[n] += credit[n] as f64 / f64::from(LOOKS);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(got)
    }

    /// The attacker's part of what all have got since `before`.
    fn share_since(&self, before: &Self) -> f64 {
        let [own, others] = [0, 1].map(|n| self.cpu[n] + self.credit[n] - before.cpu[n] - before.credit[n]);
        own / (own + others)
    }
}

fn vms(status: &Value) -> Result<&Vec<Value>> {
    status["vms"].as_array().context("vms")
}

/// Credit of the attacker and of the others, less what they owe, ns.
fn credits(status: &Value) -> Result<[i64; 2]> {
    let mut sums = [0; 2];
    for vm in vms(status)?.iter().filter(|vm| vm["name"] != NEIGHBOUR) {
        let entities = ["vcpus", "io"].iter().filter_map(|key| vm[key].as_array()).flatten();
        let credit = entities.filter_map(|v| v["credit"].as_i64()).sum::<i64>();
        let debt = vm["debt"].as_i64().context("debt")?;
        sums[usize::from(vm["name"] != ATTACKER)] += (credit - debt) * CREDIT_NS;
    }
    Ok(sums)
}

/// Packets that the host has got from the attacker, as the device counts them.
fn packets() -> Result<u64> {
    let file = format!("/sys/class/net/{TAP}/statistics/rx_packets");
    read(&file)?.trim().parse().context(file)
}

fn switches() -> Result<u64> {
    let text = read("/proc/stat")?;
    let line = text.lines().find_map(|l| l.strip_prefix("ctxt ")).context("/proc/stat")?;
    line.trim().parse().context("/proc/stat")
}
