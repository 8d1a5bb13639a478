// SPDX-License-Identifier: GPL-2.0-only
//! Who ran where and when, within a window: for timelines.

use serde::Serialize;
use takt_policy::{Class, Pool, Source, State};

/// Part of a run to be traced, ns from the begin of the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub to: u64,
}

/// A traced window. All times are simulated ns since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    pub from: u64,
    pub to: u64,
    pub pcpus: u32,
    /// Names of the VMs, Dom0 first.
    pub vms: Vec<String>,
    pub vcpus: Vec<TraceVcpu>,
    /// In the order of their ends.
    pub slices: Vec<Slice>,
    /// In the order of their times.
    pub markers: Vec<Marker>,
}

/// A VCPU of the trace; its number is its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceVcpu {
    /// "voip.0"
    pub name: String,
    /// Index into [`Trace::vms`].
    pub vm: u32,
}

/// One stay of a VCPU on a PCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    pub pcpu: u32,
    pub vcpu: u32,
    /// Class at the pick, as in [`takt_policy::Class`].
    pub class: u8,
    /// Class when it entered the queue.
    pub queued_class: u8,
    /// Time in the queue before.
    pub wait: u64,
    pub from: u64,
    pub to: u64,
}

/// What a marker shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkerKind {
    /// A blocked VCPU was woken.
    Wake,
    /// A packet's interrupt became pending.
    Io,
    /// A guest's timer tick became pending.
    Tick,
    /// Any other interrupt became pending.
    Event,
    /// Promoted to the real-time class by an event.
    Promotion,
    /// Promoted to the real-time class by its deadline.
    Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Marker {
    pub time: u64,
    pub kind: MarkerKind,
    pub vcpu: u32,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    rt: bool,
    queued_class: u8,
    class: u8,
    wait: u64,
    running: Option<(u64, u32)>,
}

/// Collects a [`Trace`].
pub struct Tracer {
    trace: Trace,
    seen: Vec<Seen>,
}

impl Tracer {
    pub fn new(from: u64, to: u64, vcpus: usize) -> Self {
        Self { trace: Trace { from, to, ..Trace::default() }, seen: vec![Seen::default(); vcpus] }
    }

    fn mark(&mut self, time: u64, kind: MarkerKind, vcpu: u32) {
        if (self.trace.from..self.trace.to).contains(&time) {
            self.trace.markers.push(Marker { time, kind, vcpu });
        }
    }

    pub fn event(&mut self, now: u64, v: u32, source: Source) {
        let kind = match source {
            Source::Io => MarkerKind::Io,
            Source::Timer => MarkerKind::Tick,
            Source::Ipi | Source::Other => MarkerKind::Event,
        };
        self.mark(now, kind, v);
    }

    pub fn wake(&mut self, now: u64, v: u32) {
        self.mark(now, MarkerKind::Wake, v);
    }

    pub fn promoted(&mut self, now: u64, v: u32, pool: &Pool, kind: MarkerKind) {
        let rt = pool.state(v) == State::Queued && pool.class(v) == Class::Rt;
        if rt && !std::mem::replace(&mut self.seen[v as usize].rt, rt) {
            self.mark(now, kind, v);
        }
    }

    pub fn timer(&mut self, now: u64, pool: &Pool) {
        if (self.trace.from..self.trace.to).contains(&now) {
            for v in 0..self.seen.len() as u32 {
                self.promoted(now, v, pool, MarkerKind::Deadline);
            }
        }
    }

    pub fn enqueued(&mut self, now: u64, v: u32, class: Class) {
        let seen = &mut self.seen[v as usize];
        seen.queued_class = class as u8;
        let rt = class == Class::Rt;
        if rt && !std::mem::replace(&mut seen.rt, rt) {
            self.mark(now, MarkerKind::Promotion, v);
        }
    }

    pub fn picked(&mut self, v: u32, class: Class) {
        self.seen[v as usize].class = class as u8;
        self.seen[v as usize].rt = false;
    }

    pub fn started(&mut self, now: u64, cpu: u32, v: u32, wait: u64) {
        let seen = &mut self.seen[v as usize];
        seen.running = Some((now, cpu));
        seen.wait = wait;
    }

    pub fn stopped(&mut self, now: u64, cpu: u32, v: u32) {
        let seen = &mut self.seen[v as usize];
        let Some((since, _)) = seen.running.take() else { return };
        let (from, to) = (since.max(self.trace.from), now.min(self.trace.to));
        if from < to {
            let Seen { class, queued_class, wait, .. } = *seen;
            self.trace.slices.push(Slice { pcpu: cpu, vcpu: v, class, queued_class, wait, from, to });
        }
    }

    /// Ends the trace; who still runs runs up to `now`.
    pub fn finish(mut self, now: u64, pcpus: u32, vms: Vec<String>, vcpus: Vec<TraceVcpu>) -> Trace {
        for v in 0..self.seen.len() {
            if let Some((_, cpu)) = self.seen[v].running {
                self.stopped(now, cpu, v as u32);
            }
        }
        Trace { pcpus, vms, vcpus, ..self.trace }
    }
}
