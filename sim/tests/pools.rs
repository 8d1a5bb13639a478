// SPDX-License-Identifier: GPL-2.0-only
//! Several pools on a machine: static ones, Risa's, and VMs that come and go. Every run is under the checker, each pool's for itself.

use takt_control::PolicySpec;
use takt_policy::Pool;
use takt_sim::result::{PoolsResult, VmResult};
use takt_sim::{Options, RunResult, Scenario, run};

const SCRIPT: &str = include_str!("../../scenarios/risa-pools.toml");
const VOIP: &str = include_str!("../../scenarios/risa-voip.toml");
const CYCLIC: &str = include_str!("../../scenarios/risa-cyclictest.toml");

fn scenario(text: &str, sets: &[(&str, &str)]) -> Scenario {
    let mut s = Scenario::from_toml(text, "test.toml").unwrap();
    sets.iter().for_each(|(k, v)| s.set(k, v).unwrap());
    s
}

fn checked(s: &Scenario, policy: &str, seed: u64) -> RunResult {
    let options = Options { checker: true, ..Options::default() };
    let r = run(s, &PolicySpec::parse(policy).unwrap(), seed, options).unwrap().0;
    let ran: u64 = r.vms.iter().map(|v| v.cpu_time_ns).sum();
    let all = u64::from(r.host.pcpus) * r.duration_ns;
    assert_eq!(ran + r.host.idle_ns + r.host.overhead_ns, all, "{policy}");
    r
}

fn pools(r: &RunResult) -> &PoolsResult {
    r.pools.as_ref().unwrap()
}

fn vm<'a>(r: &'a RunResult, name: &str) -> &'a VmResult {
    r.vms.iter().find(|v| v.name == name).unwrap()
}

#[test]
fn risas_pool_follows_its_vms_and_a_static_one_does_not() {
    let mut s = scenario(SCRIPT, &[("duration", "24s")]);
    for (step, second) in s.script.iter_mut().zip([4, 10, 18]) {
        step.time = second * 1_000_000_000;
    }
    let risa = checked(&s, "risa(delay=3s)", 1);
    let seconds: Vec<_> = pools(&risa).moves.iter().map(|m| (m.at_ns / 1_000_000_000, m.to.as_str())).collect();
    assert_eq!(seconds, [(4, "rt"), (4, "rt"), (13, "main"), (21, "main")]);
    assert_eq!((pools(&risa).commands, pools(&risa).list[0].pcpus.len()), (0, 8));
    assert_eq!(pools(&risa).rt_pcpus[10..14], [2, 2, 1, 1], "one sample at the end of each second");
    for (second, level) in [(2, 800.0), (6, 600.0), (11, 600.0), (15, 700.0), (19, 700.0), (22, 800.0)] {
        let got = pools(&risa).rest_cpu_pct[second];
        assert!((got - level).abs() < 5.0, "{got} at {second} s");
    }
    let rt = vm(&risa, "rt-1").periodic.unwrap();
    assert!((1_380..=1_400).contains(&rt.jobs) && rt.missed == 0, "14 s of jobs every 10 ms: {rt:?}");
    let fixed = checked(&s, "sp(rt=vgedf)", 1);
    assert_eq!((pools(&fixed).commands, pools(&fixed).moves.len()), (8, 2));
    assert!(pools(&fixed).rest_cpu_pct[2] < 601.0);
    // In one pool the same script moves nothing.
    let one = checked(&s, "credit", 1);
    assert_eq!((pools(&one).list.len(), pools(&one).moves.len()), (1, 0));
}

#[test]
fn packets_cross_pools() {
    // With the rule of live hosts calls are good under each of them.
    let s = scenario(VOIP, &[("duration", "3s"), ("vm.voip.calls", "10"), ("parameters", "activate=burn")]);
    for policy in ["baseline", "risa", "sp(first=4)", "sp(first=6,mode=deferrable)", "risa(need=gfb,shrink=literal)"] {
        let r = checked(&s, policy, 1);
        let voip = vm(&r, "voip").voip.as_ref().unwrap();
        assert!(voip.mean_pesq > 4.3, "{policy}: {}", voip.mean_pesq);
        let list = &pools(&r).list;
        let dom0 = list.iter().find(|p| p.name == "dom0").unwrap();
        assert_eq!((dom0.vms.as_slice(), dom0.pcpus.as_slice()), (&["dom0".to_owned()][..], &[0, 1, 2, 3][..]));
        let commands = if policy.starts_with("sp") { 1 + 2 + 7 + 7 } else { 0 };
        assert_eq!(pools(&r).commands, commands, "{policy}");
        if policy != "baseline" {
            assert_eq!((list[1].pcpus.len(), list[1].vms.len(), list[0].vms.len()), (2, 7, 7), "{policy}");
        }
    }
}

#[test]
fn each_pools_log_replays_and_equal_seeds_are_equal() {
    let mut s = scenario(VOIP, &[("duration", "2s"), ("vm.voip.calls", "20")]);
    s.script = scenario(SCRIPT, &[]).script;
    for (step, (vm, time)) in s.script.iter_mut().zip([("voip", 300), ("rt-1", 900), ("rt", 1_500)]) {
        (step.vm, step.time) = (vm.to_owned(), time * 1_000_000);
    }
    let policy = PolicySpec::parse("risa(delay=200ms)").unwrap();
    let once = |seed| run(&s, &policy, seed, Options { record: true, checker: true, ..Options::default() }).unwrap();
    let (r, _, logs) = once(1);
    assert_eq!(logs.len(), 3);
    assert_eq!(logs.iter().map(|l| l.len() as u64).sum::<u64>(), r.host.policy_ops);
    for (log, pool) in logs.iter().zip(["credit", "vgedf", "credit"]) {
        let mut pool = Pool::new(pool).unwrap();
        assert!(log.iter().all(|record| pool.op(record.op) == record.res));
        pool.check().unwrap();
    }
    let again = once(1);
    assert!(serde_json::to_string(&r).unwrap() == serde_json::to_string(&again.0).unwrap() && logs == again.2);
    assert!(pools(&r).moves.len() == 3 && once(2).2 != logs);
}

/// A step every few ms: PCPUs and VMs move in the midst of whatever they do.
#[test]
fn moves_meet_vcpus_in_every_state() {
    let mut text = VOIP.to_owned();
    for n in 0..200u32 {
        let (vm, budget) = (1 + n % 6, [0, 2, 4, 1][(n / 6) as usize % 4]);
        let period = if budget == 0 { 0 } else { 10 };
        let time = 100_000 + n * 7_351;
        text += &format!(
            "\n[[at]]\ntime = \"{time}us\"\nvm = \"rt-{vm}\"\nbudget = \"{budget}ms\"\nperiod = \"{period}ms\"\n"
        );
    }
    for (policy, seed) in
        [("risa(delay=1ms)", 1), ("risa(delay=5ms,shrink=literal)", 2), ("risa(delay=0ms,mode=deferrable)", 3)]
    {
        let s = scenario(&text, &[("duration", "2s"), ("vm.voip.calls", "30"), ("vm.rt.count", "6")]);
        let s = Scenario { vms: s.vms.iter().filter(|vm| vm.name != "load").cloned().collect(), ..s };
        let r = checked(&s, policy, seed);
        assert!(pools(&r).moves.len() > 20, "{policy}: {}", pools(&r).moves.len());
        assert_eq!(r.host.stalls, 0);
    }
}

#[test]
fn what_has_no_room_is_refused_in_one_line() {
    let refused = |sets: &[(&str, &str)], policy: &str| {
        let s = scenario(VOIP, &[&[("duration", "1s")], sets].concat());
        let e = run(&s, &PolicySpec::parse(policy).unwrap(), 1, Options::default()).unwrap_err();
        format!("{e:#}")
    };
    let e = refused(&[("vm.rt.budget", "6ms")], "risa");
    assert!(e.contains("rt-5") && e.contains("would need 4 PCPUs of 4, and 1 stay outside; allowed: 3"), "{e}");
    let e = refused(&[], "sp(pcpus=4)");
    assert!(e.contains("4 of 4 PCPUs"), "{e}");
}

#[test]
fn lookbusy_takes_its_part_and_cyclictest_tells_latencies() {
    let text = "duration = \"5s\"\npolicies = [\"credit\"]\n[machine]\npcpus = 4\n[[vm]]\nname = \"a\"\nvcpus = 2\n\
                workload = \"lookbusy\"\n[[vm]]\nname = \"b\"\nvcpus = 1\nworkload = { type = \"lookbusy\", percent = 100 }\n\
                [[vm]]\nname = \"c\"\nvcpus = 1\nworkload = \"cyclictest\"\n";
    let r = checked(&scenario(text, &[]), "credit", 1);
    let share = |name: &str| vm(&r, name).work / 5.0;
    assert!((share("a") - 1.0).abs() < 0.05 && share("b") > 0.99, "{} {}", share("a"), share("b"));
    let c = vm(&r, "c").cyclictest.unwrap();
    assert!((4_999..=5_001).contains(&c.samples));
    assert!(0 < c.min_ns && c.min_ns <= c.p50_ns && c.p50_ns <= c.p999_ns && c.p999_ns <= c.max_ns, "{c:?}");
    assert!(c.mean_ns < 50_000, "{c:?}");
    let r = checked(&scenario(text, &[("vm.a.percent", "20"), ("vm.a.interval", "10ms")]), "credit", 1);
    assert!((vm(&r, "a").work / 5.0 - 0.4).abs() < 0.02);
    let busy = checked(&scenario(CYCLIC, &[("duration", "2s")]), "risa", 1);
    assert!(vm(&busy, "cyclic").cyclictest.unwrap().max_ns > c.max_ns);
}

/// Four VCPUs that are there for 1 s of 16 with nine tenths of a PCPU each, beside two hog VMs.
#[test]
fn a_vm_that_comes_and_goes_holds_back_no_batch_work() {
    const HOGS: &str = r#"
        duration = "66s"
        warmup = "1s"
        [machine]
        pcpus = 8
        [[vm]]
        name = "hog"
        count = 2
        vcpus = 8
        workload = "hog"
    "#;
    let mut churn = HOGS.to_owned();
    for round in 0..4 {
        let (vm, from) = (format!("rt{round}"), 2 + 16 * round);
        churn += &format!("[[vm]]\nname = \"{vm}\"\nvcpus = 4\nbudget = \"9ms\"\nperiod = \"10ms\"\n");
        churn += "workload = { type = \"periodic\", period = \"10ms\", work = \"1ms\" }\n";
        churn += &format!("[[at]]\ntime = \"{from}s\"\ncreate = \"{vm}\"\n");
        churn += &format!("[[at]]\ntime = \"{}s\"\ndestroy = \"{vm}\"\n", from + 1);
    }
    let run = |text: &str, policy: &str| {
        let r = checked(&scenario(text, &[]), policy, 1);
        let batch: u64 = r.vms.iter().filter(|v| v.workload == "hog").map(|v| v.cpu_time_ns).sum();
        (batch as f64, r.host.switches as f64)
    };
    let ((alone, fewest), (live, switches)) = (run(HOGS, "risa(hold=use)"), run(&churn, "risa(hold=use)"));
    assert!(switches <= 1.5 * fewest, "{switches} switches, {fewest} without");
    // It has four of eight PCPUs for 4 s of 65.
    assert!(live >= 0.965 * alone, "{live} of {alone}");
    let at_once = run(&churn, "risa(delay=0s)").0;
    assert!(live >= 0.999 * at_once, "{live}, {at_once} if PCPUs go back at once");
    // As published it holds four PCPUs all the time.
    let published = run(&churn, "risa(hold=delay)").0;
    assert!(published < 0.6 * alone, "{published} of {alone}");
}
