// SPDX-License-Identifier: GPL-2.0-only
//! Functions of a source file, and what the operators can change in each, from its syntax tree.

use super::tokens::{find, plain_c, tokens};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::ops::Range;
use tree_sitter::{Node, Parser, Tree};

/// Operators, and what each does.
pub const OPERATORS: &[(&str, &str)] = &[
    ("drop", "leaves out a call, an assignment, `break` or `continue`"),
    ("always", "a condition is true"),
    ("never", "a condition is false"),
    ("negate", "a condition, or what `!` stands before, is the opposite"),
    ("operand", "leaves out an operand of && or ||"),
    ("either", "&& becomes ||, and || becomes &&"),
    ("compare", "a comparison becomes its neighbour: < <=, > >=, == !="),
    ("arith", "an arithmetic operator becomes another: + -, * /, << >>, & |"),
    ("plus", "a number is one more"),
    ("minus", "a number is one less"),
    ("enumerator", "a constant is the next one of its enumeration or run of #defines"),
    ("return", "returns at once, with 0, the default or Ok"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Rust,
}

/// A source file.
pub struct Source {
    /// Relative to the root of the tree.
    pub path: String,
    pub text: String,
    pub language: Language,
    tree: Tree,
}

/// A function or a macro; for Rust methods the name is `Type::method`.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub range: Range<usize>,
}

/// A change that an operator makes.
#[derive(Clone, Debug)]
pub struct Site {
    pub op: &'static str,
    pub function: String,
    /// The node that is changed; what an entry's `at` must be in.
    pub node: Range<usize>,
    pub edit: Range<usize>,
    pub with: String,
}

/// Constants and the next one of the same kind.
pub type Names = BTreeMap<String, String>;

impl Source {
    /// # Errors
    /// The grammar and the library do not fit.
    pub fn parse(path: &str, text: String) -> Result<Self> {
        let language = if path.ends_with(".rs") { Language::Rust } else { Language::C };
        let tree = match language {
            Language::C => parse(&tree_sitter_c::LANGUAGE.into(), &plain_c(&text)),
            Language::Rust => parse(&tree_sitter_rust::LANGUAGE.into(), &text),
        }
        .with_context(|| path.to_string())?;
        Ok(Self { path: path.into(), text, language, tree })
    }

    pub fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// All functions and macros; tests are none.
    pub fn functions(&self) -> Vec<Function> {
        let mut out = Vec::new();
        each(self.tree.root_node(), &mut |n| {
            if self.is_test(n) {
                return false;
            }
            if let Some(name) = self.function_name(n) {
                out.push(Function { name, range: n.byte_range() });
            }
            true
        });
        out
    }

    /// What operators can change in all functions.
    pub fn sites(&self, names: &Names) -> Vec<Site> {
        let mut out = Vec::new();
        each(self.tree.root_node(), &mut |n| {
            if self.is_test(n) {
                return false;
            }
            if let (Some(name), Some(body)) = (self.function_name(n), n.child_by_field_name("body")) {
                let mut sites = Sites { source: self, names, function: name, out: &mut out };
                sites.early_return(n, body);
                sites.inside(body);
                return false;
            }
            true
        });
        out
    }

    /// Adds enumerations and runs of `#define`s of this file.
    pub fn names(&self, out: &mut Names) {
        let mut run: Vec<(String, usize)> = Vec::new();
        let mut runs = Vec::new();
        each(self.tree.root_node(), &mut |n| {
            let field = |f| n.child_by_field_name(f).map(|c| self.of(c).trim().to_string());
            match n.kind() {
                "enum_specifier" | "enum_item" => {
                    let mut list = Vec::new();
                    let item = field("name").filter(|_| self.language == Language::Rust);
                    each(n, &mut |v| {
                        if let ("enumerator" | "enum_variant", Some(name)) = (v.kind(), v.child_by_field_name("name")) {
                            let plain = v.child_by_field_name("body").is_none();
                            let name = self.of(name);
                            list.extend(plain.then(|| item.as_ref().map_or(name.into(), |i| format!("{i}::{name}"))));
                        }
                        true
                    });
                    runs.push(list);
                }
                "preproc_def" => {
                    let row = n.start_position().row;
                    let number = field("value").is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
                    if run.last().is_some_and(|(_, last)| last + 1 != row) || !number {
                        runs.push(std::mem::take(&mut run).into_iter().map(|r| r.0).collect());
                    }
                    run.extend(field("name").filter(|_| number).map(|name| (name, row)));
                }
                _ => {}
            }
            true
        });
        runs.push(run.into_iter().map(|r| r.0).collect());
        for run in runs.into_iter().filter(|r| r.len() > 1) {
            for (i, name) in run.iter().enumerate() {
                out.entry(name.clone()).or_insert_with(|| run[(i + 1) % run.len()].clone());
            }
        }
    }

    fn of(&self, n: Node) -> &str {
        &self.text[n.byte_range()]
    }

    fn function_name(&self, n: Node) -> Option<String> {
        match n.kind() {
            "function_definition" => {
                let mut d = n.child_by_field_name("declarator")?;
                while d.kind() != "function_declarator" {
                    d = d.child_by_field_name("declarator")?;
                }
                let name = self.of(d.child_by_field_name("declarator")?).to_string();
                // BPF_PROG(name, ...) and its like.
                let wrapped = name.starts_with("BPF_").then(|| d.child_by_field_name("parameters")?.named_child(0));
                Some(wrapped.flatten().map_or(name, |p| self.of(p).to_string()))
            }
            "preproc_function_def" | "preproc_def" => Some(self.of(n.child_by_field_name("name")?).into()),
            "function_item" => {
                let name = self.of(n.child_by_field_name("name")?);
                let mut up = n.parent();
                while let Some(p) = up {
                    if let ("impl_item", Some(of)) = (p.kind(), p.child_by_field_name("type")) {
                        let of = self.of(of);
                        return Some(format!("{}::{name}", of.split('<').next().unwrap_or(of)));
                    }
                    up = p.parent();
                }
                Some(name.into())
            }
            "const_item" | "static_item" => Some(self.of(n.child_by_field_name("name")?).into()),
            _ => None,
        }
    }

    fn is_test(&self, n: Node) -> bool {
        let mut before = n.prev_sibling();
        while let Some(b) = before.filter(|b| matches!(b.kind(), "attribute_item" | "line_comment")) {
            if b.kind() == "attribute_item" && ["#[cfg(test)]", "#[test]"].contains(&self.of(b)) {
                return true;
            }
            before = b.prev_sibling();
        }
        false
    }
}

fn parse(language: &tree_sitter::Language, text: &str) -> Result<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language)?;
    parser.parse(text, None).context("cannot be parsed")
}

/// All nodes in order; `f` says whether to look inside.
fn each<'t>(n: Node<'t>, f: &mut impl FnMut(Node<'t>) -> bool) {
    if f(n) {
        let mut cursor = n.walk();
        for child in n.children(&mut cursor) {
            each(child, f);
        }
    }
}

struct Sites<'s> {
    source: &'s Source,
    names: &'s Names,
    function: String,
    out: &'s mut Vec<Site>,
}

impl Sites<'_> {
    fn add(&mut self, op: &'static str, node: Range<usize>, edit: Range<usize>, with: impl Into<String>) {
        self.out.push(Site { op, function: self.function.clone(), node, edit, with: with.into() });
    }

    fn early_return(&mut self, function: Node, body: Node) {
        let c = self.source.language == Language::C;
        let result = function.child_by_field_name(if c { "type" } else { "return_type" }).map(|n| self.source.of(n));
        let pointer = function.child_by_field_name("declarator").is_some_and(|d| d.kind() == "pointer_declarator");
        let value = match result {
            None | Some("()") => "return;",
            Some("void") if !pointer => "return;",
            Some(_) if c => "return 0;",
            Some(r) if r.starts_with("Result") => "return Ok(Default::default());",
            Some(r) if r.starts_with("Option") => "return None;",
            Some(_) => "return Default::default();",
        };
        let at = body.start_byte() + 1;
        if body.named_child_count() > 0 {
            self.add("return", function.byte_range(), at..at, format!(" {value}"));
        }
    }

    fn inside(&mut self, body: Node) {
        let mut within = Vec::new();
        each(body, &mut |n| {
            self.node(n);
            if n.kind() == "macro_invocation" {
                within.extend(self.judged_by_macro(n));
            }
            n.kind() != "function_item"
        });
        for (condition, tree) in within {
            self.condition(condition.clone());
            each(tree.root_node(), &mut |n| {
                if n.start_byte() >= condition.start && n.end_byte() <= condition.end {
                    self.node(n);
                }
                true
            });
        }
    }

    /// The condition of `ensure!` and its like, which the grammar leaves as tokens, with a tree of it.
    fn judged_by_macro(&self, n: Node) -> Option<(Range<usize>, Tree)> {
        let s = self.source;
        let name = s.of(n.child_by_field_name("macro")?);
        let all = s.of(n);
        if !["ensure", "assert", "matches"].contains(&name) {
            return None;
        }
        let mut depth = 0;
        let (mut from, mut to) = (None, all.len());
        for t in tokens(all) {
            match &all[t.clone()] {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "," if depth == 1 => {
                    to = t.start;
                    break;
                }
                _ => {}
            }
            if depth == 0 && from.is_some() {
                to = t.start;
                break;
            }
            if depth == 1 && from.is_none() {
                from = Some(t.end);
            }
        }
        let base = n.start_byte();
        let condition = base + from?..base + to;
        let head = "fn f(){let _=";
        let mut text = " ".repeat(condition.start.checked_sub(head.len())?);
        text.push_str(head);
        text.push_str(&s.text[condition.clone()]);
        text.push_str(";}");
        Some((condition, parse(&tree_sitter_rust::LANGUAGE.into(), &text).ok()?))
    }

    fn condition(&mut self, r: Range<usize>) {
        let c = self.source.language == Language::C;
        let text = self.source.text[r.clone()].to_string();
        let (yes, no) = if c { ("1", "0") } else { ("true", "false") };
        if ![yes, no].contains(&text.as_str()) {
            self.add("always", r.clone(), r.clone(), yes);
            self.add("never", r.clone(), r.clone(), no);
            self.add("negate", r.clone(), r, format!("!({text})"));
        }
    }

    fn node(&mut self, n: Node) {
        let s = self.source;
        match n.kind() {
            "expression_statement" => {
                let what = n.named_child(0).map_or("", |e| e.kind());
                let droppable = [
                    "call_expression",
                    "assignment_expression",
                    "update_expression",
                    "compound_assignment_expr",
                    "macro_invocation",
                    "try_expression",
                    "break_expression",
                    "continue_expression",
                ];
                if droppable.contains(&what)
                    && s.of(n).ends_with(';')
                    && !(s.language == Language::C && is_hint(s.of(n)))
                {
                    let with = if s.language == Language::C { ";" } else { "" };
                    self.add("drop", n.byte_range(), n.byte_range(), with);
                }
            }
            "break_statement" | "continue_statement" => self.add("drop", n.byte_range(), n.byte_range(), ";"),
            "if_statement"
            | "while_statement"
            | "do_statement"
            | "for_statement"
            | "conditional_expression"
            | "if_expression"
            | "while_expression"
            | "match_pattern" => {
                let Some(c) = n.child_by_field_name("condition") else { return };
                let c = match c.kind() {
                    "parenthesized_expression" if c.named_child_count() == 1 => c.named_child(0).unwrap_or(c),
                    _ => c,
                };
                // A comma is in the loops that plain_c() has made; a pattern cannot be negated.
                if !["comma_expression", "let_condition", "let_chain"].contains(&c.kind()) {
                    self.condition(c.byte_range());
                }
            }
            "binary_expression" | "assignment_expression" | "compound_assignment_expr" | "update_expression" => {
                self.operator(n);
            }
            "unary_expression" if s.of(n).starts_with('!') => {
                self.add("negate", n.byte_range(), n.start_byte()..n.start_byte() + 1, "");
            }
            "number_literal" | "integer_literal" => self.number(n),
            "boolean_literal" => {
                let other = if s.of(n) == "true" { "false" } else { "true" };
                self.add("negate", self.around(n), n.byte_range(), other);
            }
            "identifier" | "scoped_identifier" => {
                if let Some(next) = self.names.get(s.of(n)) {
                    self.add("enumerator", self.around(n), n.byte_range(), next.clone());
                }
            }
            _ => {}
        }
    }

    fn operator(&mut self, n: Node) {
        let Some(op) = n.child_by_field_name("operator") else { return };
        let text = self.source.of(op);
        let (name, with) = match text {
            "<" => ("compare", "<="),
            "<=" => ("compare", "<"),
            ">" => ("compare", ">="),
            ">=" => ("compare", ">"),
            "==" => ("compare", "!="),
            "!=" => ("compare", "=="),
            "+" => ("arith", "-"),
            "-" => ("arith", "+"),
            "*" => ("arith", "/"),
            "/" | "%" => ("arith", "*"),
            "<<" => ("arith", ">>"),
            ">>" => ("arith", "<<"),
            "&" => ("arith", "|"),
            "|" | "^" => ("arith", "&"),
            "+=" => ("arith", "-="),
            "-=" => ("arith", "+="),
            "*=" => ("arith", "/="),
            "/=" => ("arith", "*="),
            "<<=" => ("arith", ">>="),
            ">>=" => ("arith", "<<="),
            "&=" => ("arith", "|="),
            "|=" | "^=" => ("arith", "&="),
            "++" => ("arith", "--"),
            "--" => ("arith", "++"),
            "&&" => ("either", "||"),
            "||" => ("either", "&&"),
            _ => return,
        };
        // A loop that counts the wrong way only never ends.
        if n.kind() == "update_expression" && n.parent().is_some_and(|p| p.kind() == "for_statement") {
            return;
        }
        self.add(name, n.byte_range(), op.byte_range(), with);
        if name == "either" {
            let field = |f| n.child_by_field_name(f);
            let chain = |side: Node| {
                side.kind() == "binary_expression"
                    && side.child_by_field_name("operator").is_some_and(|o| self.source.of(o) == text)
            };
            if let (Some(left), Some(right)) = (field("left"), field("right")) {
                if !chain(left) && left.kind() != "let_condition" {
                    self.add("operand", left.byte_range(), left.start_byte()..right.start_byte(), "");
                }
                if right.kind() != "let_condition" {
                    self.add("operand", right.byte_range(), left.end_byte()..right.end_byte(), "");
                }
            }
        }
    }

    fn number(&mut self, n: Node) {
        let text = self.source.of(n);
        let Some((value, suffix)) = value(text) else { return };
        let around = self.around(n);
        self.add("plus", around.clone(), n.byte_range(), format!("{}{suffix}", value + 1));
        if value > 0 {
            self.add("minus", around, n.byte_range(), format!("{}{suffix}", value - 1));
        }
    }

    /// What a leaf stands in.
    fn around(&self, n: Node) -> Range<usize> {
        let mut up = n;
        while let Some(p) = up.parent() {
            up = p;
            if p.byte_range() != n.byte_range() && p.kind() != "parenthesized_expression" {
                break;
            }
        }
        up.byte_range()
    }
}

/// Whether a statement of C only tells the verifier of BPF to know no more of a value than its type (`policy/core/env.h`):
/// without it a program is the same. `x = takt_fresh(p, x);`, `takt_opaque(x);`, `mask_fresh(p, &x);`.
fn is_hint(statement: &str) -> bool {
    let text: String = statement.chars().filter(|c| !c.is_whitespace()).collect();
    if text.starts_with("takt_opaque(") || text.starts_with("mask_fresh(p,") {
        return true;
    }
    let Some((to, from)) = text.split_once('=') else { return false };
    ["takt_fresh(p,", "takt_fresh_long(p,"].iter().any(|f| from.strip_prefix(f) == Some(&format!("{to});")))
}

/// An integer literal and its suffix.
fn value(text: &str) -> Option<(u64, &str)> {
    let hex = text.strip_prefix("0x");
    let body = hex.unwrap_or(text);
    let digit = |c: char| c == '_' || if hex.is_some() { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
    let end = body.find(|c| !digit(c)).unwrap_or(body.len());
    let digits: String = body[..end].chars().filter(|&c| c != '_').collect();
    let value = u64::from_str_radix(&digits, if hex.is_some() { 16 } else { 10 }).ok()?;
    (value < u64::MAX && !body[end..].contains('.')).then_some((value, &body[end..]))
}

/// Of `sites`, those with `at` in their node; the one that is it exactly, or the innermost, if there is one.
pub fn pick<'s>(text: &str, sites: &[&'s Site], at: &str, nth: Option<usize>) -> Result<&'s Site> {
    let has = |s: &&&Site| at.is_empty() || !find(&text[s.node.clone()], at).is_empty();
    let found: Vec<&Site> = sites.iter().filter(has).copied().collect();
    if let Some(nth) = nth {
        ensure!((1..=found.len()).contains(&nth), "`nth` must be between 1 and {} (got {nth})", found.len());
        return Ok(found[nth - 1]);
    }
    let exact = |s: &&&Site| matches!(&find(&text[s.node.clone()], at)[..], [r] if r.len() == s.node.len());
    let inner = |s: &&&Site| found.iter().all(|o| o.node.start <= s.node.start && s.node.end <= o.node.end);
    let mut one: Vec<_> = found.iter().filter(exact).collect();
    if one.len() != 1 {
        one = found.iter().filter(inner).collect();
    }
    ensure!(one.len() == 1, "{} places match, one must: give more of the place in `at`, or `nth`", found.len());
    Ok(one[0])
}
