// SPDX-License-Identifier: GPL-2.0-or-later
//! What is said of a set of times.

use serde::Serialize;

/// Nearest-rank quantiles, in ns; zeros where nothing was measured.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub count: usize,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Summary {
    pub fn of(times: &[u64]) -> Self {
        let Some(last) = times.len().checked_sub(1) else { return Self::default() };
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let rank = |percent: usize| sorted[(times.len() * percent).div_ceil(100).saturating_sub(1).min(last)];
        let sum: u128 = times.iter().map(|&t| u128::from(t)).sum();
        Self {
            count: times.len(),
            mean_ns: (sum / times.len() as u128) as u64,
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            max_ns: sorted[last],
        }
    }
}

/// The entries `from..to` of a circular array that keeps the last `capacity` only, as indices, and how many are gone.
pub fn kept(from: u64, to: u64, capacity: u64) -> (impl Iterator<Item = u64>, u64) {
    let first = from.max(to.saturating_sub(capacity));
    ((first..to).map(move |i| i % capacity), first - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let s = Summary::of(&(1..=200).rev().collect::<Vec<u64>>());
        assert_eq!((s.count, s.mean_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.max_ns), (200, 100, 100, 180, 198, 200));
        assert_eq!(Summary::of(&[7]), Summary { count: 1, mean_ns: 7, p50_ns: 7, p90_ns: 7, p99_ns: 7, max_ns: 7 });
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn a_full_array_keeps_the_last() {
        let (all, gone) = kept(2, 5, 8);
        assert_eq!((all.collect::<Vec<_>>(), gone), (vec![2, 3, 4], 0));
        let (last, gone) = kept(1, 11, 4);
        assert_eq!((last.collect::<Vec<_>>(), gone), (vec![3, 0, 1, 2], 6));
    }
}
