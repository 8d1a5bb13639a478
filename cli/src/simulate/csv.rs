// SPDX-License-Identifier: GPL-2.0-only
//! `takt sim --csv`: a row for each VM, policy and seed.

use super::columns::Columns;
use super::compare::Job;
use super::seen::Seen;
use std::slice;
use takt_sim::RunResult;

/// A cell (RFC 4180).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

fn line(cells: &[impl AsRef<str>]) -> String {
    cells.iter().map(|c| quoted(c.as_ref())).collect::<Vec<_>>().join(",") + "\n"
}

/// Names of the columns, then the VMs of each run, in the order of JSON.
pub(super) fn text(jobs: &[Job], runs: &[RunResult], columns: &Columns) -> String {
    let mut out = line(&columns.names());
    for (job, run) in jobs.iter().zip(runs) {
        let run = (job.policy.label.as_str(), run);
        for vm in &run.1.vms {
            let spec = job.scenario.vms.iter().find(|spec| spec.names().any(|name| name == vm.name));
            let seen = Seen::new(&vm.name, run.0, spec, slice::from_ref(&run));
            out.extend(seen.map(|seen| line(&columns.values(&seen))));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must() {
        let cells = ["plain", "", "a b", "credit(slice=5ms,dom0=off)", "say \"x\"", "two\nlines", "\r"];
        let want = "plain,,a b,\"credit(slice=5ms,dom0=off)\",\"say \"\"x\"\"\",\"two\nlines\",\"\r\"\n";
        assert_eq!(line(&cells), want);
    }
}
