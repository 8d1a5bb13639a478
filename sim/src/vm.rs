// SPDX-License-Identifier: GPL-2.0-only
//! VMs of a scenario.

use crate::constants::Constants;
use crate::keys;
use crate::server;
use crate::spec::{Chosen, Entry, List};
use anyhow::{Context, Result, bail};
use takt_control::{Ports, RtMode, Server, VmConfig, VmParams, groups, near};
use takt_policy::vm_settings;
use toml::{Table, Value};

/// Most physical machines.
pub(crate) const MAX_MACHINES: u32 = 8;
/// The workload of a VM that names none.
const DEFAULT: &str = "idle";

/// One `[[vm]]` table: `count` equal VMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSpec {
    pub name: String,
    pub count: u32,
    pub vcpus: u32,
    /// What the policy holds of it beside its server.
    pub params: VmParams,
    /// Source ports of its real-time application, known beforehand (rule M5).
    pub ports: Ports,
    /// Budget and period of each of its VCPUs.
    pub server: Server,
    /// VMs of one application (rule P35); empty = none.
    pub group: String,
    /// Machine that it is on, from 1.
    pub on: u32,
    /// PCPUs its VCPUs may run on (hard affinity); empty = all.
    pub affinity: Vec<u32>,
    pub dedicated: Dedicated,
    pub workload: Chosen,
}

/// PCPUs of a VM's own under `pin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dedicated {
    /// As `Each` or `None`, by the workload.
    Auto,
    None,
    /// Each VCPU gets one.
    Each,
    /// The VM's VCPUs have these together; VMs may name the same ones.
    These(Vec<u32>),
}

impl VmSpec {
    /// Reads the `n`-th `[[vm]]` table.
    pub(crate) fn read(mut table: Table, n: usize, workloads: List) -> Result<Self> {
        let Some(name) = table.remove("name") else { bail!("vm: entry {n} has no name; allowed: name = \"...\"") };
        let name = keys::text("vm.name", &name).and_then(|t| keys::name(&t).context("vm.name"))?;
        if !table.contains_key("vcpus") {
            bail!("vm.{name}.vcpus: missing; allowed: 1 to 1024");
        }
        let workload = table.remove("workload").unwrap_or(Value::String(DEFAULT.into()));
        let mut vm = Self {
            name,
            count: 1,
            vcpus: 1,
            params: VmParams::defaults(),
            ports: Ports::default(),
            server: Server::default(),
            group: String::new(),
            on: 1,
            affinity: Vec::new(),
            dedicated: Dedicated::Auto,
            workload: Chosen::named(workloads, DEFAULT)?,
        };
        let prefix = format!("vm.{}", vm.name);
        vm.read_workload(&prefix, workload)?;
        for (key, value) in table {
            let path = format!("{prefix}.{key}");
            let text = keys::text(&path, &value)?;
            vm.set(&key, &text).context(path)?;
        }
        Ok(vm)
    }

    fn read_workload(&mut self, prefix: &str, value: Value) -> Result<()> {
        let path = format!("{prefix}.workload");
        let Value::Table(mut table) = value else {
            self.workload = self.workload.other(&keys::text(&path, &value)?).context(path)?;
            return Ok(());
        };
        let Some(kind) = table.remove("type") else { bail!("{path}: no type; allowed: {}", self.workload.names()) };
        self.workload = self.workload.other(&keys::text(&path, &kind)?).with_context(|| format!("{path}.type"))?;
        for (key, value) in table {
            let path = format!("{path}.{key}");
            let text = keys::text(&path, &value)?;
            self.workload.set(&key, &text).context(path)?;
        }
        Ok(())
    }

    /// Sets one key; those of the workload go by their own name (`calls`) unless the VM has one of that name (`period`), or with
    /// `workload.` before it.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "count" => self.count = keys::count(value, 1, 255)?,
            "vcpus" => self.vcpus = keys::count(value, 1, 1024)?,
            "ports" => self.ports = if value.is_empty() { Ports::default() } else { value.parse()? },
            "on" => self.on = keys::count(value, 1, MAX_MACHINES)?,
            "affinity" => self.affinity = keys::cpus(value)?,
            "group" => self.group = groups::name(value)?,
            "dedicated" => {
                self.dedicated = match value {
                    "true" => Dedicated::Each,
                    "false" => Dedicated::None,
                    _ => Dedicated::These(keys::cpus(value).context("allowed: true, false, or PCPUs such as 0-1")?),
                }
            }
            "workload" | "workload.type" => self.workload = self.workload.other(value)?,
            _ if server::set(&mut self.server, key, value)? => {}
            _ if server::set_other(&mut self.params, key, value)? => {}
            _ => {
                let own = key.strip_prefix("workload.").unwrap_or(key);
                if !self.workload.has_key(own) {
                    let settings = vm_settings().iter().map(|p| if p.name == "rt" { "rt, ports" } else { p.name });
                    let settings = settings.collect::<Vec<_>>().join(", ");
                    let mine = format!("count, vcpus, {settings}, group, on, affinity, dedicated, workload");
                    let theirs = self.workload.key_names();
                    let hint = near::hint(own, mine.split(", ").chain(theirs.split(", ")));
                    bail!("unknown key{hint}; allowed: {mine}; of the workload {}: {theirs}", self.workload.name());
                }
                return self.workload.set(own, value);
            }
        }
        Ok(())
    }

    /// The names of its VMs.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let number = |n: u32| if self.count == 1 { self.name.clone() } else { format!("{}-{n}", self.name) };
        (1..=self.count).map(number)
    }

    /// What the operator says of each.
    pub fn config(&self) -> VmConfig {
        let (params, ports, group) = (self.params.clone(), self.ports.clone(), self.group.clone());
        VmConfig { params, ports, group }
    }

    pub fn rt(&self) -> RtMode {
        self.params.rt()
    }

    /// All of it but the workload.
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { name: &self.name, count: self.count, vcpus: self.vcpus, server: &self.server }
    }

    /// What each of its VMs is, in a few words.
    pub fn about(&self) -> String {
        self.workload.spec().about(self.vcpus).unwrap_or_else(|| self.workload.name().to_owned())
    }

    /// Calls of a VoIP or media server, else 0.
    pub fn calls(&self) -> u32 {
        self.workload.spec().calls()
    }

    /// CPU time for a packet of its calls, ns, if packets are all its work.
    pub fn per_packet(&self, c: &Constants) -> Option<u64> {
        self.workload.spec().per_packet(c)
    }

    /// Periodic tasks of its guest.
    pub fn tasks(&self) -> usize {
        self.workload.spec().tasks()
    }

    /// Streams that its clients send.
    pub fn streams(&self) -> u32 {
        self.workload.spec().streams()
    }

    /// Threads of a hog, a parallel program or a part of an application, else 0.
    pub fn threads(&self) -> u32 {
        self.workload.spec().threads(self.vcpus)
    }

    /// What no single key can tell.
    pub(crate) fn validate(&self) -> Result<()> {
        server::validate(&self.server, &format!("vm.{}", self.name))?;
        self.workload.spec().validate(&self.entry())
    }

    /// Whether each of its VCPUs gets a PCPU of its own under `pin`.
    pub fn is_dedicated(&self) -> bool {
        match self.dedicated {
            Dedicated::Auto => self.workload.spec().is_dedicated(),
            Dedicated::Each => true,
            Dedicated::None | Dedicated::These(_) => false,
        }
    }

    /// PCPUs that it has for itself under `pin`.
    pub fn own_pcpus(&self) -> &[u32] {
        match &self.dedicated {
            Dedicated::These(list) => list,
            _ => &[],
        }
    }
}
