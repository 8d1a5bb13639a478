// SPDX-License-Identifier: GPL-2.0-only
//! What a VM was to do in time, and how much of it it did: a few figures of each workload for a
//! reader, and one by which VMs of different workloads compare.

use crate::result::{
    CyclicResult, FanoutResult, NetperfResult, ParallelResult, PeriodicResult, PingResult, StreamResult, TaskResult,
    VideoResult, VmResult, VodResult, VoipResult,
};

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    /// Empty for numbers; `ns` for times, which a reader wants in a unit that suits.
    pub unit: &'static str,
    pub value: f64,
    pub decimals: usize,
}

/// A VM's promise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promise {
    /// Part that was not done in time, 0 to 1.
    pub failed: f64,
    pub figures: Vec<Figure>,
}

impl VmResult {
    /// What it was to do in time, of a window of `duration` ns; `None` if its workload has nothing
    /// of the kind.
    pub fn promise(&self, duration: u64) -> Option<Promise> {
        (self.voip.as_ref().map(calls))
            .or(self.vod.map(|v| streams(&v)))
            .or(self.video.map(|v| video(&v)))
            .or(self.stream.map(|s| frames(&s, duration)))
            .or(self.fanout.map(|f| requests(&f)))
            .or(self.cyclictest.map(|c| latencies(&c)))
            .or((!self.tasks.is_empty()).then(|| tasks(&self.tasks)))
            .or(self.periodic.map(|p| jobs(&p)))
            .or(self.parallel.map(|p| program(&p, self.cpu_time_ns)))
            .or(self.ping.map(|p| pings(&p)))
            .or(self.netperf.map(|n| sender(&n)))
    }
}

fn figure(name: &'static str, value: f64, unit: &'static str, decimals: usize) -> Figure {
    Figure { name, unit, value, decimals }
}

fn time(name: &'static str, ns: u64) -> Figure {
    figure(name, ns as f64, "ns", 0)
}

fn part(of: u64, all: u64) -> f64 {
    of as f64 / all.max(1) as f64
}

fn calls(v: &VoipResult) -> Promise {
    let mut figures = vec![
        figure("PESQ", v.mean_pesq, "", 2),
        figure("worst call", v.min_pesq, "", 2),
        figure("late or lost", v.late_lost_pct, "%", 2),
    ];
    let trip = [("round trip p50", v.delay_p50_ns), ("p99", v.delay_p99_ns)];
    figures.extend(trip.into_iter().filter_map(|(name, ns)| Some(time(name, ns?))));
    Promise { failed: v.late_lost_pct / 100.0, figures }
}

fn streams(v: &VodResult) -> Promise {
    let figures = vec![
        figure("rate per user", v.rate_mean / 1e6, "Mbit/s", 3),
        figure("frames skipped", v.skipped_frames as f64, "", 0),
        figure("packets dropped", v.dropped_packets as f64, "", 0),
        time("lag p50", v.lag_p50_ns),
        time("p99", v.lag_p99_ns),
    ];
    let dropped = part(v.dropped_packets, v.dropped_packets + v.packets);
    let skipped = part(v.skipped_frames, v.skipped_frames + v.frames);
    Promise { failed: 1.0 - (1.0 - skipped) * (1.0 - dropped), figures }
}

fn video(v: &VideoResult) -> Promise {
    let mut figures = vec![
        figure("frames/s", v.fps_mean, "", 1),
        figure("sd", v.fps_sd, "", 1),
        figure("lost", v.lost as f64, "", 0),
        figure("late", v.late as f64, "", 0),
        time("lag p99", v.lag_p99_ns),
    ];
    figures.extend(v.time_ns.map(|ns| time("played in", ns)));
    Promise { failed: part(v.lost + v.late, v.lost + v.frames), figures }
}

fn frames(s: &StreamResult, duration: u64) -> Promise {
    let figures = vec![
        figure("frames/s", s.frames as f64 * 1e9 / duration.max(1) as f64, "", 1),
        figure("late", s.late as f64, "", 0),
        time("gap p50", s.gap_p50_ns),
        time("p99", s.gap_p99_ns),
        time("max", s.gap_max_ns),
    ];
    Promise { failed: part(s.late, s.late + s.frames), figures }
}

fn requests(f: &FanoutResult) -> Promise {
    let figures = vec![
        figure("requests", f.answered as f64, "", 0),
        time("response p50", f.p50_ns),
        time("p99", f.p99_ns),
        figure("late", part(f.missed, f.answered) * 100.0, "%", 2),
    ];
    Promise { failed: part(f.missed, f.answered), figures }
}

fn latencies(c: &CyclicResult) -> Promise {
    let figures =
        vec![time("latency p50", c.p50_ns), time("p99", c.p99_ns), time("p99.9", c.p999_ns), time("max", c.max_ns)];
    Promise { failed: 0.0, figures }
}

fn tasks(all: &[TaskResult]) -> Promise {
    let sum = |of: fn(&TaskResult) -> u64| all.iter().map(of).sum();
    let response = all.iter().map(|t| t.response_max_ns).max().unwrap_or(0);
    let mut promise = missed(sum(|t| t.jobs), sum(|t| t.missed));
    promise.figures.push(time("longest response", response));
    promise
}

fn jobs(p: &PeriodicResult) -> Promise {
    let mut promise = missed(p.jobs, p.missed);
    promise.figures.extend([time("latency p50", p.latency.p50_ns), time("p99", p.latency.p99_ns)]);
    promise
}

/// Jobs that are overdue at the end are missed, but not among the jobs done.
fn missed(jobs: u64, missed: u64) -> Promise {
    let figures = vec![figure("jobs", jobs as f64, "", 0), figure("missed", missed as f64, "", 0)];
    Promise { failed: part(missed, jobs.max(missed)), figures }
}

/// A program promises nothing: what it burns in waiting for a sibling it does not do.
fn program(p: &ParallelResult, cpu: u64) -> Promise {
    let spun = part(p.spun_ns, cpu);
    let figures = vec![
        figure("iterations", p.iterations as f64, "", 0),
        time("each", p.iteration_ns),
        figure("spun", spun * 100.0, "%", 1),
    ];
    Promise { failed: spun.min(1.0), figures }
}

fn pings(p: &PingResult) -> Promise {
    let figures = vec![
        figure("pings", p.answered as f64, "", 0),
        time("round trip p50", p.p50_ns),
        time("p99", p.p99_ns),
        time("max", p.max_ns),
    ];
    Promise { failed: 0.0, figures }
}

fn sender(n: &NetperfResult) -> Promise {
    Promise { failed: 0.0, figures: vec![figure("rate", n.rate / 1e6, "Mbit/s", 1)] }
}
