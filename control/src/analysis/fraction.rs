// SPDX-License-Identifier: GPL-2.0-only
//! Sums of fractions, exactly: a pool must not grow by a PCPU because a third is no decimal.

use std::cmp::Ordering;

/// A natural number of any size, least significant word first, without leading zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Natural(Vec<u64>);

impl Natural {
    pub fn one() -> Self {
        Self(vec![1])
    }

    /// Times `n`.
    pub fn times(&self, n: u64) -> Self {
        let mut carry = 0u128;
        let mut words: Vec<u64> = Vec::with_capacity(self.0.len() + 1);
        for &word in &self.0 {
            carry += u128::from(word) * u128::from(n);
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Self::trimmed(words)
    }

    pub fn plus(&self, other: &Self) -> Self {
        let mut carry = 0u128;
        let mut words = Vec::new();
        for n in 0..self.0.len().max(other.0.len()) {
            carry += u128::from(self.0.get(n).copied().unwrap_or(0)) + u128::from(other.0.get(n).copied().unwrap_or(0));
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Self::trimmed(words)
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self(words)
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

/// A sum of fractions over their product.
#[derive(Clone, Debug)]
pub struct Sum {
    above: Natural,
    below: Natural,
}

impl Sum {
    /// Of `count` times `part`/`whole` each; a whole of 0 counts as nothing.
    pub fn of(terms: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        let mut sum = Self { above: Natural::default(), below: Natural::one() };
        for (count, part, whole) in terms.into_iter().filter(|t| t.2 > 0) {
            let divisor = gcd(part, whole);
            let term = sum.below.times(part / divisor).times(count);
            sum.above = sum.above.times(whole / divisor).plus(&term);
            sum.below = sum.below.times(whole / divisor);
        }
        sum
    }

    /// Whether it is at most `a` - `b` · `part`/`whole` (whole above 0).
    pub fn at_most(&self, a: u64, b: u64, part: u64, whole: u64) -> bool {
        let left = self.above.times(whole).plus(&self.below.times(b).times(part));
        left <= self.below.times(a).times(whole)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_and_sevenths_add_up() {
        let sum = Sum::of([(1, 1, 3), (2, 1, 3), (7, 1, 7), (0, 1, 2)]);
        assert!(sum.at_most(2, 0, 0, 1) && !sum.at_most(1, 0, 0, 1));
        assert!(!Sum::of([(3, 1, 3), (1, 1, u64::MAX)]).at_most(1, 0, 0, 1));
        // 256 periods without a common divisor worth speaking of.
        let many: Vec<_> = (0..256).map(|n| (1, u64::MAX / 2 - n, u64::MAX - 2 * n)).collect();
        let sum = Sum::of(many);
        assert!(sum.at_most(128, 0, 0, 1) && !sum.at_most(127, 0, 0, 1));
    }

    #[test]
    fn words_carry() {
        let big = Natural::one().times(u64::MAX).times(u64::MAX).plus(&Natural::one().times(u64::MAX).times(2));
        assert_eq!(big.plus(&Natural::one()), Natural(vec![0, 0, 1]));
        assert!(big < Natural(vec![0, 0, 1]) && Natural::default() < Natural::one());
        assert_eq!(Natural::one().times(0), Natural::default());
    }
}
