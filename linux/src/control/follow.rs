// SPDX-License-Identifier: GPL-2.0-only
//! What the file of `--config` and the VMs' metadata say is followed: for a VM that has come, and when they change.

use super::{Live, names, owners};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use takt_control::{Entry, Event, HostConfig, PolicySpec, apply, spec};
use takt_policy::NIL;

impl Live {
    /// Applies the configuration to VMs that have come: later, what is set by hand counts.
    pub(super) fn configure(&mut self, news: &mut Vec<Event>) {
        let fresh: Vec<u32> = self.vms.iter().filter(|(_, v)| v.fresh).map(|(i, _)| *i).collect();
        for index in fresh {
            let Some(vm) = self.vms.get_mut(&index) else { continue };
            vm.fresh = false;
            if !vm.layers.is_configured() {
                continue;
            }
            let config = BTreeMap::from([(vm.name.clone(), vm.layers.config())]);
            if let Err(e) = apply(&config, self, 0) {
                self.warn(format!("{e:#}"), news);
            }
        }
    }

    /// What the metadata of VM `name` says: nothing, where it means another owner's.
    pub(super) fn metadata_of(&mut self, name: &str, tgid: u32, news: &mut Vec<Event>) -> Entry {
        let root = Path::new("/");
        match self.metadata.of(name, names::uuid(root, tgid).as_deref()) {
            Ok(entry) => entry.filter(|entry| owners::admits(entry, root, tgid)).unwrap_or_default(),
            Err(e) => {
                news.push(Event::Warning { text: format!("{e:#}") });
                Entry::default()
            }
        }
    }

    /// Applies metadata that has changed.
    pub(super) fn follow_metadata(&mut self, news: &mut Vec<Event>) {
        let all: Vec<_> = self.vms.iter().map(|(index, vm)| (*index, vm.name.clone(), vm.tgid)).collect();
        for (index, name, tgid) in all {
            let metadata = self.metadata_of(&name, tgid, news);
            let Some(vm) = self.vms.get_mut(&index) else { continue };
            let layers = vm.layers.with_metadata(metadata);
            if layers == vm.layers {
                continue;
            }
            vm.layers = layers;
            let config = BTreeMap::from([(name, vm.layers.config())]);
            if let Err(e) = apply(&config, self, 0) {
                self.warn(format!("{e:#}"), news);
            }
        }
    }

    /// Follows the file of `--config`, which says something else now: `config`, with `policy`. What `takt set` has set
    /// stays. Nothing changes if the scheduler must be loaded again for it.
    ///
    /// # Errors
    /// One line: what needs a new start of `takt run`, or what is unfair.
    pub fn reload(&mut self, config: HostConfig, policy: &PolicySpec) -> Result<Vec<Event>> {
        let have = self.scheduler.policy().clone();
        ensure!(
            policy.name == have.name && policy.pools == have.pools,
            "policy `{policy}`: the scheduler of `{have}` is loaded; restart takt run to change it"
        );
        ensure!(
            config.host.but_policy() == self.config.host.but_policy(),
            "[host]: only the parameters of `policy` can change while takt run runs; restart it"
        );
        policy.fair(self.accept_unfair)?;
        let mut news = Vec::new();
        let changed = self.adjust_pool(&have, policy)?;
        self.config = config;
        let mut vms = Vec::new();
        for vm in self.vms.values_mut() {
            let layers = vm.layers.with_file(owners::entries(&self.config, Path::new("/"), &vm.name, vm.tgid));
            if layers != vm.layers {
                vms.push((vm.name.clone(), layers.config()));
                vm.layers = layers;
            }
        }
        let mut set = 0;
        for (name, config) in vms {
            match apply(&BTreeMap::from([(name, config)]), self, 0) {
                Ok(done) => set += done.changes.len(),
                Err(e) => self.warn(format!("{e:#}"), &mut news),
            }
        }
        news.push(Event::Reloaded { parameters: changed, settings: set });
        Ok(news)
    }

    /// Brings the pool's parameters from `have` to `want`, but for those that `takt set --pool` has set; how many changed.
    fn adjust_pool(&mut self, have: &PolicySpec, want: &PolicySpec) -> Result<usize> {
        let defaults = takt_policy::params().into_iter().filter(|p| !p.per_vm).map(|p| (p.key, p.linux));
        let live: BTreeMap<u32, u64> = defaults.collect();
        let values = |spec: &PolicySpec| {
            let mut all = live.clone();
            all.extend(spec.params.iter().copied());
            all
        };
        let (old, new) = (values(have), values(want));
        let differs = |(key, value): &(&u32, &u64)| !self.pool_by_hand.contains(key) && old.get(key) != Some(value);
        let all: Vec<(u32, u64)> = new.iter().filter(differs).map(|(k, v)| (*k, *v)).collect();
        let all = spec::refusable_first(all);
        for (n, &(key, value)) in all.iter().enumerate() {
            if let Err(e) = self.scheduler.adjust(NIL, key, value) {
                let done = all[..n].iter().filter_map(|(key, _)| Some((*key, *old.get(key)?)));
                done.into_iter().try_for_each(|(key, old)| self.scheduler.adjust(NIL, key, old))?;
                return Err(e.context(format!("policy `{want}`")));
            }
        }
        all.iter().for_each(|&(key, value)| self.parameter_is(key, value));
        self.scheduler.policy_is(want.clone());
        Ok(all.len())
    }
}
