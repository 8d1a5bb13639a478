// SPDX-License-Identifier: GPL-2.0-only
//! The machine: PCPUs that run VCPUs as the policy says, in simulated time.

mod cache;
mod control;
mod monitor;
mod pcpu;
mod pin;
mod port;
mod server;
mod setup;

use crate::constants::Constants;
use crate::engine::{Entry, Queue, What};
use crate::guest::Vcpu;
use crate::guest::periodic::Task;
use crate::net::{House, Net};
use crate::observe::Observe;
use crate::rng::Rng;
use crate::scenario::{Scenario, Stamp};
use crate::timer::Timer;
use crate::{CheckFailed, Options};
use anyhow::{Result, anyhow};
pub(crate) use pcpu::Pcpu;
use takt_conformance::Checker;
use takt_control::{PolicySpec, VmConfig};
use takt_monitor::Monitor;
use takt_policy::{Log, Pool};

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

/// A VM of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub name: String,
    /// Entry of the scenario; `None` = Dom0.
    pub spec: Option<usize>,
    /// Its VCPUs are consecutive.
    pub first: u32,
    pub vcpus: u32,
    /// What the operator has set; weight and cap as the VM was created with, the policy knows better.
    pub config: VmConfig,
    /// Promotions and refusals before the measured window.
    pub before: (u64, u64),
}

pub(crate) struct Machine<'a> {
    pub scenario: &'a Scenario,
    pub policy: &'a PolicySpec,
    pub seed: u64,
    pub c: Constants,
    pub now: u64,
    pub queue: Queue,
    pub pool: Pool,
    pub pool_timer: Timer,
    pub pcpus: Vec<Pcpu>,
    pub vcpus: Vec<Vcpu>,
    pub vms: Vec<Vm>,
    /// Per VCPU; `None` = no wakes of its own.
    pub house: Vec<Option<House>>,
    pub starts: Vec<Rng>,
    /// Periodic tasks.
    pub tasks: Vec<Task>,
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
    pub checker: Option<Checker>,
    pub log: Option<Log>,
}

impl Machine<'_> {
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
        if let Some(checker) = self.checker.take() {
            checker.finish().map_err(|v| anyhow!(CheckFailed(v.to_string())))?;
        }
        Ok(())
    }

    /// Handles one entry; false if it was a timer that has been cancelled or moved.
    #[inline]
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
                if !self.pool_timer.fires(queue, entry) {
                    return false;
                }
                self.fire_pool_timer();
            }
            What::Tick => {
                if !self.vcpus[at].tick.fires(queue, entry) {
                    return false;
                }
                self.guest_tick(n);
            }
            What::Switched => self.switched(n),
            What::Call => self.call_packet(n),
            What::Stream => self.stream_due(n),
            What::Release => self.release(n),
            What::House => self.housekeeping(n),
            What::Nic => self.nic_fires(n),
            What::Monitor => self.monitor_report(),
            What::Start => self.start(n),
            What::Serve => self.give_server(n),
            What::Measure => self.measure(),
            What::Boot => self.boot(n),
            What::Create => self.create(),
        }
        true
    }

    /// The measured window begins: figures start from nothing.
    fn measure(&mut self) {
        for cpu in 0..self.pcpus.len() {
            self.settle(cpu as u32);
        }
        self.count = Counters::default();
        for p in &mut self.pcpus {
            (p.decisions, p.switches) = (0, 0);
        }
        for v in &mut self.vcpus {
            v.work = 0;
            v.cold = 0;
        }
        self.tasks.iter_mut().for_each(Task::reset);
        for (id, vm) in self.vms.iter_mut().enumerate() {
            let stat = self.pool.vm_stat(id as u32).unwrap_or_default();
            vm.before = (stat.promotions, stat.refusals);
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

    /// Hands what the pool has recorded to the checker and to the log.
    fn drain(&mut self) -> Result<()> {
        if self.checker.is_none() && self.log.is_none() {
            return Ok(());
        }
        let records = self.pool.take_log();
        self.pool.record();
        if let Some(checker) = &mut self.checker {
            for record in &records {
                checker.step(record).map_err(|v| anyhow!(CheckFailed(v.to_string())))?;
            }
        }
        if let Some(log) = &mut self.log {
            log.extend(records);
        }
        Ok(())
    }
}
