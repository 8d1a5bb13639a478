// SPDX-License-Identifier: GPL-2.0-only
//! The program `takt`. Commands are one module each; everything that can be tested without a process is public. `args::EXIT` lists
//! the exit statuses.

pub mod analyze;
mod args;
mod carried;
pub mod check;
mod completions;
pub mod experiment;
pub mod hook;
pub mod inspect;
mod interrupt;
pub mod jobs;
pub mod lab;
pub mod live;
mod man;
pub mod new;
pub mod output;
pub mod policies;
pub mod replay;
pub mod report;
pub mod row;
pub mod scenarios;
pub mod schema;
pub mod seeds;
pub mod simulate;
pub mod stat;
pub mod table;
mod temporary;
pub mod trace;
mod watch;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program with the arguments of a process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.into_iter().collect();
    let args = match args::Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return finish(output::print(&e.render().to_string()).map(|()| true));
        }
        Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let (path, commands) = (args::path(&words), args::commands(&words));
            return fail(&format!("no command; allowed: {} (see `{path} --help`)", commands.join(", ")));
        }
        Err(e) => return fail(&usage(&e, &args::path(&words))),
    };
    if !args.command.is_live() {
        if let Err(e) = interrupt::leave_nothing() {
            return fail(&format!("{e:#}"));
        }
    }
    finish(match &args.command {
        args::Command::Policies(a) => policies::run(a),
        args::Command::Scenarios(a) => scenarios::run(a),
        args::Command::New(a) => new::run(a),
        args::Command::Sim(a) => simulate::run(a),
        args::Command::Experiment(a) => experiment::run(a),
        args::Command::Inspect(a) => inspect::run(a),
        args::Command::Analyze(a) => analyze::run(a),
        args::Command::Lab(a) => lab::run(a),
        args::Command::Check(a) => check::run(a),
        args::Command::Hook(a) => hook::run(a),
        args::Command::Doctor(a) => live::doctor(a),
        args::Command::Run(a) => live::run(a),
        args::Command::Status(a) => live::status(a),
        args::Command::Set(a) => live::set(a),
        args::Command::Record(a) => live::record(a),
        args::Command::Overhead(a) => live::overhead(a),
        args::Command::Metrics(a) => live::metrics(a),
        args::Command::Top(a) => live::top(a),
        args::Command::Why(a) => live::why(a),
        args::Command::Trace(a) => live::trace(a),
        args::Command::BenchHost(a) => live::bench_host(a),
        args::Command::Replay(a) => replay::run(a),
        args::Command::Schema(a) => schema::run(a),
        args::Command::Completions(a) => completions::run(a),
        args::Command::Man => man::run(),
    })
}

/// Turns the outcome of a command (whether its gates hold) into an exit status.
fn finish(outcome: anyhow::Result<bool>) -> ExitCode {
    interrupt::settle();
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(args::DIFFERS),
        Err(e) => fail(&format!("{e:#}")),
    }
}

/// Most characters of a word in an error: what a file holds may be of any length.
const WORD: usize = 300;

/// One line on stderr, whatever the error consists of.
fn fail(message: &str) -> ExitCode {
    output::complain(&one_line(message));
    ExitCode::from(args::BAD_INPUT)
}

/// `message` without line breaks, without characters that would drive a terminal, and with long words cut.
fn one_line(message: &str) -> String {
    let word = |w: &str| {
        let mut shown: String = w.chars().take(WORD).collect();
        shown = output::shown(&shown);
        if w.chars().nth(WORD).is_some() {
            shown.push('…');
        }
        shown
    };
    message.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The first paragraph of clap's message without its label, what clap takes for meant, and where the help is.
fn usage(e: &clap::Error, path: &str) -> String {
    let text = e.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let meant = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let hint = meant.into_iter().find_map(|kind| match e.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(many) => many.first().cloned(),
        _ => None,
    });
    let hint = hint.map_or_else(String::new, |hint| format!(" (did you mean `{hint}`?)"));
    format!("{first}{hint} (see `{path} --help`)")
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn errors_are_one_line_that_a_terminal_can_take() {
        assert_eq!(one_line("a\nb \u{1b}[31mred"), "a b \\u{1b}[31mred");
        assert_eq!(one_line(&format!("{}: unknown", "k".repeat(9000))).chars().count(), 300 + 1 + " unknown".len());
    }
}
