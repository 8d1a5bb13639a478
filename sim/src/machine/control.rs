// SPDX-License-Identifier: GPL-2.0-only
//! The machine as control sees it: an operator's settings of a VM become operations of the policy and ports of its monitor.

use super::Machine;
use anyhow::Result;
use takt_control::{Change, Host, Server, VmConfig, VmState};

impl Host for Machine<'_> {
    fn vms(&self) -> Result<Vec<VmState>> {
        let guests = (0u32..).zip(&self.vms).filter(|(_, vm)| vm.spec.is_some());
        Ok(guests
            .filter_map(|(id, vm)| {
                let stat = self.pools[vm.pool].pool.vm_stat(id)?;
                let config = VmConfig { weight: stat.weight as u32, cap: stat.cap as u32, ..vm.config.clone() };
                let config = config.with(Server::of(&stat));
                Some(VmState { id, name: vm.name.clone(), config, rt: stat.rt != 0, period: stat.period })
            })
            .collect())
    }

    fn set(&mut self, now: u64, vm: u32, change: &Change) -> Result<()> {
        let n = self.vms[vm as usize].pool;
        if let Some((key, value)) = change.adjust() {
            self.pools[n].pool.adjust(now, vm, key, value)?;
            self.apply(n, Ok(()), 0, "adjust", vm);
        }
        let config = &mut self.vms[vm as usize].config;
        match change {
            Change::Rt(mode) => config.rt = *mode,
            Change::Ports(ports) => {
                let before = std::mem::replace(&mut config.ports, ports.clone());
                if let Some(watch) = &mut self.watches[vm as usize] {
                    before.ranges().iter().flat_map(|&(a, b)| a..=b).for_each(|p| watch.remove_port(p));
                    ports.ranges().iter().flat_map(|&(a, b)| a..=b).for_each(|p| watch.add_port(p));
                }
            }
            Change::Server(have, want) => self.bring(vm, have, want)?,
            Change::Laxity(ns) => config.laxity = *ns,
            Change::Latency(ns) => config.latency = *ns,
            // Numbered and packed when all that come together are there.
            Change::Group(name) => config.group = name.clone(),
            // The policy keeps them.
            Change::Weight(_) | Change::Cap(_) => {}
        }
        Ok(())
    }

    fn set_rt(&mut self, now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()> {
        let n = self.vms[vm as usize].pool;
        self.pools[n].pool.set_rt(now, vm, rt, period, lease)?;
        self.apply(n, Ok(()), 0, "set_rt", vm);
        Ok(())
    }
}
