// SPDX-License-Identifier: GPL-2.0-only
//! The policies of a report, and by which look each is known in all its charts.

use super::chart::{Chart, Kind, Row, Rows};
use super::page::Section;
use super::theme::GREY;
use crate::stat::distinct;

/// Policies in the order of legends.
pub struct Legend<'a> {
    pub policies: Vec<&'a str>,
}

/// Policies with the same look in every report.
const FIXED: [(&str, usize); 3] = [("credit", 0), ("doris", 1), ("pin", GREY)];

impl<'a> Legend<'a> {
    /// Of policies in their order; each counts once.
    pub fn new(policies: impl IntoIterator<Item = &'a str>) -> Self {
        Self { policies: distinct(policies) }
    }

    /// Number of a policy's look: the fixed one, or the next that is free, in the order of policies.
    pub fn style(&self, policy: &str) -> usize {
        let fixed = |p: &str| FIXED.iter().find(|(name, _)| *name == p).map(|(_, style)| *style);
        fixed(policy).unwrap_or_else(|| {
            let mut free = (0..).filter(|n| FIXED.iter().all(|(_, style)| style != n));
            let before = self.policies.iter().take_while(|p| **p != policy).filter(|p| fixed(p).is_none());
            free.nth(before.count()).unwrap_or(0)
        })
    }

    /// Each policy with the number of its look.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.policies.iter().map(|p| (*p, self.style(p)))
    }

    /// A row for each policy that has values; its name has the variant before it, if there is one.
    pub fn rows(&self, variant: &str, values: impl Fn(&str) -> Option<Vec<f64>>) -> Vec<Row> {
        let label = |p: &str| if variant.is_empty() { p.to_owned() } else { format!("{variant}: {p}") };
        let row = |(p, style)| Some(Row { label: label(p), style, values: values(p)? });
        self.entries().filter_map(row).collect()
    }

    /// Batch work under each policy in % of that under the [base](Self::base).
    pub fn shares(&self, variant: &str, work: impl Fn(&str) -> Option<f64>) -> Vec<Row> {
        let base = work(self.base()).filter(|b| *b > 0.0);
        self.rows(variant, |policy| Some(vec![work(policy)? / base? * 100.0]))
    }

    /// A chart of [shares](Self::shares).
    pub fn share_chart(&self, title: String, rows: Vec<Row>) -> Section {
        let base = self.base();
        let caption =
            format!("Useful CPU time of all VMs with batch work, relative to {base}. {}", Kind::Bars.caption());
        let rows = Rows::new(Kind::Bars, format!("batch work, % of that under {base}"), rows);
        Section { title, caption, chart: Chart::Rows(rows) }
    }

    /// What batch work is compared with: Credit's, or that under the first policy.
    pub fn base(&self) -> &str {
        if self.policies.contains(&"credit") { "credit" } else { self.policies.first().copied().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::data::Experiment;
    use crate::report::chart::pen;
    use crate::report::theme;

    #[test]
    fn policies_of_an_experiment_look_different() {
        for e in Experiment::all().unwrap() {
            let names: Vec<_> = e.every_policy().map(String::as_str).collect();
            let legend = Legend::new(names);
            let looks: Vec<_> = legend.entries().map(|(_, look)| theme::style(look)).collect();
            for (n, look) in looks.iter().enumerate() {
                assert!(!looks[..n].contains(look), "{}: {}", e.id, legend.policies[n]);
            }
            let mut names: Vec<_> = legend.policies.iter().map(|p| pen::fitted(p, pen::NARROW - pen::SAMPLE)).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), looks.len(), "{}: two read alike on a phone", e.id);
        }
    }

    #[test]
    fn known_policies_keep_their_look_wherever_they_stand() {
        let legend = Legend::new(["pin", "poris", "credit", "poris", "doris", "laxs"]);
        assert_eq!(legend.policies, ["pin", "poris", "credit", "doris", "laxs"]);
        assert_eq!(["credit", "doris", "pin", "poris", "laxs"].map(|p| legend.style(p)), [0, 1, GREY, 2, 3]);
        assert_eq!(legend.base(), "credit");
        assert_eq!(Legend::new(["rr", "fifo"]).base(), "rr");
    }
}
