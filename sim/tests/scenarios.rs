// SPDX-License-Identifier: GPL-2.0-only
//! Reading scenarios: the shipped ones, and what is refused.

use takt_control::RtMode;
use takt_sim::workload::voip::Voip;
use takt_sim::{CONSTANTS, Scenario};

const VM: &str = "[[vm]]\nname = \"a\"\nvcpus = 1\n";

const POOL: &str = "[[pool]]\nname = \"p\"\npolicy = \"credit\"\n";
const AT: &str = "[[at]]\ntime = \"1s\"\n";

fn refused(text: &str) -> String {
    let e = Scenario::from_toml(text, "bad.toml").expect_err(text);
    let e = format!("{e:#}");
    assert!(!e.contains('\n') && e.starts_with("bad.toml: "), "{e}");
    e
}

#[test]
fn every_shipped_scenario_is_read() {
    let mut seen = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let s = Scenario::from_toml(&text, path.to_str().unwrap()).unwrap();
        assert_eq!(s.name, path.file_stem().unwrap().to_str().unwrap());
        assert!(!s.policies.is_empty() && !s.title.is_empty());
        seen += 1;
    }
    assert!(seen >= 5);
}

/// What Lee et al. leave open of their host (rules L1 and L8).
#[test]
fn the_host_of_lee_et_al() {
    let s = Scenario::from_toml(include_str!("../../scenarios/laxs.toml"), "laxs.toml").unwrap();
    let vms: Vec<_> = s.vms.iter().map(|vm| (vm.name.as_str(), vm.vcpus, vm.rt() == RtMode::On)).collect();
    assert_eq!(vms, [("media-s", 1, true), ("call-c", 1, true), ("sip-s", 1, false), ("c-dom", 4, false)]);
    assert_eq!((s.machine.pcpus, s.dom0_vcpus()), (4, 1));
}

#[test]
fn one_line_names_file_key_and_range() {
    for (text, want) in [
        (String::new(), "bad.toml: vm: missing; allowed: one [[vm]] table or more"),
        ("x = ".into(), "bad.toml: line 1: "),
        (format!("speed = 3\n{VM}"), "bad.toml: speed: unknown key; allowed: name, title, duration"),
        (
            format!("[machine]\ncpus = 3\n{VM}"),
            "bad.toml: machine.cpus: unknown key (did you mean `pcpus`?); allowed: pcpus, threads, llc",
        ),
        (format!("[machine]\npcpus = 65\n{VM}"), "bad.toml: machine.pcpus: '65' is out of range; allowed: 1 to 64"),
        (format!("[machine]\npcpus = 0\n{VM}"), "bad.toml: machine.pcpus: '0' is out of range; allowed: 1 to 64"),
        (
            format!("[machine]\nswitch = \"5s\"\n{VM}"),
            "bad.toml: machine.switch: 5s is out of range; allowed: 0 to 1ms",
        ),
        (format!("[machine]\nswitch = 5\n{VM}"), "bad.toml: machine.switch: `5` is not a duration"),
        (format!("duration = \"0s\"\n{VM}"), "bad.toml: duration: 0s is out of range; allowed: 1ms to "),
        (format!("duration = 1979-05-27\n{VM}"), "bad.toml: duration: a date; allowed: "),
        (format!("policies = [\"fifo\"]\n{VM}"), "bad.toml: policies: unknown policy `fifo`; known: "),
        (format!("parameters = \"tickle=two\"\n{VM}"), "bad.toml: parameters: `tickle` must be one of all, one, xen"),
        (format!("parameters = \"tickle\"\n{VM}"), "bad.toml: parameters: `tickle` is not key=value"),
        (format!("parameters = \"tickle=xen,tickle=all\"\n{VM}"), "`tickle=all` sets a key a second time"),
        (format!("policies = [\"doris(dom0=3)\"]\n{VM}"), "must be one of off, on"),
        ("vm = 3".into(), "bad.toml: vm: not a list"),
        ("vm = [3]".into(), "bad.toml: vm: entry 0 is not a [[vm]] table"),
        ("[[vm]]\nvcpus = 1".into(), "bad.toml: vm: entry 0 has no name"),
        ("[[vm]]\nname = \"a b\"\nvcpus = 1".into(), "bad.toml: vm.name: 'a b' is not a valid name; allowed: "),
        ("[[vm]]\nname = \"a\"".into(), "bad.toml: vm.a.vcpus: missing; allowed: 1 to 1024"),
        ("[[vm]]\nname = \"a\"\nvcpus = 0".into(), "bad.toml: vm.a.vcpus: '0' is out of range; allowed: 1 to 1024"),
        ("[[vm]]\nname = \"a\"\nvcpus = 1020".into(), "bad.toml: vm: 1028 VCPUs with Dom0; allowed: at most 1024"),
        (format!("{VM}count = 256"), "bad.toml: vm.a.count: '256' is out of range; allowed: 1 to 255"),
        (format!("{VM}weight = -3"), "bad.toml: vm.a.weight: '-3' is out of range; allowed: 1 to 65535"),
        (format!("{VM}weight = 65536"), "bad.toml: vm.a.weight: '65536' is out of range; allowed: 1 to 65535"),
        (format!("{VM}cap = 6401"), "bad.toml: vm.a.cap: '6401' is out of range; allowed: 0 to 6400"),
        (format!("{VM}rt = \"maybe\""), "bad.toml: vm.a.rt: unknown 'maybe'; allowed: auto, on, off"),
        (format!("{VM}ports = [70000]"), "bad.toml: vm.a.ports: `70000` is not a port"),
        (
            format!("{VM}dedicated = \"0-9\""),
            "bad.toml: vm.a.dedicated: no PCPU 8; allowed: true, false, or PCPUs of 0 to 7",
        ),
        (
            format!("{VM}dedicated = \"yes\""),
            "bad.toml: vm.a.dedicated: allowed: true, false, or PCPUs such as 0-1: 'yes'",
        ),
        (format!("[dom0]\ndedicated = 3\n{VM}"), "bad.toml: dom0.dedicated: unknown '3'; allowed: true, false"),
        (
            format!("{VM}workload = {{ type = \"media\", calls = 0 }}"),
            "bad.toml: vm.a.workload.calls: '0' is out of range; allowed: 1 to 5000",
        ),
        (
            format!("{VM}workload = {{ type = \"media\", hold = \"20ms\" }}"),
            "bad.toml: vm.a.workload.hold: 20ms is out of range; allowed: 1s to 86400s",
        ),
        (
            format!("{VM}workload = {{ type = \"signalling\", next = \"b\" }}"),
            "bad.toml: vm.a.workload.next: no signalling VM 'b' without `next`; allowed: none (there is no other)",
        ),
        (format!("{VM}affinity = \"0-9\""), "bad.toml: vm.a.affinity: no PCPU 8; allowed: 0 to 7"),
        (format!("{VM}workload = \"nap\""), "bad.toml: vm.a.workload: unknown workload 'nap'; allowed: hog, voip"),
        (format!("{VM}workload = {{ calls = 3 }}"), "bad.toml: vm.a.workload: no type; allowed: hog"),
        (format!("{VM}calls = 3"), "bad.toml: vm.a.calls: unknown key; allowed: count"),
        (
            format!("{VM}workload = {{ type = \"hog\", calls = 3 }}"),
            "bad.toml: vm.a.workload.calls: unknown key; allowed: type, threads",
        ),
        (
            format!("{VM}workload = {{ type = \"hog\", threads = 65 }}"),
            "bad.toml: vm.a.threads: 65 on 1 VCPUs; allowed: 1 to 64",
        ),
        (format!("{VM}budget = \"5ms\""), "bad.toml: vm.a.period: missing; allowed: the budget (5ms) to 10s"),
        (
            format!("{VM}budget = \"5ms\"\nperiod = \"4ms\""),
            "bad.toml: vm.a.budget: 5ms; allowed: 0 to the period (4ms)",
        ),
        (format!("{VM}priority = 0"), "bad.toml: vm.a.priority: '0' is out of range; allowed: 1 to 65535"),
        (format!("{VM}extra = 1"), "bad.toml: vm.a.extra: unknown '1'; allowed: on, off"),
        (format!("[dom0]\nbudget = \"11s\"\n{VM}"), "bad.toml: dom0.budget: 11s is out of range; allowed: 0 to 10s"),
        (format!("[dom0]\naffinity = 8\n{VM}"), "bad.toml: dom0.affinity: no PCPU 8; allowed: 0 to 7"),
        (format!("load = 0\n{VM}"), "bad.toml: load: '0' is out of range; allowed: 1 to 1000"),
        (format!("servers = \"late\"\n{VM}"), "bad.toml: servers: unknown 'late'; allowed: synchronous, random"),
        (format!("release = \"late\"\n{VM}"), "bad.toml: release: unknown 'late'; allowed: synchronous, random"),
        (format!("{VM}workload = \"tasks\""), "bad.toml: vm.a.tasks: missing; allowed: tasks such as 5ms/100ms"),
        (
            format!("{VM}workload = {{ type = \"tasks\", tasks = \"5ms\" }}"),
            "bad.toml: vm.a.workload.tasks: '5ms' is not a task; allowed: cost and period such as 5ms/100ms",
        ),
        (
            format!("{VM}workload = {{ type = \"tasks\", random = 5 }}"),
            "bad.toml: vm.a.random: no share to draw tasks for; allowed: with budget and period",
        ),
        (
            format!("{}workload = {{ type = \"tasks\", tasks = \"1ms/9ms\" }}", VM.replace("= 1", "= 2")),
            "bad.toml: vm.a.vcpus: 2 with tasks; allowed: 1",
        ),
        (format!("{VM}{VM}"), "bad.toml: vm.a.name: 'a' is used twice"),
        (format!("{VM}count = 2\n{}", VM.replace("\"a\"", "\"a-2\"")), "used twice"),
        ("[[vm]]\nname = \"dom0\"\nvcpus = 1".into(), "bad.toml: vm.dom0.name: 'dom0' is used twice"),
        (format!("{VM}weight = 99999999999999999999999"), "bad.toml: vm.a.weight: '99999999999999999999999' is out of"),
        (format!("{VM}weight = nan"), "bad.toml: vm.a.weight: 'nan' is out of range; allowed: 1 to 65535"),
        (
            format!("[net]\nnic_ring = 18446744073709551615\n{VM}"),
            "bad.toml: net.nic_ring: 18446744073709551615 is out",
        ),
        (format!("[machine]\nprivate_share = 1e400\n{VM}"), "bad.toml: machine.private_share: '1e400' is not a number"),
        (
            format!("duration = \"24h\"\n{VM}workload = {{ type = \"voip\", calls = 10000 }}"),
            "bad.toml: duration: 86400s with 10000 calls; allowed: at most 16000s with that many calls",
        ),
        (format!("[machin]\n{VM}"), "bad.toml: machin: unknown key (did you mean `machine`?); allowed: name"),
        (format!("[[pool]]\nname = \"p\"\n{VM}"), "bad.toml: pool.p.policy: missing; allowed: name, policy, cpus, vms"),
        (format!("{POOL}cpus = \"9\"\n{VM}"), "bad.toml: pool.p.cpus: no PCPU 9; allowed: 0 to 7"),
        (format!("{POOL}cpus = \"\"\n{VM}"), "bad.toml: pool.p.cpus: empty; allowed: one PCPU or more"),
        (format!("{POOL}cpus = \"0-7\"\n{VM}"), "bad.toml: pool: the pools have all PCPUs, but not all VMs"),
        (format!("{POOL}cpus = 1\nvms = \"b\"\n{VM}"), "bad.toml: pool.p.vms: no VM 'b'; allowed: a, dom0"),
        (format!("{POOL}cpus = 1\nvms = [\"a\", \"a\"]\n{VM}"), "bad.toml: pool.p.vms: 'a' is in two pools"),
        (format!("{POOL}cpus = 1\nsize = 2\n{VM}"), "bad.toml: pool.p.size: unknown key; allowed: policy, cpus, vms"),
        (
            format!("{}cpus = 1\n{VM}", POOL.replace("credit", "risa")),
            "bad.toml: pool.p.policy: risa has more than one",
        ),
        (format!("{VM}budget = \"2ms\""), "bad.toml: vm.a.period: missing; allowed: the budget (2ms) to 10s"),
        (
            format!("{VM}budget = \"2ms\"\nperiod = \"1ms\""),
            "bad.toml: vm.a.budget: 2ms; allowed: 0 to the period (1ms)",
        ),
        (format!("{VM}extra = \"maybe\""), "bad.toml: vm.a.extra: unknown 'maybe'; allowed: on, off"),
        (format!("{VM}{AT}"), "bad.toml: at.0: incomplete; allowed: time, and create, destroy, or vm with budget"),
        (format!("{VM}{AT}vm = \"a\""), "bad.toml: at.0: parameters without vm, or vm without them"),
        (format!("{VM}{AT}create = \"a\"\ndestroy = \"a\""), "bad.toml: at.0: more than one action"),
        (format!("{VM}{AT}create = \"b\""), "bad.toml: at.0: no VM 'b'; allowed: a"),
        (format!("{VM}{AT}create = \"a\"\nweight = 3"), "bad.toml: at.0.weight: unknown key; allowed: time"),
        (format!("{VM}{AT}create = \"a\"\nlatency = \"9ms\""), "bad.toml: at.0: parameters without vm"),
        (
            format!("{VM}{AT}vm = \"a\"\nlatency = \"100us\""),
            "bad.toml: at.0.latency: 100us is out of range; allowed: 1ms to 1s",
        ),
        (format!("{VM}{AT}vm = \"a\"\nlatency = \"2s\""), "bad.toml: at.0.latency: 2s is out of range"),
        (
            format!("{VM}{AT}vm = \"a\"\nlaxity = \"0us\""),
            "bad.toml: at.0.laxity: 0us is out of range; allowed: 1us to 10s",
        ),
        (format!("{VM}laxity = 0"), "bad.toml: vm.a.laxity: 0 is out of range; allowed: 1us to 10s"),
        (format!("{VM}{AT}vm = \"a\"\ngroup = \"a b\""), "bad.toml: at.0.group: `group` must have at most 64 letters"),
        (format!("{VM}{AT}create = \"a\"\n{AT}create = \"a\""), "bad.toml: at.1: VM 'a' already exists, or is gone"),
        (
            format!("{VM}{AT}destroy = \"a\"\n{}create = \"a\"", AT.replace("1s", "0s")),
            "bad.toml: at: times are not in order; allowed: ascending",
        ),
        (
            format!("{VM}workload = {{ type = \"lookbusy\", percent = 101 }}"),
            "bad.toml: vm.a.workload.percent: '101' is out of range; allowed: 1 to 100",
        ),
        (
            format!("{VM}workload = {{ type = \"cyclictest\", interval = \"1us\" }}"),
            "bad.toml: vm.a.workload.interval: 1us is out of range; allowed: 10us to 10s",
        ),
        (format!("{VM}wieght = 3"), "bad.toml: vm.a.wieght: unknown key (did you mean `weight`?); allowed: count"),
        (
            format!("{VM}workload = {{ type = \"voip\", call = 3 }}"),
            "bad.toml: vm.a.workload.call: unknown key (did you mean `calls`?); allowed: type, calls",
        ),
        (format!("{VM}workload = \"viop\""), "bad.toml: vm.a.workload: unknown workload 'viop' (did you mean `voip`?)"),
        (format!("{VM}rt = \"onn\""), "bad.toml: vm.a.rt: unknown 'onn' (did you mean `on`?); allowed: auto, on, off"),
        (
            format!("{POOL}cpus = 1\nvm = \"a\"\n{VM}"),
            "bad.toml: pool.p.vm: unknown key (did you mean `vms`?); allowed",
        ),
        (format!("{VM}{AT}latncy = \"9ms\""), "bad.toml: at.0.latncy: unknown key (did you mean `latency`?); allowed"),
        (format!("policies = [\"dorsi\"]\n{VM}"), "bad.toml: policies: unknown policy `dorsi` (did you mean `doris`?)"),
        (format!("duration = {{}}\n{VM}"), "bad.toml: duration: a table; allowed: "),
        (format!("policies = [\"doris\", \"doris()\"]\n{VM}"), "bad.toml: policies: policy `doris()`: named twice"),
    ] {
        let e = refused(&text);
        assert!(e.contains(want), "{text:?}\n got: {e}\nwant: {want}");
    }
}

#[test]
fn set_reaches_everything_and_changes_nothing_when_refused() {
    let text = include_str!("../../scenarios/voip.toml");
    let mut s = Scenario::from_toml(text, "voip.toml").unwrap();
    s.set("machine.switch", "3us").unwrap();
    s.set("voip.guest_per_packet", "100us").unwrap();
    s.set("vm.voip.calls", "45").unwrap();
    s.set("vm.hog.count", "1").unwrap();
    s.set("machine.pcpus", "4").unwrap();
    assert_eq!((s.constants.switch, s.constants.voip_packet), (3_000, 100_000));
    assert_eq!((s.vms[0].workload.of(), s.vms[1].count), (Some(&Voip { calls: 45 }), 1));
    assert_eq!((s.dom0_vcpus(), s.warmup()), (4, 5_500_000_000));
    let before = s.clone();
    for (key, value) in [
        ("machine.switch", "9s"),
        ("vm.hog.vcpus", "1024"),
        ("vm.x.vcpus", "1"),
        ("vm", "3"),
        ("", ""),
        ("vm.hog", "1"),
    ] {
        assert!(s.set(key, value).is_err(), "{key}={value}");
        assert_eq!(s, before);
    }
    for c in CONSTANTS {
        s.set(c.key, &c.unit.show(c.default)).unwrap();
    }
}

/// Spoiled scenarios are read or refused with one line, never with a panic.
#[test]
fn spoiled_scenarios_do_no_harm() {
    let text = include_str!("../../scenarios/voip.toml").as_bytes();
    let mut x = 88_172_645_463_325_252u64;
    let mut random = move |n: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x % n as u64) as usize
    };
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = text.to_vec();
        for _ in 0..1 + random(4) {
            if bytes.is_empty() {
                break;
            }
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.drain(at..(at + random(20)).min(bytes.len()))),
                2 => bytes.insert(at, b"-09.=[]{}\"\n"[random(11)]),
                3 => bytes.truncate(at + 1),
                _ => {
                    let from = random(bytes.len());
                    let part = bytes[from..(from + random(30)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        match Scenario::from_toml(&String::from_utf8_lossy(&bytes), "x.toml") {
            Ok(_) => read += 1,
            Err(e) => assert!(!format!("{e:#}").contains('\n')),
        }
    }
    assert!(read > 1_000, "{read}");
}
