// SPDX-License-Identifier: GPL-2.0-only
//! Reports and domains, with a hypervisor that is a pool and a monitor that is told what it sees.

use super::*;
use crate::fake::Fake;
use crate::fakes::Fakes;
use crate::rtpool::RtPool;
use crate::schema;
use crate::status::DeviceStatus;
use takt_control::partition::Settings;
use takt_control::{Event, document};

/// Domain `n` has slot `n`, generation 1.
#[derive(Default)]
struct FakeEyes {
    scanned: Vec<u16>,
    ports: Vec<u16>,
}

impl Eyes for FakeEyes {
    fn scan(&mut self, domains: &[Domain]) -> Vec<String> {
        self.scanned = domains.iter().map(|d| d.id).collect();
        Vec::new()
    }
    fn domain_of(&self, report: &Report) -> Option<u16> {
        let id = report.vm as u16;
        (report.generation == 1 && self.scanned.contains(&id)).then_some(id)
    }
    fn devices(&self, id: u16) -> Vec<DeviceStatus> {
        vec![DeviceStatus { name: format!("vif{id}.0"), kind: "vif".into() }]
    }
    fn blind(&self, _: u16) -> Option<String> {
        None
    }
    fn times(&self, _: u16) -> Option<Times> {
        Some(Times { first: 1, ..Times::default() })
    }
    fn ports(&mut self, _: u16, ports: &[u16]) -> Result<()> {
        self.ports = ports.to_vec();
        Ok(())
    }
    fn watch(&mut self, _: u16, ifname: &str) -> Result<()> {
        anyhow::bail!("{ifname}: no such network device")
    }
}

fn live(fake: &std::sync::Arc<Fake>, config: &str) -> Live<FakeEyes> {
    Live::new(fake.host(&[]), FakeEyes::default(), toml::from_str(config).unwrap())
}

/// What the policy has of a VM's setting.
fn has(fake: &Fake, vm: u32, name: &str) -> u64 {
    VmParams::of(&fake.state().pool, vm).unwrap().value(name)
}

fn report(rt: bool, changes: u64, now: u64, period: u64) -> Report {
    let rule = (1..9).find(|n| rule_name(*n) == "rtp").unwrap();
    Report { vm: 3, generation: 1, rt: rt.into(), rule, changes, now, period, lease: 1_060_000_000 }
}

fn real_time(name: &str, rule: &str) -> Event {
    Event::RealTime { name: name.into(), rule: rule.into() }
}

#[test]
fn domains_are_met_and_guests_watched() {
    let fake = Fake::new();
    let mut live = live(&fake, "");
    let news = live.look().unwrap();
    assert_eq!(news.len(), 3);
    assert_eq!(news[1], Event::VmFound { name: "voip".into(), tgid: None, domid: Some(3) });
    assert_eq!(live.eyes.scanned, [3, 7]);
    assert_eq!(live.look().unwrap(), []);
    fake.state().schedulers = vec![6];
    assert!(live.look().unwrap_err().to_string().contains("no cpupool runs Takt"));
}

#[test]
fn types_and_periods_reach_the_hypervisor() {
    let fake = Fake::new();
    let mut live = live(&fake, "");
    live.look().unwrap();
    let stat = || fake.state().pool.vm_stat(1).unwrap();
    assert_eq!(live.report(&report(true, 1, 100, 0)), [real_time("voip", "rtp")]);
    assert_eq!((stat().rt, stat().period), (1, 0));
    assert_eq!(live.report(&report(true, 1, 130, 20_000_000)), []);
    assert_eq!((stat().rt, stat().period), (1, 20_000_000));
    assert!(stat().lease_end > 1_060_000_000);
    assert_eq!(live.report(&report(true, 1, 120, 7_000_000)), [], "older than what is known");
    assert_eq!(stat().period, 20_000_000);
    assert_eq!(live.look().unwrap(), [real_time("Domain-0", "dom0")]);
    assert_eq!(live.seen()[&3].0.as_deref(), Some("rtp"));
    live.report(&report(false, 2, 140, 0));
    assert_eq!(live.report(&report(true, 1, 150, 7_000_000)), [], "before the demotion");
    assert_eq!(stat().rt, 0);
    assert!(live.look().unwrap().contains(&Event::NotRealTime { name: "voip".into() }));
    let other = Report { generation: 2, ..report(true, 9, 900, 0) };
    assert_eq!(live.report(&other), [], "of a domain that has gone");
}

#[test]
fn what_must_not_be_real_time_is_not() {
    let fake = Fake::new();
    let mut live = live(&fake, "[vm.voip]\nrt = \"off\"\nweight = 512\nports = [554]");
    live.look().unwrap();
    assert_eq!(has(&fake, 1, "weight"), 512);
    assert_eq!(live.eyes.ports, [554]);
    assert_eq!(live.report(&report(true, 1, 100, 0)), []);
    let seen = live.seen();
    assert_eq!(seen[&3].1.monitor.as_ref().unwrap()["ret"], -libc::EBUSY);
    let again: BTreeMap<u16, (Option<String>, Seen)> =
        serde_json::from_value(serde_json::to_value(&seen).unwrap()).unwrap();
    assert_eq!(again, seen, "as the control socket carries it");
}

#[test]
fn settings_by_hand() {
    let fake = Fake::new();
    let mut live = live(&fake, "");
    live.look().unwrap();
    let parse = |text: &str| Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    live.set("voip", &parse("rt=on period=20ms cap=50")).unwrap();
    let stat = fake.state().pool.vm_stat(1).unwrap();
    assert_eq!((stat.rt, stat.period, has(&fake, 1, "cap")), (1, 20_000_000, 50));
    assert!(live.look().unwrap().contains(&real_time("voip", "by hand")));
    let error = live.set("voip", &parse("dev=tap0 cap=10")).unwrap_err();
    assert_eq!(format!("{error:#}"), "domain `voip`: tap0: no such network device");
    assert_eq!(has(&fake, 1, "cap"), 50, "all or none");
    assert!(live.set("web", &parse("cap=10")).unwrap_err().to_string().contains("no domain `web`"));
}

/// Rule P35: four VCPUs on two PCPUs are two subgroups.
#[test]
fn groups_are_packed_and_told() {
    let fake = Fake::under("poris");
    let mut live = live(&fake, "[vm.voip]\ngroup = \"web\"\nlatency = \"5ms\"");
    live.look().unwrap();
    let groups = || [1, 2].map(|vm| fake.state().pool.vm_stat(vm).unwrap().group);
    assert_eq!((groups(), has(&fake, 1, "latency")), ([1, 0], 5_000_000));
    let other = live.host.domains().unwrap().into_iter().find(|d| d.id == 7).unwrap().name;
    let parse = |text: &str| Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    live.set(&other, &parse("group=web laxity=20us")).unwrap();
    assert_eq!(groups(), [1, 1 | 1 << 16]);
    assert_eq!(live.seen()[&7].1.group, "web");
    live.set("voip", &parse("group=")).unwrap();
    assert_eq!(groups(), [0, 1], "who is left is packed anew");
    // A policy that knows none.
    let fake = Fake::new();
    let mut live = Live::new(fake.host(&[]), FakeEyes::default(), HostConfig::default());
    live.look().unwrap();
    let error = format!("{:#}", live.set("voip", &parse("group=web weight=300")).unwrap_err());
    assert_eq!(error, "domain `voip`: `group` of `voip` has no effect: policy `doris` has no groups");
    assert_eq!(has(&fake, 1, "weight"), 256, "all or none");
    assert_eq!(live.look().unwrap(), [], "and it is in none");
}

/// The hypervisor keeps groups when `takt run` ends; the next one goes on with them, and with what its configuration says.
#[test]
fn groups_outlast_who_told_them() {
    let fake = Fake::under("poris");
    let groups = || [1, 2].map(|vm| fake.state().pool.vm_stat(vm).unwrap().group);
    let look = |config: &str| {
        let host = fake.host(&[("/local/domain/7/name", "mail")]);
        let news = Live::new(host, FakeEyes::default(), toml::from_str(config).unwrap()).look().unwrap();
        assert!(news.iter().all(|news| matches!(news, Event::VmFound { .. })), "{news:?}");
    };
    let config = "[vm.voip]\ngroup = \"web\"\n[vm.mail]\ngroup = \"web\"";
    look(config);
    assert_eq!(groups(), [1, 1 | 1 << 16]);
    look("[vm.voip]\ngroup = \"b\"\nweight = 300");
    assert_eq!((groups(), has(&fake, 1, "weight")), ([1, 0], 300));
    look(config);
    assert_eq!(groups(), [1, 1 | 1 << 16]);
}

/// What the policy refuses of one group is no other's, and leaves it what it was.
#[test]
fn a_group_that_is_refused_holds_up_nobody() {
    let fake = Fake::under("poris");
    let mut live = live(&fake, "[vm.voip]\ngroup = \"a\"");
    live.look().unwrap();
    let parse = |text: &str| Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    let groups = || [1, 2].map(|vm| fake.state().pool.vm_stat(vm).unwrap().group);
    // Somebody else has put it into one.
    fake.state().pool.set_group(2000, 2, 9).unwrap();
    let error = format!("{:#}", live.set("7", &parse("group=b weight=300")).unwrap_err());
    assert!(error.contains("domain `domain-7` (7): its group"), "{error}");
    assert_eq!((live.seen()[&7].1.group.as_str(), has(&fake, 2, "weight")), ("", 256));
    let error = live.set("7", &parse("group=a")).unwrap_err();
    assert_eq!(groups(), [1, 9], "{error:#}");
    live.set("voip", &parse("group=")).unwrap();
    live.set("voip", &parse("group=c")).unwrap();
    assert_eq!(groups(), [1, 9]);
    assert!(live.look().unwrap().iter().all(|news| !matches!(news, Event::Warning { .. })));
}

fn managed(fakes: &std::sync::Arc<Fakes>, config: &str) -> Live<FakeEyes> {
    let pools = RtPool::open(fakes.host(), "vgedf", &[]).unwrap();
    let manager = Manager::new(pools, Settings::default());
    Live::new(fakes.host(), FakeEyes::default(), toml::from_str(config).unwrap()).managed(manager)
}

#[test]
fn what_is_told_is_as_published() {
    let fake = Fake::new();
    let mut live = live(&fake, "[vm.voip]\nports = [554]");
    live.look().unwrap();
    live.report(&report(true, 1, 100, 20_000_000));
    schema::example::<super::GuestStatus>(&document::value(&live.guests().unwrap()).unwrap());
}

/// Under risa: a budget moves its domain, and what is set with it goes along.
#[test]
fn budgets_are_the_managers() {
    let fakes = Fakes::new(4);
    let mut live = managed(&fakes, "[vm.voip]\nbudget = \"6ms\"\nperiod = \"10ms\"\nweight = 512");
    fakes.create(4, "web", 1);
    live.look().unwrap();
    assert!(live.due().is_none());
    // The toolstack is still making it: it has no name.
    fakes.create(3, "", 1);
    live.look().unwrap();
    assert_eq!((fakes.home(3), fakes.bits()[1]), (0, 0));
    fakes.rename(3, "voip");
    let news = live.look().unwrap();
    assert_eq!((fakes.home(3), fakes.home(4), fakes.bits()[1]), (1, 0, 0b10));
    assert!(news.contains(&Event::Partition { text: "takt-rt: 1 PCPU (1)".into() }), "{news:?}");
    let host = fakes.host();
    assert_eq!(host.get(&host.find("voip").unwrap(), "weight").unwrap(), 512);
    let parse = |text: &str| Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    live.set("web", &parse("budget=6ms period=10ms cap=50")).unwrap();
    assert_eq!((fakes.home(4), host.get(&host.find("web").unwrap(), "cap").unwrap()), (1, 50));
    let error = live.set("web", &parse("budget=11ms cap=70")).unwrap_err();
    assert_eq!(format!("{error:#}"), "domain `web` (4): `budget` must be at most the period of 10ms (got `11ms`)");
    assert_eq!(host.get(&host.find("web").unwrap(), "cap").unwrap(), 50, "all or none");
    live.set("web", &parse("budget=0")).unwrap();
    assert!(live.due().is_some());
    let value = document::value(&live.guests().unwrap()).unwrap();
    schema::valid::<super::GuestStatus>(&value);
    let told: super::GuestStatus = document::read(value).unwrap();
    assert_eq!((told.partition.unwrap().wants, told.domains.len()), (1, 3));
    live.close().unwrap();
    assert_eq!((fakes.home(3), fakes.bits()), (0, [0b1111, 0]));
}

/// All or none: a budget is taken back when what was set with it is refused.
#[test]
fn a_budget_goes_when_the_rest_is_refused() {
    let fakes = Fakes::new(4);
    let mut live = managed(&fakes, "");
    fakes.create(3, "voip", 1);
    live.look().unwrap();
    let parse = |text: &str| Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    live.set("voip", &parse("budget=2ms period=10ms")).unwrap();
    let host = fakes.host();
    host.pools().unwrap().iter().for_each(|pool| host.set_pool(pool, &["rt_max=0".into()], false).unwrap());
    fakes.create(4, "web", 1);
    let server = |name: &str| host.server(&host.find(name).unwrap()).unwrap();
    let error = live.set("web", &parse("budget=9ms period=10ms rt=on")).unwrap_err().to_string();
    assert!(error.ends_with("the policy already has `rt_max` real-time VMs"), "{error}");
    assert_eq!((server("web").is_some(), fakes.home(4), live.due().is_some()), (false, 0, true));
    live.set("voip", &parse("budget=1ms rt=on cap=50")).unwrap_err();
    assert_eq!((server("voip").budget, fakes.home(3)), (2_000_000, 1));
    // Where no manager is, the same.
    let mut live = Live::new(host.clone(), FakeEyes::default(), HostConfig::default());
    live.set("web", &parse("budget=9ms period=10ms rt=on")).unwrap_err();
    assert!(!server("web").is_some());
}

/// Bad news of the manager's is said once, and nothing else stops.
#[test]
fn a_manager_that_fails_is_no_end() {
    let fakes = Fakes::new(4);
    let mut live = managed(&fakes, "");
    live.look().unwrap();
    fakes.all().change(crate::hypercall::PoolOp::Destroy { pool: 1 }).unwrap();
    assert_eq!(live.look().unwrap(), [Event::Warning { text: "cpupool takt-rt is gone".into() }]);
    assert_eq!(live.look().unwrap(), []);
    live.close().unwrap();
}

/// Without a manager of pools a server is the policy's alone.
#[test]
fn a_budget_is_set_where_nobody_manages_pools() {
    let fake = Fake::under("sedf");
    let mut live = live(&fake, "");
    live.look().unwrap();
    let values = ["budget=1ms", "period=10ms", "weight=7"].map(String::from);
    live.set("voip", &Setting::parse(&values).unwrap()).unwrap();
    assert_eq!(["budget", "period", "weight"].map(|name| has(&fake, 1, name)), [1_000_000, 10_000_000, 7]);
}
