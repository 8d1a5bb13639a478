// SPDX-License-Identifier: GPL-2.0-only
//! Readers of single values. Each error says what is allowed; the caller adds file and key.

use crate::constants::CONSTANTS;
use crate::units::Unit;
use anyhow::{Result, anyhow, bail};
use takt_control::{PolicySpec, duration, near};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

pub const SECOND: u64 = 1_000_000_000;
pub const DAY: u64 = 86_400 * SECOND;

const STRUCTURE: &[&str] = &[
    "name",
    "title",
    "duration",
    "warmup",
    "policies",
    "parameters",
    "load",
    "release",
    "machine.pcpus",
    "machine.threads",
    "machine.llc",
    "machine.node",
    "machine.machines",
    "dom0.vcpus",
    "dom0.weight",
    "dom0.net_vcpu",
    "dom0.affinity",
    "dom0.dedicated",
    "dom0.budget",
    "dom0.period",
    "dom0.priority",
    "dom0.extra",
    "dom0.stamp",
];

/// A TOML document. A number that is too large for TOML stays text, so that the reader of its key names the range.
///
/// # Errors
/// One line that names the line of the text.
pub fn parse(text: &str) -> Result<Table> {
    let table = DeTable::parse(text).map_err(|e| {
        let line = text[..e.span().map_or(0, |s| s.start.min(text.len()))].matches('\n').count() + 1;
        anyhow!("line {line}: {}", e.message())
    })?;
    Ok(owned(table.into_inner()))
}

fn owned(table: DeTable) -> Table {
    table.into_iter().map(|(key, value)| (key.into_inner().into_owned(), owned_value(value.into_inner()))).collect()
}

fn owned_value(value: DeValue) -> Value {
    match value {
        DeValue::String(s) => Value::String(s.into_owned()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Value::Integer(n),
            Err(_) => Value::String(n.as_str().to_owned()),
        },
        DeValue::Float(x) => match x.as_str().parse::<f64>() {
            Ok(n) if n.is_finite() => Value::Float(n),
            _ => Value::String(x.as_str().to_owned()),
        },
        DeValue::Boolean(b) => Value::Boolean(b),
        DeValue::Datetime(d) => Value::Datetime(d),
        DeValue::Array(list) => Value::Array(list.into_iter().map(|v| owned_value(v.into_inner())).collect()),
        DeValue::Table(t) => Value::Table(owned(t)),
    }
}

fn all() -> impl Iterator<Item = &'static str> {
    STRUCTURE.iter().copied().chain(CONSTANTS.iter().map(|c| c.key))
}

/// Whether `key` is the name of a table such as `machine`.
pub fn is_section(key: &str) -> bool {
    all().any(|k| k.split_once('.').is_some_and(|(section, _)| section == key))
}

/// Whether `key` is a full key such as `machine.pcpus`.
pub fn is_key(key: &str) -> bool {
    all().any(|k| k == key)
}

/// The part of `key` that names nothing, and the names that may stand in its place.
fn place(key: &str) -> (&str, Vec<&'static str>) {
    if let Some((section, rest)) = key.split_once('.') {
        let prefix = format!("{section}.");
        let own: Vec<_> = all().filter_map(|k| k.strip_prefix(prefix.as_str())).collect();
        if !own.is_empty() {
            return (rest, own);
        }
    }
    let first = |k: &'static str| k.split('.').next().unwrap_or(k);
    let mut top: Vec<_> = Vec::new();
    for name in all().map(first).chain(["vm", "pool", "at"]) {
        if !top.contains(&name) {
            top.push(name);
        }
    }
    (key.split('.').next().unwrap_or(key), top)
}

/// The error of a key that there is not.
pub fn unknown(key: &str) -> anyhow::Error {
    let (part, names) = place(key);
    unknown_among(part, &names)
}

/// The same, where `names` are allowed.
pub fn unknown_among(key: &str, names: &[&str]) -> anyhow::Error {
    anyhow!("unknown key{}", near::allowed(key, names.iter().copied()))
}

/// A TOML value in the form that `--set` takes; lists are joined by commas.
pub fn text(key: &str, value: &Value) -> Result<String> {
    Ok(match value {
        Value::String(s) => s.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Boolean(b) => b.to_string(),
        Value::Array(list) => list.iter().map(|v| text(key, v)).collect::<Result<Vec<_>>>()?.join(","),
        Value::Datetime(_) => bail!("{key}: a date; allowed: text, a number or a list"),
        Value::Table(_) => bail!("{key}: a table; allowed: text, a number or a list"),
    })
}

/// A whole number within `min..=max`.
pub fn count(value: &str, min: u32, max: u32) -> Result<u32> {
    match value.parse::<u32>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => bail!("'{value}' is out of range; allowed: {min} to {max}"),
    }
}

/// A time within `min..=max`, ns.
pub fn time(value: &str, min: u64, max: u64) -> Result<u64> {
    match duration::parse(value) {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        Ok(_) => bail!("{value} is out of range; allowed: {} to {}", Unit::Time.show(min), Unit::Time.show(max)),
        Err(e) => bail!("{e}; allowed: {} to {}", Unit::Time.show(min), Unit::Time.show(max)),
    }
}

/// One of a few words.
pub fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T> {
    match words.iter().find(|(w, _)| *w == value) {
        Some((_, found)) => Ok(*found),
        None => {
            bail!("unknown '{value}'{}", near::allowed(value, words.iter().map(|w| w.0)))
        }
    }
}

/// The name of a scenario or VM.
pub fn name(value: &str) -> Result<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if value.is_empty() || value.len() > 64 || !value.bytes().all(fits) {
        bail!("'{}' is not a valid name; allowed: 1 to 64 letters, digits, - and _", value.escape_debug());
    }
    Ok(value.to_string())
}

/// A line of text.
pub fn line(value: &str) -> Result<String> {
    if value.len() > 200 || value.chars().any(char::is_control) {
        bail!("not a line of text; allowed: at most 200 printable characters");
    }
    Ok(value.to_string())
}

/// A list of PCPUs such as `0-3,6`.
pub fn cpus(value: &str) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for part in value.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (count(from, 0, 63)?, count(to, 0, 63)?);
        if from > to {
            bail!("'{part}' is empty; allowed: lists and ranges of PCPUs such as 0-3,6");
        }
        all.extend(from..=to);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A list of policies; commas within parentheses do not separate.
pub fn policies(value: &str) -> Result<Vec<String>> {
    let mut depth = 0;
    let parts = value.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        c == ',' && depth == 0
    });
    let names: Vec<_> = parts.map(|p| p.trim().to_string()).filter(|p| !p.is_empty()).collect();
    PolicySpec::list(names.iter().map(String::as_str))?;
    Ok(names)
}
