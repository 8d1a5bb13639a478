// SPDX-License-Identifier: GPL-2.0-or-later
//! What a VM is and does, read from JSON and checked before anything is made.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::layout::{MAX_CLIENTS, MAX_TASKS, MAX_VCPUS, Role, SLOTS};
use crate::name::address;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub vcpus: usize,
    pub workload: Workload,
    /// Ends by itself; without it, at SIGTERM.
    pub duration_ms: Option<u64>,
    /// How long the VCPUs wait before they begin.
    #[serde(default)]
    pub start_ms: u64,
    /// `{}` stands for the VCPU's index.
    #[serde(default = "vcpu_name")]
    pub thread_name: String,
    /// A new thread takes over each VCPU so often.
    pub replace_ms: Option<u64>,
    #[serde(default = "io_name")]
    pub io_thread_name: String,
    /// Latencies kept per VCPU, the last ones; rounded up to a power of two.
    #[serde(default = "samples")]
    pub samples: usize,
    /// Print them all.
    #[serde(default)]
    pub raw: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Workload {
    Idle {},
    Hog {},
    /// Computes, but halts around each multiple of `tick_ns` of CLOCK_MONOTONIC.
    Dodge {
        #[serde(default = "tick")]
        tick_ns: u64,
        #[serde(default = "guard")]
        guard_ns: u64,
    },
    /// Each VCPU works at each multiple of its period.
    Periodic {
        period_ns: u64,
        work: u64,
        #[serde(default)]
        phase_ns: u64,
    },
    /// VCPU 0 works for each UDP packet and sends it back.
    Echo {
        #[serde(flatten)]
        net: Net,
        work: u64,
        deadline_ns: Option<u64>,
    },
    /// VCPU 0 sends RTP that nobody asked for.
    Source {
        #[serde(flatten)]
        net: Net,
        period_ns: u64,
        #[serde(default)]
        phase_ns: u64,
        #[serde(default = "one")]
        burst: u64,
        #[serde(default)]
        gap_ns: u64,
        #[serde(default)]
        compute: bool,
        #[serde(default = "one")]
        ports: u64,
        #[serde(default = "first_port")]
        first_port: u16,
        #[serde(default = "payload_type")]
        payload_type: u8,
        /// The packets of a burst leave the VM as one that the device is to cut (UDP segmentation).
        #[serde(default)]
        segments: bool,
    },
    /// All VCPUs compute; interrupts come from the VMM or from their own timer.
    Interrupts {
        msi_ns: Option<u64>,
        timer_ns: Option<u64>,
    },
    /// All VCPUs compute, enter critical sections under one spin lock and meet at a barrier.
    Parallel(Program),
    /// VCPU 0 has periodic tasks under fixed priorities.
    Tasks {
        /// The most important one first.
        tasks: Vec<Task>,
        #[serde(default)]
        phase_ns: u64,
    },
    /// A VM of an application that answers each request from several VMs: VCPU 0 takes messages, all compute parts.
    Fanout(Site),
}

/// A VM's place in its application; `split`, `message` and `work` are in iterations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its name where messages go, and whose it sends to: whom it answers, then those that it has compute.
    pub socket: String,
    pub peers: Vec<String>,
    /// Of the front: rounds of parts in a request; 0 = it is another.
    #[serde(default)]
    pub stages: u64,
    #[serde(default)]
    pub split: u64,
    #[serde(default)]
    pub message: u64,
    /// Mean of a part; 0 = it computes none.
    #[serde(default)]
    pub work: u64,
    /// Percent.
    #[serde(default)]
    pub spread: u64,
    #[serde(default)]
    pub background: bool,
    #[serde(default)]
    pub seed: u64,
}

/// A periodic task; `work` is what a job takes, in iterations.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub period_ns: u64,
    pub work: u64,
}

/// A parallel program; `compute`, `held` and `spin` are in iterations.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub compute: u64,
    /// Percent.
    #[serde(default)]
    pub spread: u64,
    #[serde(default)]
    pub locks: u64,
    #[serde(default)]
    pub held: u64,
    #[serde(default)]
    pub barrier: bool,
    #[serde(default)]
    pub spin: u64,
    /// 0 = without end.
    #[serde(default)]
    pub rounds: u64,
    #[serde(default)]
    pub seed: u64,
}

/// A VM's network device, and what the VCPUs do that do not serve it.
#[derive(Debug, Deserialize)]
pub struct Net {
    pub tap: String,
    #[serde(default = "guest_mac")]
    pub mac: String,
    #[serde(default = "guest_ip")]
    pub ip: Ipv4Addr,
    #[serde(default)]
    pub others: Others,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Others {
    #[default]
    Idle,
    Hog,
}

fn vcpu_name() -> String {
    "CPU {}/KVM".into()
}
fn io_name() -> String {
    "io".into()
}
fn samples() -> usize {
    1 << 17
}
fn tick() -> u64 {
    10_000_000
}
fn guard() -> u64 {
    200_000
}
fn one() -> u64 {
    1
}
fn first_port() -> u16 {
    10_000
}
fn payload_type() -> u8 {
    8
}
fn guest_mac() -> String {
    crate::packet::format_mac(crate::packet::GUEST_MAC)
}
fn guest_ip() -> Ipv4Addr {
    crate::packet::GUEST_IP
}

const PERIOD: RangeInclusive<u64> = 1_000..=10_000_000_000;
const TASK_PERIOD: RangeInclusive<u64> = 10_000..=100_000_000_000;
const WORK: RangeInclusive<u64> = 0..=1_000_000_000_000;
const HOUR_MS: u64 = 3_600_000;

fn within<T: PartialOrd + Display>(name: &str, value: T, range: RangeInclusive<T>) -> Result<()> {
    ensure!(range.contains(&value), "{name} is {value}, not within {} to {}", range.start(), range.end());
    Ok(())
}

impl Spec {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    pub fn parse(text: &str) -> Result<Self> {
        let mut spec: Self = serde_json::from_str(text)?;
        spec.check()?;
        spec.samples = spec.samples.next_power_of_two().max(512);
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        within("vcpus", self.vcpus, 1..=MAX_VCPUS)?;
        within("samples", self.samples, 1..=1 << 22)?;
        within("start_ms", self.start_ms, 0..=HOUR_MS)?;
        if let Some(ms) = self.duration_ms {
            within("duration_ms", ms, 1..=24 * HOUR_MS)?;
        }
        if let Some(ms) = self.replace_ms {
            within("replace_ms", ms, 1..=HOUR_MS)?;
        }
        thread_name("thread_name", &self.vcpu_name(self.vcpus - 1))?;
        thread_name("io_thread_name", &self.io_thread_name)?;
        self.workload.check()
    }

    pub fn vcpu_name(&self, index: usize) -> String {
        self.thread_name.replace("{}", &index.to_string())
    }

    /// What VCPU `index` does.
    pub fn role(&self, index: usize) -> Role {
        let serves = |role, others| match (index, others) {
            (0, _) => role,
            (_, Others::Idle) => Role::Idle,
            (_, Others::Hog) => Role::Hog,
        };
        match &self.workload {
            Workload::Idle {} => Role::Idle,
            Workload::Hog {} => Role::Hog,
            Workload::Dodge { .. } => Role::Dodge,
            Workload::Periodic { .. } => Role::Periodic,
            Workload::Echo { net, .. } => serves(Role::Echo, net.others),
            Workload::Source { net, .. } => serves(Role::Source, net.others),
            Workload::Interrupts { .. } => Role::Interrupts,
            Workload::Parallel(_) => Role::Parallel,
            Workload::Tasks { .. } => serves(Role::Tasks, Others::Idle),
            Workload::Fanout(_) => Role::Fanout,
        }
    }
}

impl Workload {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Idle {} => "idle",
            Self::Hog {} => "hog",
            Self::Dodge { .. } => "dodge",
            Self::Periodic { .. } => "periodic",
            Self::Echo { .. } => "echo",
            Self::Source { .. } => "source",
            Self::Interrupts { .. } => "interrupts",
            Self::Parallel(_) => "parallel",
            Self::Tasks { .. } => "tasks",
            Self::Fanout(_) => "fanout",
        }
    }

    pub fn net(&self) -> Option<&Net> {
        match self {
            Self::Echo { net, .. } | Self::Source { net, .. } => Some(net),
            _ => None,
        }
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        match self {
            Self::Tasks { tasks, .. } => tasks.len(),
            _ => 0,
        }
    }

    /// Whether its VCPUs keep latencies.
    pub fn samples(&self) -> bool {
        !matches!(self, Self::Idle {} | Self::Hog {} | Self::Dodge { .. } | Self::Parallel(_))
    }

    fn check(&self) -> Result<()> {
        if let Some(net) = self.net() {
            crate::tap::check_name(&net.tap).context("tap")?;
            crate::packet::parse_mac(&net.mac).context("mac")?;
        }
        match *self {
            Self::Idle {} | Self::Hog {} => Ok(()),
            Self::Dodge { tick_ns, guard_ns } => {
                within("tick_ns", tick_ns, 100_000..=1_000_000_000)?;
                within("guard_ns", guard_ns, 1_000..=tick_ns / 3)
            }
            Self::Periodic { period_ns, work, phase_ns } => {
                within("period_ns", period_ns, PERIOD)?;
                within("work", work, WORK)?;
                within("phase_ns", phase_ns, 0..=*PERIOD.end())
            }
            Self::Echo { work, deadline_ns, .. } => {
                within("deadline_ns", deadline_ns.unwrap_or(*PERIOD.end()), PERIOD)?;
                within("work", work, WORK)
            }
            Self::Source { period_ns, phase_ns, burst, gap_ns, ports, first_port, payload_type, segments, .. } => {
                within("period_ns", period_ns, PERIOD)?;
                within("phase_ns", phase_ns, 0..=*PERIOD.end())?;
                within("burst", burst, 1..=SLOTS)?;
                within("gap_ns", gap_ns, 0..=1_000_000_000)?;
                within("first_port", first_port, 1..=u16::MAX)?;
                within("ports", ports, 1..=if segments { 1 } else { 65_536 - u64::from(first_port) })?;
                within("payload_type", payload_type, 0..=127)
            }
            Self::Interrupts { msi_ns, timer_ns } => {
                within("msi_ns", msi_ns.unwrap_or(*PERIOD.end()), 10_000..=*PERIOD.end())?;
                within("timer_ns", timer_ns.unwrap_or(*PERIOD.end()), 10_000..=*PERIOD.end())
            }
            Self::Parallel(Program { compute, spread, locks, held, spin, .. }) => {
                within("compute", compute, 1..=*WORK.end())?;
                within("spread", spread, 0..=100)?;
                within("locks", locks, 0..=10_000)?;
                within("held", held, WORK)?;
                within("spin", spin, WORK)
            }
            Self::Fanout(ref site) => site.check(),
            Self::Tasks { ref tasks, phase_ns } => {
                within("number of tasks", tasks.len(), 1..=MAX_TASKS)?;
                within("phase_ns", phase_ns, 0..=*PERIOD.end())?;
                tasks.iter().enumerate().try_for_each(|(i, task)| {
                    within(&format!("tasks[{i}].period_ns"), task.period_ns, TASK_PERIOD)?;
                    within(&format!("tasks[{i}].work"), task.work, 1..=*WORK.end())
                })
            }
        }
    }
}

impl Site {
    fn check(&self) -> Result<()> {
        let names = [&self.socket].into_iter().chain(&self.peers);
        names.map(|name| address(name)).collect::<Result<Vec<_>>>().context("sockets")?;
        within("number of peers", self.peers.len(), 1..=MAX_CLIENTS)?;
        within("stages", self.stages, 0..=1_000)?;
        within("split", self.split, WORK)?;
        within("message", self.message, WORK)?;
        within("work", self.work, WORK)?;
        within("spread", self.spread, 0..=100)?;
        let others = self.peers.len() - 1;
        ensure!(self.stages == 0 || self.work > 0 || others > 0, "work is 0, and no peer computes");
        ensure!(self.stages > 0 || others == 0, "peers are {}, not 1: it is no front", self.peers.len());
        Ok(())
    }
}

/// Linux keeps 15 bytes of a thread's name.
fn thread_name(key: &str, name: &str) -> Result<()> {
    ensure!(
        (1..=15).contains(&name.len()) && !name.contains('\0'),
        "{key}: '{name}' has {} bytes, not 1 to 15",
        name.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", Spec::parse(text).expect_err(text))
    }

    #[test]
    fn defaults_and_roles() {
        let s = Spec::parse(r#"{"vcpus":2,"workload":{"kind":"echo","tap":"tap0","work":5,"others":"hog"}}"#).unwrap();
        assert_eq!((s.role(0), s.role(1)), (Role::Echo, Role::Hog));
        assert_eq!((s.vcpu_name(1).as_str(), s.io_thread_name.as_str()), ("CPU 1/KVM", "io"));
        assert!(s.workload.samples() && s.duration_ms.is_none());
        let s = Spec::parse(r#"{"vcpus":1,"workload":{"kind":"hog"},"thread_name":"vcpu","samples":600}"#).unwrap();
        assert_eq!((s.vcpu_name(0).as_str(), s.samples), ("vcpu", 1024));
        let s = Spec::parse(r#"{"vcpus":3,"workload":{"kind":"parallel","compute":5,"barrier":true}}"#).unwrap();
        assert_eq!((s.role(0), s.role(2), s.workload.samples()), (Role::Parallel, Role::Parallel, false));
    }

    #[test]
    fn errors_name_culprit_and_range() {
        assert_eq!(error(r#"{"vcpus":0,"workload":{"kind":"hog"}}"#), "vcpus is 0, not within 1 to 64");
        let periodic = r#"{"vcpus":1,"workload":{"kind":"periodic","period_ns":5,"work":1}}"#;
        assert_eq!(error(periodic), "period_ns is 5, not within 1000 to 10000000000");
        let ports =
            r#"{"vcpus":1,"workload":{"kind":"source","tap":"t","period_ns":1000,"first_port":65000,"ports":1000}}"#;
        assert_eq!(error(ports), "ports is 1000, not within 1 to 536");
        let segments =
            r#"{"vcpus":1,"workload":{"kind":"source","tap":"t","period_ns":1000,"segments":true,"ports":2}}"#;
        assert_eq!(error(segments), "ports is 2, not within 1 to 1");
        let program = r#"{"vcpus":2,"workload":{"kind":"parallel","compute":9,"spread":101}}"#;
        assert_eq!(error(program), "spread is 101, not within 0 to 100");
        let set = r#"{"vcpus":1,"workload":{"kind":"tasks","tasks":[{"period_ns":50000,"work":1},{"period_ns":50000,"work":0}]}}"#;
        assert_eq!(error(set), "tasks[1].work is 0, not within 1 to 1000000000000");
        let site = |rest: &str| {
            error(&format!(r#"{{"vcpus":2,"workload":{{"kind":"fanout","socket":"a","peers":["b"]{rest}}}}}"#))
        };
        assert_eq!(site(r#","work":5,"spread":101"#), "spread is 101, not within 0 to 100");
        assert_eq!(site(r#","stages":1"#), "work is 0, and no peer computes");
        let none = r#"{"vcpus":1,"workload":{"kind":"tasks","tasks":[]}}"#;
        assert_eq!(error(none), "number of tasks is 0, not within 1 to 16");
        let name = r#"{"vcpus":1,"workload":{"kind":"hog"},"thread_name":"a-name-beyond-fifteen"}"#;
        assert_eq!(error(name), "thread_name: 'a-name-beyond-fifteen' has 21 bytes, not 1 to 15");
    }

    #[test]
    fn unknown_fields_and_kinds_are_named() {
        for (text, culprit) in [
            (r#"{"vcpus":1,"workload":{"kind":"hog"},"speed":1}"#, "speed"),
            (r#"{"vcpus":1,"workload":{"kind":"hog","work":1}}"#, "work"),
            (r#"{"vcpus":1,"workload":{"kind":"echo","tap":"t","work":1,"port":1}}"#, "port"),
            (r#"{"vcpus":1,"workload":{"kind":"sleep"}}"#, "sleep"),
            (r#"{"vcpus":1,"workload":{"kind":"parallel","compute":1,"threads":1}}"#, "threads"),
            (r#"{"vcpus":1,"workload":{"kind":"tasks","tasks":[{"period_ns":5000,"cost":1}]}}"#, "cost"),
            (r#"{"vcpus":1,"workload":{"kind":"echo","tap":"a/b","work":1}}"#, "a/b"),
            (r#"{"vcpus":1,"workload":{"kind":"fanout","socket":"a b","peers":["c"],"work":1}}"#, "a b"),
            (r#"{"vcpus":1,"workload":{"kind":"fanout","socket":"a","peers":["c"],"parts":1}}"#, "parts"),
            (r#"{"vcpus":1,"workload":{"kind":"echo","tap":"t","work":1,"mac":"1:2"}}"#, "1:2"),
        ] {
            assert!(error(text).contains(culprit), "{text}: {}", error(text));
        }
    }
}
