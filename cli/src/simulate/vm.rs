// SPDX-License-Identifier: GPL-2.0-only
//! A VM under each policy: what it is, whether it has something to do in time, and which of two
//! suffers more.

use super::seen::Seen;
use std::cmp::Ordering;
use takt_control::RtMode;
use takt_sim::VmSpec;

/// A VM.
pub(super) struct Vm<'a> {
    /// Entry of the scenario; Dom0 has none.
    pub spec: Option<&'a VmSpec>,
    pub seen: Vec<Seen<'a>>,
}

impl Vm<'_> {
    pub fn name(&self) -> Option<&str> {
        self.seen.first().map(|s| s.name)
    }

    /// What it is, in a few words; nothing for Dom0.
    pub fn about(&self) -> Option<String> {
        Some(self.spec?.about())
    }

    /// Whether its workload has a promise, and so figures of its own.
    pub fn promises(&self) -> bool {
        self.seen.iter().any(|s| s.promise.is_some())
    }

    /// Whether both are of one entry of the scenario.
    pub fn alike(&self, other: &Self) -> bool {
        self.spec.zip(other.spec).is_some_and(|(a, b)| std::ptr::eq(a, b))
    }

    /// Whether it has something to do in time: a workload with a promise, a type, or a budget.
    pub fn matters(&self) -> bool {
        let named = self.spec.is_some_and(|s| s.server.budget > 0 || s.params.rt() == RtMode::On);
        named || self.promises() || self.seen.iter().any(|s| s.runs.iter().any(|(_, vm)| vm.rt))
    }

    /// VMs with something to do in time first: by what was not done under the policy that is worst for
    /// the VM, then by its waits. A VM that only computes waits for its turns whatever its budget is, so
    /// one with events to answer comes before it.
    pub fn worse_first(&self, other: &Self) -> Ordering {
        let worst = |vm: &Self, of: fn(&Seen) -> f64| vm.seen.iter().map(of).fold(0.0, f64::max);
        let by = |of: fn(&Seen) -> f64| worst(other, of).total_cmp(&worst(self, of));
        let others = other.matters().cmp(&self.matters());
        others
            .then(by(|s| s.promise.as_ref().map_or(0.0, |p| p.failed)))
            .then(other.promises().cmp(&self.promises()))
            .then(by(|s| s.wait(|w| w.p99_ns).unwrap_or(0.0)))
    }
}
