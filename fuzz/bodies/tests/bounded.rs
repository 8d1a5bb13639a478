// SPDX-License-Identifier: GPL-2.0-only
//! A bounded run of each fuzz target with fixed seeds: no panic, and no more memory than the target states.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use takt_fuzz_bodies::mutate::{Rng, input};
use takt_fuzz_bodies::{LARGEST, TARGETS, Target, begun, each_byte};

/// Counts what a thread has allocated and not yet freed, and the most of that.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(n: isize) {
    LIVE.set(LIVE.get() + n);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: System's own, with numbers beside it that allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `run` had allocated at a time.
fn peak(run: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    run();
    (PEAK.get() - before) as usize
}

#[track_caller]
fn check(t: &Target, data: &[u8], what: &dyn std::fmt::Display) -> usize {
    let took = peak(|| {
        if let Err(panic) = std::panic::catch_unwind(|| (t.body)(data)) {
            eprintln!("{}: {what}: {}", t.name, data.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    });
    assert!(took <= t.memory, "{}: {what} takes {took} bytes, allowed {}", t.name, t.memory);
    took
}

fn run(name: &str, inputs: u64) {
    let t = TARGETS.iter().find(|t| t.name == name).expect("a target");
    let seeds = (t.seeds)();
    let mut most = 0;
    for (n, seed) in seeds.iter().enumerate() {
        assert!(seed.len() <= LARGEST, "{name}: seed {n} has {} bytes", seed.len());
        most = most.max(check(t, seed, &format_args!("seed {n}")));
    }
    for n in 0..inputs {
        let data = input(&mut Rng::with_seed(n), &seeds, LARGEST);
        most = most.max(check(t, &data, &format_args!("input {n}")));
    }
    println!("{name}: {inputs} inputs, at most {most} bytes");
}

#[test]
fn captures() {
    run("capture", 10_000);
}

#[test]
fn scenarios() {
    run("scenario", 4_000);
}

#[test]
fn recordings() {
    run("recording", 1_500);
}

#[test]
fn logs_that_begin_with_a_pool() {
    run("begun", 10_000);
    // A number of what is not there, and a class of none.
    each_byte(0x75).for_each(|data| begun(&data));
}

#[test]
fn requests() {
    run("request", 20_000);
}

#[test]
fn configs() {
    run("config", 10_000);
}

#[test]
fn xenstore() {
    run("xenstore", 10_000);
}

#[test]
fn hypercalls() {
    run("hypercalls", 1_500);
}

#[test]
fn the_allocator_counts() {
    assert!(peak(|| drop(std::hint::black_box(vec![0u8; 1 << 20]))) >= 1 << 20);
    assert!(peak(|| drop(std::hint::black_box(vec![0u8; 16]))) < 1 << 10);
}
