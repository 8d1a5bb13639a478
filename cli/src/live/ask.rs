// SPDX-License-Identifier: GPL-2.0-only
//! What is asked of a running Takt: `takt status`, `set`, `record`, `overhead`.

use super::AGAIN;
use super::done::{self, span};
use super::overhead as window;
use super::show;
use crate::output::Pending;
use crate::{args, interrupt, output};
use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::path::Path;
use takt_control::After;
use takt_control::socket::{Client, Request};
use takt_control::{Setting, document, save};
use takt_linux::status::{Status, VmStatus};

/// Runs `takt status`.
///
/// # Errors
/// No Takt runs, or stdout cannot be written.
pub fn status(args: &args::Status) -> Result<bool> {
    super::no_cpupool(&args.cpupool)?;
    let client = Client::connect(&args.socket.socket)?;
    loop {
        let value = client.ask(&Request::Status { histograms: args.histograms })?;
        let status: Status = document::read(value)?;
        if args.json {
            output::print_json(&status)?;
        } else {
            if args.watch {
                output::clear()?;
            }
            output::print(&show::text(&status))?;
        }
        if !args.watch {
            return Ok(true);
        }
        std::thread::sleep(AGAIN);
    }
}

/// Runs `takt set`. What needs no Takt to be found wrong is refused before one is asked.
///
/// # Errors
/// An unknown VM or key, a value out of range, no Takt runs: nothing has changed then.
pub fn set(args: &args::SetLive) -> Result<bool> {
    super::no_cpupool(&args.cpupool)?;
    ensure!(!args.accept_unfair, "--accept-unfair: on Linux, give it to `takt run`; it also covers later changes");
    let (vm, values) = match args.words.split_first() {
        Some((vm, values)) if !args.pool => {
            ensure!(!vm.contains('='), "`{vm}` is given instead of a VM (to set the policy, use --pool)");
            Setting::parse(values)?;
            (Some(vm.clone()), values.to_vec())
        }
        _ => (None, args.words.clone()),
    };
    let file = args.save.then(|| Saved::new(&args.socket.socket, vm.as_deref(), &values)).transpose()?;
    let keys = values.iter().filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())).collect();
    let saved = Request::Saved { vm: vm.clone(), keys };
    let answer = Client::connect(&args.socket.socket)?.ask(&Request::Set { vm, values })?;
    if let Some(file) = file {
        let path = file.write().context("the values hold until the VM or takt run ends, but are not saved")?;
        Client::connect(&args.socket.socket)?.ask(&saved)?;
        if !args.json {
            output::print(&format!("saved in {path}\n"))?;
        }
    }
    if args.json {
        output::print_json(&document::read::<After<VmStatus>>(answer)?)?;
    }
    Ok(true)
}

/// The file of `takt run` with the new values, which is written once they hold.
struct Saved {
    path: String,
    file: Pending,
    text: String,
}

impl Saved {
    fn new(socket: &Path, vm: Option<&str>, values: &[String]) -> Result<Self> {
        let status: Status = document::read(Client::connect(socket)?.ask(&Request::Status { histograms: false })?)?;
        let path = status.host.config.context("--save: takt run has no file; start it with --config FILE")?;
        let seen = status.vms.iter().find(|seen| Some(seen.name.as_str()) == vm);
        if let Some(vm) = seen {
            let by_process = vm.name.ends_with(&format!("-{}", vm.tgid));
            ensure!(!by_process, "--save: `{}` is called by its process, and will have another name", vm.name);
            let strong = |pair: &&String| {
                let by = pair.split_once('=').and_then(|(key, _)| vm.set_by.get(key));
                by.is_some_and(|by| by == "metadata")
            };
            let strong = values.iter().find(strong);
            ensure!(
                strong.is_none(),
                "--save: `{}`: the metadata of the VM says this key, and wins over the file",
                vm.name
            );
        }
        // A file that is not there yet will be read at the next start.
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| path.clone())?,
        };
        let text = save::saved(&text, vm, values).with_context(|| path.clone())?;
        Ok(Self { file: Pending::open(Path::new(&path))?, text, path })
    }

    /// The path of the file.
    fn write(self) -> Result<String> {
        self.file.write(self.text.as_bytes())?;
        Ok(self.path)
    }
}

/// Runs `takt record`. Ctrl-C ends the recording, and it is written.
///
/// # Errors
/// The file cannot be written, no Takt runs, or records were lost.
pub fn record(args: &args::Record) -> Result<bool> {
    super::no_cpupool(&args.cpupool)?;
    let duration_ms = args.duration.as_deref().map(span).transpose()?;
    // Whoever writes it has another working directory.
    let file = std::path::absolute(&args.file).with_context(|| args.file.display().to_string())?;
    let client = Client::connect(&args.socket.socket)?;
    let stream = client.stream()?;
    interrupt::instead(move || drop(stream.shutdown(Shutdown::Write)))?;
    let answer = client.ask(&Request::Record { file, duration_ms, operations: args.operations })?;
    done::print(&document::read(answer)?, args)
}

/// Runs `takt overhead`.
///
/// # Errors
/// A duration out of range, no Takt runs, or somebody else has ended it.
pub fn overhead(args: &args::Overhead) -> Result<bool> {
    super::no_cpupool(&args.cpupool)?;
    let time = window::window(args)?;
    // A connection each: nobody keeps one that is silent for long.
    let ask = |on| Client::connect(&args.socket.socket)?.ask(&Request::Overhead { on });
    window::wait(time, || ask(true).map(drop))?;
    let answer = ask(false)?;
    window::print(args, &document::read(answer)?)
}
