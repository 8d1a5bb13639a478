// SPDX-License-Identifier: GPL-2.0-only
//! Wakes that meet a VCPU while it is descheduled, by a recording: one that had stopped is boosted, one that was preempted is not
//! (docs/states.md, rule 1).

use std::collections::BTreeMap;
use takt_conformance::LogFile;
use takt_policy::{CUR_STOPS, Class, OpCode, State};

/// How many of them there were.
#[derive(Debug, Default)]
pub struct Seen {
    /// Those of VCPUs that had stopped and had credit, all boosted by their `put`, or promoted.
    pub boosted: u64,
    /// Those of VCPUs that had stopped and had none (OVER: no boost).
    pub over: u64,
    /// Those of VCPUs that were preempted, none of them boosted.
    pub preempted: u64,
}

/// Follows all VCPUs of a recording.
pub fn follow(log: &LogFile) -> Seen {
    let (mut pool, mut seen) = (log.pool().expect("a log of this core"), Seen::default());
    // Of each VCPU that is being descheduled: whether it has stopped, and whether it was woken since.
    let mut descheduled: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
    for r in &log.records {
        let (op, v) = (r.op, u32::from(r.op.vcpu));
        let cur = pool.cur(op.cpu.into());
        let class = pool.class(v);
        pool.op(op);
        match OpCode::from_u16(op.op) {
            Some(OpCode::Epoch) => descheduled.clear(),
            Some(OpCode::Schedule) => {
                if let Some(cur) = cur.filter(|&cur| pool.state(cur) == State::Descheduling) {
                    descheduled.insert(cur, (op.arg[0] & CUR_STOPS != 0, false));
                }
            }
            Some(OpCode::Wake) => {
                if let Some(d) = descheduled.get_mut(&v).filter(|_| pool.state(v) == State::Descheduling) {
                    d.1 = true;
                }
            }
            Some(OpCode::Put) => {
                let Some((stopped, true)) = descheduled.remove(&v) else { continue };
                if pool.state(v) != State::Queued {
                    continue; // paused, or removed
                }
                let boosted = matches!(pool.class(v), Class::Boost | Class::Rt);
                match (stopped, class) {
                    (true, Class::Over) => seen.over += 1,
                    (true, _) => {
                        assert!(boosted, "record {}: VCPU {v} had stopped and was woken", op.seq);
                        seen.boosted += 1;
                    }
                    (false, _) => {
                        assert!(!boosted || class == pool.class(v), "record {}: VCPU {v} was preempted", op.seq);
                        seen.preempted += 1;
                    }
                }
            }
            _ => {}
        }
    }
    seen
}
