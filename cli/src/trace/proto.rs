// SPDX-License-Identifier: GPL-2.0-only
//! The part of Perfetto's trace format that we write (protos/perfetto/trace of Perfetto), so that no protoc is needed.

#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Packet {
    /// ns
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub event: Option<Event>,
    #[prost(message, optional, tag = "12")]
    pub interned: Option<Interned>,
    /// 1 = names begin anew here, 2 = refers to names given before.
    #[prost(uint32, optional, tag = "13")]
    pub flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track: Option<Track>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub categories: Vec<u64>,
    #[prost(enumeration = "Kind", optional, tag = "9")]
    pub kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub name: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub value: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Interned {
    #[prost(message, repeated, tag = "1")]
    pub categories: Vec<Name>,
    #[prost(message, repeated, tag = "2")]
    pub names: Vec<Name>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Name {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Track {
    #[prost(uint64, tag = "1")]
    pub uuid: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint64, optional, tag = "5")]
    pub parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<Counter>,
    /// 3 = children by `rank`.
    #[prost(int32, optional, tag = "11")]
    pub ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub rank: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Counter {
    #[prost(string, tag = "6")]
    pub unit: String,
}
