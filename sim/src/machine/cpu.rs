// SPDX-License-Identifier: GPL-2.0-only
//! A PCPU: what it does, and its timers.

use crate::engine::NEVER;
use crate::timer::Timer;
use takt_policy::Overhead;

/// What a PCPU is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Offline,
    Idle,
    Switching,
    Running,
}

#[derive(Debug)]
pub(crate) struct Pcpu {
    pub phase: Phase,
    /// VCPU running, or coming.
    pub next: Option<u32>,
    /// VCPU that leaves: its context is being saved.
    pub prev: Option<u32>,
    /// VCPU that has its registers still loaded: going idle and back costs no switch.
    pub loaded: Option<u32>,
    /// Time up to which the next slice lasts, ns.
    pub slice_end: u64,
    /// Kicked during a switch.
    pub again: bool,
    /// Number of the switch under way; one that was broken off has another.
    pub switch: u32,
    /// Index of its pool.
    pub pool: usize,
    pub llc: u32,
    /// What its calls of `schedule` and its switches between different VCPUs cost in the measured window.
    pub took: Box<Overhead>,
    /// Time VCPUs have run here, ns: its private caches' clock.
    pub run: u64,
    /// Idle, or running, since.
    pub since: u64,
    pub slice: Timer,
    pub done: Timer,
    pub resched: Timer,
    pub timer: Timer,
}

impl Pcpu {
    pub fn new(llc: u32, pool: usize) -> Self {
        Self {
            phase: Phase::Offline,
            next: None,
            prev: None,
            loaded: None,
            slice_end: NEVER,
            again: false,
            switch: 0,
            pool,
            llc,
            took: Box::default(),
            run: 0,
            since: 0,
            slice: Timer::default(),
            done: Timer::default(),
            resched: Timer::default(),
            timer: Timer::default(),
        }
    }

    /// Whether a VCPU runs here, comes, or has its context saved.
    pub fn holds(&self, v: u32) -> bool {
        self.next == Some(v) || self.prev == Some(v)
    }

    /// Whether a switch with this number is the one under way.
    pub fn is_switch(&self, number: u32) -> bool {
        self.switch == number
    }

    /// Forgets what it does: returns what that was, the VCPU that leaves, and the one that runs or comes.
    pub fn stop(&mut self) -> (Phase, Option<u32>, Option<u32>) {
        self.slice.cancel();
        self.done.cancel();
        self.resched.cancel();
        (self.again, self.loaded, self.slice_end) = (false, None, NEVER);
        if self.phase == Phase::Switching {
            self.switch = self.switch.wrapping_add(1);
        }
        (std::mem::replace(&mut self.phase, Phase::Idle), self.prev.take(), self.next.take())
    }
}
