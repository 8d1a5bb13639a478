// SPDX-License-Identifier: GPL-2.0-only
//! The quality of a call from its late and lost packets: E-model of ITU-T G.107 without delay, and the PESQ stand-in of
//! docs/scenarios.md.

/// MOS for `loss` percent of packets late or lost; `burst` 1 = random, `bpl` the codec's robustness (G.711: 4.3, with
/// concealment 25.1).
pub fn mos(loss: f64, burst: f64, bpl: f64) -> f64 {
    delayed_mos(loss, burst, bpl, 0.0)
}

/// The same with the impairment by `delay` ms from mouth to ear (G.107's Id in its usual short
/// form; PORIS-E1).
pub fn delayed_mos(loss: f64, burst: f64, bpl: f64, delay: f64) -> f64 {
    let late = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
    let r = 93.2 - 95.0 * loss / (loss / burst + bpl) - late;
    if r <= 0.0 {
        return 1.0;
    }
    (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).clamp(1.0, 4.5)
}

/// PESQ for a MOS; `noise` is drawn by the caller.
pub fn pesq(mos: f64, noise: f64) -> f64 {
    (mos + 0.04 + noise).clamp(1.0, 4.5)
}

/// Burst ratio (ITU-T G.107): mean length of the bursts of missing packets over that of random loss; at least 1.
pub fn burst_ratio(missing: impl Iterator<Item = bool>) -> f64 {
    let (mut total, mut lost, mut bursts, mut before) = (0u64, 0u64, 0u64, false);
    for gone in missing {
        total += 1;
        lost += u64::from(gone);
        bursts += u64::from(gone && !before);
        before = gone;
    }
    if bursts == 0 || lost == total {
        return 1.0;
    }
    let random = total as f64 / (total - lost) as f64;
    (lost as f64 / bursts as f64 / random).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_gives_the_specs_quality() {
        for (bpl, rows) in
            [(4.3, [(0.80, 4.0), (3.6, 2.62), (4.7, 2.29)]), (25.1, [(4.65, 4.0), (21.0, 2.62), (27.0, 2.29)])]
        {
            for (loss, want) in rows {
                let got = pesq(mos(loss, 1.0, bpl), 0.0);
                assert!((got - want).abs() < 0.03, "{loss}% at Bpl {bpl}: {got:.3}, not {want}");
            }
        }
        assert!((mos(0.0, 1.0, 4.3) - 4.41).abs() < 0.005);
        assert_eq!(mos(100.0, 1.0, 4.3), 1.0);
    }

    #[test]
    fn delay_counts_little_up_to_180_ms_and_much_beyond() {
        let of = |delay| delayed_mos(0.0, 1.0, 4.3, delay);
        assert_eq!(of(0.0), mos(0.0, 1.0, 4.3));
        assert!(of(100.0) > 4.3 && of(177.0) > 4.2 && of(300.0) < 3.8, "{} {}", of(177.0), of(300.0));
    }

    #[test]
    fn bursts_lower_quality() {
        assert!(mos(2.0, 3.0, 4.3) < mos(2.0, 1.0, 4.3));
        let bits = |s: &str| s.bytes().map(|b| b == b'x').collect::<Vec<_>>();
        assert_eq!(burst_ratio(bits("........").into_iter()), 1.0);
        assert_eq!(burst_ratio(bits("xxxxxxxx").into_iter()), 1.0);
        assert_eq!(burst_ratio(bits("x.......").into_iter()), 1.0);
        let burst = burst_ratio(bits("xxxx............").into_iter());
        assert!((burst - 3.0).abs() < 1e-9, "{burst}");
    }
}
