// SPDX-License-Identifier: GPL-2.0-only
//! Independent runs over all cores: results in the order of the jobs, whatever the number of cores.

use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    done: Arc<Done>,
    bar: ProgressBar,
    /// Ends the lines when it is dropped.
    lines: Option<Sender<()>>,
}

/// What is done of it.
struct Done {
    what: String,
    jobs: usize,
    ended: AtomicUsize,
    /// Of all jobs.
    parts: AtomicU64,
    since: Instant,
}

impl Progress {
    fn new(what: &str, jobs: usize) -> Self {
        let (ended, parts) = (AtomicUsize::new(0), AtomicU64::new(0));
        let done = Arc::new(Done { what: what.to_owned(), jobs, ended, parts, since: Instant::now() });
        let lines = (!std::io::stderr().is_terminal()).then(|| lines(done.clone()));
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
        Self { done, bar, lines }
    }

    /// That many more parts of a job are done.
    fn parts(&self, more: u64) {
        self.bar.inc(more);
        self.done.parts.fetch_add(more, Ordering::Relaxed);
    }

    /// A job has ended.
    fn ended(&self) {
        self.done.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn end(self) {
        drop(self.lines);
        self.bar.finish_and_clear();
    }
}

/// Prints one each [`LINE`], until the sender is dropped.
fn lines(done: Arc<Done>) -> Sender<()> {
    let (end, ended) = channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(LINE) == Err(RecvTimeoutError::Timeout) {
            let _ = writeln!(std::io::stderr(), "{}", done.line());
        }
    });
    end
}

impl Done {
    fn line(&self) -> String {
        let percent = self.parts.load(Ordering::Relaxed) * 100 / (self.jobs as u64 * PARTS).max(1);
        let (ended, jobs) = (self.ended.load(Ordering::Relaxed), self.jobs);
        let of = if jobs > 1 { format!(", {ended} of {jobs} done") } else { String::new() };
        format!("{}: {percent} %{of}, {} s", self.what, self.since.elapsed().as_secs())
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
        assert!(progress.done.line().starts_with("simulating: 37 %, 1 of 4 done, "), "{}", progress.done.line());
        let one = Progress::new("trace", 1);
        assert!(one.done.line().starts_with("trace: 0 %, "), "{}", one.done.line());
    }
}
