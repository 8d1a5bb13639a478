// SPDX-License-Identifier: GPL-2.0-or-later
//! The world outside of an application: clients that ask its front, think about the answer, and ask again.

use anyhow::Result;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;

use crate::clock::{monotonic, realtime_offset, tsc};
use crate::control::{Alarm, Control, Event};
use crate::link;
use crate::name::address;
use crate::stats::Summary;
use crate::wire::{Message, Socket};

#[derive(clap::Args)]
pub struct Args {
    /// The clients' socket: the first of the front's peers.
    #[arg(long, value_name = "NAME")]
    socket: String,
    /// The front's.
    #[arg(long, value_name = "NAME")]
    to: String,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    clients: u64,
    /// Mean time from an answer to the client's next request, which is exponential.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000_000_000))]
    think_ns: u64,
    /// An answer that takes longer is missed [default: none is].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    deadline_ns: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Of the requests that were sent and answered in the measured interval, but for `sent`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Report {
    sent: usize,
    missed: usize,
    /// Computed for the answers.
    parts: u64,
    /// From leaving a client to being back there.
    response: Summary,
}

/// An answer.
struct Answer {
    sent: u64,
    took: u64,
    parts: u64,
}

/// Those who ask, each at its own times: equal seeds give equal ones.
struct Clients {
    rngs: Vec<Pcg64Mcg>,
    think: u64,
    due: BinaryHeap<Reverse<(u64, usize)>>, // time, client
    /// By client: when its request left, while it waits.
    waits: Vec<Option<u64>>,
    sent: Vec<u64>,
    answers: Vec<Answer>,
}

impl Clients {
    fn new(args: &Args, start: u64) -> Self {
        let n = args.clients as usize;
        let rng = |i| Pcg64Mcg::seed_from_u64(args.seed.wrapping_mul(1 << 10).wrapping_add(i));
        let mut clients = Self {
            rngs: (0..args.clients).map(rng).collect(),
            think: args.think_ns,
            due: BinaryHeap::new(),
            waits: vec![None; n],
            sent: Vec::new(),
            answers: Vec::new(),
        };
        (0..n).for_each(|i| clients.think(i, start));
        clients
    }

    fn think(&mut self, client: usize, from: u64) {
        let uniform = (self.rngs[client].next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.due.push(Reverse((from + (-(1.0 - uniform).ln() * self.think as f64) as u64, client)));
    }

    fn next(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Whoever asks at `now`.
    fn ask(&mut self, now: u64) -> Option<usize> {
        self.next().filter(|&at| at <= now)?;
        let Reverse((_, client)) = self.due.pop()?;
        self.waits[client] = Some(now);
        self.sent.push(now);
        Some(client)
    }

    fn answered(&mut self, message: Message, at: u64) {
        let client = message.client as usize;
        let Some(sent) = self.waits.get_mut(client).and_then(Option::take) else { return };
        self.answers.push(Answer { sent, took: at.saturating_sub(sent), parts: message.parts });
        self.think(client, at);
    }

    /// Of what was sent and answered from `from` until `until`.
    fn report(&self, from: u64, until: u64, deadline: u64) -> Report {
        let counts = |a: &&Answer| a.sent >= from && a.sent + a.took < until;
        let answers: Vec<_> = self.answers.iter().filter(counts).collect();
        Report {
            sent: self.sent.iter().filter(|&&at| (from..until).contains(&at)).count(),
            missed: answers.iter().filter(|a| deadline > 0 && a.took > deadline).count(),
            parts: answers.iter().map(|a| a.parts).sum(),
            response: Summary::of(&answers.iter().map(|a| a.took).collect::<Vec<_>>()),
        }
    }
}

pub fn run(args: &Args) -> Result<String> {
    let (socket, front) = (Socket::bind(&args.socket)?, address(&args.to)?);
    link::time(&socket)?;
    let mut control = Control::new(false)?;
    nix::sys::prctl::set_timerslack(1)?;
    realtime_offset(); // read once, before anything is timed
    let mut from = monotonic();
    let mut clients = Clients::new(args, from);
    loop {
        match control.wait_with(Some(socket.as_fd()), Alarm::first(clients.next(), None))? {
            Event::Mark => from = monotonic(),
            Event::End => break,
            Event::Alarm | Event::Command(_) => {}
        }
        let mut bytes = [0; Message::LEN];
        while let Some((n, at)) = link::receive(&socket, &mut bytes)? {
            if let Some(message) = Message::read(&bytes[..n]) {
                clients.answered(message, at);
            }
        }
        let now = monotonic();
        while let Some(client) = clients.ask(now) {
            let request = Message { sent: tsc(), client: client as u64, request: true, ..Message::default() };
            socket.send(request, &front)?;
        }
    }
    Ok(serde_json::to_string(&clients.report(from, monotonic(), args.deadline_ns))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches};

    fn clients(n: u64, seed: u64) -> Clients {
        let line = format!("ask --socket c --to f --clients {n} --think-ns 1000 --seed {seed}");
        let command = Args::augment_args(clap::Command::new("ask"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        Clients::new(&Args::from_arg_matches(&matches).unwrap(), 100)
    }

    fn answer(client: u64) -> Message {
        Message { client, parts: 8, ..Message::default() }
    }

    #[test]
    fn a_client_thinks_as_its_seed_says_and_has_one_request_at_a_time() {
        let times = |seed| {
            let mut one = clients(1, seed);
            let turn = |_| {
                let at = one.next().unwrap();
                assert_eq!((one.ask(at - 1), one.ask(at), one.next()), (None, Some(0), None));
                one.answered(answer(0), at);
                at
            };
            (0..1000).map(turn).collect::<Vec<u64>>()
        };
        let all = times(7);
        assert_eq!(all, times(7));
        assert_ne!(all, times(8));
        assert!((900_000..1_100_000).contains(&(all[999] - all[0])), "{}", all[999] - all[0]);
    }

    #[test]
    fn what_was_sent_and_answered_in_the_interval_counts() {
        let mut two = clients(2, 1);
        let sent: Vec<_> = (0..2).map(|_| two.next().and_then(|at| two.ask(at)).unwrap() as u64).collect();
        let begin = *two.sent.iter().min().unwrap();
        two.answered(answer(sent[0]), begin + 50_000);
        two.answered(answer(sent[0]), begin + 60_000); // nobody waits for it
        let report = |from, until, deadline| two.report(from, until, deadline);
        let all = report(begin, begin + 90_000, 50_000);
        assert_eq!((all.sent, all.missed, all.parts, all.response.max_ns), (2, 0, 8, 50_000));
        assert_eq!(report(begin, begin + 90_000, 49_999).missed, 1);
        assert_eq!(report(begin, begin + 50_000, 0).response.count, 0);
        assert_eq!(report(begin + 1, begin + 90_000, 0).response.count, 0);
    }
}
