// SPDX-License-Identifier: GPL-2.0-only
//! When Risa's partition manager is called: as VMs come, go and get VCPUs, as PCPUs do, by what an operator says, and by time.

use super::Live;
use crate::shared::Snapshot;
use crate::status;
use anyhow::Result;
use takt_control::partition::Side;
use takt_control::{Event, Server};

impl Live {
    /// Sees to it that the pools are what the VMs ask for.
    pub(super) fn settle_pools(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) -> Result<()> {
        let Some(pools) = &mut self.pools else { return Ok(()) };
        let stuck = self.scheduler.rescue(snapshot).err();
        let rescued = self.scheduler.peek()?;
        let done = pools.settle(&mut self.scheduler, &rescued);
        let now = self.scheduler.peek()?;
        let rt = status::pcpus_on(&now, Side::Rt);
        if rt != pools.rt {
            pools.rt.clone_from(&rt);
            news.push(Event::RtPool { pcpus: rt });
        }
        for (&index, vm) in &mut self.vms {
            let side = now.vm(index).side();
            if side != vm.side {
                vm.side = side;
                news.push(Event::Moved { name: vm.name.clone(), rt: side == Side::Rt });
            }
        }
        // VMs and PCPUs may go at any time; what could not be done is done at the next look, or has become unnecessary.
        if let Some(e) = stuck {
            self.warn(format!("pools: {e:#}"), news);
        }
        match done {
            Ok(refused) => {
                let name = |id: &u32| self.vms.get(id).map(|vm| vm.name.clone());
                for name in refused.iter().filter_map(name).collect::<Vec<_>>() {
                    self.warn(format!("VM `{name}`: no room for its budget; it stays outside the rt-pool"), news);
                }
            }
            Err(e) => self.warn(format!("pools: {e:#}"), news),
        }
        Ok(())
    }

    /// A VM is to have these parameters, or nothing changes.
    pub(super) fn give_server(&mut self, vm: u32, want: &Server) -> Result<()> {
        let Some(pools) = &mut self.pools else { return Ok(()) };
        pools.give(&mut self.scheduler, vm, want)
    }

    /// A parameter of both pools has been set.
    pub(super) fn parameter_is(&mut self, key: u32, value: u64) {
        if let Some(pools) = &mut self.pools {
            pools.parameter_is(key, value);
        }
    }

    /// Time until the rt-pool gives back what it does not need, s.
    pub(super) fn shrinks_in(&self) -> Option<f64> {
        self.pools.as_ref()?.shrinks_in()
    }
}
