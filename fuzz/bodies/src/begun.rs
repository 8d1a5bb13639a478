// SPDX-License-Identifier: GPL-2.0-only
//! Logs that begin with a copy of a pool. Such a copy is larger than any input, so an input says what to damage of a sound log.

use crate::judged;
use std::sync::OnceLock;
use takt_conformance::{LogFile, Mode, Run, Shape, log_between, maker};
use takt_policy::Pool;

/// Operations of a host, and those of them before the copy.
const OPERATIONS: u64 = 250;
const BEFORE: usize = 150;
/// Most bytes that an input changes.
const CHANGES: usize = 64;
/// Bytes of the input for each: which place (see [`place`]), and the new value.
const CHANGE: usize = 6;

/// A log of a random host under each policy, and where in its pool is anything but 0.
fn logs() -> &'static [(LogFile, Vec<usize>)] {
    static LOGS: OnceLock<Vec<(LogFile, Vec<usize>)>> = OnceLock::new();
    LOGS.get_or_init(|| {
        let log = |policy: &str| {
            let core = maker(None).expect("the native core")(policy).expect("a policy");
            let records = Run::new(core, 1, Shape::ALL[0], Mode::Chaos, 1 << 20).steps(OPERATIONS, true);
            let records = records.expect("a sound core");
            let (before, after) = records.split_at(BEFORE);
            let mut pool = Pool::new(policy).expect("a policy");
            before.iter().for_each(|r| _ = pool.op(r.op));
            let first = pool.clone();
            after.iter().for_each(|r| _ = pool.op(r.op));
            let log = log_between(&first, after.to_vec(), &pool, None).expect("a log");
            let used = (0..log.start.len()).filter(|&n| log.start[n] != 0).collect();
            (log, used)
        };
        takt_policy::policies().iter().map(|p| log(p.name)).collect()
    })
}

/// Where a change is made, of `len` bytes: mostly in what is `used`, or near it.
fn place(change: &[u8], used: &[usize], len: usize) -> usize {
    let n = u32::from_le_bytes([change[1], change[2], change[3], change[4]]) as usize;
    match change[0] % 4 {
        0 => n % len,
        1 => (used[n % used.len()] + 1) % len,
        _ => used[n % used.len()],
    }
}

/// An input for each log and each byte of its pool that is in use, with `to` in its place.
pub fn each_byte(to: u8) -> impl Iterator<Item = Vec<u8>> {
    let one = move |which: usize, n: usize| [&[which as u8, 2][..], &(n as u32).to_le_bytes(), &[to]].concat();
    logs().iter().enumerate().flat_map(move |(which, (_, used))| (0..used.len()).map(move |n| one(which, n)))
}

/// A log with a damaged pool: refused, or as safe as any other. The first byte chooses the log.
pub fn begun(data: &[u8]) {
    let Some((&which, changes)) = data.split_first() else { return };
    let all = logs();
    let (log, used) = &all[usize::from(which) % all.len()];
    let mut log = log.clone();
    for change in changes.chunks_exact(CHANGE).take(CHANGES) {
        let at = place(change, used, log.start.len());
        log.start[at] = change[CHANGE - 1];
    }
    judged(&log);
}
