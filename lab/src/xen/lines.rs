// SPDX-License-Identifier: GPL-2.0-only
//! What Dom0 emits, line by line.

use crate::outcome::{Latency, Vcpu};
use anyhow::{Context, Result, bail, ensure};

/// Lines, with the next one in sight.
pub(super) struct Lines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self(text.lines().peekable())
    }

    /// What follows `key` on the next line, if that line begins so.
    pub(super) fn value(&mut self, key: &str) -> Option<&'a str> {
        let rest = self.0.peek()?.strip_prefix(key)?.trim_start();
        self.0.next();
        Some(rest)
    }

    pub(super) fn need(&mut self, key: &str) -> Result<&'a str> {
        let here = self.0.peek().copied().unwrap_or("its end");
        self.value(key).with_context(|| format!("no `{key}` at `{here}`"))
    }

    pub(super) fn number(&mut self, key: &str) -> Result<u64> {
        let text = self.need(key)?;
        text.parse().with_context(|| format!("`{key} {text}`: no number"))
    }
}

/// Numbers with a blank between them.
pub(super) fn numbers(text: &str) -> Result<Vec<u64>> {
    text.split(' ').map(str::parse).collect::<Result<_, _>>().with_context(|| text.to_owned())
}

/// What a VCPU with this number says of itself.
pub(super) fn vcpu(text: &str, number: u32) -> Result<Vcpu> {
    let [id, cpu_ns, work, jobs, misses, count, mean_ns, p50_ns, p90_ns, p99_ns, max_ns] = numbers(text)?[..] else {
        bail!("`vcpu {text}`: expected 11 numbers");
    };
    ensure!(id == u64::from(number), "VCPU {number}: VCPU {id} is in its place");
    Ok(Vcpu { cpu_ns, work, jobs, misses, latency: Latency { count, mean_ns, p50_ns, p90_ns, p99_ns, max_ns } })
}
