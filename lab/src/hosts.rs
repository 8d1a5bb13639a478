// SPDX-License-Identifier: GPL-2.0-only
//! One scenario of periodic VMs and hogs on all hosts: the simulator, the real kernel, the real hypervisor. Whether they put the
//! policies in one order, and where their figures differ.

use crate::{Lab, Scheduler, guests, xen};
use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::Serialize;
use takt_control::PolicySpec;
use takt_sim::result::{RunResult, WaitStat};
use takt_sim::{Kind, Options, Scenario};

pub const SIMULATOR: &str = "simulator";
pub const LINUX: &str = "linux";
pub const XEN: &str = "xen";

/// What is compared. Waits are medians over VMs with tasks and over seeds, misses over seeds: one that had bad luck does not make the
/// figure. Under credit a VM that falls behind never blocks, so nothing boosts it, and may go on missing for a second: of a thousand
/// runs in the simulator most miss 0 to 3 jobs, the worst 10, and 58 where jobs take 15 % longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Jobs that were not done when they were due, of all these VMs in a run.
    pub missed: f64,
    /// From a job's release to its beginning, µs.
    pub wait_p50_us: f64,
    pub wait_p99_us: f64,
    /// The 99th percentile of the VM that waits longest in a run, the median over seeds. Where few jobs wait, those of single VMs are
    /// decided by chance; a run in which no VM waits is rare.
    pub worst_p99_us: f64,
    /// Of the hogs, CPU-seconds.
    pub work_s: f64,
}

/// Name of a figure, and how to get it.
pub type Figure = (&'static str, fn(&Figures) -> f64);
pub const FIGURES: [Figure; 5] = [
    ("missed", |f| f.missed),
    ("wait p50 us", |f| f.wait_p50_us),
    ("wait p99 us", |f| f.wait_p99_us),
    ("worst VM's p99 us", |f| f.worst_p99_us),
    ("batch CPU-s", |f| f.work_s),
];

/// What a policy did on a host, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Did {
    pub host: &'static str,
    pub policy: String,
    #[serde(flatten)]
    pub figures: Figures,
}

/// A figure that differs from the simulator's by more than 10 %.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    pub host: &'static str,
    pub policy: String,
    pub figure: &'static str,
    pub here: f64,
    pub simulated: f64,
}

pub const TOLERANCE: f64 = 0.1;

/// All of it; hosts in the order simulator, Linux, Xen, and on each the policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    pub rows: Vec<Did>,
    /// What the rows are made of.
    pub runs: Vec<HostRun>,
}

/// A run on one of the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostRun {
    /// `simulator`, `linux` or `xen`; `host` is the machine's part of the result.
    #[serde(rename = "on")]
    pub host: &'static str,
    #[serde(flatten)]
    pub result: RunResult,
}

/// The policies as the labs name them.
#[derive(Debug)]
pub struct Schedulers {
    on_linux: Vec<Scheduler>,
    in_xen: Vec<xen::Scheduler>,
}

/// Whether a scenario can be compared; nothing is fetched or run for that.
///
/// # Errors
/// No VM counts jobs, a VM needs a network, or a lab cannot run the scenario under a policy.
pub fn check(s: &Scenario, policies: &[PolicySpec]) -> Result<Schedulers> {
    let in_both = |kind: Kind| guests::of(kind).linux && guests::of(kind).xen && !xen::needs_network(kind);
    let named = |all: fn(Kind) -> bool| {
        let names = Kind::ALL.iter().filter(|&&kind| in_both(kind) && all(kind)).map(|kind| kind.name());
        names.collect::<Vec<_>>().join(", ")
    };
    if let Some(vm) = s.vms.iter().find(|vm| xen::needs_network(vm.workload.kind())) {
        let (name, kind) = (&vm.name, vm.workload.name());
        bail!("vm.{name}.workload: {kind} needs a network; allowed in a comparison: {}", named(|_| true));
    }
    let jobs = |kind: Kind| guests::of(kind).jobs;
    let any = s.vms.iter().any(|vm| jobs(vm.workload.kind()));
    ensure!(any, "vm: no jobs to compare; allowed: at least one VM with {}", named(jobs));
    let on_linux = policies.iter().map(|p| Scheduler::parse(&p.label)).collect::<Result<Vec<_>>>()?;
    let in_xen: Vec<_> = policies.iter().map(|p| xen::Scheduler::Takt(p.clone())).collect();
    on_linux.iter().try_for_each(|scheduler| crate::check(s, scheduler))?;
    in_xen.iter().try_for_each(|scheduler| xen::check(s, scheduler))?;
    Ok(Schedulers { on_linux, in_xen })
}

impl Comparison {
    /// Runs a scenario everywhere, one machine after the other.
    ///
    /// # Errors
    /// What `check` refuses; what went wrong in a machine.
    pub fn run(s: &Scenario, policies: &[PolicySpec], seeds: &[u64], linux: &Lab, xen: &xen::Lab) -> Result<Self> {
        let Schedulers { on_linux, in_xen } = check(s, policies)?;
        let mut all = Self::default();
        for policy in policies {
            let run = |&seed: &u64| Ok(takt_sim::run(s, policy, seed, Options::default())?.0);
            all.add(SIMULATOR, policy, seeds.iter().map(run).collect::<Result<Vec<_>>>().context(SIMULATOR)?);
        }
        let linux = linux.run(s, &on_linux, seeds).context(LINUX)?;
        let (xen, _) = xen.run(s, &in_xen, seeds, false).context(XEN)?;
        for (host, runs) in [(LINUX, linux), (XEN, xen)] {
            for (policy, runs) in policies.iter().zip(runs.chunks(seeds.len())) {
                all.add(host, policy, runs.iter().map(|r| r.result.clone()).collect());
            }
        }
        Ok(all)
    }

    fn add(&mut self, host: &'static str, policy: &PolicySpec, runs: Vec<RunResult>) {
        self.rows.push(Did { host, policy: policy.label.clone(), figures: Figures::of(&runs) });
        self.runs.extend(runs.into_iter().map(|result| HostRun { host, result }));
    }

    pub fn on(&self, host: &str) -> impl Iterator<Item = &Did> {
        self.rows.iter().filter(move |r| r.host == host)
    }

    /// Kendall's τ of the policies' order by a figure here and in the simulator: 1 if it is the same.
    pub fn agreement(&self, host: &str, of: fn(&Figures) -> f64) -> f64 {
        let order = |host: &str| self.on(host).map(|d| of(&d.figures)).collect::<Vec<_>>();
        tau(&order(host), &order(SIMULATOR))
    }

    /// Run by run, whether the VM that waits longest waits less under a policy than under the one before it in the simulator's order:
    /// how many of these comparisons agree, and how many there are.
    pub fn runs_in_order(&self, host: &str) -> (u32, u32) {
        let mut order: Vec<&Did> = self.on(SIMULATOR).collect();
        order.sort_by(|a, b| b.figures.worst_p99_us.total_cmp(&a.figures.worst_p99_us));
        let runs = |policy: &str| -> Vec<(u64, f64)> {
            let mine = self.runs.iter().filter(|r| r.host == host && r.result.policy == policy);
            mine.map(|r| (r.result.seed, worst_us(&r.result))).collect()
        };
        let mut found = (0, 0);
        for pair in order.windows(2) {
            let after = runs(&pair[1].policy);
            for (seed, before) in runs(&pair[0].policy) {
                let Some((_, here)) = after.iter().find(|(s, _)| *s == seed) else { continue };
                found.0 += u32::from(*here < before);
                found.1 += 1;
            }
        }
        found
    }

    /// What differs from the simulator.
    pub fn differences(&self) -> Vec<Difference> {
        let simulated = |row: &Did| self.on(SIMULATOR).find(|d| d.policy == row.policy).map(|d| d.figures);
        let mut all = Vec::new();
        for row in self.rows.iter().filter(|r| r.host != SIMULATOR) {
            let Some(there) = simulated(row) else { continue };
            for (figure, of) in FIGURES {
                let (here, simulated) = (of(&row.figures), of(&there));
                if (here - simulated).abs() > TOLERANCE * simulated.abs() {
                    all.push(Difference { host: row.host, policy: row.policy.clone(), figure, here, simulated });
                }
            }
        }
        all
    }
}

impl Figures {
    fn of(runs: &[RunResult]) -> Self {
        let work = |r: &RunResult| r.vms.iter().map(|v| v.work).sum::<f64>();
        let tasks = |r: &RunResult| r.vms.iter().filter_map(|v| v.periodic).collect::<Vec<_>>();
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            if all.is_empty() { 0.0 } else { takt_sim::quantile(&all, 0.5) }
        };
        let missed = |r: &RunResult| tasks(r).iter().map(|t| t.missed).sum::<u64>() as f64;
        let wait_us = |of: fn(&WaitStat) -> u64| {
            median(runs.iter().flat_map(tasks).map(|t| of(&t.latency) as f64 / 1e3).collect())
        };
        Self {
            worst_p99_us: median(runs.iter().map(worst_us).collect()),
            missed: median(runs.iter().map(missed).collect()),
            wait_p50_us: wait_us(|w| w.p50_ns),
            wait_p99_us: wait_us(|w| w.p99_ns),
            work_s: runs.iter().map(work).sum::<f64>() / runs.len().max(1) as f64,
        }
    }
}

/// 99th percentile of the waits of the VM that waits longest, µs.
fn worst_us(r: &RunResult) -> f64 {
    let p99 = r.vms.iter().filter_map(|v| v.periodic.as_ref()).map(|t| t.latency.p99_ns);
    p99.max().unwrap_or(0) as f64 / 1e3
}

/// How likely a fair coin shows heads `heads` times or more of `of`: a sign test.
pub fn chance((heads, of): (u32, u32)) -> f64 {
    let ways = |k: u32| (0..k).fold(1.0, |n, i| n * f64::from(of - i) / f64::from(i + 1));
    (heads..=of).map(ways).sum::<f64>() / 2f64.powi(of as i32)
}

/// Kendall's τ of two orders of the same things: concordant pairs less discordant ones, of all.
pub fn tau(a: &[f64], b: &[f64]) -> f64 {
    let pairs = (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let signs: Vec<f64> = pairs
        .map(|(i, j)| match ((a[i] - a[j]) * (b[i] - b[j])).partial_cmp(&0.0) {
            Some(std::cmp::Ordering::Greater) => 1.0,
            Some(std::cmp::Ordering::Less) => -1.0,
            _ => 0.0,
        })
        .collect();
    signs.iter().sum::<f64>() / signs.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compared_is_named() {
        let error = |workload: &str| {
            let text = format!(
                "duration = \"1s\"\n[machine]\npcpus = 1\n[[vm]]\nname = \"v\"\nvcpus = 1\nworkload = \"{workload}\""
            );
            let s = Scenario::from_toml(&text, "test.toml").unwrap();
            check(&s, &[PolicySpec::parse("credit").unwrap()]).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(error("periodic"), Ok(()));
        let hog = error("hog").unwrap_err();
        assert!(hog.starts_with("vm: no jobs to compare; allowed: at least one VM with periodic"), "{hog}");
        let voip = error("voip").unwrap_err();
        assert!(voip.starts_with("vm.v.workload: voip needs a network; allowed in a comparison: hog, "), "{voip}");
        assert!(!voip.contains(", voip"), "{voip}");
        assert!(error("stream").unwrap_err().starts_with("vm.v.workload: stream in the Xen lab; allowed: hog, "));
    }

    fn row(host: &'static str, policy: &str, wait_p99_us: f64, work_s: f64) -> Did {
        let figures = Figures { missed: 0.0, wait_p50_us: 2.0, wait_p99_us, worst_p99_us: wait_p99_us, work_s };
        Did { host, policy: policy.to_owned(), figures }
    }

    #[test]
    fn orders_and_differences() {
        let c = Comparison {
            rows: vec![
                row(SIMULATOR, "a", 10.0, 4.0),
                row(SIMULATOR, "b", 5.0, 4.0),
                row(XEN, "a", 10.9, 3.5),
                row(XEN, "b", 11.0, 3.7),
            ],
            runs: Vec::new(),
        };
        assert_eq!(c.agreement(XEN, |f| f.wait_p99_us), -1.0);
        assert_eq!(c.agreement(SIMULATOR, |f| f.wait_p99_us), 1.0);
        let of = |d: &Difference| (d.policy.clone(), d.figure);
        let all: Vec<_> = c.differences().iter().map(of).collect();
        let p99 = ["wait p99 us", "worst VM's p99 us"].map(|figure| ("b".to_owned(), figure));
        assert_eq!(all, [("a".to_owned(), "batch CPU-s"), p99[0].clone(), p99[1].clone()]);
    }

    #[test]
    fn a_coin_is_fair() {
        assert_eq!(chance((0, 4)), 1.0);
        assert_eq!(chance((4, 4)), 1.0 / 16.0);
        assert_eq!(chance((3, 4)), 5.0 / 16.0);
        assert!(chance((13, 18)) < 0.05 && chance((12, 18)) > 0.05);
    }

    #[test]
    fn tau_counts_pairs() {
        assert_eq!(tau(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0);
        assert!((tau(&[1.0, 2.0, 3.0], &[10.0, 30.0, 20.0]) - 1.0 / 3.0).abs() < 1e-9);
    }
}
