// SPDX-License-Identifier: GPL-2.0-only
//! Both ends of every range that an operator may use, and what is refused right beyond them.

use takt_control::duration;
use takt_control::pools::Size;
use takt_control::spec::{allowed, must_be, range, show, value};
use takt_control::{HostConfig, PolicySpec, Server, Setting, VmConfig};
use takt_policy::{ParamInfo, params};

fn set(text: &str) -> Result<Setting, String> {
    Setting::parse(&text.split(';').map(str::to_owned).collect::<Vec<_>>()).map_err(|e| format!("{e:#}"))
}

/// In `takt set`: what goes, what does not, and the range that the refusal names.
#[test]
fn settings() {
    let just_15 = "d".repeat(15);
    let just_64 = "g".repeat(64);
    for (key, good, bad, allowed) in [
        ("weight", &["1", "65535"][..], &["0", "65536", "-1", "1.5", "", "1 "][..], "between 1 and 65535"),
        ("cap", &["0", "6400"], &["-1", "6401", "1%"], "between 0 and 6400"),
        ("rt", &["auto", "on", "off"], &["", "ON", "1"], "auto, on, off"),
        ("budget", &["0", "1ns", "10s"], &["10000000001ns", "5"], "between 0 and 10s"),
        ("budget=1ms;period", &["1us", "10s"], &["999ns", "10000000001ns", "0", "5"], "between 1us and 10s"),
        ("rt=on;period", &["1us", "10s"], &["999ns", "10000000001ns", "0", "5"], "between 1us and 10s"),
        ("priority", &["1", "65535"], &["0", "65536"], "between 1 and 65535"),
        ("extra", &["off", "on"], &["0", "1"], "off, on"),
        ("laxity", &["1us", "10s"], &["999ns", "10000000001ns", "0"], "between 1us and 10s"),
        ("latency", &["1ms", "1s"], &["999999ns", "1000000001ns", "0"], "between 1ms and 1s"),
        (
            "ports",
            &["", "0", "65535", "0-65535", "7-7", "3,1"],
            &["65536", "-1", "1-", "x", "1,"],
            "between 0 and 65535",
        ),
        ("dev", &["x", &just_15, "a.b:c@d"], &["", "dddddddddddddddd", "a/b", "a\tb", "ä"], "1 to 15 characters"),
        ("group", &["", "a", &just_64, "aZ0-_."], &["a/b", "a b", "ä", "a\n"], "at most 64 letters"),
    ] {
        for text in good {
            let pair = format!("{key}={text}");
            assert!(set(&pair).is_ok(), "{pair}: {:?}", set(&pair));
        }
        for text in bad {
            let pair = format!("{key}={text}");
            let error = set(&pair).expect_err(&pair);
            let name = key.rsplit(';').next().unwrap();
            assert!(error.contains(name) && error.contains(allowed) && !error.contains('\n'), "{pair}: {error}");
        }
    }
    let error = set(&format!("group={}", "g".repeat(65))).unwrap_err();
    assert!(error.contains("at most 64 letters"), "{error}");
}

#[test]
fn a_period_goes_with_what_uses_it() {
    for text in ["period=20ms", "rt=off;period=20ms", "rt=auto;period=20ms", "weight=1;period=20ms"] {
        assert!(set(text).unwrap_err().starts_with("`period` requires rt=on"), "{text}");
    }
    let both = set("rt=on;period=20ms;budget=1ms").unwrap();
    assert_eq!((both.period, both.params.get("period")), (None, Some(20_000_000)), "the server's, where there is one");
    let monitor = set("rt=on;period=20ms").unwrap();
    assert_eq!((monitor.period, monitor.params.get("period")), (Some(20_000_000), None));
    assert_eq!(set("weight=1;cap=2;weight=3").unwrap_err(), "`weight=3` sets a key a second time");
}

/// In a file: `Some(range)` is a refusal that names it.
#[test]
fn files() {
    for (line, refused) in [
        ("weight = 1", None),
        ("weight = 65535", None),
        ("weight = 65536", Some("`weight` must be between 1 and 65535 (got `65536`)")),
        ("cap = 0", None),
        ("cap = 6400", None),
        ("cap = -1", Some("`cap` must be between 0 and 6400 (got `-1`)")),
        ("priority = 1", None),
        ("priority = 65535", None),
        ("priority = 0", Some("`priority` must be between 1 and 65535 (got `0`)")),
        ("priority = 65536", Some("`priority` must be between 1 and 65535 (got `65536`)")),
        ("budget = \"10s\"", None),
        ("budget = \"10000000001ns\"", Some("`budget` must be between 0 and 10s (got `10000000001ns`)")),
        ("period = \"10s\"", None),
        ("period = \"10000000001ns\"", Some("`period` must be between 0 and 10s (got `10000000001ns`)")),
        ("budget = \"2ms\"\nperiod = \"2ms\"", None),
        (
            "budget = \"2000001ns\"\nperiod = \"2ms\"",
            Some("`budget` must be at most the period of 2ms (got `2000001ns`)"),
        ),
        ("laxity = \"1us\"", None),
        ("laxity = \"10s\"", None),
        ("laxity = \"999ns\"", Some("`laxity` must be between 1us and 10s (got `999ns`)")),
        ("laxity = \"10000000001ns\"", Some("`laxity` must be between 1us and 10s (got `10000000001ns`)")),
        ("latency = \"1ms\"", None),
        ("latency = \"1s\"", None),
        ("latency = \"999999ns\"", Some("`latency` must be between 1ms and 1s (got `999999ns`)")),
        ("latency = \"1000000001ns\"", Some("`latency` must be between 1ms and 1s (got `1000000001ns`)")),
        ("ports = [0, 65535]", None),
        ("ports = [-1]", Some("a port must be between 0 and 65535 (got `-1`)")),
        ("ports = [65536]", Some("a port must be between 0 and 65535 (got `65536`)")),
        ("ports = [\"7-7\"]", None),
        ("ports = [\"8-7\"]", Some("ports `8-7` end before they begin")),
        ("ports = [\"7-65536\"]", Some("`7-65536` is not a port or a range of ports between 0 and 65535")),
        ("uid = 0", None),
        ("uid = 4294967294", None),
        ("cgroup = \"a.b/..c/d..\"", None),
        ("cgroup = \"./a\"", Some("`cgroup` must be a path below the root of cgroups, e.g. machine.slice (got `./a`)")),
        ("cgroup = \"a/..\"", Some("machine.slice (got `a/..`)")),
        ("cgroup = \"a\\tb\"", Some("machine.slice (got `a b`)")),
        ("group = \"a b\"", Some("or be empty for none (got `a b`)")),
    ] {
        let text = format!("[vm.web]\n{line}\n");
        match (HostConfig::from_toml(&text).map_err(|e| e.to_string()), refused) {
            (Ok(_), None) => {}
            (Err(error), Some(want)) => assert!(error.contains(want) && !error.contains('\n'), "{line}: {error}"),
            (other, _) => panic!("{line}: {other:?}"),
        }
    }
    let long = |n: usize| HostConfig::from_toml(&format!("[vm.web]\ngroup = \"{}\"", "g".repeat(n)));
    assert!(long(64).is_ok() && long(65).is_err());
}

/// A configuration that was not read from a file is checked alike, and each error names the VM.
#[test]
fn values_in_memory() {
    let ok = |c: VmConfig| c.validate("web").is_ok();
    let base = VmConfig::default;
    assert!(ok(base()) && ok(base().with("laxity", 0).with("latency", 0)), "0 is the pool's");
    for (config, want) in [
        (base().with("weight", 0), "VM `web`: `weight` must be between 1 and 65535 (got `0`)"),
        (base().with("weight", 65_536), "VM `web`: `weight` must be between 1 and 65535 (got `65536`)"),
        (base().with("cap", 6_401), "VM `web`: `cap` must be between 0 and 6400 (got `6401`)"),
        (base().with("laxity", 999), "VM `web`: `laxity` must be between 1us and 10s (got `999ns`)"),
        (base().with("laxity", 10_000_000_001), "VM `web`: `laxity` must be between 1us and 10s (got `10000000001ns`)"),
        (base().with("latency", 999_999), "VM `web`: `latency` must be between 1ms and 1s (got `999999ns`)"),
        (base().with("latency", 1_000_000_001), "VM `web`: `latency` must be between 1ms and 1s (got `1000000001ns`)"),
        (base().with("priority", 0), "VM `web`: `priority` must be between 1 and 65535 (got `0`)"),
        (base().with("budget", 10_000_000_001), "VM `web`: `budget` must be between 0 and 10s (got `10000000001ns`)"),
        (base().with("rt", 3), "VM `web`: `rt` must be one of auto, on, off (got `3`)"),
        (VmConfig { group: "a b".into(), ..base() }, "VM `web`: `group` must have at most 64 letters"),
    ] {
        let error = format!("{:#}", config.validate("web").unwrap_err());
        assert!(error.starts_with(want), "{error}");
    }
    for c in [
        base().with("weight", 1).with("cap", 6_400).with("laxity", 1_000).with("latency", 1_000_000),
        base().with("weight", 65_535).with("laxity", 10_000_000_000).with("latency", 1_000_000_000),
        VmConfig { group: "g".repeat(64), ..base() },
    ] {
        assert!(ok(c.clone()), "{c:?}");
    }
}

#[test]
fn servers() {
    let s = |budget, period| Server { budget, period, ..Server::default() };
    for good in [s(0, 0), s(0, 10), s(5, 0), s(10, 10), s(10_000_000_000, 10_000_000_000)] {
        assert!(good.validate().is_ok(), "{good:?}");
    }
    for bad in [s(11, 10), s(10_000_000_001, 0), s(0, 10_000_000_001)] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
    for (priority, ok) in [(0, false), (1, true), (65_535, true), (65_536, false)] {
        assert_eq!(Server { priority, ..s(0, 0) }.validate().is_ok(), ok, "{priority}");
    }
    let is = [s(0, 0), s(1, 0), s(0, 1), s(1, 1)].map(|s| s.is_some());
    assert_eq!(is, [false, false, false, true]);
}

/// The text of a value, exact to the nanosecond.
fn raw(info: &ParamInfo, value: u64) -> String {
    match info.unit {
        "ns" => format!("{value}ns"),
        unit if unit.contains('|') => unit.split('|').nth(value as usize).unwrap_or("beyond").into(),
        _ => value.to_string(),
    }
}

#[test]
fn every_parameter_has_two_ends() {
    for info in params() {
        for end in [info.min, info.max] {
            assert_eq!(value(&info, &raw(&info, end)).unwrap(), end, "{}", info.name);
            if !takt_control::spec::is_unset(&info, end) {
                assert_eq!(value(&info, &show(&info, end)).unwrap(), end, "{}: as it is shown", info.name);
            }
        }
        let below = info.min.checked_sub(1).map(|v| raw(&info, v));
        for text in below.into_iter().chain([raw(&info, info.max + 1), String::new(), "-1".into()]) {
            let error = value(&info, &text).expect_err(info.name).to_string();
            let number = info.unit != "ns" && !info.unit.contains('|') && text.parse::<u64>().is_err();
            let whole = if number { "a whole number " } else { "" };
            assert_eq!(error, format!("`{}` must be {whole}{} (got `{text}`)", info.name, must_be(&info)));
        }
    }
    let of = |name: &str, per_vm| takt_policy::param(name, per_vm).unwrap();
    assert_eq!(range(&of("slice", false)), "100us..=10s");
    assert_eq!(range(&of("reserve", false)), "0..=50");
    assert_eq!(range(&of("steal", false)), "credit|latency|bound");
    assert_eq!(range(&of("weight", true)), "1..=65535");
    assert_eq!(allowed(&of("slice", false)), "100us to 10s");
    assert_eq!(allowed(&of("steal", false)), "credit|latency|bound");
}

#[test]
fn what_a_vm_has_not_of_its_own_is_the_pools() {
    use takt_control::spec::is_unset;
    let info = |min, default| ParamInfo { min, default, max: 9, ..params()[0] };
    assert!(is_unset(&info(1, 0), 0));
    assert!(!is_unset(&info(1, 0), 1) && !is_unset(&info(1, 1), 0) && !is_unset(&info(0, 0), 0));
    let of = |name: &str| takt_policy::param(name, true).unwrap();
    assert_eq!(show(&of("laxity"), 0), "the pool's");
    assert_eq!(show(&of("cap"), 0), "0");
    assert_eq!(show(&of("rt"), 2), "off");
    assert_eq!(show(&of("rt"), 3), "3", "no word stands for it");
    assert_eq!(show(&of("budget"), 1_500_000), "1500us");
}

#[test]
fn pools() {
    let size = |text: &str| PolicySpec::parse(text).map(|p| p.pools.unwrap().size).map_err(|e| e.to_string());
    for (text, want) in [
        ("sp", Some((2, 0))),
        ("sp(pcpus=1)", Some((1, 0))),
        ("sp(pcpus=63,first=255)", Some((63, 255))),
        ("sp(first=1)", Some((2, 1))),
        ("sp(pcpus=0)", None),
        ("sp(pcpus=64)", None),
        ("sp(first=256)", None),
        ("sp(first=-1)", None),
    ] {
        match (size(text), want) {
            (Ok(got), Some((pcpus, first))) => assert_eq!(got, Size::Fixed { pcpus, first }, "{text}"),
            (Err(e), None) => assert!(e.contains("between 1 and 63") || e.contains("between 0 and 255"), "{text}: {e}"),
            (other, _) => panic!("{text}: {other:?}"),
        }
    }
    let delay = |text: &str| match size(text) {
        Ok(Size::Managed(s)) => Some(s.delay),
        _ => None,
    };
    assert_eq!(delay("risa"), Some(15_000_000_000));
    assert_eq!(delay("risa(delay=0)"), Some(0));
    assert_eq!(delay("risa(delay=1h)"), Some(3_600_000_000_000));
    assert_eq!((delay("risa(delay=3600000000001ns)"), delay("risa(delay=1)")), (None, None));
}

#[test]
fn durations() {
    const MOST: &str = "18446744073709551615";
    for (text, ns) in [
        ("1ns", 1),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("1ms", 1_000_000),
        ("1s", 1_000_000_000),
        ("1min", 60_000_000_000),
        ("1h", 3_600_000_000_000),
        (" 7 ms ", 7_000_000),
        ("0ns", 0),
        ("0.0h", 0),
        ("1.9ns", 1),
        ("0.123456789s", 123_456_789),
        ("0.000000001s", 1),
        ("0.000000001h", 3_600),
        ("1.000000000ms", 1_000_000),
        ("18446744073709551615ns", u64::MAX),
        ("18446744073.709551615s", u64::MAX),
    ] {
        assert_eq!(duration::parse(text).unwrap(), ns, "{text}");
    }
    let bare = "write a number with ns, us, ms, s, min or h";
    let fits = "is not a valid duration; allowed: 0 to 18446744073s";
    for (text, want) in [
        ("5", bare),
        ("5sec", bare),
        ("00", bare),
        ("+5s", bare),
        ("0.1234567890s", fits),
        ("1.0000000000ms", fits),
        (".5ms", fits),
        ("5.ms", fits),
        ("1.2.3s", fits),
        ("18446744073709551616ns", fits),
        ("18446744073.709551616s", fits),
        (&format!("{MOST}0ns"), fits),
    ] {
        let error = duration::parse(text).expect_err(text).to_string();
        assert!(error.contains(want) && error.starts_with(&format!("`{text}`")), "{text}: {error}");
    }
}

#[test]
fn durations_are_shown_in_the_unit_that_suits() {
    for (ns, text) in [
        (0, "0"),
        (999, "999ns"),
        (1_000, "1us"),
        (1_001, "1001ns"),
        (999_000, "999us"),
        (1_000_000, "1ms"),
        (1_001_000, "1001us"),
        (1_000_000_000, "1s"),
        (1_001_000_000, "1001ms"),
        (60_000_000_000, "60s"),
    ] {
        assert_eq!((duration::format(ns).as_str(), duration::parse(text).unwrap()), (text, ns));
    }
    for (ns, text) in [
        (0.0, "0ns"),
        (0.5, "0.50ns"),
        (999.0, "999ns"),
        (1e3, "1us"),
        (1_500.0, "1.50us"),
        (9_994.0, "9.99us"),
        (9_995.0, "10.0us"),
        (99_940.0, "99.9us"),
        (99_950.0, "100us"),
        (999_400.0, "999us"),
        (1e6, "1ms"),
        (2.25e6, "2.25ms"),
        (1e9, "1s"),
        (1.25e9, "1.25s"),
        (-1_500.0, "-1.50us"),
        (-150_000.5, "-150us"),
    ] {
        assert_eq!(duration::human(ns), text, "{ns}");
    }
}
