// SPDX-License-Identifier: GPL-2.0-only
//! Times of day, as the host's clock and time zone say them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Date, time to the second and offset from UTC: `2026-03-01T02:14:07+01:00`.
#[must_use]
pub fn local(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() as libc::time_t;
    // SAFETY: integers and a pointer that may be null; localtime_r fills it, or leaves it as it is.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    let offset = tm.tm_gmtoff / 60;
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_date_time_and_offset() {
        let text = local(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        assert_eq!(text.len(), "2001-09-09T01:46:40+00:00".len(), "{text}");
        assert!(text.starts_with("2001-09-0") && text[13..16].starts_with(':'), "{text}");
    }
}
