// SPDX-License-Identifier: GPL-2.0-only
//! Applications that answer a request from several VMs together: one VM has the clients and splits their requests, all compute a part, and
//! the answer goes out when all parts are there (rule P41).

use crate::keys;
use crate::vm::VmSpec;
use anyhow::{Result, bail};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// Application that it belongs to.
    pub app: String,
    /// Clients, each with one request at a time; the VM that has any is the front of its application.
    pub clients: u32,
    /// Mean time from an answer to the client's next request, ns.
    pub think: u64,
    /// What the front computes to split a request, ns.
    pub split: u64,
    /// What any VM computes for each other message that it receives, ns.
    pub message: u64,
    parts: Option<u32>,
    /// Mean of what a part takes, ns; each is within `spread` percent of it.
    pub work: u64,
    pub spread: u32,
    /// Of the VMs that compute, how many first ones do; 0 = all.
    pub reach: u32,
    /// Rounds of parts in a request: each begins when all parts of the one before are there.
    pub stages: u32,
    /// By how many per mille a part takes longer for each other VM that computes (contention), and for each pair of them (coherence):
    /// the universal scalability law.
    pub contention: u32,
    pub coherence: u32,
    /// Answers after this count as missed, ns; 0 = none does.
    pub deadline: u64,
    /// A busy loop on each VCPU, behind everything else.
    pub background: bool,
}

pub const KEYS: &str = "type, app, clients, think, split, message, parts, work, spread, reach, stages, contention, coherence, deadline, background";

impl Default for Fanout {
    fn default() -> Self {
        Self {
            app: "app".into(),
            clients: 0,
            think: 100 * MS,
            split: 100 * US,
            message: 20 * US,
            parts: None,
            work: 2 * MS,
            spread: 20,
            reach: 0,
            stages: 1,
            contention: 0,
            coherence: 0,
            deadline: 0,
            background: false,
        }
    }
}

impl Fanout {
    /// Sets one key.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "app" => self.app = keys::name(value)?,
            "clients" => self.clients = keys::count(value, 0, 10_000)?,
            "think" => self.think = keys::time(value, 0, 3_600 * SECOND)?,
            "split" => self.split = keys::time(value, 0, SECOND)?,
            "message" => self.message = keys::time(value, 0, SECOND)?,
            "parts" => self.parts = Some(keys::count(value, 0, 4096)?),
            "work" => self.work = keys::time(value, US, 10 * SECOND)?,
            "spread" => self.spread = keys::count(value, 0, 100)?,
            "reach" => self.reach = keys::count(value, 0, 255)?,
            "stages" => self.stages = keys::count(value, 1, 1_000)?,
            "contention" => self.contention = keys::count(value, 0, 1_000)?,
            "coherence" => self.coherence = keys::count(value, 0, 1_000)?,
            "deadline" => self.deadline = keys::time(value, 0, 3_600 * SECOND)?,
            "background" => self.background = keys::word(value, &[("true", true), ("false", false)])?,
            _ => bail!("unknown key; allowed: {KEYS}"),
        }
        Ok(())
    }

    /// What a part takes where so many VMs compute, in thousandths of what it takes where one does.
    pub fn longer(&self, vms: u64) -> u64 {
        let others = vms.saturating_sub(1);
        1_000 + others * u64::from(self.contention) + vms * others * u64::from(self.coherence)
    }

    /// Threads that compute a part of each request, on so many VCPUs.
    pub fn parts(&self, vcpus: u32) -> u32 {
        self.parts.unwrap_or(vcpus)
    }
}

/// What no single VM can tell: each application has one front and somebody who computes, and no ring can overflow, so that no message is lost
/// that nobody would send again.
///
/// # Errors
/// One line with key and what is allowed.
pub(crate) fn validate(vms: &[VmSpec], slots: u64) -> Result<()> {
    let mut flying = 0;
    for (vm, own) in vms.iter().filter_map(|vm| Some((vm, vm.fanout()?))) {
        let app = &own.app;
        let all = || vms.iter().filter(|o| o.fanout().is_some_and(|f| f.app == *app));
        let fronts: u32 = all().filter(|o| o.fanout().is_some_and(|f| f.clients > 0)).map(|o| o.count).sum();
        if fronts != 1 {
            bail!("vm.{}.clients: application {app} has {fronts} VMs with clients; allowed: 1", vm.name);
        }
        if all().all(|o| o.threads() == 0) {
            bail!("vm.{}.parts: nobody of application {app} computes a part; allowed: 1 .. 4096 somewhere", vm.name);
        }
        if own.clients > 0 {
            let vms: u64 = all().map(|o| u64::from(o.count)).sum();
            let reached = if own.reach == 0 { vms } else { vms.min(own.reach.into()) };
            flying += u64::from(own.clients) * reached;
        }
        if flying > slots {
            let least = "the VMs that its front reaches times all clients to fit net.nic_ring and net.vif_ring";
            bail!("vm.{}.clients: up to {flying} messages at once; allowed: {least}, {slots}", vm.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_refused_with_what_is_allowed() {
        let mut f = Fanout::default();
        f.set("app", "search").unwrap();
        f.set("background", "true").unwrap();
        assert_eq!((f.app.as_str(), f.background, f.parts(2)), ("search", true, 2));
        assert_eq!(f.longer(16), 1_000);
        f.set("contention", "20").unwrap();
        f.set("coherence", "1").unwrap();
        assert_eq!([1, 4, 16].map(|n| f.longer(n)), [1_000, 1_072, 1_540]);
        f.set("parts", "0").unwrap();
        assert_eq!(f.parts(2), 0);
        for (key, value, want) in [
            ("app", "a b", "'a b' is no name; allowed: "),
            ("stages", "0", "'0' is out of range; allowed: 1 .. 1000"),
            ("work", "0", "0 is out of range; allowed: 1us .. 10s"),
            ("background", "1", "unknown '1'; allowed: true, false"),
            ("client", "1", "unknown key; allowed: type, app"),
        ] {
            let error = format!("{:#}", f.set(key, value).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }
}
