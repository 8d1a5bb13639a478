// SPDX-License-Identifier: GPL-2.0-only
//! Parallel programs: threads that compute, enter critical sections under one lock and meet at barriers; and the profiles of thirteen of
//! them (PORIS-E5).

use crate::keys;
use anyhow::{Result, bail};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// What each thread does in every iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Mean of what it computes in an iteration, ns.
    pub compute: u64,
    /// Each iteration's is within this many percent of the mean.
    pub spread: u32,
    /// Critical sections of an iteration, and how long each is, ns.
    pub locks: u32,
    pub held: u64,
    /// Whether all threads meet at its end.
    pub barrier: bool,
}

/// A program whose ways are known.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    pub plan: Plan,
    /// Why these values.
    pub reason: &'static str,
}

const fn plan(compute: u64, spread: u32, locks: u32, held: u64, barrier: bool) -> Plan {
    Plan { compute, spread, locks, held, barrier }
}

/// Stand-ins for the thirteen programs of PARSEC, in the order of how often a thread synchronises for the time that it computes. They keep the
/// order and the kind that the suite's published characterisation gives (which of locks and barriers, how many of them, how fine the
/// grain), not its numbers. No program keeps its lock for more than a fiftieth of the time, so that on PCPUs of their own all of them scale.
pub const PROFILES: [Profile; 13] = [
    Profile {
        name: "swaptions",
        plan: plan(400 * MS, 5, 0, 0, true),
        reason: "independent simulations, joined at the end: the barrier stands for the join",
    },
    Profile {
        name: "blackscholes",
        plan: plan(200 * MS, 5, 0, 0, true),
        reason: "equal parts of a portfolio, a barrier after each pass, no locks",
    },
    Profile {
        name: "canneal",
        plan: plan(10 * MS, 10, 0, 0, true),
        reason: "lock-free swaps, a barrier at each step of the temperature",
    },
    Profile {
        name: "raytrace",
        plan: plan(60 * MS, 20, 16, 2 * US, true),
        reason: "tiles from a shared queue, a barrier for each frame",
    },
    Profile {
        name: "x264",
        plan: plan(15 * MS, 30, 10, 2 * US, true),
        reason: "frames wait for rows of those before, which the barrier stands for; few locks",
    },
    Profile {
        name: "ferret",
        plan: plan(20 * MS, 25, 20, 2 * US, false),
        reason: "a pipeline of six stages with queues between them: locks, no barriers",
    },
    Profile {
        name: "vips",
        plan: plan(20 * MS, 20, 20, 2 * US, false),
        reason: "regions of an image through a pipeline: locks on shared buffers, no barriers",
    },
    Profile {
        name: "freqmine",
        plan: plan(100 * MS, 20, 100, US, true),
        reason: "OpenMP loops over one tree: uneven parts, many short locks, a barrier where a loop ends",
    },
    Profile {
        name: "bodytrack",
        plan: plan(8 * MS, 20, 20, US, true),
        reason: "several parallel kernels a frame, each with the pool's lock and a barrier",
    },
    Profile {
        name: "facesim",
        plan: plan(4 * MS, 15, 10, US, true),
        reason: "hundreds of fork-join steps a frame, through a task queue",
    },
    Profile {
        name: "streamcluster",
        plan: plan(MS, 10, 2, US, true),
        reason: "most barriers of the suite, ten thousands of them, between short phases",
    },
    Profile {
        name: "dedup",
        plan: plan(4 * MS, 25, 40, 2 * US, false),
        reason: "a pipeline over one hash table: many locks, held for longer, no barriers",
    },
    Profile {
        name: "fluidanimate",
        plan: plan(3 * MS, 15, 60, 500, true),
        reason: "most locks of the suite, a short one for each border cell, and a barrier after each phase of a frame",
    },
];

/// The workload's keys; what is not given is the profile's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parallel {
    threads: Option<u32>,
    profile: Option<&'static Profile>,
    compute: Option<u64>,
    spread: Option<u32>,
    locks: Option<u32>,
    held: Option<u64>,
    barrier: Option<bool>,
    /// How long a thread spins at the barrier before it sleeps; `None` = 50 us.
    spin: Option<u64>,
    /// Iterations of each thread; 0 = without end.
    pub work: u32,
}

pub const KEYS: &str = "type, threads, profile, compute, spread, locks, held, barrier, spin, work";
/// Without a profile.
const DEFAULT: Plan = plan(10 * MS, 10, 1, 5 * US, true);
const SPIN: u64 = 50 * US;

impl Parallel {
    /// Sets one key.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "threads" => self.threads = Some(keys::count(value, 1, 4096)?),
            "profile" => match PROFILES.iter().find(|p| p.name == value) {
                Some(profile) => self.profile = Some(profile),
                None => {
                    bail!(
                        "unknown '{value}'; allowed: {}",
                        PROFILES.iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
                    )
                }
            },
            "compute" => self.compute = Some(keys::time(value, US, 10_000 * MS)?),
            "spread" => self.spread = Some(keys::count(value, 0, 100)?),
            "locks" => self.locks = Some(keys::count(value, 0, 10_000)?),
            "held" => self.held = Some(keys::time(value, 0, 1_000 * MS)?),
            "barrier" => self.barrier = Some(keys::word(value, &[("true", true), ("false", false)])?),
            "spin" => self.spin = Some(keys::time(value, 0, 10_000 * MS)?),
            "work" => self.work = keys::count(value, 0, 1_000_000_000)?,
            _ => bail!("unknown key; allowed: {KEYS}"),
        }
        Ok(())
    }

    /// Threads on so many VCPUs.
    pub fn threads(&self, vcpus: u32) -> u32 {
        self.threads.unwrap_or(vcpus)
    }

    pub fn spin(&self) -> u64 {
        self.spin.unwrap_or(SPIN)
    }

    pub fn plan(&self) -> Plan {
        let p = self.profile.map_or(DEFAULT, |p| p.plan);
        Plan {
            compute: self.compute.unwrap_or(p.compute),
            spread: self.spread.unwrap_or(p.spread),
            locks: self.locks.unwrap_or(p.locks),
            held: self.held.unwrap_or(p.held),
            barrier: self.barrier.unwrap_or(p.barrier),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_before_the_profile_in_whatever_order() {
        let mut p = Parallel::default();
        p.set("locks", "7").unwrap();
        p.set("profile", "streamcluster").unwrap();
        assert_eq!((p.plan().locks, p.plan().compute, p.spin(), p.threads(4)), (7, MS, SPIN, 4));
        p.set("barrier", "false").unwrap();
        p.set("threads", "9").unwrap();
        assert_eq!((p.plan().barrier, p.threads(4)), (false, 9));
    }

    #[test]
    fn what_is_refused_says_what_is_allowed() {
        let mut p = Parallel::default();
        for (key, value, want) in [
            ("profile", "doom", "unknown 'doom'; allowed: swaptions, blackscholes"),
            ("compute", "0", "0 is out of range; allowed: 1us .. 10s"),
            ("spread", "101", "'101' is out of range; allowed: 0 .. 100"),
            ("barrier", "maybe", "unknown 'maybe'; allowed: true, false"),
            ("lock", "1", "unknown key; allowed: type, threads"),
        ] {
            let error = format!("{:#}", p.set(key, value).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn profiles_are_in_the_order_of_their_synchronisation() {
        let rate = |p: &Plan| (u64::from(p.locks) + u64::from(p.barrier)) * 1_000_000 * MS / p.compute;
        assert!(PROFILES.is_sorted_by_key(|p| rate(&p.plan)));
        assert!(PROFILES.iter().all(|p| u64::from(p.plan.locks) * p.plan.held * 50 <= p.plan.compute));
        let names: std::collections::BTreeSet<_> = PROFILES.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), 13);
    }
}
