// SPDX-License-Identifier: GPL-2.0-only
//! The modules of a crate and what each one imports, from its sources: every path that begins with
//! `crate`, `self`, `super` or a child module, in `use` lines and in code. A path leads to the
//! module that defines the name, through `pub use` and other imports. A path that begins with a
//! variable of a macro may lead to any child of the macro's module, so it counts for all of them.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Names = Vec<String>;

#[derive(Default)]
pub struct Module {
    /// From the root of its crate, which has none.
    pub path: Names,
    parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    /// What it defines.
    items: BTreeSet<String>,
    /// What it has from elsewhere, with its path there.
    names: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// Paths in it, but for those that it only passes on.
    paths: BTreeSet<Names>,
    /// Variables of its macros that paths begin with.
    variables: BTreeSet<String>,
}

/// All modules of a crate; the root is the first.
pub struct Crate(pub Vec<Module>);

/// Where a module's files are.
#[derive(Clone)]
struct Place {
    /// Of `#[path]`.
    beside: PathBuf,
    below: PathBuf,
}

impl Crate {
    /// The crate with the root `file`; modules that only tests have are left out.
    pub fn read(file: &Path) -> Self {
        let mut all = Self(vec![Module::default()]);
        let dir = file.parent().expect("a directory").to_owned();
        all.read_file(0, file, &Place { beside: dir.clone(), below: dir });
        all
    }

    fn read_file(&mut self, module: usize, file: &Path, place: &Place) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let tokens = text.parse::<TokenStream>().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.scan(module, &tokens.into_iter().collect::<Vec<_>>(), Some(place));
    }

    /// Items of a module, or, without a place, what is within them.
    fn scan(&mut self, module: usize, tokens: &[TokenTree], place: Option<&Place>) {
        let mut at = 0;
        let mut beside = None;
        while let Some(token) = tokens.get(at) {
            if let Some((attribute, end)) = attribute(tokens, at) {
                if text(attribute) == "cfg(test)" {
                    at = end_of_item(tokens, end);
                } else {
                    beside = path_of(attribute).or(beside);
                    at = end;
                }
                continue;
            }
            at += match (word(token).as_deref(), place) {
                (Some("use"), _) => self.import(module, tokens, at, place.is_some()),
                (Some("mod"), Some(place)) => self.declare(module, tokens, at, place, beside.take()),
                (Some(kind), _) => {
                    let defines = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];
                    if place.is_some() && defines.contains(&kind) {
                        self.0[module].items.extend(defined(tokens, at));
                    }
                    self.path(module, tokens, at)
                }
                (None, _) => {
                    if let TokenTree::Group(group) = token {
                        self.scan(module, &inner(group), None);
                    }
                    1
                }
            };
        }
    }

    /// `use TREE;`: how many tokens it has.
    fn import(&mut self, module: usize, tokens: &[TokenTree], at: usize, item: bool) -> usize {
        let end = (at..tokens.len()).find(|&n| is(&tokens[n], ';')).unwrap_or(tokens.len());
        let mut found = Vec::new();
        tree(&tokens[at + 1..end], &[], &mut found);
        let m = &mut self.0[module];
        for (path, name) in found {
            if !(item && is_public(&tokens[..at])) {
                m.paths.insert(path.clone());
            }
            match name.as_str() {
                "*" if item => m.globs.push(path),
                _ if item => drop(m.names.insert(name, path)),
                _ => {}
            }
        }
        end + 1 - at
    }

    /// `mod NAME;` or `mod NAME { … }`: how many tokens it has.
    fn declare(&mut self, of: usize, tokens: &[TokenTree], at: usize, place: &Place, beside: Option<String>) -> usize {
        let (Some(name), Some(body)) = (tokens.get(at + 1).and_then(word), tokens.get(at + 2)) else { return 1 };
        let path = [&self.0[of].path[..], std::slice::from_ref(&name)].concat();
        let module = self.0.len();
        self.0.push(Module { path, parent: Some(of), ..Module::default() });
        self.0[of].children.insert(name.clone(), module);
        let below = place.below.join(&name);
        if let TokenTree::Group(group) = body {
            self.scan(module, &inner(group), Some(&Place { beside: below.clone(), below }));
            return 3;
        }
        let flat = place.below.join(format!("{name}.rs"));
        let file = match beside {
            Some(path) => place.beside.join(path),
            None if flat.is_file() => flat,
            None => below.join("mod.rs"),
        };
        let dir = file.parent().expect("a directory").to_owned();
        let below = if file.ends_with("mod.rs") { dir.clone() } else { file.with_extension("") };
        self.read_file(module, &file, &Place { beside: dir, below });
        3
    }

    /// A path that begins here, or another word: how many tokens it has.
    fn path(&mut self, module: usize, tokens: &[TokenTree], at: usize) -> usize {
        let mut path: Names = word(&tokens[at]).into_iter().collect();
        let mut end = at + 1;
        while let (true, Some(next)) = (separates(tokens, end), tokens.get(end + 2).and_then(word)) {
            path.push(next);
            end += 3;
        }
        if at > 0 && is(&tokens[at - 1], '$') && path[0] != "crate" {
            if path.len() > 1 || separates(tokens, end) {
                self.0[module].variables.insert(format!("${}", path[0]));
            }
        } else if path.len() > 1 && !(at > 1 && separates(tokens, at - 2)) {
            self.0[module].paths.insert(path);
        }
        end - at
    }

    /// The module that has what a path in `module` names; `None`: another crate.
    fn find(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let (mut here, mut rest) = (module, path);
        match path.first()?.as_str() {
            "crate" => (here, rest) = (0, &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    (here, rest) = (self.0[here].parent?, &rest[1..]);
                }
            }
            name if self.0[module].children.contains_key(name) => {}
            _ => return None,
        }
        while let Some((name, after)) = rest.split_first() {
            let m = &self.0[here];
            if let Some(&child) = m.children.get(name) {
                (here, rest) = (child, after);
                continue;
            }
            // Imports that lead in a circle would go on for ever.
            if m.items.contains(name) || depth > 16 {
                return Some(here);
            }
            if let Some(path) = m.names.get(name) {
                return self.find(here, &[&path[..], after].concat(), depth + 1);
            }
            let others = m.globs.iter().filter_map(|glob| self.find(here, glob, depth + 1));
            let has = |&other: &usize| {
                let o = &self.0[other];
                o.items.contains(name) || o.children.contains_key(name) || o.names.contains_key(name)
            };
            return match others.filter(|o| *o != here).find(has) {
                Some(other) => self.find(other, &[&["self".to_owned()][..], rest].concat(), depth + 1),
                None => Some(here),
            };
        }
        Some(here)
    }

    /// Pairs of modules, the first of which imports from the second, with the path by which it
    /// does.
    pub fn imports(&self) -> Vec<(usize, usize, String)> {
        let of = |(n, m): (usize, &Module)| -> Vec<_> {
            let to = |path: &Names| Some((n, self.find(n, path, 0)?, path.join("::")));
            let any = m.variables.iter().flat_map(|v| m.children.values().map(move |&child| (n, child, v.clone())));
            m.paths.iter().filter_map(to).filter(|(from, to, _)| from != to).chain(any).collect()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }

    /// The child of `parent` that `module` is, or is below of; `parent` itself for `parent`.
    pub fn below(&self, parent: usize, module: usize) -> Option<usize> {
        let up = std::iter::successors(Some(module), |&m| if m == parent { None } else { self.0[m].parent });
        let chain: Vec<_> = up.collect();
        (chain.last() == Some(&parent)).then(|| chain[chain.len().saturating_sub(2)])
    }
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn is(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

/// Whether `::` stands at this place.
fn separates(tokens: &[TokenTree], at: usize) -> bool {
    let joint = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.spacing() == Spacing::Joint);
    let (first, second) = (tokens.get(at), tokens.get(at + 1));
    first.is_some_and(|t| is(t, ':') && joint(t)) && second.is_some_and(|t| is(t, ':'))
}

fn inner(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// An attribute that begins here, and where it ends.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(&Group, usize)> {
    if !is(tokens.get(at)?, '#') {
        return None;
    }
    let open = at + 1 + usize::from(is(tokens.get(at + 1)?, '!'));
    match tokens.get(open)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some((group, open + 1)),
        _ => None,
    }
}

fn text(group: &Group) -> String {
    group.stream().to_string().replace(' ', "")
}

/// What `#[path = "…"]` says.
fn path_of(attribute: &Group) -> Option<String> {
    Some(text(attribute).strip_prefix("path=\"")?.strip_suffix('"')?.to_owned())
}

/// Where the item ends that begins here, perhaps with other attributes.
fn end_of_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some((_, end)) = attribute(tokens, at) {
        at = end;
    }
    let imports = tokens[at..].iter().take(3).filter_map(word).any(|w| w == "use");
    let block = |t: &TokenTree| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
    let last = |t: &TokenTree| is(t, ';') || !imports && (block(t) || is(t, ','));
    (at..tokens.len()).find(|&n| last(&tokens[n])).map_or(tokens.len(), |n| n + 1)
}

/// What `fn`, `struct` and the like define here.
fn defined(tokens: &[TokenTree], at: usize) -> Option<String> {
    let names = tokens[at + 1..].iter().take(2).filter(|t| !is(t, '!')).map(word);
    let name = names.flatten().find(|w| w != "mut")?;
    (!["fn", "unsafe", "extern", "async"].contains(&name.as_str())).then_some(name)
}

/// Whether these tokens end in `pub` or `pub(…)`.
fn is_public(tokens: &[TokenTree]) -> bool {
    let (last, before) = (tokens.last(), tokens.len().checked_sub(2).and_then(|n| tokens.get(n)));
    let public = |t: Option<&TokenTree>| t.and_then(word).is_some_and(|w| w == "pub");
    public(last) || matches!(last, Some(TokenTree::Group(_))) && public(before)
}

/// The paths of a `use` tree, each with the name that it gets.
fn tree(tokens: &[TokenTree], before: &[String], out: &mut Vec<(Names, String)>) {
    let mut path = before.to_vec();
    let mut rest = tokens;
    while let Some(token) = rest.first() {
        match token {
            TokenTree::Group(group) => {
                let inner = inner(group);
                inner.split(|t| is(t, ',')).for_each(|branch| tree(branch, &path, out));
                return;
            }
            TokenTree::Punct(p) if p.as_char() == '*' => return out.push((path, "*".into())),
            TokenTree::Ident(ident) if *ident == "as" => break,
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            _ => {}
        }
        rest = &rest[1..];
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = rest.get(1).and_then(word).or_else(|| path.last().cloned());
    if let Some(name) = name.filter(|_| !tokens.is_empty()) {
        out.push((path, name));
    }
}
