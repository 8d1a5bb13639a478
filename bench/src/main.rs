// SPDX-License-Identifier: GPL-2.0-only
//! `make bench`: figures and ratios measured in one run (docs/benchmarks.md). Nothing here passes or fails by time.

mod clock;
mod decisions;
mod follow;
mod lock;
mod mix;
mod packets;
mod simso;
mod simulator;
mod sizes;
mod table;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Decisions,
    Sizes,
    Lock,
    Follow,
    Simulator,
    Monitor,
    Simso,
}

/// What a decision, a simulated event and an inspected packet cost on this machine.
#[derive(Parser)]
#[command(name = "takt-bench")]
struct Args {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Shorter runs: coarser figures.
    #[arg(long)]
    quick: bool,
    /// Write the chart of decisions by number of VCPUs to F (part `sizes`).
    #[arg(long, value_name = "F")]
    svg: Option<PathBuf>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Serialize, Default)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<decisions::Decisions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<sizes::Sizes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<lock::Locking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    follow: Option<follow::Following>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulator: Option<simulator::Simulator>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monitor: Option<packets::Packets>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simso: Option<simso::Comparison>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    ensure!(args.svg.is_none() || wanted(Part::Sizes), "--svg: only the part sizes has a chart");
    let mut report = Report::default();
    if wanted(Part::Decisions) {
        let part = decisions::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        report.decisions = Some(part);
    }
    if wanted(Part::Sizes) {
        let part = sizes::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        if let Some(file) = &args.svg {
            std::fs::write(file, part.chart()?).with_context(|| file.display().to_string())?;
        }
        report.sizes = Some(part);
    }
    if wanted(Part::Lock) {
        let part = lock::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        report.lock = Some(part);
    }
    if wanted(Part::Follow) {
        let part = follow::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        report.follow = Some(part);
    }
    if wanted(Part::Simulator) {
        let part = simulator::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        report.simulator = Some(part);
    }
    if wanted(Part::Monitor) {
        let part = packets::measure()?;
        if !args.json {
            part.print();
        }
        report.monitor = Some(part);
    }
    if wanted(Part::Simso) {
        let part = simso::measure(args.quick)?;
        if !args.json {
            part.print();
        }
        report.simso = Some(part);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}
