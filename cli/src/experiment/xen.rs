// SPDX-License-Identifier: GPL-2.0-only
//! An experiment in the Xen lab: the same scenarios under the real hypervisor, a boot for each variant and point.

use super::data::{Experiment, ON_XEN};
use super::options::Options;
use crate::row::{Row, X};
use crate::{jobs, temporary};
use anyhow::{Context, Result};
use takt_lab::xen::{self, Lab};
use takt_sim::Scenario;

/// All schedulers and seeds, one after the other.
struct Boot {
    variant: String,
    x: X,
    scenario: Scenario,
}

/// Rows of the experiment's schedulers of the Xen lab; none if it has none.
///
/// # Errors
/// What the lab lacks or cannot do, or what went wrong in the machine.
pub fn rows(e: &Experiment, options: &Options) -> Result<Vec<Row>> {
    let (schedulers, Some(sweep)) = (e.in_xen()?, &e.sweep) else { return Ok(Vec::new()) };
    if schedulers.is_empty() {
        return Ok(Vec::new());
    }
    let mut boots = Vec::new();
    for variant in e.variants() {
        for x in options.points(sweep) {
            let scenario = options.scenario_of(e, variant, &x, "")?;
            for scheduler in &schedulers {
                xen::check(&scenario, scheduler).with_context(|| format!("{} under {scheduler}", e.id))?;
            }
            boots.push(Boot { variant: variant.map_or_else(String::new, |v| v.name.clone()), x, scenario });
        }
    }
    let _scratch = temporary::scratch()?;
    let lab = Lab::new()?;
    lab.prepare()?;
    let seeds = &options.seeds(e).0;
    let rows = jobs::run("in the Xen lab", &boots, |boot, _| {
        let what = || format!("{} {} in the Xen lab", boot.variant, boot.x);
        let (runs, _) = lab.run(&boot.scenario, &schedulers, seeds, false).with_context(what)?;
        let row = |run: &takt_lab::LabRun| {
            let mut row = Row::from_run(&run.result, &format!("{}{ON_XEN}", run.result.policy), boot.x.clone());
            row.variant.clone_from(&boot.variant);
            row
        };
        Ok(runs.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(rows.concat())
}
