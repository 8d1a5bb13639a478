// SPDX-License-Identifier: GPL-2.0-only
//! docs/settings.md lists what policy/settings.def says.

use takt_control::spec::{range, show};
use takt_policy::{ParamInfo, params};

/// Columns of the page.
const WIDTH: usize = 100;

/// A list item, wrapped.
fn wrapped(item: &str) -> String {
    let mut lines = vec![String::new()];
    for word in item.split(' ') {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= WIDTH {
            *last += &format!(" {word}");
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines.join("\n") + "\n"
}

/// A setting with what it may be, its default, and what live hosts begin with instead.
fn line(p: &ParamInfo) -> String {
    let live = |host: &str, value: u64| {
        if value == p.default { String::new() } else { format!("; live on {host}: `{}`", show(p, value)) }
    };
    let (allowed, default) = (range(p), show(p, p.default));
    let (linux, xen) = (live("Linux", p.linux), live("Xen", p.xen));
    wrapped(&format!("* `{}` ({allowed}; default `{default}`{linux}{xen}): {}", p.name, p.doc))
}

#[test]
fn docs_settings_are_those_of_the_core() {
    let page = include_str!("../../docs/settings.md");
    for per_vm in [false, true] {
        let list: String = params().iter().filter(|p| p.per_vm == per_vm).map(line).collect();
        assert!(page.contains(&list), "docs/settings.md has other lines than\n{list}");
    }
}
