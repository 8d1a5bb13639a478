// SPDX-License-Identifier: GPL-2.0-only
//! What an operator may say of a VM: all of it ([`VmConfig`]), or what one source says ([`Entry`]).

use crate::params::{Reader, VmParams, Written};
use crate::ports::Ports;
use crate::server::Server;
use crate::{groups, near, settings, spec};
use anyhow::{Context, Result, anyhow, bail};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use takt_policy::{ParamInfo, vm_settings};

/// All that is said of one VM. Every value has a default that asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Entry", into = "Entry")]
pub struct VmConfig {
    /// A value for each setting that the policy holds. 0 where the pool's counts.
    pub params: VmParams,
    /// Source ports of its real-time application (rule M5); they outlast a demotion.
    pub ports: Ports,
    /// VMs of one application, which run at once (Poris); empty = none.
    pub group: String,
}

impl Default for VmConfig {
    fn default() -> Self {
        Self { params: VmParams::defaults(), ports: Ports::default(), group: String::new() }
    }
}

impl VmConfig {
    /// Checks the ranges of a configuration that was not read by serde.
    ///
    /// # Errors
    /// One line that names `vm`, the key and its range.
    pub fn validate(&self, vm: &str) -> Result<()> {
        self.params.check().map_err(|e| anyhow!("VM `{vm}`: {e}"))?;
        groups::name(&self.group).with_context(|| format!("VM `{vm}`"))?;
        Ok(())
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

    /// The value of a key of a file, as people write it; empty if nothing is said, or no key is named so.
    pub fn show(&self, key: &str) -> String {
        let info = settings::named(key);
        match key {
            "ports" => self.ports.to_string(),
            "group" => self.group.clone(),
            _ => info.map_or_else(String::new, |info| spec::show(info, self.params.value(info.name))),
        }
    }

    /// What `entry` says, on top of what is said here.
    pub fn take(&mut self, entry: &Entry) {
        self.params.extend(entry.params.iter());
        if let Some(ports) = &entry.ports {
            self.ports.clone_from(ports);
        }
        if let Some(group) = &entry.group {
            self.group.clone_from(group);
        }
    }
}

impl From<Entry> for VmConfig {
    fn from(entry: Entry) -> Self {
        let mut all = Self::default();
        all.take(&entry);
        all
    }
}

/// What one source says of a VM, such as a table of a file: the rest is for other sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub params: VmParams,
    pub ports: Option<Ports>,
    pub group: Option<String>,
    /// Which owner's VM is meant, for a VMM may give itself any name: its process is in this cgroup (version 2) or below
    /// it, and has this user's number. All that is said must hold.
    pub cgroup: Option<String>,
    pub uid: Option<u32>,
}

impl From<VmConfig> for Entry {
    fn from(all: VmConfig) -> Self {
        let VmConfig { params, ports, group } = all;
        Self { params: params.said(), ports: Some(ports), group: Some(group), cgroup: None, uid: None }
    }
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

impl Entry {
    /// Whether it names an owner.
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

    /// The names of what it says, in the order in which a file has them.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        Key::all().filter(|key| self.says(*key)).map(Key::name)
    }

    fn says(&self, key: Key) -> bool {
        match key {
            Key::Setting(info) => self.params.get(info.name).is_some(),
            Key::Ports => self.ports.is_some(),
            Key::Group => self.group.is_some(),
            Key::Cgroup => self.cgroup.is_some(),
            Key::Uid => self.uid.is_some(),
        }
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

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for key in Key::all() {
            let name = key.name();
            match key {
                Key::Setting(info) => {
                    self.params.get(name).map_or(Ok(()), |value| map.serialize_entry(name, &Written::new(info, value)))
                }
                Key::Ports => self.ports.as_ref().map_or(Ok(()), |ports| map.serialize_entry(name, ports)),
                Key::Group => self.group.as_ref().map_or(Ok(()), |group| map.serialize_entry(name, group)),
                Key::Cgroup => self.cgroup.as_ref().map_or(Ok(()), |cgroup| map.serialize_entry(name, cgroup)),
                Key::Uid => self.uid.map_or(Ok(()), |uid| map.serialize_entry(name, &uid)),
            }?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings of a VM")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entry, A::Error> {
        let mut entry = Entry::default();
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Setting(info) => entry.params.set(info, map.next_value_seed(Reader(info))?),
                Key::Ports => entry.ports = Some(map.next_value()?),
                Key::Group => entry.group = Some(map.next_value()?),
                Key::Cgroup => entry.cgroup = Some(map.next_value::<Cgroup>()?.0),
                Key::Uid => entry.uid = Some(map.next_value::<Uid>()?.0),
            }
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RtMode;

    #[test]
    fn a_value_is_shown_as_people_write_it() {
        let text = "weight = 512\nrt = \"on\"\nperiod = \"20ms\"\nports = [5004]\ngroup = \"encoders\"";
        let c = VmConfig::from(toml::from_str::<Entry>(text).unwrap());
        let shown = ["weight", "rt", "period", "ports", "group", "no-such-key"].map(|key| c.show(key));
        assert_eq!(shown, ["512", "on", "20ms", "5004", "encoders", ""]);
    }

    #[test]
    fn what_is_not_said_asks_for_nothing() {
        let entry: Entry = toml::from_str("").unwrap();
        assert_eq!((entry.keys().count(), entry.clone()), (0, Entry::default()));
        let c = VmConfig::from(entry);
        assert_eq!(c, VmConfig::default().with("weight", 256));
        assert_eq!((c.params.rt(), c.params.cap(), c.server()), (RtMode::Auto, 0, Server::default()));
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
    fn whose_vm_is_meant_is_said_by_cgroup_and_user() {
        let c = |text: &str| toml::from_str::<Entry>(text).unwrap();
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
        assert_eq!(toml::from_str::<Entry>(&toml::to_string(&both).unwrap()).unwrap(), both);
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
