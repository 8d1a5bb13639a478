// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: the third boot. The package is upgraded while VMs run, removed and purged.

use super::NEWER;
use super::host::{
    CONFIG, Vm, bpf, default_is_back, journal, property, says, schedules, schedules_again, settings, sh, tree,
};
use super::init::RUN;
use super::steps::before;
use crate::system;
use crate::takt::until;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What Takt makes while it runs.
const MAKES: [&str; 4] = ["/run/takt.sock", "/run/takt", "/etc/takt", "/var/lib/takt"];
/// Until the kernel has freed programs that no process holds.
const FREED: Duration = Duration::from_secs(10);

pub fn leaves() -> Result<Value> {
    let process = schedules().context("after another boot")?;
    let vms = [Vm::pbx()?, Vm::web()?];
    let asked = [("pbx", "weight", json!(400), "[vm.pbx]")];
    settings(&asked)?;
    let loaded = bpf()?;
    let (files, programs) = before()?;
    ensure!(loaded.len() > programs.len(), "no program of Takt's in the kernel: {loaded:?}");
    let config = system::read(CONFIG)?;

    let said = sh(&format!("apt-get install --yes {RUN}/newer.deb"))?;
    let version = sh("dpkg-query --show --showformat '${Version}' takt")?;
    ensure!(version == NEWER, "version {version}: {said}");
    let now = schedules_again(&process).context("after an upgrade")?;
    let enabled = says("systemctl is-enabled takt")?;
    ensure!(enabled == "enabled", "after an upgrade the service is {enabled}");
    ensure!(system::read(CONFIG)? == config, "an upgrade changes {CONFIG}");
    settings(&asked)?;
    vms.iter().try_for_each(Vm::runs_on)?;
    ensure!(schedules()? == now, "Takt has ended after an upgrade: {:?}", journal()?);

    std::fs::create_dir_all("/run/takt/vm.d").context("/run/takt/vm.d")?;
    std::fs::write("/run/takt/vm.d/web.toml", "weight = 300\n").context("/run/takt/vm.d/web.toml")?;
    settings(&[("web", "weight", json!(300), "metadata")])?;
    sh("apt-get remove --yes takt")?;
    default_is_back()?;
    vms.iter().try_for_each(Vm::runs_on).context("after apt remove")?;
    ensure!(system::read(CONFIG)? == config, "apt remove changes {CONFIG}");
    sh("apt-get purge --yes takt")?;
    vms.iter().try_for_each(Vm::runs_on).context("after apt purge")?;

    for path in MAKES {
        ensure!(!Path::new(path).exists(), "{path} is there after apt purge");
    }
    let left = says("systemctl list-unit-files --no-legend 'takt*'; systemctl list-units --no-legend --all 'takt*'")?;
    ensure!(left.is_empty(), "after apt purge systemd knows {left}");
    ensure!(property("takt", "LoadState")? == "not-found", "after apt purge the service is loaded");
    until("the end of Takt's programs", FREED, || Ok(bpf()? == programs)).with_context(|| format!("{:?}", bpf()))?;
    let pinned = sh("find /sys/fs/bpf -mindepth 1 -name '*takt*'")?;
    ensure!(pinned.is_empty(), "pinned: {pinned}");
    let now = tree()?;
    for (path, about) in &now {
        ensure!(files.get(path) == Some(about), "{path} is {about}, before the package it was {:?}", files.get(path));
    }
    ensure!(now.len() == files.len(), "files are gone with the package");
    Ok(json!({"upgrade": said, "programs": loaded.len() - programs.len(), "files": now.len()}))
}
