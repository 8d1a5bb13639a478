// SPDX-License-Identifier: GPL-2.0-only
//! Runs of `takt sim` side by side: table, figures, report.

use crate::report::chart::Width;
use crate::report::{Block, Charts, Page, Table};
use crate::row::{Row, X};
use crate::seeds::Seeds;
use crate::simulate::columns::Columns;
use crate::simulate::vms::Vms;
use crate::{table, watch};
use anyhow::{Context, Result};
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
            Self { scenario, policies, rows, vms }
        };
        scenarios.iter().map(of).collect()
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

    /// The tables of a report.
    fn tables(&self) -> [Table; 2] {
        let columns = Columns::table();
        let (head, rows) = self.table();
        let vms = Table {
            title: format!("VMs: {}", self.scenario.name),
            caption: format!(
                "VMs with something to do in time. The VM that suffers most comes first. Means over seeds. {}",
                self.vms.note()
            ),
            head: columns.heads().into_iter().map(str::to_owned).collect(),
            rows: self.vms.report.clone(),
            numbers: columns.range(),
            folded: false,
        };
        let host = Table {
            title: format!("Figures: {}", self.scenario.name),
            caption: "Means over seeds.".into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows,
            numbers: 1..usize::MAX,
            folded: true,
        };
        [vms, host]
    }

    /// What the timeline shows.
    fn timelines(&self) -> Vec<(Scenario, PolicySpec)> {
        self.policies.iter().map(|p| (self.scenario.clone(), p.clone())).collect()
    }

    fn basis(&self, seeds: &str) -> String {
        format!("Scenario {}, seed {seeds}, {}", self.scenario.name, time::format(self.scenario.duration))
    }

    /// What to read first: what the VM that suffers most did under each of the main policies, and the price.
    fn headline(&self) -> Vec<(String, String)> {
        const MOST: usize = 5;
        let plain = |label: &str| self.policies.iter().any(|p| p.label == label && p.params.is_empty());
        let (main, others): (Vec<_>, Vec<_>) = self.vms.headline.iter().partition(|(policy, _)| plain(policy));
        // Where hardly any policy is without parameters, those with some are the main ones.
        let all = if main.len() < 2 { main.into_iter().chain(others).collect() } else { main };
        let mut out: Vec<_> = all.into_iter().take(MOST).map(|(_, headline)| headline.clone()).collect();
        if let Some(share) = self.mean("doris", SHARE) {
            out.push((format!("{:.1}%", share * 100.0), "of Credit's batch work is done under doris".into()));
        }
        out
    }

    /// The chart for `--svg`: the first one.
    ///
    /// # Errors
    /// There is none, or it cannot be drawn.
    pub fn main_chart(&self) -> Result<String> {
        let first = self.vms.charts.charts.first();
        first.with_context(|| format!("--svg: {} has nothing to draw", self.scenario.name))?.chart.svg(Width::Wide)
    }

    /// Its charts, each with what it is based on, and a remark if some are left out.
    fn charts(self, prefix: &str, seeds: &str) -> impl Iterator<Item = Block> {
        let basis = self.basis(seeds);
        let Charts { charts, left_out } = self.vms.charts;
        let charts = charts.into_iter().map(|s| s.based(prefix, &basis)).collect();
        Charts { charts, left_out }.blocks()
    }
}

/// All of them as a report.
///
/// # Errors
/// A chart cannot be drawn, or a run for the timeline fails.
pub fn page(all: Vec<Comparison>, seeds: &Seeds, settings: &[(String, String)]) -> Result<Page> {
    let mut page = Page {
        title: match &all[..] {
            [one] => one.title(),
            many => many.iter().map(|c| c.scenario.name.as_str()).collect::<Vec<_>>().join(", "),
        },
        facts: vec![("seed".into(), seeds.to_string())],
        ..Page::default()
    };
    page.facts.extend(settings.iter().cloned());
    let several = all.len() > 1;
    for (n, c) in all.into_iter().enumerate() {
        let m = &c.scenario.machine;
        let host = match c.scenario.dom0_vcpus() {
            0 => "no Dom0".into(),
            1 => "Dom0 with 1 VCPU".into(),
            n => format!("Dom0 with {n} VCPUs"),
        };
        let warmup = match c.scenario.warmup() {
            0 => "without warm-up".into(),
            ns => format!("after {} of warm-up", time::human(ns as f64)),
        };
        page.lead.push(format!(
            "{}: {} PCPUs, {host}, and {}; {} of simulated time {warmup}.",
            c.scenario.name,
            m.pcpus,
            vms(c.scenario),
            time::format(c.scenario.duration),
        ));
        page.headline.extend(c.headline());
        let timeline = if n == 0 { Some(watch::timeline(&c.timelines(), &seeds.0)?) } else { None };
        let tables = c.tables();
        let prefix = if several { format!("{}: ", c.scenario.name) } else { String::new() };
        page.blocks.extend(c.charts(&prefix, &seeds.to_string()));
        page.blocks.extend(timeline.map(Block::Timeline));
        page.blocks.extend(tables.map(Block::Table));
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
