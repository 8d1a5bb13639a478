// SPDX-License-Identifier: GPL-2.0-only
//! What the file of `--config` and the VMs' metadata say is followed: for a VM that has come, and when they change.

use super::{Live, owners};
use crate::keeper::Keeping;
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
            if let Some(vm) = self.vms.get_mut(&index) {
                vm.fresh = false;
            }
            self.follow(index, news);
        }
    }

    /// Follows what is said of each VM now: its metadata may have changed, and the cgroup that it is in.
    pub(super) fn follow_all(&mut self, news: &mut Vec<Event>) -> usize {
        let all: Vec<u32> = self.vms.keys().copied().collect();
        all.into_iter().map(|index| self.follow(index, news)).sum()
    }

    /// Brings VM `index` to what the file and its metadata say of it now; how many settings have changed. What is
    /// refused is said, and tried again when it says something else, or the file is read again.
    fn follow(&mut self, index: u32, news: &mut Vec<Event>) -> usize {
        let root = Path::new("/");
        let Some(vm) = self.vms.get(&index).filter(|vm| !vm.fresh) else { return 0 };
        let (name, tgid, uuid, old) = (vm.name.clone(), vm.tgid, vm.uuid.clone(), vm.layers.clone());
        let metadata = match self.metadata.of(&name, uuid.as_deref()) {
            Ok(entry) => entry.filter(|entry| owners::admits(entry, root, tgid)).unwrap_or_default(),
            Err(e) => {
                news.push(Event::Warning { text: format!("{e:#}") });
                Entry::default()
            }
        };
        let entries = owners::entries(&self.config, root, &name, uuid.as_deref(), tgid);
        let layers = old.with_file(entries).with_metadata(metadata);
        let refused = self.vms.get(&index).and_then(|vm| vm.refused.as_ref());
        if layers == old || refused == Some(&layers) {
            return 0;
        }
        let done = apply(&BTreeMap::from([(name.clone(), layers.config())]), self, 0);
        if let Err(e) = &done {
            news.push(Event::Warning { text: format!("{e:#}") });
            // What came before the refusal is taken back.
            let _ = apply(&BTreeMap::from([(name, old.config())]), self, 0);
        }
        if let Some(vm) = self.vms.get_mut(&index) {
            (vm.layers, vm.refused) = if done.is_ok() { (layers, None) } else { (old, Some(layers)) };
        }
        done.map_or(0, |done| done.changes.len())
    }

    /// Follows the file of `--config`, which says something else now: `config`, with `policy`, and what is to be kept for
    /// `takt why`. What `takt set` has set stays. Nothing changes if the scheduler must be loaded again for it.
    ///
    /// # Errors
    /// One line: what needs a new start of `takt run`, or what is unfair.
    pub fn reload(&mut self, config: HostConfig, policy: &PolicySpec, keeping: Option<Keeping>) -> Result<Vec<Event>> {
        let have = self.scheduler.policy().clone();
        ensure!(
            policy.name == have.name && policy.pools == have.pools,
            "policy `{policy}`: the scheduler of `{have}` is loaded; restart takt run to change it"
        );
        ensure!(
            config.host.fixed() == self.config.host.fixed(),
            "[host]: only the parameters of `policy`, `recorder_mib`, `incident_ms` and `incident_dir` can change while \
             takt run runs; restart it"
        );
        policy.fair(self.accept_unfair)?;
        let mut news = Vec::new();
        let changed = self.adjust_pool(&have, policy)?;
        if let Err(e) = self.keep(keeping) {
            news.push(Event::Warning { text: format!("nothing is kept for takt why: {e:#}") });
        }
        self.config = config;
        self.vms.values_mut().for_each(|vm| vm.refused = None);
        let set = self.follow_all(&mut news);
        news.push(Event::Reloaded { parameters: changed, settings: set });
        Ok(news)
    }

    /// Follows the file, in which what `takt set` has set of `keys` is now; of VM `vm`, or of the policy.
    ///
    /// # Errors
    /// Those of [`Live::reload`]; what was set by hand still is, then.
    pub fn saved(
        &mut self,
        vm: Option<&str>,
        keys: &[String],
        config: HostConfig,
        policy: &PolicySpec,
        keeping: Option<Keeping>,
    ) -> Result<Vec<Event>> {
        let (by_hand, mut layers) = (self.pool_by_hand.clone(), None);
        match vm {
            Some(name) => {
                if let Some((index, vm)) = self.vms.iter_mut().find(|(_, vm)| vm.name == name) {
                    layers = Some((*index, vm.layers.clone()));
                    vm.layers.saved(keys);
                }
            }
            None => self.pool_by_hand.retain(|key| {
                let info = takt_policy::params().into_iter().find(|p| !p.per_vm && p.key == *key);
                !info.is_some_and(|info| keys.iter().any(|key| info.is(key)))
            }),
        }
        let done = self.reload(config, policy, keeping);
        if done.is_err() {
            self.pool_by_hand = by_hand;
            if let Some((vm, layers)) = layers.and_then(|(index, layers)| Some((self.vms.get_mut(&index)?, layers))) {
                vm.layers = layers;
            }
        }
        done
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
