// SPDX-License-Identifier: GPL-2.0-only
//! SimSo, the scheduling simulator in Python, and ours on a task set that both can express.
//!
//! Twenty independent periodic tasks with implicit deadlines on eight CPUs, no overheads. SimSo schedules the tasks themselves with its global RM
//! or EDF; ours gives each task a VM with one VCPU and schedules the VCPUs. The figure is jobs completed per second of CPU time.

use crate::clock::cpu_seconds;
use crate::table;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_control::PolicySpec;
use takt_sim::{Options, Scenario};

pub const CPUS: u32 = 8;
const TASKS: usize = 20;
/// Utilisation of the whole set.
const LOAD: f64 = 0.7 * CPUS as f64;
const VERSION: &str = "0.8.5";
const SCHEDULERS: [&str; 2] = ["RM", "EDF"];
/// Runs of each, of which the fastest counts.
const RUNS: u32 = 3;
const POLICIES: [&str; 2] = ["rr", "credit"];

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Task {
    pub period_ns: u64,
    pub work_ns: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub simulator: String,
    pub scheduler: String,
    pub jobs: u64,
    pub missed: u64,
    pub cpu_s: f64,
    pub jobs_per_s: f64,
    /// Over SimSo's fastest.
    pub ratio: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub tasks: Vec<Task>,
    pub rows: Vec<Row>,
    /// "measured", or why SimSo was not.
    pub simso: String,
}

#[derive(Serialize)]
struct Job<'a> {
    scheduler: &'a str,
    cpus: u32,
    duration_ns: u64,
    tasks: &'a [Task],
}

#[derive(Deserialize)]
struct Done {
    jobs: u64,
    missed: u64,
    cpu_s: f64,
    version: String,
}

/// Periods of 5 to 50 ms, utilisations by UUniFast (Bini and Buttazzo), drawn anew while one exceeds 0.8; whole µs.
pub fn task_set() -> Vec<Task> {
    let mut rng = fastrand::Rng::with_seed(20);
    let shares = loop {
        let mut left = LOAD;
        let mut shares = Vec::with_capacity(TASKS);
        for n in (1..TASKS).rev() {
            let rest = left * rng.f64().powf(1.0 / n as f64);
            shares.push(left - rest);
            left = rest;
        }
        shares.push(left);
        if shares.iter().all(|&u| u < 0.8) {
            break shares;
        }
    };
    shares
        .iter()
        .map(|u| {
            let period_us = rng.u64(5_000..=50_000);
            let work_us = ((period_us as f64 * u) as u64).max(1);
            Task { period_ns: period_us * 1000, work_ns: work_us * 1000 }
        })
        .collect()
}

/// Runs a program to its end; its last line of error output if it fails.
fn call(program: &Path, args: &[&str]) -> Result<()> {
    let run = Command::new(program).args(args).output().with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&run.stderr);
    let line = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message").trim().to_string();
    ensure!(run.status.success(), "{} {}: {line}", program.display(), args.join(" "));
    Ok(())
}

/// Where builds go: two levels above this program. What the benchmarks fetch is kept there.
fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    exe.ancestors().nth(2).map(PathBuf::from).context("no target directory above this program")
}

/// The Python of a virtual environment that has SimSo, made on the first run and kept in the target directory.
fn python() -> Result<PathBuf> {
    let venv = target_dir()?.join(format!("simso-{VERSION}"));
    let python = venv.join("bin/python");
    if call(&python, &["-c", "import simso"]).is_ok() {
        return Ok(python);
    }
    let path = venv.to_str().context("the target directory's name is not UTF-8")?;
    let make = || call(Path::new("python3"), &["-m", "venv", "--clear", path]);
    if let Err(first) = make() {
        // Debian packs it apart from Python.
        let apt = call(Path::new("apt-get"), &["install", "-y", "-qq", "python3-venv"]);
        apt.and_then(|()| make()).with_context(|| format!("{first:#}"))?;
    }
    let package = format!("simso=={VERSION}");
    call(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &package])?;
    Ok(python)
}

fn simso(python: &Path, scheduler: &str, duration_ns: u64, tasks: &[Task]) -> Result<Row> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("simso/measure.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| python.display().to_string())?;
    let job = serde_json::to_vec(&Job { scheduler, cpus: CPUS, duration_ns, tasks })?;
    child.stdin.take().context("no standard input")?.write_all(&job)?;
    let run = child.wait_with_output()?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        bail!("SimSo: {}", said.lines().last().unwrap_or("no message"));
    }
    let done: Done = serde_json::from_slice(&run.stdout).context("SimSo's result")?;
    Ok(Row {
        simulator: format!("SimSo {}", done.version),
        scheduler: format!("global {scheduler}"),
        jobs: done.jobs,
        missed: done.missed,
        cpu_s: done.cpu_s,
        jobs_per_s: done.jobs as f64 / done.cpu_s,
        ratio: None,
    })
}

/// The task set as a scenario: a VM for each task, and everything free of charge that SimSo does not know.
fn scenario(duration_ns: u64, tasks: &[Task]) -> Result<Scenario> {
    let mut text = format!("duration = \"{duration_ns}ns\"\nwarmup = \"0\"\n");
    for free in ["machine.switch", "machine.decision", "machine.ipi", "machine.refill", "machine.stagger", "guest.irq"]
    {
        writeln!(text, "{free} = \"0\"")?;
    }
    writeln!(text, "guest.hz = \"0\"\ndom0.housekeeping = \"0\"\ndom0.vcpus = 1\nmachine.pcpus = {CPUS}")?;
    for (n, t) in tasks.iter().enumerate() {
        writeln!(text, "[[vm]]\nname = \"task-{n}\"\nvcpus = 1")?;
        let (period, work) = (t.period_ns, t.work_ns);
        writeln!(text, "workload = {{ type = \"periodic\", period = \"{period}ns\", work = \"{work}ns\" }}")?;
    }
    Scenario::from_toml(&text, "tasks.toml")
}

fn ours(policy: &str, duration_ns: u64, tasks: &[Task]) -> Result<Row> {
    let scenario = scenario(duration_ns, tasks)?;
    let policy = PolicySpec::parse(policy)?;
    let (result, cpu_s) = cpu_seconds(|| takt_sim::run(&scenario, &policy, 1, Options::default()));
    let result = result?.0;
    let sum = |f: fn(&takt_sim::result::PeriodicResult) -> u64| {
        result.vms.iter().filter_map(|v| v.periodic.as_ref()).map(f).sum::<u64>()
    };
    let (jobs, missed) = (sum(|p| p.jobs), sum(|p| p.missed));
    Ok(Row {
        simulator: "takt".to_string(),
        scheduler: policy.label.clone(),
        jobs,
        missed,
        cpu_s,
        jobs_per_s: jobs as f64 / cpu_s,
        ratio: None,
    })
}

pub fn measure(quick: bool) -> Result<Comparison> {
    let tasks = task_set();
    let second = 1_000_000_000;
    let (long, short) = if quick { (100 * second, second) } else { (500 * second, 5 * second) };
    let python = python().and_then(|p| simso(&p, SCHEDULERS[0], second / 10, &tasks).map(|_| p));
    let mut rows: Vec<Row> = Vec::new();
    // By turns, so that a busy machine is so for both.
    for _ in 0..RUNS {
        let mut round = Vec::new();
        if let Ok(python) = &python {
            for scheduler in SCHEDULERS {
                round.push(simso(python, scheduler, short, &tasks)?);
            }
        }
        for policy in POLICIES {
            round.push(ours(policy, long, &tasks)?);
        }
        if rows.is_empty() {
            rows = round;
        } else {
            let faster = rows.iter_mut().zip(round).filter(|(best, row)| row.cpu_s < best.cpu_s);
            faster.for_each(|(best, row)| *best = row);
        }
    }
    let simso = match python {
        Ok(_) => "measured".to_string(),
        Err(e) => format!("skipped: {e:#}"),
    };
    if simso == "measured" {
        let fastest = rows[..SCHEDULERS.len()].iter().map(|r| r.jobs_per_s).reduce(f64::max);
        rows.iter_mut().for_each(|row| row.ratio = fastest.map(|theirs| row.jobs_per_s / theirs));
    }
    Ok(Comparison { tasks, rows, simso })
}

impl Comparison {
    pub fn print(&self) {
        let load: f64 = self.tasks.iter().map(|t| t.work_ns as f64 / t.period_ns as f64).sum();
        println!(
            "== Jobs per second of CPU time: {} periodic tasks, load {load:.2} on {CPUS} CPUs (goal: 300 times SimSo) ==\n",
            self.tasks.len()
        );
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|r| {
                vec![
                    r.simulator.clone(),
                    r.scheduler.clone(),
                    r.jobs.to_string(),
                    r.missed.to_string(),
                    format!("{:.2}", r.cpu_s),
                    table::grouped(r.jobs_per_s),
                    r.ratio.map_or("-".to_string(), |x| format!("{x:.0}")),
                ]
            })
            .collect();
        println!("{}", table::render(&["simulator", "scheduler", "jobs", "missed", "CPU s", "jobs/s", "ratio"], &rows));
        println!("  SimSo: {}.\n", self.simso);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_set_has_its_load_and_runs() {
        let tasks = task_set();
        let load: f64 = tasks.iter().map(|t| t.work_ns as f64 / t.period_ns as f64).sum();
        assert!((load - LOAD).abs() < 0.01, "{load}");
        let second = 1_000_000_000;
        let row = ours("rr", second, &tasks).unwrap();
        // The first jobs are released 100 ms after the start.
        let released: u64 = tasks.iter().map(|t| (second - 100_000_000) / t.period_ns).sum();
        assert!(row.jobs >= released - tasks.len() as u64 && row.jobs <= released + tasks.len() as u64, "{row:?}");
    }
}
