// SPDX-License-Identifier: GPL-2.0-only
//! What a check, or a published value, is about: a measure over rows.

use super::along::{gains, kept, paired_mean, rank_correlation};
use super::points::{Names, covers, each, mean, number, pairs};
use crate::row::{Row, X};
use crate::stat::{Stat, distinct};
use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is measured; where several metrics, policies, variants or points are named, the one that comes off worst counts.
#[derive(Clone, Debug, Deserialize)]
pub struct Measure {
    #[serde(flatten)]
    pub what: What,
    /// Those of the experiment that are judged, unless some are named.
    #[serde(default)]
    pub policy: Names,
    /// Those of the experiment unless some are named.
    #[serde(default)]
    pub variant: Option<Names>,
    /// Without `variant`: all but these.
    #[serde(default)]
    but: Names,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum What {
    /// A metric of a policy: its mean over seeds, or a statistic over what all seeds have.
    Level {
        level: Names,
        at: X,
        #[serde(default)]
        stat: Stat,
    },
    /// Mean of a metric over that of another policy.
    Ratio { ratio: String, over: Names, at: X },
    /// By how much the mean of a metric is below that of another policy, as a part of it, at the point where that is most.
    Gain { gain: String, over: Names },
    /// Whether that gain grows along the sweep: rank correlation of the two, -1 to 1.
    Trend { trend: String, over: Names },
    /// Mean of a metric at one point over that at another.
    Growth { growth: String, from: X, to: X },
    /// Mean of a metric minus that of another policy.
    Margin { margin: String, over: Names, at: X },
    /// Mean of a metric minus that of other metrics of the same policy.
    Excess { excess: String, than: Names, at: X },
    /// How much less of a metric a policy has than another one, beyond how much less it has under the variant `beyond`.
    Edge { edge: String, over: Names, beyond: String, at: X },
    /// A metric minus what it is under the variant `beyond`, there at the point `beyond_at` if one is named.
    Shift {
        shift: String,
        beyond: String,
        at: X,
        #[serde(default)]
        beyond_at: Option<X>,
    },
    /// A metric over what it is, with the same seed, under the variant that this variant names as
    /// `honest`: mean of the seeds, or the `worst` of them. A metric that exceeds that of the honest
    /// variant by `slack` or less counts as equal.
    Versus {
        versus: Names,
        at: X,
        /// Of each variant that has one; the experiment fills it in.
        #[serde(skip)]
        honest: BTreeMap<String, String>,
        #[serde(default)]
        worst: bool,
        #[serde(default)]
        slack: f64,
    },
    /// Part of the calls with PESQ within these two values.
    Share { share: [f64; 2], at: X },
    /// A metric minus that of another policy with the same seed at the same point, mean over all points from `from` on.
    Paired { paired: String, over: Names, from: u64 },
    /// The last point of the sweep up to which the mean of a metric keeps to a limit, 0 if none does; minus that of another policy, if there is one.
    Capacity {
        capacity: String,
        limit: f64,
        #[serde(default)]
        over: Option<Names>,
    },
    /// The first point of the sweep at which the mean of a metric is above a limit; minus that of another policy, which may be one of
    /// another variant.
    First {
        first: String,
        limit: f64,
        #[serde(default)]
        over: Option<Names>,
    },
}

impl Measure {
    /// Fills in what the file leaves to the experiment: its `policies`, and of each variant the
    /// `honest` one.
    ///
    /// # Errors
    /// One line: there is nothing to fill in, or a variant that is compared has no honest one.
    pub fn resolve(&mut self, policies: &[String], honest: &BTreeMap<String, String>) -> Result<()> {
        if self.policy.all().is_empty() {
            self.policy = Names::Many(policies.to_vec());
        }
        if self.policy.all().is_empty() {
            bail!("names no policy");
        }
        if !self.but.all().is_empty() && (self.variant.is_some() || !matches!(self.what, What::Versus { .. })) {
            bail!("`but` is for `versus` without `variant`");
        }
        if let What::Versus { honest: own, .. } = &mut self.what {
            let every = self.variant.is_none();
            let variants = self.variant.get_or_insert_with(|| Names::Many(honest.keys().cloned().collect()));
            if let (true, Names::Many(all)) = (every, &mut *variants) {
                all.retain(|variant| !self.but.all().contains(variant));
            }
            if variants.all().is_empty() {
                bail!("no variant names an honest one");
            }
            if let Some(none) = variants.all().iter().find(|v| !honest.contains_key(*v)) {
                bail!("the variant `{none}` names no honest one");
            }
            own.clone_from(honest);
        }
        Ok(())
    }

    /// Every variant it names.
    pub fn variants(&self) -> impl Iterator<Item = &String> {
        let beyond = match &self.what {
            What::Edge { beyond, .. } | What::Shift { beyond, .. } => Some(beyond),
            _ => None,
        };
        self.variant.iter().flat_map(Names::all).chain(self.but.all()).chain(beyond)
    }

    fn over(&self) -> Option<&Names> {
        match &self.what {
            What::Ratio { over, .. }
            | What::Gain { over, .. }
            | What::Edge { over, .. }
            | What::Trend { over, .. }
            | What::Margin { over, .. }
            | What::Paired { over, .. } => Some(over),
            What::Capacity { over, .. } | What::First { over, .. } => over.as_ref(),
            What::Level { .. }
            | What::Share { .. }
            | What::Shift { .. }
            | What::Excess { .. }
            | What::Versus { .. }
            | What::Growth { .. } => None,
        }
    }

    /// Every policy it is about.
    pub fn policies(&self) -> impl Iterator<Item = &String> {
        self.policy.all().iter().chain(self.over().map_or(&[][..], Names::all))
    }

    /// Whether it needs the rows of this policy at this point.
    pub fn needs(&self, policy: &str, x: &X) -> bool {
        let here = match &self.what {
            What::Level { at, .. }
            | What::Ratio { at, .. }
            | What::Margin { at, .. }
            | What::Edge { at, .. }
            | What::Excess { at, .. }
            | What::Versus { at, .. }
            | What::Share { at, .. } => covers(at, x),
            What::Shift { at, beyond_at, .. } => covers(at, x) || beyond_at.as_ref().is_some_and(|at| covers(at, x)),
            What::Growth { from, to, .. } => from == x || to == x,
            What::Paired { from, .. } => number(x).is_some_and(|n| n >= *from),
            What::Capacity { .. } | What::First { .. } | What::Gain { .. } | What::Trend { .. } => true,
        };
        here && self.policies().any(|p| p == policy)
    }

    /// One value per variant, metric, policy (pair of policies) and point; `None` if any of them has nothing to measure.
    pub fn values(&self, rows: &[Row]) -> Option<Vec<f64>> {
        if let What::First { .. } = self.what {
            return self.values_of(&rows.iter().collect::<Vec<_>>());
        }
        let variants = match &self.variant {
            Some(named) => named.all().iter().map(String::as_str).collect(),
            None => distinct(rows.iter().map(|r| r.variant.as_str())),
        };
        let mut out = Vec::new();
        for variant in variants {
            let here: Vec<&Row> = rows.iter().filter(|r| r.variant == variant).collect();
            let mut values = match &self.what {
                What::Versus { honest, .. } => {
                    let honest = honest.get(variant)?;
                    self.versus(&here, &rows.iter().filter(|r| r.variant == *honest).collect::<Vec<_>>())?
                }
                _ => self.values_of(&here)?,
            };
            if let What::Edge { beyond, .. } | What::Shift { beyond, .. } = &self.what {
                let there: Vec<&Row> = rows.iter().filter(|r| r.variant == *beyond).collect();
                let others = self.beyond().values_of(&there)?;
                if others.len() != values.len() {
                    return None;
                }
                values = values.iter().zip(others).map(|(here, there)| here - there).collect();
            }
            if values.is_empty() {
                return None;
            }
            out.extend(values);
        }
        Some(out)
    }

    /// Of each metric and policy, at each point.
    fn versus(&self, here: &[&Row], there: &[&Row]) -> Option<Vec<f64>> {
        let What::Versus { versus, at, worst, slack, .. } = &self.what else { return None };
        let one = |metric: &String| {
            each(&self.policy, None, at, here, |own, _| {
                let over = |row: &&Row| {
                    let same = |r: &&&Row| r.policy == row.policy && r.x == row.x && r.seed == row.seed;
                    let (a, b) = (row.get(metric), there.iter().find(same)?.get(metric));
                    let (a, b) = (*a.first()?, *b.first()?);
                    Some(if a - b <= *slack { (a / b.max(f64::MIN_POSITIVE)).min(1.0) } else { a / b })
                };
                let all = own.iter().map(over).collect::<Option<Vec<_>>>()?;
                let most = all.iter().copied().max_by(f64::total_cmp)?;
                Some(if *worst { most } else { all.iter().sum::<f64>() / all.len() as f64 })
            })
        };
        versus.all().iter().map(one).collect::<Option<Vec<_>>>().map(|v| v.concat())
    }

    /// As it is measured under the variant `beyond`.
    fn beyond(&self) -> Self {
        let mut there = self.clone();
        if let What::Shift { at, beyond_at: Some(other), .. } = &mut there.what {
            at.clone_from(other);
        }
        there
    }

    fn values_of(&self, rows: &[&Row]) -> Option<Vec<f64>> {
        let policy = &self.policy;
        match &self.what {
            What::Level { level, at, stat } => {
                let one = |metric: &String| {
                    each(policy, None, at, rows, |here, _| {
                        stat.of(&here.iter().flat_map(|r| r.get(metric)).collect::<Vec<_>>())
                    })
                };
                level.all().iter().map(one).collect::<Option<Vec<_>>>().map(|v| v.concat())
            }
            What::Excess { excess, than, at } => {
                let one = |other: &String| {
                    each(policy, None, at, rows, |here, _| Some(mean(here, excess)? - mean(here, other)?))
                };
                than.all().iter().map(one).collect::<Option<Vec<_>>>().map(|v| v.concat())
            }
            What::Share { share: [low, high], at } => each(policy, None, at, rows, |here, _| {
                let calls: Vec<f64> = here.iter().flat_map(|r| r.get("call_pesq")).collect();
                let within = calls.iter().filter(|v| (low..=high).contains(v)).count();
                (!calls.is_empty()).then(|| within as f64 / calls.len() as f64)
            }),
            What::Ratio { ratio: metric, over, at } => each(policy, Some(over), at, rows, |a, b| {
                let (a, b) = (mean(a, metric)?, mean(b, metric)?);
                (b > 0.0).then(|| a / b)
            }),
            What::Growth { growth: metric, from, to } => pairs(policy, None, |p, _| {
                let at = |x: &X| {
                    mean(&rows.iter().copied().filter(|r| r.policy == p && r.x == *x).collect::<Vec<_>>(), metric)
                };
                let (from, to) = (at(from)?, at(to)?);
                (from > 0.0).then(|| to / from)
            }),
            What::Gain { gain: metric, over } => {
                pairs(policy, Some(over), |a, b| gains(rows, a, b?, metric)?.into_iter().max_by(f64::total_cmp))
            }
            What::Trend { trend: metric, over } => {
                pairs(policy, Some(over), |a, b| rank_correlation(&gains(rows, a, b?, metric)?))
            }
            What::Margin { margin: metric, over, at } => {
                each(policy, Some(over), at, rows, |a, b| Some(mean(a, metric)? - mean(b, metric)?))
            }
            What::Versus { .. } => None,
            What::Shift { shift, at, .. } => each(policy, None, at, rows, |here, _| mean(here, shift)),
            What::Edge { edge: metric, over, at, .. } => {
                each(policy, Some(over), at, rows, |a, b| Some(mean(b, metric)? - mean(a, metric)?))
            }
            What::Paired { paired, over, from } => {
                pairs(policy, Some(over), |a, b| paired_mean(rows, a, b?, paired, *from))
            }
            What::Capacity { capacity: metric, limit, over } => pairs(policy, over.as_ref(), |a, b| {
                let of = |p| kept(rows, p, metric, *limit).map(|(last, _)| last.unwrap_or(0) as f64);
                Some(of(a)? - b.map_or(Some(0.0), of)?)
            }),
            What::First { first: metric, limit, over } => pairs(policy, over.as_ref(), |a, b| {
                let of = |p| kept(rows, p, metric, *limit).and_then(|(_, next)| Some(next? as f64));
                Some(of(a)? - b.map_or(Some(0.0), of)?)
            }),
        }
    }
}
