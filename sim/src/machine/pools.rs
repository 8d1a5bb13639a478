// SPDX-License-Identifier: GPL-2.0-only
//! Pools of the machine, and how PCPUs and VMs move between them while they run.

use super::cpu::Phase;
use super::part::{MAIN, RT};
use super::{Machine, pin};
use crate::scenario::Scenario;
use anyhow::{Context, Result, bail};
use takt_control::params::is_server;
use takt_control::pools::{Pools, Size};
use takt_control::{PolicySpec, RtMode, Server, VmParams};
use takt_policy::{CUR_STOPS, FORCE_IDLE, NEVER, NIL, State};

/// Which pool each PCPU boots into, and the masks of the VCPUs with what a static rt-pool adds to them.
///
/// # Errors
/// Too few PCPUs; the message names the numbers.
pub(super) fn layout(s: &Scenario, policy: &PolicySpec) -> Result<(Vec<usize>, Vec<u64>)> {
    if s.machine.machines > 1 && (policy.pin || policy.pools.is_some()) {
        bail!("policy {policy}: only on one machine; machine.machines is {}; allowed: 1", s.machine.machines);
    }
    let first = if policy.pools.is_some() { RT + 1 } else { MAIN + 1 };
    let given = |cpu: u32| s.pools.iter().position(|p| p.cpus.contains(&cpu)).map_or(MAIN, |n| first + n);
    // Each machine is a pool; the first one's is the main one.
    let own = |cpu: u32| if s.machine.machines > 1 { (cpu / s.machine.pcpus) as usize } else { given(cpu) };
    let mut of: Vec<usize> = (0..s.pcpus()).map(own).collect();
    let mut masks = pin::masks(s, policy.pin)?;
    if let Some(Pools { size: Size::Fixed { pcpus, first }, .. }) = policy.pools {
        let main: Vec<usize> = (0..of.len()).filter(|&cpu| of[cpu] == MAIN).collect();
        let pcpus = pcpus as usize;
        if main.len() <= pcpus {
            bail!("policy {policy}: {pcpus} of {} PCPUs for real-time VMs; allowed: all PCPUs but one", main.len());
        }
        let rt = &main[main.len() - pcpus..];
        rt.iter().for_each(|&cpu| of[cpu] = RT);
        // By VM: the VCPUs of one go together.
        let vms = s.vms.iter().flat_map(|vm| std::iter::repeat_n(vm, vm.count as usize));
        let mut v = s.dom0_vcpus() as usize;
        let mut n = 0;
        for vm in vms {
            if first > 0 && vm.server.is_some() {
                let to = if n < first { 0 } else { (1 + (n - first) as usize % (pcpus - 1).max(1)) % pcpus };
                masks[v..v + vm.vcpus as usize].fill(1 << rt[to]);
                n += 1;
            }
            v += vm.vcpus as usize;
        }
    }
    Ok((of, masks))
}

impl Machine<'_> {
    /// Parameters of the pools, before anything is in them.
    pub(super) fn adjust_pools(&mut self) {
        for n in 0..self.pools.len() {
            for (key, value) in self.pools[n].policy.params.clone() {
                let res = self.pools[n].pool.adjust(0, NIL, key, value);
                self.apply(n, res, 0, "adjust", key);
            }
        }
    }

    /// PCPUs of a pool, ascending.
    pub(super) fn pcpus_of(&self, pool: usize) -> Vec<u32> {
        (0..).zip(&self.pcpus).filter(|(_, p)| p.pool == pool).map(|(cpu, _)| cpu).collect()
    }

    /// The pool that a VM begins in.
    pub(super) fn birthplace(&self, vm: u32) -> usize {
        if self.scenario.machine.machines > 1 {
            return self.vms[vm as usize].on as usize;
        }
        let spec = self.spec(vm as usize);
        let entry = spec.map_or("dom0", |s| s.name.as_str());
        if let Some(n) = self.scenario.pools.iter().position(|p| p.vms.iter().any(|name| name == entry)) {
            return self.pools.len() - self.scenario.pools.len() + n;
        }
        let there = |n: usize| self.pcpus.iter().any(|p| p.pool == n);
        match &self.policy.pools {
            Some(Pools { size: Size::Fixed { .. }, .. }) if there(RT) && spec.is_some_and(|s| s.server.is_some()) => RT,
            Some(Pools { size: Size::Managed(_), .. }) if !there(MAIN) => RT,
            _ => MAIN,
        }
    }

    /// A PCPU comes online in its pool.
    pub(super) fn boot(&mut self, cpu: u32) {
        let m = &self.scenario.machine;
        let n = self.pcpus[cpu as usize].pool;
        let res = self.pools[n].pool.cpu_add(self.now, cpu, cpu / m.threads, cpu / m.llc, cpu / m.node);
        self.pcpus[cpu as usize].phase = Phase::Idle;
        self.settle(cpu);
        self.apply(n, res, cpu, "cpu_add", cpu);
    }

    /// A PCPU changes its pool.
    pub(super) fn move_cpu(&mut self, cpu: u32, to: usize) {
        self.vacate(cpu);
        let from = self.pcpus[cpu as usize].pool;
        let res = self.pools[from].pool.cpu_remove(self.now, cpu);
        self.apply(from, res, cpu, "cpu_remove", cpu);
        let p = &mut self.pcpus[cpu as usize];
        p.timer.cancel();
        p.resched.cancel();
        p.pool = to;
        self.boot(cpu);
        self.history.moved(self.now, cpu, to);
    }

    /// What a PCPU runs is descheduled now, and what it is about to run is not. It idles until its next decision.
    fn vacate(&mut self, cpu: u32) {
        self.settle(cpu);
        let (phase, prev, next) = self.pcpus[cpu as usize].stop();
        match (phase, next) {
            (Phase::Switching, next) => {
                if let Some(v) = prev {
                    self.put(v, cpu);
                }
                if let Some(v) = next {
                    let n = self.vcpus[v as usize].pool;
                    let res = self.pools[n].pool.refused(self.now, v);
                    self.vcpus[v as usize].state = State::Queued;
                    self.apply(n, res, cpu, "refused", v);
                }
            }
            (Phase::Running, Some(v)) => {
                let n = self.vcpus[v as usize].pool;
                let stops = if self.vcpus[v as usize].idle { CUR_STOPS } else { 0 };
                let res = self.pools[n].pool.schedule(self.now, cpu, FORCE_IDLE | stops);
                self.apply(n, res.map(drop), cpu, "schedule", cpu);
                self.leave(v, cpu);
                self.put(v, cpu);
            }
            _ => (),
        }
    }

    /// A VM enters a pool.
    pub(super) fn enter(&mut self, id: u32, to: usize) {
        let vm = &mut self.vms[id as usize];
        vm.pool = to;
        let res = self.pools[to].pool.vm_add(self.now, id, vm.kind(), vm.config.params.value("weight"));
        self.apply(to, res, 0, "vm_add", id);
    }

    /// Its VCPUs do.
    pub(super) fn enter_vcpus(&mut self, id: u32) {
        let vm = &self.vms[id as usize];
        let (vcpus, pool, kind) = (vm.range(), vm.pool, vm.kind());
        let there = self.pcpus_of(pool);
        for v in vcpus {
            let vcpu = &mut self.vcpus[v as usize];
            (vcpu.pool, vcpu.state) = (pool, State::Blocked);
            let mut cpu = vcpu.pcpu;
            if !there.contains(&cpu) {
                cpu = there.get(v as usize % there.len().max(1)).copied().unwrap_or(cpu);
            }
            if vcpu.left_at.is_none() {
                vcpu.pcpu = cpu;
            }
            let res = self.pools[pool].pool.vcpu_add(self.now, v, id, cpu, kind);
            self.apply(pool, res, cpu, "vcpu_add", v);
        }
    }

    /// Sets the operator's masks of a VM's VCPUs where they are narrower than the machine.
    pub(super) fn set_affinity(&mut self, id: u32) {
        let pcpus = self.scenario.machine.pcpus;
        let vm = &self.vms[id as usize];
        let all = u64::MAX >> (64 - pcpus) << (pcpus * vm.on);
        let n = vm.pool;
        for v in vm.range() {
            let mask = self.masks[v as usize];
            if mask != all {
                let res = self.pools[n].pool.set_affinity(self.now, v, false, mask);
                self.apply(n, res, 0, "set_affinity", v);
            }
        }
    }

    /// A VM leaves its pool; what its policy counted of it is kept.
    pub(super) fn depart(&mut self, id: u32) {
        let vm = &self.vms[id as usize];
        let (vcpus, pool) = (vm.range(), vm.pool);
        for v in vcpus {
            if let Some(cpu) = self.pcpus.iter().position(|p| p.holds(v)) {
                self.vacate(cpu as u32);
                self.request_schedule(cpu as u32, self.now);
            }
            let res = self.pools[pool].pool.vcpu_remove(self.now, v);
            self.vcpus[v as usize].state = State::Absent;
            self.apply(pool, res, 0, "vcpu_remove", v);
        }
        let stat = self.pools[pool].pool.vm_stat(id).unwrap_or_default();
        let vm = &mut self.vms[id as usize];
        vm.past = (vm.past.0 + stat.promotions as i64, vm.past.1 + stat.refusals as i64);
        let res = self.pools[pool].pool.vm_remove(self.now, id);
        self.apply(pool, res, 0, "vm_remove", id);
    }

    /// A VM changes its pool, with what its policy held of it; whoever has work queues there.
    pub(super) fn move_vm_to(&mut self, id: u32, to: usize) -> Result<()> {
        let now = self.now;
        let from = self.vms[id as usize].pool;
        let there = &self.pools[from].pool;
        let stat = there.vm_stat(id).with_context(|| format!("no VM {id}"))?;
        let params = VmParams::of(there, id).with_context(|| format!("no VM {id}"))?;
        self.depart(id);
        self.enter(id, to);
        for (info, value) in params.said().iter().filter(|(info, _)| !is_server(info)) {
            let res = self.pools[to].pool.adjust(now, id, info.key, value);
            self.apply(to, res, 0, "adjust", id);
        }
        self.bring(id, &Server::default(), &params.server())?;
        self.enter_vcpus(id);
        self.set_affinity(id);
        if stat.rt != 0 && params.rt() == RtMode::Auto {
            let lease = if stat.lease_end == NEVER { NEVER } else { stat.lease_end.saturating_sub(now) };
            self.report_rt(id, true, stat.period, lease, 0);
        }
        for v in self.vms[id as usize].range() {
            if !self.vcpus[v as usize].idle {
                self.join_queue(v);
            }
        }
        Ok(())
    }

    /// A VCPU that has work, and that its pool has just got, queues.
    fn join_queue(&mut self, v: u32) {
        let n = self.vcpus[v as usize].pool;
        self.vcpus[v as usize].state = State::Queued;
        let res = self.pools[n].pool.wake(self.now, v, takt_policy::Source::Other);
        self.apply(n, res, self.vcpus[v as usize].pcpu, "wake", v);
        debug_assert!(matches!(self.pools[n].pool.state(v), State::Queued | State::Parked));
        self.observe.enqueued(self.now, v, &self.pools[n].pool);
    }

    /// Brings a VM's budget and period to what is wanted.
    pub(super) fn bring(&mut self, id: u32, have: &Server, want: &Server) -> Result<()> {
        let n = self.vms[id as usize].pool;
        let now = self.now;
        have.bring(want, |key, value| {
            self.pools[n].pool.adjust(now, id, key, value)?;
            self.apply(n, Ok(()), 0, "adjust", id);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sp(first=4) of rule B15: four VMs with a budget on the first PCPU of the pool, three on the
    /// other; Dom0 and the rest are not pinned.
    #[test]
    fn the_first_vms_of_a_static_pool_share_a_pcpu() {
        let s = Scenario::from_toml(include_str!("../../../scenarios/risa-cyclictest.toml"), "risa-cyclictest.toml")
            .unwrap();
        let budgets: Vec<bool> = s
            .vms
            .iter()
            .flat_map(|vm| std::iter::repeat_n(vm.server.is_some(), (vm.count * vm.vcpus) as usize))
            .collect();
        let (of, masks) = layout(&s, &PolicySpec::parse("sp(first=4)").unwrap()).unwrap();
        let rt: Vec<u64> = (0..of.len()).filter(|&cpu| of[cpu] == RT).map(|cpu| 1 << cpu).collect();
        let pinned: Vec<u64> =
            masks[s.dom0_vcpus() as usize..].iter().zip(&budgets).filter(|(_, has)| **has).map(|(m, _)| *m).collect();
        assert_eq!(pinned, [rt[0], rt[0], rt[0], rt[0], rt[1], rt[1], rt[1]]);
        let others = masks[s.dom0_vcpus() as usize..].iter().zip(&budgets).filter(|(_, has)| !**has);
        assert!(others.clone().all(|(m, _)| m.count_ones() > 1), "{:x?}", others.collect::<Vec<_>>());
    }
}
