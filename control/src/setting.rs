// SPDX-License-Identifier: GPL-2.0-only
//! What `takt set VM key=value…` says.

use crate::params::VmParams;
use crate::{Ports, RtMode, duration, groups, near, settings, spec};
use anyhow::{Context, Result, bail, ensure};
use takt_policy::vm_settings;

/// Values for a VM; what is not named keeps what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Of the policy.
    pub params: VmParams,
    /// Of a real-time VM, instead of the monitor's, ns.
    pub period: Option<u64>,
    pub ports: Option<Ports>,
    pub dev: Option<String>,
    /// Empty: it leaves its group.
    pub group: Option<String>,
}

/// Longest period that the core takes; the shortest that makes sense to write down.
const PERIODS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

/// All keys, for an error: first what makes a VM real-time.
fn keys() -> String {
    const FIRST: [&str; 2] = ["rt", "period"];
    let rest = vm_settings().iter().map(|p| p.name).filter(|name| !FIRST.contains(name));
    FIRST.into_iter().chain(rest).chain(["group", "ports", "dev"]).collect::<Vec<_>>().join(", ")
}

impl Setting {
    /// Reads `key=value` pairs.
    ///
    /// # Errors
    /// One line that names the key and what is allowed.
    pub fn parse(pairs: &[String]) -> Result<Self> {
        Self::read(pairs).map_err(|e| crate::one_line(&e))
    }

    fn read(pairs: &[String]) -> Result<Self> {
        ensure!(!pairs.is_empty(), "nothing to set: write key=value; known keys: {}", keys());
        let mut all = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for pair in pairs {
            let (key, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not key=value"))?;
            ensure!(!seen.contains(&key), "`{pair}` sets a key a second time");
            seen.push(key);
            match key {
                "period" => all.period = Some(period(value)?),
                "group" => all.group = Some(groups::name(value)?),
                "ports" if value.is_empty() => all.ports = Some(Ports::default()),
                "ports" => all.ports = Some(value.parse().with_context(|| format!("`{pair}`"))?),
                "dev" => all.dev = Some(device(value)?),
                _ => match settings::named(key) {
                    Some(info) => all.params.set(info, spec::value(info, value)?),
                    None => {
                        bail!("unknown key `{key}`{}", near::known_are(key, keys().split(", ")))
                    }
                },
            }
        }
        if all.params.get("budget").is_some() {
            all.params.extend(all.period.take().map(|ns| (settings::param("period"), ns)));
        }
        ensure!(
            all.period.is_none() || all.params.rt() == RtMode::On,
            "`period` requires rt=on or budget=TIME (otherwise the monitor infers the period)"
        );
        Ok(all)
    }
}

fn period(value: &str) -> Result<u64> {
    let period = duration::parse(value).ok().filter(|p| PERIODS.contains(p));
    period.with_context(|| {
        let (low, high) = (duration::format(*PERIODS.start()), duration::format(*PERIODS.end()));
        format!("`period` must be between {low} and {high} (got `{value}`)")
    })
}

/// A name as the kernel takes it.
fn device(value: &str) -> Result<String> {
    let ok = (1..16).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    ensure!(ok, "`dev={value}` is not a network device: 1 to 15 characters without blanks and `/`");
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
        assert_eq!((all.params.rt(), all.period), (RtMode::On, Some(20_000_000)));
        assert_eq!((all.params.get("weight"), all.params.get("cap")), (Some(512), Some(50)));
        assert_eq!((all.params.get("budget"), all.dev.as_deref()), (None, Some("tap0")));
        assert_eq!(all.ports.unwrap().ranges(), [(554, 554), (5000, 5010)]);
        let server = parse("budget=2ms period=10ms priority=1 extra=off").unwrap();
        let of = |name| server.params.get(name);
        assert_eq!((of("budget"), of("period"), server.period), (Some(2_000_000), Some(10_000_000), None));
        assert_eq!((of("priority"), of("extra")), (Some(1), Some(0)));
        assert_eq!(parse("ports=").unwrap().ports, Some(Ports::default()));
        let wait = parse("laxity=20us latency=10ms group=web-1").unwrap();
        assert_eq!((wait.params.get("laxity"), wait.params.get("latency")), (Some(20_000), Some(10_000_000)));
        assert_eq!(wait.group.as_deref(), Some("web-1"));
        let auto = Setting { params: VmParams::default().with("rt", 0), ..Setting::default() };
        assert_eq!(parse("rt=auto").unwrap(), auto);
    }

    #[test]
    fn errors_name_the_culprit_and_what_is_allowed() {
        for (text, want) in [
            ("", "known keys: rt, period"),
            ("weight", "`weight` is not key=value"),
            (
                "wieght=3",
                "unknown key `wieght` (did you mean `weight`?); known: rt, period, weight, cap, budget, priority, extra, laxity, latency, ",
            ),
            ("cap=60%", "`cap` must be a whole number between 0 and 6400 (got `60%`)"),
            ("weight=0", "`weight` must be between 1 and 65535 (got `0`)"),
            ("weight=-1", "between 1 and 65535"),
            ("weight=99999999999999999999", "between 1 and 65535"),
            ("cap=6401", "between 0 and 6400"),
            ("rt=maybe", "must be one of auto, on, off"),
            ("rt=on period=11s", "between 1us and 10s"),
            ("rt=on period=0", "between 1us and 10s"),
            ("rt=on period=20", "between 1us and 10s"),
            ("period=20ms", "requires rt=on"),
            ("ports=70000", "`ports=70000`: `70000` is not a port or a range of ports between 0 and 65535"),
            ("ports=9-3", "end before they begin"),
            ("dev=", "not a network device"),
            ("budget=11s period=20ms", "`budget` must be between 0 and 10s (got `11s`)"),
            ("priority=0", "`priority` must be between 1 and 65535 (got `0`)"),
            ("extra=maybe", "`extra` must be one of off, on (got `maybe`)"),
            ("dev=a-very-long-device-name", "not a network device"),
            ("laxity=0", "`laxity` must be between 1us and 10s (got `0`)"),
            ("laxity=11s", "between 1us and 10s"),
            ("latency=100us", "`latency` must be between 1ms and 1s (got `100us`)"),
            ("group=a/b", "(got `a/b`)"),
            ("cap=1 cap=2", "`cap=2` sets a key a second time"),
        ] {
            let error = format!("{:#}", parse(text).expect_err(text));
            assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
