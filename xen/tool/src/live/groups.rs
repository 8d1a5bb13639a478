// SPDX-License-Identifier: GPL-2.0-only
//! Groups of domains (rule P9): packed again when domains come, go, or are put into a group. Each
//! cpupool has groups of its own.

use super::Live;
use crate::eyes::Eyes;
use crate::host::{Domain, TaktPool};
use anyhow::{Error, Result, anyhow};
use takt_control::groups::{Member, Refused};

impl<E: Eyes> Live<E> {
    /// What has become of groups since the last look is told to the hypervisor. Returns what was refused, of whichever group and cpupool.
    pub(super) fn bring_groups(&mut self) -> Vec<Error> {
        let mut pools: Vec<TaktPool> = self.vms.values().map(|vm| vm.domain.pool).collect();
        pools.sort_by_key(|p| p.id);
        pools.dedup_by_key(|p| p.id);
        self.groups.retain(|id, _| pools.iter().any(|p| p.id == *id));
        let all = pools.iter().flat_map(|pool| match self.bring_groups_of(pool) {
            Ok(refused) => refused.into_values().collect(),
            Err(e) => vec![e],
        });
        all.collect()
    }

    fn bring_groups_of(&mut self, pool: &TaktPool) -> Result<Refused> {
        let inside: Vec<(&Domain, &str)> = self
            .vms
            .values()
            .filter(|vm| vm.domain.pool.id == pool.id && vm.domain.id != 0)
            .map(|vm| (&vm.domain, vm.group.as_str()))
            .collect();
        if !pool.policy.has("gangs") {
            let no_use = |(d, group): &(&Domain, &str)| {
                let (name, policy) = (&d.name, pool.policy.name);
                let error = anyhow!("`group` of `{name}` has no effect: policy `{policy}` has no groups");
                ((*group).to_owned(), error)
            };
            return Ok(inside.iter().filter(|(_, group)| !group.is_empty()).map(no_use).collect());
        }
        let members: Vec<Member> =
            inside.iter().map(|&(d, group)| Member { vm: d.id.into(), vcpus: d.info.max_vcpu_id + 1, group }).collect();
        let pcpus = self.host.pcpus(pool)?;
        let groups = self.groups.entry(pool.id).or_default();
        // The hypervisor has kept the groups that an earlier `takt run` set, and a VM leaves its
        // group before it enters another (rule P10).
        for (domain, _) in &inside {
            if groups.is_new(domain.id.into()) {
                // A domain that tells no group is just going.
                self.host.group(domain).into_iter().for_each(|group| groups.found(domain.id.into(), group));
            }
        }
        Ok(groups.bring(&members, pcpus, |id, group| match inside.iter().find(|(d, _)| u32::from(d.id) == id) {
            Some((domain, _)) => self.host.set_group(domain, group),
            None => Ok(()),
        }))
    }

    /// Domain `id` is in `group` from now on; empty: in none.
    ///
    /// # Errors
    /// Its policy knows no groups, or that one is too large, or the policy refuses it; nothing has changed then.
    pub(super) fn enter_group(&mut self, id: u16, group: &str) -> Result<()> {
        let Some(vm) = self.vms.get_mut(&id) else { return Ok(()) };
        let (before, pool) = (std::mem::replace(&mut vm.group, group.to_owned()), vm.domain.pool);
        let done = self.bring_groups_of(&pool).and_then(|mut refused| refused.remove(group).map_or(Ok(()), Err));
        if let (Err(_), Some(vm)) = (&done, self.vms.get_mut(&id)) {
            vm.group = before;
            // It has left what it was in. What does not go is done, and told, at the next look.
            let _ = self.bring_groups_of(&pool);
        }
        done
    }
}
