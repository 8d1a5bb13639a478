// SPDX-License-Identifier: GPL-2.0-only
//! Frames of a video as a viewer sees them: how many in each second, and how late.

use crate::keys::SECOND;
use crate::observe::Hist;
use crate::result::VideoResult;

/// In the measured window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frames {
    shown: u64,
    lost: u64,
    late: u64,
    /// From a frame's time until it is shown.
    lag: Hist,
    /// Frames in each second of the window.
    seconds: Vec<u32>,
}

impl Frames {
    /// A frame that was due at `due` is shown at `now`; the window began at `from`, and frames are `period` apart.
    pub fn show(&mut self, now: u64, due: u64, from: u64, period: u64) {
        let Some(second) = now.checked_sub(from).map(|since| (since / SECOND) as usize) else { return };
        self.shown += 1;
        self.lag.add(now - due);
        self.late += u64::from(now - due > period);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += 1;
    }

    /// A frame is never shown.
    pub fn lose(&mut self) {
        self.lost += 1;
    }

    /// Of a video that plays for `ns` of the window.
    pub fn result(&self, ns: u64, time_ns: Option<u64>) -> VideoResult {
        let whole = (ns / SECOND) as usize;
        let seconds: Vec<f64> = (0..whole).map(|n| self.seconds.get(n).copied().unwrap_or(0)).map(f64::from).collect();
        let mean = seconds.iter().sum::<f64>() / whole.max(1) as f64;
        let square = seconds.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / whole.max(1) as f64;
        VideoResult {
            frames: self.shown,
            lost: self.lost,
            late: self.late,
            fps_mean: if whole > 0 { mean } else { self.shown as f64 * SECOND as f64 / ns.max(1) as f64 },
            fps_sd: square.sqrt(),
            fps_min: seconds.iter().copied().reduce(f64::min).unwrap_or(0.0),
            lag_p50_ns: self.lag.percentile(50),
            lag_p99_ns: self.lag.percentile(99),
            lag_max_ns: self.lag.max,
            time_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_count_in_their_second() {
        let mut frames = Frames::default();
        let (from, period) = (5 * SECOND, SECOND / 4);
        frames.show(from - 1, from - 1, from, period);
        for n in 0..4 {
            frames.show(from + n * period, from + n * period, from, period);
        }
        frames.lose();
        // Two in the next second, one of them later than a period; and one that is in no whole second.
        for (now, due) in [(4, 4), (6, 4), (8, 8)] {
            frames.show(from + now * period, from + due * period, from, period);
        }
        let r = frames.result(2 * SECOND + period, None);
        assert_eq!((r.frames, r.lost, r.late, r.lag_max_ns), (7, 1, 1, 2 * period));
        assert_eq!((r.fps_mean, r.fps_sd, r.fps_min), (3.0, 1.0, 2.0));
        // Seconds without a frame count.
        assert_eq!(frames.result(7 * SECOND, None).fps_mean, 1.0);
        assert_eq!(Frames::default().result(0, None), VideoResult::default());
    }
}
