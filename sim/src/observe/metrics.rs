// SPDX-License-Identifier: GPL-2.0-only
//! Waits by class, run times, packets sent.

use super::{Hist, Signed};
use takt_policy::Class;

/// Classes that a VCPU can be queued in.
pub const CLASSES: [Class; 4] = [Class::Rt, Class::Boost, Class::Under, Class::Over];
/// A VCPU runnable for longer without running is a stall, ns.
const STALL: u64 = 1_000_000_000;

/// Waits of one VCPU by the class in which it entered its queue, as the core tells it.
#[derive(Clone, Debug, Default)]
pub struct VcpuMetrics {
    pub cpu_time: u64,
    pub waits: [Hist; CLASSES.len()],
    /// Time run after entries in this class, ns.
    pub run: [u64; CLASSES.len()],
    /// Time run while it was in this class, ns: a tick or an accounting may change it meanwhile.
    pub held: [u64; CLASSES.len()],
    /// How far its predicted waits were from the actual ones.
    pub error: Signed,
    /// Queued since.
    queued: Option<u64>,
    /// Class of the entry that it runs on.
    running: u8,
    /// The wait that was predicted for the present entry, ns.
    predicted: Option<u64>,
    /// Run since its last stop, and how long it ran before that: what it is expected to run next, ns.
    present: u64,
    expected: u64,
}

#[derive(Debug, Default)]
struct VmTx {
    gaps: Hist,
    packets: u64,
    last: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub vcpus: Vec<VcpuMetrics>,
    tx: Vec<VmTx>,
    pub stalls: u64,
    pub longest: u64,
}

impl Metrics {
    pub fn new(vcpus: usize, vms: usize) -> Self {
        Self {
            vcpus: vec![VcpuMetrics::default(); vcpus],
            tx: std::iter::repeat_with(VmTx::default).take(vms).collect(),
            stalls: 0,
            longest: 0,
        }
    }

    /// Forgets all figures but who is queued; such an entry counts from here on.
    pub fn reset(&mut self, now: u64) {
        for m in &mut self.vcpus {
            let queued = m.queued.map(|_| now);
            let (running, present, expected) = (m.running, m.present, m.expected);
            *m = VcpuMetrics { queued, running, present, expected, ..Default::default() };
        }
        self.tx.iter_mut().for_each(|tx| *tx = VmTx::default());
        self.stalls = 0;
        self.longest = 0;
    }

    #[inline]
    pub fn enqueued(&mut self, now: u64, v: u32) {
        self.vcpus[v as usize].queued = Some(now);
    }

    /// The VCPU is no more.
    pub fn gone(&mut self, v: u32) {
        self.vcpus[v as usize].queued = None;
    }

    /// Returns how long the VCPU waited, having entered its queue in class `entered`.
    #[inline]
    pub fn started(&mut self, now: u64, v: u32, entered: Class) -> u64 {
        let m = &mut self.vcpus[v as usize];
        let Some(since) = m.queued.take() else { return 0 };
        let (wait, class) = (now - since, (entered as usize).min(CLASSES.len() - 1));
        m.waits[class].add(wait);
        m.running = class as u8;
        if let Some(predicted) = m.predicted.take() {
            m.error.add(predicted, wait);
        }
        self.stalls += u64::from(wait > STALL);
        self.longest = self.longest.max(wait);
        wait
    }

    #[inline]
    pub fn ran(&mut self, v: u32, time: u64, class: Class) {
        let m = &mut self.vcpus[v as usize];
        m.cpu_time += time;
        m.present += time;
        m.run[usize::from(m.running)] += time;
        m.held[(class as usize).min(CLASSES.len() - 1)] += time;
    }

    #[inline]
    pub fn stopped(&mut self, v: u32) {
        let m = &mut self.vcpus[v as usize];
        m.expected = std::mem::take(&mut m.present);
    }

    /// The VCPU has been queued behind others: its expected wait is as long as those ran when they
    /// last ran (rule L39).
    pub fn predict(&mut self, v: u32, ahead: impl Iterator<Item = u32>) {
        let sum = ahead.map(|w| self.vcpus[w as usize].expected).sum();
        self.vcpus[v as usize].predicted = Some(sum);
    }

    pub fn transmitted(&mut self, now: u64, vm: u32) {
        let tx = &mut self.tx[vm as usize];
        tx.packets += 1;
        if let Some(last) = tx.last.replace(now) {
            tx.gaps.add(now - last);
        }
    }

    /// Packets sent by `vm`, and the gaps between them.
    pub fn tx(&self, vm: u32) -> (u64, &Hist) {
        let tx = &self.tx[vm as usize];
        (tx.packets, &tx.gaps)
    }

    /// The run is over: whoever is still queued counts as stalled if it has waited that long.
    pub fn finish(&mut self, now: u64) {
        for m in &self.vcpus {
            if let Some(since) = m.queued {
                self.stalls += u64::from(now - since > STALL);
                self.longest = self.longest.max(now - since);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_in_the_class_of_the_entry() {
        let mut m = Metrics::new(2, 1);
        m.enqueued(100, 0);
        assert_eq!(m.started(250, 0, Class::Boost), 150);
        m.ran(0, 40, Class::Under);
        m.enqueued(300, 0);
        assert_eq!(m.started(400, 0, Class::Over), 100);
        let v = &m.vcpus[0];
        assert_eq!((v.waits[1].n, v.waits[1].max, v.run[1]), (1, 150, 40));
        assert_eq!((v.waits[3].n, v.waits[3].max, v.cpu_time), (1, 100, 40));
        assert_eq!(v.held, [0, 0, 40, 0]);
    }

    #[test]
    fn a_wait_is_predicted_by_what_those_ahead_ran_last() {
        let mut m = Metrics::new(3, 1);
        for (v, time) in [(0, 30), (1, 50)] {
            m.ran(v, time, Class::Under);
            m.stopped(v);
        }
        m.enqueued(0, 2);
        m.predict(2, [0, 1].into_iter());
        m.started(60, 2, Class::Under);
        m.enqueued(100, 2);
        m.predict(2, [0].into_iter());
        m.started(170, 2, Class::Under);
        let error = &m.vcpus[2].error;
        assert_eq!([0, 99].map(|p| error.percentile(p)), [-40, 20]);
    }

    #[test]
    fn a_vcpu_queued_for_over_a_second_is_a_stall() {
        let mut m = Metrics::new(2, 1);
        m.enqueued(0, 0);
        m.started(STALL, 0, Class::Under);
        m.enqueued(0, 1);
        assert_eq!(m.stalls, 0);
        m.finish(STALL + 1);
        assert_eq!((m.stalls, m.longest), (1, STALL + 1));
    }
}
