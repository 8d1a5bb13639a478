// SPDX-License-Identifier: GPL-2.0-only
//! What VMs get of a host on which one of them cheats (docs/security.md), on the native core.

mod host;

use host::{Does, GUEST, HOST, Host, IO, MS, Outcome, SECOND, US, Vm, live};

/// Policies that share by weight.
const SHARE: [&str; 5] = ["credit", "doris", "laxs", "poris", "bvt"];

/// PCPUs that each VM has to get: by weight, but no more than it has VCPUs.
fn fair(pcpus: u16, vms: &[Vm]) -> Vec<f64> {
    let mut fair = vec![None; vms.len()];
    loop {
        let left = f64::from(pcpus) - fair.iter().flatten().sum::<f64>();
        let open = || (0..vms.len()).filter(|&i| fair[i].is_none());
        let weight: u64 = open().map(|i| vms[i].weight).sum();
        let share = |i: usize| left * vms[i].weight as f64 / weight as f64;
        let full: Vec<_> = open().filter(|&i| share(i) > f64::from(vms[i].vcpus)).collect();
        if full.is_empty() {
            return (0..vms.len()).map(|i| fair[i].unwrap_or_else(|| share(i))).collect();
        }
        full.into_iter().for_each(|i| fair[i] = Some(f64::from(vms[i].vcpus)));
    }
}

/// Of the VMs in `honest` none has less than 0.97 of what is fair, and no other more than 1.02.
fn all_fair(what: &str, (pcpus, seconds): (u16, u64), vms: &[Vm], honest: &[usize]) -> Vec<String> {
    let fair = fair(pcpus, vms);
    let mut unfair = Vec::new();
    for policy in SHARE {
        for on in ["linux", "xen"] {
            let Outcome { had, .. } = Host::run(policy, &live(on), pcpus, vms, seconds * SECOND);
            let bad = |&i: &usize| {
                let of = had[i] / fair[i];
                if honest.contains(&i) { of < 0.97 } else { of > 1.02 }
            };
            if let Some(vm) = (0..vms.len()).find(bad) {
                unfair.push(format!("{what}, {policy}(live={on}), VM {vm}: {had:.3?}, fair are {fair:.3?}\n"));
            }
        }
    }
    unfair
}

/// Rule C44: threads of all kinds, replaced after lives of any length.
#[test]
fn replaced_threads_gain_nothing() {
    let mut unfair = Vec::new();
    for (least, most) in [(MS, MS), (5 * MS, 5 * MS), (20 * MS, 20 * MS), (29 * MS, 31 * MS), (MS, 40 * MS)] {
        for kind in [GUEST, IO, HOST] {
            for vcpus in [1, 2, 8] {
                let churns = Vm { kind, ..Vm::new(256, vcpus, Does::Replaces(least, most)) };
                let vms = [Vm::new(256, 2, Does::Computes), churns, Vm::new(64, 2, Does::Computes)];
                let what = format!("{vcpus} VCPUs of kind {kind} that live {least} to {most} ns");
                unfair.extend(all_fair(&what, (2, 10), &vms, &[0, 2]));
            }
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule C44: VMs that end and are started again, after lives of any length, where their host has the new one owe what the last
/// one did. In 20 s: a slice is 1.3 % of what the lightest has then.
#[test]
fn restarted_vms_gain_nothing() {
    let mut unfair = Vec::new();
    for (least, most) in [(MS, MS), (5 * MS, 5 * MS), (20 * MS, 20 * MS), (29 * MS, 31 * MS), (MS, 40 * MS)] {
        for (vms, vcpus) in [(1, 1), (1, 2), (1, 8), (4, 2), (8, 1)] {
            let restarts = Vm::new(256 / vms, vcpus, Does::Restarts(least, most, true));
            let honest = [Vm::new(256, 2, Does::Computes), Vm::new(64, 2, Does::Computes)];
            let all = [&honest[..], &vec![restarts; vms as usize]].concat();
            let what = format!("{vms} VMs of {vcpus} VCPUs that live {least} to {most} ns");
            unfair.extend(all_fair(&what, (2, 20), &all, &[0, 1]));
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule C44: VMs that have their debts on one VCPU when accounting comes, and on many before and after it.
#[test]
fn gathered_debts_gain_nothing() {
    let mut unfair = Vec::new();
    for (each, ends) in [1, 2, 3, 4, 8, 16, 33].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        for (pcpus, vcpus) in [(2, 2), (2, 8), (8, 8), (8, 32)] {
            for (own, others) in [(64, 256), (256, 256)] {
                let honest = Vm::new(others, pcpus, Does::Computes);
                let vms = [honest, Vm::new(own, vcpus, Does::Gathers(each, ends))];
                let what = format!("{vcpus} VCPUs of weight {own} that gather at each {each}, the VM ends: {ends}");
                unfair.extend(all_fair(&what, (pcpus, 10), &vms, &[0]));
            }
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule C49: VMs that stop for a moment just before accounting, so that the slices of the others end then. A light one is
/// served in large pieces.
#[test]
fn pauses_before_accounting_gain_nothing() {
    let mut gained = Vec::new();
    for (pcpus, vms, own) in [(1, 1, 32), (4, 1, 32), (2, 3, 64), (8, 1, 64), (4, 3, 64), (1, 1, 256), (4, 3, 256)] {
        for each in [1, 2, 3, 4, 5, 6, 8] {
            let pauses = Vm::new(own, pcpus, Does::Pauses(each));
            let all = [vec![Vm::new(256, pcpus, Does::Computes); vms], vec![pauses]].concat();
            let fair = fair(pcpus, &all)[vms];
            for policy in SHARE {
                let of = Host::run(policy, &live("linux"), pcpus, &all, 20 * SECOND).had[vms] / fair;
                if of > 1.03 {
                    gained.push(format!("{policy}, {vms} VMs, {own}, each {each}: {of:.3}\n"));
                }
            }
        }
    }
    assert!(gained.is_empty(), "{}", gained.concat());
    // Where the other VMs have just as many VCPUs as there are PCPUs.
    let vms = |each| [[Vm::new(256, 2, Does::Computes); 2].as_slice(), &[Vm::new(32, 2, Does::Pauses(each))]].concat();
    let had = |each| Host::run("credit", &live("linux"), 4, &vms(each), 20 * SECOND).had[2];
    let most = (1..=8).map(had).fold(0.0, f64::max) / fair(4, &vms(1))[2];
    assert!((1.05..1.15).contains(&most), "{most:.3}");
    // Where the re-sort does not preempt.
    let vms = [Vm::new(256, 2, Does::Computes), Vm::new(32, 2, Does::Pauses(4))];
    let set = [live("linux"), vec![("resort", 0)]].concat();
    let had = Host::run("credit", &set, 2, &vms, 20 * SECOND).had[1];
    assert!((0.30..0.31).contains(&had), "{had:.3} of 0.222");
}

/// A VM has its share if its own I/O threads come and go.
#[test]
fn threads_that_come_and_go_cost_their_vm_nothing() {
    let mut unfair = Vec::new();
    for (least, most) in [(MS, MS), (5 * MS, 5 * MS), (MS, 40 * MS)] {
        for (n, kind) in [(1, IO), (4, IO)] {
            let with = Vm { threads: Some((n, kind, least, most)), ..Vm::new(256, 4, Does::Computes) };
            let vms = [Vm::new(256, 4, Does::Computes), with, Vm::new(64, 4, Does::Computes)];
            let what = format!("{n} threads of kind {kind} that live {least} to {most} ns");
            unfair.extend(all_fair(&what, (4, 10), &vms, &[0, 1, 2]));
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule C45: a claim does not grow with VCPUs. Under bvt a turn of each of 256 VCPUs takes 20 s.
#[test]
fn many_vcpus_gain_nothing() {
    let mut unfair = Vec::new();
    for vcpus in [8, 32, 64, 256] {
        for (many, others) in [(64, 1024), (64, 64), (256, 256), (1024, 64)] {
            let other = Vm::new(others, 4, Does::Computes);
            let vms = [other, Vm::new(many, vcpus, Does::Computes), other];
            let what = format!("{vcpus} VCPUs, weight {many} beside {others}");
            unfair.extend(all_fair(&what, (4, 40), &vms, &[0, 2]));
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule C45: a VCPU that hardly runs has its jobs done in time, though its sibling computes and is in debt. In vain if that debt is
/// paid before the VM's VCPUs are: up to all of the jobs are late then.
#[test]
fn a_debt_is_paid_by_the_vcpu_that_made_it() {
    let mut late = Vec::new();
    for (pcpus, weight, hogs, vcpus) in [(4, 256, 3, 4), (4, 64, 3, 4), (4, 64, 3, 1), (4, 256, 4, 1), (2, 64, 2, 2)] {
        let beside = Some((1, Does::Works { period: 5 * MS, work: 200 * US }));
        let host = Vm { kind: HOST, ..Vm::new(1024, 2, Does::Works { period: MS, work: 50 * US }) };
        let web = Vm::new(256, 1, Does::Works { period: 30 * MS, work: 3 * MS });
        let others = [vec![Vm::new(256, vcpus, Does::Computes); hogs], vec![host, web]].concat();
        let vms = [vec![Vm { beside, ..Vm::new(weight, 1, Does::Computes) }], others].concat();
        for policy in ["credit", "doris", "laxs", "poris"] {
            let got = Host::run(policy, &live("linux"), pcpus, &vms, 20 * SECOND);
            if got.late[0] * 20 > got.jobs[0] {
                late.push(format!("{policy}, {pcpus} PCPUs, weight {weight}: {} of {}\n", got.late[0], got.jobs[0]));
            }
        }
    }
    assert!(late.is_empty(), "{}", late.concat());
}

/// Rules C24, C25: parts of a whole are not rounded up for each of many, nor is one VM's debt paid for another.
#[test]
fn many_vms_gain_nothing() {
    let mut unfair = Vec::new();
    for (n, weight) in [(128, 2), (64, 4), (16, 16), (100, 1)] {
        let vms = [vec![Vm::new(256, 4, Does::Computes); 2], vec![Vm::new(weight, 1, Does::Computes); n]].concat();
        let fair = fair(4, &vms);
        for policy in SHARE {
            let Outcome { had, .. } = Host::run(policy, &live("linux"), 4, &vms, 20 * SECOND);
            let honest = had[..2].iter().zip(&fair).map(|(had, fair)| had / fair).fold(1.0, f64::min);
            if honest < 0.97 {
                unfair.push(format!("{n} of weight {weight}, {policy}: {honest:.3}\n"));
            }
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule B20: in virtual time VMs of any number of VCPUs have what is fair, also beside one that has a PCPU of its own.
#[test]
fn mixes_are_fair_in_virtual_time() {
    for vms in [&[(256, 1), (256, 3), (256, 4)][..], &[(256, 4), (256, 8), (256, 1)], &[(256, 1), (64, 4), (256, 4)]] {
        let vms: Vec<_> = vms.iter().map(|&(weight, vcpus)| Vm::new(weight, vcpus, Does::Computes)).collect();
        let (had, fair) = (Host::run("bvt", &live("linux"), 4, &vms, 20 * SECOND).had, fair(4, &vms));
        assert!((0..3).all(|i| had[i] >= 0.97 * fair[i]), "{had:.3?}, fair are {fair:.3?}");
    }
}

/// Rule C45: where masks keep VCPUs together on a PCPU, they have one's turns there.
#[test]
fn many_vcpus_on_a_pcpu_gain_nothing() {
    for policy in SHARE {
        for vcpus in [4, 16, 64] {
            let on = |n| Vm { mask: 1, ..Vm::new(256, n, Does::Computes) };
            let vms = [on(1), on(vcpus), Vm::new(256, 16, Does::Computes), Vm::new(256, 16, Does::Computes)];
            let got = Host::run(policy, &live("linux"), 16, &vms, 10 * SECOND);
            assert!(got.had[0] >= 0.97 * 0.5, "{policy}, {vcpus}: {:.3?}", got.had);
        }
    }
}

/// Rule C31: a cap is the VM's, also where its threads are replaced.
#[test]
fn replaced_threads_keep_their_cap() {
    for policy in ["credit", "doris", "laxs", "poris", "gang"] {
        for life in [MS, 5 * MS, 20 * MS] {
            let vms = [Vm { cap: 20, ..Vm::new(256, 4, Does::Replaces(life, life)) }];
            let got = Host::run(policy, &live("linux"), 4, &vms, 5 * SECOND);
            assert!(got.had[0] <= 0.21, "{policy}, {life}: {:.3?}", got.had);
        }
    }
}

/// What each of `vms`, which have no budgets, has of so many PCPUs under each policy with budgets: 0.97 of what is fair. A
/// queue of a PCPU's own does not know at once what a VM has elsewhere: `queues` of what is fair.
fn leaves(what: &str, pcpus: u16, queues: f64, vms: &[(Vm, f64)]) -> Vec<String> {
    let (vms, fair): (Vec<_>, Vec<_>) = vms.iter().copied().unzip();
    let mut unfair = Vec::new();
    for (policy, of) in [("rtxen", queues), ("sedf", queues), ("vgedf", 0.97)] {
        for reserve in [5, 0] {
            let set = [live("linux"), vec![("reserve", reserve)]].concat();
            let had = Host::run(policy, &set, pcpus, &vms, 5 * SECOND).had;
            if had.iter().zip(&fair).any(|(had, fair)| *had < of * fair) {
                unfair.push(format!("{what}, {policy}(reserve={reserve}): {had:.3?} of {fair:?}\n"));
            }
        }
    }
    unfair
}

/// Rule R37: VMs share what budgets leave, on all PCPUs together and on one, and with the host.
#[test]
fn many_vcpus_gain_nothing_of_what_budgets_leave() {
    let mut unfair = Vec::new();
    for (vcpus, queues) in [(4, 0.97), (64, 0.8), (255, 0.7)] {
        let vm = |n| Vm::new(256, n, Does::Computes);
        let host = |n| Vm { kind: HOST, ..vm(n) };
        let on = |mask, n| Vm { mask, ..vm(n) };
        let mut of = |what, pcpus, queues, vms: &[_]| {
            unfair.extend(leaves(&format!("{vcpus} VCPUs {what}"), pcpus, queues, vms));
        };
        of("beside a VM", 4, queues, &[(vm(2), 2.0), (vm(vcpus), 2.0)]);
        of("beside the host", 4, queues, &[(host(2), 2.0), (vm(vcpus), 2.0)]);
        of("beside a busy host", 4, 0.97, &[(host(16), 2.0), (vm(vcpus), 2.0)]);
        let batch = (vm(4), 1.0);
        of("on one PCPU", 4, 0.97, &[(on(1, 1), 0.5), (on(1, vcpus), 0.5), batch, batch]);
        let alone = (on(2, 1), 1.0);
        of("beside a VM alone on its PCPU", 2, 0.97, &[(on(1, 1), 0.5), (on(1, vcpus), 0.5), alone]);
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule R37: a VM that has run in its budgets only, or has not run at all, has no more than its part when it begins to compute.
#[test]
fn a_quiet_vm_does_not_save_what_budgets_leave() {
    let on = |does| Vm { mask: 1, ..Vm::new(256, 1, does) };
    let server = Some((5 * MS, 10 * MS, 1));
    for policy in ["rtxen", "sedf", "vgedf"] {
        // With a budget of half a PCPU, and a third of the rest where it may use that; the host settles in a second.
        for (server, least) in [(server, 0.15), (None, 0.31)] {
            let begins = Vm { server, ..on(Does::Begins(1100 * MS)) };
            let vms = [begins, on(Does::Computes), on(Does::Computes)];
            let had = Host::run(policy, &live("linux"), 1, &vms, SECOND).had;
            assert!(had[1..].iter().all(|&had| had >= least), "{policy}, {server:?}: {had:.3?}");
        }
    }
}

/// Rule R37: nor has a VM that ends and is started again, where its host has the new one owe what the last one did.
#[test]
fn restarted_vms_gain_nothing_of_what_budgets_leave() {
    let mut unfair = Vec::new();
    for (least, most) in [(500 * US, 500 * US), (MS, MS), (2 * MS, 2 * MS), (5 * MS, 5 * MS), (MS, 40 * MS)] {
        for vcpus in [1, 2] {
            let restarts = Vm::new(256, vcpus, Does::Restarts(least, most, true));
            let vms = [&[restarts][..], &[Vm::new(256, 2, Does::Computes); 4]].concat();
            for policy in ["rtxen", "sedf", "vgedf"] {
                let had = Host::run(policy, &live("linux"), 2, &vms, 5 * SECOND).had;
                if had[0] > 1.02 * 0.4 {
                    unfair
                        .push(format!("{vcpus} VCPUs that live {least} to {most} ns, {policy}: {had:.3?} of 0.400\n"));
                }
            }
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.concat());
}

/// Rule E9: a VCPU that makes up for a short block is before those that share what is left.
#[test]
fn what_is_left_does_not_delay_a_short_block() {
    let on = |does| Vm { mask: 1, ..Vm::new(256, 1, does) };
    let server = Some((5 * MS, 10 * MS, 1));
    let blocks = Vm { server, ..on(Does::Works { period: 2 * MS, work: 600 * US }) };
    let had = |leftover| {
        let set = [live("xen"), vec![("leftover", leftover)]].concat();
        Host::run("sedf", &set, 1, &[blocks, on(Does::Computes)], SECOND).had[0]
    };
    assert!((had(1) - had(0)).abs() < 0.01, "{:.3} of {:.3}", had(1), had(0));
}

/// Every policy, and the kinds of servers of rtxen.
fn policies() -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    let names = takt_policy::policies().into_iter().map(|p| p.name);
    let kinds = ["deferrable", "periodic", "polling", "sporadic"].len() as u64;
    names
        .flat_map(|name| (0..if name == "rtxen" { kinds } else { 1 }).map(move |kind| (name, kind)))
        .map(|(name, kind)| (name, [live("linux"), vec![("server", kind)]].concat()))
        .collect()
}

/// Rule C38: no more kicks than VCPUs that queue: on a wake, as they are preempted, or with a new budget.
#[test]
fn a_wake_costs_a_kick() {
    let wakes = |vcpus, period, work| Vm::new(256, vcpus, Does::Works { period, work });
    let mut many = Vec::new();
    for (policy, set) in policies() {
        for (what, vms) in [
            ("one at 50 kHz", vec![wakes(1, 20 * US, US)]),
            ("one at 50 kHz with packets", vec![Vm { sends: Some(20 * US), ..wakes(1, 20 * US, US) }]),
            ("one at 50 kHz with a budget", vec![Vm { server: Some((MS, 10 * MS, 1)), ..wakes(1, 20 * US, US) }]),
            ("90 at 1 kHz", vec![wakes(90, MS, 300 * US)]),
            ("90 at 1 kHz with budgets", vec![Vm { server: Some((3 * MS, 10 * MS, 1)), ..wakes(90, MS, 200 * US) }]),
            ("one beside batch work", vec![wakes(1, 20 * US, US), Vm::new(256, 32, Does::Computes)]),
        ] {
            let got = Host::run(policy, &set, 64, &vms, SECOND / 5);
            let Outcome { kicks, wakes, preempted, .. } = got;
            let budgets = vms.iter().map(|vm| vm.budgets(SECOND / 5)).sum::<u64>();
            if kicks > wakes + preempted + budgets {
                many.push(format!(
                    "{policy} {:?}, {what}: {kicks} kicks, {wakes} wakes, {preempted} puts, {budgets} budgets\n",
                    set.last()
                ));
            }
        }
    }
    assert!(many.is_empty(), "{}", many.concat());
}

/// Rule R34: honest servers miss what they miss without a tenant that splits its budgets.
#[test]
fn a_full_slab_harms_no_other() {
    let server = |budget, period, priority| Some((budget, period, priority));
    let honest = [
        Vm { server: server(1500 * US, 10 * MS, 1), ..Vm::new(256, 1, Does::Works { period: MS, work: 100 * US }) },
        Vm { server: server(3 * MS, 10 * MS, 2), ..Vm::new(256, 1, Does::Works { period: 2 * MS, work: 500 * US }) },
    ];
    let greedy = |vcpus| Vm {
        server: server(100 * US, 10 * MS, 1000),
        ..Vm::new(256, vcpus, Does::Works { period: if vcpus > 100 { 2 * MS } else { 50 * US }, work: US })
    };
    let set = [live("linux"), vec![("server", 3)]].concat();
    let alone = Host::run("rtxen", &set, 16, &honest, SECOND / 10);
    for vms in [vec![greedy(1000)], vec![greedy(20); 2]] {
        let got = Host::run("rtxen", &set, 16, &[&honest[..], &vms].concat(), SECOND / 10);
        let no_later = (0..2).all(|i| got.late[i] <= alone.late[i]);
        assert!(no_later, "{:?} of {:?}, alone {:?}", got.late, got.jobs, alone.late);
    }
}

/// Rule P21: a VM that sends a few packets, idle or busy, does not make all PCPUs switch more often.
#[test]
fn a_few_packets_do_not_shorten_slices() {
    for (policy, on) in [("poris", "linux"), ("poris", "xen"), ("gang", "linux")] {
        let batch = Vm::new(256, 8, Does::Computes);
        let works = |period, work| (1, Does::Works { period, work }, period);
        let quiet = [works(100 * MS, US), works(300 * MS, US), works(20 * MS, 50 * US)];
        let busy = [1, 8].map(|vcpus| (vcpus, Does::Computes, 20 * MS));
        for (vcpus, does, period) in quiet.into_iter().chain(busy) {
            let sender = Vm::new(256, vcpus, does);
            let with = |sends| {
                let vms: Vec<_> = [batch; 6].into_iter().chain([Vm { sends, ..sender }]).collect();
                Host::run(policy, &live(on), 4, &vms, 10 * SECOND)
            };
            let (without, with) = (with(None), with(Some(period)));
            let work = |o: &Outcome| o.had[..6].iter().sum::<f64>();
            let switches = with.switches as f64 / without.switches as f64;
            assert!(switches <= 1.5, "{policy}(live={on}), {sender:?}: {switches:.2} times the switches");
            assert!(work(&with) >= 0.97 * work(&without), "{policy}(live={on}), {sender:?}");
        }
    }
}

/// What docs/rules say that a guest gains where a rule is as published.
#[test]
fn by_the_published_rules_they_gain() {
    let with = |policy, published: &[_], pcpus, vms: &[Vm]| {
        let set = [&live("linux")[..], published].concat();
        Host::run(policy, &set, pcpus, vms, 10 * SECOND)
    };
    let had = |policy, name, value, pcpus, vms: &[Vm]| with(policy, &[(name, value)], pcpus, vms);
    let computes = |weight, vcpus| Vm::new(weight, vcpus, Does::Computes);
    // C44; what is not boosted as it begins gains nothing by that.
    let churns = Vm::new(256, 2, Does::Replaces(20 * MS, 20 * MS));
    let of_2 = with("credit", &[("debts", 0), ("eligible", 1)], 2, &[computes(256, 2), churns]).had[1];
    assert!(of_2 > 1.98, "{of_2:.3}");
    // The same for VMs that end, where their host forgets what they owed.
    for policy in ["credit", "doris", "laxs", "poris"] {
        let restarts = Vm::new(64, 2, Does::Restarts(29 * MS, 29 * MS, false));
        let victim = with(policy, &[], 2, &[vec![computes(256, 2)], vec![restarts; 4]].concat()).had[0];
        assert!((0.35..0.5).contains(&victim), "{policy}: {victim:.3} of 1");
    }
    let server = Some((MS, 10 * MS, 1));
    let churns = Vm { server, ..Vm::new(256, 2, Does::Replaces(900 * US, 900 * US)) };
    let of_2 = had("rtxen", "debts", 0, 2, &[computes(256, 2), churns]).had[1];
    assert!((1.85..1.95).contains(&of_2), "{of_2:.3}");
    // C45.
    let vms = [vec![computes(256, 4); 2], vec![computes(2, 1); 128]].concat();
    let of_4: f64 = had("credit", "claim", 0, 4, &vms).had[2..].iter().sum();
    assert!((3.35..3.5).contains(&of_4), "{of_4:.3}");
    // P21.
    let sends = Vm { sends: Some(100 * MS), ..Vm::new(256, 1, Does::Works { period: 100 * MS, work: US }) };
    let vms = [vec![computes(256, 8); 6], vec![sends]].concat();
    for (dynamic, per_second) in [(1, 1550..=1750), (2, 260..=300)] {
        let switches = had("poris", "dynamic", dynamic, 4, &vms).switches / 10;
        assert!(per_second.contains(&switches), "dynamic={dynamic}: {switches}");
    }
}
