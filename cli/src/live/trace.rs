// SPDX-License-Identifier: GPL-2.0-only
//! `takt trace`: what runs on a live host, for Perfetto.

use super::done::span;
use crate::output::Pending;
use crate::{args, interrupt, output, replay, temporary};
use anyhow::Result;
use std::net::Shutdown;
use takt_control::document;
use takt_control::event::Done;
use takt_control::socket::{Client, Request};

/// Runs `takt trace`: a recording that is gone once it has become a trace. Ctrl-C ends it early.
///
/// # Errors
/// The file cannot be written, no Takt runs, or operations were lost.
pub fn trace(args: &args::Trace) -> Result<bool> {
    let duration_ms = Some(span(&args.duration)?);
    let file = Pending::open_private(&args.file)?;
    let (dir, _kept) = temporary::scratch()?;
    let recording = dir.path().join("recording");
    let client = Client::connect(&args.socket.socket)?;
    let stream = client.stream()?;
    interrupt::instead(move || drop(stream.shutdown(Shutdown::Write)))?;
    let request = Request::Record { file: recording.clone(), duration_ms, operations: None };
    let done: Done = document::read(client.ask(&request)?)?;
    let log = takt_conformance::read_log(&recording)?;
    file.write(&replay::perfetto(&log, "this host")?)?;
    output::print(&format!(
        "{}: {} operations in {:.1} s, for ui.perfetto.dev\n",
        args.file.display(),
        done.operations,
        done.seconds
    ))?;
    Ok(true)
}
