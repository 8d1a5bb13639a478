// SPDX-License-Identifier: GPL-2.0-only
//! How long VCPUs wait and run, by the class in which they entered their queue (metrics of rule
//! L38), as every host counts them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use takt_policy::Class;

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

/// As the hypervisor hands them out: of each class its four numbers.
pub fn from_bytes(bytes: &[u8; size_of::<[Wait; CLASSES]>()]) -> [Wait; CLASSES] {
    let number = |n: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 * n + i]));
    let wait = |c: usize| [0, 1, 2, 3].map(|n| number(4 * c + n));
    std::array::from_fn(wait).map(|[count, sum, max, ran]| Wait { count, sum, max, ran })
}

/// Sums up by class.
pub fn waits(all: impl Iterator<Item = [Wait; CLASSES]>) -> Waits {
    let mut sum = [Wait::default(); CLASSES];
    for of_one in all {
        for (s, w) in sum.iter_mut().zip(of_one) {
            s.count += w.count;
            s.sum += w.sum;
            s.max = s.max.max(w.max);
            s.ran += w.ran;
        }
    }
    let named = Class::ALL.iter().zip(sum).filter(|(_, w)| w.count > 0);
    named.map(|(class, w)| (class.name().to_owned(), WaitStatus::of(w))).collect()
}

impl WaitStatus {
    fn of(w: Wait) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
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
}
