// SPDX-License-Identifier: GPL-2.0-only
//! A live or simulated host as control sees it, and bringing it to a configuration.

use crate::config::VmConfig;
use crate::params::is_server;
use crate::ports::Ports;
use crate::server::Server;
use crate::settings::param;
use crate::{duration, near, spec};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt;
use takt_policy::ParamInfo;

/// A VM as its host holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmState {
    /// The policy's index.
    pub id: u32,
    pub name: String,
    /// What an operator may set.
    pub config: VmConfig,
    /// Whether it is real-time now, by whatever way.
    pub rt: bool,
    /// Period in use, ns; 0 = none yet.
    pub period: u64,
}

/// What control needs of a host. Every call is one operation of the host or one read of its state; `now` in ns.
pub trait Host {
    /// All VMs, by ascending id.
    ///
    /// # Errors
    /// The host cannot be read.
    fn vms(&self) -> Result<Vec<VmState>>;

    /// Sets one parameter of a VM.
    ///
    /// # Errors
    /// The host refuses it.
    fn set(&mut self, now: u64, vm: u32, change: &Change) -> Result<()>;

    /// Marks a VM as real-time or not by hand, as a monitor would; `period` ns (0 = unknown), `lease` ns from now.
    ///
    /// # Errors
    /// The host refuses it: `rt=off`, or too many real-time VMs.
    fn set_rt(&mut self, now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()>;

    /// The VM of that name.
    ///
    /// # Errors
    /// One line with the names there are.
    fn find(&self, name: &str) -> Result<VmState> {
        let vms = self.vms()?;
        match vms.iter().find(|vm| vm.name == name) {
            Some(vm) => Ok(vm.clone()),
            None => {
                let names = vms.iter().map(|vm| vm.name.as_str());
                bail!("no VM `{name}`{}", near::known_are(name, names))
            }
        }
    }
}

/// One parameter of a VM with its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A setting that the policy holds, but none of a server.
    Param(&'static ParamInfo, u64),
    Ports(Ports),
    /// From what it has to what it shall have: see [`Server::bring`].
    Server(Server, Server),
    /// Empty: it leaves its group. The host numbers groups and packs them ([`crate::groups::Groups`]).
    Group(String),
}

impl Change {
    /// The setting of that name, with its new value.
    ///
    /// # Panics
    /// There is no such setting.
    pub fn param(name: &str, value: u64) -> Self {
        Self::Param(param(name), value)
    }

    /// Key and value for `adjust`; `None` for what concerns the monitor (ports) instead of the policy, or takes several.
    pub fn adjust(&self) -> Option<(u32, u64)> {
        match self {
            Change::Param(info, value) => Some((info.key, *value)),
            Change::Ports(_) | Change::Server(..) | Change::Group(_) => None,
        }
    }
}

/// As `takt set` takes it.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Param(info, value) => write!(f, "{}={}", info.name, spec::show(info, *value)),
            Change::Ports(_) => f.write_str("ports"),
            Change::Server(_, want) => {
                let [budget, period] = [want.budget, want.period].map(duration::format);
                write!(f, "budget={budget} period={period} priority={}", want.priority)
            }
            Change::Group(group) => write!(f, "group={group}"),
        }
    }
}

/// What [`apply`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// VM ids and what changed, in the order performed.
    pub changes: Vec<(u32, Change)>,
    /// Configured VMs that the host does not have (yet).
    pub absent: Vec<String>,
}

/// Brings `host` to `config` by the smallest set of operations: reads the host's state and sets only what differs.
/// Nothing is remembered between calls, so a second call does nothing, and a call after a crash completes the first.
///
/// # Errors
/// A configuration out of range (before anything is changed), or an operation that the host refuses; it names the VM.
pub fn apply(config: &BTreeMap<String, VmConfig>, host: &mut dyn Host, now: u64) -> Result<Applied> {
    for (name, vm) in config {
        vm.validate(name)?;
    }
    let mut done = Applied::default();
    let vms = host.vms()?;
    for (name, want) in config {
        let Some(vm) = vms.iter().find(|vm| vm.name == *name) else {
            done.absent.push(name.clone());
            continue;
        };
        for change in differences(&vm.config, want) {
            host.set(now, vm.id, &change).with_context(|| format!("VM `{name}`: {change}"))?;
            done.changes.push((vm.id, change));
        }
    }
    Ok(done)
}

fn differences(have: &VmConfig, want: &VmConfig) -> Vec<Change> {
    let mut all = Vec::new();
    // The monitor must know the ports before `rt` lets it act on them.
    if have.ports != want.ports {
        all.push(Change::Ports(want.ports.clone()));
    }
    // Unless they say something, what the pool says counts.
    let said = want.params.said();
    let differing = said.iter().filter(|(info, value)| have.params.value(info.name) != *value);
    let (mut server, mut rt) = (Some(Change::Server(have.server(), want.server())), None);
    for (info, value) in differing {
        match info.name {
            "rt" => rt = Some(Change::Param(info, value)),
            // Those of a server change together.
            _ if is_server(info) => all.extend(server.take()),
            _ => all.push(Change::Param(info, value)),
        }
    }
    if have.group != want.group {
        all.push(Change::Group(want.group.clone()));
    }
    all.extend(rt);
    all
}
