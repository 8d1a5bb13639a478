// SPDX-License-Identifier: GPL-2.0-only
//! Values as people write them in scenario files and after `--set`.

use anyhow::{Result, bail};
use takt_control::duration;

/// Unit of a configurable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Kept in ns; written with a suffix: `500ns`, `23us`, `1.5ms`, `30s`.
    Time,
    /// A plain whole number.
    Count,
    /// Whole number of KiB, written without a suffix.
    KiB,
    /// A decimal kept in thousandths.
    Milli,
    /// Events per second, kept in thousandths.
    Hz,
}

impl Unit {
    /// Reads a value in the form this unit is written in.
    pub fn parse(self, text: &str) -> Result<u64> {
        let text = text.trim();
        match self {
            Unit::Time => duration::parse(text),
            Unit::Count | Unit::KiB => match text.parse() {
                Ok(n) => Ok(n),
                Err(_) => bail!("'{text}' is not a whole number"),
            },
            Unit::Milli | Unit::Hz => decimal(text, 1000),
        }
    }

    /// The value as `parse` reads it.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Time => duration::format(value),
            Unit::Count | Unit::KiB => value.to_string(),
            Unit::Milli | Unit::Hz => trim_zeros(format!("{}.{:03}", value / 1000, value % 1000)),
        }
    }

    /// Name of the unit in the docs.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Time => "time",
            Unit::Count => "count",
            Unit::KiB => "KiB",
            Unit::Milli => "number",
            Unit::Hz => "1/s",
        }
    }
}

fn trim_zeros(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A decimal number times `scale`, exactly: no floating point, so that every machine reads the same value.
fn decimal(text: &str, scale: u64) -> Result<u64> {
    let (whole, frac) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| !s.is_empty() && s.len() <= 18 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !(frac.is_empty() && !text.contains('.') || digits(frac)) {
        bail!("'{text}' is not a number");
    }
    let Some(mut value) = whole.parse::<u64>().ok().and_then(|w| w.checked_mul(scale)) else {
        bail!("'{text}' is too large");
    };
    let mut place = scale;
    for digit in frac.bytes() {
        if place % 10 != 0 && digit != b'0' {
            bail!("'{text}' has too many decimals");
        }
        place /= 10;
        let Some(sum) = value.checked_add(u64::from(digit - b'0') * place) else {
            bail!("'{text}' is too large");
        };
        value = sum;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_thousandths() {
        assert_eq!(Unit::Milli.parse("4.3").unwrap(), 4300);
        assert_eq!(Unit::Milli.show(4300), "4.3");
        assert_eq!(Unit::Hz.show(20_000), "20");
        assert!(Unit::Count.parse("-1").is_err());
    }
}
