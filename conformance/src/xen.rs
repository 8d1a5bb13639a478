// SPDX-License-Identifier: GPL-2.0-only
//! A recording of the Xen host: the pool's bytes when it began and when it ended, and what was done between.

use crate::log::records;
use crate::{Beginning, LogFile};
use anyhow::{Context, Result, ensure};
use takt_policy::Pool;

/// The log that replays from an empty pool: the configuration at the beginning, its epoch, and the recorded operations.
///
/// # Errors
/// The pools are of another core, or operations are missing.
pub fn assemble(begin: &[u8], log: &[u8], end: &[u8]) -> Result<LogFile> {
    let first = Pool::from_bytes(begin).context("the beginning is no pool of this core")?;
    let last = Pool::from_bytes(end).context("the end is no pool of this core")?;
    let live = records(log)?;
    let done = last.operations().saturating_sub(first.operations());
    ensure!(live.len() as u64 == done, "{} of {done} operations are recorded", live.len());
    let begin = Beginning { policy: first.policy().to_owned(), configuration: first.describe(), epoch: first.now() };
    begin.assemble(live, &last, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Run, Shape, log::put_record, maker, replay};
    use takt_policy::{Op, OpCode};

    /// A live pool as the hypervisor saves it: random operations, an epoch, more of them.
    fn saved() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let shape = Shape::ALL.into_iter().find(|s| s.cpus == 4).unwrap();
        let mut run = Run::new(maker(None).unwrap()("doris").unwrap(), 7, shape, Mode::Chaos, 1 << 20);
        let mut pool = Pool::new("doris").unwrap();
        for r in &run.steps(3_000, true).unwrap() {
            pool.op(r.op);
        }
        pool.epoch(pool.now() + 5).unwrap();
        let begin = pool.bytes().to_vec();
        pool.record();
        for n in 1..200 {
            pool.op(Op { op: OpCode::TimerPool as u16, now: pool.now() + n * 1_000_000, ..Op::default() });
        }
        let mut log = Vec::new();
        pool.take_log().iter().for_each(|r| put_record(&mut log, r));
        (begin, log, pool.bytes().to_vec())
    }

    #[test]
    fn what_was_saved_replays() {
        let (begin, log, end) = saved();
        let file = assemble(&begin, &log, &end).unwrap();
        assert_eq!(replay(&file).unwrap(), file.pool_hash);
    }

    #[test]
    fn what_is_incomplete_is_no_log() {
        let (begin, log, end) = saved();
        assert!(assemble(&begin, &log[104..], &end).is_err());
        assert!(assemble(&begin, &log[1..], &end).is_err());
        assert!(assemble(&begin[1..], &log, &end).is_err());
        assert!(assemble(&begin, &log, &[]).is_err());
    }
}
