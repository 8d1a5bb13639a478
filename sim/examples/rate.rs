// SPDX-License-Identifier: GPL-2.0-only
//! How many events per second the simulator dequeues: `rate FILE [POLICY [SEED [KEY=VALUE]...]]`, one line per policy.

use anyhow::{Context, Result};
use std::time::Instant;
use takt_control::PolicySpec;
use takt_sim::{Options, Scenario, run};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let file = args.next().context("a scenario file")?;
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    let mut scenario = Scenario::from_toml(&text, &file)?;
    let policy = args.next();
    let seed = args.next().map_or(Ok(1), |s| s.parse())?;
    for set in args {
        let (key, value) = set.split_once('=').context("KEY=VALUE")?;
        scenario.set(key, value)?;
    }
    let policies = policy.map_or_else(|| scenario.policies.clone(), |p| vec![p]);
    for policy in policies {
        let begin = Instant::now();
        let (r, _, _) = run(&scenario, &PolicySpec::parse(&policy)?, seed, Options::default())?;
        let seconds = begin.elapsed().as_secs_f64();
        let h = &r.host;
        let pesq = r.vms.iter().find_map(|v| v.voip.as_ref()).map_or(0.0, |v| v.mean_pesq);
        let work: f64 = r.vms.iter().map(|v| v.work).sum();
        println!(
            "{policy}: PESQ {pesq:.2}, batch work {work:.2} s; {:.2} M events/s ({} events, {} cancelled, {} policy operations, {seconds:.3} s)",
            (h.events + h.cancelled_events) as f64 / seconds / 1e6,
            h.events,
            h.cancelled_events,
            h.policy_ops
        );
    }
    Ok(())
}
