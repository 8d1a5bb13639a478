// SPDX-License-Identifier: GPL-2.0-only
//! Circles among a module and its children, each with all that is below it.

use crate::modules::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// Modules that import from one another in both directions, directly or through others.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// The module, as `experiment::show`; empty for the root of the crate.
    pub module: String,
    /// Those of its children that are in it; `self` for the module's own file.
    pub members: BTreeSet<String>,
    /// For each import within it, one of the paths.
    pub imports: Vec<String>,
}

/// All circles of a crate. As each one lies among a module and its children somewhere, none is
/// missed.
pub fn circles(all: &Crate) -> Vec<Circle> {
    let imports = all.imports();
    (0..all.0.len()).filter(|&m| !all.0[m].children.is_empty()).flat_map(|m| around(all, m, &imports)).collect()
}

fn around(all: &Crate, module: usize, imports: &[(usize, usize, String)]) -> Vec<Circle> {
    let mut edges: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for (from, to, path) in imports {
        if let (Some(a), Some(b)) = (all.below(module, *from), all.below(module, *to)) {
            if a != b {
                let place = all.0[*from].path.join("::");
                edges.entry((a, b)).or_insert_with(|| format!("{place} uses {path}"));
            }
        }
    }
    let nodes: Vec<usize> = std::iter::once(module).chain(all.0[module].children.values().copied()).collect();
    let reach = |from: usize| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(at) = waiting.pop() {
            let next = edges.keys().filter(|(a, _)| *a == at).map(|(_, b)| *b);
            waiting.extend(next.filter(|b| seen.insert(*b)));
        }
        seen
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = nodes.iter().map(|&n| (n, reach(n))).collect();
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for &node in nodes.iter().filter(|n| reached[*n].contains(*n)) {
        if !found.iter().any(|circle| circle.contains(&node)) {
            found.push(reached[&node].iter().copied().filter(|other| reached[other].contains(&node)).collect());
        }
    }
    let name =
        |n: &usize| if *n == module { "self".into() } else { all.0[*n].path.last().cloned().unwrap_or_default() };
    let told = |circle: BTreeSet<usize>| Circle {
        module: all.0[module].path.join("::"),
        members: circle.iter().map(name).collect(),
        imports: edges
            .iter()
            .filter(|((a, b), _)| circle.contains(a) && circle.contains(b))
            .map(|e| e.1.clone())
            .collect(),
    };
    found.into_iter().map(told).collect()
}
