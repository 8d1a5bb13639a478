// SPDX-License-Identifier: GPL-2.0-only
//! What `takt run --recorder-mib` does with each operation of the host: it follows the operation natively, and knows from that
//! what each VCPU waited for.

use crate::decisions::{SIZES, record};
use crate::mix::{PCPUS, POLICIES};
use crate::table;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Instant;
use takt_conformance::{Follower, Told};
use takt_policy::{Log, Pool, Record};

const REPLAYS: u32 = 7;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    pub vcpus: u32,
    pub operations: u64,
    /// Waits that were told.
    pub waits: u64,
    /// Mean of an operation, and of one that is followed.
    pub operation_ns: f64,
    pub followed_ns: f64,
    pub ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Following {
    /// Memory of an operation that is kept, bytes.
    pub record_bytes: usize,
    pub rows: Vec<Row>,
}

pub fn measure(quick: bool) -> Result<Following> {
    let (skip, count) = if quick { (20_000, 30_000) } else { (50_000, 300_000) };
    let mut rows = Vec::new();
    for policy in POLICIES {
        for vcpus in SIZES {
            let (start, log) = record::<PCPUS>(policy, vcpus, skip, count)?;
            rows.push(row(policy, vcpus, &start, &log)?);
        }
    }
    Ok(Following { record_bytes: size_of::<Record>(), rows })
}

/// The least of several replays at full speed, each way by turns.
fn row(policy: &'static str, vcpus: u32, start: &Pool, log: &Log) -> Result<Row> {
    let (mut alone, mut followed, mut waits) = (f64::MAX, f64::MAX, 0);
    let each = |from: Instant| from.elapsed().as_nanos() as f64 / log.len().max(1) as f64;
    for _ in 0..REPLAYS {
        let mut pool = start.clone();
        let from = Instant::now();
        for r in log {
            ensure!(pool.op(r.op) == r.res, "a replay under {policy} differs");
        }
        alone = alone.min(each(from));

        let (mut follower, mut told) = (Follower::new(start.clone()), Vec::new());
        waits = 0;
        let from = Instant::now();
        for r in log {
            follower.step(r, &mut told).with_context(|| policy)?;
            waits += told.drain(..).filter(|t| matches!(t, Told::Waited(_))).count() as u64;
        }
        followed = followed.min(each(from));
    }
    let operations = log.len() as u64;
    Ok(Row { policy, vcpus, operations, waits, operation_ns: alone, followed_ns: followed, ratio: followed / alone })
}

impl Following {
    pub fn print(&self) {
        println!("== Following operations for takt why ({PCPUS} PCPUs, random mix) ==\n");
        let row = |r: &Row| {
            vec![
                r.policy.to_string(),
                r.vcpus.to_string(),
                table::grouped(r.waits as f64),
                format!("{:.0}", r.operation_ns),
                format!("{:.0}", r.followed_ns),
                format!("{:.2}", r.ratio),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let head = ["policy", "VCPUs", "waits", "operation, ns", "followed, ns", "ratio"];
        println!("{}", table::render(&head, &rows));
        println!("  An operation that is kept needs {} bytes.\n", self.record_bytes);
    }
}
