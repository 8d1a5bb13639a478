// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to a machine: PCPUs one after the other, then VMs, then workloads.

use super::{Counters, History, Machine, Vm, pools};
use crate::engine::{Queue, What};
use crate::guest::cyclic::{Cyclic, Look};
use crate::guest::periodic::Task;
use crate::guest::{Body, OTHER, Thread, Vcpu};
use crate::net::{Call, House, Net, Netback, Ring, Stream, Template, Vif};
use crate::observe::Observe;
use crate::rng::{Purpose, Rng};
use crate::scenario::{NetVcpu, Scenario};
use crate::tasks;
use crate::timer::Timer;
use crate::vod::Films;
use crate::voip::Record;
use crate::{Options, VmSpec, Workload};
use anyhow::Result;
use takt_control::pools::{Pools, Size};
use takt_control::{Groups, Partition, PolicySpec, VmConfig};
use takt_monitor::{Config, Monitor, REPORT_NS};

/// Priorities of threads: those that handle packets run before daemons, those before busy loops.
const PRIO_TIMER: u8 = 255;
/// The last of a set of tasks; those with shorter deadlines follow above.
const PRIO_TASKS: u8 = 60;
pub(super) const PRIO_NET: u8 = 50;
pub(super) const PRIO_JOBS: u8 = 40;
pub(super) const PRIO_BATCH: u8 = 10;
/// Workloads begin within this time, as VMs do not boot in step; ns.
const START_SPREAD: u64 = 30_000_000;
/// Between the creation of VMs and the first call, ns.
pub(crate) const SETTLE: u64 = 100_000_000;

impl<'a> Machine<'a> {
    /// Builds everything but what happens at its own time.
    pub(crate) fn new(scenario: &'a Scenario, policy: &'a PolicySpec, seed: u64, options: &Options) -> Result<Self> {
        let c = scenario.constants.clone();
        let (pool_of, masks) = pools::layout(scenario, policy)?;
        let manager = match &policy.pools {
            Some(Pools { size: Size::Managed(settings), .. }) => Some(Partition::new(*settings)),
            _ => None,
        };
        let m = &scenario.machine;
        let created = u64::from(scenario.pcpus()) * c.stagger;
        let from = created + scenario.lead() + scenario.warmup();
        let until = from + scenario.duration;
        let mut machine = Self {
            scenario,
            policy,
            seed,
            now: 0,
            queue: Queue::new(4096),
            pools: pools::parts(scenario, policy, options)?,
            manager,
            groups: Vec::new(),
            shrink: Timer::default(),
            history: History::default(),
            masks,
            pcpus: (0..scenario.pcpus()).zip(pool_of).map(|(n, pool)| super::Pcpu::new(n / m.llc, pool)).collect(),
            vcpus: Vec::new(),
            vms: Vec::new(),
            house: Vec::new(),
            starts: Vec::new(),
            tasks: Vec::new(),
            cyclics: Vec::new(),
            mixers: Vec::new(),
            films: Vec::new(),
            looks: Vec::new(),
            teams: Vec::new(),
            members: Vec::new(),
            apps: Vec::new(),
            sites: Vec::new(),
            workers: Vec::new(),
            clients: Vec::new(),
            llc_run: vec![0; scenario.pcpus().div_ceil(m.llc) as usize],
            net: Net { napi: c.napi, ..Net::default() },
            watches: Vec::new(),
            scratch: takt_monitor::Packet::new(),
            stamp: scenario.dom0.stamp,
            observe: Observe::default(),
            count: Counters::default(),
            events: 0,
            cancelled: 0,
            ops: 0,
            from,
            until,
            refused: None,
            c,
        };
        machine.build()?;
        let trace = options.trace.map(|w| (from + w.from, from + w.to));
        let predicts = !machine.mixers.is_empty();
        machine.observe = Observe::new(machine.vcpus.len(), machine.vms.len(), trace, predicts);
        machine.groups.resize_with(machine.pools.len(), Groups::default);
        for cpu in 0..scenario.pcpus() {
            machine.queue.push(u64::from(cpu) * machine.c.stagger, What::Boot, cpu);
        }
        machine.queue.push(created, What::Create, 0);
        machine.queue.push(from, What::Measure, 0);
        for (n, step) in scenario.script.iter().enumerate() {
            machine.queue.push(from + step.time, What::Step, n as u32);
        }
        if machine.pools.len() > 1 || !scenario.script.is_empty() {
            machine.queue.push(from, What::Sample, 0);
        }
        machine.adjust_pools();
        machine.refused.take().map_or(Ok(machine), Err)
    }

    /// VMs, VCPUs, threads and the network.
    fn build(&mut self) -> Result<()> {
        let s = self.scenario;
        for on in 0..s.machine.machines {
            let name = if on == 0 { "dom0".into() } else { format!("dom0-{}", on + 1) };
            let dom0 = self.add_vm(name, None, on, s.dom0_vcpus(), s.dom0.weight, self.c.dom0_ws);
            for v in self.vms[dom0].first..self.vms[dom0].first + s.dom0_vcpus() {
                self.add_thread(v, Body::Netback(self.net.backs.len() as u32), PRIO_NET, false);
                self.net.backs.push(Netback::new(v, self.c.nic_ring));
                self.add_house(v, self.c.dom0_hz, self.c.dom0_job);
            }
        }
        for (i, spec) in s.vms.iter().enumerate() {
            for name in spec.names() {
                self.add_guest(name, i, spec)?;
            }
        }
        self.add_signals();
        Ok(())
    }

    fn add_vm(&mut self, name: String, spec: Option<usize>, on: u32, vcpus: u32, weight: u32, ws: u64) -> usize {
        let first = self.vcpus.len() as u32;
        let refill = ws * self.c.refill;
        let tick = 1_000_000_000_000u64.checked_div(self.c.hz).unwrap_or(0);
        for n in 0..vcpus {
            let mut v = Vcpu::new((first + n) % self.scenario.pcpus(), refill);
            let mut rng = Rng::new(self.seed, Purpose::Start, first + n);
            v.tick_phase = rng.below(tick);
            self.vcpus.push(v);
            self.starts.push(rng);
            self.house.push(None);
        }
        let config = VmConfig::default().with("weight", weight.into());
        self.vms.push(Vm { name, spec, on, first, vcpus, config, pool: 0, past: (0, 0) });
        self.watches.push(None);
        self.net.drops.push(Default::default());
        self.vms.len() - 1
    }

    /// A thread of a VCPU; returns its number there.
    pub(super) fn add_thread(&mut self, v: u32, body: Body, prio: u8, rr: bool) -> u8 {
        let threads = &mut self.vcpus[v as usize].threads;
        threads.push(Thread::new(body, prio, rr));
        (threads.len() - 1) as u8
    }

    fn add_house(&mut self, v: u32, rate: u64, cost: u64) {
        if let Some(mean) = 1_000_000_000_000u64.checked_div(rate) {
            self.add_thread(v, Body::Jobs(cost), PRIO_JOBS, false);
            self.house[v as usize] = Some(House { rng: Rng::new(self.seed, Purpose::House, v), mean });
        }
    }

    fn add_guest(&mut self, name: String, i: usize, spec: &VmSpec) -> Result<()> {
        let working_set = match spec.workload {
            Workload::Hog { .. } | Workload::Lookbusy { .. } | Workload::Parallel(_) | Workload::Fanout(_) => {
                self.c.hog_ws
            }
            _ => self.c.voip_ws,
        };
        let vm = self.add_vm(name, Some(i), spec.on - 1, spec.vcpus, VmConfig::default().params.weight(), working_set);
        let first = self.vms[vm].first;
        match &spec.workload {
            Workload::Hog { .. } => {
                for n in 0..spec.threads() {
                    self.add_thread(first + n % spec.vcpus, Body::Spin, PRIO_BATCH, true);
                }
            }
            &Workload::Voip { calls } => {
                let vifs: Vec<_> = (0..spec.vcpus).map(|n| self.add_vif(vm, first + n, self.c.voip_packet)).collect();
                for (n, &vif) in vifs.iter().enumerate() {
                    self.add_thread(first + n as u32, Body::Serve(vif), PRIO_NET, false);
                }
                for id in 0..calls {
                    self.add_call(vm, id, vifs[id as usize % vifs.len()]);
                }
                self.add_watch(vm)?;
            }
            Workload::Media(media) => {
                self.add_media(vm, media);
                self.add_watch(vm)?;
            }
            &Workload::Signalling { work, .. } => {
                let vif = self.add_vif(vm, first, work);
                self.add_thread(first, Body::Serve(vif), PRIO_NET, false);
            }
            &Workload::Stream { period, burst, gap, work } => {
                let vif = self.add_vif(vm, first, 0);
                let s = self.net.streams.len() as u32;
                let (rest, begin, due, sequence) = (burst, 0, 0, 0);
                self.net.streams.push(Stream { vif, flow: 0, period, burst, gap, work, rest, begin, due, sequence });
                self.add_thread(first, Body::Send(s), PRIO_NET, false);
                self.add_watch(vm)?;
            }
            Workload::Vod(own) => {
                let (vif, n) = (self.add_vif(vm, first, 0), self.films.len() as u32);
                self.net.vifs[vif as usize].films = Some(n);
                let mut rng = Rng::new(self.seed, Purpose::Film, n);
                let phases = (0..own.users).map(|_| rng.below(own.frame)).collect();
                self.films.push(Films::new(first, vif, own, phases));
                self.add_thread(first, Body::Film(n), PRIO_NET, false);
                self.add_watch(vm)?;
            }
            &Workload::Periodic { period, work } => {
                for v in first..first + spec.vcpus {
                    self.add_thread(v, Body::Periodic(self.tasks.len() as u32), PRIO_NET, false);
                    self.tasks.push(Task::new(v, period, work, SETTLE));
                }
            }
            Workload::Tasks { .. } => {
                let tasks = tasks::by_priority(self.scenario.tasks(
                    spec,
                    vm as u32 - self.scenario.machine.machines,
                    self.seed,
                ));
                for (prio, task) in (PRIO_TASKS..).zip(tasks.into_iter().rev()) {
                    self.add_thread(first, Body::Periodic(self.tasks.len() as u32), prio, false);
                    self.tasks.push(Task::new(first, task.period, task.cost, self.scenario.lead()));
                }
            }
            &Workload::Lookbusy { percent, interval } => {
                let busy = interval / 100 * u64::from(percent);
                for vcpu in first..first + spec.vcpus {
                    let body = if percent == 100 { Body::Spin } else { Body::Look(self.looks.len() as u32) };
                    self.add_thread(vcpu, body, PRIO_BATCH, true);
                    self.looks.push(Look { vcpu, busy, idle: interval - busy, awake: true });
                }
            }
            &Workload::Cyclictest { interval, work } => {
                for v in first..first + spec.vcpus {
                    self.add_thread(v, Body::Cyclic(self.cyclics.len() as u32), PRIO_TIMER, false);
                    self.cyclics.push(Cyclic::new(v, interval, work));
                    self.add_house(v, self.c.idle_hz, self.c.idle_job);
                }
            }
            Workload::Parallel(own) => self.add_team(first, spec.vcpus, own),
            Workload::Fanout(own) => self.add_site(vm, spec.vcpus, own),
            Workload::Idle => (0..spec.vcpus).for_each(|n| self.add_house(first + n, self.c.idle_hz, self.c.idle_job)),
        }
        Ok(())
    }

    /// Whoever sends packets is watched; what the verdicts are worth is a matter of its configuration.
    fn add_watch(&mut self, vm: usize) -> Result<()> {
        self.watches[vm] = Some(Monitor::new(&Config::default())?);
        Ok(())
    }

    /// A vif, with its place in Dom0 as `dom0.net_vcpu` says.
    pub(super) fn add_vif(&mut self, vm: usize, vcpu: u32, work: u64) -> u32 {
        let vif = self.net.vifs.len() as u32;
        let dom0 = self.scenario.dom0_vcpus();
        let (nic, back) = match self.scenario.dom0.net_vcpu {
            NetVcpu::One => (0, 0),
            NetVcpu::PerVif if dom0 > 1 => (0, 1 + vif % (dom0 - 1)),
            NetVcpu::PerVif => (0, 0),
            NetVcpu::Spread => (vif % dom0, vif % dom0),
        };
        let (nic, back) = (nic + self.vms[vm].on * dom0, back + self.vms[vm].on * dom0);
        self.net.backs[back as usize].vifs.push(vif);
        let rx = Ring::new(self.c.vif_ring + self.c.vif_queue);
        let (vm, tx) = (vm as u32, Ring::new(self.c.vif_ring));
        self.net.vifs.push(Vif { vm, vcpu, work, mixer: None, films: None, rx, tx, nic, back });
        vif
    }

    pub(super) fn add_call(&mut self, vm: usize, id: u32, vif: u32) {
        let c = &self.c;
        // A packet's way when nobody is in front of it; the client's buffer counts from there.
        let way = 2 * c.wire + c.dom0_rx + c.voip_packet + c.dom0_tx;
        let limit = way + c.jitter_buffer;
        let record =
            Record::new(self.from.saturating_sub(limit), self.until - limit.min(self.until), c.packet_gap, limit);
        let rng = Rng::new(self.seed, Purpose::Call, self.net.calls.len() as u32);
        let vm = vm as u32;
        self.net.calls.push(Call { vm, id, vif, next: 0, due: 0, extra: 0, rng, record, session: None });
    }

    /// All PCPUs are there, and those VMs that no step of the script creates come.
    pub(super) fn create_first(&mut self) {
        self.make_static_pool();
        for call in &self.net.calls {
            let n = self.net.flows.len() as u32;
            self.net.flows.push(Template::new(call.vm, n));
        }
        let calls = self.net.calls.len() as u32;
        for (n, stream) in (calls..).zip(&mut self.net.streams) {
            stream.flow = n;
            self.net.flows.push(Template::new(self.net.vifs[stream.vif as usize].vm, n));
        }
        for films in &mut self.films {
            films.flow = self.net.flows.len() as u32;
            let vm = self.net.vifs[films.vif as usize].vm;
            self.net.flows.extend((0..films.users()).map(|user| Template::new(vm, films.flow + user)));
        }
        let ids: Vec<u32> = (0..self.vms.len() as u32).filter(|&id| !self.comes_later(id)).collect();
        self.create(&ids);
        self.queue.push(self.now + REPORT_NS, What::Monitor, 0);
    }

    /// The workloads of these VMs are set going.
    pub(super) fn begin(&mut self, ids: &[u32]) {
        let vms: Vec<_> = ids.iter().map(|&id| self.vms[id as usize].clone()).collect();
        let vcpus: Vec<u32> = vms.iter().flat_map(|vm| vm.first..vm.first + vm.vcpus).collect();
        for &v in &vcpus {
            let at = self.now + self.starts[v as usize].below(START_SPREAD);
            // A VM that has nothing but tasks starts with them.
            if self.tasks.iter().all(|t| t.vcpu != v || t.phase > 0) {
                self.queue.push(at, What::Start, v);
            }
            if let Some(house) = &mut self.house[v as usize] {
                let first = house.next();
                self.queue.push(at + first, What::House, v);
            }
        }
        self.begin_media(&vcpus, ids);
        let echoed = |call: &Call| call.session.is_none() && ids.contains(&call.vm);
        for (n, call) in (0..).zip(&mut self.net.calls).filter(|(_, call)| echoed(call)) {
            let ramp = u64::from(call.id) * 1_000_000_000_000 / self.c.ramp;
            call.due = self.now + SETTLE + ramp + call.rng.below(self.c.phase_spread);
            self.queue.push(call.due + self.c.wire, What::Call, n);
        }
        for (n, stream) in (0..).zip(&mut self.net.streams) {
            if vcpus.contains(&self.net.vifs[stream.vif as usize].vcpu) {
                stream.begin = self.now + SETTLE;
                self.queue.push(stream.begin, What::Stream, n);
            }
        }
        for (n, films) in (0..).zip(&mut self.films).filter(|(_, films)| vcpus.contains(&films.vcpu)) {
            films.begin(self.now + SETTLE);
            self.queue.push(self.now + SETTLE, What::Film, n);
        }
        for (n, task) in (0..).zip(&mut self.tasks).filter(|(_, task)| vcpus.contains(&task.vcpu)) {
            self.queue.push(task.begin(self.now), What::Release, n);
        }
        for (n, cyclic) in (0..).zip(&mut self.cyclics).filter(|(_, cyclic)| vcpus.contains(&cyclic.vcpu)) {
            cyclic.begin(self.now + SETTLE);
            self.queue.push(self.now + SETTLE, What::Cyclic, n);
        }
        self.begin_clients(ids);
    }

    /// A VCPU begins what it is there for.
    pub(super) fn start(&mut self, v: u32) {
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }
}
