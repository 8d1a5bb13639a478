// SPDX-License-Identifier: GPL-2.0-only
//! The file of `takt run --config`: how Takt runs (`[host]`), the policy's parameters (`[pool]`), and what holds for VMs:
//! by name (`[vm.NAME]`, also with `*`) and by cgroup (`[cgroup."PATH"]`).

use crate::config::Entry;
use crate::spec::PolicySpec;
use crate::{VmConfig, one_line, printable};
use anyhow::{Context, Result, anyhow, bail, ensure};
use glob::{MatchOptions, Pattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Longest wait of a thread before the kernel disables the scheduler, ms.
pub const TIMEOUTS: RangeInclusive<u32> = 1_000..=30_000;
/// VMs of one tenant.
pub const TENANT_VMS: RangeInclusive<u32> = 1..=255;
/// Threads of the VMs of one tenant.
pub const TENANT_THREADS: RangeInclusive<u32> = 1..=960;

/// Memory for operations, MiB; 0: none are kept.
pub const RECORDER_MIB: RangeInclusive<u32> = 0..=4096;
/// A wait of a real-time VM that saves a recording, ms.
pub const INCIDENT_MS: RangeInclusive<u32> = 1..=10_000;

/// How Takt runs: the options of `takt run` that have the same names. An option on the command line wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<String>,
    /// Where Prometheus may ask; no option of `takt run`. Without it nothing is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_vms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_mib: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_core_scheduling: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_unheeded_cgroups: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_unfair: bool,
}

impl HostSection {
    /// What a running Takt cannot change.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self { policy: None, recorder_mib: None, incident_ms: None, incident_dir: None, ..self.clone() }
    }

    fn check(&self) -> Result<()> {
        for (name, value, range) in [
            ("timeout_ms", self.timeout_ms, TIMEOUTS),
            ("tenant_vms", self.tenant_vms, TENANT_VMS),
            ("tenant_threads", self.tenant_threads, TENANT_THREADS),
            ("recorder_mib", self.recorder_mib, RECORDER_MIB),
            ("incident_ms", self.incident_ms, INCIDENT_MS),
        ] {
            let (low, high) = (range.start(), range.end());
            let within = value.is_none_or(|value| range.contains(&value));
            ensure!(within, "`{name}` must be between {low} and {high} (got `{}`)", value.unwrap_or_default());
        }
        if let Some(dir) = &self.incident_dir {
            ensure!(dir.is_absolute(), "`incident_dir` must be an absolute path (got `{}`)", dir.display());
        }
        Ok(())
    }
}

/// A value of `[pool]`, as `takt set --pool` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PoolValue {
    Switch(bool),
    Number(i64),
    Text(String),
}

impl fmt::Display for PoolValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A VM as a file may mean it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity<'a> {
    pub name: &'a str,
    /// As its VMM was told.
    pub uuid: Option<&'a str>,
    /// Of its process (version 2), as `/proc` writes it; `None`: it cannot be told.
    pub cgroup: Option<&'a str>,
    pub uid: Option<u32>,
}

/// What a file says. VMs that it does not mean keep what they have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    #[serde(skip_serializing_if = "is_default")]
    pub host: HostSection,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pool: BTreeMap<String, PoolValue>,
    /// By name, UUID, or a pattern of names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vm: BTreeMap<String, Entry>,
    /// By a pattern of the cgroup that a VM is in, or that contains it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cgroup: BTreeMap<String, Entry>,
}

fn is_default(section: &HostSection) -> bool {
    *section == HostSection::default()
}

/// Whether the name of a table stands for several.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether it is written as a UUID is.
pub fn is_uuid(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    parts.iter().map(|p| p.len()).eq([8, 4, 4, 4, 12]) && parts.concat().bytes().all(|b| b.is_ascii_hexdigit())
}

fn pattern(text: &str) -> Result<Pattern> {
    Pattern::new(text).map_err(|e| anyhow!("`{text}` is no pattern: {}", e.msg))
}

/// `*` stops at a `/`.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

fn matches(text: &str, name: &str) -> bool {
    Pattern::new(text).is_ok_and(|p| p.matches_with(name, OPTIONS))
}

/// Whether `text` matches the cgroup or one that contains it.
fn contains(text: &str, cgroup: &str) -> bool {
    let (text, cgroup) = (text.trim_matches('/'), cgroup.trim_matches('/'));
    let ends = cgroup.match_indices('/').map(|(i, _)| i).chain([cgroup.len()]);
    ends.into_iter().any(|end| matches(text, &cgroup[..end]))
}

impl HostConfig {
    /// Reads a `--config` file.
    ///
    /// # Errors
    /// It cannot be read, or as [`HostConfig::from_toml`]; one line that begins with its path.
    pub fn read(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(name)?;
        Self::from_toml(&text).with_context(name)
    }

    /// Reads the text of a `--config` file.
    ///
    /// # Errors
    /// One line: where, what is wrong, and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|e| {
            let before = e.span().map_or(0, |s| s.start.min(text.len()));
            let line = text.as_bytes()[..before].iter().filter(|b| **b == b'\n').count() + 1;
            anyhow!("line {line}: {}", printable(e.message()))
        })?;
        config.check().map_err(|e| one_line(&e))?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        self.host.check().context("[host]")?;
        if let Some(policy) = &self.host.policy {
            PolicySpec::parse(policy).context("[host]")?;
        }
        for (key, value) in &self.pool {
            let odd = |text: &str| text.contains(|c: char| c.is_control() || "(),=".contains(c));
            ensure!(!odd(key) && !odd(&value.to_string()), "[pool]: `{key} = {value}` is no parameter of a policy");
        }
        for (name, entry) in &self.vm {
            VmConfig::from(entry.clone()).validate(name)?;
            if is_pattern(name) {
                pattern(name)?;
            }
        }
        for (name, entry) in &self.cgroup {
            VmConfig::from(entry.clone()).validate(name).map_err(|e| anyhow!("cgroup `{name}`: {}", e.root_cause()))?;
            ensure!(entry.cgroup.is_none(), "cgroup `{name}`: its table cannot have the key `cgroup` as well");
            pattern(name)?;
        }
        Ok(())
    }

    /// The policy with its parameters: `given` on the command line, else that of `[host]`, else `default`; on top of it
    /// `[pool]`.
    ///
    /// # Errors
    /// One line: an unknown policy or parameter, a value out of range.
    pub fn policy(&self, given: Option<&str>, default: &str) -> Result<PolicySpec> {
        let text = given.or(self.host.policy.as_deref()).unwrap_or(default);
        let spec = PolicySpec::parse(text)?;
        if self.pool.is_empty() {
            return Ok(spec);
        }
        let (head, list) = spec.label.split_once('(').unwrap_or((&spec.label, ""));
        let own = list.trim_end_matches(')').split(',').filter(|pair| !pair.is_empty());
        let own = own.filter(|pair| pair.split_once('=').is_none_or(|(key, _)| !self.pool.contains_key(key)));
        let pool = self.pool.iter().map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = own.map(str::to_owned).chain(pool).collect();
        PolicySpec::parse(&format!("{head}({})", all.join(","))).context("[pool]")
    }

    /// The same for a Linux host.
    ///
    /// # Errors
    /// Those of [`HostConfig::policy`]; one that is for the simulator.
    pub fn linux_policy(&self, given: Option<&str>) -> Result<PolicySpec> {
        let policy = self.policy(given, "doris")?;
        ensure!(!policy.pin, "policy `pin` is for the simulator: on Linux, pin VCPUs with taskset or cpusets");
        Ok(policy)
    }

    /// What the file says of a VM, the weakest first: of its cgroup, of a pattern of its name, of its name, of its UUID.
    /// Of several patterns the longest counts. Each with the name of its table.
    pub fn entries(&self, vm: Identity<'_>) -> Vec<(String, &Entry)> {
        let meant = |entry: &Entry| !entry.has_owner() || entry.admits(vm.cgroup, vm.uid);
        let longest = |all: &mut dyn Iterator<Item = (&String, &'_ Entry)>| {
            all.map(|(name, _)| name.clone()).max_by_key(|name| (name.len(), std::cmp::Reverse(name.clone())))
        };
        let mut all = Vec::new();
        let mut of_cgroup = self
            .cgroup
            .iter()
            .filter(|(name, entry)| meant(entry) && vm.cgroup.is_some_and(|cgroup| contains(name, cgroup)));
        all.extend(longest(&mut of_cgroup).map(|name| (format!("[cgroup.\"{name}\"]"), &self.cgroup[&name])));
        let mut of_pattern =
            self.vm.iter().filter(|(name, entry)| is_pattern(name) && meant(entry) && matches(name, vm.name));
        all.extend(longest(&mut of_pattern).map(|name| (format!("[vm.\"{name}\"]"), &self.vm[&name])));
        // A VMM may call its VM as it likes, also by the UUID of another one.
        let named = self.vm.get_key_value(vm.name).filter(|(name, _)| !is_uuid(name));
        let of_uuid = vm.uuid.and_then(|uuid| self.vm.iter().find(|(name, _)| name.eq_ignore_ascii_case(uuid)));
        for (name, entry) in [named, of_uuid].into_iter().flatten().filter(|(_, entry)| meant(entry)) {
            all.push((format!("[vm.{name}]"), entry));
        }
        all
    }

    /// Refuses what only a Linux host can do.
    ///
    /// # Errors
    /// One line that names it.
    pub fn only_names(&self) -> Result<()> {
        let table = [
            (self.host != HostSection::default(), "[host]"),
            (!self.pool.is_empty(), "[pool]"),
            (!self.cgroup.is_empty(), "[cgroup]"),
        ];
        if let Some((_, name)) = table.into_iter().find(|(there, _)| *there) {
            bail!(
                "{name} works only on a Linux host; in Xen's Dom0, use the options of `takt run` and `takt set --pool`"
            );
        }
        if let Some((name, _)) = self.vm.iter().find(|(_, vm)| vm.has_owner()) {
            bail!(
                "VM `{name}`: cgroup and uid work only on a Linux host; in Xen's Dom0 the toolstack controls the names"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    const ALL: &str = r#"
        [host]
        policy = "doris(slice=5ms)"
        cgroups = ["machine.slice"]
        tenant_vms = 9
        accept_unheeded_cgroups = true
        [pool]
        slice = "3ms"
        dom0 = false
        rt_max = 7
        [vm.pbx]
        weight = 512
        [vm."pbx-*"]
        weight = 300
        cap = 50
        [vm."pbx-1*"]
        weight = 400
        uid = 107
        [vm.6BA7b810-9dad-11d1-80b4-00c04fd430c8]
        rt = "on"
        [cgroup."machine.slice/*"]
        weight = 100
        cap = 20
        [cgroup."machine.slice/qemu-[ab].scope"]
        cap = 30
    "#;

    fn says(config: &HostConfig, name: &str, uuid: Option<&str>, cgroup: &str, uid: u32) -> Vec<String> {
        let vm = Identity { name, uuid, cgroup: Some(cgroup), uid: Some(uid) };
        config.entries(vm).into_iter().map(|(table, _)| table).collect()
    }

    #[test]
    fn the_tables_that_mean_a_vm_come_weakest_first() {
        let config = HostConfig::from_toml(ALL).unwrap();
        let uuid = Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        for (name, uuid, cgroup, uid, want) in [
            ("pbx", None, "/a", 1, &["[vm.pbx]"][..]),
            ("pbx-2", None, "/a", 1, &["[vm.\"pbx-*\"]"]),
            ("pbx-12", None, "/a", 107, &["[vm.\"pbx-1*\"]"]),
            ("pbx-12", None, "/a", 108, &["[vm.\"pbx-*\"]"]),
            ("xpbx-1", None, "/machine.slice", 1, &[]),
            ("web", None, "/machine.slice/x.scope/libvirt/emulator", 1, &["[cgroup.\"machine.slice/*\"]"]),
            ("web", None, "/machine.slice/qemu-a.scope", 1, &["[cgroup.\"machine.slice/qemu-[ab].scope\"]"]),
            ("web", None, "/x/machine.slice/a", 1, &[]),
            (
                "pbx",
                uuid,
                "machine.slice/b",
                1,
                &["[cgroup.\"machine.slice/*\"]", "[vm.pbx]", "[vm.6BA7b810-9dad-11d1-80b4-00c04fd430c8]"],
            ),
            ("*", None, "/a", 1, &[]),
            ("6BA7b810-9dad-11d1-80b4-00c04fd430c8", None, "/a", 1, &[]),
        ] {
            assert_eq!(says(&config, name, uuid, cgroup, uid), want, "{name} {cgroup} {uid}");
        }
        let nowhere = Identity { name: "web", ..Identity::default() };
        assert!(config.entries(nowhere).is_empty(), "a process that cannot be read is in no cgroup");
    }

    #[test]
    fn the_pool_is_on_top_of_the_policy() {
        let config = HostConfig::from_toml(ALL).unwrap();
        let label = |given| config.policy(given, "credit").map(|p| p.label).map_err(|e| format!("{e:#}"));
        assert_eq!(label(None).unwrap(), "doris(dom0=off,rt_max=7,slice=3ms)");
        assert_eq!(label(Some("laxs")).unwrap(), "laxs(dom0=off,rt_max=7,slice=3ms)");
        let none = HostConfig::default();
        assert_eq!(none.policy(None, "credit").unwrap().label, "credit");
        assert_eq!(none.policy(Some("doris(slice=1ms)"), "credit").unwrap().label, "doris(slice=1ms)");
        let pool = |text: &str| HostConfig::from_toml(&format!("[pool]\n{text}")).and_then(|c| c.policy(None, "doris"));
        for (text, want) in [
            ("slcie = 1", "[pool]: policy `doris(slcie=1)`: unknown key `slcie` (did you mean `slice`?)"),
            ("slice = \"0\"", "[pool]: policy `doris(slice=0)`: `slice` must be between 100us and 10s (got `0`)"),
            ("slice = \"1ms),x(\"", "[pool]: `slice = 1ms),x(` is no parameter of a policy"),
        ] {
            let error = format!("{:#}", pool(text).expect_err(text));
            assert!(error.starts_with(want) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn errors_of_the_other_tables() {
        for (text, want) in [
            ("[host]\ntimeout_ms = 999", "[host]: `timeout_ms` must be between 1000 and 30000 (got `999`)"),
            ("[host]\ntenant_vms = 0", "[host]: `tenant_vms` must be between 1 and 255 (got `0`)"),
            ("[host]\ntenant_threads = 961", "[host]: `tenant_threads` must be between 1 and 960 (got `961`)"),
            ("[host]\npolicy = \"dorsi\"", "[host]: unknown policy `dorsi` (did you mean `doris`?)"),
            ("[host]\npolcy = 1", "line 2: unknown field `polcy`"),
            ("[vm.\"a[\"]\nweight = 1", "`a[` is no pattern: "),
            ("[cgroup.\"a***\"]\nweight = 1", "`a***` is no pattern: "),
            ("[cgroup.a]\nbudget = \"3ms\"\nperiod = \"2ms\"", "cgroup `a`: VM `a`: `budget` must be at most"),
            ("[cgroup.a]\ncgroup = \"b\"", "cgroup `a`: its table cannot have the key `cgroup` as well"),
        ] {
            let error = format!("{:#}", HostConfig::from_toml(text).expect_err(text));
            assert!(error.starts_with(want) && !error.contains('\n'), "{text}: {error}");
        }
        let linux = |text: &str| HostConfig::from_toml(text).unwrap().only_names().map_err(|e| e.to_string());
        assert_eq!(linux("[vm.a]\nweight = 1"), Ok(()));
        for (text, want) in [
            ("[host]\npolicy = \"doris\"", "[host] works only on a Linux host"),
            ("[pool]\nslice = \"1ms\"", "[pool] works only on a Linux host"),
            ("[cgroup.a]\nweight = 1", "[cgroup] works only on a Linux host"),
            ("[vm.a]\nuid = 1", "VM `a`: cgroup and uid work only on a Linux host"),
        ] {
            assert!(linux(text).unwrap_err().starts_with(want), "{text}");
        }
    }
}
