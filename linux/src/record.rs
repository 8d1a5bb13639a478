// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of the live pool: its configuration as operations, an epoch, and what has happened since.
//!
//! The kernel writes records into a ring that is mapped here; who does not read it fast enough has no recording.

use crate::scheduler::Scheduler;
use crate::shared::Snapshot;
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::MapCore;
use memmap2::MmapRaw;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use takt_conformance::{Beginning, LogFile};
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
    /// Records in the ring before the first one.
    base: u64,
    begin: Beginning,
    live: Vec<Record>,
}

impl Recorder {
    /// Starts: rebuilds the pool's dynamic state by an epoch, which costs every VM its credit and its place once.
    ///
    /// # Errors
    /// A recording is under way, or the configuration changes all the time.
    pub fn start(scheduler: &Scheduler) -> Result<Self> {
        let ring = Ring::open(scheduler)?;
        ensure!(!scheduler.snapshot()?.recording(), "a recording is under way");
        for _ in 0..ATTEMPTS {
            let epoch = scheduler.begin_recording()?;
            let snapshot = scheduler.snapshot()?;
            if snapshot.config_generation() != epoch.generation {
                scheduler.end_recording()?;
                continue;
            }
            let policy = snapshot.pool.policy().to_owned();
            let begin = Beginning { policy, configuration: configuration(&snapshot), epoch: epoch.now };
            return Ok(Self { ring, base: epoch.position, begin, live: Vec::new() });
        }
        bail!("VMs come and go too fast: no recording could begin in {ATTEMPTS} attempts")
    }

    /// Fetches what there is; to be called a few times per second.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn fetch(&mut self) -> Result<()> {
        let from = self.base + self.live.len() as u64;
        self.live.extend(self.ring.read(from)?);
        Ok(())
    }

    /// Operations since the epoch.
    pub fn operations(&self) -> u64 {
        self.live.len() as u64
    }

    /// Ends it. At most `most` operations are kept; the final pool is known only without such a cut.
    ///
    /// # Errors
    /// Records have been overwritten.
    pub fn finish(mut self, scheduler: &Scheduler, most: Option<u64>) -> Result<LogFile> {
        let last = scheduler.snapshot();
        scheduler.end_recording()?;
        self.fetch()?;
        let last = last?;
        self.begin.assemble(self.live, &last.pool, most)
    }
}

/// The operations that build the pool of `snapshot` as its epoch found it.
fn configuration(snapshot: &Snapshot) -> Vec<Op> {
    let mut all = snapshot.pool.describe();
    for op in all.iter_mut().filter(|op| op.op == OpCode::VcpuAdd as u16) {
        op.cpu = snapshot.epoch_cpu(op.vcpu.into());
    }
    all
}

/// The kernel's ring, mapped.
struct Ring {
    map: MmapRaw,
}

impl Ring {
    fn open(scheduler: &Scheduler) -> Result<Self> {
        let map = scheduler.map("logs")?;
        let size = FIRST + RING as usize * size_of::<Record>();
        ensure!(map.value_size() as usize == size, "the BPF objects are of another build");
        let map = memmap2::MmapOptions::new().len(size).map_raw_read_only(&map.as_fd());
        Ok(Self { map: map.context("the log of operations cannot be mapped")? })
    }

    fn head(&self) -> u64 {
        // SAFETY: the value begins with this word, aligned; the kernel writes it as a whole.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast()) }.load(Ordering::Acquire)
    }

    /// Records `from..`, all that are whole.
    fn read(&self, from: u64) -> Result<Vec<Record>> {
        let head = self.head();
        ensure!(from <= head, "the log of operations has been started again");
        let whole = |head: u64| head - from < RING; // the next record overwrites one
        ensure!(whole(head), "the recording is lost: more than {RING} operations between two looks");
        let slot = |i: u64| FIRST + (i % RING) as usize * size_of::<Record>();
        // SAFETY: within the map (a slot is below RING); whether the kernel wrote meanwhile is looked at afterwards.
        let copy = |i: u64| unsafe { self.map.as_ptr().add(slot(i)).cast::<Record>().read_volatile() };
        let records = (from..head).map(copy).collect();
        ensure!(whole(self.head()), "the recording is lost: more than {RING} operations between two looks");
        Ok(records)
    }
}
