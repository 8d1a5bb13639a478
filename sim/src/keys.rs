// SPDX-License-Identifier: GPL-2.0-only
//! Readers of single values. Each error says what is allowed; the caller adds file and key.

use crate::constants::CONSTANTS;
use crate::units::Unit;
use anyhow::{Result, bail};
use takt_control::{PolicySpec, duration};
use toml::Value;

pub const DAY: u64 = 86_400_000_000_000;

const STRUCTURE: &[&str] = &[
    "name",
    "title",
    "duration",
    "warmup",
    "policies",
    "machine.pcpus",
    "machine.threads",
    "machine.llc",
    "machine.node",
    "dom0.vcpus",
    "dom0.weight",
    "dom0.net_vcpu",
    "dom0.stamp",
];

/// Keys of the section that `key` lies in, for an error.
pub fn known(key: &str) -> String {
    let all = || STRUCTURE.iter().copied().chain(CONSTANTS.iter().map(|c| c.key));
    if let Some((section, _)) = key.split_once('.') {
        let prefix = format!("{section}.");
        let own: Vec<_> = all().filter_map(|k| k.strip_prefix(prefix.as_str())).collect();
        if !own.is_empty() {
            return own.join(", ");
        }
    }
    let mut top: Vec<_> = all().map(|k| k.split('.').next().unwrap_or(k)).chain(["vm"]).collect();
    let mut seen = Vec::new();
    top.retain(|k| {
        !seen.contains(k) && {
            seen.push(k);
            true
        }
    });
    top.join(", ")
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
        _ => bail!("'{value}' is out of range; allowed: {min} .. {max}"),
    }
}

/// A time within `min..=max`, ns.
pub fn time(value: &str, min: u64, max: u64) -> Result<u64> {
    match duration::parse(value) {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        Ok(_) => bail!("{value} is out of range; allowed: {} .. {}", Unit::Time.show(min), Unit::Time.show(max)),
        Err(e) => bail!("{e}; allowed: {} .. {}", Unit::Time.show(min), Unit::Time.show(max)),
    }
}

/// One of a few words.
pub fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T> {
    match words.iter().find(|(w, _)| *w == value) {
        Some((_, found)) => Ok(*found),
        None => bail!("unknown '{value}'; allowed: {}", words.iter().map(|w| w.0).collect::<Vec<_>>().join(", ")),
    }
}

/// The name of a scenario or VM.
pub fn name(value: &str) -> Result<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if value.is_empty() || value.len() > 64 || !value.bytes().all(fits) {
        bail!("'{}' is no name; allowed: 1 .. 64 letters, digits, - and _", value.escape_debug());
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
    for policy in &names {
        PolicySpec::parse(policy)?;
    }
    Ok(names)
}
