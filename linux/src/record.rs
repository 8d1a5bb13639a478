// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of the live pools, each of its own: the configuration as operations, an epoch, and what has happened since.
//!
//! The kernel writes records into a ring a pool that is mapped here; who does not read it fast enough has no recording.

use crate::scheduler::{Epoch, Scheduler};
use crate::shared::Snapshot;
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::MapCore;
use memmap2::MmapRaw;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use takt_conformance::{Beginning, LogFile};
use takt_control::partition::Side;
use takt_policy::{Op, OpCode, Record};

/// `LOG_LEN` and where the records begin (`struct log` of `bpf/host.h`).
const RING: u64 = 1 << 17;
const FIRST: usize = 64;
/// Most operations of a recording: about a gigabyte.
pub const LONGEST: u64 = 10_000_000;
/// Attempts to begin while the configuration changes.
const ATTEMPTS: u32 = 10;

/// A recording under way.
pub struct Recorder {
    ring: Ring,
    parts: Vec<Part>,
}

/// Of one pool.
struct Part {
    side: Side,
    /// Records in the ring before the first one.
    base: u64,
    begin: Beginning,
    live: Vec<Record>,
}

impl Recorder {
    /// Starts: rebuilds the pools' dynamic state by an epoch, which costs every VM its credit and its place once.
    ///
    /// # Errors
    /// A recording is under way, or the configuration changes all the time.
    pub fn start(scheduler: &Scheduler) -> Result<Self> {
        let ring = Ring::open(scheduler)?;
        ensure!(!scheduler.snapshot()?.recording(), "a recording is in progress");
        for _ in 0..ATTEMPTS {
            let sides: Vec<Side> = scheduler.peek()?.pools().map(|(side, _)| side).collect();
            let epochs = sides.iter().map(|&s| Ok((s, scheduler.begin_recording(s)?))).collect::<Result<Vec<_>>>()?;
            let snapshot = scheduler.snapshot()?;
            if epochs.iter().any(|(_, epoch)| snapshot.config_generation() != epoch.generation) {
                scheduler.end_recording()?;
                continue;
            }
            let part = |(side, epoch): (Side, Epoch)| {
                let policy = snapshot.on(side).policy().to_owned();
                let begin = Beginning { policy, configuration: configuration(&snapshot, side), epoch: epoch.now };
                Part { side, base: epoch.position, begin, live: Vec::new() }
            };
            return Ok(Self { ring, parts: epochs.into_iter().map(part).collect() });
        }
        bail!("VMs come and go too fast: the recording could not start in {ATTEMPTS} attempts")
    }

    /// Fetches what there is; to be called a few times per second.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn fetch(&mut self) -> Result<()> {
        for part in &mut self.parts {
            let from = part.base + part.live.len() as u64;
            part.live.extend(self.ring.read(part.side, from)?);
        }
        Ok(())
    }

    /// Operations since the epoch, of the pool that has most.
    pub fn operations(&self) -> u64 {
        self.parts.iter().map(|p| p.live.len() as u64).max().unwrap_or(0)
    }

    /// Ends it: a log a pool. At most `most` operations of each are kept; the final pool is known only without such a cut.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn finish(mut self, scheduler: &Scheduler, most: Option<u64>) -> Result<Vec<LogFile>> {
        let last = scheduler.snapshot();
        scheduler.end_recording()?;
        self.fetch()?;
        let last = last?;
        self.parts.into_iter().map(|p| p.begin.assemble(p.live, last.on(p.side), most)).collect()
    }
}

/// The operations that build a pool of `snapshot` as its epoch found it.
fn configuration(snapshot: &Snapshot, side: Side) -> Vec<Op> {
    let mut all = snapshot.on(side).describe();
    for op in all.iter_mut().filter(|op| op.op == OpCode::VcpuAdd as u16) {
        op.cpu = snapshot.epoch_cpu(op.vcpu.into());
    }
    all
}

/// Bytes of `struct log`.
const LOG: usize = FIRST + RING as usize * size_of::<Record>();

/// The kernel's rings, mapped.
struct Ring {
    map: MmapRaw,
}

impl Ring {
    fn open(scheduler: &Scheduler) -> Result<Self> {
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

    /// Records `from..` of the pool on that side, all that are whole.
    fn read(&self, side: Side, from: u64) -> Result<Vec<Record>> {
        let log = if side == Side::Rt { LOG } else { 0 };
        let head = self.head(log);
        ensure!(from <= head, "the operation log was restarted");
        let whole = |head: u64| head - from < RING; // the next record overwrites one
        ensure!(whole(head), "the recording is lost: more than {RING} operations between two reads");
        let slot = |i: u64| log + FIRST + (i % RING) as usize * size_of::<Record>();
        // SAFETY: within the map (a slot is below RING); whether the kernel wrote meanwhile is looked at afterwards.
        let copy = |i: u64| unsafe { self.map.as_ptr().add(slot(i)).cast::<Record>().read_volatile() };
        let records = (from..head).map(copy).collect();
        ensure!(whole(self.head(log)), "the recording is lost: more than {RING} operations between two reads");
        Ok(records)
    }
}

#[cfg(test)]
mod tests;
