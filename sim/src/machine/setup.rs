// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to a machine: PCPUs one after the other, then VMs, then workloads.

use super::cpu::Pcpu;
use super::history::History;
use super::state::{Counters, Machine, Programs, Tables, Vm};
use super::{part, pools};
use crate::engine::{Queue, What};
use crate::guest::{Body, PRIO_JOBS, PRIO_NET, Thread, Vcpu};
use crate::net::{Call, Housekeeping, Net, Netback, Record, Ring, Template, Vif};
use crate::observe::Observe;
use crate::options::Options;
use crate::rng::{Purpose, Rng};
use crate::scenario::{NetVcpu, Scenario};
use crate::spec::Kind;
use crate::timer::Timer;
use crate::vm::VmSpec;
use anyhow::Result;
use takt_control::pools::{Pools, Size};
use takt_control::{Groups, Partition, PolicySpec, VmConfig};
use takt_monitor::{Config, Monitor, REPORT_NS};

/// Workloads begin within this time, as VMs do not boot in step; ns.
const START_SPREAD: u64 = 30_000_000;

impl<'a> Machine<'a> {
    /// Builds everything but what happens at its own time.
    pub(crate) fn new(
        scenario: &'a Scenario,
        policy: &'a PolicySpec,
        workloads: Tables,
        seed: u64,
        options: &Options,
    ) -> Result<Self> {
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
            pools: part::parts(scenario, policy, options)?,
            manager,
            groups: Vec::new(),
            shrink: Timer::default(),
            history: History::default(),
            masks,
            pcpus: (0..scenario.pcpus()).zip(pool_of).map(|(n, pool)| Pcpu::new(n / m.llc, pool)).collect(),
            vcpus: Vec::new(),
            vms: Vec::new(),
            housekeeping: Vec::new(),
            starts: Vec::new(),
            programs: Programs::new(workloads),
            llc_run: vec![0; scenario.pcpus().div_ceil(m.llc) as usize],
            net: Net { napi: c.napi, ..Net::default() },
            monitors: Vec::new(),
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
        let predicts = scenario.vms.iter().any(|vm| vm.workload.spec().predicts());
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
            for v in self.vms[dom0].range() {
                self.add_thread(v, Body::Netback(self.net.backs.len() as u32), PRIO_NET, false);
                self.net.backs.push(Netback::new(v, self.c.nic_ring));
                self.add_housekeeping(v, self.c.dom0_hz, self.c.dom0_job);
            }
        }
        for (i, spec) in s.vms.iter().enumerate() {
            for name in spec.names() {
                self.add_guest(name, i, spec)?;
            }
        }
        for (n, call) in (0..).zip(&self.net.calls) {
            self.net.flows.push(Template::new(call.vm, n));
        }
        self.workloads().iter().for_each(|workload| workload.connect(self));
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
            self.housekeeping.push(None);
        }
        let config = VmConfig::default().with("weight", weight.into());
        self.vms.push(Vm { name, spec, on, first, vcpus, config, pool: 0, past: (0, 0), found: None });
        self.monitors.push(None);
        self.net.drops.push(Default::default());
        self.vms.len() - 1
    }

    /// A thread of a VCPU; returns its number there.
    pub(crate) fn add_thread(&mut self, v: u32, body: Body, prio: u8, rr: bool) -> u8 {
        let threads = &mut self.vcpus[v as usize].threads;
        threads.push(Thread::new(body, prio, rr));
        (threads.len() - 1) as u8
    }

    /// Wakes of VCPU `v` by its kernel's timers and daemons, at this rate, of `cost` ns each.
    pub(crate) fn add_housekeeping(&mut self, v: u32, rate: u64, cost: u64) {
        if let Some(mean) = 1_000_000_000_000u64.checked_div(rate) {
            self.add_thread(v, Body::Jobs(cost), PRIO_JOBS, false);
            self.housekeeping[v as usize] =
                Some(Housekeeping { rng: Rng::new(self.seed, Purpose::Housekeeping, v), mean });
        }
    }

    fn add_guest(&mut self, name: String, i: usize, spec: &VmSpec) -> Result<()> {
        let (own, weight) = (&spec.workload, VmConfig::default().params.weight());
        let vm = self.add_vm(name, Some(i), spec.on - 1, spec.vcpus, weight, own.spec().working_set(&self.c));
        self.workload(own.kind()).build(own, self, vm)
    }

    /// A VM that sends packets is watched; what the verdicts are worth is a matter of its
    /// configuration.
    pub(crate) fn add_monitor(&mut self, vm: usize) -> Result<()> {
        self.monitors[vm] = Some(Monitor::new(&Config::default())?);
        Ok(())
    }

    /// A vif of a program, which needs `work` ns for each packet that it receives; its place in
    /// Dom0 is as `dom0.net_vcpu` says.
    pub(crate) fn add_vif(&mut self, vm: usize, vcpu: u32, work: u64, (kind, program): (Kind, u32)) -> u32 {
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
        self.net.vifs.push(Vif { vm, vcpu, work, kind, program, rx, tx, nic, back });
        vif
    }

    /// A client that calls VM `vm`, its call number `id`.
    pub(crate) fn add_call(&mut self, vm: usize, id: u32, vif: u32) {
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
        let ids: Vec<u32> = (0..self.vms.len() as u32).filter(|&id| !self.comes_later(id)).collect();
        self.create(&ids);
        self.queue.push(self.now + REPORT_NS, What::Monitor, 0);
    }

    /// The workloads of these VMs are set going.
    pub(super) fn begin(&mut self, ids: &[u32]) {
        for &id in ids {
            let starts = self.spec(id as usize).is_none_or(|spec| spec.workload.spec().starts(self.scenario.lead()));
            for v in self.vms[id as usize].range() {
                let at = self.now + self.starts[v as usize].below(START_SPREAD);
                if starts {
                    self.queue.push(at, What::Start, v);
                }
                if let Some(house) = &mut self.housekeeping[v as usize] {
                    let first = house.next();
                    self.queue.push(at + first, What::Housekeeping, v);
                }
            }
        }
        self.workloads().iter().for_each(|workload| workload.begin(self, ids));
    }
}
