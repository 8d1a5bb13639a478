// SPDX-License-Identifier: GPL-2.0-only

use std::process::ExitCode;

fn main() -> ExitCode {
    takt::main(std::env::args_os())
}
