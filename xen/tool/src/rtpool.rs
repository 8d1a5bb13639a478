// SPDX-License-Identifier: GPL-2.0-only
//! Risa's two pools as cpupools: Pool-0, and one for real-time domains that Takt makes and takes away. What the partition manager wants
//! of a host, in hypercalls.
//!
//! A domain that moves leaves all that its pool held of it behind; and between its two halves a PCPU that moves is in no cpupool. Who
//! is killed just then has written down what it was about to do, and the next one finishes it.

use crate::host::{Domain, TaktPool, Xen};
use crate::hypercall::{Cpupool, PoolOp};
use crate::refusal::{refused, scheduler_name};
use anyhow::{Context, Result, bail, ensure};
use std::io::Error;
use std::time::Duration;
use takt_control::params::is_server;
use takt_control::partition::{Member, Pcpu, Side};
use takt_control::settings::named;
use takt_control::{PartitionHost, Server, VmParams};
use takt_policy::{OpCode, Pool, vm_settings};

/// What `xl` calls Pool-0, and the other one.
pub const MAIN: &str = "Pool-0";
pub const RT: &str = "takt-rt";

/// Where `xl` looks for the names of cpupools.
const NAMES: &str = "/local/pool";
/// What is written down.
const PCPU: &str = "/tool/takt/pcpu";
const DOMAIN: &str = "/tool/takt/domain";
/// The hypervisor's reasons to refuse for a moment: something holds the PCPU, or a VCPU is kept on it, or a domain is about to leave.
const SOON: [i32; 3] = [libc::EBUSY, libc::EAGAIN, libc::EADDRINUSE];
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Both pools.
pub struct RtPool {
    host: Xen,
    main: TaktPool,
    rt: TaktPool,
    pause: Duration,
}

impl RtPool {
    /// Makes the pool, under `policy` with these parameters, or goes on with the one that is left.
    ///
    /// # Errors
    /// Pool-0 is not under Takt; there is a pool of that name under something else.
    pub fn open(host: Xen, policy: &str, params: &[(u32, u64)]) -> Result<Self> {
        let main = host.pool(Some(0))?;
        let id = match find(&host)? {
            Some(id) => id,
            None => create(&host, main.scheduler)?,
        };
        let rt = adopt(&host, id, policy)?;
        host.set_params(&rt, params)?;
        let mut pools = Self { host, main, rt, pause: PAUSE };
        pools.finish()?;
        Ok(pools)
    }

    pub fn pools(&self) -> [(&'static str, &TaktPool); 2] {
        [(MAIN, &self.main), (RT, &self.rt)]
    }

    pub fn host(&self) -> &Xen {
        &self.host
    }

    /// Whether the manager decides where that domain lives.
    pub fn is_managed(&self, domain: &Domain) -> bool {
        domain.id != 0 && self.side(domain).is_some()
    }

    /// Of the two, the pool where a domain is.
    pub fn side(&self, domain: &Domain) -> Option<Side> {
        match domain.pool.id {
            id if id == self.rt.id => Some(Side::Rt),
            id if id == self.main.id => Some(Side::Rest),
            _ => None,
        }
    }

    /// The PCPUs of both pools as bits.
    ///
    /// # Errors
    /// The hypervisor does not answer, or one of them has gone.
    pub fn bits(&self) -> Result<[u64; 2]> {
        let bits = |(name, pool): (&str, &TaktPool)| {
            let found = there(&self.host, pool.id)?;
            Ok::<_, anyhow::Error>(found.with_context(|| format!("cpupool {name} is gone"))?.pcpus)
        };
        let [main, rt] = self.pools();
        Ok([bits(main)?, bits(rt)?])
    }

    /// All goes back to Pool-0, and the pool goes.
    ///
    /// # Errors
    /// The hypervisor refuses it.
    pub fn close(mut self) -> Result<()> {
        if there(&self.host, self.rt.id)?.is_none() {
            // Somebody else has taken it away.
            return Ok(());
        }
        let pool = self.rt.id;
        for domain in self.host.domains()?.iter().filter(|d| d.pool.id == pool) {
            self.move_domain(domain, Side::Rest)?;
        }
        for cpu in self.pcpus()?.iter().filter(|p| p.side == Side::Rt) {
            self.move_pcpu(0, cpu.id, Side::Rest)?;
        }
        self.patiently(PoolOp::Destroy { pool }).map_err(|e| refused(&e, &format!("cpupool {RT}: its removal")))?;
        self.host.store().remove(&format!("{NAMES}/{pool}"))
    }

    fn pool(&self, side: Side) -> &TaktPool {
        if side == Side::Rt { &self.rt } else { &self.main }
    }

    /// Does something as often as the hypervisor says that it may go well the next time.
    fn patiently(&self, op: PoolOp) -> Result<(), Error> {
        for _ in 1..TRIES {
            match self.host.hypervisor().change(op) {
                Err(e) if e.raw_os_error().is_some_and(|n| SOON.contains(&n)) => std::thread::sleep(self.pause),
                done => return done,
            }
        }
        self.host.hypervisor().change(op)
    }

    fn domain(&self, vm: u32) -> Result<Domain> {
        let found = self.host.domains()?.into_iter().find(|d| u32::from(d.id) == vm && self.is_managed(d));
        found.with_context(|| format!("domain {vm} is gone"))
    }

    /// Gives a domain what another pool held of it.
    fn give(&self, domain: &Domain, held: &VmParams) -> Result<()> {
        let have = self.host.params(domain)?;
        self.host.set_server(domain, &have.server(), &held.server())?;
        let said = held.said();
        let mut others = said.iter().filter(|(info, value)| !is_server(info) && have.value(info.name) != *value);
        others.try_for_each(|(info, value)| self.host.set(domain, info.name, value))
    }

    fn move_domain(&mut self, domain: &Domain, to: Side) -> Result<()> {
        let what = format!("domain `{}` ({}): its move to {}", domain.name, domain.id, self.name(to));
        let held = self.host.params(domain)?;
        self.host.store().write(DOMAIN, &written(domain.id, &held))?;
        let to = *self.pool(to);
        let moved = self.patiently(PoolOp::MoveDomain { pool: to.id, domain: domain.id });
        let moved = moved.map_err(|e| refused(&e, &what)).and_then(|()| {
            let given = self.give(&Domain { pool: to, ..domain.clone() }, &held).with_context(|| what.clone());
            if given.is_err() {
                // Where it was there was room for it.
                self.patiently(PoolOp::MoveDomain { pool: domain.pool.id, domain: domain.id })
                    .map_err(|e| refused(&e, &what))?;
                self.give(domain, &held)?;
            }
            given
        });
        self.host.store().remove(DOMAIN)?;
        moved
    }

    fn name(&self, side: Side) -> &'static str {
        if side == Side::Rt { RT } else { MAIN }
    }

    /// Finishes what somebody who was killed was about to do.
    fn finish(&mut self) -> Result<()> {
        let store = self.host.store();
        if let Some(cpu) = store.read(PCPU)?.and_then(|text| text.parse::<u32>().ok()) {
            // It is in no cpupool, or nothing is left to do.
            let free = self.bits()?.iter().all(|bits| bits >> cpu.min(63) & 1 == 0);
            if free {
                let done = self.patiently(PoolOp::AddCpu { pool: self.main.id, cpu });
                done.map_err(|e| refused(&e, &format!("PCPU {cpu}: its return to {MAIN}")))?;
            }
            store.remove(PCPU)?;
        }
        if let Some((id, held)) = store.read(DOMAIN)?.as_deref().and_then(read) {
            if let Ok(domain) = self.domain(id.into()) {
                self.give(&domain, &held)?;
            }
            store.remove(DOMAIN)?;
        }
        Ok(())
    }
}

impl PartitionHost for RtPool {
    fn pcpus(&self) -> Result<Vec<Pcpu>> {
        let mut all = Vec::new();
        for (_, pool) in self.pools() {
            let side = if pool.id == self.rt.id { Side::Rt } else { Side::Rest };
            let there = self.host.snapshot(pool, false)?.describe().into_iter();
            let there = there.filter(|op| OpCode::from_u16(op.op) == Some(OpCode::CpuAdd));
            // Xen keeps the PCPU that it has booted on in Pool-0.
            all.extend(there.map(|op| Pcpu { id: op.cpu.into(), node: op.arg[2] as u32, side, stays: op.cpu == 0 }));
        }
        all.sort_by_key(|p| p.id);
        Ok(all)
    }

    fn members(&self) -> Result<Vec<Member>> {
        let main = self.host.snapshot(&self.main, false)?;
        let last = |domain: &Domain| {
            let (_, vcpu) = self.host.index(domain, 0).ok().flatten()?;
            Some(Pool::vcpu_cpu(&main, vcpu))
        };
        let mut all = Vec::new();
        for domain in self.host.domains()?.iter().filter(|d| self.is_managed(d)) {
            let server = match self.host.server(domain) {
                Ok(server) => server,
                // One that goes just now is none.
                Err(e) if self.domain(domain.id.into()).is_ok() => return Err(e),
                Err(_) => continue,
            };
            let Some(side) = self.side(domain) else { continue };
            let last = if server.is_some() && side == Side::Rest { last(domain) } else { None };
            let vcpus = domain.info.max_vcpu_id.wrapping_add(1);
            all.push(Member { id: domain.id.into(), vcpus, server, side, last });
        }
        Ok(all)
    }

    fn move_pcpu(&mut self, _: u64, cpu: u32, to: Side) -> Result<()> {
        let (from, to) = if to == Side::Rt { (Side::Rest, to) } else { (Side::Rt, to) };
        let what = format!("PCPU {cpu}: its move from {} to {}", self.name(from), self.name(to));
        let (from, to) = (self.pool(from).id, self.pool(to).id);
        self.host.store().write(PCPU, &cpu.to_string())?;
        let moved = self
            .patiently(PoolOp::RemoveCpu { pool: from, cpu })
            .and_then(|()| self.patiently(PoolOp::AddCpu { pool: to, cpu }));
        if moved.is_err() {
            // It may be half gone, which this mends, or has not gone at all, and this fails.
            let _ = self.patiently(PoolOp::AddCpu { pool: from, cpu });
        }
        self.host.store().remove(PCPU)?;
        moved.map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => anyhow::anyhow!("{what}: it is offline, or in another cpupool"),
            _ => refused(&e, &what),
        })
    }

    fn move_vm(&mut self, _: u64, vm: u32, to: Side) -> Result<()> {
        let domain = self.domain(vm)?;
        self.move_domain(&domain, to)
    }

    fn set_server(&mut self, _: u64, vm: u32, want: &Server) -> Result<()> {
        let domain = self.domain(vm)?;
        self.host.set_server(&domain, &self.host.server(&domain)?, want)
    }
}

/// What a pool holds of a domain as it is written down: the domain's number, and `NAME=VALUE` of
/// each setting.
fn written(domain: u16, held: &VmParams) -> String {
    let pairs = held.iter().map(|(info, value)| format!(" {}={value}", info.name));
    domain.to_string() + &pairs.collect::<String>()
}

/// The same, read; `None` unless it names each setting once, within its range.
fn read(text: &str) -> Option<(u16, VmParams)> {
    let mut words = text.split(' ');
    let domain = words.next()?.parse().ok()?;
    let mut held = VmParams::default();
    for word in words {
        let (name, value) = word.split_once('=')?;
        let info = named(name).filter(|info| held.get(info.name).is_none())?;
        held.set(info, value.parse().ok()?);
    }
    let all = vm_settings().iter().all(|info| held.get(info.name).is_some());
    (all && held.check().is_ok()).then_some((domain, held))
}

/// The cpupool of that number.
fn there(host: &Xen, id: u32) -> Result<Option<Cpupool>> {
    match host.hypervisor().cpupool(id) {
        Ok(pool) => Ok(Some(pool).filter(|p| p.id == id)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(refused(&e, &format!("cpupool {id}"))),
    }
}

/// The pool that is left, by its name. A name without a pool goes.
fn find(host: &Xen) -> Result<Option<u32>> {
    let store = host.store();
    let mut found = None;
    for id in store.list(NAMES)?.iter().filter_map(|n| n.parse::<u32>().ok()) {
        if store.read(&format!("{NAMES}/{id}/name"))?.as_deref() != Some(RT) {
            continue;
        }
        if there(host, id)?.is_some() {
            found = Some(id);
        } else {
            store.remove(&format!("{NAMES}/{id}"))?;
        }
    }
    Ok(found)
}

/// Named before it is there: who is killed in between leaves a name, which does no harm.
fn create(host: &Xen, scheduler: u32) -> Result<u32> {
    let mut pool = 0;
    while let Ok(next) = host.hypervisor().cpupool(pool) {
        pool = next.id + 1;
    }
    host.store().write(&format!("{NAMES}/{pool}/name"), RT)?;
    match host.hypervisor().change(PoolOp::Create { pool, scheduler }) {
        Ok(()) => Ok(pool),
        Err(e) => {
            host.store().remove(&format!("{NAMES}/{pool}"))?;
            Err(refused(&e, &format!("cpupool {RT}: its creation")))
        }
    }
}

/// The pool `id`, which is to be under `policy`.
fn adopt(host: &Xen, id: u32, policy: &str) -> Result<TaktPool> {
    let Some(mut pool) = host.pools()?.into_iter().find(|p| p.id == id) else {
        let scheduler = there(host, id)?.map_or_else(|| "nothing".into(), |p| scheduler_name(p.scheduler));
        bail!(
            "cpupool {RT} ({id}) already exists and runs {scheduler}; destroy or rename it (xl cpupool-destroy, xl cpupool-rename)"
        );
    };
    if pool.policy.name != policy {
        let occupied = host.domains()?.iter().any(|d| d.pool.id == id);
        ensure!(
            !occupied,
            "cpupool {RT} ({id}) runs {} and has domains; use risa(rt={}), or remove that cpupool first",
            pool.policy.name,
            pool.policy.name
        );
        host.set_pool(&pool, &[format!("policy={policy}")], false)?;
        pool = host.pool(Some(id))?;
    }
    Ok(pool)
}

#[cfg(test)]
mod tests;
