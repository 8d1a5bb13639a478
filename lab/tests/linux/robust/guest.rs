// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: a VM.

use crate::takt::{cpu_ns, until};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const VMM: &str = "/bin/takt-vmm";
/// A VM that is killed ends within this.
const KILLED: Duration = Duration::from_secs(60);

pub struct Guest {
    name: String,
    vmm: Child,
}

impl Guest {
    pub fn start(name: &str, vcpus: u32, workload: &Value) -> Result<Self> {
        Self::with(name, &json!({"vcpus": vcpus, "workload": workload}))
    }

    pub fn with(name: &str, spec: &Value) -> Result<Self> {
        let file = format!("/tmp/{name}.json");
        std::fs::write(&file, spec.to_string()).context("specification")?;
        let mut vmm = Command::new(VMM);
        let vmm = vmm.args(["--name", name, "--spec", &file]).stdout(Stdio::piped()).spawn().context(VMM)?;
        Ok(Self { name: name.to_owned(), vmm })
    }

    pub fn hog(name: &str, vcpus: u32) -> Result<Self> {
        Self::start(name, vcpus, &json!({"kind": "hog"}))
    }

    pub fn pid(&self) -> u32 {
        self.vmm.id()
    }

    /// Returns when all VCPUs have run.
    pub fn runs(&self, vcpus: usize) -> Result<()> {
        until(&self.name, Duration::from_secs(60), || {
            let cpu = self.cpu_ns()?;
            Ok(cpu.len() >= vcpus && cpu.iter().all(|&(_, ns)| ns > 10_000_000))
        })
    }

    /// CPU time of all its threads, also of those that have ended.
    pub fn all_cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.pid()).context("a VMM's CPU clock")
    }

    /// Threads of the VCPUs with the CPU time that each has had.
    pub fn cpu_ns(&self) -> Result<Vec<(i32, u64)>> {
        self.threads("CPU ")
    }

    fn threads(&self, called: &str) -> Result<Vec<(i32, u64)>> {
        let tasks = format!("/proc/{}/task", self.pid());
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let path = entry.context("task")?.path();
            let (Ok(name), Ok(times)) =
                (std::fs::read_to_string(path.join("comm")), std::fs::read_to_string(path.join("schedstat")))
            else {
                continue;
            };
            let tid = path.file_name().and_then(|n| n.to_str()?.parse().ok()).context("task")?;
            let cpu = times.split_whitespace().next().and_then(|n| n.parse().ok()).context("schedstat")?;
            if name.starts_with(called) {
                all.push((tid, cpu));
            }
        }
        Ok(all)
    }

    /// Begins the measured time.
    pub fn mark(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGUSR1).context(VMM)
    }

    /// Ends the measured time; what the VMM says of it.
    pub fn end(self) -> Result<Value> {
        self.stop()?;
        self.report()
    }

    /// Ends the measured time, and returns at once.
    pub fn stop(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGTERM).context(VMM)
    }

    /// What the VMM says when it has been stopped.
    pub fn report(self) -> Result<Value> {
        let out = self.vmm.wait_with_output().context(VMM)?;
        ensure!(out.status.success(), "{}: {}", self.name, out.status);
        serde_json::from_slice(&out.stdout).with_context(|| self.name.clone())
    }

    /// If it does not go, the kernel says on the console where its threads are.
    pub fn kill(mut self) -> Result<()> {
        self.vmm.kill().context(VMM)?;
        let gone = until("end of a VM that was killed", KILLED, || Ok(self.vmm.try_wait().context(VMM)?.is_some()));
        if gone.is_err() {
            show_tasks()?;
        }
        gone
    }
}

/// The kernel tells where all tasks are, and what the CPUs do.
fn show_tasks() -> Result<()> {
    const TRIGGER: &str = "/proc/sysrq-trigger";
    // Whatever its importance.
    for request in ["9", "t", "l"] {
        std::fs::write(TRIGGER, request).context(TRIGGER)?;
    }
    Ok(())
}
