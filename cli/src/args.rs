// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use crate::seeds::Seeds;
use clap::{Args as Group, CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// Scheduling of soft real-time virtual machines: simulate hosts, reproduce published results, inspect traffic.
#[derive(Parser, Debug)]
#[command(name = "takt", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// Names of the commands.
pub fn commands() -> Vec<String> {
    Args::command().get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the schedulers and their parameters
    Policies(Policies),
    /// Run scenarios in the simulator under one or more policies and compare
    Sim(Sim),
    /// Reproduce a published figure or table, its value beside ours
    Experiment(Experiment),
    /// Show what the monitor sees in a capture: per sender, real-time or not, by which rule, which period
    Inspect(Inspect),
}

#[derive(Group, Debug)]
pub struct Policies {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Sim {
    /// Scenario files (TOML)
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Policy, e.g. doris or 'credit(slice=5ms)'; repeat to compare [default: those of the scenario]
    #[arg(long = "policy", short, value_name = "P")]
    pub policies: Vec<String>,
    /// Seeds, e.g. 1 or 1-8 or 1-8,101-108
    #[arg(long, alias = "seeds", default_value = "1", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Simulated time after warm-up, e.g. 60s [default: that of the scenario]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub out: Out,
    /// Write a Perfetto trace of the first policy and seed to F (open with ui.perfetto.dev)
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Experiment {
    /// `list`, `all`, or an experiment's name such as DORIS-E2
    #[arg(value_name = "ID")]
    pub id: String,
    /// Seeds, e.g. 1-8 or 1-8,101-108 [default: those of the experiment]
    #[arg(long, alias = "seed", value_name = "SEEDS", allow_hyphen_values = true)]
    pub seeds: Option<Seeds>,
    /// Simulated time after warm-up, e.g. 60s [default: that of the experiment]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Evaluate the gates again with each constant of the model moved by 25 % either way, and list violations
    #[arg(long)]
    pub sensitivity: bool,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Group, Debug)]
pub struct Inspect {
    /// Capture (pcap or pcapng)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Group, Debug)]
pub struct Set {
    /// Change a key of the scenario, e.g. --set vm.voip.calls=45 or --set machine.switch=2us; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Group, Debug)]
pub struct Out {
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained report with charts and a timeline to F
    #[arg(long, value_name = "F")]
    pub html: Option<PathBuf>,
    /// Write the main chart to F
    #[arg(long, value_name = "F")]
    pub svg: Option<PathBuf>,
}
