// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: VMs and PCPUs that come and go, and ways in which Takt ends.

use super::CPUS;
use super::guest::Guest;
use super::load::{Threads, pin, spin};
use crate::takt::{Takt, recorded, status, takt, until};
use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use takt_conformance::{LogFile, replay};
use takt_policy::{OpCode, Record, param};

const RECORD: &str = "/tmp/heir.log";
const PATIENCE: Duration = Duration::from_secs(20);
const ROUNDS: u32 = 8;
const AT_ONCE: u32 = 8;
/// A VM of those lives about so long.
const LIFE: Duration = Duration::from_millis(50);
const WHILE: Duration = Duration::from_millis(300);

pub fn ends(times: u32) -> Result<Value> {
    let takt = Takt::run(&["--policy", "doris"])?;
    let vm = Guest::hog("hog", CPUS)?;
    vm.runs(CPUS as usize)?;
    let churned = churn(times)?;
    let heir = heir()?;
    let offline = offline(&vm, times)?;
    let counts = status()?["host"]["counts"].clone();
    progress(&vm)?;

    takt.kill()?;
    progress(&vm).context("after kill -9 of takt")?;
    vm.end()?;

    let takt = Takt::run(&["--policy", "credit", "--timeout-ms", "1000"])?;
    let vm = Guest::hog("hog", CPUS)?;
    vm.runs(CPUS as usize)?;
    let stalled = stall(takt)?;
    progress(&vm).context("after a stall")?;
    vm.end()?;

    let takt = Takt::run(&["--policy", "credit"])?;
    let vm = Guest::hog("hog", CPUS)?;
    vm.runs(CPUS as usize)?;
    vm.end()?;
    takt.stop()?;
    Ok(json!({"churned": churned, "heir": heir, "offline_ms": offline, "counts": counts, "stalled": stalled}))
}

/// VMs that are killed as soon as they run.
fn churn(times: u32) -> Result<u32> {
    for round in 0..ROUNDS * times {
        let start = |n| Guest::hog(&format!("vm-{round}-{n}"), 1);
        let all = (0..AT_ONCE).map(start).collect::<Result<Vec<_>>>()?;
        std::thread::sleep(LIFE);
        all.into_iter().try_for_each(Guest::kill)?;
    }
    until("end of all VMs but one", Duration::from_secs(20), || {
        Ok(status()?["vms"].as_array().context("vms")?.len() == 1)
    })?;
    Ok(ROUNDS * times * AT_ONCE)
}

/// A VM of the least weight is in debt. It ends, and a VM of the same tenant comes. Returns the weight with which the new VM begins,
/// what it owes, and the weight that it gets then, by the recording, which replays.
fn heir() -> Result<[u64; 3]> {
    recorded(RECORD, || {
        let debtor = Guest::hog("debtor", CPUS)?;
        until("takt set debtor", PATIENCE, || Ok(takt(&["set", "debtor", "weight=1"])?.status.success()))?;
        until("a debt", PATIENCE, || {
            let status = status()?;
            let vm = status["vms"].as_array().context("vms")?.iter().find(|vm| vm["name"] == "debtor");
            let vcpus = vm.and_then(|vm| vm["vcpus"].as_array()).context("debtor")?;
            Ok(vcpus.iter().all(|v| v["credit"].as_i64().is_some_and(|credit| credit < 0)))
        })?;
        debtor.kill()?;
        let heir = Guest::hog("heir", 1)?;
        heir.runs(1)?;
        until("the share of its own", PATIENCE, || {
            let status = status()?;
            let vm = status["vms"].as_array().context("vms")?.iter().find(|vm| vm["name"] == "heir");
            Ok(vm.is_some_and(|vm| vm["weight"] == 256))
        })?;
        heir.end()
    })?;
    let log = LogFile::from_bytes(&std::fs::read(RECORD).context(RECORD)?).context(RECORD)?;
    replay(&log).context(RECORD)?;
    let last = log.records.iter().rposition(|r| r.op.op == OpCode::VmAdd as u16).context("no VM has come")?;
    let began = log.records[last].op;
    let weight = u64::from(param("weight", true).context("weight")?.key);
    let gets = |r: &&Record| r.op.op == OpCode::Adjust as u16 && r.op.vm == began.vm && r.op.arg[0] == weight;
    let own = log.records[last..].iter().find(gets).context("no weight of its own")?;
    Ok([began.arg[1] & u64::from(u32::MAX), began.arg[1] >> 32, own.op.arg[1]])
}

/// A PCPU that goes and comes while it has a thread and a VCPU that may run nowhere else. How long each going took, ms.
fn offline(vm: &Guest, times: u32) -> Result<Vec<u64>> {
    const GOES: usize = 1;
    let file = format!("/sys/devices/system/cpu/cpu{GOES}/online");
    let pinned = Threads::start(2, |_, done| {
        if done.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            pin(GOES);
        }
        spin(0, done);
    })?;
    let mut took = Vec::new();
    for _ in 0..2 * times {
        let mut mask = CpuSet::new();
        mask.set(GOES)?;
        sched_setaffinity(Pid::from_raw(vm.cpu_ns()?[0].0), &mask).context("affinity of a VCPU")?;
        std::thread::sleep(WHILE);
        let start = Instant::now();
        std::fs::write(&file, "0").with_context(|| file.clone())?;
        took.push(start.elapsed().as_millis() as u64);
        progress(vm).context("with a CPU less")?;
        std::fs::write(&file, "1").with_context(|| file.clone())?;
        progress(vm).context("with that CPU again")?;
        let before = pinned.numbers();
        std::thread::sleep(WHILE);
        ensure!(pinned.numbers().iter().zip(&before).all(|(now, then)| now > then), "a thread of that CPU was lost");
    }
    pinned.end();
    Ok(took)
}

/// Interrupts for deferred work (`IWI`) that PCPU `cpu` has had.
fn deferred(cpu: usize) -> Result<u64> {
    let file = "/proc/interrupts";
    let text = std::fs::read_to_string(file).context(file)?;
    let mut lines = text.lines();
    let column = lines.next().context(file)?.split_whitespace().position(|name| name == format!("CPU{cpu}"));
    let counts = lines.find_map(|line| line.trim().strip_prefix("IWI:")).context("no IWI")?;
    Ok(counts.split_whitespace().nth(column.context("column")?).context("count")?.parse()?)
}

/// PCPUs go and come, one after the other: what they defer when they are back is done, such as Takt's kicks and what begins the
/// kernel's grace periods, without which no VM's memory is given back.
pub fn hotplug(times: u32) -> Result<Value> {
    let takt = Takt::run(&["--policy", "doris"])?;
    let vm = Guest::hog("hog", CPUS)?;
    vm.runs(CPUS as usize)?;
    for round in 0..4 * times {
        let cpu = 1 + round as usize % (CPUS as usize - 1);
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        std::fs::write(&file, "0").with_context(|| file.clone())?;
        progress(&vm).context("with a CPU less")?;
        std::fs::write(&file, "1").with_context(|| file.clone())?;
        let before = deferred(cpu)?;
        until("an interrupt for deferred work", Duration::from_secs(5), || Ok(deferred(cpu)? > before))
            .with_context(|| format!("CPU {cpu}, round {round}"))?;
    }
    let counts = status()?["host"]["counts"].clone();
    vm.kill()?;
    takt.stop()?;
    Ok(counts)
}

/// All VCPUs get CPU time.
fn progress(vm: &Guest) -> Result<()> {
    let before = vm.cpu_ns()?;
    until("CPU time for all VCPUs", Duration::from_secs(5), || {
        Ok(vm.cpu_ns()?.iter().zip(&before).all(|((_, now), (_, then))| now > then))
    })
}

/// A thread of the highest priority leaves nothing of a CPU to threads that may run only there.
fn stall(takt: Takt) -> Result<String> {
    const CPU: usize = 1;
    std::fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1").context("sched_rt_runtime_us")?;
    const DEBUG: &str = "/sys/kernel/debug";
    mount(Some("debugfs"), DEBUG, Some("debugfs"), MsFlags::empty(), None::<&str>).context(DEBUG)?;
    for server in ["fair_server", "ext_server"] {
        let file = format!("{DEBUG}/sched/{server}/cpu{CPU}/runtime");
        if std::path::Path::new(&file).exists() {
            std::fs::write(&file, "0").context(file)?;
        }
    }
    let starved = Threads::start(1, |_, done| {
        if done.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            pin(CPU);
        }
        spin(0, done);
    })?;
    std::thread::sleep(WHILE);
    let hog = Threads::start(1, |_, done| {
        if done.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            pin(CPU);
            let parameters = libc::sched_param { sched_priority: 50 };
            // SAFETY: the kernel only reads the parameters.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
        }
        spin(0, done);
    })?;
    let ended = takt.ended(Duration::from_secs(30));
    hog.end();
    starved.end();
    let (status, said) = ended?;
    ensure!(status.code() == Some(1), "takt run of a stalled scheduler: {status}: {said}");
    Ok(said)
}
