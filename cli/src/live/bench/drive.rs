// SPDX-License-Identifier: GPL-2.0-only
//! The order of a measurement: phases by turns, each with a warm-up, until the last one or a reason to end.

use std::time::Duration;
use takt_control::bench::Scheduler;

/// Phases of a measurement: twice ABBA.
pub const PHASES: u32 = 8;
/// A warm-up takes so much at most, and a quarter of its phase at most.
const WARM_UP: Duration = Duration::from_secs(10);

/// How long the phases take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub phase: Duration,
    pub warm_up: Duration,
}

impl Times {
    /// Of a measurement that takes `total`, without the time in which Takt is loaded.
    pub fn of(total: Duration) -> Self {
        let phase = total / PHASES;
        Self { phase, warm_up: WARM_UP.min(phase / 4) }
    }
}

/// What is done, or why the measurement ends.
pub type Step<T> = Result<T, String>;

/// A host that is measured.
pub trait Bench {
    /// The counters of a moment.
    type Reading;
    /// Time since some moment.
    fn now(&self) -> Duration;
    /// Returns when it is `at`.
    fn wait_until(&mut self, at: Duration) -> Step<()>;
    /// Puts a scheduler in force, and returns when it is. After an error the kernel's is.
    fn enter(&mut self, scheduler: Scheduler) -> Step<()>;
    fn read(&mut self) -> Step<Self::Reading>;
    /// Says that phase `n` begins, from 0.
    fn tell(&mut self, n: u32, scheduler: Scheduler);
}

/// The measured part of a phase.
#[derive(Debug, PartialEq)]
pub struct Measured<R> {
    pub scheduler: Scheduler,
    pub from: R,
    pub to: R,
}

/// All phases that ran to their end, and why there are no more, if some are missing. The kernel's scheduler is back then.
pub fn drive<B: Bench>(bench: &mut B, times: Times) -> (Vec<Measured<B::Reading>>, Option<String>) {
    let (mut done, mut in_force) = (Vec::new(), Scheduler::Kernel);
    let mut why = (0..PHASES).find_map(|n| phase(bench, n, times, &mut in_force).map(|one| done.push(one)).err());
    if in_force == Scheduler::Takt {
        let left = bench.enter(Scheduler::Kernel).err();
        why = why.or(left);
    }
    (done, why)
}

fn phase<B: Bench>(bench: &mut B, n: u32, times: Times, in_force: &mut Scheduler) -> Step<Measured<B::Reading>> {
    let scheduler = Scheduler::of_phase(n);
    bench.tell(n, scheduler);
    // What two phases have in common stays: nothing is gained by another load.
    if scheduler != *in_force {
        bench.enter(scheduler)?;
        *in_force = scheduler;
    }
    let begin = bench.now();
    bench.wait_until(begin + times.warm_up)?;
    let from = bench.read()?;
    bench.wait_until(begin + times.phase)?;
    Ok(Measured { scheduler, from, to: bench.read()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Scheduler::{Kernel, Takt};

    /// A host with a clock that goes on only while the measurement waits.
    #[derive(Default)]
    struct Fake {
        now: Duration,
        in_force: Vec<Scheduler>,
        /// The operator aborts then.
        abort: Option<Duration>,
        /// Takt does not load, or does not leave.
        refuses: bool,
        stays: bool,
        told: Vec<u32>,
    }

    /// What takes Takt to load.
    const LOAD: Duration = Duration::from_secs(7);

    impl Bench for Fake {
        type Reading = (Duration, Scheduler);
        fn now(&self) -> Duration {
            self.now
        }
        fn wait_until(&mut self, at: Duration) -> Step<()> {
            assert!(at >= self.now);
            match self.abort {
                Some(abort) if abort <= at => {
                    self.now = self.now.max(abort);
                    Err("aborted".into())
                }
                _ => {
                    self.now = at;
                    Ok(())
                }
            }
        }
        fn enter(&mut self, scheduler: Scheduler) -> Step<()> {
            if scheduler == Takt {
                self.now += LOAD;
            }
            if (self.refuses && scheduler == Takt) || (self.stays && scheduler == Kernel) {
                return Err(format!("no {scheduler:?}"));
            }
            self.in_force.push(scheduler);
            Ok(())
        }
        fn read(&mut self) -> Step<Self::Reading> {
            Ok((self.now, *self.in_force.last().unwrap_or(&Kernel)))
        }
        fn tell(&mut self, n: u32, _: Scheduler) {
            self.told.push(n);
        }
    }

    fn times() -> Times {
        Times::of(Duration::from_secs(800))
    }

    #[test]
    fn phases_follow_in_order_and_warm_ups_do_not_count() {
        let mut bench = Fake::default();
        let (done, why) = drive(&mut bench, times());
        assert_eq!(why, None);
        let order: Vec<_> = done.iter().map(|m| m.scheduler).collect();
        assert_eq!(order, [Kernel, Takt, Takt, Kernel, Kernel, Takt, Takt, Kernel]);
        for measured in &done {
            assert_eq!((measured.from.1, measured.to.1), (measured.scheduler, measured.scheduler));
            assert_eq!(measured.to.0 - measured.from.0, Duration::from_secs(90));
        }
        // Loaded twice, in no measured time, and out at the end.
        assert_eq!(bench.in_force, [Takt, Kernel, Takt, Kernel]);
        assert_eq!(bench.now, Duration::from_secs(800) + 2 * LOAD);
        assert_eq!(bench.told, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn an_abort_unloads_takt_and_keeps_whole_phases_only() {
        for (at, whole, in_force) in [(50, 0, &[][..]), (150, 1, &[Takt, Kernel]), (350, 3, &[Takt, Kernel])] {
            let mut bench = Fake { abort: Some(Duration::from_secs(at)), ..Fake::default() };
            let (done, why) = drive(&mut bench, times());
            assert_eq!((done.len(), why.as_deref()), (whole, Some("aborted")), "{at}");
            assert_eq!(bench.in_force, in_force, "{at}");
            // Nothing is waited for any more.
            assert!(bench.now <= Duration::from_secs(at), "{at}: {:?}", bench.now);
        }
    }

    #[test]
    fn takt_that_does_not_load_or_leave_ends_it() {
        let (done, why) = drive(&mut Fake { refuses: true, ..Fake::default() }, times());
        assert_eq!((done.len(), why.as_deref()), (1, Some("no Takt")));
        let (done, why) = drive(&mut Fake { stays: true, ..Fake::default() }, times());
        assert_eq!((done.len(), why.as_deref()), (3, Some("no Kernel")));
    }

    #[test]
    fn a_warm_up_is_short_where_phases_are() {
        let times = Times::of(Duration::from_secs(60));
        assert_eq!((times.phase, times.warm_up), (Duration::from_millis(7500), Duration::from_millis(1875)));
        assert_eq!(Times::of(Duration::from_secs(600)).warm_up, WARM_UP);
    }
}
