// SPDX-License-Identifier: GPL-2.0-only
//! Init of the emulated machine: goes through a scenario and leaves what it saw in the outbox.

use super::{attack, cgroups, ends, keep, load, network, packets, refuse, reload, risa, steady, why};
use crate::system;
use crate::takt::Takt;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;
use takt_qemu::outbox;

pub const PLAN: &str = "/plan";
pub const OUTCOME: &str = "outcome";
/// Until a booted kernel has come to rest.
const SETTLE: Duration = Duration::from_secs(3);

pub fn main() -> ! {
    let outcome = run().unwrap_or_else(|e| json!({"error": format!("{e:#}")}));
    let files = outbox::Files::from([(OUTCOME.to_owned(), outcome.to_string().into_bytes())]);
    if let Err(e) = outbox::send(&files) {
        println!("robust: {e:#}");
    }
    system::power_off();
}

fn run() -> Result<Value> {
    system::mount_all()?;
    let (scenario, long): (String, bool) = serde_json::from_str(&system::read(PLAN)?).context(PLAN)?;
    system::load_modules()?;
    std::thread::sleep(SETTLE);
    let times = if long { 10 } else { 1 };
    if let Some(under) = scenario.strip_prefix(steady::NAME) {
        let words: Vec<_> = under.split_whitespace().collect();
        let (policy, settings) = words.split_first().context("no policy")?;
        return steady::steady(policy, settings);
    }
    match scenario.as_str() {
        "loads" => load::loads(times),
        "ends" => ends::ends(times),
        "hotplug" => ends::hotplug(times),
        "attacks" => attack::attacks(times, false),
        "attacks with more VCPUs" => attack::attacks(times, true),
        "cgroups" => cgroups::compare(),
        "cgroups abused" => cgroups::abuse(),
        "policies" => policies(),
        "packets" => packets::packets(),
        "segments" => packets::segments(),
        "refusals" => refuse::refusals(),
        "reloads" => reload::reloads(),
        "risa" => risa::pools(),
        "why" => why::causes(),
        "keeps" => keep::cost(),
        network::NAME => network::costs(),
        _ => bail!("no scenario {scenario}"),
    }
}

/// Each policy with programs of its own schedules the machine for a moment.
fn policies() -> Result<Value> {
    let names: Vec<_> = takt_policy::policies().iter().map(|p| p.name).chain(["risa"]).collect();
    let begins = |name: &&str| Takt::run_free(&["--policy", name])?.stop().with_context(|| (*name).to_owned());
    let said = names.iter().map(begins).collect::<Result<Vec<_>>>()?;
    Ok(json!({"policies": names, "said": said}))
}
