// SPDX-License-Identifier: GPL-2.0-only
//! Writes packets one after the other; names are sent once and referred to by number.

use super::proto::{Counter, Event, Interned, Kind, Name, Packet, Track};
use protobuf::rt::WireType;
use protobuf::{CodedOutputStream, Message, MessageField};
use std::collections::BTreeMap;

/// Everything is on one sequence.
const SEQUENCE: u32 = 1;

/// An encoded trace that grows; equal calls give equal bytes.
pub struct Writer {
    bytes: Vec<u8>,
    names: BTreeMap<String, u64>,
    categories: BTreeMap<String, u64>,
    tracks: u64,
}

/// A track made by [`Writer::track`] or [`Writer::counter_track`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackId(u64);

impl Default for Writer {
    fn default() -> Self {
        let mut w = Self { bytes: Vec::new(), names: BTreeMap::new(), categories: BTreeMap::new(), tracks: 0 };
        w.packet(Packet { flags: Some(1), ..Packet::default() });
        w
    }
}

impl Writer {
    /// A track for slices and instants, below `parent`; tracks of one parent keep the order they are made in.
    pub fn track(&mut self, name: &str, parent: Option<TrackId>) -> TrackId {
        self.describe(name, parent, None)
    }

    /// A track of values in `unit`.
    pub fn counter_track(&mut self, name: &str, unit: &str, parent: Option<TrackId>) -> TrackId {
        self.describe(name, parent, Some(Counter { unit: Some(unit.to_owned()), ..Counter::default() }))
    }

    fn describe(&mut self, name: &str, parent: Option<TrackId>, counter: Option<Counter>) -> TrackId {
        self.tracks += 1;
        let track = Track {
            uuid: Some(self.tracks),
            name: Some(name.to_owned()),
            parent: parent.map(|p| p.0),
            counter: counter.into(),
            ordering: Some(3),
            rank: Some(self.tracks as i32),
            ..Track::default()
        };
        self.packet(Packet { track: MessageField::some(track), ..Packet::default() });
        TrackId(self.tracks)
    }

    /// Begins a slice of that name and category at `now` ns.
    pub fn begin(&mut self, now: u64, track: TrackId, name: &str, category: &str) {
        self.event(now, track, Kind::BEGIN, Some((name, category)), None);
    }

    /// Ends the slice that began last on `track`.
    pub fn end(&mut self, now: u64, track: TrackId) {
        self.event(now, track, Kind::END, None, None);
    }

    pub fn instant(&mut self, now: u64, track: TrackId, name: &str, category: &str) {
        self.event(now, track, Kind::INSTANT, Some((name, category)), None);
    }

    pub fn counter(&mut self, now: u64, track: TrackId, value: i64) {
        self.event(now, track, Kind::COUNTER, None, Some(value));
    }

    /// The trace so far.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn event(&mut self, now: u64, track: TrackId, kind: Kind, label: Option<(&str, &str)>, value: Option<i64>) {
        let mut new = Interned::default();
        let name = label.map(|(n, _)| intern(&mut self.names, n, &mut new.names));
        let category = label.map(|(_, c)| intern(&mut self.categories, c, &mut new.categories));
        let interned = (new != Interned::default()).then_some(new);
        let event = Event {
            categories: category.into_iter().collect(),
            kind: Some(kind.into()),
            name,
            track: Some(track.0),
            value,
            ..Event::default()
        };
        self.packet(Packet {
            timestamp: Some(now),
            event: MessageField::some(event),
            interned: interned.into(),
            flags: Some(2),
            ..Packet::default()
        });
    }

    /// A trace is the concatenation of its packets, each as field 1. To write to memory cannot fail.
    fn packet(&mut self, packet: Packet) {
        let packet = Packet { sequence: Some(SEQUENCE), ..packet };
        let mut out = CodedOutputStream::vec(&mut self.bytes);
        let written = out
            .write_tag(1, WireType::LengthDelimited)
            .and_then(|()| packet.write_length_delimited_to(&mut out))
            .and_then(|()| out.flush());
        debug_assert!(written.is_ok(), "{written:?}");
    }
}

fn intern(known: &mut BTreeMap<String, u64>, text: &str, new: &mut Vec<Name>) -> u64 {
    if let Some(&id) = known.get(text) {
        return id;
    }
    let id = known.len() as u64 + 1;
    known.insert(text.to_owned(), id);
    new.push(Name { id: Some(id), text: Some(text.to_owned()), ..Name::default() });
    id
}

#[cfg(test)]
mod tests {
    use super::super::proto::Trace;
    use super::*;
    use protobuf::Enum;

    #[test]
    fn decodes_to_what_was_written() {
        let mut w = Writer::default();
        let cpu = w.track("PCPU 0", None);
        let credit = w.counter_track("credit", "credits", Some(cpu));
        w.begin(10, cpu, "voip.0", "rt");
        w.counter(15, credit, -3);
        w.instant(17, cpu, "wake", "event");
        w.end(20, cpu);
        w.begin(20, cpu, "voip.0", "under");
        w.end(30, cpu);
        let trace = Trace::parse_from_bytes(&w.finish()).unwrap();
        let tracks: Vec<_> = trace.packet.iter().filter_map(|p| p.track.as_ref()).collect();
        assert_eq!(tracks.iter().map(|t| t.name()).collect::<Vec<_>>(), ["PCPU 0", "credit"]);
        assert_eq!(tracks[1].parent, tracks[0].uuid);
        let events: Vec<_> =
            trace.packet.iter().filter_map(|p| Some((p.timestamp?, p.event.as_ref()?.kind().value()))).collect();
        assert_eq!(events, [(10, 1), (15, 4), (17, 3), (20, 2), (20, 1), (30, 2)]);
        // One name each, however often it is used.
        let names: Vec<_> = trace.packet.iter().filter_map(|p| p.interned.as_ref()).flat_map(|i| &i.names).collect();
        assert_eq!(names.iter().map(|n| n.text()).collect::<Vec<_>>(), ["voip.0", "wake"]);
    }
}
