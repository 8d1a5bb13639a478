// SPDX-License-Identifier: GPL-2.0-only
//! What `takt run --json` says, a document a line.

use super::done::Done;
use schemars::JsonSchema;
use serde::Serialize;
use takt_control::Document;

/// Something that has happened. The last line is one of `unloaded`, `left`, `taken_out`, `ended`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Linux: how much of its limit the kernel's verifier needed for a program (`--verifier`).
    Verified {
        program: String,
        /// Instructions walked, of 1000000.
        walked: u32,
        /// Instructions.
        size: usize,
    },
    /// Linux: this host is scheduled from now on.
    Scheduling {
        policy: String,
        /// Release of the kernel.
        kernel: String,
        pcpus: usize,
        /// VMs found.
        vms: usize,
        /// KVM is loaded.
        kvm: bool,
    },
    /// Xen: what the domains of these cpupools send is watched from now on.
    Watching {
        cpupools: Vec<Cpupool>,
    },
    /// Linux: KVM is loaded, its VMs are watched.
    KvmLoaded,
    VmFound {
        name: String,
        /// Linux: process of its VMM.
        #[serde(skip_serializing_if = "Option::is_none")]
        tgid: Option<u32>,
        /// Xen: number of the domain.
        #[serde(skip_serializing_if = "Option::is_none")]
        domid: Option<u16>,
    },
    VmGone {
        name: String,
    },
    RealTime {
        name: String,
        /// The monitor's rule, `by hand`, `dom0`, or `reported`.
        rule: String,
    },
    NotRealTime {
        name: String,
    },
    /// Linux: weight and cap of a VM follow its cgroups.
    Share {
        name: String,
        weight: u32,
        /// Percent of one PCPU, 0 = no cap.
        cap: u32,
    },
    /// Linux, with Risa: PCPUs of the rt-pool.
    RtPool {
        pcpus: Vec<u16>,
    },
    /// Linux, with Risa: a VM has changed its pool.
    Moved {
        name: String,
        /// Into the rt-pool, or out of it.
        rt: bool,
    },
    /// Xen, with Risa: what the partition manager has done, in words.
    Partition {
        text: String,
    },
    /// The recording of `takt run --record` has ended.
    Recorded(Done),
    /// Something is wrong, in words; Takt goes on, unless a last line follows.
    Warning {
        text: String,
    },
    /// Linux: told to end; the kernel's default scheduler is back.
    Unloaded {
        /// Since the scheduler was loaded.
        uptime_s: f64,
        switches: u64,
        kicks: u64,
        /// Picks of a thread that was not there yet.
        refused: u64,
    },
    /// Linux: the scheduler has left by itself; the kernel's default scheduler is back. Exit status
    /// 1.
    Left {
        reason: String,
    },
    /// Linux: the kernel has taken the scheduler out; its default scheduler is back. Exit status 1.
    TakenOut {
        reason: String,
    },
    /// Xen: told to end; types that were reported lapse within a second.
    Ended,
}

/// A cpupool under Takt.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cpupool {
    pub id: u32,
    pub policy: String,
}

impl Document for Event {
    const NAME: &'static str = "run";
    const VERSION: u32 = 1;
}
