// SPDX-License-Identifier: GPL-2.0-only
//! Independent runs over all cores: results in the order of the jobs, whatever the number of cores.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between two progress lines where there is no terminal.
const LINE: Duration = Duration::from_secs(15);

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
    total: u64,
    done: AtomicU64,
    bar: ProgressBar,
    /// When the last line was printed, where there is no terminal.
    lines: Option<Mutex<Instant>>,
}

impl Progress {
    fn new(what: &str, total: usize) -> Self {
        let lines = (!std::io::stderr().is_terminal()).then(|| Mutex::new(Instant::now()));
        let total = total as u64;
        let bar = ProgressBar::with_draw_target(Some(total * PARTS), ProgressDrawTarget::stderr());
        let style = "{spinner} {msg} {wide_bar:.cyan/blue} {percent}%  {elapsed}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self { what: what.to_owned(), total, done: AtomicU64::new(0), bar, lines }
    }

    /// That many more parts of a job are done.
    fn parts(&self, more: u64) {
        self.bar.inc(more);
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let Some(lines) = &self.lines else { return };
        let mut last = lines.lock().unwrap_or_else(|e| e.into_inner());
        if last.elapsed() > LINE && done < self.total * PARTS {
            *last = Instant::now();
            let percent = done * 100 / (self.total * PARTS);
            let of = if self.total > 1 { format!(" of {} runs", self.total) } else { String::new() };
            let _ = writeln!(std::io::stderr(), "{}: {percent}%{of}", self.what);
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
}
