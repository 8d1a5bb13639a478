// SPDX-License-Identifier: GPL-2.0-only
//! Who changes pools while the machine runs: the partition manager, an administrator with static pools, and the scenario's script.

use super::Machine;
use super::history::SAMPLE;
use super::part::{MAIN, RT};
use crate::engine::What;
use crate::script::{Act, Settings};
use anyhow::{Context, Result};
use takt_control::partition::{Member, Pcpu, Side};
use takt_control::pools::{Pools, Size};
use takt_control::{Host, Partition, PartitionHost, Server, apply, groups};

fn pool(side: Side) -> usize {
    if side == Side::Rt { RT } else { MAIN }
}

impl PartitionHost for Machine<'_> {
    fn pcpus(&self) -> Result<Vec<Pcpu>> {
        let node = self.scenario.machine.node;
        let of = |side| {
            self.pcpus_of(pool(side)).into_iter().map(move |id| Pcpu { id, node: id / node, side, stays: false })
        };
        let mut all: Vec<_> = of(Side::Rt).chain(of(Side::Rest)).collect();
        all.sort_by_key(|p| p.id);
        Ok(all)
    }

    fn members(&self) -> Result<Vec<Member>> {
        let member = |(id, vm): (u32, &super::Vm)| {
            let side = match vm.pool {
                RT => Side::Rt,
                MAIN => Side::Rest,
                _ => return None,
            };
            let server = Server::of(&self.pools[vm.pool].pool, id)?;
            let mut vcpus = vm.range().map(|v| &self.vcpus[v as usize]);
            let last = vcpus.find(|v| v.left_at.is_some()).map(|v| v.pcpu);
            Some(Member { id, vcpus: vm.vcpus, server, side, last })
        };
        Ok((0..).zip(&self.vms).filter_map(member).collect())
    }

    fn move_pcpu(&mut self, _: u64, cpu: u32, to: Side) -> Result<()> {
        self.move_cpu(cpu, pool(to));
        Ok(())
    }

    fn move_vm(&mut self, _: u64, vm: u32, to: Side) -> Result<()> {
        self.move_vm_to(vm, pool(to))
    }

    fn set_server(&mut self, _: u64, vm: u32, want: &Server) -> Result<()> {
        let pool = &self.pools[self.vms[vm as usize].pool].pool;
        let have = Server::of(pool, vm).with_context(|| format!("no VM {vm}"))?;
        self.bring(vm, &have, want)
    }
}

impl Machine<'_> {
    /// What ends the run if it fails.
    pub(super) fn must(&mut self, done: Result<()>) {
        if let Err(error) = done {
            let policy = &self.policy.label;
            self.refused.get_or_insert_with(|| error.context(format!("policy {policy}")));
        }
    }

    /// The manager does something with the machine.
    fn manage(&mut self, act: impl FnOnce(&mut Partition, &mut Self, u64) -> Result<()>) -> Result<()> {
        let Some(mut manager) = self.manager.take() else { return Ok(()) };
        let done = act(&mut manager, self, self.now);
        let due = manager.due().unwrap_or(crate::engine::NEVER);
        self.shrink.set(&mut self.queue, due, What::Shrink, 0);
        self.manager = Some(manager);
        done
    }

    /// The delay before the rt-pool shrinks is over.
    pub(super) fn shrink(&mut self) {
        let done = self.manage(|manager, machine, now| manager.timer(machine, now));
        self.must(done);
    }

    /// Whether the manager decides where a VM lives.
    fn is_managed(&self, vm: u32) -> bool {
        self.manager.is_some() && self.vms[vm as usize].pool <= RT
    }

    /// Whether the script creates that VM.
    pub(super) fn comes_later(&self, vm: u32) -> bool {
        let Some(spec) = self.spec(vm as usize) else { return false };
        let name = &self.vms[vm as usize].name;
        self.scenario.script.iter().any(|s| s.act == Act::Create && s.concerns(spec, name))
    }

    /// VMs enter their pools, and their workloads are set going.
    pub(super) fn create(&mut self, ids: &[u32]) {
        let done = self.create_vms(ids);
        self.must(done);
        self.begin(ids);
    }

    fn create_vms(&mut self, ids: &[u32]) -> Result<()> {
        for &id in ids {
            self.enter(id, self.birthplace(id));
            self.enter_vcpus(id);
            self.assign(id);
        }
        let config = |&id: &u32| Some((self.vms[id as usize].name.clone(), self.spec(id as usize)?.config()));
        let vm = ids.iter().filter_map(config).collect();
        let now = self.now;
        apply(&vm, self, now)?;
        ids.iter().for_each(|&id| self.set_affinity(id));
        (0..self.pools.len()).try_for_each(|n| self.settle_groups(n))?;
        self.give_servers(ids)
    }

    /// VMs of pool `n` came or went: groups are packed again, if the policy knows any (rule P9).
    fn settle_groups(&mut self, n: usize) -> Result<()> {
        if !takt_policy::has(self.pools[n].pool.policy(), "gangs") {
            return Ok(());
        }
        let pcpus = self.pcpus_of(n).len() as u32;
        let names: Vec<(u32, u32, String)> = (0..)
            .zip(&self.vms)
            .filter(|&(id, vm)| vm.pool == n && self.is_alive(id) && vm.spec.is_some())
            .map(|(id, vm)| (id, vm.vcpus, vm.config.group.clone()))
            .collect();
        let members: Vec<_> =
            names.iter().map(|(vm, vcpus, group)| groups::Member { vm: *vm, vcpus: *vcpus, group }).collect();
        let mut manager = std::mem::take(&mut self.groups[n]);
        let refused = manager.bring(&members, pcpus, |vm, group| {
            self.pools[n].pool.set_group(self.now, vm, group)?;
            self.apply(n, Ok(()), 0, "set_group", vm);
            Ok(())
        });
        self.groups[n] = manager;
        refused.into_values().next().map_or(Ok(()), Err)
    }

    /// The manager, if there is one, has a say in what a VM gets.
    pub(super) fn admit(&mut self, id: u32, want: &Server) -> Result<()> {
        if !self.is_managed(id) {
            return Ok(());
        }
        let vcpus = self.vms[id as usize].vcpus;
        self.manage(|manager, machine, _| manager.admit(machine, Some(id), vcpus, want))
    }

    /// VMs have been created, or have got their servers.
    pub(super) fn settle_pools(&mut self) -> Result<()> {
        self.manage(|manager, machine, now| manager.settle(machine, now).map(drop))
    }

    /// An administrator assigns a VM to the static rt-pool, and perhaps pins each VCPU within.
    fn assign(&mut self, id: u32) {
        let vm = &self.vms[id as usize];
        if self.manager.is_none() && self.policy.pools.is_some() && vm.pool == RT {
            self.history.commands += 1 + if self.is_pinned(id) { u64::from(vm.vcpus) } else { 0 };
        }
    }

    /// Whether an administrator has pinned a VM within the static rt-pool, who did not ask for room.
    pub(super) fn is_pinned(&self, id: u32) -> bool {
        let pins = matches!(self.policy.pools, Some(Pools { size: Size::Fixed { first: 1.., .. }, .. }));
        pins && self.vms[id as usize].pool == RT
    }

    /// An administrator makes the static rt-pool: each PCPU is taken from the main one, and the pool is created.
    pub(super) fn make_static_pool(&mut self) {
        if self.manager.is_none() && self.policy.pools.is_some() {
            self.history.commands += 1 + self.pcpus_of(RT).len() as u64;
        }
    }

    /// … and gives the PCPUs back when the last real-time VM has gone.
    fn unmake_static_pool(&mut self) {
        let empty = !self.vms.iter().enumerate().any(|(id, vm)| vm.pool == RT && self.is_alive(id as u32));
        if self.manager.is_none() && self.policy.pools.is_some() && empty {
            let pcpus = self.pcpus_of(RT);
            self.history.commands += 1 + pcpus.len() as u64;
            pcpus.into_iter().for_each(|cpu| self.move_cpu(cpu, MAIN));
        }
    }

    /// Whether a VM exists at present.
    pub(super) fn is_alive(&self, id: u32) -> bool {
        self.pools[self.vms[id as usize].pool].pool.vm_stat(id).is_some()
    }

    /// Step `n` of the script.
    pub(super) fn step(&mut self, n: u32) {
        let step = &self.scenario.script[n as usize];
        let concerned = |(id, vm): (u32, &super::Vm)| {
            let spec = self.spec(id as usize)?;
            step.concerns(spec, &vm.name).then_some(id)
        };
        let ids: Vec<u32> = (0..).zip(&self.vms).filter_map(concerned).collect();
        match &step.act {
            Act::Create => self.create(&ids),
            Act::Destroy => ids.into_iter().for_each(|id| self.destroy(id)),
            Act::Set(settings) => {
                let done = self.change(&ids, settings).with_context(|| format!("at.{n}"));
                self.must(done);
            }
        }
    }

    /// These VMs get other parameters. Groups are packed when all that come together have been named, as when VMs are created.
    fn change(&mut self, ids: &[u32], want: &Settings) -> Result<()> {
        for &id in ids {
            if let Some(server) = &want.server {
                self.reconfigure(id, server)?;
            }
            want.changes().try_for_each(|change| self.set(self.now, id, &change))?;
        }
        match want.group {
            Some(_) => (0..self.pools.len()).try_for_each(|n| self.settle_groups(n)),
            None => Ok(()),
        }
    }

    fn reconfigure(&mut self, id: u32, want: &Server) -> Result<()> {
        if self.is_managed(id) {
            return self.manage(|manager, machine, now| manager.set(machine, now, id, want));
        }
        let now = self.now;
        self.set_server(now, id, want)
    }

    /// A VM goes; it is real-time no more before it does.
    fn destroy(&mut self, id: u32) {
        let done = if self.is_managed(id) { self.reconfigure(id, &Server::default()) } else { Ok(()) };
        self.must(done);
        self.depart(id);
        for v in self.vms[id as usize].range() {
            let vcpu = &mut self.vcpus[v as usize];
            vcpu.tick.cancel();
            vcpu.idle = true;
            self.observe.gone(v);
        }
        let done = self.settle_groups(self.vms[id as usize].pool);
        self.must(done);
        self.unmake_static_pool();
    }

    /// Takes a sample of the pools.
    pub(super) fn sample(&mut self) {
        for cpu in 0..self.pcpus.len() {
            self.settle(cpu as u32);
        }
        let batch = (0..self.vms.len()).filter(|&id| self.spec(id).is_some_and(|spec| !spec.server.is_some()));
        let vcpus = batch.flat_map(|id| self.vms[id].range());
        let time = vcpus.map(|v| self.observe.metrics.vcpus[v as usize].cpu_time).sum();
        let rt = if self.policy.pools.is_some() { self.pcpus_of(RT).len() as u32 } else { 0 };
        self.history.samples.push((time, rt));
        self.queue.push(self.now + SAMPLE, What::Sample, 0);
    }
}
