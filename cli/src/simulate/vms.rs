// SPDX-License-Identifier: GPL-2.0-only
//! A row for each VM that was to do something in time, under each policy: the VM that suffers most
//! comes first.

use std::cmp::Ordering;
use std::ops::Range;
use takt_control::{PolicySpec, RtMode, duration as time};
use takt_sim::promise::{Figure, Promise};
use takt_sim::result::{VmResult, WaitStat};
use takt_sim::{RunResult, Scenario, VmSpec};

/// VMs of which a table has rows without `--all`.
const SHOWN: usize = 10;

pub(super) const HEAD: [&str; 9] =
    ["VM", "policy", "real-time", "since s", "period ms", "wait p50 us", "p99 us", "max us", "what it did"];

/// Columns that are numbers.
pub(super) const NUMBERS: Range<usize> = 3..8;

/// A table of VMs.
pub(super) struct Vms {
    pub rows: Vec<Vec<String>>,
    /// VMs without a row.
    pub more: usize,
}

/// A VM under a policy, in all its runs.
struct Seen<'a> {
    policy: &'a str,
    runs: Vec<(&'a RunResult, &'a VmResult)>,
    promise: Option<Promise>,
}

/// A VM.
struct Vm<'a> {
    name: String,
    /// Entry of the scenario; Dom0 has none.
    spec: Option<&'a VmSpec>,
    seen: Vec<Seen<'a>>,
}

impl Vms {
    /// Of runs of `scenario`, each with the label of its policy; with `all` of every VM.
    pub fn new(scenario: &Scenario, policies: &[PolicySpec], runs: &[(&str, &RunResult)], all: bool) -> Self {
        let seen = |name: String, spec| {
            let seen = policies.iter().filter_map(|p| Seen::new(&name, &p.label, runs)).collect();
            Vm { name, spec, seen }
        };
        let names = scenario.vms.iter().flat_map(|spec| spec.names().map(move |name| (name, spec)));
        let guests = names.map(|(name, spec)| seen(name, Some(spec)));
        let mut guests: Vec<_> = guests.filter(|vm| all || vm.matters()).collect();
        guests.sort_by(Vm::worse_first);
        let more = if all { 0 } else { guests.len().saturating_sub(SHOWN) };
        guests.truncate(guests.len() - more);
        let host = runs.iter().flat_map(|(_, r)| &r.vms).find(|vm| vm.kind == "host");
        guests.extend(host.map(|vm| seen(vm.name.clone(), None)));
        Self { rows: guests.iter().flat_map(Vm::rows).collect(), more }
    }

    /// What stands under the table.
    pub fn note(&self) -> String {
        match self.more {
            0 => String::new(),
            1 => "One more VM has something to do in time; --all shows every VM.".into(),
            n => format!("{n} more VMs have something to do in time; --all shows every VM."),
        }
    }
}

impl Vm<'_> {
    /// Whether it has something to do in time: a workload with a promise, a type, or a budget.
    fn matters(&self) -> bool {
        let named = self.spec.is_some_and(|s| s.server.budget > 0 || s.params.rt() == RtMode::On);
        named || self.seen.iter().any(|s| s.promise.is_some() || s.runs.iter().any(|(_, vm)| vm.rt))
    }

    /// VMs with something to do in time first: by what was not done under the policy that is worst for
    /// the VM, then by its waits.
    fn worse_first(&self, other: &Self) -> Ordering {
        let worst = |vm: &Self, of: fn(&Seen) -> f64| vm.seen.iter().map(of).fold(0.0, f64::max);
        let by = |of: fn(&Seen) -> f64| worst(other, of).total_cmp(&worst(self, of));
        let others = other.matters().cmp(&self.matters());
        others
            .then(by(|s| s.promise.as_ref().map_or(0.0, |p| p.failed)))
            .then(by(|s| s.wait(|w| w.p99_ns).unwrap_or(0.0)))
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.seen.iter().map(|s| s.row(&self.name, self.spec))
    }
}

impl<'a> Seen<'a> {
    fn new(name: &str, policy: &'a str, runs: &[(&str, &'a RunResult)]) -> Option<Self> {
        let mine = runs.iter().filter(|(label, _)| *label == policy);
        let runs: Vec<_> = mine.filter_map(|&(_, r)| Some((r, r.vms.iter().find(|vm| vm.name == name)?))).collect();
        let promises: Vec<_> = runs.iter().filter_map(|(r, vm)| vm.promise(r.duration_ns)).collect();
        let promise = (!promises.is_empty()).then(|| mean_promise(&promises));
        (!runs.is_empty()).then_some(Self { policy, runs, promise })
    }

    fn mean(&self, of: impl Fn(&RunResult, &VmResult) -> Option<f64>) -> Option<f64> {
        let values: Vec<_> = self.runs.iter().filter_map(|(run, vm)| of(run, vm)).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    /// A figure of its waits, if it has queued at all.
    fn wait(&self, of: impl Fn(&WaitStat) -> u64) -> Option<f64> {
        self.mean(|_, vm| vm.wait.get("all").filter(|w| w.entries > 0).map(|w| of(w) as f64))
    }

    fn row(&self, name: &str, spec: Option<&VmSpec>) -> Vec<String> {
        let since =
            |run: &RunResult, vm: &VmResult| vm.found.as_ref().map(|f| (f.at_ns + run.warmup_ns as i64) as f64 / 1e9);
        let guest = spec.is_some();
        let period =
            |_: &RunResult, vm: &VmResult| (guest && vm.rt && vm.period_ns > 0).then_some(vm.period_ns as f64 / 1e6);
        let number = |value: Option<f64>, decimals: usize| value.map_or("-".into(), |v| format!("{v:.decimals$}"));
        let us = |of: fn(&WaitStat) -> u64, decimals| number(self.wait(of).map(|ns| ns / 1e3), decimals);
        vec![
            name.to_owned(),
            self.policy.to_owned(),
            self.real_time(spec),
            number(self.mean(since), 2),
            number(self.mean(period), 2),
            us(|w| w.p50_ns, 1),
            us(|w| w.p99_ns, 1),
            us(|w| w.max_ns, 0),
            self.did(),
        ]
    }

    /// By what it is real-time, at the end.
    fn real_time(&self, spec: Option<&VmSpec>) -> String {
        // Dom0 has no type of its own.
        let Some(spec) = spec else { return "-".into() };
        let rt: Vec<_> = self.runs.iter().filter(|(_, vm)| vm.rt).collect();
        let Some((_, vm)) = rt.first() else { return "no".into() };
        let rule = match &vm.found {
            _ if spec.params.rt() == RtMode::On => "by hand",
            Some(found) => &found.rule,
            None => "yes",
        };
        match (rt.len(), self.runs.len()) {
            (some, all) if some < all => format!("{rule}, {some} of {all} seeds"),
            _ => rule.to_owned(),
        }
    }

    fn did(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;

    /// The table of a second of two servers of calls beside a hog: one is capped, and late; of so
    /// many more VMs that wait for a beat; and of a hog with a budget.
    fn table(policies: &[&str], more: u32, all: bool) -> Vms {
        let text = format!(
            "name = \"two\"\nduration = \"1s\"\n[machine]\npcpus = 2\n\
             [[vm]]\nname = \"fine\"\nvcpus = 1\nworkload = {{ type = \"voip\", calls = 2 }}\n\
             [[vm]]\nname = \"late\"\nvcpus = 1\ncap = 1\nworkload = {{ type = \"voip\", calls = 40 }}\n\
             [[vm]]\nname = \"beat\"\ncount = {more}\nvcpus = 1\nworkload = {{ type = \"periodic\" }}\n\
             [[vm]]\nname = \"kept\"\nvcpus = 1\nbudget = \"1ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\n\
             [[vm]]\nname = \"hog\"\nvcpus = 1\nworkload = \"hog\"\n"
        );
        let scenario = Scenario::from_toml(&text, "two.toml").unwrap();
        let policies: Vec<_> = policies.iter().map(|p| PolicySpec::parse(p).unwrap()).collect();
        let one = |p: &PolicySpec| simulate::one(&scenario, p, 1, &mut |_| ()).unwrap();
        let runs: Vec<_> = policies.iter().map(one).collect();
        let labelled: Vec<_> = policies.iter().zip(&runs).map(|(p, run)| (p.label.as_str(), run)).collect();
        Vms::new(&scenario, &policies, &labelled, all)
    }

    fn names(table: &Vms) -> Vec<&str> {
        table.rows.iter().map(|row| row[0].as_str()).collect()
    }

    #[test]
    fn the_vm_that_suffers_most_comes_first_and_hogs_have_no_row() {
        let table = table(&["credit", "doris"], 1, false);
        let vms = names(&table);
        assert_eq!(vms[..2], ["late", "late"], "a row under each policy");
        assert_eq!(vms[vms.len() - 2..], ["dom0", "dom0"]);
        assert!(["fine", "beat", "kept"].iter().all(|vm| vms.contains(vm)) && !vms.contains(&"hog"));
        let fine = table.rows.iter().find(|row| row[..2] == ["fine", "doris"]).unwrap();
        assert_eq!(fine[2], "rtp");
        assert!(fine[8].starts_with("PESQ 4.") && fine[8].ends_with("late or lost 0.00 %"), "{}", fine[8]);
        let beat = table.rows.iter().find(|row| row[0] == "beat").unwrap();
        assert!(beat[2] == "no" && beat[8].contains("missed 0,"), "{beat:?}");
        assert_eq!(table.note(), "");
    }

    #[test]
    fn of_many_vms_ten_and_dom0_have_a_row_unless_all_are_wanted() {
        let some = table(&["credit"], 12, false);
        assert_eq!((some.rows.len(), some.more), (SHOWN + 1, 5));
        assert_eq!((names(&some)[0], names(&some)[SHOWN]), ("late", "dom0"));
        assert!(some.note().starts_with("5 more VMs"));
        let every = table(&["credit"], 12, true);
        assert_eq!((every.rows.len(), every.more), (17, 0));
        assert_eq!(names(&every)[15..], ["hog", "dom0"]);
        assert!(every.rows[15][8].starts_with("work "), "{:?}", every.rows[15]);
    }
}
