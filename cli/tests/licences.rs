// SPDX-License-Identifier: GPL-2.0-only
//! What is linked into `takt` may be linked into a GPL-2.0-only program, and what is linked into `takt-vmm` into one of
//! GPL-2.0-or-later. `cargo deny` (deny.toml) knows of each package which licence it may have, but not what links it.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What deny.toml allows: for each program, and for `takt-vmm` alone.
struct Lists {
    all: Vec<String>,
    vmm: Vec<String>,
}

impl Lists {
    fn read() -> Self {
        let file: toml::Value = toml::from_str(include_str!("../../deny.toml")).expect("deny.toml");
        let list = |of: &toml::Value| of.as_array().expect("a list").clone();
        let words = |of: &toml::Value| -> Vec<String> {
            list(of).iter().map(|word| word.as_str().expect("a licence").to_owned()).collect()
        };
        let licenses = &file["licenses"];
        let exceptions = list(&licenses["exceptions"]);
        let own = |licence: &str| vec![licence.to_owned()];
        Self {
            all: [own("GPL-2.0-only"), words(&licenses["allow"])].concat(),
            vmm: exceptions.iter().flat_map(|one| words(&one["allow"])).chain(own("GPL-2.0-or-later")).collect(),
        }
    }
}

/// Whether an expression leaves a choice that is allowed: `A OR B`, `A / B`, `(A OR B) AND C`.
fn allowed(licence: &str, lists: &[&[String]]) -> bool {
    let choice = |part: &str| {
        let mut words = part.trim().trim_matches(['(', ')']).split(" OR ").flat_map(|p| p.split('/'));
        words.any(|word| lists.concat().iter().any(|allowed| allowed == word.trim()))
    };
    licence.split(" AND ").all(choice)
}

/// All packages, and how they depend on each other; `None`: not all have been fetched.
fn metadata() -> Option<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--format-version", "1", "--features", "takt/linux,takt/xen"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path", "../Cargo.toml"]);
    let out = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo");
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() && said.contains("--offline") && std::env::var_os("CI").is_none() {
        println!("SKIPPED: licences: not all packages have been fetched");
        return None;
    }
    assert!(out.status.success(), "{said}");
    Some(serde_json::from_slice(&out.stdout).expect("cargo metadata"))
}

/// The packages that are linked into `program`, each with its licence.
fn linked(all: &Value, program: &str) -> Vec<(String, String)> {
    let list = |of: &Value| of.as_array().expect("a list").clone();
    let id = |of: &Value| of["id"].as_str().expect("an id").to_owned();
    let packages: BTreeMap<_, _> = list(&all["packages"]).into_iter().map(|p| (id(&p), p)).collect();
    let nodes: BTreeMap<_, _> = list(&all["resolve"]["nodes"]).into_iter().map(|n| (id(&n), n)).collect();
    let first = packages.iter().find(|(_, p)| p["name"] == program).expect(program).0.clone();
    let (mut linked, mut todo) = (BTreeSet::new(), vec![first]);
    while let Some(at) = todo.pop() {
        if linked.insert(at.clone()) {
            let deps = list(&nodes[&at]["deps"]).into_iter();
            // What only builds or tests it is not part of it.
            let of = deps.filter(|d| list(&d["dep_kinds"]).iter().any(|k| k["kind"].is_null()));
            todo.extend(of.map(|d| d["pkg"].as_str().expect("a package").to_owned()));
        }
    }
    let licence = |id: &String| packages[id]["license"].as_str().unwrap_or("none").to_owned();
    linked.iter().map(|id| (id.clone(), licence(id))).collect()
}

#[test]
fn what_is_linked_may_be() {
    let Some(all) = metadata() else { return };
    let lists = Lists::read();
    for (program, least, also) in [("takt", 50, &[][..]), ("takt-vmm", 20, &lists.vmm)] {
        let linked = linked(&all, program);
        let refused: Vec<_> = linked.iter().filter(|(_, licence)| !allowed(licence, &[&lists.all, also])).collect();
        assert!(linked.len() > least && refused.is_empty(), "{program}: {} packages: {refused:#?}", linked.len());
        // Version 3 of the GPL, which Apache-2.0 needs, cannot be combined with what has version 2 alone.
        let only = linked.iter().filter(|(_, licence)| licence.contains("GPL-2.0-only")).count();
        assert_eq!(only > 0, also.is_empty(), "{program}");
    }
}

#[test]
fn a_licence_can_be_refused() {
    let lists = Lists::read();
    for good in
        ["MIT", "MIT/Apache-2.0", "Apache-2.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Unlicense OR MIT"]
    {
        assert!(allowed(good, &[&lists.all]), "{good}");
    }
    assert!(allowed("Apache-2.0", &[&lists.all, &lists.vmm]));
    for bad in ["Apache-2.0", "none", "GPL-3.0-only", "MIT AND Apache-2.0", "MPL-2.0 OR Apache-2.0"] {
        assert!(!allowed(bad, &[&lists.all]), "{bad}");
    }
}
