// SPDX-License-Identifier: GPL-2.0-only
//! The charts of an experiment: of the metrics that its `chart` names, each over the sweep, or by
//! policy and variant at a point.

use super::Outcome;
use super::data::Experiment;
use super::metrics::{self, Draw, Metric};
use super::points::Names;
use crate::report::chart::{Axis, Chart, Dots, Kind, Line, Lines, Row as Bar, Rows, Scale, Series};
use crate::report::legend::Legend;
use crate::report::{Charts, Section};
use crate::row::{Row, X};
use crate::stat::{Stat, distinct};

/// What a run has of a span, as names of metrics have it.
const SPAN: [&str; 3] = ["p50", "p99", "max"];

struct Drawer<'a> {
    e: &'a Experiment,
    rows: &'a [Row],
    legend: Legend<'a>,
}

/// The charts, each with the runs that it is based on.
pub fn charts(e: &Experiment, o: &Outcome, basis: &str) -> Charts {
    let ran = |p: &&str| o.rows.iter().any(|r| r.policy == **p);
    let own = e.every_policy().map(String::as_str).filter(ran);
    let legend = Legend::new(own.chain(o.rows.iter().map(|r| r.policy.as_str())));
    let drawer = Drawer { e, rows: &o.rows, legend };
    let all = e.chart.iter().flat_map(|names| drawer.of(names)).filter(|s| !s.chart.is_empty());
    let mut charts: Vec<_> = all.map(|s| s.based(&format!("{}: ", e.id), basis)).collect();
    let left_out = if charts.is_empty() {
        Some(format!("{}: these runs have no value to draw; they may be too short.", e.id))
    } else {
        let titles: Vec<_> = charts.iter().skip(Charts::MOST).map(|s| s.title.as_str()).collect();
        (!titles.is_empty()).then(|| {
            let most = Charts::MOST;
            format!("A page has at most {most} charts of an experiment. Not drawn: {}.", titles.join("; "))
        })
    };
    charts.truncate(Charts::MOST);
    Charts { charts, left_out }
}

/// A circumstance: a variant, and a point of the sweep.
type Group<'a> = (&'a str, &'a X);

impl<'a> Drawer<'a> {
    fn of(&self, names: &Names) -> Vec<Section> {
        // An experiment with names that have no chart has been refused.
        match &metrics::of_chart(names.all()).unwrap_or_default()[..] {
            [metric] => match metric.axis.draw {
                Draw::Calls | Draw::Span | Draw::Share => self.at_last(metric).into_iter().collect(),
                Draw::Value(_) | Draw::Quality => self.everywhere(metric),
            },
            several => self.several(several).into_iter().collect(),
        }
    }

    /// The values of a metric at one point, in the unit of its axis.
    fn values(&self, policy: &str, (variant, x): Group, name: &str, draw: Draw) -> Vec<f64> {
        let divide = if let Draw::Value(divide) = draw { divide } else { 1.0 };
        let here = self.rows.iter().filter(|r| r.policy == policy && r.variant == variant && r.x == *x);
        here.flat_map(|r| r.get(name)).map(|v| v / divide).collect()
    }

    /// All circumstances, in the order of the rows.
    fn groups(&self) -> Vec<Group<'a>> {
        distinct(self.rows.iter().map(|r| (r.variant.as_str(), &r.x)))
    }

    /// How a group is called: by what it has of its own.
    fn name(&self, (variant, x): Group, one_point: bool) -> String {
        match (variant, one_point) {
            ("", _) => x.to_string(),
            (variant, true) => variant.to_owned(),
            (variant, false) => format!("{variant}: {x}"),
        }
    }

    fn sweep(&self) -> &str {
        self.e.sweep.as_ref().map_or("server", |s| &s.name)
    }

    fn axis(of: &metrics::Axis, values: impl IntoIterator<Item = f64>) -> Axis {
        match of.draw {
            Draw::Quality => Axis::quality(of.title),
            _ => Axis::from_zero(of.title, values),
        }
    }

    /// Lines over a sweep of numbers; dots where several policies stand beside several
    /// circumstances; else bars.
    fn everywhere(&self, metric: &Metric) -> Vec<Section> {
        let groups = self.groups();
        let number = |g: &Group<'a>| if let X::Number(n) = g.1 { Some(*n as f64) } else { None };
        let mut points: Vec<f64> = groups.iter().filter_map(number).collect();
        points.sort_by(f64::total_cmp);
        points.dedup();
        if points.len() > 1 && groups.iter().all(|g| number(g).is_some()) {
            return self.lines(metric, &points);
        }
        let one_point = groups.iter().all(|g| g.1 == groups[0].1);
        let names: Vec<_> = groups.iter().map(|g| self.name(*g, one_point)).collect();
        let value = |policy: &str, g: Group| Stat::Mean.of(&self.values(policy, g, metric.name, metric.axis.draw));
        let (caption, chart) = if groups.len() == 1 || self.legend.policies.len() == 1 {
            let mut rows = Vec::new();
            for (g, name) in groups.iter().zip(names) {
                let label = |row: Bar| if groups.len() == 1 { row } else { Bar { label: name.clone(), ..row } };
                rows.extend(self.legend.rows("", |p| Some(vec![value(p, *g)?])).into_iter().map(label));
            }
            let axis = Self::axis(metric.axis, rows.iter().map(|r| r.values[0]));
            (self.where_at(&groups), Chart::Rows(Rows { axis, kind: Kind::Bars, rows }))
        } else {
            let of = if groups[0].0.is_empty() { self.sweep() } else { "variant" };
            let each = |policy: &str| groups.iter().map(|g| value(policy, *g)).collect();
            (Kind::Bars.caption().to_owned(), self.dots(metric.axis, of, names, each))
        };
        vec![Section { title: metric.title.clone(), caption, chart }]
    }

    fn where_at(&self, groups: &[Group]) -> String {
        match groups {
            [(_, X::Number(n))] => format!("At {n} {}, means over seeds.", self.sweep()),
            _ => Kind::Bars.caption().into(),
        }
    }

    fn dots(
        &self,
        axis: &metrics::Axis,
        of: &str,
        groups: Vec<String>,
        each: impl Fn(&str) -> Vec<Option<f64>>,
    ) -> Chart {
        let one = |(p, style): (&str, usize)| Series { label: p.to_owned(), style, values: each(p) };
        let series: Vec<_> = self.legend.entries().map(one).filter(|s| s.values.iter().any(Option::is_some)).collect();
        let axis = Self::axis(axis, series.iter().flat_map(|s| &s.values).flatten().copied());
        Chart::Dots(Dots { axis, of: of.to_owned(), groups, series })
    }

    /// A chart for each variant.
    fn lines(&self, metric: &Metric, points: &[f64]) -> Vec<Section> {
        let groups = self.groups();
        let variants = distinct(groups.iter().map(|g| g.0));
        let (least, most) = (points[0], points[points.len() - 1]);
        let from = if least > most / 4.0 { least } else { 0.0 };
        let faint = |p: &str| self.e.literal.iter().chain(&self.e.reference).any(|l| l == p);
        let one = |variant: &&str| {
            let mut lines = Vec::new();
            for (policy, style) in self.legend.entries() {
                let point = |g: &Group| {
                    let X::Number(n) = g.1 else { return None };
                    let v = self.values(policy, *g, metric.name, metric.axis.draw);
                    Some([*n as f64, Stat::Mean.of(&v)?, Stat::Min.of(&v)?, Stat::Max.of(&v)?])
                };
                let points: Vec<_> = groups.iter().filter(|g| g.0 == *variant).filter_map(point).collect();
                lines.push(Line { label: policy.to_owned(), style, faint: faint(policy), points });
            }
            lines.retain(|l| !l.points.is_empty());
            let y = Self::axis(metric.axis, lines.iter().flat_map(|l| &l.points).map(|p| p[3]));
            let x = Axis { title: self.sweep().to_owned(), from, to: most, scale: Scale::Linear };
            let thin = if lines.iter().any(|l| l.faint) { " Thin lines are for comparison only." } else { "" };
            let title = &metric.title;
            let title = if variant.is_empty() { title.clone() } else { format!("{title}, {variant}") };
            let caption = format!("Means over seeds. Whiskers reach from the lowest to the highest seed.{thin}");
            Section { title, caption, chart: Chart::Lines(Lines { x, y, lines }) }
        };
        variants.iter().map(one).collect()
    }

    /// What is drawn at the last point of the sweep, of each variant and policy.
    fn at_last(&self, metric: &Metric) -> Option<Section> {
        let last = &self.rows.last()?.x;
        let groups: Vec<_> = self.groups().into_iter().filter(|g| g.1 == last).collect();
        let at = match last {
            X::Number(n) => format!("{n} {}", self.sweep()),
            X::Name(name) => name.clone(),
        };
        let title = format!("{}, {at}", metric.title);
        let of = |p: &str, g: &Group, name: &str| self.values(p, *g, name, metric.axis.draw);
        let kind = match metric.axis.draw {
            Draw::Calls => Kind::Boxes,
            Draw::Span => Kind::Spans,
            _ => {
                let shares = |g: &Group| self.legend.shares(g.0, |p| Stat::Mean.of(&of(p, g, "work")));
                return Some(self.legend.share_chart(title, groups.iter().flat_map(shares).collect()));
            }
        };
        let name = metric.name;
        let nth = |n: usize| if kind == Kind::Spans { format!("{name}_{}_ns", SPAN[n]) } else { name.to_owned() };
        let rows = |g: &Group| self.legend.rows(g.0, |p| kind.sum_up(|n| of(p, g, &nth(n))));
        let chart = Rows::new(kind, metric.axis.title, groups.iter().flat_map(rows).collect());
        Some(Section { title, caption: kind.caption().to_owned(), chart: Chart::Rows(chart) })
    }

    /// Several metrics with one axis, at the last point.
    fn several(&self, all: &[Metric]) -> Option<Section> {
        let (last, axis) = (&self.rows.last()?.x, all.first()?.axis);
        let groups: Vec<_> = self.groups().into_iter().filter(|g| g.1 == last).collect();
        let each_group = || groups.iter().flat_map(|g| all.iter().map(move |m| (*g, m)));
        let name = |((variant, _), m): (Group, &Metric)| {
            if variant.is_empty() { m.title.clone() } else { format!("{variant}: {}", m.title) }
        };
        let value = |policy: &str, g: Group, m: &Metric| Stat::Mean.of(&self.values(policy, g, m.name, axis.draw));
        let each = |policy: &str| each_group().map(|(g, m)| value(policy, g, m)).collect();
        let chart = self.dots(axis, "what", each_group().map(name).collect(), each);
        Some(Section { title: axis.title.to_owned(), caption: Kind::Bars.caption().into(), chart })
    }
}
