// SPDX-License-Identifier: GPL-2.0-only
//! What `takt set VM key=value…` says.

use crate::config::{CAPS, WEIGHTS};
use crate::server::{self, ServerSetting};
use crate::{Ports, RtMode, duration, groups, spec};
use anyhow::{Context, Result, bail, ensure};

/// Values for a VM; `None` leaves what there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    pub rt: Option<RtMode>,
    /// Of a real-time VM, instead of the monitor's, ns.
    pub period: Option<u64>,
    pub weight: Option<u32>,
    pub cap: Option<u32>,
    pub server: ServerSetting,
    pub ports: Option<Ports>,
    pub dev: Option<String>,
    /// ns (S, Poris)
    pub laxity: Option<u64>,
    pub latency: Option<u64>,
    /// Empty: it leaves its group.
    pub group: Option<String>,
}

const KEYS: &str = "rt, period, weight, cap, budget, priority, extra, laxity, latency, group, ports, dev";
/// Longest period that the core takes; the shortest that makes sense to write down.
const PERIODS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

impl Setting {
    /// Reads `key=value` pairs.
    ///
    /// # Errors
    /// One line that names the key and what is allowed.
    pub fn parse(pairs: &[String]) -> Result<Self> {
        Self::read(pairs).map_err(|e| crate::one_line(&e))
    }

    fn read(pairs: &[String]) -> Result<Self> {
        ensure!(!pairs.is_empty(), "nothing to set: write key=value, known keys are {KEYS}");
        let mut all = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for pair in pairs {
            let (key, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not key=value"))?;
            ensure!(!seen.contains(&key), "`{pair}` sets a key a second time");
            seen.push(key);
            match key {
                "rt" => all.rt = Some(mode(value)?),
                "period" => all.period = Some(period(value)?),
                "weight" => all.weight = Some(number(key, value, WEIGHTS)?),
                "cap" => all.cap = Some(number(key, value, CAPS)?),
                "budget" => all.server.budget = Some(of_server(key, value)?),
                "priority" => all.server.priority = Some(of_server(key, value)? as u32),
                "extra" => all.server.extra = Some(of_server(key, value)? != 0),
                "laxity" => all.laxity = Some(of_server(key, value)?),
                "latency" => all.latency = Some(of_server(key, value)?),
                "group" => all.group = Some(groups::name(value)?),
                "ports" if value.is_empty() => all.ports = Some(Ports::default()),
                "ports" => all.ports = Some(value.parse().with_context(|| format!("`{pair}`"))?),
                "dev" => all.dev = Some(device(value)?),
                _ => bail!("unknown key `{key}`, known are {KEYS}"),
            }
        }
        if all.server.budget.is_some() {
            all.server.period = all.period.take();
        }
        ensure!(
            all.period.is_none() || all.rt == Some(RtMode::On),
            "`period` goes with rt=on (otherwise the monitor tells it), or with budget=TIME"
        );
        Ok(all)
    }
}

fn mode(value: &str) -> Result<RtMode> {
    match value {
        "auto" => Ok(RtMode::Auto),
        "on" => Ok(RtMode::On),
        "off" => Ok(RtMode::Off),
        _ => bail!("`rt={value}` is not allowed, allowed auto|on|off"),
    }
}

fn period(value: &str) -> Result<u64> {
    let period = duration::parse(value).ok().filter(|p| PERIODS.contains(p));
    period.with_context(|| {
        let (low, high) = (duration::format(*PERIODS.start()), duration::format(*PERIODS.end()));
        format!("`period={value}` is not allowed, allowed {low}..={high}")
    })
}

/// A parameter of a VM that the policy has.
fn of_server(key: &str, value: &str) -> Result<u64> {
    spec::value(&server::param(key), value)
}

fn number(key: &str, value: &str, range: std::ops::RangeInclusive<i64>) -> Result<u32> {
    let n = value.parse().ok().filter(|n| range.contains(n)).and_then(|n| u32::try_from(n).ok());
    n.with_context(|| format!("`{key}={value}` is not allowed, allowed {}..={}", range.start(), range.end()))
}

/// A name as the kernel takes it.
fn device(value: &str) -> Result<String> {
    let ok = (1..16).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    ensure!(ok, "`dev={value}` is no network device: 1 to 15 characters without blanks and `/`");
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Setting> {
        Setting::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn pairs() {
        let all = parse("rt=on period=20ms weight=512 cap=50 ports=554,5000-5010 dev=tap0").unwrap();
        assert_eq!((all.rt, all.period), (Some(RtMode::On), Some(20_000_000)));
        assert_eq!((all.weight, all.cap, all.dev.as_deref()), (Some(512), Some(50), Some("tap0")));
        assert_eq!(all.ports.unwrap().ranges(), [(554, 554), (5000, 5010)]);
        let server = parse("budget=2ms period=10ms priority=1 extra=off").unwrap();
        assert_eq!(
            (server.server.budget, server.server.period, server.period),
            (Some(2_000_000), Some(10_000_000), None)
        );
        assert_eq!((server.server.priority, server.server.extra), (Some(1), Some(false)));
        assert_eq!(parse("ports=").unwrap().ports, Some(Ports::default()));
        let wait = parse("laxity=20us latency=10ms group=web-1").unwrap();
        assert_eq!((wait.laxity, wait.latency, wait.group.as_deref()), (Some(20_000), Some(10_000_000), Some("web-1")));
        assert_eq!(parse("rt=auto").unwrap(), Setting { rt: Some(RtMode::Auto), ..Setting::default() });
    }

    #[test]
    fn errors_name_the_culprit_and_what_is_allowed() {
        for (text, want) in [
            ("", "known keys are rt, period"),
            ("weight", "`weight` is not key=value"),
            ("wieght=3", "unknown key `wieght`, known are rt, period"),
            ("weight=0", "`weight=0` is not allowed, allowed 1..=65535"),
            ("weight=-1", "allowed 1..=65535"),
            ("weight=99999999999999999999", "allowed 1..=65535"),
            ("cap=6401", "allowed 0..=6400"),
            ("rt=maybe", "allowed auto|on|off"),
            ("rt=on period=11s", "allowed 1us..=10s"),
            ("rt=on period=0", "allowed 1us..=10s"),
            ("rt=on period=20", "allowed 1us..=10s"),
            ("period=20ms", "goes with rt=on"),
            ("ports=70000", "`ports=70000`: `70000` is no port or range, allowed 0..=65535"),
            ("ports=9-3", "end before they begin"),
            ("dev=", "no network device"),
            ("budget=11s period=20ms", "`budget=11s` is not allowed, allowed 0..=10s"),
            ("priority=0", "`priority=0` is not allowed, allowed 1..=65535"),
            ("extra=maybe", "`extra=maybe` is not allowed, allowed off|on"),
            ("dev=a-very-long-device-name", "no network device"),
            ("laxity=0", "`laxity=0` is not allowed, allowed 1us..=10s"),
            ("laxity=11s", "allowed 1us..=10s"),
            ("latency=100us", "`latency=100us` is not allowed, allowed 1ms..=1s"),
            ("group=a/b", "`group=a/b` is not allowed"),
            ("cap=1 cap=2", "`cap=2` sets a key a second time"),
        ] {
            let error = format!("{:#}", parse(text).expect_err(text));
            assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
