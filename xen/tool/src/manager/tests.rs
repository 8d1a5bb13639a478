// SPDX-License-Identifier: GPL-2.0-only
//! Domains that come, are resized and go, with a hypervisor that has several cpupools.

use super::*;
use crate::fakes::Fakes;
use crate::hypercall::PoolOp;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

struct Host {
    fakes: Arc<Fakes>,
    manager: Manager,
}

impl Host {
    fn new(pcpus: u32) -> Self {
        let fakes = Fakes::new(pcpus);
        let manager = Self::manager(&fakes);
        Self::with(fakes, manager)
    }

    /// As `takt run -p` is told.
    fn under(policy: &str, pcpus: u32) -> Self {
        let policy = takt_control::PolicySpec::parse(policy).unwrap().pools.unwrap();
        let takt_control::pools::Size::Managed(settings) = policy.size else { panic!("{policy:?}") };
        let fakes = Fakes::new(pcpus);
        let reserve = takt_control::pools::Pools::defaults();
        let manager = Manager::new(RtPool::open(fakes.host(), &policy.rt, &[reserve]).unwrap(), settings);
        Self::with(fakes, manager)
    }

    fn with(fakes: Arc<Fakes>, manager: Manager) -> Self {
        let mut host = Self { fakes, manager };
        assert_eq!(host.look(0), ["takt-rt: 0 PCPUs"; 0]);
        host
    }

    fn manager(fakes: &Arc<Fakes>) -> Manager {
        let reserve = takt_control::pools::Pools::defaults();
        Manager::new(RtPool::open(fakes.host(), "vgedf", &[reserve]).unwrap(), Settings::default())
    }

    fn look(&mut self, now: u64) -> Vec<String> {
        self.manager.look(now).unwrap()
    }

    fn set(&mut self, now: u64, name: &str, budget: u64, period: u64) -> Result<()> {
        let domain = self.fakes.host().find(name)?;
        let params = VmParams::default().with("budget", budget * MS).with("period", period * MS);
        self.manager.set(now, &domain, &params)
    }

    /// PCPUs of the rt-pool.
    fn size(&self) -> u32 {
        self.fakes.bits()[1].count_ones()
    }
}

fn line<T>(result: Result<T>) -> String {
    let line = format!("{:#}", result.err().expect("an error"));
    assert!(!line.contains('\n'), "{line}");
    line
}

/// RISA-E1's script on eight PCPUs, with the published delay.
#[test]
fn the_pool_follows_the_domains() {
    let mut h = Host::under("risa(hold=delay)", 8);
    for id in 1..=3 {
        h.fakes.create(id, &format!("vm{id}"), 1);
    }
    assert!(h.look(1).is_empty(), "nobody asks");
    h.set(2, "vm1", 6, 10).unwrap();
    assert_eq!((h.size(), h.fakes.home(1), h.fakes.home(2)), (1, 1, 0), "before it is looked at");
    h.set(3, "vm2", 6, 10).unwrap();
    assert_eq!((h.size(), h.fakes.home(2), h.fakes.home(3), h.fakes.home(0)), (2, 1, 0, 0));
    assert_eq!(h.look(4), ["domain vm1: in takt-rt", "domain vm2: in takt-rt", "takt-rt: 2 PCPUs (1, 2)"]);
    h.set(SECOND, "vm1", 2, 10).unwrap();
    assert_eq!((h.size(), h.manager.due()), (2, Some(16 * SECOND)));
    assert_eq!(h.look(SECOND), ["takt-rt: 2 PCPUs (1, 2), 1 in 15s"]);
    // One that asks for nothing comes and goes: the delay is the same.
    h.fakes.create(4, "vm4", 2);
    h.look(5 * SECOND);
    h.fakes.destroy(4);
    assert!(h.look(16 * SECOND - 1).is_empty());
    assert_eq!(h.look(16 * SECOND), ["takt-rt: 1 PCPU (1)"]);
    h.fakes.destroy(1);
    h.fakes.destroy(2);
    assert_eq!(h.look(20 * SECOND)[2], "takt-rt: 1 PCPU (1), 0 in 15s");
    let status = h.manager.status(30 * SECOND).unwrap();
    assert_eq!((status.wants, status.shrinks_us, status.pools[1].pcpus.clone()), (0, Some(5e6), vec![1]));
    h.look(35 * SECOND);
    assert_eq!((h.size(), h.fakes.bits()[0]), (0, 0xff));
    h.manager.close().unwrap();
    assert_eq!(h.fakes.all().parts.len(), 1);
}

/// Unless told otherwise: for as long again as they were needed.
#[test]
fn pcpus_of_a_short_life_go_soon() {
    let mut h = Host::new(8);
    h.fakes.create(1, "vm1", 1);
    h.set(SECOND, "vm1", 6, 10).unwrap();
    assert_eq!((h.size(), h.manager.due()), (1, None));
    h.fakes.destroy(1);
    assert_eq!(h.look(3 * SECOND).pop().unwrap(), "takt-rt: 1 PCPU (1), 0 in 40ms");
    h.look(5 * SECOND);
    assert_eq!(h.size(), 0);
}

#[test]
fn both_pools_are_shown() {
    let mut h = Host::new(4);
    h.fakes.create(1, "voip", 1);
    h.fakes.create(2, "web", 1);
    h.set(0, "voip", 6, 10).unwrap();
    let [main, rt] = &h.manager.status(0).unwrap().pools[..] else { panic!() };
    let names = |p: &PartStatus| p.domains.iter().map(|d| format!("{} {}", d.name, d.share)).collect::<Vec<_>>();
    assert_eq!((main.name.as_str(), main.policy.as_str(), main.pcpus.clone()), ("Pool-0", "credit", vec![0, 2, 3]));
    assert_eq!((rt.name.as_str(), rt.policy.as_str(), rt.pcpus.clone()), ("takt-rt", "vgedf", vec![1]));
    assert_eq!((names(main), names(rt)), (vec!["Domain-0 -".into(), "web -".into()], vec!["voip 6ms/10ms".into()]));
    let again: PartitionStatus =
        serde_json::from_value(serde_json::to_value(h.manager.status(0).unwrap()).unwrap()).unwrap();
    assert_eq!(again, h.manager.status(0).unwrap(), "as the control socket carries it");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut h = Host::new(4);
    h.fakes.create(1, "voip", 2);
    h.fakes.create(2, "web", 2);
    h.set(0, "voip", 6, 10).unwrap();
    let before = (h.fakes.bits(), h.fakes.all().done.len());
    let error = line(h.set(1, "web", 10, 10));
    assert_eq!(error, "domain `web` (2): the rt-pool would need 4 PCPUs of 4, and 1 stay outside; allowed: 3");
    assert!(line(h.set(1, "web", 11, 10)).contains("`budget` must be at most the period of 10ms (got `11ms`)"));
    assert!(line(h.set(1, "Domain-0", 1, 10)).contains("it stays in Pool-0 and cannot have a budget under risa"));
    assert!(line(h.set(1, "mail", 1, 10)).contains("no domain `mail`"));
    assert_eq!((h.fakes.bits(), h.fakes.all().done.len()), before);
    let host = h.fakes.host();
    assert!(!host.server(&host.find("web").unwrap()).unwrap().is_some());
    // Taking a budget away from who has none is no error.
    h.set(2, "Domain-0", 0, 0).unwrap();
}

/// Servers that keep to a PCPU each have one with room (rule K23), or the domain has what it had.
#[test]
fn a_pool_of_servers_that_keep_to_a_pcpu() {
    for rt in ["sedf", "rtxen"] {
        let mut h = Host::under(&format!("risa(rt={rt})"), 4);
        let mut few = Host::under(&format!("risa(rt={rt},need=paper)"), 4);
        for (id, name) in [(1, "one"), (2, "two"), (3, "three")] {
            h.fakes.create(id, name, 1);
            few.fakes.create(id, name, 1);
            h.set(0, name, 6, 10).unwrap();
        }
        assert_eq!((h.size(), [1, 2, 3].map(|id| h.fakes.home(id))), (3, [1, 1, 1]));
        few.set(0, "one", 6, 10).unwrap();
        few.set(0, "two", 2, 10).unwrap();
        assert_eq!(few.size(), 1);
        few.set(0, "two", 6, 10).unwrap();
        assert!(
            line(few.set(SECOND, "three", 6, 10))
                .ends_with("no PCPU has room for this in addition to the other budgets")
        );
        let host = few.fakes.host();
        assert_eq!((few.fakes.home(3), host.server(&host.find("three").unwrap()).unwrap().is_some()), (0, false));
        let due = few.manager.due();
        few.look(2 * SECOND);
        assert_eq!((few.size(), few.manager.due()), (2, due), "and nobody tries again");
    }
}

#[test]
fn who_meddles_is_put_right() {
    let mut h = Host::new(4);
    h.fakes.create(1, "voip", 1);
    h.fakes.create(2, "web", 1);
    h.set(0, "voip", 6, 10).unwrap();
    h.look(1);
    // Another PCPU than was needed, and a domain that has no budget.
    h.fakes.all().change(PoolOp::RemoveCpu { pool: 0, cpu: 3 }).unwrap();
    h.fakes.all().change(PoolOp::AddCpu { pool: 1, cpu: 3 }).unwrap();
    h.fakes.all().change(PoolOp::MoveDomain { pool: 1, domain: 2 }).unwrap();
    h.look(SECOND);
    assert_eq!((h.fakes.home(2), h.manager.due().is_some()), (0, true));
    h.look(2 + 15 * SECOND);
    assert_eq!(h.fakes.bits(), [0b1101, 0b0010]);
    // A PCPU that somebody takes is replaced, if there is another one.
    h.set(16 * SECOND, "web", 6, 10).unwrap();
    assert_eq!(h.fakes.bits(), [0b1001, 0b0110]);
    h.fakes.all().change(PoolOp::RemoveCpu { pool: 1, cpu: 1 }).unwrap();
    h.look(17 * SECOND);
    assert_eq!((h.fakes.bits(), h.fakes.all().free), ([0b0001, 0b1100], 0b0010));
    // None is left: what is there stays as it is, and nobody else gets in.
    h.fakes.create(3, "mail", 1);
    assert!(line(h.set(18 * SECOND, "mail", 9, 10)).contains("of 3, and 1 stay outside; allowed: 2"));
    // The pool of somebody who is killed goes on under the next one.
    let mut next = Host { fakes: h.fakes.clone(), manager: Host::manager(&h.fakes) };
    assert_eq!(next.look(0)[2], "takt-rt: 2 PCPUs (2, 3)");
    next.set(1, "web", 0, 0).unwrap();
    next.look(1 + 15 * SECOND);
    assert_eq!((next.fakes.bits(), next.fakes.home(1), next.fakes.home(2)), ([0b1001, 0b0100], 1, 0));
}

#[test]
fn what_fails_is_tried_again() {
    let mut h = Host::new(4);
    h.fakes.create(1, "voip", 1);
    h.set(0, "voip", 6, 10).unwrap();
    h.set(SECOND, "voip", 0, 0).unwrap();
    h.look(SECOND);
    let leave = PoolOp::RemoveCpu { pool: 1, cpu: 1 };
    h.fakes.all().refuse = vec![(leave, libc::EINVAL, 1)];
    assert!(line(h.manager.look(16 * SECOND)).starts_with("PCPU 1: its move from takt-rt to Pool-0"));
    h.look(17 * SECOND);
    h.look(32 * SECOND);
    assert_eq!(h.size(), 0);
}

/// Whenever the second one goes while the pools are brought in line with the first one's going, that is followed, too.
#[test]
fn a_domain_that_goes_meanwhile_is_missed_later() {
    for asked in 0..20 {
        let mut h = Host::new(4);
        for (id, name) in [(1, "one"), (2, "two")] {
            h.fakes.create(id, name, 1);
            h.set(1, name, 2, 10).unwrap();
        }
        h.look(2);
        assert_eq!(h.size(), 1);
        h.fakes.destroy(1);
        h.fakes.all().leaves = Some((asked, 2));
        // Who has just gone may be asked for.
        for second in 1..=40 {
            let _ = h.manager.look(second * SECOND);
        }
        assert!(h.fakes.all().leaves.is_none());
        assert_eq!(h.size(), 0, "gone after {asked} looks");
    }
}
