// SPDX-License-Identifier: GPL-2.0-only
//! The host that is measured: its clock, its counters, and `takt run` as a child.
//!
//! A child ends most surely: whatever it does it can be killed, and the kernel takes its scheduler out then; and the kernel kills it
//! if this process ends first.

use super::drive::{Bench, PHASES, Step, Times};
use crate::output;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use takt_control::bench::Scheduler;
use takt_control::document;
use takt_control::socket::{Client, Request};
use takt_linux::bench::{Sample, dies_with_this};
use takt_linux::status::Status;

/// Takt is given up that has not loaded within this: the kernel's verifier takes seconds on a usual machine.
const LOAD: Duration = Duration::from_secs(600);
/// A Takt that is asked to end is killed after this.
const LEAVE: Duration = Duration::from_secs(5);
/// Until the kernel's scheduler must be back after that.
const BACK: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
const ROOT: &str = "/";

/// Process of `takt run`, 0 if none: a signal or a key ends it whatever else is going on.
static TAKT: AtomicI32 = AtomicI32::new(0);

/// What happens meanwhile; of a `takt run` with the number of its process, for one may be heard of late.
pub enum News {
    /// The operator ends it.
    Abort,
    /// It schedules the host.
    Scheduling(u32),
    /// It has closed its output, so it ends.
    Ended(u32),
}

/// Ends Takt at once if it runs, and tells so, which comes first: that Takt has ended is no news then.
pub fn abort(to: &Sender<News>) {
    let _ = to.send(News::Abort);
    let pid = TAKT.load(Ordering::SeqCst);
    if pid > 0 {
        // It may have ended already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}

/// What is read at either end of a measured time.
pub struct Reading {
    pub sample: Sample,
    /// Takt's own account, while it runs.
    pub status: Option<Status>,
}

/// This host.
pub struct Live {
    pub socket: PathBuf,
    pub config: Option<PathBuf>,
    pub times: Times,
    pub begun: Instant,
    pub news: Receiver<News>,
    pub send: Sender<News>,
    pub takt: Option<Child>,
}

impl Live {
    /// Waits for `news` until `at`; `None` if there is none.
    fn hear(&self, at: Instant) -> Option<News> {
        self.news.recv_timeout(at.saturating_duration_since(Instant::now())).ok()
    }

    fn start(&mut self) -> Step<()> {
        let program = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
        let mut command = Command::new(program);
        command.args(["run", "--json", "--socket"]).arg(&self.socket);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is this process' to handle.
        command.process_group(0);
        dies_with_this(&mut command);
        let mut child = command.spawn().map_err(|e| format!("takt run: {e}"))?;
        let pid = child.id();
        TAKT.store(pid as i32, Ordering::SeqCst);
        if let Some(said) = child.stdout.take() {
            let send = self.send.clone();
            std::thread::spawn(move || listen(pid, said, &send));
        }
        self.takt = Some(child);
        let until = Instant::now() + LOAD;
        loop {
            match self.hear(until) {
                Some(News::Scheduling(of)) if of == pid => return Ok(()),
                Some(News::Ended(of)) if of == pid => return Err(self.ended()),
                Some(News::Abort) => return Err(ABORTED.into()),
                Some(_) => {}
                None => return Err(format!("Takt was not loaded within {} s", LOAD.as_secs())),
            }
        }
    }

    /// Why `takt run` has ended by itself: its last words.
    fn ended(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut said) = self.takt.as_mut().and_then(|takt| takt.stderr.take()) {
            // Without its words the reason is that it has ended.
            let _ = said.read_to_string(&mut text);
        }
        let last = text.lines().last().map(|l| l.trim_start_matches("takt: ").to_owned());
        format!("takt run ended by itself: {}", last.unwrap_or_else(|| "it gives no reason".into()))
    }

    /// Returns when Takt has ended and the kernel's scheduler is back.
    fn stop(&mut self) -> Step<()> {
        let Some(mut takt) = self.takt.take() else { return Ok(()) };
        let pid = Pid::from_raw(takt.id() as i32);
        // What it may still have to say must not block it.
        drop(takt.stderr.take());
        let mut ended = false;
        for (signal, patience) in [(Signal::SIGTERM, LEAVE), (Signal::SIGKILL, BACK)] {
            // It may have ended already.
            let _ = kill(pid, signal);
            ended = waits(patience, || takt.try_wait().map_or(true, |status| status.is_some()));
            if ended {
                break;
            }
        }
        TAKT.store(0, Ordering::SeqCst);
        if !ended {
            return Err(format!("takt run (process {pid}) did not end {} s after SIGKILL", BACK.as_secs()));
        }
        if waits(BACK, || !takt_linux::bench::is_loaded(Path::new(ROOT))) {
            Ok(())
        } else {
            Err(format!("the kernel's scheduler was not back after {} s", BACK.as_secs()))
        }
    }
}

/// What ends a measurement at the operator's wish.
pub const ABORTED: &str = "the operator ended it";

/// Looks until `done`; whether it was in time.
fn waits(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// Passes on what `takt run` says that matters, until it ends.
fn listen(pid: u32, said: impl Read, to: &Sender<News>) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if event["event"] == "scheduling" {
            let _ = to.send(News::Scheduling(pid));
        }
    }
    let _ = to.send(News::Ended(pid));
}

impl Bench for Live {
    type Reading = Reading;

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn wait_until(&mut self, at: Duration) -> Step<()> {
        loop {
            match self.hear(self.begun + at) {
                None => return Ok(()),
                Some(News::Abort) => return Err(ABORTED.into()),
                Some(News::Ended(of)) if self.takt.as_ref().is_some_and(|takt| takt.id() == of) => {
                    return Err(self.ended());
                }
                Some(_) => {}
            }
        }
    }

    fn enter(&mut self, scheduler: Scheduler) -> Step<()> {
        if scheduler == Scheduler::Kernel {
            return self.stop();
        }
        let started = self.start();
        if started.is_err() {
            self.stop()?;
        }
        started
    }

    fn read(&mut self) -> Step<Reading> {
        let sample = Sample::of(Path::new(ROOT), self.now()).map_err(|e| format!("{e:#}"))?;
        let ask = || document::read(Client::connect(&self.socket)?.ask(&Request::Status { histograms: true })?);
        let status = self.takt.as_ref().map(|_| ask()).transpose();
        Ok(Reading { sample, status: status.map_err(|e: anyhow::Error| format!("takt status: {e:#}"))? })
    }

    fn tell(&mut self, n: u32, scheduler: Scheduler) {
        let s = self.times.phase.as_secs_f64();
        output::complain(&format!("phase {} of {PHASES}: {}, {s:.0} s", n + 1, scheduler.word()));
    }
}

impl Drop for Live {
    /// However it ends, no Takt is left.
    fn drop(&mut self) {
        if let Err(e) = self.stop() {
            output::complain(&e);
        }
    }
}
