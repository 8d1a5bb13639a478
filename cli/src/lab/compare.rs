// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab compare`: a scenario in the simulator, on a real kernel and on a real hypervisor, in one table.

use crate::{args, jobs, output, simulate, table};
use anyhow::{Context, Result, ensure};
use takt_control::PolicySpec;
use takt_lab::hosts::{Comparison, FIGURES, LINUX, SIMULATOR, TOLERANCE, XEN};
use takt_lab::{Kernel, Lab, linux, xen};

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
    ensure!(cfg!(feature = "linux"), "this takt is built without the Linux host (cargo build --features linux)");
    linux::qemu()?;
    let labs = (Lab::new(Kernel::get(linux::KERNELS[0])?)?, xen::Lab::new()?);
    let run = |_: &(), _: &mut dyn FnMut(f64)| Comparison::run(scenario, &policies, &args.seed.0, &labs.0, &labs.1);
    let all = jobs::run("comparing hosts", &[()], run).with_context(|| scenario.name.clone())?;
    let comparison = all.first().context("no comparison")?;
    if args.json {
        let order = |host| {
            let agreement = |(name, of): (&str, _)| (name.to_owned(), comparison.agreement(host, of).into());
            FIGURES.into_iter().map(agreement).collect::<serde_json::Map<_, _>>()
        };
        let differences = comparison.differences();
        output::print_json(&serde_json::json!({
            "rows": comparison.rows, "order": {LINUX: order(LINUX), XEN: order(XEN)}, "differences": differences,
            "runs": comparison.runs,
        }))?;
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
    let mut text = table::render(title, &head, &rows, 2);
    for (name, of) in FIGURES {
        let (linux, xen) = (c.agreement(LINUX, of), c.agreement(XEN, of));
        text += &format!(
            "order of policies by {name}: agrees with the {SIMULATOR}'s by {linux:.2} on {LINUX}, {xen:.2} on {XEN}\n"
        );
    }
    let differences = c.differences();
    text += &format!("more than {:.0} % from the {SIMULATOR} (docs/lab.md says why):\n", TOLERANCE * 100.0);
    for d in &differences {
        text += &format!("  {}, {}: {} {:.1}, not {:.1}\n", d.host, d.policy, d.figure, d.here, d.simulated);
    }
    if differences.is_empty() {
        text += "  nothing\n";
    }
    text
}
