// SPDX-License-Identifier: GPL-2.0-only
//! docs/settings.md lists what policy/settings.def says.

use takt_control::spec::{range, show};
use takt_policy::{ParamInfo, params};

/// A setting with what it may be, its default, and what live hosts begin with instead.
fn line(p: &ParamInfo) -> String {
    let live = |host: &str, value: u64| {
        if value == p.default { String::new() } else { format!("; live on {host}: `{}`", show(p, value)) }
    };
    let (allowed, default) = (range(p), show(p, p.default));
    format!(
        "* `{}` ({allowed}; default `{default}`{}{}): {}\n",
        p.name,
        live("Linux", p.linux),
        live("Xen", p.xen),
        p.doc
    )
}

#[test]
fn docs_settings_are_those_of_the_core() {
    let page = include_str!("../../docs/settings.md");
    for per_vm in [false, true] {
        let list: String = params().iter().filter(|p| p.per_vm == per_vm).map(line).collect();
        assert!(page.contains(&list), "docs/settings.md has other lines than\n{list}");
    }
}
