// SPDX-License-Identifier: GPL-2.0-only
//! docs/settings.md lists what policy/settings.def says.

use takt_control::spec::{allowed, show, unfair};
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
    let (allowed, default) = (allowed(p), show(p, p.default));
    let (linux, xen) = (live("Linux", p.linux), live("Xen", p.xen));
    let old = p.old.map_or(String::new(), |(name, words)| match words.contains('|') {
        true => format!("; older name `{name}` ({words})"),
        false => format!("; older name `{name}`"),
    });
    let unfair = unfair(p).map_or(String::new(), |refused| format!("; {refused}"));
    wrapped(&format!("* `{}` ({allowed}; default `{default}`{linux}{xen}{old}): {}{unfair}", p.name, p.doc))
}

/// The page with another list in the place of the one that begins with the setting `first`.
fn replaced(page: &str, first: &str, list: &str) -> String {
    let start = page.find(&format!("* `{first}` (")).expect("the list's first setting");
    let end = page[start..].find("\n\n").map_or(page.len(), |n| start + n + 1);
    format!("{}{list}{}", &page[..start], &page[end..])
}

/// With TAKT_BLESS=1 it rewrites the lists.
#[test]
fn docs_settings_are_those_of_the_core() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let mut page = std::fs::read_to_string(path).expect(path);
    for per_vm in [false, true] {
        let all: Vec<_> = params().into_iter().filter(|p| p.per_vm == per_vm).collect();
        let list: String = all.iter().map(line).collect();
        if std::env::var_os("TAKT_BLESS").is_some() {
            page = replaced(&page, all[0].name, &list);
            std::fs::write(path, &page).expect(path);
        }
        assert!(page.contains(&list), "docs/settings.md has other lines than (TAKT_BLESS=1 writes them)\n{list}");
    }
}
