// SPDX-License-Identifier: GPL-2.0-only
//! Small scenarios on the real kernel, under the kernel's own schedulers: the lab itself is tested, not a scheduler.

use takt_lab::{Lab, LabRun, Scheduler, linux};
use takt_sim::Scenario;

const SCENARIO: &str = r#"
    duration = "1s"
    warmup = "300ms"
    [machine]
    pcpus = 2
    [[vm]]
    name = "calls"
    vcpus = 1
    workload = { type = "voip", calls = 2 }
    [[vm]]
    name = "task"
    vcpus = 1
    affinity = "1"
    workload = { type = "periodic", period = "10ms", work = "500us" }
    [[vm]]
    name = "film"
    vcpus = 1
    workload = { type = "stream", period = "40ms", burst = 3, gap = "100us" }
    [[vm]]
    name = "hog"
    vcpus = 2
    workload = "hog"
    [[vm]]
    name = "set"
    vcpus = 1
    workload = { type = "tasks", tasks = "2ms/50ms, 1ms/20ms" }
    [[vm]]
    name = "front"
    vcpus = 2
    workload = { type = "fanout", clients = 2, think = "40ms", stages = 2, split = "200us", work = "500us" }
    [[vm]]
    name = "leaf"
    vcpus = 1
    workload = { type = "fanout", work = "500us", background = true }
"#;

/// A server that others do not leave alone: where every share is taken, one has to wait for its own.
const CROWDED: &str = r#"
    duration = "1s"
    warmup = "300ms"
    [machine]
    pcpus = 2
    [[vm]]
    name = "calls"
    vcpus = 1
    workload = { type = "voip", calls = 4 }
    [[vm]]
    name = "hog"
    count = 3
    vcpus = 2
    workload = "hog"
    [voip]
    guest_per_packet = "1500us"
"#;

/// Runs of one scheduler after those of another.
fn run(lab: &Lab, scenario: &str, schedulers: &[&str], seeds: &[u64]) -> Vec<LabRun> {
    let scenario = Scenario::from_toml(scenario, "lab.toml").expect("scenario");
    let schedulers: Vec<_> = schedulers.iter().map(|s| Scheduler::parse(s).expect("scheduler")).collect();
    lab.run(&scenario, &schedulers, seeds).expect("run in the lab")
}

#[test]
fn every_workload_runs_and_equal_runs_are_equal() {
    let Some(lab) = crate::common::lab("workloads in the lab", linux::KERNELS[0], false) else { return };
    let runs = run(&lab, SCENARIO, &["eevdf"], &[1, 2]);
    for run in &runs {
        let vm = |name: &str| run.result.vms.iter().find(|v| v.name == name).expect(name);
        let [calls, task, film, hog, set, front, leaf] =
            ["calls", "task", "film", "hog", "set", "front", "leaf"].map(vm);
        let voip = calls.voip.as_ref().expect("calls");
        // Two calls of 50 packets a second, all answered; a packet at either end of the second may fall outside.
        assert!((98..=102).contains(&voip.calls[0].sent), "{voip:?}");
        assert_eq!(voip.calls[0].lost, 0);
        assert!(calls.wait["all"].entries >= 90, "{:?}", calls.wait);
        let jobs = task.periodic.expect("task").jobs;
        assert!((95..=101).contains(&jobs), "{jobs} jobs");
        let sent = film.tx.expect("film").packets;
        assert!((72..=78).contains(&sent), "{sent} packets");
        let tasks = set.tasks.iter().map(|t| (t.cost_ns / 1_000_000, t.jobs)).collect::<Vec<_>>();
        assert!(matches!(tasks[..], [(1, 49..=51), (2, 19..=21)]), "{:?}", set.tasks);
        for task in &set.tasks {
            // The more important one may delay the other, and a share of a PCPU is half of one here. On an emulated CPU that happens to be
            // faster than the mean a job takes a little less than it is said to.
            let (longest, least) = (task.response_max_ns, task.cost_ns / 10 * 9);
            assert!(task.missed == 0 && (least..task.period_ns).contains(&longest), "{:?}", set.tasks);
        }
        let requests = front.fanout.expect("clients");
        // Two clients, who think for 40 ms in the mean and wait.
        assert!((10..=60).contains(&requests.answered), "{requests:?}");
        assert!((0..=2).contains(&(requests.requests - requests.answered)), "{requests:?}");
        assert_eq!(requests.parts, requests.answered * 2 * 3, "of three VCPUs in two stages");
        // The parts and messages of both stages, one after the other.
        assert!(requests.mean_ns > 2 * 500_000 + 200_000 && requests.mean_ns < 40_000_000, "{requests:?}");
        assert!(leaf.fanout.is_none() && leaf.cpu_time_ns > 200_000_000, "{leaf:?}");
        for part in [front, leaf] {
            assert_eq!((part.drops.rx, part.drops.tx), (0, 0));
        }
        // Two CPUs for a second, less what the others took.
        assert!(hog.work > 0.7 && hog.work < 2.0, "work {}", hog.work);
        assert!(run.lab.kernel.starts_with(linux::KERNELS[0]), "{}", run.lab.kernel);
        assert_eq!(run.lab.scheduler, "none");
    }
    assert_ne!(runs[0].result, runs[1].result, "another phase");
    assert_eq!(runs, self::run(&lab, SCENARIO, &["eevdf"], &[1, 2]));
}

#[test]
fn fifo_lets_a_server_wait_less_than_a_share() {
    let Some(lab) = crate::common::lab("FIFO in the lab", linux::KERNELS[0], false) else { return };
    // The mean: of two hundred packets the last per cent is two.
    let runs = run(&lab, CROWDED, &["fifo", "eevdf"], &[1]);
    let [fifo, eevdf] = [0, 1].map(|n| runs[n].result.vms[0].wait["all"].mean_ns);
    println!("mean wait {fifo} ns under FIFO, {eevdf} ns under EEVDF");
    assert!(fifo < eevdf, "{fifo} ns under FIFO, {eevdf} ns under EEVDF");
}
