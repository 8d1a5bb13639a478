// SPDX-License-Identifier: GPL-2.0-only
//! Keys of workloads. A key says once how it is read, what is allowed and what it is for: the
//! parser of scenarios, its errors and the table of `docs/scenarios.md` derive from that.

use crate::keys;
use crate::units::Unit;
use anyhow::Result;

/// A key of workload `W`.
pub struct Key<W> {
    name: &'static str,
    value: Value<W>,
    /// In the docs: what is allowed, if the value cannot tell, and the default where there is no
    /// value.
    allowed: &'static str,
    unset: &'static str,
    doc: &'static str,
}

/// How a value is read, kept and told. `get` returns `None` where there is no default.
enum Value<W> {
    Count {
        min: u32,
        max: u32,
        get: fn(&W) -> Option<u32>,
        set: fn(&mut W, u32),
    },
    /// ns
    Time {
        min: u64,
        max: u64,
        get: fn(&W) -> Option<u64>,
        set: fn(&mut W, u64),
    },
    Flag {
        get: fn(&W) -> bool,
        set: fn(&mut W, bool),
    },
    Text {
        get: fn(&W) -> Option<String>,
        set: fn(&mut W, &str) -> Result<()>,
    },
}

const FLAGS: [(&str, bool); 2] = [("true", true), ("false", false)];

impl<W> Key<W> {
    const fn new(name: &'static str, value: Value<W>, allowed: &'static str, doc: &'static str) -> Self {
        Self { name, value, allowed, unset: "none", doc }
    }

    /// A whole number within `min..=max`.
    pub const fn count(
        name: &'static str,
        (min, max): (u32, u32),
        get: fn(&W) -> Option<u32>,
        set: fn(&mut W, u32),
        doc: &'static str,
    ) -> Self {
        Self::new(name, Value::Count { min, max, get, set }, "", doc)
    }

    /// A time within `min..=max`, ns.
    pub const fn time(
        name: &'static str,
        (min, max): (u64, u64),
        get: fn(&W) -> Option<u64>,
        set: fn(&mut W, u64),
        doc: &'static str,
    ) -> Self {
        Self::new(name, Value::Time { min, max, get, set }, "", doc)
    }

    /// `true` or `false`.
    pub const fn flag(name: &'static str, get: fn(&W) -> bool, set: fn(&mut W, bool), doc: &'static str) -> Self {
        Self::new(name, Value::Flag { get, set }, "", doc)
    }

    /// What `set` reads, which the docs call `allowed`.
    pub const fn text(
        name: &'static str,
        allowed: &'static str,
        get: fn(&W) -> Option<String>,
        set: fn(&mut W, &str) -> Result<()>,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Value::Text { get, set }, allowed, doc)
    }

    /// The docs call the lack of a value so.
    pub const fn or(mut self, unset: &'static str) -> Self {
        self.unset = unset;
        self
    }

    /// The docs say so what is allowed: bounds that depend on the VM.
    pub const fn within(mut self, allowed: &'static str) -> Self {
        self.allowed = allowed;
        self
    }

    fn info(&self, own: &W) -> KeyInfo {
        let (default, bounds) = match self.value {
            Value::Count { min, max, get, .. } => (get(own).map(|n| n.to_string()), format!("{min} to {max}")),
            Value::Time { min, max, get, .. } => {
                let show = |ns| Unit::Time.show(ns);
                (get(own).map(show), format!("{} to {}", show(min), show(max)))
            }
            Value::Flag { get, .. } => (Some(get(own).to_string()), FLAGS.map(|(word, _)| word).join(", ")),
            Value::Text { get, .. } => (get(own), String::new()),
        };
        KeyInfo {
            name: self.name,
            default: default.unwrap_or_else(|| self.unset.to_owned()),
            allowed: if self.allowed.is_empty() { bounds } else { self.allowed.to_owned() },
            doc: self.doc,
        }
    }
}

/// A key as the docs have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub name: &'static str,
    pub default: String,
    pub allowed: String,
    /// What it is for.
    pub doc: &'static str,
}

/// The keys of a workload as the docs have them, with these values for defaults.
pub(super) fn table<W>(keys: &[Key<W>], own: &W) -> Vec<KeyInfo> {
    keys.iter().map(|key| key.info(own)).collect()
}

/// Sets one key.
///
/// # Errors
/// One line with what is allowed.
pub(super) fn set<W>(all: &[Key<W>], own: &mut W, key: &str, value: &str) -> Result<()> {
    let Some(known) = all.iter().find(|k| k.name == key) else {
        return Err(keys::unknown_among(key, &names(all).split(", ").collect::<Vec<_>>()));
    };
    match known.value {
        Value::Count { min, max, set, .. } => set(own, keys::count(value, min, max)?),
        Value::Time { min, max, set, .. } => set(own, keys::time(value, min, max)?),
        Value::Flag { set, .. } => set(own, keys::word(value, &FLAGS)?),
        Value::Text { set, .. } => set(own, value)?,
    }
    Ok(())
}

/// All that may stand in a workload's table, for an error.
pub(super) fn names<W>(keys: &[Key<W>]) -> String {
    std::iter::once("type").chain(keys.iter().map(|key| key.name)).collect::<Vec<_>>().join(", ")
}

/// Whether a workload has such a key.
pub(super) fn has<W>(keys: &[Key<W>], key: &str) -> bool {
    key == "type" || keys.iter().any(|k| k.name == key)
}
