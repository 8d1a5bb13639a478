// SPDX-License-Identifier: GPL-2.0-only
//! The machine: PCPUs that run VCPUs as the policy says, in simulated time.

mod cache;
mod control;
mod cpu;
mod history;
mod kernel;
mod manage;
mod monitor;
mod part;
mod path;
mod pcpu;
pub(crate) mod pin;
mod pools;
mod port;
mod program;
pub(crate) mod server;
mod setup;
mod state;
mod work;

pub(crate) use history::SAMPLE;
pub(crate) use program::Program;
pub(crate) use state::{Machine, Tables, Vm};

use crate::engine::{Entry, What};
use crate::options::{CheckFailed, Options};
use anyhow::{Result, anyhow};
use part::Part;
use state::Counters;
use takt_policy::{Log, Overhead};

/// Events between two looks at progress and checker.
const BATCH: u64 = 1 << 16;

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
            What::Program(kind) => self.workload(kind).due(self, n),
            What::Wire => self.crossed(),
            What::Housekeeping => self.housekeeping(n),
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
