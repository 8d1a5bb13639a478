// SPDX-License-Identifier: GPL-2.0-only
//! Histogram of times with a relative error of at most 1/64.

/// Each doubling has 2^6 buckets.
const SUB: u32 = 6;

/// Counts times in buckets that double in width every 64; grows with the largest time seen.
#[derive(Clone, Debug, Default)]
pub struct Hist {
    counts: Vec<u64>,
    pub n: u64,
    pub sum: u64,
    pub max: u64,
}

impl Hist {
    pub fn add(&mut self, value: u64) {
        let at = bucket(value);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.n += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    pub fn merge(&mut self, other: &Hist) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.n).unwrap_or(0)
    }

    /// The least value, or less by 1.6%; 0 without values.
    pub fn least(&self) -> u64 {
        let first = self.counts.iter().position(|&count| count > 0);
        first.map_or(0, |at| at.checked_sub(1).map_or(0, |before| upper(before) + 1))
    }

    /// The value that `percent` of the values do not exceed; 0 without values.
    pub fn percentile(&self, percent: u64) -> u64 {
        self.part(percent, 100)
    }

    /// The value that `part` of each `of` values do not exceed; 0 without values.
    pub fn part(&self, part: u64, of: u64) -> u64 {
        let rank = (self.n * part).div_ceil(of).max(1);
        let mut seen = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(at).min(self.max);
            }
        }
        0
    }
}

/// Histogram of differences, of either sign.
#[derive(Clone, Debug, Default)]
pub struct Signed {
    below: Hist,
    above: Hist,
}

impl Signed {
    /// Adds `a` minus `b`.
    pub fn add(&mut self, a: u64, b: u64) {
        match a.checked_sub(b) {
            Some(above) => self.above.add(above),
            None => self.below.add(b - a),
        }
    }

    pub fn n(&self) -> u64 {
        self.below.n + self.above.n
    }

    /// The value that `percent` of the values do not exceed, the least one for 0; 0 without values.
    pub fn percentile(&self, percent: u64) -> i64 {
        let rank = (self.n() * percent).div_ceil(100).max(1);
        if rank <= self.below.n {
            return -(self.below.part(self.below.n - rank + 1, self.below.n) as i64);
        }
        if self.above.n == 0 { 0 } else { self.above.part(rank - self.below.n, self.above.n) as i64 }
    }
}

/// Values below 128 have a bucket each; above, each doubling has 64.
fn bucket(value: u64) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(SUB);
    ((shift as usize) << SUB) + (value >> shift) as usize
}

/// Largest value of a bucket.
fn upper(at: usize) -> u64 {
    let shift = (at >> SUB).saturating_sub(1);
    let step = (at - (shift << SUB)) as u64;
    (step << shift) + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_narrow() {
        for value in (0..5000).chain([1 << 20, (1 << 20) + 12_345, 1 << 40, u64::MAX >> 1]) {
            let top = upper(bucket(value));
            assert!(top >= value && top - value <= value >> SUB, "{value}: {top}");
            assert!(bucket(value) <= bucket(value + 1));
        }
    }

    #[test]
    fn percentiles_and_merge() {
        let mut a = Hist::default();
        let mut b = Hist::default();
        (1..=50).for_each(|v| a.add(v));
        (51..=100).for_each(|v| b.add(v));
        a.merge(&b);
        assert_eq!((a.percentile(50), a.percentile(99), a.percentile(100), a.mean()), (50, 99, 100, 50));
        assert_eq!(Hist::default().percentile(99), 0);
    }

    #[test]
    fn differences_of_either_sign_have_their_order() {
        let mut s = Signed::default();
        for a in 0..100 {
            s.add(a, 50);
        }
        assert_eq!([0, 1, 25, 50, 75, 100].map(|p| s.percentile(p)), [-50, -50, -26, -1, 24, 49]);
        assert_eq!(Signed::default().percentile(25), 0);
    }
}
