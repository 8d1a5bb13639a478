// SPDX-License-Identifier: GPL-2.0-only
//! Acceptance rules as data: a measure over rows and the bounds it must keep.

use super::data::X;
use super::row::Row;
use serde::{Deserialize, Serialize};
use takt_sim::quantile;

/// Whether a check decides the exit status (gate), is worth knowing (stretch), or hands an input back (modelled).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Gate,
    Stretch,
    Modelled,
}

/// A rule of `experiments/*.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    pub kind: Kind,
    pub of: Measure,
    /// Bounds that may be reached …
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// … and bounds that may not.
    pub above: Option<f64>,
    pub below: Option<f64>,
}

/// What is measured; where several policies or points are named, the one that comes off worst counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Measure {
    /// A metric of a policy: its mean over seeds, or a statistic over what all seeds have.
    Level {
        level: String,
        policy: Names,
        at: X,
        #[serde(default)]
        stat: Stat,
    },
    /// Mean of a metric over that of another policy.
    Ratio { ratio: String, policy: Names, over: Names, at: X },
    /// Mean of a metric minus that of another policy.
    Margin { margin: String, policy: Names, over: Names, at: X },
    /// Part of the calls with PESQ within these two values.
    Share { share: [f64; 2], policy: Names, at: X },
}

/// One name or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Many(names) => names,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    #[default]
    Mean,
    Min,
    Q25,
    Q75,
    Max,
}

/// A check that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub name: String,
    pub kind: Kind,
    pub want: String,
    /// `None` when there is nothing to measure.
    pub got: Option<f64>,
    pub ok: bool,
}

impl Measure {
    /// Every policy it is about.
    pub fn policies(&self) -> impl Iterator<Item = &String> {
        let (a, b): (&Names, &[String]) = match self {
            Measure::Level { policy, .. } | Measure::Share { policy, .. } => (policy, &[]),
            Measure::Ratio { policy, over, .. } | Measure::Margin { policy, over, .. } => (policy, over.all()),
        };
        a.all().iter().chain(b)
    }

    /// Whether it needs the rows of this policy at this point.
    pub fn needs(&self, policy: &str, x: &X) -> bool {
        let (Measure::Level { at, .. }
        | Measure::Ratio { at, .. }
        | Measure::Margin { at, .. }
        | Measure::Share { at, .. }) = self;
        covers(at, x) && self.policies().any(|p| p == policy)
    }

    /// One value per policy (pair of policies) and point; `None` if any of them has nothing to measure.
    pub fn values(&self, rows: &[Row]) -> Option<Vec<f64>> {
        match self {
            Measure::Level { level, policy, at, stat } => each(policy, None, at, rows, |here, _| {
                stat.of(&here.iter().flat_map(|r| r.get(level)).collect::<Vec<_>>())
            }),
            Measure::Share { share: [low, high], policy, at } => each(policy, None, at, rows, |here, _| {
                let calls: Vec<f64> = here.iter().flat_map(|r| r.get("call_pesq")).collect();
                let within = calls.iter().filter(|v| (low..=high).contains(v)).count();
                (!calls.is_empty()).then(|| within as f64 / calls.len() as f64)
            }),
            Measure::Ratio { ratio: metric, policy, over, at } => each(policy, Some(over), at, rows, |a, b| {
                let (a, b) = (mean(a, metric)?, mean(b, metric)?);
                (b > 0.0).then(|| a / b)
            }),
            Measure::Margin { margin: metric, policy, over, at } => {
                each(policy, Some(over), at, rows, |a, b| Some(mean(a, metric)? - mean(b, metric)?))
            }
        }
    }
}

fn covers(at: &X, x: &X) -> bool {
    at == x || matches!(at, X::Name(name) if name == "all")
}

fn mean(rows: &[&Row], metric: &str) -> Option<f64> {
    Stat::Mean.of(&rows.iter().flat_map(|r| r.get(metric)).collect::<Vec<_>>())
}

/// Applies `f` to the rows of each policy, with those of each policy of `over`, at each point of `at`; `None` if it has
/// no answer for one of them, lest a policy that did not run passes.
fn each(
    policy: &Names,
    over: Option<&Names>,
    at: &X,
    rows: &[Row],
    f: impl Fn(&[&Row], &[&Row]) -> Option<f64>,
) -> Option<Vec<f64>> {
    let mut points: Vec<&X> = Vec::new();
    for row in rows {
        if !points.contains(&&row.x) && covers(at, &row.x) {
            points.push(&row.x);
        }
    }
    let select = |p: &str, x: &X| rows.iter().filter(|r| r.policy == p && r.x == *x).collect::<Vec<_>>();
    let mut out = Vec::new();
    for x in points {
        for p in policy.all() {
            match over {
                None => out.push(f(&select(p, x), &[])),
                Some(over) => out.extend(over.all().iter().map(|o| f(&select(p, x), &select(o, x)))),
            }
        }
    }
    out.into_iter().collect()
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
            Stat::Q75 => quantile(&v, 0.75),
            Stat::Max => v[v.len() - 1],
        })
    }
}

impl Check {
    /// Whether it asks for anything at all.
    pub fn bounded(&self) -> bool {
        [self.min, self.max, self.above, self.below].iter().any(Option::is_some)
    }

    /// The verdict over `rows`. Nothing to measure is a failure: a check that cannot fail proves nothing.
    pub fn evaluate(&self, rows: &[Row]) -> Verdict {
        // How far beyond its bounds a value lies; negative within them.
        let beyond = |v: f64| {
            let low = self.min.into_iter().chain(self.above).reduce(f64::max).map_or(f64::NEG_INFINITY, |b| b - v);
            let high = self.max.into_iter().chain(self.below).reduce(f64::min).map_or(f64::NEG_INFINITY, |b| v - b);
            low.max(high)
        };
        let got = self.of.values(rows).unwrap_or_default().into_iter().max_by(|a, b| beyond(*a).total_cmp(&beyond(*b)));
        let ok = got.is_some_and(|v| {
            self.min.is_none_or(|b| v >= b)
                && self.max.is_none_or(|b| v <= b)
                && self.above.is_none_or(|b| v > b)
                && self.below.is_none_or(|b| v < b)
        });
        Verdict { name: self.name.clone(), kind: self.kind, want: self.want(), got: got.map(round), ok }
    }

    fn want(&self) -> String {
        match (self.min, self.max) {
            (Some(a), Some(b)) => return format!("{a}..={b}"),
            (Some(a), None) => return format!(">= {a}"),
            (None, Some(b)) => return format!("<= {b}"),
            (None, None) => {}
        }
        match (self.above, self.below) {
            (Some(a), Some(b)) => format!("> {a} and < {b}"),
            (Some(a), None) => format!("> {a}"),
            (None, Some(b)) => format!("< {b}"),
            (None, None) => String::new(),
        }
    }
}

/// Four decimals: what a reader can use, and no digits that differ between rounding modes.
pub fn round(v: f64) -> f64 {
    (v * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, x: u64, pesq: f64, calls: &[f64]) -> Row {
        Row::of(policy, X::Number(x), 1, [("pesq_mean".to_owned(), pesq)].into(), calls.to_vec())
    }

    fn check(text: &str) -> Check {
        toml::from_str(&format!("name = \"c\"\nkind = \"gate\"\n{text}")).expect(text)
    }

    #[test]
    fn the_worst_point_counts() {
        let rows = [row("a", 5, 4.4, &[]), row("a", 90, 4.2, &[]), row("b", 90, 2.1, &[])];
        let v = check("of = { level = \"pesq_mean\", policy = \"a\", at = \"all\" }\nmin = 4.3").evaluate(&rows);
        assert_eq!((v.got, v.ok, v.want.as_str()), (Some(4.2), false, ">= 4.3"));
        let v = check("of = { level = \"pesq_mean\", policy = [\"a\", \"b\"], at = 90 }\nmax = 4.3").evaluate(&rows);
        assert_eq!((v.got, v.ok), (Some(4.2), true));
        let v = check("of = { ratio = \"pesq_mean\", policy = \"a\", over = \"b\", at = 90 }\nmin = 1.9\nmax = 2.1");
        assert_eq!(v.evaluate(&rows).got, Some(2.0));
        let v =
            check("of = { margin = \"pesq_mean\", policy = \"b\", over = \"a\", at = 90 }\nabove = 0").evaluate(&rows);
        assert_eq!((v.got, v.ok), (Some(-2.1), false));
    }

    #[test]
    fn calls_are_pooled() {
        let rows = [row("a", 90, 0.0, &[4.0, 4.3, 4.4, 4.5])];
        let v = check("of = { share = [4.2, 4.5], policy = \"a\", at = 90 }\nmin = 0.9").evaluate(&rows);
        assert_eq!((v.got, v.ok), (Some(0.75), false));
        let v = check("of = { level = \"call_pesq\", stat = \"q75\", policy = \"a\", at = 90 }\nbelow = 4.5")
            .evaluate(&rows);
        assert_eq!((v.got, v.ok), (Some(4.425), true));
    }

    #[test]
    fn nothing_to_measure_fails() {
        let v = check("of = { level = \"pesq_mean\", policy = \"a\", at = 90 }\nmin = 0").evaluate(&[]);
        assert_eq!((v.got, v.ok), (None, false));
        let one = [row("a", 90, 4.4, &[])];
        let v = check("of = { level = \"pesq_mean\", policy = [\"a\", \"b\"], at = 90 }\nmin = 0").evaluate(&one);
        assert_eq!((v.got, v.ok), (None, false), "b did not run");
    }
}
