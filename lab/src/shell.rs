// SPDX-License-Identifier: GPL-2.0-only
//! `takt lab shell`: a Linux machine with two VMs, for people who want to try Takt, and for scripts.

use crate::linux::Kernel;
use crate::plan::{ERROR, Vm};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use takt_qemu::{Archive, MODEL, Machine, Timing};

/// Where the machine has its [`Session`], and the script if there is one.
pub const FILE: &str = "/shell.json";
pub const SCRIPT: &str = "/script";
/// The shell, and what else a user may want.
pub const SHELL: &str = "/bin/sh";
/// In the outbox: the status with which the shell has ended.
pub const STATUS: &str = "status";

/// The first of them that this host has: bash edits lines.
const SHELLS: [&str; 2] = ["bash", "sh"];
const TOOLS: [&str; 8] = ["cat", "date", "grep", "head", "ls", "rm", "sleep", "tail"];
/// Where ncurses looks for what a terminal can do.
const TERMINFO: [&str; 3] = ["etc/terminfo", "lib/terminfo", "usr/share/terminfo"];
const CPUS: u32 = 2;
const MEMORY: u32 = 1024;
/// What the kernel says when it gives up; the machine is off then.
const PANIC: &str = "Kernel panic";

/// What the machine's init is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub vms: Vec<Vm>,
    /// Without one a script is run.
    pub terminal: Option<Terminal>,
}

/// The terminal that the shell is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Its type, as `TERM` names it.
    pub name: String,
    pub rows: u16,
    pub columns: u16,
}

impl Terminal {
    /// That of this process.
    ///
    /// # Errors
    /// stdout is none.
    pub fn here() -> Result<Self> {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel writes one winsize.
        let failed = unsafe { libc::ioctl(std::io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &mut size) } != 0;
        ensure!(!failed, "stdout is no terminal: {}", std::io::Error::last_os_error());
        // One that does not know its size is as most are.
        let [rows, columns] = [(size.ws_row, 24), (size.ws_col, 80)].map(|(n, usual)| if n == 0 { usual } else { n });
        Ok(Self { name: std::env::var("TERM").unwrap_or_else(|_| "dumb".into()), rows, columns })
    }
}

/// What the shell reads.
pub enum Input {
    /// This process' stdin, which is a terminal.
    Terminal(Terminal),
    /// Commands.
    Script(Vec<u8>),
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The shell ended with this status, and the machine switched itself off.
    Shell(i32),
    /// The user switched it off.
    SwitchedOff,
}

/// The parts of the machine.
pub struct Shell {
    kernel: Kernel,
    programs: PathBuf,
    /// Each with its name in the machine.
    tools: Vec<(String, PathBuf)>,
}

impl Shell {
    /// With `takt` and the other programs that stand beside this one, or where `TAKT_PROGRAMS` says, and a kernel of the series.
    ///
    /// # Errors
    /// A program that is missing, before anything is fetched; those of [`Kernel::get`].
    pub fn new(kernel: &str) -> Result<Self> {
        let this = std::env::current_exe().context("own path")?;
        let programs = crate::programs(&this, &["takt", "takt-vmm", "takt-lab-init"])?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|f| f.is_file());
        let shell = SHELLS.into_iter().find_map(find);
        let shell = shell.with_context(|| format!("lab shell: no shell in PATH; needed: {}", SHELLS.join(" or ")))?;
        let mut tools = vec![(SHELL.to_owned(), shell)];
        for name in TOOLS {
            let tool =
                find(name).with_context(|| format!("lab shell: `{name}` is not in PATH, and the machine needs it"))?;
            tools.push((format!("bin/{name}"), tool));
        }
        Ok(Self { kernel: Kernel::get(kernel)?, programs, tools })
    }

    /// Boots the machine, and returns when it is off.
    ///
    /// # Errors
    /// What went wrong in the machine, or it ended before its shell.
    pub fn run(&self, input: &Input) -> Result<End> {
        let dir = tempfile::tempdir().context("temporary directory")?;
        let initramfs = dir.path().join("initramfs");
        std::fs::write(&initramfs, self.archive(input)?).context("initramfs")?;
        let machine = Machine {
            kernel: self.kernel.image(),
            initramfs,
            disk: None,
            command_line: format!("quiet nr_cpus={CPUS}"),
            cpus: CPUS,
            memory: MEMORY,
            model: MODEL,
            // Seconds are those of the user. Counted time passes several times as slowly while VMs compute, and at once while nothing
            // does: neither suits somebody at a keyboard. CPUs in turn, because emulated at once they go wrong now and then.
            timing: Timing::Free,
            // A user may take all the time there is.
            patience: Duration::MAX,
        };
        let stdin = if matches!(input, Input::Terminal(_)) { Stdio::inherit() } else { Stdio::null() };
        let remains = machine.run_attended(dir.path(), stdin)?;
        if let Some(error) = remains.files.get(ERROR) {
            bail!("in the lab's machine: {}", String::from_utf8_lossy(error));
        }
        match (remains.files.get(STATUS), input) {
            (Some(status), _) => {
                let status = std::str::from_utf8(status).ok().and_then(|s| s.parse().ok());
                Ok(End::Shell(status.context("the lab's machine left a status that is no number")?))
            }
            (None, Input::Terminal(_)) if !remains.console.contains(PANIC) => Ok(End::SwitchedOff),
            (None, _) => bail!("the lab's machine ended before its shell: {}", remains.console.trim()),
        }
    }

    fn archive(&self, input: &Input) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        archive.program("init", &self.programs.join("takt-lab-init"))?;
        for name in ["takt", "takt-vmm"] {
            archive.program(&format!("bin/{name}"), &self.programs.join(name))?;
        }
        self.tools.iter().try_for_each(|(name, from)| archive.program(name, from))?;
        self.kernel.modules(&mut archive)?;
        let mut session = Session { vms: vms()?, terminal: None };
        match input {
            Input::Script(text) => archive.data(SCRIPT, text),
            Input::Terminal(terminal) => {
                if let Some(name) = terminfo(&terminal.name) {
                    archive.file(&name, &Path::new("/").join(&name))?;
                }
                session.terminal = Some(terminal.clone());
            }
        }
        archive.data(FILE, &serde_json::to_vec(&session)?);
        Ok(archive.finish())
    }
}

/// The file that describes a terminal, without the `/` at its beginning, if this host has it.
fn terminfo(name: &str) -> Option<String> {
    let first = name.chars().next().filter(|_| !name.contains('/'))?;
    let mut files = TERMINFO.iter().map(|dir| format!("{dir}/{first}/{name}"));
    files.find(|file| Path::new("/").join(file).is_file())
}

/// A server of calls, which its packets give away, and a VM that takes all it gets.
fn vms() -> Result<Vec<Vm>> {
    let vm = |name: &str, config: Value, vcpus: u32, workload: Value, clients: Option<&[&str]>| -> Result<Vm> {
        Ok(Vm {
            name: name.to_owned(),
            serves: clients.is_some(),
            config: serde_json::from_value(config).context("configuration")?,
            affinity: Vec::new(),
            vcpus,
            start_ms: 0,
            workload: serde_json::from_value(workload).context("workload")?,
            work_ns: None,
            cpu_ns: Default::default(),
            clients: clients.map(|words| words.iter().map(|&w| w.to_owned()).collect()),
            requests: None,
        })
    };
    // A packet each 20 ms, so that a slow machine can answer one before the next. Ten thousand iterations are some 0.1 ms there.
    let calls = ["--dev", "pbx", "--period-ns", "20000000"];
    Ok(vec![
        vm("pbx", json!({}), 1, json!({"kind": "echo", "tap": "pbx", "work": 10_000}), Some(&calls))?,
        // Of little weight: what a user types is not to wait for it.
        vm("batch", json!({"weight": 26}), CPUS, json!({"kind": "hog"}), None)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_is_written() {
        let terminal = Terminal { name: "xterm".into(), rows: 40, columns: 120 };
        let session = Session { vms: vms().unwrap(), terminal: Some(terminal) };
        let text = serde_json::to_vec(&session).unwrap();
        assert_eq!(serde_json::from_slice::<Session>(&text).unwrap(), session);
    }

    #[test]
    fn a_name_of_a_terminal_leads_to_no_other_file() {
        assert_eq!(terminfo("../../../etc/passwd"), None);
        assert_eq!(terminfo(""), None);
        assert_eq!(terminfo("no-such-terminal"), None);
    }
}
