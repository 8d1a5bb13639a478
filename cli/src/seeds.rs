// SPDX-License-Identifier: GPL-2.0-only
//! Lists of seeds: `1`, `1-8`, `1-8,101-108`.

use anyhow::{Result, bail};
use std::str::FromStr;

/// Most seeds of one command; each is a whole simulation.
pub const MAX: usize = 10_000;

/// Seeds in the order given, without repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            let (Ok(a), Ok(b)) = (a.trim().parse::<u64>(), b.trim().parse::<u64>()) else {
                bail!("`{part}` is not a seed or a range of seeds; allowed: 0 to {}", u64::MAX);
            };
            if a > b || (b - a) as usize >= MAX {
                bail!("`{part}` is not a range of seeds; allowed: at most {MAX} seeds in ascending order");
            }
            seeds.extend((a..=b).filter(|s| !seeds.contains(s)).collect::<Vec<_>>());
        }
        if seeds.len() > MAX {
            bail!("{} seeds; allowed: at most {MAX}", seeds.len());
        }
        Ok(Self(seeds))
    }
}

impl std::fmt::Display for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = &self.0[..];
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|(a, b)| **a == *b).count();
            let comma = if rest.len() < self.0.len() { "," } else { "" };
            match run {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", first + run as u64 - 1)?,
            }
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, want) in [("7", vec![7]), ("1-3", vec![1, 2, 3]), ("1-2,101-102,2", vec![1, 2, 101, 102])] {
            assert_eq!(text.parse::<Seeds>().unwrap().0, want);
        }
        assert_eq!("1-3,9,101-102".parse::<Seeds>().unwrap().to_string(), "1-3,9,101-102");
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "a", "3-1", "-1", "1-", "0-99999999", "1.5", "0-18446744073709551615"] {
            text.parse::<Seeds>().expect_err(text);
        }
    }
}
