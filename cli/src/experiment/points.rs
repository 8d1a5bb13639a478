// SPDX-License-Identifier: GPL-2.0-only
//! The rows of policies at points of a sweep.

use crate::row::{Row, X};
use crate::stat::{Stat, distinct};
use serde::Deserialize;

/// One name or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Many(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Names::Many(Vec::new())
    }
}

impl Names {
    pub(super) fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Many(names) => names,
        }
    }
}

pub(super) fn number(x: &X) -> Option<u64> {
    match x {
        X::Number(n) => Some(*n),
        X::Name(_) => None,
    }
}

/// One value per policy, or per pair of policies.
pub(super) fn pairs(
    policy: &Names,
    over: Option<&Names>,
    f: impl Fn(&str, Option<&str>) -> Option<f64>,
) -> Option<Vec<f64>> {
    let others: Vec<Option<&str>> =
        over.map_or_else(|| vec![None], |over| over.all().iter().map(|o| Some(o.as_str())).collect());
    policy.all().iter().flat_map(|p| others.iter().map(|o| f(p, *o))).collect()
}

pub(super) fn covers(at: &X, x: &X) -> bool {
    at == x || matches!(at, X::Name(name) if name == "all")
}

pub(super) fn mean(rows: &[&Row], metric: &str) -> Option<f64> {
    Stat::Mean.of(&rows.iter().flat_map(|r| r.get(metric)).collect::<Vec<_>>())
}

/// Applies `f` to the rows of each policy, with those of each policy of `over`, at each point of
/// `at`; `None` if it has no answer for one of them, lest a policy that did not run passes.
pub(super) fn each(
    policy: &Names,
    over: Option<&Names>,
    at: &X,
    rows: &[&Row],
    f: impl Fn(&[&Row], &[&Row]) -> Option<f64>,
) -> Option<Vec<f64>> {
    let points = distinct(rows.iter().map(|r| &r.x).filter(|x| covers(at, x)));
    let select = |p: &str, x: &X| rows.iter().copied().filter(|r| r.policy == p && r.x == *x).collect::<Vec<_>>();
    let mut out = Vec::new();
    for x in points {
        out.extend(pairs(policy, over, |p, o| f(&select(p, x), &o.map_or_else(Vec::new, |o| select(o, x))))?);
    }
    Some(out)
}
