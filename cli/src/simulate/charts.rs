// SPDX-License-Identifier: GPL-2.0-only
//! The charts of a scenario: of each VM that has something to do in time what it did and how long
//! it waited, the VM that suffers most first; of Dom0; of batch work.

use super::seen::Seen;
use super::vm::Vm;
use crate::report::chart::{Chart, Kind, Rows};
use crate::report::legend::Legend;
use crate::report::{Charts, Section};
use crate::stat::Stat;
use takt_sim::result::{RunResult, VmResult};

/// A figure of VMs that have it.
struct Figure {
    /// In titles, behind the name of the VM.
    what: &'static str,
    axis: &'static str,
    draw: Draw,
}

enum Draw {
    /// PESQ of each call.
    Calls,
    /// A caption, and what the bar is the mean of; no chart if it is 0 under every policy.
    Bar(&'static str, fn(&RunResult, &VmResult) -> Option<f64>),
    /// Median and 99th percentile, means over seeds; greatest of all; ns.
    Span(fn(&VmResult) -> Option<[u64; 3]>),
}

/// In the order of a page.
const FIGURES: [Figure; 19] = [
    Figure { what: "quality of the calls", axis: "PESQ", draw: Draw::Calls },
    Figure {
        what: "packets late or lost",
        axis: "packets late or lost, %",
        draw: Draw::Bar("As a share of all packets that clients sent.", |_, vm| Some(vm.voip.as_ref()?.late_lost_pct)),
    },
    Figure {
        what: "rate of the streams",
        axis: "Mbit/s per user",
        draw: Draw::Bar("Mean of all users.", |_, vm| Some(vm.vod?.rate_mean / 1e6)),
    },
    Figure {
        what: "lag of the streams",
        axis: "from a frame's due time to departure",
        draw: Draw::Span(|vm| vm.vod.map(|v| [v.lag_p50_ns, v.lag_p99_ns, v.lag_max_ns])),
    },
    Figure {
        what: "frames that viewers see",
        axis: "frames/s",
        draw: Draw::Bar("Mean over the whole seconds in which the video plays.", |_, vm| Some(vm.video?.fps_mean)),
    },
    Figure {
        what: "how much that differs",
        axis: "standard deviation, frames/s",
        draw: Draw::Bar("Of the frames in each whole second.", |_, vm| Some(vm.video?.fps_sd)),
    },
    Figure {
        what: "lag of the frames",
        axis: "from a frame's time to its display",
        draw: Draw::Span(|vm| vm.video.map(|v| [v.lag_p50_ns, v.lag_p99_ns, v.lag_max_ns])),
    },
    Figure {
        what: "frames per second",
        axis: "frames/s",
        draw: Draw::Bar("Frames that were sent.", |run, vm| {
            Some(vm.stream?.frames as f64 * 1e9 / run.duration_ns.max(1) as f64)
        }),
    },
    Figure {
        what: "gaps between frames",
        axis: "from frame to frame",
        draw: Draw::Span(|vm| vm.stream.map(|s| [s.gap_p50_ns, s.gap_p99_ns, s.gap_max_ns])),
    },
    Figure {
        what: "response time",
        axis: "from request to answer",
        draw: Draw::Span(|vm| vm.fanout.filter(|f| f.answered > 0).map(|f| [f.p50_ns, f.p99_ns, f.max_ns])),
    },
    Figure {
        what: "answers after the deadline",
        axis: "answers after the deadline, %",
        draw: Draw::Bar("As a share of all answers.", |_, vm| {
            vm.fanout.map(|f| f.missed as f64 * 100.0 / f.answered.max(1) as f64)
        }),
    },
    Figure {
        what: "latency",
        axis: "from the timer's expiry to running",
        draw: Draw::Span(|vm| vm.cyclictest.map(|c| [c.p50_ns, c.p99_ns, c.max_ns])),
    },
    Figure {
        what: "jobs that missed their deadline",
        axis: "jobs missed, %",
        draw: Draw::Bar("As a share of all jobs. Jobs that are overdue at the end count as missed.", |run, vm| {
            let jobs = !vm.tasks.is_empty() || vm.periodic.is_some();
            jobs.then(|| vm.promise(run.duration_ns)).flatten().map(|p| p.failed * 100.0)
        }),
    },
    Figure {
        what: "latency of jobs",
        axis: "from a job's release to its start",
        draw: Draw::Span(|vm| {
            let latency = vm.periodic.filter(|_| vm.tasks.is_empty())?.latency;
            (latency.entries > 0).then_some([latency.p50_ns, latency.p99_ns, latency.max_ns])
        }),
    },
    Figure {
        what: "iterations",
        axis: "iterations",
        draw: Draw::Bar("Sum over all threads.", |_, vm| vm.parallel.map(|p| p.iterations as f64)),
    },
    Figure {
        what: "spinning",
        axis: "CPU time spent spinning, %",
        draw: Draw::Bar("CPU time that threads spent waiting for a lock or at a barrier.", |_, vm| {
            vm.parallel.map(|p| p.spun_ns as f64 * 100.0 / vm.cpu_time_ns.max(1) as f64)
        }),
    },
    Figure {
        what: "round trip of pings",
        axis: "from ping to answer",
        draw: Draw::Span(|vm| vm.ping.filter(|p| p.answered > 0).map(|p| [p.p50_ns, p.p99_ns, p.max_ns])),
    },
    Figure {
        what: "rate of netperf",
        axis: "Mbit/s",
        draw: Draw::Bar("Bits of messages that left the host.", |_, vm| Some(vm.netperf?.rate / 1e6)),
    },
    WAITS,
];

/// Of every VM.
const WAITS: Figure = Figure {
    what: "waits for a PCPU",
    axis: "from ready to running",
    draw: Draw::Span(|vm| vm.wait.get("all").filter(|w| w.entries > 0).map(|w| [w.p50_ns, w.p99_ns, w.max_ns])),
};

/// VMs in the order of their charts: of those that are worst first, those that have figures of
/// their own come first, and of VMs of one entry of the scenario one before all others of it.
pub(super) fn order<'a, 'b>(worst_first: &'b [Vm<'a>]) -> Vec<&'b Vm<'a>> {
    let alike = |n: usize| worst_first[..n].iter().filter(|vm| vm.alike(&worst_first[n])).count();
    let mut all: Vec<_> = worst_first.iter().enumerate().map(|(n, vm)| (!vm.promises(), alike(n), vm)).collect();
    all.sort_by_key(|(silent, alike, _)| (*silent, *alike));
    all.into_iter().map(|(.., vm)| vm).collect()
}

/// Of VMs that matter, in their [`order`]; of Dom0, if there is one; and of the batch work of all
/// `runs`.
pub(super) fn charts(guests: &[&Vm], host: Option<&Vm>, legend: &Legend, runs: &[(&str, &RunResult)]) -> Charts {
    let host = host.and_then(|vm| section(vm, &WAITS, legend));
    let work = work(legend, runs);
    let room = Charts::MOST - usize::from(host.is_some()) - usize::from(work.is_some());
    let mut out = Charts::default();
    for (n, vm) in guests.iter().enumerate() {
        let mut own: Vec<_> = FIGURES.iter().filter_map(|f| section(vm, f, legend)).collect();
        if out.charts.len() + own.len() > room {
            let names: Vec<_> = guests[n..].iter().filter_map(|vm| vm.name()).collect();
            out.left_out = Some(format!(
                "A page has at most {} charts of a scenario. They show {n} VMs. Not drawn: {}. The table of VMs has their figures.",
                Charts::MOST,
                names.join(", ")
            ));
            break;
        }
        out.charts.append(&mut own);
    }
    out.charts.extend(host.into_iter().chain(work));
    out
}

fn section(vm: &Vm, figure: &Figure, legend: &Legend) -> Option<Section> {
    let values = |seen: &Seen| match figure.draw {
        Draw::Calls => {
            let calls = seen.runs.iter().filter_map(|(_, vm)| vm.voip.as_ref()).flat_map(|v| &v.calls);
            let all: Vec<_> = calls.map(|c| c.pesq).collect();
            Kind::Boxes.sum_up(|_| all.clone())
        }
        Draw::Bar(_, of) => Some(vec![seen.mean(of)?]),
        Draw::Span(of) => {
            let all: Vec<_> = seen.runs.iter().filter_map(|(_, vm)| of(vm)).collect();
            Kind::Spans.sum_up(|n| all.iter().map(|v| v[n] as f64).collect())
        }
    };
    let rows = legend.rows("", |policy| vm.seen.iter().find(|s| s.policy == policy).and_then(values));
    let zero = || rows.iter().flat_map(|r| &r.values).all(|v| *v == 0.0);
    let (kind, caption) = match figure.draw {
        Draw::Bar(..) if zero() => return None,
        Draw::Bar(caption, _) => (Kind::Bars, Some(caption)),
        Draw::Calls => (Kind::Boxes, None),
        Draw::Span(_) => (Kind::Spans, None),
    };
    let caption = caption.into_iter().chain([kind.caption()]).collect::<Vec<_>>().join(" ");
    let name = match (vm.name()?, vm.about()) {
        (name, Some(about)) => format!("{name} ({about})"),
        (_, None) => "Dom0".to_owned(),
    };
    let chart = Chart::Rows(Rows::new(kind, figure.axis, rows));
    let section = Section { title: format!("{name}: {}", figure.what), caption, chart };
    (!section.chart.is_empty()).then_some(section)
}

/// Batch work of all VMs.
fn work(legend: &Legend, runs: &[(&str, &RunResult)]) -> Option<Section> {
    let mean = |policy: &str| {
        let mine = runs.iter().filter(|(label, _)| *label == policy);
        Stat::Mean.of(&mine.map(|(_, run)| run.vms.iter().map(|vm| vm.work).sum()).collect::<Vec<f64>>())
    };
    let section = legend.share_chart("Work of the batch VMs".into(), legend.shares("", mean));
    (!section.chart.is_empty()).then_some(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::pen;
    use crate::simulate::{self, columns::Columns, vms::Vms};
    use takt_control::PolicySpec;
    use takt_sim::Scenario;

    #[test]
    fn axes_fit_a_phone() {
        for f in &FIGURES {
            assert_eq!(pen::fitted(f.axis, pen::NARROW), f.axis);
        }
    }

    /// The titles of the charts of a second under Credit, and the remark.
    fn titles(vms: &str) -> (Vec<String>, Option<String>) {
        let text = format!("name = \"some\"\nduration = \"1s\"\n[machine]\npcpus = 2\n{vms}");
        let scenario = Scenario::from_toml(&text, "some.toml").unwrap();
        let policy = PolicySpec::parse("credit").unwrap();
        let run = simulate::one(&scenario, &policy, 1, &mut |_| ()).unwrap();
        let charts = Vms::new(&scenario, &[policy], &[("credit", &run)], false, Columns::table()).charts;
        (charts.charts.into_iter().map(|s| s.title).collect(), charts.left_out)
    }

    #[test]
    fn charts_are_of_what_the_scenario_is_about() {
        let (titles, left_out) = titles(
            "[[vm]]\nname = \"beat\"\nvcpus = 1\nworkload = { type = \"periodic\" }\n\
             [[vm]]\nname = \"kept\"\nvcpus = 1\nbudget = \"1ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\n\
             [[vm]]\nname = \"hog\"\nvcpus = 2\nworkload = \"hog\"\n",
        );
        let own = [
            "beat (periodic jobs): latency of jobs",
            "beat (periodic jobs): waits for a PCPU",
            "kept (busy loops): waits for a PCPU",
            "Dom0: waits for a PCPU",
            "Work of the batch VMs",
        ];
        assert_eq!((titles, left_out), (own.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn of_many_vms_there_is_one_of_each_entry_before_the_others() {
        let vm = |name: &str, count: u32, workload: &str| {
            format!("[[vm]]\nname = \"{name}\"\ncount = {count}\nvcpus = 1\nworkload = {{ type = {workload} }}\n")
        };
        let (titles, left_out) = titles(&(vm("beat", 9, "\"periodic\"") + &vm("talk", 1, "\"voip\", calls = 2")));
        assert!(
            titles.len() <= Charts::MOST && titles.iter().any(|t| t.starts_with("talk (server of 2 calls): ")),
            "{titles:?}"
        );
        assert!(left_out.is_some_and(|note| note.contains("Not drawn: beat-")), "{titles:?}");
    }
}
