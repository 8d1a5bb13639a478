// SPDX-License-Identifier: GPL-2.0-only
//! Timers that move without leaving the event queue.

use crate::engine::{Entry, NEVER, Queue, What};

/// A timer that is often moved: moving it later costs nothing, its entry is moved on when it comes up.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When it shall fire.
    want: u64,
    /// Time of its entry in the queue.
    queued: u64,
    generation: u32,
}

impl Default for Timer {
    fn default() -> Self {
        Self { want: NEVER, queued: NEVER, generation: 0 }
    }
}

impl Timer {
    /// Sets, moves or (with [`NEVER`]) cancels it.
    #[inline]
    pub fn set(&mut self, queue: &mut Queue, when: u64, what: What, arg: u32) {
        self.want = when;
        if when < self.queued {
            self.queued = when;
            self.generation = self.generation.wrapping_add(1);
            queue.push_generation(when, what, arg, self.generation);
        }
    }

    /// Sets it unless it fires earlier anyway.
    #[inline]
    pub fn set_earlier(&mut self, queue: &mut Queue, when: u64, what: What, arg: u32) {
        if when < self.want {
            self.set(queue, when, what, arg);
        }
    }

    /// When it will fire.
    #[inline]
    pub fn when(&self) -> u64 {
        self.want
    }

    #[inline]
    pub fn cancel(&mut self) {
        self.want = NEVER;
    }

    /// Whether it fires with this entry of the queue; otherwise the entry was left behind.
    #[inline]
    pub fn fires(&mut self, queue: &mut Queue, entry: &Entry) -> bool {
        if entry.generation != self.generation {
            return false;
        }
        self.queued = NEVER;
        if self.want > entry.time {
            let when = self.want;
            if when != NEVER {
                self.set(queue, when, entry.what, entry.arg.into());
            }
            return false;
        }
        self.want = NEVER;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_move_both_ways_and_fire_once() {
        let mut q = Queue::new(8);
        let mut t = Timer::default();
        for when in [50, 80, 30, 40] {
            t.set(&mut q, when, What::Slice, 0);
        }
        let mut fired = Vec::new();
        while let Some(e) = q.pop() {
            if t.fires(&mut q, &e) {
                fired.push(e.time);
            }
        }
        assert_eq!(fired, [40]);
        t.set(&mut q, 90, What::Slice, 0);
        t.cancel();
        let e = q.pop().unwrap();
        assert!(!t.fires(&mut q, &e) && q.pop().is_none());
    }
}
