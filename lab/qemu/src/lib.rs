// SPDX-License-Identifier: GPL-2.0-only
//! Emulated machines: a kernel, an initramfs with a few programs, and what they leave behind.

mod archive;
mod machine;
pub mod outbox;

pub use archive::Archive;
pub use machine::{MODEL, Machine, Timing};
