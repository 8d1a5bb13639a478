// SPDX-License-Identifier: GPL-2.0-only
//! Dom0 while `takt run` runs: the monitor's reports go to the hypervisor, and domains that come and go are followed.

mod groups;

use crate::eyes::{Eyes, Report};
use crate::host::{Domain, Xen};
use crate::manager::{Manager, PartitionStatus};
use crate::refusal::refused;
use crate::status::Seen;
use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use takt_control::{Document, Event, Groups, HostConfig, Identity, Layers, Ports, RtMode, Setting, VmParams};
use takt_monitor::device::Times;
use takt_monitor::rule_name;

/// How often [`Live::look`] is to be called.
pub const LOOK: Duration = Duration::from_millis(500);

/// What only this process knows, for `takt status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestStatus {
    /// Of each domain by its number: the monitor's rule, and what is seen of it.
    pub domains: BTreeMap<u16, (Option<String>, Seen)>,
    /// Of both pools, if it manages them.
    pub partition: Option<PartitionStatus>,
}

impl Document for GuestStatus {
    const NAME: &'static str = "guest-status";
    const VERSION: u32 = 1;
}

struct Vm {
    domain: Domain,
    rt: bool,
    /// By which the monitor found it real-time.
    rule: Option<&'static str>,
    ports: Ports,
    /// The newest report: changes of the type, then time.
    newest: (u64, u64),
    /// What the hypervisor answered to it: 0 or a negative error number.
    ret: i32,
    /// Its configuration has not been applied yet.
    fresh: bool,
    /// Empty: none.
    group: String,
}

/// A host whose domains are watched. When it ends, types that it reported lapse with their leases.
pub struct Live<E> {
    host: Xen,
    eyes: E,
    vms: BTreeMap<u16, Vm>,
    config: HostConfig,
    warned: BTreeSet<String>,
    manager: Option<Manager>,
    /// Of each cpupool.
    groups: BTreeMap<u32, Groups>,
    began: Instant,
}

impl<E: Eyes> Live<E> {
    pub fn new(host: Xen, eyes: E, config: HostConfig) -> Self {
        let (vms, warned) = (BTreeMap::new(), BTreeSet::new());
        Self { host, eyes, vms, config, warned, manager: None, groups: BTreeMap::new(), began: Instant::now() }
    }

    /// With a partition manager.
    #[must_use]
    pub fn managed(self, manager: Manager) -> Self {
        Self { manager: Some(manager), ..self }
    }

    /// When [`Live::look`] is to be called at the latest, beside every [`LOOK`].
    pub fn due(&self) -> Option<Instant> {
        self.manager.as_ref()?.due().and_then(|due| self.began.checked_add(Duration::from_nanos(due)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Gives back what the manager has lent.
    ///
    /// # Errors
    /// The hypervisor refuses it.
    pub fn close(&mut self) -> Result<()> {
        self.manager.take().map_or(Ok(()), Manager::close)
    }

    /// What watches the domains' devices.
    pub fn eyes(&self) -> &E {
        &self.eyes
    }

    /// Looks at what has changed, follows it, and says it.
    ///
    /// # Errors
    /// The hypervisor does not answer, or Takt is not its scheduler any more.
    pub fn look(&mut self) -> Result<Vec<Event>> {
        let mut news = Vec::new();
        let domains = self.host.domains()?;
        let gone: Vec<u16> = self.vms.keys().filter(|id| domains.iter().all(|d| d.id != **id)).copied().collect();
        let gone = gone.iter().filter_map(|id| self.vms.remove(id));
        news.extend(gone.map(|vm| Event::VmGone { name: vm.domain.name }));
        for domain in &domains {
            match self.vms.get_mut(&domain.id) {
                // It may have another name, or be in another cpupool.
                Some(vm) => vm.domain = domain.clone(),
                None => {
                    news.push(Event::VmFound { name: domain.name.clone(), tgid: None, domid: Some(domain.id) });
                    self.vms.insert(domain.id, Vm::new(domain));
                }
            }
        }
        // Dom0 sends by its own stack, not by a backend.
        let guests: Vec<Domain> = domains.into_iter().filter(|d| d.id != 0).collect();
        news.extend(self.eyes.scan(&guests).into_iter().map(|text| Event::Warning { text }));
        self.configure(&mut news);
        news.extend(self.manage());
        for e in self.bring_groups() {
            news.extend(self.warn(format!("{e:#}")));
        }
        for vm in self.vms.values_mut() {
            if let Ok(t) = self.host.get_type(&vm.domain) {
                let by_hand = self.host.mode(&vm.domain).is_ok_and(|m| m == RtMode::On);
                news.extend(vm.is(t.rt, by_hand.then_some("by hand")));
            }
        }
        Ok(news)
    }

    /// The partition manager's look.
    fn manage(&mut self) -> Vec<Event> {
        let now = self.now();
        match self.manager.as_mut().map(|manager| manager.look(now)) {
            None => Vec::new(),
            Some(Ok(lines)) => lines.into_iter().map(|text| Event::Partition { text }).collect(),
            Some(Err(e)) => self.warn(format!("{e:#}")).into_iter().collect(),
        }
    }

    /// Applies the configuration to domains that have come: later, what is set by hand counts. One that the toolstack is still making has no
    /// name yet, perhaps, and no PCPUs that it may be moved to.
    fn configure(&mut self, news: &mut Vec<Event>) {
        let mut made = Vec::new();
        for vm in self.vms.values_mut().filter(|vm| vm.fresh && self.host.is_made(vm.domain.id)) {
            vm.fresh = false;
            made.push(self.host.name(vm.domain.id).unwrap_or_else(|_| vm.domain.name.clone()));
        }
        for name in made {
            let vm = Identity { name: &name, ..Identity::default() };
            let layers = Layers::default().with_file(self.config.entries(vm));
            if !layers.is_configured() {
                continue;
            }
            let want = layers.config();
            let setting = Setting {
                params: want.params.said(),
                ports: Some(want.ports.clone()).filter(|p| !p.is_empty()),
                group: Some(want.group.clone()).filter(|g| !g.is_empty()),
                ..Setting::default()
            };
            let done = want.validate(&name).and_then(|()| self.set(&name, &setting));
            news.extend(done.err().and_then(|e| self.warn(format!("{e:#}"))));
        }
    }

    /// Says it, once.
    fn warn(&mut self, text: String) -> Option<Event> {
        self.warned.insert(text.clone()).then_some(Event::Warning { text })
    }

    /// Tells the hypervisor what the monitor has found. What is older than what it knows already is left out.
    pub fn report(&mut self, report: &Report) -> Vec<Event> {
        let vm = self.eyes.domain_of(report).and_then(|id| self.vms.get_mut(&id));
        let Some(vm) = vm.filter(|vm| (report.changes, report.now) >= vm.newest) else { return Vec::new() };
        vm.newest = (report.changes, report.now);
        let rt = report.rt != 0;
        vm.rule = rt.then(|| rule_name(report.rule));
        let answer = self.host.report(&vm.domain, report.period, if rt { report.lease } else { 0 });
        vm.ret = answer.as_ref().err().map_or(0, |e| -e.raw_os_error().unwrap_or(libc::EIO));
        match answer {
            // rt=on holds whatever the monitor says; the next look tells.
            Ok(()) if rt => vm.is(true, None).into_iter().collect(),
            Ok(()) => Vec::new(),
            // It must not be real-time, or has gone: known to those who ask.
            Err(e) if [Some(libc::EBUSY), Some(libc::ESRCH)].contains(&e.raw_os_error()) => Vec::new(),
            Err(e) => {
                let text = format!("{:#}", refused(&e, &format!("domain `{}`: its type", vm.domain.name)));
                self.warn(text).into_iter().collect()
            }
        }
    }

    /// What only this process knows.
    ///
    /// # Errors
    /// The hypervisor does not answer.
    pub fn guests(&self) -> Result<GuestStatus> {
        let partition = self.manager.as_ref().map(|m| m.status(self.now())).transpose()?;
        Ok(GuestStatus { domains: self.seen(), partition })
    }

    /// What only this process knows of each domain.
    pub fn seen(&self) -> BTreeMap<u16, (Option<String>, Seen)> {
        let one = |(id, vm): (&u16, &Vm)| {
            let times = self.eyes.times(*id).map(|t| Times { ret: vm.ret, ..t });
            let seen = Seen {
                group: vm.group.clone(),
                ports: vm.ports.clone(),
                devices: self.eyes.devices(*id),
                blind: self.eyes.blind(*id).filter(|_| *id != 0),
                monitor: times.and_then(|t| serde_json::to_value(t).ok()),
            };
            (*id, (vm.rule.map(str::to_owned), seen))
        };
        self.vms.iter().map(one).collect()
    }

    /// Sets what `setting` says of domain `name`.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn set(&mut self, name: &str, setting: &Setting) -> Result<()> {
        let domain = self.host.find(name)?;
        // What may be refused comes first, and is taken back when the next is.
        if let Some(dev) = &setting.dev {
            self.eyes.watch(domain.id, dev).with_context(|| format!("domain `{name}`"))?;
        }
        if self.manager.is_none() || !setting.params.has_server() {
            return self.set_rest(&domain, setting);
        }
        let (have, mut rest) = (self.host.server(&domain)?, setting.clone());
        self.serve(&domain, &rest.params.take_server())?;
        // It may have moved.
        let domain = self.host.find(name)?;
        let done = self.set_rest(&domain, &rest);
        if done.is_err() {
            self.serve(&domain, &VmParams::from(&have))?;
        }
        done
    }

    /// A domain is to have these parameters, as the partition manager finds room.
    fn serve(&mut self, domain: &Domain, want: &VmParams) -> Result<()> {
        let now = self.now();
        self.manager.as_mut().map_or(Ok(()), |manager| manager.set(now, domain, want))
    }

    fn set_rest(&mut self, domain: &Domain, setting: &Setting) -> Result<()> {
        let whose = || format!("domain `{}`", domain.name);
        let group = self.vms.get(&domain.id).map(|vm| vm.group.clone()).unwrap_or_default();
        if let Some(group) = &setting.group {
            self.enter_group(domain.id, group).with_context(whose)?;
        }
        if let Err(e) = self.host.apply(domain, setting) {
            if setting.group.is_some() {
                self.enter_group(domain.id, &group)?;
            }
            return Err(e);
        }
        if let Some(ports) = &setting.ports {
            let list: Vec<u16> = ports.ranges().iter().flat_map(|&(a, b)| a..=b).collect();
            self.eyes.ports(domain.id, &list).with_context(whose)?;
            if let Some(vm) = self.vms.get_mut(&domain.id) {
                vm.ports = ports.clone();
            }
        }
        Ok(())
    }
}

impl Vm {
    fn new(domain: &Domain) -> Self {
        let domain = domain.clone();
        Self {
            domain,
            rt: false,
            rule: None,
            ports: Ports::default(),
            newest: (0, 0),
            ret: 0,
            fresh: true,
            group: String::new(),
        }
    }

    /// Its type is this now; `why`, if it is not by the monitor.
    fn is(&mut self, rt: bool, why: Option<&'static str>) -> Option<Event> {
        if std::mem::replace(&mut self.rt, rt) == rt {
            return None;
        }
        let name = self.domain.name.clone();
        let dom0 = (self.domain.id == 0).then_some("dom0");
        let rule = why.or(self.rule).or(dom0).unwrap_or("reported").to_owned();
        Some(if rt { Event::RealTime { name, rule } } else { Event::NotRealTime { name } })
    }
}

#[cfg(test)]
mod tests;
