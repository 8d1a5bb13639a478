// SPDX-License-Identifier: GPL-2.0-only
//! Groups of VMs on the live host (Poris §3.4): packed anew as VMs come, go, or are put into one.

use super::{Live, News};
use crate::shared::Snapshot;
use crate::status;
use anyhow::{Result, ensure};
use takt_control::groups::Member;
use takt_policy::Kind;

/// The policy that knows any.
const WITH_GROUPS: &str = "poris";

impl Live {
    /// What has become of groups since the last look is told to the policy.
    pub(super) fn settle_groups(&mut self, snapshot: &Snapshot, news: &mut Vec<News>) {
        if let Err(e) = self.bring_groups(snapshot) {
            self.warn(format!("{e:#}"), news);
        }
    }

    fn bring_groups(&mut self, snapshot: &Snapshot) -> Result<()> {
        let policy = &self.scheduler.policy().name;
        let grouped = self.vms.values().find(|vm| !vm.group.is_empty());
        if policy != WITH_GROUPS {
            let whom = grouped.map_or("", |vm| vm.name.as_str());
            ensure!(grouped.is_none(), "`group` of `{whom}` is of no use, policy `{policy}` knows no groups");
            return Ok(());
        }
        let (members, _) = status::members(snapshot);
        let vcpus = |vm: u32| members.iter().filter(|m| m.vm == vm && m.kind == Kind::Guest as u64).count() as u32;
        let all: Vec<Member> =
            self.vms.iter().map(|(&vm, v)| Member { vm, vcpus: vcpus(vm), group: &v.group }).collect();
        let pcpus = status::pcpus(snapshot).len() as u32;
        self.groups.bring(&all, pcpus, |vm, group| self.scheduler.set_group(vm, group))
    }

    /// VM `index` is in `group` from now on; empty: in none.
    ///
    /// # Errors
    /// The policy knows no groups, or that one is too large; nothing has changed then.
    pub(super) fn enter_group(&mut self, index: u32, group: &str) -> Result<()> {
        let Some(vm) = self.vms.get_mut(&index) else { return Ok(()) };
        let before = std::mem::replace(&mut vm.group, group.to_owned());
        let snapshot = self.scheduler.peek()?;
        let done = self.bring_groups(&snapshot);
        if let (Err(_), Some(vm)) = (&done, self.vms.get_mut(&index)) {
            vm.group = before;
        }
        done
    }
}
