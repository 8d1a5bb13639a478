// SPDX-License-Identifier: GPL-2.0-only
//! Each thing that may be said goes to its own place, and is told from there: no key is another's.

use anyhow::Result;
use std::collections::BTreeMap;
use takt_control::overhead::{Times, Window};
use takt_control::params::is_server;
use takt_control::pools::{Pools, Size};
use takt_control::settings::named;
use takt_control::{
    Change, Entry, Host, HostConfig, PolicySpec, Ports, RtMode, Server, ServerStatus, Setting, VmConfig, VmParams,
    VmState, Wait, WaitStatus, apply, one_line, printable, spec, waits,
};
use takt_policy::{Kind, Overhead, Pool, params, vm_settings};

const MS: u64 = 1_000_000;

fn ports(list: &[(u16, u16)]) -> Ports {
    Ports::new(list.to_vec()).unwrap()
}

/// The parameter of that name, of a VM or of the pool.
fn key(name: &str, per_vm: bool) -> u32 {
    takt_policy::param(name, per_vm).expect(name).key
}

#[test]
fn a_setting_has_one_place() {
    let of = |name, value| Setting { params: VmParams::default().with(name, value), ..Setting::default() };
    for (pair, want) in [
        ("rt=on", of("rt", 1)),
        ("rt=off", of("rt", 2)),
        ("rt=auto", of("rt", 0)),
        ("weight=7", of("weight", 7)),
        ("cap=7", of("cap", 7)),
        ("budget=7ms", of("budget", 7 * MS)),
        ("priority=7", of("priority", 7)),
        ("extra=on", of("extra", 1)),
        ("extra=off", of("extra", 0)),
        ("laxity=7ms", of("laxity", 7 * MS)),
        ("latency=7ms", of("latency", 7 * MS)),
        ("group=a", Setting { group: Some("a".into()), ..Setting::default() }),
        ("group=", Setting { group: Some(String::new()), ..Setting::default() }),
        ("ports=7", Setting { ports: Some(ports(&[(7, 7)])), ..Setting::default() }),
        ("dev=tap0", Setting { dev: Some("tap0".into()), ..Setting::default() }),
    ] {
        assert_eq!(Setting::parse(&[pair.into()]).unwrap(), want, "{pair}");
    }
}

/// A configuration in which every value differs from the default and from every other one.
fn distinct() -> VmConfig {
    let params = VmParams::default().with("rt", 1).with("weight", 11).with("cap", 12).with("budget", 13 * MS);
    let params = params.with("period", 14 * MS).with("priority", 15).with("extra", 0);
    VmConfig {
        params: params.with("laxity", 16 * MS).with("latency", 17 * MS),
        ports: ports(&[(5, 6), (9, 9)]),
        group: "g".into(),
    }
}

/// The same as a table says it, which also names an owner.
fn table() -> Entry {
    Entry { cgroup: Some("c/d".into()), uid: Some(18), ..Entry::from(distinct()) }
}

#[test]
fn a_file_says_each_key_for_itself() {
    let base = Entry::default;
    let with = |name, value| Entry { params: VmParams::default().with(name, value), ..base() };
    for (line, want) in [
        ("rt = \"on\"", with("rt", RtMode::On as u64)),
        ("rt = \"off\"", with("rt", RtMode::Off as u64)),
        ("ports = [\"5-6\", 9]", Entry { ports: Some(ports(&[(5, 6), (9, 9)])), ..base() }),
        ("weight = 11", with("weight", 11)),
        ("cap = 12", with("cap", 12)),
        ("budget = \"13ms\"", with("budget", 13 * MS)),
        ("period = \"14ms\"", with("period", 14 * MS)),
        ("priority = 15", with("priority", 15)),
        ("extra = false", with("extra", 0)),
        ("laxity = \"16ms\"", with("laxity", 16 * MS)),
        ("latency = \"17ms\"", with("latency", 17 * MS)),
        ("group = \"g\"", Entry { group: Some("g".into()), ..base() }),
        ("cgroup = \"c/d\"", Entry { cgroup: Some("c/d".into()), ..base() }),
        ("uid = 18", Entry { uid: Some(18), ..base() }),
    ] {
        let config = HostConfig::from_toml(&format!("[vm.web]\n{line}")).unwrap();
        assert_eq!(config.vm["web"], want, "{line}");
    }
    let text = toml::to_string(&HostConfig { vm: [("web".into(), table())].into(), ..HostConfig::default() }).unwrap();
    for line in ["budget = \"13ms\"", "laxity = \"16ms\"", "ports = [\"5-6\", 9]", "uid = 18", "cgroup = \"c/d\""] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(HostConfig::from_toml(&text).unwrap().vm["web"], table());
    let plain = toml::to_string(&VmConfig::default()).unwrap();
    for key in ["laxity", "latency", "cgroup", "uid"] {
        assert!(!plain.contains(key), "{key} is left out where nothing is said: {plain}");
    }
}

#[test]
fn defaults_are_those_of_the_policies() {
    let c = VmConfig::default();
    let names = ["weight", "cap", "rt", "laxity", "latency"];
    assert_eq!(names.map(|name| c.params.get(name)), [256, 0, 0, 0, 0].map(Some));
    assert_eq!(c.server(), Server { budget: 0, period: 0, priority: 1000, extra: true });
    assert!(c.ports.is_empty() && c.group.is_empty() && !Entry::default().has_owner());
    let (pool, vm) = (|name| key(name, false), |name| key(name, true));
    assert_eq!(Pools::defaults(), (pool("reserve"), 0));
    let published = |name: &str| Pools::named(name).expect("two pools").published();
    assert_eq!(published("risa"), [(pool("reserve"), 0)]);
    assert_eq!(published("sp"), [(pool("reserve"), 0), (pool("admission"), 0)], "SEDF refuses nothing (rule E14)");
    for info in params() {
        let want = match info.name {
            "surplus" | "preempted" | "demote" | "spread" | "claim" | "leftover" | "tickle" | "wake_cpu" | "resort" => {
                1
            }
            "eligible" | "rt_contention" | "dynamic" | "balance" => 2,
            "ctx_allow" => 1_000_000,
            "rt_max" => info.max,
            "longest_wait" => 8_000_000_000,
            "boost_turn" => 40_000,
            "spent_wake" | "penalty" | "idle_quantum" => 0,
            _ => info.default,
        };
        assert_eq!((info.linux, info.xen), (want, want), "{}", info.name);
    }
    let order = spec::refusable_first(vec![(pool("slice"), 1), (pool("reserve"), 2), (pool("tick"), 3)]);
    assert_eq!(order, [(pool("reserve"), 2), (pool("slice"), 1), (pool("tick"), 3)]);
    assert_ne!(vm("period"), pool("period"), "two parameters of one name");
}

#[test]
fn a_change_is_one_parameter() {
    let (a, b) = (Server::default(), distinct().server());
    let vm = |name| key(name, true);
    for (change, adjust, text) in [
        (Change::param("rt", 0), Some((vm("rt"), 0)), "rt=auto"),
        (Change::param("rt", 1), Some((vm("rt"), 1)), "rt=on"),
        (Change::param("rt", 2), Some((vm("rt"), 2)), "rt=off"),
        (Change::param("weight", 7), Some((vm("weight"), 7)), "weight=7"),
        (Change::param("cap", 8), Some((vm("cap"), 8)), "cap=8"),
        (Change::param("laxity", 9_000), Some((vm("laxity"), 9_000)), "laxity=9us"),
        (Change::param("latency", 10 * MS), Some((vm("latency"), 10 * MS)), "latency=10ms"),
        (Change::Ports(ports(&[(1, 2)])), None, "ports"),
        (Change::Server(a, b), None, "budget=13ms period=14ms priority=15"),
        (Change::Group("g".into()), None, "group=g"),
    ] {
        assert_eq!((change.adjust(), change.to_string().as_str()), (adjust, text));
    }
}

/// VMs by name, and what they were told.
struct Listed(Vec<VmState>, Vec<(u32, Change)>);

impl Host for Listed {
    fn vms(&self) -> Result<Vec<VmState>> {
        Ok(self.0.clone())
    }
    fn set(&mut self, _: u64, vm: u32, change: &Change) -> Result<()> {
        self.1.push((vm, change.clone()));
        Ok(())
    }
    fn set_rt(&mut self, _: u64, _: u32, _: bool, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
}

fn listed(names: &[&str], config: &VmConfig) -> Listed {
    let state = |(id, name): (usize, &&str)| {
        let (name, config) = ((*name).to_owned(), config.clone());
        VmState { id: id as u32 + 4, name, config, rt: false, period: 0 }
    };
    Listed(names.iter().enumerate().map(state).collect(), Vec::new())
}

#[test]
fn what_differs_is_set_and_nothing_else() {
    let (base, want) = (VmConfig::default(), distinct());
    let bring = |have: &VmConfig, want: &VmConfig| {
        let mut host = listed(&["other", "web"], have);
        let config = BTreeMap::from([("web".into(), want.clone())]);
        let done = apply(&config, &mut host, 0).unwrap();
        assert_eq!(done.changes, host.1, "what is told is what was done");
        assert!(done.absent.is_empty() && host.1.iter().all(|(vm, _)| *vm == 5));
        host.1.into_iter().map(|(_, change)| change).collect::<Vec<_>>()
    };
    let all = [
        Change::Ports(want.ports.clone()),
        Change::param("weight", 11),
        Change::param("cap", 12),
        Change::Server(base.server(), want.server()),
        Change::param("laxity", 16 * MS),
        Change::param("latency", 17 * MS),
        Change::Group("g".into()),
        Change::param("rt", 1),
    ];
    assert_eq!(bring(&base, &want), all, "the ports before the mode that uses them");
    assert_eq!(bring(&want, &want), []);
    let back = bring(&want, &base);
    let waits = |c: &Change| matches!(c, Change::Param(info, _) if ["laxity", "latency"].contains(&info.name));
    assert!(back.len() == 6 && !back.iter().any(waits), "0 leaves what the VM has: {back:?}");
    for (n, one) in [
        VmConfig { ports: want.ports.clone(), ..base.clone() },
        base.clone().with("weight", 11),
        base.clone().with("cap", 12),
        base.clone().with_server(want.server()),
        base.clone().with("laxity", 16 * MS),
        base.clone().with("latency", 17 * MS),
        VmConfig { group: "g".into(), ..base.clone() },
        base.clone().with("rt", 1),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(bring(&base, one), all[n..=n]);
    }
}

#[test]
fn a_vm_is_found_by_its_name() {
    let host = listed(&["a", "b"], &VmConfig::default());
    assert_eq!(host.find("b").unwrap().id, 5);
    assert_eq!(host.find("c").unwrap_err().to_string(), "no VM `c`; known: a, b");
    assert_eq!(listed(&[], &VmConfig::default()).find("c").unwrap_err().to_string(), "no VM `c`; known: none");
}

#[test]
fn servers_keep_their_parts_apart() {
    let s = Server { budget: 2_500_000, period: 10 * MS, priority: 3, extra: false };
    assert_eq!(distinct().with_server(s).server(), s);
    let status = ServerStatus::from(&s);
    assert_eq!((status.budget_us, status.period_us, status.priority, status.extra), (2_500.0, 10_000.0, 3, false));
    assert_eq!((status.server(), status.share().as_str()), (s, "2500us/10ms"));
    let share = |budget, period| ServerStatus::from(&Server { budget, period, ..s }).share();
    assert_eq!([share(0, MS), share(MS, 0), share(0, 0), share(1, 2)], ["-", "-", "-", "1ns/2ns"]);
    let mut pool = Pool::new("rtxen").unwrap();
    pool.vm_add(0, 3, Kind::Guest, 256).unwrap();
    assert_eq!((Server::of(&pool, 3), Server::of(&pool, 4)), (Some(Server::default()), None));
    Server::default().bring(&s, |key, value| Ok(pool.adjust(0, 3, key, value)?)).unwrap();
    assert_eq!(Server::of(&pool, 3), Some(s));
    let odd = VmParams::default().with("priority", u64::MAX).server();
    assert_eq!(odd, Server { priority: u32::MAX, ..Server::default() });
    let (none, all) = (VmParams::default(), VmParams::from(&s));
    assert_eq!(
        ["budget", "period", "priority", "extra"].map(|name| all.get(name)),
        [2_500_000, 10 * MS, 3, 0].map(Some)
    );
    let have = Server { budget: 1, period: 2, priority: 4, extra: true };
    assert_eq!((all.server_on(&have), none.server_on(&have)), (s, have));
    assert!(!none.has_server() && all.has_server() && !none.clone().with("laxity", 1).has_server());
    for (name, value, want) in [
        ("budget", 9, Server { budget: 9, ..have }),
        ("period", 9, Server { period: 9, ..have }),
        ("priority", 9, Server { priority: 9, ..have }),
        ("extra", 0, Server { extra: false, ..have }),
    ] {
        let one = none.clone().with(name, value);
        assert_eq!((one.server_on(&have), one.has_server()), (want, true));
    }
    let mut rest = distinct().params;
    let taken = rest.take_server();
    assert_eq!((taken.clone(), rest.has_server()), (VmParams::from(&distinct().server()), false));
    assert_eq!(taken.iter().chain(rest.iter()).collect::<VmParams>(), distinct().params);
}

/// Nothing here names a setting: one that is added to the core's list is read, kept, told and set
/// as all others.
#[test]
fn every_setting_goes_all_the_way() {
    assert!(vm_settings().is_sorted_by_key(|p| p.key), "by ascending key");
    let word = |info: &takt_policy::ParamInfo, value| match info.unit {
        "off|on" => (value != 0).to_string(),
        unit if unit == "ns" || unit.contains('|') => format!("\"{}\"", spec::show(info, value)),
        _ => value.to_string(),
    };
    for info in vm_settings() {
        let value = if info.max == info.default { info.min } else { info.max };
        assert_eq!(named(info.name), Some(info));
        // A server's period may be the longest; a budget needs one that is as long.
        let base = if info.name == "budget" { VmConfig::default().with("period", value) } else { VmConfig::default() };
        let period = (info.name == "budget").then(|| format!("period = {}\n", word(named("period").unwrap(), value)));
        let text = format!("[vm.web]\n{}{} = {}", period.unwrap_or_default(), info.name, word(info, value));
        let config = VmConfig::from(HostConfig::from_toml(&text).unwrap().vm["web"].clone());
        assert_eq!(config, base.clone().with(info.name, value), "{text}");
        assert_eq!(toml::from_str::<VmConfig>(&toml::to_string(&config).unwrap()).unwrap(), config, "{}", info.name);
        let json = serde_json::to_value(&config.params).unwrap();
        let told: VmParams = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(told.with("rt", config.params.value("rt")), config.params, "{json}");
        let mut pool = Pool::new("credit").unwrap();
        pool.vm_add(0, 0, Kind::Guest, 256).unwrap();
        let mut adjust = |key, value| -> Result<()> { Ok(pool.adjust(0, 0, key, value)?) };
        let fresh = VmParams::defaults();
        fresh.server().bring(&config.server(), &mut adjust).unwrap();
        config.params.said().plain().try_for_each(|(info, value)| adjust(info.key, value)).unwrap();
        adjust(named("rt").unwrap().key, config.params.value("rt")).unwrap();
        assert_eq!(VmParams::of(&pool, 0), Some(config.params.clone()), "{}", info.name);
        if info.unit != "off|on" {
            let text = format!("[vm.web]\n{} = {}", info.name, word(info, info.max + 1));
            let error = HostConfig::from_toml(&text).unwrap_err().to_string();
            let known = spec::must_be(info);
            let says = |what: &str| error.starts_with("line 2: ") && error.contains(what);
            assert!(if info.unit.contains('|') { says("expected one of") } else { says(&known) }, "{error}");
        }
    }
    let plain: Vec<_> = VmParams::defaults().plain().map(|(info, _)| info.name).collect();
    assert!(plain.starts_with(&["weight", "cap"]) && plain.iter().all(|name| !is_server(named(name).unwrap())));
    assert!(!plain.contains(&"rt") && VmParams::defaults().said().get("laxity").is_none());
}

#[test]
fn a_status_says_settings_in_its_own_way() {
    let json = |params: &VmParams| serde_json::to_string(params).unwrap();
    let fresh = "{\"weight\":256,\"cap\":0,\"server\":{\"budget_us\":0.0,\"period_us\":0.0,\"priority\":1000,\"extra\":true},\
         \"laxity_us\":null,\"latency_us\":null";
    assert!(json(&VmParams::defaults()).starts_with(fresh), "{}", json(&VmParams::defaults()));
    let told = json(&distinct().params);
    assert!(told.contains("\"laxity_us\":16000.0") && told.contains("\"priority\":15,\"extra\":false"), "{told}");
    let read = |text: &str| serde_json::from_str::<VmParams>(text).map_err(|e| e.to_string());
    let most = "{\"rt\":true,\"weight\":1,\"cap\":0,\"new\":[1],\"server\":{\"budget_us\":0.0,\"period_us\":0.0,\"priority\":1,\"extra\":true}}";
    assert_eq!(read(most).unwrap().get("laxity"), Some(0), "what is not told is the pool's");
    assert!(read("{\"weight\":1,\"cap\":0}").unwrap_err().starts_with("missing field `server`"));
    assert!(read("{\"weight\":\"x\"}").unwrap_err().contains("expected u64"));
    let schema = serde_json::to_value(schemars::schema_for!(VmParams)).unwrap();
    let kind = |name: &str| schema["properties"][name]["type"].clone();
    assert_eq!([kind("weight"), kind("laxity_us")], ["integer".into(), serde_json::json!(["number", "null"])]);
}

/// The steps by which a server becomes another one, as keys and values.
#[test]
fn a_server_is_brought_in_an_order_that_keeps_its_share() {
    let server = |budget, period| Server { budget, period, ..Server::default() };
    let steps = |a: Server, b: Server| {
        let mut all = Vec::new();
        a.bring(&b, |key, value| {
            all.push((params().iter().find(|p| p.key == key).unwrap().name, value));
            Ok(())
        })
        .unwrap();
        all
    };
    for (a, b, want) in [
        (server(1, 2), server(1, 2), &[][..]),
        (server(1, 2), server(3, 4), &[("period", 4), ("budget", 3)]),
        (server(3, 4), server(1, 2), &[("budget", 1), ("period", 2)]),
        (server(1, 4), server(3, 4), &[("budget", 3)]),
        (server(1, 4), server(0, 0), &[("budget", 0), ("period", 0)]),
        (server(0, 0), server(1, 4), &[("period", 4), ("budget", 1)]),
        (server(0, 0), server(1, 1), &[("period", 1), ("budget", 1)]),
        (server(1, 2), Server { priority: 5, ..server(1, 2) }, &[("priority", 5)]),
        (server(1, 2), Server { extra: false, ..server(1, 2) }, &[("extra", 0)]),
    ] {
        assert_eq!(steps(a, b), want, "{a:?} {b:?}");
    }
}

#[test]
fn presets_say_what_they_say() {
    for (name, core, values) in [
        ("credit-4.2", "credit", &["weights=vcpu", "ratelimit=1ms", "tickle=one", "overflow=half"][..]),
        ("credit-sampled", "credit", &["charge=sampled"]),
        ("credit-base", "credit", &["balance=on"]),
        ("deferrable", "rtxen", &["server=deferrable"]),
        ("periodic", "rtxen", &["server=periodic"]),
        ("polling", "rtxen", &["server=polling"]),
        ("sporadic", "rtxen", &["server=sporadic"]),
        ("base", "credit", &["balance=on"]),
        ("A", "laxs", &["balance=on", "steal=credit"]),
        ("AL", "laxs", &["balance=on", "steal=latency"]),
        ("ALL", "laxs", &["balance=on"]),
        ("ABLL", "laxs", &["balance=on", "boost=queued"]),
        ("AILL", "laxs", &["balance=on", "infinite=on"]),
        ("rs", "poris", &["parallel=off"]),
        ("par-only", "poris", &["promote=off", "dynamic=off", "parallel=vm"]),
        ("co", "gang", &[]),
        ("balance", "gang", &["turns=off"]),
        ("poris_s", "poris", &["parallel=vm"]),
        ("baseline", "credit", &["weights=vcpu", "ratelimit=1ms", "tickle=one", "overflow=half"]),
        ("pin", "credit", &[]),
    ] {
        let spec = PolicySpec::parse(name).unwrap();
        let shown = |&(k, v): &(u32, u64)| {
            let info = *params().iter().find(|p| p.key == k).unwrap();
            format!("{}={}", info.name, spec::show(&info, v))
        };
        assert_eq!((spec.name.as_str(), spec.pin, spec.label.as_str()), (core, name == "pin", name));
        assert_eq!(spec.params.iter().map(shown).collect::<Vec<_>>(), values, "{name}");
    }
    assert_eq!(spec::PRESETS.len(), 18);
    let known = spec::known();
    let more = known[known.len() - 4..].to_vec();
    assert_eq!(more, ["pin", "baseline", "risa", "sp"]);
    assert_eq!(known.iter().collect::<std::collections::BTreeSet<_>>().len(), known.len());
}

#[test]
fn errors_of_policies_say_which_and_what_there_is() {
    let error = |text: &str| PolicySpec::parse(text).unwrap_err().to_string();
    assert!(
        error("doris(slize=1ms)")
            .starts_with("policy `doris(slize=1ms)`: unknown key `slize` (did you mean `slice`?); known: tick, ")
    );
    assert!(error("risa(x=1)").contains("known: rt, need, delay, hold, shrink, rt_pool_may_take_all, tick, "));
    assert!(error("doris(weight=1)").contains("unknown key `weight`"), "a VM's");
    assert_eq!(error("doris(slice)"), "policy `doris(slice)`: `slice` is not key=value");
    assert_eq!(error("doris("), "policy `doris(`: write it as NAME or NAME(key=value,…)");
    for text in ["doris((slice=1ms)", "doris(slice=1ms))", "doris(,)", "doris(,slice=1ms)"] {
        error(text);
    }
    let list = |a: &str, b: &str| PolicySpec::list([a, b].into_iter()).map(|l| l.len()).map_err(|e| e.to_string());
    assert_eq!(
        list("sporadic", "rtxen(server=sporadic)").unwrap_err(),
        "policy `rtxen(server=sporadic)`: named twice, also as `sporadic`"
    );
    assert_eq!((list("pin", "credit"), list("credit", "baseline"), list("sp", "risa")), (Ok(2), Ok(2), Ok(2)));
}

#[test]
fn pools_have_their_own_switches() {
    use takt_control::partition::{Rule, Settings, Shrink};
    let managed = |text: &str| match PolicySpec::parse(text).unwrap().pools.unwrap() {
        Pools { size: Size::Managed(s), rt } => (rt, s),
        other => panic!("{other:?}"),
    };
    let base = Settings::default();
    assert_eq!(
        base,
        Settings {
            rule: Rule::Paper,
            delay: 15_000 * MS,
            hold: None,
            shrink: Shrink::Far,
            take_all: false,
            reserve: 0
        }
    );
    for (text, rt, want) in [
        ("risa", "vgedf", base),
        ("risa(rt=sedf)", "sedf", Settings { rule: Rule::Whole, ..base }),
        ("risa(need=gfb)", "vgedf", Settings { rule: Rule::Gfb, ..base }),
        ("risa(need=whole)", "vgedf", Settings { rule: Rule::Whole, ..base }),
        ("risa(need=paper,rt=rtxen)", "rtxen", base),
        ("risa(delay=7ms)", "vgedf", Settings { delay: 7 * MS, ..base }),
        ("risa(shrink=literal)", "vgedf", Settings { shrink: Shrink::Literal, ..base }),
        ("risa(shrink=far)", "vgedf", base),
        ("risa(rt_pool_may_take_all=on)", "vgedf", Settings { take_all: true, ..base }),
        ("risa(rt_pool_may_take_all=off)", "vgedf", base),
        ("risa(reserve=7)", "vgedf", Settings { reserve: 7, ..base }),
        ("risa(slice=7ms)", "vgedf", base),
    ] {
        assert_eq!(managed(text), (rt.to_owned(), want), "{text}");
    }
    let sp = |text: &str| PolicySpec::parse(text).unwrap().pools.unwrap();
    assert_eq!(sp("sp(rt=credit)"), Pools { rt: "credit".into(), size: Size::Fixed { pcpus: 2, first: 0 } });
    assert_eq!(sp("sp(reserve=7)"), sp("sp"), "a reserve changes no fixed size");
    assert_eq!(sp("risa").keys(), ["rt", "need", "delay", "hold", "shrink", "rt_pool_may_take_all"]);
    assert_eq!(sp("sp").keys(), ["rt", "pcpus", "first"]);
}

#[test]
fn waits_have_their_class_and_their_unit() {
    let numbers: Vec<u64> = (0..16).map(|n| 1_000 * (n + 1)).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let of = takt_control::waits::from_bytes(&bytes.try_into().unwrap());
    let wait = |n: u64| Wait { count: 1_000 * n, sum: 1_000 * (n + 1), max: 1_000 * (n + 2), ran: 1_000 * (n + 3) };
    assert_eq!(of, [wait(1), wait(5), wait(9), wait(13)]);
    let one = |count, sum, max, ran| Wait { count, sum, max, ran };
    let none = Wait::default();
    let all = waits(
        [
            [one(1, 2_000, 2_000, 8_000), none, none, none],
            [one(3, 6_000, 3_000, 4_000), none, none, one(2, 3_000, 1_500, 500)],
        ]
        .into_iter(),
    );
    assert_eq!(all.keys().collect::<Vec<_>>(), ["over", "rt"]);
    assert_eq!(all["rt"], WaitStatus { count: 4, mean_us: 2.0, max_us: 3.0, run_us: 3.0 });
    assert_eq!(all["over"], WaitStatus { count: 2, mean_us: 1.5, max_us: 1.5, run_us: 0.25 });
    let names = waits([[one(1, 0, 0, 0); 4]].into_iter());
    assert_eq!(names.keys().collect::<Vec<_>>(), ["boost", "over", "rt", "under"]);
}

#[test]
fn a_window_has_two_kinds_of_times() {
    let mut took = Overhead::default();
    (1..=100).for_each(|n| took.decision.add(n * 100));
    took.switch.add(3_000);
    let times = Times::from(&took.decision);
    assert_eq!((times.count, times.total_us, times.max_ns), (100, 505.0, 10_000));
    assert_eq!((times.median_ns, times.p99_ns), (took.decision.percentile(50), took.decision.percentile(99)));
    assert!((5_000..5_200).contains(&times.median_ns) && (9_900..10_300).contains(&times.p99_ns), "{times:?}");
    let window = Window::new("doris", 4, (1_000, 128_000), &took);
    assert_eq!((window.policy.as_str(), window.pcpus, window.from_ns, window.to_ns), ("doris", 4, 1_000, 128_000));
    assert_eq!((window.decision, window.change), (times, Times::from(&took.switch)));
    assert_eq!(window.loss_pct, 100.0, "508 µs of four times 127");
    assert_eq!(Window::new("rr", 4, (9, 3), &took).loss_pct, 0.0, "a clock that went back has no loss");
}

#[test]
fn messages_are_one_line_without_escapes() {
    assert_eq!(printable("a\nb\u{1b}[1mc\td\u{7f}\u{9b}é"), "a b [1mc d  é");
    let error = anyhow::anyhow!("in\nner").context("out\ter");
    assert_eq!(one_line(&error).to_string(), "out er: in ner");
}

/// The host keeps the parameters by name: after a refusal each is what it was.
#[test]
fn each_parameter_of_a_server_is_taken_back() {
    let have = Server { budget: 2, period: 10, priority: 3, extra: false };
    let want = Server { budget: 8, period: 20, priority: 4, extra: true };
    let of = |s: &Server| {
        let values = [s.budget, s.period, s.priority.into(), s.extra.into()];
        ["budget", "period", "priority", "extra"].into_iter().zip(values).collect::<BTreeMap<_, _>>()
    };
    for refused in ["budget", "period", "priority", "extra"] {
        let mut at = of(&have);
        let done = have.bring(&want, |key, value| {
            let name = params().iter().find(|p| p.key == key).unwrap().name;
            anyhow::ensure!(name != refused || value == of(&have)[name], "no {name}");
            at.insert(name, value);
            Ok(())
        });
        assert_eq!(done.unwrap_err().to_string(), format!("no {refused}"));
        assert_eq!(at, of(&have), "{refused} was refused");
    }
}
