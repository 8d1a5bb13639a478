// SPDX-License-Identifier: GPL-2.0-only
//! `takt analyze`: whether budgets suffice, and latencies hold, before anything runs.

mod command;
mod latency;
mod place;
mod show;

pub use command::run;

use schemars::JsonSchema;
use serde::Serialize;
use takt_control::Document;
use takt_control::analysis::{self, Kind, Response, Share};
use takt_sim::{Scenario, tasks};

/// The kinds of servers that can be analysed, in the order of tables.
pub const KINDS: [Kind; 2] = [Kind::Deferrable, Kind::Periodic];

/// As policies are called, and in JSON.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Deferrable => "deferrable",
        Kind::Periodic => "periodic",
    }
}

/// What can be said of a scenario; its JSON is a stable interface.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Analysis {
    pub scenario: String,
    pub seed: u64,
    pub vcpus: Vec<Vcpu>,
    pub pools: Vec<Pool>,
    /// VMs with a task that may be late, or without room, under each kind.
    pub does_not_fit: Kinds<Vec<String>>,
    /// VMs with tasks and without budget: nothing can be said of them.
    pub without_budget: Vec<String>,
    /// Machines with VMs that are real-time by `rt = "on"`, under Poris.
    pub poris: Vec<latency::Poris>,
    /// Whether each policy has room for all budgets.
    pub admission: Vec<Admission>,
}

impl Document for Analysis {
    const NAME: &'static str = "analyze";
    const VERSION: u32 = 1;
}

/// What a policy that keeps budgets says of those of a scenario, before anything runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Admission {
    pub policy: String,
    /// The first VM without room, and what reserve the policy keeps.
    pub refusal: Option<String>,
}

/// One value for each kind of server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}_by_kind")]
pub struct Kinds<T> {
    pub deferrable: T,
    pub periodic: T,
}

impl<T> Kinds<T> {
    fn of(f: impl Fn(Kind) -> T) -> Self {
        Self { deferrable: f(Kind::Deferrable), periodic: f(Kind::Periodic) }
    }

    pub fn get(&self, kind: Kind) -> &T {
        match kind {
            Kind::Deferrable => &self.deferrable,
            Kind::Periodic => &self.periodic,
        }
    }
}

/// A VCPU with a server.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Vcpu {
    pub vm: String,
    pub vcpu: u32,
    /// PCPU that it keeps to; none has room if there is none.
    pub pcpu: Option<u32>,
    pub budget_ns: u64,
    pub period_ns: u64,
    pub priority: u64,
    /// Whether it gets its budget in every period, whatever servers above it do.
    pub guaranteed: Kinds<bool>,
    /// Whether all its tasks are in time.
    pub fits: Kinds<bool>,
    pub tasks: Vec<Task>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Task {
    pub cost_ns: u64,
    /// Period and deadline.
    pub period_ns: u64,
    pub response: Kinds<Bound>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Bound {
    /// Null: far beyond the deadline, or never.
    pub response_ns: Option<u64>,
    pub fits: bool,
    /// Deadline minus response; negative: that much too late.
    pub slack_ns: Option<i64>,
}

/// VMs with budgets, as one pool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pool {
    pub name: String,
    pub vcpus: u64,
    /// Sum of the shares, in PCPUs.
    pub share: f64,
    /// PCPUs needed: the sum rounded up.
    pub pcpus: u64,
    /// As many as make global EDF certain; null if no number does.
    pub pcpus_gfb: Option<u64>,
}

impl Bound {
    fn of(response: Response, deadline: u64) -> Self {
        let response_ns = match response {
            Response::Bounded(time) => Some(time),
            Response::Unbounded => None,
        };
        let slack_ns = response_ns.and_then(|time| i64::try_from(i128::from(deadline) - i128::from(time)).ok());
        Self { response_ns, fits: response.fits(deadline), slack_ns }
    }
}

/// Analyses `s`, with the sets of tasks that it draws with `seed`.
/// What Poris makes of it is not among it.
pub fn analyse(s: &Scenario, seed: u64) -> Analysis {
    let placed = place::all(s);
    let guests = || s.vms.iter().flat_map(|vm| vm.names().map(move |name| (name, vm))).enumerate();
    let tasks_of = |name: &str| {
        let of = guests().find(|(_, (n, _))| n == name);
        of.map(|(n, (_, vm))| tasks::by_priority(s.tasks(vm, n as u32, seed))).unwrap_or_default()
    };
    let vcpus: Vec<Vcpu> = (0..placed.len()).map(|at| vcpu(&placed, at, &tasks_of(&placed[at].vm))).collect();
    let without = guests().filter(|(n, (_, vm))| !vm.server.is_some() && !s.tasks(vm, *n as u32, seed).is_empty());
    Analysis {
        scenario: s.name.clone(),
        seed,
        pools: pools(&placed),
        does_not_fit: Kinds::of(|kind| {
            let mut names: Vec<String> = vcpus.iter().filter(|v| !v.fits.get(kind)).map(|v| v.vm.clone()).collect();
            names.dedup();
            names
        }),
        without_budget: without.map(|(_, (name, _))| name).collect(),
        vcpus,
        poris: Vec::new(),
        admission: Vec::new(),
    }
}

fn vcpu(placed: &[place::Placed], at: usize, tasks: &[takt_sim::TaskSpec]) -> Vcpu {
    let own = &placed[at];
    // Equal priorities take turns: each may keep the other waiting.
    let rivals = placed.iter().enumerate().filter(|(n, p)| *n != at && p.pcpu == own.pcpu && p.pcpu.is_some());
    let above: Vec<_> =
        rivals.filter(|(_, p)| p.server.priority <= own.server.priority).map(|(_, p)| p.budget()).collect();
    let list: Vec<_> = tasks.iter().map(|t| analysis::Task { cost: t.cost, period: t.period }).collect();
    let found = KINDS.map(|kind| analysis::responses(&list, own.budget(), &above, kind));
    let bound = |n: usize, kind: Kind| Bound::of(found[kind as usize][n], tasks[n].period);
    Vcpu {
        vm: own.vm.clone(),
        vcpu: own.vcpu,
        pcpu: own.pcpu,
        budget_ns: own.server.budget,
        period_ns: own.server.period,
        priority: own.server.priority.into(),
        guaranteed: Kinds::of(|kind| own.pcpu.is_some() && analysis::guaranteed(own.budget(), &above, kind)),
        fits: Kinds::of(|kind| own.pcpu.is_some() && (0..tasks.len()).all(|n| bound(n, kind).fits)),
        tasks: tasks
            .iter()
            .enumerate()
            .map(|(n, t)| Task { cost_ns: t.cost, period_ns: t.period, response: Kinds::of(|kind| bound(n, kind)) })
            .collect(),
    }
}

/// All VCPUs with budgets together: what a pool of them would need.
fn pools(placed: &[place::Placed]) -> Vec<Pool> {
    let shares: Vec<Share> =
        placed.iter().map(|p| Share { budget: p.server.budget, period: p.server.period, vcpus: 1 }).collect();
    let sizes = analysis::sizes(&shares);
    // From 0, not from the -0 that an empty sum of floats is.
    let share = shares.iter().fold(0.0, |sum, s| sum + s.budget as f64 / s.period as f64);
    vec![Pool { name: "servers".into(), vcpus: shares.len() as u64, share, pcpus: sizes.sum, pcpus_gfb: sizes.gfb }]
}

impl Analysis {
    /// Whether every VM fits under one kind of server at least and has room under each policy, and every real-time VM's latency holds
    /// under Poris.
    pub fn holds(&self) -> bool {
        if self.admission.iter().any(|a| a.refusal.is_some()) {
            return false;
        }
        let latencies = self.poris.iter().flat_map(|p| &p.vms).all(|vm| vm.holds);
        latencies && self.vcpus.iter().all(|v| v.fits.deferrable || v.fits.periodic)
    }
}
