// SPDX-License-Identifier: GPL-2.0-only
//! The machine as control sees it: an operator's settings of a VM become operations of the policy and ports of its monitor.

use super::Machine;
use anyhow::Result;
use takt_control::{Change, Host, VmConfig, VmParams, VmState};

impl Host for Machine<'_> {
    fn vms(&self) -> Result<Vec<VmState>> {
        let guests = (0u32..).zip(&self.vms).filter(|(_, vm)| vm.spec.is_some());
        Ok(guests
            .filter_map(|(id, vm)| {
                let pool = &self.pools[vm.pool].pool;
                let (stat, params) = (pool.vm_stat(id)?, VmParams::of(pool, id)?);
                let config = VmConfig { params, ..vm.config.clone() };
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
            // Asked for at each report of a monitor.
            Change::Param(info, value) if info.name == "rt" => config.params.set(info, *value),
            // The policy keeps them.
            Change::Param(..) => {}
            Change::Ports(ports) => {
                let before = std::mem::replace(&mut config.ports, ports.clone());
                if let Some(monitor) = &mut self.monitors[vm as usize] {
                    before.ranges().iter().flat_map(|&(a, b)| a..=b).for_each(|p| monitor.remove_port(p));
                    ports.ranges().iter().flat_map(|&(a, b)| a..=b).for_each(|p| monitor.add_port(p));
                }
            }
            Change::Server(have, want) => self.bring(vm, have, want)?,
            // Numbered and packed when all that come together are there.
            Change::Group(name) => config.group = name.clone(),
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
