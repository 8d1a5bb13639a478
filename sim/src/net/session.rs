// SPDX-License-Identifier: GPL-2.0-only
//! Calls through a media server, of which each direction is a stream of its own.

use super::record::Record;

/// One direction of a call through a media server; when the call is over the next one takes its
/// place.
#[derive(Debug)]
pub struct Session {
    pub mixer: u32,
    /// Number of the present call, and how many there are at a time.
    pub number: u32,
    pub calls: u32,
    /// How long a call lasts, ns.
    pub hold: u64,
    /// How much later than usual a packet may come, ns.
    pub playout: u64,
    /// When the present one ends, ns.
    pub end: u64,
    /// The first sequence number of the present one.
    pub base: u32,
    /// Calls that are over, in their order.
    pub past: Vec<(u32, Record)>,
}

/// One call in so many is scored (docs/scenarios.md).
const SCORED: u32 = 4;
/// A call of which fewer packets lie in the measured window is not: 5 s.
const LEAST: u64 = 250;

impl Session {
    /// The calls of stream `stream` that are scored, each with a number of its own; `present` is
    /// the one that has not ended.
    pub fn scored<'a>(&'a self, stream: u32, present: &'a Record) -> impl Iterator<Item = (u32, &'a Record)> {
        let all = self.past.iter().map(|(number, record)| (*number, record)).chain([(self.number, present)]);
        all.filter(|(number, record)| number % SCORED == 0 && record.packets() >= LEAST)
            .map(move |(number, record)| (2 * number + stream % 2, record))
    }
}
