// SPDX-License-Identifier: GPL-2.0-only
//! The configuration of VMs: what an operator may say about each. Every key has a default that asks for nothing.

use crate::params::{Reader, VmParams, Written};
use crate::server::Server;
use crate::{groups, near, settings};
use anyhow::{Context, Result, anyhow, bail};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use takt_policy::{ParamInfo, vm_settings};

/// What is said of one VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// A value for each setting that the policy holds. A file leaves out those that shall be the
    /// pool's.
    pub params: VmParams,
    /// Source ports of its real-time application (rule M5); they outlast a demotion.
    pub ports: Ports,
    /// VMs of one application, which run at once (Poris); empty = none.
    pub group: String,
    /// Whose VM of that name is meant, for a VMM may give itself any name: its process is in this cgroup (version 2) or below it,
    /// and has this user's number. All that is said must hold.
    pub cgroup: Option<String>,
    pub uid: Option<u32>,
}

/// Checks the path of a cgroup.
fn cgroup_path(text: &str) -> Result<()> {
    let odd = |part: &str| part == ".." || part == ".";
    if text.is_empty() || text.chars().any(char::is_control) || text.split('/').any(odd) {
        bail!("`cgroup` must be a path below the root of cgroups, e.g. machine.slice (got `{text}`)");
    }
    Ok(())
}

/// All ones stand for no user.
const UIDS: std::ops::RangeInclusive<i64> = 0..=u32::MAX as i64 - 1;

impl Default for VmConfig {
    fn default() -> Self {
        let (ports, group) = Default::default();
        Self { params: VmParams::defaults(), ports, group, cgroup: None, uid: None }
    }
}

impl VmConfig {
    /// Checks the ranges of a configuration that was not read by serde.
    ///
    /// # Errors
    /// One line that names `vm`, the key and its range.
    pub fn validate(&self, vm: &str) -> Result<()> {
        self.params.check().map_err(|e| anyhow!("VM `{vm}`: {e}"))?;
        self.cgroup.as_deref().map_or(Ok(()), cgroup_path).with_context(|| format!("VM `{vm}`"))?;
        groups::name(&self.group).with_context(|| format!("VM `{vm}`"))?;
        Ok(())
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
        self.params.server()
    }

    /// The same with another value of setting `name`; see [`VmParams::get`].
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Self {
        self.params = self.params.with(name, value);
        self
    }

    /// The same with another server.
    #[must_use]
    pub fn with_server(mut self, server: Server) -> Self {
        self.params.extend(VmParams::from(&server).iter());
        self
    }
}

/// A key of a VM in a file.
#[derive(Clone, Copy)]
enum Key {
    Setting(&'static ParamInfo),
    Ports,
    Group,
    Cgroup,
    Uid,
}

impl Key {
    /// All, in the order in which they are written: `rt` goes before the ports that a monitor acts
    /// on.
    fn all() -> impl Iterator<Item = Self> {
        let (rt, rest): (Vec<_>, Vec<_>) = vm_settings().iter().map(Key::Setting).partition(|key| key.name() == "rt");
        rt.into_iter().chain([Key::Ports]).chain(rest).chain([Key::Group, Key::Cgroup, Key::Uid])
    }

    fn name(self) -> &'static str {
        match self {
            Key::Setting(info) => info.name,
            Key::Ports => "ports",
            Key::Group => "group",
            Key::Cgroup => "cgroup",
            Key::Uid => "uid",
        }
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let setting = settings::named(&name).map(Key::Setting);
        setting.or_else(|| Key::all().find(|key| key.name() == name)).ok_or_else(|| {
            let known: Vec<_> = Key::all().map(|key| format!("`{}`", key.name())).collect();
            let hint = near::hint(&name, Key::all().map(Key::name));
            D::Error::custom(format!("unknown field `{name}`{hint}, expected one of {}", known.join(", ")))
        })
    }
}

/// A cgroup in a file.
struct Cgroup(String);

impl<'de> Deserialize<'de> for Cgroup {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        cgroup_path(&text).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

fn uid(value: i64) -> Result<u32> {
    if !UIDS.contains(&value) {
        bail!("`uid` must be between {} and {} (got `{value}`)", UIDS.start(), UIDS.end());
    }
    Ok(u32::try_from(value)?)
}

/// A user's number in a file.
struct Uid(u32);

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let value = i64::deserialize(from)?;
        uid(value).map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for VmConfig {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let said = self.params.said();
        for key in Key::all() {
            let name = key.name();
            match key {
                Key::Setting(info) => {
                    said.get(name).map_or(Ok(()), |value| map.serialize_entry(name, &Written::new(info, value)))
                }
                Key::Ports => map.serialize_entry(name, &self.ports),
                Key::Group => map.serialize_entry(name, &self.group),
                Key::Cgroup => self.cgroup.as_ref().map_or(Ok(()), |cgroup| map.serialize_entry(name, cgroup)),
                Key::Uid => self.uid.map_or(Ok(()), |uid| map.serialize_entry(name, &uid)),
            }?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for VmConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = VmConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct VmConfig")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<VmConfig, A::Error> {
        let mut config = VmConfig::default();
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Setting(info) => config.params.set(info, map.next_value_seed(Reader(info))?),
                Key::Ports => config.ports = map.next_value()?,
                Key::Group => config.group = map.next_value()?,
                Key::Cgroup => config.cgroup = Some(map.next_value::<Cgroup>()?.0),
                Key::Uid => config.uid = Some(map.next_value::<Uid>()?.0),
            }
        }
        Ok(config)
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
                _ => bail!("`{part}` is not a port or a range of ports between 0 and 65535"),
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
                    Err(_) => return Err(D::Error::custom(format!("a port must be between 0 and 65535 (got `{n}`)"))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RtMode;

    #[test]
    fn defaults_ask_for_nothing() {
        let c: HostConfig = toml::from_str("[vm.a]").unwrap();
        assert_eq!(c.vm["a"], VmConfig::default().with("weight", 256));
        let params = &c.vm["a"].params;
        assert_eq!((params.rt(), params.cap(), params.server()), (RtMode::Auto, 0, Server::default()));
    }

    #[test]
    fn ports_are_joined_and_written_back() {
        let c: VmConfig =
            toml::from_str("rt = \"on\"\nbudget = \"2ms\"\nperiod = \"10ms\"\nports = [554, \"16384-16390\", 16391]")
                .unwrap();
        assert_eq!(c.ports.ranges(), [(554, 554), (16384, 16391)]);
        assert!(c.ports.contains(16385) && !c.ports.contains(555));
        for c in [c.clone().with("laxity", 20_000).with("latency", 5_000_000), c] {
            let text = toml::to_string(&c).unwrap();
            assert_eq!(toml::from_str::<VmConfig>(&text).unwrap(), c);
        }
    }

    #[test]
    fn errors_of_a_file_are_one_line_that_says_where() {
        for (text, want) in [
            ("[vm.a]\nweight = 0\n", "line 2: `weight` must be between 1 and 65535 (got `0`)"),
            ("[vm.a]\n\nwieght = 1\n", "line 3: unknown field `wieght` (did you mean `weight`?)"),
            ("[vm.a\n", "line 1: "),
            (
                "[vm.\"a\\nb\"]\nbudget = \"3ms\"\nperiod = \"2ms\"",
                "VM `a b`: `budget` must be at most the period of 2ms (got `3ms`)",
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
            ("weight = -5", "`weight` must be between 1 and 65535 (got `-5`)"),
            ("weight = 0", "`weight` must be between 1 and 65535 (got `0`)"),
            ("cap = 6401", "`cap` must be between 0 and 6400 (got `6401`)"),
            ("ports = [70000]", "a port must be between 0 and 65535 (got `70000`)"),
            ("ports = [\"9-3\"]", "end before they begin"),
            ("budget = \"2\"", "write a number with ns, us"),
            ("budget = \"11s\"", "`budget` must be between 0 and 10s (got `11s`)"),
            ("priority = -1", "`priority` must be between 1 and 65535 (got `-1`)"),
            ("laxity = \"0\"", "`laxity` must be between 1us and 10s (got `0`)"),
            ("latency = \"0ms\"", "`latency` must be between 1ms and 1s (got `0`)"),
            ("latency = \"2s\"", "`latency` must be between 1ms and 1s (got `2s`)"),
            ("wieght = 3", "unknown field `wieght`"),
            ("rt = \"maybe\"", "maybe"),
            ("uid = -1", "`uid` must be between 0 and 4294967294 (got `-1`)"),
            ("uid = 4294967295", "`uid` must be between 0 and 4294967294 (got `4294967295`)"),
            ("cgroup = \"\"", "`cgroup` must be a path"),
            ("cgroup = \"a/../b\"", "machine.slice (got `a/../b`)"),
        ] {
            let error = toml::from_str::<VmConfig>(text).expect_err(text).to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        let bad = VmConfig::default().with("budget", 3_000_000).with("period", 2_000_000);
        let error = format!("{:#}", bad.validate("web").unwrap_err());
        assert_eq!(error, "VM `web`: `budget` must be at most the period of 2ms (got `3ms`)");
        let bad = VmConfig::default().with("weight", 0);
        assert!(
            bad.validate("web")
                .unwrap_err()
                .to_string()
                .contains("VM `web`: `weight` must be between 1 and 65535 (got `0`)")
        );
    }
}
