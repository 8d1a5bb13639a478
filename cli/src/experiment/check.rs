// SPDX-License-Identifier: GPL-2.0-only
//! Acceptance rules as data: a measure over rows and the bounds it must keep.

use super::measure::Measure;
use crate::row::{Row, X};
use crate::stat::distinct;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Part of the points of a sweep at which a condition has to hold, for all seeds: on less, a result stands on a knife's edge.
const QUARTER: f64 = 0.25;

/// Whether a check decides the exit status (gate), is worth knowing (stretch), hands an input back (modelled), or asks for which
/// values of an input that no paper has the published order appears (condition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Gate,
    Stretch,
    Modelled,
    Condition,
}

/// A measure within bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub of: Measure,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub above: Option<f64>,
    pub below: Option<f64>,
}

/// A rule of `experiments/*.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    pub kind: Kind,
    pub of: Measure,
    /// Why it is not reached, if that is known: `--known` then forgives it.
    pub missed: Option<String>,
    /// Bounds that may be reached …
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// … and bounds that may not.
    pub above: Option<f64>,
    pub below: Option<f64>,
    /// Of a condition: the input that its sweep varies, in words, and what else has to hold at the same point.
    pub unknown: Option<String>,
    #[serde(default)]
    pub and: Vec<Rule>,
}

/// A check that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    pub name: String,
    pub kind: Kind,
    /// Bounds, as `>= 4.3`.
    pub want: String,
    /// The worst value, or the part of the points at which a condition holds; null when there is nothing to measure.
    pub got: Option<f64>,
    /// Whether it is within the bounds.
    pub ok: bool,
    /// Why it was known to be missed before it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// The input that a condition is about, and the points of the sweep at which it holds for all seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A gate that does not hold with one constant moved.
#[derive(Serialize, JsonSchema)]
pub struct Violation {
    /// Empty: it fails with no constant moved.
    pub constant: String,
    /// What it was moved to, in percent of its value.
    pub value: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Rule {
    /// Whether it asks for anything at all.
    fn bounded(&self) -> bool {
        [self.min, self.max, self.above, self.below].iter().any(Option::is_some)
    }

    fn within(&self, v: f64) -> bool {
        self.min.is_none_or(|b| v >= b)
            && self.max.is_none_or(|b| v <= b)
            && self.above.is_none_or(|b| v > b)
            && self.below.is_none_or(|b| v < b)
    }

    /// How far beyond its bounds a value lies; negative within them.
    fn beyond(&self, v: f64) -> f64 {
        let low = self.min.into_iter().chain(self.above).reduce(f64::max).map_or(f64::NEG_INFINITY, |b| b - v);
        let high = self.max.into_iter().chain(self.below).reduce(f64::min).map_or(f64::NEG_INFINITY, |b| v - b);
        low.max(high)
    }

    /// The value that lies farthest beyond, or least within.
    fn worst(&self, rows: &[Row]) -> Option<f64> {
        let all = self.of.values(rows).unwrap_or_default();
        all.into_iter().max_by(|a, b| self.beyond(*a).total_cmp(&self.beyond(*b)))
    }

    fn holds(&self, rows: &[Row]) -> bool {
        self.worst(rows).is_some_and(|v| self.within(v))
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

impl Check {
    /// Every measure of it.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        std::iter::once(&self.of).chain(self.and.iter().map(|rule| &rule.of))
    }

    /// The same, to be filled in.
    pub fn measures_mut(&mut self) -> impl Iterator<Item = &mut Measure> {
        std::iter::once(&mut self.of).chain(self.and.iter_mut().map(|rule| &mut rule.of))
    }

    /// Whether it asks for anything at all, and only for what its kind has.
    pub fn bounded(&self) -> bool {
        let condition = self.kind == Kind::Condition;
        condition == self.unknown.is_some()
            && (condition || self.and.is_empty())
            && self.rule().bounded()
            && self.and.iter().all(Rule::bounded)
    }

    fn rule(&self) -> Rule {
        let Self { min, max, above, below, .. } = *self;
        Rule { of: self.of.clone(), min, max, above, below }
    }

    /// The verdict over `rows`. Nothing to measure is a failure: a check that cannot fail proves nothing.
    pub fn evaluate(&self, rows: &[Row]) -> Verdict {
        if let Some(unknown) = &self.unknown {
            return self.condition(unknown, rows);
        }
        let rule = self.rule();
        let got = rule.worst(rows);
        let ok = got.is_some_and(|v| rule.within(v));
        self.verdict(rule.want(), got, ok, None)
    }

    /// It holds at a point if every rule holds there for each seed.
    fn condition(&self, unknown: &str, rows: &[Row]) -> Verdict {
        let first = self.rule();
        let rules: Vec<&Rule> = std::iter::once(&first).chain(&self.and).collect();
        let points = distinct(rows.iter().map(|r| &r.x));
        let holds = |x: &X| {
            let here: Vec<&Row> = rows.iter().filter(|r| r.x == *x).collect();
            distinct(here.iter().map(|r| r.seed)).into_iter().all(|seed| {
                let run: Vec<Row> = here.iter().filter(|r| r.seed == seed).map(|r| (*r).clone()).collect();
                rules.iter().all(|rule| rule.holds(&run))
            })
        };
        let good: Vec<bool> = points.iter().map(|x| holds(x)).collect();
        let part = good.iter().filter(|ok| **ok).count() as f64 / points.len().max(1) as f64;
        let mut runs: Vec<String> = Vec::new();
        for (n, x) in points.iter().enumerate().filter(|(n, _)| good[*n] && (*n == 0 || !good[n - 1])) {
            let last = points[n..].iter().zip(&good[n..]).take_while(|(_, ok)| **ok).last().map_or(x, |(x, _)| x);
            runs.push(if last == x { x.to_string() } else { format!("{x} to {last}") });
        }
        let at = format!("{unknown}: {}", if runs.is_empty() { "nowhere".to_owned() } else { runs.join(", ") });
        let got = (!points.is_empty()).then_some(part);
        self.verdict(format!(">= {QUARTER} of the points"), got, part >= QUARTER, Some(at))
    }

    fn verdict(&self, want: String, got: Option<f64>, ok: bool, at: Option<String>) -> Verdict {
        let (name, missed) = (self.name.clone(), self.missed.clone());
        Verdict { name, kind: self.kind, want, got: got.map(round), ok, missed, at }
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
    fn sweeps_have_capacities_and_first_points() {
        let mut rows = Vec::new();
        for (policy, values) in [("a", [0.0, 1.0, 6.0, 2.0]), ("b", [0.0, 7.0, 8.0, 9.0]), ("c", [0.0; 4])] {
            for (n, v) in values.into_iter().enumerate() {
                rows.push(Row::of(policy, X::Number(30 + 5 * n as u64), 1, [("m".to_owned(), v)].into(), Vec::new()));
            }
        }
        let got = |of: &str| check(&format!("of = {{ {of} }}\nmin = 0")).evaluate(&rows).got;
        assert_eq!(got("capacity = \"m\", limit = 5, policy = \"a\""), Some(35.0));
        assert_eq!(got("capacity = \"m\", limit = 5, policy = [\"c\", \"a\"], over = \"b\""), Some(5.0));
        assert_eq!(got("first = \"m\", limit = 0, policy = \"a\""), Some(35.0));
        assert_eq!(got("first = \"m\", limit = 0, policy = \"c\""), None, "it never comes");
        // (6 - 8 + 2 - 9) / 2
        assert_eq!(got("paired = \"m\", policy = \"a\", over = \"b\", from = 40"), Some(-4.5));
        assert_eq!(got("paired = \"m\", policy = \"a\", over = \"d\", from = 40"), None);
    }

    #[test]
    fn gains_are_greatest_somewhere_and_may_grow() {
        let mut rows = Vec::new();
        for (policy, values) in [("a", [9.0, 8.0, 4.0]), ("b", [10.0, 10.0, 8.0]), ("c", [5.0, 6.0, 7.0])] {
            for (n, v) in values.into_iter().enumerate() {
                rows.push(Row::of(policy, X::Number(n as u64), 1, [("m".to_owned(), v)].into(), Vec::new()));
            }
        }
        let got = |of: &str| check(&format!("of = {{ {of} }}\nmin = 0")).evaluate(&rows).got;
        assert_eq!(got("gain = \"m\", policy = \"a\", over = \"b\""), Some(0.5));
        assert_eq!(got("trend = \"m\", policy = \"a\", over = \"b\""), Some(1.0));
        assert_eq!(got("trend = \"m\", policy = \"c\", over = \"b\""), Some(-1.0));
        assert_eq!(got("gain = \"m\", policy = \"a\", over = \"d\""), None);
        assert_eq!(got("growth = \"m\", from = 0, to = 1, policy = \"c\""), Some(1.2));
        assert_eq!(got("growth = \"m\", from = 0, to = 9, policy = \"c\""), None);
    }

    #[test]
    fn variants_are_judged_apart() {
        let mut rows = vec![row("a", 5, 4.4, &[]), row("a", 5, 4.0, &[])];
        rows[0].variant = "one".into();
        rows[1].variant = "two".into();
        let got = |more: &str| {
            let of = format!("of = {{ level = \"pesq_mean\", policy = \"a\", at = 5{more} }}\nmin = 4.2");
            check(&of).evaluate(&rows).got
        };
        assert_eq!((got(""), got(", variant = \"one\"")), (Some(4.0), Some(4.4)));
        assert_eq!(got(", variant = [\"one\", \"three\"]"), None);
        let gains: Vec<_> = ["one", "two"]
            .into_iter()
            .zip([0.5, 0.2])
            .map(|(variant, gain)| {
                let mut better = row("b", 5, rows[0].metrics["pesq_mean"], &[]);
                let worse = rows.iter().find(|r| r.variant == variant).unwrap().metrics["pesq_mean"];
                better.metrics.insert("pesq_mean".into(), worse - gain);
                better.variant = variant.into();
                better
            })
            .collect();
        let all = [&rows[..], &gains[..]].concat();
        let gain =
            "of = { edge = \"pesq_mean\", policy = \"b\", over = \"a\", at = 5, variant = \"one\", beyond = \"two\" }";
        assert_eq!(check(&format!("{gain}\nabove = 0")).evaluate(&all).got, Some(0.3));
        let shift =
            "of = { shift = \"pesq_mean\", policy = \"a\", at = 5, variant = \"one\", beyond = \"two\" }\nabove = 0";
        assert_eq!(check(shift).evaluate(&all).got, Some(0.4));
        let mut more = vec![row("a", 90, 3.9, &[]), row("a", 90, 3.7, &[])];
        (more[0].variant, more[1].variant) = ("one".into(), "two".into());
        let more = [&rows[..], &more].concat();
        let shift = |ends: &str| {
            let of = format!("shift = \"pesq_mean\", policy = \"a\", variant = \"one\", beyond = \"two\", {ends}");
            check(&format!("of = {{ {of} }}\nabove = 0")).evaluate(&more).got
        };
        assert_eq!((shift("at = 5, beyond_at = 90"), shift("at = 90, beyond_at = 5")), (Some(0.7), Some(-0.1)));
        assert_eq!(shift("at = 5, beyond_at = 7"), None, "nothing there");
        assert_eq!(shift("at = \"all\", beyond_at = 5"), None, "not as many there");
        rows[0].metrics.insert("other".into(), 4.3);
        let excess = check(
            "of = { excess = \"pesq_mean\", than = \"other\", policy = \"a\", at = 5, variant = \"one\" }\nmin = 0",
        );
        assert_eq!(excess.evaluate(&rows).got, Some(0.1));
    }

    #[test]
    fn a_condition_holds_on_a_part_of_the_sweep_for_each_seed() {
        let mut rows = Vec::new();
        for (x, [one, two]) in
            (0..8).zip([[1., 9.], [3., 3.], [4., 5.], [2., 2.], [9., 9.], [1., 1.], [1., 1.], [1., 1.]])
        {
            for (seed, v) in [(1, one), (2, two)] {
                let metrics = [("m".to_owned(), v), ("n".to_owned(), x as f64)].into();
                rows.push(Row::of("a", X::Number(x), seed, metrics, Vec::new()));
            }
        }
        let condition = |more: &str| {
            let text =
                format!("name = \"c\"\nkind = \"condition\"\nof = {{ level = \"m\", at = \"all\" }}\nmin = 3\n{more}");
            let mut check: Check = toml::from_str(&text).expect(&text);
            check.measures_mut().for_each(|m| m.resolve(&["a".to_owned()], &Default::default()).unwrap());
            check
        };
        let all = condition("unknown = \"what nobody says\"");
        assert!(all.bounded());
        let v = all.evaluate(&rows);
        // Of seed 1 alone point 0 fails.
        assert_eq!((v.got, v.ok, v.want.as_str()), (Some(0.375), true, ">= 0.25 of the points"));
        assert_eq!(v.at.as_deref(), Some("what nobody says: 1 to 2, 4"));
        let and = "unknown = \"u\"\nand = [{ of = { level = \"n\", at = \"all\" }, above = 2 }]";
        let v = condition(and).evaluate(&rows);
        assert_eq!((v.got, v.ok, v.at.as_deref()), (Some(0.125), false, Some("u: 4")));
        let nowhere = condition("unknown = \"u\"\nmax = 2").evaluate(&rows);
        assert_eq!((nowhere.got, nowhere.ok, nowhere.at.as_deref()), (Some(0.0), false, Some("u: nowhere")));
        assert_eq!(condition("unknown = \"u\"").evaluate(&[]).got, None);
        assert!(!condition("").bounded(), "it does not say what is unknown");
        assert!(!check("of = { level = \"m\", at = 1 }\nmin = 1\nunknown = \"u\"").bounded(), "a gate knows all");
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
