// SPDX-License-Identifier: GPL-2.0-only
//! Independent runs over all cores: results in the order of the jobs, whatever the number of cores.

use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two progress lines where there is no terminal.
const LINE: Duration = Duration::from_secs(10);

/// Parts of a job that progress counts.
const PARTS: u64 = 1000;

/// Runs `work` on every job. The first error, in the order of the jobs, ends it: jobs not yet started are skipped.
/// `work` may tell how much of its job is done, 0 to 1.
///
/// # Errors
/// That error.
pub fn run<J: Sync, R: Send>(
    what: &str,
    jobs: &[J],
    work: impl Fn(&J, &mut dyn FnMut(f64)) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let progress = Progress::new(what, jobs.len());
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<R>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(n) else { break };
                    let mut told = 0;
                    let result = work(job, &mut |done| {
                        let parts = ((done * PARTS as f64) as u64).clamp(told, PARTS);
                        progress.parts(parts - told);
                        told = parts;
                    });
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    *results[n].lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
                    progress.parts(PARTS - told);
                    progress.ended();
                }
            });
        }
    });
    progress.end();
    // Jobs are taken in order, so every job before the first failure has its result.
    results.into_iter().filter_map(|r| r.into_inner().unwrap_or_else(|e| e.into_inner())).collect()
}

/// How often a bar moves while no job ends; it first shows after as long.
const TICK: Duration = Duration::from_millis(500);

/// Share of the whole after which the time that is left can be told: one part in so many.
const KNOWN: u64 = 20;

/// A bar on a terminal, a line each [`LINE`] elsewhere.
struct Progress {
    bar: ProgressBar,
    jobs: Arc<Jobs>,
    /// Ends the lines when it is dropped.
    lines: Option<Sender<()>>,
}

/// How many jobs there are, and how many have ended.
struct Jobs {
    all: usize,
    ended: AtomicUsize,
}

impl Progress {
    fn new(what: &str, jobs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(jobs as u64 * PARTS), ProgressDrawTarget::stderr());
        let left = |state: &ProgressState, to: &mut dyn fmt::Write| {
            if state.pos() * KNOWN >= state.len().unwrap_or(u64::MAX) {
                let _ = write!(to, ", {} left", HumanDuration(state.eta()));
            }
        };
        let style = "{spinner} {msg} {wide_bar:.cyan/blue} {percent}%  {elapsed}{left}";
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("left", left));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        let jobs = Arc::new(Jobs { all: jobs, ended: AtomicUsize::new(0) });
        let lines = (!std::io::stderr().is_terminal()).then(|| lines(bar.clone(), jobs.clone()));
        Self { bar, jobs, lines }
    }

    /// That many more parts of a job are done.
    fn parts(&self, more: u64) {
        self.bar.inc(more);
    }

    /// A job has ended.
    fn ended(&self) {
        self.jobs.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn end(self) {
        drop(self.lines);
        self.bar.finish_and_clear();
    }
}

/// Prints a line each [`LINE`], until the sender is dropped.
fn lines(bar: ProgressBar, jobs: Arc<Jobs>) -> Sender<()> {
    let (end, ended) = channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(LINE) == Err(RecvTimeoutError::Timeout) {
            let _ = writeln!(std::io::stderr(), "{}", jobs.line(&bar));
        }
    });
    end
}

impl Jobs {
    /// How far they are, by what the bar counts; a job that tells nothing has no percentage.
    fn line(&self, bar: &ProgressBar) -> String {
        let percent = bar.position() * 100 / (self.all as u64 * PARTS).max(1);
        let (ended, all) = (self.ended.load(Ordering::Relaxed), self.all);
        let percent = (percent > 0).then(|| format!("{percent} %, "));
        let of = (all > 1).then(|| format!("{ended} of {all} done, "));
        let (percent, of) = (percent.unwrap_or_default(), of.unwrap_or_default());
        format!("{}: {percent}{of}{} s", bar.message(), bar.elapsed().as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares = run("squares", &jobs, |n, _| Ok(n * n)).unwrap();
        assert_eq!(squares, jobs.iter().map(|n| n * n).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_wins() {
        let error = run("jobs", &[1, 2, 3], |n, progress| {
            progress(0.5);
            if *n == 1 { Ok(()) } else { anyhow::bail!("job {n}") }
        });
        assert_eq!(error.unwrap_err().to_string(), "job 2");
    }

    #[test]
    fn a_line_says_how_far_it_is() {
        let progress = Progress::new("simulating", 4);
        progress.parts(PARTS);
        progress.ended();
        progress.parts(PARTS / 2);
        let line = |progress: &Progress| progress.jobs.line(&progress.bar);
        assert!(line(&progress).starts_with("simulating: 37 %, 1 of 4 done, "), "{}", line(&progress));
        let one = Progress::new("trace", 1);
        assert_eq!(line(&one), "trace: 0 s");
        assert_eq!(line(&Progress::new("running", 3)), "running: 0 of 3 done, 0 s");
    }
}
