// SPDX-License-Identifier: GPL-2.0-only
//! How long VCPUs wait and run, by the class in which they entered their queue (metrics of rule
//! L38), as every host counts them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use takt_policy::{Class, Hist};

/// The classes that a VCPU may wait in: RT, BOOST, UNDER, OVER.
pub const CLASSES: usize = 4;

/// Waits of a VCPU in one class: entries, sum and maximum (ns), time run after them (ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wait {
    pub count: u64,
    pub sum: u64,
    pub max: u64,
    pub ran: u64,
}

/// By class when it entered its queue: `rt`, `boost`, `under`, `over`. Classes that it never waited in are left out.
pub type Waits = BTreeMap<String, WaitStatus>;

/// As `takt status` says it, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitStatus {
    /// Entries into a queue.
    pub count: u64,
    pub mean_us: f64,
    pub max_us: f64,
    /// Time run per entry.
    pub run_us: f64,
}

/// Waits of a VM's threads together, by class as in [`Waits`].
pub type WaitHistograms = BTreeMap<String, WaitHistogram>;

/// As `takt status` says it, µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitHistogram {
    /// Since the VM was found, also of threads that have ended. The time run per entry is that of the threads there are.
    #[serde(flatten)]
    pub all: WaitStatus,
    /// At most 3 % too large.
    #[serde(default)]
    pub p50_us: f64,
    #[serde(default)]
    pub p99_us: f64,
    /// Those that are not empty, shortest waits first; only where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<Bucket>,
}

/// Waits that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// None of them is longer, and none is shorter by more than a 32nd.
    pub to_us: f64,
    pub count: u64,
}

/// As the hypervisor hands them out: of each class its four numbers.
pub fn from_bytes(bytes: &[u8; size_of::<[Wait; CLASSES]>()]) -> [Wait; CLASSES] {
    let number = |n: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 * n + i]));
    let wait = |c: usize| [0, 1, 2, 3].map(|n| number(4 * c + n));
    std::array::from_fn(wait).map(|[count, sum, max, ran]| Wait { count, sum, max, ran })
}

/// Sums up by class.
pub fn waits(all: impl Iterator<Item = [Wait; CLASSES]>) -> Waits {
    let named = Class::ALL.iter().zip(sum(all)).filter(|(_, w)| w.count > 0);
    named.map(|(class, w)| (class.name().to_owned(), WaitStatus::of(w))).collect()
}

/// What the threads of a VM have waited, with `buckets` or without, and how long those that are there ran.
pub fn histograms(
    waited: &[Hist; CLASSES],
    threads: impl Iterator<Item = [Wait; CLASSES]>,
    buckets: bool,
) -> WaitHistograms {
    let named = Class::ALL.iter().zip(waited.iter().zip(sum(threads))).filter(|(_, (w, _))| w.count() > 0);
    let one = |(class, (waited, threads)): (&Class, (&Hist, Wait))| {
        let of = Wait { count: waited.count(), sum: waited.total(), max: waited.max(), ran: 0 };
        let all = WaitStatus { run_us: WaitStatus::of(threads).run_us, ..WaitStatus::of(of) };
        let [p50_us, p99_us] = [50, 99].map(|p| us(waited.percentile(p)));
        let some = waited.buckets().filter(|_| buckets);
        let buckets = some.map(|(to, n)| Bucket { to_us: us(to), count: n }).collect();
        (class.name().to_owned(), WaitHistogram { all, p50_us, p99_us, buckets })
    };
    named.map(one).collect()
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn sum(all: impl Iterator<Item = [Wait; CLASSES]>) -> [Wait; CLASSES] {
    let mut sum = [Wait::default(); CLASSES];
    for of_one in all {
        for (s, w) in sum.iter_mut().zip(of_one) {
            s.count += w.count;
            s.sum += w.sum;
            s.max = s.max.max(w.max);
            s.ran += w.ran;
        }
    }
    sum
}

impl WaitStatus {
    fn of(w: Wait) -> Self {
        let each = |ns: u64| if w.count == 0 { 0.0 } else { us(ns) / w.count as f64 };
        Self { count: w.count, mean_us: each(w.sum), max_us: us(w.max), run_us: each(w.ran) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up() {
        let one = Wait { count: 2, sum: 6_000, max: 5_000, ran: 10_000 };
        let none = Wait::default();
        let all = waits([[one, none, one, none], [one, none, none, none]].into_iter());
        assert_eq!(all.keys().collect::<Vec<_>>(), ["rt", "under"]);
        assert_eq!(all["rt"], WaitStatus { count: 4, mean_us: 3.0, max_us: 5.0, run_us: 5.0 });
        // The longest wait is that of any, the first or the last.
        let long = Wait { max: 7_000, ..one };
        for all in [[one, long, one], [long, one, one], [one, one, long]] {
            assert_eq!(waits(all.into_iter().map(|w| [w; CLASSES]))["over"].max_us, 7.0);
        }
    }

    #[test]
    fn histograms_say_what_a_vm_waited_and_what_its_threads_ran() {
        let mut rt = Hist::default();
        [40, 40, 40, 2_000].into_iter().for_each(|ns| rt.add(ns));
        let none = Hist::default;
        // One of its threads has ended: two of four entries are left.
        let left = Wait { count: 2, sum: 80, max: 40, ran: 10_000 };
        let of = |buckets| histograms(&[rt.clone(), none(), none(), none()], [[left; CLASSES]].into_iter(), buckets);
        let all = of(true);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["rt"]);
        assert_eq!(all["rt"].all, WaitStatus { count: 4, mean_us: 0.53, max_us: 2.0, run_us: 5.0 });
        assert_eq!((all["rt"].p50_us, all["rt"].p99_us), (0.04, 2.0));
        let bucket = |to_us, count| Bucket { to_us, count };
        assert_eq!(all["rt"].buckets, [bucket(0.04, 3), bucket(2.015, 1)]);
        assert_eq!(of(false)["rt"], WaitHistogram { buckets: Vec::new(), ..all["rt"].clone() });
    }
}
