// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that wait for a disk: builds and Postmark; and STREAM.

use takt_control::PolicySpec;
use takt_sim::result::{JobsResult, RunResult};
use takt_sim::{Options, Scenario, run};

fn scenario(workload: &str, vcpus: u32, more: &str) -> Scenario {
    let text = format!(
        "duration = \"10s\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"batch\"\nvcpus = {vcpus}\n\
         workload = {{ {workload} }}\n{more}"
    );
    Scenario::from_toml(&text, "disk.toml").unwrap()
}

fn of(scenario: &Scenario, policy: &str) -> (JobsResult, RunResult) {
    let options = Options { checker: true, ..Options::default() };
    let r = run(scenario, &PolicySpec::parse(policy).unwrap(), 1, options).unwrap().0;
    (r.vms.iter().find_map(|vm| vm.jobs).unwrap(), r)
}

#[test]
fn a_transaction_waits_for_the_disk_as_often_as_asked() {
    // 20 transactions take 2 ms, the disk 2 ms, Dom0 and the guest 60 us and a few.
    let (jobs, run) = of(&scenario(r#"type = "postmark""#, 1, ""), "credit");
    assert!((49_000..49_300).contains(&jobs.steps), "{jobs:?}");
    assert!(jobs.requests.abs_diff(jobs.steps / 20) <= 1, "{jobs:?}");
    let vm = run.vms.iter().find(|vm| vm.jobs.is_some()).unwrap();
    assert!((vm.work - jobs.steps as f64 * 1e-4).abs() < 0.01, "{} CPU-s", vm.work);
    assert!(!vm.rt && vm.found.is_none(), "its requests are no packets that the monitor could take for media");
    // With a disk that takes no time, Dom0's way remains.
    let (fast, _) = of(&scenario(r#"type = "postmark", cached = 1, disk = 0"#, 1, ""), "credit");
    assert!(fast.requests.abs_diff(fast.steps) <= 1 && (50_000..66_000).contains(&fast.steps), "{fast:?}");
}

#[test]
fn a_disk_serves_one_request_after_the_other() {
    // Eight jobs want a file of 10 ms each and compute nothing to speak of.
    let (jobs, _) = of(&scenario(r#"type = "build", jobs = 8, work = "10us", disk = "10ms""#, 1, ""), "credit");
    assert!((995..=1_001).contains(&jobs.requests), "{jobs:?}");
    // Jobs on two VCPUs that are slower than the disk never wait for each other.
    let (jobs, run) = of(&scenario(r#"type = "build", jobs = 4, work = "100ms", disk = "100us""#, 2, ""), "credit");
    let vm = run.vms.iter().find(|vm| vm.jobs.is_some()).unwrap();
    assert!(vm.work > 19.8 && (170..230).contains(&jobs.steps), "{jobs:?}, {} CPU-s", vm.work);
}

#[test]
fn no_answer_is_lost_where_the_ring_is_full() {
    let calls = "[[vm]]\nname = \"calls\"\nvcpus = 1\nworkload = { type = \"voip\", calls = 400 }\n\
                 [[vm]]\nname = \"hog\"\ncount = 2\nvcpus = 2\nworkload = \"hog\"\n[dom0]\nvcpus = 1\nnet_vcpu = \"one\"\n\
                 [net]\nnic_ring = 8\n";
    let (jobs, run) = of(&scenario(r#"type = "build", jobs = 8, work = "1ms", disk = "100us""#, 2, calls), "credit");
    let drops = run.vms.iter().map(|vm| vm.drops.nic).sum::<u64>();
    assert!(drops > 100 && jobs.requests > 500, "{drops} drops, {jobs:?}");
    let text = r#"type = "build", jobs = 9"#;
    let error = Scenario::from_toml(
        &format!(
            "duration = \"1s\"\n[machine]\npcpus = 2\n[net]\nnic_ring = 8\n[[vm]]\nname = \"batch\"\nvcpus = 1\n\
             workload = {{ {text} }}\n"
        ),
        "disk.toml",
    );
    let said = format!("{:#}", error.unwrap_err());
    assert!(said.contains("vm.batch.workload.jobs: 9 jobs; allowed: ") && said.ends_with(", 8"), "{said}");
}

#[test]
fn what_others_run_costs_a_copy_its_cache() {
    let hog = "[[vm]]\nname = \"hog\"\nvcpus = 2\nworkload = \"hog\"\n";
    let work = |cached: u32| {
        let text = format!("type = \"stream-copy\", cached = {cached}");
        let scenario = scenario(&text, 2, hog);
        let r = run(&scenario, &PolicySpec::parse("credit").unwrap(), 1, Options::default()).unwrap().0;
        let vm = r.vms.iter().find(|vm| vm.workload == "stream-copy").unwrap();
        (vm.work, vm.cold_ns)
    };
    let (none, much) = (work(0), work(16_384));
    assert!(none.1 == 0 && none.0 > 9.8, "{none:?}");
    assert!(much.1 > 100_000_000 && much.0 < none.0 - 0.1, "{much:?}");
}
