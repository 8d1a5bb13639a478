// SPDX-License-Identifier: GPL-2.0-only
//! A media server of two VCPUs, the VM that answers its calls and four CPU jobs in the real hypervisor (`scenarios/media.toml`): what Lee
//! et al. found of S against Credit and against PCPUs of their own (LAXS-E4 and LAXS-E5).
//!
//! `cargo build --release -p takt --features takt/linux,takt/xen && cargo test --release -p takt-lab --test media -- --nocapture --include-ignored`

#[path = "common/called.rs"]
mod called;
#[path = "common/scenarios.rs"]
mod scenarios;

use called::{calls, cpu, runs, spoke, sum, work};
use takt_lab::LabRun;

/// Those of the table in docs/lab.md.
const SEEDS: [u64; 9] = [31, 32, 33, 34, 35, 36, 37, 38, 39];
const SCHEDULERS: [&str; 5] = ["pin", "base", "A", "AL", "ALL"];
/// Both parties of six calls.
const STREAMS: u32 = 12;
/// PESQ of a stream that is good enough (LAXS-E1).
const TOLL: f64 = 4.0;
/// CPU time of the jobs under S, in that with PCPUs of the calls' own and in that under Credit, at least (LAXS-E5).
const OVER_PIN: f64 = 1.6;
const OVER_BASE: f64 = 0.9;

/// Streams below toll quality, percent.
fn below(runs: &[LabRun]) -> f64 {
    let all: Vec<f64> = runs.iter().flat_map(|run| &calls(run).calls).map(|c| c.pesq).collect();
    100.0 * all.iter().filter(|&&pesq| pesq < TOLL).count() as f64 / all.len() as f64
}

/// Of a class of Media-S' VCPUs together: how often they entered a queue in it, and for how long they ran then, us.
fn entered(run: &LabRun, class: &str) -> (u64, f64) {
    let status = run.lab.status.as_ref().expect("status");
    let vm = status["vms"].as_array().expect("VMs").iter().find(|v| v["name"] == "media-s").expect("media-s");
    let of = |v: &serde_json::Value| {
        let w = &v["waits"][class];
        let count = w["count"].as_u64().unwrap_or(0);
        (count, count as f64 * w["run_us"].as_f64().unwrap_or(0.0))
    };
    let all = vm["vcpus"].as_array().expect("VCPUs").iter().map(of);
    let (count, ran) = all.fold((0, 0.0), |(count, ran), (c, r)| (count + c, ran + r));
    (count, ran / count.max(1) as f64)
}

#[test]
#[ignore = "an hour and a half on two idle cores"]
fn s_serves_calls_nearly_as_well_as_pcpus_of_their_own_and_leaves_more_to_others() {
    let Some(all) = runs("a media server in Xen", &[scenarios::scenario("media.toml")], &SCHEDULERS, &SEEDS) else {
        return;
    };
    let [pin, base, a, al, s] = [0, 1, 2, 3, 4].map(|n: usize| &all[n][0]);
    for (name, runs) in SCHEDULERS.iter().zip([pin, base, a, al, s]) {
        runs.iter().for_each(|run| spoke(run, STREAMS));
        let under: Vec<_> = runs.iter().map(|run| entered(run, "under")).collect();
        println!(
            "{name}: {:.0} % of the streams below {TOLL}, jobs {:.2} CPU-s; UC and UT {under:.0?}",
            below(runs),
            sum(runs, cpu)
        );
    }
    assert!(below(base) > below(pin), "LAXS-E1: {} and {} %", below(base), below(pin));
    assert!(below(s) < below(base), "S as a whole: {} and {} %", below(s), below(base));
    let median = |runs: &[LabRun]| {
        let mut all: Vec<f64> = runs.iter().flat_map(|run| &calls(run).calls).map(|c| c.pesq).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    assert!(median(s) >= median(pin) - 0.1, "LAXS-E4: {} and {}", median(s), median(pin));
    let late = |runs: &[LabRun]| sum(runs, |run| calls(run).late_lost_pct);
    assert!(late(s) < late(a) && late(s) < late(al), "LAXS-E10: {} of {} and {}", late(s), late(a), late(al));
    let (over_pin, over_base) = (sum(s, cpu) / sum(pin, cpu), sum(s, cpu) / sum(base, cpu));
    println!(
        "jobs under S: {over_pin:.2} of pin's CPU time, {over_base:.2} of Credit's; work {:.2}",
        sum(s, work) / sum(pin, work)
    );
    assert!(over_pin >= OVER_PIN && over_base >= OVER_BASE, "{over_pin}, {over_base}");
    // Known to be missed (docs/lab.md), as experiments' files have it: told, and nothing is decided by it.
    let word = if below(a) < below(base) { "ok" } else { "MISSED" };
    println!("{word} LAXS-E6, A alone against Credit: {:.0} and {:.0} %", below(a), below(base));
}
