// SPDX-License-Identifier: GPL-2.0-only
//! `takt top`: the VMs of a running Takt, the one that suffers most first, again and again on a terminal.

mod figures;
mod view;

pub use figures::Waited;

use crate::{args, interrupt};
use anyhow::{Context, Result, ensure};
use figures::Figures;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::VecDeque;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use takt_control::document;
use takt_control::socket::{Client, Request};
use takt_linux::status::Status;
use view::View;

/// Between two looks.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon a signal is heard.
const SOON: Duration = Duration::from_millis(200);
/// Until it ends whatever it waits for.
const LOST: Duration = Duration::from_secs(2);
/// Looks that figures are about: the last five seconds.
const WINDOW: usize = 5;

/// Runs `takt top`.
///
/// # Errors
/// No Takt runs, or it ends; stdout is no terminal.
pub fn top(args: &args::Top) -> Result<bool> {
    ensure!(std::io::stdout().is_terminal(), "top: stdout is no terminal (takt status --json prints the figures)");
    // Before the screen is taken: that no Takt runs is one line.
    let first = status(&args.socket.socket)?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    // The screen is to be given back whatever ends it.
    interrupt::instead(move || {
        end.store(true, Ordering::SeqCst);
        std::thread::sleep(LOST);
        // The library that reads keys never returns where the terminal goes while it reads.
        let _ = ratatui::try_restore();
        std::process::exit(0);
    })?;
    let keys = File::open("/dev/tty").context("/dev/tty")?;
    let terminal = ratatui::try_init().context("top")?;
    let done = Looking::new(first).until_the_end(terminal, &keys, &args.socket.socket, &ended);
    ratatui::try_restore().context("top")?;
    done.map(|()| true)
}

fn status(socket: &Path) -> Result<Status> {
    document::read(Client::connect(socket)?.ask(&Request::Status { histograms: true })?)
}

struct Looking {
    /// The oldest first.
    seen: VecDeque<Status>,
    view: View,
}

impl Looking {
    fn new(first: Status) -> Self {
        Self { seen: [first].into(), view: View::default() }
    }

    fn until_the_end(
        mut self,
        mut terminal: DefaultTerminal,
        keys: &File,
        socket: &Path,
        ended: &AtomicBool,
    ) -> Result<()> {
        let mut next = Instant::now() + AGAIN;
        while !ended.load(Ordering::SeqCst) {
            let (Some(before), Some(now)) = (self.seen.front(), self.seen.back()) else { return Ok(()) };
            let figures = Figures::between(before, now);
            terminal.draw(|frame| self.view.draw(frame, &figures)).context("top")?;
            if !is_there(keys, next.saturating_duration_since(Instant::now()).min(SOON)) {
                return Ok(());
            }
            if event::poll(Duration::ZERO).context("top")? {
                if let Event::Key(key) = event::read().context("top")? {
                    if ends(key) || !self.view.key(key.code, &figures) {
                        return Ok(());
                    }
                }
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + AGAIN;
            self.seen.push_back(status(socket)?);
            if self.seen.len() > WINDOW + 1 {
                self.seen.pop_front();
            }
        }
        Ok(())
    }
}

/// Waits for a key, at most so long; whether the terminal is still there.
fn is_there(keys: &File, most: Duration) -> bool {
    let mut asked = [PollFd::new(keys.as_fd(), PollFlags::POLLIN)];
    // A signal ends the wait, too.
    let _ = poll(&mut asked, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX));
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    asked[0].revents().is_none_or(|seen| !seen.intersects(gone))
}

/// The terminal sends Ctrl-C as a key.
fn ends(key: KeyEvent) -> bool {
    key.kind == KeyEventKind::Press && key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
