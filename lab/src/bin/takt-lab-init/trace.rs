// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own account of who runs where, by ftrace: independent of Takt, on the same clock.

use super::system::read;
use anyhow::{Context, Result, ensure};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use takt_lab::plan;
use takt_qemu::outbox::Files;

const TRACING: &str = "/sys/kernel/tracing";
const EVENT: &str = "events/sched/sched_switch";
/// Of each CPU, KiB: a hundred thousand switches.
const BUFFER: u32 = 8192;

/// A trace under way.
pub struct Trace;

impl Trace {
    pub fn start() -> Result<Self> {
        write("trace_clock", "mono")?;
        write("buffer_size_kb", &BUFFER.to_string())?;
        write("options/overwrite", "0")?;
        write(&format!("{EVENT}/enable"), "1")?;
        write("tracing_on", "1")?;
        Ok(Self)
    }

    /// Ends it and takes the pages of each CPU out, as phase `n`'s.
    pub fn stop(self, n: usize, files: &mut Files) -> Result<()> {
        write("tracing_on", "0")?;
        write(&format!("{EVENT}/enable"), "0")?;
        files.insert(plan::TRACE_FORMAT.to_owned(), fs::read(format!("{TRACING}/{EVENT}/format")).context(EVENT)?);
        for cpu in 0..super::sched::count()? {
            let dir = format!("{TRACING}/per_cpu/cpu{cpu}");
            let stats = read(&format!("{dir}/stats"))?;
            let lost =
                |l: &&str| ["overrun: ", "dropped events: "].iter().any(|k| l.starts_with(k)) && !l.ends_with(": 0");
            let lost = stats.lines().find(lost);
            ensure!(lost.is_none(), "trace of CPU {cpu}: {}", lost.unwrap_or_default());
            files.insert(plan::trace(n, cpu), pages(&format!("{dir}/trace_pipe_raw"))?);
        }
        write("trace", "")
    }
}

/// A read gives one page; none is left when it would wait.
fn pages(path: &str) -> Result<Vec<u8>> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).with_context(|| path.to_owned())?;
    let (mut all, mut page) = (Vec::new(), [0; plan::TRACE_PAGE]);
    loop {
        match file.read(&mut page) {
            Ok(0) => return Ok(all),
            Ok(n) => all.extend(&page[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(all),
            Err(e) => return Err(e).with_context(|| path.to_owned()),
        }
    }
}

fn write(file: &str, text: &str) -> Result<()> {
    let path = format!("{TRACING}/{file}");
    fs::write(&path, text).with_context(|| path)
}
