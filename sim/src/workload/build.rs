// SPDX-License-Identifier: GPL-2.0-only
//! The build of a large program, as `make -j` does it (DORIS-E9, PORIS-E8): jobs that read a file from the disk and
//! compile it.

use super::disk::{self, Does, OnDisk};
use crate::constants::Constants;
use crate::keys::SECOND;
use crate::spec::{Entry, Key, Keys, Kind, Spec};
use anyhow::Result;

const MS: u64 = 1_000_000;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// `None` = one per VCPU.
    pub jobs: Option<u32>,
    /// Mean CPU time per file.
    pub work: u64,
    /// What the disk takes for a file.
    pub disk: u64,
}

impl Default for Build {
    fn default() -> Self {
        Self { jobs: None, work: 200 * MS, disk: 5 * MS }
    }
}

impl Spec for Build {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("build of a large program".to_owned())
    }

    fn threads(&self, vcpus: u32) -> u32 {
        self.jobs.unwrap_or(vcpus)
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }

    fn is_batch(&self) -> bool {
        true
    }
}

impl Keys for Build {
    const KIND: Kind = Kind::Build;
    const DOC: &'static str = "jobs that read a file from the disk and compile it, as `make -j` does. See below";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[
        Key::<Self>::count("jobs", (1, 4096), |b| b.jobs, |b, n| b.jobs = Some(n), "files at a time (`make -j`)")
            .or("one per VCPU")
            .within("1 to 64 per VCPU"),
        Key::time(
            "work",
            (1_000, 3_600 * SECOND),
            |b| b.work.into(),
            |b, ns| b.work = ns,
            "mean work per file, exponential",
        ),
        Key::time("disk", (0, SECOND), |b| b.disk.into(), |b, ns| b.disk = ns, "time of the disk per file"),
    ];

    fn agree(vms: &[(Entry, &Self)], c: &Constants) -> Result<()> {
        disk::agree(vms, c)
    }
}

impl OnDisk for Build {
    fn does(&self) -> Does {
        Does { work: self.work, random: true, steps: 1, disk: self.disk }
    }
}
