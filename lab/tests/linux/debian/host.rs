// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: commands, files, VMs, and what Takt says of them.

use super::init::RUN;
use crate::takt::{state, status, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::Duration;

pub const CONFIG: &str = "/etc/takt/takt.toml";
/// What the package's file keeps for `takt why`, so that each file of this test does.
pub const KEEPS: &str = "[host]\nrecorder_mib = 64\n";
/// A network namespace, as containers of hosts with several tenants have them.
pub const TENANT: &str = "tenant";
pub const TAP: &str = "tap0";
/// For what happens within seconds of this slow machine.
pub const SOON: Duration = Duration::from_secs(60);
/// Until Takt is loaded.
pub const LOAD: Duration = Duration::from_secs(300);

/// A line of an operator's shell.
pub fn shell(line: &str) -> Result<Output> {
    println!("# {line}");
    Command::new("sh").args(["-c", line]).env("DEBIAN_FRONTEND", "noninteractive").output().context("sh")
}

/// What it prints; it must succeed.
pub fn sh(line: &str) -> Result<String> {
    let out = shell(line)?;
    let [said, wrong] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    ensure!(out.status.success(), "{line}: {}: {said}{wrong}", out.status);
    Ok(said.trim_end().to_owned())
}

/// What it prints, however it ends.
pub fn says(line: &str) -> Result<String> {
    let out = shell(line)?;
    Ok(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).trim_end().to_owned())
}

/// A property of a unit.
pub fn property(unit: &str, name: &str) -> Result<String> {
    let out = Command::new("systemctl").args(["show", "-P", name, unit]).output().context("systemctl")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The service is active, and its program schedules the machine. Its process.
pub fn schedules() -> Result<String> {
    let active = property("takt", "ActiveState")?;
    ensure!(active == "active" && state()? == "enabled", "takt is {active}, sched_ext {}", state()?);
    property("takt", "MainPID")
}

/// Waits until that is so, in another process than `before`.
pub fn schedules_again(before: &str) -> Result<String> {
    // A file that is read costs the machine little while Takt is loaded.
    until("Takt", LOAD, || Ok(state()? == "enabled"))?;
    until("another process of Takt's", SOON, || {
        Ok(property("takt", "ActiveState")? == "active" && property("takt", "MainPID")? != before)
    })?;
    schedules()
}

/// The kernel's own scheduler is in force.
pub fn default_is_back() -> Result<()> {
    until("the kernel's scheduler", SOON, || Ok(state()? == "disabled"))
}

/// Lines of the service, and of what systemd says of it, in this boot.
pub fn journal() -> Result<Vec<String>> {
    Ok(sh("journalctl --boot --unit takt --output cat")?.lines().map(str::to_owned).collect())
}

/// A VM, which is a service of its own, as under libvirt.
pub struct Vm {
    name: &'static str,
    pid: String,
}

impl Vm {
    fn start(name: &'static str, workload: &Value, properties: &str) -> Result<Self> {
        let file = format!("{RUN}/{name}.json");
        std::fs::write(&file, json!({"vcpus": 1, "workload": workload}).to_string()).context(name)?;
        sh(&format!(
            "systemd-run --quiet --collect --slice machine.slice --unit vm-{name} {properties} \
             {RUN}/takt-vmm --name {name} --spec {file}"
        ))?;
        let vm = Self { name, pid: property(&format!("vm-{name}"), "MainPID")? };
        vm.runs_on()?;
        Ok(vm)
    }

    /// It talks by a tap in the namespace of a tenant.
    pub fn pbx() -> Result<Self> {
        let properties = format!("--property NetworkNamespacePath=/run/netns/{TENANT}");
        Self::start("pbx", &json!({"kind": "source", "tap": TAP, "period_ns": 20_000_000}), &properties)
    }

    /// It has a little to do now and then.
    pub fn web() -> Result<Self> {
        Self::start("web", &json!({"kind": "periodic", "period_ns": 20_000_000, "work": 100_000}), "")
    }

    /// It computes.
    pub fn hog(name: &'static str) -> Result<Self> {
        Self::start(name, &json!({"kind": "hog"}), "")
    }

    /// Its devices send it messages, and it computes all the time.
    pub fn greedy() -> Result<Self> {
        let workload = json!({"kind": "interrupts", "msi_ns": 7_300_000, "timer_ns": 11_900_000});
        Self::start("greedy", &workload, "")
    }

    /// It is still the same process, and gets CPU time.
    pub fn runs_on(&self) -> Result<()> {
        let cpu = || property(&format!("vm-{}", self.name), "CPUUsageNSec");
        let before = cpu()?;
        until(self.name, SOON, || Ok(cpu()? != before))?;
        let now = property(&format!("vm-{}", self.name), "MainPID")?;
        ensure!(now == self.pid, "{}: process {} is now {now}", self.name, self.pid);
        Ok(())
    }

    pub fn stop(self) -> Result<()> {
        sh(&format!("systemctl stop vm-{}", self.name)).map(drop)
    }
}

/// What `takt status` says of a VM; `None` before it is found.
pub fn of(name: &str) -> Result<Option<Value>> {
    Ok(status()?["vms"].as_array().context("vms")?.iter().find(|vm| vm["name"] == name).cloned())
}

/// Waits until these VMs have these settings, each with its source.
pub fn settings(want: &[(&str, &str, Value, &str)]) -> Result<()> {
    let holds = || {
        let mut all = true;
        for (name, key, value, by) in want {
            let vm = of(name)?;
            all &= vm.is_some_and(|vm| vm[*key] == *value && vm["set_by"][*key] == *by);
        }
        Ok(all)
    };
    until("settings", SOON, holds).with_context(|| format!("{want:?}: {}", says("takt status").unwrap_or_default()))
}

/// All files of the disk but what changes by itself, with their mode, owner, size and time.
pub fn tree() -> Result<BTreeMap<String, String>> {
    const CHANGES: [&str; 5] = ["/root", "/var/log", "/var/cache", "/var/lib/apt", "/var/tmp"];
    // Of these directories, all but what tells of packages.
    const STATE: [(&str, &str); 2] = [("/var/lib/dpkg", "info"), ("/var/lib/systemd", "deb-systemd-helper-*")];
    let changes = CHANGES.map(|dir| format!("-path {dir} -prune -o")).join(" ");
    let state = STATE.map(|(dir, but)| format!("-path '{dir}/*' ! -path '{dir}/{but}' ! -path '{dir}/{but}/*' -o"));
    let listed = sh(&format!(
        "find / -xdev {changes} {} -type d -printf '%p\t%M %U %G\n' -o -printf '%p\t%M %U %G %s %T@ %l\n'",
        state.join(" ")
    ))?;
    let pair = |line: &str| line.split_once('\t').map(|(path, about)| (path.to_owned(), about.to_owned()));
    Ok(listed.lines().filter_map(pair).collect())
}

/// Programs and maps of BPF in the kernel but those that systemd attaches to cgroups, by name.
pub fn bpf() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for kind in ["prog", "map", "link"] {
        let listed: Value = serde_json::from_str(&sh(&format!("bpftool --json {kind} show"))?).context(kind)?;
        for one in listed.as_array().context(kind)? {
            let of = one["type"].as_str().unwrap_or_default();
            if !of.starts_with("cgroup") {
                names.push(format!("{kind} {of} {}", one["name"].as_str().unwrap_or_default()));
            }
        }
    }
    names.sort();
    Ok(names)
}
