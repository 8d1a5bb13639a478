// SPDX-License-Identifier: GPL-2.0-only
//! Acceptance rules as data: a measure over rows and the bounds it must keep.

use super::measure::Measure;
use crate::row::Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a check decides the exit status (gate), is worth knowing (stretch), or hands an input back (modelled).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Why it is not reached, if that is known: `--known` then forgives it.
    pub missed: Option<String>,
    /// Bounds that may be reached …
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// … and bounds that may not.
    pub above: Option<f64>,
    pub below: Option<f64>,
}

/// A check that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    pub name: String,
    pub kind: Kind,
    /// Bounds, as `>= 4.3`.
    pub want: String,
    /// The worst value; null when there is nothing to measure.
    pub got: Option<f64>,
    /// Whether it is within the bounds.
    pub ok: bool,
    /// Why it was known to be missed before it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
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
        Verdict {
            name: self.name.clone(),
            kind: self.kind,
            want: self.want(),
            got: got.map(round),
            ok,
            missed: self.missed.clone(),
        }
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
    use crate::row::X;

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
    fn nothing_to_measure_fails() {
        let v = check("of = { level = \"pesq_mean\", policy = \"a\", at = 90 }\nmin = 0").evaluate(&[]);
        assert_eq!((v.got, v.ok), (None, false));
        let one = [row("a", 90, 4.4, &[])];
        let v = check("of = { level = \"pesq_mean\", policy = [\"a\", \"b\"], at = 90 }\nmin = 0").evaluate(&one);
        assert_eq!((v.got, v.ok), (None, false), "b did not run");
    }
}
