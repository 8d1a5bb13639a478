// SPDX-License-Identifier: GPL-2.0-only
//! `takt bench-host`: the report of a host under the kernel's scheduler and under Takt by turns, and what follows from it.

use crate::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pairs of phases without which there is no ratio: of fewer a range says nothing.
pub const LEAST_PAIRS: usize = 3;

/// What is in force in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// The kernel's own (EEVDF).
    Kernel,
    Takt,
}

impl Scheduler {
    /// As the report has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Takt => "takt",
        }
    }

    /// Of phase `n`, from 0: ABBA, so that what drifts with time falls on both alike.
    #[must_use]
    pub fn of_phase(n: u32) -> Self {
        if matches!(n % 4, 0 | 3) { Self::Kernel } else { Self::Takt }
    }
}

/// What `takt bench-host` measured. It has no addresses, paths or host names, and numbers instead of names of VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Why phases are missing; null if none is.
    pub partial: Option<String>,
    pub host: Host,
    pub plan: Plan,
    /// In the order in which they ran, those that ran to their end.
    pub phases: Vec<Phase>,
    /// What Takt changed. Empty if there are fewer than three pairs of phases.
    pub ratios: Vec<Ratio>,
    /// What to know about the figures, a sentence each.
    pub notes: Vec<String>,
}

impl Document for Report {
    const NAME: &'static str = "bench-host";
    const VERSION: u32 = 1;
}

/// The host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU, as the kernel names it.
    pub cpu: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// The policy under which Takt ran.
    pub policy: String,
    /// Whether Takt had a configuration file.
    pub configured: bool,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Phases that were to run, in the order kernel, takt, takt, kernel, again and again.
    pub phases: u32,
    /// Of each, with its warm-up.
    pub phase_s: f64,
    /// At the begin of each phase, not part of the figures.
    pub warmup_s: f64,
}

/// The measured part of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    pub scheduler: Scheduler,
    /// Measured time.
    pub seconds: f64,
    pub host: HostUse,
    /// Those that ran from its begin to its end.
    pub vms: Vec<VmUse>,
}

/// What the host did, by `/proc/stat`; CPU time of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUse {
    /// CPU time in which a CPU was not idle.
    pub busy_s: f64,
    /// CPU time in the kernel, without interrupts.
    pub system_s: f64,
    /// CPU time in interrupts.
    pub irq_s: f64,
    /// CPU time that a hypervisor below this host kept.
    pub steal_s: f64,
    /// Context switches.
    pub switches: u64,
    /// CPU time of Takt's BPF programs; null under the kernel's scheduler, or if the kernel does not count it (`kernel.bpf_stats_enabled`).
    pub bpf_run_s: Option<f64>,
}

/// What the threads of a VM did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmUse {
    /// Its number, or its name if names were asked for.
    pub vm: String,
    /// Its VCPUs.
    pub vcpus: Threads,
    /// Its I/O threads, as Takt finds them.
    pub io: Threads,
    /// The other threads of its VMM.
    pub others: Threads,
    /// Takt's own account of the waits of its VCPUs and I/O threads; null under the kernel's scheduler.
    pub waits: Option<TaktWaits>,
}

/// Threads together, by `/proc/PID/task/TID`; the same source under both schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    pub threads: u32,
    /// CPU time.
    pub run_s: f64,
    /// Time in which they could have run, and waited for a CPU.
    pub wait_s: f64,
    /// How often one of them got a CPU.
    pub slices: u64,
    /// Context switches because it had nothing to do.
    pub voluntary: u64,
    /// Context switches although it could have run on.
    pub involuntary: u64,
}

/// Waits in the measured time, at most 3 % too long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaktWaits {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// A figure under Takt, of the same figure under the kernel's scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The VM as in `phases`; null: the host.
    pub vm: Option<String>,
    pub figure: Figure,
    /// Median over the phases with this scheduler.
    pub kernel: f64,
    pub takt: f64,
    /// Median over pairs of phases that follow each other, one with each scheduler.
    pub ratio: f64,
    /// The least of the pairs.
    pub low: f64,
    /// The largest.
    pub high: f64,
    pub pairs: usize,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Mean wait of a VCPU before it got a CPU, us.
    VcpuWaitUs,
    /// CPU time of all threads of the VM, or of all that the host ran, CPUs.
    Cpus,
    /// Context switches a second.
    SwitchesPerS,
}

/// Figures of VMs, and of the host.
const OF_VM: [Figure; 3] = [Figure::VcpuWaitUs, Figure::Cpus, Figure::SwitchesPerS];
const OF_HOST: [Figure; 2] = [Figure::Cpus, Figure::SwitchesPerS];

impl Phase {
    /// The figure of a VM, or of the host; `None`: it was not there, or nothing happened of which it could be a mean.
    fn figure(&self, vm: Option<&str>, figure: Figure) -> Option<f64> {
        let Some(name) = vm else {
            return match figure {
                Figure::VcpuWaitUs => None,
                Figure::Cpus => Some(self.host.busy_s / self.seconds),
                Figure::SwitchesPerS => Some(self.host.switches as f64 / self.seconds),
            };
        };
        let vm = self.vms.iter().find(|vm| vm.vm == name)?;
        let all = [vm.vcpus, vm.io, vm.others];
        match figure {
            Figure::VcpuWaitUs => (vm.vcpus.slices > 0).then(|| vm.vcpus.wait_s * 1e6 / vm.vcpus.slices as f64),
            Figure::Cpus => Some(all.iter().map(|t| t.run_s).sum::<f64>() / self.seconds),
            Figure::SwitchesPerS => {
                Some(all.iter().map(|t| t.voluntary + t.involuntary).sum::<u64>() as f64 / self.seconds)
            }
        }
    }
}

impl Report {
    /// Fills in the ratios, and says in a note if there are too few phases for them.
    pub fn compare(&mut self) {
        let mut names: Vec<Option<String>> = vec![None];
        for vm in self.phases.iter().flat_map(|p| &p.vms) {
            if !names.iter().any(|name| name.as_ref() == Some(&vm.vm)) {
                names.push(Some(vm.vm.clone()));
            }
        }
        let pairs = self.pairs().count();
        if pairs < LEAST_PAIRS {
            self.notes.push(format!("No ratios: complete pairs of phases: {pairs}, needed: {LEAST_PAIRS}."));
            return;
        }
        for name in names {
            let figures = if name.is_some() { &OF_VM[..] } else { &OF_HOST };
            let ratios = figures.iter().filter_map(|&figure| self.ratio(name.as_deref(), figure));
            let ratios: Vec<_> = ratios.collect();
            if let (true, Some(name)) = (ratios.is_empty(), &name) {
                self.notes.push(format!("No ratios of VM {name}: it did not run in {LEAST_PAIRS} pairs of phases."));
            }
            self.ratios.extend(ratios);
        }
    }

    /// Phases that follow each other, the kernel's first.
    fn pairs(&self) -> impl Iterator<Item = (&Phase, &Phase)> {
        self.phases.chunks_exact(2).filter_map(|pair| match (pair[0].scheduler, pair[1].scheduler) {
            (Scheduler::Kernel, Scheduler::Takt) => Some((&pair[0], &pair[1])),
            (Scheduler::Takt, Scheduler::Kernel) => Some((&pair[1], &pair[0])),
            _ => None,
        })
    }

    fn ratio(&self, vm: Option<&str>, figure: Figure) -> Option<Ratio> {
        let of = |(kernel, takt): (&Phase, &Phase)| {
            let (kernel, takt) = (kernel.figure(vm, figure)?, takt.figure(vm, figure)?);
            (kernel > 0.0).then_some((kernel, takt))
        };
        let both: Vec<_> = self.pairs().filter_map(of).collect();
        if both.len() < LEAST_PAIRS {
            return None;
        }
        let ratios = sorted(both.iter().map(|(kernel, takt)| takt / kernel));
        Some(Ratio {
            vm: vm.map(str::to_owned),
            figure,
            kernel: median(&sorted(both.iter().map(|b| b.0))),
            takt: median(&sorted(both.iter().map(|b| b.1))),
            ratio: median(&ratios),
            low: ratios[0],
            high: ratios[ratios.len() - 1],
            pairs: both.len(),
        })
    }
}

fn sorted(all: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<_> = all.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Of values in order, one at least.
fn median(all: &[f64]) -> f64 {
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(scheduler: Scheduler, wait_us: f64) -> Phase {
        let vcpus =
            Threads { threads: 1, run_s: 5.0, wait_s: wait_us / 1e6 * 1000.0, slices: 1000, ..Threads::default() };
        let [io, others] = [Threads::default(); 2];
        let vm = VmUse { vm: "1".into(), vcpus, io, others, waits: None };
        let host = HostUse { busy_s: 20.0, switches: 3000, ..HostUse::default() };
        Phase { scheduler, seconds: 10.0, host, vms: vec![vm] }
    }

    /// Waits in phases that run in the usual order.
    fn report(waits: &[f64]) -> Report {
        let phases = waits.iter().zip(0..).map(|(&us, n)| phase(Scheduler::of_phase(n), us)).collect();
        let host = Host { kernel: "7.3".into(), cpu: "x".into(), cpus: 4, policy: "doris".into(), configured: false };
        let plan = Plan { phases: 8, phase_s: 12.0, warmup_s: 2.0 };
        let (ratios, notes) = (Vec::new(), Vec::new());
        let mut report = Report { partial: None, host, plan, phases, ratios, notes };
        report.compare();
        report
    }

    fn wait(report: &Report) -> Option<&Ratio> {
        report.ratios.iter().find(|r| r.figure == Figure::VcpuWaitUs)
    }

    #[test]
    fn the_order_is_abba() {
        let order: String =
            (0..8).map(|n| if Scheduler::of_phase(n) == Scheduler::Kernel { 'A' } else { 'B' }).collect();
        assert_eq!(order, "ABBAABBA");
    }

    #[test]
    fn a_ratio_is_that_of_neighbours_with_its_range() {
        let all = report(&[100.0, 50.0, 10.0, 40.0, 200.0, 50.0, 80.0, 100.0]);
        let ratio = wait(&all).unwrap();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{ratio:?}");
        near(ratio.low, 0.25);
        near(ratio.high, 0.8);
        near(ratio.ratio, (0.25 + 0.5) / 2.0);
        near(ratio.kernel, 100.0);
        near(ratio.takt, 50.0);
        assert_eq!((ratio.pairs, all.notes.len()), (4, 0));
        let host: Vec<_> = all.ratios.iter().filter(|r| r.vm.is_none()).collect();
        assert_eq!(host.len(), 2);
        near(host[0].kernel, 2.0);
        near(host[1].takt, 300.0);
    }

    #[test]
    fn too_few_phases_give_no_figure_and_a_note() {
        // The seventh phase has no neighbour.
        for (phases, ratios) in [(0, false), (5, false), (6, true), (7, true)] {
            let all = report(&vec![50.0; phases]);
            assert_eq!(wait(&all).is_some(), ratios, "{phases}");
            assert_eq!(all.notes.is_empty(), ratios, "{phases}: {:?}", all.notes);
        }
        assert!(report(&[50.0; 5]).notes[0].contains("complete pairs of phases: 2, needed: 3"));
    }

    #[test]
    fn a_vm_that_was_not_there_all_the_time_has_none() {
        let mut all = report(&[]);
        all.notes.clear();
        all.phases = (0..8).map(|n| phase(Scheduler::of_phase(n), 50.0)).collect();
        all.phases[3..].iter_mut().for_each(|p| p.vms.clear());
        all.compare();
        assert!(wait(&all).is_none() && !all.ratios.is_empty());
        assert!(all.notes[0].starts_with("No ratios of VM 1"), "{:?}", all.notes);
        // A figure that is 0 under the kernel's scheduler has no ratio either.
        assert!(wait(&report(&[0.0; 8])).is_none());
    }
}
