// SPDX-License-Identifier: GPL-2.0-only
//! Waits by class, run times, packets sent.

use super::Hist;
use takt_policy::Class;

/// Classes that a VCPU can be queued in.
pub const CLASSES: [Class; 4] = [Class::Rt, Class::Boost, Class::Under, Class::Over];
/// A VCPU runnable for longer without running is a stall, ns.
const STALL: u64 = 1_000_000_000;

/// Waits of one VCPU by class at enqueue.
#[derive(Clone, Debug, Default)]
pub struct VcpuMetrics {
    pub cpu_time: u64,
    pub waits: [Hist; CLASSES.len()],
    /// Time run after entries in this class, ns.
    pub run: [u64; CLASSES.len()],
    /// Queued since, and in which class.
    queued: Option<(u64, u8)>,
    /// Class of the entry that it runs on.
    running: u8,
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
            let queued = m.queued.map(|(_, class)| (now, class));
            *m = VcpuMetrics { queued, running: m.running, ..Default::default() };
        }
        self.tx.iter_mut().for_each(|tx| *tx = VmTx::default());
        self.stalls = 0;
        self.longest = 0;
    }

    #[inline]
    pub fn enqueued(&mut self, now: u64, v: u32, class: Class) {
        let class = (class as usize).min(CLASSES.len() - 1);
        self.vcpus[v as usize].queued = Some((now, class as u8));
    }

    /// The VCPU is no more.
    pub fn gone(&mut self, v: u32) {
        self.vcpus[v as usize].queued = None;
    }

    /// Returns how long the VCPU waited.
    #[inline]
    pub fn started(&mut self, now: u64, v: u32) -> u64 {
        let m = &mut self.vcpus[v as usize];
        let Some((since, class)) = m.queued.take() else { return 0 };
        let wait = now - since;
        m.waits[usize::from(class)].add(wait);
        m.running = class;
        self.stalls += u64::from(wait > STALL);
        self.longest = self.longest.max(wait);
        wait
    }

    #[inline]
    pub fn ran(&mut self, v: u32, time: u64) {
        let m = &mut self.vcpus[v as usize];
        m.cpu_time += time;
        m.run[usize::from(m.running)] += time;
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
            if let Some((since, _)) = m.queued {
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
    fn waits_count_in_the_class_at_enqueue() {
        let mut m = Metrics::new(2, 1);
        m.enqueued(100, 0, Class::Boost);
        assert_eq!(m.started(250, 0), 150);
        m.ran(0, 40);
        m.enqueued(300, 0, Class::Over);
        assert_eq!(m.started(400, 0), 100);
        let v = &m.vcpus[0];
        assert_eq!((v.waits[1].n, v.waits[1].max, v.run[1]), (1, 150, 40));
        assert_eq!((v.waits[3].n, v.waits[3].max, v.cpu_time), (1, 100, 40));
    }

    #[test]
    fn a_vcpu_queued_for_over_a_second_is_a_stall() {
        let mut m = Metrics::new(2, 1);
        m.enqueued(0, 0, Class::Under);
        m.started(STALL, 0);
        m.enqueued(0, 1, Class::Under);
        assert_eq!(m.stalls, 0);
        m.finish(STALL + 1);
        assert_eq!((m.stalls, m.longest), (1, STALL + 1));
    }
}
