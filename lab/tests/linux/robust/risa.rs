// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: Risa's pools follow VMs that come, change and go (rule K24), and withstand an
//! operator's commands in the meantime.

use super::guest::Guest;
use super::refuse::refused;
use crate::system;
use crate::takt::{PROGRAM, Takt, status, takt, until};
use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const PCPUS: u32 = 4;
const CONFIG: &str = "/tmp/risa.toml";
const RECORD: &str = "/tmp/risa.log";
/// A phase is measured for so long.
const PHASE: Duration = Duration::from_secs(2);
/// What is to happen at once does so within this: `takt run` looks five times a second.
const SOON: Duration = Duration::from_secs(3);

pub fn pools() -> Result<Value> {
    std::fs::write(CONFIG, "[vm.second]\nbudget = \"6ms\"\nperiod = \"10ms\"\n").context(CONFIG)?;
    let running = Takt::run(&["--policy", "risa(hold=delay)", "--config", CONFIG])?;
    let hogs = [Guest::hog("hog-1", PCPUS)?, Guest::hog("hog-2", PCPUS)?];
    hogs.iter().try_for_each(|hog| hog.runs(PCPUS as usize))?;
    done("hogs");
    let mut phases = vec![phase(&hogs, &[])?];

    // One by hand, one by its configuration. What moves is recorded.
    let mut recording = Command::new(PROGRAM);
    recording.args(["record", RECORD, "--duration", "4s"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut recording = recording.spawn().context(PROGRAM)?;
    let first = Guest::hog("first", 1)?;
    first.runs(1)?;
    until("the VM's name", SOON, || Ok(names()?.contains(&"first".to_owned())))?;
    set("first", "budget=6ms")?;
    sized(1, &["first"])?;
    let second = Guest::hog("second", 1)?;
    sized(2, &["first", "second"])?;
    second.runs(1)?;
    ensure!(recording.wait().context("takt record")?.success(), "takt record failed");
    done("two VMs");
    let served = [first, second];
    phases.push(phase(&hogs, &served)?);
    let shown = text()?;
    let lines = refusals()?;

    set("first", "budget=2ms")?;
    let shrunk = shrinks(1)?;
    done("smaller by one");
    phases.push(phase(&hogs, &served)?);
    served.into_iter().try_for_each(Guest::kill)?;
    let emptied = shrinks(0)?;
    done("empty");
    phases.push(phase(&hogs, &[])?);

    let worst = worst(&hogs)?;
    done("the worst");
    let counts = status()?["host"]["counts"].clone();
    hogs.into_iter().try_for_each(Guest::kill)?;
    let said = running.stop()?;
    done("unloaded");
    for file in [RECORD.to_owned(), format!("{RECORD}.rt")] {
        let whole = takt(&["replay", &file])?;
        ensure!(whole.status.success(), "takt replay {file}: {}", String::from_utf8_lossy(&whole.stderr));
    }
    Ok(json!({
        "phases": phases, "lines": lines, "shrunk_ms": shrunk, "emptied_ms": emptied, "worst": worst, "counts": counts,
        "status": shown, "said": said,
    }))
}

/// On the console: where it is, should it come to no end.
fn done(what: &str) {
    println!("{}: {what}", system::read("/proc/uptime").unwrap_or_default().trim());
}

/// Budget and period together, the period that all have here.
fn set(vm: &str, budget: &str) -> Result<()> {
    let out = takt(&["set", vm, budget, "period=10ms"])?;
    ensure!(out.status.success(), "takt set {vm} {budget}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}

/// PCPUs and VMs of the rt-pool, and when it shrinks.
fn rt_pool() -> Result<Value> {
    Ok(status()?["host"]["pools"][0].clone())
}

fn size() -> Result<usize> {
    Ok(rt_pool()?["pcpus"].as_array().context("PCPUs")?.len())
}

fn names() -> Result<Vec<String>> {
    let status = status()?;
    let vms = status["vms"].as_array().context("vms")?;
    Ok(vms.iter().filter_map(|vm| Some(vm["name"].as_str()?.to_owned())).collect())
}

fn text() -> Result<String> {
    Ok(String::from_utf8_lossy(&takt(&["status"])?.stdout).into_owned())
}

/// The rt-pool has so many PCPUs at once, and these VMs live there.
fn sized(pcpus: usize, vms: &[&str]) -> Result<()> {
    let mut last = Value::Null;
    let done = until("the rt-pool's size", SOON, || {
        last = rt_pool()?;
        Ok(last["pcpus"].as_array().is_some_and(|p| p.len() == pcpus) && last["vms"] == json!(vms))
    });
    done.with_context(|| format!("{pcpus} PCPUs for {vms:?}: {last}"))
}

/// How long it takes until the rt-pool has so many PCPUs, ms; in one step, and it says so before.
fn shrinks(to: usize) -> Result<u64> {
    let (start, before) = (Instant::now(), size()?);
    until("a date", SOON, || Ok(rt_pool()?["shrinks_in_s"].is_number()))?;
    until("a smaller rt-pool", Duration::from_secs(20), || {
        let now = size()?;
        ensure!(now == before || now == to, "{now} PCPUs between {before} and {to}");
        Ok(now == to)
    })?;
    Ok(start.elapsed().as_millis() as u64)
}

/// CPU time that the hogs have in a second, and each of the others, in parts of a PCPU; PCPUs of either pool.
fn phase(hogs: &[Guest], served: &[Guest]) -> Result<Value> {
    let of = |vms: &[Guest]| vms.iter().map(Guest::all_cpu_ns).collect::<Result<Vec<u64>>>();
    let (start, before) = (Instant::now(), (of(hogs)?, of(served)?));
    std::thread::sleep(PHASE);
    let (ns, after) = (start.elapsed().as_nanos() as f64, (of(hogs)?, of(served)?));
    let share = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| (a - b) as f64 / ns).collect::<Vec<f64>>();
    let rt = size()?;
    Ok(json!({
        "rt_pcpus": rt, "rest_pcpus": PCPUS as usize - rt,
        "hogs": share(&after.0, &before.0).iter().sum::<f64>(), "served": share(&after.1, &before.1),
    }))
}

/// What must be refused while two VMs live in the rt-pool; what each says.
fn refusals() -> Result<Vec<String>> {
    let before = settings()?;
    let lines = vec![
        refused(&["set", "first", "budget=11ms", "period=10ms"], &["first", "budget", "10ms"])?,
        refused(&["set", "first", "budget=6ms", "period=0"], &["period"])?,
        refused(&["set", "hog-1", "budget=9ms", "period=10ms"], &["hog-1", "rt-pool", "allowed: 3"])?,
        refused(&["set", "nobody", "budget=1ms", "period=10ms"], &["nobody", "hog-1"])?,
        refused(&["set", "first", "budget=9ms", "period=10ms", "dev=nothing0"], &["nothing0"])?,
    ];
    let after = settings()?;
    ensure!(after == before, "a refused command has changed something: {before} before, {after} now");
    Ok(lines)
}

fn settings() -> Result<Value> {
    let status = status()?;
    let vms = status["vms"].as_array().context("vms")?;
    let vms: Vec<_> = vms.iter().map(|v| json!([v["name"], v["pool"], v["server"]])).collect();
    let pools = status["host"]["pools"].as_array().context("pools")?;
    let pools: Vec<_> = pools.iter().map(|p| json!([p["pcpus"], p["vms"]])).collect();
    Ok(json!([vms, pools]))
}

/// The rt-pool's PCPU goes offline; a VCPU of a hog may run on the rt-pool's PCPU only.
fn worst(hogs: &[Guest]) -> Result<Value> {
    let vm = Guest::hog("third", 1)?;
    vm.runs(1)?;
    // The first PCPU can never go; the rt-pool begins where its VM runs.
    may_run(vm.cpu_ns()?[0].0, 1..PCPUS)?;
    until("the VM's name", SOON, || Ok(names()?.contains(&"third".to_owned())))?;
    progress(&vm)?;
    set("third", "budget=5ms")?;
    sized(1, &["third"])?;
    let its = rt_pool()?["pcpus"][0].as_u64().context("PCPU")?;
    let file = format!("/sys/devices/system/cpu/cpu{its}/online");
    std::fs::write(&file, "0").with_context(|| file.clone())?;
    done("a PCPU offline");
    sized(1, &["third"]).context("its PCPU is offline")?;
    progress(&vm).context("its PCPU is offline")?;
    std::fs::write(&file, "1").with_context(|| file.clone())?;
    done("and back");
    let (its, (tid, before)) = (rt_pool()?["pcpus"][0].as_u64().context("PCPU")?, hogs[0].cpu_ns()?[0]);
    may_run(tid, its as u32..its as u32 + 1)?;
    until("CPU time for a VCPU that may run in the rt-pool only", SOON, || {
        let now = hogs[0].cpu_ns()?.into_iter().find(|(id, _)| *id == tid).context("VCPU")?;
        Ok(now.1 > before + 20_000_000)
    })?;
    progress(&vm).context("beside a VCPU of a hog")?;
    vm.kill()?;
    rt_pool()
}

fn may_run(tid: i32, pcpus: std::ops::Range<u32>) -> Result<()> {
    let mut mask = CpuSet::new();
    pcpus.into_iter().try_for_each(|cpu| mask.set(cpu as usize))?;
    sched_setaffinity(Pid::from_raw(tid), &mask).context("affinity of a VCPU")
}

fn progress(vm: &Guest) -> Result<()> {
    let before = vm.all_cpu_ns()?;
    until("CPU time", SOON, || Ok(vm.all_cpu_ns()? > before + 100_000_000))
}
