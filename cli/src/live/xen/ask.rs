// SPDX-License-Identifier: GPL-2.0-only
//! `takt status`, `set`, `record` and `overhead`: what the hypervisor knows is asked of it, the rest of a running `takt run`.

use super::super::AGAIN;
use super::super::done::{self, span};
use super::super::overhead as window;
use super::show;
use crate::output::{self, Pending};
use crate::{args, interrupt};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use takt_control::event::Done;
use takt_control::socket::{Client, Request};
use takt_control::{Setting, document};
use takt_xen::status::Status;
use takt_xen::{GuestStatus, LONGEST, Recorder, TaktPool, Xen};

/// How often records are fetched: the hypervisor's ring of them holds more than a host makes in this time.
const FETCH: Duration = Duration::from_millis(50);

/// Runs `takt status`.
///
/// # Errors
/// No cpupool is under Takt, or stdout cannot be written.
pub fn status(args: &args::Status) -> Result<bool> {
    let host = takt_xen::open()?;
    loop {
        let pool = host.pool(args.cpupool.cpupool)?;
        let status = seen(&host, &pool, &args.socket.socket)?;
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

/// The status of a cpupool, with what a `takt run` knows.
fn seen(host: &Xen, pool: &TaktPool, socket: &Path) -> Result<Status> {
    let guests = monitor(socket)?;
    let known = guests.as_ref().map(|guests| |domid: u16| guests.domains.get(&domid).cloned());
    let mut status = takt_xen::status::status(host, pool, known.as_ref().map(|k| k as _))?;
    status.host.partition = guests.as_ref().and_then(|guests| guests.partition.clone());
    Ok(status)
}

/// What `takt run` knows, if one runs.
fn monitor(socket: &Path) -> Result<Option<GuestStatus>> {
    let Ok(client) = Client::connect(socket) else { return Ok(None) };
    let answer = client.ask(&Request::Status { histograms: false })?;
    document::read(answer).map(Some)
}

/// Runs `takt set`.
///
/// # Errors
/// An unknown domain or key, a value out of range: nothing has changed then.
pub fn set(args: &args::SetLive) -> Result<bool> {
    ensure!(!args.save, "--save works only on a Linux host; this is Xen's Dom0");
    if args.pool {
        let host = takt_xen::open()?;
        host.set_pool(&host.pool(args.cpupool.cpupool)?, &args.words, args.accept_unfair)?;
        return after(args, &host, args.cpupool.cpupool, None);
    }
    ensure!(args.cpupool.cpupool.is_none(), "--cpupool requires --pool; a domain is found in any cpupool");
    let (vm, values) = args.words.split_first().context("no domain given")?;
    ensure!(!vm.contains('='), "`{vm}` is given instead of a domain (to set the policy, use --pool)");
    let setting = Setting::parse(values)?;
    let host = takt_xen::open()?;
    let domain = host.find(vm)?;
    // Where budgets make PCPUs move, who moves them must know.
    let client = Client::connect(&args.socket.socket);
    let manager = setting.params.has_server() && client.is_ok();
    // Groups are packed with all others of the cpupool.
    if setting.ports.is_some() || setting.dev.is_some() || setting.group.is_some() || manager {
        client
            .context("`ports`, `dev` and `group` need a running `takt run`")?
            .ask(&Request::Set { vm: Some(domain.name), values: values.to_vec() })?;
    } else {
        host.apply(&domain, &setting)?;
    }
    after(args, &host, None, Some(vm))
}

/// Prints what a domain, or the policy of a cpupool, has now, if that is asked for.
fn after(args: &args::SetLive, host: &Xen, cpupool: Option<u32>, domain: Option<&str>) -> Result<bool> {
    if args.json {
        // The domain may be in another cpupool now, and the cpupool under another policy.
        let domain = domain.map(|name| host.find(name)).transpose()?;
        let pool = host.pool(domain.as_ref().map_or(cpupool, |d| Some(d.pool.id)))?;
        output::print_json(&seen(host, &pool, &args.socket.socket)?.after(domain.map(|d| d.id)))?;
    }
    Ok(true)
}

/// Runs `takt record`. Ctrl-C ends the recording, and it is written.
///
/// # Errors
/// The file cannot be written, no cpupool is under Takt, or records were lost.
pub fn record(args: &args::Record) -> Result<bool> {
    let duration = args.duration.as_deref().map(span).transpose()?.map(Duration::from_millis);
    let host = takt_xen::open()?;
    let pool = host.pool(args.cpupool.cpupool)?;
    let file = Pending::open_private(&args.file)?;
    let (send, stop) = channel();
    interrupt::instead(move || {
        let _ = send.send(());
    })?;
    let most = args.operations.unwrap_or(LONGEST);
    let mut recorder = Recorder::start(&host, pool)?;
    let began = Instant::now();
    loop {
        let left = duration.map_or(FETCH, |d| d.saturating_sub(began.elapsed()));
        let stopped = stop.recv_timeout(left.min(FETCH)) != Err(RecvTimeoutError::Timeout);
        recorder.fetch()?;
        if stopped || recorder.operations() >= most || duration.is_some_and(|d| began.elapsed() >= d) {
            break;
        }
    }
    let seconds = began.elapsed().as_millis() as f64 / 1e3;
    let all = recorder.operations();
    let log = recorder.finish(Some(most))?;
    file.write(&log.to_bytes()?)?;
    let absolute = std::path::absolute(&args.file).with_context(|| args.file.display().to_string())?;
    let cut = args.operations.is_none() && all >= LONGEST;
    done::print(&Done { file: absolute, operations: all.min(most), seconds, cut, rt_pool: None }, args)
}

/// Runs `takt overhead`.
///
/// # Errors
/// A duration out of range, or no cpupool is under Takt.
pub fn overhead(args: &args::Overhead) -> Result<bool> {
    let time = window::window(args)?;
    let host = takt_xen::open()?;
    let pool = host.pool(args.cpupool.cpupool)?;
    window::wait(time, || host.begin_measuring(&pool))?;
    window::print(args, &host.end_measuring(&pool)?)
}
