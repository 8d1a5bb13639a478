// SPDX-License-Identifier: GPL-2.0-only
//! What a scheduler costs, as the lab's hypervisor counts it: instructions in its hooks and timers, and how often contexts switched.

use std::collections::BTreeMap;
use std::fmt;

/// Ticks of the time stamp counter that an instruction takes (xen/lab/boot.sh: `-icount shift=2`, a tick a ns).
const TICKS: f64 = 4.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Calls {
    calls: f64,
    /// Of the calls that no other CPU's turn interrupted.
    ticks: f64,
    interrupted: f64,
}

/// Sums over all PCPUs.
#[derive(Debug, Default)]
pub struct Cost {
    window: f64,
    pub switches: f64,
    hooks: BTreeMap<String, Calls>,
}

impl Cost {
    /// Timers are the scheduler's if they are named in `timers`; all hooks are.
    pub fn read(console: &str, timers: &[&str]) -> Self {
        let mut cost = Self::default();
        for line in console.lines().filter_map(|l| l.strip_prefix("(XEN) cost ")) {
            let words: Vec<_> = line.split_whitespace().collect();
            let number = |n: usize| words[n].parse::<f64>().unwrap_or_else(|e| panic!("{line}: {e}"));
            match words[..] {
                ["window", ..] => cost.window = number(1),
                [_, "switches", _] => cost.switches += number(2),
                [_, kind, name, "calls", _, "ticks", _, "interrupted", _, "of", _] => {
                    let name = name.rsplit('#').next().unwrap_or(name);
                    if kind == "timer" && !timers.contains(&name) {
                        continue;
                    }
                    let sum = cost.hooks.entry(name.into()).or_default();
                    sum.calls += number(4);
                    sum.ticks += number(6);
                    sum.interrupted += number(8);
                }
                _ => panic!("{line}: what is that?"),
            }
        }
        assert!(cost.window > 0.0 && cost.switches > 0.0, "nothing was counted");
        timers.iter().for_each(|t| assert!(cost.hooks.contains_key(*t), "timer {t} never ran"));
        cost
    }

    /// Instructions of a call on average, without those that count.
    fn each(&self, name: &str) -> f64 {
        let mean = |name: &str| {
            let c = self.hooks.get(name).copied().unwrap_or_default();
            c.ticks / (c.calls - c.interrupted).max(1.0) / TICKS
        };
        mean(name) - mean("nothing")
    }

    fn all(&self) -> impl Iterator<Item = (&str, Calls)> {
        self.hooks.iter().map(|(name, c)| (name.as_str(), *c)).filter(|(name, _)| *name != "nothing")
    }

    /// Instructions a virtual second, an interrupted call taken for an average one.
    pub fn per_second(&self) -> f64 {
        self.all().map(|(name, c)| c.calls * self.each(name)).sum::<f64>() * 1e9 / self.window
    }

    /// Of these hooks.
    pub fn second_of(&self, hooks: &[&str]) -> f64 {
        let of = self.all().filter(|(name, _)| hooks.contains(name));
        of.map(|(name, c)| c.calls * self.each(name)).sum::<f64>() * 1e9 / self.window
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>16} {:>9} {:>6} {:>12} {:>12}", "hook", "calls/s", "each", "instr/s", "interrupted")?;
        let second = |n: f64| n * 1e9 / self.window;
        for (name, c) in self.all() {
            let (calls, each) = (second(c.calls), self.each(name));
            let cut = 100.0 * c.interrupted / c.calls;
            writeln!(f, "{name:>16} {calls:>9.0} {each:>6.0} {:>12.0} {cut:>10.1} %", calls * each)?;
        }
        write!(f, "{:>16} {:>9.0} {:>6} {:>12.0}", "switches, sum", second(self.switches), "", self.per_second())
    }
}

#[test]
fn costs_are_summed() {
    let console = "(XEN) cost window 2000000000 ns\n\
        (XEN) cost 0 hook nothing calls 10 ticks 280 interrupted 0 of 0\n\
        (XEN) cost 0 hook wake calls 10 ticks 4224 interrupted 2 of 90000\n\
        (XEN) cost 0 timer common/sched/x.c#a_tick calls 4 ticks 1712 interrupted 0 of 0\n\
        (XEN) cost 0 timer another calls 4 ticks 1712 interrupted 0 of 0\n\
        (XEN) cost 0 switches 5\n(XEN) cost 1 switches 6\n";
    let cost = Cost::read(console, &["a_tick"]);
    assert_eq!((cost.switches, cost.each("wake"), cost.each("a_tick")), (11.0, 125.0, 100.0));
    assert_eq!(cost.per_second(), (10.0 * 125.0 + 4.0 * 100.0) / 2.0);
    assert_eq!(cost.second_of(&["a_tick"]), 200.0);
}
