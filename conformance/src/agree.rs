// SPDX-License-Identifier: GPL-2.0-only
//! Whether a host's log agrees with its kernel's or hypervisor's own account of who ran where.
//!
//! By the log a PCPU changes hands when a VCPU is started there or goes on, when the decision is to idle, and when a higher class
//! takes it: between `put` and that, the kernel is at work in the name of the thread that leaves. The log is told just before the kernel
//! switches: what lies between is a handover, told apart. On Linux the host's entities are no threads: any thread that is no VCPU
//! stands for them, or, where it takes the PCPU, for a higher class.

use crate::LogFile;
use crate::model::Model;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use takt_policy::{NCPU, NIL, Op, OpCode, State};

/// Longest handover, ns: a switch takes a few µs where nothing holds the PCPU up.
pub const HANDOVER: u64 = 200_000;
/// Differences that are kept.
const WORST: usize = 20;

/// Who has a PCPU by the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Not known yet.
    Unknown,
    Idle,
    /// Threads outside the pool.
    Taken,
    /// A VCPU of the host's.
    Host(u16),
    Vcpu(u16),
}

/// Who has a PCPU by the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Idle,
    /// Of the pool, by its number there.
    Vcpu(u16),
    /// None of the pool's: what it is called, and whether it is of a higher class.
    Other {
        name: String,
        higher: bool,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Idle => f.write_str("idle"),
            Self::Taken => f.write_str("taken"),
            Self::Host(_) => f.write_str("host"),
            Self::Vcpu(v) => write!(f, "VCPU {v}"),
        }
    }
}

/// What is said of a PCPU from a time on (ns), in order.
pub type Changes<T> = Vec<(u64, T)>;

/// The holder of each PCPU by the log. If the log begins with a copy of its pool, the holder is not known before something
/// happens on the PCPU.
///
/// # Errors
/// As of [`LogFile::pool`].
pub fn holders(log: &LogFile) -> Result<Vec<Changes<Holder>>> {
    let mut model = Model::of(&log.pool()?);
    let records = &log.records;
    let mut all = vec![vec![(0, Holder::Unknown)]; NCPU as usize];
    for (n, r) in records.iter().enumerate().filter(|(_, r)| r.res.ret == 0) {
        let (op, cur) = (&r.op, |m: &Model, cpu: u16| m.cur[usize::from(cpu)]);
        let running = |m: &Model, v: u16| (m.state(v.into()) == State::Running).then(|| holder(m, v));
        let kept = cur(&model, op.cpu).filter(|v| u32::from(*v) == r.res.next).and_then(|v| running(&model, v));
        model.apply(op, &r.res);
        let mut say = |cpu: u16, who| all[usize::from(cpu)].push((model.now.max(op.now), who));
        match OpCode::from_u16(op.op) {
            Some(OpCode::Epoch) => (0..NCPU as u16).for_each(|cpu| say(cpu, Holder::Unknown)),
            Some(OpCode::Schedule) if r.res.next == NIL => say(op.cpu, Holder::Idle),
            Some(OpCode::Schedule) => kept.into_iter().for_each(|who| say(op.cpu, who)),
            Some(OpCode::Started) => say(model.vcpu[usize::from(op.vcpu)].cpu, holder(&model, op.vcpu)),
            Some(OpCode::CpuRelease) => say(op.cpu, Holder::Taken),
            // A decision that follows at once says whose it is.
            Some(OpCode::CpuAcquire) if !records.get(n + 1).is_some_and(|next| decides(op, &next.op)) => {
                cur(&model, op.cpu).and_then(|v| running(&model, v)).into_iter().for_each(|who| say(op.cpu, who));
            }
            Some(OpCode::CpuRemove) => say(op.cpu, Holder::Unknown),
            _ => {}
        }
    }
    Ok(all)
}

fn decides(back: &Op, next: &Op) -> bool {
    OpCode::from_u16(next.op) == Some(OpCode::Schedule) && (next.cpu, next.now) == (back.cpu, back.now)
}

fn holder(model: &Model, v: u16) -> Holder {
    let vm = model.vcpu[usize::from(v)].vm;
    if model.vm[usize::from(vm)].host { Holder::Host(v) } else { Holder::Vcpu(v) }
}

/// Log and trace beside each other; times in ns, summed over PCPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Agreement {
    pub compared_ns: u64,
    pub agreed_ns: u64,
    /// Of the time, handovers counted as differences.
    pub agreed: f64,
    pub handovers: u64,
    pub handover_ns: u64,
    /// Of the time, handovers not counted at all.
    pub agreed_apart: f64,
    /// Time by who it was by the log and by the trace, where they differ.
    pub differences: BTreeMap<String, u64>,
    /// The longest of them.
    pub worst: Vec<Difference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub pcpu: u32,
    pub from_ns: u64,
    pub ns: u64,
    pub log: String,
    pub trace: String,
}

/// Compares from `span.0` to `span.1`, where both know. `trace` is who has each PCPU; what takes longer than `handover` ns is none.
///
/// # Errors
/// As of [`holders`].
pub fn agree(log: &LogFile, trace: &[Changes<Seen>], span: (u64, u64), handover: u64) -> Result<Agreement> {
    let mut result = Agreement::default();
    let end = log.records.last().map_or(0, |r| r.op.now).min(span.1);
    for ((pcpu, log), switches) in (0..).zip(&holders(log)?).zip(trace) {
        let Some(first) = switches.first() else { continue };
        let (mut l, mut s, mut at) = (0, 0, span.0.max(first.0));
        while at < end {
            while log.get(l + 1).is_some_and(|(t, _)| *t <= at) {
                l += 1;
            }
            while switches.get(s + 1).is_some_and(|w| w.0 <= at) {
                s += 1;
            }
            let changes = [log.get(l + 1).map(|c| c.0), switches.get(s + 1).map(|w| w.0)];
            let until = changes.into_iter().flatten().fold(end, u64::min);
            let who = log[l].1;
            let moved_on = log.get(l + 1).is_some_and(|c| c.0 == until);
            let follows = |w: &&(u64, Seen)| w.0 == until && !moved_on && w.0 - log[l].0 <= handover && same(who, &w.1);
            if who == Holder::Unknown {
                at = until;
                continue;
            }
            result.compared_ns += until - at;
            if same(who, &switches[s].1) {
                result.agreed_ns += until - at;
            } else if switches.get(s + 1).filter(follows).is_some() {
                result.handovers += 1;
                result.handover_ns += until - at;
            } else {
                result.differ(pcpu, at, until - at, who, &switches[s].1);
            }
            at = until;
        }
    }
    result.agreed = result.agreed_ns as f64 / result.compared_ns.max(1) as f64;
    result.agreed_apart = result.agreed_ns as f64 / (result.compared_ns - result.handover_ns).max(1) as f64;
    result.worst.sort_by_key(|d| std::cmp::Reverse(d.ns));
    result.worst.truncate(WORST);
    Ok(result)
}

/// Whether the trace sees whom the log names.
fn same(log: Holder, seen: &Seen) -> bool {
    match (log, seen) {
        (Holder::Idle, Seen::Idle) | (Holder::Taken, Seen::Other { .. }) => true,
        (Holder::Host(_), Seen::Other { higher, .. }) => !higher,
        (Holder::Host(v) | Holder::Vcpu(v), Seen::Vcpu(w)) => v == *w,
        _ => false,
    }
}

impl Agreement {
    fn differ(&mut self, pcpu: u32, from_ns: u64, ns: u64, log: Holder, seen: &Seen) {
        let (kind, trace) = match seen {
            Seen::Idle => ("idle", "idle".into()),
            Seen::Vcpu(v) => ("VCPU", format!("VCPU {v}")),
            Seen::Other { name, higher: true } => ("higher class", name.clone()),
            Seen::Other { name, higher: false } => ("other", name.clone()),
        };
        let by = if matches!(log, Holder::Vcpu(_)) { "VCPU".into() } else { log.to_string() };
        *self.differences.entry(format!("log: {by}, trace: {kind}")).or_default() += ns;
        self.worst.push(Difference { pcpu, from_ns, ns, log: log.to_string(), trace });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::{Kind, Pool, Source};

    /// VCPU 9 on PCPU 0 beside the host's VCPU 0; a higher class takes the PCPU between.
    fn log() -> LogFile {
        let mut p = Pool::new("credit").unwrap();
        p.record();
        p.cpu_add(1, 0, 0, 0, 0).unwrap();
        p.vm_add(1, 0, Kind::Host, 256).unwrap();
        p.vcpu_add(1, 0, 0, 0, Kind::Host).unwrap();
        p.vm_add(1, 3, Kind::Guest, 256).unwrap();
        p.vcpu_add(1, 9, 3, 0, Kind::Guest).unwrap();
        p.epoch(2).unwrap();
        p.wake(10, 9, Source::Other).unwrap();
        assert_eq!(p.schedule(100, 0, 0).unwrap().0, Some(9));
        p.started(110, 9).unwrap();
        p.cpu_release(200, 0).unwrap();
        p.cpu_acquire(300, 0).unwrap();
        p.put(400, 9, false, takt_policy::NEVER).unwrap();
        p.wake(410, 0, Source::Other).unwrap();
        assert_eq!(p.schedule(420, 0, 0).unwrap().0, Some(0));
        p.started(430, 0).unwrap();
        p.put(500, 0, false, takt_policy::NEVER).unwrap();
        p.schedule(510, 0, 0).unwrap();
        p.timer_pool(1_000).unwrap();
        let (policy, pool_size) = ("credit".into(), p.bytes().len() as u64);
        LogFile { policy, pool_size, records: p.take_log(), ..LogFile::default() }
    }

    fn vcpu() -> Seen {
        Seen::Vcpu(9)
    }

    fn other(higher: bool) -> Seen {
        Seen::Other { name: "t".into(), higher }
    }

    #[test]
    fn a_log_says_who_has_a_pcpu() {
        use Holder::*;
        let want =
            [(0, Unknown), (2, Unknown), (110, Vcpu(9)), (200, Taken), (300, Vcpu(9)), (430, Host(0)), (510, Idle)];
        assert_eq!(holders(&log()).unwrap()[0], want);
    }

    #[test]
    fn equal_accounts_agree() {
        let seen = [
            (50, Seen::Idle),
            (110, vcpu()),
            (200, other(true)),
            (300, vcpu()),
            (430, other(false)),
            (510, Seen::Idle),
        ];
        let a = agree(&log(), &[seen.to_vec()], (0, u64::MAX), HANDOVER).unwrap();
        assert_eq!((a.compared_ns, a.agreed_ns, a.agreed), (890, 890, 1.0));
        assert!(a.worst.is_empty() && a.differences.is_empty());
    }

    #[test]
    fn a_switch_that_follows_its_decision_is_a_handover() {
        let seen = [
            (50, Seen::Idle),
            (117, vcpu()),
            (200, other(true)),
            (304, vcpu()),
            (430, other(false)),
            (512, Seen::Idle),
        ];
        let a = agree(&log(), &[seen.to_vec()], (0, u64::MAX), HANDOVER).unwrap();
        assert_eq!((a.compared_ns, a.agreed_ns), (890, 877));
        assert_eq!((a.handovers, a.handover_ns, a.agreed_apart), (3, 13, 1.0));
        assert!(a.differences.is_empty());
    }

    #[test]
    fn differences_are_named() {
        let seen = [(150, Seen::Idle), (200, vcpu()), (250, other(true)), (430, other(true))];
        let a = agree(&log(), &[seen.to_vec()], (120, 520), HANDOVER).unwrap();
        assert_eq!((a.compared_ns, a.agreed_ns), (370, 50));
        let told: Vec<_> = a.differences.iter().map(|(k, ns)| (k.as_str(), *ns)).collect();
        let want = [
            ("log: VCPU, trace: higher class", 130),
            ("log: VCPU, trace: idle", 50),
            ("log: host, trace: higher class", 80),
            ("log: idle, trace: higher class", 10),
        ];
        assert_eq!(told, want);
        let worst = &a.worst[0];
        assert_eq!((a.handovers, a.handover_ns), (1, 50));
        assert_eq!((worst.from_ns, worst.ns, worst.log.as_str()), (300, 130, "VCPU 9"));
        assert_eq!(worst.trace, "t");
    }
}
