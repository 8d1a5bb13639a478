// SPDX-License-Identifier: GPL-2.0-only
//! Which workloads have a guest in which lab. The plans, `map` for Linux and `xen::plan`, have the
//! options of each guest.

use takt_sim::Kind;

/// What a lab has for a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Whether there is a guest in the lab with Linux, and in that with Xen.
    pub linux: bool,
    pub xen: bool,
    /// Its guest counts jobs, which are the VM's `periodic` figures.
    pub jobs: bool,
}

/// The guest for a workload; by default there is none.
pub fn of(workload: Kind) -> Guest {
    use Kind::{Fanout, Hog, Idle, Media, Parallel, Periodic, Signalling, Stream, Tasks, Voip};
    let both = Guest { linux: true, xen: true, ..Guest::default() };
    match workload {
        Hog | Parallel | Idle | Tasks | Fanout => both,
        Voip | Periodic => Guest { jobs: true, ..both },
        Stream => Guest { xen: false, jobs: true, ..both },
        Media | Signalling => Guest { linux: false, ..both },
        _ => Guest::default(),
    }
}
