// SPDX-License-Identifier: GPL-2.0-only
//! How many PCPUs a pool of servers needs: Risa's sum of shares (rule K22), and the bound under
//! which global EDF meets every deadline (rule K6).

use super::fraction::Sum;

/// The servers of a VM's VCPUs: `budget` in each `period` for each of `vcpus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub budget: u64,
    pub period: u64,
    pub vcpus: u64,
}

/// PCPUs for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Shares added up and rounded up (rule K22, N_P): less cannot do.
    pub sum: u64,
    /// The fewest m with U <= m - (m - 1) · u_max (Goossens, Funk, Baruah): as many do for sure. `None`: no number that is sensible.
    pub gfb: Option<u64>,
}

/// Beyond every machine.
const MOST: u64 = 4_096;

/// The sizes for these VMs; those without budget or period count as nothing.
pub fn sizes(vms: &[Share]) -> Sizes {
    let vms: Vec<_> = vms.iter().filter(|v| v.budget > 0 && v.period > 0 && v.vcpus > 0).collect();
    let used = Sum::of(vms.iter().map(|v| (v.vcpus, v.budget, v.period)));
    let wider = |a: &&Share, b: &&Share| {
        (u128::from(a.budget) * u128::from(b.period)).cmp(&(u128::from(b.budget) * u128::from(a.period)))
    };
    let Some(most) = vms.iter().copied().max_by(wider) else { return Sizes { sum: 0, gfb: Some(0) } };
    let whole: u64 =
        vms.iter().map(|v| v.vcpus.saturating_mul(v.budget.div_ceil(v.period))).fold(0, u64::saturating_add);
    // Both tests hold for every greater number once they hold.
    let sum = first(whole, |m| used.at_most(m, 0, 0, 1)).unwrap_or(whole);
    let gfb = first(MOST, |m| used.at_most(m, m.saturating_sub(1), most.budget, most.period));
    Sizes { sum, gfb }
}

/// The first of 1..=`last` that passes a test which all after it pass.
fn first(last: u64, passes: impl Fn(u64) -> bool) -> Option<u64> {
    if !passes(last) {
        return None;
    }
    let (mut low, mut high) = (1, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(list: &[(u64, u64, u64)]) -> Sizes {
        sizes(&list.iter().map(|&(budget, period, vcpus)| Share { budget, period, vcpus }).collect::<Vec<_>>())
    }

    #[test]
    fn as_published() {
        // Period and slice as the paper writes them: (10, 6).
        assert_eq!(of(&[(6, 10, 1), (6, 10, 1)]).sum, 2);
        assert_eq!(of(&[(6, 10, 1), (2, 10, 1)]).sum, 1);
        assert_eq!(of(&[]), Sizes { sum: 0, gfb: Some(0) });
        assert_eq!(of(&[(1, 5, 1), (2, 10, 6)]).sum, 2);
        assert_eq!(of(&[(0, 10, 4), (3, 0, 4)]).sum, 0);
    }

    #[test]
    fn whole_sums_do_not_round_up() {
        assert_eq!(of(&[(1, 3, 3)]).sum, 1);
        assert_eq!(of(&[(1, 3, 1), (1, 3, 1), (1, 3, 1), (1, 7, 7)]).sum, 2);
        assert_eq!(of(&[(1, 10_000_000_000, 1), (1, 1, 1)]).sum, 2);
    }

    /// A budget of several periods takes several PCPUs.
    #[test]
    fn what_no_pcpu_could_give_is_still_counted() {
        assert_eq!(of(&[(30, 10, 1)]), Sizes { sum: 3, gfb: None });
        assert_eq!(of(&[(21, 10, 2), (1, 10, 1)]).sum, 5);
    }

    #[test]
    fn gfb_by_hand() {
        // U = 1.2, u_max = 0.6: m - (m - 1) 0.6 = 1.4 at 2.
        assert_eq!(of(&[(6, 10, 2)]).gfb, Some(2));
        // U = 1.4, u_max = 0.2: 2 - 0.2 = 1.8.
        assert_eq!(of(&[(1, 5, 1), (2, 10, 6)]).gfb, Some(2));
        // U = 1.8, u_max = 0.9: m·0.1 + 0.9 >= 1.8 at 9, where the sum says 2.
        assert_eq!(of(&[(9, 10, 2)]), Sizes { sum: 2, gfb: Some(9) });
        // A VCPU that needs all of a PCPU, and another one: no bound helps; alone it does.
        assert_eq!(of(&[(10, 10, 1), (1, 10, 1)]), Sizes { sum: 2, gfb: None });
        assert_eq!(of(&[(10, 10, 1)]), Sizes { sum: 1, gfb: Some(1) });
    }

    proptest! {
        #[test]
        fn one_more_needs_no_less(vms in prop::collection::vec((1u64..50, 50u64..100, 1u64..4), 1..20)) {
            let (all, less) = (of(&vms), of(&vms[1..]));
            prop_assert!(all.sum >= less.sum && all.gfb >= less.gfb);
            prop_assert!(all.gfb.is_none_or(|m| m >= all.sum));
            let exact: u64 = vms.iter().map(|v| v.0 * v.2 * 100 / v.1 + 1).sum();
            prop_assert!(all.sum <= exact.div_ceil(100));
        }
    }
}
