// SPDX-License-Identifier: GPL-2.0-only
//! What `takt status` says is said of the right thing: values that all differ, each looked for in its own place.

use super::*;
use crate::{Quota, schema};
use takt_control::{Server, Wait, WaitStatus, document};
use takt_policy::{Pool, Source};

const MS: u64 = 1_000_000;

fn adjust(pool: &mut Pool, vm: u32, values: &[(&str, u64)]) {
    for (name, value) in values {
        let info = takt_policy::param(name, vm != NIL);
        pool.adjust(1, vm, info.expect(name).key, *value).unwrap();
    }
}

/// A pool with the PCPUs of `cpus`, each with an entity of the host's, and VMs 2 and 5 of two VCPUs and an I/O thread each.
fn pool(policy: &str, cpus: &[u32]) -> Pool {
    let mut pool = Pool::new(policy).unwrap();
    cpus.iter().for_each(|&cpu| pool.cpu_add(1, cpu, cpu, 0, 0).unwrap());
    pool.vm_add(1, HOST_VM, Kind::Host, 256).unwrap();
    cpus.iter().for_each(|&cpu| pool.vcpu_add(1, cpu, HOST_VM, cpu, Kind::Host).unwrap());
    for (vm, first) in [(2, 80), (5, 70)] {
        pool.vm_add(1, vm, Kind::Guest, 100 + u64::from(vm)).unwrap();
        pool.vcpu_add(1, first, vm, cpus[0], Kind::Guest).unwrap();
        pool.vcpu_add(1, first + 1, vm, cpus[1], Kind::Guest).unwrap();
        pool.vcpu_add(1, first + 2, vm, cpus[0], Kind::Io).unwrap();
    }
    pool
}

fn wait(n: u64) -> Wait {
    Wait { count: n, sum: 2_000 * n, max: 3_000 * n, ran: 4_000 * n }
}

/// What VMs have waited: in class `class` so many times, ns.
fn waited(class: usize, times: &[u64]) -> VmWaits {
    let mut all = VmWaits { buckets: true, ..VmWaits::default() };
    times.iter().for_each(|&ns| all.classes[class].add(ns));
    all
}

fn snapshot(pools: &[Pool], change: impl Fn(&mut Vec<u8>)) -> Snapshot {
    let mut bytes = Snapshot::initial(pools, Quota::default());
    change(&mut bytes);
    Snapshot::new(bytes).unwrap()
}

fn known(vm: u32) -> Known {
    let name = match vm {
        2 => "web".to_owned(),
        5 => "db".to_owned(),
        _ => panic!("no VM {vm}"),
    };
    Known { name, ..Known::default() }
}

#[test]
fn a_vm_is_told_as_its_pool_and_host_have_it() {
    let mut one = pool("credit", &[0, 1]);
    adjust(
        &mut one,
        2,
        &[("weight", 7), ("cap", 8), ("period", 20 * MS), ("budget", 9 * MS), ("priority", 11), ("extra", 0)],
    );
    adjust(&mut one, 2, &[("laxity", 12_000), ("latency", 13 * MS), ("rt", 2)]);
    one.set_rt(1, 5, true, 21 * MS, 22 * MS).unwrap();
    let s = snapshot(&[one], |bytes| {
        Snapshot::set_vm(bytes, 1, 2, |vm| (vm.tgid, vm.ran) = (1002, 1_500_000_000));
        Snapshot::set_vm(bytes, 1, 5, |vm| (vm.tgid, vm.rule) = (1005, 2));
        for (v, id, pid) in [(80, 1, 31), (81, 0, 32), (82, 9, 33), (70, 0, 34)] {
            Snapshot::set_vcpu(bytes, 1, v, |h| (h.id, h.pid, h.refused) = (id, pid, u64::from(v)));
        }
        Snapshot::set_vcpu(bytes, 1, 80, |h| h.wait[1] = wait(1));
        Snapshot::set_vcpu(bytes, 1, 82, |h| h.wait[1] = wait(3));
        Snapshot::set_vcpu(bytes, 1, 70, |h| h.wait[2] = wait(5));
    });
    let ports: Ports = "5-6".parse().unwrap();
    let device = DeviceStatus { name: "tap0".into(), kind: "tap".into() };
    let times = Times { first: 3, ..Times::default() };
    let all = vms(&s, &|vm| Known {
        ports: ports.clone(),
        devices: vec![device.clone()],
        blind: Some("why".into()),
        monitor: Some(times),
        group: if vm == 2 { "g".into() } else { String::new() },
        set_by: [("weight".into(), "takt set".into())].into(),
        waited: waited(1, if vm == 2 { &[50, 50, 50, 9_800, 50] } else { &[] }),
        ..known(vm)
    });
    assert_eq!(all.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["db", "web"], "by name");
    let (db, web) = (&all[0], &all[1]);
    assert_eq!((web.tgid, web.kind.as_str(), web.pool.as_deref()), (1002, "kvm", None));
    assert_eq!((web.rt, web.rt_mode, web.rule.as_deref(), web.period_us), (false, RtMode::Off, None, None));
    assert_eq!(["weight", "cap", "laxity", "latency"].map(|name| web.params.value(name)), [7, 8, 12_000, 13 * MS]);
    let server = Server { budget: 9 * MS, period: 20 * MS, priority: 11, extra: false };
    assert_eq!((web.params.server(), web.group.as_deref(), db.group.as_deref()), (server, Some("g"), None));
    assert_eq!((&web.ports, &web.devices, web.blind.as_deref()), (&ports, &vec![device], Some("why")));
    assert_eq!(web.monitor, Some(times));
    assert_eq!(web.set_by["weight"], "takt set");
    let of = |list: &[VcpuStatus]| list.iter().map(|v| (v.vcpu, v.id, v.tid, v.refused)).collect::<Vec<_>>();
    assert_eq!(of(&web.vcpus), [(81, 0, 32, 81), (80, 1, 31, 80)], "by their numbers in the VM");
    assert_eq!(of(&web.io), [(82, 9, 33, 82)]);
    assert_eq!(web.waits.keys().collect::<Vec<_>>(), ["boost"]);
    let both = &web.waits["boost"];
    let all = WaitStatus { count: 5, mean_us: 2.0, max_us: 9.8, run_us: 4.0 };
    assert_eq!((both.all, both.p50_us, both.p99_us), (all, 0.05, 9.8), "also of a thread that is gone");
    assert_eq!(both.buckets.iter().map(|b| b.count).collect::<Vec<_>>(), [4, 1]);
    assert_eq!((web.run_s, db.run_s), (1.5, 0.0));
    assert_eq!((web.vcpus[1].waits["boost"].count, web.io[0].waits["boost"].count), (1, 3));
    assert!(web.vcpus[0].waits.is_empty());
    assert_eq!((db.tgid, db.rt, db.rt_mode, db.rule.as_deref()), (1005, true, RtMode::Auto, Some("rtp")));
    assert_eq!((db.period_us, db.lease_us, db.params.value("laxity")), (Some(21_000.0), Some(22_000.0), 0));
    assert_eq!(
        (db.waits.len(), db.vcpus.iter().filter_map(|v| v.waits.get("under")).map(|w| w.count).sum::<u64>()),
        (0, 5)
    );
    assert_eq!((db.params.weight(), db.params.cap()), (105, 0));
    assert_eq!(db.params.server(), Server::default());
}

#[test]
fn why_a_vm_is_real_time_and_for_how_long() {
    let of = |mode: u64, rule, rt: Option<(u64, u64)>| {
        let mut one = pool("credit", &[0, 1]);
        if let Some((period, lease)) = rt {
            one.set_rt(1, 5, true, period, lease).unwrap();
        }
        adjust(&mut one, 5, &[("rt", mode)]);
        let vm = vms(&snapshot(&[one], |b| Snapshot::set_vm(b, 1, 5, |vm| vm.rule = rule)), &known).swap_remove(0);
        (vm.rt, vm.rule, vm.period_us, vm.lease_us)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(0, 0, None), (false, None, None, None));
    assert_eq!(of(0, 3, None), (false, None, None, None));
    assert_eq!(of(0, 0, Some((0, 5_000))), (true, some("by hand"), None, Some(5.0)), "its period is not known");
    assert_eq!(of(0, 1, Some((7_000, 5_000))), (true, some("port"), Some(7.0), Some(5.0)));
    assert_eq!(of(0, 3, Some((7_000, NEVER))), (true, some("rtsp"), Some(7.0), None), "for ever");
    assert_eq!(of(1, 3, Some((7_000, 5_000))).1, some("by hand"));
    assert_eq!(of(2, 3, Some((7_000, 5_000))), (false, None, None, None), "off wins");
}

#[test]
fn the_hosts_entities_are_no_vms() {
    let mut one = pool("credit", &[0, 1]);
    one.wake(2, 1, Source::Io).unwrap();
    let s = snapshot(&[one], |bytes| {
        Snapshot::set_vcpu(bytes, 1, 0, |h| h.wait[3] = wait(2));
        Snapshot::set_vcpu(bytes, 1, 1, |h| h.wait[3] = wait(4));
        Snapshot::set_vcpu(bytes, 1, 70, |h| h.wait[3] = wait(100));
    });
    let (all, waits) = entities(&s, &waited(3, &[70]));
    assert_eq!(
        all.iter().map(|v| (v.vcpu, v.pcpu, v.state.as_str())).collect::<Vec<_>>(),
        [(0, 0, "blocked"), (1, 1, "queued")]
    );
    assert_eq!((waits.len(), waits["over"].all.count, all[1].waits["over"].count), (1, 1, 4));
    let members = members(&s);
    assert_eq!(members.iter().map(|m| (m.vcpu, m.vm)).collect::<Vec<_>>().len(), 8);
    let kind = |v| members.iter().find(|m| m.vcpu == v).unwrap().kind;
    assert_eq!([kind(0), kind(70), kind(72)], [Kind::Host as u64, Kind::Guest as u64, Kind::Io as u64]);
    assert_eq!(vms(&s, &known).len(), 2);
}

#[test]
fn two_pools_are_told_apart() {
    let (rest, rt) = (pool("credit", &[0, 3]), pool("vgedf", &[1, 2]));
    let s = snapshot(&[rest, rt], |bytes| {
        Snapshot::set_side(bytes, 2, 5, Side::Rt);
        Snapshot::set_gone(bytes, 1 << 2);
    });
    let all = vms(&s, &known);
    assert_eq!(all.iter().map(|v| v.pool.as_deref()).collect::<Vec<_>>(), [Some("rt"), Some("rest")]);
    assert_eq!((pcpus(&s), pcpus_on(&s, Side::Rt), pcpus_on(&s, Side::Rest)), (vec![0, 1, 3], vec![1], vec![0, 3]));
    let two = pools(&s, &all, Some(2.5));
    let got: Vec<_> =
        two.iter().map(|p| (p.name.as_str(), p.policy.as_str(), p.vms.join(" "), p.shrinks_in_s)).collect();
    assert_eq!(got, [("rt", "vgedf", "db".to_owned(), Some(2.5)), ("rest", "credit", "web".to_owned(), None)]);
    assert_eq!((&two[0].pcpus, &two[1].pcpus), (&vec![1], &vec![0, 3]));
    assert_eq!(pools(&s, &all, None)[0].shrinks_in_s, None);
    assert!(pools(&snapshot(&[pool("credit", &[0, 1])], |_| ()), &all, Some(1.0)).is_empty());
}

#[test]
fn parameters_that_differ_are_told_as_they_are_set() {
    let told = |values: &[(&str, u64)]| {
        let mut one = pool("credit", &[0, 1]);
        for info in takt_policy::params().iter().filter(|p| !p.per_vm) {
            one.adjust(1, NIL, info.key, info.linux).unwrap();
        }
        adjust(&mut one, 5, &[("weight", 9), ("cap", 9)]);
        adjust(&mut one, NIL, values);
        parameters(&snapshot(&[one], |_| ())).into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(told(&[]), "");
    assert_eq!(told(&[("surplus", 0), ("rt_max", 3), ("slice", 5 * MS)]), "rt_max=3 slice=5ms surplus=discard");
    assert_eq!(told(&[("surplus", 1), ("preempted", 1)]), "", "those are this host's own");
    assert_eq!(told(&[("laxity", 20_000), ("latency", 16 * MS)]), "latency=16ms laxity=20us", "the pool's");
}

#[test]
fn states_have_the_names_of_the_documents() {
    let names = [
        (State::Absent, "absent"),
        (State::Blocked, "blocked"),
        (State::Queued, "queued"),
        (State::Picked, "picked"),
        (State::Running, "running"),
        (State::Descheduling, "descheduling"),
        (State::Paused, "paused"),
        (State::Parked, "parked"),
    ];
    for (state_, name) in names {
        assert_eq!(state(state_), name);
    }
    assert_eq!((side_name(Side::Rt), side_name(Side::Rest)), ("rt", "rest"));
    assert_eq!((us(1), us(1_500_000)), (0.001, 1_500.0));
}

#[test]
fn a_vcpu_is_told_from_its_own_pool() {
    let (mut rest, rt) = (pool("credit", &[0, 3]), pool("vgedf", &[1, 2]));
    rest.wake(2, 71, Source::Io).unwrap();
    let s = snapshot(&[rest, rt], |_| ());
    let v = vcpu(&s, 71);
    assert_eq!((v.vcpu, v.pcpu, v.state.as_str(), v.class.as_str()), (71, 3, "queued", s.pool.class(71).name()));
    assert_eq!((v.credit, vcpu(&s, 70).state.as_str()), (s.pool.credit(71), "blocked"));
}

/// With everything that may be there: one VM, and Risa's pools.
#[test]
fn documents_are_as_published() {
    let (mut rest, rt) = (pool("credit", &[0, 3]), pool("vgedf", &[1, 2]));
    for info in takt_policy::params().iter().filter(|p| !p.per_vm) {
        rest.adjust(1, NIL, info.key, if info.name == "slice" { 5 * MS } else { info.linux }).unwrap();
    }
    rest.set_rt(1, 2, true, 21 * MS, 22 * MS).unwrap();
    let s = snapshot(&[rest, rt], |bytes| {
        Snapshot::set_side(bytes, 2, 5, Side::Rt);
        Snapshot::set_vcpu(bytes, 2, 80, |h| h.wait[1] = wait(1));
        Snapshot::set_vcpu(bytes, 2, 0, |h| h.wait[3] = wait(2));
    });
    let device = DeviceStatus { name: "tap0".into(), kind: "tap".into() };
    let vms = vms(&s, &|vm| Known {
        ports: "554,5000-5010".parse().unwrap(),
        devices: vec![device.clone()],
        blind: (vm == 5).then(|| "vhost-user".to_owned()),
        monitor: (vm == 2).then(|| Times { first: 3, told: 1, ..Times::default() }),
        group: if vm == 2 { "g".into() } else { String::new() },
        set_by: [("weight", "takt set"), ("ports", "[vm.web]"), ("cap", "cgroup")]
            .into_iter()
            .filter(|_| vm == 2)
            .map(|(key, by)| (key.into(), by.into()))
            .collect(),
        waited: waited(1, if vm == 2 { &[2_000] } else { &[] }),
        ..known(vm)
    });
    let (entities, waits) = entities(&s, &waited(3, &[2_000, 6_000]));
    let host = HostStatus {
        policy: s.pool.policy().to_owned(),
        parameters: parameters(&s),
        kernel: "7.3.4".into(),
        config: Some("/etc/takt/takt.toml".into()),
        uptime_s: 12.5,
        pcpus: pcpus(&s),
        pools: pools(&s, &vms, Some(2.5)),
        kvm: true,
        recording: false,
        real_time_vms: 1,
        counts: s.counts(),
        entities,
        waits,
        cost: Cost::of((2_500_000_000, 7)),
    };
    let all = Status { host, vms };
    schema::example::<Status>(&document::value(&all).unwrap());
    let after = all.clone().after(Some("web"));
    assert_eq!((after.policy.as_str(), after.vm.as_ref().map(|v| v.name.as_str())), ("credit", Some("web")));
    schema::example::<After<VmStatus>>(&document::value(&after).unwrap());
    let policy = all.after(None);
    assert_eq!((policy.parameters["slice"].as_str(), &policy.vm), ("5ms", &None));
    schema::valid::<After<VmStatus>>(&document::value(&policy).unwrap());
}
