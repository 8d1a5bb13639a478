// SPDX-License-Identifier: GPL-2.0-only
//! What a VM waited for, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use takt_conformance::Had;

/// What kept a VCPU from running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// Its VM had used up its cap.
    Cap,
    /// It had used up its budget.
    Budget,
    /// A thread of a higher scheduling class of the kernel: deadline, real-time or stop.
    HigherClass {
        thread: u32,
        /// As its process calls it; empty if it has ended.
        name: String,
    },
    /// A thread that Takt does not schedule: a kernel thread of this PCPU, or one that was on its way into a queue.
    OtherThread { thread: u32, name: String },
    /// Other threads of the same VM, and the class in which they ran: `rt`, `boost`, `under`, `over`.
    Own { class: String },
    /// Threads of another VM: which, and their class.
    Vm { vm: String, class: String },
    /// The host's own threads.
    HostThreads,
    /// The machine below ran something else: this host is a VM itself.
    Steal,
    /// The PCPU had nothing to do: a wake was on its way.
    Idle,
    /// Several others, each of them for a short time.
    Others,
    /// The kernel switched, or it is not known any more.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = |name: &str, thread: u32| match (name, thread) {
            ("", 0) => "a thread".to_owned(),
            ("", n) => format!("thread {n}"),
            (name, n) => format!("`{name}` (thread {n})"),
        };
        match self {
            Self::Cap => f.write_str("its cap"),
            Self::Budget => f.write_str("its budget"),
            Self::HigherClass { thread: n, name } => write!(f, "{} of a higher class", thread(name, *n)),
            Self::OtherThread { thread: n, name } => write!(f, "{} that Takt does not schedule", thread(name, *n)),
            Self::Own { class } => write!(f, "its own threads in class {}", class.to_uppercase()),
            Self::Vm { vm, class } => write!(f, "VM `{vm}` in class {}", class.to_uppercase()),
            Self::HostThreads => f.write_str("the host's own threads"),
            Self::Steal => f.write_str("the machine below (steal)"),
            Self::Idle => f.write_str("a wake on its way"),
            Self::Others => f.write_str("several others, each for a short time"),
            Self::Unknown => f.write_str("switches, or not known"),
        }
    }
}

impl Cause {
    /// The thread, if it is one, and whether it was of a higher class.
    pub fn thread(&self) -> Option<(u32, bool)> {
        match self {
            Self::HigherClass { thread, .. } => Some((*thread, true)),
            Self::OtherThread { thread, .. } => Some((*thread, false)),
            _ => None,
        }
    }

    /// Bytes of its names.
    pub fn bytes(&self) -> usize {
        match self {
            Self::HigherClass { name, .. } | Self::OtherThread { name, .. } => name.capacity(),
            Self::Own { class } => class.capacity(),
            Self::Vm { vm, class } => vm.capacity() + class.capacity(),
            _ => 0,
        }
    }

    /// What had the PCPU; `vm` names other VMs, `thread` threads.
    pub fn of(had: Had, vm: impl Fn(u16) -> Option<String>, thread: impl Fn(u32) -> String) -> Self {
        match had {
            Had::Unknown => Self::Unknown,
            Had::Idle => Self::Idle,
            Had::Vcpu { vm: 0, .. } => Self::HostThreads,
            Had::Vcpu { vm: n, class } => {
                let class = class.name().to_owned();
                vm(n).map_or_else(|| Self::Own { class: class.clone() }, |vm| Self::Vm { vm, class: class.clone() })
            }
            Had::Taken { thread: n, higher: true } => Self::HigherClass { thread: n, name: thread(n) },
            Had::Taken { thread: n, higher: false } => Self::OtherThread { thread: n, name: thread(n) },
        }
    }
}

/// The name of a thread of this host; empty if there is none.
pub fn thread_name(thread: u32) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
    takt_control::printable(comm.trim()).to_string()
}
