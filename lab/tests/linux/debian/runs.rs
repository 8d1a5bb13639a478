// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: the second boot. Takt is there by itself, and ends in several ways.

use super::host::{
    CONFIG, SOON, Vm, default_is_back, journal, property, says, schedules, schedules_again, settings, sh, shell,
};
use super::waits;
use crate::takt::{status, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub fn runs() -> Result<Value> {
    let process = schedules().context("after a boot")?;
    let policy = status()?["host"]["policy"].clone();
    ensure!(policy == "credit", "after a boot the policy is {policy}");
    let enabled = says("systemctl is-enabled takt")?;
    ensure!(enabled == "enabled", "after a boot the service is {enabled}");
    let ended = sh("journalctl --boot -1 --unit takt --output cat")?;
    let well = "the kernel's default scheduler is back";
    ensure!(ended.contains(well) && ended.contains("Deactivated successfully"), "when the machine went down: {ended}");
    let vms = [Vm::pbx()?, Vm::web()?];
    let asked = [("pbx", "weight", json!(400), "[vm.pbx]")];
    settings(&asked)?;
    waits::remembers()?;

    let process = killed(&process, &vms)?;
    settings(&asked).context("after kill -9")?;
    let process = out_of_memory(&process, &vms)?;
    settings(&asked).context("after the end of memory")?;
    refused(&process, &vms)?;
    settings(&asked).context("after a file that is refused")?;
    Ok(json!({"restarts": property("takt", "NRestarts")?, "ended": ended, "journal": journal()?}))
}

fn killed(process: &str, vms: &[Vm]) -> Result<String> {
    sh(&format!("kill -KILL {process}"))?;
    default_is_back()?;
    vms.iter().try_for_each(Vm::runs_on)?;
    let now = schedules_again(process)?;
    vms.iter().try_for_each(Vm::runs_on)?;
    Ok(now)
}

/// Where the machine lacks memory, others are killed; where the service's cgroup does, Takt is, and starts again.
fn out_of_memory(process: &str, vms: &[Vm]) -> Result<String> {
    sh("systemd-run --quiet --unit big sh -c 'head -c 200M /dev/zero | tail | sleep infinity'")?;
    until("a process with much memory", SOON, || {
        Ok(property("big", "MemoryCurrent")?.parse::<u64>().is_ok_and(|bytes| bytes > 100 << 20))
    })?;
    sh("echo f > /proc/sysrq-trigger")?;
    until("a process that is killed", SOON, || {
        Ok(property("big", "MemoryCurrent")?.parse::<u64>().is_ok_and(|bytes| bytes < 100 << 20)
            || property("big", "Result")? == "oom-kill")
    })?;
    ensure!(schedules()? == process, "the kernel has killed Takt before others");
    sh("systemctl stop big; systemctl reset-failed big || true")?;

    sh("systemctl set-property --runtime takt MemoryMax=2M MemorySwapMax=0")?;
    default_is_back()?;
    sh("systemctl set-property --runtime takt MemoryMax=infinity")?;
    let killed = journal()?.iter().any(|line| line.contains("oom-kill"));
    ensure!(killed, "Takt has ended, but memory was not the reason: {:?}", journal()?);
    let now = schedules_again(process)?;
    vms.iter().try_for_each(Vm::runs_on)?;
    Ok(now)
}

/// The service does not start with a file that is wrong, and is not tried again, until somebody says so.
fn refused(process: &str, vms: &[Vm]) -> Result<()> {
    let good = std::fs::read_to_string(CONFIG).context(CONFIG)?;
    std::fs::write(CONFIG, "[vm.pbx]\nweight = 0\n").context(CONFIG)?;
    let restart = shell("systemctl restart takt")?;
    ensure!(!restart.status.success(), "a wrong file does not fail the restart");
    let [active, status] = ["ActiveState", "ExecMainStatus"].map(|name| property("takt", name));
    let (active, status) = (active?, status?);
    ensure!(active == "failed" && status == "2", "with a wrong file the service is {active}, status {status}");
    default_is_back()?;
    vms.iter().try_for_each(Vm::runs_on)?;

    // After several attempts systemd makes no more, with whatever file, until it is told to.
    until("a start that systemd refuses", SOON, || {
        shell("systemctl restart takt")?;
        Ok(journal()?.concat().contains("Start request repeated too quickly"))
    })?;
    std::fs::write(CONFIG, good).context(CONFIG)?;
    ensure!(!shell("systemctl restart takt")?.status.success(), "systemd makes another attempt");
    sh("systemctl reset-failed takt")?;
    sh("systemctl restart takt")?;
    schedules_again(process)?;
    vms.iter().try_for_each(Vm::runs_on)
}
