// SPDX-License-Identifier: GPL-2.0-or-later
//! The memory that guest and VMM share, as `guest/guest.h` has it, and where the rest of a VM's memory is.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;

pub const PAGE_TABLES: usize = 0x1000; // PML4, PDPT, four page directories: 4 GiB identity-mapped
pub const GDT: usize = 0x8000;
pub const IDTS: usize = 0x10000; // a page for each VCPU
pub const STACKS: usize = 0x80000; // two pages for each VCPU
pub const IMAGE: usize = 0x10_0000;
pub const SHARED: usize = 0x20_0000;
pub const SAMPLES: usize = 0x40_0000;

pub const PAGE: usize = 4096;
pub const STACK: usize = 2 * PAGE;
pub const MAX_VCPUS: usize = 64;
pub const MAX_TASKS: usize = 16;
pub const MAX_CLIENTS: usize = 256;
pub const SLOTS: u64 = 256;
pub const FRAME: usize = 2032;
pub const TEMPLATE: usize = 256;

pub const VECTOR_MSI: u32 = 0x40;
pub const SAMPLE_TIMER: u64 = 1 << 63; // tags the latency of a timer's interrupt
pub const PORT_TX: u64 = 0x500;
pub const PORT_PANIC: u16 = 0x501;

/// What a VCPU does: `enum guest_role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Role {
    Idle,
    Hog,
    Dodge,
    Periodic,
    Echo,
    Source,
    Interrupts,
    Parallel,
    Tasks,
    Fanout,
}

/// Times are TSC cycles; what the fields mean is said in `guest.h`.
#[repr(C, align(64))]
pub struct Config {
    pub start: AtomicU64,
    pub period: AtomicU64,
    pub work: AtomicU64,
    pub deadline: AtomicU64,
    pub boundary: AtomicU64,
    pub tick: AtomicU64,
    pub guard: AtomicU64,
    pub burst: AtomicU64,
    pub gap: AtomicU64,
    pub compute: AtomicU64,
    pub ports: AtomicU64,
    pub first_port: AtomicU64,
    pub ssrc: AtomicU64,
    pub template_len: AtomicU64,
    pub template: UnsafeCell<[u8; TEMPLATE]>,
}

#[repr(C, align(64))]
pub struct Vcpu {
    pub this: AtomicU64,
    pub role: AtomicU64,
    pub idt: AtomicU64,
    pub samples: AtomicU64,
    pub sample_mask: AtomicU64,
    pub msi_sent: AtomicU64,
    pub timer_request: AtomicU64,
    pub work: AtomicU64,
    pub jobs: AtomicU64,
    pub misses: AtomicU64,
    pub msis: AtomicU64,
    pub timers: AtomicU64,
    pub sampled: AtomicU64,
    pub armed: AtomicU64,
    pub due: AtomicU64,
    pub seen: AtomicU64,
    pub handling: AtomicU64,
    pub spun: AtomicU64,
    pub barriers: AtomicU64,
    pub sleeps: AtomicU64,
    pub asleep: AtomicU64,
    pub began: AtomicU64,
    pub ended: AtomicU64,
}

/// The parts of a parallel program that the VMM writes, and those that the VCPUs share.
#[repr(C, align(64))]
pub struct Team {
    pub threads: AtomicU64,
    pub compute: AtomicU64,
    pub width: AtomicU64,
    pub locks: AtomicU64,
    pub held: AtomicU64,
    pub barrier: AtomicU64,
    pub spin: AtomicU64,
    pub rounds: AtomicU64,
    pub seed: AtomicU64,
    shared: [Line; 3],
}

#[repr(C, align(64))]
struct Line(AtomicU64);

/// One of a set of tasks; the VMM writes `work` and `period`.
#[repr(C)]
pub struct Task {
    pub work: AtomicU64,
    pub period: AtomicU64,
    pub release: AtomicU64,
    left: AtomicU64,
    pub missed: AtomicU64,
    pub longest: AtomicU64,
    mark: AtomicU64,
    pad: u64,
}

#[cfg(test)]
impl Task {
    pub fn with(period: u64, release: u64, missed: u64, longest: u64) -> Self {
        let [period, release, missed, longest] = [period, release, missed, longest].map(AtomicU64::new);
        let [work, left, mark] = [0; 3].map(AtomicU64::new);
        Self { work, period, release, left, missed, longest, mark, pad: 0 }
    }
}

/// A set of tasks; the VMM writes `tasks` and `mark`.
#[repr(C, align(64))]
pub struct Set {
    pub tasks: AtomicU64,
    pub mark: AtomicU64,
    pad: [u64; 6],
    pub task: [Task; MAX_TASKS],
}

/// The part of an application's VM that the VMM writes, and what its VCPUs share.
#[repr(C, align(64))]
pub struct Site {
    pub threads: AtomicU64,
    pub peers: AtomicU64,
    pub stages: AtomicU64,
    pub split: AtomicU64,
    pub message: AtomicU64,
    pub work: AtomicU64,
    pub width: AtomicU64,
    pub background: AtomicU64,
    pub seed: AtomicU64,
    shared: [Line; 2],
    queue: [AtomicU64; MAX_CLIENTS],
    requests: [[AtomicU64; 4]; MAX_CLIENTS],
}

#[repr(C)]
pub struct Slot {
    pub len: AtomicU64,
    pub tsc: AtomicU64,
    pub data: UnsafeCell<[u8; FRAME]>,
}

#[repr(C, align(64))]
pub struct Ring {
    pub head: AtomicU64,
    pub tail: AtomicU64,
    pub dropped: AtomicU64,
    pad: [u64; 5],
    pub slot: [Slot; SLOTS as usize],
}

#[repr(C)]
pub struct Shared {
    pub config: Config,
    pub vcpu: [Vcpu; MAX_VCPUS],
    pub team: Team,
    pub set: Set,
    pub site: Site,
    pub rx: Ring,
    pub tx: Ring,
}

// SAFETY: all fields are atomic but the bytes of packets and of the template. A slot's bytes belong to the producer until
// it moves `head` past it and to the consumer until that moves `tail`; the template is written before the guest runs.
unsafe impl Sync for Shared {}

const _: () = {
    assert!(size_of::<Config>() == 384);
    assert!(size_of::<Vcpu>() == 192);
    assert!(size_of::<Team>() == 320);
    assert!(size_of::<Set>() == 64 + 16 * 64);
    assert!(size_of::<Site>() == 10496);
    assert!(size_of::<Slot>() == 2048);
    assert!(size_of::<Ring>() == 64 + 256 * 2048);
    assert!(SHARED + size_of::<Shared>() <= SAMPLES);
    assert!(IDTS + MAX_VCPUS * PAGE <= STACKS && STACKS + MAX_VCPUS * STACK <= IMAGE);
};

/// The bytes of memory of a VM whose VCPUs keep `samples` latencies each (a power of two).
pub fn memory_size(vcpus: usize, samples: usize) -> usize {
    (SAMPLES + vcpus * samples * size_of::<u64>()).next_multiple_of(PAGE)
}

/// Where VCPU `index` keeps its latencies.
pub fn samples_at(index: usize, samples: usize) -> usize {
    SAMPLES + index * samples * size_of::<u64>()
}
