// SPDX-License-Identifier: GPL-2.0-only
//! Risa's partition manager with its settings and its time.

use crate::partition::Shape;
use crate::scheduler::Scheduler;
use crate::shared::Snapshot;
use anyhow::Result;
use std::time::Instant;
use takt_control::partition::{Partition, Settings};
use takt_control::pools::Size;
use takt_control::{PolicySpec, Server};
use takt_policy::ParamInfo;

/// The partition manager, and what it decides for.
pub(super) struct Pools {
    manager: Partition,
    settings: Settings,
    /// Since when the manager's time counts.
    started: Instant,
    /// What it has last seen to.
    shape: Shape,
    /// The rt-pool's PCPUs at the last look.
    pub(super) rt: Vec<u16>,
}

/// Percent of each PCPU for VMs and threads without a budget.
fn reserve() -> ParamInfo {
    takt_policy::param("reserve", false).expect("a parameter of every pool")
}

impl Pools {
    /// Those of `policy`, if it has two. The rt-pool keeps its policy's reserve: the host's threads
    /// live there, too.
    pub fn new(policy: &PolicySpec) -> Option<Self> {
        let Size::Managed(settings) = policy.pools.clone()?.size else { return None };
        let mut settings = settings.live();
        let given = policy.params.iter().find(|(key, _)| *key == reserve().key);
        settings.reserve = given.map_or(reserve().default, |&(_, value)| value) as u32;
        let manager = Partition::new(settings);
        Some(Self { manager, settings, started: Instant::now(), shape: Shape::default(), rt: Vec::new() })
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Returns the VMs with parameters for which there is no room.
    pub(super) fn settle(&mut self, scheduler: &mut Scheduler, snapshot: &Snapshot) -> Result<Vec<u32>> {
        let (shape, now) = (Shape::of(snapshot), self.now());
        if shape != self.shape {
            let refused = self.manager.settle(scheduler, now)?;
            self.shape = shape;
            return Ok(refused);
        }
        self.manager.timer(scheduler, now)?;
        Ok(Vec::new())
    }

    /// A VM is to have these parameters, or nothing changes.
    pub(super) fn give(&mut self, scheduler: &mut Scheduler, vm: u32, want: &Server) -> Result<()> {
        // What others lack the next look finds.
        self.shape = Shape::default();
        let now = self.now();
        self.manager.set(scheduler, now, vm, want)
    }

    /// A parameter of both pools has been set: the reserve is room that the rt-pool does not have.
    pub(super) fn parameter_is(&mut self, key: u32, value: u64) {
        if key == reserve().key {
            self.settings.reserve = value as u32;
            self.manager = Partition::new(self.settings);
            self.shape = Shape::default();
        }
    }

    /// Time until the rt-pool gives back what it does not need, s.
    pub(super) fn shrinks_in(&self) -> Option<f64> {
        Some(self.manager.due()?.saturating_sub(self.now()) as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_the_hosts_keeps_its_reserve() {
        let settings = |text: &str| Pools::new(&PolicySpec::parse(text).unwrap()).map(|p| p.settings);
        let of = |text: &str| settings(text).map(|s| (s.reserve, s.delay));
        assert_eq!(of("risa"), Some((5, 15_000_000_000)), "the policy's own");
        assert_eq!(of("risa(reserve=7)"), Some((7, 15_000_000_000)));
        assert_eq!(of("risa(delay=2s,reserve=0,slice=5ms)"), Some((0, 2_000_000_000)));
        assert_eq!((of("sp"), of("credit"), of("vgedf(reserve=7)")), (None, None, None));
    }
}
