// SPDX-License-Identifier: GPL-2.0-only
//! Metrics that `chart` in an experiment may name, and how they are drawn.

/// A metric of a row, or several of one kind.
pub struct Metric {
    /// As `chart` names it. `*` at the beginning stands for the name of a VM or VCPU.
    name: &'static str,
    /// Heading of its chart; `{}` is what `*` stands for.
    title: &'static str,
    /// What its axis shows, with the unit.
    pub axis: &'static str,
    pub draw: Draw,
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

const fn value(name: &'static str, title: &'static str, axis: &'static str, divide: f64) -> Metric {
    Metric { name, title, axis, draw: Draw::Value(divide) }
}

const fn drawn(name: &'static str, title: &'static str, axis: &'static str, draw: Draw) -> Metric {
    Metric { name, title, axis, draw }
}

const METRICS: [Metric; 55] = [
    drawn("pesq_mean", "Mean PESQ of all calls", "mean PESQ", Draw::Quality),
    drawn("pesq_p50", "Median PESQ of the calls", "median PESQ", Draw::Quality),
    drawn("pesq_p25", "PESQ that a quarter of the calls is below", "25th percentile of PESQ", Draw::Quality),
    drawn("mos_delayed", "MOS with the delay until play-out", "MOS", Draw::Quality),
    drawn("call_pesq", "How the calls sound", "PESQ", Draw::Calls),
    value("below4_pct", "Calls that are not of toll quality", "calls with PESQ below 4, %", 1.0),
    value("late_lost_pct", "Packets late or lost", "packets late or lost, %", 1.0),
    value("late_pct", "Packets after their play-out time", "packets late, %", 1.0),
    value("lost_pct", "Packets lost", "packets lost, %", 1.0),
    value("jitter_ms", "Jitter", "jitter, ms", 1.0),
    drawn("rt_wait", "Waits of the VM that serves calls", "from ready to running", Draw::Span),
    drawn("vod_wait", "Waits of the streaming server", "from ready to running", Draw::Span),
    drawn("dom0_wait", "Waits of Dom0", "from ready to running", Draw::Span),
    drawn("latency", "Latency of cyclictest", "from the timer's expiry to running", Draw::Span),
    value("work", "Batch work", "batch work, CPU-s", 1.0),
    drawn("work_share", "What the batch VMs get done", "batch work", Draw::Share),
    value("rate_mbit", "Rate of each user's stream", "Mbit/s per user", 1.0),
    value("iteration_us", "Time of an iteration", "ms per iteration", 1e3),
    value("response_mean_ms", "Mean response time", "response time, ms", 1.0),
    value("response_missed_pct", "Answers after the deadline", "answers late, %", 1.0),
    value("parts_per_s", "Parts of requests answered", "parts per s", 1.0),
    value("turns_per_job", "Turns of a VCPU for a job", "turns per job", 1.0),
    value("turn_wait_max_ms", "The longest wait for a turn", "ms", 1.0),
    value("migrations", "Migrations", "migrations", 1.0),
    value("missed_pct", "Jobs that missed their deadline", "jobs missed, %", 1.0),
    value("missed_pct_d1", "d1", "jobs missed, %", 1.0),
    value("missed_pct_d2", "d2", "jobs missed, %", 1.0),
    value("missed_pct_d3", "d3", "jobs missed, %", 1.0),
    value("missed_pct_d4", "d4", "jobs missed, %", 1.0),
    value("missed_pct_d5", "d5", "jobs missed, %", 1.0),
    value("accepted", "Sets that the analysis accepts", "part of the sets", 1.0),
    value("rejected_pct", "Sets that are only analysed and rejected", "rejected, %", 1.0),
    value("pcpu0_loss_pct", "What scheduling costs the PCPU", "time of the PCPU, %", 1.0),
    value("pcpu0_decisions", "Decisions of the scheduler", "decisions", 1.0),
    value("pcpu1_loss_pct", "What scheduling costs the PCPU", "time of the PCPU, %", 1.0),
    value("pcpu1_decisions", "Decisions of the scheduler", "decisions", 1.0),
    value("rest_pct_0_end", "before the pool", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_1_begin", "pool created", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_1_end", "later", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_2_begin", "pool changed", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_2_end", "long after the change", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_3_begin", "pool destroyed", "CPU time of the other VMs, %", 1.0),
    value("rest_pct_3_end", "long after its end", "CPU time of the other VMs, %", 1.0),
    value("gap_p50_ms", "Median gap between packets", "gap, ms", 1.0),
    value("period_ms", "The period that the monitor finds", "period, ms", 1.0),
    value("verdict_frames", "Frames until the verdict", "frames", 1.0),
    value("*_cpu_s", "CPU time of {}", "CPU-s", 1.0),
    value("*_wait_p99_us", "Waits of {}", "99th percentile of waits, us", 1.0),
    value("*_under_mean_ns", "Mean wait of {} as UNDER", "us", 1e3),
    value("*_under_run_ns", "Run time of {} after an entry as UNDER", "us", 1e3),
    value("*_under_run_pct", "{} in UNDER", "part of the run time in the class, %", 1.0),
    value("*_over_run_pct", "{} in OVER", "part of the run time in the class, %", 1.0),
    value("*_boost_run_pct", "{} in BOOST", "part of the run time in the class, %", 1.0),
    value("*_error_p25_us", "{}, 25th percentile", "predicted minus actual wait, us", 1.0),
    value("*_error_p75_us", "{}, 75th percentile", "predicted minus actual wait, us", 1.0),
];

/// A metric by its name, with its heading.
pub fn find(name: &str) -> Option<(&'static Metric, String)> {
    METRICS.iter().find_map(|m| {
        let stem = match m.name.strip_prefix('*') {
            Some(rest) => name.strip_suffix(rest)?,
            None if m.name == name => "",
            None => return None,
        };
        Some((m, m.title.replace("{}", stem.strip_prefix("vm_").unwrap_or(stem))))
    })
}

/// The names, as errors list them.
pub fn names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|m| m.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::pen;

    #[test]
    fn a_metric_is_found_by_its_name_or_by_the_end_of_it() {
        assert_eq!(find("pesq_mean").unwrap().1, "Mean PESQ of all calls");
        assert_eq!(find("vm_att_cpu_s").unwrap().1, "CPU time of att");
        assert_eq!(find("media-s.0_under_mean_ns").unwrap().1, "Mean wait of media-s.0 as UNDER");
        assert!(find("pesq").is_none());
    }

    #[test]
    fn axes_fit_a_phone() {
        for m in &METRICS {
            assert_eq!(pen::fitted(m.axis, pen::NARROW), m.axis);
        }
    }
}
