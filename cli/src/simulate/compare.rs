// SPDX-License-Identifier: GPL-2.0-only
//! Runs of `takt sim` side by side: table, figures, report.

use crate::report::figures::Figures;
use crate::report::{Block, Page, Table};
use crate::row::{Row, X};
use crate::simulate::columns::Columns;
use crate::simulate::vms::Vms;
use crate::{table, watch};
use anyhow::Result;
use takt_control::{PolicySpec, duration as time};
use takt_sim::{RunResult, Scenario};

/// One run that the command asks for.
pub(crate) struct Job<'a> {
    pub scenario: &'a Scenario,
    pub policy: PolicySpec,
    pub seed: u64,
}

/// The runs of one scenario.
pub struct Comparison<'a> {
    scenario: &'a Scenario,
    policies: Vec<PolicySpec>,
    rows: Vec<Row>,
    seed: u64,
    vms: Vms,
}

/// Not a metric of its own: batch work relative to Credit's.
const SHARE: &str = "work_over_credit";

/// Columns of the host's table: metric, head, what to divide by, decimals.
const COLUMNS: [(&str, &str, f64, usize); 6] = [
    ("work", "batch CPU-s", 1.0, 2),
    (SHARE, "% of credit", 0.01, 1),
    ("jain", "Jain", 1.0, 3),
    ("switches", "switches", 1.0, 0),
    ("kicks", "kicks", 1.0, 0),
    ("migrations", "migrations", 1.0, 0),
];

/// Counters of the host: not every host has them, and a zero says just that.
const COUNTERS: [&str; 3] = ["switches", "kicks", "migrations"];

impl<'a> Comparison<'a> {
    /// One for each scenario, from runs in the order of their jobs; with `every` its table has rows of every VM.
    pub fn all(
        scenarios: &'a [Scenario],
        jobs: &[Job],
        runs: &[RunResult],
        every: bool,
        columns: &Columns,
    ) -> Vec<Self> {
        let of = |scenario: &'a Scenario| {
            let mine: Vec<_> = jobs.iter().zip(runs).filter(|(j, _)| std::ptr::eq(j.scenario, scenario)).collect();
            let x = X::Name(scenario.name.clone());
            let mut policies: Vec<PolicySpec> = Vec::new();
            let mut rows = Vec::new();
            for (job, run) in &mine {
                if policies.last() != Some(&job.policy) {
                    policies.push(job.policy.clone());
                }
                rows.push(Row::from_run(run, &job.policy.label, x.clone()));
            }
            let runs: Vec<_> = mine.iter().map(|(job, run)| (job.policy.label.as_str(), *run)).collect();
            let vms = Vms::new(scenario, &policies, &runs, every, columns.clone());
            Self { scenario, policies, seed: rows.first().map_or(0, |r: &Row| r.seed), rows, vms }
        };
        scenarios.iter().map(of).collect()
    }

    /// Its point, as if it were one of a sweep.
    pub fn x(&self) -> X {
        X::Name(self.scenario.name.clone())
    }

    fn mean(&self, policy: &str, metric: &str) -> Option<f64> {
        if metric == SHARE {
            let credit = self.mean("credit", "work").filter(|work| *work > 0.0)?;
            return self.mean(policy, "work").map(|work| work / credit);
        }
        let values: Vec<f64> = self.rows.iter().filter(|r| r.policy == policy).flat_map(|r| r.get(metric)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Head and rows of the table: means over seeds.
    fn table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let counts = |metric: &str, value: f64| value > 0.0 || !COUNTERS.contains(&metric);
        let has =
            |metric: &str| self.policies.iter().any(|p| self.mean(&p.label, metric).is_some_and(|v| counts(metric, v)));
        let columns: Vec<_> = COLUMNS.iter().filter(|c| has(c.0)).collect();
        let row = |p: &PolicySpec| {
            let mut cells = vec![p.label.clone()];
            for (metric, _, unit, decimals) in &columns {
                let value = self.mean(&p.label, metric);
                cells.push(value.map_or("-".into(), |v| format!("{:.*}", decimals, v / unit)));
            }
            cells
        };
        (["policy"].into_iter().chain(columns.iter().map(|c| c.1)).collect(), self.policies.iter().map(row).collect())
    }

    fn title(&self) -> String {
        let s = self.scenario;
        if s.title.is_empty() { s.name.clone() } else { s.title.clone() }
    }

    /// As tables of text: the VMs that have something to do in time, then the host.
    pub fn text(&self) -> String {
        let (head, rows) = self.table();
        let columns = &self.vms.columns;
        let mut text =
            table::render_with(&self.title(), &columns.heads(), &self.vms.rows, |n| columns.numbers().contains(&n));
        if self.vms.more > 0 {
            text += &(self.vms.note() + "\n");
        }
        text + "\n" + &table::render("", &head, &rows, 1..)
    }

    fn basis(&self, seeds: &str) -> String {
        format!("Scenario {}, seed {seeds}, {}", self.scenario.name, time::format(self.scenario.duration))
    }

    /// Its charts; `seeds` is for captions.
    pub fn figures(&self, seeds: &str) -> Figures<'_> {
        let policies = self.policies.iter().map(|p| p.label.as_str()).collect();
        Figures { rows: &self.rows, policies, faint: Vec::new(), basis: self.basis(seeds) }
    }

    /// The scenario in a few words: "90 calls" if it has calls, else its name.
    fn load(&self) -> String {
        let calls: u32 = self.scenario.vms.iter().map(|vm| vm.calls() * vm.count).sum();
        if calls > 0 { format!("{calls} calls") } else { self.scenario.name.clone() }
    }

    /// What to read first: quality under each of the main policies, and the price.
    fn headline(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for p in self.policies.iter().filter(|p| p.params.is_empty()) {
            let Some(pesq) = self.mean(&p.label, "pesq_mean") else { continue };
            let lost = self.mean(&p.label, "late_lost_pct").unwrap_or(0.0);
            out.push((format!("{pesq:.2}"), format!("PESQ under {}, {lost:.2}% of packets late or lost", p.label)));
        }
        if let Some(share) = self.mean("doris", SHARE) {
            out.push((format!("{:.1}%", share * 100.0), "of Credit's batch work is done under doris".into()));
        }
        out
    }
}

/// All of them as a report.
///
/// # Errors
/// A chart cannot be drawn, or a run for the timeline fails.
pub fn page(all: &[Comparison], seeds: &str, settings: &[(String, String)]) -> Result<Page> {
    let mut page = Page {
        title: match all {
            [one] => one.title(),
            many => many.iter().map(|c| c.scenario.name.as_str()).collect::<Vec<_>>().join(", "),
        },
        facts: vec![("seed".into(), seeds.into())],
        ..Page::default()
    };
    page.facts.extend(settings.iter().cloned());
    for c in all {
        let m = &c.scenario.machine;
        page.lead.push(format!(
            "{}: {} PCPUs, Dom0 with {} VCPUs, and {}; {} of simulated time after {} of warm-up.",
            c.scenario.name,
            m.pcpus,
            c.scenario.dom0_vcpus(),
            vms(c.scenario),
            time::format(c.scenario.duration),
            time::human(c.scenario.warmup() as f64),
        ));
        page.headline.extend(c.headline());
        let prefix = if all.len() > 1 { format!("{}, ", c.scenario.name) } else { String::new() };
        let charts = c.figures(seeds).at(&c.x(), &format!("{prefix}{}", c.load()))?;
        page.blocks.extend(charts.into_iter().map(Block::Chart));
        if std::ptr::eq(c, &all[0]) {
            page.blocks.push(Block::Timeline(watch::timeline(c.scenario, &c.policies, c.seed)?));
        }
        let columns = Columns::table();
        page.blocks.push(Block::Table(Table {
            title: format!("VMs: {}", c.scenario.name),
            caption: format!("VMs with deadlines, the one that suffers most first. Means over seeds. {}", c.vms.note()),
            head: columns.heads().into_iter().map(str::to_owned).collect(),
            rows: c.vms.report.clone(),
            numbers: columns.range(),
            folded: false,
        }));
        let (head, rows) = c.table();
        page.blocks.push(Block::Table(Table {
            title: format!("Figures: {}", c.scenario.name),
            caption: "Means over seeds.".into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows,
            numbers: 1..usize::MAX,
            folded: true,
        }));
    }
    Ok(page)
}

/// "voip (1 VCPU), 3 × hog (8 VCPUs)".
fn vms(s: &Scenario) -> String {
    let one = |vm: &takt_sim::VmSpec| {
        let count = if vm.count > 1 { format!("{} × ", vm.count) } else { String::new() };
        let plural = if vm.vcpus == 1 { "" } else { "s" };
        format!("{count}{} ({} VCPU{plural})", vm.name, vm.vcpus)
    };
    s.vms.iter().map(one).collect::<Vec<_>>().join(", ")
}
