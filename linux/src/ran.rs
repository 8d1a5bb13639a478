// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of VMs up to now. The host counts a run when the thread stops: what runs at the moment is added here, so
//! that a VCPU with a PCPU of its own does not seem to stand still.

use crate::shared::Snapshot;
use crate::status::Member;
use std::collections::BTreeMap;
use takt_policy::{NEVER, State};

/// How far the CPU time of each VM has been told.
#[derive(Debug, Default)]
pub struct Ran {
    /// By index: the VM's generation, and ns.
    told: BTreeMap<u32, (u32, u64)>,
}

impl Ran {
    /// What each VM of `members` has run by `now`, and the snapshot does not count yet, ns. `now` is ns of the
    /// monotonic clock, read just before the snapshot was taken.
    ///
    /// The time of a VM never goes back: the present runs are known by the pool's clock, and the kernel's account of
    /// them, which counts when they end, leaves out interrupts.
    pub fn uncounted(&mut self, snapshot: &Snapshot, members: &[Member], now: u64) -> BTreeMap<u32, u64> {
        let mut more = BTreeMap::new();
        for m in members {
            *more.entry(m.vm).or_insert(0) += present(snapshot, m.vcpu, now);
        }
        self.told.retain(|vm, _| more.contains_key(vm));
        for (&vm, more) in &mut more {
            let host = snapshot.vm(vm);
            let told = self.told.get(&vm).filter(|(generation, _)| *generation == host.generation);
            *more = told.map_or(0, |&(_, ns)| ns.saturating_sub(host.ran)).max(*more);
            self.told.insert(vm, (host.generation, host.ran + *more));
        }
        more
    }
}

/// Of the present run of VCPU `v`: what the host has not counted, ns.
fn present(snapshot: &Snapshot, v: u32, now: u64) -> u64 {
    let (host, pool) = (snapshot.vcpu(v), snapshot.pool_of(v));
    if host.ran != NEVER || !matches!(pool.state(v), State::Running | State::Descheduling) {
        return 0;
    }
    // `ran_before` was counted when a higher class interrupted the run. It is negative if the thread has run for longer
    // than the run: it was picked again.
    (pool.ran(v, now).wrapping_sub(host.ran_before) as i64).max(0) as u64
}

/// Now, ns of the monotonic clock, by which the host counts.
pub fn now() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes `at`. This clock exists, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;
    use crate::shared::{HOST_VM, HostVcpu, HostVm};
    use crate::status::members;
    use takt_policy::{Kind, Pool, Source};

    const MS: u64 = 1_000_000;

    /// VM 3 with the VCPUs 70 and 71: VCPU 70 runs on PCPU 0 since 10 ms.
    fn pool() -> Pool {
        let mut pool = Pool::new("credit").unwrap();
        for cpu in 0..2 {
            pool.cpu_add(1, cpu, cpu, 0, 0).unwrap();
        }
        pool.vm_add(1, HOST_VM, Kind::Host, 256).unwrap();
        pool.vm_add(1, 3, Kind::Guest, 256).unwrap();
        for v in [70, 71] {
            pool.vcpu_add(1, v, 3, v - 70, Kind::Guest).unwrap();
        }
        pool.wake(10 * MS, 70, Source::Other).unwrap();
        assert_eq!(pool.schedule(10 * MS, 0, 0).unwrap().0, Some(70));
        pool.started(10 * MS, 70).unwrap();
        pool
    }

    fn snapshot(pool: &Pool, vcpu: impl Fn(&mut HostVcpu), vm: impl Fn(&mut HostVm)) -> Snapshot {
        let mut bytes = Snapshot::initial(std::slice::from_ref(pool), Quota::default());
        Snapshot::set_vcpu(&mut bytes, 1, 70, vcpu);
        Snapshot::set_vm(&mut bytes, 1, 3, vm);
        Snapshot::new(bytes).unwrap()
    }

    /// What VM 3 has run that is not counted, ms.
    fn more(ran: &mut Ran, s: &Snapshot, now: u64) -> u64 {
        ran.uncounted(s, &members(s), now * MS)[&3] / MS
    }

    #[test]
    fn the_present_run_is_counted_up_to_now() {
        let of = |pool: &Pool, ran: u64, before: u64, now| {
            more(&mut Ran::default(), &snapshot(pool, |v| (v.ran, v.ran_before) = (ran, before), |_| {}), now)
        };
        let mut pool = pool();
        assert_eq!([10, 25, 9].map(|now| of(&pool, NEVER, 0, now)), [0, 15, 0], "since it began; never less");
        assert_eq!(of(&pool, NEVER, 5 * MS, 25), 10, "an interruption has counted 5 ms");
        assert_eq!(of(&pool, NEVER, (7 * MS).wrapping_neg(), 25), 22, "the thread was picked again after 7 ms");
        assert_eq!(of(&pool, 15 * MS, 0, 25), 0, "it has stopped, and is counted");
        // A higher class has the PCPU from 20 to 30 ms.
        pool.cpu_release(20 * MS, 0).unwrap();
        assert_eq!(of(&pool, NEVER, 0, 25), 10);
        pool.cpu_acquire(30 * MS, 0).unwrap();
        assert_eq!(of(&pool, NEVER, 0, 34), 14);
        pool.put(40 * MS, 70, false, 20 * MS).unwrap();
        assert_eq!(of(&pool, NEVER, 0, 50), 0, "it is blocked");
    }

    #[test]
    fn the_time_of_a_vm_never_goes_back() {
        let (mut ran, pool) = (Ran::default(), pool());
        let runs = snapshot(&pool, |v| v.ran = NEVER, |vm| vm.ran = 100 * MS);
        assert_eq!(more(&mut ran, &runs, 30), 20);
        // By the kernel's account it was 18 ms.
        let stopped = |ms| snapshot(&pool, |v| v.ran = 18 * MS, move |vm| vm.ran = ms * MS);
        assert_eq!(more(&mut ran, &stopped(118), 31), 2);
        assert_eq!(more(&mut ran, &stopped(119), 32), 1);
        assert_eq!(more(&mut ran, &stopped(125), 33), 0);
        // Another VM in its slot begins at 0.
        let next = snapshot(&pool, |v| v.ran = 0, |vm| (vm.generation, vm.ran) = (1, 3 * MS));
        assert_eq!(more(&mut ran, &next, 34), 0);
        assert_eq!(ran.told, [(3, (1, 3 * MS))].into());
        let none = snapshot(&Pool::new("credit").unwrap(), |_| {}, |_| {});
        assert!(ran.uncounted(&none, &members(&none), 35 * MS).is_empty() && ran.told.is_empty(), "it has gone");
    }

    #[test]
    fn the_clock_runs() {
        let before = now();
        assert!(before > 0 && now() >= before);
    }
}
