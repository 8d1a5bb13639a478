// SPDX-License-Identifier: GPL-2.0-or-later
//! Time: the TSC, which guests read too, and CLOCK_MONOTONIC.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::sync::OnceLock;

/// The TSC, ordered as the guest reads it.
pub fn tsc() -> u64 {
    // SAFETY: both instructions exist on every x86-64 and touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// CLOCK_MONOTONIC in ns.
pub fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Any clock that this process may read, in ns.
///
/// # Panics
/// If the kernel does not have it.
pub fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).expect("clocks of threads that live are readable").num_nanoseconds() as u64
}

/// Sleeps until CLOCK_MONOTONIC shows `until`, whatever signals come.
pub fn sleep_until(until: u64) {
    let at = nix::sys::time::TimeSpec::nanoseconds(until as i64);
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at).is_err() {}
}

/// The TSC's frequency, as KVM tells it.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    pub khz: u64,
}

impl Tsc {
    pub fn cycles(self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.khz) / 1_000_000) as u64
    }

    pub fn ns(self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000 / u128::from(self.khz)) as u64
    }

    /// What the TSC shows when CLOCK_MONOTONIC shows `monotonic`, which may be past or to come.
    pub fn at(self, monotonic: u64) -> u64 {
        let (tsc, now) = together();
        if monotonic >= now {
            tsc + self.cycles(monotonic - now)
        } else {
            tsc.saturating_sub(self.cycles(now - monotonic))
        }
    }
}

/// The two clocks, read as nearly at one time as a few attempts allow.
fn together() -> (u64, u64) {
    let read = |_| {
        let before = tsc();
        let ns = monotonic();
        let width = tsc() - before;
        (width, before + width / 2, ns)
    };
    let (_, tsc, ns) = (0..5).map(read).min().expect("five readings");
    (tsc, ns)
}

/// What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: kernel timestamps of packets are of the former.
pub fn realtime_offset() -> u64 {
    static OFFSET: OnceLock<u64> = OnceLock::new();
    let offset = |_| {
        let before = monotonic();
        let realtime = read(ClockId::CLOCK_REALTIME);
        let width = monotonic() - before;
        (width, realtime - before - width / 2)
    };
    *OFFSET.get_or_init(|| (0..5).map(offset).min().expect("five readings").1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_ns_are_inverse_without_overflow() {
        let tsc = Tsc { khz: 2_400_000 };
        assert_eq!(tsc.cycles(1_000), 2_400);
        assert_eq!(tsc.ns(tsc.cycles(3_600_000_000_000)), 3_600_000_000_000);
    }
}
