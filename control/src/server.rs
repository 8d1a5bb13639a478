// SPDX-License-Identifier: GPL-2.0-only
//! What a VM's VCPUs may run under a policy with servers: four parameters of the policy that go together.

use crate::duration;
use crate::settings::param;
use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use takt_policy::ParamInfo;

/// Each VCPU may run `budget` in each `period`, ns; it has no server if one of them is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub budget: u64,
    pub period: u64,
    /// 1 = highest (RT-Xen).
    pub priority: u32,
    /// Without budget it runs in what others leave (SEDF, vGEDF).
    pub extra: bool,
}

impl Default for Server {
    fn default() -> Self {
        let default = |name| param(name).default;
        Self {
            budget: default("budget"),
            period: default("period"),
            priority: default("priority") as u32,
            extra: default("extra") != 0,
        }
    }
}

impl Server {
    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        self.budget > 0 && self.period > 0
    }

    /// Settings and values for `adjust` that lead to `want`, such that each step keeps budget ≤
    /// period and takes no more of a PCPU than the larger of both: a period grows before its
    /// budget, and shrinks after it.
    fn steps(&self, want: &Self) -> Vec<(&'static ParamInfo, u64)> {
        let (budget, period) = (("budget", self.budget, want.budget), ("period", self.period, want.period));
        let first = want.period >= self.period && want.period != 0;
        let pair = if first { [period, budget] } else { [budget, period] };
        let rest =
            [("priority", self.priority.into(), want.priority.into()), ("extra", self.extra.into(), want.extra.into())];
        let all = pair.into_iter().chain(rest).filter(|(_, have, want)| have != want);
        all.map(|(name, _, want)| (param(name), want)).collect()
    }

    /// Brings a VM from this to `want` by `adjust`.
    ///
    /// # Errors
    /// A step is refused; those before it are taken back.
    pub fn bring(&self, want: &Self, mut adjust: impl FnMut(u32, u64) -> Result<()>) -> Result<()> {
        let mut at = *self;
        for (info, value) in self.steps(want) {
            if let Err(e) = adjust(info.key, value) {
                // What was is allowed again: it takes less than what was refused, or as much as before.
                at.steps(self).into_iter().try_for_each(|(info, value)| adjust(info.key, value))?;
                return Err(e);
            }
            at.assign(info, value);
        }
        Ok(())
    }

    /// Sets one of the four; all others are no business of a server.
    pub fn assign(&mut self, info: &ParamInfo, value: u64) {
        match info.name {
            "budget" => self.budget = value,
            "period" => self.period = value,
            "priority" => self.priority = u32::try_from(value).unwrap_or(u32::MAX),
            "extra" => self.extra = value != 0,
            _ => {}
        }
    }

    /// For a table: `2ms/10ms`, `-` where there is none.
    pub fn share(&self) -> String {
        match (self.budget, self.period) {
            (0, _) | (_, 0) => "-".into(),
            (budget, period) => format!("{}/{}", duration::format(budget), duration::format(period)),
        }
    }
}

/// The same as `takt status` says it: times in µs, 0 = none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    pub budget_us: f64,
    pub period_us: f64,
    /// 1 = highest (RT-Xen).
    pub priority: u32,
    /// Without budget it runs in what others leave (SEDF, vGEDF).
    pub extra: bool,
}

impl From<&Server> for ServerStatus {
    fn from(s: &Server) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self { budget_us: us(s.budget), period_us: us(s.period), priority: s.priority, extra: s.extra }
    }
}

impl ServerStatus {
    /// As it was before it became µs.
    pub fn server(&self) -> Server {
        let ns = |us: f64| (us * 1e3).round() as u64;
        Server { budget: ns(self.budget_us), period: ns(self.period_us), priority: self.priority, extra: self.extra }
    }

    /// As [`Server::share`].
    pub fn share(&self) -> String {
        self.server().share()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use takt_policy::vm_settings;

    const MS: u64 = 1_000_000;

    fn server(budget: u64, period: u64) -> Server {
        Server { budget: budget * MS, period: period * MS, ..Server::default() }
    }

    fn info(key: u32) -> &'static ParamInfo {
        vm_settings().iter().find(|p| p.key == key).unwrap()
    }

    /// Every pair of servers; the share of a PCPU never exceeds that of both, nor the budget the period.
    #[test]
    fn no_step_asks_for_more_than_either_end() {
        let share = |s: &Server| (s.budget * 1000).checked_div(s.period).unwrap_or(0);
        let all: Vec<Server> =
            [(0, 0), (1, 1), (1, 10), (5, 10), (10, 10), (2, 5), (20, 40), (15, 20)].map(|(b, p)| server(b, p)).into();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let mut at = *a;
            a.bring(b, |key, value| {
                at.assign(info(key), value);
                assert!(at.period == 0 || at.budget <= at.period, "{a:?} to {b:?} by {at:?}");
                assert!(share(&at) <= share(a).max(share(b)), "{a:?} to {b:?} by {at:?}");
                Ok(())
            })
            .unwrap();
            assert_eq!(at, *b);
        }
    }

    /// A status has µs with fractions, which binary numbers do not all have.
    #[test]
    fn a_status_keeps_every_nanosecond() {
        for ns in (1..100_000).step_by(7).chain([4_035, 1_001_001, 9_999_999_999, 10_000_000_000]) {
            let server = Server { budget: ns, period: ns + 1, ..Server::default() };
            assert_eq!(ServerStatus::from(&server).server(), server, "{ns} ns");
        }
    }

    #[test]
    fn what_is_refused_is_taken_back() {
        for fails in 0..4 {
            let have = server(2, 10);
            let want = Server { priority: 3, extra: false, ..server(8, 20) };
            let (mut at, mut n) = (have, 0);
            let done = have.bring(&want, |key, value| {
                n += 1;
                if n == fails + 1 {
                    bail!("no room");
                }
                at.assign(info(key), value);
                Ok(())
            });
            assert!(done.is_err());
            assert_eq!(at, have, "after {fails} steps");
        }
    }

    #[test]
    fn errors_name_the_key_and_what_is_allowed() {
        let error = |s: Server| s.validate().unwrap_err().to_string();
        assert_eq!(error(server(11, 10)), "`budget` must be at most the period of 10ms (got `11ms`)");
        assert_eq!(error(server(0, 10_001)), "`period` must be between 0 and 10s (got `10001ms`)");
        assert_eq!(error(Server { priority: 0, ..server(0, 0) }), "`priority` must be between 1 and 65535 (got `0`)");
        server(10, 10).validate().unwrap();
        Server::default().validate().unwrap();
    }
}
