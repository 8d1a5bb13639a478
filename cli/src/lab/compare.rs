// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab compare`: a scenario in the simulator, on a real kernel and on a real hypervisor, in one table.

use super::without;
use crate::{args, jobs, output, simulate, table};
use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use takt_control::{Document, PolicySpec, document};
use takt_lab::hosts::{self, Comparison, Did, Difference, FIGURES, HostRun, LINUX, SIMULATOR, TOLERANCE, XEN};
use takt_lab::{Lab, linux, xen};

/// What `takt lab compare --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Compared<'a> {
    /// Figures that are more than 10 % away from the simulator's.
    #[serde(serialize_with = "document::sorted")]
    pub differences: Vec<Difference>,
    /// By host and figure: Kendall's tau of the order of the policies and that in the simulator, 1
    /// if they are the same.
    pub order: BTreeMap<&'static str, BTreeMap<&'static str, f64>>,
    /// By host, in the order simulator, Linux, Xen; then by policy.
    #[serde(serialize_with = "document::sorted")]
    pub rows: &'a [Did],
    /// What the rows are made of.
    #[serde(serialize_with = "document::sorted")]
    pub runs: &'a [HostRun],
}

impl Document for Compared<'_> {
    const NAME: &'static str = "compare";
    const VERSION: u32 = 1;
}

impl<'a> From<&'a Comparison> for Compared<'a> {
    fn from(c: &'a Comparison) -> Self {
        let order = |host| (host, FIGURES.into_iter().map(|(name, of)| (name, c.agreement(host, of))).collect());
        Self {
            differences: c.differences(),
            order: [LINUX, XEN].into_iter().map(order).collect(),
            rows: &c.rows,
            runs: &c.runs,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input, something that a lab needs is missing, or a run that fails.
pub fn run(args: &args::LabCompare) -> Result<bool> {
    let settings = simulate::settings(&args.set.set)?;
    let scenarios = simulate::scenarios(std::slice::from_ref(&args.file), args.duration.as_deref(), &settings)?;
    let scenario = scenarios.first().context("no scenario")?;
    let names = if args.policies.is_empty() { &scenario.policies } else { &args.policies };
    let policies = PolicySpec::list(names.iter().map(String::as_str)).context("--policy")?;
    ensure!(policies.len() > 1, "{}: {} policies; allowed: two or more (--policy)", scenario.name, policies.len());
    hosts::check(scenario, &policies).with_context(|| scenario.name.clone())?;
    ensure!(cfg!(feature = "linux"), "{}", without::LINUX);
    linux::qemu()?;
    let labs = (Lab::new(linux::KERNELS[0])?, xen::Lab::new()?);
    let run = |_: &(), _: &mut dyn FnMut(f64)| Comparison::run(scenario, &policies, &args.seed.0, &labs.0, &labs.1);
    let all = jobs::run("comparing hosts", &[()], run).with_context(|| scenario.name.clone())?;
    let comparison = all.first().context("no comparison")?;
    if args.json {
        output::print_json(&Compared::from(comparison))?;
    } else {
        output::print(&text(&scenario.title, comparison))?;
    }
    Ok(true)
}

fn text(title: &str, c: &Comparison) -> String {
    let head: Vec<_> = ["host", "policy"].into_iter().chain(FIGURES.map(|f| f.0)).collect();
    let rows: Vec<Vec<String>> = c
        .rows
        .iter()
        .map(|row| {
            let figures = FIGURES.map(|(_, of)| format!("{:.1}", of(&row.figures)));
            [row.host.to_owned(), row.policy.clone()].into_iter().chain(figures).collect()
        })
        .collect();
    let mut text = table::render(title, &head, &rows, 2..);
    for (name, of) in FIGURES {
        let (linux, xen) = (c.agreement(LINUX, of), c.agreement(XEN, of));
        text += &format!(
            "order of policies by {name}: Kendall's tau against the {SIMULATOR} is {linux:.2} on {LINUX}, {xen:.2} on {XEN}\n"
        );
    }
    let differences = c.differences();
    text += &format!("figures more than {:.0} % from the {SIMULATOR} (docs/lab.md explains why):\n", TOLERANCE * 100.0);
    for d in &differences {
        text += &format!("  {}, {}: {} {:.1} instead of {:.1}\n", d.host, d.policy, d.figure, d.here, d.simulated);
    }
    if differences.is_empty() {
        text += "  nothing\n";
    }
    text
}
