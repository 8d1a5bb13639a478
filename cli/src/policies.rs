// SPDX-License-Identifier: GPL-2.0-only
//! `takt policies`: what this build can run, straight from the core's own tables.

use crate::{args, output, table};
use anyhow::Result;
use serde_json::json;
use takt_control::{pools, spec};
use takt_policy::{ParamInfo, params, policies};

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
        "policies": named().map(|(name, doc)| json!({"name": name, "doc": doc})).collect::<Vec<_>>(),
        "pool": of(false),
        "vm": of(true),
    })
}

/// Those of the core, then what the simulator makes of them.
fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    let more = [
        ("pin", "credit, with real-time VMs on PCPUs of their own (a reference, not a scheduler)"),
        (pools::BASELINE, "what Risa compares itself with, and runs beside its rt-pool (in the simulator)"),
        (pools::STATIC, "a static pool for VMs with budgets: sp(rt=sedf,pcpus=2,first=0) (in the simulator)"),
        (
            pools::RISA,
            "a pool for VMs with budgets that grows and shrinks with them: risa(rt=vgedf,need=paper,delay=15s) (in the simulator)",
        ),
    ];
    policies().into_iter().map(|p| (p.name, p.doc)).chain(more)
}

fn as_text() -> String {
    let names: Vec<_> = named().map(|(name, doc)| vec![name.to_owned(), doc.to_owned()]).collect();
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
