// SPDX-License-Identifier: GPL-2.0-only
//! Groups of domains (Poris §3.4): packed anew as domains come, go, or are put into one. Each cpupool has its own.

use super::{Eyes, Live};
use crate::host::{Domain, TaktPool};
use anyhow::{Result, ensure};
use takt_control::groups::Member;

/// The policy that knows any.
const WITH_GROUPS: &str = "poris";

impl<E: Eyes> Live<E> {
    /// What has become of groups since the last look is told to the hypervisor.
    pub(super) fn bring_groups(&mut self) -> Result<()> {
        let mut pools: Vec<TaktPool> = self.vms.values().map(|vm| vm.domain.pool).collect();
        pools.sort_by_key(|p| p.id);
        pools.dedup_by_key(|p| p.id);
        self.groups.retain(|id, _| pools.iter().any(|p| p.id == *id));
        pools.iter().try_for_each(|pool| self.bring_groups_of(pool))
    }

    fn bring_groups_of(&mut self, pool: &TaktPool) -> Result<()> {
        let inside: Vec<(&Domain, &str)> = self
            .vms
            .values()
            .filter(|vm| vm.domain.pool.id == pool.id && vm.domain.id != 0)
            .map(|vm| (&vm.domain, vm.group.as_str()))
            .collect();
        if pool.policy.name != WITH_GROUPS {
            let grouped = inside.iter().find(|(_, group)| !group.is_empty());
            let (whom, policy) = (grouped.map_or("", |(d, _)| d.name.as_str()), pool.policy.name);
            ensure!(grouped.is_none(), "`group` of `{whom}` is of no use, policy `{policy}` knows no groups");
            return Ok(());
        }
        let members: Vec<Member> =
            inside.iter().map(|&(d, group)| Member { vm: d.id.into(), vcpus: d.info.max_vcpu_id + 1, group }).collect();
        let pcpus = self.host.pcpus(pool)?;
        self.groups.entry(pool.id).or_default().bring(&members, pcpus, |id, group| {
            match inside.iter().find(|(d, _)| u32::from(d.id) == id) {
                Some((domain, _)) => self.host.set_group(domain, group),
                None => Ok(()),
            }
        })
    }

    /// Domain `id` is in `group` from now on; empty: in none.
    ///
    /// # Errors
    /// Its policy knows no groups, or that one is too large; nothing has changed then.
    pub(super) fn enter_group(&mut self, id: u16, group: &str) -> Result<()> {
        let Some(vm) = self.vms.get_mut(&id) else { return Ok(()) };
        let before = std::mem::replace(&mut vm.group, group.to_owned());
        let done = self.bring_groups();
        if let (Err(_), Some(vm)) = (&done, self.vms.get_mut(&id)) {
            vm.group = before;
        }
        done
    }
}
