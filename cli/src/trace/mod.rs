// SPDX-License-Identifier: GPL-2.0-only
//! Traces for Perfetto (ui.perfetto.dev).

pub mod proto;
mod writer;

pub use writer::{TrackId, Writer};
