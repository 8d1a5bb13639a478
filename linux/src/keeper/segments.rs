// SPDX-License-Identifier: GPL-2.0-only
//! The last operations of a pool, in segments: each begins with a copy of the pool, so that a log may begin with any of them.

use anyhow::{Context, Result};
use std::collections::VecDeque;
use takt_conformance::{LogFile, log_between};
use takt_policy::{Pool, Record};

/// Into how many parts the memory is divided; of what a segment needs besides its operations there are as many.
const PARTS: usize = 32;

struct Segment {
    /// Before the first of its operations.
    first: Pool,
    records: Vec<Record>,
}

impl Segment {
    fn bytes(&self) -> usize {
        self.first.bytes().len() + self.records.len() * size_of::<Record>()
    }
}

/// Of one pool.
pub struct Segments {
    all: VecDeque<Segment>,
    /// Operations of a segment.
    each: usize,
    /// Bytes of all.
    most: usize,
}

impl Segments {
    /// `most` bytes.
    pub fn new(most: usize) -> Self {
        let mut new = Self { all: VecDeque::new(), each: 0, most: 0 };
        new.limit(most);
        new
    }

    /// From the next operation on, `most` bytes.
    pub fn limit(&mut self, most: usize) {
        let each = (most / PARTS).saturating_sub(takt_policy::pool_size()) / size_of::<Record>();
        (self.each, self.most) = (each.max(1), most);
    }

    /// Begins again with this pool: operations have been lost.
    pub fn restart(&mut self, pool: &Pool) {
        self.all.clear();
        self.begin(pool);
    }

    fn begin(&mut self, pool: &Pool) {
        self.all.push_back(Segment { first: pool.clone(), records: Vec::with_capacity(self.each) });
    }

    /// Keeps an operation, after which the pool is `pool`. The oldest goes for it.
    pub fn push(&mut self, record: Record, pool: &Pool) {
        let Some(last) = self.all.back_mut() else { return };
        last.records.push(record);
        if last.records.len() < self.each {
            return;
        }
        self.begin(pool);
        while self.all.len() > 1 && self.bytes() > self.most {
            self.all.pop_front();
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.all.iter().map(Segment::bytes).sum()
    }

    /// Since when operations are known, ns.
    pub fn since(&self) -> Option<u64> {
        self.all.front().map(|s| s.first.now())
    }

    /// The log from the segment in which `from` (ns) lies, or the oldest, up to now, when the pool is `pool`.
    ///
    /// # Errors
    /// Nothing is kept; as of [`log_between`].
    pub fn log(&self, from: u64, pool: &Pool) -> Result<LogFile> {
        let at = self.all.iter().rposition(|s| s.first.now() <= from).unwrap_or(0);
        let records = self.all.range(at..).flat_map(|s| &s.records).copied().collect();
        log_between(&self.all.get(at).context("no operations are kept")?.first, records, pool, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_conformance::{Checker, Limits, Mode, Run, Shape, maker, replay};
    use takt_policy::OpCode;

    /// The times of the operations.
    fn feed(run: &mut Run, steps: u64, pool: &mut Pool, segments: &mut Segments) -> Vec<u64> {
        let mut times = Vec::new();
        for r in run.steps(steps, true).unwrap() {
            // What no log has, and what no host does that records by copies.
            if OpCode::from_u16(r.op.op).is_none_or(|code| code == OpCode::Epoch) {
                continue;
            }
            let res = pool.op(r.op);
            segments.push(Record { op: r.op, res }, pool);
            times.push(pool.now());
        }
        times
    }

    #[test]
    fn every_segment_is_the_beginning_of_a_log() {
        let size = takt_policy::pool_size() + 300 * size_of::<Record>();
        let mut segments = Segments::new(PARTS * size);
        let shape = Shape::ALL.into_iter().find(|s| s.cpus == 4).unwrap();
        let mut run = Run::new(maker(None).unwrap()("doris").unwrap(), 7, shape, Mode::Chaos, 1 << 20);
        let mut pool = Pool::new("doris").unwrap();
        segments.restart(&pool);
        let times = feed(&mut run, 20_000, &mut pool, &mut segments);
        assert!(segments.bytes() <= PARTS * size && segments.bytes() > PARTS * size / 2, "{}", segments.bytes());
        let known = segments.since().unwrap();
        assert!(known > times[5_000] && known < times[15_000]);
        for from in [0, known, times[15_000], u64::MAX] {
            let log = segments.log(from, &pool).unwrap();
            replay(&log).unwrap();
            let mut checker = Checker::of_log(&log, Limits { skew: 1 << 40, ..Limits::of("doris") }).unwrap();
            log.records.iter().try_for_each(|r| checker.step(r)).unwrap();
            assert_eq!(LogFile::from_bytes(&log.to_bytes().unwrap()).unwrap(), log);
        }
        let few = segments.log(u64::MAX, &pool).unwrap().records.len();
        assert!(few < 300, "{few}");
        // With less memory it goes on, and the oldest are gone with the next segment.
        segments.limit(PARTS * size * 3 / 4);
        feed(&mut run, 1_000, &mut pool, &mut segments);
        assert!(segments.bytes() <= PARTS * size * 3 / 4, "{}", segments.bytes());
        replay(&segments.log(0, &pool).unwrap()).unwrap();
        segments.restart(&pool);
        assert!(segments.log(0, &pool).unwrap().records.is_empty());
    }
}
