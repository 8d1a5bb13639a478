// SPDX-License-Identifier: GPL-2.0-only
//! What `takt why` says: how long a VM waited, and for what.

use super::cause::Cause;
use super::minutes::{LATE, Long, Minute};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use takt_control::{Document, duration, moment};
use takt_policy::Hist;

/// Longest waits that are told.
const TOLD: usize = 10;
/// A VM that waited for less of the time in which it had work is late for other reasons.
const INNOCENT: f64 = 0.01;
/// So it is if 99 of 100 waits take less of its period.
const SHORT: f64 = 0.05;

/// What `takt why --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    pub vm: String,
    /// It is real-time now; null if it has ended.
    pub real_time: Option<bool>,
    /// By which rule.
    pub rule: Option<String>,
    /// Why no packets of it are seen.
    pub blind: Option<String>,
    pub period_us: Option<f64>,
    /// What was asked for.
    pub since_s: f64,
    /// How much of that is known, by whole minutes.
    pub known_s: f64,
    pub ran_s: f64,
    pub waited_s: f64,
    /// Of the time in which its threads had work, they waited: `waited_s` over `waited_s` and `ran_s`; 0 without any.
    pub waited_share: f64,
    /// Waits of its VCPUs and I/O threads.
    pub waits: u64,
    /// At most 3 % too large, as the next.
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
    /// Waits as long as its period, or 5 ms if it has none.
    pub late: u64,
    /// Events that would have promoted a VCPU to the real-time class, had the VM had credit or budget for it.
    pub promotions_refused: u64,
    /// How often it stopped being real-time: its packets were not seen for a while, or somebody set it.
    pub demoted: u64,
    /// How often operations were lost: what happened then is not known.
    pub gaps: u64,
    /// Bytes of operations that are kept, and how far they go back: saved recordings begin with them.
    pub operations_bytes: u64,
    pub operations_s: f64,
    /// What the longest waits were for, together.
    pub causes: Vec<Share>,
    /// The longest waits of each minute, of those the longest first.
    pub longest: Vec<LongWait>,
    /// Recordings that were saved because of its waits, the last first.
    pub incidents: Vec<Incident>,
    /// What follows from all this, in words.
    pub verdict: String,
}

impl Document for Why {
    const NAME: &'static str = "why";
    const VERSION: u32 = 1;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub what: Cause,
    pub us: f64,
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWait {
    /// When it ended: date, time and offset from UTC.
    pub at: String,
    pub ago_s: f64,
    pub us: f64,
    /// Where it ended.
    pub pcpu: u16,
    /// In which it waited: `rt`, `boost`, `under`, `over`.
    pub class: String,
    /// An I/O thread of the VM waited.
    pub io_thread: bool,
    /// Promotions that were refused meanwhile.
    pub promotions_refused: u64,
    /// The longest part first.
    pub causes: Vec<Share>,
}

/// A recording that was saved by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incident {
    pub file: PathBuf,
    pub vm: String,
    pub at: String,
    /// The wait for which it was saved, three digits of it.
    pub us: f64,
}

/// What is known of a VM beside its waits.
#[derive(Default)]
pub struct About {
    pub real_time: Option<bool>,
    pub rule: Option<String>,
    pub blind: Option<String>,
    pub period_us: Option<f64>,
}

/// The times of an answer.
pub struct Times {
    /// ns of the monotonic clock.
    pub now: u64,
    pub wall: SystemTime,
    pub since: Duration,
    /// Since when operations are followed, ns of the monotonic clock.
    pub known: u64,
}

/// Operations that are kept: their bytes, and since when, ns of the monotonic clock.
pub struct Kept {
    pub bytes: usize,
    pub since: u64,
    /// How often some were lost.
    pub gaps: u64,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn shares(all: impl Iterator<Item = (Cause, u64)>) -> Vec<Share> {
    let mut sums = BTreeMap::<Cause, u64>::new();
    for (cause, ns) in all {
        // A thread may change its name, as the kernel's workers do.
        let known = sums.keys().find(|known| known.thread().is_some() && known.thread() == cause.thread()).cloned();
        *sums.entry(known.unwrap_or(cause)).or_default() += ns;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    sums.into_iter().map(|(what, ns)| Share { what, us: us(ns) }).collect()
}

fn long_wait(long: &Long, times: &Times) -> LongWait {
    let ago = Duration::from_nanos(times.now.saturating_sub(long.to));
    LongWait {
        at: moment::local(times.wall - ago),
        ago_s: ago.as_millis() as f64 / 1e3,
        us: us(long.ns()),
        pcpu: long.cpu,
        class: long.class.name().to_owned(),
        io_thread: long.io,
        promotions_refused: long.refused,
        causes: shares(long.by.iter().cloned()),
    }
}

impl Why {
    /// From a VM's minutes.
    pub fn new(
        vm: &str,
        about: About,
        minutes: &[Minute],
        times: &Times,
        kept: &Kept,
        incidents: Vec<Incident>,
    ) -> Self {
        let mut hist = Hist::default();
        minutes.iter().for_each(|m| m.add_to(&mut hist));
        let sum = |of: &dyn Fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
        let (ran, waited) = (sum(&|m| m.ran), sum(&|m| m.waited));
        // Minutes are whole, these waits are not before what was asked for.
        let from = times.now.saturating_sub(times.since.as_nanos() as u64);
        let mut longest: Vec<&Long> = minutes.iter().flat_map(|m| &m.longest).filter(|l| l.to >= from).collect();
        longest.sort_by_key(|l| std::cmp::Reverse(l.ns()));
        longest.truncate(TOLD);
        let known = times.now.saturating_sub(times.known) as f64 / 1e9;
        let mut why = Self {
            vm: vm.to_owned(),
            real_time: about.real_time,
            rule: about.rule,
            blind: about.blind,
            period_us: about.period_us,
            since_s: times.since.as_secs_f64(),
            known_s: known.min(times.since.as_secs_f64()),
            ran_s: ran as f64 / 1e9,
            waited_s: waited as f64 / 1e9,
            waited_share: if waited > 0 { waited as f64 / (waited + ran) as f64 } else { 0.0 },
            waits: hist.count(),
            p50_us: us(hist.percentile(50)),
            p99_us: us(hist.percentile(99)),
            longest_us: us(longest.first().map_or_else(|| hist.max(), |l| l.ns())),
            late: sum(&|m| m.late),
            promotions_refused: sum(&|m| m.refused),
            demoted: sum(&|m| m.demoted),
            gaps: kept.gaps,
            operations_bytes: kept.bytes as u64,
            operations_s: times.now.saturating_sub(kept.since) as f64 / 1e9,
            causes: shares(longest.iter().flat_map(|l| l.by.iter().cloned())),
            longest: longest.iter().map(|l| long_wait(l, times)).collect(),
            incidents,
            verdict: String::new(),
        };
        why.verdict = why.judge();
        why
    }

    fn judge(&self) -> String {
        let percent = self.waited_share * 100.0;
        if self.waits == 0 && !self.incidents.is_empty() {
            return "nothing since Takt began; what was saved before is listed".into();
        }
        if self.waits == 0 {
            return "nothing: none of its threads waited for a PCPU".into();
        }
        let limit = self.period_us.unwrap_or(LATE as f64 / 1e3);
        if self.late == 0 && (self.waited_share < INNOCENT || self.p99_us <= limit * SHORT) {
            return format!(
                "not the CPU: it waited {percent:.1} % of the time in which it had work, 99 of 100 waits took at most {}, \
                 and none was as long as {}",
                duration::human(self.p99_us * 1e3),
                if self.period_us.is_some() { "its period" } else { "5ms" }
            );
        }
        let main = self.causes.first().map_or_else(|| "what is not known".into(), |s| s.what.to_string());
        let long: f64 = self.causes.iter().map(|s| s.us).sum();
        let part = self.causes.first().map_or(0.0, |s| s.us) / if long > 0.0 { long } else { 1.0 } * 100.0;
        let mut text = format!(
            "it waited {percent:.1} % of the time in which it had work; in its longest waits mostly for {main} ({part:.0} %)"
        );
        if self.demoted > 0 {
            let times = if self.demoted == 1 { "once" } else { "several times" };
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!("; it stopped being real-time {times}"));
        }
        if self.promotions_refused > 0 {
            let times = if self.promotions_refused == 1 { "time" } else { "times" };
            let _ = std::fmt::Write::write_fmt(
                &mut text,
                format_args!(
                    "; it was refused a promotion {} {times}, for it had used up its share",
                    self.promotions_refused
                ),
            );
        }
        text
    }
}
