// SPDX-License-Identifier: GPL-2.0-only
//! A hypervisor for tests with several cpupools, which changes them as `xen/common/sched/cpupool.c` does.

use crate::fake::{State, Tree, fail};
use crate::host::Xen;
use crate::hypercall::{Cpupool, Hypervisor, PoolOp};
use crate::wire::{self, Act, DomainInfo, TaktOp};
use crate::xenstore::Store;
use std::collections::BTreeMap;
use std::io::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use takt_policy::{Kind, Pool};

pub struct Part {
    pub scheduler: u32,
    pub state: State,
    pub pcpus: u64,
}

pub struct Dom {
    pub pool: u32,
    /// Its number in the pool.
    vm: u32,
    vcpus: u32,
}

#[derive(Default)]
pub struct All {
    pub parts: BTreeMap<u32, Part>,
    pub domains: BTreeMap<u16, Dom>,
    /// PCPUs of no cpupool.
    pub free: u64,
    /// Changes in their order.
    pub done: Vec<PoolOp>,
    /// What is refused, how, and how often.
    pub refuse: Vec<(PoolOp, i32, u32)>,
    /// A domain that goes when somebody has asked so many times more which domains there are.
    pub leaves: Option<(u32, u16)>,
    /// Whoever does that is killed after it.
    pub kills: Option<PoolOp>,
}

pub struct Fakes {
    all: Mutex<All>,
    store: Arc<Tree>,
}

impl Fakes {
    /// Pool-0 under Takt's credit, with Dom0 and that many PCPUs, four a node.
    pub fn new(pcpus: u32) -> Arc<Self> {
        let mut all = All { free: (1 << pcpus) - 1, ..All::default() };
        all.parts.insert(0, part(wire::SCHEDULER_TAKT));
        for cpu in 0..pcpus {
            all.change(PoolOp::AddCpu { pool: 0, cpu }).unwrap();
        }
        all.done.clear();
        let store = Arc::new(Tree::new([("/local/pool/0/name".into(), "Pool-0".into())].into()));
        let new = Arc::new(Self { all: Mutex::new(all), store });
        new.create(0, "Domain-0", 1);
        new
    }

    pub fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn host(self: &Arc<Self>) -> Xen {
        Xen::new(self.clone(), self.store.clone())
    }

    /// A domain appears in Pool-0; without a name it is not all there yet.
    pub fn create(&self, id: u16, name: &str, vcpus: u32) {
        self.all().enter(id, 0, vcpus);
        if !name.is_empty() {
            self.rename(id, name);
        }
    }

    pub fn rename(&self, id: u16, name: &str) {
        self.store.write(&format!("/local/domain/{id}/name"), name).unwrap();
    }

    pub fn destroy(&self, id: u16) {
        self.all().leave(id);
    }

    /// Which cpupool a domain is in.
    pub fn home(&self, id: u16) -> u32 {
        self.all().domains[&id].pool
    }

    /// PCPUs of cpupool 0 and 1 as bits.
    pub fn bits(&self) -> [u64; 2] {
        let all = self.all();
        [0, 1].map(|n| all.parts.get(&n).map_or(0, |p| p.pcpus))
    }
}

fn part(scheduler: u32) -> Part {
    Part { scheduler, state: State::new(Pool::new("credit").unwrap()), pcpus: 0 }
}

impl All {
    fn part(&mut self, id: u32) -> Result<&mut Part, Error> {
        self.parts.get_mut(&id).map_or_else(|| fail(libc::ENOENT), Ok)
    }

    fn enter(&mut self, id: u16, pool: u32, vcpus: u32) {
        let used: Vec<u32> = self.domains.values().filter(|d| d.pool == pool).map(|d| d.vm).collect();
        let vm = (0..).find(|vm| !used.contains(vm)).unwrap();
        let part = self.parts.get_mut(&pool).unwrap();
        let cpu = part.pcpus.trailing_zeros();
        let kind = if id == 0 { Kind::Host } else { Kind::Guest };
        part.state.act(|p, now| p.vm_add(now, vm, kind, 256)).unwrap();
        for n in 0..vcpus {
            part.state.act(|p, now| p.vcpu_add(now, 2 * vm + n, vm, cpu, kind)).unwrap();
        }
        self.domains.insert(id, Dom { pool, vm, vcpus });
    }

    fn leave(&mut self, id: u16) -> u32 {
        let Dom { pool, vm, vcpus } = self.domains.remove(&id).unwrap();
        let state = &mut self.parts.get_mut(&pool).unwrap().state;
        for n in 0..vcpus {
            state.act(|p, now| p.vcpu_remove(now, 2 * vm + n)).unwrap();
        }
        state.act(|p, now| p.vm_remove(now, vm)).unwrap();
        vcpus
    }

    pub fn change(&mut self, op: PoolOp) -> Result<(), Error> {
        if let Some((_, errno, times)) = self.refuse.iter_mut().find(|r| r.0 == op && r.2 > 0) {
            *times -= 1;
            return fail(*errno);
        }
        let in_use = |all: &Self, pool: u32| all.domains.values().any(|d| d.pool == pool);
        match op {
            PoolOp::Create { pool, .. } if self.parts.contains_key(&pool) => return fail(libc::EEXIST),
            PoolOp::Create { pool, scheduler } => drop(self.parts.insert(pool, part(scheduler))),
            PoolOp::Destroy { pool } if in_use(self, pool) || self.part(pool)?.pcpus != 0 => return fail(libc::EBUSY),
            PoolOp::Destroy { pool } => drop(self.parts.remove(&pool)),
            PoolOp::AddCpu { cpu, .. } if self.free >> cpu & 1 == 0 => return fail(libc::ENODEV),
            PoolOp::AddCpu { pool, cpu } => {
                self.part(pool)?.state.act(|p, now| p.cpu_add(now, cpu, cpu, 0, cpu / 4))?;
                self.part(pool)?.pcpus |= 1 << cpu;
                self.free &= !(1 << cpu);
            }
            PoolOp::RemoveCpu { pool: 0, cpu: 0 } => return fail(libc::EINVAL),
            PoolOp::RemoveCpu { pool, cpu } if self.part(pool)?.pcpus >> cpu & 1 == 0 => {
                return fail(libc::EADDRNOTAVAIL);
            }
            PoolOp::RemoveCpu { pool, .. } if in_use(self, pool) && self.part(pool)?.pcpus.count_ones() == 1 => {
                return fail(libc::EBUSY);
            }
            PoolOp::RemoveCpu { pool, cpu } => {
                self.part(pool)?.state.act(|p, now| p.cpu_remove(now, cpu))?;
                self.part(pool)?.pcpus &= !(1 << cpu);
                self.free |= 1 << cpu;
            }
            PoolOp::MoveDomain { pool, .. } if self.part(pool)?.pcpus == 0 => return fail(libc::EINVAL),
            PoolOp::MoveDomain { pool, domain } => {
                let vcpus = self.leave(domain);
                self.enter(domain, pool, vcpus);
            }
        }
        self.done.push(op);
        Ok(())
    }
}

impl Hypervisor for Fakes {
    fn cpupool(&self, id: u32) -> Result<Cpupool, Error> {
        let all = self.all();
        let Some((&id, part)) = all.parts.range(id..).next() else { return fail(libc::ENOENT) };
        let domains = all.domains.values().filter(|d| d.pool == id).count() as u32;
        Ok(Cpupool { id, scheduler: part.scheduler, domains, pcpus: part.pcpus })
    }

    fn change(&self, op: PoolOp) -> Result<(), Error> {
        let mut all = self.all();
        let done = all.change(op);
        assert!(all.kills.take_if(|at| *at == op).is_none(), "killed");
        done
    }

    fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        let one = |(id, d): (&u16, &Dom)| DomainInfo {
            domain: *id,
            cpupool: d.pool,
            max_vcpu_id: d.vcpus - 1,
            ..DomainInfo::default()
        };
        let mut all = self.all();
        let there = all.domains.iter().map(one).collect();
        match all.leaves.take() {
            Some((0, id)) => drop(all.leave(id)),
            left => all.leaves = left.map(|(n, id)| (n - 1, id)),
        }
        Ok(there)
    }

    fn domain(&self, domid: u16, scheduler: u32, act: Act, op: &mut TaktOp) -> Result<(), Error> {
        let mut all = self.all();
        let Some(Dom { pool, vm, .. }) = all.domains.get(&domid) else { return fail(libc::ESRCH) };
        let (pool, vm) = (*pool, *vm);
        let part = all.part(pool)?;
        if part.scheduler == scheduler { part.state.of_vm(vm, act, op) } else { fail(libc::EINVAL) }
    }

    fn pool(&self, pool: u32, scheduler: u32, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        let mut all = self.all();
        let in_use = all.domains.values().any(|d| d.pool == pool);
        let part = all.part(pool)?;
        if part.scheduler != scheduler {
            return fail(libc::EINVAL);
        }
        if (act, op.what) != (Act::Put, wire::POLICY) || in_use {
            return part.state.of_pool(act, op, buffer);
        }
        let wanted = takt_policy::policies().into_iter().find(|p| u64::from(p.id) == op.arg[0]).unwrap();
        part.state.pool = Pool::new(wanted.name).unwrap();
        for cpu in (0..64).filter(|n| part.pcpus >> n & 1 != 0) {
            part.state.act(|p, now| p.cpu_add(now, cpu, cpu, 0, cpu / 4))?;
        }
        Ok(())
    }
}
