// SPDX-License-Identifier: GPL-2.0-only
//! Counts over a log.

use serde::Serialize;
use std::collections::BTreeMap;
use takt_policy::{OpCode, Record};

/// Accepted and refused operations of a kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Count {
    pub accepted: u64,
    pub refused: u64,
}

/// What happened to a VCPU.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct VcpuCount {
    pub wakes: u64,
    pub events: u64,
    /// `schedule` chose it anew.
    pub picked: u64,
    pub started: u64,
    pub refused: u64,
    pub put: u64,
    /// Times it was queued, and the waits that ended: total and longest, ns.
    pub waits: u64,
    pub wait_total: u64,
    pub wait_max: u64,
}

/// Operations of a log by kind and by VCPU.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub records: u64,
    pub operations: BTreeMap<String, Count>,
    pub vcpus: BTreeMap<u16, VcpuCount>,
    #[serde(skip)]
    by_code: BTreeMap<u16, Count>,
}

impl Summary {
    pub(crate) fn add(&mut self, r: &Record) {
        self.records += 1;
        let n = self.by_code.entry(r.op.op).or_default();
        if r.res.ret != 0 {
            n.refused += 1;
            return;
        }
        n.accepted += 1;
        match OpCode::from_u16(r.op.op) {
            Some(OpCode::Wake) => self.vcpu(r.op.vcpu).wakes += 1,
            Some(OpCode::Event) => self.vcpu(r.op.vcpu).events += 1,
            Some(OpCode::Started) => self.vcpu(r.op.vcpu).started += 1,
            Some(OpCode::Refused) => self.vcpu(r.op.vcpu).refused += 1,
            Some(OpCode::Put) => self.vcpu(r.op.vcpu).put += 1,
            _ => {}
        }
    }

    pub(crate) fn accepted(&self, code: OpCode) -> u64 {
        self.by_code.get(&(code as u16)).map_or(0, |n| n.accepted)
    }

    fn vcpu(&mut self, v: u16) -> &mut VcpuCount {
        self.vcpus.entry(v).or_default()
    }

    pub(crate) fn picked(&mut self, v: u16, waited: u64) {
        let c = self.vcpu(v);
        c.picked += 1;
        c.waits += 1;
        c.wait_total += waited;
        c.wait_max = c.wait_max.max(waited);
    }

    /// The counts with the operations' names.
    pub(crate) fn named(mut self) -> Self {
        self.operations = self
            .by_code
            .iter()
            .map(|(&op, &n)| (OpCode::from_u16(op).map_or_else(|| format!("unknown {op}"), |c| name(c).into()), n))
            .collect();
        self
    }
}

/// The name `docs/states.md` gives an operation.
pub fn name(code: OpCode) -> &'static str {
    use OpCode::*;
    match code {
        None => "none",
        Epoch => "epoch",
        CpuAdd => "cpu_add",
        CpuRemove => "cpu_remove",
        VmAdd => "vm_add",
        VmRemove => "vm_remove",
        VcpuAdd => "vcpu_add",
        VcpuRemove => "vcpu_remove",
        Adjust => "adjust",
        SetRt => "set_rt",
        SetGroup => "set_group",
        SetPlacement => "set_placement",
        SetAffinity => "set_affinity",
        Wake => "wake",
        Event => "event",
        Block => "block",
        Yield => "yield",
        Pause => "pause",
        Unpause => "unpause",
        Move => "move",
        Schedule => "schedule",
        Started => "started",
        Refused => "refused",
        Put => "put",
        CpuRelease => "cpu_release",
        CpuAcquire => "cpu_acquire",
        TimerCpu => "timer_cpu",
        TimerPool => "timer_pool",
    }
}
