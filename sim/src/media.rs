// SPDX-License-Identifier: GPL-2.0-only
//! A media server (docs/experiments.md): streams wait in a fixed jitter buffer for their frame, are
//! transcoded, and go to the other party.
//!
//! The server works in frames, as media servers do. One thread, the engine, has a timer of one
//! packet's length. With every frame it transcodes one packet of each stream, always in the same
//! order. A stream that is late in that order has the least time to spare.

use crate::engine::What;
use crate::guest::OTHER;
use crate::machine::Machine;
use crate::net::Packet;
use crate::voip::Record;
use std::collections::BTreeMap;

/// Number of a frame, then the stream: the order of transcoding.
type Turn = (u64, u32);

/// The engine of a media server.
#[derive(Debug, Default)]
pub struct Mixer {
    pub vcpu: u32,
    /// CPU time per packet, ns.
    pub work: u64,
    /// From frame to frame, ns.
    gap: u64,
    /// Time of frame 0, ns.
    first: u64,
    /// Frames that have begun.
    begun: u64,
    buffer: BTreeMap<Turn, Packet>,
    /// Whose turn was last: what is not before that is too late.
    last: Option<Turn>,
    current: Option<Packet>,
}

impl Mixer {
    pub fn new(vcpu: u32, work: u64, gap: u64) -> Self {
        Self { vcpu, work, gap, ..Self::default() }
    }

    /// Its frames begin at that time.
    pub fn begin(&mut self, at: u64) {
        self.first = at;
    }

    /// The first frame that is not before `time`.
    fn frame(&self, time: u64) -> u64 {
        time.saturating_sub(self.first).div_ceil(self.gap)
    }

    /// From `time` to the first frame that is not before it.
    pub fn until_frame(&self, time: u64) -> u64 {
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

    /// Whether there is a packet whose frame has begun.
    pub fn waits(&self) -> bool {
        self.buffer.first_key_value().is_some_and(|(turn, _)| turn.0 < self.begun)
    }

    /// The next packet's turn, if its frame has begun: returns the work.
    pub fn start(&mut self) -> Option<u64> {
        if !self.waits() {
            return None;
        }
        let (turn, packet) = self.buffer.pop_first()?;
        self.last = Some(turn);
        self.current = Some(packet);
        Some(self.work)
    }
}

/// One direction of a call through a media server; when the call is over the next one takes its place.
#[derive(Debug)]
pub struct Session {
    pub mixer: u32,
    /// Number of the present call, and how many there are at a time.
    pub number: u32,
    pub calls: u32,
    /// How long a call lasts, ns.
    pub hold: u64,
    /// How much later than usual a packet may come, ns.
    pub playout: u64,
    /// When the present one ends, ns.
    pub end: u64,
    /// The first sequence number of the present one.
    pub base: u32,
    /// Calls that are over, in their order.
    pub past: Vec<(u32, Record)>,
}

/// One call in so many is scored (docs/scenarios.md).
const SCORED: u32 = 4;
/// A call of which fewer packets lie in the measured window is not: 5 s.
const LEAST: u64 = 250;

impl Session {
    /// The calls of stream `stream` that are scored, each with a number of its own; `present` is the one that has not ended.
    pub fn scored<'a>(&'a self, stream: u32, present: &'a Record) -> impl Iterator<Item = (u32, &'a Record)> {
        let all = self.past.iter().map(|(number, record)| (*number, record)).chain([(self.number, present)]);
        all.filter(|(number, record)| number % SCORED == 0 && record.packets() >= LEAST)
            .map(move |(number, record)| (2 * number + stream % 2, record))
    }
}

impl Machine<'_> {
    /// A frame of mixer `n` begins.
    pub(crate) fn frame_due(&mut self, n: u32) {
        let mixer = &mut self.mixers[n as usize];
        let next = mixer.next_frame();
        let v = mixer.vcpu;
        self.queue.push(next, What::Frame, n);
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// A packet that was received on PCPU `cpu` waits in the jitter buffer of mixer `n`; one that is too late for that is never heard.
    pub(crate) fn buffer(&mut self, n: u32, packet: Packet, cpu: u32) {
        let mixer = &mut self.mixers[n as usize];
        let idle = mixer.current.is_none() && !mixer.waits();
        if mixer.put(packet.sent + self.c.jitter_buffer, packet) && idle && mixer.waits() {
            let v = mixer.vcpu;
            self.interrupt(v, OTHER, cpu);
        }
    }

    /// Mixer `n` on PCPU `cpu` has transcoded a packet.
    pub(crate) fn transcoded(&mut self, n: u32, cpu: u32) {
        if let Some(packet) = self.mixers[n as usize].current.take() {
            self.enqueue_tx(packet, cpu);
        }
    }

    /// A call begins in stream `flow`: a packet is heard if it comes no more than `playout` later than it would if the engine did nothing
    /// but transcode from the frame's beginning on.
    pub(crate) fn open_session(&mut self, flow: u32) {
        let call = &mut self.net.calls[flow as usize];
        let Some(session) = &mut call.session else { return };
        session.base = call.next;
        session.end = call.due + session.hold;
        let due = call.due + self.c.jitter_buffer;
        let mixer = &self.mixers[session.mixer as usize];
        let before = u64::from(call.id) * mixer.work;
        let wait = self.c.jitter_buffer + mixer.until_frame(due) + before + mixer.work;
        let limit = wait + session.playout + self.c.dom0_tx + self.c.wire;
        call.record =
            Record::new(self.from.saturating_sub(limit), self.until - limit.min(self.until), self.c.packet_gap, limit);
    }

    /// A packet of stream `flow` is due. Returns whether the call was over by then, so that the next one begins instead.
    pub(crate) fn hangs_up(&mut self, flow: u32) -> bool {
        let call = &mut self.net.calls[flow as usize];
        let Some(session) = call.session.as_mut().filter(|s| call.due >= s.end) else { return false };
        session.past.push((session.number, call.record.clone()));
        session.number += session.calls;
        call.due += call.rng.below(self.c.phase_spread);
        let due = call.due;
        self.open_session(flow);
        self.queue.push((due + self.c.wire).max(self.now), What::Call, flow);
        self.signal_call(flow);
        true
    }
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
