// SPDX-License-Identifier: GPL-2.0-only
//! Traces for Perfetto (ui.perfetto.dev).

/// Generated from `cli/proto/trace.proto`.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/proto/mod.rs"));
}
mod writer;

pub use generated::trace as proto;
pub use writer::{TrackId, Writer};
