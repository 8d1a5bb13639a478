// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run is told from outside: SIGUSR1 begins the measured interval, SIGTERM or SIGINT end it, lines are commands.

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use crate::clock::monotonic;

pub enum Event {
    Mark,
    End,
    /// It is time, or there is input.
    Alarm,
    Command(String),
}

/// When to wake up at the latest (CLOCK_MONOTONIC, ns).
pub struct Alarm(Option<u64>);

impl Alarm {
    pub fn first(a: Option<u64>, b: Option<u64>) -> Self {
        Self(a.into_iter().chain(b).min())
    }

    fn left(&self) -> Option<TimeSpec> {
        self.0.map(|at| TimeSpec::nanoseconds(at.saturating_sub(monotonic()) as i64))
    }
}

pub struct Control {
    signals: SignalFd,
    /// Standard input, until it ends; None where no commands are expected.
    commands: Option<std::io::Stdin>,
    text: Vec<u8>,
    lines: VecDeque<String>,
}

impl Control {
    /// To be made before any thread is: threads inherit that the signals are blocked.
    pub fn new(commands: bool) -> Result<Self> {
        let mask: SigSet = [Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
        mask.thread_block().context("signals cannot be blocked")?;
        let signals =
            SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).context("signalfd")?;
        Ok(Self { signals, commands: commands.then(std::io::stdin), text: Vec::new(), lines: VecDeque::new() })
    }

    /// The next event; at once if one is there, at the alarm at the latest.
    pub fn wait(&mut self, alarm: Alarm) -> Result<Event> {
        self.wait_with(None, alarm)
    }

    /// Or when there is input; of those who expect no commands.
    pub fn wait_with(&mut self, input: Option<BorrowedFd>, alarm: Alarm) -> Result<Event> {
        loop {
            if let Some(signal) = self.signals.read_signal().context("signalfd")? {
                let mark = signal.ssi_signo == Signal::SIGUSR1 as u32;
                return Ok(if mark { Event::Mark } else { Event::End });
            }
            if let Some(line) = self.lines.pop_front() {
                return Ok(Event::Command(line));
            }
            let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let input = self.commands.as_ref().map(AsFd::as_fd).or(input);
            fds.extend(input.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            match ppoll(&mut fds, alarm.left(), None) {
                Ok(0) => return Ok(Event::Alarm),
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(e).context("poll"),
            }
            if fds.get(1).is_some_and(|f| f.any().unwrap_or(false)) {
                if self.commands.is_none() {
                    return Ok(Event::Alarm);
                }
                self.read()?;
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        let Some(input) = &mut self.commands else { return Ok(()) };
        let mut bytes = [0; 4096];
        // Unbuffered, lest lines wait in a buffer that poll does not see.
        let n = nix::unistd::read(&*input, &mut bytes).context("standard input")?;
        if n == 0 {
            self.commands = None;
        }
        self.text.extend_from_slice(&bytes[..n]);
        while let Some(end) = self.text.iter().position(|&b| b == b'\n') {
            let line = self.text.drain(..=end).collect::<Vec<_>>();
            self.lines.push_back(String::from_utf8_lossy(&line).trim().to_owned());
        }
        Ok(())
    }
}
