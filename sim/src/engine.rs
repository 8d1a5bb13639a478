// SPDX-License-Identifier: GPL-2.0-only
//! The event queue: a four-ary heap of small entries.
//!
//! Entries are ordered by (time, order class, insertion), so equal times have one order on every machine.

use crate::spec::Kind;

/// "Not at all" as a time.
pub const NEVER: u64 = u64::MAX;

/// What comes first at equal times (rule R5): timers, then wakes and other events, then `schedule`.
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
    /// The server of VM `arg` begins.
    Serve,
    /// The measured window begins.
    Measure,
    /// The policy's timer of PCPU `arg`.
    CpuTimer,
    /// The policy's timer of pool `arg`.
    PoolTimer,
    /// The partition manager's delay is over.
    Shrink,
    /// Step `arg` of the script.
    Step,
    /// A sample of the pools is due.
    Sample,
    /// Guest timer tick of VCPU `arg`.
    Tick,
    /// The monitor's 30 ms report.
    Monitor,
    /// VCPU `arg` begins its workload.
    Start,
    /// A timer or daemon wakes VCPU `arg`.
    Housekeeping,
    /// The next packet of call `arg` reaches the NIC.
    Call,
    /// Program `arg` of that workload is due.
    Program(Kind),
    /// The oldest packet between two machines reaches the NIC of the other.
    Wire,
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
            | What::Housekeeping
            | What::Call
            | What::Program(_)
            | What::Wire
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

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    #[inline]
    fn rank(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.key)
    }
}

/// The queue: what comes next, if it was enqueued last, stands in front of the heap.
#[derive(Debug)]
pub struct Queue {
    /// Precedes everything in the heap. Much of what is enqueued is the next to happen: it costs no heap operation.
    front: Option<Entry>,
    /// The heap, then `ARITY` entries of [`LAST`], so that every node has all its children.
    heap: Vec<Entry>,
    len: usize,
    sequence: u64,
}

const ARITY: usize = 4;
/// Comes after every entry.
const LAST: Entry = Entry { time: NEVER, key: NEVER, generation: 0, arg: 0, what: What::Done };

impl Queue {
    /// With room for `capacity` entries, beyond which it grows.
    pub fn new(capacity: usize) -> Self {
        let mut heap = Vec::with_capacity(capacity + ARITY);
        heap.resize(ARITY, LAST);
        Self { front: None, heap, len: 0, sequence: 0 }
    }

    /// Enqueues an entry that nobody cancels.
    #[inline]
    pub fn push(&mut self, time: u64, what: What, arg: u32) {
        self.push_generation(time, what, arg, 0);
    }

    /// Enqueues an entry that whoever knows its generation may leave behind.
    #[inline]
    pub(crate) fn push_generation(&mut self, time: u64, what: What, arg: u32, generation: u32) {
        self.sequence += 1;
        let key = (what.order() as u64) << 60 | self.sequence;
        let entry = Entry { time, key, generation, arg: arg as u16, what };
        let next = self.front.as_ref().unwrap_or(&self.heap[0]);
        if entry.rank() >= next.rank() {
            self.insert(entry);
        } else if let Some(before) = self.front.replace(entry) {
            self.insert(before);
        }
    }

    fn insert(&mut self, entry: Entry) {
        self.heap.push(LAST);
        self.heap[self.len] = entry;
        self.len += 1;
        self.rise(self.len - 1, entry);
    }

    /// Puts `entry` where it belongs on the way from node `at` to the root.
    #[inline]
    fn rise(&mut self, mut at: usize, entry: Entry) {
        let rank = entry.rank();
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

    /// Dequeues the first entry.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        if let Some(front) = self.front.take() {
            return Some(front);
        }
        if self.len == 0 {
            return None;
        }
        let first = self.heap[0];
        self.len -= 1;
        let last = self.heap[self.len];
        self.heap[self.len] = LAST;
        self.heap.pop();
        if self.len > 0 {
            // The hole sinks to a leaf, and the last entry, which mostly belongs near the leaves, rises from there.
            let mut at = 0;
            loop {
                let child = at * ARITY + 1;
                if child >= self.len {
                    break;
                }
                let least = self.least(child);
                self.heap[at] = self.heap[least];
                at = least;
            }
            self.rise(at, last);
        }
        Some(first)
    }

    /// The first of four neighbours, without branches that depend on the data.
    #[inline]
    fn least(&self, child: usize) -> usize {
        let four = &self.heap[child..child + ARITY];
        let low = usize::from(four[1].rank() < four[0].rank());
        let high = 2 + usize::from(four[3].rank() < four[2].rank());
        let later = four[high].rank() < four[low].rank();
        child + if later { high } else { low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_go_by_order_class_then_by_insertion() {
        let mut q = Queue::new(8);
        q.push(5, What::Slice, 0);
        q.push(5, What::Housekeeping, 1);
        q.push(5, What::CpuTimer, 2);
        q.push(5, What::Switched, 3);
        q.push(5, What::Resched, 4);
        q.push(4, What::Resched, 5);
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|e| e.arg).collect();
        assert_eq!(order, [5, 2, 1, 3, 0, 4]);
    }

    #[test]
    fn a_heap_sorts() {
        let mut q = Queue::new(0);
        let mut x = 1u64;
        let mut model = std::collections::BTreeSet::new();
        for n in 0..5000u64 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let time = x >> 56;
            q.push(time, What::Housekeeping, 0);
            model.insert((time, n));
            if x >> 32 & 3 != 0 && n > 100 {
                let got = q.pop().map(|e| (e.time, (e.key & ((1 << 60) - 1)) - 1));
                assert_eq!(got, model.pop_first());
            }
        }
        let rest: Vec<_> = std::iter::from_fn(|| q.pop()).map(|e| e.time).collect();
        assert_eq!(rest, model.iter().map(|e| e.0).collect::<Vec<_>>());
    }
}
