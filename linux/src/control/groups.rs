// SPDX-License-Identifier: GPL-2.0-only
//! Groups of VMs on the live host (rule P9): packed again when VMs come, go, or are put into a
//! group.

use super::Live;
use crate::shared::Snapshot;
use crate::status;
use anyhow::{Result, anyhow};
use takt_control::Event;
use takt_control::groups::{Member, Refused};
use takt_policy::Kind;

impl Live {
    /// What has become of groups since the last look is told to the policy.
    pub(super) fn settle_groups(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) {
        for e in self.bring_groups(snapshot).into_values() {
            self.warn(format!("{e:#}"), news);
        }
    }

    /// Returns what was refused, of whichever group.
    fn bring_groups(&mut self, snapshot: &Snapshot) -> Refused {
        let policy = &self.scheduler.policy().name;
        if !takt_policy::has(policy, "gangs") {
            let no_use = |vm: &super::Vm| {
                let error = anyhow!("`group` of `{}` has no effect: policy `{policy}` has no groups", vm.name);
                (vm.group.clone(), error)
            };
            return self.vms.values().filter(|vm| !vm.group.is_empty()).map(no_use).collect();
        }
        let members = status::members(snapshot);
        let vcpus = |vm: u32| members.iter().filter(|m| m.vm == vm && m.kind == Kind::Guest as u64).count() as u32;
        let all: Vec<Member> =
            self.vms.iter().map(|(&vm, v)| Member { vm, vcpus: vcpus(vm), group: &v.group }).collect();
        let pcpus = status::pcpus(snapshot).len() as u32;
        self.groups.bring(&all, pcpus, |vm, group| self.scheduler.set_group(vm, group))
    }

    /// VM `index` is in `group` from now on; empty: in none.
    ///
    /// # Errors
    /// The policy knows no groups, or that one is too large, or the policy refuses it; nothing has changed then.
    pub(super) fn enter_group(&mut self, index: u32, group: &str) -> Result<()> {
        let snapshot = self.scheduler.peek()?;
        let Some(vm) = self.vms.get_mut(&index) else { return Ok(()) };
        let before = std::mem::replace(&mut vm.group, group.to_owned());
        let done = self.bring_groups(&snapshot).remove(group).map_or(Ok(()), Err);
        if let (Err(_), Some(vm)) = (&done, self.vms.get_mut(&index)) {
            vm.group = before;
            // It has left what it was in. What does not go is done, and told, at the next look.
            self.bring_groups(&snapshot);
        }
        done
    }
}
