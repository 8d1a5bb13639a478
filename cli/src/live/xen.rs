// SPDX-License-Identifier: GPL-2.0-only
//! The commands in Xen's Dom0: the hypervisor schedules, and is asked and told.

mod ask;
mod serve;
mod show;

pub use ask::{overhead, record, set, status};
pub use serve::run;

use std::path::Path;
use takt_xen::Place;

/// Whether this is a Dom0.
pub fn here() -> bool {
    takt_xen::place(Path::new("/")) == Place::Dom0
}
