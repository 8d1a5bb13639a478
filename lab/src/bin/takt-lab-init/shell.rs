// SPDX-License-Identifier: GPL-2.0-only
//! A shell for `takt lab shell`, on the machine's second serial port, beside VMs that run.

use super::guest::Guest;
use super::system;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{self, SetArg, Termios};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, pipe};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use takt_lab::Scheduler;
use takt_lab::shell::{FILE, SCRIPT, SHELL, STATUS, Session, Terminal};
use takt_qemu::outbox;

const SERIAL: &str = "/dev/ttyS1";
const STATE: &str = "/sys/kernel/sched_ext/state";
/// How soon a `takt run` that begins, or is in force, is seen.
const LOOK: Duration = Duration::from_millis(300);
/// What ends the machine asks everything to end, and waits so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// A shell adds this to the number of a signal that has ended a command.
const BY_SIGNAL: i32 = 128;

/// What goes into the outbox when the shell has ended; `None` if the machine is there for a plan.
pub fn run() -> Result<Option<outbox::Files>> {
    let text = match std::fs::read(FILE) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.context(FILE)?,
    };
    let session: Session = serde_json::from_slice(&text).context(FILE)?;
    system::load_modules()?;
    let scheduler = Scheduler::Eevdf { weight: 1 };
    let mut guests = Vec::new();
    for vm in &session.vms {
        guests.push(Guest::start(vm, &scheduler, BTreeMap::new())?);
    }
    guests.iter_mut().try_for_each(|guest| guest.complete(&scheduler))?;
    let computes: Vec<_> = guests.iter().filter(|guest| guest.computes()).map(Guest::pid).collect();
    std::thread::spawn(move || make_way(&computes));
    let serial = port()?;
    let status = match &session.terminal {
        Some(terminal) => at(terminal, &serial, &session)?,
        None => script(&serial)?,
    };
    // The last words must have left the port before the machine is off. The end of a session hangs up what was open.
    termios::tcdrain(port()?).context(SERIAL)?;
    let status = status.code().or_else(|| Some(BY_SIGNAL + status.signal()?)).context("status of the shell")?;
    Ok(Some(outbox::Files::from([(STATUS.to_owned(), status.to_string().into_bytes())])))
}

fn port() -> Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(SERIAL).context(SERIAL)
}

/// Has the VMs that only compute stand still while Takt is loaded: the kernel's verifier needs a minute of an emulated CPU, and next to
/// such VMs several. A real CPU needs a second for it.
fn make_way(computes: &[Pid]) {
    let mut stopped = false;
    loop {
        let stops = is_loading();
        if stops != stopped {
            let signal = if stops { Signal::SIGSTOP } else { Signal::SIGCONT };
            for pid in computes {
                // The user may have ended it.
                let _ = kill(*pid, signal);
            }
            stopped = stops;
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a `takt run` is not in force yet.
fn is_loading() -> bool {
    let is = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"takt")) && words.next() == Some(b"run")
    };
    let runs = std::fs::read_dir("/proc").into_iter().flatten().flatten().any(is);
    runs && !system::read(STATE).is_ok_and(|state| state == "enabled")
}

fn shell() -> Command {
    let mut shell = Command::new(SHELL);
    shell.env_clear().envs([("PATH", "/bin"), ("HOME", "/"), ("PS1", "lab# ")]);
    shell
}

/// Somebody types on a terminal, until `exit`.
fn at(terminal: &Terminal, mut serial: &File, session: &Session) -> Result<ExitStatus> {
    let size = libc::winsize { ws_row: terminal.rows, ws_col: terminal.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel reads one winsize.
    let failed = unsafe { libc::ioctl(serial.as_raw_fd(), libc::TIOCSWINSZ, &size) } != 0;
    ensure!(!failed, "{SERIAL}: {}", std::io::Error::last_os_error());
    let names: Vec<_> = session.vms.iter().map(|vm| vm.name.as_str()).collect();
    let kernel = system::read("/proc/sys/kernel/osrelease")?;
    write!(
        serial,
        "Linux {kernel}, {} CPUs; VMs: {}. The kernel's own scheduler is in force.\n\
         Try `takt run &`, wait until it schedules this host (one or two minutes: this machine is slow),\n\
         then `takt status`, `takt set batch weight=64`, `takt top`.\n\
         `exit` ends the machine; so does Ctrl-A x.\n",
        super::sched::count()?,
        names.join(", ")
    )
    .context(SERIAL)?;
    let port = || serial.try_clone().map(Stdio::from).context(SERIAL);
    let mut shell = shell();
    shell.env("TERM", &terminal.name).arg("-i").stdin(port()?).stdout(port()?).stderr(port()?);
    // SAFETY: system calls that take no memory. The shell leads a session on its port, or Ctrl-C would reach nobody.
    unsafe {
        shell.pre_exec(|| {
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let status = shell.status().context(SHELL)?;
    end_all()?;
    Ok(status)
}

/// Runs a script. What it prints goes through a pipe: programs see no terminal, and the port changes no byte.
fn script(serial: &File) -> Result<ExitStatus> {
    let mut raw: Termios = termios::tcgetattr(serial).context(SERIAL)?;
    termios::cfmakeraw(&mut raw);
    termios::tcsetattr(serial, SetArg::TCSANOW, &raw).context(SERIAL)?;
    let (from, to) = pipe().context("pipe")?;
    let (mut from, mut port) = (File::from(from), serial.try_clone().context(SERIAL)?);
    let relay = std::thread::spawn(move || std::io::copy(&mut from, &mut port));
    let mut command = shell();
    command.env("TERM", "dumb").arg(SCRIPT).stdin(Stdio::null());
    command.stdout(to.try_clone().context("pipe")?).stderr(to);
    let status = command.status().context(SHELL)?;
    // The pipe ends when nothing is left that could write to it.
    drop(command);
    end_all()?;
    relay.join().map_err(|_| anyhow::anyhow!("{SERIAL}: panicked"))?.context(SERIAL)?;
    Ok(status)
}

/// Ends all other processes, politely at first.
fn end_all() -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        match kill(Pid::from_raw(-1), signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(e) => return Err(e).context("end of the machine"),
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return Ok(()),
                Ok(nix::sys::wait::WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(20)),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => return Err(e).context("end of the machine"),
            }
        }
    }
    Ok(())
}
