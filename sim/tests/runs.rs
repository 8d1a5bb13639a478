// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs of small scenarios; every one under the checker of `docs/states.md`.

use takt_control::PolicySpec;
use takt_sim::{Options, RunResult, Scenario, Window, result::VmResult, run};

fn scenario(text: &str, sets: &[(&str, &str)]) -> Scenario {
    let mut s = Scenario::from_toml(text, "test.toml").unwrap();
    sets.iter().for_each(|(k, v)| s.set(k, v).unwrap());
    s
}

fn checked(s: &Scenario, policy: &str, seed: u64) -> RunResult {
    let options = Options { checker: true, ..Options::default() };
    run(s, &PolicySpec::parse(policy).unwrap(), seed, options).unwrap().0
}

fn vm<'a>(r: &'a RunResult, name: &str) -> &'a VmResult {
    r.vms.iter().find(|v| v.name == name).unwrap()
}

const VOIP: &str = include_str!("../../scenarios/voip.toml");
const TINY: &str = include_str!("../../scenarios/tiny.toml");
const STREAM: &str = include_str!("../../scenarios/stream.toml");
const ALONE: &str = include_str!("../../scenarios/voip-no-hogs.toml");

#[test]
fn without_hogs_every_policy_gives_clean_calls() {
    for policy in ["pin", "credit", "doris", "doris(dom0=off)"] {
        let s = scenario(ALONE, &[("duration", "3s"), ("vm.voip.calls", "20")]);
        let r = checked(&s, policy, 1);
        let voip = vm(&r, "voip").voip.as_ref().unwrap();
        assert!(voip.mean_pesq >= 4.3, "{policy}: {}", voip.mean_pesq);
        assert_eq!(voip.calls.len(), 20);
        assert!(voip.calls.iter().all(|c| (149..=151).contains(&c.sent)), "{policy}");
    }
}

#[test]
fn among_hogs_doris_keeps_calls_clean_and_credit_does_not() {
    let s = scenario(VOIP, &[("duration", "10s")]);
    let mean = |policy: &str| {
        let (mut pesq, mut work) = (0.0, 0.0);
        for seed in 1..=2 {
            let r = checked(&s, policy, seed);
            pesq += vm(&r, "voip").voip.as_ref().unwrap().mean_pesq / 2.0;
            work += r.vms.iter().map(|v| v.work).sum::<f64>() / 2.0;
        }
        (pesq, work)
    };
    let (doris, credit, pin) = (mean("doris"), mean("credit"), mean("pin"));
    assert!(doris.0 >= 4.3 && doris.0 >= 0.98 * pin.0, "doris {doris:?}, pin {pin:?}");
    assert!(credit.0 <= 3.6, "credit {credit:?}");
    assert!(doris.1 >= 0.99 * credit.1, "work {doris:?}, {credit:?}");
    assert!(pin.1 < doris.1, "pinning gives PCPUs away: {pin:?}, {doris:?}");
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let s = scenario(VOIP, &[("duration", "1s"), ("vm.voip.calls", "30")]);
    let bytes = |policy: &str, seed| {
        let window = Window { from: 100_000_000, to: 200_000_000 };
        let options = Options { trace: Some(window), record: true, ..Options::default() };
        let (r, trace, log) = run(&s, &PolicySpec::parse(policy).unwrap(), seed, options).unwrap();
        (serde_json::to_string(&r).unwrap(), serde_json::to_string(&trace.unwrap()).unwrap(), log)
    };
    for policy in ["credit", "doris", "pin"] {
        let first = bytes(policy, 7);
        assert!(first == bytes(policy, 7), "{policy}");
        let other = bytes(policy, 8);
        assert!(first.0 != other.0 && first.1 != other.1 && first.2 != other.2, "{policy}");
    }
}

/// Observers do not change what they see.
#[test]
fn observed_or_not_a_run_is_the_same() {
    let s = scenario(TINY, &[("duration", "1s")]);
    let policy = PolicySpec::parse("doris").unwrap();
    let plain = run(&s, &policy, 1, Options::default()).unwrap().0;
    let mut seen = Vec::new();
    let mut progress = |x: f64| seen.push(x);
    let options = Options {
        trace: Some(Window { from: 0, to: 1_000_000_000 }),
        checker: true,
        record: true,
        progress: Some(&mut progress),
    };
    assert_eq!(run(&s, &policy, 1, options).unwrap().0, plain);
}

#[test]
fn a_log_replays_to_the_same_decisions() {
    let s = scenario(TINY, &[("duration", "1s")]);
    let options = Options { record: true, ..Options::default() };
    let (r, _, mut logs) = run(&s, &PolicySpec::parse("doris").unwrap(), 3, options).unwrap();
    let log = logs.remove(0);
    assert_eq!(log.len() as u64, r.host.policy_ops);
    let mut pool = takt_policy::Pool::new("doris").unwrap();
    for record in &log {
        assert_eq!(pool.op(record.op), record.res);
    }
}

#[test]
fn accounts_add_up() {
    for policy in ["credit", "doris"] {
        let r = checked(&scenario(VOIP, &[("duration", "2s")]), policy, 5);
        let run: u64 = r.vms.iter().map(|v| v.cpu_time_ns).sum();
        assert_eq!(run + r.host.idle_ns + r.host.overhead_ns, 8 * r.duration_ns, "{policy}");
        for v in &r.vms {
            assert_eq!(v.cpu_time_ns, v.vcpus.iter().map(|c| c.cpu_time_ns).sum::<u64>());
            assert_eq!(v.wait["all"].entries, v.wait.iter().filter(|w| w.0 != "all").map(|w| w.1.entries).sum::<u64>());
            assert!(v.work * 1e9 <= v.cpu_time_ns as f64 + 1.0);
        }
        assert!(r.host.jain > 0.99 && r.host.stalls == 0);
    }
}

#[test]
fn slices_of_a_trace_do_not_overlap() {
    let s = scenario(VOIP, &[("duration", "1s"), ("vm.voip.calls", "30")]);
    let window = Window { from: 0, to: 200_000_000 };
    let options = Options { trace: Some(window), ..Options::default() };
    let trace = run(&s, &PolicySpec::parse("doris").unwrap(), 1, options).unwrap().1.unwrap();
    assert_eq!((trace.pcpus, trace.vms.len(), trace.vcpus.len(), trace.to - trace.from), (8, 5, 33, 200_000_000));
    for cpu in 0..8 {
        let mut slices: Vec<_> = trace.slices.iter().filter(|s| s.pcpu == cpu).collect();
        slices.sort_by_key(|s| s.from);
        assert!(slices.len() > 5 && slices.iter().all(|s| s.from < s.to));
        assert!(slices.windows(2).all(|w| w[0].to <= w[1].from));
        let busy: u64 = slices.iter().map(|s| s.to - s.from).sum();
        assert!(busy > 190_000_000, "PCPU {cpu} busy for {busy} ns");
    }
    for kind in ["Wake", "Io", "Tick", "Promotion"] {
        assert!(trace.markers.iter().any(|m| format!("{:?}", m.kind) == kind), "{kind}");
    }
}

#[test]
fn the_monitor_finds_senders_and_their_periods() {
    let s = scenario(STREAM, &[("duration", "3s")]);
    let r = checked(&s, "doris", 1);
    let streaming = vm(&r, "streaming");
    assert!(streaming.rt && streaming.period_ns.abs_diff(70_000_000) < 10_000_000, "{streaming:?}");
    let gaming = vm(&r, "gaming");
    assert!(gaming.rt && gaming.tx.unwrap().gap_p50_ns.abs_diff(100_000) < 15_000, "{gaming:?}");
    assert!(!vm(&r, "hog").rt);
}

#[test]
fn rt_off_and_on_win_over_the_monitor() {
    let r = checked(&scenario(TINY, &[("duration", "1s"), ("vm.voip.rt", "off")]), "doris", 1);
    assert!(!vm(&r, "voip").rt && vm(&r, "voip").promotions == 0);
    let r = checked(&scenario(TINY, &[("duration", "1s"), ("vm.hog.rt", "on")]), "doris", 1);
    assert!(vm(&r, "hog").rt && vm(&r, "voip").rt);
}

#[test]
fn a_vm_that_falls_silent_lapses() {
    let text = "[[vm]]\nname = \"s\"\nvcpus = 1\nworkload = { type = \"stream\", period = \"10s\", burst = 50, gap = \"20ms\" }";
    let at = |time: &str| vm(&checked(&scenario(text, &[("warmup", "0"), ("duration", time)]), "doris", 1), "s").rt;
    assert!(at("1s") && !at("3s"));
}

#[test]
fn periodic_tasks_meet_their_deadlines_unless_overloaded() {
    let text = "duration = \"2s\"\n[machine]\npcpus = 1\n[[vm]]\nname = \"t\"\ncount = 2\nvcpus = 1\n\
                workload = { type = \"periodic\", period = \"40ms\", work = \"10ms\" }";
    let missed = |work: &str| {
        let r = checked(&scenario(text, &[("vm.t.work", work)]), "credit", 1);
        r.vms.iter().filter_map(|v| v.periodic.as_ref()).fold((0, 0), |s, p| (s.0 + p.jobs, s.1 + p.missed))
    };
    let (jobs, none) = missed("10ms");
    assert!((98..=102).contains(&jobs) && none == 0, "{none} of {jobs}");
    assert!(missed("25ms").1 > 20);
}

#[test]
fn full_rings_drop() {
    let s = scenario(TINY, &[("duration", "1s"), ("voip.guest_per_packet", "9ms"), ("net.vif_ring", "4")]);
    let r = checked(&s, "credit", 1);
    let voip = vm(&r, "voip");
    assert!(voip.drops.rx > 0 && r.host.ring_drops >= voip.drops.rx);
    let calls = &voip.voip.as_ref().unwrap().calls;
    assert!(calls.iter().map(|c| c.lost + c.late).sum::<u64>() > 0);
}

#[test]
fn caps_weights_and_affinity_hold() {
    let text = "duration = \"3s\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"a\"\nvcpus = 2\nweight = 512\nworkload = \"hog\"\n\
                [[vm]]\nname = \"b\"\nvcpus = 2\nworkload = \"hog\"\n\
                [[vm]]\nname = \"c\"\nvcpus = 1\ncap = 20\nworkload = { type = \"hog\", threads = 3 }";
    let r = checked(&scenario(text, &[]), "credit", 1);
    let [a, b, c] = ["a", "b", "c"].map(|n| vm(&r, n).work);
    assert!((1.7..2.3).contains(&(a / b)), "{a} {b}");
    assert!((0.5..0.7).contains(&c), "{c}");
    let r = checked(&scenario(text, &[("vm.a.affinity", "1"), ("vm.a.cap", "0")]), "credit", 1);
    assert!(vm(&r, "a").work <= 3.0);
}

#[test]
fn extremes_run() {
    let many = "duration = \"20ms\"\nwarmup = \"20ms\"\n[machine]\npcpus = 64\n[[vm]]\nname = \"h\"\ncount = 120\nvcpus = 8\nworkload = \"hog\"";
    let r = checked(&scenario(many, &[]), "doris", 1);
    assert_eq!(r.vms.len(), 121);
    let costs = ["machine.switch", "machine.decision", "machine.ipi", "machine.stagger", "guest.irq", "guest.hz"];
    let free: Vec<_> = costs.iter().map(|&k| (k, "0")).collect();
    let zero = [
        ("voip.guest_per_packet", "0"),
        ("dom0.rx_per_packet", "0"),
        ("dom0.tx_per_packet", "0"),
        ("duration", "200ms"),
    ];
    for policy in ["credit", "doris(min_ts=1us,period=10us)"] {
        checked(&scenario(TINY, &[&free[..], &zero[..]].concat()), policy, 1);
    }
    for net in ["one", "per-vif", "spread"] {
        let s = scenario(
            VOIP,
            &[("duration", "200ms"), ("dom0.net_vcpu", net), ("net.coalesce", "50us"), ("dom0.stamp", "guest")],
        );
        checked(&s, "doris", 1);
    }
}

#[test]
fn pinning_needs_pcpus() {
    let s = scenario(TINY, &[]);
    let e = run(&s, &PolicySpec::parse("pin").unwrap(), 1, Options::default()).unwrap_err().to_string();
    assert_eq!(
        e,
        "policy pin: 2 VCPUs need a dedicated PCPU each and 3 share the others; machine.pcpus is 2; allowed: 3 to 64"
    );
}

/// What an operator says of a VM reaches policy and monitor through control (`rt`, weight, cap).
#[test]
fn the_settings_of_a_vm_take_effect() {
    let text = r#"
        name = "settings"
        duration = "5s"
        [machine]
        pcpus = 4
        [[vm]]
        name = "voip"
        vcpus = 1
        weight = 512
        ports = [5060, "10000-10100"]
        workload = { type = "voip", calls = 10 }
        [[vm]]
        name = "off"
        vcpus = 1
        rt = "off"
        workload = { type = "voip", calls = 10 }
        [[vm]]
        name = "on"
        vcpus = 1
        rt = "on"
        workload = "idle"
        [[vm]]
        name = "hog"
        vcpus = 4
        cap = 50
        workload = "hog"
    "#;
    let result = checked(&scenario(text, &[]), "doris", 1);
    let vm = |name: &str| vm(&result, name);
    assert_eq!((vm("voip").weight, vm("voip").rt), (512, true));
    assert!(vm("voip").period_ns > 0);
    assert_eq!((vm("off").rt, vm("off").promotions), (false, 0));
    assert_eq!((vm("on").rt, vm("on").period_ns), (true, 0));
    assert!((2.4..2.6).contains(&vm("hog").work), "half a PCPU for 5 s is no {} s", vm("hog").work);
}

/// One PCPU, two servers and what they are to do.
const SERVERS: &str = "duration = \"2s\"\nwarmup = \"0\"\n[machine]\npcpus = 2\n[dom0]\nvcpus = 1\naffinity = 0\n\
    [[vm]]\nname = \"a\"\nvcpus = 1\naffinity = 1\nbudget = \"5ms\"\nperiod = \"10ms\"\npriority = 1\nextra = \"off\"\n\
    workload = { type = \"tasks\", tasks = \"4ms/20ms, 6ms/50ms\" }\n\
    [[vm]]\nname = \"b\"\nvcpus = 1\naffinity = 1\nbudget = \"10ms\"\nperiod = \"20ms\"\npriority = 2\nextra = \"off\"\n\
    workload = { type = \"tasks\", tasks = \"9ms/100ms, 6ms/40ms\" }";

#[test]
fn tasks_on_servers_meet_their_deadlines_unless_there_are_too_many() {
    for policy in ["deferrable", "periodic", "polling", "sporadic"].map(|k| format!("rtxen(server={k},reserve=0)")) {
        let r = checked(&scenario(SERVERS, &[]), &policy, 1);
        for name in ["a", "b"] {
            let tasks = &vm(&r, name).tasks;
            assert!(
                tasks.iter().all(|t| t.missed == 0 && t.jobs > 0 && t.response_max_ns <= t.period_ns),
                "{policy}: {tasks:?}"
            );
            assert!(tasks[0].period_ns < tasks[1].period_ns, "by priority");
        }
        let [a, b] = [0, 1].map(|n| vm(&r, "a").tasks[n].jobs);
        assert!((99..=101).contains(&a) && (39..=41).contains(&b), "{a} {b}");
        // More than half of the PCPU: the longer deadline pays, and nobody outside.
        let r = checked(&scenario(SERVERS, &[("vm.a.tasks", "4ms/20ms,20ms/50ms")]), &policy, 1);
        let tasks = &vm(&r, "a").tasks;
        assert!(tasks[0].missed == 0 && tasks[1].missed * 10 > tasks[1].jobs * 8, "{policy}: {tasks:?}");
        assert!(vm(&r, "b").tasks.iter().all(|t| t.missed == 0), "{policy}");
    }
}

#[test]
fn a_pcpu_that_idles_on_a_budget_asks_for_no_decision_without_end() {
    // The upper server has no work, the lower one waits for it to idle its budget away.
    let s = scenario(SERVERS, &[("duration", "1s"), ("vm.a.tasks", "1us/1s"), ("vm.b.tasks", "9ms/20ms")]);
    let r = checked(&s, "rtxen(server=periodic,reserve=0)", 1);
    assert!(r.pcpus[1].decisions < 3_000, "{:?}", r.pcpus[1]);
    assert!(r.pcpus[1].switches > 0 && r.pcpus[1].switch_ns >= r.pcpus[1].switches * 2_000);
}

/// Each decision and each switch costs what the scenario says, and is counted once.
#[test]
fn what_decisions_and_switches_cost_is_told_as_by_a_live_host() {
    let s = scenario(SERVERS, &[("machine.decision", "200ns"), ("machine.switch", "40us"), ("machine.resume", "1us")]);
    let r = checked(&s, "rtxen(reserve=0)", 1);
    let (decisions, switches) = r.pcpus.iter().fold((0, 0), |n, p| (n.0 + p.decision.count, n.1 + p.change.count));
    assert_eq!((decisions, switches), (r.host.decisions, r.host.switches));
    let (d, c) = (r.pcpus[1].decision, r.pcpus[1].change);
    assert_eq!((d.count, d.max_ns, c.max_ns), (r.pcpus[1].decisions, 200, 41_000));
    assert!(c.count > 0 && c.total_us == c.count as f64 * 41.0 && d.total_us == d.count as f64 / 5.0, "{d:?} {c:?}");
    // Of equal times every percentile is one, not the end of its bucket.
    assert_eq!((d.median_ns, d.p99_ns, c.median_ns, c.p99_ns), (200, 200, 41_000, 41_000));
}

#[test]
fn servers_need_room() {
    let s = scenario(SERVERS, &[("vm.a.budget", "6ms")]);
    let policy = PolicySpec::parse("rtxen(reserve=0)").unwrap();
    let error = format!("{:#}", takt_sim::run(&s, &policy, 1, Options::default()).unwrap_err());
    assert!(error.contains("b: no PCPU has room for a budget of 10ms in 20ms"), "{error}");
    checked(&s, "credit", 1);
}

/// S: a VM that is not real-time, behind many that are and never block, waits for its turn as they
/// do (rule L26).
#[test]
fn under_s_nobody_starves_behind_real_time_vcpus() {
    let s = scenario(CROWD, &[]);
    for policy in ["A", "AL", "ALL", "AILL", "laxs(infinite=on)"] {
        let r = checked(&s, policy, 1);
        let plain = vm(&r, "plain");
        // Thirteen on two PCPUs, a slice of 30 ms each: once round all of them at most.
        let longest = plain.wait["all"].max_ns / 1_000_000;
        assert!(longest <= 13 * 30, "{policy}: {longest} ms");
        let share = plain.cpu_time_ns as f64 / r.duration_ns as f64 / (2.0 / 13.0);
        // With infinite credit (rule L10) the other VMs are never OVER, and this one is OVER for a
        // part of each interval.
        let least = if ["AILL", "laxs(infinite=on)"].contains(&policy) { 0.6 } else { 0.9 };
        assert!((least..=1.1).contains(&share), "{policy}: {share} of its share");
    }
}

/// What the scenario says of all policies, each may say otherwise.
#[test]
fn parameters_are_those_of_each_policy_that_sets_none() {
    let switches = |s: &Scenario, policy: &str| checked(s, policy, 1).host.switches;
    let (plain, set) = (scenario(CROWD, &[]), scenario(CROWD, &[("parameters", "slice=5ms")]));
    let short = switches(&plain, "credit(slice=5ms)");
    assert_ne!(switches(&plain, "credit"), short);
    assert_eq!(switches(&set, "credit"), short);
    assert_eq!(switches(&set, "credit(slice=30ms)"), switches(&plain, "credit(slice=30ms)"));
}

const CROWD: &str = r#"
title = "Twelve real-time hogs and another one"
duration = "10s"
policies = ["ALL"]
[machine]
pcpus = 2
llc = 2
node = 2
[[vm]]
name = "rt"
count = 12
vcpus = 1
rt = "on"
workload = "hog"
[[vm]]
name = "plain"
vcpus = 1
workload = "hog"
"#;
