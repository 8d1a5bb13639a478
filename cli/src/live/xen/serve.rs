// SPDX-License-Identifier: GPL-2.0-only
//! `takt run` in Dom0: hands what the monitor finds to the hypervisor until it is told to end.

use super::super::Voice;
use crate::{args, interrupt};
use anyhow::{Result, bail, ensure};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use takt_control::event::Cpupool;
use takt_control::pools::{Pools, Size};
use takt_control::socket::{Asked, Request, Socket};
use takt_control::{Event, HostConfig, PolicySpec, Setting, document, partition};
use takt_xen::{LOOK, Live, Manager, Monitor, Report, RtPool, TaktPool, Xen, xenstore};

enum Input {
    Stop,
    Asked(Asked),
    /// A domain has come, or goes.
    Domains,
}

/// Reports are handed on by the thread that the kernel wakes for them: they come every 30 ms, and to wake another one for each would be
/// twice the cost, in a Dom0 that others wait for.
type Shared = Arc<Mutex<Live<Monitor>>>;

fn lock(live: &Shared) -> MutexGuard<'_, Live<Monitor>> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command.
///
/// # Errors
/// Bad input, or what the machine lacks; nothing has changed then.
pub fn run(args: &args::Run) -> Result<bool> {
    let linux = [
        ("--record", args.record.is_some(), ": use `takt record`, which needs no `takt run` here"),
        ("--cgroup", !args.cgroups.is_empty(), ""),
        ("--timeout-ms", args.timeout_ms.is_some(), ""),
        ("--tenant-vms", args.tenant_vms.is_some(), ""),
        ("--tenant-threads", args.tenant_threads.is_some(), ""),
        ("--accept-core-scheduling", args.accept_core_scheduling, ""),
        ("--accept-unheeded-cgroups", args.accept_unheeded_cgroups, ""),
        ("--verifier", args.verifier, ""),
    ];
    if let Some((option, _, instead)) = linux.iter().find(|(_, given, _)| *given) {
        bail!("{option} works only on a Linux host; this is Xen's Dom0{instead}");
    }
    let policy = args.policy.as_deref().map(PolicySpec::parse).transpose()?;
    policy.iter().try_for_each(|policy| policy.fair(args.accept_unfair))?;
    let config = args.config.as_deref().map_or(Ok(HostConfig::default()), HostConfig::read)?;
    config.only_names()?;
    let voice = Voice { json: args.json, guest: "domain" };
    let host = takt_xen::open()?;
    let risa = policy.as_ref().map(managed).transpose()?.flatten();
    let main = if risa.is_some() { host.pool(Some(0))? } else { host.pools()?[0] };
    if let Some(policy) = &policy {
        check(&main, policy)?;
    }
    // Who moves PCPUs is waited for.
    if risa.is_none() {
        takt_xen::stand_back();
    }
    let socket = Socket::bind(&args.socket.socket)?;
    let (send, events) = channel();
    let stop = send.clone();
    interrupt::instead(move || drop(stop.send(Input::Stop)))?;
    let monitor = Monitor::start(host.store())?;
    if risa.is_some() {
        let domains = send.clone();
        xenstore::follow(move || domains.send(Input::Domains).is_ok())?;
    }
    let mut live = Live::new(host.clone(), monitor, config);
    if let Some((rt, settings)) = &risa {
        live = live.managed(Manager::new(RtPool::open(host.clone(), &rt.name, &rt.params)?, *settings));
    }
    let live = Arc::new(Mutex::new(live));
    let params = policy.map_or_else(Vec::new, |policy| policy.params);
    let begun = host.set_params(&main, &params).and_then(|()| begin(&live, &host, &socket, send, voice));
    let done = begun.and_then(|()| serve(&live, &events, voice));
    let closed = lock(&live).close();
    drop(socket);
    done?;
    closed?;
    voice.say(&Event::Ended);
    Ok(true)
}

/// Looks for the first time, and says what it is about.
fn begin(live: &Shared, host: &Xen, socket: &Socket, send: Sender<Input>, voice: Voice) -> Result<()> {
    let news = lock(live).look()?;
    let reported = live.clone();
    let hand = move |report: Report| {
        lock(&reported).report(&report).iter().for_each(|event| voice.say(event));
        true
    };
    lock(live).eyes().reports(hand)?;
    socket.serve(move |asked| send.send(Input::Asked(asked)).is_ok())?;
    let one = |p: &TaktPool| Cpupool { id: p.id, policy: p.policy.name.into() };
    voice.say(&Event::Watching { cpupools: host.pools()?.iter().map(one).collect() });
    news.iter().for_each(|event| voice.say(event));
    Ok(())
}

/// The rt-pool that a policy has the manager make, and how large.
fn managed(policy: &PolicySpec) -> Result<Option<(PolicySpec, partition::Settings)>> {
    let Some(Pools { rt, size }) = &policy.pools else { return Ok(None) };
    let Size::Managed(settings) = size else {
        bail!("policy `{policy}` is for the simulator: on Xen, make a static pool by `xl cpupool-create`")
    };
    ensure!(
        !settings.take_all,
        "`rt_pool_may_take_all=on` is for the simulator: on Xen, PCPU 0 and Dom0 stay in Pool-0"
    );
    let mut params = policy.params.clone();
    let reserve = Pools::defaults();
    if !params.iter().any(|(key, _)| *key == reserve.0) {
        params.push(reserve);
    }
    let rt = PolicySpec { name: rt.clone(), pools: None, params, ..policy.clone() };
    Ok(Some((rt, *settings)))
}

/// The policy that is asked for must be what the hypervisor has; its parameters can be set.
fn check(pool: &TaktPool, policy: &PolicySpec) -> Result<()> {
    ensure!(!policy.pin, "policy `pin` is for the simulator: on Xen, pin VCPUs by `xl vcpu-pin`");
    ensure!(
        policy.name == pool.policy.name,
        "cpupool {} runs {}; choose another policy at boot (takt_policy={}) or while the cpupool has no domains (takt set --pool)",
        pool.id,
        pool.policy.name,
        policy.name
    );
    Ok(())
}

/// Until told to stop.
fn serve(live: &Shared, events: &Receiver<Input>, voice: Voice) -> Result<()> {
    let mut look = Instant::now() + LOOK;
    loop {
        let next = lock(live).due().map_or(look, |due| look.min(due));
        match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Input::Asked(asked)) => answer(&mut lock(live), asked),
            Ok(Input::Domains) => look = Instant::now(),
            Err(RecvTimeoutError::Timeout) => look = next,
        }
        if Instant::now() >= look {
            look = Instant::now() + LOOK;
            let news = lock(live).look()?;
            news.iter().for_each(|event| voice.say(event));
        }
    }
}

fn answer(live: &mut Live<Monitor>, asked: Asked) {
    let answer = match &asked.request {
        Request::Status { .. } => live.guests().and_then(|guests| document::value(&guests)),
        Request::Set { vm: Some(vm), values } => {
            Setting::parse(values).and_then(|s| live.set(vm, &s)).map(|()| serde_json::json!({}))
        }
        Request::Why { .. } => Err(anyhow::anyhow!("on Xen, nothing is kept that takt why could answer from")),
        Request::Set { vm: None, .. } | Request::Saved { .. } | Request::Record { .. } | Request::Overhead { .. } => {
            Err(anyhow::anyhow!("on Xen, the hypervisor answers this request, not `takt run`"))
        }
    };
    asked.answer(answer);
}
