// SPDX-License-Identifier: GPL-2.0-only
//! The program `takt`. Commands are one module each; everything that can be tested without a process is public.
//!
//! Exit status: 0 all well, 1 a gate of an experiment does not hold, 2 bad input or unwritable output.

mod args;
pub mod experiment;
pub mod inspect;
pub mod jobs;
pub mod output;
pub mod policies;
pub mod report;
pub mod seeds;
pub mod simulate;
pub mod table;
pub mod trace;
mod watch;

use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit status of bad input.
const BAD_INPUT: u8 = 2;

/// Runs the program with the arguments of a process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match args::Args::try_parse_from(args) {
        Ok(args) => args,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return finish(output::print(&e.render().to_string()).map(|()| true));
        }
        Err(e) => return fail(&usage(&e)),
    };
    finish(match &args.command {
        args::Command::Policies(a) => policies::run(a),
        args::Command::Sim(a) => simulate::run(a),
        args::Command::Experiment(a) => experiment::run(a),
        args::Command::Inspect(a) => inspect::run(a),
    })
}

/// Turns the outcome of a command (whether its gates hold) into an exit status.
fn finish(outcome: anyhow::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => fail(&format!("{e:#}")),
    }
}

/// One line on stderr, whatever the error consists of.
fn fail(message: &str) -> ExitCode {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    output::complain(&line);
    ExitCode::from(BAD_INPUT)
}

/// The first paragraph of clap's message without its label; the usage text that follows is left to `--help`.
fn usage(e: &clap::Error) -> String {
    let text = e.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    format!("{} (see `takt --help`)", first.trim_start_matches("error: "))
}
