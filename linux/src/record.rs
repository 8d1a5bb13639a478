// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of the live pools, each of its own: a copy of the pool, and what has happened since.
//!
//! The kernel writes records into a ring a pool that is mapped here; who does not read it fast enough has no recording.

use crate::scheduler::Scheduler;
use anyhow::{Context, Result, ensure};
use libbpf_rs::MapCore;
use memmap2::MmapRaw;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use takt_conformance::{LogFile, log_between};
use takt_control::partition::Side;
use takt_policy::{Pool, Record};

/// `LOG_LEN` and where the records begin (`struct log` of `bpf/host.h`).
const RING: u64 = 1 << 17;
const FIRST: usize = 64;
/// Most operations of a recording: about a gigabyte.
pub const LONGEST: u64 = 10_000_000;

/// A recording under way.
pub struct Recorder {
    ring: Ring,
    parts: Vec<Part>,
}

/// Of one pool.
struct Part {
    side: Side,
    /// As it was when the recording began.
    first: Pool,
    live: Vec<Record>,
}

impl Recorder {
    /// Starts with the pools as they are; the kernel records already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(scheduler: &Scheduler) -> Result<Self> {
        let ring = Ring::open(scheduler)?;
        let snapshot = scheduler.snapshot()?;
        let part = |(side, pool): (Side, &Pool)| Part { side, first: pool.clone(), live: Vec::new() };
        Ok(Self { ring, parts: snapshot.pools().map(part).collect() })
    }

    /// Fetches what there is; to be called a few times per second.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn fetch(&mut self) -> Result<()> {
        for part in &mut self.parts {
            let from = part.first.operations() + part.live.len() as u64;
            self.ring.read(part.side, from, &mut part.live)?;
        }
        Ok(())
    }

    /// Operations since it began, of the pool that has most.
    pub fn operations(&self) -> u64 {
        self.parts.iter().map(|p| p.live.len() as u64).max().unwrap_or(0)
    }

    /// Ends it: a log a pool. At most `most` operations of each are kept; the final pool is known only without such a cut.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn finish(mut self, scheduler: &Scheduler, most: Option<u64>) -> Result<Vec<LogFile>> {
        let last = scheduler.snapshot()?;
        self.fetch()?;
        self.parts.into_iter().map(|p| log_between(&p.first, p.live, last.on(p.side), most)).collect()
    }
}

/// Bytes of `struct log`.
const LOG: usize = FIRST + RING as usize * size_of::<Record>();

/// The kernel's rings, mapped.
pub(crate) struct Ring {
    map: MmapRaw,
}

impl Ring {
    pub(crate) fn open(scheduler: &Scheduler) -> Result<Self> {
        let map = scheduler.map("logs")?;
        let size = map.value_size() as usize;
        ensure!(size == LOG || size == 2 * LOG, "the BPF objects are from another build");
        let map = memmap2::MmapOptions::new().len(size).map_raw_read_only(&map.as_fd());
        Ok(Self { map: map.context("the operation log cannot be mapped")? })
    }

    fn head(&self, log: usize) -> u64 {
        // SAFETY: a log begins with this word, aligned; the kernel writes it as a whole.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(log).cast()) }.load(Ordering::Acquire)
    }

    /// Appends the operations after the `from`th of the pool on that side, all that are whole.
    ///
    /// # Errors
    /// Some have been overwritten.
    pub(crate) fn read(&self, side: Side, from: u64, into: &mut Vec<Record>) -> Result<()> {
        let log = if side == Side::Rt { LOG } else { 0 };
        // It stands still while nothing is recorded.
        let head = self.head(log).max(from);
        let whole = |head: u64| head - from < RING; // the next record overwrites one
        ensure!(whole(head), "the recording is lost: more than {RING} operations between two reads");
        let slot = |i: u64| log + FIRST + (i % RING) as usize * size_of::<Record>();
        // SAFETY: within the map (a slot is below RING); whether the kernel wrote meanwhile is looked at afterwards.
        let copy = |i: u64| unsafe { self.map.as_ptr().add(slot(i)).cast::<Record>().read_volatile() };
        let kept = into.len();
        into.extend((from..head).map(copy));
        if !whole(self.head(log).max(from)) {
            into.truncate(kept);
            anyhow::bail!("the recording is lost: more than {RING} operations between two reads");
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
