// SPDX-License-Identifier: GPL-2.0-only
//! The figures every report draws from its rows, in the order a reader asks: how good, for whom, why, at what price.

use super::Section;
use super::chart::{self, Axis, Line, Rows};
use crate::row::{Row, X};
use crate::stat::Stat;
use anyhow::Result;
use takt_control::duration;
use takt_sim::quantile;

/// The rows of a report and how its policies are to be shown.
pub struct Figures<'a> {
    pub rows: &'a [Row],
    /// In the order of legends.
    pub policies: Vec<&'a str>,
    /// Those shown thin.
    pub faint: Vec<&'a str>,
    /// Seeds and duration, for captions.
    pub basis: String,
}

/// Grey, for what is no scheduler.
const GREY: usize = 11;

impl Figures<'_> {
    /// The same policy has the same colour in every report: Credit, Doris and `pin` by name, the others in their order.
    fn colour(&self, policy: &str) -> usize {
        match policy {
            "credit" => 0,
            "doris" => 1,
            "pin" => GREY,
            _ => {
                let others = self.policies.iter().filter(|p| !["credit", "doris", "pin"].contains(p));
                2 + others.take_while(|p| **p != policy).count() % (GREY - 2)
            }
        }
    }

    fn select(&self, policy: &str, x: Option<&X>) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |r| r.policy == policy && x.is_none_or(|x| r.x == *x))
    }

    fn values(&self, policy: &str, x: &X, metric: &str) -> Vec<f64> {
        self.select(policy, Some(x)).flat_map(|r| r.get(metric)).collect()
    }

    /// Points of the sweep, in the order of the rows.
    fn points(&self) -> Vec<&X> {
        let mut points = Vec::new();
        for r in self.rows {
            if !points.contains(&&r.x) {
                points.push(&r.x);
            }
        }
        points
    }

    /// A metric over the sweep; `None` if there is no sweep or no such metric.
    ///
    /// # Errors
    /// The chart cannot be drawn.
    pub fn sweep(&self, metric: &str, what: &str, range: [f64; 2], x: &str) -> Result<Option<String>> {
        let numbers: Vec<(&X, f64)> = self
            .points()
            .into_iter()
            .filter_map(|p| match p {
                X::Number(n) => Some((p, *n as f64)),
                X::Name(_) => None,
            })
            .collect();
        let to = numbers.iter().map(|n| n.1).fold(0.0, f64::max);
        let line = |policy: &&str| {
            let point = |(x, at): &(&X, f64)| {
                let v = self.values(policy, x, metric);
                Some([*at, Stat::Mean.of(&v)?, Stat::Min.of(&v)?, Stat::Max.of(&v)?])
            };
            let (label, faint) = ((*policy).to_owned(), self.faint.contains(policy));
            Line { label, colour: self.colour(policy), faint, points: numbers.iter().filter_map(point).collect() }
        };
        let lines: Vec<Line> = self.policies.iter().map(line).filter(|l| !l.points.is_empty()).collect();
        if numbers.len() < 2 || lines.is_empty() {
            return Ok(None);
        }
        let whole = |v: f64| format!("{v:.0}");
        let decimal = |v: f64| format!("{v:.1}");
        let y = Axis { title: what, from: range[0], to: range[1], format: &decimal };
        chart::lines(&Axis { title: x, from: 0.0, to, format: &whole }, &y, &lines).map(Some)
    }

    /// Everything that can be drawn for one point of the sweep; `load` names it in titles ("90 calls").
    ///
    /// # Errors
    /// A chart cannot be drawn.
    pub fn at(&self, x: &X, load: &str) -> Result<Vec<Section>> {
        let mut out = Vec::new();
        let mut add = |title: String, caption: String, svg: Option<String>| {
            out.extend(svg.map(|svg| Section { title, caption, svg }));
        };
        add(
            format!("How the calls sound: {load}"),
            format!(
                "PESQ of each call: box from the 25th to the 75th percentile with the median, whiskers to the worst and the \
                 best call. 4.45 is a clean call, below 4 is heard, 2.5 is poor. {}.",
                self.basis
            ),
            self.boxes(x)?,
        );
        for (prefix, who, title) in [
            ("rt_wait", "the VoIP VM's VCPU", "How long the VoIP server waits for a PCPU"),
            ("dom0_wait", "Dom0's VCPUs", "How long Dom0 waits for a PCPU"),
        ] {
            add(
                format!("{title}: {load}"),
                format!(
                    "From the moment {who} could run until it does: ring = median, dot = 99th percentile, bar = longest. \
                     Logarithmic: each step is ten times longer. Means over seeds of the first two, the longest of all. {}.",
                    self.basis
                ),
                self.waits(x, prefix)?,
            );
        }
        add(
            format!("What the batch VMs get done: {load}"),
            format!("Useful CPU time of all busy loops, relative to {}. {}.", self.base(), self.basis),
            self.work(x)?,
        );
        Ok(out)
    }

    fn rows_of(&self, f: impl Fn(&str) -> Option<Vec<f64>>) -> Option<Vec<chart::Row>> {
        let row = |p: &&str| Some(chart::Row { label: (*p).to_owned(), colour: self.colour(p), values: f(p)? });
        let rows: Vec<_> = self.policies.iter().filter_map(row).collect();
        (!rows.is_empty()).then_some(rows)
    }

    /// # Errors
    /// The chart cannot be drawn.
    pub fn boxes(&self, x: &X) -> Result<Option<String>> {
        let boxes = self.rows_of(|p| {
            let mut v = self.values(p, x, "call_pesq");
            v.sort_by(f64::total_cmp);
            (!v.is_empty()).then(|| [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&v, q)).to_vec())
        });
        let format = |v: f64| format!("{v:.1}");
        let axis = Axis { title: "PESQ", from: 1.0, to: 4.5, format: &format };
        boxes.map(|rows| chart::rows(&axis, &Rows::Boxes, &rows)).transpose()
    }

    fn waits(&self, x: &X, prefix: &str) -> Result<Option<String>> {
        let get = |p: &str, what: &str, stat: Stat| stat.of(&self.values(p, x, &format!("{prefix}_{what}_ns")));
        let spans = self
            .rows_of(|p| Some(vec![get(p, "p50", Stat::Mean)?, get(p, "p99", Stat::Mean)?, get(p, "max", Stat::Max)?]));
        let longest = spans.iter().flatten().flat_map(|r| &r.values).fold(1e6, |a: f64, b| a.max(*b));
        let to = 10f64.powf(longest.log10().ceil());
        let axis = Axis { title: "wait", from: 100.0, to, format: &duration::human };
        spans.map(|rows| chart::rows(&axis, &Rows::Spans, &rows)).transpose()
    }

    /// What batch work is compared with.
    fn base(&self) -> &str {
        if self.policies.contains(&"credit") { "credit" } else { self.policies.first().copied().unwrap_or_default() }
    }

    fn work(&self, x: &X) -> Result<Option<String>> {
        let mean = |p: &str| Stat::Mean.of(&self.values(p, x, "work"));
        let Some(base) = mean(self.base()).filter(|b| *b > 0.0) else { return Ok(None) };
        let bars = self.rows_of(|p| Some(vec![mean(p)? / base * 100.0]));
        let to = bars.iter().flatten().map(|r| r.values[0]).fold(100.0, f64::max);
        let format = |v: f64| if v == v.round() { format!("{v:.0}%") } else { format!("{v:.1}%") };
        let axis = Axis { title: "batch work done", from: 0.0, to, format: &format };
        bars.map(|rows| chart::rows(&axis, &Rows::Bars { base: 0.0 }, &rows)).transpose()
    }
}
