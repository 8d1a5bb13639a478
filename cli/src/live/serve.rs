// SPDX-License-Identifier: GPL-2.0-only
//! `takt run`: schedules the host until it is told to end, says what it finds, and answers what it is asked.

use super::recording::Recording;
use super::{say, show, warn};
use crate::output;
use crate::{args, table};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use takt_control::socket::{Asked, Request, Socket};
use takt_control::{HostConfig, PolicySpec, Setting};
use takt_linux::{Ended, LOOK, Live, News, Options, Quota, TIMEOUT_MS};

/// How often records are fetched: the kernel's ring of them holds more than a host makes in this time.
const FETCH: Duration = Duration::from_millis(50);

enum Event {
    Stop,
    Asked(Asked),
}

/// Why it ends.
enum End {
    /// Somebody has told it to.
    Told,
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
    let policy = PolicySpec::parse(args.policy.as_deref().unwrap_or("doris"))?;
    ensure!(!policy.pin, "policy `pin` is for the simulator: on Linux, pin VCPUs with taskset or cpusets");
    let config = args.config.as_deref().map_or(Ok(HostConfig::default()), super::read_config)?;
    takt_linux::Environment::check()?;
    let record = args.record.as_deref().map(|path| Recording::open(path, policy.pools.is_some())).transpose()?;
    let socket = Socket::bind(&args.socket.socket)?;
    let (send, events) = channel();
    let stop = send.clone();
    ctrlc::set_handler(move || drop(stop.send(Event::Stop))).context("signals")?;

    let mut live = Live::start(&policy, config, options(args))?;
    if args.accept_core_scheduling {
        warn("threads with a core scheduling cookie are not looked for: on a host with SMT one may hang the machine");
    }
    let recording = match (record, &args.record) {
        (Some(files), Some(path)) => Some(Recording::begin_in(&mut live, files, path, None, None)?),
        _ => None,
    };
    socket.serve(move |asked| send.send(Event::Asked(asked)).is_ok())?;
    if args.verifier {
        output::print(&verifier(&live)?)?;
    }
    let news = live.look()?;
    let status = live.status()?;
    let (pcpus, vms) = (status.host.pcpus.len(), status.vms.len());
    say(&format!(
        "{policy} schedules this host: Linux {}, {pcpus} PCPUs, {vms} VMs found{}",
        status.host.kernel,
        if status.host.kvm { "" } else { "; KVM is not loaded yet" },
    ));
    news.iter().for_each(tell);
    let ended = Serving { live: &mut live, recording, events, trouble: None }.until_the_end();
    let counts = live.status().map(|s| s.host);
    drop(live);
    drop(socket);
    match ended {
        End::Leaves(why) => {
            warn(&format!(
                "{why}: the scheduler has left, for that may hang the machine; the kernel's default scheduler is back"
            ));
            Ok(false)
        }
        End::TakenOut(end) => {
            end.dump.lines().for_each(warn);
            let why = [end.reason, end.message].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(": ");
            say(&format!("the kernel has taken the scheduler out: {why}; the kernel's default scheduler is back"));
            Ok(false)
        }
        End::Told => {
            let (host, c) = counts.map(|h| (h.uptime_s, h.counts)).unwrap_or_default();
            say(&format!(
                "unloaded after {host:.1} s: {} switches, {} kicks, {} picks refused; the kernel's default scheduler is back",
                c.switches, c.kicks, c.refused
            ));
            Ok(true)
        }
    }
}

fn options(args: &args::Run) -> Options {
    let default = Quota::default();
    Options {
        cgroups: args.cgroups.clone(),
        timeout_ms: args.timeout_ms.unwrap_or(TIMEOUT_MS),
        quota: Quota {
            vms: args.tenant_vms.unwrap_or(default.vms),
            threads: args.tenant_threads.unwrap_or(default.threads),
        },
        accept_core_scheduling: args.accept_core_scheduling,
        accept_unheeded_cgroups: args.accept_unheeded_cgroups,
    }
}

struct Serving<'a> {
    live: &'a mut Live,
    recording: Option<Recording>,
    events: Receiver<Event>,
    /// What the last look failed with.
    trouble: Option<String>,
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
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.end_recording();
                    return End::Told;
                }
                Ok(Event::Asked(asked)) => self.answer(asked),
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
    fn tell_all(&mut self, news: Result<Vec<News>>) {
        match news {
            Ok(news) => {
                self.trouble = None;
                news.iter().for_each(tell);
            }
            Err(e) => {
                let why = format!("{e:#}");
                if self.trouble.as_ref() != Some(&why) {
                    warn(&why);
                }
                self.trouble = Some(why);
            }
        }
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
                    warn(&format!("{e:#}"));
                }
            }
            (Err(e), None) => warn(&format!("{e:#}")),
        }
    }

    fn end_recording(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        match recording.end(self.live) {
            Ok(line) => line.iter().for_each(|line| say(line)),
            Err(e) => warn(&format!("{e:#}")),
        }
    }

    fn answer(&mut self, asked: Asked) {
        let answer = match asked.request.clone() {
            Request::Status {} => self.live.status().and_then(|s| Ok(serde_json::to_value(s)?)),
            Request::Set { vm: Some(vm), values } => {
                Setting::parse(&values).and_then(|s| self.live.set(&vm, &s)).map(|()| json!({}))
            }
            Request::Set { vm: None, values } => self.live.set_pool(&values).map(|()| json!({})),
            Request::Overhead { on: true } => self.live.begin_measuring().map(|()| json!({})),
            Request::Overhead { on: false } => {
                self.live.end_measuring().and_then(|window| Ok(serde_json::to_value(window)?))
            }
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
}

fn tell(news: &News) {
    match news {
        News::Vm { name, tgid } => say(&format!("VM {name}: found, process {tgid}")),
        News::Gone { name } => say(&format!("VM {name}: gone")),
        News::RealTime { name, rule } => say(&format!("VM {name}: real-time ({rule})")),
        News::NotRealTime { name } => say(&format!("VM {name}: not real-time any more")),
        News::RtPool { pcpus } => {
            say(&format!("rt-pool: {}", if pcpus.is_empty() { "no PCPU".into() } else { show::pcpus(pcpus) }))
        }
        News::Moved { name, rt: true } => say(&format!("VM {name}: in the rt-pool")),
        News::Moved { name, rt: false } => say(&format!("VM {name}: outside the rt-pool")),
        News::Share { name, weight, cap: 0 } => say(&format!("VM {name}: weight {weight} by its cgroups")),
        News::Share { name, weight, cap } => say(&format!("VM {name}: weight {weight}, cap {cap} % by its cgroups")),
        News::Kvm => say("KVM is loaded: its VMs are watched"),
        News::Warning(text) => warn(text),
    }
}

/// The verifier's work as a table.
fn verifier(live: &Live) -> Result<String> {
    let row = |v: takt_linux::Verified| vec![v.program, v.walked.to_string(), v.size.to_string()];
    let rows: Vec<_> = live.verified()?.into_iter().map(row).collect();
    Ok(table::render("", &["program", "instructions walked (of 1000000)", "instructions"], &rows, 1))
}
