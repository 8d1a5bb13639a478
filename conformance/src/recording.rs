// SPDX-License-Identifier: GPL-2.0-only
//! From what a live host records to a log that replays: its pool's configuration, an epoch, and what has happened since.

use crate::{LogFile, hash};
use anyhow::{Context, Result, ensure};
use takt_policy::{Op, OpCode, Pool, Record};

/// What a recording has to be told first.
pub struct Beginning {
    pub policy: String,
    /// The operations that build the pool as the epoch found it ([`Pool::describe`]).
    pub configuration: Vec<Op>,
    /// Time of the epoch, ns.
    pub epoch: u64,
}

impl Beginning {
    /// The log: configuration and epoch as the native core performs them, then the host's records up to the one that left
    /// the pool as it is in `last`. At most `most` of them are kept; the final pool is known only without such a cut.
    ///
    /// # Errors
    /// Records are missing, or the pool is none that an epoch has begun.
    pub fn assemble(&self, mut live: Vec<Record>, last: &Pool, most: Option<u64>) -> Result<LogFile> {
        let kept = last.operations().checked_sub(1).context("the pool has seen no epoch")?; // which is its first operation
        ensure!(live.len() as u64 >= kept, "the recording has {} records, the pool has seen {kept}", live.len());
        let cut = most.filter(|m| *m < kept);
        live.truncate(cut.unwrap_or(kept) as usize);
        let mut pool = Pool::new(&self.policy).with_context(|| format!("unknown policy `{}`", self.policy))?;
        pool.record();
        for op in &self.configuration {
            pool.op(Op { now: self.epoch, ..*op });
        }
        pool.op(Op { op: OpCode::Epoch as u16, now: self.epoch, ..Op::default() });
        let mut records = pool.take_log();
        records.extend(live);
        for (seq, record) in (1..).zip(&mut records) {
            record.op.seq = seq;
        }
        let pool_hash = if cut.is_some() { 0 } else { hash(last.bytes()) };
        let pool_size = last.bytes().len() as u64;
        Ok(LogFile { policy: self.policy.clone(), pool_size, pool_hash, records, ..LogFile::default() })
    }
}

/// The log of what became of the pool `first`: the records that it saw next, up to the one that left it as it is in `last`. At
/// most `most` of them are kept; the final pool is known only without such a cut.
///
/// # Errors
/// Records are missing, or `last` is not later than `first`.
pub fn log_between(first: &Pool, mut records: Vec<Record>, last: &Pool, most: Option<u64>) -> Result<LogFile> {
    let kept = last.operations().checked_sub(first.operations()).context("the pool has begun again")?;
    ensure!(records.len() as u64 >= kept, "the recording has {} records, the pool has seen {kept}", records.len());
    let cut = most.filter(|m| *m < kept);
    records.truncate(cut.unwrap_or(kept) as usize);
    for (seq, record) in (1..).zip(&mut records) {
        record.op.seq = seq;
    }
    let pool_hash = if cut.is_some() { 0 } else { hash(last.bytes()) };
    let (policy, pool_size) = (first.policy().to_owned(), first.bytes().len() as u64);
    Ok(LogFile { policy, pool_size, pool_hash, start: first.bytes().to_vec(), records, ..LogFile::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Run, Shape, maker, replay};

    /// A live pool: random operations, an epoch, more of them.
    fn live(more: usize) -> (Beginning, Vec<Record>, Pool) {
        let shape = Shape::ALL.into_iter().find(|s| s.cpus == 4).unwrap();
        let mut run = Run::new(maker(None).unwrap()("doris").unwrap(), 7, shape, Mode::Chaos, 1 << 20);
        let first = run.steps(3_000, true).unwrap();
        let mut pool = Pool::new("doris").unwrap();
        for r in &first {
            pool.op(r.op);
        }
        let epoch = pool.now() + 5;
        // Where VCPUs belong is what the kernel notes at the epoch.
        let configuration = pool.describe();
        pool.epoch(epoch).unwrap();
        pool.record();
        for n in 0..more as u64 {
            pool.op(Op { op: OpCode::TimerPool as u16, now: epoch + n * 1_000_000, ..Op::default() });
        }
        let records = pool.take_log();
        (Beginning { policy: "doris".into(), configuration, epoch }, records, pool)
    }

    #[test]
    fn recordings_replay() {
        let (begin, records, pool) = live(200);
        let log = begin.assemble(records, &pool, None).unwrap();
        assert_eq!(log.pool_hash, hash(pool.bytes()));
        replay(&log).unwrap();
    }

    #[test]
    fn records_beyond_the_snapshot_are_cut_off() {
        let (begin, records, mut pool) = live(200);
        let before = pool.clone();
        let mut more = records;
        more.push(Record {
            op: Op { op: OpCode::TimerPool as u16, now: pool.now() + 1, ..Op::default() },
            ..Record::default()
        });
        pool.timer_pool(0).unwrap();
        let log = begin.assemble(more.clone(), &before, None).unwrap();
        replay(&log).unwrap();
        let short = begin.assemble(more, &before, Some(50)).unwrap();
        assert_eq!((short.pool_hash, short.records.len()), (0, begin.configuration.len() + 51));
        replay(&short).unwrap();
    }

    #[test]
    fn missing_records_are_told() {
        let (begin, mut records, pool) = live(20);
        records.pop();
        let error = begin.assemble(records, &pool, None).unwrap_err().to_string();
        assert!(error.contains("19 records") && error.contains("seen 20"), "{error}");
    }
}
