// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: what it costs that Takt keeps what VMs wait for, where an instruction takes 1 ns.

use super::guest::Guest;
use crate::takt::{Takt, status, takt, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
/// Of each measurement.
const SPAN: Duration = Duration::from_secs(5);
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

/// What the load costs per entry of a program: instructions in the kernel and in the process. Operations per entry.
fn measured(takt: &Takt, keeps: bool) -> Result<[f64; 3]> {
    std::thread::sleep(Duration::from_secs(1));
    let before = counts(takt)?;
    std::thread::sleep(SPAN);
    let after = counts(takt)?;
    let runs = after.runs - before.runs;
    ensure!(runs > 1000.0, "{runs} entries tell nothing");
    let operations = if keeps { operations_per_run(takt)? } else { 0.0 };
    Ok([(after.kernel - before.kernel) / runs, (after.user - before.user) / runs, operations])
}

fn operations_per_run(running: &Takt) -> Result<f64> {
    let before = counts(running)?;
    let out = takt(&["record", OPERATIONS, "--duration", "2s"])?;
    ensure!(out.status.success(), "takt record: {}", String::from_utf8_lossy(&out.stderr));
    let runs = counts(running)?.runs - before.runs;
    let out = takt(&["replay", OPERATIONS, "--json"])?;
    let replayed: Value = serde_json::from_slice(&out.stdout).context("takt replay")?;
    std::fs::remove_file(OPERATIONS).context(OPERATIONS)?;
    // Events that nobody wants are in such a recording, and not in what is kept.
    let events = ["accepted", "refused"].map(|n| replayed["operations"]["event"][n].as_f64().unwrap_or(0.0));
    Ok((replayed["records"].as_f64().context("records")? - events.iter().sum::<f64>()) / runs)
}

/// VMs at the lab's rate, and more of them at a higher one.
fn loads() -> [(&'static str, Vec<Value>); 2] {
    let periodic = |ns: u64| json!({"kind": "periodic", "period_ns": ns, "work": 5_000});
    [("calm", vec![periodic(20_000_000)]), ("busy", [200_000, 300_000, 500_000].map(periodic).to_vec())]
}

/// Under each load; the memory of the process at the end, bytes.
fn under_loads(keeps: bool) -> Result<(Vec<[f64; 3]>, u64)> {
    let memory = MEMORY.to_string();
    let arguments: &[&str] = if keeps { &["--recorder-mib", &memory] } else { &[] };
    let running = Takt::run(arguments)?;
    let mut all = Vec::new();
    for (_, workloads) in loads() {
        let named = |(n, workload): (usize, &Value)| Guest::start(&format!("vm{n}"), 1, workload);
        let guests = workloads.iter().enumerate().map(named).collect::<Result<Vec<_>>>()?;
        until("VMs", SOON, || Ok(status()?["vms"].as_array().is_some_and(|vms| vms.len() == guests.len())))?;
        all.push(measured(&running, keeps)?);
        guests.into_iter().try_for_each(|guest| guest.end().map(drop))?;
        until("no VM", SOON, || Ok(status()?["vms"].as_array().is_some_and(Vec::is_empty)))?;
    }
    let memory = running.memory()?;
    running.stop()?;
    Ok((all, memory))
}

pub fn cost() -> Result<Value> {
    std::fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").context("bpf_stats_enabled")?;
    let (without, less) = under_loads(false)?;
    let (with, more) = under_loads(true)?;
    let rows = loads().into_iter().zip(without.iter().zip(&with)).map(|((load, _), (off, on))| {
        let per_operation = |n: usize| (on[n] - off[n]) / on[2];
        json!({
            "load": load,
            "kernel_per_operation": per_operation(0),
            "process_per_operation": per_operation(1),
            "kernel_per_entry_without": off[0],
            "operations_per_entry": on[2],
        })
    });
    let rows: Vec<_> = rows.collect();
    Ok(json!({"loads": rows, "memory_mib": (more - less) as f64 / 1048576.0, "limit_mib": MEMORY}))
}
