// SPDX-License-Identifier: GPL-2.0-only
//! Independent runs over all cores: results in the order of the jobs, whatever the number of cores.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between two progress lines where there is no terminal.
const LINE: Duration = Duration::from_secs(15);

/// Runs `work` on every job. The first error, in the order of the jobs, ends it: jobs not yet started are skipped.
///
/// # Errors
/// That error.
pub fn run<J: Sync, R: Send>(what: &str, jobs: &[J], work: impl Fn(&J) -> Result<R> + Sync) -> Result<Vec<R>> {
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
                    let result = work(job);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    *results[n].lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
                    progress.step();
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

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    what: String,
    total: usize,
    bar: ProgressBar,
    lines: Option<Mutex<(usize, Instant)>>,
}

impl Progress {
    fn new(what: &str, total: usize) -> Self {
        let lines = (!std::io::stderr().is_terminal()).then(|| Mutex::new((0, Instant::now())));
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let style = "{spinner} {msg} {wide_bar:.cyan/blue} {pos}/{len}  {elapsed}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self { what: what.to_owned(), total, bar, lines }
    }

    fn step(&self) {
        self.bar.inc(1);
        let Some(lines) = &self.lines else { return };
        let mut at = lines.lock().unwrap_or_else(|e| e.into_inner());
        at.0 += 1;
        if at.1.elapsed() > LINE && at.0 < self.total {
            at.1 = Instant::now();
            let _ = writeln!(std::io::stderr(), "{}: {} of {}", self.what, at.0, self.total);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares = run("squares", &jobs, |n| Ok(n * n)).unwrap();
        assert_eq!(squares, jobs.iter().map(|n| n * n).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_wins() {
        let error = run("jobs", &[1, 2, 3], |n| if *n == 1 { Ok(()) } else { anyhow::bail!("job {n}") }).unwrap_err();
        assert_eq!(error.to_string(), "job 2");
    }
}
