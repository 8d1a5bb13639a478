// SPDX-License-Identifier: GPL-2.0-only
//! Metrics that `chart` in an experiment may name, and how they are drawn.

use anyhow::{Result, bail};
use takt_control::near;

/// An axis, and the metrics of a row that may share it.
pub struct Axis {
    /// What it shows, with the unit.
    pub title: &'static str,
    pub draw: Draw,
    /// Names as `chart` has them, each with the heading of its chart. `*` at the beginning stands
    /// for the name of a VM or VCPU, which `{}` is in the heading.
    metrics: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub enum Draw {
    /// The mean over seeds, divided by this.
    Value(f64),
    /// The same, on an axis of PESQ or MOS.
    Quality,
    /// Quartiles of all calls at the last point.
    Calls,
    /// Median, 99th percentile and longest, ns, at the last point: metrics with the name before
    /// `_p50_ns`, `_p99_ns`, `_max_ns`.
    Span,
    /// Batch work relative to Credit's, or to that under the first policy, at the last point.
    Share,
}

impl Draw {
    /// Whether a chart may show several metrics so, side by side.
    fn shares(self) -> bool {
        matches!(self, Draw::Value(_) | Draw::Quality)
    }
}

const MEAN: Draw = Draw::Value(1.0);

const fn axis(title: &'static str, draw: Draw, metrics: &'static [(&'static str, &'static str)]) -> Axis {
    Axis { title, draw, metrics }
}

static AXES: [Axis; 42] = [
    axis("mean PESQ", Draw::Quality, &[("pesq_mean", "Mean PESQ of all calls")]),
    axis("median PESQ", Draw::Quality, &[("pesq_p50", "Median PESQ of the calls")]),
    axis("MOS", Draw::Quality, &[("mos_delayed", "MOS with the delay until play-out")]),
    axis("PESQ", Draw::Calls, &[("call_pesq", "Quality of the calls")]),
    axis("calls with PESQ below 4, %", MEAN, &[("below4_pct", "Calls below toll quality")]),
    axis("packets late, %", MEAN, &[("late_pct", "Packets that miss their play-out time")]),
    axis("packets lost, %", MEAN, &[("lost_pct", "Packets lost")]),
    axis("jitter, ms", MEAN, &[("jitter_ms", "Jitter")]),
    axis(
        "from ready to running",
        Draw::Span,
        &[
            ("rt_wait", "Waits of the VM that serves calls"),
            ("vod_wait", "Waits of the streaming server"),
            ("video_wait", "Waits of the VM that shows frames"),
            ("dom0_wait", "Waits of Dom0"),
        ],
    ),
    axis("from the timer's expiry to running", Draw::Span, &[("latency", "Latency of cyclictest")]),
    axis("batch work, CPU-s", MEAN, &[("work", "Batch work"), ("*_work", "Batch work of {}")]),
    axis("batch work", Draw::Share, &[("work_share", "Work of the batch VMs")]),
    axis("Mbit/s per user", MEAN, &[("rate_mbit", "Rate of each user's stream")]),
    axis("Mbit/s", MEAN, &[("netperf_mbit", "Rate of netperf")]),
    axis(
        "round trip, us",
        MEAN,
        &[("rtt_mean_us", "Mean round trip of pings"), ("rtt_p99_us", "p99 of the round trips")],
    ),
    axis("frames/s", MEAN, &[("fps_mean", "Frames per second"), ("fps_min", "in the worst second")]),
    axis("sd of frames/s", MEAN, &[("fps_sd", "Differences between seconds")]),
    axis("frames", MEAN, &[("frames_lost", "Frames lost"), ("frames_late", "Frames late")]),
    axis("time to play, s", MEAN, &[("play_s", "Time to play the video")]),
    axis("ms per iteration", Draw::Value(1e3), &[("iteration_us", "Time per iteration")]),
    axis("response time, ms", MEAN, &[("response_mean_ms", "Mean response time")]),
    axis("answers late, %", MEAN, &[("response_missed_pct", "Answers after the deadline")]),
    axis("files or transactions per s", MEAN, &[("steps_per_s", "Files compiled, or transactions")]),
    axis("parts per s", MEAN, &[("parts_per_s", "Parts of requests answered")]),
    axis("waits per job", MEAN, &[("turns_per_job", "Waits for a PCPU per job")]),
    axis("longest wait, ms", MEAN, &[("turn_wait_max_ms", "Longest wait for a PCPU")]),
    axis("migrations", MEAN, &[("migrations", "Migrations")]),
    axis(
        "jobs missed, %",
        MEAN,
        &[
            ("missed_pct", "Jobs that missed their deadline"),
            ("missed_pct_d1", "d1"),
            ("missed_pct_d2", "d2"),
            ("missed_pct_d3", "d3"),
            ("missed_pct_d4", "d4"),
            ("missed_pct_d5", "d5"),
        ],
    ),
    axis("fraction of the sets", MEAN, &[("accepted", "Sets that the analysis accepts")]),
    axis("rejected, %", MEAN, &[("rejected_pct", "Rejected among the sets that are only analysed")]),
    axis(
        "PCPU time, %",
        MEAN,
        &[("pcpu0_loss_pct", "PCPU time that scheduling takes"), ("pcpu1_loss_pct", "PCPU time that scheduling takes")],
    ),
    axis(
        "decisions",
        MEAN,
        &[("pcpu0_decisions", "Decisions of the scheduler"), ("pcpu1_decisions", "Decisions of the scheduler")],
    ),
    axis(
        "CPU time of the other VMs, %",
        MEAN,
        &[
            ("rest_pct_0_end", "before creation"),
            ("rest_pct_1_begin", "just after creation"),
            ("rest_pct_1_end", "long after creation"),
            ("rest_pct_2_begin", "just after the change"),
            ("rest_pct_2_end", "long after the change"),
            ("rest_pct_3_begin", "just after destruction"),
            ("rest_pct_3_end", "long after destruction"),
        ],
    ),
    axis("gap, ms", MEAN, &[("gap_p50_ms", "Median gap between packets")]),
    axis("period, ms", MEAN, &[("period_ms", "Period that the monitor finds")]),
    axis("frames", MEAN, &[("verdict_frames", "Frames until the verdict")]),
    axis("CPU-s", MEAN, &[("*_cpu_s", "CPU time of {}")]),
    axis("time lost to cold caches, ms", MEAN, &[("cold_ms", "all VMs"), ("*_cold_ms", "{}")]),
    axis("99th percentile of waits, us", MEAN, &[("*_wait_p99_us", "Waits of {}")]),
    axis(
        "time, us",
        Draw::Value(1e3),
        &[
            ("*_under_mean_ns", "Mean wait of {} as UNDER"),
            ("*_under_run_ns", "Run time of {} after an entry as UNDER"),
        ],
    ),
    axis(
        "run time in the class, %",
        MEAN,
        &[("*_under_run_pct", "{} in UNDER"), ("*_over_run_pct", "{} in OVER"), ("*_boost_run_pct", "{} in BOOST")],
    ),
    axis(
        "predicted minus actual wait, us",
        MEAN,
        &[("*_error_p25_us", "{}, 25th percentile"), ("*_error_p75_us", "{}, 75th percentile")],
    ),
];

/// A metric that a chart shows.
pub struct Metric<'a> {
    pub name: &'a str,
    /// Heading of its chart, or its name in a chart of several.
    pub title: String,
    pub axis: &'static Axis,
}

/// A metric by its name.
fn find(name: &str) -> Option<Metric<'_>> {
    AXES.iter().flat_map(|axis| axis.metrics.iter().map(move |m| (axis, m))).find_map(|(axis, (own, title))| {
        let stem = match own.strip_prefix('*') {
            Some(rest) => name.strip_suffix(rest)?,
            None if *own == name => "",
            None => return None,
        };
        let title = title.replace("{}", stem.strip_prefix("vm_").unwrap_or(stem));
        Some(Metric { name, title, axis })
    })
}

/// The metrics of one chart, which share an axis.
///
/// # Errors
/// There is none, one is unknown, or they have no common axis.
pub fn of_chart(names: &[String]) -> Result<Vec<Metric<'_>>> {
    let known = || AXES.iter().flat_map(|axis| axis.metrics).map(|(name, _)| *name);
    let mut all: Vec<Metric> = Vec::new();
    for name in names {
        let Some(metric) = find(name) else { bail!("no chart of `{name}`{}", near::known_are(name, known())) };
        if let Some(first) = all.first() {
            if let Some(alone) = [first, &metric].into_iter().find(|m| !m.axis.draw.shares()) {
                bail!("`{}` must be in a chart of its own, not in brackets with others", alone.name);
            }
            if !std::ptr::eq(first.axis, metric.axis) {
                bail!(
                    "`{}` and `{name}` must be in different charts: one axis shows \"{}\", the other \"{}\"",
                    first.name,
                    first.axis.title,
                    metric.axis.title
                );
            }
        }
        all.push(metric);
    }
    if all.is_empty() {
        bail!("brackets without a metric; allowed: one or more");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::data::Experiment;
    use crate::report::chart::pen;

    #[test]
    fn a_metric_is_found_by_its_name_or_by_the_end_of_it() {
        let title = |name| find(name).unwrap().title;
        assert_eq!(title("pesq_mean"), "Mean PESQ of all calls");
        assert_eq!(title("vm_att_cpu_s"), "CPU time of att");
        assert_eq!(title("media-s.0_under_mean_ns"), "Mean wait of media-s.0 as UNDER");
        assert!(find("pesq").is_none());
    }

    #[test]
    fn metrics_of_a_chart_have_one_axis() {
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
            of_chart(&names).map(|all| all.len()).map_err(|e| e.to_string())
        };
        assert_eq!(of(&["rt_wait"]), Ok(1));
        assert_eq!(of(&["missed_pct_d1", "missed_pct_d2", "missed_pct"]), Ok(3));
        assert_eq!(of(&["media-s_under_run_pct", "dom0_boost_run_pct"]), Ok(2), "a VM each");
        for (names, want) in [
            (
                &["work", "migrations"][..],
                "`work` and `migrations` must be in different charts: one axis shows \"batch work, CPU-s\", the other \"migrations\"",
            ),
            // Both in CPU-s, but of one VM and of all.
            (&["vm_a_cpu_s", "work"], "`vm_a_cpu_s` and `work` must be in different charts: "),
            (&["rt_wait", "dom0_wait"], "`rt_wait` must be in a chart of its own, not in brackets with others"),
            (&["pesq_mean", "call_pesq"], "`call_pesq` must be in a chart of its own"),
            (&["work", "wrk"], "no chart of `wrk` (did you mean `work`?)"),
            (&[], "brackets without a metric"),
        ] {
            let error = of(names).unwrap_err();
            assert!(error.starts_with(want) && !error.contains('\n'), "{names:?}: {error}");
        }
    }

    #[test]
    fn every_metric_is_in_a_chart_of_an_experiment() {
        let all = Experiment::all().unwrap();
        let drawn: Vec<_> = all.iter().flat_map(|e| &e.chart).flat_map(|names| names.all()).collect();
        for (name, _) in AXES.iter().flat_map(|axis| axis.metrics) {
            let is_drawn = match name.strip_prefix('*') {
                Some(rest) => drawn.iter().any(|d| d.ends_with(rest)),
                None => drawn.iter().any(|d| d == name),
            };
            assert!(is_drawn, "no chart shows {name}");
        }
    }

    #[test]
    fn axes_fit_a_phone() {
        for axis in &AXES {
            assert_eq!(pen::fitted(axis.title, pen::NARROW), axis.title);
        }
    }
}
