// SPDX-License-Identifier: GPL-2.0-only
//! Guests that have something to synchronise: parallel programs, and applications of several VMs. Every run under the checker of
//! `docs/states.md`.

use takt_control::PolicySpec;
use takt_sim::result::{FanoutResult, ParallelResult};
use takt_sim::{Options, RunResult, Scenario, run};

fn checked(text: &str, policy: &str, seed: u64) -> RunResult {
    let s = Scenario::from_toml(text, "test.toml").unwrap();
    let options = Options { checker: true, ..Options::default() };
    run(&s, &PolicySpec::parse(policy).unwrap(), seed, options).unwrap().0
}

/// A machine of four PCPUs, with nothing in Dom0 to disturb anybody, and one parallel program.
fn program(keys: &str, more: &str) -> String {
    format!(
        "duration = \"5s\"\nwarmup = \"0\"\n[machine]\npcpus = 4\n[dom0]\nvcpus = 1\nhousekeeping = 0\n[guest]\nhz = 0\n\
         [[vm]]\nname = \"a\"\nvcpus = 4\nworkload = {{ type = \"parallel\", {keys} }}\n{more}"
    )
}

fn parallel(r: &RunResult) -> ParallelResult {
    r.vms.iter().find_map(|vm| vm.parallel).unwrap()
}

const HOGS: &str = "[[vm]]\nname = \"hog\"\nvcpus = 4\nworkload = \"hog\"\n";

#[test]
fn alone_a_program_takes_what_it_computes() {
    let text = program("compute = \"1ms\", spread = 0, locks = 0, work = 100, spin = \"1s\"", "");
    let r = parallel(&checked(&text, "credit", 1));
    assert_eq!((r.threads, r.iterations, r.barriers, r.sleeps), (4, 400, 100, 0));
    // Threads do not begin at the same time: the first barrier waits for the last one, at most 30 ms.
    let time = r.time_ns.unwrap();
    assert!((100_000_000..131_000_000).contains(&time), "{time}");
}

#[test]
fn critical_sections_come_one_after_the_other() {
    // Nothing but the lock: four threads take turns, so that each gets a quarter of the time.
    let keys = "compute = \"1us\", spread = 0, locks = 1, held = \"999us\", barrier = false";
    let r = parallel(&checked(&program(keys, ""), "credit", 1));
    assert!((4_900..=5_001).contains(&r.iterations), "{r:?}");
    assert!(r.spun_ns > 14_000_000_000, "three of four spin: {r:?}");
    assert_eq!((r.barriers, r.sleeps, r.time_ns), (0, 0, None));
}

#[test]
fn who_waits_at_a_barrier_spins_and_then_sleeps() {
    let of = |spin: &str| {
        let keys = format!("compute = \"2ms\", spread = 50, locks = 0, spin = \"{spin}\", work = 500");
        parallel(&checked(&program(&keys, ""), "credit", 3))
    };
    let (sleeping, spinning) = (of("0"), of("1s"));
    assert_eq!((sleeping.barriers, spinning.barriers), (500, 500));
    assert!(sleeping.sleeps > 1_400 && sleeping.spun_ns == 0, "{sleeping:?}");
    assert!(spinning.sleeps <= 3 && spinning.spun_ns > 500_000_000, "{spinning:?}");
    // Wakes by IPIs cost something, a few us each time.
    let (a, b) = (sleeping.time_ns.unwrap(), spinning.time_ns.unwrap());
    assert!(a > b && a < b + 500 * 20_000, "{a} {b}");
}

/// Whoever holds the lock while its VCPU is preempted keeps the others spinning: they burn far more for it than alone.
#[test]
fn a_preempted_lock_holder_makes_others_spin() {
    let keys = "compute = \"800us\", spread = 0, locks = 1, held = \"200us\", barrier = false";
    let alone = parallel(&checked(&program(keys, ""), "credit", 1));
    let beside = parallel(&checked(&program(keys, HOGS), "credit", 1));
    let burnt = |r: &ParallelResult| r.spun_ns / r.iterations;
    assert!(burnt(&beside) > 3 * burnt(&alone) && burnt(&beside) > 200_000, "{alone:?} {beside:?}");
    // It has half of the machine and does less than half of the work.
    assert!(10 * beside.iterations < 4 * alone.iterations, "{alone:?} {beside:?}");
}

#[test]
fn more_threads_than_vcpus_share_them() {
    let keys = "threads = 8, compute = \"1ms\", spread = 0, locks = 0, work = 50, spin = \"0\"";
    let r = parallel(&checked(&program(keys, ""), "credit", 1));
    assert_eq!((r.threads, r.iterations, r.barriers), (8, 400, 50));
    assert!((100_000_000..135_000_000).contains(&r.time_ns.unwrap()), "{r:?}");
}

#[test]
fn every_profile_runs_and_spinning_is_counted() {
    for profile in takt_sim::parallel::PROFILES {
        let r = checked(&program(&format!("profile = \"{}\"", profile.name), HOGS), "credit", 2);
        let p = parallel(&r);
        let vm = &r.vms[1];
        assert!(p.iterations > 0 && p.iteration_ns >= profile.plan.compute * 9 / 10, "{}: {p:?}", profile.name);
        assert!(p.spun_ns < vm.cpu_time_ns, "{}", profile.name);
        assert_eq!(p.barriers > 0, profile.plan.barrier, "{}", profile.name);
    }
}

/// An application of a front and two others, each of two VCPUs, beside `hogs` busy VCPUs.
fn search(front: &str, others: &str, more: &str) -> String {
    format!(
        "duration = \"5s\"\nwarmup = \"1s\"\n[machine]\npcpus = 4\n\
         [[vm]]\nname = \"front\"\nvcpus = 2\nworkload = {{ type = \"fanout\", app = \"s\", clients = 4, {front} }}\n\
         [[vm]]\nname = \"leaf\"\ncount = 2\nvcpus = 2\nworkload = {{ type = \"fanout\", app = \"s\", {others} }}\n{more}"
    )
}

fn fanout(r: &RunResult) -> FanoutResult {
    r.vms.iter().find_map(|vm| vm.fanout).unwrap()
}

#[test]
fn every_request_is_answered_when_all_parts_are_there() {
    let text = search("parts = 0, think = \"50ms\"", "work = \"3ms\", spread = 0", "");
    let r = checked(&text, "credit", 1);
    let f = fanout(&r);
    // Closed loop: 4 clients in 5 s, each about 50 ms of thought and some ms of waiting.
    assert!((300..420).contains(&f.answered) && f.requests - f.answered <= 4, "{f:?}");
    // Way, split, part and Dom0's work at least; one request waits for another now and then.
    assert!(f.p50_ns > 3_300_000 && f.p50_ns < 8_000_000, "{f:?}");
    assert!(f.mean_ns >= 3_300_000 && f.max_ns >= f.p99_ns && r.host.ring_drops == 0, "{f:?}");
    // Each of the leaves has computed two parts of a request.
    for vm in r.vms.iter().filter(|vm| vm.name.starts_with("leaf")) {
        let work = vm.cpu_time_ns as f64 / (f.answered as f64 * 6_000_000.0);
        assert!((1.0..1.1).contains(&work), "{work}");
    }
    assert!(r.vms.iter().filter(|vm| vm.fanout.is_some()).count() == 1);
}

#[test]
fn a_front_may_compute_and_be_alone() {
    let text = "duration = \"2s\"\n[machine]\npcpus = 4\n[[vm]]\nname = \"a\"\nvcpus = 2\n\
                workload = { type = \"fanout\", clients = 1, think = \"20ms\", work = \"5ms\", spread = 0, deadline = \"5ms\" }\n";
    let f = fanout(&checked(text, "credit", 1));
    assert!(f.answered > 50 && f.p50_ns > 5_000_000 && f.max_ns < 11_000_000, "{f:?}");
    assert_eq!(f.missed, f.answered, "nobody computes 5 ms in less");
}

#[test]
fn hogs_delay_answers_and_background_is_no_batch_work() {
    let keys = "work = \"3ms\", background = true";
    let alone = checked(&search(keys, keys, "").replace("pcpus = 4", "pcpus = 8"), "credit", 1);
    let beside = checked(&search(keys, keys, HOGS), "credit", 1);
    assert!(fanout(&beside).mean_ns > 2 * fanout(&alone).mean_ns, "{:?} {:?}", fanout(&beside), fanout(&alone));
    assert!(alone.vms.iter().all(|vm| vm.work == 0.0) && alone.vms[1].cpu_time_ns > 5_000_000_000);
}

/// Real-time by hand, and in a group: what Poris launches keeps to the contract, and together
/// threads spin less. Programs that never sleep are in debt, and start together where debt is felt
/// at once (rule P3's `demote=credit`).
#[test]
fn poris_runs_them_together() {
    let rt = |text: String| {
        text.replace("vcpus = 4\nworkload = { type = \"p", "vcpus = 4\nrt = \"on\"\nworkload = { type = \"p")
    };
    let text = rt(program("profile = \"streamcluster\", spin = \"10s\"", HOGS));
    let of = |policy: &str| parallel(&checked(&text, policy, 1)).iterations;
    let at_once = |policy: &str| of(&format!("{policy}(demote=credit,spread=one)"));
    let (credit, [rs, alone, both]) = (of("credit"), ["rs", "par-only", "poris"].map(at_once));
    // With longer slices what starts together also stays together for longer.
    assert!(rs > 2 * credit && both > rs && alone > 5 * credit, "{credit} {rs} {alone} {both}");
    let keys = "work = \"2ms\"";
    let text = search(keys, keys, HOGS).replace("vcpus = 2\n", "vcpus = 2\nrt = \"on\"\ngroup = \"s\"\n");
    for policy in ["rs", "par-only", "poris_s", "poris"] {
        let f = fanout(&checked(&text, policy, 1));
        assert!(f.answered > 100, "{policy}: {f:?}");
    }
}

/// The same application on one machine and over two: there messages take the wire, and each Dom0 has its part of the work.
#[test]
fn an_application_may_reach_over_machines() {
    let keys = "work = \"3ms\", spread = 0";
    let here = search("parts = 0, think = \"50ms\"", keys, HOGS);
    let there = here.replace("pcpus = 4", "pcpus = 4\nmachines = 2").replace("count = 2", "count = 2\non = 2");
    let far = there.clone() + "[net]\nwire = \"1ms\"\n";
    for policy in ["credit", "poris"] {
        let [here, there, far] = [&here, &there, &far].map(|text| checked(text, policy, 1));
        assert!(fanout(&there).answered > 300, "{policy}: {:?}", fanout(&there));
        // Two wires more between the machines, and those to the client and back.
        let longer = fanout(&far).p50_ns - fanout(&there).p50_ns;
        assert!((3_500_000..4_200_000).contains(&longer), "{policy}: {longer}");
        // The hogs of one machine do not see the leaves of the other.
        let hogs = |r: &RunResult| r.vms.iter().map(|vm| vm.work).sum::<f64>();
        assert!(hogs(&there) > 1.05 * hogs(&here) && hogs(&there) > 18.5, "{policy}: {} {}", hogs(&there), hogs(&here));
        let host = |name: &str| there.vms.iter().find(|vm| vm.name == name).unwrap();
        assert_eq!((host("dom0-2").kind.as_str(), there.pools.as_ref().unwrap().list.len()), ("host", 2));
        assert!(host("dom0-2").cpu_time_ns > 10_000_000 && host("dom0").cpu_time_ns > host("dom0-2").cpu_time_ns);
    }
}

/// Stages come one after the other, and take longer where more compute.
#[test]
fn stages_are_barriers() {
    let run = |keys: &str| {
        let front = format!("think = \"0\", parts = 0, {keys}");
        let text = search(&front, "work = \"3ms\", spread = 0", "").replace("clients = 4", "clients = 1");
        fanout(&checked(&text, "credit", 1))
    };
    let [one, four, lossy] = ["stages = 1", "stages = 4", "stages = 4, contention = 500"].map(run);
    // Two leaves: half as much again for each part.
    assert!(four.p50_ns > 12_000_000 && lossy.p50_ns > 18_000_000, "{one:?} {four:?} {lossy:?}");
    assert!(
        one.p50_ns < 5_000_000 && four.p50_ns < 16_000_000 && lossy.p50_ns < 22_000_000,
        "{one:?} {four:?} {lossy:?}"
    );
    assert_eq!([one, four, lossy].map(|f| f.parts / f.answered), [4, 16, 16]);
}

/// Messages go to as many VMs as the front reaches, in the order of the scenario.
#[test]
fn a_front_reaches_the_first_ones() {
    let r = checked(&search("parts = 0, reach = 1", "work = \"3ms\"", ""), "credit", 1);
    let cpu = |name: &str| r.vms.iter().find(|vm| vm.name == name).unwrap().cpu_time_ns;
    assert!(fanout(&r).answered > 100 && cpu("leaf-1") > 500_000_000 && cpu("leaf-2") == 0);
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let keys = "profile = \"fluidanimate\"";
    let texts = [program(keys, HOGS), search("think = \"10ms\"", "work = \"2ms\"", HOGS)];
    for text in &texts {
        for policy in ["credit", "doris"] {
            let bytes = |seed| serde_json::to_string(&checked(text, policy, seed)).unwrap();
            let first = bytes(7);
            assert!(first == bytes(7) && first != bytes(8), "{policy}");
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let of = |text: &str| Scenario::from_toml(text, "bad.toml").expect_err(text).to_string();
    let vm = |name: &str, keys: &str| {
        format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\nworkload = {{ type = \"fanout\", app = \"s\"{keys} }}\n")
    };
    let two = vm("a", ", clients = 1") + &vm("b", "");
    for (text, want) in [
        (vm("a", ""), "bad.toml: vm.a.clients: application s has 0 VMs with clients; allowed: 1"),
        (two.clone() + &vm("c", ", clients = 1"), "vm.a.clients: application s has 2 VMs with clients; allowed: 1"),
        (vm("a", ", clients = 1, parts = 0"), "vm.a.parts: no VM of application s computes a part; allowed: 1"),
        (vm("a", ", clients = 1, parts = 65"), "vm.a.threads: 65 on 1 VCPUs; allowed: 1 to 64"),
        (
            vm("a", ", clients = 300"),
            "vm.a.clients: up to 300 messages at once; allowed: the VMs that its front reaches",
        ),
        (
            two + "[[at]]\ntime = \"1s\"\ndestroy = \"b\"\n",
            "bad.toml: at.0: VM 'b' is part of an application; allowed: VMs that are not",
        ),
        (vm("a", ", clients = 1").replace("vcpus", "on = 2\nvcpus"), "vm.a.on: no machine 2; allowed: 1 to 1"),
        (
            "[machine]\nmachines = 5\npcpus = 16\n".to_owned() + &vm("a", ", clients = 1"),
            "machine.machines: 5 machines of 16 PCPUs; allowed: at most 64 PCPUs in all",
        ),
        (
            "[[vm]]\nname = \"a\"\nvcpus = 1\nworkload = { type = \"parallel\", profile = \"doom\" }\n".into(),
            "bad.toml: vm.a.workload.profile: unknown 'doom'; allowed: swaptions, blackscholes",
        ),
    ] {
        let error = of(&text);
        assert!(error.contains(want), "{error}\n{want}");
    }
}
