// SPDX-License-Identifier: GPL-2.0-only
//! A script changes laxity, latency and groups of VMs that run. Every run under the checker of `docs/states.md`.

use takt_control::PolicySpec;
use takt_policy::{Log, OpCode};
use takt_sim::{Options, RunResult, Scenario, Slice, Trace, Window, run};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// So many PCPUs with nothing in Dom0 to disturb anybody.
fn machine(pcpus: u32, duration: &str, more: &str) -> String {
    format!(
        "duration = \"{duration}\"\nwarmup = \"100ms\"\n[machine]\npcpus = {pcpus}\n[dom0]\nvcpus = 1\nhousekeeping = 0\n\
         [guest]\nhz = 0\n[idle]\nhousekeeping = 0\n{more}"
    )
}

fn vm(name: &str, vcpus: u32, keys: &str) -> String {
    format!("[[vm]]\nname = \"{name}\"\nvcpus = {vcpus}\n{keys}\n")
}

fn at(time: &str, vm: &str, keys: &str) -> String {
    format!("[[at]]\ntime = \"{time}\"\nvm = \"{vm}\"\n{keys}\n")
}

fn ran(text: &str, policy: &str, seed: u64) -> (RunResult, Trace, Log) {
    let s = Scenario::from_toml(text, "test.toml").unwrap();
    let window = Window { from: 0, to: s.duration };
    let options = Options { checker: true, record: true, trace: Some(window), ..Options::default() };
    let (result, trace, mut logs) = run(&s, &PolicySpec::parse(policy).unwrap(), seed, options).unwrap();
    (result, trace.unwrap(), logs.remove(0))
}

/// The stays of a VCPU that begin and end between two times of the measured window, ns.
fn stays(trace: &Trace, name: &str, from: u64, to: u64) -> Vec<Slice> {
    let vcpu = trace.vcpus.iter().position(|v| v.name == name).unwrap() as u32;
    let within = |s: &&Slice| s.vcpu == vcpu && s.from >= trace.from + from && s.to <= trace.from + to;
    trace.slices.iter().filter(within).copied().collect()
}

/// S = L/(N_V - 1) (rule P21), five VCPUs on one PCPU: a fourth of the latency.
#[test]
fn the_dynamic_slice_follows_the_latency() {
    let text = machine(1, "4s", "")
        + &vm("rt", 1, "rt = \"on\"\nlatency = \"20ms\"")
        + &vm("hog", 3, "workload = \"hog\"")
        + &at("1s", "rt", "latency = \"9ms\"")
        + &at("2s", "rt", "latency = \"100ms\"")
        + &at("3s", "rt", "latency = \"1s\"");
    let (_, trace, _) = ran(&text, "poris", 1);
    // Whole ms, and no longer than Credit's.
    for (second, slice) in [(0, 5), (1, 2), (2, 25), (3, 30)] {
        // What was running when it changed is over by then.
        let stays = stays(&trace, "hog.0", second * SECOND + 100 * MS, (second + 1) * SECOND);
        let longest = stays.iter().map(|s| s.to - s.from).max().unwrap();
        assert!(longest.abs_diff(slice * MS) < 10_000, "{longest} in second {second}");
    }
}

/// Of how many of `a`'s stays one of `b`'s begins with them, percent.
fn together(trace: &Trace, a: &str, b: &str, from: u64, to: u64) -> usize {
    let (a, b) = (stays(trace, a, from, to), stays(trace, b, from, to));
    let met = a.iter().filter(|a| b.iter().any(|b| a.from.abs_diff(b.from) < 20_000)).count();
    100 * met / a.len()
}

#[test]
fn who_joins_a_group_starts_with_it() {
    let text = machine(2, "6s", "")
        + &vm("a", 1, "rt = \"on\"\ngroup = \"g\"\nworkload = \"hog\"")
        + &vm("b", 1, "rt = \"on\"\nworkload = \"hog\"")
        + &vm("hog", 4, "workload = \"hog\"")
        + &at("3s", "b", "group = \"g\"");
    // Hogs are in debt, and start together where debt is felt at once (rule P3).
    let (_, trace, _) = ran(&text, "poris(demote=credit,spread=one)", 1);
    let of = |second: u64| together(&trace, "a.0", "b.0", second * SECOND + 100 * MS, (second + 3) * SECOND);
    let [alone, within] = [0, 3].map(of);
    assert!(alone < 30 && within > 90, "{alone} {within}");
}

/// On two PCPUs a VM of two VCPUs takes the first subgroup from the VMs that had it (first-fit
/// decreasing, rule P9), and gives it back.
#[test]
fn who_is_packed_elsewhere_is_told() {
    let text = machine(2, "3s", "")
        + &vm("small", 1, "count = 2\nrt = \"on\"\ngroup = \"g\"\nworkload = \"hog\"")
        + &vm("large", 2, "rt = \"on\"\nworkload = \"hog\"")
        + &at("1s", "large", "group = \"g\"")
        + &at("2s", "large", "group = \"\"");
    let (_, trace, log) = ran(&text, "poris", 1);
    let told = |from: u64, to: u64| -> Vec<(u16, u64, u64)> {
        let set =
            log.iter().map(|r| r.op).filter(|op| op.op == OpCode::SetGroup as u16 && (from..to).contains(&op.now));
        set.map(|op| (op.vm, op.arg[0] & 0xffff, op.arg[0] >> 16)).collect()
    };
    let [one, two] = [1, 2].map(|second| trace.from + second * SECOND);
    assert_eq!(told(0, one), [(1, 1, 0), (2, 1, 0)]);
    assert_eq!(told(one, two), [(1, 0, 0), (2, 0, 0), (1, 1, 1), (2, 1, 1), (3, 1, 0)]);
    assert_eq!(told(two, u64::MAX), [(1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 1, 0), (2, 1, 0)]);
}

#[test]
fn a_group_that_is_too_large_ends_the_run() {
    let text = machine(1, "1s", "") + &vm("a", 17, "rt = \"on\"") + &at("500ms", "a", "group = \"g\"");
    let s = Scenario::from_toml(&text, "test.toml").unwrap();
    let of = |policy: &str| run(&s, &PolicySpec::parse(policy).unwrap(), 1, Options::default()).map(drop);
    let error = format!("{:#}", of("poris").unwrap_err());
    let want = "policy poris: at.0: group g: 17 VCPUs on 1 PCPUs need 17 subgroups; allowed: at most 16";
    assert_eq!(error, want);
    of("credit").unwrap();
}

/// A step every few ms, in the midst of whatever VCPUs do, of gangs too: nothing is lost, and programs go on.
#[test]
fn changes_meet_vcpus_in_every_state() {
    let program = "rt = \"on\"\nworkload = { type = \"parallel\", compute = \"2ms\", spin = \"1ms\" }";
    let mut text = machine(2, "2s", "") + &vm("p", 2, program) + &vm("q", 3, program) + &vm("r", 1, program);
    text += &vm("hog", 2, "workload = \"hog\"");
    for n in 0..240u32 {
        let (name, time) = (["p", "q", "r", "hog"][n as usize % 4], format!("{}us", 100_000 + n * 7_351));
        let group = ["g", "", "h", "g", "h"][n as usize % 5];
        let keys =
            format!("latency = \"{}ms\"\nlaxity = \"{}us\"\ngroup = \"{group}\"", 1 + n * 7 % 40, 1 + n * 997 % 40_000);
        text += &at(&time, name, &keys);
    }
    for policy in ["poris", "poris(dynamic=off)", "par-only", "co", "A", "ALL", "doris"] {
        for seed in [1, 2] {
            let (r, _, log) = ran(&text, policy, seed);
            let had: u64 = r.vms.iter().map(|v| v.cpu_time_ns).sum();
            assert_eq!(had + r.host.idle_ns + r.host.overhead_ns, 2 * r.duration_ns, "{policy}");
            let slowest = r.vms.iter().filter_map(|v| v.parallel).map(|p| p.iterations).min().unwrap();
            assert!(r.host.stalls == 0 && slowest > 50, "{policy}: {slowest}");
            let of = |code: OpCode| log.iter().map(|r| r.op).filter(move |op| op.op == code as u16);
            let laxity = takt_control::settings::param("laxity").key;
            assert_eq!(of(OpCode::Adjust).filter(|op| op.arg[0] == u64::from(laxity)).count(), 240, "{policy}");
            let regrouped = of(OpCode::SetGroup).count();
            let knows = PolicySpec::parse(policy).unwrap().name == "poris";
            assert!(if knows { regrouped > 200 } else { regrouped == 0 }, "{policy}: {regrouped}");
        }
    }
}
