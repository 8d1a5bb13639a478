// SPDX-License-Identifier: GPL-2.0-only
//! `takt policies`: what this build can run, straight from the core's own tables.

use crate::{args, output, table};
use anyhow::Result;
use serde_json::json;
use takt_control::pools::{BASELINE, NON_RT, RISA, STATIC};
use takt_control::spec::{self, PRESETS};
use takt_policy::{ParamInfo, PolicyInfo, params, policies, traits};

/// Runs the command.
///
/// # Errors
/// stdout cannot be written.
pub fn run(args: &args::Policies) -> Result<bool> {
    if args.json {
        output::print_json(&as_json())?;
    } else {
        output::print(&as_text())?;
    }
    Ok(true)
}

fn as_json() -> serde_json::Value {
    let param = |p: &ParamInfo| {
        json!({
            "name": p.name, "unit": p.unit, "min": p.min, "max": p.max, "default": p.default,
            "allowed": spec::range(p), "doc": p.doc,
        })
    };
    let of = |per_vm: bool| params().iter().filter(|p| p.per_vm == per_vm).map(param).collect::<Vec<_>>();
    json!({
        "policies": policies().iter().map(|p| json!({"name": p.name, "doc": p.doc, "traits": traits_of(p)})).chain(
            PRESETS.iter().map(|p| json!({"name": p.name, "doc": p.doc, "means": p.means})),
        ).chain(
            made().iter().map(|(name, doc)| json!({"name": name, "doc": doc})),
        ).collect::<Vec<_>>(),
        "pool": of(false),
        "vm": of(true),
    })
}

fn traits_of(policy: &PolicyInfo) -> Vec<&'static str> {
    traits().iter().map(|t| t.name).filter(|name| policy.has(name)).collect()
}

/// Names for what is not the core's.
fn made() -> [(&'static str, String); 4] {
    [
        ("pin", "credit, with real-time VMs on PCPUs of their own (a reference, not a scheduler)".into()),
        (BASELINE, format!("{NON_RT}, all VMs in one pool (simulator)")),
        (
            RISA,
            format!("{NON_RT}, and vgedf for a pool of real-time VMs that the partition manager sizes (in all hosts)"),
        ),
        (STATIC, format!("{NON_RT}, and sedf for a static pool of real-time VMs (simulator)")),
    ]
}

fn as_text() -> String {
    let mut names: Vec<_> = policies().iter().map(|p| vec![p.name.to_owned(), p.doc.to_owned()]).collect();
    names.extend(PRESETS.iter().map(|p| vec![p.name.into(), format!("{}: {}", p.doc, p.means)]));
    names.extend(made().map(|(name, doc)| vec![name.into(), doc]));
    let rows = |per_vm: bool| -> Vec<Vec<String>> {
        let show = |p: &ParamInfo| vec![p.name.into(), spec::range(p), spec::show(p, p.default), p.doc.into()];
        params().iter().filter(|p| p.per_vm == per_vm).map(show).collect()
    };
    let head = ["parameter", "allowed", "default", "meaning"];
    [
        table::render("", &["policy", "what it is"], &names, 9),
        table::render("Parameters of a policy, as in doris(dom0=off,slice=5ms)", &head, &rows(false), 9),
        table::render("Parameters of a VM", &head, &rows(true), 9),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_listed_with_what_they_stand_for() {
        let (text, json) = (as_text(), as_json());
        let policies = json["policies"].as_array().expect("a list");
        assert_eq!(policies.len(), spec::known().len());
        for p in PRESETS {
            let line = text.lines().find(|l| l.starts_with(&format!("{} ", p.name))).expect(p.name);
            assert!(line.contains(p.means), "{line}");
            assert!(policies.iter().any(|j| j["name"] == p.name && j["means"] == p.means), "{}", p.name);
        }
    }
}
