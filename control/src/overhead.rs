// SPDX-License-Identifier: GPL-2.0-only
//! What a host's decisions and switches took over a window of time, as reported to people and
//! scripts (RTXEN-E2).

use crate::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use takt_policy::{Hist, Overhead};

/// Of decisions, or of switches. Median and 99 % are at most a 32nd too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    pub count: u64,
    pub total_us: f64,
    pub median_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl From<&Hist> for Times {
    fn from(hist: &Hist) -> Self {
        Self {
            count: hist.count(),
            total_us: hist.total() as f64 / 1e3,
            median_ns: hist.percentile(50),
            p99_ns: hist.percentile(99),
            max_ns: hist.max(),
        }
    }
}

/// A window of a live host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    pub policy: String,
    /// How many were counted.
    pub pcpus: usize,
    /// By the clock of its recordings, ns.
    pub from_ns: u64,
    pub to_ns: u64,
    pub decision: Times,
    #[serde(rename = "switch")]
    pub change: Times,
    /// Both of them, in percent of the PCPUs' time.
    pub loss_pct: f64,
}

impl Document for Window {
    const NAME: &'static str = "overhead";
    const VERSION: u32 = 1;
}

impl Window {
    /// What all PCPUs together have counted from `from_ns` to `to_ns`.
    pub fn new(policy: &str, pcpus: usize, (from_ns, to_ns): (u64, u64), took: &Overhead) -> Self {
        let (decision, change) = (Times::from(&took.decision), Times::from(&took.switch));
        let time_us = to_ns.saturating_sub(from_ns) as f64 / 1e3 * pcpus as f64;
        let spent = decision.total_us + change.total_us;
        let loss_pct = if time_us > 0.0 { 100.0 * spent / time_us } else { 0.0 };
        Self { policy: policy.to_owned(), pcpus, from_ns, to_ns, decision, change, loss_pct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_says_what_part_of_the_machine_was_lost() {
        let mut took = Overhead::default();
        (0..1000).for_each(|_| took.decision.add(500));
        (0..100).for_each(|_| took.switch.add(5_000));
        let window = Window::new("doris", 2, (1_000_000, 11_000_000), &took);
        assert_eq!((window.decision.count, window.change.count), (1000, 100));
        assert_eq!((window.decision.total_us, window.change.total_us), (500.0, 500.0));
        assert_eq!((window.decision.median_ns, window.change.max_ns), (500, 5_000));
        assert!((window.loss_pct - 5.0).abs() < 1e-9);
        let json = serde_json::to_value(&window).unwrap();
        assert_eq!(json["switch"]["p99_ns"], 5_000);
    }

    #[test]
    fn an_empty_window_has_no_loss() {
        let window = Window::new("rr", 4, (7, 7), &Overhead::default());
        assert_eq!((window.loss_pct, window.decision), (0.0, Times::default()));
    }
}
