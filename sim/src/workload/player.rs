// SPDX-License-Identifier: GPL-2.0-only
//! A media player that never drops a frame (PORIS-E3, E4), after MPlayer: its threads decode a frame together, each
//! a part of each step, and meet at the end of a step. The first thread then waits for the frame's time, shows it, and
//! all decode the next one. While it is behind, it shows each frame as soon as it is decoded, so playing takes longer.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_BATCH};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::result::VmResult;
use crate::rng::{Purpose, Rng};
use crate::spec::{Entry, Key, Keys, Kind, Spec};
use crate::workload::frames::Frames;
use anyhow::{Result, bail};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Player {
    pub threads: u32,
    /// From frame to frame, and of all frames together.
    pub period: u64,
    pub length: u64,
    /// CPU time of all threads for a frame.
    pub work: u64,
    /// Percent by which a thread's part of a step differs at most from its share.
    pub spread: u32,
    pub steps: u32,
    /// A thread that waits for another one spins for so long, then sleeps.
    pub spin: u64,
    /// CPU time to show a frame.
    pub show: u64,
}

impl Default for Player {
    fn default() -> Self {
        Self {
            threads: 2,
            period: 34 * MS,
            length: 60 * SECOND,
            work: 6 * MS,
            spread: 25,
            steps: 4,
            spin: SECOND,
            show: 500 * US,
        }
    }
}

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Decodes its part of the step.
    Decode,
    /// Waits for the others, spinning.
    Spin,
    /// Waits for the others, or for the frame's time.
    Asleep,
    /// The others have come, or the frame is shown: its part of the next step is to be decoded.
    Passed,
    /// The first thread: the frame is to be shown.
    Due,
    /// It shows the frame.
    Show,
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Decoder {
    film: u32,
    vcpu: u32,
    /// Number among the threads of its VCPU.
    thread: u8,
    phase: Phase,
    rng: Rng,
}

/// The player of a VM.
#[derive(Debug)]
pub(crate) struct Film {
    spec: Player,
    /// Its decoders follow one another.
    first: u32,
    /// Of the present frame: when it is due, the steps that are complete, and how many threads have come to the end of this one.
    due: u64,
    step: u32,
    arrived: u32,
    /// Frames that are still to be shown.
    left: u64,
    began: u64,
    ended: Option<u64>,
    frames: Frames,
}

/// Players and their threads, which are the programs.
#[derive(Debug, Default)]
pub(crate) struct Films {
    films: Vec<Film>,
    decoders: Vec<Decoder>,
}

impl Films {
    fn of(&mut self, n: u32) -> (&mut Film, &mut Decoder) {
        let decoder = &mut self.decoders[n as usize];
        (&mut self.films[decoder.film as usize], decoder)
    }
}

impl Spec for Player {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some(format!("media player of {} threads", self.threads))
    }

    fn validate(&self, vm: &Entry) -> Result<()> {
        if self.threads > vm.vcpus {
            bail!("vm.{}.workload.threads: {}; allowed: 1 to {}, one per VCPU", vm.name, self.threads, vm.vcpus);
        }
        Ok(())
    }

    fn threads(&self, _vcpus: u32) -> u32 {
        self.threads
    }
}

impl Keys for Player {
    const KIND: Kind = Kind::Player;
    const DOC: &'static str = "a media player that never drops a frame, modelled on MPlayer. See below";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::count(
            "threads",
            (1, 64),
            |p| p.threads.into(),
            |p, n| p.threads = n,
            "threads that decode, each on a VCPU of its own",
        ),
        Key::time("period", (MS, SECOND), |p| p.period.into(), |p, ns| p.period = ns, "time between frames"),
        Key::time(
            "length",
            (SECOND, 3_600 * SECOND),
            |p| p.length.into(),
            |p, ns| p.length = ns,
            "length of the video",
        ),
        Key::time(
            "work",
            (US, 10 * SECOND),
            |p| p.work.into(),
            |p, ns| p.work = ns,
            "CPU time of all threads together per frame",
        ),
        Key::count(
            "spread",
            (0, 100),
            |p| p.spread.into(),
            |p, n| p.spread = n,
            "random deviation of a thread's part from the mean, up to this many percent",
        ),
        Key::count("steps", (1, 1_000), |p| p.steps.into(), |p, n| p.steps = n, "how often the threads meet per frame"),
        Key::time(
            "spin",
            (0, 10 * SECOND),
            |p| p.spin.into(),
            |p, ns| p.spin = ns,
            "a thread that waits for another one spins for this long, then sleeps",
        ),
        Key::time(
            "show",
            (0, SECOND),
            |p| p.show.into(),
            |p, ns| p.show = ns,
            "work of the first thread to show a frame",
        ),
    ];
}

impl Program for Player {
    type State = Films;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let vcpu = m.vms[vm].first;
        let all = m.programs.of::<Self>();
        let (film, first) = (all.films.len() as u32, all.decoders.len() as u32);
        for n in 0..self.threads {
            let id = first + n;
            let thread = m.add_thread(vcpu + n, Body::Program(Kind::Player, id), PRIO_BATCH, true);
            let rng = Rng::new(m.seed, Purpose::Film, id);
            let decoder = Decoder { film, vcpu: vcpu + n, thread, phase: Phase::Asleep, rng };
            m.programs.of_mut::<Self>().decoders.push(decoder);
        }
        let film = Film {
            spec: self.clone(),
            first,
            due: 0,
            step: 0,
            arrived: 0,
            left: 0,
            began: 0,
            ended: None,
            frames: Frames::default(),
        };
        m.programs.of_mut::<Self>().films.push(film);
        Ok(())
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let (vcpus, at) = (m.vcpus_of(vms), m.now + SETTLE);
        let Films { films, decoders } = m.programs.of_mut::<Self>();
        for film in films {
            let members = film.first..film.first + film.spec.threads;
            if !vcpus.contains(&decoders[film.first as usize].vcpu) {
                continue;
            }
            // The first frame has its period, too.
            (film.began, film.due, film.left) =
                (at, at + film.spec.period, film.spec.length.div_ceil(film.spec.period));
            (film.step, film.arrived, film.ended) = (0, 0, None);
            for n in members {
                decoders[n as usize].phase = Phase::Asleep;
                m.queue.push(at, What::Program(Kind::Player), n);
            }
        }
    }

    /// The video begins, or it is a frame's time.
    fn due(m: &mut Machine, n: u32) {
        let now = m.now;
        let (film, decoder) = m.programs.of_mut::<Self>().of(n);
        let v = decoder.vcpu;
        decoder.phase = if now < film.due { Phase::Passed } else { Phase::Due };
        if m.is_there(v) {
            m.expire(v);
        }
    }

    fn wakes(all: &Films, n: u32, bit: u8) -> bool {
        bit == OTHER && all.decoders[n as usize].phase != Phase::Asleep
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let (film, decoder) = m.programs.of_mut::<Self>().of(n);
        match decoder.phase {
            Phase::Passed => {
                decoder.phase = Phase::Decode;
                let part = film.spec.work / u64::from(film.spec.threads * film.spec.steps);
                let width = part / 100 * u64::from(film.spec.spread);
                Some(((part - width + decoder.rng.below(2 * width + 1)).max(1), false))
            }
            Phase::Spin => Some((film.spec.spin, true)),
            Phase::Due => {
                decoder.phase = Phase::Show;
                Some((film.spec.show, false))
            }
            Phase::Decode | Phase::Asleep | Phase::Show => None,
        }
    }

    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let (now, from) = (m.now, m.from);
        let (film, decoder) = m.programs.of_mut::<Self>().of(n);
        match decoder.phase {
            Phase::Decode => {
                film.arrived += 1;
                if film.arrived < film.spec.threads {
                    decoder.phase = if film.spec.spin > 0 { Phase::Spin } else { Phase::Asleep };
                    return;
                }
                (film.arrived, film.step) = (0, film.step + 1);
                if film.step < film.spec.steps {
                    return pass(m, n, cpu);
                }
                decoded(m, n, cpu);
            }
            Phase::Spin => decoder.phase = Phase::Asleep,
            Phase::Show => {
                film.frames.show(now, film.due, from, film.spec.period);
                film.due += film.spec.period;
                (film.step, film.left) = (0, film.left - 1);
                if film.left == 0 {
                    film.ended = Some(now);
                    decoder.phase = Phase::Asleep;
                    return;
                }
                pass(m, n, cpu);
            }
            // It was called while it spun.
            Phase::Asleep | Phase::Passed | Phase::Due => (),
        }
    }

    fn reset(all: &mut Films) {
        all.films.iter_mut().for_each(|film| film.frames = Frames::default());
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let Films { films, decoders } = m.programs.of::<Self>();
        let vcpus = m.vms[vm].range();
        let own = films.iter().find(|film| vcpus.contains(&decoders[film.first as usize].vcpu));
        out.video = own.map(|film| {
            let end = film.ended.unwrap_or(m.until).max(m.from);
            film.frames.result(end - m.from, film.ended.map(|end| end - film.began))
        });
    }
}

/// The threads of `n`'s player begin the next step; `n` is on PCPU `cpu`.
fn pass(m: &mut Machine, n: u32, cpu: u32) {
    let (film, _) = m.programs.of_mut::<Player>().of(n);
    for other in film.first..film.first + film.spec.threads {
        let (_, decoder) = m.programs.of_mut::<Player>().of(other);
        let (slept, v, t) = (decoder.phase == Phase::Asleep, decoder.vcpu, decoder.thread);
        let spun = std::mem::replace(&mut decoder.phase, Phase::Passed) == Phase::Spin;
        if other == n {
            continue;
        }
        if slept {
            m.signal(v, t, cpu);
        } else if spun {
            m.end_spin(v, t);
        }
    }
}

/// Thread `n`, on PCPU `cpu`, was the last one to decode its part of the frame: the first one shows it, at its time.
fn decoded(m: &mut Machine, n: u32, cpu: u32) {
    let now = m.now;
    let Films { films, decoders } = m.programs.of_mut::<Player>();
    let film = &films[decoders[n as usize].film as usize];
    let (first, wait) = (film.first, film.due > now);
    let due = film.due;
    if n != first {
        decoders[n as usize].phase = if film.spec.spin > 0 { Phase::Spin } else { Phase::Asleep };
    }
    let decoder = &mut decoders[first as usize];
    let (was, v, t) = (decoder.phase, decoder.vcpu, decoder.thread);
    decoder.phase = if wait { Phase::Asleep } else { Phase::Due };
    if wait {
        m.queue.push(due, What::Program(Kind::Player), first);
    } else if n != first && was == Phase::Asleep {
        m.signal(v, t, cpu);
    }
    if n != first && was == Phase::Spin {
        m.end_spin(v, t);
    }
}
