// SPDX-License-Identifier: GPL-2.0-only
//! A mail server's disk load as the benchmark Postmark makes it (DORIS-E9, PORIS-E8): one job of short transactions on
//! many small files. Most transactions find their file in the guest's memory.

use super::disk::{Does, OnDisk};
use crate::constants::Constants;
use crate::keys::SECOND;
use crate::spec::{Key, Keys, Kind, Spec};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postmark {
    /// CPU time per transaction.
    pub work: u64,
    /// Transactions from one that waits for the disk to the next.
    pub cached: u32,
    /// What the disk takes for that one.
    pub disk: u64,
}

impl Default for Postmark {
    fn default() -> Self {
        Self { work: 100 * US, cached: 20, disk: 2 * MS }
    }
}

impl Spec for Postmark {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("transactions on small files".to_owned())
    }

    fn threads(&self, _vcpus: u32) -> u32 {
        1
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }

    fn is_batch(&self) -> bool {
        true
    }
}

impl Keys for Postmark {
    const KIND: Kind = Kind::Postmark;
    const DOC: &'static str = "a thread of transactions on small files, modelled on the benchmark Postmark. See below";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[
        Key::time("work", (US, SECOND), |p| p.work.into(), |p, ns| p.work = ns, "work per transaction"),
        Key::count(
            "cached",
            (1, 1_000_000),
            |p| p.cached.into(),
            |p, n| p.cached = n,
            "transactions; one of them waits for the disk",
        ),
        Key::time("disk", (0, SECOND), |p| p.disk.into(), |p, ns| p.disk = ns, "time of the disk for that transaction"),
    ];
}

impl OnDisk for Postmark {
    fn does(&self) -> Does {
        Does { work: self.work, random: false, steps: self.cached, disk: self.disk }
    }
}
