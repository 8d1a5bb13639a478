// SPDX-License-Identifier: GPL-2.0-only
//! Budgets and periods: what the scenario says of each VM's server becomes operations of the policy.

use super::{Machine, Tables};
use crate::engine::What;
use crate::options::Options;
use crate::scenario::{Release, Scenario};
use anyhow::{Context, Result, anyhow};
use takt_control::{PolicySpec, Server, duration};

/// The policies that keep budgets.
const SERVERS: [&str; 3] = ["rtxen", "sedf", "vgedf"];

/// Whether a run has a pool whose policy keeps budgets.
pub(crate) fn has_servers(scenario: &Scenario, policy: &PolicySpec) -> bool {
    let rt = policy.pools.as_ref().map(|p| p.rt.as_str());
    let apart = scenario.pools.iter().map(|p| p.policy.name.as_str());
    [policy.name.as_str()].into_iter().chain(rt).chain(apart).any(|name| SERVERS.contains(&name))
}

/// Runs the machine until each VM that is there from the beginning has its server.
///
/// # Errors
/// A VM has no room for its budget, or the policy does not fit the scenario.
pub(crate) fn admit(scenario: &Scenario, policy: &PolicySpec, workloads: Tables, seed: u64) -> Result<()> {
    let mut options = Options::default();
    let mut machine = Machine::new(scenario, policy, workloads, seed, &options)?;
    let created = u64::from(scenario.pcpus()) * machine.c.stagger;
    let all = scenario.vms.iter().map(|vm| vm.server.period).chain([scenario.dom0.server.period]);
    let last = if scenario.release == Release::Random { all.max().unwrap_or(0) } else { 0 };
    machine.until = created + last + 1;
    machine.run(&mut options)
}

impl Machine<'_> {
    /// These VMs, which have been created, get their servers: now, or each in its own time (rule
    /// R6). Called after the masks are set: a server stays on the PCPU on which it begins.
    pub(super) fn give_servers(&mut self, ids: &[u32]) -> Result<()> {
        if self.scenario.release == Release::Synchronous {
            return self.give(ids);
        }
        for &id in ids {
            let period = self.server(id).period;
            let begins = self.scenario.server_begins(id, period, self.seed) + self.scenario.lead();
            self.queue.push(self.now + begins.checked_rem(period).unwrap_or(0), What::Serve, id);
        }
        self.settle_pools()
    }

    fn server(&self, id: u32) -> Server {
        self.spec(id as usize).map_or(self.scenario.dom0.server, |spec| spec.server)
    }

    /// The server of VM `id` begins, unless the script has been there before.
    pub(super) fn serve(&mut self, id: u32) {
        let has = Server::of(&self.pools[self.vms[id as usize].pool].pool, id);
        if has == Some(Server::default()) {
            let done = self.give(&[id]);
            self.must(done);
        }
    }

    fn give(&mut self, ids: &[u32]) -> Result<()> {
        for &id in ids {
            let want = self.server(id);
            self.admit(id, &want).with_context(|| self.vms[id as usize].name.clone())?;
            if self.bring(id, &Server::default(), &want).is_err() && !self.is_pinned(id) {
                return Err(self.no_room(id));
            }
        }
        self.settle_pools()?;
        ids.iter().try_for_each(|&id| self.is_served(id))
    }

    /// A policy that keeps servers to one PCPU each may find none with room, and let the VM run without: so it is where VMs were
    /// pinned regardless, and else an error.
    fn is_served(&self, id: u32) -> Result<()> {
        let vm = &self.vms[id as usize];
        let pool = &self.pools[vm.pool].pool;
        let keeps = SERVERS.contains(&pool.policy()) && self.server(id).is_some() && self.now > 0;
        if keeps && !self.is_pinned(id) && vm.range().any(|v| pool.deadline(v) == 0) {
            return Err(self.no_room(id));
        }
        Ok(())
    }

    fn no_room(&self, id: u32) -> anyhow::Error {
        let (server, vm) = (self.server(id), &self.vms[id as usize]);
        let (name, params) = (&vm.name, &self.pools[vm.pool].policy.params);
        let (budget, period) = (duration::format(server.budget), duration::format(server.period));
        let kept = match reserve(params) {
            0 => "reserve=0".into(),
            reserve => format!("reserve={reserve} keeps {reserve} % of each PCPU for VCPUs without budget"),
        };
        anyhow!("{name}: no PCPU has room for a budget of {budget} in {period} ({kept})")
    }
}

/// Percent of each PCPU that a pool with these parameters promises to no server.
fn reserve(params: &[(u32, u64)]) -> u64 {
    let info = takt_policy::param("reserve", false);
    info.map_or(0, |p| params.iter().rev().find(|(key, _)| *key == p.key).map_or(p.default, |(_, value)| *value))
}
