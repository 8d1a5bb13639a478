// SPDX-License-Identifier: GPL-2.0-only
//! The kernel "copy" of the benchmark STREAM (PORIS-E8): on each VCPU a loop that copies an array from end to end. What
//! it has in the caches it has lost once others have run there.

use crate::constants::Constants;
use crate::guest::{Body, PRIO_BATCH};
use crate::machine::{Machine, Program};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCopy {
    /// KiB of each VCPU's array that stay in its caches.
    pub cached: u32,
}

impl Default for StreamCopy {
    fn default() -> Self {
        Self { cached: 1024 }
    }
}

impl Spec for StreamCopy {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("copies of arrays".to_owned())
    }

    fn working_set(&self, _c: &Constants) -> u64 {
        self.cached.into()
    }

    fn is_batch(&self) -> bool {
        true
    }
}

impl Keys for StreamCopy {
    const KIND: Kind = Kind::StreamCopy;
    const DOC: &'static str = "a loop per VCPU that copies an array, modelled on STREAM; its useful time is batch work";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[Key::count(
        "cached",
        (0, 1_048_576),
        |s| s.cached.into(),
        |s, n| s.cached = n,
        "KiB of each array that stay in the caches, as a working set does",
    )];
}

impl Program for StreamCopy {
    type State = ();

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        for v in m.vms[vm].range() {
            m.add_thread(v, Body::Spin, PRIO_BATCH, true);
        }
        Ok(())
    }
}
