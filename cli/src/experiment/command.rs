// SPDX-License-Identifier: GPL-2.0-only
//! The command `takt experiment`.

use super::data::Experiment;
use super::options::Options;
use super::{Listed, page, plan, sensitivity, show};
use crate::{args, output};
use anyhow::{Result, bail};

/// Runs the command; the value says whether all gates hold.
///
/// # Errors
/// Bad input, a run that fails, or output that cannot be written.
pub fn run(args: &args::Experiment) -> Result<bool> {
    if args.id == "list" {
        if args.out.html.is_some() || args.out.svg.is_some() {
            bail!("list: writes no report; allowed: --json");
        }
        return list(args.out.json);
    }
    // What needs the Xen lab is asked for by its name.
    let experiments = if args.id == "all" {
        Experiment::all()?.into_iter().filter(|e| e.xen.is_empty()).collect()
    } else {
        vec![Experiment::find(&args.id)?]
    };
    let options = Options::new(args)?;
    let has_host = experiments.iter().any(|e| e.scenario.is_some());
    if let (false, Some((key, value))) = (has_host, options.set.first()) {
        bail!("--set {key}={value}: {} has no scenario; allowed: --seeds and --duration", args.id);
    }
    for e in &experiments {
        options.fits(e)?;
    }
    let [html, svg] = output::open([args.out.html.as_ref(), args.out.svg.as_ref()], &[])?;
    let mut outcomes = plan::run(&experiments, &options)?;
    if args.sensitivity {
        for (e, outcome) in experiments.iter().zip(&mut outcomes) {
            outcome.sensitivity = sensitivity::run(e, &options)?;
        }
    }
    if let Some(file) = html {
        file.write(page::page(&experiments, &outcomes, &options)?.html()?.as_bytes())?;
    }
    if let Some(file) = svg {
        file.write(page::main_chart(&experiments, &outcomes)?.as_bytes())?;
    }
    if args.out.json {
        match &outcomes[..] {
            [one] if args.id != "all" => output::print_json(one)?,
            all => output::print_list(all)?,
        }
    } else {
        output::print(
            &experiments.iter().zip(&outcomes).map(|(e, o)| show::text(e, o)).collect::<Vec<_>>().join("\n"),
        )?;
    }
    Ok(outcomes.iter().all(|o| o.holds(args.known)))
}

fn list(json: bool) -> Result<bool> {
    let all = Experiment::all()?;
    if json {
        output::print_list(&all.into_iter().map(Listed::from).collect::<Vec<_>>())?;
    } else {
        output::print(&show::list(&all))?;
    }
    Ok(true)
}
