// SPDX-License-Identifier: GPL-2.0-only
//! Risa's partition manager in Dom0: looks at both pools, and lets [`Partition`] act where something has changed that concerns it.

use crate::host::Domain;
use crate::rtpool::{MAIN, RT, RtPool};
use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use takt_control::partition::{Settings, Side};
use takt_control::{Partition, Server, VmParams, duration};

/// As often it settles in one look, while domains come and go.
const SETTLES: u32 = 8;

/// The manager with its pools; times are ns of its own clock.
pub struct Manager {
    pools: RtPool,
    partition: Partition,
    /// When it looked last: PCPUs of both pools as bits, and who was in the rt-pool. `None`: something is left to do.
    seen: Option<([u64; 2], BTreeSet<u16>)>,
    announced: Announced,
}

/// What has been said of the rt-pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Announced {
    pcpus: u64,
    domains: BTreeSet<String>,
    due: bool,
}

/// What `takt status` says of both pools. Times are µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionStatus {
    pub pools: Vec<PartStatus>,
    /// PCPUs that the real-time pool shall have.
    pub wants: u32,
    /// Until it gives the others back, if it has more.
    pub shrinks_us: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartStatus {
    pub name: String,
    /// Its number.
    pub cpupool: u32,
    pub policy: String,
    pub pcpus: Vec<u32>,
    pub domains: Vec<MemberStatus>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStatus {
    pub name: String,
    pub domid: u16,
    /// For instance `2ms/10ms`, or `-`.
    pub share: String,
}

impl Manager {
    pub fn new(pools: RtPool, settings: Settings) -> Self {
        Self { pools, partition: Partition::new(settings.live()), seen: None, announced: Announced::default() }
    }

    /// When [`Manager::look`] is to be called at the latest, ns.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.partition.due()
    }

    /// Whether it decides where this domain lives.
    #[must_use]
    pub fn is_managed(&self, domain: &Domain) -> bool {
        self.pools.is_managed(domain)
    }

    /// Follows domains and PCPUs that have come or gone, and the end of the delay.
    ///
    /// # Errors
    /// The host refuses an operation; the next look tries again.
    pub fn look(&mut self, now: u64) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        if self.seen.is_none() || self.seen != Some(self.state()?) {
            let refused = self.settle(now)?;
            let domains = self.pools.host().domains()?;
            let refused = domains.iter().filter(|d| refused.contains(&d.id.into()));
            lines.extend(
                refused.map(|d| format!("domain {}: the rt-pool has no room for it; it stays in {MAIN}", d.name)),
            );
        }
        if self.partition.due().is_some_and(|due| due <= now) {
            self.seen = None;
            self.partition.timer(&mut self.pools, now)?;
            self.settle(now)?;
        }
        lines.extend(self.news(now)?);
        Ok(lines)
    }

    /// Gives a domain the parameters of a server, or takes them away.
    ///
    /// # Errors
    /// It is not admitted, or the host refuses it: nothing has changed then.
    pub fn set(&mut self, now: u64, domain: &Domain, params: &VmParams) -> Result<()> {
        let name = || format!("domain `{}` ({})", domain.name, domain.id);
        let have = self.pools.host().server(domain)?;
        let want = params.server_on(&have);
        ensure!(
            domain.id != 0 || !want.is_some(),
            "{}: it stays in {MAIN} and cannot have a budget under risa",
            name()
        );
        if !self.is_managed(domain) {
            return self.pools.host().set_server(domain, &have, &want);
        }
        self.seen = None;
        self.partition.set(&mut self.pools, now, domain.id.into(), &want).with_context(name)?;
        // What others lack the next look finds, and says.
        let _ = self.settle(now);
        Ok(())
    }

    /// Both pools, as `takt status` shows them.
    ///
    /// # Errors
    /// The hypervisor does not answer.
    pub fn status(&self, now: u64) -> Result<PartitionStatus> {
        let host = self.pools.host();
        let (domains, bits) = (host.domains()?, self.pools.bits()?);
        let mut pools = Vec::new();
        for ((name, pool), bits) in self.pools.pools().into_iter().zip(bits) {
            let there = domains.iter().filter(|d| d.pool.id == pool.id);
            // One that goes just now has no server any more.
            let share = |d: &Domain| show(&host.server(d).unwrap_or_default());
            let domains = there.map(|d| MemberStatus { name: d.name.clone(), domid: d.id, share: share(d) }).collect();
            let (policy, pcpus) = (pool.policy.name.into(), list(bits));
            pools.push(PartStatus { name: name.into(), cpupool: pool.id, policy, pcpus, domains });
        }
        let shrinks_us = self.due().map(|due| due.saturating_sub(now) as f64 / 1e3);
        Ok(PartitionStatus { pools, wants: self.partition.wants(&self.pools)?, shrinks_us })
    }

    /// All goes back to Pool-0.
    ///
    /// # Errors
    /// The hypervisor refuses it.
    pub fn close(self) -> Result<()> {
        self.pools.close()
    }

    /// Until both pools are after it what they were before: a domain that goes meanwhile would count as one whose going was followed. Returns
    /// the domains that are not admitted.
    fn settle(&mut self, now: u64) -> Result<Vec<u32>> {
        self.seen = None;
        let mut refused = Vec::new();
        let mut before = self.state()?;
        for _ in 0..SETTLES {
            refused = self.partition.settle(&mut self.pools, now)?;
            let after = self.state()?;
            if before == after {
                self.seen = Some(after);
                break;
            }
            before = after;
        }
        Ok(refused)
    }

    fn state(&self) -> Result<([u64; 2], BTreeSet<u16>)> {
        let domains = self.pools.host().domains()?;
        let inside = domains.iter().filter(|d| self.pools.side(d) == Some(Side::Rt)).map(|d| d.id).collect();
        Ok((self.pools.bits()?, inside))
    }

    /// What is to be said of the rt-pool.
    fn news(&mut self, now: u64) -> Result<Vec<String>> {
        let domains = self.pools.host().domains()?;
        let inside = domains.iter().filter(|d| self.pools.side(d) == Some(Side::Rt)).map(|d| d.name.clone()).collect();
        let [_, pcpus] = self.pools.bits()?;
        let new = Announced { pcpus, domains: inside, due: self.due().is_some() };
        let old = std::mem::replace(&mut self.announced, new.clone());
        let mut lines = Vec::new();
        let (came, went) = (new.domains.difference(&old.domains), old.domains.difference(&new.domains));
        lines.extend(came.map(|name| format!("domain {name}: in {RT}")));
        lines.extend(went.map(|name| format!("domain {name}: no longer in {RT}")));
        if (new.pcpus, new.due) != (old.pcpus, old.due) {
            let left = self.due().map(|due| duration::human(due.saturating_sub(now) as f64));
            let then = match left {
                Some(left) => format!(", {} in {left}", self.partition.wants(&self.pools)?),
                None => String::new(),
            };
            lines.push(format!("{RT}: {}{}{then}", count(pcpus.count_ones()), names(&list(pcpus))));
        }
        Ok(lines)
    }
}

fn list(bits: u64) -> Vec<u32> {
    (0..u64::BITS).filter(|n| bits >> n & 1 != 0).collect()
}

/// For instance `2 PCPUs`.
#[must_use]
pub fn count(pcpus: u32) -> String {
    format!("{pcpus} PCPU{}", if pcpus == 1 { "" } else { "s" })
}

/// For instance ` (1, 2)`.
fn names(pcpus: &[u32]) -> String {
    let all: Vec<_> = pcpus.iter().map(u32::to_string).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

fn show(server: &Server) -> String {
    takt_control::ServerStatus::from(server).share()
}

#[cfg(test)]
mod tests;
