// SPDX-License-Identifier: GPL-2.0-only
//! How many PCPUs real-time VMs need together: exact, for any number of periods of any length.

use std::collections::BTreeMap;

/// VCPUs of a VM that may each run `budget` in each `period`, ns; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub budget: u64,
    pub period: u64,
    pub vcpus: u32,
}

/// The rule of a real-time scheduler (rule K23). Another scheduler with other needs adds its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The sum of all shares, rounded up (rule K22): necessary, but not sufficient for global EDF
    /// (rule K6).
    #[default]
    Paper,
    /// The least m with U ≤ m − (m−1)·u_max, which is sufficient for global EDF.
    Gfb,
    /// The least m on which servers that keep to a PCPU each have room, the largest first, each where most is left, as the policy places
    /// those that come. Where it has placed small ones before, one that comes later may find less.
    Whole,
}

/// A PCPU in the millionths in which a policy counts shares (policy/core/room.h).
const PCPU: u64 = 1_000_000;

impl Rule {
    /// That of a policy; `None` if it has no servers.
    pub fn of(policy: &str) -> Option<Self> {
        let has = |name| takt_policy::has(policy, name);
        has("budgets").then_some(if has("global") { Rule::Paper } else { Rule::Whole })
    }

    /// PCPUs of which these VMs may use `room` percent; `None` if more than a host can have would not be enough.
    pub fn pcpus(self, shares: &[Share], room: u32) -> Option<u32> {
        let sum = Sum::of(shares);
        let room = u64::from(room);
        let (s, p) = match self {
            Rule::Whole => return whole(shares, PCPU / 100 * room),
            Rule::Paper => (0, 1),
            // The greatest s/p: a/b > c/d if a·d > c·b.
            Rule::Gfb => shares.iter().map(|x| (x.budget, x.period)).fold((0, 1), |a, b| {
                if u128::from(b.0) * u128::from(a.1) > u128::from(a.0) * u128::from(b.1) { b } else { a }
            }),
        };
        let wanted = sum.over.times(100).times(p);
        // N/D ≤ room/100 · (m − (m−1)·s/p), without a division. s ≤ p, so nothing here is negative.
        (0..=takt_policy::NCPU).find(|&m| {
            let m = u64::from(m);
            wanted <= sum.under.times(room).times(m * p - m.saturating_sub(1) * s)
        })
    }
}

/// [`Rule::Whole`], with so much room on each PCPU.
fn whole(shares: &[Share], room: u64) -> Option<u32> {
    let share = |s: &Share| (u128::from(s.budget) * u128::from(PCPU) / u128::from(s.period)).max(1) as u64;
    let mut servers: Vec<u64> = shares.iter().flat_map(|s| vec![share(s); s.vcpus as usize]).collect();
    servers.sort_unstable_by_key(|&share| std::cmp::Reverse(share));
    let fits = |pcpus: u32| {
        let mut left = vec![room; pcpus as usize];
        servers.iter().all(|&share| match left.iter_mut().max() {
            Some(most) if *most >= share => {
                *most -= share;
                true
            }
            _ => false,
        })
    };
    (0..=takt_policy::NCPU).find(|&pcpus| fits(pcpus))
}

/// Σ budget·vcpus/period as one fraction.
struct Sum {
    over: Big,
    under: Big,
}

impl Sum {
    fn of(shares: &[Share]) -> Self {
        // Equal denominators first: real sets have few.
        let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
        for share in shares {
            let common = gcd(share.budget, share.period);
            *parts.entry(share.period / common).or_default() += share.budget / common * u64::from(share.vcpus);
        }
        let start = Self { over: Big(Vec::new()), under: Big(vec![1]) };
        parts.into_iter().fold(start, |sum, (period, budget)| Self {
            over: sum.over.times(period).plus(&sum.under.times(budget)),
            under: sum.under.times(period),
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A natural number of any size: limbs from the lowest, the last one not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Big(Vec<u64>);

impl Big {
    fn times(&self, by: u64) -> Self {
        let mut carry = 0u128;
        let mut limbs: Vec<u64> = Vec::with_capacity(self.0.len() + 1);
        for &limb in &self.0 {
            carry += u128::from(limb) * u128::from(by);
            limbs.push(carry as u64);
            carry >>= 64;
        }
        limbs.push(carry as u64);
        Self::trimmed(limbs)
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0u128;
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for n in 0..self.0.len().max(other.0.len()) {
            let limb = |of: &Self| of.0.get(n).copied().map_or(0, u128::from);
            carry += limb(self) + limb(other);
            limbs.push(carry as u64);
            carry >>= 64;
        }
        limbs.push(carry as u64);
        Self::trimmed(limbs)
    }

    fn trimmed(mut limbs: Vec<u64>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Self(limbs)
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let order = self.0.len().cmp(&other.0.len());
        Some(order.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(list: &[(u64, u64, u32)]) -> Vec<Share> {
        list.iter().map(|&(period, budget, vcpus)| Share { budget, period, vcpus }).collect()
    }

    fn paper(list: &[(u64, u64, u32)]) -> Option<u32> {
        Rule::Paper.pcpus(&shares(list), 100)
    }

    /// The vectors of rule K22, as (period, budget).
    #[test]
    fn vectors_of_the_paper() {
        assert_eq!(paper(&[(10, 6, 1), (10, 6, 1)]), Some(2));
        assert_eq!(paper(&[(10, 6, 1), (10, 2, 1)]), Some(1));
        assert_eq!(paper(&[]), Some(0));
        let six = [(10, 2, 1); 6];
        assert_eq!(paper(&[&[(5, 1, 1)], &six[..]].concat()), Some(2));
        assert_eq!(paper(&[(10, 6, 4)]), Some(3));
    }

    /// Beside 128 bits, which hold the same.
    #[test]
    fn numbers_of_any_size() {
        let big = |n: u128| Big::trimmed(vec![n as u64, (n >> 64) as u64]);
        let edges = [0, 1, 2, u64::MAX - 1, u64::MAX];
        for (a, b) in edges.into_iter().flat_map(|a| edges.map(|b| (a, b))) {
            let (wide, other) = (u128::from(a), u128::from(b));
            assert_eq!(big(wide).plus(&big(other)), big(wide + other), "{a} + {b}");
            assert_eq!(big(wide).times(b), big(wide * other), "{a} x {b}");
            assert_eq!(big(wide) < big(other), a < b, "{a} < {b}");
            let long = wide << 64 | other;
            assert!(big(long).plus(&big(1)) > big(long), "{long} + 1");
        }
        let most = big(u128::MAX);
        assert_eq!(most.plus(&big(1)), Big(vec![0, 0, 1]));
        assert_eq!(most.times(u64::MAX), Big(vec![1, u64::MAX, u64::MAX - 1]));
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(paper(&[(3, 1, 1), (3, 1, 1), (3, 1, 1)]), Some(1));
        // A nanosecond in ten seconds too much.
        assert_eq!(paper(&[(3, 1, 3), (10_000_000_000, 1, 1)]), Some(2));
        // Sixty primes as periods, then the rest to a whole: 1/p + (p-1)/p each.
        let mut primes: Vec<u64> = Vec::new();
        for n in 9_999_990_000u64.. {
            if primes.len() == 60 {
                break;
            }
            if (2..100_001).all(|d| n % d != 0) {
                primes.push(n);
            }
        }
        let mut list: Vec<_> = primes.iter().flat_map(|&p| [(p, 1, 1), (p, p - 1, 1)]).collect();
        assert_eq!(paper(&list), Some(60));
        list.push((9_999_999_999, 1, 1));
        assert_eq!(paper(&list), Some(61));
        list[0].1 = 0;
        assert_eq!(paper(&list), Some(60));
        assert_eq!(paper(&[(10, 10, 65)]), None);
    }

    #[test]
    fn gfb_asks_for_what_global_edf_needs() {
        let gfb = |list: &[(u64, u64, u32)]| Rule::Gfb.pcpus(&shares(list), 100);
        assert_eq!(gfb(&[]), Some(0));
        assert_eq!(gfb(&[(10, 2, 5)]), Some(1));
        // U = 1.4, u_max = 0.2: 2 − 0.2 is enough. U = 1.2, u_max = 0.6: 2 − 0.6 is.
        assert_eq!(gfb(&[(5, 1, 1), (10, 2, 6)]), Some(2));
        assert_eq!(gfb(&[(10, 6, 2)]), Some(2));
        // U = 1.8, u_max = 0.6: 2 − 0.6 is not, 3 − 1.2 just is.
        assert_eq!(gfb(&[(10, 6, 3)]), Some(3));
        // One that needs a PCPU of its own leaves no room that could be counted on.
        assert_eq!((gfb(&[(10, 10, 1)]), gfb(&[(10, 10, 1), (10, 1, 1)])), (Some(1), None));
    }

    #[test]
    fn servers_that_keep_to_a_pcpu_are_not_split() {
        let whole = |list: &[(u64, u64, u32)], room| Rule::Whole.pcpus(&shares(list), room);
        assert_eq!((whole(&[], 100), whole(&[(10, 6, 1), (10, 2, 1)], 100)), (Some(0), Some(1)));
        // Σ = 1.8, and no two of them go on one.
        assert_eq!((paper(&[(10, 6, 3)]), whole(&[(10, 6, 3)], 100)), (Some(2), Some(3)));
        assert_eq!(whole(&[(10, 4, 1), (10, 6, 1), (20, 8, 1), (5, 3, 1)], 100), Some(2), "in any order");
        assert_eq!((whole(&[(10, 5, 2)], 100), whole(&[(10, 5, 2)], 95)), (Some(1), Some(2)));
        assert_eq!(
            (whole(&[(10, 10, 64)], 100), whole(&[(10, 10, 65)], 100), whole(&[(10, 10, 1)], 95)),
            (Some(64), None, None)
        );
        for (policy, rule) in [("vgedf", Some(Rule::Paper)), ("sedf", Some(Rule::Whole)), ("rtxen", Some(Rule::Whole))]
        {
            assert_eq!(Rule::of(policy), rule);
        }
        assert_eq!(Rule::of("credit"), None);
    }

    #[test]
    fn room_that_is_kept_for_others_is_not_counted() {
        let list = shares(&[(10, 6, 1), (10, 4, 1)]);
        assert_eq!((Rule::Paper.pcpus(&list, 100), Rule::Paper.pcpus(&list, 95)), (Some(1), Some(2)));
    }
}
