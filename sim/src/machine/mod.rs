// SPDX-License-Identifier: GPL-2.0-only
//! The machine: PCPUs that run VCPUs as the policy says, in simulated time.

mod cache;
mod control;
mod manage;
mod monitor;
mod pcpu;
pub(crate) mod pin;
mod pools;
mod port;
pub(crate) mod server;
mod setup;

use crate::constants::Constants;
use crate::engine::{Entry, Queue, What};
use crate::guest::{Host, Vcpu};
use crate::net::{House, Net};
use crate::observe::Observe;
use crate::rng::Rng;
use crate::scenario::{Scenario, Stamp};
use crate::timer::Timer;
use crate::vm::VmSpec;
use crate::workload::Programs;
use crate::{CheckFailed, Options};
use anyhow::{Result, anyhow};
use manage::History;
pub(crate) use manage::SAMPLE;
pub(crate) use pcpu::Pcpu;
pub(crate) use pools::Part;
pub(crate) use setup::SETTLE;
use std::ops::Range;
use takt_control::{Groups, Partition, PolicySpec, VmConfig};
use takt_monitor::Monitor;
use takt_policy::{Log, Overhead};

/// Events between two looks at progress and checker.
const BATCH: u64 = 1 << 16;

/// Figures of the machine since the measured window began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub switches: u64,
    pub kicks: u64,
    pub decisions: u64,
    pub migrations: u64,
    pub llc_migrations: u64,
    pub idle: u64,
    pub overhead: u64,
}

/// A VM.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub name: String,
    /// Entry of the scenario; `None` = Dom0.
    pub spec: Option<usize>,
    /// Machine that it is on, from 0.
    pub on: u32,
    /// Its VCPUs are consecutive.
    pub first: u32,
    pub vcpus: u32,
    /// What the operator has set; weight and cap as the VM was created with, the policy knows better.
    pub config: VmConfig,
    /// Index of its pool.
    pub pool: usize,
    /// Promotions and refusals that its policy does not count: those in pools that it has left, less those before the measured window.
    pub past: (i64, i64),
}

impl Vm {
    /// Its VCPUs.
    pub fn range(&self) -> Range<u32> {
        self.first..self.first + self.vcpus
    }
}

pub(crate) struct Machine<'a> {
    pub scenario: &'a Scenario,
    pub policy: &'a PolicySpec,
    pub seed: u64,
    pub c: Constants,
    pub now: u64,
    pub queue: Queue,
    /// The main one, then others.
    pub pools: Vec<Part>,
    pub manager: Option<Partition>,
    /// Of each pool.
    pub groups: Vec<Groups>,
    /// The manager's.
    pub shrink: Timer,
    pub history: History,
    /// Hard-affinity mask of each VCPU.
    pub masks: Vec<u64>,
    pub pcpus: Vec<Pcpu>,
    pub vcpus: Vec<Vcpu>,
    pub vms: Vec<Vm>,
    /// Per VCPU; `None` = no wakes of its own.
    pub house: Vec<Option<House>>,
    pub starts: Vec<Rng>,
    /// What the workloads are at.
    pub programs: Programs,
    /// Run clocks of the last-level caches, ns.
    pub llc_run: Vec<u64>,
    pub net: Net,
    /// Monitor of each VM of the pool that sends packets.
    pub watches: Vec<Option<Monitor>>,
    pub scratch: takt_monitor::Packet,
    pub stamp: Stamp,
    pub observe: Observe,
    pub count: Counters,
    pub events: u64,
    pub cancelled: u64,
    pub ops: u64,
    /// The measured window, ns.
    pub from: u64,
    pub until: u64,
    /// An operation that the policy refused: an error of the machine, which ends the run.
    pub refused: Option<anyhow::Error>,
}

impl<'a> Machine<'a> {
    /// The entry of the scenario that a VM is of; `None` = Dom0.
    pub(crate) fn spec(&self, vm: usize) -> Option<&'a VmSpec> {
        self.vms[vm].spec.map(|i| &self.scenario.vms[i])
    }

    /// The VCPUs of these VMs.
    pub(crate) fn vcpus_of(&self, vms: &[u32]) -> Vec<u32> {
        vms.iter().flat_map(|&id| self.vms[id as usize].range()).collect()
    }

    /// Runs to the end of the measured window.
    pub(crate) fn run(&mut self, options: &mut Options) -> Result<()> {
        let mut next = BATCH;
        while let Some(entry) = self.queue.pop() {
            if entry.time >= self.until {
                break;
            }
            self.now = entry.time;
            if self.handle(&entry) {
                self.events += 1;
            } else {
                self.cancelled += 1;
            }
            if self.events >= next {
                next = self.events + BATCH;
                self.drain()?;
                if let Some(progress) = &mut options.progress {
                    progress(self.now as f64 / self.until as f64);
                }
            }
            if let Some(error) = self.refused.take() {
                return Err(error);
            }
        }
        self.now = self.until;
        self.drain()?;
        for checker in self.pools.iter_mut().filter_map(|p| p.checker.take()) {
            checker.finish().map_err(|v| anyhow!(CheckFailed(v.to_string())))?;
        }
        Ok(())
    }

    /// Handles one entry; false if it was a timer that has been cancelled or moved. In place, as
    /// `run` does little else.
    #[inline(always)]
    fn handle(&mut self, entry: &Entry) -> bool {
        let n = u32::from(entry.arg);
        let at = n as usize;
        let queue = &mut self.queue;
        match entry.what {
            What::Done => {
                if !self.pcpus[at].done.fires(queue, entry) {
                    return false;
                }
                self.pcpu_done(n);
            }
            What::Slice => {
                if !self.pcpus[at].slice.fires(queue, entry) {
                    return false;
                }
                self.schedule(n);
            }
            What::Resched => {
                if !self.pcpus[at].resched.fires(queue, entry) {
                    return false;
                }
                self.schedule(n);
            }
            What::CpuTimer => {
                if !self.pcpus[at].timer.fires(queue, entry) {
                    return false;
                }
                self.cpu_timer(n);
            }
            What::PoolTimer => {
                if !self.pools[at].timer.fires(queue, entry) {
                    return false;
                }
                self.fire_pool_timer(at);
            }
            What::Tick => {
                if !self.vcpus[at].tick.fires(queue, entry) {
                    return false;
                }
                self.guest_tick(n);
            }
            What::Shrink => {
                if !self.shrink.fires(queue, entry) {
                    return false;
                }
                self.shrink();
            }
            What::Switched => {
                if !self.pcpus[at].is_switch(entry.generation) {
                    return false;
                }
                self.switched(n);
            }
            What::Call => self.call_packet(n),
            What::Program(kind) => kind.due(self, n),
            What::Wire => self.crossed(),
            What::House => self.housekeeping(n),
            What::Nic => self.nic_fires(n),
            What::Monitor => self.monitor_report(),
            What::Start => self.expire(n),
            What::Serve => self.serve(n),
            What::Measure => self.measure(),
            What::Boot => self.boot(n),
            What::Create => self.create_first(),
            What::Step => self.step(n),
            What::Sample => self.sample(),
        }
        true
    }

    /// Whether a VCPU's VM exists.
    pub(crate) fn is_there(&self, v: u32) -> bool {
        self.vcpus[v as usize].state != Host::Absent
    }

    /// The measured window begins: figures start from nothing.
    fn measure(&mut self) {
        for cpu in 0..self.pcpus.len() {
            self.settle(cpu as u32);
        }
        self.count = Counters::default();
        for p in &mut self.pcpus {
            *p.took = Overhead::default();
        }
        for v in &mut self.vcpus {
            v.work = 0;
            v.spun = 0;
            v.cold = 0;
        }
        self.programs.reset();
        for (id, vm) in self.vms.iter_mut().enumerate() {
            let stat = self.pools[vm.pool].pool.vm_stat(id as u32).unwrap_or_default();
            vm.past = (-(stat.promotions as i64), -(stat.refusals as i64));
        }
        self.net.drops.fill(Default::default());
        self.observe.reset(self.now);
    }

    /// Closes the accounts at the end of the run.
    pub(crate) fn finish(&mut self) {
        for cpu in 0..self.pcpus.len() {
            self.settle(cpu as u32);
        }
        self.observe.metrics.finish(self.now);
    }

    /// Hands what the pools have recorded to their checkers and logs.
    fn drain(&mut self) -> Result<()> {
        self.pools.iter_mut().try_for_each(Part::drain)
    }

    /// The logs of the pools, if they were asked for.
    pub(crate) fn logs(&mut self) -> Vec<Log> {
        self.pools.iter_mut().filter_map(|p| p.log.take()).collect()
    }
}
