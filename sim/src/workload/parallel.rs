// SPDX-License-Identifier: GPL-2.0-only
//! Parallel programs: threads that compute, enter critical sections under one spin lock and meet at
//! barriers (rule P42, docs/scenarios.md); and the profiles of thirteen of them (PORIS-E5).
//!
//! The lock is a plain one: when it becomes free, it goes to the thread that came first of those
//! that spin *and run*. With tickets, the next thread in line would get it even while its VCPU
//! waits for a PCPU, which makes everything worse wherever VCPUs run apart. The plain lock is the
//! one that favours scheduling VCPUs together least. A thread that spins burns its VCPU's time, and
//! nothing reports this to the hypervisor.

use crate::constants::Constants;
use crate::engine::NEVER;
use crate::guest::{Body, OTHER, PRIO_BATCH};
use crate::machine::{Machine, Program};
use crate::result::{ParallelResult, VmResult};
use crate::rng::{Purpose, Rng};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::{Result, bail};
use takt_policy::State;

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

/// A known program: how it computes and synchronises.
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

/// Stand-ins for the thirteen programs of PARSEC, in the order of how often a thread synchronises
/// for the time that it computes. They keep the order and the kind that the suite's published
/// characterisation gives (which of locks and barriers, how many of them, how fine the grain), not
/// its numbers. No program keeps its lock for more than a fiftieth of the time, so that on PCPUs of
/// their own all of them scale.
pub const PROFILES: [Profile; 13] = [
    Profile {
        name: "swaptions",
        plan: plan(400 * MS, 5, 0, 0, true),
        reason: "independent simulations; the barrier models the join at the end",
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
        reason: "tiles from a shared queue, a barrier per frame",
    },
    Profile {
        name: "x264",
        plan: plan(15 * MS, 30, 10, 2 * US, true),
        reason: "frames wait for rows of earlier frames, modelled by the barrier; few locks",
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
        reason: "OpenMP loops over one tree: uneven parts, many short locks, a barrier per loop",
    },
    Profile {
        name: "bodytrack",
        plan: plan(8 * MS, 20, 20, US, true),
        reason: "several parallel kernels per frame, each with the lock of the thread pool and a barrier",
    },
    Profile {
        name: "facesim",
        plan: plan(4 * MS, 15, 10, US, true),
        reason: "hundreds of fork-join steps per frame, through a task queue",
    },
    Profile {
        name: "streamcluster",
        plan: plan(MS, 10, 2, US, true),
        reason: "most barriers of the suite (tens of thousands), between short phases",
    },
    Profile {
        name: "dedup",
        plan: plan(4 * MS, 25, 40, 2 * US, false),
        reason: "a pipeline over one hash table: many locks, held longer, no barriers",
    },
    Profile {
        name: "fluidanimate",
        plan: plan(3 * MS, 15, 60, 500, true),
        reason: "most locks of the suite (short, one per border cell), a barrier per phase",
    },
];

/// The workload's keys; what is not given is the profile's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parallel {
    threads: Option<u32>,
    profile: Option<&'static Profile>,
    compute: Option<u64>,
    spread: Option<u32>,
    locks: Option<u32>,
    held: Option<u64>,
    barrier: Option<bool>,
    /// How long a thread spins at the barrier before it sleeps, ns.
    pub spin: u64,
    /// Iterations of each thread; 0 = without end.
    pub work: u32,
}

/// Without a profile.
const DEFAULT: Plan = plan(10 * MS, 10, 1, 5 * US, true);

impl Default for Parallel {
    fn default() -> Self {
        Self {
            threads: None,
            profile: None,
            compute: None,
            spread: None,
            locks: None,
            held: None,
            barrier: None,
            spin: 50 * US,
            work: 0,
        }
    }
}

impl Parallel {
    /// What was given, else as the profile says.
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

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Computes, up to its next critical section or the end of the iteration.
    Compute,
    /// Spins for the lock.
    Lock,
    /// In the critical section.
    Held,
    /// Spins at the barrier.
    Barrier,
    /// Sleeps at the barrier, as in a futex.
    Asleep,
    /// The last one has come: it goes on.
    Passed,
    Done,
}

/// A thread of a parallel program.
#[derive(Debug)]
pub(crate) struct Member {
    team: u32,
    vcpu: u32,
    /// Number among the threads of its VCPU.
    thread: u8,
    phase: Phase,
    rng: Rng,
    /// What it computes before its next critical section, ns.
    part: u64,
    /// Critical sections to come in this iteration.
    locks: u32,
    iterations: u32,
}

/// The threads of a VM, their lock and their barrier.
#[derive(Debug)]
pub(crate) struct Team {
    plan: Plan,
    spin: u64,
    /// Iterations of each thread; 0 = without end.
    work: u32,
    /// Its members are consecutive.
    first: u32,
    threads: u32,
    locked: bool,
    /// Those that spin for the lock, in the order they came.
    waiting: Vec<u32>,
    /// How many wait at the barrier.
    arrived: u32,
    finished: u32,
    /// When the first thread began and the last one ended.
    began: Option<u64>,
    ended: Option<u64>,
    /// In the measured window: iterations of all threads, barriers that were passed, how often a
    /// thread slept at one.
    iterations: u64,
    barriers: u64,
    sleeps: u64,
}

impl Team {
    fn new(plan: Plan, spin: u64, work: u32, first: u32, threads: u32) -> Self {
        Self {
            plan,
            spin,
            work,
            first,
            threads,
            locked: false,
            waiting: Vec::new(),
            arrived: 0,
            finished: 0,
            began: None,
            ended: None,
            iterations: 0,
            barriers: 0,
            sleeps: 0,
        }
    }

    /// Figures start from nothing.
    fn reset(&mut self) {
        (self.iterations, self.barriers, self.sleeps) = (0, 0, 0);
    }

    /// Iterations of each thread, if they end.
    fn work(&self) -> Option<u32> {
        (self.work > 0).then_some(self.work)
    }
}

impl Member {
    fn new(team: u32, vcpu: u32, thread: u8, rng: Rng) -> Self {
        Self { team, vcpu, thread, phase: Phase::Passed, rng, part: 0, locks: 0, iterations: 0 }
    }

    /// Whether an interrupt may make it run.
    fn is_ready(&self) -> bool {
        !matches!(self.phase, Phase::Asleep | Phase::Done)
    }

    /// Another iteration: its work is cut into equal parts, each followed by a critical section.
    fn begin(&mut self, plan: &Plan) {
        let width = plan.compute / 100 * u64::from(plan.spread);
        let compute = plan.compute - width + self.rng.below(2 * width + 1);
        self.locks = plan.locks;
        self.part = (compute / u64::from(plan.locks.max(1))).max(1);
        self.phase = Phase::Compute;
    }
}

/// Parallel programs and their threads, which are the programs.
#[derive(Debug, Default)]
pub(crate) struct Teams {
    teams: Vec<Team>,
    members: Vec<Member>,
}

impl Spec for Parallel {
    fn about(&self, vcpus: u32) -> Option<String> {
        Some(format!("parallel program of {} threads", self.threads(vcpus)))
    }

    fn threads(&self, vcpus: u32) -> u32 {
        self.threads.unwrap_or(vcpus)
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }
}

impl Keys for Parallel {
    const KIND: Kind = Kind::Parallel;
    const DOC: &'static str = "a parallel program; its threads are spread over the VCPUs. See below";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[
        Key::<Self>::count("threads", (1, 4096), |p| p.threads, |p, n| p.threads = Some(n), "number of threads")
            .or("one per VCPU")
            .within("1 to 64 per VCPU"),
        Key::text(
            "profile",
            "a name of the table below",
            |_| None,
            |p, value| match PROFILES.iter().find(|profile| profile.name == value) {
                Some(profile) => {
                    p.profile = Some(profile);
                    Ok(())
                }
                None => bail!("unknown '{value}'; allowed: {}", PROFILES.map(|profile| profile.name).join(", ")),
            },
            "profile that sets the defaults of the next five keys",
        ),
        Key::time(
            "compute",
            (US, 10_000 * MS),
            |p| p.plan().compute.into(),
            |p, ns| p.compute = Some(ns),
            "mean compute time of a thread per iteration",
        ),
        Key::count(
            "spread",
            (0, 100),
            |p| p.plan().spread.into(),
            |p, n| p.spread = Some(n),
            "random deviation of an iteration from the mean, up to this many percent",
        ),
        Key::count(
            "locks",
            (0, 10_000),
            |p| p.plan().locks.into(),
            |p, n| p.locks = Some(n),
            "critical sections per iteration, evenly spread over the compute time",
        ),
        Key::time(
            "held",
            (0, 1_000 * MS),
            |p| p.plan().held.into(),
            |p, ns| p.held = Some(ns),
            "length of a critical section",
        ),
        Key::flag(
            "barrier",
            |p| p.plan().barrier,
            |p, on| p.barrier = Some(on),
            "all threads meet at the end of an iteration",
        ),
        Key::time(
            "spin",
            (0, 10_000 * MS),
            |p| p.spin.into(),
            |p, ns| p.spin = ns,
            "a thread that waits at the barrier spins for this long, then sleeps",
        ),
        Key::count(
            "work",
            (0, 1_000_000_000),
            |p| p.work.into(),
            |p, n| p.work = n,
            "iterations per thread after which the program ends; 0 = never",
        ),
    ];
}

impl Program for Parallel {
    type State = Teams;

    /// Its threads, one VCPU after the other.
    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (first, vcpus) = (m.vms[vm].first, m.vms[vm].vcpus);
        let all = m.programs.of::<Self>();
        let (team, at, threads) = (all.teams.len() as u32, all.members.len() as u32, self.threads(vcpus));
        m.programs.of_mut::<Self>().teams.push(Team::new(self.plan(), self.spin, self.work, at, threads));
        for n in 0..threads {
            let (v, id) = (first + n % vcpus, at + n);
            let thread = m.add_thread(v, Body::Program(Kind::Parallel, id), PRIO_BATCH, true);
            let rng = Rng::new(m.seed, Purpose::Team, id);
            m.programs.of_mut::<Self>().members.push(Member::new(team, v, thread, rng));
        }
        Ok(())
    }

    fn wakes(all: &Teams, n: u32, bit: u8) -> bool {
        bit == OTHER && all.members[n as usize].is_ready()
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        m.team_next(n)
    }

    fn done(m: &mut Machine, n: u32, cpu: u32) {
        m.team_done(n, cpu);
    }

    fn reset(all: &mut Teams) {
        all.teams.iter_mut().for_each(Team::reset);
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let vcpus = m.vms[vm].range();
        let member = m.programs.of::<Self>().members.iter().find(|member| vcpus.contains(&member.vcpu));
        let Some(team) = member.map(|member| &m.programs.of::<Self>().teams[member.team as usize]) else { return };
        let (began, ended) = (team.began.unwrap_or(m.until), team.ended.unwrap_or(m.until));
        let ran = ended.saturating_sub(began.max(m.from));
        out.parallel = Some(ParallelResult {
            threads: team.threads,
            iterations: team.iterations,
            iteration_ns: (ran * u64::from(team.threads)).checked_div(team.iterations).unwrap_or(0),
            time_ns: team.ended.map(|ended| ended - began),
            barriers: team.barriers,
            sleeps: team.sleeps,
            spun_ns: vcpus.map(|v| m.vcpus[v as usize].spun).sum(),
        });
    }
}

impl Machine<'_> {
    /// What thread `n` does next, and whether it only waits then; `None` if it sleeps.
    fn team_next(&mut self, n: u32) -> Option<(u64, bool)> {
        let Teams { teams, members } = self.programs.of_mut::<Parallel>();
        let member = &mut members[n as usize];
        let team = &mut teams[member.team as usize];
        match member.phase {
            Phase::Passed => {
                team.began.get_or_insert(self.now);
                member.begin(&team.plan);
                Some((member.part, false))
            }
            Phase::Compute => Some((member.part, false)),
            Phase::Lock if team.locked => {
                if !team.waiting.contains(&n) {
                    team.waiting.push(n);
                }
                Some((NEVER, true))
            }
            Phase::Lock => {
                team.waiting.retain(|&w| w != n);
                team.locked = true;
                member.phase = Phase::Held;
                Some((team.plan.held, false))
            }
            Phase::Held => Some((team.plan.held, false)),
            Phase::Barrier if team.spin > 0 => Some((team.spin, true)),
            Phase::Barrier => {
                member.phase = Phase::Asleep;
                team.sleeps += 1;
                None
            }
            Phase::Asleep | Phase::Done => None,
        }
    }

    /// Thread `n` on PCPU `cpu` has done what it was at.
    fn team_done(&mut self, n: u32, cpu: u32) {
        let Teams { teams, members } = self.programs.of_mut::<Parallel>();
        let member = &mut members[n as usize];
        let team = &mut teams[member.team as usize];
        match member.phase {
            Phase::Compute if member.locks > 0 => member.phase = Phase::Lock,
            Phase::Compute => self.iterated(n, cpu),
            Phase::Held => {
                member.locks -= 1;
                member.phase = Phase::Compute;
                team.locked = false;
                let (last, waiting) = (member.locks == 0, team.waiting.clone());
                waiting.into_iter().for_each(|w| self.look(w));
                if last {
                    self.iterated(n, cpu);
                }
            }
            // It has spun for long enough.
            Phase::Barrier => {
                member.phase = Phase::Asleep;
                team.sleeps += 1;
            }
            Phase::Lock | Phase::Passed | Phase::Asleep | Phase::Done => (),
        }
    }

    /// Thread `n` has come to the end of an iteration.
    fn iterated(&mut self, n: u32, cpu: u32) {
        let Teams { teams, members } = self.programs.of_mut::<Parallel>();
        let member = &mut members[n as usize];
        let team = &mut teams[member.team as usize];
        member.iterations += 1;
        team.iterations += 1;
        if !team.plan.barrier {
            return self.pass(n);
        }
        team.arrived += 1;
        if team.arrived < team.threads {
            member.phase = Phase::Barrier;
            return;
        }
        team.arrived = 0;
        team.barriers += 1;
        for other in team.first..team.first + team.threads {
            let (asleep, v, t) = {
                let m = &self.programs.of::<Parallel>().members[other as usize];
                (m.phase == Phase::Asleep, m.vcpu, m.thread)
            };
            self.pass(other);
            if other == n {
                continue;
            }
            if asleep {
                self.signal(v, t, cpu);
            } else {
                self.look(other);
            }
        }
    }

    /// Thread `n` goes on to its next iteration, or has done its work.
    fn pass(&mut self, n: u32) {
        let Teams { teams, members } = self.programs.of_mut::<Parallel>();
        let member = &mut members[n as usize];
        let team = &mut teams[member.team as usize];
        member.phase = Phase::Passed;
        if team.work().is_some_and(|work| member.iterations >= work) {
            member.phase = Phase::Done;
            team.finished += 1;
            if team.finished == team.threads {
                team.ended = Some(self.now);
            }
        }
    }

    /// What thread `n` spins for may be there.
    fn look(&mut self, n: u32) {
        let Member { vcpu: v, thread: t, phase, .. } = self.programs.of::<Parallel>().members[n as usize];
        let vcpu = &self.vcpus[v as usize];
        let running = vcpu.state == State::Running && vcpu.current == Some(t);
        // A thread that spins for the lock and does not run looks again when it does (`spins_on`).
        if running || phase != Phase::Lock {
            self.end_spin(v, t);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::set;

    #[test]
    fn keys_go_before_the_profile_in_whatever_order() {
        let mut p = Parallel::default();
        set(&mut p, "locks", "7").unwrap();
        set(&mut p, "profile", "streamcluster").unwrap();
        assert_eq!((p.plan().locks, p.plan().compute, p.spin, p.threads(4)), (7, MS, 50 * US, 4));
        set(&mut p, "barrier", "false").unwrap();
        set(&mut p, "threads", "9").unwrap();
        assert_eq!((p.plan().barrier, p.threads(4)), (false, 9));
    }

    #[test]
    fn what_is_refused_says_what_is_allowed() {
        let mut p = Parallel::default();
        for (key, value, want) in [
            ("profile", "doom", "unknown 'doom'; allowed: swaptions, blackscholes"),
            ("compute", "0", "0 is out of range; allowed: 1us to 10s"),
            ("spread", "101", "'101' is out of range; allowed: 0 to 100"),
            ("barrier", "maybe", "unknown 'maybe'; allowed: true, false"),
            ("lock", "1", "unknown key (did you mean `locks`?); allowed: type, threads"),
        ] {
            let error = format!("{:#}", set(&mut p, key, value).unwrap_err());
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
