// SPDX-License-Identifier: GPL-2.0-or-later
//! `takt-vmm`: a micro VMM of the lab. One process is one VM; `takt-vmm send` and `takt-vmm ask` are the world that talks to it.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the guest is x86-64 code");

mod ask;
mod clock;
mod control;
mod io;
mod layout;
mod link;
mod machine;
mod name;
mod obey;
mod packet;
mod report;
mod send;
mod spec;
mod stats;
mod tap;
mod vm;
mod wire;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use std::ffi::CString;
use std::path::PathBuf;
use std::process::ExitCode;

use control::Control;
use spec::{Spec, Workload};
use vm::Vm;

/// Runs one small KVM guest that measures itself.
///
/// SIGUSR1 begins the measured interval; SIGTERM ends it and prints one JSON object.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Args {
    /// Name of the VM; also that of the process.
    #[arg(long, required = true)]
    name: Option<String>,
    /// What it is and does (JSON).
    #[arg(long, value_name = "FILE", required = true)]
    spec: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Sends RTP to a VM and receives its answers.
    Send(send::Args),
    /// Is the clients of an application, whose front is a VM.
    Ask(ask::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match (args.command, args.name, args.spec) {
        (Some(Command::Send(send)), ..) => send::run(&send),
        (Some(Command::Ask(ask)), ..) => ask::run(&ask),
        (None, Some(name), Some(spec)) => run(name, &spec),
        _ => unreachable!("clap requires both"),
    };
    match outcome {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("takt-vmm: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(name: String, spec: &std::path::Path) -> Result<String> {
    ensure!(!name.is_empty() && !name.contains('\0'), "--name: the VM needs a name");
    let spec = Spec::read(spec)?;
    // Linux cuts it to 15 bytes.
    nix::sys::prctl::set_name(&CString::new(name.as_str())?).context("--name")?;
    let control = Control::new(matches!(spec.workload, Workload::Interrupts { .. }))?;
    let vm = Vm::start(name, spec)?;
    Ok(serde_json::to_string(&vm.control(control)?)?)
}
