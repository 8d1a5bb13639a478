// SPDX-License-Identifier: GPL-2.0-only
//! The configuration of VMs: what an operator may say about each. Every key has a default that asks for nothing.

use crate::server::{self, Server};
use crate::{duration, groups, spec};
use anyhow::{Context, Result, anyhow, bail};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Whether a VM is real-time: as the monitor infers, always, or never (off wins over everything).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtMode {
    #[default]
    Auto,
    On,
    Off,
}

/// What is said of one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VmConfig {
    pub rt: RtMode,
    /// Source ports of its real-time application (rule M5); they outlast a demotion.
    pub ports: Ports,
    /// Share of a VM against others, 1..=65535.
    #[serde(deserialize_with = "weight")]
    pub weight: u32,
    /// Most CPU time in percent of one PCPU, 0 = no cap.
    #[serde(deserialize_with = "cap")]
    pub cap: u32,
    /// What each of its VCPUs may run in each period; none if one of them is 0. ns.
    #[serde(with = "server::time")]
    pub budget: u64,
    #[serde(with = "server::time")]
    pub period: u64,
    /// 1 = highest.
    pub priority: u32,
    /// Without budget it runs in what others leave.
    pub extra: bool,
    /// Longest predicted wait of its VCPUs (S), and longest wait that the slice shall allow (Poris); 0 = the pool's, which a file says by
    /// leaving it out. ns.
    #[serde(serialize_with = "server::time::serialize", deserialize_with = "laxity", skip_serializing_if = "is_unset")]
    pub laxity: u64,
    #[serde(
        serialize_with = "server::time::serialize",
        deserialize_with = "latency",
        skip_serializing_if = "is_unset"
    )]
    pub latency: u64,
    /// VMs of one application, which run at once (Poris); empty = none.
    pub group: String,
    /// Whose VM of that name is meant, for a VMM may give itself any name: its process is in this cgroup (version 2) or below it,
    /// and has this user's number. All that is said must hold.
    #[serde(deserialize_with = "cgroup", skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    #[serde(deserialize_with = "uid", skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Checks the path of a cgroup.
fn cgroup_path(text: &str) -> Result<()> {
    let odd = |part: &str| part == ".." || part == ".";
    if text.is_empty() || text.chars().any(char::is_control) || text.split('/').any(odd) {
        bail!("cgroup is `{text}`, allowed a path below the root of cgroups, e.g. machine.slice");
    }
    Ok(())
}

fn cgroup<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Option<String>, D::Error> {
    let text = String::deserialize(d)?;
    cgroup_path(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

fn uid<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Option<u32>, D::Error> {
    ranged(d, "uid", UIDS).map(Some)
}

/// All ones stand for no user.
const UIDS: std::ops::RangeInclusive<i64> = 0..=u32::MAX as i64 - 1;

pub const WEIGHTS: std::ops::RangeInclusive<i64> = 1..=65_535;
pub const CAPS: std::ops::RangeInclusive<i64> = 0..=6_400;

impl Default for VmConfig {
    fn default() -> Self {
        let Server { budget, period, priority, extra } = Server::default();
        Self {
            rt: RtMode::Auto,
            ports: Ports::default(),
            weight: 256,
            cap: 0,
            budget,
            period,
            priority,
            extra,
            laxity: 0,
            latency: 0,
            group: String::new(),
            cgroup: None,
            uid: None,
        }
    }
}

impl VmConfig {
    /// Checks the ranges of a configuration that was not read by serde.
    ///
    /// # Errors
    /// One line that names `vm`, the key and its range.
    pub fn validate(&self, vm: &str) -> Result<()> {
        for (key, value, range) in [("weight", self.weight, WEIGHTS), ("cap", self.cap, CAPS)] {
            if !range.contains(&i64::from(value)) {
                bail!("VM `{vm}`: {key} is {value}, allowed {}..={}", range.start(), range.end());
            }
        }
        for (key, value) in [("laxity", self.laxity), ("latency", self.latency)] {
            let info = server::param(key);
            if value != 0 && !(info.min..=info.max).contains(&value) {
                bail!("VM `{vm}`: {key} is {}, allowed {}", spec::show(&info, value), spec::range(&info));
            }
        }
        self.cgroup.as_deref().map_or(Ok(()), cgroup_path).with_context(|| format!("VM `{vm}`"))?;
        groups::name(&self.group).with_context(|| format!("VM `{vm}`"))?;
        self.server().validate().with_context(|| format!("VM `{vm}`"))
    }

    /// Whether it says of whose VM it is.
    pub fn has_owner(&self) -> bool {
        self.cgroup.is_some() || self.uid.is_some()
    }

    /// Whether a process in `cgroup` (as `/proc` writes it) of user `uid` is meant; `None`: it cannot be told.
    pub fn admits(&self, cgroup: Option<&str>, uid: Option<u32>) -> bool {
        let below = |own: &str, of: &str| {
            let (own, of) = (own.trim_matches('/'), of.trim_matches('/'));
            of.is_empty() || own.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.cgroup.as_ref().is_none_or(|want| cgroup.is_some_and(|own| below(own, want)))
            && self.uid.is_none_or(|want| uid == Some(want))
    }

    /// What its VCPUs may run.
    pub fn server(&self) -> Server {
        Server { budget: self.budget, period: self.period, priority: self.priority, extra: self.extra }
    }

    /// The same with another server.
    pub fn with(self, server: Server) -> Self {
        let Server { budget, period, priority, extra } = server;
        Self { budget, period, priority, extra, ..self }
    }
}

/// VMs by name. VMs that it does not name keep what they have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    pub vm: BTreeMap<String, VmConfig>,
}

impl HostConfig {
    /// Reads the text of a `--config` file.
    ///
    /// # Errors
    /// One line: where, what is wrong, and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|e| {
            let before = e.span().map_or(0, |s| s.start.min(text.len()));
            let line = text.as_bytes()[..before].iter().filter(|b| **b == b'\n').count() + 1;
            anyhow!("line {line}: {}", crate::printable(e.message()))
        })?;
        config.vm.iter().try_for_each(|(vm, config)| config.validate(vm)).map_err(|e| crate::one_line(&e))?;
        Ok(config)
    }
}

/// A set of UDP or TCP ports as ascending disjoint ranges; written `[554, "16384-32767"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Vec<(u16, u16)>);

impl Ports {
    /// Sorts and joins `ranges` (first and last port of each).
    ///
    /// # Errors
    /// A range whose end lies before its begin.
    pub fn new(mut ranges: Vec<(u16, u16)>) -> Result<Self> {
        if let Some((a, b)) = ranges.iter().find(|(a, b)| a > b) {
            bail!("ports `{a}-{b}` end before they begin");
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u16, u16)> = Vec::new();
        for (a, b) in ranges {
            match joined.last_mut() {
                Some(last) if u32::from(a) <= u32::from(last.1) + 1 => last.1 = last.1.max(b),
                _ => joined.push((a, b)),
            }
        }
        Ok(Self(joined))
    }

    /// First and last port of each range, ascending.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|&(a, b)| (a..=b).contains(&port))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Ports {
    type Err = anyhow::Error;

    /// Reads `554`, `16384-32767` or a list of them with commas.
    fn from_str(text: &str) -> Result<Self> {
        let range = |part: &str| {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            match (a.trim().parse(), b.trim().parse()) {
                (Ok(a), Ok(b)) => Ok((a, b)),
                _ => bail!("`{part}` is no port or range, allowed 0..=65535"),
            }
        };
        Self::new(text.split(',').map(range).collect::<Result<_>>()?)
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq(
            self.0.iter().map(|&(a, b)| if a == b { Item::Port(a.into()) } else { Item::Range(format!("{a}-{b}")) }),
        )
    }
}

impl JsonSchema for Ports {
    fn schema_name() -> Cow<'static, str> {
        "Ports".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Item>::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let mut ranges = Vec::new();
        for item in Vec::<Item>::deserialize(d)? {
            match item {
                Item::Port(n) => match u16::try_from(n) {
                    Ok(n) => ranges.push((n, n)),
                    Err(_) => return Err(D::Error::custom(format!("port {n} is not allowed, allowed 0..=65535"))),
                },
                Item::Range(text) => ranges.extend(text.parse::<Ports>().map_err(D::Error::custom)?.0),
            }
        }
        Self::new(ranges).map_err(D::Error::custom)
    }
}

/// A port, or the first and the last of several: `"16384-32767"`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PortItem")]
enum Item {
    Port(i64),
    Range(String),
}

fn weight<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<u32, D::Error> {
    ranged(d, "weight", WEIGHTS)
}

fn cap<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<u32, D::Error> {
    ranged(d, "cap", CAPS)
}

fn laxity<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<u64, D::Error> {
    wait(d, "laxity")
}

fn latency<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<u64, D::Error> {
    wait(d, "latency")
}

/// As `takt set` takes it.
fn wait<'de, D: Deserializer<'de>>(d: D, key: &str) -> std::result::Result<u64, D::Error> {
    let (value, info) = (server::time::deserialize(d)?, server::param(key));
    if !(info.min..=info.max).contains(&value) {
        let (value, allowed) = (duration::format(value), spec::range(&info));
        return Err(D::Error::custom(format!("{key} is {value}, allowed {allowed}")));
    }
    Ok(value)
}

fn is_unset(ns: &u64) -> bool {
    *ns == 0
}

/// A number within `range`; serde's own message would name the type instead of the range.
fn ranged<'de, D: Deserializer<'de>>(
    d: D,
    key: &str,
    range: std::ops::RangeInclusive<i64>,
) -> std::result::Result<u32, D::Error> {
    let value = i64::deserialize(d)?;
    if !range.contains(&value) {
        return Err(D::Error::custom(format!("{key} is {value}, allowed {}..={}", range.start(), range.end())));
    }
    u32::try_from(value).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_ask_for_nothing() {
        let c: HostConfig = toml::from_str("[vm.a]").unwrap();
        assert_eq!(c.vm["a"], VmConfig { weight: 256, ..VmConfig::default() });
        assert_eq!((c.vm["a"].rt, c.vm["a"].cap, c.vm["a"].server()), (RtMode::Auto, 0, Server::default()));
    }

    #[test]
    fn ports_are_joined_and_written_back() {
        let c: VmConfig =
            toml::from_str("rt = \"on\"\nbudget = \"2ms\"\nperiod = \"10ms\"\nports = [554, \"16384-16390\", 16391]")
                .unwrap();
        assert_eq!(c.ports.ranges(), [(554, 554), (16384, 16391)]);
        assert!(c.ports.contains(16385) && !c.ports.contains(555));
        for c in [VmConfig { laxity: 20_000, latency: 5_000_000, ..c.clone() }, c] {
            let text = toml::to_string(&c).unwrap();
            assert_eq!(toml::from_str::<VmConfig>(&text).unwrap(), c);
        }
    }

    #[test]
    fn errors_of_a_file_are_one_line_that_says_where() {
        for (text, want) in [
            ("[vm.a]\nweight = 0\n", "line 2: weight is 0, allowed 1..=65535"),
            ("[vm.a]\n\nwieght = 1\n", "line 3: unknown field `wieght`"),
            ("[vm.a\n", "line 1: "),
            (
                "[vm.\"a\\nb\"]\nbudget = \"3ms\"\nperiod = \"2ms\"",
                "VM `a b`: budget is 3ms, allowed at most the period of 2ms",
            ),
            ("[vm.a]\nrt = \"x\\ny\"", "line 2: unknown variant `x y`"),
        ] {
            let error = format!("{:#}", HostConfig::from_toml(text).expect_err(text));
            assert!(error.starts_with(want) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn whose_vm_is_meant_is_said_by_cgroup_and_user() {
        let c = |text: &str| toml::from_str::<VmConfig>(text).unwrap();
        let anybody = c("weight = 1");
        assert!(!anybody.has_owner() && anybody.admits(None, None) && anybody.admits(Some("/x"), Some(7)));
        let user = c("uid = 107");
        assert!(user.has_owner() && user.admits(None, Some(107)));
        assert!(!user.admits(None, Some(108)) && !user.admits(None, None));
        assert!(c("uid = 4294967294").admits(None, Some(4_294_967_294)) && c("uid = 0").admits(None, Some(0)));
        for text in ["cgroup = \"machine.slice/a\"", "cgroup = \"/machine.slice/a/\""] {
            let cgroup = c(text);
            assert!(cgroup.has_owner() && cgroup.admits(Some("/machine.slice/a"), None));
            assert!(cgroup.admits(Some("/machine.slice/a/vcpu0"), Some(3)));
            for other in
                [Some("/machine.slice"), Some("/machine.slice/ab"), Some("/x/machine.slice/a"), Some("/"), None]
            {
                assert!(!cgroup.admits(other, Some(0)), "{other:?}");
            }
        }
        let both = c("cgroup = \"a\"\nuid = 1");
        assert!(both.admits(Some("/a"), Some(1)));
        assert!(!both.admits(Some("/a"), Some(2)) && !both.admits(Some("/b"), Some(1)));
        assert_eq!(toml::from_str::<VmConfig>(&toml::to_string(&both).unwrap()).unwrap(), both);
        let bad = VmConfig { cgroup: Some(String::new()), ..VmConfig::default() };
        assert!(bad.validate("web").is_err());
    }

    #[test]
    fn errors_name_key_and_range() {
        for (text, want) in [
            ("weight = -5", "weight is -5, allowed 1..=65535"),
            ("weight = 0", "weight is 0, allowed 1..=65535"),
            ("cap = 6401", "cap is 6401, allowed 0..=6400"),
            ("ports = [70000]", "port 70000 is not allowed, allowed 0..=65535"),
            ("ports = [\"9-3\"]", "end before they begin"),
            ("budget = \"2\"", "write a number with ns, us"),
            ("laxity = \"0\"", "laxity is 0, allowed 1us..=10s"),
            ("latency = \"0ms\"", "latency is 0, allowed 1ms..=1s"),
            ("latency = \"2s\"", "latency is 2s, allowed 1ms..=1s"),
            ("wieght = 3", "unknown field `wieght`"),
            ("rt = \"maybe\"", "maybe"),
            ("uid = -1", "uid is -1, allowed 0..=4294967294"),
            ("uid = 4294967295", "uid is 4294967295, allowed 0..=4294967294"),
            ("cgroup = \"\"", "cgroup is ``, allowed a path"),
            ("cgroup = \"a/../b\"", "cgroup is `a/../b`, allowed a path"),
        ] {
            let error = toml::from_str::<VmConfig>(text).expect_err(text).to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        let bad = VmConfig { budget: 3_000_000, period: 2_000_000, ..VmConfig::default() };
        let error = format!("{:#}", bad.validate("web").unwrap_err());
        assert_eq!(error, "VM `web`: budget is 3ms, allowed at most the period of 2ms");
        let bad = VmConfig { weight: 0, ..VmConfig::default() };
        assert!(bad.validate("web").unwrap_err().to_string().contains("VM `web`: weight is 0, allowed 1..=65535"));
    }
}
