// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of a cpupool: its configuration as operations, an epoch, and what has happened since.
//!
//! The hypervisor keeps the last records in a ring; who does not read it fast enough has no recording.

use crate::host::{TaktPool, Xen};
use crate::refusal::refused;
use crate::wire::{self, Act};
use anyhow::{Result, anyhow};
use takt_conformance::{Beginning, LogFile};
use takt_policy::{Pool, Record};

/// Records that the hypervisor keeps: 14 MB of its memory while it records, and until the cpupool goes.
const RING: u64 = 1 << 17;
/// Most records that are asked for at a time.
const SOME: usize = 1024;
/// Most operations of a recording: about a gigabyte.
pub const LONGEST: u64 = 10_000_000;

/// A recording under way. Dropped, it ends.
pub struct Recorder<'a> {
    host: &'a Xen,
    pool: TaktPool,
    begin: Beginning,
    records: Vec<Record>,
    /// It has not ended yet.
    ours: bool,
}

impl<'a> Recorder<'a> {
    /// Starts: rebuilds the pool's dynamic state by an epoch, which costs every VM its credit and its place once. One that
    /// is under way ends.
    ///
    /// # Errors
    /// The hypervisor has no memory for it, or a core of another build.
    pub fn start(host: &'a Xen, pool: TaktPool) -> Result<Self> {
        // Before anything changes: a core that this build does not know cannot be recorded.
        host.snapshot(&pool, false)?;
        command(host, &pool, RING)?;
        let saved = host.snapshot(&pool, true);
        if saved.is_err() {
            command(host, &pool, 0)?;
        }
        let saved: Pool = saved?;
        let begin =
            Beginning { policy: saved.policy().to_owned(), configuration: saved.describe(), epoch: saved.now() };
        Ok(Self { host, pool, begin, records: Vec::new(), ours: true })
    }

    /// Fetches what there is; to be called a few times per second.
    ///
    /// # Errors
    /// Records have been overwritten, or somebody else has begun a recording.
    pub fn fetch(&mut self) -> Result<()> {
        let mut bytes = vec![0; SOME * size_of::<Record>()];
        // Fetching makes operations, too: what comes meanwhile is for the next time.
        let mut until = None;
        loop {
            let arg = [self.records.len() as u64, SOME as u64, 0];
            let answer = self.host.ask_pool(&self.pool, Act::Get, wire::LOG, arg, &mut bytes);
            let [_, n, head] = answer.map_err(|e| match e.raw_os_error() {
                Some(libc::ENODATA) => anyhow!("the recording is lost: more than {RING} operations between two reads"),
                Some(libc::ERANGE) => self.taken(),
                _ => refused(&e, &format!("cpupool {}: its recording", self.pool.id)),
            })?;
            let n = (n as usize).min(SOME);
            self.records.extend(wire::read_all::<Record>(&bytes[..n * size_of::<Record>()]));
            // No more than the ring holds, whatever the head is said to be.
            let until = *until.get_or_insert(head.min(arg[0].saturating_add(RING)));
            if n == 0 || self.operations() >= until {
                return Ok(());
            }
        }
    }

    /// Operations since the epoch.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.records.len() as u64
    }

    /// Ends it. At most `most` operations are kept; the final pool is known only without such a cut.
    ///
    /// # Errors
    /// Records have been overwritten, or somebody else has begun a recording.
    pub fn finish(mut self, most: Option<u64>) -> Result<LogFile> {
        if self.host.snapshot(&self.pool, true)?.now() != self.begin.epoch {
            return Err(self.taken());
        }
        command(self.host, &self.pool, 0)?;
        self.ours = false;
        self.fetch()?;
        let last = self.host.snapshot(&self.pool, true)?;
        self.begin.assemble(std::mem::take(&mut self.records), &last, most)
    }

    /// The present recording is another's, and not to be ended here.
    fn taken(&mut self) -> anyhow::Error {
        self.ours = false;
        anyhow!("the recording is lost: another recording was started")
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if self.ours {
            // Whoever drops it has another error to tell.
            let _ = command(self.host, &self.pool, 0);
        }
    }
}

fn command(host: &Xen, pool: &TaktPool, len: u64) -> Result<()> {
    let answer = host.ask_pool(pool, Act::Put, wire::RECORD, [len, 0, 0], &mut []);
    answer.map(drop).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOMEM) => anyhow!("cpupool {}: the hypervisor has no memory for a recording", pool.id),
        _ => refused(&e, &format!("cpupool {}: recording", pool.id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use takt_conformance::{LogFile, replay};
    use takt_policy::{Source, State};

    /// What a busy host does: VCPUs wake, run and sleep.
    fn work(fake: &Fake, rounds: u32) {
        let mut state = fake.state();
        for round in 0..rounds {
            let (cpu, v) = (round % 2, round % 6);
            if state.pool.state(v) == State::Blocked {
                state.act(|p, now| p.wake(now, v, Source::Io)).unwrap();
            }
            state.act(|p, now| p.schedule(now, cpu, 0).map(drop)).unwrap();
            if let Some(v) = state.pool.cur(cpu).filter(|v| state.pool.state(*v) == State::Picked) {
                state.act(|p, now| p.started(now, v)).unwrap();
            }
        }
    }

    #[test]
    fn recordings_replay() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let pool = host.pool(None).unwrap();
        host.set(&host.find("voip").unwrap(), "weight", 512).unwrap();
        work(&fake, 20);
        let mut recorder = Recorder::start(&host, pool).unwrap();
        work(&fake, 4);
        recorder.fetch().unwrap();
        let before = recorder.operations();
        fake.state().restless = true;
        recorder.fetch().unwrap();
        work(&fake, 4);
        let log = recorder.finish(None).unwrap();
        assert!(before > 4 && log.pool_hash != 0 && log.policy == "doris");
        let log = LogFile::from_bytes(&log.to_bytes().unwrap()).unwrap();
        replay(&log).unwrap();
    }

    #[test]
    fn a_cut_recording_replays_without_its_pool() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let recorder = Recorder::start(&host, host.pool(None).unwrap()).unwrap();
        work(&fake, 8);
        let log = recorder.finish(Some(3)).unwrap();
        assert_eq!(log.pool_hash, 0);
        replay(&log).unwrap();
    }

    #[test]
    fn what_is_lost_is_told() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let mut recorder = Recorder::start(&host, host.pool(None).unwrap()).unwrap();
        work(&fake, 8);
        fake.state().lost = 4;
        assert!(recorder.fetch().unwrap_err().to_string().contains("more than 131072 operations"));
    }

    #[test]
    fn a_second_recording_ends_the_first_and_is_whole() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let pool = host.pool(None).unwrap();
        let first = Recorder::start(&host, pool).unwrap();
        let mut early = Recorder::start(&host, pool).unwrap();
        work(&fake, 8);
        early.fetch().unwrap();
        let second = Recorder::start(&host, pool).unwrap();
        assert!(early.fetch().unwrap_err().to_string().contains("another recording was started"));
        drop(early);
        work(&fake, 8);
        assert!(first.finish(None).unwrap_err().to_string().contains("another recording was started"));
        work(&fake, 8);
        let log = second.finish(None).unwrap();
        assert!(log.pool_hash != 0);
        replay(&log).unwrap();
    }
}
