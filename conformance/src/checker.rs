// SPDX-License-Identifier: GPL-2.0-only
//! The judge of operation logs: every rule of `docs/states.md` that can be seen from outside.

use crate::LogFile;
use crate::model::{Model, bit};
use crate::summary::{Summary, name};
use std::fmt;
use takt_policy::{CUR_STOPS, FORCE_IDLE, NCPU, NEVER, NIL, NVCPU, Op, OpCode, Pool, Record, Res, State};

/// What a log broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Records are numbered from 1 without gaps.
    Sequence,
    /// Time does not run backwards (further than [`Limits::skew`]).
    Time,
    /// The table of states decides what is accepted.
    Transition,
    /// A pick is queued, on one PCPU only, and rules 3 and 9 allow it.
    Pick,
    /// A slice is not zero, and limited for a VCPU.
    Slice,
    /// Kicks go to online PCPUs of the pool's own class, and where the table demands them.
    Kick,
    /// A timer lies ahead, and the host keeps it (within [`Limits::timer_slack`]).
    Timer,
    /// Once kicks have drained no PCPU idles beside a queued VCPU that may run there; with `tickle=xen`: unless it may be
    /// queued on a PCPU that does not idle.
    WorkConservation,
    /// Rule 1, seen through an idle PCPU or the wait bound.
    LostWake,
    /// No VCPU waits longer than [`Limits::wait`].
    WaitBound,
    /// Picks, starts, refusals and puts fit together; nothing stays picked, descheduling or kicked.
    Counts,
    /// `put` reports no longer run than the clock allows; unused fields are 0.
    Arguments,
}

/// The first violation of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number of the record, from 1.
    pub record: u64,
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {:?}: {}", self.record, self.rule, self.text)
    }
}

impl std::error::Error for Violation {}

/// What a host promises beyond the table; `None` = not checked. All ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Longest wait in the queue.
    pub wait: Option<u64>,
    /// How late a timer may be called.
    pub timer_slack: Option<u64>,
    /// How long a PCPU may stay kicked, and a VCPU picked or descheduling.
    pub max_pending: Option<u64>,
    /// How far `now` may lie before the previous one.
    pub skew: u64,
    /// The policy binds VCPUs of real-time VMs to single PCPUs, which a log does not tell: others may
    /// idle beside them.
    pub binds: bool,
    /// The same of the VCPUs of any VM.
    pub spreads: bool,
    /// Budgets count, so `tickle` does not.
    pub budgets: bool,
}

impl Limits {
    /// What can be said of any host of a policy: S's LL and Poris' spread bind (rule 9).
    pub fn of(policy: &str) -> Self {
        let has = |name| takt_policy::has(policy, name);
        Self { binds: has("binds"), spreads: has("spreads"), budgets: has("budgets"), ..Self::default() }
    }
}

/// A log this much longer than its first timer shows whether the host calls timers at all, ns.
const SILENCE: u64 = 1_000_000_000;
/// By which a host's account of a run may be ahead of the pool's clock, ns: another clock, and a decision begins before its operation.
const SKEW: u64 = 100_000;
/// By then a PCPU has answered a kick from before the log, ns after its beginning.
const SETTLED: u64 = 1_000_000_000;

/// Takes records one by one and keeps no log.
pub struct Checker {
    pub(crate) model: Model,
    pub limits: Limits,
    kicked: u64,
    kicked_at: [u64; NCPU as usize],
    /// PCPUs that idled when the log began, and may have been kicked before: until they decide, or that time.
    unknown: u64,
    until: u64,
    timer: [u64; NCPU as usize],
    pool_timer: u64,
    started: Box<[u64; NVCPU as usize]>,
    /// Since when each VCPU is there, and what it ran since then.
    born: Box<[u64; NVCPU as usize]>,
    ran: Box<[u64; NVCPU as usize]>,
    records: u64,
    summary: Summary,
}

type Checked = Result<(), (Rule, String)>;

fn ensure(ok: bool, rule: Rule, text: impl FnOnce() -> String) -> Checked {
    if ok { Ok(()) } else { Err((rule, text())) }
}

impl Checker {
    /// A checker of a log that begins with an empty pool.
    pub fn new(limits: Limits) -> Self {
        Self {
            model: Model::new(),
            limits,
            kicked: 0,
            kicked_at: [0; NCPU as usize],
            unknown: 0,
            until: 0,
            timer: [NEVER; NCPU as usize],
            pool_timer: NEVER,
            started: Box::new([0; NVCPU as usize]),
            born: Box::new([0; NVCPU as usize]),
            ran: Box::new([0; NVCPU as usize]),
            records: 0,
            summary: Summary::default(),
        }
    }

    /// A checker of a log that begins with a copy of a pool. Kicks of idle PCPUs may be under way then, and what VCPUs ran before
    /// is not known.
    pub fn of(pool: &Pool, limits: Limits) -> Self {
        let model = Model::of(pool);
        let mut timer = [NEVER; NCPU as usize];
        (0..).zip(&mut timer).filter(|(cpu, _)| model.online >> cpu & 1 == 1).for_each(|(c, t)| *t = pool.cpu_timer(c));
        let unknown = model.empty() & !model.taken;
        let (started, pool_timer) = (Box::new([model.now; NVCPU as usize]), pool.pool_timer());
        Self { unknown, until: model.now + SETTLED, timer, pool_timer, started, model, ..Self::new(limits) }
    }

    /// The checker of this log.
    ///
    /// # Errors
    /// As of [`LogFile::pool`].
    pub fn of_log(log: &LogFile, limits: Limits) -> anyhow::Result<Self> {
        Ok(if log.start.is_empty() { Self::new(limits) } else { Self::of(&log.pool()?, limits) })
    }

    /// States as the log has them.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// PCPUs whose kick is not answered yet.
    pub fn kicked(&self) -> u64 {
        self.kicked
    }

    /// When `v` was last started, ns.
    pub(crate) fn started_at(&self, v: u16) -> u64 {
        self.started[usize::from(v)]
    }

    /// Judges the next record.
    pub fn step(&mut self, r: &Record) -> Result<(), Violation> {
        self.records += 1;
        let record = self.records;
        self.judge(r).map_err(|(rule, text)| Violation { record, rule, text })
    }

    fn judge(&mut self, r: &Record) -> Checked {
        let (op, res) = (&r.op, &r.res);
        let label = || OpCode::from_u16(op.op).map_or_else(|| format!("operation {}", op.op), |c| name(c).into());
        ensure(op.seq == self.records, Rule::Sequence, || format!("seq {}, expected {}", op.seq, self.records))?;
        let skew = self.model.now.saturating_sub(op.now);
        ensure(skew <= self.limits.skew, Rule::Time, || format!("now {} after {}", op.now, self.model.now))?;
        let verdict = self.model.verdict(op);
        ensure(verdict.permits(res.ret), Rule::Transition, || {
            let state = self.model.state(op.vcpu.into());
            format!(
                "{} of VCPU {} ({state:?}), PCPU {}, VM {} returned {}, expected {}",
                label(),
                op.vcpu,
                op.cpu,
                op.vm,
                res.ret,
                verdict.describe()
            )
        })?;
        self.summary.add(r);
        self.model.now = self.model.now.max(op.now);
        self.late()?;
        let Some(code) = OpCode::from_u16(op.op).filter(|_| res.ret == 0) else {
            return ensure(res.kick == 0 || res.ret == 0, Rule::Kick, || "a refused operation kicks".into());
        };
        self.arguments(code, r)?;
        if res.ret == 0 {
            self.runs(code, op)?;
        }
        if code == OpCode::Schedule {
            self.pick(r)?
        } else {
            self.no_pick(code, res)?
        }
        if code == OpCode::Started {
            self.started[usize::from(op.vcpu)] = self.model.now;
        }
        self.model.apply(op, res);
        self.kicks(code, r)?;
        self.timers(code, r)?;
        self.conserve()?;
        self.waits()
    }

    /// Arguments that lie: fields that the operation does not have.
    fn arguments(&self, code: OpCode, r: &Record) -> Checked {
        let (cpu, vcpu, vm, args) = fields(code);
        let op = &r.op;
        let clean = (cpu || op.cpu == 0)
            && (vcpu || op.vcpu == 0)
            && (vm || op.vm == 0)
            && op.arg[args..].iter().all(|&a| a == 0);
        ensure(clean, Rule::Arguments, || format!("{} carries values in unused fields: {op:?}", name(code)))?;
        Ok(())
    }

    /// A host may know of more than the clock says, such as the switch to the VCPU, or what it ran beside the pool; but no VCPU has run
    /// for longer than it has been there.
    fn runs(&mut self, code: OpCode, op: &Op) -> Checked {
        let (v, now) = (usize::from(op.vcpu), self.model.now);
        match code {
            OpCode::Epoch => {
                self.born.fill(now);
                self.ran.fill(0);
            }
            OpCode::VcpuAdd => (self.born[v], self.ran[v]) = (now, 0),
            OpCode::Put if op.arg[1] != NEVER => {
                let ran = op.arg[1];
                self.ran[v] = self.ran[v].saturating_add(ran);
                let most = now - self.born[v] + SKEW;
                ensure(self.ran[v] <= most, Rule::Arguments, || {
                    format!("put of VCPU {v} says it ran {ran} ns: {} of {most} since it came", self.ran[v])
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn no_pick(&self, code: OpCode, res: &Res) -> Checked {
        ensure(res.next == NIL, Rule::Pick, || format!("{} picked VCPU {}", name(code), res.next))
    }

    fn pick(&mut self, r: &Record) -> Checked {
        let (c, flags, next) = (r.op.cpu, r.op.arg[0], r.res.next);
        let m = &self.model;
        let old = m.cur[usize::from(c)];
        let forced = flags & FORCE_IDLE != 0;
        ensure(next == NIL || !forced, Rule::Pick, || format!("PCPU {c} must idle and got VCPU {next}"))?;
        if next == NIL {
            let waiting = m.queued().find(|&v| self.waits_for(v, bit(c)));
            return ensure(forced || waiting.is_none(), Rule::WorkConservation, || {
                format!("PCPU {c} goes idle while VCPU {} is queued", waiting.unwrap_or(0))
            });
        }
        ensure(r.res.slice != 0 && r.res.slice != NEVER, Rule::Slice, || {
            format!("VCPU {next} on PCPU {c} gets a slice of {} ns", r.res.slice)
        })?;
        let state = m.state(next);
        if old.map(u32::from) == Some(next) {
            ensure(flags & CUR_STOPS == 0, Rule::Pick, || format!("VCPU {next} stops and was picked again"))?;
            return ensure(!m.vcpu[next as usize].pausing, Rule::Pick, || {
                format!("VCPU {next} is to pause and runs on")
            });
        }
        ensure(state == State::Queued, Rule::Pick, || format!("PCPU {c} picked VCPU {next}, which is {state:?}"))?;
        let mask = m.allowed(next as u16);
        ensure(mask & bit(c) != 0, Rule::Pick, || format!("VCPU {next} may run on {mask:#x}, picked on PCPU {c}"))?;
        let waited = m.now - m.vcpu[next as usize].since;
        self.summary.picked(next as u16, waited);
        Ok(())
    }

    /// Whether `v` is queued for nothing else than one of `cpus`; a cap may have parked it, which is not seen here, or a budget, which
    /// is another PCPU's besides; or the policy has bound it to another.
    fn waits_for(&self, v: u16, cpus: u64) -> bool {
        let e = &self.model.vcpu[usize::from(v)];
        let vm = &self.model.vm[usize::from(e.vm)];
        let bound = !e.io && (self.limits.spreads || self.limits.binds && vm.rt_ever);
        !(vm.capped || vm.server || bound) && self.model.allowed(v) & cpus != 0
    }

    fn kicks(&mut self, code: OpCode, r: &Record) -> Checked {
        let (op, kick) = (&r.op, r.res.kick);
        let m = &self.model;
        ensure(kick & !m.online == 0, Rule::Kick, || format!("kick of offline PCPUs {:#x}", kick & !m.online))?;
        let taken = kick & m.taken & m.empty();
        ensure(taken == 0, Rule::Kick, || format!("kick of idle PCPUs {taken:#x} that are taken"))?;
        let v = &m.vcpu[usize::from(op.vcpu) % NVCPU as usize];
        let wanted = match code {
            OpCode::Pause if v.state == State::Running => bit(v.cpu),
            OpCode::Yield => bit(v.cpu),
            OpCode::Epoch => m.online,
            _ => 0,
        };
        ensure(wanted & !kick & !m.taken == 0, Rule::Kick, || {
            format!("{} kicked {kick:#x}, expected {wanted:#x}", name(code))
        })?;
        if code == OpCode::Schedule {
            ensure(kick & bit(op.cpu) == 0, Rule::Kick, || "a decision kicks its own PCPU".into())?;
            self.kicked &= !bit(op.cpu);
            self.unknown &= !bit(op.cpu);
        }
        let mut new = kick & !self.kicked;
        self.kicked = (self.kicked | kick) & m.online;
        while new != 0 {
            self.kicked_at[new.trailing_zeros() as usize] = m.now;
            new &= new - 1;
        }
        Ok(())
    }

    fn timers(&mut self, code: OpCode, r: &Record) -> Checked {
        let now = self.model.now;
        if r.res.pool_timer != self.pool_timer || code == OpCode::TimerPool {
            let on_time = code == OpCode::TimerPool || self.pool_timer > now;
            ensure(r.res.pool_timer > now || !on_time, Rule::Timer, || {
                format!("pool timer {} is not after now {now}", r.res.pool_timer)
            })?;
            self.pool_timer = r.res.pool_timer;
        }
        // Which PCPU's timer a record shows is known only where the operation names one.
        let shown = matches!(
            code,
            OpCode::CpuAdd | OpCode::Schedule | OpCode::TimerCpu | OpCode::CpuRelease | OpCode::CpuAcquire
        );
        for c in 0..NCPU as u16 {
            let old = self.timer[usize::from(c)];
            if shown && c == r.op.cpu {
                let on_time = matches!(code, OpCode::TimerCpu | OpCode::CpuAdd) || old > now && old != NEVER;
                ensure(r.res.cpu_timer > now || !on_time, Rule::Timer, || {
                    format!("timer of PCPU {c} is {}, not after now {now}", r.res.cpu_timer)
                })?;
                self.timer[usize::from(c)] = r.res.cpu_timer;
            } else if r.res.armed & bit(c) != 0 || code == OpCode::CpuRemove && c == r.op.cpu {
                self.timer[usize::from(c)] = NEVER;
            }
        }
        Ok(())
    }

    /// Timers, kicks and context switches that the host owes.
    fn late(&self) -> Checked {
        let now = self.model.now;
        if let Some(late) = self.limits.timer_slack {
            let due = |t: u64| t != NEVER && t.saturating_add(late) < now;
            ensure(!due(self.pool_timer), Rule::Timer, || {
                format!("pool timer {} not called by {now}", self.pool_timer)
            })?;
            let c = self.timer.iter().position(|&t| due(t));
            ensure(c.is_none(), Rule::Timer, || format!("timer of PCPU {} not called by {now}", c.unwrap_or(0)))?;
        }
        let Some(max_pending) = self.limits.max_pending else { return Ok(()) };
        let c = (0..NCPU as usize).find(|&c| {
            (self.kicked & !self.model.taken) >> c & 1 == 1 && self.kicked_at[c].saturating_add(max_pending) < now
        });
        ensure(c.is_none(), Rule::Counts, || {
            format!("PCPU {} was kicked and did not schedule by {now}", c.unwrap_or(0))
        })?;
        let stuck = |s: State, since: u64| {
            matches!(s, State::Picked | State::Descheduling) && since.saturating_add(max_pending) < now
        };
        let v = self.model.vcpu.iter().position(|v| stuck(v.state, v.since));
        ensure(v.is_none(), Rule::Counts, || {
            let v = v.unwrap_or(0);
            format!("VCPU {v} is {:?} since {}, now {now}", self.model.vcpu[v].state, self.model.vcpu[v].since)
        })
    }

    fn conserve(&self) -> Checked {
        let m = &self.model;
        if self.kicked & !m.taken != 0 || m.queued.iter().all(|&w| w == 0) {
            return Ok(());
        }
        let unknown = if m.now < self.until { self.unknown } else { 0 };
        let idle = m.empty() & !m.taken & !m.forced & !unknown;
        // With `tickle=xen` only the PCPU where it is queued does not idle, which may be any one of its masks.
        let enough = |v| !m.idled_ever || self.limits.budgets || m.allowed(v) & !idle == 0;
        let waits = |&v: &u16| self.waits_for(v, idle) && enough(v);
        let Some(v) = m.queued().filter(|_| idle != 0).find(waits) else { return Ok(()) };
        let e = &m.vcpu[usize::from(v)];
        let rule = if e.by_memory { Rule::LostWake } else { Rule::WorkConservation };
        Err((rule, format!("VCPU {v} is queued since {} while PCPUs {:#x} idle", e.since, idle & m.allowed(v))))
    }

    fn waits(&self) -> Checked {
        let Some(bound) = self.limits.wait else { return Ok(()) };
        let m = &self.model;
        let late = |v: &u16| m.vcpu[usize::from(*v)].since.saturating_add(bound) < m.now;
        let bounded = |v: &u16| !m.vm[usize::from(m.vcpu[usize::from(*v)].vm)].capped && m.online != 0;
        let Some(v) = m.queued().filter(late).find(bounded) else { return Ok(()) };
        let e = &m.vcpu[usize::from(v)];
        let rule = if e.by_memory { Rule::LostWake } else { Rule::WaitBound };
        Err((rule, format!("VCPU {v} waits since {}, now {}, bound {bound} ns", e.since, m.now)))
    }

    /// Judges the log as a whole, and sums it up.
    pub fn finish(self) -> Result<Summary, Violation> {
        let total = |f: &dyn Fn(&crate::summary::VcpuCount) -> u64| self.summary.vcpus.values().map(f).sum::<u64>();
        let fail = |text| Err(Violation { record: self.records, rule: Rule::Counts, text });
        let (schedules, wakes) = (self.summary.accepted(OpCode::Schedule), self.summary.accepted(OpCode::Wake));
        if wakes > 0 && schedules == 0 {
            return fail(format!("{wakes} wakes and no schedule"));
        }
        let (picked, started, put) = (total(&|v| v.picked), total(&|v| v.started), total(&|v| v.put));
        if picked > NCPU.into() && started == 0 {
            return fail(format!("{picked} picks and no start"));
        }
        if started > u64::from(NVCPU) && put == 0 {
            return fail(format!("{started} starts and no put"));
        }
        let timers = self.summary.accepted(OpCode::TimerCpu) + self.summary.accepted(OpCode::TimerPool);
        if started > 0 && timers == 0 && self.pool_timer.saturating_add(SILENCE) < self.model.now {
            return fail(format!("no timer was ever called, the pool's is due since {}", self.pool_timer));
        }
        Ok(self.summary.named())
    }
}

/// Which of cpu, vcpu, vm an operation carries, and how many arguments.
fn fields(code: OpCode) -> (bool, bool, bool, usize) {
    use OpCode::*;
    match code {
        None | Epoch | TimerPool => (false, false, false, 0),
        CpuAdd => (true, false, false, 3),
        CpuRemove | CpuAcquire | TimerCpu => (true, false, false, 0),
        CpuRelease => (true, false, false, 1),
        VmAdd => (false, false, true, 2),
        VmRemove => (false, false, true, 0),
        VcpuAdd => (true, true, true, 1),
        Adjust => (false, false, true, 2),
        SetRt => (false, false, true, 3),
        SetGroup => (false, false, true, 1),
        SetPlacement | Wake | Event | Yield => (false, true, false, 1),
        SetAffinity | Put => (false, true, false, 2),
        VcpuRemove | Block | Pause | Unpause | Started | Refused => (false, true, false, 0),
        Move => (true, true, false, 0),
        Schedule => (true, false, false, 1),
    }
}
