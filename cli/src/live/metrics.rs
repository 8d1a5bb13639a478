// SPDX-License-Identifier: GPL-2.0-only
//! `takt metrics`, and `[host] metrics` of `takt run`: what a running Takt knows, as OpenMetrics for Prometheus.
//!
//! Each scrape asks the control socket once. Where no Takt answers, `takt_up` is 0 and nothing else is said.

mod families;
mod http;

use crate::{args, interrupt, output};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use takt_control::socket::{Client, Request};
use takt_control::{document, duration};
use takt_linux::status::Status;

/// How often a file is written unless it is told.
const INTERVAL: Duration = Duration::from_secs(15);
/// How old an answer to a scrape may be.
const FRESH: Duration = Duration::from_secs(1);
/// Between two tries to listen.
const RETRY: Duration = Duration::from_secs(10);
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Runs `takt metrics`.
///
/// # Errors
/// The address is taken, or the file cannot be written. That no Takt runs is no error but a metric, unless the metrics are
/// printed.
pub fn metrics(args: &args::Metrics) -> Result<bool> {
    let socket = &args.socket.socket;
    if args.listen.is_none() && args.textfile.is_none() {
        output::print(&families::text(Some(&status(socket)?))?)?;
        return Ok(true);
    }
    let interval = args.interval.as_deref().map_or(Ok(INTERVAL), interval)?;
    let (end, ended) = channel();
    interrupt::instead(move || {
        let _ = end.send(());
    })?;
    if let Some(address) = args.listen {
        serve(bind(address)?, socket.clone())?;
        output::say(&format!("metrics are at http://{address}/metrics"));
    }
    let Some(file) = &args.textfile else {
        let _ = ended.recv();
        return Ok(true);
    };
    loop {
        if let Err(e) = write(file, &scrape(socket)?) {
            // Better none than one that stays as it was.
            let _ = std::fs::remove_file(file);
            return Err(e);
        }
        if ended.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            // A collector would keep showing stale figures.
            std::fs::remove_file(file).with_context(|| file.display().to_string())?;
            return Ok(true);
        }
    }
}

fn interval(text: &str) -> Result<Duration> {
    let time = duration::parse(text).map(Duration::from_nanos).context("--interval")?;
    ensure!(INTERVALS.contains(&time), "--interval must be between 1s and 1h (got `{text}`)");
    Ok(time)
}

/// Takes an address.
///
/// # Errors
/// One line with the address.
fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("metrics: {address}"))
}

/// Answers scrapes from now on, beside the rest of the program, with what the Takt at `socket` knows. Anybody may ask, as often as
/// they like: Takt is asked once a second at most.
///
/// # Errors
/// There is no thread for it.
fn serve(listener: TcpListener, socket: PathBuf) -> Result<()> {
    let last: Mutex<Option<(Instant, String)>> = Mutex::new(None);
    http::serve(listener, move || {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last {
            if at.elapsed() < FRESH {
                return Ok(text.clone());
            }
        }
        let text = scrape(&socket)?;
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    })
}

/// The same for a Takt that schedules the host whether it can or not: where the address is taken, or not there yet, `trouble` is told,
/// and it is tried again.
pub fn serve_when_free(address: SocketAddr, socket: PathBuf, trouble: impl FnOnce(&str)) {
    let first = bind(address).and_then(|listener| serve(listener, socket.clone()));
    let Err(e) = first else { return };
    trouble(&format!("{e:#}; tried again every {} s", RETRY.as_secs()));
    std::thread::spawn(move || {
        while bind(address).and_then(|listener| serve(listener, socket.clone())).is_err() {
            std::thread::sleep(RETRY);
        }
    });
}

fn scrape(socket: &Path) -> Result<String> {
    families::text(status(socket).ok().as_ref())
}

fn status(socket: &Path) -> Result<Status> {
    document::read(Client::connect(socket)?.ask(&Request::Status { histograms: true })?)
}

/// In one step: a collector that reads meanwhile has the file before or the whole new one.
fn write(path: &Path, text: &str) -> Result<()> {
    let what = || path.display().to_string();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".takt").tempfile_in(dir).with_context(what)?;
    file.write_all(text.as_bytes()).with_context(what)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).with_context(what)?;
    file.persist(path).with_context(what)?;
    Ok(())
}
