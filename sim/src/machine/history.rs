// SPDX-License-Identifier: GPL-2.0-only
//! What became of the pools in the course of a run.

/// Between two samples of the pools, ns.
pub(crate) const SAMPLE: u64 = 1_000_000_000;

/// What became of the pools; times in ns of the run.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Pool commands of an administrator.
    pub commands: u64,
    /// When which PCPU went to which pool.
    pub moves: Vec<(u64, u32, usize)>,
    /// CPU time that VMs without parameters of real time have had at each sample, ns, and PCPUs of the rt-pool.
    pub samples: Vec<(u64, u32)>,
}

impl History {
    pub fn moved(&mut self, now: u64, cpu: u32, to: usize) {
        self.moves.push((now, cpu, to));
    }
}
