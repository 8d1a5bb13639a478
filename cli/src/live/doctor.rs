// SPDX-License-Identifier: GPL-2.0-only
//! `takt doctor`: a line for each check.

use crate::{args, output};
use anyhow::{Result, bail};
use std::fmt::Write;
use takt_control::doctor::{Examination, Verdict};
use takt_linux::doctor::{Host, examine};

/// Runs the command; false if something should be mended.
///
/// # Errors
/// `takt run` would not start, or stdout cannot be written.
pub fn doctor(args: &args::Doctor) -> Result<bool> {
    let found = examine(&Host::live());
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&text(&found))?;
    }
    match found.verdict() {
        Verdict::Ok => Ok(true),
        Verdict::Warn => Ok(false),
        Verdict::Fail => {
            let failed = found.checks.iter().filter(|c| c.verdict == Verdict::Fail);
            let failed: Vec<_> = failed.map(|c| c.check.as_str()).collect();
            bail!("takt run would not start on this host: {}", failed.join(", "))
        }
    }
}

fn text(found: &Examination) -> String {
    let widest = found.checks.iter().map(|c| c.check.chars().count()).max().unwrap_or(0);
    let mut all = String::new();
    for check in &found.checks {
        let _ = writeln!(all, "{:4}  {:widest$}  {}", check.verdict.word(), check.check, check.text);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_check() {
        let mut found = Examination::default();
        found.add("cpus", Verdict::Ok, "4 online");
        found.add("vm web", Verdict::Warn, "process 7: blind");
        assert_eq!(text(&found), "ok    cpus    4 online\nwarn  vm web  process 7: blind\n");
    }
}
