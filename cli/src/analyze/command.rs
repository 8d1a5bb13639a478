// SPDX-License-Identifier: GPL-2.0-only
//! The command `takt analyze`.

use super::{Admission, Analysis, analyse, latency, show};
use crate::{args, output, simulate};
use anyhow::{Context, Result, ensure};
use takt_control::PolicySpec;
use takt_sim::Scenario;

/// Asks each of `policies` that keeps budgets for room, as a run would; if none does, all that do
/// are asked with their defaults.
fn admission(s: &Scenario, policies: &[PolicySpec], seed: u64) -> Result<Vec<Admission>> {
    let ask = |policy: &PolicySpec| {
        let answer = takt_sim::admits(s, policy, seed)?;
        Some(Admission { policy: policy.label.clone(), refusal: answer.err().map(|e| e.root_cause().to_string()) })
    };
    let named: Vec<_> = policies.iter().filter_map(ask).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let with_budgets = takt_policy::policies().into_iter().filter(|p| p.has("budgets"));
    let with_budgets: Vec<_> = with_budgets.map(|p| p.name).collect();
    Ok(PolicySpec::list(with_budgets.into_iter())?.iter().filter_map(ask).collect())
}

/// Runs the command; the value says whether every VM fits, and every latency holds.
///
/// # Errors
/// Bad input.
pub fn run(args: &args::Analyze) -> Result<bool> {
    let settings = simulate::settings(&args.set.set)?;
    let given = PolicySpec::list(args.policies.iter().map(String::as_str)).context("--policy")?;
    let scenarios = simulate::scenarios(std::slice::from_ref(&args.file), None, &settings)?;
    let s = &scenarios[0];
    let poris = latency::all(s)?;
    let mut analysis = Analysis { poris, ..analyse(s, args.seed) };
    let file = args.file.display();
    ensure!(
        !analysis.vcpus.is_empty() || !analysis.poris.is_empty(),
        "{file}: nothing to analyze: no VM has a budget and a period, or rt = \"on\""
    );
    if !analysis.vcpus.is_empty() {
        let policies = simulate::policies(&given, s)?;
        analysis.admission = admission(s, &policies, args.seed)?;
    }
    if args.json {
        output::print_json(&analysis)?;
    } else {
        output::print(&show::text(&analysis))?;
    }
    Ok(analysis.holds())
}
