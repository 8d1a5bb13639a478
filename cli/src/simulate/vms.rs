// SPDX-License-Identifier: GPL-2.0-only
//! A row for each VM that was to do something in time, under each policy: the VM that suffers most
//! comes first.

use super::charts::{charts, order};
use super::columns::Columns;
use super::seen::Seen;
use super::vm::Vm;
use crate::report::Charts;
use crate::report::legend::Legend;
use takt_control::PolicySpec;
use takt_sim::{RunResult, Scenario};

/// VMs of which a table has rows without `--all`.
const SHOWN: usize = 10;

/// A table of VMs.
pub(super) struct Vms {
    pub columns: Columns,
    pub rows: Vec<Vec<String>>,
    /// The same rows with the columns of a report.
    pub report: Vec<Vec<String>>,
    /// VMs without a row.
    pub more: usize,
    /// Of VMs that matter.
    pub charts: Charts,
    /// What to read first, by policy: a value, and what it is.
    pub headline: Vec<(String, (String, String))>,
}

impl Vms {
    /// Of runs of `scenario`, each with the label of its policy; with `all` of every VM.
    pub fn new(
        scenario: &Scenario,
        policies: &[PolicySpec],
        runs: &[(&str, &RunResult)],
        all: bool,
        columns: Columns,
    ) -> Self {
        let names: Vec<_> =
            scenario.vms.iter().flat_map(|spec| spec.names().map(move |name| (name, Some(spec)))).collect();
        let seen = |name, spec| {
            let seen = policies.iter().filter_map(|p| Seen::new(name, &p.label, spec, runs)).collect();
            Vm { spec, seen }
        };
        let guests = names.iter().map(|(name, spec)| seen(name, *spec));
        let mut guests: Vec<_> = guests.filter(|vm| all || vm.matters()).collect();
        guests.sort_by(Vm::worse_first);
        let host = runs.iter().flat_map(|(_, r)| &r.vms).find(|vm| vm.kind == "host").map(|vm| seen(&vm.name, None));
        let legend = Legend::new(policies.iter().map(|p| p.label.as_str()));
        let matter = guests.iter().take_while(|vm| vm.matters()).count();
        let ordered = order(&guests[..matter]);
        let charts = charts(&ordered, host.as_ref(), &legend, runs);
        let first = ordered.iter().flat_map(|vm| &vm.seen).take_while(|s| s.name == ordered[0].seen[0].name);
        let headline = first.filter_map(|s| Some((s.policy.to_owned(), s.headline()?))).collect();
        let more = if all { 0 } else { guests.len().saturating_sub(SHOWN) };
        guests.truncate(guests.len() - more);
        guests.extend(host);
        let rows = |columns: &Columns| guests.iter().flat_map(|vm| &vm.seen).map(|seen| columns.row(seen)).collect();
        Self { rows: rows(&columns), report: rows(&Columns::table()), columns, more, charts, headline }
    }

    /// What stands under the table.
    pub fn note(&self) -> String {
        match self.more {
            0 => String::new(),
            1 => "One more VM has deadlines; --all shows every VM.".into(),
            n => format!("{n} more VMs have deadlines; --all shows every VM."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;

    /// The table of a second of two servers of calls beside a hog: one is capped, and late; of so
    /// many more VMs that wait for a beat; and of a hog with a budget.
    fn table(policies: &[&str], more: u32, all: bool) -> Vms {
        let text = format!(
            "name = \"two\"\nduration = \"1s\"\n[machine]\npcpus = 2\n\
             [[vm]]\nname = \"fine\"\nvcpus = 1\nworkload = {{ type = \"voip\", calls = 2 }}\n\
             [[vm]]\nname = \"late\"\nvcpus = 1\ncap = 1\nworkload = {{ type = \"voip\", calls = 40 }}\n\
             [[vm]]\nname = \"beat\"\ncount = {more}\nvcpus = 1\nworkload = {{ type = \"periodic\" }}\n\
             [[vm]]\nname = \"kept\"\nvcpus = 1\nbudget = \"1ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\n\
             [[vm]]\nname = \"hog\"\nvcpus = 1\nworkload = \"hog\"\n"
        );
        let scenario = Scenario::from_toml(&text, "two.toml").unwrap();
        let policies: Vec<_> = policies.iter().map(|p| PolicySpec::parse(p).unwrap()).collect();
        let one = |p: &PolicySpec| simulate::one(&scenario, p, 1, &mut |_| ()).unwrap();
        let runs: Vec<_> = policies.iter().map(one).collect();
        let labelled: Vec<_> = policies.iter().zip(&runs).map(|(p, run)| (p.label.as_str(), run)).collect();
        Vms::new(&scenario, &policies, &labelled, all, Columns::table())
    }

    fn names(table: &Vms) -> Vec<&str> {
        table.rows.iter().map(|row| row[0].as_str()).collect()
    }

    #[test]
    fn the_vm_that_suffers_most_comes_first_and_hogs_have_no_row() {
        let table = table(&["credit", "doris"], 1, false);
        let vms = names(&table);
        assert_eq!(vms[..2], ["late", "late"], "a row under each policy");
        assert_eq!(vms[vms.len() - 2..], ["dom0", "dom0"]);
        assert!(["fine", "beat"].iter().all(|vm| vms.contains(vm)) && !vms.contains(&"hog"));
        assert_eq!(vms[vms.len() - 4..vms.len() - 2], ["kept", "kept"], "it only computes");
        let fine = table.rows.iter().find(|row| row[..2] == ["fine", "doris"]).unwrap();
        assert_eq!(fine[2], "rtp");
        assert!(fine[8].starts_with("PESQ 4.") && fine[8].ends_with("late or lost 0.00 %"), "{}", fine[8]);
        let beat = table.rows.iter().find(|row| row[0] == "beat").unwrap();
        assert!(beat[2] == "no" && beat[8].contains("missed 0,"), "{beat:?}");
        assert_eq!(table.note(), "");
    }

    #[test]
    fn of_many_vms_ten_and_dom0_have_a_row_unless_all_are_wanted() {
        let some = table(&["credit"], 12, false);
        assert_eq!((some.rows.len(), some.more), (SHOWN + 1, 5));
        assert_eq!((names(&some)[0], names(&some)[SHOWN]), ("late", "dom0"));
        assert!(some.note().starts_with("5 more VMs"));
        let every = table(&["credit"], 12, true);
        assert_eq!((every.rows.len(), every.more), (17, 0));
        assert_eq!(names(&every)[15..], ["hog", "dom0"]);
        assert!(every.rows[15][8].starts_with("work "), "{:?}", every.rows[15]);
    }
}
