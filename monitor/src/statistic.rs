// SPDX-License-Identifier: GPL-2.0-only
//! One number for the period of a whole capture.
//!
//! p jumps with every gap, most of all when many calls share a phase: it falls towards 0 within a burst and rises at the
//! next, so a look at it every 30 ms finds whatever the phase says. Its mean over *packets*, however, is the mean gap.
//! So: the mean of p over the packets of each second, and of these the median, weighted by packets, which also
//! passes over ramps and pauses.

const WINDOW_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub struct PeriodStatistic {
    /// Begin, sum of p in ns, packets.
    window: Option<(u64, u128, u64)>,
    /// Mean of p in ns, packets.
    means: Vec<(u64, u64)>,
}

impl PeriodStatistic {
    pub fn add(&mut self, now: u64, p: u64) {
        match &mut self.window {
            Some((begin, sum, n)) if now.saturating_sub(*begin) < WINDOW_NS => {
                *sum += u128::from(p);
                *n += 1;
            }
            _ => {
                self.close();
                self.window = Some((now, p.into(), 1));
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, sum, n)) = self.window.take() {
            self.means.push(((sum / u128::from(n)) as u64, n));
        }
    }

    /// The period in ns.
    pub fn value(mut self) -> Option<u64> {
        self.close();
        self.means.sort_unstable();
        let half = self.means.iter().map(|(_, n)| n).sum::<u64>().div_ceil(2);
        let mut seen = 0;
        self.means.iter().find_map(|(mean, n)| {
            seen += n;
            (seen >= half).then_some(*mean)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_over_a_ramp() {
        let mut s = PeriodStatistic::default();
        for ms in (0..1000).step_by(20) {
            s.add(ms * 1_000_000, 20_000_000);
        }
        for ms in (1000..5000).step_by(2) {
            s.add(ms * 1_000_000, 2_000_000);
        }
        assert_eq!(s.value(), Some(2_000_000));
    }

    #[test]
    fn nothing_has_no_period() {
        assert_eq!(PeriodStatistic::default().value(), None);
    }
    fn value(packets: &[(u64, u64)]) -> Option<u64> {
        let mut s = PeriodStatistic::default();
        packets.iter().for_each(|&(now, p)| s.add(now, p));
        s.value()
    }

    /// Packets (time, p) and the period.
    #[test]
    fn a_window_is_a_second_and_weighs_as_many_packets_as_it_has() {
        const S: u64 = WINDOW_NS;
        for (packets, want) in [
            (&[(0, 10)][..], 10),
            (&[(0, 10), (S - 1, 21)], 15),
            (&[(0, 10), (S, 20)], 10),
            (&[(5, 10), (S + 4, 20)], 15),
            (&[(5, 10), (S + 5, 20)], 10),
            // Time that goes back is in the same window.
            (&[(5, 10), (0, 20)], 15),
            // Three packets of 30 outweigh two windows of one.
            (&[(0, 10), (S, 20), (2 * S, 30), (2 * S, 30), (2 * S, 30)], 30),
            (&[(0, 10), (S, 20), (2 * S, 30), (2 * S, 30)], 20),
            (&[(0, 30), (S, 20), (2 * S, 10)], 20),
            (&[(0, 20), (0, 20), (S, 10)], 20),
            (&[(0, 10), (0, 10), (S, 20), (S, 20)], 10),
            (&[(0, u64::MAX), (1, u64::MAX)], u64::MAX),
        ] {
            assert_eq!(value(packets), Some(want), "{packets:?}");
        }
    }
}
