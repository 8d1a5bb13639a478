// SPDX-License-Identifier: GPL-2.0-only
//! A sender on a timer of its own: every `period` a burst of packets, `gap` apart.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Template};
use crate::observe::Hist;
use crate::result::{StreamResult, VmResult};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// From burst to burst.
    pub period: u64,
    /// Packets of a burst.
    pub burst: u32,
    pub gap: u64,
    /// CPU time of the guest for each packet.
    pub work: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Self { period: 70_000_000, burst: 1, gap: 0, work: 20_000 }
    }
}

/// A sender.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    vif: u32,
    flow: u32,
    spec: Stream,
    /// Packets of the present burst that are still to come.
    rest: u32,
    /// When the present burst began.
    begin: u64,
    /// Packets that shall have been sent.
    due: u32,
    sequence: u32,
    frames: Frames,
}

/// Frames in the measured window, and the one before it.
#[derive(Clone, Debug, Default)]
struct Frames {
    last: Option<u64>,
    gaps: Hist,
    n: u64,
    late: u64,
}

impl Frames {
    /// A frame is complete.
    fn done(&mut self, now: u64, period: u64) {
        if let Some(last) = self.last.replace(now) {
            self.gap(now - last, period);
        }
        self.n += 1;
    }

    /// For each frame that could have been in a gap, one was late.
    fn gap(&mut self, gap: u64, period: u64) {
        self.gaps.add(gap);
        self.late += ((gap + period / 2) / period).saturating_sub(1);
    }

    /// With the frame that is overdue at the end.
    fn result(&self, now: u64, period: u64) -> StreamResult {
        let mut all = self.clone();
        if let Some(gap) = self.last.map(|last| now - last).filter(|gap| *gap > period) {
            all.gap(gap, period);
        }
        let Self { gaps, late, .. } = all;
        StreamResult {
            frames: self.n,
            late,
            gap_p50_ns: gaps.percentile(50),
            gap_p99_ns: gaps.percentile(99),
            gap_max_ns: gaps.max,
        }
    }
}

impl Spec for Stream {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("sender on a timer".to_owned())
    }
}

impl Keys for Stream {
    const KIND: Kind = Kind::Stream;
    const DOC: &'static str = "a sender with its own timer";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::time("period", (10_000, 10 * SECOND), |s| s.period.into(), |s, ns| s.period = ns, "time between bursts"),
        Key::count("burst", (1, 1_000), |s| s.burst.into(), |s, n| s.burst = n, "packets per burst"),
        Key::time("gap", (0, SECOND), |s| s.gap.into(), |s, ns| s.gap = ns, "time between the packets of a burst"),
        Key::time("work", (0, SECOND), |s| s.work.into(), |s, ns| s.work = ns, "work of the guest per packet"),
    ];
}

impl Program for Stream {
    type State = Vec<Sender>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (first, n) = (m.vms[vm].first, m.programs.of::<Self>().len() as u32);
        let vif = m.add_vif(vm, first, 0, (Kind::Stream, n));
        let (spec, rest) = (self.clone(), self.burst);
        m.programs.of_mut::<Self>().push(Sender { vif, spec, rest, ..Sender::default() });
        m.add_thread(first, Body::Program(Kind::Stream, n), PRIO_NET, false);
        m.add_monitor(vm)
    }

    fn connect(m: &mut Machine) {
        for sender in m.programs.of_mut::<Self>() {
            sender.flow = m.net.flows.len() as u32;
            m.net.flows.push(Template::new(m.net.vifs[sender.vif as usize].vm, sender.flow));
        }
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        for (n, sender) in (0..).zip(m.programs.of_mut::<Self>()) {
            if vms.contains(&m.net.vifs[sender.vif as usize].vm) {
                sender.begin = m.now + SETTLE;
                m.queue.push(sender.begin, What::Program(Kind::Stream), n);
            }
        }
    }

    /// A packet is due.
    fn due(m: &mut Machine, n: u32) {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        let v = m.net.vifs[sender.vif as usize].vcpu;
        if !m.is_there(v) {
            return;
        }
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        sender.due += 1;
        let next = if sender.rest > 1 {
            sender.rest -= 1;
            m.now + sender.spec.gap
        } else {
            sender.rest = sender.spec.burst;
            sender.begin = (sender.begin + sender.spec.period).max(m.now + 1);
            sender.begin
        };
        m.queue.push(next, What::Program(Kind::Stream), n);
        m.expire(v);
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[n as usize].due > 0
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let sender = &m.programs.of::<Self>()[n as usize];
        (sender.due > 0).then_some((sender.spec.work, false))
    }

    /// A packet is made.
    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        sender.due -= 1;
        let packet =
            Packet { vif: sender.vif, flow: sender.flow, sequence: sender.sequence, sent: m.now, ..Packet::default() };
        sender.sequence = sender.sequence.wrapping_add(1);
        if sender.sequence % sender.spec.burst == 0 {
            sender.frames.done(m.now, sender.spec.period);
        }
        m.enqueue_tx(packet, cpu);
    }
    fn reset(all: &mut Self::State) {
        for sender in all {
            sender.frames = Frames { last: sender.frames.last, ..Frames::default() };
        }
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let mine = |s: &&Sender| m.net.vifs[s.vif as usize].vm as usize == vm;
        let sender = m.programs.of::<Self>().iter().find(mine);
        out.stream = sender.map(|s| s.frames.result(m.now, s.spec.period));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_several_periods_has_as_many_late_frames() {
        let mut frames = Frames::default();
        for at in [100, 116, 133, 183] {
            frames.done(at, 16);
        }
        let shown = frames.result(190, 16);
        assert_eq!((shown.frames, shown.late, shown.gap_max_ns), (4, 2, 50));
        assert_eq!(frames.result(240, 16).late, 5, "the one that is overdue at the end has a gap, too");
        assert_eq!(Frames::default().result(1_000, 16), StreamResult::default());
    }
}
