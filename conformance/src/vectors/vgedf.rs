// SPDX-License-Identifier: GPL-2.0-only
//! docs/rules/risa.md: earliest deadlines first over all PCPUs.

use super::bench::{Bench, MS, US};
use crate::core::Maker;
use takt_policy::{Class, FORCE_IDLE, OpCode, State};

/// VMs 1… with one VCPU each of the same number on the PCPUs given, mode=deferrable, no reserve,
/// (budget, period) in ms from time 0 on.
fn pool(make: &Maker, cpus: u16, servers: &[(u16, u64, u64)]) -> Bench {
    let mut b = Bench::new(make, "vgedf", cpus, servers.len() as u16);
    b.set(0, None, "mode", 1);
    b.set(0, None, "reserve", 0);
    for (vm, &(cpu, budget, period)) in (1..).zip(servers) {
        b.vcpu(vm, vm, cpu);
        b.server(0, vm, budget * MS, period * MS, 1);
    }
    (0..cpus).for_each(|c| assert_eq!(b.turn(0, c), None));
    b
}

/// Wakes `v` at `now` and has `cpu` run it.
fn start(b: &mut Bench, now: u64, v: u16, cpu: u16) {
    b.wake(now, v);
    assert_eq!(b.turn(now, cpu), Some(v.into()), "VCPU {v} on PCPU {cpu}");
}

const T: u64 = 10 * MS;

/// Rule K4: idle PCPUs first, then the one of the latest deadline, if it is later.
pub fn asks(make: &Maker) {
    let mut b = pool(make, 3, &[(0, 10, 100), (1, 10, 200), (0, 10, 50), (0, 10, 300), (0, 10, 150)]);
    start(&mut b, T, 1, 0);
    start(&mut b, T, 2, 1);
    assert_eq!(b.wake(T, 3).kick, 0b100, "the idle one, although 0 and 1 are due later");
    assert_eq!(b.turn(T, 2), Some(3), "from another PCPU's queue");
    assert_eq!(b.wake(T, 4).kick, 0, "later than all");
    assert_eq!(b.wake(T, 5).kick, 0b010, "150 before 200 ms");
    assert_eq!(b.turn_slice(T, 1), (Some(5), 10 * MS), "a slice is the rest of the budget");
    assert_eq!(b.state(2), State::Queued);
    assert_eq!(b.turn(20 * MS, 2), Some(2), "3 is done: of those that wait the earliest");
    assert_eq!(b.turn(20 * MS, 0), Some(4), "then the next");
}

/// Rule K4: an idle PCPU before the own one, which runs a VCPU without budget; the own PCPU before
/// one that runs a deadline.
pub fn asks_idle(make: &Maker) {
    let mut b = pool(make, 3, &[(0, 10, 100), (2, 10, 20)]);
    b.vcpu(9, 0, 0);
    start(&mut b, T, 9, 0);
    start(&mut b, T, 2, 2);
    assert_eq!(b.wake(T, 1).kick, 0b010);
    assert_eq!(b.turn(T, 1), Some(1));
    let mut b = pool(make, 2, &[(1, 10, 100), (1, 10, 200)]);
    b.vcpu(9, 0, 0);
    start(&mut b, T, 9, 0);
    start(&mut b, T, 2, 1);
    assert_eq!(b.wake(T, 1).kick, 0b01);
}

/// Two that wake before anybody has decided ask two PCPUs.
pub fn asks_each(make: &Maker) {
    let mut b = pool(make, 2, &[(0, 10, 100), (1, 10, 90), (0, 10, 30), (0, 10, 40), (0, 10, 50)]);
    start(&mut b, T, 1, 0);
    start(&mut b, T, 2, 1);
    assert_eq!(b.wake(T, 3).kick, 0b01, "100 ms is the latest");
    assert_eq!(b.wake(T, 4).kick, 0b10, "and 90 the next");
    assert_eq!(b.wake(T, 5).kick, 0, "both will run earlier ones");
    b.serve(T);
    assert_eq!([3, 4, 1, 2, 5].map(|v| b.state(v) == State::Running), [true, true, false, false, false]);
    // Having decided they are asked again.
    let mut b = pool(make, 2, &[(0, 10, 100), (1, 10, 90), (0, 10, 95), (0, 10, 40)]);
    start(&mut b, T, 1, 0);
    start(&mut b, T, 2, 1);
    assert_eq!(b.wake(T, 3).kick, 0b01);
    assert_eq!(b.turn(T, 0), Some(3));
    assert_eq!(b.wake(T, 4).kick, 0b01);
    // An idle one and a busy one.
    let mut b = pool(make, 2, &[(0, 10, 100), (0, 10, 30), (0, 10, 40)]);
    start(&mut b, T, 1, 0);
    assert_eq!(b.wake(T, 2).kick, 0b10);
    assert_eq!(b.wake(T, 3).kick & 0b01, 0b01, "the idle one is 2's");
    // Not one that is told to idle, nor one that is taken.
    for taken in [false, true] {
        let mut b = pool(make, 2, &[(0, 10, 100), (0, 10, 30)]);
        start(&mut b, T, 1, 0);
        if taken {
            b.ok(T, OpCode::CpuRelease, (1, 0, 0), [0; 3]);
        } else {
            b.ok(T, OpCode::Schedule, (1, 0, 0), [FORCE_IDLE, 0, 0]);
        }
        assert_eq!(b.wake(T, 2).kick, 0b01);
    }
}

/// A new mask opens PCPUs that run later deadlines.
pub fn masks(make: &Maker) {
    let mut b = pool(make, 2, &[(0, 10, 30), (1, 10, 90), (0, 10, 40)]);
    b.pin(0, 3, 0b01);
    start(&mut b, T, 1, 0);
    start(&mut b, T, 2, 1);
    assert_eq!(b.wake(T, 3).kick, 0);
    assert_eq!(b.turn(T, 1), Some(2), "not allowed here");
    b.ok(T, OpCode::SetAffinity, (0, 3, 0), [0, 0b11, 0]);
    b.serve(T);
    assert_eq!(b.state(3), State::Running);
    assert_eq!(b.state(2), State::Queued);
    // A deadline that moves while its VCPU runs.
    let mut b = pool(make, 1, &[(0, 6, 10), (0, 4, 15)]);
    b.wake(6 * MS, 1);
    b.watch(0, 6 * MS, 8 * MS, MS);
    b.wake(8 * MS, 2);
    assert_eq!(b.watch(0, 8 * MS, 20 * MS, MS), "112222111111");
}

/// Rule K3: a VCPU that ran elsewhere less than 1 ms ago is left to that PCPU, unless this one
/// would idle.
pub fn hot(make: &Maker) {
    // 1 runs on PCPU 0 until 12 ms, where an earlier one comes; PCPU 1 runs a later one.
    let queue = |b: &mut Bench| {
        start(b, T, 1, 0);
        start(b, T, 2, 1);
        b.pin(12 * MS, 3, 0b01);
        b.wake(12 * MS, 3);
        assert_eq!(b.turn(12 * MS, 0), Some(3));
        assert_eq!(b.state(1), State::Queued);
    };
    let servers = [(0, 10, 100), (1, 10, 200), (0, 10, 50)];
    let mut b = pool(make, 2, &servers);
    queue(&mut b);
    assert_eq!(b.turn(12 * MS, 1), Some(2), "1 is warm on PCPU 0");
    assert_eq!(b.core.cpu_timer(1), 13 * MS, "look again when it is cold");
    b.serve(13 * MS - 1);
    assert_eq!(b.state(1), State::Queued);
    b.serve(13 * MS);
    assert_eq!((b.state(1), b.core.vcpu_cpu(1)), (State::Running, 1));
    // It does not idle for that.
    let mut b = pool(make, 2, &servers);
    queue(&mut b);
    assert_eq!(b.stop(12 * MS + 100 * US, 1), Some(1));
    // But ExtraQ comes before.
    let mut b = pool(make, 2, &servers);
    b.vcpu(9, 0, 1);
    queue(&mut b);
    b.wake(12 * MS, 9);
    assert_eq!(b.stop(12 * MS + 100 * US, 1), Some(9));
    b.serve(13 * MS);
    assert_eq!(b.core.vcpu_cpu(1), 1);
    // With cache_hot=0 nobody is warm.
    let mut b = pool(make, 2, &servers);
    b.set(0, None, "cache_hot", 0);
    queue(&mut b);
    b.serve(12 * MS);
    assert_eq!((b.state(1), b.core.vcpu_cpu(1)), (State::Running, 1));
}

/// x = 1: in ExtraQ and WaitQ both (rule K2); x = 0: in WaitQ.
pub fn extra(make: &Maker) {
    let mut b = pool(make, 1, &[(0, 2, 10), (0, 3, 10)]);
    b.set(0, Some(2), "extra", 0);
    b.vcpu(9, 0, 0);
    b.wake(0, 1);
    b.wake(0, 2);
    assert_eq!(b.watch(0, 0, 5 * MS, MS), "11222");
    assert_eq!(b.turn_slice(5 * MS, 0), (Some(1), 500 * US));
    assert_eq!((b.class(1), b.state(2)), (Class::Over, State::Parked));
    b.wake(5 * MS, 9);
    assert_eq!(b.watch(0, 5 * MS, 8 * MS, 500 * US), "191919");
    assert_eq!(b.watch(0, 8 * MS, 15 * MS, 500 * US), "19191111222222", "and a new budget at 10 ms");
    // The budget of one that runs elsewhere than where it began.
    let mut b = pool(make, 2, &[(0, 2, 10), (0, 3, 20)]);
    b.wake(0, 1);
    b.wake(0, 2);
    b.serve(0);
    assert_eq!([1, 2].map(|v| b.state(v)), [State::Running; 2]);
    assert_eq!(b.watch(0, 0, 30 * MS, MS), "1".repeat(30), "each in its extra time");
}

/// What a block costs by `mode`: nothing, or the rest of the budget (rules K5 and E7). By default
/// vGEDF keeps it, SEDF does not.
pub fn asleep(make: &Maker) {
    const BY_DEFAULT: u64 = 2;
    for (policy, mode, kept) in [
        ("vgedf", BY_DEFAULT, true),
        ("vgedf", 1, true),
        ("vgedf", 0, false),
        ("sedf", BY_DEFAULT, false),
        ("sedf", 1, true),
        ("sedf", 0, false),
    ] {
        let begun = || {
            let mut b = Bench::new(make, policy, 1, 1);
            b.vcpu(1, 1, 0);
            if mode != BY_DEFAULT {
                b.set(0, None, "mode", mode);
            }
            b.server(0, 1, 4 * MS, 10 * MS, 1);
            b
        };
        let mut b = begun();
        b.run(1, 0, 0, MS);
        b.wake(3 * MS, 1);
        assert_eq!(b.class(1), if kept { Class::Rt } else { Class::Under }, "{policy}, mode {mode}");
        if kept {
            assert_eq!(b.turn_slice(3 * MS, 0), (Some(1), 3 * MS), "{policy}: the rest of it");
        }
        // Periods go on without work, or begin with it.
        let mut b = begun();
        b.watch(0, 0, 13 * MS, MS);
        b.wake(13 * MS, 1);
        assert_eq!(b.deadline(1), if kept { 20 } else { 23 } * MS, "{policy}, mode {mode}");
    }
}

/// ExtraQ is one of all PCPUs, whose VCPUs take turns, those first that forfeited a budget.
pub fn extra_of_all(make: &Maker) {
    let mut b = pool(make, 2, &[]);
    b.set(0, None, "cache_hot", 0);
    let all = [7, 8, 9];
    [0, 0, 1].into_iter().zip(all).for_each(|(cpu, v)| b.vcpu(v, 0, cpu));
    all.iter().for_each(|&v| _ = b.wake(T, v));
    let mut turns = [0; 3];
    for now in (0..30).map(|n| T + n * 500 * US) {
        b.serve(now);
        all.iter().zip(&mut turns).for_each(|(&v, n)| *n += u32::from(b.state(v) == State::Running));
    }
    assert_eq!(turns, [20; 3], "two PCPUs for three");
    // One that is warm elsewhere is left to that PCPU; nobody idles for it.
    let mut b = pool(make, 2, &[]);
    [0, 0].into_iter().zip([7, 8]).for_each(|(cpu, v)| b.vcpu(v, 0, cpu));
    [7, 8].iter().for_each(|&v| _ = b.wake(T, v));
    assert_eq!(b.turn(T, 0), Some(7));
    assert_eq!(b.turn(T + 500 * US, 0), Some(8));
    assert_eq!(b.turn(T + 600 * US, 1), Some(7), "it would idle");
    b.vcpu(9, 0, 0);
    b.wake(T + 700 * US, 9);
    assert_eq!(b.turn(T + 1000 * US, 0), Some(9));
    assert_eq!(b.turn(T + 1100 * US, 1), Some(7), "8 ran on PCPU 0 until now");
    assert_eq!(b.turn(T + 2000 * US, 1), Some(8));
    // Whoever wakes asks the PCPU whose VCPU is the last, wherever it ran.
    let mut b = pool(make, 2, &[(0, 5, 10), (0, 2, 10)]);
    b.set(0, None, "mode", 0);
    b.vcpu(9, 0, 1);
    start(&mut b, T, 2, 0);
    b.stop(T + MS, 0);
    start(&mut b, T + MS, 1, 0);
    start(&mut b, T + MS, 9, 1);
    assert_eq!(b.wake(T + 2 * MS, 2).kick, 0b10);
    assert_eq!((b.class(2), b.turn(T + 2 * MS, 1)), (Class::Under, Some(2)));
}
