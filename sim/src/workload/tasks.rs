// SPDX-License-Identifier: GPL-2.0-only
//! Sets of periodic tasks of a VM: as written, or drawn at random as RT-Xen's evaluation draws them
//! (RTXEN-E4).

use super::periodic;
use crate::keys;
use crate::machine::{Machine, Program};
use crate::result::VmResult;
use crate::rng::{Purpose, Rng};
pub use crate::spec::TaskSpec;
use crate::spec::{Entry, Key, Keys, Kind, Spec};
use anyhow::{Context, Result, bail};

/// The workload's keys: tasks of one VCPU under fixed priorities, rate-monotonic. Released together
/// when the VM is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// As written, or else drawn at random for the VM's share.
    pub list: Vec<TaskSpec>,
    pub random: Random,
    /// Jobs of a task that may wait, with the one in work; 0 = any number.
    pub pending: u32,
}

/// How a set is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Random {
    /// How many tasks; 0 = none is drawn.
    pub tasks: u32,
    /// Percent of a PCPU that the task with the shortest deadline uses instead of what was drawn: its cost is made to. 0 = as drawn.
    pub top: u32,
    /// Sets are drawn anew until one with `top` at this many percent is too much for its VM; 0 = the first one.
    pub beyond: u32,
}

/// Most sets that are drawn for one.
const REDRAWS: u32 = 1_000;
/// Most tasks of a VM.
const MOST: u32 = 32;
/// Priority of the last of a set; those with shorter deadlines follow above.
const PRIO_LAST: u8 = 60;
const MS: u64 = 1_000_000;
const SHORTEST: u64 = 10_000;
const LONGEST: u64 = 100_000 * MS;
/// Costs of tasks drawn at random, ms.
const COSTS: std::ops::RangeInclusive<u64> = 5..=10;
/// A whole PCPU, in the parts that loads are counted in.
const WHOLE: u64 = 1_000_000_000;

impl Spec for Tasks {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some(format!("{} periodic tasks", self.tasks()))
    }

    fn validate(&self, vm: &Entry) -> Result<()> {
        let (key, random) = (format!("vm.{}", vm.name), self.random.tasks);
        if vm.vcpus != 1 {
            bail!("{key}.vcpus: {} with tasks; allowed: 1", vm.vcpus);
        }
        match (self.list.is_empty(), random) {
            (true, 0) => bail!("{key}.tasks: missing; allowed: tasks such as 5ms/100ms, or random"),
            (false, 1..) => bail!("{key}.random: {random} with tasks; allowed: one of the two"),
            (true, _) if !vm.server.is_some() => {
                bail!("{key}.random: no share to draw tasks for; allowed: with budget and period")
            }
            _ => Ok(()),
        }
    }

    fn tasks(&self) -> usize {
        self.list.len().max(self.random.tasks as usize)
    }

    fn task_set(&self, vm: &Entry, n: u32, load: u32, seed: u64) -> Vec<TaskSpec> {
        if !self.list.is_empty() {
            return self.list.clone();
        }
        draw(seed, n, load, &self.random, share(vm.server.budget, vm.server.period))
    }

    /// A VM that has nothing but tasks starts with them.
    fn starts(&self, lead: u64) -> bool {
        lead > 0
    }
}

impl Keys for Tasks {
    const KIND: Kind = Kind::Tasks;
    const DOC: &'static str = "periodic tasks of one VCPU, shortest deadline first. See below";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::text(
            "tasks",
            "1 to 32 of `cost/period`, 10us to 100s",
            |_| None,
            |t, value| {
                t.list = parse(value)?;
                Ok(())
            },
            "the tasks, such as `\"5ms/100ms, 7ms/50ms\"`",
        ),
        Key::count(
            "random",
            (0, MOST),
            |t| t.random.tasks.into(),
            |t, n| t.random.tasks = n,
            "tasks drawn at random, instead of `tasks`",
        ),
        Key::count(
            "top",
            (0, 100),
            |t| t.random.top.into(),
            |t, n| t.random.top = n,
            "percent of a PCPU for the drawn task with the shortest deadline; 0 = its drawn cost",
        ),
        Key::count(
            "beyond",
            (0, 100),
            |t| t.random.beyond.into(),
            |t, n| t.random.beyond = n,
            "sets are drawn until one would be too much for the VM if `top` had this value. See below; 0 = the first set is taken",
        ),
        Key::count(
            "pending",
            (0, 1_000),
            |t| t.pending.into(),
            |t, n| t.pending = n,
            "released jobs of a task that may be incomplete at a time; a further release is lost, as that \
             of a POSIX timer. 0 = any number",
        ),
    ];
}

impl Program for Tasks {
    type State = ();

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let Some(spec) = m.spec(vm) else { return Ok(()) };
        let (first, lead) = (m.vms[vm].first, m.scenario.lead());
        let set = m.scenario.tasks(spec, vm as u32 - m.scenario.machine.machines, m.seed);
        for (prio, task) in (PRIO_LAST..).zip(by_priority(set).into_iter().rev()) {
            periodic::add_task(m, first, task, (lead, self.pending as usize), prio);
        }
        Ok(())
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        periodic::Periodic::result(m, vm, out);
        // The one of lowest priority was added first.
        out.tasks = periodic::task_results(m, vm);
    }
}

/// Reads `5ms/100ms, 7ms/50ms`: cost and period of each.
///
/// # Errors
/// One line with what is allowed.
fn parse(text: &str) -> Result<Vec<TaskSpec>> {
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    let tasks = parts.map(one).collect::<Result<Vec<_>>>()?;
    if !(1..=MOST as usize).contains(&tasks.len()) {
        bail!("{} tasks; allowed: 1 to {MOST}, such as 5ms/100ms, 7ms/50ms", tasks.len());
    }
    Ok(tasks)
}

fn one(part: &str) -> Result<TaskSpec> {
    let Some((cost, period)) = part.split_once('/') else {
        bail!("'{part}' is not a task; allowed: cost and period such as 5ms/100ms");
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

/// The paper's generator, literally: costs of 5 to 10 ms, `percent` of the VM's share split at random among them, deadline =
/// cost over utilisation in whole ms. The split is that of cuts at random; deadlines end at 100 s. Load, VM and run seed it, so
/// that each VM's set is the same under every policy.
fn draw(seed: u64, vm: u32, percent: u32, random: &Random, share: u64) -> Vec<TaskSpec> {
    let mut rng = Rng::new(seed, Purpose::Tasks, percent << 8 | vm);
    let load = (u128::from(share) * u128::from(percent) / 100) as u64;
    let mut set = one_set(&mut rng, random.tasks, load);
    for _ in 1..REDRAWS {
        let mut heavy = set.clone();
        raise(&mut heavy, random.beyond);
        if random.beyond == 0 || heavy.iter().map(used).sum::<u64>() > share {
            break;
        }
        set = one_set(&mut rng, random.tasks, load);
    }
    raise(&mut set, random.top);
    set
}

/// The task with the shortest deadline uses `percent` of a PCPU, unless that is 0.
fn raise(tasks: &mut [TaskSpec], percent: u32) {
    if let Some(first) = tasks.iter_mut().min_by_key(|t| t.period).filter(|_| percent > 0) {
        first.cost = first.period / 100 * u64::from(percent);
    }
}

fn one_set(rng: &mut Rng, n: u32, load: u64) -> Vec<TaskSpec> {
    let span = COSTS.end() - COSTS.start() + 1;
    let costs: Vec<u64> = (0..n).map(|_| COSTS.start() + rng.below(span)).collect();
    let mut cuts: Vec<u64> = (1..n).map(|_| rng.below(load + 1)).chain([0, load]).collect();
    cuts.sort_unstable();
    costs.iter().zip(cuts.windows(2)).map(|(&c, w)| task(c, w[1] - w[0])).collect()
}

/// Of `cost` ms and so many billionths of a PCPU.
fn task(cost: u64, share: u64) -> TaskSpec {
    let share = share.max(1);
    let deadline = ((2 * cost * WHOLE + share) / (2 * share)).clamp(cost, LONGEST / MS);
    TaskSpec { cost: cost * MS, period: deadline * MS }
}

/// Billionths of a PCPU that a task uses.
fn used(task: &TaskSpec) -> u64 {
    share(task.cost, task.period)
}

/// Billionths of a PCPU that `time` in `period` are.
fn share(time: u64, period: u64) -> u64 {
    (u128::from(time) * u128::from(WHOLE)).checked_div(period.into()).unwrap_or(0) as u64
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
            ("", "0 tasks; allowed: 1 to 32"),
            ("5ms", "'5ms' is not a task; allowed: cost and period such as"),
            ("5ms/4ms", "cost of '5ms/4ms': 5ms is out of range; allowed: 1us to 4ms"),
            ("5ms/200s", "period of '5ms/200s': 200s is out of range; allowed: 10us to 100s"),
            ("5/20ms", "cost of '5/20ms': `5` is not a duration"),
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
            let of = |top, beyond| draw(seed, 3, 70, &Random { tasks: 5, top, beyond }, share(10 * MS, 50 * MS));
            let set = of(0, 0);
            assert_eq!((set.len(), &set), (5, &of(0, 0)));
            assert!(set.iter().all(|t| (5 * MS..=10 * MS).contains(&t.cost) && t.period % MS == 0));
            // Whole milliseconds cost at most half of one of the shortest deadline.
            let load: f64 = set.iter().map(|t| t.cost as f64 / t.period as f64).sum();
            assert!((0.134..0.147).contains(&load), "{load} {set:?}");
            let top = of(10, 0);
            let first = top.iter().min_by_key(|t| t.period).unwrap();
            assert_eq!(first.cost * 10, first.period);
            let periods = |set: &[TaskSpec]| set.iter().map(|t| t.period).collect::<Vec<_>>();
            assert_eq!(periods(&set), periods(&top));
            let (rest, beyond) = (of(0, 10), of(10, 10));
            assert_eq!(periods(&rest), periods(&beyond));
            assert!(beyond.iter().map(used).sum::<u64>() > WHOLE / 5);
        }
        let set = |seed, vm, percent| draw(seed, vm, percent, &Random { tasks: 5, ..Random::default() }, WHOLE / 10);
        assert!(set(1, 1, 70) != set(2, 1, 70) && set(1, 1, 70) != set(1, 2, 70) && set(1, 1, 70) != set(1, 1, 75));
    }
}
