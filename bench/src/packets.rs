// SPDX-License-Identifier: GPL-2.0-only
//! Cost of the monitor's look at a packet, natively and in the kernel, and of `takt inspect` at a capture: what the monitor's own benchmarks
//! (`monitor/examples/bench_packet.rs`, `bench_inspect.rs`) measure, run from here so that one command shows all.

use crate::table;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::process::Command;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub traffic: String,
    pub native_ns: f64,
    /// `None`: see [`Packets::bpf`].
    pub bpf_ns: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Packets {
    pub rows: Vec<Row>,
    /// "measured", or why not.
    pub bpf: String,
    /// Million packets per second of `takt inspect`, by what is captured, and its most memory in MiB.
    pub inspect: Map<String, Value>,
}

/// Runs an example; its one line of output, or the last line of its error.
fn example(name: &str, features: &[&str]) -> Result<Map<String, Value>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let run = Command::new(&cargo)
        .args(["run", "--quiet", "--release", "--package", "takt-monitor", "--example", name])
        .args(features)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .with_context(|| cargo.clone())?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        let line = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message");
        bail!("{}", line.trim());
    }
    serde_json::from_slice(&run.stdout).context("the monitor's benchmark printed no JSON")
}

pub fn measure() -> Result<Packets> {
    let (line, bpf) = match example("bench_packet", &["--features", "bpf"]) {
        Ok(line) => (line, "measured".to_string()),
        Err(e) => (example("bench_packet", &[]).context("the monitor's benchmark")?, format!("skipped: {e:#}")),
    };
    let figure = |key: &str| line.get(key).and_then(Value::as_f64);
    let rows = line
        .keys()
        .filter_map(|key| {
            let traffic = key.strip_prefix("native_")?;
            let bpf_ns = figure(&format!("bpf_{traffic}"));
            Some(Row { traffic: traffic.replace('_', " "), native_ns: figure(key)?, bpf_ns })
        })
        .collect();
    let inspect = example("bench_inspect", &[]).context("the benchmark of inspect")?;
    Ok(Packets { rows, bpf, inspect })
}

impl Packets {
    pub fn print(&self) {
        println!("== Monitor: ns per packet (goal: at most 50) ==\n");
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|r| {
                let bpf = r.bpf_ns.map_or("-".to_string(), |ns| format!("{ns:.0}"));
                vec![r.traffic.clone(), format!("{:.1}", r.native_ns), bpf]
            })
            .collect();
        println!("{}", table::render(&["traffic of the VM", "native", "BPF"], &rows));
        println!("  BPF: {}.\n", self.bpf);
        println!("== takt inspect: million packets per s (goal: at least 5), and MiB (goal: at most 64) ==\n");
        let figure = |key: &str| self.inspect.get(key).and_then(Value::as_f64).map_or("-".into(), |v| v.to_string());
        let row = |what: &str, key: &str| vec![what.to_string(), figure(key)];
        let rows = [
            row("90 calls", "calls_mpps"),
            row("a million senders of one packet", "senders_of_one_mpps"),
            row("a million senders of two that could be RTP", "senders_of_two_mpps"),
            row("most memory, MiB", "most_memory_mib"),
        ];
        println!("{}", table::render(&["capture", ""], &rows));
    }
}
