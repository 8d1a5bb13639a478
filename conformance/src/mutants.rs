// SPDX-License-Identifier: GPL-2.0-only
//! Deliberately broken cores (`mutants.toml`): each has to be caught, the unchanged core by nothing.

use crate::core::Maker;
use crate::host::{Mode, Shape};
use crate::run::Run;
use crate::vectors::VECTORS;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One way to break the core.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    pub name: String,
    /// Below `policy/`.
    pub file: String,
    /// Occurs exactly once in the file.
    pub find: String,
    pub replace: String,
    /// Why it is wrong.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// The list in a TOML file.
pub fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(toml::from_str::<List>(&text).with_context(|| path.display().to_string())?.mutant)
}

/// Compiles the core at `policy`, broken by `mutant` if one is given, to a shared library in `dir`.
pub fn build(policy: &Path, mutant: Option<&Mutant>, dir: &Path) -> Result<PathBuf> {
    let name = mutant.map_or("unchanged", |m| m.name.as_str());
    let tree = dir.join(name);
    std::fs::create_dir_all(tree.join("core")).with_context(|| tree.display().to_string())?;
    for sub in ["", "core"] {
        for entry in std::fs::read_dir(policy.join(sub)).with_context(|| policy.display().to_string())? {
            let path = entry?.path();
            if let (true, Some(file)) = (path.extension().is_some_and(|e| e == "c" || e == "h"), path.file_name()) {
                std::fs::copy(&path, tree.join(sub).join(file)).with_context(|| path.display().to_string())?;
            }
        }
    }
    if let Some(m) = mutant {
        let path = tree.join(&m.file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("{name}: {}", m.file))?;
        let found = text.matches(&m.find).count();
        ensure!(found == 1, "{name}: the text to find occurs {found} times in {}", m.file);
        std::fs::write(&path, text.replace(&m.find, &m.replace))?;
    }
    let library = dir.join(format!("{name}.so"));
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(&cc);
    command.args(["-shared", "-fPIC", "-std=gnu11", "-O0", "-w", "-fwrapv", "-fno-strict-aliasing", "-o"]);
    let out = command.arg(&library).arg(tree.join("core/native.c")).output().with_context(|| cc.clone())?;
    ensure!(out.status.success(), "{name} does not compile: {}", String::from_utf8_lossy(&out.stderr));
    Ok(library)
}

/// Operations per policy, shape and mode in [`suite`].
const OPERATIONS: u64 = 6_000;

/// Runs vectors and random hosts on a core; what caught it, or `None`.
pub fn suite(make: &Maker) -> Option<String> {
    std::panic::set_hook(Box::new(|_| {}));
    for (name, vector) in VECTORS {
        if let Err(e) = catch_unwind(AssertUnwindSafe(|| vector(make))) {
            let text = e.downcast_ref::<String>().map(String::as_str).or(e.downcast_ref::<&str>().copied());
            return Some(format!("vector {name}: {}", text.unwrap_or("panic").replace('\n', " ")));
        }
    }
    for policy in takt_policy::policies().iter().rev() {
        for shape in &Shape::ALL[..4] {
            for mode in [Mode::Faithful, Mode::Chaos] {
                let run =
                    make(policy.name).and_then(|core| Run::new(core, 1, *shape, mode, 1).steps(OPERATIONS, false));
                if let Err(e) = run {
                    return Some(format!("random {mode:?} host, {}: {e:#}", policy.name));
                }
            }
        }
    }
    None
}
