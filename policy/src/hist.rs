// SPDX-License-Identifier: GPL-2.0-only
//! Histograms of times (`core/hist.h`): what decisions and switches take, as the simulator keeps them and the other hosts are read; and
//! how long live VMs wait.

const BITS: usize = 5;
const BUCKETS: usize = 897;

unsafe extern "C" {
    fn takt_hist_add(h: *mut Hist, ns: u64);
}

/// `struct takt_hist`: times in ns. Percentiles are exact below 64 ns, up to a 32nd too large above, and the longest time from 4.3 s on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Hist {
    count: u64,
    sum: u64,
    max: u64,
    buckets: [u64; BUCKETS],
}

/// `struct takt_overhead`: of a PCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Overhead {
    pub decision: Hist,
    pub switch: Hist,
}

impl Default for Hist {
    fn default() -> Self {
        Self { count: 0, sum: 0, max: 0, buckets: [0; BUCKETS] }
    }
}

impl Hist {
    pub fn add(&mut self, ns: u64) {
        unsafe { takt_hist_add(self, ns) };
    }

    /// Adds what another one, as of another PCPU, has counted.
    pub fn merge(&mut self, other: &Hist) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// What has come since `before`, an earlier reading of the same. The longest is exact if nothing before was as long, else as exact
    /// as a percentile. `None` if `before` is none.
    #[must_use]
    pub fn since(&self, before: &Hist) -> Option<Self> {
        let mut new = Self { max: self.max, ..Self::default() };
        new.count = self.count.checked_sub(before.count)?;
        new.sum = self.sum.checked_sub(before.sum)?;
        for (at, n) in new.buckets.iter_mut().enumerate() {
            *n = self.buckets[at].checked_sub(before.buckets[at])?;
        }
        if before.max == self.max {
            let last = new.buckets.iter().rposition(|&n| n > 0);
            new.max = last.map_or(0, |at| upper(at).min(self.max));
        }
        Some(new)
    }

    /// As many as a host hands out one after the other; `None` if they are not of this build.
    pub fn several<const N: usize>(bytes: &[u8]) -> Option<[Self; N]> {
        if bytes.len() != size_of::<[Self; N]>() {
            return None;
        }
        // SAFETY: integers only, as many bytes as they have.
        Some(unsafe { bytes.as_ptr().cast::<[Self; N]>().read_unaligned() })
    }

    /// Adds `times` times that [`Hist::buckets`] of another one says are at most `to` ns. A time of the last bucket is as long
    /// as its end.
    pub fn add_bucket(&mut self, to: u64, times: u64) {
        let (mut low, mut high) = (0, BUCKETS - 1);
        while low < high {
            let at = (low + high) / 2;
            if upper(at) < to { low = at + 1 } else { high = at }
        }
        self.buckets[low] += times;
        self.count += times;
        self.sum = self.sum.saturating_add(to.saturating_mul(times));
        self.max = self.max.max(to);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// ns
    pub fn total(&self) -> u64 {
        self.sum
    }

    /// ns
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The buckets that are not empty: the end of each (ns), which stays the same however long the times become, and how many times are
    /// in it. The last bucket ends with the longest time.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        all.map(|(at, n)| (if at == BUCKETS - 1 { self.max } else { upper(at) }, *n))
    }

    /// The time that `percent` of all do not exceed, ns; 0 if there are none.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = u128::from(self.count) * u128::from(percent);
        let rank = rank.div_ceil(100).max(1);
        let mut seen = 0;
        for (at, &n) in self.buckets.iter().enumerate() {
            seen += u128::from(n);
            if seen >= rank {
                return upper(at).min(self.max);
            }
        }
        self.max
    }
}

impl Overhead {
    /// From the bytes that a host hands out; `None` if they are not of this build.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: integers only, as many bytes as they have.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// What has come since `before`, an earlier reading of the same; `None` if it is none.
    #[must_use]
    pub fn since(&self, before: &Overhead) -> Option<Self> {
        Some(Self { decision: self.decision.since(&before.decision)?, switch: self.switch.since(&before.switch)? })
    }

    pub fn merge(&mut self, other: &Overhead) {
        self.decision.merge(&other.decision);
        self.switch.merge(&other.switch);
    }
}

/// The longest time of a bucket.
fn upper(at: usize) -> u64 {
    if at == BUCKETS - 1 {
        return u64::MAX;
    }
    let shift = (at >> BITS).saturating_sub(1);
    let step = (at - (shift << BITS)) as u64;
    (step << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times from here on share the last bucket, ns.
    const END: u64 = 1 << 32;

    fn of(times: impl IntoIterator<Item = u64>) -> Hist {
        let mut hist = Hist::default();
        times.into_iter().for_each(|ns| hist.add(ns));
        hist
    }

    #[test]
    fn short_times_are_exact() {
        let hist = of((1..=50).rev());
        assert_eq!((hist.percentile(50), hist.percentile(99), hist.percentile(100)), (25, 50, 50));
        assert_eq!((hist.count(), hist.total(), hist.max()), (50, 1275, 50));
        assert_eq!((of([7]).percentile(0), of([7]).percentile(50)), (7, 7));
    }

    #[test]
    fn longer_ones_are_too_large_by_a_32nd_at_most() {
        for ns in (64..10_000).chain([1 << 20, (1 << 20) + 12_345, END / 2 - 1, END - 1]) {
            // The longest is known; so there is a longer one.
            let seen = of([ns, ns, END]).percentile(50);
            assert!(seen >= ns && seen - ns <= ns >> BITS, "{ns}: {seen}");
        }
        let hist = of((1..=100).map(|n| n * 1000));
        let (median, most) = (hist.percentile(50), hist.percentile(99));
        assert!((50_000..=51_562).contains(&median) && (99_000..=100_000).contains(&most), "{median} {most}");
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let hist = of([10, END, u64::MAX >> 1]);
        assert_eq!((hist.percentile(33), hist.percentile(50), hist.max()), (10, u64::MAX >> 1, u64::MAX >> 1));
        assert_eq!(hist.count(), 3);
    }

    #[test]
    fn an_empty_one_has_no_times() {
        let hist = Hist::default();
        assert_eq!((hist.count(), hist.total(), hist.max()), (0, 0, 0));
        assert_eq!((hist.percentile(50), hist.percentile(100)), (0, 0));
    }

    #[test]
    fn what_came_between_two_readings_is_known() {
        let before = of([10, 2_000]);
        let with = |times: &[u64]| {
            let mut after = before.clone();
            times.iter().for_each(|&ns| after.add(ns));
            after.since(&before).unwrap()
        };
        assert_eq!(with(&[20, 3_000]), of([20, 3_000]));
        let new = with(&[20, 20, 1_000]);
        assert_eq!((new.count(), new.total(), new.percentile(50)), (3, 1_040, 20));
        assert!((1_000..=1_031).contains(&new.max()), "{}", new.max());
        assert_eq!(with(&[2_000]).max(), 2_000);
        assert_eq!(with(&[]), Hist::default());
        assert_eq!(of([10]).since(&before), None);
        assert_eq!(of([10, 64, 4_000]).since(&before), None, "another one's");
    }

    #[test]
    fn several_add_up_and_travel_as_bytes() {
        let mut all = Overhead { decision: of(1..=50), switch: of([1500]) };
        all.merge(&Overhead { decision: of(51..=63), switch: of([40]) });
        assert_eq!(all.decision, of(1..=63));
        assert_eq!(all.switch, of([40, 1500]));
        // SAFETY: integers only.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const all).cast::<u8>(), size_of::<Overhead>()) };
        assert_eq!(Overhead::from_bytes(bytes).as_ref(), Some(&all));
        assert_eq!(Overhead::from_bytes(&bytes[1..]), None);
    }
}
