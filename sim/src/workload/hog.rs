// SPDX-License-Identifier: GPL-2.0-only
//! Busy loops, spread over the VCPUs.

use crate::constants::Constants;
use crate::guest::{Body, PRIO_BATCH};
use crate::machine::{Machine, Program};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hog {
    /// `None` = one per VCPU.
    pub threads: Option<u32>,
}

impl Spec for Hog {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("busy loops".to_owned())
    }

    fn threads(&self, vcpus: u32) -> u32 {
        self.threads.unwrap_or(vcpus)
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }

    fn is_batch(&self) -> bool {
        true
    }
}

impl Keys for Hog {
    const KIND: Kind = Kind::Hog;
    const DOC: &'static str = "busy loops; their useful time is the VM's batch work";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] =
        &[Key::<Self>::count("threads", (1, 4096), |h| h.threads, |h, n| h.threads = Some(n), "number of loops")
            .or("one per VCPU")
            .within("1 to 64 per VCPU")];
}

impl Program for Hog {
    type State = ();

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (first, vcpus) = (m.vms[vm].first, m.vms[vm].vcpus);
        for n in 0..self.threads(vcpus) {
            m.add_thread(first + n % vcpus, Body::Spin, PRIO_BATCH, true);
        }
        Ok(())
    }
}
