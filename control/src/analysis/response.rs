// SPDX-License-Identifier: GPL-2.0-only
//! Response times of periodic tasks under fixed priorities, on a server under fixed priorities
//! (after Davis and Burns 2005; RTXEN-E5).
//!
//! Tasks are not bound to their server's releases: a job may arrive just after the budget is used
//! up, and waits up to `period - budget` (its jitter) for the next budget. The analysis presumes
//! that every server gets its budget in each of its periods. Where servers take all of a PCPU,
//! that is not guaranteed.

/// What becomes of a budget while there is no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is kept: two budgets may come back to back.
    Deferrable,
    /// It idles away.
    Periodic,
}

/// A server: `budget` ns in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    pub budget: u64,
    pub period: u64,
}

/// A periodic task, due by its next release; ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub cost: u64,
    pub period: u64,
}

/// What was found of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// No job takes longer, ns, if this is within its deadline; else one that no job of its own task keeps waiting takes so long.
    Bounded(u64),
    /// None was found up to [`FAR`] deadlines.
    Unbounded,
}

impl Response {
    /// Whether all jobs are complete in time.
    pub fn fits(self, deadline: u64) -> bool {
        matches!(self, Response::Bounded(time) if time <= deadline)
    }
}

/// Deadlines after which nobody looks further.
pub const FAR: u128 = 100;
/// Most steps for a task: each is one more release or budget.
const STEPS: u32 = 100_000;

/// The response time of each of `tasks`, which are in order of their priorities, on `server`; `above` are the servers of the same PCPU
/// with its priority or a higher one.
pub fn responses(tasks: &[Task], server: Server, above: &[Server], kind: Kind) -> Vec<Response> {
    (0..tasks.len()).map(|n| response(&tasks[..=n], server, above, kind)).collect()
}

/// Whether a server gets its budget in each period, whatever those of `above` do. The recurrence presumes it and does not ask, as the paper's
/// servers, which share out all of a PCPU, could not be given that promise; without it a bound may be short, and a higher cost may
/// have a lower one.
pub fn guaranteed(server: Server, above: &[Server], kind: Kind) -> bool {
    let mut w = u128::from(server.budget);
    while w <= server.period.into() {
        let next = above.iter().map(|s| interference(s, w, kind)).fold(server.budget.into(), u128::saturating_add);
        if next <= w {
            return true;
        }
        w = next;
    }
    false
}

/// What a server of higher priority takes of `time`.
fn interference(s: &Server, time: u128, kind: Kind) -> u128 {
    let (budget, period) = (u128::from(s.budget), u128::from(s.period.max(1)));
    let back = if kind == Kind::Deferrable { period.saturating_sub(budget) } else { 0 };
    (time + back).div_ceil(period).saturating_mul(budget)
}

/// Of the last of `tasks`.
fn response(tasks: &[Task], server: Server, above: &[Server], kind: Kind) -> Response {
    let Some((task, higher)) = tasks.split_last() else { return Response::Unbounded };
    let (budget, period) = (u128::from(server.budget), u128::from(server.period));
    if budget == 0 || budget > period || above.iter().chain([&server]).any(|s| s.period == 0) {
        return Response::Unbounded;
    }
    let jitter = period - budget;
    let end = u128::from(task.period) * FAR;
    let mut w = u128::from(task.cost);
    for _ in 0..STEPS {
        let releases = |t: &Task| (w + jitter).div_ceil(u128::from(t.period.max(1))).saturating_mul(t.cost.into());
        let load = higher.iter().map(releases).fold(task.cost.into(), u128::saturating_add);
        // Budgets that are used up before the one in which the load ends.
        let full = load.div_ceil(budget).saturating_sub(1);
        let last = w.saturating_sub(full.saturating_mul(period));
        let gaps = load.saturating_add(full.saturating_mul(jitter));
        let next = above.iter().map(|s| interference(s, last, kind)).fold(gaps, u128::saturating_add);
        // The time has come when all that must be done before it fits before it.
        if next <= w {
            return u64::try_from(w + jitter).map_or(Response::Unbounded, Response::Bounded);
        }
        w = next;
        if w > end {
            break;
        }
    }
    Response::Unbounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn server(budget: u64, period: u64) -> Server {
        Server { budget, period }
    }

    fn one(cost: u64, above: &[Server], kind: Kind) -> Response {
        responses(&[Task { cost, period: 20 }], server(2, 5), above, kind)[0]
    }

    #[test]
    fn by_hand() {
        use Response::Bounded;
        // Alone: the budget has just gone, 3 until the next.
        assert_eq!(one(1, &[], Kind::Deferrable), Bounded(4));
        assert_eq!(one(2, &[], Kind::Deferrable), Bounded(5));
        // Two budgets: 3 + 2 + 3 + 1, then three of them.
        assert_eq!(one(3, &[], Kind::Deferrable), Bounded(9));
        assert_eq!(one(5, &[], Kind::Periodic), Bounded(14));
        // A server of 1 in 4 above: w = 1 + ceil((w + 3) / 4) = 3 if it defers, 1 + ceil(w / 4) = 2 if not.
        assert_eq!(one(1, &[server(1, 4)], Kind::Deferrable), Bounded(6));
        assert_eq!(one(1, &[server(1, 4)], Kind::Periodic), Bounded(5));
        // Two tasks: the lower has the higher one's releases within w + 3: L = 1 + ceil((w + 3) / 6).
        // w = 1: L = 2, w = 2: still 2 with k = 0; so 2 + 3.
        let two = [Task { cost: 1, period: 6 }, Task { cost: 1, period: 20 }];
        assert_eq!(responses(&two, server(2, 5), &[], Kind::Periodic), [Bounded(4), Bounded(5)]);
        // Costs 1 of 6 and 3 of 20: w = 3: L = 4, k = 1, 7; L = 3 + ceil(10 / 6) = 5, k = 2, 11; L = 3 + 3 = 6, k = 2, 12; L = 6: 12; + 3.
        let two = [Task { cost: 1, period: 6 }, Task { cost: 3, period: 20 }];
        assert_eq!(responses(&two, server(2, 5), &[], Kind::Deferrable)[1], Bounded(15));
    }

    #[test]
    fn promises() {
        let even = [server(2, 10), server(4, 20), server(6, 30), server(8, 40), server(10, 50)];
        // 10 + 2·1 at once, at w = 12 already 2·2, and so on: the last of five that take all of a PCPU.
        assert!(guaranteed(even[0], &[], Kind::Deferrable) && guaranteed(even[1], &even[..1], Kind::Deferrable));
        // Budget and interference just fill the period, and are over by one.
        assert!(guaranteed(server(6, 10), &[server(4, 10)], Kind::Periodic));
        assert!(!guaranteed(server(7, 10), &[server(4, 10)], Kind::Periodic));
        assert!(guaranteed(server(10, 10), &[], Kind::Periodic) && !guaranteed(server(11, 10), &[], Kind::Periodic));
        assert!(!guaranteed(even[4], &even[..4], Kind::Deferrable) && !guaranteed(server(3, 2), &[], Kind::Periodic));
        // A period of 0 promises nothing, to the server and to those below it.
        assert!(!guaranteed(server(2, 0), &[], Kind::Periodic));
        assert!(!guaranteed(server(2, 5), &[server(1, 0)], Kind::Periodic));
    }

    /// A job is followed for 100 of its deadlines, the last one with them.
    #[test]
    fn nobody_looks_beyond_a_hundred_deadlines() {
        let of = |cost, server| responses(&[Task { cost, period: 1 }], server, &[], Kind::Periodic)[0];
        // 34 budgets of 1 with gaps of 2 between them are 100, and 2 before the first; 51 with gaps of 1 are 101.
        assert_eq!(of(34, server(1, 3)), Response::Bounded(102));
        assert_eq!((of(35, server(1, 3)), of(51, server(1, 2))), (Response::Unbounded, Response::Unbounded));
        assert_eq!(of(50, server(1, 2)), Response::Bounded(100));
        assert!(Response::Bounded(5).fits(5) && !Response::Bounded(6).fits(5) && !Response::Unbounded.fits(u64::MAX));
    }

    #[test]
    fn what_never_ends_is_said_so() {
        let task = |cost| Task { cost, period: 100 };
        // 30 of 100 twice, on a half: L = 90 at w = 175, + 5; later jobs come later still.
        let found = responses(&[task(30), task(30)], server(5, 10), &[], Kind::Deferrable);
        assert!(found[0].fits(100) && found[1] == Response::Bounded(180) && !found[1].fits(100));
        // Those of higher priority alone are too much.
        let found = responses(&[task(60), task(1)], server(5, 10), &[], Kind::Deferrable);
        assert_eq!(found[1], Response::Unbounded);
        // Its own budget and period are no server, or those of a server above are none.
        let none = server(1, 0);
        for (own, above) in [(server(0, 10), None), (server(11, 10), None), (none, None), (server(5, 10), Some(none))] {
            let found = responses(&[task(1)], own, above.as_slice(), Kind::Periodic);
            assert_eq!(found, [Response::Unbounded], "{own:?} {above:?}");
        }
        let (huge, most) = (Server { budget: u64::MAX, period: u64::MAX }, Task { cost: u64::MAX, period: 1 });
        assert_eq!(responses(&[most, most], huge, &[huge], Kind::Deferrable), [Response::Unbounded; 2]);
        assert_eq!(responses(&[most], server(1, u64::MAX), &[huge], Kind::Deferrable), [Response::Unbounded]);
    }

    fn bound(r: Response) -> u64 {
        match r {
            Response::Bounded(time) => time,
            Response::Unbounded => u64::MAX,
        }
    }

    fn servers() -> impl Strategy<Value = Vec<Server>> {
        let one = (1u64..12, 1u64..90).prop_map(|(budget, rest)| server(budget, budget + rest));
        prop::collection::vec(one, 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, max_global_rejects: 1_000_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// More to do never takes less, whichever task's cost grows, where the server gets its budget for sure: there w > k · period for
        /// every k that is reached, and nothing but a growing k takes away from w.
        #[test]
        fn monotone_in_cost(
            tasks in prop::collection::vec((1u64..12, 10u64..300), 1..5),
            which in any::<prop::sample::Index>(),
            more in 1u64..10,
            (budget, rest) in (1u64..12, 0u64..30),
            above in servers(),
            deferrable in any::<bool>(),
        ) {
            let kind = if deferrable { Kind::Deferrable } else { Kind::Periodic };
            prop_assume!(guaranteed(server(budget, budget + rest), &above, kind));
            let before: Vec<Task> = tasks.iter().map(|&(cost, period)| Task { cost, period }).collect();
            let mut after = before.clone();
            after[which.index(tasks.len())].cost += more;
            let of = |tasks: &[Task]| responses(tasks, server(budget, budget + rest), &above, kind);
            for (b, a) in of(&before).into_iter().zip(of(&after)) {
                prop_assert!(bound(b) <= bound(a), "{b:?} {a:?}");
            }
        }

        /// And less room never helps: a deferrable server above is as bad as a periodic one at least.
        #[test]
        fn deferring_is_no_better(cost in 1u64..20, period in 10u64..300, (budget, rest) in (1u64..12, 0u64..30), above in servers()) {
            let of = |kind| bound(responses(&[Task { cost, period }], server(budget, budget + rest), &above, kind)[0]);
            prop_assert!(of(Kind::Periodic) <= of(Kind::Deferrable));
        }
    }
}
