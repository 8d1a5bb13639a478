// SPDX-License-Identifier: GPL-2.0-only
//! The live host while `takt run` runs: scheduler, monitor, and what the operator says of VMs.

mod cgroups;
mod follow;
mod groups;
mod manage;
pub(crate) mod names;
mod owners;
mod pools;
mod recording;
mod shares;
pub(crate) mod unheeded;

use crate::core_sched;
use crate::keeper::{Keeper, Keeping};
use crate::net::{self, Net};
use crate::ran::{self, Ran};
use crate::record::Recorder;
use crate::scheduler::{Notice, Scheduler};
use crate::shared::{HOST_VM, Quota, Snapshot};
use crate::status::{self, Cost, DeviceStatus, HostStatus, Known, Status, VmWaits};
use crate::{Ended, Environment};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use takt_control::metadata::{self, Metadata};
use takt_control::overhead::Window;
use takt_control::partition::Side;
use takt_control::spec;
use takt_control::{
    Change, Event, Groups, Host, HostConfig, Layers, PolicySpec, Ports, RtMode, Server, Setting, VmConfig, VmState,
};
use takt_policy::{NEVER, NIL, NVM};

/// How often [`Live::look`] is to be called.
pub const LOOK: Duration = Duration::from_millis(200);
/// Looks between two at cgroups.
const CGROUPS: u32 = 5;

struct Vm {
    generation: u32,
    tgid: u32,
    name: String,
    ports: Ports,
    rt: bool,
    /// Its configuration has not been applied yet.
    fresh: bool,
    /// What the file, `takt set` and its cgroups say.
    layers: Layers,
    /// What it should have by the file and its metadata, and the host has refused.
    refused: Option<Layers>,
    /// As its VMM was told, unless another VM had it already.
    uuid: Option<String>,
    /// As its cgroups say; none: they have not been looked at yet.
    share: Option<cgroups::Share>,
    /// Where its VCPUs were at the last look.
    side: Side,
    /// Empty: none.
    group: String,
}

/// What an operator says when Takt starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file of `--config`, with its whole path.
    pub config_file: Option<PathBuf>,
    /// VMs outside of them (if there are any) are not inspected.
    pub cgroups: Vec<String>,
    /// Longest wait of a thread before the kernel takes the scheduler out.
    pub timeout_ms: u32,
    pub quota: Quota,
    /// What is kept for `takt why`; `None`: nothing.
    pub keeping: Option<Keeping>,
    /// Threads with a core scheduling cookie are no reason not to begin, or to leave.
    pub accept_core_scheduling: bool,
    /// Settings of cgroups that the kernel does not tell of are no reason not to begin.
    pub accept_unheeded_cgroups: bool,
    /// Parameters by which a guest may gain what others lose may be set.
    pub accept_unfair: bool,
}

/// A host that Takt schedules; dropping it gives it back to the kernel.
pub struct Live {
    recorder: Option<Recorder>,
    keeper: Option<Keeper>,
    accept_unfair: bool,
    /// Since when decisions and switches are counted, ns.
    measured_from: Option<u64>,
    net: Net,
    ran: Ran,
    scheduler: Scheduler,
    ring: libbpf_rs::RingBuffer<'static>,
    notices: Receiver<Notice>,
    vms: BTreeMap<u32, Vm>,
    config: HostConfig,
    config_file: Option<PathBuf>,
    metadata: Metadata,
    /// Parameters of the policy that `takt set --pool` has set: they stay when the file changes.
    pool_by_hand: BTreeSet<u32>,
    pools: Option<pools::Pools>,
    groups: Groups,
    kvm: bool,
    kernel: String,
    started: Instant,
    looks: u32,
    warned: BTreeSet<String>,
    accept_core_scheduling: bool,
}

impl Live {
    /// Loads the scheduler and the monitor.
    ///
    /// # Errors
    /// What the machine lacks, or what is dangerous on it; nothing has changed then.
    pub fn start(policy: &PolicySpec, config: HostConfig, options: Options) -> Result<Self> {
        let Options {
            config_file,
            cgroups,
            timeout_ms,
            quota,
            accept_core_scheduling,
            accept_unheeded_cgroups,
            accept_unfair,
            keeping,
        } = options;
        let environment = Environment::check()?;
        let safe = || match accept_core_scheduling {
            true => Ok(()),
            false => core_sched::check("/".as_ref(), &core_sched::Kernel),
        };
        safe()?;
        let mut scheduler = Scheduler::load(&environment, policy, timeout_ms, quota)?;
        if !accept_unheeded_cgroups {
            unheeded::check("/".as_ref(), scheduler.cgroups())?;
        }
        let net = Net::attach(scheduler.monitor()?, cgroups)?;
        safe()?; // to load takes its time
        scheduler.attach()?;
        let (ring, notices) = scheduler.notices()?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut live = Self {
            recorder: None,
            keeper: None,
            accept_unfair,
            measured_from: None,
            net,
            ran: Ran::default(),
            scheduler,
            ring,
            notices,
            vms: BTreeMap::new(),
            config,
            config_file,
            metadata: Metadata::new(Path::new(metadata::DIR)),
            pool_by_hand: BTreeSet::new(),
            pools: pools::Pools::new(policy),
            groups: Groups::default(),
            kvm: false,
            kernel: release.trim().to_owned(),
            started: Instant::now(),
            looks: 0,
            warned: BTreeSet::new(),
            accept_core_scheduling,
        };
        live.kvm = live.scheduler.watch_kvm()?;
        live.keep(keeping)?;
        Ok(live)
    }

    /// Why the kernel has taken the scheduler out, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.scheduler.ended()
    }

    /// Why the host must not be scheduled by this any longer: a thread has a core scheduling cookie now, or whether one has
    /// cannot be told.
    pub fn must_leave(&self) -> Option<String> {
        core_sched::must_leave(self.accept_core_scheduling, "/".as_ref(), &core_sched::Kernel)
    }

    /// The policy that schedules the host.
    pub fn policy(&self) -> &PolicySpec {
        self.scheduler.policy()
    }

    /// Gives the host back to the kernel at once.
    pub fn leave(&mut self) {
        self.scheduler.detach();
    }

    /// The verifier's work on every loaded program.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn verified(&self) -> Result<Vec<crate::Verified>> {
        Ok([self.scheduler.verified()?, self.net.verified()?].concat())
    }

    /// Looks at what has changed, follows it, and says it.
    ///
    /// # Errors
    /// The scheduler cannot be read.
    pub fn look(&mut self) -> Result<Vec<Event>> {
        let mut news = Vec::new();
        self.watch_kvm(&mut news);
        self.ring.consume().context("notices")?;
        for notice in self.notices.try_iter().collect::<Vec<_>>() {
            match self.vms.get(&notice.vm).map(|v| v.generation) {
                Some(generation) if generation == notice.generation && notice.gone => self.forget(notice.vm, &mut news),
                Some(generation) if generation == notice.generation => {}
                _ if notice.gone => {}
                _ => self.meet(notice.vm, notice.generation, notice.tgid, &mut news),
            }
        }
        let snapshot = self.scheduler.peek()?;
        self.reconcile(&snapshot, &mut news);
        let rt = |vm| snapshot.pool.vm_stat(vm).is_some_and(|s| s.rt != 0);
        let net =
            |(&index, vm): (&u32, &Vm)| net::Vm { index, generation: vm.generation, tgid: vm.tgid, rt: rt(index) };
        let vms: Vec<_> = self.vms.iter().map(net).collect();
        news.extend(self.net.scan(&vms).into_iter().map(|text| Event::Warning { text }));
        let met = self.vms.values().any(|vm| vm.fresh);
        self.configure(&mut news);
        self.settle_groups(&snapshot, &mut news);
        self.settle_pools(&snapshot, &mut news)?;
        self.types(&snapshot, &mut news);
        if met || self.looks % CGROUPS == 0 {
            self.follow_all(&mut news);
            self.follow_cgroups(&snapshot, &mut news);
        }
        self.looks = self.looks.wrapping_add(1);
        self.follow_operations(&mut news)?;
        Ok(news)
    }

    /// KVM may be loaded at any time.
    fn watch_kvm(&mut self, news: &mut Vec<Event>) {
        if self.kvm {
            return;
        }
        match self.scheduler.watch_kvm() {
            Ok(there) => {
                self.kvm = there;
                news.extend(there.then_some(Event::KvmLoaded));
            }
            Err(e) => self.warn(format!("{e:#}"), news),
        }
    }

    /// Says it, once.
    fn warn(&mut self, text: String, news: &mut Vec<Event>) {
        if self.warned.insert(text.clone()) {
            news.push(Event::Warning { text });
        }
    }

    fn meet(&mut self, index: u32, generation: u32, tgid: u32, news: &mut Vec<Event>) {
        self.forget(index, news);
        let root = Path::new("/");
        let called = names::name_of(root, tgid);
        let mut name = owners::name(&self.config, root, &called, tgid);
        if name != called {
            self.warn(
                format!("process {tgid} names its VM {called}, but does not match the cgroup or uid of {called} in the configuration"),
                news,
            );
        }
        match self.vms.values_mut().find(|v| v.name == name) {
            Some(other) if names::lives(root, other.tgid) => name = names::other(&name, tgid),
            // The VM has been started again, its configuration is to apply again.
            Some(before) => before.name = names::other(&name, before.tgid),
            None => {}
        }
        news.push(Event::VmFound { name: name.clone(), tgid: Some(tgid), domid: None });
        // The first VM has it: a VMM may be told any UUID, and those of other VMs can be read.
        let uuid = names::uuid(root, tgid).filter(|uuid| {
            let mut others = self.vms.values().filter(|vm| names::lives(root, vm.tgid));
            !others.any(|vm| vm.uuid.as_ref() == Some(uuid))
        });
        let ports = Ports::default();
        self.vms.insert(
            index,
            Vm {
                generation,
                tgid,
                name,
                ports,
                rt: false,
                fresh: true,
                uuid,
                layers: Layers::default(),
                refused: None,
                share: None,
                side: Side::Rest,
                group: String::new(),
            },
        );
    }

    fn forget(&mut self, index: u32, news: &mut Vec<Event>) {
        self.groups.gone(index);
        news.extend(self.vms.remove(&index).map(|vm| Event::VmGone { name: vm.name }));
    }

    /// What notices have not told: VMs that were there before, or that a full ring has swallowed.
    fn reconcile(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) {
        for index in (0..NVM).filter(|i| *i != HOST_VM) {
            let (host, there) = (snapshot.vm(index), snapshot.pool.vm_stat(index).is_some());
            let known = self.vms.get(&index).map(|v| v.generation);
            if !there {
                self.forget(index, news);
            } else if known != Some(host.generation) {
                self.meet(index, host.generation, host.tgid, news);
            }
        }
    }

    fn types(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) {
        for vm in status::vms(snapshot, &|index| self.known(index, snapshot)) {
            let Some(known) = self.vms.values_mut().find(|v| v.name == vm.name) else { continue };
            if known.rt == vm.rt {
                continue;
            }
            known.rt = vm.rt;
            let name = vm.name;
            if let (false, Some(keeper)) = (vm.rt, &mut self.keeper) {
                keeper.demoted(&name);
            }
            news.push(match vm.rule {
                Some(rule) => Event::RealTime { name, rule },
                None => Event::NotRealTime { name },
            });
        }
    }

    /// Of the VM that has slot `index` in a snapshot: nothing if it has come since the last look, whatever is known
    /// of the one before.
    fn known(&self, index: u32, snapshot: &Snapshot) -> Known {
        let vm = self.vms.get(&index).filter(|vm| vm.generation == snapshot.vm(index).generation);
        let report = vm.and_then(|_| self.net.report(index));
        let kind = |kind: net::Kind| match kind {
            net::Kind::Tap => "tap",
            net::Kind::Macvtap => "macvtap",
            net::Kind::Named => "named",
        };
        let device = |d: &net::Device| DeviceStatus { name: d.name.clone(), kind: kind(d.kind).into() };
        Known {
            name: vm.map_or_else(|| format!("vm{index}"), |v| v.name.clone()),
            ports: vm.map(|v| v.ports.clone()).unwrap_or_default(),
            devices: report.iter().flat_map(|r| &r.devices).map(device).collect(),
            blind: report.map_or_else(|| Some("not looked at yet".into()), net::Report::blind),
            monitor: report.and_then(|_| self.net.times(index).ok()).filter(|t| t.first != 0),
            group: vm.map(|v| v.group.clone()).unwrap_or_default(),
            set_by: vm.map(|v| v.layers.sources()).unwrap_or_default(),
            waited: VmWaits::default(),
            uncounted: 0,
        }
    }

    /// All that `takt status` says; with `histograms`, waits of VMs in full.
    ///
    /// # Errors
    /// The scheduler cannot be read.
    pub fn status(&mut self, histograms: bool) -> Result<Status> {
        let now = ran::now();
        let snapshot = self.scheduler.snapshot()?;
        let uncounted = self.ran.uncounted(&snapshot, &status::members(&snapshot), now);
        let there = (0..NVM).filter(|vm| snapshot.pool.vm_stat(*vm).is_some());
        let waited = |vm| Ok((vm, VmWaits { classes: self.scheduler.waits(vm)?, buckets: histograms }));
        let mut waited = there.map(waited).collect::<Result<BTreeMap<_, _>>>()?;
        let (entities, waits) = status::entities(&snapshot, &waited.remove(&HOST_VM).unwrap_or_default());
        let of = |vm| waited.get(&vm).cloned().unwrap_or_default();
        let more = |vm| uncounted.get(&vm).copied().unwrap_or_default();
        let known = |vm| Known { waited: of(vm), uncounted: more(vm), ..self.known(vm, &snapshot) };
        let vms = status::vms(&snapshot, &known);
        let (scheduler, net) = (self.scheduler.run_time()?, self.net.run_time()?);
        let host = HostStatus {
            policy: snapshot.pool.policy().to_owned(),
            parameters: status::parameters(&snapshot),
            kernel: self.kernel.clone(),
            config: self.config_file.as_ref().map(|path| path.display().to_string()),
            uptime_s: self.started.elapsed().as_millis() as f64 / 1e3,
            pcpus: status::pcpus(&snapshot),
            pools: status::pools(&snapshot, &vms, self.shrinks_in()),
            kvm: self.kvm,
            recording: self.recorder.is_some(),
            real_time_vms: vms.iter().filter(|v| v.rt).count(),
            counts: snapshot.counts(),
            entities,
            waits,
            cost: Cost::of((scheduler.0 + net.0, scheduler.1 + net.1)),
        };
        Ok(Status { host, vms })
    }

    /// Sets what `setting` says of VM `name`.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn set(&mut self, name: &str, setting: &Setting) -> Result<()> {
        let vm = self.find(name)?;
        // What may be refused comes first, and is taken back when the next is.
        let group = self.vms.get(&vm.id).map(|v| v.group.clone()).unwrap_or_default();
        if let Some(group) = &setting.group {
            self.enter_group(vm.id, group).with_context(|| format!("VM `{name}`"))?;
        }
        let done = self.set_rest(name, &vm, setting);
        if done.is_err() && setting.group.is_some() {
            self.enter_group(vm.id, &group)?;
        }
        done
    }

    fn set_rest(&mut self, name: &str, vm: &VmState, setting: &Setting) -> Result<()> {
        let old = self.vms.get(&vm.id).map(|v| v.rt);
        let have = vm.config.server();
        let want = setting.params.server_on(&have);
        want.validate().with_context(|| format!("VM `{name}`"))?;
        self.serve(vm, have, want)?;
        if let Some(mode) = setting.params.get("rt") {
            if let Err(e) = self.change(vm, &Change::param("rt", mode)) {
                self.serve(vm, want, have)?;
                let full = mode == RtMode::On as u64 && old == Some(false);
                return Err(if full { e.context("the policy already has `rt_max` real-time VMs") } else { e });
            }
        }
        if let Some(dev) = &setting.dev {
            if let Err(e) = self.net.watch(vm.id, dev) {
                self.change(vm, &Change::param("rt", vm.config.params.value("rt")))?;
                self.serve(vm, want, have)?;
                return Err(e.context(format!("VM `{name}`")));
            }
        }
        if let Some(period) = setting.period {
            self.scheduler.mark(vm.id, period, NEVER).with_context(|| format!("VM `{name}`: period"))?;
        }
        let params = setting.params.plain().map(|(info, value)| Change::Param(info, value));
        for change in setting.ports.clone().map(Change::Ports).into_iter().chain(params) {
            self.change(vm, &change)?;
        }
        if let Some(vm) = self.vms.get_mut(&vm.id) {
            vm.layers.set(setting);
        }
        Ok(())
    }

    /// From `have` to `want`. What changes nothing asks nobody.
    fn serve(&mut self, vm: &VmState, have: Server, want: Server) -> Result<()> {
        match have == want {
            true => Ok(()),
            false if self.pools.is_some() => {
                self.give_server(vm.id, &want).with_context(|| format!("VM `{}`", vm.name))
            }
            false => self.change(vm, &Change::Server(have, want)),
        }
    }

    fn change(&mut self, vm: &VmState, change: &Change) -> Result<()> {
        Host::set(self, 0, vm.id, change).with_context(|| format!("VM `{}`: {change}", vm.name))
    }

    /// Sets parameters of the policy, written `key=value`.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn set_pool(&mut self, values: &[String]) -> Result<()> {
        ensure!(!values.is_empty(), "nothing to set: write key=value (see `takt policies`)");
        let policy = &self.scheduler.policy().name;
        let spec = PolicySpec::parse(&format!("{policy}({})", values.join(",")))?;
        spec.fair(self.accept_unfair)?;
        for (key, value) in spec::refusable_first(spec.params) {
            self.scheduler.adjust(NIL, key, value).with_context(|| format!("`{}`", values.join(",")))?;
            self.parameter_is(key, value);
            self.pool_by_hand.insert(key);
        }
        Ok(())
    }

    /// Begins to count what decisions and switches take; where somebody does so already, anew.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin_measuring(&mut self) -> Result<()> {
        self.measured_from = Some(self.scheduler.begin_measuring()?);
        Ok(())
    }

    /// Ends it, and says what they took.
    ///
    /// # Errors
    /// Nothing is counted; the kernel refuses.
    pub fn end_measuring(&mut self) -> Result<Window> {
        let from = self.measured_from.take().context("nothing is counted: another client ended the measurement")?;
        let (to, took) = self.scheduler.end_measuring()?;
        let snapshot = self.scheduler.snapshot()?;
        Ok(Window::new(snapshot.pool.policy(), status::pcpus(&snapshot).len(), (from, to), &took))
    }
}

impl Host for Live {
    fn vms(&self) -> Result<Vec<VmState>> {
        let snapshot = self.scheduler.peek()?;
        let all = status::vms(&snapshot, &|index| self.known(index, &snapshot));
        let id = |name: &str| self.vms.iter().find(|(_, v)| v.name == name).map(|(i, _)| *i);
        let state = |vm: status::VmStatus| {
            let params = vm.params.with("rt", vm.rt_mode as u64);
            let config = VmConfig { params, ports: vm.ports, group: vm.group.unwrap_or_default() };
            let period = vm.period_us.map_or(0, |p| (p * 1e3) as u64);
            Some(VmState { id: id(&vm.name)?, name: vm.name, config, rt: vm.rt, period })
        };
        Ok(all.into_iter().filter_map(state).collect())
    }

    fn set(&mut self, _now: u64, vm: u32, change: &Change) -> Result<()> {
        if let Some((key, value)) = change.adjust() {
            return self.scheduler.adjust(vm, key, value);
        }
        if let (Change::Server(_, want), true) = (change, self.pools.is_some()) {
            return self.give_server(vm, want);
        }
        if let Change::Server(have, want) = change {
            return have.bring(want, |key, value| self.scheduler.adjust(vm, key, value));
        }
        if let Change::Group(group) = change {
            return self.enter_group(vm, group);
        }
        let Change::Ports(ports) = change else { bail!("{change} is no parameter of the policy") };
        let list: Vec<u16> = ports.ranges().iter().flat_map(|&(a, b)| a..=b).collect();
        self.net.ports(vm, &list)?;
        if let Some(vm) = self.vms.get_mut(&vm) {
            vm.ports = ports.clone();
        }
        Ok(())
    }

    fn set_rt(&mut self, _now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()> {
        self.scheduler.mark(vm, period, if rt { lease } else { 0 })
    }
}
