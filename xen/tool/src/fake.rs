// SPDX-License-Identifier: GPL-2.0-only
//! A hypervisor for tests: the native pool behind the same calls, answering as `xen/sched/control.c` does.

use crate::host::Xen;
use crate::hypercall::{Cpupool, Hypervisor, PoolOp};
use crate::wire::{self, Act, DomainInfo, TaktOp};
use crate::xenstore::Store;
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::Error;
use std::sync::{Arc, Mutex, MutexGuard};
use takt_control::Wait;
use takt_control::waits::CLASSES;
use takt_policy::{Kind, NEVER, NIL, Overhead, Pool, Record};

/// The number of the domain that is VM `n` of the pool.
const DOMIDS: [u16; 3] = [0, 3, 7];
/// In a cpupool of another scheduler.
pub const STRANGER: u16 = 9;

pub struct State {
    pub pool: Pool,
    pub now: u64,
    saved: Option<Pool>,
    recording: bool,
    log: Vec<Record>,
    /// What decisions and switches have taken on each PCPU, and from when to when that was counted; no end: it still is.
    pub took: Option<([Overhead; 2], u64, Option<u64>)>,
    /// Of each VCPU.
    pub waits: [[Wait; CLASSES]; 6],
    /// Records that are overwritten.
    pub lost: u64,
    /// Whoever fetches records makes one more.
    pub restless: bool,
    /// Every call fails so.
    pub fails: Option<i32>,
    pub schedulers: Vec<u32>,
}

pub struct Fake(Mutex<State>);

impl Fake {
    /// Cpupool 0 under Takt with two PCPUs, Dom0 and two guests; cpupool 1 under credit2.
    pub fn new() -> Arc<Self> {
        Self::under("doris")
    }

    /// The same under another policy.
    pub fn under(policy: &str) -> Arc<Self> {
        let mut pool = Pool::new(policy).unwrap();
        for info in takt_policy::params().iter().filter(|p| !p.per_vm) {
            pool.adjust(1, NIL, info.key, info.xen).unwrap();
        }
        for cpu in 0..2 {
            pool.cpu_add(1, cpu, cpu, 0, 0).unwrap();
        }
        for vm in 0..3 {
            let kind = if vm == 0 { Kind::Host } else { Kind::Guest };
            pool.vm_add(1, vm, kind, 256).unwrap();
            pool.vcpu_add(1, 2 * vm, vm, 0, kind).unwrap();
            pool.vcpu_add(1, 2 * vm + 1, vm, 1, kind).unwrap();
        }
        Arc::new(Self(Mutex::new(State::new(pool))))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A host with this hypervisor and a xenstore that holds `more` beside names.
    pub fn host(self: &Arc<Self>, more: &[(&str, &str)]) -> Xen {
        let names =
            [("/local/domain/0/name", "Domain-0"), ("/local/domain/3/name", "voip"), ("/local/domain/9/name", "other")];
        let all = names.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Xen::new(self.clone(), Arc::new(Tree::new(all)))
    }
}

pub fn fail<T>(errno: i32) -> Result<T, Error> {
    Err(Error::from_raw_os_error(errno))
}

impl State {
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            now: 1000,
            saved: None,
            recording: false,
            log: Vec::new(),
            took: None,
            waits: Default::default(),
            lost: 0,
            restless: false,
            fails: None,
            schedulers: vec![wire::SCHEDULER_TAKT, 6],
        }
    }

    /// Performs an operation, which is recorded as the hypervisor would.
    pub fn act(&mut self, f: impl FnOnce(&mut Pool, u64) -> takt_policy::Result<()>) -> Result<(), Error> {
        self.now += 1000;
        self.pool.record();
        let done = f(&mut self.pool, self.now);
        let records = self.pool.take_log();
        if self.recording {
            self.log.extend(records);
        }
        done.or_else(|e| fail(-e.0))
    }

    fn answer(&self) -> Result<(), Error> {
        self.fails.map_or(Ok(()), fail)
    }

    pub fn of_vm(&mut self, vm: u32, act: Act, op: &mut TaktOp) -> Result<(), Error> {
        let stat = self.pool.vm_stat(vm).unwrap();
        let [a, b, _] = op.arg;
        match (act, op.what) {
            (Act::Get, wire::PARAM) => {
                let Some(value) = self.pool.vm_setting(vm, a as u32) else { return fail(libc::EINVAL) };
                op.arg[1] = value;
            }
            (Act::Get, wire::GROUP) => op.arg[0] = stat.group,
            (Act::Put, wire::GROUP) => return self.act(|p, now| p.set_group(now, vm, a)),
            (Act::Put, wire::PARAM) => return self.act(|p, now| p.adjust(now, vm, a as u32, b)),
            (Act::Get, wire::RT) => op.arg = [stat.period, stat.lease_end, stat.rt],
            (Act::Put, wire::RT) => return self.act(|p, now| p.set_rt(now, vm, b != 0, a, b)),
            (Act::Get, wire::INDEX) if b < 2 => op.arg = [vm.into(), u64::from(2 * vm) + b, 0],
            (Act::Get, wire::INDEX) => return fail(libc::ENOENT),
            _ => return fail(libc::EINVAL),
        }
        Ok(())
    }

    pub fn of_pool(&mut self, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        let [a, b, _] = op.arg;
        match (act, op.what) {
            (Act::Get, wire::POLICY) => {
                let name = self.pool.policy();
                op.arg[0] = takt_policy::policies().iter().find(|p| p.name == name).unwrap().id.into();
            }
            (Act::Put, wire::POLICY) => return fail(libc::EBUSY),
            (Act::Put, wire::PARAM) => return self.act(|p, now| p.adjust(now, NIL, a as u32, b)),
            (Act::Get, wire::POOL) => {
                let from = if a == 0 { Some(&self.pool) } else { self.saved.as_ref() };
                let Some(from) = from else { return fail(libc::ENOENT) };
                buffer[..from.bytes().len()].copy_from_slice(from.bytes());
                op.arg[1] = from.bytes().len() as u64;
            }
            (Act::Put, wire::RECORD) if a == 0 => {
                if std::mem::take(&mut self.recording) {
                    self.saved = Some(self.pool.clone());
                }
            }
            (Act::Put, wire::RECORD) => {
                self.act(Pool::epoch)?;
                self.saved = Some(self.pool.clone());
                (self.recording, self.log, self.lost) = (true, Vec::new(), 0);
            }
            (Act::Get, wire::LOG) => {
                if self.restless {
                    self.act(Pool::timer_pool)?;
                }
                if a < self.lost {
                    return fail(libc::ENODATA);
                }
                if a > self.log.len() as u64 {
                    return fail(libc::ERANGE);
                }
                let some: Vec<Record> = self.log.iter().skip(a as usize).take(b.min(3) as usize).copied().collect();
                for (to, r) in buffer.chunks_exact_mut(size_of::<Record>()).zip(&some) {
                    // SAFETY: of that size; a record has no padding.
                    unsafe { to.as_mut_ptr().cast::<Record>().write_unaligned(*r) };
                }
                (op.arg[1], op.arg[2]) = (some.len() as u64, self.log.len() as u64);
            }
            (Act::Put, wire::OVERHEAD) if a != 0 => self.took = Some((Default::default(), self.now, None)),
            (Act::Put, wire::OVERHEAD) => {
                if let Some((_, _, to)) = &mut self.took {
                    *to = Some(to.unwrap_or(self.now));
                }
            }
            (Act::Get, wire::OVERHEAD) => {
                let Some((took, from, to)) = &self.took else { return fail(libc::ENOENT) };
                let Some(own) = took.get(a as usize) else { return fail(libc::ERANGE) };
                let size = size_of::<Overhead>();
                if buffer.len() < size || b < size as u64 {
                    return fail(libc::ENOSPC);
                }
                // SAFETY: as long as that; it has no padding.
                unsafe { buffer.as_mut_ptr().cast::<Overhead>().write_unaligned(own.clone()) };
                op.arg = [*from, size as u64, to.unwrap_or(self.now)];
            }
            (Act::Get, wire::WAITS) => {
                let Some(own) = self.waits.get(a as usize) else { return fail(libc::ENOENT) };
                let numbers = own.iter().flat_map(|w| [w.count, w.sum, w.max, w.ran]).flat_map(u64::to_ne_bytes);
                let bytes: Vec<u8> = numbers.collect();
                if buffer.len() < bytes.len() || b < bytes.len() as u64 {
                    return fail(libc::ENOSPC);
                }
                buffer[..bytes.len()].copy_from_slice(&bytes);
                op.arg[1] = bytes.len() as u64;
            }
            _ => return fail(libc::EINVAL),
        }
        Ok(())
    }
}

impl Hypervisor for Fake {
    fn cpupool(&self, id: u32) -> Result<Cpupool, Error> {
        let state = self.state();
        state.answer()?;
        match state.schedulers.get(id as usize) {
            Some(&scheduler) => Ok(Cpupool { id, scheduler, domains: 1, pcpus: 0b11 }),
            None => fail(libc::ENOENT),
        }
    }

    fn change(&self, _: PoolOp) -> Result<(), Error> {
        fail(libc::EPERM)
    }

    fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        self.state().answer()?;
        let one = |domain: u16, cpupool| DomainInfo { domain, cpupool, max_vcpu_id: 1, ..DomainInfo::default() };
        Ok(DOMIDS.iter().map(|d| one(*d, 0)).chain([one(STRANGER, 1)]).collect())
    }

    fn domain(&self, domid: u16, scheduler: u32, act: Act, op: &mut TaktOp) -> Result<(), Error> {
        let mut state = self.state();
        state.answer()?;
        match DOMIDS.iter().position(|d| *d == domid) {
            Some(vm) if scheduler == state.schedulers[0] => state.of_vm(vm as u32, act, op),
            Some(_) => fail(libc::EINVAL),
            None => fail(libc::ESRCH),
        }
    }

    fn pool(&self, pool: u32, scheduler: u32, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        let mut state = self.state();
        state.answer()?;
        match state.schedulers.get(pool as usize) {
            None => fail(libc::ESRCH),
            Some(s) if *s != scheduler => fail(libc::EINVAL),
            // Xen's own null scheduler has no such function: success, and nothing happens.
            Some(&wire::SCHEDULER_NULL) if pool > 0 => Ok(()),
            Some(_) => state.of_pool(act, op, buffer),
        }
    }
}

/// A xenstore that is a table.
pub struct Tree(Mutex<BTreeMap<String, String>>);

impl Tree {
    pub fn new(all: BTreeMap<String, String>) -> Self {
        Self(Mutex::new(all))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap()
    }
}

impl Store for Tree {
    fn read(&self, path: &str) -> Result<Option<String>> {
        Ok(self.all().get(path).cloned())
    }

    fn write(&self, path: &str, value: &str) -> Result<()> {
        self.all().insert(path.into(), value.into());
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.all().retain(|k, _| k != path && !k.starts_with(&format!("{path}/")));
        Ok(())
    }

    /// All that have a name.
    fn introduced(&self, domain: u16) -> Result<bool> {
        Ok(self.all().contains_key(&format!("/local/domain/{domain}/name")))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let below = |k: &String| Some(k.strip_prefix(path)?.strip_prefix('/')?.split('/').next()?.to_owned());
        let mut names: Vec<String> = self.all().keys().filter_map(below).collect();
        names.dedup();
        Ok(names)
    }
}

/// Leases that do not lapse.
pub const FOR_EVER: u64 = NEVER;
