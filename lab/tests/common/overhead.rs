// SPDX-License-Identifier: GPL-2.0-only
//! What `takt overhead` must say: as many as there were, and times that fit together.

use takt_control::overhead::{Times, Window};

/// Those at the ends of the window, on each PCPU.
const ENDS: u64 = 2;

/// `count` were there within the window by another account.
pub fn counted(times: &Times, count: u64, window: &Window) {
    let ends = ENDS * window.pcpus as u64;
    assert!(count > 10 * ends, "{count} are too few to tell anything");
    assert!(times.count.abs_diff(count) <= ends, "{} were counted of {count}: {times:?}", times.count);
    fits(times, window);
}

/// The times fit together, and into the window.
pub fn fits(times: &Times, window: &Window) {
    assert!(0 < times.median_ns && times.median_ns <= times.p99_ns && times.p99_ns <= times.max_ns, "{times:?}");
    // Half of them took the median or longer, less what its bucket is wide; nothing takes longer than there is time.
    let least = times.count as f64 / 2.0 * times.median_ns as f64 * (31.0 / 32.0) / 1e3;
    let most = (window.to_ns - window.from_ns) as f64 * window.pcpus as f64 / 1e3;
    assert!((least..=most).contains(&times.total_us), "{times:?}");
}
