// SPDX-License-Identifier: GPL-2.0-only
//! `takt bench-host` in words: what it is about to do, and what it has found.

use super::drive::{PHASES, Times};
use crate::{args, table};
use std::path::Path;
use takt_control::bench::{Figure, Host, Phase, Ratio, Report, Scheduler};
use takt_control::duration;

/// What an operator agrees to.
pub fn plan(host: &Host, vms: usize, times: Times, config: Option<&Path>, args: &args::BenchHost) -> String {
    let config = config.map_or("no configuration".into(), |path| path.display().to_string());
    let report = match &args.out {
        Some(file) => format!("The report is written to {}", file.display()),
        None => "The report is printed and, without --out FILE, not kept".into(),
    };
    let names = if args.names { "the names of the VMs" } else { "numbers for the VMs, no names" };
    format!(
        "This host runs {vms} VMs on {} CPUs under the kernel's own scheduler (Linux {}).\n\
         For {} min they run by turns under that scheduler and under Takt: {PHASES} phases of {:.1} s.\n\
         For each phase under Takt, `takt run` ({}, {config}) schedules all VMs and all ordinary threads of this host.\n\
         It is loaded twice. q or Ctrl-C unloads it at once, and the kernel's scheduler is back.\n\
         At the end the kernel's scheduler is in force, and nothing else has changed.\n\
         {report}; it has {names}.\n",
        host.cpus,
        host.kernel,
        args.minutes,
        times.phase.as_secs_f64(),
        host.policy,
    )
}

/// The report.
pub fn text(report: &Report) -> String {
    let Report { host, plan, .. } = report;
    let mut text = format!(
        "Linux {} on {} CPUs ({}); Takt {} under {}{}\n",
        host.kernel,
        host.cpus,
        host.cpu,
        takt_control::document::TAKT,
        host.policy,
        if host.configured { ", with a configuration" } else { "" },
    );
    text += &format!(
        "{} of {} phases of {:.1} s, {:.1} s of each not counted\n",
        report.phases.len(),
        plan.phases,
        plan.phase_s,
        plan.warmup_s
    );
    if let Some(why) = &report.partial {
        text += &format!("PARTIAL: {why}\n");
    }
    if !report.ratios.is_empty() {
        let head = ["VM", "figure", "kernel", "takt", "takt / kernel", "range", "pairs"];
        let rows: Vec<_> = report.ratios.iter().map(ratio).collect();
        text += &format!("\n{}", table::render("", &head, &rows, 2..));
        text += "takt / kernel: median over pairs of phases that follow each other; range: least and largest.\n";
    }
    if !report.phases.is_empty() {
        let head =
            ["phase", "scheduler", "VM", "VCPUs", "CPUs", "mean wait", "steal", "takt p50", "takt p99", "switches/s"];
        let rows: Vec<_> = report.phases.iter().zip(1..).flat_map(|(phase, n)| rows(n, phase)).collect();
        text += &format!("\n{}", table::render("", &head, &rows, 3..));
        text += "mean wait: of a VCPU, each time before it got a CPU\n\
                 steal: CPUs that VCPUs could have used meanwhile; of the host, what a hypervisor below it kept\n";
    }
    text += &report.notes.iter().map(|note| table::wrapped(note)).collect::<String>();
    text
}

fn ratio(ratio: &Ratio) -> Vec<String> {
    let (name, value): (_, fn(f64) -> String) = match ratio.figure {
        Figure::VcpuWaitUs => ("mean wait of VCPUs", |us| duration::human(us * 1e3)),
        Figure::Cpus => ("CPUs", |n| format!("{n:.2}")),
        Figure::SwitchesPerS => ("switches/s", |n| format!("{n:.0}")),
    };
    vec![
        ratio.vm.clone().unwrap_or_else(|| "host".into()),
        name.into(),
        value(ratio.kernel),
        value(ratio.takt),
        format!("{:.2}", ratio.ratio),
        format!("{:.2} to {:.2}", ratio.low, ratio.high),
        ratio.pairs.to_string(),
    ]
}

/// Of the host, and of each VM.
fn rows(n: u32, phase: &Phase) -> Vec<Vec<String>> {
    let (each, none) = (|total: f64| format!("{:.2}", total / phase.seconds), || "-".to_owned());
    let begin = |of: &str| vec![n.to_string(), phase.scheduler.word().into(), of.to_owned()];
    let rate = |switches: u64| format!("{:.0}", switches as f64 / phase.seconds);
    let takt = match (phase.scheduler, phase.host.bpf_run_s) {
        (Scheduler::Takt, Some(s)) => format!("{:.3}", s / phase.seconds),
        _ => none(),
    };
    let host = [none(), each(phase.host.busy_s), none(), each(phase.host.steal_s), none(), none()];
    let mut all = vec![[begin("host"), host.to_vec(), vec![rate(phase.host.switches)]].concat()];
    if takt != "-" {
        all.push([begin("Takt's BPF"), vec![none(), takt], vec![none(); 5]].concat());
    }
    for vm in &phase.vms {
        let parts = [vm.vcpus, vm.io, vm.others];
        let mean = (vm.vcpus.slices > 0).then(|| duration::human(vm.vcpus.wait_s * 1e9 / vm.vcpus.slices as f64));
        let own = |of: fn(&takt_control::bench::TaktWaits) -> f64| {
            vm.waits.map_or_else(none, |waits| duration::human(of(&waits) * 1e3))
        };
        let row = vec![
            vm.vcpus.threads.to_string(),
            each(parts.iter().map(|t| t.run_s).sum()),
            mean.unwrap_or_else(none),
            each(vm.vcpus.wait_s),
            own(|waits| waits.p50_us),
            own(|waits| waits.p99_us),
            rate(parts.iter().map(|t| t.voluntary + t.involuntary).sum()),
        ];
        all.push([begin(&vm.vm), row].concat());
    }
    all
}
