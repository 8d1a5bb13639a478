// SPDX-License-Identifier: GPL-2.0-only
//! What an operator does while a scenario runs: creates VMs, changes their parameters, destroys them.

use crate::keys;
use crate::server;
use crate::vm::VmSpec;
use anyhow::{Context, Result, bail};
use takt_control::{Change, Server, VmParams, groups, near};
use takt_policy::vm_settings;
use toml::Table;

/// One `[[at]]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// From the beginning of the measured window, ns.
    pub time: u64,
    /// An entry of the scenario, which stands for all its VMs, or one of them.
    pub vm: String,
    pub act: Act,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Destroy,
    Set(Settings),
}

/// Parameters of real time that a VM gets instead of those it has; `None` leaves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub server: Option<Server>,
    pub params: VmParams,
    /// Empty: it leaves its group.
    pub group: Option<String>,
}

impl Settings {
    /// Sets one key; false if there is none of that name.
    fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        if FIXED.contains(&key) {
            return Ok(false);
        }
        match key {
            "group" => self.group = Some(groups::name(value)?),
            _ if server::set_other(&mut self.params, key, value)? => {}
            _ => {
                let mut server = self.server.unwrap_or_default();
                if !server::set(&mut server, key, value)? {
                    return Ok(false);
                }
                self.server = Some(server);
            }
        }
        Ok(true)
    }

    /// Those that a host sets one by one.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        let params = self.params.iter().map(|(info, value)| Change::Param(info, value));
        params.chain(self.group.clone().map(Change::Group))
    }
}

/// Settings that a VM keeps as it got them.
const FIXED: [&str; 3] = ["weight", "cap", "rt"];

/// Names of those that the script may change.
fn settings() -> impl Iterator<Item = &'static str> {
    vm_settings().iter().map(|p| p.name).filter(|name| !FIXED.contains(name)).chain(["group"])
}

/// Keys, for an error.
fn allowed() -> String {
    format!("time, and create, destroy, or vm with {}", settings().collect::<Vec<_>>().join(", "))
}

impl Step {
    /// Reads the `n`-th `[[at]]` table.
    pub(crate) fn read(table: Table, n: usize) -> Result<Self> {
        let prefix = format!("at.{n}");
        let mut time = None;
        let mut act: Option<(String, Option<Act>)> = None;
        let mut set: Option<Settings> = None;
        for (key, value) in table {
            let path = format!("{prefix}.{key}");
            let text = keys::text(&path, &value)?;
            let mut whom = |what| match act.replace((text.clone(), what)) {
                None => Ok(()),
                Some(_) => bail!("{prefix}: more than one action; allowed: one of create, destroy, vm"),
            };
            match key.as_str() {
                "time" => time = Some(keys::time(&text, 0, keys::DAY).context(path)?),
                "create" => whom(Some(Act::Create))?,
                "destroy" => whom(Some(Act::Destroy))?,
                "vm" => whom(None)?,
                _ => {
                    if !set.get_or_insert_default().set(&key, &text).context(path.clone())? {
                        let hint = near::hint(&key, ["time", "create", "destroy", "vm"].into_iter().chain(settings()));
                        bail!("{path}: unknown key{hint}; allowed: {}", allowed());
                    }
                }
            }
        }
        let (Some(time), Some((vm, act))) = (time, act) else { bail!("{prefix}: incomplete; allowed: {}", allowed()) };
        let act = match (act, set) {
            (Some(act), None) => act,
            (None, Some(settings)) => Act::Set(settings),
            _ => bail!("{prefix}: parameters without vm, or vm without them; allowed: {}", allowed()),
        };
        if let Act::Set(Settings { server: Some(server), .. }) = &act {
            server::validate(server, &prefix)?;
        }
        Ok(Self { time, vm, act })
    }

    /// Whether it is about the VM of that name, of entry `spec`.
    pub fn concerns(&self, spec: &VmSpec, name: &str) -> bool {
        self.vm == name || self.vm == spec.name
    }

    /// The change and the VM or pool that it concerns, for messages.
    pub(crate) fn describe(&self) -> String {
        match self.act {
            Act::Create => format!("create {}", self.vm),
            Act::Destroy => format!("destroy {}", self.vm),
            Act::Set(_) => format!("a change of {}", self.vm),
        }
    }

    /// What no single step can tell: VMs come once, then change, then go.
    pub(crate) fn validate(all: &[Self], vms: &[VmSpec]) -> Result<()> {
        if !all.is_sorted_by_key(|s| s.time) {
            bail!("at: times are not in order; allowed: ascending");
        }
        if let Some(n) = all.iter().position(|s| !vms.iter().any(|vm| vm.names().any(|name| s.concerns(vm, &name)))) {
            let names: Vec<_> = vms.iter().map(|vm| vm.name.as_str()).collect();
            bail!("at.{n}: no VM '{}'; allowed: {}", all[n].vm, names.join(", "));
        }
        let moves = |s: &&Self| matches!(s.act, Act::Create | Act::Destroy);
        let stay = vms.iter().filter_map(|vm| Some((vm, vm.workload.spec().stays()?)));
        for (vm, what, name) in stay.flat_map(|(vm, what)| vm.names().map(move |name| (vm, what, name))) {
            if let Some(n) = all.iter().position(|s| moves(&s) && s.concerns(vm, &name)) {
                bail!("at.{n}: VM '{name}' is {what}; allowed: VMs that are not");
            }
        }
        for (vm, name) in vms.iter().flat_map(|vm| vm.names().map(move |name| (vm, name))) {
            let mut mine = (0..).zip(all).filter(|(_, s)| s.concerns(vm, &name));
            let mut first = true;
            let mut gone = false;
            if let Some((n, _)) = mine.find(|(_, s)| {
                let wrong = gone || (s.act == Act::Create && !first);
                first = false;
                gone = s.act == Act::Destroy;
                wrong
            }) {
                bail!("at.{n}: VM '{name}' already exists, or is gone; allowed: create, then changes, then destroy");
            }
        }
        Ok(())
    }
}
