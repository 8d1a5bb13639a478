// SPDX-License-Identifier: GPL-2.0-only
//! VMs of a scenario and their workloads.

use crate::fanout::{self, Fanout};
use crate::keys;
use crate::parallel::{self, Parallel};
use crate::scenario::MAX_MACHINES;
use crate::server;
use crate::tasks::{self, Random, TaskSpec};
use crate::vod::{self, Vod};
use anyhow::{Context, Result, bail};
use takt_control::{Ports, RtMode, Server, VmConfig, VmParams, groups};
use takt_policy::vm_settings;
use toml::{Table, Value};

/// One `[[vm]]` table: `count` equal VMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSpec {
    pub name: String,
    pub count: u32,
    pub vcpus: u32,
    /// What the policy holds of it beside its server.
    pub params: VmParams,
    /// Source ports of its real-time application, known beforehand (rule M5).
    pub ports: Ports,
    /// Budget and period of each of its VCPUs.
    pub server: Server,
    /// VMs of one application (rule P35); empty = none.
    pub group: String,
    /// Machine that it is on, from 1.
    pub on: u32,
    /// PCPUs its VCPUs may run on (hard affinity); empty = all.
    pub affinity: Vec<u32>,
    pub dedicated: Dedicated,
    pub workload: Workload,
}

/// PCPUs of a VM's own under `pin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dedicated {
    /// As `Each` for servers of calls and films, else `None`.
    Auto,
    None,
    /// Each VCPU gets one.
    Each,
    /// The VM's VCPUs have these together; VMs may name the same ones.
    These(Vec<u32>),
}

/// A media server: `calls` at a time, each for `hold`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    pub calls: u32,
    pub hold: u64,
    /// CPU time to take a packet, and to transcode it in its frame, ns.
    pub receive: u64,
    pub transcode: u64,
    /// How far ahead the other party's phone buffers, ns.
    pub playout: u64,
}

/// What runs in a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Busy loops, spread over the VCPUs; `None` = one per VCPU.
    Hog { threads: Option<u32> },
    /// A VoIP server that sends each call's packets back to its client.
    Voip { calls: u32 },
    /// Both directions of each call go through a jitter buffer and a transcoder to the other party.
    Media(Media),
    /// `messages` with each call of a media server, `work` for each; the VM `next` is asked before it is answered.
    Signalling { messages: u32, work: u64, next: String },
    /// A sender on a timer of its own: every `period` a burst of `burst` packets, `gap` apart; `work` per packet.
    Stream { period: u64, burst: u32, gap: u64, work: u64 },
    /// A server of films.
    Vod(Vod),
    /// On each VCPU a task with a job of `work` every `period`, due by the next; all tasks of a scenario begin together.
    Periodic { period: u64, work: u64 },
    /// Tasks of one VCPU under fixed priorities, rate-monotonic: `list`, or some drawn at `random` for the VM's share.
    /// Released together when the VM is created.
    Tasks { list: Vec<TaskSpec>, random: Random },
    /// On each VCPU a thread that is busy for `percent` of `interval`, then sleeps for the rest of it.
    Lookbusy { percent: u32, interval: u64 },
    /// On each VCPU a thread of the highest priority that a timer wakes every `interval`, for `work`; beside it the kernel's own wakes.
    Cyclictest { interval: u64, work: u64 },
    /// A parallel program, whose threads share a lock and meet at barriers.
    Parallel(Parallel),
    /// A VM of an application that answers requests together with others.
    Fanout(Fanout),
    /// Nothing but the kernel's own wakes.
    Idle,
}

const WORKLOADS: &str =
    "hog, voip, media, signalling, stream, vod, periodic, tasks, lookbusy, cyclictest, parallel, fanout, idle";

impl Workload {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "hog" => Workload::Hog { threads: None },
            "voip" => Workload::Voip { calls: 90 },
            "media" => Workload::Media(Media {
                calls: 120,
                hold: 30_000_000_000,
                receive: 8_000,
                transcode: 80_000,
                playout: 20_000_000,
            }),
            "signalling" => Workload::Signalling { messages: 0, work: 2_000_000, next: String::new() },
            "stream" => Workload::Stream { period: 70_000_000, burst: 1, gap: 0, work: 20_000 },
            "vod" => Workload::Vod(Vod::default()),
            "periodic" => Workload::Periodic { period: 20_000_000, work: 5_000_000 },
            "tasks" => Workload::Tasks { list: Vec::new(), random: Random::default() },
            "lookbusy" => Workload::Lookbusy { percent: 50, interval: 100_000_000 },
            "cyclictest" => Workload::Cyclictest { interval: 1_000_000, work: 2_000 },
            "parallel" => Workload::Parallel(Parallel::default()),
            "fanout" => Workload::Fanout(Fanout::default()),
            "idle" => Workload::Idle,
            _ => bail!("unknown workload '{name}'; allowed: {WORKLOADS}"),
        })
    }

    /// As written in `type`.
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Hog { .. } => "hog",
            Workload::Voip { .. } => "voip",
            Workload::Media(_) => "media",
            Workload::Signalling { .. } => "signalling",
            Workload::Stream { .. } => "stream",
            Workload::Vod(_) => "vod",
            Workload::Periodic { .. } => "periodic",
            Workload::Tasks { .. } => "tasks",
            Workload::Lookbusy { .. } => "lookbusy",
            Workload::Cyclictest { .. } => "cyclictest",
            Workload::Parallel(_) => "parallel",
            Workload::Fanout(_) => "fanout",
            Workload::Idle => "idle",
        }
    }

    fn keys(&self) -> &'static str {
        match self {
            Workload::Hog { .. } => "type, threads",
            Workload::Voip { .. } => "type, calls",
            Workload::Media(_) => "type, calls, hold, receive, transcode, playout",
            Workload::Signalling { .. } => "type, messages, work, next",
            Workload::Stream { .. } => "type, period, burst, gap, work",
            Workload::Vod(_) => vod::KEYS,
            Workload::Periodic { .. } => "type, period, work",
            Workload::Tasks { .. } => "type, tasks, random, top, beyond",
            Workload::Lookbusy { .. } => "type, percent, interval",
            Workload::Cyclictest { .. } => "type, interval, work",
            Workload::Parallel(_) => parallel::KEYS,
            Workload::Fanout(_) => fanout::KEYS,
            Workload::Idle => "type",
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (&mut *self, key) {
            (Workload::Hog { threads }, "threads") => *threads = Some(keys::count(value, 1, 4096)?),
            (Workload::Voip { calls }, "calls") => *calls = keys::count(value, 0, 10_000)?,
            (Workload::Media(m), _) if key != "type" => m.set(key, value)?,
            (Workload::Signalling { messages, .. }, "messages") => *messages = keys::count(value, 0, 1_000)?,
            (Workload::Signalling { work, .. }, "work") => *work = keys::time(value, 0, 1_000_000_000)?,
            (Workload::Signalling { next, .. }, "next") if value.is_empty() => next.clear(),
            (Workload::Signalling { next, .. }, "next") => *next = keys::name(value)?,
            (Workload::Stream { period, .. }, "period") => *period = keys::time(value, 10_000, 10_000_000_000)?,
            (Workload::Stream { burst, .. }, "burst") => *burst = keys::count(value, 1, 1_000)?,
            (Workload::Stream { gap, .. }, "gap") => *gap = keys::time(value, 0, 1_000_000_000)?,
            (Workload::Vod(vod), _) => vod.set(key, value)?,
            (Workload::Periodic { period, .. }, "period") => *period = keys::time(value, 10_000, 10_000_000_000)?,
            (Workload::Periodic { work, .. }, "work") => *work = keys::time(value, 1_000, 10_000_000_000)?,
            (Workload::Tasks { list, .. }, "tasks") => *list = tasks::parse(value)?,
            (Workload::Tasks { random, .. }, "random") => random.tasks = keys::count(value, 0, tasks::MOST)?,
            (Workload::Tasks { random, .. }, "top") => random.top = keys::count(value, 0, 100)?,
            (Workload::Tasks { random, .. }, "beyond") => random.beyond = keys::count(value, 0, 100)?,
            (Workload::Stream { work, .. }, "work") => *work = keys::time(value, 0, 1_000_000_000)?,
            (Workload::Lookbusy { percent, .. }, "percent") => *percent = keys::count(value, 1, 100)?,
            (Workload::Lookbusy { interval, .. }, "interval") => {
                *interval = keys::time(value, 1_000_000, 10_000_000_000)?
            }
            (Workload::Cyclictest { interval, .. }, "interval") => {
                *interval = keys::time(value, 10_000, 10_000_000_000)?
            }
            (Workload::Cyclictest { work, .. }, "work") => *work = keys::time(value, 1_000, 1_000_000)?,
            (Workload::Parallel(parallel), _) => parallel.set(key, value)?,
            (Workload::Fanout(fanout), _) => fanout.set(key, value)?,
            _ => bail!("unknown key; allowed: {}", self.keys()),
        }
        Ok(())
    }
}

impl Media {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "calls" => self.calls = keys::count(value, 1, 5_000)?,
            "hold" => self.hold = keys::time(value, keys::SECOND, keys::DAY)?,
            "receive" => self.receive = keys::time(value, 0, 10_000_000)?,
            "transcode" => self.transcode = keys::time(value, 0, 10_000_000)?,
            "playout" => self.playout = keys::time(value, 0, keys::SECOND)?,
            _ => bail!("unknown key; allowed: calls, hold, receive, transcode, playout"),
        }
        Ok(())
    }
}

impl VmSpec {
    /// Reads the `n`-th `[[vm]]` table.
    pub(crate) fn read(mut table: Table, n: usize) -> Result<Self> {
        let Some(name) = table.remove("name") else { bail!("vm: entry {n} has no name; allowed: name = \"...\"") };
        let name = keys::text("vm.name", &name).and_then(|t| keys::name(&t).context("vm.name"))?;
        if !table.contains_key("vcpus") {
            bail!("vm.{name}.vcpus: missing; allowed: 1 .. 1024");
        }
        let workload = table.remove("workload").unwrap_or(Value::String("idle".into()));
        let mut vm = Self {
            name,
            count: 1,
            vcpus: 1,
            params: VmParams::defaults(),
            ports: Ports::default(),
            server: Server::default(),
            group: String::new(),
            on: 1,
            affinity: Vec::new(),
            dedicated: Dedicated::Auto,
            workload: Workload::Idle,
        };
        let prefix = format!("vm.{}", vm.name);
        vm.read_workload(&prefix, workload)?;
        for (key, value) in table {
            let path = format!("{prefix}.{key}");
            let text = keys::text(&path, &value)?;
            vm.set(&key, &text).context(path)?;
        }
        Ok(vm)
    }

    fn read_workload(&mut self, prefix: &str, value: Value) -> Result<()> {
        let path = format!("{prefix}.workload");
        let Value::Table(mut table) = value else {
            self.workload = Workload::named(&keys::text(&path, &value)?).context(path)?;
            return Ok(());
        };
        let Some(kind) = table.remove("type") else { bail!("{path}: no type; allowed: {WORKLOADS}") };
        self.workload = Workload::named(&keys::text(&path, &kind)?).with_context(|| format!("{path}.type"))?;
        for (key, value) in table {
            let path = format!("{path}.{key}");
            let text = keys::text(&path, &value)?;
            self.workload.set(&key, &text).context(path)?;
        }
        Ok(())
    }

    /// Sets one key; those of the workload go by their own name (`calls`) unless the VM has one of that name (`period`), or with
    /// `workload.` before it.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "count" => self.count = keys::count(value, 1, 255)?,
            "vcpus" => self.vcpus = keys::count(value, 1, 1024)?,
            "ports" => self.ports = if value.is_empty() { Ports::default() } else { value.parse()? },
            "on" => self.on = keys::count(value, 1, MAX_MACHINES)?,
            "affinity" => self.affinity = keys::cpus(value)?,
            "group" => self.group = groups::name(value)?,
            "dedicated" => {
                self.dedicated = match value {
                    "true" => Dedicated::Each,
                    "false" => Dedicated::None,
                    _ => Dedicated::These(keys::cpus(value).context("allowed: true, false, or PCPUs such as 0-1")?),
                }
            }
            "workload" | "workload.type" => self.workload = Workload::named(value)?,
            _ if server::set(&mut self.server, key, value)? => {}
            _ if server::set_other(&mut self.params, key, value)? => {}
            _ => {
                let own = key.strip_prefix("workload.").unwrap_or(key);
                if !self.workload.keys().split(", ").any(|k| k == own) {
                    let settings = vm_settings().iter().map(|p| if p.name == "rt" { "rt, ports" } else { p.name });
                    bail!(
                        "unknown key; allowed: count, vcpus, {}, group, on, affinity, dedicated, workload; of the workload {}: {}",
                        settings.collect::<Vec<_>>().join(", "),
                        self.workload.name(),
                        self.workload.keys()
                    );
                }
                return self.workload.set(own, value);
            }
        }
        Ok(())
    }

    /// The names of its VMs.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let number = |n: u32| if self.count == 1 { self.name.clone() } else { format!("{}-{n}", self.name) };
        (1..=self.count).map(number)
    }

    /// What the operator says of each.
    pub fn config(&self) -> VmConfig {
        let (params, ports, group) = (self.params.clone(), self.ports.clone(), self.group.clone());
        VmConfig { params, ports, group, ..VmConfig::default() }
    }

    pub fn rt(&self) -> RtMode {
        self.params.rt()
    }

    /// Calls of a VoIP or media server, else 0.
    pub fn calls(&self) -> u32 {
        match &self.workload {
            Workload::Voip { calls } => *calls,
            Workload::Media(media) => media.calls,
            _ => 0,
        }
    }

    /// Periodic tasks of its guest.
    pub fn tasks(&self) -> usize {
        match &self.workload {
            Workload::Tasks { list, random } => list.len().max(random.tasks as usize),
            _ => 0,
        }
    }

    /// Streams that its clients send.
    pub fn streams(&self) -> u32 {
        let directions = if matches!(self.workload, Workload::Media(_)) { 2 } else { 1 };
        directions * self.calls()
    }

    /// Threads of a hog, a parallel program or a part of an application, else 0.
    pub fn threads(&self) -> u32 {
        match &self.workload {
            Workload::Hog { threads } => threads.unwrap_or(self.vcpus),
            Workload::Parallel(parallel) => parallel.threads(self.vcpus),
            Workload::Fanout(fanout) => fanout.parts(self.vcpus),
            _ => 0,
        }
    }

    /// What it is in an application, if it is part of one.
    pub fn fanout(&self) -> Option<&Fanout> {
        match &self.workload {
            Workload::Fanout(fanout) => Some(fanout),
            _ => None,
        }
    }

    /// What no single key can tell.
    pub(crate) fn validate(&self) -> Result<()> {
        let key = format!("vm.{}", self.name);
        server::validate(&self.server, &key)?;
        let Workload::Tasks { list, random: Random { tasks: random, .. } } = &self.workload else { return Ok(()) };
        if self.vcpus != 1 {
            bail!("{key}.vcpus: {} with tasks; allowed: 1", self.vcpus);
        }
        match (list.is_empty(), random) {
            (true, 0) => bail!("{key}.tasks: missing; allowed: tasks such as 5ms/100ms, or random"),
            (false, 1..) => bail!("{key}.random: {random} with tasks; allowed: one of the two"),
            (true, _) if !self.server.is_some() => {
                bail!("{key}.random: no share to draw tasks for; allowed: with budget and period")
            }
            _ => Ok(()),
        }
    }

    /// Whether each of its VCPUs gets a PCPU of its own under `pin`.
    pub fn is_dedicated(&self) -> bool {
        match self.dedicated {
            Dedicated::Auto => matches!(self.workload, Workload::Voip { .. } | Workload::Vod(_)),
            Dedicated::Each => true,
            Dedicated::None | Dedicated::These(_) => false,
        }
    }

    /// PCPUs that it has for itself under `pin`.
    pub fn own_pcpus(&self) -> &[u32] {
        match &self.dedicated {
            Dedicated::These(list) => list,
            _ => &[],
        }
    }
}
