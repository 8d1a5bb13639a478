// SPDX-License-Identifier: GPL-2.0-only
//! What a signal that ends the program leaves: nothing. Child processes end with it, incomplete
//! files go, the terminal is what it was, and the program's status is that of the signal.

use crate::output;
use crate::temporary;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
#[cfg(feature = "linux")]
use nix::sys::termios::LocalFlags;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Set when a signal ends the program: what its other threads run into then is no error.
static ENDING: AtomicBool = AtomicBool::new(false);

/// As the terminal was before a child changed it.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// How often children are looked for: those that were ended are still there until they are waited for.
const ROUNDS: u32 = 100;

/// From now on a signal ends the program as above, with one line on stderr.
///
/// # Errors
/// The system refuses.
pub fn leave_nothing() -> Result<()> {
    // What a shell or `nohup` had ignored stays so.
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    on_signals(heeded, end)
}

/// Calls `act` at each signal that asks for an end, in place of ending. Also at one that was
/// ignored: a script starts a host in the background, where a shell ignores SIGINT, and ends the
/// host by SIGINT.
///
/// # Errors
/// The system refuses.
#[cfg(any(feature = "linux", feature = "xen"))]
pub fn instead(mut act: impl FnMut() + Send + 'static) -> Result<()> {
    on_signals([SIGINT, SIGTERM, SIGHUP], move |_| act())
}

/// The same, but SIGHUP asks to read the configuration again: `act` is told so.
///
/// # Errors
/// The system refuses.
#[cfg(feature = "linux")]
pub fn or_reload(mut act: impl FnMut(bool) + Send + 'static) -> Result<()> {
    on_signals([SIGINT, SIGTERM, SIGHUP], move |signal| act(signal == SIGHUP))
}

fn on_signals(signals: impl IntoIterator<Item = i32>, mut act: impl FnMut(i32) + Send + 'static) -> Result<()> {
    let mut signals = Signals::new(signals).context("signals")?;
    thread::spawn(move || signals.forever().for_each(&mut act));
    Ok(())
}

/// Never returns if a signal ends the program at this moment.
pub fn settle() {
    while ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Remembers how the terminal on stdin is, for [`give_back_terminal`] and for a signal that ends the program.
///
/// # Errors
/// stdin is no terminal.
pub fn keep_terminal() -> Result<()> {
    let is = tcgetattr(std::io::stdin()).context("stdin: no terminal")?;
    *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(is);
    Ok(())
}

/// Has the terminal on stdin hand out each key as it is typed, without showing it. Ctrl-C is still a signal.
///
/// # Errors
/// stdin is no terminal.
#[cfg(feature = "linux")]
pub fn hand_out_keys() -> Result<()> {
    let mut terminal = tcgetattr(std::io::stdin()).context("stdin: no terminal")?;
    terminal.local_flags &= !(LocalFlags::ICANON | LocalFlags::ECHO);
    tcsetattr(std::io::stdin(), SetArg::TCSANOW, &terminal).context("stdin: terminal")
}

/// Makes the terminal what it was, if one is remembered: a child that is killed leaves it as it made it.
pub fn give_back_terminal() {
    if let Some(was) = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nothing can be done for a terminal that has gone.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &was);
    }
}

fn end(signal: i32) {
    ENDING.store(true, Ordering::SeqCst);
    // Another thread may start one while they are ended.
    let this = std::process::id();
    (0..ROUNDS).take_while(|_| end_children(this)).for_each(drop);
    give_back_terminal();
    // Held to the end, so that nothing is created any more.
    let mut all = temporary::all();
    for path in all.drain(..) {
        // It may have got its name, or gone, a moment ago.
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
    output::complain(&format!("ended by {}, no incomplete file is left", signal_name(signal).unwrap_or("a signal")));
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 != 0
}

/// Ends all that process `of` has started, and what that has started: a parent before its children,
/// which it could replace. False if there was none.
fn end_children(of: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = lists.flat_map(|list| list.split(' ').flat_map(str::parse).collect::<Vec<_>>()).collect();
    for &child in &children {
        // Stopped first: its children are still its own while they are looked for.
        let pid = Pid::from_raw(child as i32);
        let _ = kill(pid, Signal::SIGSTOP);
        end_children(child);
        let _ = kill(pid, Signal::SIGKILL);
    }
    !children.is_empty()
}
