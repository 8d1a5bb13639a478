// SPDX-License-Identifier: GPL-2.0-only
//! `takt policies`: what this build can run, straight from the core's own tables.

use crate::{args, output, table};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use takt_control::Document;
use takt_control::pools::{BASELINE, NON_RT, RISA, STATIC};
use takt_control::spec::{self, PRESETS};
use takt_policy::{ParamInfo, PolicyInfo, params, policies, traits};

/// What `takt policies --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Policies {
    pub policies: Vec<Policy>,
    /// Parameters of a policy.
    pub pool: Vec<Param>,
    /// Parameters of a VM.
    pub vm: Vec<Param>,
}

/// A name that `--policy` takes.
#[derive(Serialize, JsonSchema)]
pub struct Policy {
    pub doc: String,
    /// Of a preset: what it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<&'static str>,
    pub name: &'static str,
    /// Of a policy of the core: what it can do (docs/writing-a-policy.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traits: Option<Vec<&'static str>>,
}

/// A parameter; its values are whole numbers.
#[derive(Serialize, JsonSchema)]
pub struct Param {
    /// The range, or the words, as a user writes them.
    pub allowed: String,
    /// Unless it is set, in the simulator.
    pub default: u64,
    pub doc: &'static str,
    pub max: u64,
    pub min: u64,
    pub name: &'static str,
    /// A value that live hosts refuse unless told (`--accept-unfair`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfair: Option<Unfair>,
    /// Of the numbers: `ns`, or empty.
    pub unit: &'static str,
}

/// A value by which a guest may gain what others lose.
#[derive(Serialize, JsonSchema)]
pub struct Unfair {
    pub value: u64,
    /// What may happen.
    pub why: &'static str,
}

impl Document for Policies {
    const NAME: &'static str = "policies";
    const VERSION: u32 = 1;
}

/// Runs the command.
///
/// # Errors
/// stdout cannot be written.
pub fn run(args: &args::Policies) -> Result<bool> {
    if args.json {
        output::print_json(&all())?;
    } else {
        output::print(&as_text())?;
    }
    Ok(true)
}

/// All that this build knows.
pub fn all() -> Policies {
    let param = |p: &ParamInfo| Param {
        allowed: spec::range(p),
        default: p.default,
        doc: p.doc,
        max: p.max,
        min: p.min,
        name: p.name,
        unfair: p.unfair.map(|(value, why)| Unfair { value, why }),
        unit: p.unit,
    };
    let of = |per_vm: bool| params().iter().filter(|p| p.per_vm == per_vm).map(param).collect();
    let core = |p: &PolicyInfo| Policy { doc: p.doc.into(), means: None, name: p.name, traits: Some(traits_of(p)) };
    let mut names: Vec<_> = policies().iter().map(core).collect();
    let preset = |p: &spec::Preset| Policy { doc: p.doc.into(), means: Some(p.means), name: p.name, traits: None };
    names.extend(PRESETS.iter().map(preset));
    names.extend(made().map(|(name, doc)| Policy { doc, means: None, name, traits: None }));
    Policies { policies: names, pool: of(false), vm: of(true) }
}

fn traits_of(policy: &PolicyInfo) -> Vec<&'static str> {
    traits().iter().map(|t| t.name).filter(|name| policy.has(name)).collect()
}

/// Names for what is not the core's.
fn made() -> [(&'static str, String); 4] {
    [
        ("pin", "credit with real-time VMs on dedicated PCPUs (a reference, not a scheduler)".into()),
        (BASELINE, format!("{NON_RT}, all VMs in one pool (simulator)")),
        (RISA, format!("{NON_RT}, and vgedf for a pool of real-time VMs that the partition manager sizes (all hosts)")),
        (STATIC, format!("{NON_RT}, and sedf for a static pool of real-time VMs (simulator)")),
    ]
}

fn as_text() -> String {
    let mut names: Vec<_> = policies().iter().map(|p| vec![p.name.to_owned(), p.doc.to_owned()]).collect();
    names.extend(PRESETS.iter().map(|p| vec![p.name.into(), format!("{}: {}", p.doc, p.means)]));
    names.extend(made().map(|(name, doc)| vec![name.into(), doc]));
    let rows = |per_vm: bool| -> Vec<Vec<String>> {
        let meaning =
            |p: &ParamInfo| [Some(p.doc.into()), spec::unfair(p)].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let show = |p: &ParamInfo| vec![p.name.into(), spec::allowed(p), spec::show(p, p.default), meaning(p)];
        params().iter().filter(|p| p.per_vm == per_vm).map(show).collect()
    };
    let head = ["parameter", "allowed", "default", "meaning"];
    [
        table::render("", &["policy", "description"], &names, 9..),
        table::render("Parameters of a policy, as in doris(dom0=off,slice=5ms)", &head, &rows(false), 9..),
        table::render("Parameters of a VM", &head, &rows(true), 9..),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_listed_with_what_they_stand_for() {
        let (text, policies) = (as_text(), all().policies);
        assert_eq!(policies.len(), spec::known().len());
        for p in PRESETS {
            let line = text.lines().find(|l| l.starts_with(&format!("{} ", p.name))).expect(p.name);
            assert!(line.contains(p.means), "{line}");
            assert!(policies.iter().any(|j| j.name == p.name && j.means == Some(p.means)), "{}", p.name);
        }
    }

    #[test]
    fn values_that_live_hosts_refuse_are_marked() {
        let (text, pool) = (as_text(), all().pool);
        let marked: Vec<_> = pool.iter().filter(|p| p.unfair.is_some()).map(|p| p.name).collect();
        assert_eq!(marked, ["activate", "charge", "infinite", "debts"]);
        let line = text.lines().find(|l| l.starts_with("charge ")).expect("charge");
        let end = "; live hosts refuse the value \"sampled\": a VCPU that runs only between two ticks never pays";
        assert!(line.ends_with(end), "{line}");
    }
}
