// SPDX-License-Identifier: GPL-2.0-only
//! Threads that share a pool: one lock, one operation per hold, as in every host.
//!
//! Xen and Linux take a spin lock with preemption off, so a waiter spins for one operation at most. A user program can lose its PCPU while it
//! holds the lock; with more threads than PCPUs the waiters therefore yield instead of spinning.

use crate::mix::{Feeder, PCPUS, Shared};
use crate::table;
use anyhow::{Context, Result};
use serde::Serialize;
use spin::RelaxStrategy;
use spin::mutex::SpinMutex;
use spin::relax::{Spin, Yield};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const VCPUS: u32 = 64;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    pub threads: u32,
    /// What a thread does while another holds the lock.
    pub waits_by: &'static str,
    pub ops_per_s: f64,
    /// Time of all threads together per operation, waiting included.
    pub ns_per_op: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Locking {
    pub cores: usize,
    pub vcpus: u32,
    pub rows: Vec<Row>,
}

pub fn measure(quick: bool) -> Result<Locking> {
    let cores = thread::available_parallelism().context("number of cores")?.get();
    let time = Duration::from_millis(if quick { 200 } else { 1000 });
    let mut rows = Vec::new();
    for policy in crate::mix::POLICIES {
        for threads in [1, 2, PCPUS as u32] {
            rows.push(if threads as usize <= cores {
                run::<Spin>(policy, threads, "spinning", time)?
            } else {
                run::<Yield>(policy, threads, "yielding", time)?
            });
        }
    }
    Ok(Locking { cores, vcpus: VCPUS, rows })
}

fn run<R: RelaxStrategy>(policy: &'static str, threads: u32, waits_by: &'static str, time: Duration) -> Result<Row> {
    let shared = Shared::new(policy, VCPUS)?;
    let lock: SpinMutex<Shared<PCPUS>, R> = SpinMutex::new(shared);
    let stop = AtomicBool::new(false);
    let (lock, stop) = (&lock, &stop);
    let (ops, spent) = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || {
                    let mut feeder = Feeder::new(VCPUS, n, threads, 1);
                    let (from, mut ops) = (Instant::now(), 0u64);
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..64 {
                            ops += u64::from(feeder.step(|op, after, mine| lock.lock().call(op, after, mine)));
                        }
                    }
                    (ops, from.elapsed())
                })
            })
            .collect();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let done = workers.into_iter().filter_map(|w| w.join().ok());
        done.fold((0, Duration::ZERO), |(ops, spent), w| (ops + w.0, spent + w.1))
    });
    let ns_per_op = spent.as_nanos() as f64 / ops.max(1) as f64;
    Ok(Row { policy, threads, waits_by, ops_per_s: f64::from(threads) * 1e9 / ns_per_op, ns_per_op })
}

impl Locking {
    pub fn print(&self) {
        println!("== Threads on the pool's lock ({} VCPUs; this machine has {} cores) ==\n", self.vcpus, self.cores);
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|r| {
                vec![
                    r.policy.to_string(),
                    r.threads.to_string(),
                    r.waits_by.to_string(),
                    table::grouped(r.ops_per_s),
                    format!("{:.0}", r.ns_per_op),
                ]
            })
            .collect();
        println!("{}", table::render(&["policy", "threads", "waits by", "operations/s", "ns/op and thread"], &rows));
        println!("  Lock: spin::SpinMutex (test and test-and-set). Choosing the operations is part of the time.\n");
    }
}
