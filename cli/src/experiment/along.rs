// SPDX-License-Identifier: GPL-2.0-only
//! What measures ask of a whole sweep.

use super::points::{Names, each, mean, number};
use crate::row::{Row, X};
use crate::stat::Stat;

/// At each point, in the order of the sweep, the part by which the mean of a metric is below that of another policy.
pub fn gains(rows: &[&Row], policy: &str, over: &str, metric: &str) -> Option<Vec<f64>> {
    let every = X::Name("all".into());
    let [policy, over] = [policy, over].map(|p| Names::One(p.to_owned()));
    each(&policy, Some(&over), &every, rows, |a, b| {
        let (a, b) = (mean(a, metric)?, mean(b, metric)?);
        (b > 0.0).then(|| 1.0 - a / b)
    })
}

/// Spearman's, of values with their places; `None` for fewer than two.
pub fn rank_correlation(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let rank = |v: &f64| {
        let below = values.iter().filter(|o| *o < v).count() as f64;
        let equal = values.iter().filter(|o| *o == v).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    let squares: f64 = (0..).zip(values).map(|(place, v)| (f64::from(place) - rank(v)).powi(2)).sum();
    let n = n as f64;
    (n > 1.0).then(|| 1.0 - 6.0 * squares / (n * (n * n - 1.0)))
}

/// Mean difference of a metric between rows of two policies with the same seed at the same point.
pub fn paired_mean(rows: &[&Row], policy: &str, over: &str, metric: &str, from: u64) -> Option<f64> {
    let mut differences = Vec::new();
    for a in rows.iter().filter(|r| r.policy == policy && number(&r.x).is_some_and(|x| x >= from)) {
        let b = rows.iter().find(|r| r.policy == over && r.x == a.x && r.seed == a.seed)?;
        differences.push(a.metrics.get(metric)? - b.metrics.get(metric)?);
    }
    Stat::Mean.of(&differences)
}

/// The last point up to which the mean of a metric keeps to `limit`, and the first at which it does not.
pub fn kept(rows: &[&Row], policy: &str, metric: &str, limit: f64) -> Option<(Option<u64>, Option<u64>)> {
    let mine: Vec<&Row> = rows.iter().copied().filter(|r| r.policy == policy).collect();
    let mut points: Vec<u64> = mine.iter().filter_map(|r| number(&r.x)).collect();
    points.sort_unstable();
    points.dedup();
    let mut last = None;
    for x in &points {
        let here: Vec<&Row> = mine.iter().copied().filter(|r| r.x == X::Number(*x)).collect();
        if mean(&here, metric)? > limit {
            return Some((last, Some(*x)));
        }
        last = Some(*x);
    }
    (!points.is_empty()).then_some((last, None))
}
