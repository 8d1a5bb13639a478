// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: `takt run`, and what the kernel says of it.

use crate::system::{Tick, read};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub const PROGRAM: &str = "/bin/takt";
const SAID: &str = "/tmp/takt.said";
const STATE: &str = "/sys/kernel/sched_ext/state";
/// The kernel's verifier takes its time in an emulated machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// i8254 ticks (40 us) after which the next CPU is emulated at the latest, while there is something to schedule.
pub const TICK: u16 = 48;

/// A machine in which an instruction takes so many times as long as in those of most tests has more patience, and as long turns by
/// instructions.
const SLOW: u16 = 4;

pub struct Takt {
    process: Child,
    /// Until it ends.
    _tick: Option<Tick>,
}

impl Takt {
    /// Returns when it schedules.
    pub fn run(arguments: &[&str]) -> Result<Self> {
        Ok(Self { process: Self::begin(arguments, PATIENCE)?, _tick: Some(Tick::start(TICK)?) })
    }

    /// As [`Self::run`], in a machine that is [`SLOW`].
    pub fn run_slow(arguments: &[&str]) -> Result<Self> {
        let process = Self::begin(arguments, PATIENCE * u32::from(SLOW))?;
        Ok(Self { process, _tick: Some(Tick::start(TICK * SLOW)?) })
    }

    /// As [`Self::run`], where time is not counted.
    pub fn run_free(arguments: &[&str]) -> Result<Self> {
        Ok(Self { process: Self::begin(arguments, PATIENCE)?, _tick: None })
    }

    fn begin(arguments: &[&str], patience: Duration) -> Result<Child> {
        let said = File::create(SAID).context(SAID)?;
        let mut takt = Command::new(PROGRAM);
        takt.arg("run").args(arguments).stdout(said.try_clone().context(SAID)?).stderr(said);
        let mut takt = takt.spawn().context(PROGRAM)?;
        until("takt run", patience, || {
            if let Some(status) = takt.try_wait().context(PROGRAM)? {
                bail!("takt run {arguments:?}: {status}: {}", said_so_far()?);
            }
            Ok(said_so_far()?.contains("schedules this host"))
        })?;
        ensure!(state()? == "enabled", "sched_ext is {} under takt run", state()?);
        Ok(takt)
    }

    /// CPU time of its threads.
    pub fn cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.process.id())
    }

    /// Bytes in memory.
    pub fn memory(&self) -> Result<u64> {
        let status = read(&format!("/proc/{}/status", self.process.id()))?;
        let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("VmRSS")? << 10)
    }

    /// Has it read its configuration again.
    pub fn hang_up(&self) -> Result<()> {
        kill(Pid::from_raw(self.process.id() as i32), Signal::SIGHUP).context("takt run")
    }

    /// What it has said so far.
    pub fn said(&self) -> Result<String> {
        said_so_far()
    }

    /// Whether it is still in force.
    pub fn schedules(&self) -> Result<()> {
        ensure!(state()? == "enabled", "sched_ext is {}: {}", state()?, said_so_far()?);
        Ok(())
    }

    /// Ends it as Ctrl-C does; it must still have been in force. What it has said.
    pub fn stop(mut self) -> Result<String> {
        self.schedules()?;
        kill(Pid::from_raw(self.process.id() as i32), Signal::SIGINT).context("takt run")?;
        let status = self.process.wait().context("takt run")?;
        ensure!(status.success(), "takt run: {status}: {}", said_so_far()?);
        default_is_back()?;
        said_so_far()
    }

    pub fn kill(mut self) -> Result<()> {
        self.process.kill().context("takt run")?;
        self.process.wait().context("takt run")?;
        default_is_back()
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self, patience: Duration) -> Result<(ExitStatus, String)> {
        let mut status = None;
        until("end of takt run", patience, || {
            status = self.process.try_wait().context("takt run")?;
            Ok(status.is_some())
        })?;
        default_is_back()?;
        Ok((status.context("takt run")?, said_so_far()?))
    }
}

/// CPU time of a process, also of those threads that have ended.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let time = ClockId::pid_cpu_clock_id(Pid::from_raw(pid as i32)).and_then(ClockId::now);
    Ok(time.with_context(|| format!("CPU time of process {pid}"))?.num_nanoseconds() as u64)
}

fn said_so_far() -> Result<String> {
    read(SAID)
}

pub fn state() -> Result<String> {
    read(STATE)
}

fn default_is_back() -> Result<()> {
    until("the kernel's scheduler", Duration::from_secs(10), || Ok(state()? == "disabled"))
}

/// Any other command of Takt's.
pub fn takt(arguments: &[&str]) -> Result<Output> {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().context(PROGRAM)
}

/// Records to `file` while `during` runs.
pub fn recorded<T>(file: &str, during: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut record = Command::new(PROGRAM).args(["record", file]).spawn().context(PROGRAM)?;
    until("a recording", Duration::from_secs(30), || Ok(status()?["host"]["recording"] == true))?;
    let result = during()?;
    kill(Pid::from_raw(record.id() as i32), Signal::SIGINT).context("takt record")?;
    let ended = record.wait().context("takt record")?;
    ensure!(ended.success(), "takt record: {ended}");
    Ok(result)
}

pub fn status() -> Result<Value> {
    let out = takt(&["status", "--json"])?;
    ensure!(out.status.success(), "takt status: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).context("takt status")
}

/// Looks until `done`.
pub fn until(what: &str, patience: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        ensure!(start.elapsed() < patience, "{what}: not after {} s", patience.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
