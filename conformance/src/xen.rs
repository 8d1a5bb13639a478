// SPDX-License-Identifier: GPL-2.0-only
//! A recording of the Xen host: the pool's bytes when it began and when it ended, and what was done between.

use crate::log::records;
use crate::{LogFile, hash};
use anyhow::{Context, Result, ensure};
use takt_policy::{Op, OpCode, Pool};

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
    let mut pool = Pool::new(first.policy()).context("the policy is unknown")?;
    pool.record();
    for op in first.describe() {
        pool.op(Op { now: first.now(), ..op });
    }
    pool.op(Op { op: OpCode::Epoch as u16, now: first.now(), ..Op::default() });
    let mut all = pool.take_log();
    all.extend(live);
    for (seq, record) in (1..).zip(&mut all) {
        record.op.seq = seq;
    }
    let policy = first.policy().to_owned();
    Ok(LogFile { policy, pool_size: end.len() as u64, pool_hash: hash(last.bytes()), records: all })
}
