// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: `takt run`, and what it and the kernel say.

use crate::system::read;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PROGRAM: &str = "/bin/takt";
const SAID: &str = "/tmp/takt.said";
const STATE: &str = "/sys/kernel/sched_ext/state";
/// The kernel's verifier takes its time in an emulated machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Takt(Child);

impl Takt {
    /// Returns when it schedules.
    pub fn run(policy: &str) -> Result<Self> {
        let said = File::create(SAID).context(SAID)?;
        let mut takt = Command::new(PROGRAM);
        takt.args(["run", "--policy", policy]).stdout(said.try_clone().context(SAID)?).stderr(said);
        let mut takt = takt.spawn().context(PROGRAM)?;
        until("takt run", PATIENCE, || {
            if let Some(status) = takt.try_wait().context(PROGRAM)? {
                bail!("takt run: {status}: {}", read(SAID)?);
            }
            Ok(read(SAID)?.contains("schedules this host"))
        })?;
        let takt = Self(takt);
        takt.schedules()?;
        Ok(takt)
    }

    /// Whether it is still in force.
    pub fn schedules(&self) -> Result<()> {
        let state = read(STATE)?;
        ensure!(state == "enabled", "sched_ext is {state}: {}", read(SAID)?);
        Ok(())
    }

    /// Ends it as Ctrl-C does; what it has said.
    pub fn stop(mut self) -> Result<String> {
        self.schedules()?;
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).context("takt run")?;
        let status = self.0.wait().context("takt run")?;
        ensure!(status.success(), "takt run: {status}: {}", read(SAID)?);
        until("the kernel's scheduler", Duration::from_secs(10), || Ok(read(STATE)? == "disabled"))?;
        read(SAID)
    }
}

/// The VMs that it lists.
pub fn vms() -> Result<Vec<Value>> {
    let out = Command::new(PROGRAM).args(["status", "--json"]).output().context(PROGRAM)?;
    ensure!(out.status.success(), "takt status: {}", String::from_utf8_lossy(&out.stderr));
    let status: Value = serde_json::from_slice(&out.stdout).context("takt status")?;
    Ok(status["vms"].as_array().context("vms")?.clone())
}

/// Looks until `done`.
pub fn until(what: &str, patience: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        ensure!(start.elapsed() < patience, "{what}: not after {} s", patience.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
