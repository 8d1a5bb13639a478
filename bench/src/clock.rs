// SPDX-License-Identifier: GPL-2.0-only
//! A clock fine enough for one decision: the time-stamp counter between fences where there is one, else the system's.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Ticks of unspecified length, not reordered with the code around it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both are part of every x86-64.
    unsafe {
        _mm_lfence();
        let t = _rdtsc();
        _mm_lfence();
        t
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// CPU time that `f` takes, s: what other programs take from this thread does not count.
pub fn cpu_seconds<T>(f: impl FnOnce() -> T) -> (T, f64) {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let from = now();
    let value = f();
    let to = now();
    (value, (to.tv_sec - from.tv_sec) as f64 + (to.tv_nsec - from.tv_nsec) as f64 / 1e9)
}

/// What [`ticks`] is worth, and costs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ns_per_tick: f64,
    /// Ticks between two readings with nothing between them.
    pub overhead: u64,
}

impl Clock {
    /// Compares the counter with the system's clock for 50 ms.
    pub fn calibrate() -> Self {
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let ns_per_tick = start.elapsed().as_nanos() as f64 / (ticks() - from).max(1) as f64;
        let mut empty: Vec<u64> = (0..10_001)
            .map(|_| {
                let from = ticks();
                ticks() - from
            })
            .collect();
        empty.sort_unstable();
        Self { ns_per_tick, overhead: empty[empty.len() / 2] }
    }

    /// Time between two readings without the readings themselves, ns.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks.saturating_sub(self.overhead) as f64 * self.ns_per_tick
    }

    pub fn overhead_ns(&self) -> f64 {
        self.overhead as f64 * self.ns_per_tick
    }
}
