// SPDX-License-Identifier: GPL-2.0-only
//! The event queue: a four-ary heap of small entries, and timers that move without leaving the queue.
//!
//! Entries are ordered by (time, order class, insertion), so equal times have one order on every machine.

/// "Not at all" as a time.
pub const NEVER: u64 = u64::MAX;

/// What comes first at equal times (spec §8): timers, then wakes and other events, then `schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Order {
    Timer,
    Event,
    Schedule,
}

/// What an entry is about; `arg` of the entry says which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// PCPU `arg` comes online.
    Boot,
    /// All PCPUs are there: VMs are created.
    Create,
    /// The measured window begins.
    Measure,
    /// The policy's timer of PCPU `arg`.
    CpuTimer,
    /// The policy's timer of the pool.
    PoolTimer,
    /// Guest timer tick of VCPU `arg`.
    Tick,
    /// The monitor's 30 ms report.
    Monitor,
    /// VCPU `arg` begins its workload.
    Start,
    /// A timer or daemon wakes VCPU `arg`.
    House,
    /// The next packet of call `arg` reaches the NIC.
    Call,
    /// The next packet of stream `arg` is due in its guest.
    Stream,
    /// A job of periodic task `arg` is released.
    Release,
    /// Moderated interrupt of NIC queue `arg`.
    Nic,
    /// What PCPU `arg` works on is complete.
    Done,
    /// PCPU `arg` has saved one context and loaded the next.
    Switched,
    /// PCPU `arg` was kicked.
    Resched,
    /// The slice on PCPU `arg` is over.
    Slice,
}

impl What {
    fn order(self) -> Order {
        match self {
            What::Resched | What::Slice => Order::Schedule,
            What::Start
            | What::House
            | What::Call
            | What::Stream
            | What::Release
            | What::Nic
            | What::Done
            | What::Switched => Order::Event,
            _ => Order::Timer,
        }
    }
}

/// An entry of the queue: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub time: u64,
    /// Order class above, insertion number below.
    key: u64,
    pub generation: u32,
    pub arg: u16,
    pub what: What,
}

impl Entry {
    #[inline]
    fn rank(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.key)
    }
}

/// The queue. `events` and `cancelled` are counted by those who dequeue.
#[derive(Debug)]
pub struct Queue {
    heap: Vec<Entry>,
    sequence: u64,
}

const ARITY: usize = 4;

impl Queue {
    /// With room for `capacity` entries, beyond which it grows.
    pub fn new(capacity: usize) -> Self {
        Self { heap: Vec::with_capacity(capacity), sequence: 0 }
    }

    /// Enqueues an entry that nobody cancels.
    #[inline]
    pub fn push(&mut self, time: u64, what: What, arg: u32) {
        self.push_generation(time, what, arg, 0);
    }

    #[inline]
    fn push_generation(&mut self, time: u64, what: What, arg: u32, generation: u32) {
        self.sequence += 1;
        let key = (what.order() as u64) << 60 | self.sequence;
        let entry = Entry { time, key, generation, arg: arg as u16, what };
        let rank = entry.rank();
        let mut at = self.heap.len();
        self.heap.push(entry);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].rank() <= rank {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Time of the next entry.
    #[cfg(test)]
    fn next_time(&self) -> Option<u64> {
        self.heap.first().map(|e| e.time)
    }

    /// Dequeues the first entry.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        let len = self.heap.len();
        if len == 0 {
            return Some(first);
        }
        let rank = last.rank();
        let mut at = 0;
        loop {
            let child = at * ARITY + 1;
            if child >= len {
                break;
            }
            let mut least = child;
            let mut least_rank = self.heap[child].rank();
            for other in child + 1..(child + ARITY).min(len) {
                let other_rank = self.heap[other].rank();
                if other_rank < least_rank {
                    least = other;
                    least_rank = other_rank;
                }
            }
            if least_rank >= rank {
                break;
            }
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = last;
        Some(first)
    }
}

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
    fn equal_times_go_by_order_class_then_by_insertion() {
        let mut q = Queue::new(8);
        q.push(5, What::Slice, 0);
        q.push(5, What::House, 1);
        q.push(5, What::CpuTimer, 2);
        q.push(5, What::Switched, 3);
        q.push(5, What::Resched, 4);
        q.push(4, What::Resched, 5);
        assert_eq!(q.next_time(), Some(4));
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|e| e.arg).collect();
        assert_eq!(order, [5, 2, 1, 3, 0, 4]);
    }

    #[test]
    fn a_heap_sorts() {
        let mut q = Queue::new(0);
        let mut x = 1u64;
        for n in 0..2000u32 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            q.push(x >> 56, What::House, n);
        }
        let all: Vec<_> = std::iter::from_fn(|| q.pop()).map(|e| (e.time, e.key)).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.is_sorted());
    }

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
