// SPDX-License-Identifier: GPL-2.0-only
//! Takt's Linux host under abuse: what the host's own threads, its operator and hostile guests may do to it. Each test boots an
//! emulated machine whose init is this program again ([`inside`]), and judges what that saw. Time is counted, so bounds hold
//! wherever the tests run. `TAKT_LONG=1` makes loads last ten times as long.

mod attack;
mod cgroups;
mod ends;
mod guest;
mod inside;
mod keep;
mod load;
mod network;
mod packets;
mod refuse;
mod reload;
mod risa;
mod shell;
mod steady;
mod why;

use crate::common::programs;
use crate::overhead;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use takt_bpf_build::skip;
use takt_control::overhead::Window;
use takt_lab::{Kernel, linux};
use takt_qemu::{Archive, MODEL, Machine, Timing};

/// An instruction takes 4 ns: 83 million a second on each of the CPUs.
const COUNTED: Timing = Timing::Counted { shift: 2 };
/// An instruction takes 1 ns, as in the lab: where it counts what a switch costs those who did not ask for it.
const COUNTED_FAST: Timing = Timing::Counted { shift: 0 };
/// An instruction takes 16 ns: where much time is to pass, on two CPUs: 31 million a second on each.
const COUNTED_SLOW: Timing = Timing::Counted { shift: 4 };
const CPUS: u32 = 3;
const CPUS_SLOW: u32 = 2;
/// CPUs that are never started make QEMU give the others smaller shares, which are closer to equal.
const SHARES: u32 = 2;
const MEMORY: u32 = 1536;
/// Real time for a machine, and for one in which ten minutes pass.
const PATIENCE: Duration = Duration::from_secs(1200);
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// What happened in a machine that went through `scenario`; `None`: this one cannot emulate it.
fn run(scenario: &str, timing: Timing) -> Option<Value> {
    run_on(CPUS, scenario, timing)
}

/// The same on so many PCPUs.
fn run_on(cpus: u32, scenario: &str, timing: Timing) -> Option<Value> {
    let parts = || Ok::<_, anyhow::Error>((linux::qemu()?, Kernel::get(linux::KERNELS[0])?, programs()?));
    let ((), kernel, programs) = match parts() {
        Ok(parts) => parts,
        Err(e) => {
            skip(scenario, format!("{e:#}"));
            return None;
        }
    };
    let outcome = boot(cpus, scenario, timing, &kernel, &programs).unwrap_or_else(|e| panic!("{scenario}: {e:#}"));
    println!("{scenario}: {outcome:#}");
    Some(outcome)
}

fn boot(cpus: u32, scenario: &str, timing: Timing, kernel: &Kernel, programs: &Path) -> anyhow::Result<Value> {
    let dir = tempfile::tempdir()?;
    let mut archive = Archive::new();
    archive.program("init", &std::env::current_exe()?)?;
    archive.program("bin/takt", &programs.join("takt"))?;
    archive.program("bin/takt-vmm", &programs.join("takt-vmm"))?;
    archive.program("bin/ip", Path::new("/sbin/ip"))?;
    if scenario == network::NAME {
        archive.program("bin/ping", Path::new("/bin/ping"))?;
        archive.program("bin/iperf3", Path::new("/usr/bin/iperf3"))?;
    }
    kernel.modules(&mut archive)?;
    let long = std::env::var_os("TAKT_LONG").is_some_and(|v| v == "1");
    archive.data(inside::PLAN, serde_json::to_string(&(scenario, long))?.as_bytes());
    let initramfs = dir.path().join("initramfs");
    std::fs::write(&initramfs, archive.finish())?;
    let machine = Machine {
        kernel: kernel.image(),
        initramfs,
        disk: None,
        command_line: format!("loglevel=4 nr_cpus={cpus} -- robust::begins_as_init --exact --nocapture"),
        cpus: if cpus > 1 { cpus * SHARES } else { 1 },
        memory: MEMORY,
        model: MODEL,
        timing,
        patience: if scenario.starts_with(steady::NAME) { LONG_PATIENCE } else { PATIENCE },
    };
    let remains = machine.run(dir.path())?;
    let outcome = remains.files.get(inside::OUTCOME);
    let outcome = outcome.ok_or_else(|| anyhow::anyhow!("the machine left nothing\n{}", remains.console))?;
    if std::env::var_os("ROBUST_CONSOLE").is_some() {
        println!("{}", remains.console)
    }
    let outcome: Value = serde_json::from_slice(outcome)?;
    anyhow::ensure!(outcome.get("error").is_none(), "in the machine: {outcome:#}\n{}", remains.console);
    for bad in ["BUG:", "Oops", "WARNING:"] {
        anyhow::ensure!(!remains.console.contains(bad), "the kernel complains:\n{}", remains.console);
    }
    Ok(outcome)
}

/// The program in the emulated machine; anywhere else there is nothing to do.
#[test]
fn begins_as_init() {
    if std::process::id() == 1 {
        inside::main();
    }
}

fn number(outcome: &Value, name: &str) -> f64 {
    outcome[name].as_f64().unwrap_or_else(|| panic!("no {name} in {outcome:#}"))
}

/// Longest time until a process that a shell starts has ended, and between two beats of a thread that sleeps 20 ms, whatever the
/// load, ms. Two hundred threads take a slice of 4 ms each in 0.5 s of the CPU time that the host gets here; on this slow machine a
/// process needs more than one slice.
const ANSWER: f64 = 2000.0;

#[test]
fn ordinary_threads_get_through_whatever_load_there_is() {
    let Some(outcome) = run("loads", COUNTED) else { return };
    for load in outcome["loads"].as_array().expect("loads") {
        let name = &load["load"];
        assert!(number(load, "answer_ms") < ANSWER, "{name}: {load:#}");
        assert!(number(load, "heartbeat_ms") < ANSWER, "{name}: {load:#}");
        assert!(number(load, "busy") > 0.0, "{name}: a thread was lost: {load:#}");
        assert!(number(load, "least") > 0.0, "{name}: a thread was lost: {load:#}");
    }
}

#[test]
fn vms_and_cpus_come_and_go_and_takt_ends_in_any_way() {
    let Some(outcome) = run("ends", COUNTED) else { return };
    assert!(number(&outcome["counts"], "offline") >= 2.0, "{outcome:#}");
    assert_eq!(number(&outcome["counts"], "overflow"), 0.0, "{outcome:#}");
    // As the VM that ended before had the least weight, and was in debt.
    let [weight, owed, own] = [0, 1, 2].map(|n| outcome["heir"][n].as_u64().expect("what a tenant's next VM has"));
    assert!(weight == 1 && owed > 0 && own == 256, "{outcome:#}");
    assert!(outcome["stalled"].as_str().expect("text").contains("stall"), "{outcome:#}");
}

#[test]
fn what_a_vm_waits_for_is_named() {
    let Some(outcome) = run_on(CPUS_SLOW, "why", COUNTED) else { return };
    assert!(number(&outcome, "incidents") >= 1.0, "{outcome:#}");
}

/// Instructions of an operation that is kept: in the kernel, and in `takt run`. Medians of three boots were 103 to 147 and 1221 to
/// 1737; a turn alone may be far from that in the kernel, where entries differ more than what is measured.
const KEPT: [RangeInclusive<f64>; 2] = [60.0..=220.0, 900.0..=2_300.0];

#[test]
#[ignore = "five minutes"]
fn what_is_kept_costs_what_the_docs_say() {
    let Some(outcome) = run_on(CPUS_SLOW, "keeps", COUNTED_FAST) else { return };
    for load in outcome["loads"].as_array().expect("loads") {
        let [kernel, process] = ["kernel", "process"].map(|of| number(load, &format!("{of}_per_operation")));
        assert!(KEPT[0].contains(&kernel) && KEPT[1].contains(&process), "{load:#}");
    }
    assert!(number(&outcome, "memory_mib") < 1.3 * number(&outcome, "limit_mib"), "{outcome:#}");
}

#[test]
fn a_pcpu_that_comes_back_does_what_it_defers() {
    let Some(counts) = run("hotplug", COUNTED) else { return };
    assert!(number(&counts, "offline") >= 4.0, "{counts:#}");
}

/// What a cgroup gets under Takt, or gets of what another one gets, of the same under the kernel's own scheduler.
const AS_THE_KERNEL: RangeInclusive<f64> = 0.9..=1.1;
/// What one cgroup gets of another's, of what their weights say.
const AS_WEIGHED: RangeInclusive<f64> = 0.9..=1.1;
/// What VMs get beside processes in cgroups, of what they get beside as many without.
const UNCHANGED: RangeInclusive<f64> = 0.98..=1.02;

#[test]
fn cgroups_of_ordinary_processes_keep_their_limits_and_weights() {
    let Some(outcome) = run("cgroups", COUNTED) else { return };
    let [kernel, takt, flat, beside] = ["kernel", "takt", "flat", "beside"].map(|phase| &outcome[phase]);
    for limited in ["limited", "above/one", "above/other"] {
        let of = number(takt, limited) / number(kernel, limited);
        assert!(AS_THE_KERNEL.contains(&of), "{limited}: {of}: {outcome:#}");
    }
    // A nested cgroup gets half as much again from the kernel's own scheduler as its weight says: that is not what is wanted.
    for (one, other, weighs, as_the_kernel) in [
        ("light", "heavy", 0.1, true),
        ("nest/less", "nest/more", 1.0 / 3.0, true),
        ("nest/more", "heavy", 0.75, false),
    ] {
        let [kernel, takt, beside] = [kernel, takt, beside].map(|phase| number(phase, one) / number(phase, other));
        println!(
            "{one} to {other}: {kernel:.3} under the kernel's own scheduler, {takt:.3} and {beside:.3} under Takt"
        );
        assert!(!as_the_kernel || AS_THE_KERNEL.contains(&(takt / kernel)), "{one} to {other}: {outcome:#}");
        for of in [takt, beside] {
            assert!(AS_WEIGHED.contains(&(of / weighs)), "{one} to {other}: {of}: {outcome:#}");
        }
    }
    let vm = number(beside, "vm") / number(flat, "vm");
    assert!(UNCHANGED.contains(&vm), "the VM: {vm}: {outcome:#}");
}

/// A user's part of two with cgroups that weigh as much.
const HALF: RangeInclusive<f64> = 0.47..=0.53;

#[test]
#[ignore = "two minutes"]
fn nobody_gains_by_many_cgroups_and_no_quota_is_too_small_to_run() {
    let Some(outcome) = run("cgroups abused", COUNTED) else { return };
    assert!(HALF.contains(&number(&outcome, "abuser")), "{outcome:#}");
    assert!(number(&outcome, "tiny") > 0.0, "{outcome:#}");
}

/// Of what the VMs get together, an attacker gets its part (one of three) and at most this much more of it.
const MORE: f64 = 1.01;
/// Of the work that a second of their CPU time is worth next to a VM that only computes, what is left to its victims. With what is left
/// of their CPU time (of each of two victims [`MORE`] takes half a per cent) that is 0.975 of their work.
const LEFT: f64 = 0.98;
/// Of the jobs of a VM with hardly any work, what is done.
const DONE: f64 = 0.9;
/// What it waits for at most (99 of 100 times), us: on CPUs that are emulated one after the other, in turns of up to 100 us each.
const LONGEST_US: f64 = 5_000.0;
/// Context switches a second of each CPU, besides those of an attacker between its VCPU and its own I/O thread: two for each packet that
/// the device has counted, in its own time. The period that the monitor infers is in the guest's hands.
const SWITCHES: f64 = 5000.0;
const SWITCHES_PER_PACKET: f64 = 2.0;

/// What comes of the attacks of `scenario`; the first is none.
fn attacks(scenario: &str, cpus: u32, timing: Timing) -> Option<Vec<Value>> {
    let outcome = run_on(cpus, scenario, timing)?;
    let attacks = outcome["attacks"].as_array().expect("attacks").clone();
    for attack in &attacks {
        let most = SWITCHES * f64::from(cpus) + SWITCHES_PER_PACKET * number(attack, "packets_per_s");
        assert!(number(attack, "switches_per_s") <= most, "{}: {attack:#}", attack["attack"]);
    }
    Some(attacks)
}

#[test]
fn no_guest_gets_more_than_its_share_by_what_it_sends_or_when_it_sleeps() {
    gets_its_share("attacks");
}

/// The same where each VM has a VCPU more than there are PCPUs: its VCPUs owe on together there.
#[test]
#[ignore = "minutes"]
fn no_guest_gets_more_where_all_have_more_vcpus_than_pcpus() {
    gets_its_share("attacks with more VCPUs");
}

fn gets_its_share(scenario: &str) {
    let Some(attacks) = attacks(scenario, CPUS, COUNTED) else { return };
    for attack in &attacks {
        let [share, jobs, p99] = ["share", "neighbour_jobs", "neighbour_p99_us"].map(|key| number(attack, key));
        println!("{}: share {share:.4}; a VM with hardly any work waits for {p99:.0} us (p99)", attack["attack"]);
        assert!(jobs >= DONE && p99 <= LONGEST_US, "{}: {attack:#}", attack["attack"]);
        assert!(attack["attack"] == "none" || share <= MORE / 3.0, "{}: {attack:#}", attack["attack"]);
    }
}

/// Switches to an attacker and back are a cost of others as well. On one CPU: those of an emulated machine are not equally fast, by
/// more than what is to be seen here.
#[test]
fn no_guest_spoils_others_time_by_what_it_sends_or_when_it_sleeps() {
    let Some(attacks) = attacks("attacks", 1, COUNTED_FAST) else { return };
    let worth = |attack| number(attack, "work_per_cpu_s");
    let plain = worth(&attacks[0]);
    for attack in &attacks[1..] {
        assert!(worth(attack) >= LEFT * plain, "{}: {attack:#}, {plain}", attack["attack"]);
    }
}

/// A stream is known by its fourth packet, others before it do not count; its period is right to within this much.
const PACKETS: f64 = 5.0;
const PERIOD_US: f64 = 20_000.0;
const OFF: f64 = 0.15;

#[test]
fn a_vm_is_found_real_time_by_what_it_sends_and_forgotten_when_it_is_silent() {
    let Some(seen) = run("packets", COUNTED) else { return };
    assert!(number(&seen, "found_after_ms") < 2000.0, "{seen:#}");
    assert_eq!(seen["rule"], "rtp", "{seen:#}");
    assert!(number(&seen, "packets_of_the_stream") <= PACKETS, "{seen:#}");
    assert!(number(&seen, "periods") >= 20.0, "{seen:#}");
    assert!((number(&seen, "period_us") / PERIOD_US - 1.0).abs() <= OFF, "{seen:#}");
    assert!(number(&seen, "vcpu_runs_as_rt") > 0.0 && number(&seen, "io_runs_as_rt") > 0.0, "{seen:#}");
    // Meanwhile it was asked by STUN, and answered from the port of its media.
    assert!(number(&seen["asked"], "received") >= 10.0, "{seen:#}");
    assert!((1000.0..=1100.0).contains(&number(&seen, "silence_ms")), "{seen:#}");
}

/// The longest round trip with the monitor, over that without. The aim is 1.03, but `ping` tells whole
/// microseconds, and a round trip has 48.
const LONGER: f64 = 1.15;
/// The least rates with the monitor, over those without: each of UDP, and the mean of TCP, as rates of
/// TCP differ from run to run.
const SLOWER: f64 = 0.9;
/// The least rate of UDP with the monitor, over that with a program that does nothing, which costs some
/// of the rate as well.
const ITS_PART: f64 = 0.97;

#[test]
#[ignore = "minutes"]
fn packets_that_are_no_media_cost_nearly_what_they_cost_without_the_monitor() {
    let Some(seen) = run(network::NAME, COUNTED) else { return };
    let rounds = seen["rounds"].as_array().expect("rounds");
    let mean = |at: &str, of: &dyn Fn(&Value) -> f64| {
        let all: Vec<f64> = rounds.iter().filter(|r| r["at"] == at).map(of).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let rtt = |at: &str| mean(at, &|round| number(round, "rtt_us"));
    let (longer, of_empty) = (rtt("Monitor") / rtt("Nothing"), rtt("Empty") / rtt("Nothing"));
    println!("round trip: {longer:.3} of {:.0} us, with an empty program {of_empty:.3}", rtt("Nothing"));
    let (mut tcp, mut udp, mut part) = (Vec::new(), f64::MAX, f64::MAX);
    for (n, rate) in rounds[0]["rates"].as_array().expect("rates").iter().enumerate() {
        let of = |at: &str| mean(at, &|round| number(&round["rates"][n], "mbit"));
        let (whole, empty) = (of("Monitor") / of("Nothing"), of("Empty") / of("Nothing"));
        let (kind, size) = (&rate["kind"], &rate["size"]);
        println!("{kind} {size} bytes: {whole:.3} of {:.0} Mbit/s, with an empty program {empty:.3}", of("Nothing"));
        if kind == "tcp" {
            tcp.push(whole);
        } else {
            (udp, part) = (udp.min(whole), part.min(whole / empty));
        }
    }
    let tcp = tcp.iter().sum::<f64>() / tcp.len() as f64;
    println!("TCP: {tcp:.3} in the mean; UDP: at least {udp:.3}, beside an empty program {part:.3}");
    let kept = longer <= LONGER && tcp >= SLOWER && udp >= SLOWER && part >= ITS_PART;
    assert!(kept, "round trip {longer}, TCP {tcp}, UDP {udp}, beside an empty program {part}: {seen:#}");
}

/// A picture is one datagram that the device is to cut.
#[test]
fn pictures_that_the_device_cuts_are_found() {
    const PICTURE_US: f64 = 40_000.0;
    let Some(seen) = run("segments", COUNTED) else { return };
    assert_eq!(seen["rule"], "rtp", "{seen:#}");
    assert!(number(&seen, "pictures") <= 5.0, "{seen:#}");
    assert!((number(&seen, "period_us") / PICTURE_US - 1.0).abs() <= 0.05, "{seen:#}");
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let Some(outcome) = run("refusals", Timing::Free) else { return };
    assert!(outcome["lines"].as_array().expect("lines").len() > 20);
    // Decisions are those of a recording that was under way; of switches `takt status` counts those from idleness as well.
    let window: Window = serde_json::from_value(outcome["window"].clone()).expect("window");
    overhead::counted(&window.decision, number(&outcome, "decisions") as u64, &window);
    let (counted, seen) = (window.change.count, number(&outcome, "switches") as u64);
    assert!(0 < counted && counted <= seen, "{counted} switches of {seen}");
    overhead::fits(&window.change, &window);
}

#[test]
fn a_file_that_changes_is_followed() {
    let Some(outcome) = run("reloads", Timing::Free) else { return };
    assert_eq!(number(&outcome, "followed"), 6.0, "{outcome:#}");
}

/// The kernel's verifier takes every policy's programs, and the scheduler begins and ends.
#[test]
#[ignore = "ten minutes, most of them the verifier's"]
fn every_policy_loads() {
    let Some(seen) = run("policies", Timing::Free) else { return };
    assert_eq!(seen["policies"].as_array().map(Vec::len), Some(takt_policy::policies().len() + 1), "{seen:#}");
}

/// After what delay the rt-pool gives PCPUs back, ms, and how much later it may be: a look, a decision, and asking.
const DELAY_MS: f64 = 15_000.0;
const LATER_MS: f64 = 1_000.0;

/// What the hogs have of each PCPU that is theirs; ticks and the host's own threads take the rest.
const LEVEL: RangeInclusive<f64> = 0.95..=1.01;

/// RISA-E1 with half of its PCPUs: the pool sizes are those of rule K22, and the hogs get what the
/// rt-pool leaves.
#[test]
#[ignore = "four minutes, most of them the verifier's"]
fn pools_follow_vms_that_come_change_and_go() {
    let Some(seen) = run_on(risa::PCPUS, "risa", COUNTED_FAST) else { return };
    println!("{}\n{}", seen["status"].as_str().expect("status"), seen["said"].as_str().expect("said"));
    let phases = seen["phases"].as_array().expect("phases");
    let sizes: Vec<_> = phases.iter().map(|p| number(p, "rt_pcpus")).collect();
    assert_eq!(sizes, [0.0, 2.0, 1.0, 0.0], "{seen:#}");
    let shares: Vec<_> = phases.iter().map(|p| number(p, "hogs") / number(p, "rest_pcpus")).collect();
    println!("the hogs have of each PCPU that is theirs: {shares:?}");
    assert!(shares.iter().all(|share| LEVEL.contains(share)), "{shares:?}");
    let promised = [vec![], vec![0.6, 0.6], vec![0.2, 0.6], vec![]];
    for (phase, promised) in phases.iter().zip(promised) {
        let served = phase["served"].as_array().expect("served");
        let kept = served.iter().zip(&promised).all(|(got, want)| got.as_f64().is_some_and(|got| got >= 0.98 * want));
        assert!(served.len() == promised.len() && kept, "{phase:#}");
    }
    for delay in ["shrunk_ms", "emptied_ms"] {
        assert!((DELAY_MS..=DELAY_MS + LATER_MS).contains(&number(&seen, delay)), "{delay}: {seen:#}");
    }
    assert_eq!(number(&seen["counts"], "overflow"), 0.0, "{seen:#}");
}

#[test]
fn a_kernel_without_sched_ext_is_refused() {
    const TEST: &str = "a kernel without sched_ext";
    if Path::new("/sys/kernel/sched_ext").exists() {
        return; // the emulated machines have it, too
    }
    let programs = match programs() {
        Ok(programs) => programs,
        Err(e) => return skip(TEST, format!("{e:#}")),
    };
    let out = std::process::Command::new(programs.join("takt")).arg("run").output().expect("takt runs");
    let line = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{line}");
    let whys = ["no sched_ext", "without sched_ext", "needs root"];
    assert!(whys.iter().any(|why| line.contains(why)), "{line}");
    assert!(out.stdout.is_empty() && line.lines().count() == 1, "{line}");
}

/// Longest answer and gap between heartbeats on a machine that has less than half of the speed of [`ANSWER`]'s, ms.
const SLOW_ANSWER: f64 = 2.0 * ANSWER;
/// What budgets leave of a PCPU to those without, at least, and of the promised budget of 3 ms in 10 what is to be had.
const RESERVE: f64 = 0.05;
const SERVED: f64 = 0.29;

/// Ten minutes under a policy: it is not unloaded, host and VMs without parameters keep their
/// reserve, and a budget is what it says.
fn steady_under(policy: &str, settings: &str) {
    let Some(seen) = run_on(CPUS_SLOW, &format!("{}{policy} {settings}", steady::NAME), COUNTED_SLOW) else { return };
    assert!(number(&seen, "seconds") >= 600.0, "{seen:#}");
    assert!(number(&seen, "answer_ms") < SLOW_ANSWER, "{seen:#}");
    assert!(number(&seen, "heartbeat_ms") < SLOW_ANSWER, "{seen:#}");
    assert!(number(&seen, "busy") > 0.0, "{seen:#}");
    assert!(number(&seen, "plain") >= RESERVE, "{seen:#}");
    assert!(number(&seen, "served") >= if settings.contains("budget") { SERVED } else { RESERVE }, "{seen:#}");
}

macro_rules! steady {
    ($($name:ident: $policy:literal $settings:literal)*) => {
        mod steadily {
            $(#[test]
            #[ignore = "ten minutes, real ones as well"]
            fn $name() {
                super::steady_under($policy, $settings);
            })*
        }
    };
}

steady! {
    credit: "credit" ""
    credit_4_2: "credit-4.2" ""
    credit_sampled: "credit-sampled" ""
    credit_base: "credit-base" ""
    deferrable: "deferrable" "budget=3ms period=10ms priority=1"
    periodic: "periodic" "budget=3ms period=10ms priority=1"
    polling: "polling" "budget=3ms period=10ms priority=1"
    sporadic: "sporadic" "budget=3ms period=10ms priority=1"
    sedf: "sedf" "budget=3ms period=10ms extra=off"
    vgedf: "vgedf" "budget=3ms period=10ms extra=off"
    laxs: "laxs" "rt=on laxity=1ms"
    poris: "poris" "rt=on latency=5ms"
    doris: "doris" "rt=on period=5ms"
}
