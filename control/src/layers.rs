// SPDX-License-Identifier: GPL-2.0-only
//! The sources of a VM's settings. For each key the last of these counts: the VM's cgroups (weight and cap), the tables of the
//! file that mean it, its own metadata, and `takt set`.

use crate::config::{Entry, VmConfig};
use crate::params::VmParams;
use crate::setting::Setting;
use std::collections::BTreeMap;

/// Where a value comes from if it is neither the default nor a table's.
const BY_CGROUP: &str = "cgroup";
const BY_METADATA: &str = "metadata";
const BY_HAND: &str = "takt set";

/// What each source says of one VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    cgroup: Entry,
    /// Tables by name, the weakest first.
    file: Vec<(String, Entry)>,
    metadata: Entry,
    hand: Entry,
}

impl Layers {
    fn all(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let file = self.file.iter().map(|(table, entry)| (table.as_str(), entry));
        let strong = [(BY_METADATA, &self.metadata), (BY_HAND, &self.hand)];
        [(BY_CGROUP, &self.cgroup)].into_iter().chain(file).chain(strong)
    }

    /// What holds.
    pub fn config(&self) -> VmConfig {
        let mut config = VmConfig::default();
        self.all().for_each(|(_, entry)| config.take(entry));
        config
    }

    /// By key, the source of the value that holds.
    pub fn sources(&self) -> BTreeMap<String, String> {
        let keys = |(by, entry): (&str, &Entry)| entry.keys().map(|key| (key.into(), by.into())).collect::<Vec<_>>();
        let all = self.all().flat_map(keys);
        all.filter(|(key, _): &(String, String)| !["cgroup", "uid"].contains(&key.as_str())).collect()
    }

    /// Whether the file or its metadata says anything of it.
    pub fn is_configured(&self) -> bool {
        !self.file.is_empty() || self.metadata != Entry::default()
    }

    /// The same VM, of which its metadata says something else.
    #[must_use]
    pub fn with_metadata(&self, metadata: Entry) -> Self {
        Self { metadata, ..self.clone() }
    }

    /// The same VM, of which the file says something else.
    #[must_use]
    pub fn with_file(&self, entries: Vec<(String, &Entry)>) -> Self {
        let file = entries.into_iter().map(|(table, entry)| (table, entry.clone())).collect();
        Self { file, ..self.clone() }
    }

    /// `takt set` has said this, and the host has taken it.
    pub fn set(&mut self, setting: &Setting) {
        let Setting { params, ports, group, .. } = setting;
        self.hand.params.extend(params.iter());
        self.hand.ports = ports.clone().or(self.hand.ports.take());
        self.hand.group = group.clone().or(self.hand.group.take());
    }

    /// What `takt set` has set of these keys is said by the file from now on.
    pub fn saved(&mut self, keys: &[String]) {
        let is = |name: &str| keys.iter().any(|key| key == name);
        self.hand.params = self.hand.params.iter().filter(|(info, _)| !is(info.name)).collect();
        self.hand.ports = self.hand.ports.take().filter(|_| !is("ports"));
        self.hand.group = self.hand.group.take().filter(|_| !is("group"));
    }

    /// Its cgroups give it this weight and this cap.
    pub fn follow(&mut self, weight: u32, cap: u32) {
        let said = VmParams::default().with("weight", weight.into()).with("cap", cap.into());
        self.cgroup.params = said.iter().filter(|(info, value)| *value != info.default).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostConfig;

    fn setting(text: &str) -> Setting {
        Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    fn sources(layers: &Layers) -> String {
        layers.sources().iter().map(|(key, by)| format!("{key}: {by}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_last_that_says_a_key_counts() {
        let mut layers = Layers::default();
        assert_eq!((layers.config(), layers.sources().len()), (VmConfig::default(), 0));
        layers.follow(300, 40);
        let config = layers.config();
        assert_eq!((config.params.weight(), config.params.cap()), (300, 40));
        let file = HostConfig::from_toml("[vm.\"a*\"]\nweight = 5\nports = [7]\n[vm.a]\nweight = 6\nuid = 1").unwrap();
        let vm = crate::Identity { name: "a", uid: Some(1), ..crate::Identity::default() };
        layers = layers.with_file(file.entries(vm));
        assert_eq!((layers.config().params.weight(), layers.config().params.cap()), (6, 40));
        assert_eq!(sources(&layers), "cap: cgroup, ports: [vm.\"a*\"], weight: [vm.a]");
        layers = layers.with_metadata(crate::metadata::parse("weight = 8\ncap = 30").unwrap());
        assert_eq!(sources(&layers), "cap: metadata, ports: [vm.\"a*\"], weight: metadata");
        assert_eq!((layers.config().params.weight(), layers.config().params.cap()), (8, 30));
        layers = layers.with_metadata(Entry::default());
        layers.set(&setting("weight=9 group=g"));
        layers.set(&setting("rt=on"));
        assert_eq!((layers.config().params.weight(), layers.config().group.as_str()), (9, "g"));
        assert_eq!(
            sources(&layers),
            "cap: cgroup, group: takt set, ports: [vm.\"a*\"], rt: takt set, weight: takt set"
        );
        let mut saved = layers.clone();
        saved.saved(&["weight".into(), "group".into()]);
        assert_eq!(sources(&saved), "cap: cgroup, ports: [vm.\"a*\"], rt: takt set, weight: [vm.a]");
        layers.set(&setting("ports= group="));
        assert!(layers.config().ports.is_empty() && layers.config().group.is_empty(), "nothing is a word, too");
        let none = HostConfig::default();
        layers = layers.with_file(none.entries(vm));
        assert_eq!(layers.config().params.weight(), 9, "what was set stays when the file changes");
    }
}
