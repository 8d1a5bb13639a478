// SPDX-License-Identifier: GPL-2.0-only
//! Who ran where by Xen's own account: trace buffers as `xentrace` writes them (xen/include/public/trace.h), with the records of
//! the classes `TRC_SCHED_MIN` (runstate changes) and `TRC_SCHED_CLASS` (Takt's decisions).
//!
//! Their clock is the time stamp counter. A decision carries the pool's time too, so decisions tell how the two clocks relate: by
//! a line that is nearly straight (the hypervisor corrects its time every second), and above which no decision lies, because the
//! record follows the decision.

use crate::LogFile;
use crate::agree::{Agreement, Changes, Seen, agree};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use takt_policy::{OpCode, Record};

const LOST_RECORDS: u32 = 0x0001_f001;
const CPU_CHANGE: u32 = 0x0001_f003;
const RUNSTATE_CHANGE: u32 = 0x0002_1001;
/// The bits of a runstate change that are the old state and the new one.
const RUNSTATES: u32 = 0x330;
const RUNNING: u32 = 0;
const DECISION: u32 = 0x0002_2c01;
const IDLE_DOMAIN: u16 = 0x7fff;
/// Ticks within which the two clocks keep apart by the same.
const WINDOW: u64 = 50_000_000;

/// A virtual CPU as the hypervisor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    pub domain: u16,
    pub vcpu: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Runs(Unit),
    /// Takt chose number `vcpu` of its pool (`NIL`: none), which is `unit`, at the pool's time `now`.
    Decided {
        vcpu: u16,
        unit: Unit,
        now: u64,
    },
}

/// What a PCPU has traced, by its time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub tsc: u64,
    pub what: What,
}

/// The events of each PCPU.
///
/// # Errors
/// Records were lost, or the bytes are no trace.
pub fn parse(raw: &[u8]) -> Result<Vec<Vec<Event>>> {
    ensure!(raw.len() % 4 == 0, "{} bytes are no words", raw.len());
    let words: Vec<u32> = raw.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut pcpus: Vec<Vec<Event>> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (event, record) = record(&words, at)?;
        ensure!(event == CPU_CHANGE, "word {at} of the trace: record {event:#x} belongs to no PCPU");
        let [cpu, bytes] = *record.data else {
            bail!("word {at} of the trace: a change of PCPU without its two words")
        };
        ensure!(u64::from(cpu) < 4096 && bytes % 4 == 0, "word {at} of the trace: {bytes} bytes of PCPU {cpu}");
        let end = record.next + bytes as usize / 4;
        let window = words.get(..end).with_context(|| format!("the last records of PCPU {cpu} are cut off"))?;
        at = record.next;
        pcpus.resize(pcpus.len().max(cpu as usize + 1), Vec::new());
        while at < end {
            let (event, record) = self::record(window, at)?;
            ensure!(event != LOST_RECORDS, "PCPU {cpu} has lost records");
            pcpus[cpu as usize].extend(read(event, &record).with_context(|| format!("word {at} of the trace"))?);
            at = record.next;
        }
    }
    Ok(pcpus)
}

struct Raw<'a> {
    tsc: Option<u64>,
    data: &'a [u32],
    /// Where the next one begins.
    next: usize,
}

fn record(words: &[u32], at: usize) -> Result<(u32, Raw<'_>)> {
    let head = words[at];
    let (timed, extra) = (head >> 31 == 1, (head >> 28 & 7) as usize);
    let from = at + 1 + if timed { 2 } else { 0 };
    let data = words.get(from..from + extra).with_context(|| format!("word {at} of the trace: a record is cut off"))?;
    let tsc = timed.then(|| u64::from(words[at + 1]) | u64::from(words[at + 2]) << 32);
    Ok((head & 0x0fff_ffff, Raw { tsc, data, next: from + extra }))
}

fn read(event: u32, raw: &Raw) -> Result<Option<Event>> {
    let halves = |word: u32| (word as u16, (word >> 16) as u16);
    let what = match (event & !RUNSTATES, raw.data) {
        (RUNSTATE_CHANGE, [who]) if event >> 4 & 3 == RUNNING => {
            let (vcpu, domain) = halves(*who);
            What::Runs(Unit { domain, vcpu })
        }
        (RUNSTATE_CHANGE, [_]) => return Ok(None),
        (DECISION, [number, who, low, high]) => {
            let (vcpu, domain) = halves(*who);
            let now = u64::from(*low) | u64::from(*high) << 32;
            What::Decided { vcpu: halves(*number).0, unit: Unit { domain, vcpu }, now }
        }
        (RUNSTATE_CHANGE | DECISION, _) => bail!("record {event:#x} has {} words", raw.data.len()),
        _ => return Ok(None),
    };
    Ok(Some(Event { tsc: raw.tsc.context("a record without its time")?, what }))
}

/// How the time stamp counter of a PCPU relates to the pool's time.
struct Clock {
    /// ns of a tick.
    tick: f64,
    /// By window of ticks, how far the pool's time is behind the counter's, ns: the least of its decisions.
    behind: BTreeMap<u64, f64>,
}

impl Clock {
    fn of(events: &[Event], tick: f64) -> Self {
        let mut behind = BTreeMap::new();
        for (tsc, now) in decided(events) {
            let least = behind.entry(tsc / WINDOW).or_insert(f64::INFINITY);
            *least = f64::min(*least, tsc as f64 * tick - now as f64);
        }
        Self { tick, behind }
    }

    /// By the windows about it; where nothing was decided for long, by the last one before.
    fn ns(&self, tsc: u64) -> u64 {
        let at = tsc / WINDOW;
        let near = self.behind.range(at.saturating_sub(1)..=at + 1).map(|w| *w.1).fold(f64::INFINITY, f64::min);
        let behind = if near.is_finite() { near } else { self.behind.range(..at).next_back().map_or(0.0, |w| *w.1) };
        (tsc as f64 * self.tick - behind).round() as u64
    }
}

/// Counter and pool's time of decisions.
fn decided(events: &[Event]) -> impl Iterator<Item = (u64, u64)> + '_ {
    events.iter().filter_map(|e| match e.what {
        What::Decided { now, .. } => Some((e.tsc, now)),
        What::Runs(_) => None,
    })
}

/// ns of a tick: the slope of the line through all decisions.
fn tick(trace: &[Vec<Event>]) -> Result<f64> {
    let pairs = || trace.iter().flat_map(|events| decided(events));
    let (tsc, now) = pairs().next().context("the trace has no decision of Takt's")?;
    let apart = |(t, m): (u64, u64)| (t.wrapping_sub(tsc) as i64 as f64, m.wrapping_sub(now) as i64 as f64);
    let n = pairs().count() as f64;
    let (sum_t, sum_m) = pairs().map(apart).fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
    let (mean_t, mean_m) = (sum_t / n, sum_m / n);
    let (both, square) = pairs()
        .map(apart)
        .fold((0.0, 0.0), |s, (t, m)| (s.0 + (t - mean_t) * (m - mean_m), s.1 + (t - mean_t) * (t - mean_t)));
    let tick = both / square;
    ensure!(tick.is_finite() && tick > 0.0, "the trace's decisions tell no clock");
    Ok(tick)
}

/// Who had a PCPU: whoever the hypervisor says runs, by its number in the pool if the decision before was for it.
fn seen(events: &[Event], tick: f64) -> Changes<Seen> {
    let clock = Clock::of(events, tick);
    let (mut last, mut at) = (None, 0);
    let mut all = Vec::new();
    for e in events {
        match e.what {
            What::Decided { vcpu, unit, .. } => last = Some((unit, vcpu)),
            What::Runs(unit) if last.is_some() => {
                let who = match last {
                    _ if unit.domain == IDLE_DOMAIN => Seen::Idle,
                    Some((chosen, vcpu)) if chosen == unit => Seen::Vcpu(vcpu),
                    _ => Seen::Other { name: format!("d{}v{}", unit.domain, unit.vcpu), higher: false },
                };
                at = clock.ns(e.tsc).max(at);
                all.push((at, who));
            }
            What::Runs(_) => {}
        }
    }
    all
}

/// A log beside a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Decisions that both have, the same.
    pub decisions: u64,
    /// Decisions of the log, while the trace was made, that the trace does not have or has otherwise.
    pub differing: u64,
    pub agreement: Agreement,
}

/// Compares decisions and who ran where, from the trace's first decision to its last.
///
/// # Errors
/// The trace has no decision; as of [`LogFile::pool`].
pub fn compare(log: &LogFile, trace: &[Vec<Event>], handover: u64) -> Result<Comparison> {
    let tick = tick(trace)?;
    let mut traced = BTreeMap::<(u16, u64), BTreeSet<u16>>::new();
    for (cpu, events) in (0..).zip(trace) {
        for e in events {
            if let What::Decided { vcpu, now, .. } = e.what {
                traced.entry((cpu, now)).or_default().insert(vcpu);
            }
        }
    }
    let times = || traced.keys().map(|k| k.1);
    let span = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let mut result = Comparison::default();
    let during = |now: u64| now >= span.0 && now < span.1;
    for ((cpu, now), next) in decisions(&log.records).iter().filter(|((_, now), _)| during(*now)) {
        if traced.get(&(*cpu, *now)).is_some_and(|all| all.contains(&(*next as u16))) {
            result.decisions += 1;
        } else {
            result.differing += 1;
        }
    }
    let seen: Vec<_> = trace.iter().map(|events| seen(events, tick)).collect();
    result.agreement = agree(log, &seen, span, handover)?;
    Ok(result)
}

/// The last decision of the log for each PCPU and time, since its epoch.
fn decisions(records: &[Record]) -> BTreeMap<(u16, u64), u32> {
    let mut all = BTreeMap::new();
    for r in records.iter().filter(|r| r.res.ret == 0) {
        match OpCode::from_u16(r.op.op) {
            Some(OpCode::Epoch) => all.clear(),
            Some(OpCode::Schedule) => _ = all.insert((r.op.cpu, r.op.now), r.res.next),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HANDOVER;
    use takt_policy::{Kind, NIL, Pool, Source};

    fn words(event: u32, tsc: u64, data: &[u32]) -> Vec<u32> {
        let head = 1 << 31 | (data.len() as u32) << 28 | event;
        [&[head, tsc as u32, (tsc >> 32) as u32], data].concat()
    }

    fn runs(tsc: u64, domain: u32, old: u32) -> Vec<u32> {
        words(RUNSTATE_CHANGE | old << 8, tsc, &[domain << 16])
    }

    fn decided(tsc: u64, vcpu: u32, domain: u32, now: u64) -> Vec<u32> {
        words(DECISION, tsc, &[vcpu, domain << 16, now as u32, (now >> 32) as u32])
    }

    fn window(cpu: u32, records: &[Vec<u32>]) -> Vec<u8> {
        let body = records.concat();
        let head = [2 << 28 | CPU_CHANGE, cpu, body.len() as u32 * 4];
        head.iter().chain(&body).flat_map(|w| w.to_le_bytes()).collect()
    }

    /// VCPU 9, d3, on PCPU 1 from 100 to 400 and on from 1000.
    fn log() -> LogFile {
        let mut p = Pool::new("credit").unwrap();
        p.record();
        p.cpu_add(1, 1, 0, 0, 0).unwrap();
        p.vm_add(1, 3, Kind::Guest, 256).unwrap();
        p.vcpu_add(1, 9, 3, 1, Kind::Guest).unwrap();
        p.epoch(2).unwrap();
        p.wake(10, 9, Source::Other).unwrap();
        for at in [100, 1_000] {
            assert_eq!(p.schedule(at, 1, 0).unwrap().0, Some(9));
            p.started(at, 9).unwrap();
            p.schedule(at + 300, 1, takt_policy::FORCE_IDLE).unwrap();
            p.put(at + 300, 9, true, takt_policy::NEVER).unwrap();
        }
        p.timer_pool(2_000).unwrap();
        let (policy, pool_size) = ("credit".into(), p.bytes().len() as u64);
        LogFile { policy, pool_size, records: p.take_log(), ..LogFile::default() }
    }

    /// A counter that runs twice as fast as the pool's time and is 5000 ahead; decisions are traced 10 ticks late.
    fn trace(second: u32) -> Vec<u8> {
        let tsc = |now: u64| 5_000 + 2 * now;
        let mut records = Vec::new();
        for (at, who) in [(100, 3), (1_000, second)] {
            records.push(decided(tsc(at) + 10, 9, 3, at));
            records.push(words(RUNSTATE_CHANGE | 1 << 4, tsc(at) + 10, &[0x7fff << 16]));
            records.push(runs(tsc(at) + 10, who, 1));
            records.push(decided(tsc(at + 300) + 10, NIL, 0x7fff, at + 300));
            records.push(words(TRACE_OTHER, tsc(at + 300) + 10, &[1, 2, 3]));
            records.push(runs(tsc(at + 300) + 10, 0x7fff, 2));
        }
        [window(0, &[]), window(1, &records[..5]), window(1, &records[5..])].concat()
    }

    const TRACE_OTHER: u32 = 0x0002_8001;

    #[test]
    fn a_faithful_trace_agrees() {
        let trace = parse(&trace(3)).unwrap();
        assert_eq!((trace.len(), trace[0].len(), trace[1].len()), (2, 0, 8));
        let c = compare(&log(), &trace, HANDOVER).unwrap();
        assert_eq!((c.decisions, c.differing), (3, 0));
        assert_eq!((c.agreement.compared_ns, c.agreement.agreed_ns), (1_200, 1_200));
    }

    #[test]
    fn another_domain_is_seen() {
        let c = compare(&log(), &parse(&trace(4)).unwrap(), HANDOVER).unwrap();
        assert_eq!((c.agreement.compared_ns, c.agreement.agreed_ns), (1_200, 900));
        assert_eq!(c.agreement.worst[0].trace, "d4v0");
    }

    #[test]
    fn decisions_that_are_missing_are_counted() {
        let mut trace = parse(&trace(3)).unwrap();
        trace[1].retain(|e| !matches!(e.what, What::Decided { now: 400, .. }));
        let c = compare(&log(), &trace, HANDOVER).unwrap();
        assert_eq!((c.decisions, c.differing), (2, 1));
        trace[1].clear();
        assert!(compare(&log(), &trace, HANDOVER).unwrap_err().to_string().contains("no decision"));
    }

    #[test]
    fn what_is_no_trace_is_told() {
        let error = |raw: &[u8]| format!("{:#}", parse(raw).unwrap_err());
        let whole = trace(3);
        assert!(error(&whole[1..]).contains("no words"));
        assert!(error(&whole[..whole.len() - 4]).contains("PCPU 1 are cut off"));
        assert!(error(&whole[24..]).contains("to no PCPU"));
        assert!(error(&window(2, &[words(LOST_RECORDS, 1, &[7, 0, 0, 0])])).contains("PCPU 2 has lost records"));
        assert!(error(&window(2, &[words(DECISION, 1, &[7])])).contains("has 1 words"));
    }
}
