// SPDX-License-Identifier: GPL-2.0-only
//! Media servers, signalling and `pin` on named PCPUs (docs/experiments.md, rule B12).

use takt_control::PolicySpec;
use takt_sim::result::{RunResult, VmResult};
use takt_sim::{Options, Scenario, run};

const LAXS: &str = include_str!("../../scenarios/laxs.toml");

fn scenario(set: &[(&str, &str)]) -> Scenario {
    let mut s = Scenario::from_toml(LAXS, "laxs.toml").unwrap();
    for (key, value) in set {
        s.set(key, value).unwrap_or_else(|e| panic!("{e:#}"));
    }
    s
}

fn checked(s: &Scenario, policy: &str) -> RunResult {
    let options = Options { checker: true, ..Options::default() };
    run(s, &PolicySpec::parse(policy).unwrap(), 1, options).unwrap_or_else(|e| panic!("{policy}: {e:#}")).0
}

fn vm<'a>(r: &'a RunResult, name: &str) -> &'a VmResult {
    r.vms.iter().find(|vm| vm.name == name).unwrap()
}

/// Few calls, so that it takes no time.
const SMALL: [(&str, &str); 4] =
    [("vm.media-s.calls", "8"), ("vm.media-s.hold", "6s"), ("voip.ramp", "8"), ("duration", "14s")];

#[test]
fn calls_come_and_go_and_one_in_four_is_scored() {
    let r = checked(&scenario(&SMALL), "credit");
    let media = vm(&r, "media-s");
    let calls = &media.voip.as_ref().unwrap().calls;
    let mut ids: Vec<u32> = calls.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls.len(), "each has a number of its own");
    assert!(ids.iter().all(|id| id / 2 % 4 == 0) && ids.iter().any(|id| id / 2 >= 8), "{ids:?}");
    assert!(calls.iter().all(|c| c.sent <= 300 && c.late + c.lost == 0 && c.pesq > 4.3), "{calls:?}");
    // 16 streams of 50 packets a second, with a break of up to 20 ms between two calls.
    let packets = media.tx.unwrap().packets;
    assert!((11_100..=11_216).contains(&packets), "{packets}");
}

#[test]
fn each_message_is_handled_twice_by_whom_it_reaches_and_once_by_whom_that_asks() {
    let r = checked(&scenario(&[&SMALL[..], &[("vm.sip-s.messages", "2")]].concat()), "credit");
    let [sip, call] = ["sip-s", "call-c"].map(|name| vm(&r, name).cpu_time_ns as f64 / 1e6);
    // 8 calls every 6 s, two messages each: some 37 in 14 s.
    assert!((110.0..220.0).contains(&sip), "{sip} ms");
    assert!((1.3..1.6).contains(&(call / sip)), "{call} ms, {sip} ms");
    let answered = vm(&r, "sip-s").tx.unwrap().packets as f64 / 2.0;
    assert!((answered - vm(&r, "call-c").tx.unwrap().packets as f64).abs() <= 1.0);
}

#[test]
fn an_engine_without_time_ruins_its_last_streams_first() {
    // 16 streams of 1.4 ms are more than a frame: the backlog grows for ever.
    let r = checked(&scenario(&[&SMALL[..], &[("vm.media-s.transcode", "1400us")]].concat()), "credit");
    let voip = vm(&r, "media-s").voip.as_ref().unwrap();
    assert!(voip.max_pesq < 1.5, "{}", voip.max_pesq);
    let r = checked(&scenario(&[&SMALL[..], &[("vm.media-s.transcode", "1200us")]].concat()), "credit");
    assert!(vm(&r, "media-s").voip.as_ref().unwrap().min_pesq > 4.3);
}

#[test]
fn run_time_is_held_in_classes_and_waits_are_predicted() {
    let r = checked(&scenario(&[&SMALL[..], &[("vm.c-dom.workload", "hog")]].concat()), "credit");
    for v in r.vms.iter().flat_map(|vm| &vm.vcpus) {
        let held: u64 = ["rt", "boost", "under", "over"].iter().map(|c| v.wait[*c].held_ns).sum();
        assert_eq!((held, v.wait["all"].held_ns), (v.cpu_time_ns, v.cpu_time_ns));
        let p = v.prediction.unwrap();
        assert!(p.entries > 0 && p.p5_ns <= p.p25_ns && p.p25_ns <= p.p75_ns && p.p75_ns <= p.p95_ns);
    }
    let hog = scenario(&[&SMALL[..], &[("vm.media-s.workload", "hog")]].concat());
    assert!(vm(&checked(&hog, "credit"), "c-dom").vcpus[0].prediction.is_none());
}

#[test]
fn pin_keeps_named_pcpus_for_those_who_name_them() {
    let jobs = [&SMALL[..], &[("vm.c-dom.workload", "hog")]].concat();
    let r = checked(&scenario(&jobs), "pin");
    // One PCPU is left for the jobs, less what Dom0 takes of it.
    let work = vm(&r, "c-dom").work;
    assert!((12.0..=14.0).contains(&work), "{work}");
    let s = scenario(&[&jobs[..], &[("vm.sip-s.dedicated", "2-3")]].concat());
    let e = run(&s, &PolicySpec::parse("pin").unwrap(), 1, Options::default()).unwrap_err().to_string();
    let want =
        "policy pin: 0 VCPUs need a dedicated PCPU each and 4 share the others; machine.pcpus is 4; allowed: 5 to 64";
    assert_eq!(e, want);
    // With a PCPU of its own for Dom0 there is none left for the jobs.
    let s = scenario(&[&jobs[..], &[("dom0.dedicated", "true")]].concat());
    assert!(run(&s, &PolicySpec::parse("pin").unwrap(), 1, Options::default()).is_err());
}

#[test]
fn every_policy_of_s_keeps_the_contract() {
    let few = [&SMALL[..], &[("vm.c-dom.workload", "hog"), ("duration", "10s")]].concat();
    for policy in ["base", "A", "AL", "ALL", "ABLL", "AILL", "A(laxity=40ms)"] {
        assert!(vm(&checked(&scenario(&few), policy), "media-s").voip.is_some(), "{policy}");
    }
}
