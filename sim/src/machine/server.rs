// SPDX-License-Identifier: GPL-2.0-only
//! Budgets and periods: what the scenario says of each VM's server becomes operations of the policy.

use super::Machine;
use crate::Server;
use crate::engine::What;
use crate::rng::{Purpose, Rng};
use crate::scenario::Servers;
use anyhow::anyhow;
use takt_control::duration;

impl Machine<'_> {
    /// Every VM, and Dom0, gets its server: now, or each in its own time (spec R6). After the masks are set: a server keeps to the
    /// PCPU that it begins on.
    pub(super) fn give_servers(&mut self) {
        for id in 0..self.vms.len() as u32 {
            let period = self.server(id).period;
            match self.scenario.servers {
                Servers::Together => self.give_server(id),
                Servers::Apart => {
                    let at = self.now + Rng::new(self.seed, Purpose::Servers, id).below(period);
                    self.queue.push(at, What::Serve, id);
                }
            }
        }
    }

    fn server(&self, id: u32) -> Server {
        self.vms[id as usize].spec.map_or(self.scenario.dom0.server, |i| self.scenario.vms[i].server)
    }

    /// The server of VM `id` begins.
    pub(super) fn give_server(&mut self, id: u32) {
        let server = self.server(id);
        for (name, value) in server.adjustments() {
            let Some(param) = takt_policy::params().into_iter().find(|p| p.per_vm && p.name == name) else { continue };
            if self.pool.adjust(self.now, id, param.key, value).is_err() {
                return self.no_room(id, &server);
            }
            self.apply(Ok(()), 0, "adjust", id);
        }
        // A policy that keeps servers to one PCPU each finds none with room, and lets the VM run without.
        let vm = &self.vms[id as usize];
        let keeps = ["rtxen", "sedf"].contains(&self.pool.policy()) && server.is_some() && self.now > 0;
        if keeps && (vm.first..vm.first + vm.vcpus).any(|v| self.pool.deadline(v) == 0) {
            self.no_room(id, &server);
        }
    }

    fn no_room(&mut self, id: u32, server: &Server) {
        let (policy, name) = (&self.policy.label, &self.vms[id as usize].name);
        let (budget, period) = (duration::format(server.budget), duration::format(server.period));
        self.refused.get_or_insert_with(|| {
            anyhow!("policy {policy}: {name}: no PCPU has room for a budget of {budget} in {period}; see takt analyze")
        });
    }
}
