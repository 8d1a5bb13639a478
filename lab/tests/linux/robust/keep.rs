// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: what it costs that Takt keeps what VMs wait for, where an instruction takes 1 ns.

use super::guest::Guest;
use crate::takt::{Takt, status, takt, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
/// Of each measurement.
const SPAN: Duration = Duration::from_secs(2);
/// MiB, as the package has it.
const MEMORY: u32 = 64;
const OPERATIONS: &str = "/tmp/operations.log";

/// Counters of the kernel's and of `takt run`.
struct Counts {
    /// CPU time of Takt's BPF programs and of its process, ns, and how often a program was entered.
    kernel: f64,
    user: f64,
    runs: f64,
}

fn counts(takt: &Takt) -> Result<Counts> {
    let cost = status()?["host"]["cost"].clone();
    let figure = |name: &str| cost[name].as_f64().with_context(|| format!("no {name}: {cost}"));
    Ok(Counts { kernel: figure("run_s")? * 1e9, user: takt.cpu_ns()? as f64, runs: figure("runs")? })
}

/// What the load costs per entry of a program: instructions in the kernel and in the process.
fn measured(takt: &Takt) -> Result<[f64; 2]> {
    std::thread::sleep(SPAN / 4);
    let before = counts(takt)?;
    std::thread::sleep(SPAN);
    let after = counts(takt)?;
    let runs = after.runs - before.runs;
    ensure!(runs > 300.0, "{runs} entries tell nothing");
    Ok([(after.kernel - before.kernel) / runs, (after.user - before.user) / runs])
}

/// Operations per entry.
fn operations_per_run(running: &Takt) -> Result<f64> {
    let before = counts(running)?;
    let out = takt(&["record", OPERATIONS, "--duration", "1s"])?;
    ensure!(out.status.success(), "takt record: {}", String::from_utf8_lossy(&out.stderr));
    let runs = counts(running)?.runs - before.runs;
    let out = takt(&["replay", OPERATIONS, "--json"])?;
    let replayed: Value = serde_json::from_slice(&out.stdout).context("takt replay")?;
    std::fs::remove_file(OPERATIONS).context(OPERATIONS)?;
    // Events that nobody wants are in such a recording, and not in what is kept.
    let events = ["accepted", "refused"].map(|n| replayed["operations"]["event"][n].as_f64().unwrap_or(0.0));
    Ok((replayed["records"].as_f64().context("records")? - events.iter().sum::<f64>()) / runs)
}

/// VMs with some two thousand wakes a second together, and with ten thousand.
fn loads() -> [(&'static str, Vec<Value>); 2] {
    let periodic = |ns: u64| json!({"kind": "periodic", "period_ns": ns, "work": 5_000});
    [("calm", vec![periodic(1_500_000); 3]), ("busy", [200_000, 300_000, 500_000].map(periodic).to_vec())]
}

/// Off and on by turns, so that a difference is one of the same start.
const TURNS: usize = 3;
const FILE: &str = "/tmp/takt.toml";

/// Reads the file again, after which it keeps, or keeps nothing.
fn keep(running: &Takt, keeps: bool) -> Result<()> {
    let memory = if keeps { MEMORY } else { 0 };
    std::fs::write(FILE, format!("[host]\nrecorder_mib = {memory}\n")).context(FILE)?;
    let read = || -> Result<usize> { Ok(running.said()?.matches("configuration read again").count()) };
    let before = read()?;
    running.hang_up()?;
    until("the file read again", SOON, || Ok(read()? > before))
}

/// Differences of the turns in instructions per operation: in the kernel, and in the process.
fn under(running: &Takt, workloads: &[Value]) -> Result<[Vec<f64>; 2]> {
    let named = |(n, workload): (usize, &Value)| Guest::start(&format!("vm{n}"), 1, workload);
    let guests = workloads.iter().enumerate().map(named).collect::<Result<Vec<_>>>()?;
    until("VMs", SOON, || Ok(status()?["vms"].as_array().is_some_and(|vms| vms.len() == guests.len())))?;
    let mut turns = [const { Vec::new() }; 2];
    let operations = operations_per_run(running)?;
    for _ in 0..TURNS {
        keep(running, false)?;
        let off = measured(running)?;
        keep(running, true)?;
        let on = measured(running)?;
        turns.iter_mut().enumerate().for_each(|(n, turns)| turns.push((on[n] - off[n]) / operations));
    }
    guests.into_iter().try_for_each(|guest| guest.end().map(drop))?;
    until("no VM", SOON, || Ok(status()?["vms"].as_array().is_some_and(Vec::is_empty)))?;
    Ok(turns)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

pub fn cost() -> Result<Value> {
    std::fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").context("bpf_stats_enabled")?;
    std::fs::write(FILE, "").context(FILE)?;
    let running = Takt::run(&["--config", FILE])?;
    let before = running.memory()?;
    let mut rows = Vec::new();
    for (load, workloads) in loads() {
        let [kernel, process] = under(&running, &workloads)?;
        let row = json!({
            "load": load,
            "kernel_turns": &kernel,
            "process_turns": &process,
            "kernel_per_operation": median(kernel),
            "process_per_operation": median(process),
        });
        rows.push(row);
    }
    let memory = running.memory()? - before;
    running.stop()?;
    Ok(json!({"loads": rows, "memory_mib": memory as f64 / 1048576.0, "limit_mib": MEMORY}))
}
