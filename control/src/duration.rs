// SPDX-License-Identifier: GPL-2.0-only
//! Durations as people write them (`10us`, `1.5ms`, `60s`), in ns inside.

use anyhow::{Result, bail};
use serde::{Deserialize, Deserializer, de::Error as _};

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration in ns: a number, at most nine decimals, and its unit. A bare `0` needs no unit.
///
/// # Errors
/// One line that names the text, for a missing or unknown unit, a sign, or a value beyond 584 years.
pub fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    if text == "0" {
        return Ok(0);
    }
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit.trim()) else {
        bail!("`{text}` is not a duration; write a number with ns, us, ms, s, min or h");
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let value = if fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
        None
    } else {
        scaled(whole, fraction, scale)
    };
    value.ok_or_else(|| anyhow::anyhow!("`{text}` is not a valid duration; allowed: 0 to 18446744073s"))
}

/// `whole.fraction` × `scale`, below the ns truncated; integers only, so that every machine reads the same value.
fn scaled(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let whole: u64 = whole.parse().ok()?;
    let mut value = u128::from(whole) * u128::from(scale);
    if !fraction.is_empty() {
        let digits: u128 = fraction.parse().ok()?;
        value += digits * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    }
    u64::try_from(value).ok()
}

/// Writes `ns` in the largest unit that needs no fraction, so that [`parse`] reads back the same value.
pub fn format(ns: u64) -> String {
    match ns {
        0 => "0".into(),
        _ if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        _ if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        _ if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

/// Writes `ns` for a table: three significant digits in the unit that suits.
pub fn human(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x >= 1e9 => (ns / 1e9, "s"),
        x if x >= 1e6 => (ns / 1e6, "ms"),
        x if x >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    let decimals = match value.abs() {
        x if x >= 99.95 || value == value.trunc() => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{unit}")
}

/// For `#[serde(deserialize_with = "takt_control::duration::deserialize")]`: a string such as `"20ms"`.
///
/// # Errors
/// Those of [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<u64, D::Error> {
    parse(&String::deserialize(d)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_and_decimals() {
        for (text, ns) in [
            ("30ns", 30),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("1.5ms", 1_500_000),
            ("0.1ms", 100_000),
            ("2s", 2_000_000_000),
            ("2 s", 2_000_000_000),
            ("1min", 60_000_000_000),
            ("10m", 600_000_000_000),
            ("24h", 86_400_000_000_000),
            ("0.123456789s", 123_456_789),
            ("0", 0),
        ] {
            assert_eq!(parse(text).unwrap(), ns, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in [
            "",
            "10",
            "ms",
            "-1ms",
            "1e3ms",
            "1.ms",
            ".5ms",
            "1..5ms",
            "10 lightyears",
            "99999999999s",
            "NaNs",
            "0.1234567890s",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("duration; ") && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for ns in [0, 1, 999, 1_000, 1_001, 30_000_000, 60_000_000_000, u64::MAX] {
            assert_eq!(parse(&format(ns)).unwrap(), ns);
        }
        assert_eq!(format(30_000_000), "30ms");
    }

    #[test]
    fn tables_get_three_digits() {
        assert_eq!(human(1_234.0), "1.23us");
        assert_eq!(human(12_345_678.0), "12.3ms");
        assert_eq!(human(250e6), "250ms");
        assert_eq!(human(30.0), "30ns");
    }
}
