// SPDX-License-Identifier: GPL-2.0-only
//! `takt run`: schedules the host until it is told to end, says what it finds, and answers what it is asked.

use super::Voice;
use super::recording::Recording;
use super::{metrics, service};
use crate::{args, interrupt};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use takt_control::file::HostSection;
use takt_control::socket::{Asked, Request, Socket};
use takt_control::{Event, HostConfig, PolicySpec, Setting, document};
use takt_linux::keeper::{DAY, Keeping};
use takt_linux::{Ended, LOOK, Live, Options, Quota, TIMEOUT_MS};

/// How often records are fetched: the kernel's ring of them holds more than a host makes in this time.
const FETCH: Duration = Duration::from_millis(50);

/// A wait of a real-time VM that saves a recording unless one says otherwise, ms.
const INCIDENT_MS: u32 = 20;
/// Where these recordings are then.
const INCIDENTS: &str = "/var/lib/takt/incidents";

/// `takt why` knows whole minutes, ms.
const MINUTE_MS: u64 = 60_000;

enum Input {
    Stop,
    Reload,
    Asked(Asked),
}

/// Why it ends.
enum End {
    /// A signal has requested it.
    Requested,
    /// The kernel has taken the scheduler out.
    TakenOut(Ended),
    /// The host must not be scheduled by it any longer.
    Leaves(String),
}

/// Runs the command; false if the scheduler is taken out, or leaves by itself.
///
/// # Errors
/// Bad input, or what the machine lacks; nothing has changed then.
pub fn run(args: &args::Run) -> Result<bool> {
    let (config, policy) = read(args)?;
    let options = options(args, &config.host);
    policy.fair(options.accept_unfair)?;
    takt_linux::Environment::check()?;
    let voice = Voice { json: args.json, guest: "VM" };
    let record = args.record.as_deref().map(|path| Recording::open(path, policy.pools.is_some())).transpose()?;
    let socket = Socket::bind(&args.socket.socket)?;
    let (send, events) = channel();
    let (signals, reloads) = (send.clone(), args.config.is_some());
    interrupt::or_reload(move |hup| drop(signals.send(if hup && reloads { Input::Reload } else { Input::Stop })))?;

    let scrapes = config.host.metrics;
    let unchecked = options.accept_core_scheduling;
    let mut live = Live::start(&policy, config, options)?;
    if unchecked {
        voice.warn("core scheduling cookies are not checked: with SMT, a thread with a cookie may hang the machine");
    }
    let recording = match (record, &args.record) {
        (Some(files), Some(path)) => Some(Recording::begin_in(&mut live, files, path, None, None)?),
        _ => None,
    };
    socket.serve(move |asked| send.send(Input::Asked(asked)).is_ok())?;
    if let Some(address) = scrapes {
        metrics::serve_when_free(address, args.socket.socket.clone(), |text| voice.warn(text));
    }
    if args.verifier {
        for done in live.verified()? {
            voice.say(&Event::Verified { program: done.program, walked: done.walked, size: done.size });
        }
    }
    let news = live.look()?;
    let status = live.status(false)?;
    let (pcpus, vms) = (status.host.pcpus.len(), status.vms.len());
    let (kernel, kvm) = (status.host.kernel, status.host.kvm);
    voice.say(&Event::Scheduling { policy: policy.to_string(), kernel, pcpus, vms, kvm });
    news.iter().for_each(|event| voice.say(event));
    service::ready(&policy.to_string());
    let ended = Serving { live: &mut live, args, recording, events, trouble: None, voice }.until_the_end();
    service::stopping();
    let counts = live.status(false).map(|s| s.host);
    drop(live);
    drop(socket);
    match ended {
        End::Leaves(why) => {
            voice.say(&Event::Left { reason: why });
            Ok(false)
        }
        End::TakenOut(end) => {
            end.dump.lines().for_each(|line| voice.warn(line));
            let why = [end.reason, end.message].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(": ");
            voice.say(&Event::TakenOut { reason: why });
            Ok(false)
        }
        End::Requested => {
            let (uptime_s, c) = counts.map(|h| (h.uptime_s, h.counts)).unwrap_or_default();
            let (switches, kicks, refused) = (c.switches, c.kicks, c.refused);
            voice.say(&Event::Unloaded { uptime_s, switches, kicks, refused });
            Ok(true)
        }
    }
}

/// What the file says, and the policy that follows from it and the command line.
fn read(args: &args::Run) -> Result<(HostConfig, PolicySpec)> {
    let config = args.config.as_deref().map_or(Ok(HostConfig::default()), HostConfig::read)?;
    let policy = config.linux_policy(args.policy.as_deref())?;
    Ok((config, policy))
}

/// What the command line says wins over the file.
fn options(args: &args::Run, host: &HostSection) -> Options {
    let default = Quota::default();
    Options {
        config_file: args.config.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        cgroups: if args.cgroups.is_empty() { host.cgroups.clone() } else { args.cgroups.clone() },
        timeout_ms: args.timeout_ms.or(host.timeout_ms).unwrap_or(TIMEOUT_MS),
        quota: Quota {
            vms: args.tenant_vms.or(host.tenant_vms).unwrap_or(default.vms),
            threads: args.tenant_threads.or(host.tenant_threads).unwrap_or(default.threads),
        },
        keeping: keeping(args, host),
        accept_core_scheduling: args.accept_core_scheduling || host.accept_core_scheduling,
        accept_unheeded_cgroups: args.accept_unheeded_cgroups || host.accept_unheeded_cgroups,
        accept_unfair: args.accept_unfair || host.accept_unfair,
    }
}

/// What is kept for `takt why`.
fn keeping(args: &args::Run, host: &HostSection) -> Option<Keeping> {
    let said = &args.keeping;
    let mib = said.recorder_mib.or(host.recorder_mib).filter(|mib| *mib > 0)?;
    let limit = said.incident_ms.or(host.incident_ms).unwrap_or(INCIDENT_MS);
    let dir = said.incident_dir.as_ref().or(host.incident_dir.as_ref()).map_or(INCIDENTS.as_ref(), |dir| dir.as_path());
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    Some(Keeping { memory: (mib as usize) << 20, limit: u64::from(limit) * 1_000_000, dir })
}

struct Serving<'a> {
    live: &'a mut Live,
    args: &'a args::Run,
    recording: Option<Recording>,
    events: Receiver<Input>,
    /// What the last look failed with.
    trouble: Option<String>,
    voice: Voice,
}

impl Serving<'_> {
    /// Looks at the host and answers until told to stop, taken out, or in danger. Nothing else ends it: VMs and PCPUs
    /// may go while it looks, and the host is scheduled all the same.
    fn until_the_end(mut self) -> End {
        let mut look = Instant::now() + LOOK;
        loop {
            let mut next = look;
            if let Some(recording) = &self.recording {
                next = next.min(Instant::now() + FETCH).min(recording.until().unwrap_or(next));
            }
            match self.events.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.end_recording();
                    return End::Requested;
                }
                Ok(Input::Asked(asked)) => self.answer(asked),
                Ok(Input::Reload) => self.reload(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(ended) = self.live.ended() {
                // What was recorded up to here may be just what is wanted.
                self.end_recording();
                return End::TakenOut(ended);
            }
            self.fetch();
            if Instant::now() >= look {
                look = Instant::now() + LOOK;
                if let Some(why) = self.live.must_leave() {
                    self.live.leave();
                    self.end_recording();
                    return End::Leaves(why);
                }
                let news = self.live.look();
                self.tell_all(news);
            }
        }
    }

    /// Says what a look has found, or why it has failed, unless the one before has failed for the same reason.
    fn tell_all(&mut self, news: Result<Vec<Event>>) {
        match news {
            Ok(news) => {
                self.trouble = None;
                news.iter().for_each(|event| self.voice.say(event));
            }
            Err(e) => {
                let why = format!("{e:#}");
                if self.trouble.as_ref() != Some(&why) {
                    self.voice.warn(&why);
                }
                self.trouble = Some(why);
            }
        }
    }

    /// Reads the file again. What cannot be followed is said, and what held before still holds.
    fn reload(&mut self) {
        service::reloading();
        let news = read(self.args).and_then(|(config, policy)| {
            let keeping = keeping(self.args, &config.host);
            self.live.reload(config, &policy, keeping)
        });
        match news {
            Ok(news) => news.iter().for_each(|event| self.voice.say(event)),
            Err(e) => self.voice.warn(&format!("the configuration is not followed, the former one holds: {e:#}")),
        }
        service::ready(&self.live.policy().to_string());
    }

    fn fetch(&mut self) {
        let fetched = self.live.fetch();
        match (fetched, self.recording.take()) {
            (Ok(operations), Some(recording)) if !recording.is_over(operations.unwrap_or(0)) => {
                self.recording = Some(recording);
            }
            (Ok(_), recording) => {
                self.recording = recording;
                self.end_recording();
            }
            (Err(e), Some(recording)) => {
                if let Err(e) = recording.lost(e) {
                    self.voice.warn(&format!("{e:#}"));
                }
            }
            (Err(e), None) => self.voice.warn(&format!("{e:#}")),
        }
    }

    fn end_recording(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        match recording.end(self.live) {
            Ok(None) => {}
            Ok(Some(done)) => self.voice.say(&Event::Recorded(done)),
            Err(e) => self.voice.warn(&format!("{e:#}")),
        }
    }

    fn answer(&mut self, asked: Asked) {
        let answer = match asked.request.clone() {
            Request::Status { histograms } => self.live.status(histograms).and_then(|s| document::value(&s)),
            Request::Set { vm, values } => self.set(vm.as_deref(), &values),
            Request::Saved { vm, keys } => self.saved(vm.as_deref(), &keys),
            Request::Why { vm, since_ms } => self.why(&vm, since_ms),
            Request::Overhead { on: true } => self.live.begin_measuring().map(|()| json!({})),
            Request::Overhead { on: false } => self.live.end_measuring().and_then(|window| document::value(&window)),
            Request::Record { file, duration_ms, operations } => {
                match Recording::begin(self.live, &file, duration_ms, operations) {
                    Ok(recording) => {
                        self.recording = Some(recording.for_client(asked));
                        return;
                    }
                    Err(e) => Err::<Value, _>(e),
                }
            }
        };
        asked.answer(answer);
    }

    /// Reads the file again, in which what was set of `keys` is now.
    fn saved(&mut self, vm: Option<&str>, keys: &[String]) -> Result<Value> {
        ensure!(self.args.config.is_some(), "takt run has no file; start it with --config FILE");
        let (config, policy) = read(self.args)?;
        let keeping = keeping(self.args, &config.host);
        let news = self.live.saved(vm, keys, config, &policy, keeping)?;
        news.iter().for_each(|event| self.voice.say(event));
        Ok(json!({}))
    }

    /// What a VM waited for.
    fn why(&mut self, vm: &str, since_ms: u64) -> Result<Value> {
        let (low, high) = (MINUTE_MS, DAY / 1_000_000);
        ensure!((low..=high).contains(&since_ms), "since_ms must be between {low} and {high} (got {since_ms})");
        let (why, news) = self.live.why(vm, Duration::from_millis(since_ms))?;
        news.iter().for_each(|event| self.voice.say(event));
        document::value(&why)
    }

    /// Sets values of a VM, or of the policy; what holds after it.
    fn set(&mut self, vm: Option<&str>, values: &[String]) -> Result<Value> {
        match vm {
            Some(vm) => self.live.set(vm, &Setting::parse(values)?)?,
            None => self.live.set_pool(values)?,
        }
        document::value(&self.live.status(false)?.after(vm))
    }
}
