// SPDX-License-Identifier: GPL-2.0-only
//! Pools that a scenario's host has from the beginning: PCPUs and VMs apart from the others, under a policy of their own.

use crate::keys;
use anyhow::{Context, Result, bail};
use takt_control::PolicySpec;
use toml::Table;

/// One `[[pool]]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    pub name: String,
    pub policy: PolicySpec,
    pub cpus: Vec<u32>,
    /// Entries of the scenario by name, and `dom0`.
    pub vms: Vec<String>,
}

impl PoolSpec {
    /// Reads the `n`-th `[[pool]]` table.
    pub(crate) fn read(mut table: Table, n: usize) -> Result<Self> {
        let Some(name) = table.remove("name") else { bail!("pool: entry {n} has no name; allowed: name = \"...\"") };
        let name = keys::text("pool.name", &name).and_then(|t| keys::name(&t).context("pool.name"))?;
        let prefix = format!("pool.{name}");
        for key in ["policy", "cpus"] {
            if !table.contains_key(key) {
                bail!("{prefix}.{key}: missing; allowed: name, policy, cpus, vms");
            }
        }
        let mut pool = Self { name, policy: PolicySpec::parse("credit")?, cpus: Vec::new(), vms: Vec::new() };
        for (key, value) in table {
            let path = format!("{prefix}.{key}");
            let text = keys::text(&path, &value)?;
            pool.set(&key, &text).context(path)?;
        }
        Ok(pool)
    }

    /// Sets one key.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "policy" => {
                let policy = PolicySpec::parse(value)?;
                if policy.pin || policy.pools.is_some() {
                    bail!("{policy} has more than one pool; allowed: a policy with one pool, such as credit");
                }
                self.policy = policy;
            }
            "cpus" => self.cpus = keys::cpus(value)?,
            "vms" => self.vms = value.split(',').map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned).collect(),
            _ => return Err(keys::unknown_among(key, &["policy", "cpus", "vms"])),
        }
        Ok(())
    }

    /// What no single key can tell: `pcpus` of the machine, `vms` there are.
    pub(crate) fn validate(all: &[Self], pcpus: u32, vms: &[&str]) -> Result<()> {
        let mut cpus = Vec::new();
        let mut members: Vec<&str> = Vec::new();
        for (n, pool) in all.iter().enumerate() {
            let key = format!("pool.{}", pool.name);
            if all[..n].iter().any(|p| p.name == pool.name) {
                bail!("{key}.name: '{}' is used twice; allowed: a name of its own for each pool", pool.name);
            }
            if pool.cpus.is_empty() {
                bail!("{key}.cpus: empty; allowed: one PCPU or more");
            }
            for &cpu in &pool.cpus {
                if cpu >= pcpus {
                    bail!("{key}.cpus: no PCPU {cpu}; allowed: 0 to {}", pcpus - 1);
                }
                if cpus.contains(&cpu) {
                    bail!("{key}.cpus: PCPU {cpu} is in two pools; allowed: each in one");
                }
                cpus.push(cpu);
            }
            for vm in &pool.vms {
                if !vms.contains(&vm.as_str()) {
                    bail!("{key}.vms: no VM '{vm}'; allowed: {}", vms.join(", "));
                }
                if members.contains(&vm.as_str()) {
                    bail!("{key}.vms: '{vm}' is in two pools; allowed: each in one");
                }
                members.push(vm);
            }
        }
        if cpus.len() == pcpus as usize && members.len() < vms.len() {
            bail!("pool: the pools have all PCPUs, but not all VMs; allowed: one PCPU or more left for the other VMs");
        }
        Ok(())
    }
}
