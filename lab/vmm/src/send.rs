// SPDX-License-Identifier: GPL-2.0-or-later
//! The world outside: sends RTP streams to a VM and times the answers.

use anyhow::{Context, Result, ensure};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::{monotonic, realtime_offset, tsc};
use crate::control::{Alarm, Control, Event};
use crate::link::{Link, Way};
use crate::packet::{self, MEDIA, Mark};
use crate::stats::Summary;

const MS: u64 = 1_000_000;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    /// Between two packets of a stream.
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000_000))]
    period_ns: u64,
    /// Streams, spread evenly over the period.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    streams: u64,
    /// Packets of each stream; without it and --duration-ms, until SIGTERM.
    #[arg(long)]
    count: Option<u64>,
    #[arg(long)]
    duration_ms: Option<u64>,
    /// Each packet is sent later by up to this, at random.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000_000_000))]
    jitter_ns: u64,
    /// How long after the start the first packet is due.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000_000_000))]
    phase_ns: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An answer that takes longer is late [default: the period].
    #[arg(long)]
    deadline_ns: Option<u64>,
    /// How long answers to the last packets are waited for.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    grace_ms: u64,
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(0..=127))]
    payload_type: u8,
    /// Send STUN's answers instead of RTP.
    #[arg(long)]
    stun: bool,
}

#[derive(Serialize)]
struct Report {
    sent: usize,
    received: usize,
    lost: usize,
    late: usize,
    measured_ns: u64,
    /// From sending to the arrival of the answer at the host.
    round_trip: Summary,
    /// How long after it was due a packet was sent.
    send_delay: Summary,
}

/// One packet: when it was sent, and what became of it.
struct Sent {
    at: u64,
    delay: u64,
    answer: Option<u64>,
}

/// When which packet is due. Equal seeds give equal plans.
struct Plan {
    due: BinaryHeap<Reverse<(u64, u64, u64)>>, // time, stream, number
    rng: Pcg64Mcg,
    start: u64,
    period: u64,
    streams: u64,
    jitter: u64,
    count: u64,
}

impl Plan {
    fn new(args: &Args, start: u64) -> Self {
        let count = args.duration_ms.map_or(u64::MAX, |ms| (ms * MS).div_ceil(args.period_ns));
        let mut plan = Self {
            due: BinaryHeap::new(),
            rng: Pcg64Mcg::seed_from_u64(args.seed),
            start: start + args.phase_ns,
            period: args.period_ns,
            streams: args.streams,
            jitter: args.jitter_ns,
            count: args.count.unwrap_or(u64::MAX).min(count),
        };
        (0..plan.streams).for_each(|stream| plan.add(stream, 0));
        plan
    }

    fn add(&mut self, stream: u64, number: u64) {
        if number < self.count {
            let late = if self.jitter > 0 { self.rng.next_u64() % (self.jitter + 1) } else { 0 };
            let at = self.start + number * self.period + stream * self.period / self.streams + late;
            self.due.push(Reverse((at, stream, number)));
        }
    }

    fn next(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn take(&mut self) -> Option<(u64, u64, u64)> {
        let Reverse((at, stream, number)) = self.due.pop()?;
        self.add(stream, number + 1);
        Some((at, stream, number))
    }
}

pub fn run(args: &Args) -> Result<String> {
    let ports = u64::from(args.way.port) + args.streams - 1;
    ensure!(ports <= u16::MAX.into(), "--port {} leaves no room for {} streams", args.way.port, args.streams);
    let link = Link::open(&args.way)?;
    let mut control = Control::new(false)?;
    nix::sys::prctl::set_timerslack(1).context("timer slack")?;
    realtime_offset(); // read once, before anything is timed
    let begin = monotonic();
    let mut plan = Plan::new(args, begin);
    let mut sent: Vec<Sent> = Vec::new();
    let (mut from, mut measured_from, mut stop) = (0, begin, None);
    loop {
        let alarm = stop.or(plan.next());
        if alarm.is_none() {
            stop = Some(monotonic() + args.grace_ms * MS);
            continue;
        }
        match control.wait(Alarm::first(alarm, None))? {
            Event::Mark => (from, measured_from) = (sent.len(), monotonic()),
            Event::End => stop = Some(monotonic() + args.grace_ms * MS),
            Event::Alarm | Event::Command(_) => {}
        }
        receive(&link, &mut sent, begin)?;
        if stop.is_some_and(|at| monotonic() >= at) {
            break;
        }
        while stop.is_none() && plan.next().is_some_and(|at| at <= monotonic()) {
            let Some((at, stream, number)) = plan.take() else { break };
            // RFC 3550: sequence and timestamp count on; 8 kHz, as G.711 has it.
            let mut rtp =
                packet::rtp(args.payload_type, number as u16, (number * MEDIA as u64) as u32, stream as u32 + 1);
            if args.stun {
                rtp[..8].copy_from_slice(&packet::STUN);
            }
            let now = monotonic();
            Mark { tsc: tsc(), index: sent.len() as u64, run: begin }.write(&mut rtp);
            sent.push(Sent { at: now, delay: now.saturating_sub(at), answer: None });
            link.send(stream, &rtp)?;
        }
    }
    let end = monotonic() - args.grace_ms * MS;
    let report = report(&sent[from..], end.saturating_sub(measured_from), args.deadline_ns.unwrap_or(args.period_ns));
    Ok(serde_json::to_string(&report)?)
}

fn receive(link: &Link, sent: &mut [Sent], run: u64) -> Result<()> {
    while let Some((mark, at)) = link.receive()? {
        let Some(mark) = mark.filter(|m| m.run == run) else { continue };
        if let Some(packet) = sent.get_mut(mark.index as usize) {
            packet.answer.get_or_insert(at.saturating_sub(packet.at));
        }
    }
    Ok(())
}

fn report(sent: &[Sent], measured_ns: u64, deadline: u64) -> Report {
    let answers: Vec<u64> = sent.iter().filter_map(|s| s.answer).collect();
    Report {
        sent: sent.len(),
        received: answers.len(),
        lost: sent.len() - answers.len(),
        late: answers.iter().filter(|&&t| t > deadline).count(),
        measured_ns,
        round_trip: Summary::of(&answers),
        send_delay: Summary::of(&sent.iter().map(|s| s.delay).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches};

    fn plan(streams: u64, jitter: u64, seed: u64) -> Plan {
        let line = format!(
            "send --dev tap0 --period-ns 1000 --count 3 --phase-ns 50 --streams {streams} --jitter-ns {jitter} --seed {seed}"
        );
        let command = Args::augment_args(clap::Command::new("send"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        Plan::new(&Args::from_arg_matches(&matches).unwrap(), 100)
    }

    fn all(mut plan: Plan) -> Vec<(u64, u64, u64)> {
        std::iter::from_fn(|| plan.take()).collect()
    }

    #[test]
    fn streams_are_spread_over_the_period() {
        let due = all(plan(2, 0, 1));
        assert_eq!(due, [(150, 0, 0), (650, 1, 0), (1150, 0, 1), (1650, 1, 1), (2150, 0, 2), (2650, 1, 2)]);
    }

    #[test]
    fn jitter_is_bounded_and_repeats_with_the_seed() {
        let due = all(plan(1, 300, 7));
        assert!(due.iter().all(|&(at, _, n)| (0..=300).contains(&(at - 150 - 1000 * n))), "{due:?}");
        assert_eq!(due, all(plan(1, 300, 7)));
        assert_ne!(due, all(plan(1, 300, 8)));
    }

    #[test]
    fn a_report_counts_lost_and_late() {
        let packet = |answer| Sent { at: 0, delay: 1, answer };
        let r = report(&[packet(Some(5)), packet(None), packet(Some(50))], 9, 10);
        assert_eq!((r.sent, r.received, r.lost, r.late, r.round_trip.max_ns), (3, 2, 1, 1, 50));
    }
}
