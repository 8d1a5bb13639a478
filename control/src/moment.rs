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
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        zone(tm.tm_gmtoff / 60)
    )
}

/// Minutes east of UTC.
fn zone(minutes: i64) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_date_time_and_offset() {
        let text = local(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        assert_eq!(text.len(), "2001-09-09T01:46:40+00:00".len(), "{text}");
        assert!(text.starts_with("2001-09-0") && text[13..16].starts_with(':'), "{text}");
        assert_eq!([-210, -1, 0, 60, 345].map(zone), ["-03:30", "-00:01", "+00:00", "+01:00", "+05:45"]);
    }
}
