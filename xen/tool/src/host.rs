// SPDX-License-Identifier: GPL-2.0-only
//! The host as Dom0 sees it: cpupools under Takt, their domains by name, and what may be asked of both.

use crate::hypercall::Hypervisor;
use crate::refusal::{out_of, refused, scheduler_name};
use crate::wire::{self, Act, DomainInfo, TaktOp};
use crate::xenstore::Store;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::io::Error;
use std::sync::Arc;
use takt_control::waits::{self, CLASSES};
use takt_control::{RtMode, Server, Setting, VmParams, Wait, near, settings, spec};
use takt_policy::{NEVER, ParamInfo, PolicyInfo, Pool, vm_settings};

/// A cpupool that Takt schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaktPool {
    pub id: u32,
    /// The number that its scheduler goes by.
    pub scheduler: u32,
    pub policy: PolicyInfo,
}

/// A domain of such a cpupool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub id: u16,
    pub name: String,
    pub pool: TaktPool,
    pub info: DomainInfo,
}

/// The type of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Type {
    pub rt: bool,
    /// ns; 0: unknown
    pub period: u64,
}

/// What Dom0 can ask and set.
#[derive(Clone)]
pub struct Xen {
    hypervisor: Arc<dyn Hypervisor>,
    store: Arc<dyn Store>,
}

impl Xen {
    pub fn new(hypervisor: Arc<dyn Hypervisor>, store: Arc<dyn Store>) -> Self {
        Self { hypervisor, store }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    pub(crate) fn hypervisor(&self) -> &dyn Hypervisor {
        &*self.hypervisor
    }

    /// The cpupools under Takt.
    ///
    /// # Errors
    /// There is none, and what there is instead; this domain may not ask.
    pub fn pools(&self) -> Result<Vec<TaktPool>> {
        let (mut takt, mut others, mut next) = (Vec::new(), Vec::new(), 0);
        loop {
            let pool = match self.hypervisor.cpupool(next) {
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => break,
                other => other.map_err(|e| refused(&e, "the cpupools"))?,
            };
            ensure!(pool.id >= next, "the hypervisor lists cpupool {} again", pool.id);
            match self.policy(pool.id, pool.scheduler)? {
                Some(policy) => takt.push(TaktPool { id: pool.id, scheduler: pool.scheduler, policy }),
                None => others.push(format!("cpupool {} runs {}", pool.id, scheduler_name(pool.scheduler))),
            }
            let Some(after) = pool.id.checked_add(1) else { break };
            next = after;
        }
        ensure!(
            !takt.is_empty(),
            "no cpupool runs Takt ({}); boot Xen with sched=takt, or create a cpupool with it",
            others.join(", ")
        );
        Ok(takt)
    }

    /// The cpupool `id`, or the first one under Takt.
    ///
    /// # Errors
    /// It is not there, or not under Takt.
    pub fn pool(&self, id: Option<u32>) -> Result<TaktPool> {
        let pools = self.pools()?;
        let ids = || pools.iter().map(|p| p.id.to_string()).collect::<Vec<_>>().join(", ");
        match id {
            None => Ok(pools[0]),
            Some(id) => pools
                .iter()
                .find(|p| p.id == id)
                .copied()
                .with_context(|| format!("cpupool {id} does not run Takt; cpupools that do: {}", ids())),
        }
    }

    /// The policy of a cpupool; `None` if its scheduler is another one. Xen's own `null`, whose number Takt may go by,
    /// answers such a question with success and nothing.
    fn policy(&self, pool: u32, scheduler: u32) -> Result<Option<PolicyInfo>> {
        if ![wire::SCHEDULER_NULL, wire::SCHEDULER_TAKT].contains(&scheduler) {
            return Ok(None);
        }
        let mut op = TaktOp::new(wire::POLICY, [u64::MAX, 0, 0]);
        match self.hypervisor.pool(pool, scheduler, Act::Get, &mut op, &mut []) {
            Ok(()) if op.arg[0] == u64::MAX => return Ok(None),
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
            Err(e) => return Err(refused(&e, &format!("cpupool {pool}: its policy"))),
        }
        let known = takt_policy::policies().into_iter().find(|p| u64::from(p.id) == op.arg[0]);
        Ok(Some(known.with_context(|| {
            format!("cpupool {pool} runs policy number {}, which this build does not know", op.arg[0])
        })?))
    }

    /// The domains of the cpupools under Takt that are not about to go, by number.
    ///
    /// # Errors
    /// The hypervisor or xenstore does not answer.
    pub fn domains(&self) -> Result<Vec<Domain>> {
        let pools = self.pools()?;
        let all = self.all()?;
        let with_pool = all.into_iter().filter_map(|info| Some((info, *pools.iter().find(|p| p.id == info.cpupool)?)));
        with_pool
            .map(|(info, pool)| Ok(Domain { id: info.domain, name: self.name(info.domain)?, pool, info }))
            .collect()
    }

    fn all(&self) -> Result<Vec<DomainInfo>> {
        let all = self.hypervisor.domains().map_err(|e| refused(&e, "the domains"))?;
        Ok(all.into_iter().filter(|d| d.flags & wire::DOMINF_DYING == 0).collect())
    }

    /// Whether the toolstack has made all of a domain.
    pub(crate) fn is_made(&self, id: u16) -> bool {
        id == 0 || self.store.introduced(id).unwrap_or(false)
    }

    /// What xenstore calls a domain.
    pub(crate) fn name(&self, id: u16) -> Result<String> {
        let name = self.store.read(&format!("/local/domain/{id}/name"))?.filter(|n| !n.is_empty());
        Ok(name.unwrap_or_else(|| if id == 0 { "Domain-0".into() } else { format!("domain-{id}") }))
    }

    /// The domain of that name, or else of that number.
    ///
    /// # Errors
    /// There is none, and which there are; it is in a cpupool of another scheduler.
    pub fn find(&self, name: &str) -> Result<Domain> {
        let domains = self.domains()?;
        let number = name.parse().ok();
        let by = |ok: &dyn Fn(&Domain) -> bool| domains.iter().find(|d| ok(d)).cloned();
        if let Some(found) = by(&|d| d.name == name).or_else(|| by(&|d| Some(d.id) == number)) {
            return Ok(found);
        }
        for info in self.all()? {
            if Some(info.domain) == number || self.name(info.domain)? == name {
                bail!("domain `{name}` is in cpupool {}, which does not run Takt", info.cpupool);
            }
        }
        bail!("no domain `{name}`{}", near::known_are(name, domains.iter().map(|d| d.name.as_str())))
    }

    fn ask(&self, domain: &Domain, act: Act, what: u32, arg: [u64; 3]) -> Result<[u64; 3], Error> {
        let mut op = TaktOp::new(what, arg);
        self.hypervisor.domain(domain.id, domain.pool.scheduler, act, &mut op).map(|()| op.arg)
    }

    /// A parameter of a domain, such as `weight`.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn get(&self, domain: &Domain, name: &str) -> Result<u64> {
        let info = param(name)?;
        let answer = self.ask(domain, Act::Get, wire::PARAM, [info.key.into(), 0, 0]);
        Ok(answer.map_err(|e| refused(&e, &format!("{}: {name}", target(domain))))?[1])
    }

    /// Sets it.
    ///
    /// # Errors
    /// Out of range, which is named; the domain has gone; too many real-time domains.
    pub fn set(&self, domain: &Domain, name: &str, value: u64) -> Result<()> {
        let info = param(name)?;
        let answer = self.ask(domain, Act::Put, wire::PARAM, [info.key.into(), value, 0]);
        answer.map(drop).map_err(|e| {
            let what = format!("{}: `{name}={}`", target(domain), spec::show(info, value));
            out_of(&e, &what, info)
        })
    }

    /// All parameters of a domain.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn params(&self, domain: &Domain) -> Result<VmParams> {
        vm_settings().iter().map(|info| Ok((info, self.get(domain, info.name)?))).collect()
    }

    /// What a domain's VCPUs may run.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn server(&self, domain: &Domain) -> Result<Server> {
        Ok(Server {
            budget: self.get(domain, "budget")?,
            period: self.get(domain, "period")?,
            priority: u32::try_from(self.get(domain, "priority")?)?,
            extra: self.get(domain, "extra")? != 0,
        })
    }

    /// Sets it.
    ///
    /// # Errors
    /// No PCPU has room; the domain has gone. Nothing has changed then.
    pub fn set_server(&self, domain: &Domain, have: &Server, want: &Server) -> Result<()> {
        have.bring(want, |key, value| {
            let answer = self.ask(domain, Act::Put, wire::PARAM, [key.into(), value, 0]);
            answer.map(drop).map_err(|e| refused(&e, &format!("{}: its budget", target(domain))))
        })
    }

    /// How the type of a domain comes about.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn mode(&self, domain: &Domain) -> Result<RtMode> {
        RtMode::of(self.get(domain, "rt")?).context("a mode that this build does not know")
    }

    /// Sets what `setting` says to the policy; ports and devices are the monitor's.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn apply(&self, domain: &Domain, setting: &Setting) -> Result<()> {
        // What may be refused though its value is allowed comes first, and is taken back when the next is.
        if !setting.params.has_server() {
            return self.apply_rest(domain, setting);
        }
        let have = self.server(domain)?;
        let want = setting.params.server_on(&have);
        want.validate().with_context(|| target(domain))?;
        self.set_server(domain, &have, &want)?;
        let done = self.apply_rest(domain, setting);
        if done.is_err() {
            self.set_server(domain, &want, &have)?;
        }
        done
    }

    fn apply_rest(&self, domain: &Domain, setting: &Setting) -> Result<()> {
        if let Some(mode) = setting.params.get("rt") {
            self.set(domain, "rt", mode)?;
        }
        for (info, value) in setting.params.plain() {
            self.set(domain, info.name, value)?;
        }
        let Some(period) = setting.period else { return Ok(()) };
        self.report(domain, period, NEVER).map_err(|e| refused(&e, &format!("{}: its period", target(domain))))
    }

    /// The domain enters a group and subgroup, as [`takt_control::groups::Groups`] numbers them, or leaves it (0).
    ///
    /// # Errors
    /// Its policy knows no groups; that one is full; the domain has gone.
    pub fn set_group(&self, domain: &Domain, group: u64) -> Result<()> {
        let answer = self.ask(domain, Act::Put, wire::GROUP, [group, 0, 0]);
        answer.map(drop).map_err(|e| refused(&e, &format!("{}: its group", target(domain))))
    }

    /// The number that the policy has for its group and subgroup, 0: none.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn group(&self, domain: &Domain) -> Result<u64> {
        let answer = self.ask(domain, Act::Get, wire::GROUP, [0; 3]);
        Ok(answer.map_err(|e| refused(&e, &format!("{}: its group", target(domain))))?[0])
    }

    /// PCPUs of a cpupool.
    ///
    /// # Errors
    /// It has gone.
    pub fn pcpus(&self, pool: &TaktPool) -> Result<u32> {
        let info = self.hypervisor.cpupool(pool.id).ok().filter(|found| found.id == pool.id);
        Ok(info.with_context(|| format!("cpupool {} is gone", pool.id))?.pcpus.count_ones())
    }

    /// Reports a domain's type for `lease` ns, 0: it is not real-time; `period` 0: unknown.
    ///
    /// # Errors
    /// The domain must not be real-time, or has gone.
    pub fn report(&self, domain: &Domain, period: u64, lease: u64) -> Result<(), Error> {
        self.ask(domain, Act::Put, wire::RT, [period, lease, 0]).map(drop)
    }

    /// Its type now.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn get_type(&self, domain: &Domain) -> Result<Type, Error> {
        let [period, _, rt] = self.ask(domain, Act::Get, wire::RT, [0; 3])?;
        Ok(Type { rt: rt != 0, period })
    }

    /// The index of a domain in its pool, and that of its VCPU `id`; `None`: there is no such VCPU.
    ///
    /// # Errors
    /// The domain has gone.
    pub fn index(&self, domain: &Domain, id: u32) -> Result<Option<(u32, u32)>> {
        match self.ask(domain, Act::Get, wire::INDEX, [0, id.into(), 0]) {
            Ok([vm, vcpu, _]) => Ok(Some((u32::try_from(vm)?, u32::try_from(vcpu)?))),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(refused(&e, &format!("{}: VCPU {id}", target(domain)))),
        }
    }

    /// Asks about a cpupool.
    pub(crate) fn ask_pool(
        &self,
        pool: &TaktPool,
        act: Act,
        what: u32,
        arg: [u64; 3],
        buffer: &mut [u8],
    ) -> Result<[u64; 3], Error> {
        let mut op = TaktOp::new(what, arg);
        self.hypervisor.pool(pool.id, pool.scheduler, act, &mut op, buffer).map(|()| op.arg)
    }

    /// How a VCPU of a cpupool has waited and run in each class, since it is there.
    ///
    /// # Errors
    /// There is no such VCPU; the hypervisor is of another version.
    pub fn waits(&self, pool: &TaktPool, vcpu: u32) -> Result<[Wait; CLASSES]> {
        let mut bytes = [0; size_of::<[Wait; CLASSES]>()];
        let arg = [vcpu.into(), bytes.len() as u64, 0];
        let answer = self.ask_pool(pool, Act::Get, wire::WAITS, arg, &mut bytes);
        let [_, size, _] = answer.map_err(|e| refused(&e, &format!("cpupool {}: VCPU {vcpu}", pool.id)))?;
        ensure!(size == bytes.len() as u64, "cpupool {}: the hypervisor counts waits in another format", pool.id);
        Ok(waits::from_bytes(&bytes))
    }

    /// Sets parameters of a cpupool's policy, written `key=value`; `policy=NAME` changes it in a cpupool without domains.
    ///
    /// # Errors
    /// One line; nothing has changed if a key or a value is wrong.
    pub fn set_pool(&self, pool: &TaktPool, values: &[String], accept_unfair: bool) -> Result<()> {
        ensure!(!values.is_empty(), "nothing to set: write key=value (see `takt policies`)");
        let (policy, values): (Vec<_>, Vec<_>) = values.iter().cloned().partition(|v| v.starts_with("policy="));
        let name = policy.last().map_or(pool.policy.name, |p| p.trim_start_matches("policy="));
        let spec = spec::PolicySpec::parse(&format!("{name}({})", values.join(",")))?;
        spec.fair(accept_unfair)?;
        ensure!(!spec.pin, "policy `pin` is for the simulator: on Xen, pin VCPUs by `xl vcpu-pin`");
        ensure!(
            spec.pools.is_none(),
            "policy `{spec}` is for the simulator: on Xen, make pools by `xl cpupool-create`"
        );
        if name != pool.policy.name {
            let new = takt_policy::policies().into_iter().find(|p| p.name == spec.name).context("policies")?;
            self.ask_pool(pool, Act::Put, wire::POLICY, [new.id.into(), 0, 0], &mut []).map_err(|e| {
                match e.raw_os_error() {
                    Some(libc::EBUSY) => anyhow!(
                        "cpupool {} runs {}; choose another policy at boot (takt_policy={name}) or while the cpupool has no domains",
                        pool.id,
                        pool.policy.name
                    ),
                    _ => refused(&e, &format!("cpupool {}: policy={name}", pool.id)),
                }
            })?;
        }
        self.set_params(pool, &spec::refusable_first(spec.params))
    }

    /// Sets parameters by key.
    ///
    /// # Errors
    /// The hypervisor's.
    pub fn set_params(&self, pool: &TaktPool, params: &[(u32, u64)]) -> Result<()> {
        let table = takt_policy::params();
        for &(key, value) in params {
            let info = table.iter().find(|p| !p.per_vm && p.key == key).context("unknown key")?;
            let answer = self.ask_pool(pool, Act::Put, wire::PARAM, [key.into(), value, 0], &mut []);
            answer.map_err(|e| {
                let what = format!("cpupool {}: `{}={}`", pool.id, info.name, spec::show(info, value));
                out_of(&e, &what, info)
            })?;
        }
        Ok(())
    }

    /// The pool as it is, or with `saved` as it was when the recording began or ended.
    ///
    /// # Errors
    /// Nothing is saved; the hypervisor's core is of another build.
    pub fn snapshot(&self, pool: &TaktPool, saved: bool) -> Result<Pool> {
        let mut bytes = vec![0; takt_policy::pool_size()];
        let arg = [saved.into(), bytes.len() as u64, 0];
        let foreign =
            || format!("cpupool {}: the hypervisor's policy core is from another build than this takt", pool.id);
        let [_, size, _] =
            self.ask_pool(pool, Act::Get, wire::POOL, arg, &mut bytes).map_err(|e| match e.raw_os_error() {
                Some(libc::ENOSPC) => anyhow!(foreign()),
                Some(libc::ENOENT) => anyhow!("cpupool {}: nothing is recorded", pool.id),
                _ => refused(&e, &format!("cpupool {}: its state", pool.id)),
            })?;
        ensure!(size == bytes.len() as u64, "{}", foreign());
        Pool::from_bytes(&bytes).with_context(foreign)
    }
}

fn param(name: &str) -> Result<&'static ParamInfo> {
    settings::named(name).with_context(|| format!("no parameter `{name}`"))
}

fn target(domain: &Domain) -> String {
    format!("domain `{}` ({})", domain.name, domain.id)
}

#[cfg(test)]
mod tests;
