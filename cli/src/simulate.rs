// SPDX-License-Identifier: GPL-2.0-only
//! `takt sim`: scenarios under policies, side by side.

use crate::experiment::data::X;
use crate::experiment::row::Row;
use crate::report::figures::Figures;
use crate::report::{Block, Page, Table};
use crate::{args, jobs, output, table, watch};
use anyhow::{Context, Result, bail};
use std::path::Path;
use takt_control::{PolicySpec, duration as time};
use takt_sim::{RunResult, Scenario};

/// Policies to compare if neither the command line nor the scenario names any.
const DEFAULT: [&str; 2] = ["credit", "doris"];
/// Measured time: less tells nothing, more is a mistake.
const DURATIONS: [u64; 2] = [1_000_000, 86_400_000_000_000];
/// Most runs of one command.
const MAX_RUNS: usize = 100_000;

struct Job<'a> {
    scenario: &'a Scenario,
    policy: PolicySpec,
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// Bad input, a run that fails, or output that cannot be written.
pub fn run(args: &args::Sim) -> Result<bool> {
    let given = PolicySpec::list(args.policies.iter().map(String::as_str)).context("--policy")?;
    let settings = settings(&args.set.set)?;
    let duration = args.duration.as_deref().map(duration).transpose()?;
    let scenarios = args
        .files
        .iter()
        .map(|file| {
            let mut scenario = read(file)?;
            scenario.duration = duration.unwrap_or(scenario.duration);
            for (key, value) in &settings {
                let context = || format!("{}: --set {key}={value}", file.display());
                scenario.set(key, value).with_context(context)?;
            }
            Ok(scenario)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut jobs = Vec::new();
    for scenario in &scenarios {
        for policy in policies(&given, scenario)? {
            let seeds = args.seed.0.iter();
            jobs.extend(seeds.map(|&seed| Job { scenario, policy: policy.clone(), seed }));
        }
    }
    if jobs.len() > MAX_RUNS {
        bail!("{} runs, allowed are at most {MAX_RUNS}", jobs.len());
    }
    let has_calls = |s: &Scenario| s.vms.iter().any(|vm| vm.calls() > 0);
    if args.out.svg.is_some() && !has_calls(&scenarios[0]) {
        bail!("--svg: {} has no calls to draw", scenarios[0].name);
    }
    for job in jobs.iter().filter(|j| j.seed == args.seed.0[0]) {
        check(job.scenario, &job.policy)?;
    }
    let files = [args.trace.as_ref(), args.out.html.as_ref(), args.out.svg.as_ref()];
    let [trace, html, svg] = output::open(files, &args.files)?;

    if let (true, Some(s)) = (trace.is_some(), scenarios.iter().find(|s| s.duration > watch::TRACED)) {
        let (given, most) = (time::format(s.duration), time::format(watch::TRACED));
        bail!("--trace: {} measures {given}, allowed are at most {most} (see --duration)", s.name);
    }
    let runs = jobs::run("simulating", &jobs, |j, progress| one(j.scenario, &j.policy, j.seed, progress))?;
    if let (Some(file), Some(job)) = (trace, jobs.first()) {
        file.write(&watch::perfetto(job.scenario, &job.policy, job.seed)?)?;
    }
    let comparisons = Comparison::all(&scenarios, &jobs, &runs);
    if let Some(file) = svg {
        let chart = comparisons[0].figures(&args.seed.to_string()).boxes(&comparisons[0].x())?;
        file.write(chart.context("no chart to write")?.as_bytes())?;
    }
    if let Some(file) = html {
        file.write(page(&comparisons, &args.seed.to_string(), &settings)?.html().as_bytes())?;
    }
    if args.out.json {
        output::print_json(&serde_json::json!({"runs": runs}))?;
    } else {
        output::print(&comparisons.iter().map(Comparison::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(true)
}

/// Refuses before the first run what only one of many would refuse.
///
/// # Errors
/// The scenario cannot be run under this policy.
pub fn check(scenario: &Scenario, policy: &PolicySpec) -> Result<()> {
    takt_sim::check(scenario, policy).with_context(|| format!("{} under {policy}", scenario.name))
}

/// One run.
///
/// # Errors
/// The scenario cannot be run under this policy.
pub fn one(scenario: &Scenario, policy: &PolicySpec, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<RunResult> {
    let options = takt_sim::Options { progress: Some(progress), ..Default::default() };
    let done = takt_sim::run(scenario, policy, seed, options);
    done.map(|(result, ..)| result).with_context(|| format!("{} under {policy}, seed {seed}", scenario.name))
}

fn read(file: &Path) -> Result<Scenario> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("{name}: cannot be read"))?;
    Scenario::from_toml(&text, &name)
}

/// `key=value` of each `--set`.
///
/// # Errors
/// One line that names the malformed one.
pub fn settings(set: &[String]) -> Result<Vec<(String, String)>> {
    set.iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => bail!("--set {pair}: allowed KEY=VALUE"),
        })
        .collect()
}

/// `--duration`.
///
/// # Errors
/// One line with the allowed range.
pub fn duration(text: &str) -> Result<u64> {
    let [min, max] = DURATIONS;
    match time::parse(text) {
        Ok(ns) if (min..=max).contains(&ns) => Ok(ns),
        Ok(_) => bail!("--duration {text}: allowed {}..={}", time::format(min), time::format(max)),
        Err(e) => bail!("--duration: {e}, allowed {}..={}", time::format(min), time::format(max)),
    }
}

/// Those of the command line, else those of the scenario, else a default.
fn policies(given: &[PolicySpec], scenario: &Scenario) -> Result<Vec<PolicySpec>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let default = || DEFAULT.map(str::to_owned).to_vec();
    let names = if scenario.policies.is_empty() { default() } else { scenario.policies.clone() };
    names.iter().map(|p| PolicySpec::parse(p)).collect()
}

/// The runs of one scenario.
struct Comparison<'a> {
    scenario: &'a Scenario,
    policies: Vec<PolicySpec>,
    rows: Vec<Row>,
    seed: u64,
}

/// Columns of the table: metric, head, what to divide by, decimals.
const COLUMNS: [(&str, &str, f64, usize); 16] = [
    ("pesq_mean", "PESQ", 1.0, 2),
    ("mos_mean", "MOS", 1.0, 2),
    ("late_lost_pct", "late+lost%", 1.0, 2),
    ("rt_wait_p50_ns", "RT wait p50 us", 1e3, 1),
    ("rt_wait_p99_ns", "p99 us", 1e3, 1),
    ("rt_wait_max_ns", "max us", 1e3, 0),
    ("dom0_wait_p50_ns", "Dom0 p50 us", 1e3, 1),
    ("dom0_wait_p99_ns", "p99 us", 1e3, 1),
    ("dom0_wait_max_ns", "max us", 1e3, 0),
    ("jobs", "jobs", 1.0, 0),
    ("missed", "missed", 1.0, 0),
    ("work", "batch CPU-s", 1.0, 2),
    ("jain", "Jain", 1.0, 3),
    ("switches", "switches", 1.0, 0),
    ("kicks", "kicks", 1.0, 0),
    ("migrations", "migrations", 1.0, 0),
];

impl<'a> Comparison<'a> {
    fn all(scenarios: &'a [Scenario], jobs: &[Job], runs: &[RunResult]) -> Vec<Self> {
        let of = |scenario: &'a Scenario| {
            let mine = jobs.iter().zip(runs).filter(|(j, _)| std::ptr::eq(j.scenario, scenario));
            let x = X::Name(scenario.name.clone());
            let mut policies: Vec<PolicySpec> = Vec::new();
            let mut rows = Vec::new();
            for (job, run) in mine {
                if policies.last() != Some(&job.policy) {
                    policies.push(job.policy.clone());
                }
                rows.push(Row::from_run(run, &job.policy.label, x.clone()));
            }
            Self { scenario, policies, seed: rows.first().map_or(0, |r: &Row| r.seed), rows }
        };
        scenarios.iter().map(of).collect()
    }

    fn x(&self) -> X {
        X::Name(self.scenario.name.clone())
    }

    fn mean(&self, policy: &str, metric: &str) -> Option<f64> {
        let values: Vec<f64> = self.rows.iter().filter(|r| r.policy == policy).flat_map(|r| r.get(metric)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Head and rows of the table: means over seeds; batch work also relative to the first policy's.
    fn table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let has = |metric: &str| self.policies.iter().any(|p| self.mean(&p.label, metric).is_some());
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

    fn text(&self) -> String {
        let (head, rows) = self.table();
        table::render(&self.title(), &head, &rows, 1)
    }

    fn basis(&self, seeds: &str) -> String {
        format!("{}, seed {seeds}, {}", self.scenario.name, time::format(self.scenario.duration))
    }

    fn figures(&self, seeds: &str) -> Figures<'_> {
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
        if let (Some(a), Some(b)) = (self.mean("doris", "work"), self.mean("credit", "work").filter(|w| *w > 0.0)) {
            out.push((format!("{:.1}%", a / b * 100.0), "of Credit's batch work is done under doris".into()));
        }
        out
    }
}

fn page(all: &[Comparison], seeds: &str, settings: &[(String, String)]) -> Result<Page> {
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
        let (head, rows) = c.table();
        page.blocks.push(Block::Table(Table {
            title: format!("Figures: {}", c.scenario.name),
            caption: "Means over seeds.".into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows,
            numbers_from: 1,
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
