// SPDX-License-Identifier: GPL-2.0-only
//! What may import from what, and how long a file may be (CONTRIBUTING.md): crates in layers, no
//! circle among modules, a C core that knows no host, short files.

mod circles;
mod modules;

use circles::{Circle, circles};
use modules::Crate;
use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

/// The directories of the crates. A crate depends on crates of layers above its own line only.
const LAYERS: [&[&str]; 7] = [
    &["policy", "lab/qemu", "monitor/build-support"],
    &["monitor", "control"],
    &["conformance"],
    &["sim", "linux", "xen/tool", "lab/vmm"],
    &["lab"],
    &["cli"],
    &["bench", "fuzz/bodies"],
];

/// The C core: a directory, and where else it may include from.
const CORES: [(&str, &[&str]); 5] = [
    ("policy", &["policy", "policy/core"]),
    ("policy/core", &["policy", "policy/core"]),
    ("policy/template", &["policy"]),
    ("monitor/core", &["monitor/core", "policy/core"]),
    ("monitor/template", &["monitor/core"]),
];
/// Headers of a system that the core includes, and where: types, and the native build's tests.
const SYSTEM: [(&str, &[&str]); 2] = [
    ("policy/core/env.h", &["xen/types.h", "stdint.h"]),
    ("policy/core/native.c", &["stddef.h", "stdio.h", "string.h"]),
];

/// Lines of a source file, and of a policy.
const LONGEST: usize = 600;
const LONGEST_POLICY: usize = 340;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn toml(file: &str) -> Table {
    fs::read_to_string(root().join(file)).expect(file).parse().unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn members() -> Vec<String> {
    let workspace = toml("Cargo.toml");
    let members = workspace["workspace"]["members"].as_array().expect("a list");
    members.iter().map(|m| m.as_str().expect("a path").to_owned()).collect()
}

/// Files of a directory, not below it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|e| e.expect("an entry").path());
    let mut found: Vec<_> = entries.filter(|p| p.is_file()).collect();
    found.sort();
    found
}

fn ends(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x))
}

#[test]
fn crates_depend_on_lower_layers() {
    let layer = |dir: &str| LAYERS.iter().position(|l| l.contains(&dir));
    let crates: Vec<&str> = LAYERS.concat();
    let without: Vec<_> = members().into_iter().filter(|m| layer(m).is_none()).collect();
    assert!(without.is_empty(), "members of the workspace in no layer: {without:?}");
    let mut dependencies = 0;
    for member in crates {
        let manifest = toml(&format!("{member}/Cargo.toml"));
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (name, dependency) in manifest.get(kind).and_then(|t| t.as_table()).into_iter().flatten() {
                let Some(path) = dependency.get("path").and_then(|p| p.as_str()) else { continue };
                let dir = root().join(member).join(path).canonicalize().expect("a directory");
                let dir = dir.strip_prefix(root().canonicalize().expect("the workspace")).expect("a member").to_owned();
                let lower = layer(&dir.display().to_string()).is_some_and(|l| Some(l) < layer(member));
                assert!(lower, "{member}/Cargo.toml: {kind}: {name} is not of a layer below");
                dependencies += 1;
            }
        }
    }
    assert!(dependencies > 30, "{dependencies} dependencies");
}

/// The roots of a crate's library and programs.
fn roots(member: &str) -> Vec<PathBuf> {
    let src = root().join(member).join("src");
    let bins = fs::read_dir(src.join("bin")).into_iter().flatten().map(|e| e.expect("an entry").path());
    let programs = bins.map(|p| if p.is_dir() { p.join("main.rs") } else { p });
    [src.join("lib.rs"), src.join("main.rs")].into_iter().chain(programs).filter(|p| p.is_file()).collect()
}

#[test]
fn no_modules_import_in_a_circle() {
    let (mut found, mut modules, mut imports) = (String::new(), 0, 0);
    for member in members() {
        for root in roots(&member) {
            let all = Crate::read(&root);
            modules += all.0.len();
            imports += all.imports().len();
            for Circle { module, members, imports } in circles(&all) {
                found += &format!("{member}/src, {module}: {members:?}\n    {}\n", imports.join("\n    "));
            }
        }
    }
    assert!(found.is_empty(), "modules that import in a circle:\n{found}move what both need to a module below both");
    assert!(modules > 300 && imports > 800, "{modules} modules, {imports} imports");
}

/// Circles of a crate of these files, each as "module: members".
fn circles_of(sources: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("directory");
    for (name, text) in sources {
        let file = dir.path().join(name);
        fs::create_dir_all(file.parent().expect("a directory")).expect("directory");
        fs::write(file, text).expect("source");
    }
    let told = |c: Circle| format!("{}: {}", c.module, c.members.into_iter().collect::<Vec<_>>().join(" "));
    circles(&Crate::read(&dir.path().join("lib.rs"))).into_iter().map(told).collect()
}

#[test]
fn circles_are_found() {
    let two = |a: &str, b: &str| circles_of(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", b)]);
    assert_eq!(two("use crate::b::B;", "use super::a::A;"), [": a b"]);
    assert_eq!(two("use crate::{c::C, b::{self, D}};", "fn f() { crate::a::g() }"), [": a b"], "groups and calls");
    assert_eq!(two("fn f(x: &[super::b::B]) {}", "m!(crate::a::A);"), [": a b"], "types and macros");
    assert!(two("use crate::b::B;", "use std::fmt;").is_empty());
    assert!(two("use crate::b::B;", "// crate::a::A\nconst A: &str = \"crate::a::A\";").is_empty());
    assert!(two("use crate::b::B;", "#[cfg(test)]\nmod tests { use crate::a::A; }").is_empty());
    assert!(two("use crate::b::B;", "#[cfg(test)]\nuse crate::a::{A};\nfn f() {}").is_empty());
    let through = [("a.rs", "use crate::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
    let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;");
    assert_eq!(circles_of(&[lib, through[0], through[1], through[2]]), [": a b c"], "what is passed on");
    let glob = ("lib.rs", "mod a;\nmod b;\npub use b::*;");
    assert_eq!(circles_of(&[glob, through[0], ("b.rs", "use crate::a::A;\npub struct B;")]), [": a b"]);
}

#[test]
fn a_module_and_its_children_are_in_one_circle_at_most_one_way() {
    let child = |lib: &str, a: &str, c: &str| circles_of(&[("lib.rs", lib), ("a.rs", a), ("a/c.rs", c)]);
    assert_eq!(child("mod a;", "mod c;\npub struct A(c::C);", "use super::A;"), ["a: c self"]);
    assert!(child("mod a;", "mod c;\npub use c::C;\npub struct A;", "use super::A;").is_empty(), "passed on");
    assert!(child("mod a;", "mod c;\npub struct A(c::C);", "pub struct C;").is_empty());
    assert!(child("mod a { mod c; }", "", "").is_empty());
    let list = "mod c;\npub struct A;\nmacro_rules! list { ($($m:ident::$T:ident)+) => { $(m!($m::$T);)+ }; }";
    assert_eq!(child("mod a;", list, "use super::A;"), ["a: c self"], "by a macro's variable");
    assert_eq!(child("mod a;", &list.replace("$m::$T", "$m::T"), "use super::A;"), ["a: c self"]);
    assert!(child("mod a;", &list.replace("$m::$T", "$crate::T::$T"), "use super::A;").is_empty());
    assert!(child("mod a;", list, "pub struct C;").is_empty());
    let below =
        [("lib.rs", "mod a;\nmod b;"), ("a.rs", "mod c;"), ("a/c.rs", "use crate::b::d::D;"), ("b/mod.rs", "mod d;")];
    let back = ("b/d.rs", "use crate::a::A;");
    assert_eq!(circles_of(&[below[0], below[1], below[2], below[3], back]), [": a b"], "by what is below them");
    let moved = ("lib.rs", "mod a;\n#[path = \"elsewhere.rs\"]\nmod b;");
    assert_eq!(circles_of(&[moved, ("a.rs", "use crate::b::B;"), ("elsewhere.rs", "use crate::a::A;")]), [": a b"]);
}

#[test]
fn the_core_includes_nothing_of_a_host() {
    let mut included = 0;
    for (dir, from) in CORES {
        for file in files(&root().join(dir)).iter().filter(|f| ends(f, &["c", "h", "def"])) {
            let name = file.strip_prefix(root()).expect("below the root").display().to_string();
            let system = SYSTEM.iter().find(|(file, _)| *file == name).map_or(&[][..], |s| s.1);
            for line in fs::read_to_string(file).expect("source").lines() {
                let Some(header) = line.trim_start().strip_prefix("#include ") else { continue };
                let own = header.starts_with('"');
                let header = header[1..].split(['"', '>']).next().expect("a name");
                let places = from.iter().map(|place| root().join(place).join(header));
                let found = places.filter_map(|p| p.canonicalize().ok()).find(|p| p.is_file());
                let core =
                    |p: PathBuf| CORES.iter().any(|c| root().join(c.0).canonicalize().ok().as_deref() == p.parent());
                let fine = if own { found.is_some_and(core) } else { system.contains(&header) };
                assert!(fine, "{name} includes {header}, which the core does not have");
                included += 1;
            }
        }
    }
    assert!(included > 80, "{included} headers");
}

#[test]
fn files_are_short() {
    let mut waiting = vec![root()];
    let (mut count, mut long) = (0, Vec::new());
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            // Lists of defects are data.
            let skipped = name.starts_with('.') || ["target", "out", "mutants"].contains(&name.as_str());
            if path.is_dir() && (!skipped || path.ends_with("conformance/src/mutants")) {
                waiting.push(path);
            } else if path.is_file() && ends(&path, &["rs", "c", "h", "sh", "toml"]) {
                let lines = fs::read_to_string(&path).expect("text").lines().count();
                let policy = path.parent() == Some(root().join("policy").as_path()) && ends(&path, &["c"]);
                let most = if policy { LONGEST_POLICY } else { LONGEST };
                count += 1;
                if lines > most {
                    long.push(format!("{}: {lines} lines of at most {most}", path.display()));
                }
            }
        }
    }
    assert!(long.is_empty(), "split them:\n{}", long.join("\n"));
    assert!(count > 500, "{count} files");
}
