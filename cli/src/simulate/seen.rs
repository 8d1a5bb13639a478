// SPDX-License-Identifier: GPL-2.0-only
//! A VM under a policy, in one run or in the mean of several.

use takt_control::{RtMode, duration as time};
use takt_sim::promise::{Figure, Promise};
use takt_sim::result::{VmResult, WaitStat};
use takt_sim::{RunResult, VmSpec};

pub(super) struct Seen<'a> {
    pub name: &'a str,
    pub policy: &'a str,
    /// Entry of the scenario; Dom0 has none.
    pub spec: Option<&'a VmSpec>,
    /// One or more.
    pub runs: Vec<(&'a RunResult, &'a VmResult)>,
    pub promise: Option<Promise>,
}

impl<'a> Seen<'a> {
    /// Of runs, each with the label of its policy; `None` if none of them has the VM.
    pub fn new(
        name: &'a str,
        policy: &'a str,
        spec: Option<&'a VmSpec>,
        runs: &[(&str, &'a RunResult)],
    ) -> Option<Self> {
        let mine = runs.iter().filter(|(label, _)| *label == policy);
        let runs: Vec<_> = mine.filter_map(|&(_, r)| Some((r, r.vms.iter().find(|vm| vm.name == name)?))).collect();
        let promises: Vec<_> = runs.iter().filter_map(|(r, vm)| vm.promise(r.duration_ns)).collect();
        let promise = (!promises.is_empty()).then(|| mean_promise(&promises));
        (!runs.is_empty()).then_some(Self { name, policy, spec, runs, promise })
    }

    /// The mean over the runs that have such a figure.
    pub fn mean(&self, of: impl Fn(&RunResult, &VmResult) -> Option<f64>) -> Option<f64> {
        let values: Vec<_> = self.runs.iter().filter_map(|(run, vm)| of(run, vm)).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    /// A figure of its waits, if it has queued at all.
    pub fn wait(&self, of: impl Fn(&WaitStat) -> u64) -> Option<f64> {
        self.mean(|_, vm| vm.wait.get("all").filter(|w| w.entries > 0).map(|w| of(w) as f64))
    }

    /// When it was found real-time, ns from the beginning of the run.
    pub fn since(&self) -> Option<f64> {
        self.mean(|run, vm| vm.found.as_ref().map(|f| (f.at_ns + run.warmup_ns as i64) as f64))
    }

    /// Its period while it is real-time, ns.
    pub fn period(&self) -> Option<f64> {
        let guest = self.spec.is_some();
        self.mean(|_, vm| (guest && vm.rt && vm.period_ns > 0).then_some(vm.period_ns as f64))
    }

    /// By what it is real-time, at the end; Dom0 has no type of its own.
    pub fn rule(&self) -> Option<String> {
        let spec = self.spec?;
        let rt: Vec<_> = self.runs.iter().filter(|(_, vm)| vm.rt).collect();
        let Some((_, vm)) = rt.first() else { return Some("no".into()) };
        let rule = match &vm.found {
            _ if spec.params.rt() == RtMode::On => "by hand",
            Some(found) => &found.rule,
            None => "yes",
        };
        Some(match (rt.len(), self.runs.len()) {
            (some, all) if some < all => format!("{rule}, {some} of {all} seeds"),
            _ => rule.to_owned(),
        })
    }

    /// What a reader wants to know first: a figure of what it did, and what it is.
    pub fn headline(&self) -> Option<(String, String)> {
        let promise = self.promise.as_ref()?;
        let first = promise.figures.first()?;
        let rest: Vec<_> = promise.figures[1..].iter().map(words).collect();
        let value = words(&Figure { name: "", ..*first }).trim().to_owned();
        Some((value, format!("{} of {} under {}; {}", first.name, self.name, self.policy, rest.join(", "))))
    }

    /// What it did, in words.
    pub fn did(&self) -> String {
        if let Some(promise) = &self.promise {
            return promise.figures.iter().map(words).collect::<Vec<_>>().join(", ");
        }
        match self.mean(|_, vm| Some(vm.work)) {
            Some(work) if work > 0.0 => format!("work {work:.2} CPU-s"),
            _ => format!("CPU {:.2} s", self.mean(|_, vm| Some(vm.cpu_time_ns as f64 / 1e9)).unwrap_or(0.0)),
        }
    }
}

/// `late or lost 0.00 %`, `p99 17.3ms`.
fn words(f: &Figure) -> String {
    match f.unit {
        "ns" => format!("{} {}", f.name, time::human(f.value)),
        "" => format!("{} {:.*}", f.name, f.decimals, f.value),
        unit => format!("{} {:.*} {unit}", f.name, f.decimals, f.value),
    }
}

/// Of a VM's promises under equal workloads: the mean of each figure.
fn mean_promise(all: &[Promise]) -> Promise {
    let of = |n: usize, f: &Figure| {
        let values: Vec<_> = all.iter().filter_map(|p| Some(p.figures.get(n)?.value)).collect();
        Figure { value: mean(&values), ..*f }
    };
    Promise {
        failed: mean(&all.iter().map(|p| p.failed).collect::<Vec<_>>()),
        figures: all[0].figures.iter().enumerate().map(|(n, f)| of(n, f)).collect(),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
