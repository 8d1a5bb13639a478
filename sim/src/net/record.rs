// SPDX-License-Identifier: GPL-2.0-only
//! A call as its client hears it: which packets came back in time for play-out.

use crate::emodel;
use crate::result::{CallResult, VoipResult, quantile};

/// Fate of a call's packets, one bit per packet of the measured window.
#[derive(Clone, Debug)]
pub struct Record {
    /// Packets sent from here on count; ns.
    from: u64,
    /// Packets sent from here on do not count any more: their fate is open when the run ends; ns.
    until: u64,
    /// Latest time from sending to arrival, ns.
    limit: u64,
    /// Sequence number of the first packet that counts.
    first: Option<u32>,
    sent: u64,
    arrived: u64,
    in_time: u64,
    bits: Vec<u64>,
    delay_sum: u64,
    delay_max: u64,
    /// Differences of the delays of packets that arrived one after the other: their sum, and the last delay.
    jitter_sum: u64,
    last: Option<u64>,
}

impl Record {
    pub fn new(from: u64, until: u64, gap: u64, limit: u64) -> Self {
        let packets = until.saturating_sub(from) / gap + 2;
        let bits = vec![0; packets.div_ceil(64) as usize];
        Self {
            from,
            until,
            limit,
            first: None,
            sent: 0,
            arrived: 0,
            in_time: 0,
            bits,
            delay_sum: 0,
            delay_max: 0,
            jitter_sum: 0,
            last: None,
        }
    }

    fn counts(&self, sent: u64) -> bool {
        (self.from..self.until).contains(&sent)
    }

    /// The client has sent a packet.
    pub fn sent(&mut self, sequence: u32, sent: u64) {
        if self.counts(sent) {
            self.first.get_or_insert(sequence);
            self.sent += 1;
        }
    }

    /// A packet sent at `sent` has come back.
    pub fn arrived(&mut self, sequence: u32, sent: u64, arrival: u64) {
        let Some(first) = self.first else { return };
        if !self.counts(sent) {
            return;
        }
        let delay = arrival - sent;
        self.arrived += 1;
        self.delay_sum += delay;
        self.delay_max = self.delay_max.max(delay);
        self.jitter_sum += self.last.replace(delay).map_or(0, |last| last.abs_diff(delay));
        if delay <= self.limit {
            let n = sequence - first;
            self.bits[(n / 64) as usize] |= 1 << (n % 64);
            self.in_time += 1;
        }
    }

    /// Packets sent that count.
    pub fn packets(&self) -> u64 {
        self.sent
    }

    fn missing(&self) -> impl Iterator<Item = bool> {
        (0..self.sent).map(|n| self.bits[(n / 64) as usize] >> (n % 64) & 1 == 0)
    }

    /// MOS with the time from sending to play-out as the delay.
    fn delayed_mos(&self, bpl: f64) -> f64 {
        let percent = if self.sent == 0 { 0.0 } else { 100.0 * (self.sent - self.in_time) as f64 / self.sent as f64 };
        emodel::delayed_mos(percent, emodel::burst_ratio(self.missing()), bpl, self.limit as f64 / 1e6)
    }

    /// The call's figures; `noise` is that of its PESQ.
    pub fn result(&self, id: u32, bpl: f64, noise: f64) -> CallResult {
        let burst_ratio = emodel::burst_ratio(self.missing());
        let percent = if self.sent == 0 { 0.0 } else { 100.0 * (self.sent - self.in_time) as f64 / self.sent as f64 };
        let mos = emodel::mos(percent, burst_ratio, bpl);
        CallResult {
            id,
            sent: self.sent,
            late: self.arrived - self.in_time,
            lost: self.sent - self.arrived,
            burst_ratio,
            mos,
            pesq: emodel::pesq(mos, noise),
        }
    }
}

/// Figures over all calls of a server; `None` without calls.
pub fn summary(calls: Vec<CallResult>, records: &[&Record], bpl: f64) -> Option<VoipResult> {
    if calls.is_empty() {
        return None;
    }
    let mut sorted: Vec<f64> = calls.iter().map(|c| c.pesq).collect();
    sorted.sort_by(f64::total_cmp);
    let n = calls.len() as f64;
    let sent: u64 = calls.iter().map(|c| c.sent).sum();
    let missing: u64 = calls.iter().map(|c| c.late + c.lost).sum();
    let arrived: u64 = records.iter().map(|r| r.arrived).sum();
    Some(VoipResult {
        mean_pesq: sorted.iter().sum::<f64>() / n,
        min_pesq: quantile(&sorted, 0.0),
        p25_pesq: quantile(&sorted, 0.25),
        p50_pesq: quantile(&sorted, 0.5),
        p75_pesq: quantile(&sorted, 0.75),
        max_pesq: quantile(&sorted, 1.0),
        mean_mos: calls.iter().map(|c| c.mos).sum::<f64>() / n,
        late_lost_pct: if sent == 0 { 0.0 } else { 100.0 * missing as f64 / sent as f64 },
        delay_mean_ns: records.iter().map(|r| r.delay_sum).sum::<u64>().checked_div(arrived).unwrap_or(0),
        delayed_mos: Some(records.iter().map(|r| r.delayed_mos(bpl)).sum::<f64>() / n),
        jitter_ns: Some(records.iter().map(|r| r.jitter_sum).sum::<u64>().checked_div(arrived).unwrap_or(0)),
        delay_max_ns: records.iter().map(|r| r.delay_max).max().unwrap_or(0),
        delay_p50_ns: None,
        delay_p99_ns: None,
        calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_and_lost_packets_are_told_apart() {
        let mut r = Record::new(100, 1100, 100, 40);
        for n in 0..12 {
            r.sent(n as u32, n * 100);
        }
        for n in [0, 1, 2, 4, 5, 6, 7, 8, 9, 11] {
            r.arrived(n as u32, n * 100, n * 100 + if n == 5 { 41 } else { 40 });
        }
        let c = r.result(0, 4.3, 0.0);
        assert_eq!((c.sent, c.late, c.lost), (10, 1, 2));
        assert_eq!(r.jitter_sum, 2, "one packet is 1 ns later than that before and that after it");
        assert_eq!(
            r.missing().collect::<Vec<_>>(),
            [3, 5, 10].into_iter().fold(vec![false; 10], |mut all, n| {
                all[n - 1] = true;
                all
            })
        );
    }
}
