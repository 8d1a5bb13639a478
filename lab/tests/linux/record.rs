// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of the live host under load: they keep the state table, replay natively, and agree
//! with the kernel's own trace.

mod interrupts;
mod load;

use std::path::Path;
use takt_conformance::{Agreement, Changes, Checker, Limits, LogFile, Seen, agree, ftrace, replay};
use takt_lab::plan::{self, Plan};
use takt_lab::{Boot, Lab, linux, outcome};

/// Operations that a recording must have at least.
const OPERATIONS: usize = 50_000;
/// Share of the time for which log and trace must agree.
const AGREED: f64 = 0.999;

/// Longest handover, ns: in the midst of a switch an emulated CPU may have to wait until the seven
/// others have had their turns of up to 100 us each.
const HANDOVER: u64 = 1_000_000;

/// Interrupts of either kind that must have met a queued VCPU.
const INTERRUPTS: u64 = 20;

/// Boots, and keeps what is left for whoever wants to look: `takt-conform agree` reads it.
fn boot(lab: &Lab, plan: &Plan, name: &str) -> Boot {
    let boot = lab.boot(plan, load::PCPUS).expect("boot");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("directory");
    boot.files.iter().for_each(|(file, bytes)| std::fs::write(dir.join(file), bytes).expect("file"));
    let status = serde_json::to_vec(&boot.outcome.phases[0].status).expect("JSON");
    std::fs::write(dir.join("status.json"), status).expect("file");
    println!("{}: what is left of it is in {}\n{}", name, dir.display(), boot.console);
    boot
}

fn trace(boot: &Boot) -> Vec<Changes<Seen>> {
    let status = boot.outcome.phases[0].status.as_ref().expect("status");
    let threads = ftrace::threads(status).expect("threads");
    let format = String::from_utf8_lossy(&boot.files[plan::TRACE_FORMAT]);
    let format = ftrace::Format::parse(&format).expect("format");
    let cpu = |n| ftrace::switches(&boot.files[&plan::trace(0, n as usize)], plan::TRACE_PAGE, &format);
    let seen = |n| ftrace::seen(&cpu(n).unwrap_or_else(|e| panic!("CPU {n}: {e:#}")), &threads);
    (0..load::PCPUS).map(seen).collect()
}

/// Log and trace in the first `ns` of the measured time.
fn compare(boot: &Boot, log: &LogFile, ns: u64) -> Agreement {
    let from = boot.outcome.phases[0].from_ns;
    let agreement = agree(log, &trace(boot), (from, from + ns), HANDOVER).expect("a log of this core");
    println!("{}", serde_json::to_string_pretty(&agreement).expect("JSON"));
    agreement
}

/// Phase `n`'s recording.
fn judged(boot: &Boot, n: usize) -> LogFile {
    let log = LogFile::from_bytes(&boot.files[&plan::recording(n)]).expect("recording");
    let mut checker = Checker::of_log(&log, Limits::of(&log.policy)).expect("a log of this core");
    let kept = log.records.iter().try_for_each(|r| checker.step(r)).and_then(|()| checker.finish());
    println!("{}", serde_json::to_string(&kept.expect("state table").operations).expect("JSON"));
    let pool = replay(&log).expect("native replay");
    println!("{} records replay natively, final pool {pool:#018x}", log.records.len());
    log
}

/// Hogs leave no PCPU idle, and each of them has at least half of its part. Where it shares a PCPU
/// with [`load::RT`], of twice its weight, that is a third of it. How much exactly is for the
/// simulator: two seconds are too short to pay back what the first slices took. It is the kernel that says it: a VMM may hear late
/// that the measured time has begun.
fn worked(policy: &str, phase: &outcome::Phase) {
    let vcpus =
        |vm: &outcome::Vm| vm.threads.iter().filter(|t| t.name.starts_with("CPU ")).map(|t| t.cpu_ns).sum::<u64>();
    let vms = || phase.vms.iter().map(|vm| (&vm.name, vcpus(vm)));
    let (all, pcpus) = (vms().map(|(_, ns)| ns).sum::<u64>(), u64::from(load::PCPUS) * phase.measured_ns);
    assert!(all * 5 > pcpus * 4, "{policy}: {all} ns of work on PCPUs that had {pcpus}");
    for (name, ns) in vms().filter(|(name, _)| load::HOGS.contains(&name.as_str())) {
        assert!(ns * 6 > phase.measured_ns, "{policy}: {name} had {ns} ns of {}", phase.measured_ns);
    }
}

fn recorded(policy: &str) -> Option<(Boot, LogFile)> {
    let lab = crate::common::lab(&format!("recording of {policy}"), linux::KERNELS[0], true)?;
    let boot = boot(&lab, &load::plan(policy), policy);
    assert!(boot.outcome.phases[0].ops.starts_with("takt"), "{}", boot.outcome.phases[0].ops);
    let log = judged(&boot, 0);
    let (calm, all) = (compare(&boot, &log, load::CALM), compare(&boot, &log, load::CALM + load::BUSY));
    let operations = log.records.len();
    assert!(operations >= OPERATIONS, "{operations} operations");
    println!("log and trace agree for {} of the calm time, {} apart from handovers", calm.agreed, calm.agreed_apart);
    assert!(calm.agreed_apart >= AGREED, "log and trace agree for {} of the calm time", calm.agreed_apart);
    assert!(
        all.agreed_apart >= AGREED,
        "log and trace agree for {} of the time apart from handovers",
        all.agreed_apart
    );
    Some((boot, log))
}

#[test]
#[ignore = "five minutes"]
fn credit_is_what_its_recording_says() {
    recorded("credit");
}

#[test]
fn doris_is_what_its_recording_says_and_promotes_for_messages_only() {
    // As published a promoted VCPU is not so any more once it is off its PCPU: timers then meet it
    // as others.
    let Some((boot, log)) = recorded("doris(rt_contention=wait)") else { return };
    let status = boot.outcome.phases[0].status.as_ref().expect("status");
    let seen = interrupts::follow(&log, status, load::RT);
    println!("{seen:?}");
    assert!(seen.promoted >= INTERRUPTS && seen.timers >= INTERRUPTS, "{seen:?}");
    assert_eq!(seen.promotions, seen.promoted);
    let vm = status["vms"].as_array().and_then(|a| a.iter().find(|vm| vm["name"] == load::RT)).expect("VM");
    assert!(vm["promotions"].as_u64() >= Some(INTERRUPTS), "{vm}");
}

/// Promises are kept beside hogs, whose time is what is left, and the host's threads'.
fn with_budgets(policies: &[&str], name: &str) {
    let series = linux::KERNELS[0];
    let Some(lab) = crate::common::lab(&format!("recordings of {}", policies.join(", ")), series, true) else { return };
    let boot = boot(&lab, &load::with_budgets(policies), name);
    for (n, (policy, phase)) in policies.iter().zip(&boot.outcome.phases).enumerate() {
        let log = judged(&boot, n);
        assert!(phase.ops.starts_with("takt"), "{policy}: {}", phase.ops);
        assert!(log.records.len() > OPERATIONS / 5, "{policy}: {} operations", log.records.len());
        worked(policy, phase);
    }
}

#[test]
#[ignore = "ten minutes"]
fn servers_are_what_their_recordings_say() {
    with_budgets(&["rtxen(server=sporadic)", "vgedf"], "servers");
}

#[test]
#[ignore = "ten minutes"]
fn other_servers_are_what_their_recordings_say() {
    with_budgets(&["rtxen", "rtxen(server=periodic)"], "servers-fixed");
    with_budgets(&["rtxen(server=polling)", "sedf"], "servers-others");
}

/// S and Poris, with real-time VMs that compute; under Poris two of them form a group.
fn with_groups(policies: &[&str], name: &str) {
    let series = linux::KERNELS[0];
    let Some(lab) = crate::common::lab(&format!("recordings of {}", policies.join(", ")), series, true) else { return };
    let boot = boot(&lab, &load::with_groups(policies), name);
    for (n, (policy, phase)) in policies.iter().zip(&boot.outcome.phases).enumerate() {
        let log = judged(&boot, n);
        assert!(phase.ops.starts_with("takt"), "{policy}: {}", phase.ops);
        assert!(log.records.len() > OPERATIONS / 5, "{policy}: {} operations", log.records.len());
        worked(policy, phase);
        let status = phase.status.as_ref().expect("status");
        let group = |name: &str| {
            let vms = status["vms"].as_array().into_iter().flatten();
            vms.filter(|vm| vm["name"] == name).map(|vm| vm["group"].clone()).next()
        };
        if load::knows_groups(policy) {
            assert_eq!([group(load::RT), group("hogs")], [Some("g".into()), Some("g".into())]);
        }
    }
}

#[test]
fn laxity_and_groups_are_what_their_recordings_say() {
    with_groups(&["laxs(boost=queued)", "poris"], "gangs");
}

/// Their parts, Poris' baselines, and the other ways of what the paper of S leaves open.
#[test]
#[ignore = "ten minutes"]
fn other_parts_of_s_and_poris_are_what_their_recordings_say() {
    with_groups(&["A", "AL", "ABLL"], "parts-of-s");
    with_groups(&["AILL", "laxs(over=laxity,across=off,running=on,first_run=1ms,peer=next,history=half)"], "open-of-s");
    with_groups(&["rs", "par-only", "poris_s"], "parts-of-poris");
    with_groups(&["co", "balance"], "baselines");
}

/// They load, schedule, and are unloaded.
#[test]
#[ignore = "eight minutes"]
fn policies_schedule_an_older_kernel_one_after_the_other() {
    const POLICIES: [&str; 2] = ["credit", "doris"];
    let series = linux::KERNELS[1];
    let Some(lab) = crate::common::lab(&format!("policies on Linux {series}"), series, true) else { return };
    let boot = boot(&lab, &load::short(&POLICIES), series);
    assert!(boot.outcome.kernel.starts_with(series), "{}", boot.outcome.kernel);
    assert_eq!(boot.outcome.phases.len(), POLICIES.len());
    for (n, (policy, phase)) in POLICIES.iter().zip(&boot.outcome.phases).enumerate() {
        assert!(phase.ops.starts_with("takt"), "{policy}: {}", phase.ops);
        assert_eq!(judged(&boot, n).policy, *policy);
        // The lab's init has seen the kernel's own scheduler return.
        worked(policy, phase);
    }
}
