// SPDX-License-Identifier: GPL-2.0-only
//! Axes: where a value lies, and ticks of which no two read alike.

use takt_control::duration;

/// An axis from one value to another.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub title: String,
    pub from: f64,
    pub to: f64,
    pub scale: Scale,
}

/// How an axis maps its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    Linear,
    /// Logarithmic, with ticks at powers of this base; the first tick is where the axis begins.
    Powers(f64),
    /// Times in ns, logarithmic; the ends are powers of ten.
    Times,
}

/// Where an axis of PESQ or MOS begins and ends.
const QUALITY: [f64; 2] = [1.0, 4.5];

impl Axis {
    /// A linear axis over 0 and the values.
    pub fn from_zero(title: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (from, to) = values.into_iter().fold((0.0, 0.0), |(a, b): (f64, f64), v| (a.min(v), b.max(v)));
        Self { title: title.into(), from, to: if to > 0.0 { to } else { 1.0 }, scale: Scale::Linear }
    }

    /// An axis of PESQ or MOS; all of them look alike.
    pub fn quality(title: impl Into<String>) -> Self {
        let [from, to] = QUALITY;
        Self { title: title.into(), from, to, scale: Scale::Linear }
    }

    /// A logarithmic axis over times in ns: two powers of ten or more around the values, from 100 ns on.
    pub fn times(title: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = values.into_iter().fold((1e9, 1e4), |(a, b): (f64, f64), v| (a.min(v), b.max(v)));
        let to = 10f64.powf((most * 0.999).log10().ceil());
        let from = 10f64.powf(least.max(100.0).log10().floor()).clamp(100.0, to / 100.0);
        Self { title: title.into(), from, to, scale: Scale::Times }
    }

    /// Where a value lies, 0 to 1.
    fn place(&self, v: f64) -> f64 {
        let v = v.clamp(self.from, self.to);
        match self.scale {
            Scale::Linear => (v - self.from) / (self.to - self.from),
            Scale::Powers(_) | Scale::Times => (v / self.from).ln() / (self.to / self.from).ln(),
        }
    }

    /// Where a value is drawn if the axis reaches from one pixel to another.
    pub fn px(&self, v: f64, [from, to]: [i32; 2]) -> i32 {
        from + (self.place(v) * f64::from(to - from)).round() as i32
    }

    /// At most so many values with their labels.
    pub fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let most = most.max(2) as f64;
        match self.scale {
            Scale::Linear => {
                let least = (self.to - self.from) / (most - 1.0);
                let power = 10f64.powf(least.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= least * 0.999);
                let step = step.unwrap_or(10.0 * power);
                let decimals = (-(step * 1.001).log10().floor()).max(0.0) as usize;
                let first = (self.from / step - 1e-6).ceil() as i64;
                let last = (self.to / step + 1e-6).floor() as i64;
                (first..=last).map(|n| n as f64 * step).map(|v| (v, format!("{v:.decimals$}"))).collect()
            }
            Scale::Powers(_) | Scale::Times => {
                let base = if let Scale::Powers(base) = self.scale { base } else { 10.0 };
                let powers = ((self.to / self.from).ln() / base.ln() + 1e-6).floor();
                let step = (powers / (most - 1.0)).ceil().max(1.0) as usize;
                let of = |n: usize| (self.from * base.powi(n as i32)).round();
                (0..=powers as usize).step_by(step).map(|n| (of(n), self.text(of(n)))).collect()
            }
        }
    }

    /// A value as a reader wants it: three significant digits.
    pub fn text(&self, v: f64) -> String {
        if self.scale == Scale::Times {
            return duration::human(v);
        }
        let decimals = match v.abs() {
            x if x >= 99.95 => 0,
            x if x >= 9.995 => 1,
            x if x >= 0.9995 => 2,
            _ => 3,
        };
        let text = format!("{v:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ticks_read_alike_and_none_is_outside() {
        let linear = |from, to| Axis { title: String::new(), from, to, scale: Scale::Linear };
        for (from, to) in [(0.0, 90.0), (0.0, 0.004), (1.0, 4.6), (131.9, 132.4), (30.0, 100.0), (0.0, 1e9), (0.0, 1.0)]
        {
            for most in [2, 4, 7, 12] {
                let ticks = linear(from, to).ticks(most);
                let mut texts: Vec<_> = ticks.iter().map(|(_, text)| text).collect();
                texts.dedup();
                assert!(texts.len() == ticks.len() && ticks.len() <= most, "{from} to {to}: {texts:?}");
                assert!(
                    ticks.iter().all(|(v, _)| *v >= from - 1e-9 && *v <= to * 1.000_001),
                    "{from} to {to}: {ticks:?}"
                );
            }
        }
        let times = Axis::times("", [3.2e7, 0.0]);
        assert_eq!((times.from, times.to), (1e2, 1e8));
        let ends = |values: &[f64]| Axis::times("", values.iter().copied()).ticks(9).len();
        assert_eq!([ends(&[]), ends(&[2e6, 8e6]), ends(&[1e7]), ends(&[5e3, 1e7])], [3, 3, 3, 5]);
        let powers = Axis { title: String::new(), from: 4.0, to: 1024.0, scale: Scale::Powers(4.0) };
        assert_eq!(powers.ticks(9).iter().map(|t| t.0).collect::<Vec<_>>(), [4.0, 16.0, 64.0, 256.0, 1024.0]);
        assert!((powers.place(64.0) - 0.5).abs() < 1e-9);
        let texts = |most| times.ticks(most).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(9), ["100ns", "1us", "10us", "100us", "1ms", "10ms", "100ms"]);
        assert_eq!(texts(4), ["100ns", "10us", "1ms", "100ms"]);
    }

    #[test]
    fn values_have_three_digits() {
        let axis = Axis::from_zero("", [5.0]);
        assert_eq!([0.0, 0.5, 0.9956, 42.42, 1234.5].map(|v| axis.text(v)), ["0", "0.5", "0.996", "42.4", "1234"]);
        assert_eq!(Axis::times("", []).text(17_340_000.0), "17.3ms");
    }
}
