// SPDX-License-Identifier: GPL-2.0-only
//! Observers: they see what the machine does and never change it.

mod hist;
mod metrics;
mod trace;

pub use hist::{Hist, Signed};
pub use metrics::{CLASSES, Metrics, VcpuMetrics};
pub use trace::{Marker, MarkerKind, Slice, Trace, TraceVcpu, Tracer, Window};

use takt_policy::{Class, Pool, Source, State};

/// All observers of a run.
#[derive(Default)]
pub struct Observe {
    pub metrics: Metrics,
    /// Waits are predicted.
    pub predicts: bool,
    pub tracer: Option<Tracer>,
}

impl Observe {
    /// `window`: absolute times of the trace, ns.
    pub fn new(vcpus: usize, vms: usize, window: Option<(u64, u64)>, predicts: bool) -> Self {
        let tracer = window.map(|(from, to)| Tracer::new(from, to, vcpus));
        Self { metrics: Metrics::new(vcpus, vms), predicts, tracer }
    }

    /// The measured window begins.
    pub fn reset(&mut self, now: u64) {
        self.metrics.reset(now);
    }

    #[inline]
    pub fn event(&mut self, now: u64, v: u32, source: Source) {
        if let Some(t) = &mut self.tracer {
            t.event(now, v, source);
        }
    }

    #[inline]
    pub fn wake(&mut self, now: u64, v: u32) {
        if let Some(t) = &mut self.tracer {
            t.wake(now, v);
        }
    }

    /// After an operation that may promote VCPU `v`.
    #[inline]
    pub fn promoted(&mut self, now: u64, v: u32, pool: &Pool) {
        if let Some(t) = &mut self.tracer {
            t.promoted(now, v, pool, MarkerKind::Promotion);
        }
    }

    /// After a timer of the policy, which may promote any VCPU.
    #[inline]
    pub fn timer(&mut self, now: u64, pool: &Pool) {
        if let Some(t) = &mut self.tracer {
            t.timer(now, pool);
        }
    }

    #[inline]
    pub fn enqueued(&mut self, now: u64, v: u32, pool: &Pool) {
        self.metrics.enqueued(now, v);
        if self.predicts {
            self.predict(v, pool);
        }
        if let Some(t) = &mut self.tracer {
            t.enqueued(now, v, pool.class(v));
        }
    }

    /// The VCPU's VM was destroyed.
    pub fn gone(&mut self, v: u32) {
        self.metrics.gone(v);
    }

    #[inline]
    pub fn picked(&mut self, v: u32, pool: &Pool) {
        if let Some(t) = &mut self.tracer {
            t.picked(v, pool.class(v));
        }
    }

    #[inline]
    pub fn started(&mut self, now: u64, cpu: u32, v: u32, pool: &Pool) {
        let wait = self.metrics.started(now, v, pool.entered(v));
        if let Some(t) = &mut self.tracer {
            t.started(now, cpu, v, wait);
        }
    }

    #[inline]
    pub fn stopped(&mut self, now: u64, cpu: u32, v: u32) {
        self.metrics.stopped(v);
        if let Some(t) = &mut self.tracer {
            t.stopped(now, cpu, v);
        }
    }

    #[inline]
    pub fn ran(&mut self, v: u32, time: u64, class: Class) {
        self.metrics.ran(v, time, class);
    }

    /// VCPU `v` has just been queued: how long will it wait?
    fn predict(&mut self, v: u32, pool: &Pool) {
        let (cpu, class) = (pool.vcpu_cpu(v), pool.class(v));
        let ahead = |&w: &u32| {
            w != v && pool.state(w) == State::Queued && pool.vcpu_cpu(w) == cpu && pool.class(w) as u8 <= class as u8
        };
        let all = 0..self.metrics.vcpus.len() as u32;
        self.metrics.predict(v, all.filter(ahead));
    }

    #[inline]
    pub fn transmitted(&mut self, now: u64, vm: u32) {
        self.metrics.transmitted(now, vm);
    }
}
