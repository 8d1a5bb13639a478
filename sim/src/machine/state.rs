// SPDX-License-Identifier: GPL-2.0-only
//! What a machine is made of: the modules beside this one set it in motion.

use super::cpu::Pcpu;
use super::history::History;
use super::part::Part;
use crate::constants::Constants;
use crate::engine::Queue;
use crate::guest::Vcpu;
use crate::net::{Housekeeping, Net, Packet, Vif};
use crate::observe::Observe;
use crate::result::VmResult;
use crate::rng::Rng;
use crate::scenario::{Scenario, Stamp};
use crate::spec::{Chosen, Kind};
use crate::timer::Timer;
use crate::vm::VmSpec;
use anyhow::Result;
use std::any::Any;
use std::ops::Range;
use takt_control::{Groups, Partition, PolicySpec, VmConfig};
use takt_monitor::Monitor;
use takt_policy::State;

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
    /// Promotions and refusals that its policy does not count: those in pools that it has left, less
    /// those before the measured window.
    pub past: (i64, i64),
    /// The monitor's rule by which it is real-time, and since when.
    pub found: Option<(&'static str, u64)>,
}

impl Vm {
    /// Its VCPUs.
    pub fn range(&self) -> Range<u32> {
        self.first..self.first + self.vcpus
    }

    /// As a policy calls it and its VCPUs.
    pub fn kind(&self) -> takt_policy::Kind {
        if self.spec.is_none() { takt_policy::Kind::Host } else { takt_policy::Kind::Guest }
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
    pub housekeeping: Vec<Option<Housekeeping>>,
    pub starts: Vec<Rng>,
    pub programs: Programs,
    /// Run clocks of the last-level caches, ns.
    pub llc_run: Vec<u64>,
    pub net: Net,
    /// Monitor of each VM of the pool that sends packets.
    pub monitors: Vec<Option<Monitor>>,
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

/// A workload as the machine calls it: what its `Program` says. Its own programs are `all`.
pub(crate) trait Table: Sync {
    fn state(&self) -> Box<dyn Any>;
    fn build(&self, own: &Chosen, m: &mut Machine, vm: usize) -> Result<()>;
    fn connect(&self, m: &mut Machine);
    fn begin(&self, m: &mut Machine, vms: &[u32]);
    fn due(&self, m: &mut Machine, n: u32);
    fn wakes(&self, all: &dyn Any, n: u32, bit: u8) -> bool;
    fn next(&self, m: &mut Machine, n: u32, v: u32) -> Option<(u64, bool)>;
    fn done(&self, m: &mut Machine, n: u32, cpu: u32);
    fn work(&self, all: &dyn Any, vif: &Vif, packet: &Packet) -> u64;
    fn received(&self, m: &mut Machine, n: u32, packet: Packet, cpu: u32);
    fn room(&self, m: &mut Machine, n: u32, cpu: u32);
    fn passes_on(&self, m: &mut Machine, packet: Packet, q: u32) -> bool;
    fn leaves(&self, m: &mut Machine, n: u32, packet: &Packet);
    fn hangs_up(&self, m: &mut Machine, call: u32) -> bool;
    fn reset(&self, all: &mut dyn Any);
    fn result(&self, m: &Machine, vm: usize, out: &mut VmResult);
}

/// All workloads, each at the place that its [`Kind`] says.
pub(crate) type Tables = &'static [&'static dyn Table];

/// The workloads of a machine, with their programs.
pub(crate) struct Programs {
    pub(super) tables: Tables,
    pub(super) states: Vec<Box<dyn Any>>,
}

impl Programs {
    pub fn new(tables: Tables) -> Self {
        Self { tables, states: tables.iter().map(|table| table.state()).collect() }
    }

    #[inline]
    pub fn wakes(&self, kind: Kind, n: u32, bit: u8) -> bool {
        self.tables[kind as usize].wakes(&*self.states[kind as usize], n, bit)
    }

    #[inline]
    pub fn work(&self, vif: &Vif, packet: &Packet) -> u64 {
        let kind = vif.kind as usize;
        self.tables[kind].work(&*self.states[kind], vif, packet)
    }

    pub fn reset(&mut self) {
        self.tables.iter().zip(&mut self.states).for_each(|(table, state)| table.reset(&mut **state));
    }
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

    /// That workload.
    #[inline]
    pub(crate) fn workload(&self, kind: Kind) -> &'static dyn Table {
        self.programs.tables[kind as usize]
    }

    /// All workloads.
    pub(crate) fn workloads(&self) -> Tables {
        self.programs.tables
    }

    /// Whether a VCPU's VM exists.
    pub(crate) fn is_there(&self, v: u32) -> bool {
        self.vcpus[v as usize].state != State::Absent
    }
}
