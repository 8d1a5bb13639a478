// SPDX-License-Identifier: GPL-2.0-only
//! A statistic over values, and which values there are.

use serde::Deserialize;
use takt_sim::quantile;

/// The mean, the ends, or a quartile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    #[default]
    Mean,
    Min,
    Q25,
    Q50,
    Q75,
    Max,
}

impl Stat {
    /// Quantiles by linear interpolation between the values next to them.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        let mut v = values.to_vec();
        v.sort_by(f64::total_cmp);
        Some(match self {
            Stat::Mean => v.iter().sum::<f64>() / v.len() as f64,
            Stat::Min => v[0],
            Stat::Q25 => quantile(&v, 0.25),
            Stat::Q50 => quantile(&v, 0.5),
            Stat::Q75 => quantile(&v, 0.75),
            Stat::Max => v[v.len() - 1],
        })
    }
}

/// Each value once, in the order in which they first come.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
