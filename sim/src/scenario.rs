// SPDX-License-Identifier: GPL-2.0-only
//! A scenario: machine, Dom0, VMs and their workloads, read from TOML (`docs/scenarios.md` lists every key).
//!
//! Each key goes through [`Scenario::set`], so that a file and `--set key=value` mean the same and fail alike.

use crate::constants::{Constants, SETTLE};
use crate::keys;
use crate::pool::PoolSpec;
use crate::rng::{Purpose, Rng};
use crate::script::Step;
use crate::server;
use crate::spec::{self, List, TaskSpec};
use crate::units::Unit;
use crate::vm::{MAX_MACHINES, VmSpec};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::HashSet;
use takt_control::duration::format;
use takt_control::{Server, near};
use takt_policy::{NVCPU, NVM};
use toml::Value;

/// Everything a run depends on, besides policy and seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Short name; the file's name without its ending if the file gives none.
    pub name: String,
    /// One line for tables and reports.
    pub title: String,
    /// Measured time, ns.
    pub duration: u64,
    /// Time before it, ns; `None` = until all calls are up, and 1 s.
    pub warmup: Option<u64>,
    /// Policies to compare, as `takt_control::PolicySpec` reads them.
    pub policies: Vec<String>,
    /// Of every pool, unless its policy sets them, for `adjust`.
    pub parameters: Vec<(u32, u64)>,
    /// Load of task sets that are drawn at random, in percent of their VM's share.
    pub load: u32,
    pub release: Release,
    pub machine: Machine,
    pub dom0: Dom0,
    pub vms: Vec<VmSpec>,
    /// PCPUs and VMs apart from those that `policies` compare.
    pub pools: Vec<PoolSpec>,
    /// In the order of time.
    pub script: Vec<Step>,
    pub constants: Constants,
}

/// When the periods of servers begin (rule R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// All when the VMs are created.
    Synchronous,
    /// Each at a random time within its first period, as VMs are not created at the same time.
    Random,
}

/// PCPUs and what they share. PCPU n has core n/threads, LLC n/llc, node n/node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub pcpus: u32,
    /// How many such machines there are, each with a Dom0.
    pub machines: u32,
    /// Hardware threads per core.
    pub threads: u32,
    /// PCPUs per last-level cache.
    pub llc: u32,
    /// PCPUs per NUMA node.
    pub node: u32,
}

/// The VM with the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dom0 {
    /// `None` = one per PCPU, as Xen does.
    pub vcpus: Option<u32>,
    pub weight: u32,
    pub net_vcpu: NetVcpu,
    /// Budget and period of each VCPU.
    pub server: Server,
    /// PCPUs that it may run on; empty = all.
    pub affinity: Vec<u32>,
    /// Under `pin`: its network VCPU gets a PCPU of its own; otherwise it keeps to `affinity` alone.
    pub dedicated: bool,
    /// Where netback's packets get the time that the monitor sees.
    pub stamp: Stamp,
}

/// Which of Dom0's VCPUs do network work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetVcpu {
    /// VCPU 0 has the NIC's interrupt and every vif.
    One,
    /// VCPU 0 has the NIC's interrupt, the vifs' transmit sides go round the others.
    PerVif,
    /// NIC and vifs spread over all: each VM's packets have a VCPU of their own, both ways.
    Spread,
}

/// The clock that the monitor reads (rule D3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// When netback transmits the packet.
    Netback,
    /// When the guest queued it.
    Guest,
}

/// Takes the list of tables of that name out of a document.
fn tables<T>(from: &mut toml::Table, key: &str, read: impl Fn(toml::Table, usize) -> Result<T>) -> Result<Vec<T>> {
    let list = match from.remove(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => bail!("{key}: not a list; allowed: [[{key}]] tables"),
    };
    let table = |(n, value)| match value {
        Value::Table(table) => read(table, n),
        _ => bail!("{key}: entry {n} is not a [[{key}]] table"),
    };
    list.into_iter().enumerate().map(table).collect()
}

fn allowed(name: &str, known: &[String]) -> String {
    near::allowed(name, known.iter().map(String::as_str))
}

/// Most calls of a scenario.
const MAX_CALLS: u64 = 50_000;
/// Most packets of all calls: each is a bit of memory.
const MAX_PACKETS: u64 = 8_000_000_000;
/// Most busy loops on a VCPU.
const MAX_THREADS: u32 = 64;

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            duration: 30_000_000_000,
            warmup: None,
            policies: Vec::new(),
            parameters: Vec::new(),
            load: 100,
            release: Release::Synchronous,
            machine: Machine { pcpus: 8, machines: 1, threads: 1, llc: 4, node: 4 },
            dom0: Dom0 {
                vcpus: None,
                weight: 256,
                net_vcpu: NetVcpu::One,
                server: Server::default(),
                affinity: Vec::new(),
                dedicated: true,
                stamp: Stamp::Netback,
            },
            vms: Vec::new(),
            pools: Vec::new(),
            script: Vec::new(),
            constants: Constants::default(),
        }
    }
}

impl Scenario {
    /// Reads a scenario of which the VMs have workloads of a list; `file` names it in errors, and the
    /// scenario if it has no name of its own.
    ///
    /// # Errors
    /// One line: file, key, what is wrong and what is allowed.
    pub(crate) fn from_list(text: &str, file: &str, workloads: List) -> Result<Self> {
        Self::read(text, file, workloads).map_err(|e| anyhow!("{file}: {}", takt_control::printable(&format!("{e:#}"))))
    }

    fn read(text: &str, file: &str, workloads: List) -> Result<Self> {
        let mut table = keys::parse(text)?;
        let mut s = Self::default();
        let vms = table.remove("vm").context("vm: missing; allowed: one [[vm]] table or more")?;
        let Value::Array(vms) = vms else { bail!("vm: not a list; allowed: one [[vm]] table or more") };
        for (n, vm) in vms.into_iter().enumerate() {
            let Value::Table(vm) = vm else { bail!("vm: entry {n} is not a [[vm]] table") };
            s.vms.push(VmSpec::read(vm, n, workloads)?);
        }
        s.pools = tables(&mut table, "pool", PoolSpec::read)?;
        s.script = tables(&mut table, "at", Step::read)?;
        for (key, value) in table {
            s.assign(&key, value)?;
        }
        if s.name.is_empty() {
            let base = file.rsplit('/').next().unwrap_or(file);
            s.name = base.strip_suffix(".toml").unwrap_or(base).to_string();
        }
        s.validate()?;
        Ok(s)
    }

    fn assign(&mut self, key: &str, value: Value) -> Result<()> {
        match value {
            Value::Table(t) if keys::is_section(key) => {
                t.into_iter().try_for_each(|(k, v)| self.assign(&format!("{key}.{k}"), v))
            }
            Value::Table(_) if !keys::is_key(key) => Err(keys::unknown(key).context(key.to_owned())),
            value => self.set_one(key, &keys::text(key, &value)?),
        }
    }

    /// Sets one value by its dotted name: `duration`, `machine.pcpus`, a constant (`machine.switch`), or a key of a VM
    /// (`vm.voip.calls`).
    ///
    /// # Errors
    /// One line that names the key and what is allowed; the scenario is then as before.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let mut changed = self.clone();
        changed.set_one(key, value)?;
        changed.validate()?;
        *self = changed;
        Ok(())
    }

    fn set_one(&mut self, key: &str, value: &str) -> Result<()> {
        if let Some(rest) = key.strip_prefix("vm.") {
            let (name, sub) = rest.split_once('.').with_context(|| format!("{key}: allowed: vm.NAME.KEY"))?;
            let names: Vec<_> = self.vms.iter().map(|v| v.name.clone()).collect();
            let vm = self.vms.iter_mut().find(|v| v.name == name);
            return match vm {
                Some(vm) => vm.set(sub, value).with_context(|| key.to_string()),
                None => bail!("{key}: no VM '{name}'{}", allowed(name, &names)),
            };
        }
        if let Some(rest) = key.strip_prefix("pool.") {
            let (name, sub) = rest.split_once('.').with_context(|| format!("{key}: allowed: pool.NAME.KEY"))?;
            let names: Vec<_> = self.pools.iter().map(|p| p.name.clone()).collect();
            return match self.pools.iter_mut().find(|p| p.name == name) {
                Some(pool) => pool.set(sub, value).with_context(|| key.to_string()),
                None => bail!("{key}: no pool '{name}'{}", allowed(name, &names)),
            };
        }
        if let Some(set) = self.constants.set(key, value) {
            return set.with_context(|| key.to_string());
        }
        self.set_structure(key, value).with_context(|| key.to_string())
    }

    fn set_structure(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "name" => self.name = keys::name(value)?,
            "title" => self.title = keys::line(value)?,
            "duration" => self.duration = keys::time(value, 1_000_000, keys::DAY)?,
            "warmup" if value == "auto" => self.warmup = None,
            "warmup" => self.warmup = Some(keys::time(value, 0, keys::DAY)?),
            "policies" => self.policies = keys::policies(value)?,
            "parameters" => self.parameters = takt_control::spec::parameters(value)?,
            "load" => self.load = keys::count(value, 1, 1_000)?,
            // `servers` and its words are older names.
            "release" | "servers" => {
                let value = match value {
                    "together" => "synchronous",
                    "apart" => "random",
                    _ => value,
                };
                let words = [("synchronous", Release::Synchronous), ("random", Release::Random)];
                self.release = keys::word(value, &words)?;
            }
            "machine.pcpus" => self.machine.pcpus = keys::count(value, 1, 64)?,
            "machine.machines" => self.machine.machines = keys::count(value, 1, MAX_MACHINES)?,
            "machine.threads" => self.machine.threads = keys::count(value, 1, 64)?,
            "machine.llc" => self.machine.llc = keys::count(value, 1, 64)?,
            "machine.node" => self.machine.node = keys::count(value, 1, 64)?,
            "dom0.vcpus" if value == "auto" => self.dom0.vcpus = None,
            "dom0.vcpus" => self.dom0.vcpus = Some(keys::count(value, 1, 64)?),
            "dom0.weight" => self.dom0.weight = keys::count(value, 1, 65_535)?,
            "dom0.affinity" => self.dom0.affinity = keys::cpus(value)?,
            "dom0.dedicated" => self.dom0.dedicated = keys::word(value, &[("true", true), ("false", false)])?,
            "dom0.net_vcpu" => {
                self.dom0.net_vcpu = keys::word(
                    value,
                    &[("one", NetVcpu::One), ("per-vif", NetVcpu::PerVif), ("spread", NetVcpu::Spread)],
                )?;
            }
            "dom0.stamp" => {
                self.dom0.stamp = keys::word(value, &[("netback", Stamp::Netback), ("guest", Stamp::Guest)])?;
            }
            _ => {
                let known = match key.strip_prefix("dom0.") {
                    Some(own) => server::set(&mut self.dom0.server, own, value)?,
                    None => false,
                };
                if !known {
                    return Err(keys::unknown(key));
                }
            }
        }
        Ok(())
    }

    /// What no single key can tell.
    fn validate(&self) -> Result<()> {
        if self.vms.is_empty() {
            bail!("vm: missing; allowed: one [[vm]] table or more");
        }
        let mut names = HashSet::from(["dom0".to_owned()]);
        for vm in &self.vms {
            // `--set` tells entries by their names, results tell VMs by theirs.
            let entry = (vm.count > 1).then(|| vm.name.clone());
            if let Some(name) = entry.into_iter().chain(vm.names()).find(|name| !names.insert(name.clone())) {
                bail!("vm.{}.name: '{name}' is used twice; allowed: a name of its own for each VM, not dom0", vm.name);
            }
            vm.validate()?;
        }
        server::validate(&self.dom0.server, "dom0")?;
        let last = self.machine.pcpus - 1;
        let masks = self.vms.iter().map(|vm| (format!("vm.{}", vm.name), &vm.affinity));
        for (who, cpus) in masks.chain([("dom0".to_owned(), &self.dom0.affinity)]) {
            if let Some(cpu) = cpus.iter().find(|&&c| c > last) {
                bail!("{who}.affinity: no PCPU {cpu}; allowed: 0 to {last}");
            }
        }
        let entries: Vec<_> = self.vms.iter().map(|vm| vm.name.as_str()).chain(["dom0"]).collect();
        for vm in &self.vms {
            if let Some(cpu) = vm.own_pcpus().iter().find(|&&c| c > last) {
                bail!("vm.{}.dedicated: no PCPU {cpu}; allowed: true, false, or PCPUs of 0 to {last}", vm.name);
            }
        }
        PoolSpec::validate(&self.pools, self.machine.pcpus, &entries)?;
        Step::validate(&self.script, &self.vms)?;
        self.validate_machines()?;
        let vms: u64 = u64::from(self.machine.machines) + self.vms.iter().map(|v| u64::from(v.count)).sum::<u64>();
        if vms > u64::from(NVM) {
            bail!("vm: {vms} VMs with Dom0; allowed: at most {NVM}");
        }
        let vcpus = self.vms.iter().map(|v| u64::from(v.count) * u64::from(v.vcpus)).sum::<u64>();
        let vcpus = vcpus + u64::from(self.dom0_vcpus() * self.machine.machines);
        if vcpus > u64::from(NVCPU) {
            bail!("vm: {vcpus} VCPUs with Dom0; allowed: at most {NVCPU}");
        }
        let entries: Vec<_> = self.vms.iter().map(|vm| (vm.entry(), &vm.workload)).collect();
        spec::agree(&entries, &self.constants)?;
        let calls: u64 = self.vms.iter().map(|v| u64::from(v.count) * u64::from(v.streams())).sum();
        if let Some(vm) = self.vms.iter().find(|v| v.threads() > MAX_THREADS * v.vcpus) {
            let most = MAX_THREADS * vm.vcpus;
            bail!("vm.{}.threads: {} on {} VCPUs; allowed: 1 to {most}", vm.name, vm.threads(), vm.vcpus);
        }
        if calls > MAX_CALLS {
            bail!("vm: {calls} calls; allowed: at most {MAX_CALLS}");
        }
        let most = self.constants.packet_gap * MAX_PACKETS / calls.max(1);
        if self.duration > most {
            let (given, most) = (Unit::Time.show(self.duration), Unit::Time.show(most / keys::SECOND * keys::SECOND));
            bail!("duration: {given} with {calls} calls; allowed: at most {most} with that many calls");
        }
        if self.warmup() > keys::DAY {
            bail!("voip.ramp: setting up the calls takes {}; allowed: at most 24 h", Unit::Time.show(self.warmup()));
        }
        Ok(())
    }

    fn validate_machines(&self) -> Result<()> {
        let m = &self.machine;
        if let Some(vm) = self.vms.iter().find(|vm| vm.on > m.machines) {
            bail!("vm.{}.on: no machine {}; allowed: 1 to {}", vm.name, vm.on, m.machines);
        }
        if m.machines == 1 {
            return Ok(());
        }
        if m.pcpus * m.machines > 64 {
            bail!("machine.machines: {} machines of {} PCPUs; allowed: at most 64 PCPUs in all", m.machines, m.pcpus);
        }
        if [m.threads, m.llc, m.node].iter().any(|part| m.pcpus % part != 0) {
            bail!("machine.pcpus: {} on several machines; allowed: a multiple of threads, llc and node", m.pcpus);
        }
        if !self.pools.is_empty() {
            bail!("pool: on several machines; allowed: on one");
        }
        Ok(())
    }

    /// PCPUs of all machines.
    pub fn pcpus(&self) -> u32 {
        self.machine.pcpus * self.machine.machines
    }

    /// VCPUs of Dom0.
    pub fn dom0_vcpus(&self) -> u32 {
        self.dom0.vcpus.unwrap_or(self.machine.pcpus)
    }

    /// The tasks of a VM, the `n`-th of the guests, with this seed: of a `tasks` workload, or of each VCPU of a `periodic` one.
    pub fn tasks(&self, vm: &VmSpec, n: u32, seed: u64) -> Vec<TaskSpec> {
        vm.workload.spec().task_set(&vm.entry(), n, self.load, seed)
    }

    /// When a period of VM `id`'s servers begins after its tasks have, the first one, ns; Dom0 is VM 0, the scenario's follow in their order.
    pub fn server_begins(&self, id: u32, period: u64, seed: u64) -> u64 {
        match self.release {
            Release::Synchronous => 0,
            Release::Random => Rng::new(seed, Purpose::Servers, id).below(period),
        }
    }

    /// How long VMs have been there when sets of tasks begin, and warming up does, ns: until each server is in one of its periods.
    pub fn lead(&self) -> u64 {
        let random = self.vms.iter().filter(|_| self.release == Release::Random);
        random.filter(|vm| vm.server.is_some()).map(|vm| vm.server.period).max().unwrap_or(0)
    }

    /// What the scenario asks for after the end of its run, and so never gets: a line for each, which names the key.
    pub fn too_late(&self) -> Vec<String> {
        let run = format(self.duration);
        let steps = (0..).zip(&self.script).filter(|(_, step)| step.time >= self.duration);
        let step = |(n, step): (usize, &Step)| {
            format!("at.{n}: {} at {} never happens: the run lasts {run}", step.describe(), format(step.time))
        };
        let mut out: Vec<String> = steps.map(step).collect();
        // Calls come one by one from the creation of their VM on.
        let end = self.lead() + self.warmup() + self.duration;
        let begins = |call: u32| SETTLE + u64::from(call) * 1_000_000_000_000 / self.constants.ramp;
        for vm in &self.vms {
            if let Some(call) = (0..vm.calls()).find(|&call| begins(call) >= end) {
                let (calls, of) = (vm.calls() - call, vm.calls());
                let last = format(begins(of - 1));
                out.push(format!(
                    "vm.{}.calls: {calls} of {of} never begin: the last is due after {last} (voip.ramp), the run with warmup ends after {}",
                    vm.name,
                    format(end)
                ));
            }
        }
        out
    }

    /// Time before the measured window, ns: as given, or until all calls are up, and 1 s.
    pub fn warmup(&self) -> u64 {
        self.warmup.unwrap_or_else(|| {
            let calls = self.vms.iter().map(VmSpec::calls).max().unwrap_or(0);
            u64::from(calls) * 1_000_000_000_000 / self.constants.ramp + 1_000_000_000
        })
    }
}
