// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler with two pools as Risa's partition manager sees it, and what only this host knows of: PCPUs that go offline.

use crate::scheduler::Scheduler;
use crate::shared::{HOST_VM, Snapshot};
use crate::status;
use anyhow::{Context, Result};
use takt_control::partition::{Member, Pcpu, Side};
use takt_control::{PartitionHost, Server};
use takt_policy::{Kind, NVM};

impl PartitionHost for Scheduler {
    fn pcpus(&self) -> Result<Vec<Pcpu>> {
        Ok(pcpus(&self.peek()?))
    }

    fn members(&self) -> Result<Vec<Member>> {
        Ok(members(&self.peek()?))
    }

    fn move_pcpu(&mut self, _: u64, cpu: u32, to: Side) -> Result<()> {
        self.move_cpu(cpu, to)
    }

    fn move_vm(&mut self, _: u64, vm: u32, to: Side) -> Result<()> {
        self.move_vm_to(vm, to)
    }

    fn set_server(&mut self, _: u64, vm: u32, want: &Server) -> Result<()> {
        let have = Server::of(&self.peek()?.pool, vm).with_context(|| format!("no VM {vm}"))?;
        have.bring(want, |key, value| self.adjust(vm, key, value))
    }
}

/// PCPUs that are online, ascending.
pub fn pcpus(snapshot: &Snapshot) -> Vec<Pcpu> {
    let on = |side| status::pcpus_on(snapshot, side).into_iter().map(move |cpu| (u32::from(cpu), side));
    let pcpu = |(id, side)| Pcpu { id, node: snapshot.cpu(id).node, side, stays: false };
    let mut all: Vec<_> = on(Side::Rt).chain(on(Side::Rest)).map(pcpu).collect();
    all.sort_by_key(|p| p.id);
    all
}

/// All VMs. One whose VMM has no VCPU yet is promised nothing yet.
pub fn members(snapshot: &Snapshot) -> Vec<Member> {
    let all = status::members(snapshot);
    let member = |id| {
        let server = Server::of(&snapshot.pool, id)?;
        let mine = || all.iter().filter(|m| m.vm == id && m.kind == Kind::Guest as u64);
        let ran = |v: &u32| snapshot.vcpu(*v).wait.iter().any(|w| w.count > 0);
        let last = mine().map(|m| m.vcpu).find(ran).map(|v| snapshot.pool_of(v).vcpu_cpu(v));
        let vcpus = mine().count() as u32;
        let server = if vcpus > 0 { server } else { Server::default() };
        Some(Member { id, vcpus, server, side: snapshot.vm(id).side(), last })
    };
    (0..NVM).filter(|vm| *vm != HOST_VM).filter_map(member).collect()
}

/// What of a host decides how many PCPUs the rt-pool needs: its PCPUs; VMs with their VCPUs and parameters, where they have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pcpus: Vec<u32>,
    vms: Vec<(u32, u32, Server)>,
}

impl Shape {
    pub fn of(snapshot: &Snapshot) -> Self {
        let counts = |m: &Member| m.server.is_some() || m.side == Side::Rt;
        Self {
            pcpus: pcpus(snapshot).iter().map(|p| p.id).collect(),
            vms: members(snapshot).iter().filter(|m| counts(m)).map(|m| (m.id, m.vcpus, m.server)).collect(),
        }
    }
}

impl Scheduler {
    /// [`rescue`] of this scheduler's pools.
    ///
    /// # Errors
    /// The kernel refuses a move of a VM or PCPU that is there.
    pub fn rescue(&self, snapshot: &Snapshot) -> Result<()> {
        rescue(snapshot, |vm, to| self.move_vm_to(vm, to), |cpu, to| self.move_cpu(cpu, to))
    }
}

/// After PCPUs have gone offline: whoever is left in a pool that has none goes to the other, and a pool for VMs without parameters
/// there must be. Then those that were the last ones of their pool leave it. The manager finds the rest. VMs may go meanwhile, and
/// one that cannot be moved holds up no other.
fn rescue(
    snapshot: &Snapshot,
    move_vm: impl Fn(u32, Side) -> Result<()>,
    move_cpu: impl Fn(u32, Side) -> Result<()>,
) -> Result<()> {
    let mut done = Ok(());
    let mut note = |moved: Result<()>| {
        if let Err(e) = moved.or_else(unless_gone) {
            done = std::mem::replace(&mut done, Ok(())).and(Err(e));
        }
    };
    let (pcpus, members) = (pcpus(snapshot), members(snapshot));
    let on = |side| pcpus.iter().filter(move |p| p.side == side).map(|p| p.id);
    let rest_is_empty = on(Side::Rest).next().is_none();
    if on(Side::Rt).count() == usize::from(rest_is_empty) {
        // The rt-pool has no PCPU, or the only one there is.
        members.iter().filter(|m| m.side == Side::Rt).for_each(|m| note(move_vm(m.id, Side::Rest)));
    }
    if let Some(cpu) = on(Side::Rt).max().filter(|_| rest_is_empty) {
        note(move_cpu(cpu, Side::Rest));
    }
    let gone = (0..takt_policy::NCPU).filter(|&cpu| snapshot.is_gone(cpu));
    gone.for_each(|cpu| drop(move_cpu(cpu, Side::Rest))); // one that still may not goes another time
    let all = status::members(snapshot);
    let lost = |m: &status::Member| m.vm != HOST_VM && snapshot.vcpu(m.vcpu).side() != snapshot.vm(m.vm).side();
    let guests = all.iter().filter(|m| m.kind == Kind::Guest as u64);
    guests.filter(|m| lost(m)).for_each(|m| note(move_vm(m.vm, snapshot.vm(m.vm).side())));
    done
}

/// What is not there any more needs no move.
fn unless_gone(e: anyhow::Error) -> Result<()> {
    match e.downcast_ref::<takt_policy::Error>() {
        Some(takt_policy::Error(error)) if *error == -libc::ENOENT => Ok(()),
        _ => Err(e),
    }
}

#[cfg(test)]
mod tests;
