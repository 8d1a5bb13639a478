// SPDX-License-Identifier: GPL-2.0-only
//! What is off the hot path: policies by name, the configuration of VMs, and bringing a host to it.
//!
//! Nothing here decides who runs. Control only issues operations; a host whose control has died stays correct, and
//! control that comes back reads the host's state again ([`apply`] keeps none of its own). Times are ns.

mod after;
pub mod analysis;
pub mod bench;
pub mod config;
pub mod doctor;
pub mod document;
pub mod duration;
pub mod event;
pub mod file;
pub mod groups;
pub mod host;
pub mod layers;
pub mod metadata;
pub mod moment;
pub mod near;
pub mod need;
pub mod overhead;
pub mod params;
pub mod partition;
pub mod pools;
pub mod ports;
pub mod save;
pub mod server;
mod setting;
pub mod settings;
pub mod socket;
pub mod spec;
pub mod waits;

pub use after::{After, AfterSet};
pub use config::{Entry, VmConfig};
pub use document::Document;
pub use event::Event;
pub use file::{HostConfig, Identity};
pub use groups::Groups;
pub use host::{Applied, Change, Host, VmState, apply};
pub use layers::Layers;
pub use params::VmParams;
pub use partition::{Partition, PartitionHost};
pub use pools::Pools;
pub use ports::Ports;
pub use server::{Server, ServerStatus};
pub use setting::Setting;
pub use settings::RtMode;
pub use spec::PolicySpec;
pub use waits::{Wait, WaitHistogram, WaitHistograms, WaitStatus, Waits, waits};

/// Text from a file or a client for a message of one line: names and values may hold line breaks and escape sequences.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The error with all its causes as one line.
#[must_use]
pub fn one_line(e: &anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!(printable(&format!("{e:#}")))
}
