// SPDX-License-Identifier: GPL-2.0-only
//! Drives a core with a model host under every check, and replays logs.

use crate::checker::{Checker, Limits};
use crate::core::{Core, OUTPUTS};
use crate::host::{Host, Mode, SKEW, Shape};
use crate::log::LogFile;
use crate::summary::name;
use anyhow::{Result, bail, ensure};
use std::fmt;
use takt_policy::{NIL, NVCPU, Op, OpCode, Record, Res, State};

/// Whether it asks for the pool's timer: `pool_armed`, of which the lowest byte is enough.
const POOL_ARMED: usize = OUTPUTS - 4;
/// `now` and `seq` of `struct takt_pool`: every operation advances them, also one that is refused.
const CLOCK: std::ops::Range<usize> = OUTPUTS + 8..OUTPUTS + 24;

/// Whether two pools differ at most in what a refused operation may change: outputs, time and sequence number.
pub fn same_but_outputs(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a[OUTPUTS..CLOCK.start] == b[OUTPUTS..CLOCK.start] && a[CLOCK.end..] == b[CLOCK.end..]
}

/// FNV-1a over the bytes of a pool; the same on every machine.
pub fn hash(bytes: &[u8]) -> u64 {
    hash_on(NOTHING, bytes)
}

/// [`hash`] of nothing, and of what was hashed before with `bytes` behind it.
pub(crate) const NOTHING: u64 = 0xcbf2_9ce4_8422_2325;
pub(crate) fn hash_on(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// `before` and an operation with its outcome, by value: names and layouts do not count.
pub(crate) fn hash_record(before: u64, op: &Op, res: &Res) -> u64 {
    let asked = [op.now, op.op.into(), op.cpu.into(), op.vcpu.into(), op.vm.into()];
    let told = [res.ret as u64, res.next.into(), res.slice, res.kick, res.armed, res.cpu_timer, res.pool_timer];
    hash_words(before, asked.into_iter().chain(op.arg).chain(told))
}

fn hash_words(before: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(before, |h, word| hash_on(h, &word.to_le_bytes()))
}

/// Repeats a log natively. The hash of the final pool, or the first record whose outcome differs.
pub fn replay(log: &LogFile) -> Result<u64> {
    let mut pool = log.pool()?;
    for r in &log.records {
        let res = pool.op(r.op);
        if res != r.res {
            let op = OpCode::from_u16(r.op.op).map_or("unknown operation", name);
            bail!("record {}: {op} gives {res:?}, logged {:?}", r.op.seq, r.res);
        }
    }
    let got = hash(pool.bytes());
    ensure!(
        log.pool_hash == 0 || log.pool_hash == got,
        "the final pool differs: {got:#x}, logged {:#x}",
        log.pool_hash
    );
    Ok(got)
}

/// A pool that contradicts itself: what is wrong, and after which operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant(String);

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invariant {}

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub operations: u64,
    pub refused: u64,
    /// Refused ones whose pool was compared byte by byte.
    pub compared: u64,
    /// Times all invariants were checked.
    pub checks: u64,
}

/// A core, a host and the judges between them.
pub struct Run {
    pub core: Box<dyn Core>,
    pub checker: Checker,
    pub stats: Stats,
    host: Host,
    shape: Shape,
    mode: Mode,
    check_every: u64,
    widest: u64,
    outcomes: u64,
}

impl Run {
    /// A run on a fresh pool. Invariants are checked at every `check_every`-th step.
    pub fn new(core: Box<dyn Core>, seed: u64, shape: Shape, mode: Mode, check_every: u64) -> Self {
        let any = Limits {
            binds: core.has("binds"),
            spreads: core.has("spreads"),
            budgets: core.has("budgets"),
            ..Limits::default()
        };
        let limits = match mode {
            Mode::Chaos => Limits { skew: SKEW, ..any },
            Mode::Faithful => Limits { timer_slack: Some(0), max_pending: Some(0), ..any },
        };
        let host = Host::new(seed, shape, mode);
        Self {
            core,
            checker: Checker::new(limits),
            stats: Stats::default(),
            host,
            shape,
            mode,
            check_every,
            widest: 0,
            outcomes: NOTHING,
        }
    }

    /// One operation under all checks.
    ///
    /// # Errors
    /// What a check found: a [`crate::Violation`], an [`Invariant`], or another way in which the
    /// pool and the log disagree.
    pub fn step(&mut self) -> Result<Record> {
        let mut op = self.host.next(self.core.as_ref(), &self.checker);
        let refuses = self.checker.model().verdict(&op).refuses();
        let before = refuses.then(|| self.core.bytes().to_vec());
        let timer = self.core.pool_timer();
        let res = self.core.op(op);
        let armed = self.core.bytes()[POOL_ARMED] != 0;
        ensure!(armed || timer == self.core.pool_timer(), "the pool's timer changed and nobody is told: {op:?}");
        let decides = op.op == OpCode::Schedule as u16 && res.ret == 0;
        ensure!(
            decides || (res.slice == 0 && res.next == NIL),
            "only a decision has a VCPU and a slice: {op:?}, {res:?}"
        );
        self.stats.operations += 1;
        op.seq = self.stats.operations;
        let record = Record { op, res };
        self.checker.step(&record)?;
        self.host.observe(&op, &res);
        self.note(&op, &res);
        self.stats.refused += u64::from(res.ret != 0);
        if let Some(before) = before {
            self.stats.compared += 1;
            ensure!(same_but_outputs(&before, self.core.bytes()), "refused and changed the pool: {record:?}");
        }
        self.agree(op.vcpu.into(), &record)?;
        self.agree(res.next, &record)?;
        if self.stats.operations % self.check_every == 0 {
            self.stats.checks += 1;
            self.core.check().map_err(|e| Invariant(format!("invariant: {e}, after {record:?}")))?;
            let l = self.core.ledger();
            let balanced = l.total == l.given - l.burned - l.clipped;
            ensure!(balanced, Invariant(format!("ledger: {l:?}, after {record:?}")));
            (0..self.shape.vcpus.into()).try_for_each(|v| self.agree(v, &record))?;
        }
        if self.mode == Mode::Faithful && self.stats.operations % 64 == 0 {
            // The bound grows with the population; what began to wait under a wider one may keep to that.
            self.widest = self.widest.max(self.core.wait_bound());
            self.checker.limits.wait = Some(self.widest);
        }
        Ok(record)
    }

    /// Adds an operation to the digest: with its outcome, and what became of the VCPUs concerned.
    fn note(&mut self, op: &Op, res: &Res) {
        let known = |v: u32| if v < NVCPU { [self.core.class(v) as u64, self.core.credit(v) as u64] } else { [0; 2] };
        let became = [known(op.vcpu.into()), known(res.next)];
        self.outcomes = hash_words(hash_record(self.outcomes, op, res), became.into_iter().flatten());
    }

    /// A digest of all outcomes until now, and of what each VM and VCPU has in the end.
    pub fn digest(&self) -> u64 {
        let ledger = self.core.ledger();
        let end = [ledger.given, ledger.burned, ledger.clipped, ledger.total].map(|n| n as u64);
        let vms = (0..self.shape.vms.into()).filter_map(|vm| self.core.vm_stat(vm));
        let vms = vms.flat_map(|m| [m.rt, m.period, m.promotions, m.refusals, m.lease_end]);
        let vcpus = (0..self.shape.vcpus.into()).flat_map(|v| {
            let (state, class) = (self.core.state(v) as u64, self.core.class(v) as u64);
            [state, class, self.core.credit(v) as u64, self.core.vcpu_cpu(v).into()]
        });
        hash_words(self.outcomes, end.into_iter().chain(vms).chain(vcpus))
    }

    /// The pool holds the state that the log implies.
    fn agree(&self, v: u32, record: &Record) -> Result<()> {
        let (inside, outside) = (self.core.state(v), self.checker.model().state(v));
        let same = inside == outside || inside == State::Parked && outside == State::Queued;
        ensure!(same, "VCPU {v} is {inside:?}, by the log {outside:?}, after {record:?}");
        Ok(())
    }

    /// Many steps; the records if they are wanted.
    pub fn steps(&mut self, n: u64, keep: bool) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for _ in 0..n {
            let r = self.step()?;
            if keep {
                records.push(r);
            }
        }
        Ok(records)
    }
}
