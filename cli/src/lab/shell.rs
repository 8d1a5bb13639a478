// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab shell`: a shell on an emulated Linux host with VMs.

use super::without;
use crate::{args, interrupt, output};
use anyhow::{Context, Result, ensure};
use std::io::{IsTerminal, Read};
use takt_lab::linux;
use takt_lab::shell::{End, Input, Shell, Terminal};

/// Runs the command; false if a script ends with another status than 0.
///
/// # Errors
/// Something that the machine needs is missing, or it did not end by itself.
pub fn run(args: &args::LabShell) -> Result<bool> {
    ensure!(cfg!(feature = "linux"), "{}", without::LINUX);
    let stdin = std::io::stdin();
    let typed = stdin.is_terminal();
    ensure!(
        !typed || std::io::stdout().is_terminal(),
        "lab shell: stdin is a terminal, stdout is not; to keep what commands print, pass them on stdin"
    );
    linux::qemu()?;
    let shell = Shell::new(&args.kernel)?;
    if !typed {
        let mut script = Vec::new();
        stdin.lock().read_to_end(&mut script).context("stdin")?;
        return Ok(shell.run(&Input::Script(script))? == End::Shell(0));
    }
    let input = Input::Terminal(Terminal::here()?);
    output::complain(&format!("boots Linux {}; Ctrl-A x ends it at any time", args.kernel));
    interrupt::keep_terminal()?;
    let end = shell.run(&input);
    interrupt::give_back_terminal();
    if end? == End::SwitchedOff {
        output::complain("the machine is switched off");
    }
    // Whatever the last command that was typed came to.
    Ok(true)
}
