// SPDX-License-Identifier: GPL-2.0-only
//! Which VCPU waits for a PCPU, how long and for what, by following a log natively: the pool is always as it was on its host.

use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use takt_policy::{BY_HIGHER, Class, NCPU, NEVER, NIL, NVCPU, Op, OpCode, Pool, Record, State};

/// Changes of a PCPU that are kept to explain a wait: more than there are in most waits of a second.
const CHANGES: usize = 4096;

/// What had a PCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Had {
    /// A switch, or the time before the log.
    Unknown,
    Idle,
    /// A VCPU or I/O thread, or an entity of the host's threads, of that VM; its class when it began to run.
    Vcpu {
        vm: u16,
        class: Class,
    },
    /// A thread outside the pool (0: its number is not known), and whether it is one of a higher class.
    Taken {
        thread: u32,
        higher: bool,
    },
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub vcpu: u16,
    pub vm: u16,
    /// Where it runs now.
    pub cpu: u16,
    /// ns.
    pub from: u64,
    pub to: u64,
    /// In which it entered its queue.
    pub class: Class,
    /// For how long of it its cap or its budget kept it from running, ns.
    pub parked: u64,
    /// Events that would have promoted it, had its VM had credit or budget for it.
    pub refused: u64,
}

/// What a step tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Waited(Waited),
    /// A VCPU of that VM stopped after so many ns.
    Ran(u16, u64),
    /// An event promoted no VCPU of that VM.
    Refused(u16),
}

#[derive(Clone, Copy)]
struct Waiting {
    from: u64,
    parked: u64,
    parked_from: Option<u64>,
    refused: u64,
}

/// A pool and what its log has told until now.
pub struct Follower {
    pool: Pool,
    waiting: Box<[Option<Waiting>; NVCPU as usize]>,
    /// Those that wait.
    who: Vec<u16>,
    runs_since: Box<[Option<u64>; NVCPU as usize]>,
    had: Vec<VecDeque<(u64, Had)>>,
}

impl Follower {
    /// Begins with this pool. Since when VCPUs wait and run is not known: since now.
    pub fn new(pool: Pool) -> Self {
        let now = pool.now();
        let mut new = Self {
            waiting: Box::new([None; NVCPU as usize]),
            who: Vec::new(),
            runs_since: Box::new([None; NVCPU as usize]),
            had: vec![VecDeque::from([(now, Had::Unknown)]); NCPU as usize],
            pool,
        };
        for v in 0..NVCPU {
            new.look(v, now);
            new.runs_since[v as usize] = (new.pool.state(v) == State::Running).then_some(now);
        }
        for cpu in 0..NCPU {
            let runs = new.pool.cur(cpu).filter(|&v| new.pool.state(v) == State::Running);
            if new.pool.pcpu(cpu).taken {
                new.has(cpu, now, Had::Taken { thread: 0, higher: false });
            } else if let Some(v) = runs {
                new.has(cpu, now, new.vcpu(v));
            }
        }
        new
    }

    /// The pool after the last step.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Follows an operation; `told` gets what it says.
    ///
    /// # Errors
    /// The native core decides otherwise: what follows is not known any more.
    pub fn step(&mut self, r: &Record, told: &mut Vec<Told>) -> Result<()> {
        let (op, code) = (&r.op, OpCode::from_u16(r.op.op).context("an unknown operation")?);
        let (v, cpu) = (u32::from(op.vcpu), u32::from(op.cpu));
        let refusals = matches!(code, OpCode::Event | OpCode::Wake | OpCode::Put).then(|| self.refusals(v));
        let res = self.pool.op(*op);
        ensure!(res == r.res, "operation {}: the native core gives {res:?}, the host's {:?}", op.seq, r.res);
        if res.ret != 0 {
            return Ok(());
        }
        let now = self.pool.now();
        if let Some((vm, before)) = refusals.flatten() {
            self.refused(v, vm, before, told);
        }
        match code {
            OpCode::Schedule if res.next == NIL => self.has(cpu, now, Had::Idle),
            OpCode::Started => self.started(v, now, told),
            OpCode::CpuRelease => self.has(cpu, now, taken(op)),
            OpCode::CpuAcquire | OpCode::CpuRemove => {
                let runs = self.pool.cur(cpu).filter(|&v| self.pool.state(v) == State::Running);
                self.has(cpu, now, runs.map_or(Had::Unknown, |v| self.vcpu(v)));
            }
            OpCode::Put => {
                if let Some(since) = self.runs_since[v as usize].take() {
                    let ran = if op.arg[1] == NEVER { now.saturating_sub(since) } else { op.arg[1] };
                    told.push(Told::Ran(self.vm_of(v), ran));
                }
                self.look(v, now);
            }
            OpCode::Epoch => *self = Self::new(self.pool.clone()),
            OpCode::TimerPool | OpCode::TimerCpu | OpCode::Adjust => self.look_at_all(now),
            OpCode::Wake
            | OpCode::Event
            | OpCode::Block
            | OpCode::Pause
            | OpCode::Unpause
            | OpCode::Refused
            | OpCode::VcpuRemove => self.look(v, now),
            _ => {}
        }
        Ok(())
    }

    /// What had a PCPU between two times (ns), and for how long, the longest first: as far as that is still known.
    pub fn had(&self, cpu: u16, from: u64, to: u64) -> Vec<(Had, u64)> {
        let all = &self.had[usize::from(cpu) % NCPU as usize];
        let mut sums: Vec<(Had, u64)> = Vec::new();
        let mut until = to;
        for &(since, what) in all.iter().rev() {
            let begin = since.max(from);
            if until > begin {
                match sums.iter_mut().find(|(had, _)| *had == what) {
                    Some((_, ns)) => *ns += until - begin,
                    None => sums.push((what, until - begin)),
                }
                until = begin;
            }
            if since <= from {
                break;
            }
        }
        if until > from {
            sums.push((Had::Unknown, until - from));
        }
        sums.sort_by_key(|&(had, ns)| (std::cmp::Reverse(ns), had));
        sums
    }

    /// A VCPU's VM; of one that is not there: no VM has this number.
    fn vm_of(&self, v: u32) -> u16 {
        self.pool.vcpu_stat(v).map_or(NIL as u16, |s| s.vm as u16)
    }

    fn vcpu(&self, v: u32) -> Had {
        Had::Vcpu { vm: self.vm_of(v), class: self.pool.class(v) }
    }

    fn has(&mut self, cpu: u32, now: u64, what: Had) {
        let all = &mut self.had[cpu as usize % NCPU as usize];
        if all.len() == CHANGES {
            all.pop_front();
        }
        all.push_back((now, what));
    }

    /// The VM of a VCPU, if it is real-time, and how many of its events promoted nobody.
    fn refusals(&self, v: u32) -> Option<(u16, u64)> {
        let vm = self.pool.vcpu_stat(v)?.vm;
        let stat = self.pool.vm_stat(vm as u32).filter(|s| s.rt != 0 && s.host == 0)?;
        Some((vm as u16, stat.refusals))
    }

    fn refused(&mut self, v: u32, vm: u16, before: u64, told: &mut Vec<Told>) {
        let now = self.pool.vm_stat(vm.into()).map_or(before, |s| s.refusals);
        if now <= before {
            return;
        }
        told.push(Told::Refused(vm));
        if let Some(waiting) = &mut self.waiting[v as usize] {
            waiting.refused += now - before;
        }
    }

    fn started(&mut self, v: u32, now: u64, told: &mut Vec<Told>) {
        let cpu = self.pool.vcpu_cpu(v);
        self.runs_since[v as usize] = Some(now);
        self.has(cpu, now, self.vcpu(v));
        let Some(w) = self.forget(v) else { return };
        let parked = w.parked + w.parked_from.map_or(0, |from| now.saturating_sub(from));
        let (class, vm) = (self.pool.entered(v), self.vm_of(v));
        let (vcpu, cpu) = (v as u16, cpu as u16);
        told.push(Told::Waited(Waited { vcpu, vm, cpu, from: w.from, to: now, class, parked, refused: w.refused }));
    }

    fn forget(&mut self, v: u32) -> Option<Waiting> {
        let w = self.waiting[v as usize].take()?;
        self.who.retain(|&other| u32::from(other) != v);
        Some(w)
    }

    /// Whether a VCPU waits now, and may not run.
    fn look(&mut self, v: u32, now: u64) {
        let state = self.pool.state(v);
        match state {
            State::Queued | State::Parked => {
                let parked = state == State::Parked;
                match &mut self.waiting[v as usize] {
                    Some(w) if parked => w.parked_from = w.parked_from.or(Some(now)),
                    Some(w) => w.parked += w.parked_from.take().map_or(0, |from| now.saturating_sub(from)),
                    None => {
                        let parked_from = parked.then_some(now);
                        self.waiting[v as usize] = Some(Waiting { from: now, parked: 0, parked_from, refused: 0 });
                        self.who.push(v as u16);
                    }
                }
            }
            State::Picked => {}
            _ => drop(self.forget(v)),
        }
    }

    fn look_at_all(&mut self, now: u64) {
        for n in 0..self.who.len() {
            let v = u32::from(self.who[n]);
            if matches!(self.pool.state(v), State::Queued | State::Parked) {
                self.look(v, now);
            }
        }
    }
}

fn taken(op: &Op) -> Had {
    Had::Taken { thread: op.arg[0] as u32, higher: op.arg[0] & BY_HIGHER != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::{Kind, Source, param};

    const MS: u64 = 1_000_000;

    /// VMs 1 and 2 with a VCPU each, 10 and 20, on PCPU 0.
    fn host() -> (Follower, Pool) {
        let mut p = Pool::new("credit").unwrap();
        p.cpu_add(1, 0, 0, 0, 0).unwrap();
        for vm in [1, 2] {
            p.vm_add(1, vm, Kind::Guest, 256).unwrap();
            p.vcpu_add(1, vm * 10, vm, 0, Kind::Guest).unwrap();
        }
        p.epoch(2).unwrap();
        p.record();
        (Follower::new(p.clone()), p)
    }

    fn follow(f: &mut Follower, p: &mut Pool) -> Vec<Told> {
        let mut told = Vec::new();
        p.take_log().iter().for_each(|r| f.step(r, &mut told).unwrap());
        assert_eq!(f.pool().bytes(), p.bytes());
        told
    }

    fn waits(told: &[Told]) -> Vec<Waited> {
        told.iter().filter_map(|t| if let Told::Waited(w) = t { Some(*w) } else { None }).collect()
    }

    #[test]
    fn a_wait_is_for_what_had_the_pcpu() {
        let (mut f, mut p) = host();
        p.wake(MS, 10, Source::Other).unwrap();
        p.schedule(MS, 0, 0).unwrap();
        p.started(MS, 10).unwrap();
        p.wake(2 * MS, 20, Source::Other).unwrap();
        p.op(Op { op: OpCode::CpuRelease as u16, now: 4 * MS, arg: [77 | BY_HIGHER, 0, 0, 0], ..Op::default() });
        p.cpu_acquire(9 * MS, 0).unwrap();
        assert_eq!(p.schedule(11 * MS, 0, 0).unwrap().0, Some(20));
        p.put(11 * MS, 10, true, 5 * MS).unwrap();
        p.started(11 * MS, 20).unwrap();
        let told = follow(&mut f, &mut p);
        assert!(told.contains(&Told::Ran(1, 5 * MS)), "{told:?}");
        let waits = waits(&told);
        let class = p.entered(20);
        let want = Waited { vcpu: 20, vm: 2, cpu: 0, from: 2 * MS, to: 11 * MS, class, parked: 0, refused: 0 };
        assert_eq!(waits.last(), Some(&want));
        let had = f.had(0, 2 * MS, 11 * MS);
        assert_eq!(had[0], (Had::Taken { thread: 77, higher: true }, 5 * MS));
        assert!(matches!(had[1], (Had::Vcpu { vm: 1, .. }, ns) if ns == 4 * MS), "{had:?}");
    }

    #[test]
    fn what_a_cap_takes_is_told_apart() {
        let (mut f, mut p) = host();
        p.adjust(3, 1, param("cap", true).unwrap().key, 10).unwrap();
        let (mut now, mut runs) = (MS, false);
        p.wake(now, 10, Source::Other).unwrap();
        while now < 400 * MS {
            now += MS;
            if p.pool_timer() <= now {
                p.timer_pool(now).unwrap();
            }
            if p.cpu_timer(0) <= now {
                p.timer_cpu(now, 0).unwrap();
            }
            let next = p.schedule(now, 0, 0).unwrap().0;
            if runs && next.is_none() {
                p.put(now, 10, true, NEVER).unwrap();
            }
            if !runs && next.is_some() {
                p.started(now, 10).unwrap();
            }
            runs = next.is_some();
        }
        let waits = waits(&follow(&mut f, &mut p));
        let longest = waits.iter().max_by_key(|w| w.to - w.from).expect("a wait");
        assert!(longest.parked > 10 * MS && longest.parked == longest.to - longest.from, "{longest:?}");
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let (f, _) = host();
        assert_eq!(f.had(0, 0, 2), [(Had::Unknown, 2)]);
        let (mut f, mut p) = host();
        p.wake(MS, 10, Source::Other).unwrap();
        let mut log = p.take_log();
        log[0].res.kick ^= 1;
        let error = f.step(&log[0], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("the native core gives"), "{error}");
    }
}
