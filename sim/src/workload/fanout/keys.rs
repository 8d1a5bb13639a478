// SPDX-License-Identifier: GPL-2.0-only
//! Keys of applications.

use crate::constants::Constants;
use crate::keys;
use crate::spec::{Entry, Key, Keys, Kind, Spec};
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
    /// Clients, each with one request at a time; the VM that has any is the front of its
    /// application.
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
    /// By how many per mille a part takes longer for each other VM that computes (contention), and
    /// for each pair of them (coherence): the universal scalability law.
    pub contention: u32,
    pub coherence: u32,
    /// Answers after this count as missed, ns; 0 = none does.
    pub deadline: u64,
    /// A busy loop on each VCPU, behind everything else.
    pub background: bool,
}

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

/// What each of its VMs is.
const PART: &str = "part of an application";

impl Spec for Fanout {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some(PART.to_owned())
    }

    fn threads(&self, vcpus: u32) -> u32 {
        self.parts(vcpus)
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }

    /// A message to a VM that is not there would never be answered.
    fn stays(&self) -> Option<&'static str> {
        Some(PART)
    }
}

impl Keys for Fanout {
    const KIND: Kind = Kind::Fanout;
    const DOC: &'static str = "one of several VMs that together answer each request. See below";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::text(
            "app",
            "a name",
            |f| Some(f.app.clone()),
            |f, value| {
                f.app = keys::name(value)?;
                Ok(())
            },
            "name of the application",
        ),
        Key::count(
            "clients",
            (0, 10_000),
            |f| f.clients.into(),
            |f, n| f.clients = n,
            "clients, each with one request at a time; the VM with clients is the front",
        ),
        Key::time(
            "think",
            (0, 3_600 * SECOND),
            |f| f.think.into(),
            |f, ns| f.think = ns,
            "mean time from an answer to the client's next request, exponential",
        ),
        Key::time("split", (0, SECOND), |f| f.split.into(), |f, ns| f.split = ns, "work of the front per request"),
        Key::time(
            "message",
            (0, SECOND),
            |f| f.message.into(),
            |f, ns| f.message = ns,
            "work of a VM per message from another VM",
        ),
        Key::<Self>::count(
            "parts",
            (0, 4096),
            |f| f.parts,
            |f, n| f.parts = Some(n),
            "threads; each computes a part of each request; 0 = the VM computes no parts",
        )
        .or("one per VCPU")
        .within("0 to 64 per VCPU"),
        Key::time("work", (US, 10 * SECOND), |f| f.work.into(), |f, ns| f.work = ns, "mean work of a part"),
        Key::count(
            "spread",
            (0, 100),
            |f| f.spread.into(),
            |f, n| f.spread = n,
            "random deviation of a part from the mean, up to this many percent",
        ),
        Key::count(
            "reach",
            (0, 255),
            |f| f.reach.into(),
            |f, n| f.reach = n,
            "front only: number of VMs that compute, counted in the order of the file; 0 = all",
        ),
        Key::count(
            "stages",
            (1, 1_000),
            |f| f.stages.into(),
            |f, n| f.stages = n,
            "front only: stages of a request, one after the other. See below",
        ),
        Key::count(
            "contention",
            (0, 1_000),
            |f| f.contention.into(),
            |f, n| f.contention = n,
            "front only: thousandths that each computing VM beyond the first adds to a part",
        ),
        Key::count(
            "coherence",
            (0, 1_000),
            |f| f.coherence.into(),
            |f, n| f.coherence = n,
            "front only: thousandths that each ordered pair of computing VMs adds to a part. See below",
        ),
        Key::time(
            "deadline",
            (0, 3_600 * SECOND),
            |f| f.deadline.into(),
            |f, ns| f.deadline = ns,
            "front only: a response that takes longer is late; 0 = no deadline",
        ),
        Key::flag(
            "background",
            |f| f.background,
            |f, on| f.background = on,
            "a busy loop of the lowest priority on each VCPU; it is not batch work",
        ),
    ];

    /// Each application has one front and a VM that computes, and no ring can overflow, so that
    /// no message is lost: none is sent again.
    fn agree(vms: &[(Entry, &Self)], c: &Constants) -> Result<()> {
        let slots = c.nic_ring.min(c.vif_ring);
        let mut flying = 0;
        for (vm, own) in vms {
            let app = &own.app;
            let all = || vms.iter().filter(|(_, o)| o.app == *app);
            let fronts: u32 = all().filter(|(_, o)| o.clients > 0).map(|(vm, _)| vm.count).sum();
            if fronts != 1 {
                bail!("vm.{}.clients: application {app} has {fronts} VMs with clients; allowed: 1", vm.name);
            }
            if all().all(|(vm, o)| o.threads(vm.vcpus) == 0) {
                let allowed = "1 to 4096 in one of them";
                bail!("vm.{}.parts: no VM of application {app} computes a part; allowed: {allowed}", vm.name);
            }
            if own.clients > 0 {
                let vms: u64 = all().map(|(vm, _)| u64::from(vm.count)).sum();
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
}

impl VmSpec {
    /// What it is in an application, if it is part of one.
    pub fn fanout(&self) -> Option<&Fanout> {
        self.workload.of()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::set;

    #[test]
    fn keys_are_read_and_refused_with_what_is_allowed() {
        let mut f = Fanout::default();
        set(&mut f, "app", "search").unwrap();
        set(&mut f, "background", "true").unwrap();
        assert_eq!((f.app.as_str(), f.background, f.parts(2)), ("search", true, 2));
        assert_eq!(f.longer(16), 1_000);
        set(&mut f, "contention", "20").unwrap();
        set(&mut f, "coherence", "1").unwrap();
        assert_eq!([1, 4, 16].map(|n| f.longer(n)), [1_000, 1_072, 1_540]);
        set(&mut f, "parts", "0").unwrap();
        assert_eq!(f.parts(2), 0);
        for (key, value, want) in [
            ("app", "a b", "'a b' is not a valid name; allowed: "),
            ("stages", "0", "'0' is out of range; allowed: 1 to 1000"),
            ("work", "0", "0 is out of range; allowed: 1us to 10s"),
            ("background", "1", "unknown '1'; allowed: true, false"),
            ("client", "1", "unknown key (did you mean `clients`?); allowed: type, app"),
        ] {
            let error = format!("{:#}", set(&mut f, key, value).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }
}
