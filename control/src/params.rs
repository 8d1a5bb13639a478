// SPDX-License-Identifier: GPL-2.0-only
//! The settings of a VM that the policy holds, by key: one container for a configuration, for what
//! `takt set` says, and for what a host reports. Which there are, their units and ranges is in
//! `policy/settings.def`.

use crate::server::{Server, ServerStatus};
use crate::settings::{RtMode, param};
use crate::{duration, spec};
use anyhow::{Error, Result, ensure};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Map;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use takt_policy::{ParamInfo, Pool, vm_settings};

/// The settings that go together: a host brings a VM from one [`Server`] to another.
const SERVER: [&str; 4] = ["budget", "period", "priority", "extra"];

/// Whether the setting is part of a [`Server`].
pub fn is_server(info: &ParamInfo) -> bool {
    SERVER.contains(&info.name)
}

/// Values of settings, by key. A setting without a value is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmParams(BTreeMap<u32, u64>);

impl VmParams {
    /// A value for every setting: what a VM has until it is given something else.
    pub fn defaults() -> Self {
        Self(vm_settings().iter().map(|p| (p.key, p.default)).collect())
    }

    /// A value for every setting: what the policy holds of `vm`; `None` if there is no such VM.
    pub fn of(pool: &Pool, vm: u32) -> Option<Self> {
        vm_settings().iter().map(|p| Some((p.key, pool.vm_setting(vm, p.key)?))).collect::<Option<_>>().map(Self)
    }

    /// The value of a setting, if it has one. Times are ns; words count from 0.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(&param(name).key).copied()
    }

    /// The same, or else the default.
    pub fn value(&self, name: &str) -> u64 {
        self.get(name).unwrap_or_else(|| param(name).default)
    }

    pub fn set(&mut self, info: &ParamInfo, value: u64) {
        self.0.insert(info.key, value);
    }

    /// The same with another value of setting `name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Self {
        self.set(param(name), value);
        self
    }

    /// The settings that have a value, by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static ParamInfo, u64)> {
        vm_settings().iter().filter_map(|p| Some((p, *self.0.get(&p.key)?)))
    }

    /// Those of them that a host sets one by one and refuses only out of range: without `rt` and a
    /// server's.
    pub fn plain(&self) -> impl Iterator<Item = (&'static ParamInfo, u64)> {
        self.iter().filter(|(info, _)| info.name != "rt" && !is_server(info))
    }

    /// Without the values that stand for the pool's: a host does not take those.
    #[must_use]
    pub fn said(&self) -> Self {
        self.iter().filter(|(info, value)| !spec::is_unset(info, *value)).collect()
    }

    pub fn rt(&self) -> RtMode {
        RtMode::of(self.value("rt")).unwrap_or_default()
    }

    /// Share of a VM against others.
    pub fn weight(&self) -> u32 {
        u32::try_from(self.value("weight")).unwrap_or(u32::MAX)
    }

    /// Most CPU time in percent of one PCPU, 0 = no cap.
    pub fn cap(&self) -> u32 {
        u32::try_from(self.value("cap")).unwrap_or(u32::MAX)
    }

    /// What its VCPUs may run.
    pub fn server(&self) -> Server {
        self.server_on(&Server::default())
    }

    /// What `have` becomes by the values there are.
    pub fn server_on(&self, have: &Server) -> Server {
        let mut want = *have;
        self.iter().filter(|(info, _)| is_server(info)).for_each(|(info, value)| want.assign(info, value));
        want
    }

    /// Whether a value of a server is among them.
    pub fn has_server(&self) -> bool {
        self.iter().any(|(info, _)| is_server(info))
    }

    /// Takes out the values of a server.
    pub fn take_server(&mut self) -> Self {
        let (server, rest): (Self, Self) = self.iter().partition(|(info, _)| is_server(info));
        *self = rest;
        server
    }

    /// Checks ranges, and that the budget fits into the period.
    ///
    /// # Errors
    /// One line that names the setting and what is allowed.
    pub fn check(&self) -> Result<()> {
        for (info, value) in self.said().iter() {
            within(info, Some(value), &spec::show(info, value)).map_err(Error::msg)?;
        }
        let Server { budget, period, .. } = self.server();
        ensure!(
            period == 0 || budget <= period,
            "`budget` must be at most the period of {} (got `{}`)",
            duration::format(period),
            duration::format(budget)
        );
        Ok(())
    }
}

impl FromIterator<(&'static ParamInfo, u64)> for VmParams {
    fn from_iter<I: IntoIterator<Item = (&'static ParamInfo, u64)>>(all: I) -> Self {
        Self(all.into_iter().map(|(info, value)| (info.key, value)).collect())
    }
}

impl Extend<(&'static ParamInfo, u64)> for VmParams {
    fn extend<I: IntoIterator<Item = (&'static ParamInfo, u64)>>(&mut self, all: I) {
        all.into_iter().for_each(|(info, value)| self.set(info, value));
    }
}

impl Server {
    /// What the policy holds of `vm`; `None` if there is no such VM.
    pub fn of(pool: &Pool, vm: u32) -> Option<Self> {
        VmParams::of(pool, vm).map(|params| params.server())
    }

    /// Checks ranges, and that the budget fits into the period.
    ///
    /// # Errors
    /// One line that names the key and what is allowed.
    pub fn validate(&self) -> Result<()> {
        VmParams::from(self).check()
    }
}

impl From<&Server> for VmParams {
    fn from(server: &Server) -> Self {
        let Server { budget, period, priority, extra } = *server;
        SERVER.into_iter().map(param).zip([budget, period, priority.into(), extra.into()]).collect()
    }
}

/// A value in a file.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Switch(bool),
    Number(u64),
    /// A time with its unit, or a word.
    Text(String),
}

impl Written {
    pub fn new(info: &ParamInfo, value: u64) -> Self {
        match info.unit {
            "off|on" => Self::Switch(value != 0),
            unit if unit == "ns" || unit.contains('|') => Self::Text(spec::show(info, value)),
            _ => Self::Number(value),
        }
    }
}

/// Reads the value of a setting in a file, within its range.
pub(crate) struct Reader(pub &'static ParamInfo);

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        let info = self.0;
        if info.unit == "off|on" {
            return bool::deserialize(from).map(u64::from);
        }
        if let Some(words) = spec::words(info) {
            let text = String::deserialize(from)?;
            let found = (0..).zip(&words).find(|(_, word)| **word == text);
            let known = || words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
            let unknown = || D::Error::custom(format!("unknown variant `{text}`, expected one of {}", known()));
            return found.map(|(n, _)| n).ok_or_else(unknown);
        }
        let (value, shown) = if info.unit == "ns" {
            let ns = duration::parse(&String::deserialize(from)?).map_err(D::Error::custom)?;
            (Some(ns), duration::format(ns))
        } else {
            let number = i64::deserialize(from)?;
            (u64::try_from(number).ok(), number.to_string())
        };
        within(info, value, &shown).map_err(D::Error::custom)
    }
}

/// The value if it is in the setting's range, else a line that says what is allowed; `None`: it is
/// no number that fits.
fn within(info: &ParamInfo, value: Option<u64>, shown: &str) -> Result<u64, String> {
    match value {
        Some(value) if (info.min..=info.max).contains(&value) => Ok(value),
        _ => Err(format!("`{}` must be {} (got `{shown}`)", info.name, spec::must_be(info))),
    }
}

/// What `takt status` calls a setting.
fn status_key(info: &ParamInfo) -> String {
    match info.unit {
        _ if is_server(info) => "server".into(),
        "ns" => format!("{}_us", info.name),
        _ => info.name.into(),
    }
}

/// As `takt status` says it, which has `rt` beside it: times in µs, null where the pool's value
/// counts.
impl Serialize for VmParams {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let mut server = Some(ServerStatus::from(&self.server()));
        for (info, value) in self.iter().filter(|(info, _)| info.name != "rt") {
            let key = status_key(info);
            let value = (!spec::is_unset(info, value)).then_some(value);
            if is_server(info) {
                server.take().map_or(Ok(()), |server| map.serialize_entry(&key, &server))?;
            } else if info.unit == "ns" {
                map.serialize_entry(&key, &value.map(|ns| ns as f64 / 1e3))?;
            } else {
                map.serialize_entry(&key, &value.map(|value| Written::new(info, value)))?;
            }
        }
        map.end()
    }
}

/// The schema of a value in a status.
fn schema_of(info: &ParamInfo, generator: &mut SchemaGenerator) -> Schema {
    let nullable = spec::is_unset(info, 0);
    let mut schema = match info.unit {
        _ if is_server(info) => generator.subschema_for::<ServerStatus>(),
        "ns" if nullable => generator.subschema_for::<Option<f64>>(),
        "ns" => generator.subschema_for::<f64>(),
        "off|on" => generator.subschema_for::<bool>(),
        unit if unit.contains('|') => generator.subschema_for::<String>(),
        _ if nullable => generator.subschema_for::<Option<u64>>(),
        _ => generator.subschema_for::<u64>(),
    };
    let what = if is_server(info) { "what each of its VCPUs may run" } else { info.doc };
    schema.insert("description".into(), what.into());
    schema
}

impl JsonSchema for VmParams {
    fn schema_name() -> Cow<'static, str> {
        "VmParams".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let settings = vm_settings().iter().filter(|info| info.name != "rt");
        let properties: Map<_, _> =
            settings.map(|info| (status_key(info), schema_of(info, generator).into())).collect();
        let required: Vec<_> = properties.keys().cloned().collect();
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}

impl<'de> Deserialize<'de> for VmParams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Status)
    }
}

struct Status;

impl<'de> Visitor<'de> for Status {
    type Value = VmParams;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings of a VM")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VmParams, A::Error> {
        let mut all = VmParams::default();
        while let Some(key) = map.next_key::<String>()? {
            let Some(info) = vm_settings().iter().find(|info| info.name != "rt" && status_key(info) == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if is_server(info) {
                all.extend(VmParams::from(&map.next_value::<ServerStatus>()?.server()).iter());
            } else if let Some(value) = map.next_value_seed(SettingValue(info))? {
                all.set(info, value);
            }
        }
        for info in vm_settings().iter().filter(|info| info.name != "rt") {
            if all.0.contains_key(&info.key) {
                continue;
            }
            if !spec::is_unset(info, info.default) {
                return Err(A::Error::custom(format!("missing field `{}`", status_key(info))));
            }
            all.set(info, info.default);
        }
        Ok(all)
    }
}

/// Reads the value of a setting in a status; `None`: the pool's counts.
struct SettingValue(&'static ParamInfo);

impl<'de> DeserializeSeed<'de> for SettingValue {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
        let Self(info) = self;
        match info.unit {
            "ns" => Ok(Option::<f64>::deserialize(from)?.map(|us| (us * 1e3).round() as u64)),
            "off|on" => Ok(Option::<bool>::deserialize(from)?.map(u64::from)),
            unit if unit.contains('|') => {
                let word = Option::<String>::deserialize(from)?;
                word.map(|word| spec::value(info, &word).map_err(D::Error::custom)).transpose()
            }
            _ => Option::<u64>::deserialize(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Also a unit that no setting of a status has now: `settings.def` may get one.
    #[test]
    fn the_unit_says_how_a_status_holds_a_value() {
        for (name, value, want) in [
            ("weight", json!(7), 7),
            ("laxity", json!(1.5), 1500),
            ("extra", json!(true), 1),
            ("rt", json!("on"), 1),
            ("rt", json!("off"), 2),
        ] {
            assert_eq!(SettingValue(param(name)).deserialize(value).unwrap(), Some(want), "{name}");
            assert_eq!(SettingValue(param(name)).deserialize(Value::Null).unwrap(), None, "{name}");
        }
        assert!(SettingValue(param("rt")).deserialize(json!("sometimes")).is_err());
    }
}
