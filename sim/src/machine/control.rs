// SPDX-License-Identifier: GPL-2.0-only
//! The machine as control sees it: an operator's settings of a VM become operations of the policy and ports of its monitor.

use super::Machine;
use anyhow::Result;
use takt_control::{Change, Host, HostConfig, Server, VmConfig, VmState, apply};

impl Host for Machine<'_> {
    fn vms(&self) -> Result<Vec<VmState>> {
        let guests = (0u32..).zip(&self.vms).filter(|(_, vm)| vm.spec.is_some());
        Ok(guests
            .filter_map(|(id, vm)| {
                let stat = self.pool.vm_stat(id)?;
                let config = VmConfig { weight: stat.weight as u32, cap: stat.cap as u32, ..vm.config.clone() };
                let config = config.with(Server::of(&stat));
                Some(VmState { id, name: vm.name.clone(), config, rt: stat.rt != 0, period: stat.period })
            })
            .collect())
    }

    fn set(&mut self, now: u64, vm: u32, change: &Change) -> Result<()> {
        if let Some((key, value)) = change.adjust() {
            self.pool.adjust(now, vm, key, value)?;
            self.apply(Ok(()), 0, "adjust", vm);
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
            Change::Server(have, want) => {
                have.bring(want, |key, value| {
                    self.pool.adjust(now, vm, key, value)?;
                    self.apply(Ok(()), 0, "adjust", vm);
                    Ok(())
                })?;
            }
            // The policy keeps them.
            Change::Weight(_) | Change::Cap(_) => {}
        }
        Ok(())
    }

    fn set_rt(&mut self, now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()> {
        self.pool.set_rt(now, vm, rt, period, lease)?;
        self.apply(Ok(()), 0, "set_rt", vm);
        Ok(())
    }
}

impl Machine<'_> {
    /// Gives the VMs what the scenario says of them.
    pub(super) fn configure(&mut self) -> Result<()> {
        let specs = &self.scenario.vms;
        let vm = specs.iter().flat_map(|spec| spec.names().map(|name| (name, spec.config()))).collect();
        let now = self.now;
        apply(&HostConfig { vm }, self, now)?;
        Ok(())
    }
}
