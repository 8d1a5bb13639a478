// SPDX-License-Identifier: GPL-2.0-only
//! Experiments as data: `experiments/*.toml`, carried inside the program.

use super::check::Check;
use super::measure::Measure;
use super::metrics;
use super::points::Names;
use crate::carried::{self, EXPERIMENTS};
use crate::row::X;
use crate::seeds::Seeds;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeMap;
use takt_control::{PolicySpec, duration, near};
use takt_lab::xen::Scheduler;
use takt_sim::Scenario;

/// Behind the names of schedulers that run in the Xen lab.
pub const ON_XEN: &str = "@xen";

/// One published figure or table, or what docs/security.md promises.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub id: String,
    pub title: String,
    /// Paper and figure.
    pub source: String,
    pub about: String,
    #[serde(deserialize_with = "seeds")]
    pub seeds: Seeds,
    /// Measured time, ns.
    #[serde(deserialize_with = "duration::deserialize")]
    pub duration: u64,
    #[serde(default)]
    pub notes: Vec<String>,
    /// Name of a scenario; without one, `traffic` says what is generated.
    pub scenario: Option<String>,
    /// What the charts show: a metric each, or several of one axis; the first is the main one.
    #[serde(default)]
    pub chart: Vec<Names>,
    /// Metrics that the table shows; those that fit the scenario unless some are named.
    #[serde(default)]
    pub columns: Vec<String>,
    #[serde(default)]
    pub policies: Vec<String>,
    /// Rows to compare with, and rows of the literal rules; shown beside the others.
    #[serde(default)]
    pub reference: Vec<String>,
    #[serde(default)]
    pub literal: Vec<String>,
    /// Schedulers of the Xen lab, in the same scenarios; their rows have `@xen` behind the name.
    #[serde(default)]
    pub xen: Vec<String>,
    /// Keys of the scenario with their values, for every run.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// The whole sweep under several circumstances.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// Also analyses each set of tasks, and this many more that are only analysed.
    #[serde(default)]
    pub analysis: Option<u64>,
    /// VMs that the operator marks, under these policies.
    #[serde(default)]
    pub by_hand: ByHand,
    pub sweep: Option<Sweep>,
    pub sensitivity: Option<Sensitivity>,
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    #[serde(default)]
    pub paper: Vec<Paper>,
    /// Nothing to hold it against: what is measured is reported.
    #[serde(default)]
    pub withheld: bool,
    #[serde(default)]
    pub check: Vec<Check>,
}

/// The key of the scenario that takes several values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub key: String,
    /// What it is called in tables.
    pub name: String,
    pub values: Vec<X>,
    /// How a value is written, with `{}` for it; itself if there is nothing else to it.
    pub form: Option<String>,
    /// Other keys, which take that many times the value.
    #[serde(default)]
    pub times: BTreeMap<String, u64>,
}

impl Sweep {
    /// The keys that a point sets, with their values.
    pub fn settings(&self, x: &X) -> Vec<(&str, String)> {
        let written =
            |x: &X| self.form.as_ref().map_or_else(|| x.to_string(), |form| form.replace("{}", &x.to_string()));
        let mut all = vec![(self.key.as_str(), written(x))];
        if let X::Number(n) = x {
            let times = |times: u64| written(&X::Number(n.saturating_mul(times)));
            all.extend(self.times.iter().map(|(key, n)| (key.as_str(), times(*n))));
        }
        all
    }
}

/// VMs that an operator marks as real-time, under policies that leave this to operators (rule B11).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByHand {
    pub policies: Vec<String>,
    pub vms: Vec<String>,
}

/// A circumstance under which everything is run again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// Variant that the measure `versus` compares this one with.
    pub honest: Option<String>,
    /// Instead of the experiment's.
    #[serde(default)]
    pub policies: Vec<String>,
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// What `--sensitivity` runs: fewer points and seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    pub values: Vec<X>,
    #[serde(deserialize_with = "seeds")]
    pub seeds: Seeds,
}

/// A sender of RTP: every `period` a burst of packets `gap` apart; both vary evenly by their jitter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    pub name: String,
    #[serde(deserialize_with = "duration::deserialize")]
    pub period: u64,
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub jitter: u64,
    pub payload_type: u8,
    /// Payload of a packet.
    pub bytes: u16,
    /// Least and most packets of a burst.
    #[serde(default = "single")]
    pub burst: [u32; 2],
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub gap: u64,
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub gap_jitter: u64,
}

fn single() -> [u32; 2] {
    [1, 1]
}

/// A published value, and what we measure for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub what: String,
    pub value: toml::Value,
    pub ours: Measure,
}

impl Experiment {
    /// All experiments, by name.
    ///
    /// # Errors
    /// One of the files that the program carries is malformed (a test rules it out).
    pub fn all() -> Result<Vec<Self>> {
        EXPERIMENTS
            .iter()
            .map(|(id, text)| Self::parse(text).with_context(|| format!("experiments/{id}.toml")))
            .collect()
    }

    fn parse(text: &str) -> Result<Self> {
        let mut e: Self = toml::from_str(text).map_err(|e| anyhow::anyhow!("{}", e.message()))?;
        e.resolve()?;
        for policy in e.every_policy() {
            PolicySpec::parse(policy)?;
        }
        e.in_xen()?;
        for names in &e.chart {
            metrics::of_chart(names.all()).context("chart")?;
        }
        let in_xen = |p: &str| p.strip_suffix(ON_XEN).is_some_and(|p| e.xen.iter().any(|q| q == p));
        if let Some(stranger) = e.by_hand.policies.iter().find(|p| !e.every_policy().any(|q| q == *p)) {
            bail!("by_hand: policy `{stranger}` is not run");
        }
        let known = |p: &str| e.traffic.iter().any(|_| p == "bare") || e.every_policy().any(|q| q == p) || in_xen(p);
        let checks = e.check.iter().flat_map(|c| c.measures().map(|of| (&c.name, of)));
        for (name, measure) in checks.chain(e.paper.iter().map(|p| (&p.what, &p.ours))) {
            if let Some(stranger) = measure.policies().find(|p| !known(p)) {
                bail!("`{name}`: policy `{stranger}` is not run");
            }
        }
        Ok(e)
    }

    /// Fills in what measures leave to the experiment; refuses names of variants that it does not have.
    fn resolve(&mut self) -> Result<()> {
        let known: Vec<_> = self.variant.iter().map(|v| v.name.clone()).collect();
        let check = |of: &str, name: &String| {
            if !known.contains(name) {
                bail!("`{of}`: no variant `{name}`{}", near::known_are(name, known.iter().map(String::as_str)));
            }
            Ok(())
        };
        self.variant.iter().try_for_each(|v| v.honest.iter().try_for_each(|honest| check(&v.name, honest)))?;
        let honest = self.variant.iter().filter_map(|v| Some((v.name.clone(), v.honest.clone()?))).collect();
        let checks = self.check.iter_mut().flat_map(|c| {
            let name = c.name.clone();
            c.measures_mut().map(move |of| (name.clone(), of))
        });
        for (name, measure) in checks.chain(self.paper.iter_mut().map(|p| (p.what.clone(), &mut p.ours))) {
            measure.variants().try_for_each(|variant| check(&name, variant))?;
            measure.resolve(&self.policies, &honest).with_context(|| format!("`{name}`"))?;
        }
        Ok(())
    }

    /// The experiment of that name, in whatever case.
    ///
    /// # Errors
    /// One line with the names there are.
    pub fn find(id: &str) -> Result<Self> {
        let all = Self::all()?;
        let known: Vec<_> = all.iter().map(|e| e.id.clone()).collect();
        match all.into_iter().find(|e| e.id.eq_ignore_ascii_case(id)) {
            Some(e) => Ok(e),
            None => {
                let known = known.iter().map(String::as_str).chain(["all", "list"]);
                bail!("unknown experiment `{id}`{}", near::known_are(id, known))
            }
        }
    }

    /// Policies, references and literal rules, in the order of tables.
    pub fn every_policy(&self) -> impl Iterator<Item = &String> {
        let own = self.variant.iter().flat_map(|v| &v.policies);
        self.policies.iter().chain(own).chain(&self.reference).chain(&self.literal)
    }

    /// Schedulers of the Xen lab.
    ///
    /// # Errors
    /// One of them is unknown.
    pub fn in_xen(&self) -> Result<Vec<Scheduler>> {
        self.xen.iter().map(|name| Scheduler::parse(name)).collect()
    }

    /// Those that are run under a variant.
    pub fn policies_of<'a>(&'a self, variant: Option<&'a Variant>) -> Vec<&'a String> {
        match variant {
            Some(v) if !v.policies.is_empty() => v.policies.iter().collect(),
            _ => self.policies.iter().chain(&self.reference).chain(&self.literal).collect(),
        }
    }

    /// The variants; one of no name if there are none.
    pub fn variants(&self) -> Vec<Option<&Variant>> {
        if self.variant.is_empty() { vec![None] } else { self.variant.iter().map(Some).collect() }
    }

    /// The scenario, with the time that the experiment measures, what it and the variant set, and what is marked by hand under `policy`.
    ///
    /// # Errors
    /// An unknown or malformed scenario.
    pub fn scenario(&self, variant: Option<&Variant>, policy: &str) -> Result<Scenario> {
        let name = self.scenario.as_deref().unwrap_or_default();
        let text = carried::scenario(name).with_context(|| format!("{}: no scenario `{name}`", self.id))?;
        let mut scenario = Scenario::from_toml(text, &format!("scenarios/{name}.toml"))?;
        scenario.duration = self.duration;
        for (key, value) in self.set.iter().chain(variant.into_iter().flat_map(|v| &v.set)) {
            scenario.set(key, value).with_context(|| format!("{}: {key}={value}", self.id))?;
        }
        for vm in self.by_hand.vms.iter().filter(|_| self.by_hand.policies.iter().any(|p| p == policy)) {
            scenario.set(&format!("vm.{vm}.rt"), "on").with_context(|| format!("{}: by_hand", self.id))?;
        }
        Ok(scenario)
    }
}

fn seeds<'de, D: Deserializer<'de>>(d: D) -> Result<Seeds, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::check::Kind;
    use crate::row::Row;

    /// ATTACKS has rows of one kind of live host for both.
    #[test]
    fn live_hosts_begin_alike() {
        assert_eq!(takt_policy::live(|p| p.linux), takt_policy::live(|p| p.xen));
    }

    #[test]
    fn every_file_is_well_formed_and_gates_something() {
        for e in Experiment::all().unwrap() {
            assert!(!e.chart.is_empty(), "{}", e.id);
            assert_ne!(e.check.iter().any(|c| c.kind == Kind::Gate), e.withheld, "{}", e.id);
            assert_eq!(e.scenario.is_some(), e.traffic.is_empty(), "{}", e.id);
            for c in &e.check {
                assert!(c.bounded(), "{}: {} asks for nothing", e.id, c.name);
                assert!(c.missed.is_none() || c.kind == Kind::Gate, "{}: {} decides nothing", e.id, c.name);
                assert!(!c.measures().any(|m| m.policies().any(|p| e.literal.contains(p))), "{}: {}", e.id, c.name);
            }
            if let Some(sweep) = &e.sweep {
                for variant in e.variants() {
                    for policy in e.policies_of(variant) {
                        let mut scenario = e.scenario(variant, policy).unwrap();
                        for (key, value) in sweep.values.iter().flat_map(|x| sweep.settings(x)) {
                            scenario.set(key, &value).unwrap();
                        }
                    }
                }
            }
        }
        assert!(Experiment::find("doris-e2").is_ok());
        assert!(Experiment::find("E9").unwrap_err().to_string().contains("known: ATTACKS, DORIS-E1"));
    }

    /// An experiment with an attacker, and a check of it.
    fn attacks(variants: &str, of: &str) -> Result<Experiment> {
        let head = "id = \"E\"\ntitle = \"\"\nsource = \"\"\nabout = \"\"\nseeds = \"1-2\"\nduration = \"1s\"\n\
            policies = [\"credit\", \"doris\"]\nliteral = [\"bvt\"]\n";
        let check = format!("[[check]]\nname = \"c\"\nkind = \"gate\"\nmax = 1.02\nof = {{ {of} }}\n");
        Experiment::parse(&format!("{head}{variants}\n{check}"))
    }

    const PAIRS: &str = "variant = [\
        { name = \"fair\" }, { name = \"light\" }, \
        { name = \"cheats\", honest = \"fair\" }, { name = \"light-cheats\", honest = \"light\" }]";

    fn row(policy: &str, variant: &str, seed: u64, cpu: f64) -> Row {
        let mut row = Row::of(policy, X::Number(30), seed, [("cpu".to_owned(), cpu)].into(), Vec::new());
        row.variant = variant.into();
        row
    }

    #[test]
    fn each_variant_is_compared_with_the_honest_one_that_it_names() {
        let mut rows = Vec::new();
        for policy in ["credit", "doris", "bvt"] {
            for (variant, cpu) in [("fair", [4.0, 5.0]), ("light", [1.0, 2.0]), ("cheats", [6.0, 5.0])] {
                rows.extend((1..).zip(cpu).map(|(seed, cpu)| row(policy, variant, seed, cpu)));
            }
            let most = if policy == "bvt" { [9.0, 9.0] } else { [1.0, 3.0] };
            rows.extend((1..).zip(most).map(|(seed, cpu)| row(policy, "light-cheats", seed, cpu)));
        }
        let got = |of: &str| attacks(PAIRS, of).unwrap().check[0].evaluate(&rows).got;
        // Means over seeds are (6 / 4 + 5 / 5) / 2 and (1 / 1 + 3 / 2) / 2; bvt is literal.
        assert_eq!(got("versus = \"cpu\", at = \"all\""), Some(1.25));
        assert_eq!(got("versus = \"cpu\", at = 30, worst = true"), Some(1.5));
        assert_eq!(got("versus = \"cpu\", at = 30, slack = 2"), Some(1.0));
        assert_eq!(got("versus = \"cpu\", at = 30, worst = true, but = \"cheats\""), Some(1.5));
        assert_eq!(got("versus = \"cpu\", at = 30, but = \"light-cheats\""), Some(1.25));
        assert_eq!(got("versus = \"cpu\", at = 30, policy = \"bvt\", variant = \"light-cheats\""), Some(6.75));
        for nothing in ["versus = \"cpu\", at = 31", "versus = \"gpu\", at = \"all\""] {
            let verdict = attacks(PAIRS, nothing).unwrap().check[0].evaluate(&rows);
            assert_eq!((verdict.got, verdict.ok), (None, false), "{nothing}");
        }
        let without = |variant: &str| rows.iter().filter(|r| r.variant != variant).cloned().collect::<Vec<_>>();
        let check = &attacks(PAIRS, "versus = \"cpu\", at = \"all\"").unwrap().check[0];
        for variant in ["light", "light-cheats"] {
            assert_eq!(check.evaluate(&without(variant)).got, None, "{variant} did not run");
        }
    }

    #[test]
    fn charts_that_cannot_be_drawn_are_refused() {
        for (chart, want) in [
            ("\"work\", [\"work\", \"migrations\"]", "chart: `work` and `migrations` must be in different charts: "),
            ("[\"call_pesq\", \"work\"]", "chart: `call_pesq` must be in a chart of its own"),
            ("\"wrk\"", "chart: no chart of `wrk` (did you mean `work`?)"),
        ] {
            let of = "level = \"cpu\", at = 30";
            let error = format!("{:#}", attacks(&format!("chart = [{chart}]"), of).unwrap_err());
            assert!(error.starts_with(want) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn names_that_an_experiment_does_not_have_are_refused() {
        for (variants, of, want) in [
            (
                PAIRS,
                "versus = \"cpu\", at = 30, variant = \"cheat\"",
                "`c`: no variant `cheat` (did you mean `cheats`?)",
            ),
            (PAIRS, "shift = \"cpu\", at = 30, beyond = \"other\"", "`c`: no variant `other`; known: fair, light"),
            (PAIRS, "versus = \"cpu\", at = 30, variant = \"fair\"", "`c`: the variant `fair` names no honest one"),
            (PAIRS, "versus = \"cpu\", at = 30, policy = \"rr\"", "policy `rr` is not run"),
            (
                "variant = [{ name = \"a\", honest = \"b\" }]",
                "level = \"cpu\", at = 30",
                "`a`: no variant `b`; known: a",
            ),
            ("variant = [{ name = \"a\" }]", "versus = \"cpu\", at = 30", "`c`: no variant names an honest one"),
            (PAIRS, "versus = \"cpu\", at = 30, but = \"cheat\"", "`c`: no variant `cheat`"),
            (PAIRS, "level = \"cpu\", at = 30, but = \"fair\"", "`c`: `but` is for `versus` without `variant`"),
        ] {
            let error = format!("{:#}", attacks(variants, of).unwrap_err());
            assert!(error.contains(want) && !error.contains('\n'), "{error}");
        }
        let all = attacks("", "level = \"cpu\", at = 30").unwrap();
        assert_eq!(all.check[0].of.policies().collect::<Vec<_>>(), ["credit", "doris"], "not the literal ones");
    }
}
