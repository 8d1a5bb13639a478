// SPDX-License-Identifier: GPL-2.0-or-later
//! What a VM did between two readings.

use serde::Serialize;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::{self, Tsc, monotonic};
use crate::layout::{self, SAMPLE_TIMER};
use crate::spec::Workload;
use crate::stats::{Summary, kept};
use crate::vm::{Thread, Vm};

/// All counters at one time.
pub struct Reading {
    at: u64,
    pub tsc: u64,
    vcpus: Vec<Vcpu>,
    io: Io,
    tasks: Vec<Task>,
}

#[derive(Clone, Copy, Default)]
struct Vcpu {
    work: u64,
    jobs: u64,
    misses: u64,
    msis: u64,
    timers: u64,
    sampled: u64,
    cpu: u64,
    spun: u64,
    barriers: u64,
    sleeps: u64,
    began: u64,
    ended: u64,
}

/// Of a set: jobs whose end or deadline has passed, and what became of them; times in TSC cycles.
#[derive(Clone, Copy, Default)]
struct Task {
    jobs: u64,
    missed: u64,
    longest: u64,
}

impl Task {
    /// At `now`, since the set began at `start`, and measuring at `mark` or with it (0). A job that has not ended counts when its deadline is past.
    fn at(task: &layout::Task, start: u64, mark: u64, now: u64) -> Self {
        let get = |a: &AtomicU64| a.load(Relaxed);
        let (period, release) = (get(&task.period), get(&task.release).max(start));
        let waits = now.saturating_sub(release);
        let late = waits / period;
        let longest = if late > 0 { waits.min(now.saturating_sub(mark)) } else { 0 };
        Self {
            jobs: (release - start) / period + late,
            missed: get(&task.missed) + late,
            longest: get(&task.longest).max(longest),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Io {
    cpu: u64,
    packets_in: u64,
    packets_out: u64,
    rx_dropped: u64,
    tx_dropped: u64,
    waits: usize,
}

impl Reading {
    /// Before anything ran.
    pub fn zero(vm: &Vm, start: u64) -> Self {
        let tasks = vec![Task::default(); vm.spec.workload.tasks()];
        Self {
            at: start,
            tsc: vm.tsc.at(start),
            vcpus: vec![Vcpu::default(); vm.vcpus.len()],
            io: Io::default(),
            tasks,
        }
    }

    pub fn now(vm: &Vm) -> Self {
        let shared = vm.memory.shared();
        let get = |a: &AtomicU64| a.load(Relaxed);
        let vcpu = |(thread, v): (&Thread, &layout::Vcpu)| Vcpu {
            work: get(&v.work),
            jobs: get(&v.jobs),
            misses: get(&v.misses),
            msis: get(&v.msis),
            timers: get(&v.timers),
            sampled: v.sampled.load(std::sync::atomic::Ordering::Acquire),
            cpu: thread.cpu.read(),
            spun: get(&v.spun),
            barriers: get(&v.barriers),
            sleeps: get(&v.sleeps),
            began: get(&v.began),
            ended: get(&v.ended),
        };
        let io = vm.io.as_ref().map(|(thread, c)| Io {
            cpu: thread.cpu.read(),
            packets_in: get(&c.packets_in),
            packets_out: get(&c.packets_out),
            rx_dropped: get(&shared.rx.dropped),
            tx_dropped: get(&shared.tx.dropped) + get(&c.refused),
            waits: c.waits.lock().expect("no panic under it").len(),
        });
        let (now, start, mark) = (clock::tsc(), get(&shared.config.start), get(&shared.set.mark));
        let tasks = shared.set.task[..vm.spec.workload.tasks()].iter();
        Self {
            at: monotonic(),
            tsc: now,
            tasks: tasks.map(|task| Task::at(task, start, mark, now)).collect(),
            vcpus: vm.vcpus.iter().zip(&shared.vcpu).map(vcpu).collect(),
            io: io.unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
pub struct Report {
    name: String,
    kind: &'static str,
    measured_ns: u64,
    tsc_khz: u64,
    tsc_error_ns: u64,
    vcpus: Vec<VcpuReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io: Option<IoReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<ProgramReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskReport>,
}

#[derive(Serialize)]
struct VcpuReport {
    thread: String,
    cpu_ns: u64,
    /// Iterations.
    work: u64,
    jobs: u64,
    misses: u64,
    interrupts: Interrupts,
    /// From a packet's or an MSI's interrupt being sent, or a timer being due, to the guest's handler.
    latency: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_source: Option<BySource>,
    /// Latencies that the array had no room for; the summary is of the last ones.
    samples_lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latencies_ns: Option<Vec<u64>>,
}

#[derive(Serialize)]
struct Interrupts {
    msi: u64,
    timer: u64,
}

#[derive(Serialize)]
struct BySource {
    msi: Summary,
    timer: Summary,
}

#[derive(Serialize)]
struct IoReport {
    thread: String,
    cpu_ns: u64,
    packets_in: u64,
    packets_out: u64,
    /// Packets that a full ring or tap cost.
    lost_in: u64,
    lost_out: u64,
    /// From a sender's sending to the I/O thread's reading.
    wait: Summary,
}

/// Of a parallel program.
#[derive(Serialize)]
struct ProgramReport {
    /// Barriers passed, how often a VCPU halted at one, iterations that VCPUs spun.
    barriers: u64,
    sleeps: u64,
    spun: u64,
    /// For how long it ran in the measured time.
    ran_ns: u64,
    /// From its beginning to its end, if it has come to one.
    time_ns: Option<u64>,
}

/// One of a set of tasks.
#[derive(Serialize)]
struct TaskReport {
    jobs: u64,
    missed: u64,
    /// From release to end, or as long as it has taken.
    response_max_ns: u64,
}

impl TaskReport {
    fn new(tsc: Tsc, (from, to): (&Task, &Task)) -> Self {
        Self {
            jobs: to.jobs.saturating_sub(from.jobs),
            missed: to.missed.saturating_sub(from.missed),
            response_max_ns: tsc.ns(to.longest),
        }
    }
}

impl Report {
    pub fn new(vm: &Vm, from: &Reading, to: &Reading) -> Self {
        let vcpus = (0..vm.vcpus.len()).map(|i| VcpuReport::new(vm, i, from.vcpus[i], to.vcpus[i])).collect();
        let io = vm.io.as_ref().map(|(thread, counters)| {
            let (a, b) = (from.io, to.io);
            let waits = &counters.waits.lock().expect("no panic under it")[a.waits..b.waits];
            IoReport {
                thread: thread.name.clone(),
                cpu_ns: b.cpu - a.cpu,
                packets_in: b.packets_in - a.packets_in,
                packets_out: b.packets_out - a.packets_out,
                lost_in: b.rx_dropped - a.rx_dropped,
                lost_out: b.tx_dropped - a.tx_dropped,
                wait: Summary::of(&waits.iter().map(|&c| vm.tsc.ns(c)).collect::<Vec<_>>()),
            }
        });
        Self {
            name: vm.name.clone(),
            kind: vm.spec.workload.kind(),
            measured_ns: to.at.saturating_sub(from.at),
            tsc_khz: vm.tsc.khz,
            tsc_error_ns: vm.tsc_error_ns,
            vcpus,
            io,
            program: matches!(vm.spec.workload, Workload::Parallel(_)).then(|| ProgramReport::new(vm.tsc, from, to)),
            tasks: from.tasks.iter().zip(&to.tasks).map(|both| TaskReport::new(vm.tsc, both)).collect(),
        }
    }
}

impl ProgramReport {
    fn new(tsc: Tsc, from: &Reading, to: &Reading) -> Self {
        let sum = |r: &Reading, of: fn(&Vcpu) -> u64| r.vcpus.iter().map(of).sum::<u64>();
        let since = |of: fn(&Vcpu) -> u64| sum(to, of) - sum(from, of);
        let began = to.vcpus.iter().map(|v| v.began).filter(|&at| at > 0).min().unwrap_or(to.tsc);
        let ended = to.vcpus.iter().map(|v| v.ended).max().filter(|_| to.vcpus.iter().all(|v| v.ended > 0));
        Self {
            barriers: since(|v| v.barriers),
            sleeps: since(|v| v.sleeps),
            spun: since(|v| v.spun),
            ran_ns: tsc.ns(ended.unwrap_or(to.tsc).saturating_sub(began.max(from.tsc))),
            time_ns: ended.map(|at| tsc.ns(at - began)),
        }
    }
}

impl VcpuReport {
    fn new(vm: &Vm, index: usize, a: Vcpu, b: Vcpu) -> Self {
        let (entries, lost) = kept(a.sampled, b.sampled, vm.memory.capacity());
        let tagged: Vec<_> = entries.map(|i| vm.memory.sample(index, i)).collect();
        let of = |keep: &dyn Fn(u64) -> bool| -> Vec<u64> {
            tagged.iter().filter(|&&s| keep(s)).map(|s| vm.tsc.ns(s & !SAMPLE_TIMER)).collect()
        };
        let latencies = of(&|_| true);
        let by_source = matches!(vm.spec.workload, Workload::Interrupts { .. }).then(|| BySource {
            msi: Summary::of(&of(&|s| s & SAMPLE_TIMER == 0)),
            timer: Summary::of(&of(&|s| s & SAMPLE_TIMER != 0)),
        });
        Self {
            thread: vm.vcpus[index].name.clone(),
            cpu_ns: b.cpu - a.cpu,
            work: b.work - a.work,
            jobs: b.jobs - a.jobs,
            misses: b.misses - a.misses,
            interrupts: Interrupts { msi: b.msis - a.msis, timer: b.timers - a.timers },
            latency: Summary::of(&latencies),
            by_source,
            samples_lost: lost,
            latencies_ns: vm.spec.raw.then_some(latencies),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One GHz: a cycle is a nanosecond.
    const TSC: Tsc = Tsc { khz: 1_000_000 };

    fn reading(tsc: u64, ended: [u64; 2], spun: u64) -> Reading {
        let vcpu = |began, ended| Vcpu { began, ended, spun, barriers: spun / 10, ..Vcpu::default() };
        let vcpus = vec![vcpu(120, ended[0]), vcpu(110, ended[1])];
        Reading { at: 0, tsc, vcpus, io: Io::default(), tasks: Vec::new() }
    }

    #[test]
    fn a_job_counts_when_it_has_ended_or_its_deadline_is_past() {
        let set = layout::Task::with(100, 1_300, 2, 90);
        let task = |now| Task::at(&set, 1_000, 1_250, now);
        let figures = |t: Task| (t.jobs, t.missed, t.longest);
        assert_eq!(figures(task(1_299)), (3, 2, 90), "the fourth is not released");
        assert_eq!(figures(task(1_350)), (3, 2, 90), "and has time left");
        assert_eq!(figures(task(1_520)), (5, 4, 220));
        let report = TaskReport::new(TSC, (&task(1_350), &task(1_520)));
        assert_eq!((report.jobs, report.missed, report.response_max_ns), (2, 2, 220));
        assert_eq!(figures(Task::at(&layout::Task::with(100, 0, 0, 0), 1_000, 0, 900)), (0, 0, 0), "it has not begun");
        assert_eq!(
            figures(Task::at(&layout::Task::with(100, 1_000, 0, 0), 1_000, 1_400, 1_450)),
            (4, 4, 50),
            "released before measuring began"
        );
    }

    #[test]
    fn a_program_ends_with_its_last_thread() {
        let from = reading(200, [0, 0], 30);
        let one = ProgramReport::new(TSC, &from, &reading(900, [700, 0], 80));
        assert_eq!((one.ran_ns, one.time_ns, one.spun, one.barriers), (700, None, 100, 10));
        let all = ProgramReport::new(TSC, &from, &reading(900, [700, 800], 80));
        assert_eq!((all.ran_ns, all.time_ns), (600, Some(690)));
        // It began after the measured time did, or not at all.
        assert_eq!(ProgramReport::new(TSC, &reading(50, [0, 0], 0), &reading(900, [0, 0], 0)).ran_ns, 790);
        let idle = Reading { vcpus: vec![Vcpu::default(); 2], ..reading(900, [0, 0], 0) };
        assert_eq!(ProgramReport::new(TSC, &idle, &idle).ran_ns, 0);
    }
}
