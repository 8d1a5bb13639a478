// SPDX-License-Identifier: GPL-2.0-only
//! A media server (docs/experiments.md): both directions of each call wait in a fixed jitter buffer
//! for their frame, are transcoded, and go to the other party.
//!
//! The server works in frames, as media servers do. One thread, the engine, has a timer of one
//! packet's length. With every frame it transcodes one packet of each stream, always in the same
//! order. A stream that is late in that order has the least time to spare.

use super::signalling;
use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_JOBS, PRIO_NET};
use crate::keys::{DAY, SECOND};
use crate::machine::{Machine, Program};
use crate::net::{Packet, Record, Session};
use crate::result::VmResult;
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;
use std::collections::BTreeMap;

/// The workload's keys: `calls` at a time, each for `hold`; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    pub calls: u32,
    pub hold: u64,
    /// CPU time to take a packet, and to transcode it in its frame.
    pub receive: u64,
    pub transcode: u64,
    /// How far ahead the other party's phone buffers.
    pub playout: u64,
}

impl Default for Media {
    fn default() -> Self {
        Self { calls: 120, hold: 30 * SECOND, receive: 8_000, transcode: 80_000, playout: 20_000_000 }
    }
}

/// Number of a frame, then the stream: the order of transcoding.
type Turn = (u64, u32);

/// The engine of a media server.
#[derive(Debug, Default)]
pub(crate) struct Mixer {
    vcpu: u32,
    /// CPU time per packet, ns.
    work: u64,
    /// From frame to frame, ns.
    gap: u64,
    /// Time of frame 0, ns.
    first: u64,
    /// Frames that have begun.
    begun: u64,
    buffer: BTreeMap<Turn, Packet>,
    /// The last turn that was taken: a packet for it or for an earlier one is too late.
    last: Option<Turn>,
    current: Option<Packet>,
}

impl Mixer {
    fn new(vcpu: u32, work: u64, gap: u64) -> Self {
        Self { vcpu, work, gap, ..Self::default() }
    }

    /// Its frames begin at that time.
    fn begin(&mut self, at: u64) {
        self.first = at;
    }

    /// The first frame that is not before `time`.
    fn frame(&self, time: u64) -> u64 {
        time.saturating_sub(self.first).div_ceil(self.gap)
    }

    /// From `time` to the first frame that is not before it.
    fn until_frame(&self, time: u64) -> u64 {
        self.first + self.frame(time) * self.gap - time
    }

    /// The next frame begins: returns the time of the one after.
    fn next_frame(&mut self) -> u64 {
        self.begun += 1;
        self.first + self.begun * self.gap
    }

    /// Buffers a packet that is due at `due`; false if its turn was before.
    fn put(&mut self, due: u64, packet: Packet) -> bool {
        let turn = (self.frame(due), packet.flow);
        let fits = self.last.is_none_or(|last| turn > last);
        if fits {
            self.buffer.insert(turn, packet);
        }
        fits
    }

    /// Whether there is a packet of a frame that has begun.
    fn waits(&self) -> bool {
        self.buffer.first_key_value().is_some_and(|(turn, _)| turn.0 < self.begun)
    }

    /// The next packet's turn, if its frame has begun: returns the work.
    fn start(&mut self) -> Option<u64> {
        if !self.waits() {
            return None;
        }
        let (turn, packet) = self.buffer.pop_first()?;
        self.last = Some(turn);
        self.current = Some(packet);
        Some(self.work)
    }
}

impl Spec for Media {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some(format!("media server of {} calls", self.calls))
    }

    fn calls(&self) -> u32 {
        self.calls
    }

    fn streams(&self) -> u32 {
        2 * self.calls
    }

    fn predicts(&self) -> bool {
        true
    }
}

impl Keys for Media {
    const KIND: Kind = Kind::Media;
    const DOC: &'static str = "a media server: G.711 calls with two streams each; one call in four is scored";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::count("calls", (1, 5_000), |m| m.calls.into(), |m, n| m.calls = n, "calls at a time"),
        Key::time(
            "hold",
            (SECOND, DAY),
            |m| m.hold.into(),
            |m, ns| m.hold = ns,
            "duration of a call; the next call takes its place",
        ),
        Key::time(
            "receive",
            (0, 10_000_000),
            |m| m.receive.into(),
            |m, ns| m.receive = ns,
            "work per packet on the last VCPU, which handles the network",
        ),
        Key::time(
            "transcode",
            (0, 10_000_000),
            |m| m.transcode.into(),
            |m, ns| m.transcode = ns,
            "work of the engine per packet, on the first VCPU. See below",
        ),
        Key::time(
            "playout",
            (0, SECOND),
            |m| m.playout.into(),
            |m, ns| m.playout = ns,
            "longest delay of a packet to the other party after its reference time. See below",
        ),
    ];
}

impl Program for Media {
    type State = Vec<Mixer>;

    /// The engine that transcodes, one thread, has the first VCPU, and the network the last one.
    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let &Media { calls, hold, receive, transcode, playout } = self;
        let (first, vcpus) = (m.vms[vm].first, m.vms[vm].vcpus);
        let (mixer, last) = (m.programs.of::<Self>().len() as u32, first + vcpus - 1);
        let vif = m.add_vif(vm, last, receive, (Kind::Media, mixer));
        if last != first {
            // It touches packets only, as Dom0 does.
            m.vcpus[last as usize].refill = m.c.dom0_ws * m.c.refill;
        }
        m.programs.of_mut::<Self>().push(Mixer::new(first, transcode, m.c.packet_gap));
        m.add_thread(last, Body::Serve(vif), PRIO_NET, false);
        m.add_thread(first, Body::Program(Kind::Media, mixer), PRIO_JOBS, false);
        for stream in 0..self.streams() {
            m.add_call(vm, stream, vif);
            if let Some(call) = m.net.calls.last_mut() {
                let (number, past) = (stream / 2, Vec::new());
                call.session = Some(Session { mixer, number, calls, hold, playout, end: 0, base: 0, past });
            }
        }
        m.add_monitor(vm)
    }

    /// A frame begins.
    fn due(m: &mut Machine, n: u32) {
        let v = m.programs.of::<Self>()[n as usize].vcpu;
        if m.is_there(v) {
            let next = m.programs.of_mut::<Self>()[n as usize].next_frame();
            m.queue.push(next, What::Program(Kind::Media), n);
            m.expire(v);
        }
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[n as usize].waits()
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        Some((m.programs.of_mut::<Self>()[n as usize].start()?, false))
    }

    /// A packet is transcoded.
    fn done(m: &mut Machine, n: u32, cpu: u32) {
        if let Some(packet) = m.programs.of_mut::<Self>()[n as usize].current.take() {
            m.enqueue_tx(packet, cpu);
        }
    }

    /// It waits in the jitter buffer; one that is too late for that is never heard.
    fn received(m: &mut Machine, n: u32, packet: Packet, cpu: u32) {
        let mixer = &mut m.programs.of_mut::<Self>()[n as usize];
        let idle = mixer.current.is_none() && !mixer.waits();
        if mixer.put(packet.sent + m.c.jitter_buffer, packet) && idle && mixer.waits() {
            let v = mixer.vcpu;
            m.interrupt(v, OTHER, cpu);
        }
    }

    fn leaves(m: &mut Machine, _n: u32, packet: &Packet) {
        m.heard(packet);
    }

    /// The next call begins instead.
    fn hangs_up(m: &mut Machine, flow: u32) -> bool {
        let call = &mut m.net.calls[flow as usize];
        let Some(session) = call.session.as_mut().filter(|s| call.due >= s.end) else { return false };
        session.past.push((session.number, call.record.clone()));
        session.number += session.calls;
        call.due += call.rng.below(m.c.phase_spread);
        let due = call.due;
        open(m, flow);
        m.queue.push((due + m.c.wire).max(m.now), What::Call, flow);
        signalling::call(m, flow);
        true
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        out.voip = m.calls_result(vm);
    }
}

/// The media servers among these VMs begin: frames, and calls one after the other.
pub(super) fn begin(m: &mut Machine, vms: &[u32]) {
    let (at, vcpus) = (m.now + SETTLE, m.vcpus_of(vms));
    for (n, mixer) in (0..).zip(m.programs.of_mut::<Media>()).filter(|(_, mixer)| vcpus.contains(&mixer.vcpu)) {
        mixer.begin(at);
        m.queue.push(at, What::Program(Kind::Media), n);
    }
    for flow in 0..m.net.calls.len() as u32 {
        let call = &mut m.net.calls[flow as usize];
        let Some(session) = call.session.as_ref().filter(|_| vms.contains(&call.vm)) else { continue };
        let ramp = u64::from(session.number) * 1_000_000_000_000 / m.c.ramp;
        call.due = at + ramp + call.rng.below(m.c.phase_spread);
        m.queue.push(call.due + m.c.wire, What::Call, flow);
        open(m, flow);
    }
}

/// A call begins in stream `flow`: a packet is heard if it comes no more than `playout` later than
/// it would if the engine did nothing but transcode from the frame's beginning on.
fn open(m: &mut Machine, flow: u32) {
    let call = &mut m.net.calls[flow as usize];
    let Some(session) = &mut call.session else { return };
    session.base = call.next;
    session.end = call.due + session.hold;
    let due = call.due + m.c.jitter_buffer;
    let mixer = &m.programs.of::<Media>()[session.mixer as usize];
    let before = u64::from(call.id) * mixer.work;
    let wait = m.c.jitter_buffer + mixer.until_frame(due) + before + mixer.work;
    let limit = wait + session.playout + m.c.dom0_tx + m.c.wire;
    call.record = Record::new(m.from.saturating_sub(limit), m.until - limit.min(m.until), m.c.packet_gap, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32) -> Packet {
        Packet { flow, ..Packet::default() }
    }

    #[test]
    fn packets_wait_for_their_frame_and_go_in_order() {
        let mut m = Mixer::new(0, 7, 100);
        m.begin(1000);
        assert_eq!((m.until_frame(1000), m.until_frame(1001), m.until_frame(1100)), (0, 99, 0));
        assert!(m.put(1050, packet(3)) && m.put(1100, packet(2)) && m.put(1101, packet(1)));
        assert_eq!(m.next_frame(), 1100);
        assert_eq!(m.start(), None, "frame 1 has not begun");
        m.next_frame();
        assert_eq!((m.start(), m.current.take().map(|p| p.flow)), (Some(7), Some(2)));
        assert_eq!((m.start(), m.current.take().map(|p| p.flow)), (Some(7), Some(3)));
        assert!(!m.waits());
        // A turn that has passed does not come again, one later in the same frame does.
        assert!(!m.put(1080, packet(1)) && m.put(1080, packet(4)));
        assert!(m.waits());
    }
}
