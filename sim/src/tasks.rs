// SPDX-License-Identifier: GPL-2.0-only
//! Sets of periodic tasks of a VM: as written, or drawn at random as RT-Xen's evaluation draws them (spec §7.4).

use crate::keys;
use crate::rng::{Purpose, Rng};
use anyhow::{Context, Result, bail};
use std::fmt;
use takt_control::duration;

/// A periodic, independent task that needs only the CPU; each job is due by the next release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// CPU time of a job, ns.
    pub cost: u64,
    /// Period and deadline, ns.
    pub period: u64,
}

/// Most tasks of a VM.
pub const MOST: u32 = 32;
const MS: u64 = 1_000_000;
const SHORTEST: u64 = 10_000;
const LONGEST: u64 = 100_000 * MS;
/// Costs of tasks drawn at random, ms.
const COSTS: std::ops::RangeInclusive<u64> = 5..=10;
/// A whole PCPU, in the parts that loads are counted in.
const WHOLE: u64 = 1_000_000_000;

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", duration::format(self.cost), duration::format(self.period))
    }
}

/// Reads `5ms/100ms, 7ms/50ms`: cost and period of each.
///
/// # Errors
/// One line with what is allowed.
pub fn parse(text: &str) -> Result<Vec<TaskSpec>> {
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    let tasks = parts.map(one).collect::<Result<Vec<_>>>()?;
    if !(1..=MOST as usize).contains(&tasks.len()) {
        bail!("{} tasks; allowed: 1 .. {MOST}, such as 5ms/100ms, 7ms/50ms", tasks.len());
    }
    Ok(tasks)
}

fn one(part: &str) -> Result<TaskSpec> {
    let Some((cost, period)) = part.split_once('/') else {
        bail!("'{part}' is no task; allowed: cost and period such as 5ms/100ms");
    };
    let period = keys::time(period.trim(), SHORTEST, LONGEST).with_context(|| format!("period of '{part}'"))?;
    let cost = keys::time(cost.trim(), 1_000, period).with_context(|| format!("cost of '{part}'"))?;
    Ok(TaskSpec { cost, period })
}

/// The tasks in order of their priorities: rate-monotonic, in the order given where deadlines are equal.
pub fn by_priority(mut tasks: Vec<TaskSpec>) -> Vec<TaskSpec> {
    tasks.sort_by_key(|t| t.period);
    tasks
}

/// The paper's generator, literally: `n` costs of 5 to 10 ms, `load` billionths of a PCPU split at random among them, deadline =
/// cost over utilisation in whole ms. The split is that of `n` - 1 cuts at random; deadlines end at 100 s. `load` and `seed` seed it, so
/// that each VM's set is the same under every policy. `top` percent, unless 0, is what the task with the shortest
/// deadline uses instead: its cost is made to.
pub fn draw(seed: u64, vm: u32, percent: u32, n: u32, load: u64, top: u32) -> Vec<TaskSpec> {
    let mut rng = Rng::new(seed, Purpose::Tasks, percent << 8 | vm);
    let span = COSTS.end() - COSTS.start() + 1;
    let costs: Vec<u64> = (0..n).map(|_| COSTS.start() + rng.below(span)).collect();
    let mut cuts: Vec<u64> = (1..n).map(|_| rng.below(load + 1)).chain([0, load]).collect();
    cuts.sort_unstable();
    let mut tasks: Vec<TaskSpec> = costs.iter().zip(cuts.windows(2)).map(|(&c, w)| task(c, w[1] - w[0])).collect();
    if let Some(first) = tasks.iter_mut().min_by_key(|t| t.period).filter(|_| top > 0) {
        first.cost = first.period / 100 * u64::from(top.min(100));
    }
    tasks
}

/// Of `cost` ms and so many billionths of a PCPU.
fn task(cost: u64, share: u64) -> TaskSpec {
    let share = share.max(1);
    let deadline = ((2 * cost * WHOLE + share) / (2 * share)).clamp(cost, LONGEST / MS);
    TaskSpec { cost: cost * MS, period: deadline * MS }
}

/// Billionths of a PCPU: `percent` of what a server of `budget` in `period` may use.
pub fn load(budget: u64, period: u64, percent: u32) -> u64 {
    let part = u128::from(budget) * u128::from(WHOLE) * u128::from(percent) / 100;
    part.checked_div(period.into()).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_written_as_read() {
        let tasks = parse("5ms/100ms, 700us/50ms,").unwrap();
        assert_eq!(tasks[1], TaskSpec { cost: 700_000, period: 50 * MS });
        assert_eq!(tasks[0].to_string(), "5ms/100ms");
        assert_eq!(by_priority(tasks)[0].cost, 700_000);
        for (text, want) in [
            ("", "0 tasks; allowed: 1 .. 32"),
            ("5ms", "'5ms' is no task; allowed: cost and period such as"),
            ("5ms/4ms", "cost of '5ms/4ms': 5ms is out of range; allowed: 1us .. 4ms"),
            ("5ms/200s", "period of '5ms/200s': 200s is out of range; allowed: 10us .. 100s"),
            ("5/20ms", "cost of '5/20ms': `5` is no duration"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn deadlines_are_cost_over_utilisation_in_whole_ms() {
        assert_eq!(task(5, WHOLE / 10).period, 50 * MS);
        assert_eq!(task(7, WHOLE / 30).period, 210 * MS);
        // 10 / 0.03 = 333.3, 5 / 0.03 = 166.7
        assert_eq!((task(10, 30_000_000).period, task(5, 30_000_000).period), (333 * MS, 167 * MS));
        assert_eq!(task(5, 0).period, LONGEST);
    }

    #[test]
    fn a_drawn_set_uses_its_load() {
        for seed in 1..200 {
            let load = load(10 * MS, 50 * MS, 70);
            assert_eq!(load, 140_000_000);
            let set = draw(seed, 3, 70, 5, load, 0);
            assert_eq!((set.len(), &set), (5, &draw(seed, 3, 70, 5, load, 0)));
            assert!(set.iter().all(|t| (5 * MS..=10 * MS).contains(&t.cost) && t.period % MS == 0));
            // Whole milliseconds cost at most half of one of the shortest deadline.
            let used: f64 = set.iter().map(|t| t.cost as f64 / t.period as f64).sum();
            assert!((0.134..0.147).contains(&used), "{used} {set:?}");
            let top = draw(seed, 3, 70, 5, load, 10);
            let first = top.iter().min_by_key(|t| t.period).unwrap();
            assert_eq!(first.cost * 10, first.period);
            assert_eq!(set.iter().map(|t| t.period).collect::<Vec<_>>(), top.iter().map(|t| t.period).collect::<Vec<_>>());
        }
        let set = |seed, vm, percent| draw(seed, vm, percent, 5, WHOLE / 10, 0);
        assert!(set(1, 1, 70) != set(2, 1, 70) && set(1, 1, 70) != set(1, 2, 70) && set(1, 1, 70) != set(1, 1, 75));
    }
}
