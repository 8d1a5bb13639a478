// SPDX-License-Identifier: GPL-2.0-only
//! What happens on a live host: what `takt run` says, in words or as a document a line. A new kind of
//! event is a variant and its words, here.

use crate::document::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Something that has happened. The last line is one of `unloaded`, `left`, `taken_out`, `ended`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Linux: how much of its limit the kernel's verifier needed for a program (`--verifier`).
    Verified {
        program: String,
        /// Instructions walked, of 1000000.
        walked: u32,
        /// Instructions.
        size: usize,
    },
    /// Linux: this host is scheduled from now on.
    Scheduling {
        policy: String,
        /// Release of the kernel.
        kernel: String,
        pcpus: usize,
        /// VMs found.
        vms: usize,
        /// KVM is loaded.
        kvm: bool,
    },
    /// Xen: monitoring what the domains of these cpupools send, from now on.
    Watching {
        cpupools: Vec<Cpupool>,
    },
    /// Linux: KVM is loaded; monitoring its VMs.
    KvmLoaded,
    VmFound {
        name: String,
        /// Linux: process of its VMM.
        #[serde(skip_serializing_if = "Option::is_none")]
        tgid: Option<u32>,
        /// Xen: number of the domain.
        #[serde(skip_serializing_if = "Option::is_none")]
        domid: Option<u16>,
    },
    VmGone {
        name: String,
    },
    RealTime {
        name: String,
        /// The monitor's rule, `by hand`, `dom0`, or `reported`.
        rule: String,
    },
    NotRealTime {
        name: String,
    },
    /// Linux: weight and cap of a VM follow its cgroups.
    Share {
        name: String,
        weight: u32,
        /// Percent of one PCPU, 0 = no cap.
        cap: u32,
    },
    /// Linux: the file of `--config` was read again, and holds.
    Reloaded {
        /// Parameters of the policy that have changed.
        parameters: usize,
        /// Settings of VMs that have changed.
        settings: usize,
    },
    /// Linux, with Risa: PCPUs of the rt-pool.
    RtPool {
        pcpus: Vec<u16>,
    },
    /// Linux, with Risa: a VM has changed its pool.
    Moved {
        name: String,
        /// Into the rt-pool, or out of it.
        rt: bool,
    },
    /// Xen, with Risa: what the partition manager has done, in words.
    Partition {
        text: String,
    },
    /// The recording of `takt run --record` has ended.
    Recorded(Done),
    /// Something is wrong, in words; Takt goes on, unless a last line follows.
    Warning {
        text: String,
    },
    /// Linux: told to end; the kernel's default scheduler is back.
    Unloaded {
        /// Since the scheduler was loaded.
        uptime_s: f64,
        switches: u64,
        kicks: u64,
        /// Picks of a thread that was not there yet.
        refused: u64,
    },
    /// Linux: the scheduler has left by itself; the kernel's default scheduler is back. Exit status
    /// 1.
    Left {
        reason: String,
    },
    /// Linux: the kernel has taken the scheduler out; its default scheduler is back. Exit status 1.
    TakenOut {
        reason: String,
    },
    /// Xen: told to end; VMs that were found real-time stop being so within a second.
    Ended,
}

/// A cpupool under Takt.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cpupool {
    pub id: u32,
    pub policy: String,
}

impl Document for Event {
    const NAME: &'static str = "run";
    const VERSION: u32 = 1;
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Done {
    /// Where it is.
    pub file: PathBuf,
    /// How many, since the recording's epoch.
    pub operations: u64,
    /// How long it lasted.
    pub seconds: f64,
    /// It ended because no recording holds more.
    pub cut: bool,
    /// File of the rt-pool's log, where there is one.
    pub rt_pool: Option<PathBuf>,
}

impl Document for Done {
    const NAME: &'static str = "record";
    const VERSION: u32 = 1;
}

impl Done {
    /// It in words; `file` as the user calls it.
    pub fn line(&self, file: &Path) -> String {
        let why = if self.cut { " (the maximum of a recording)" } else { "" };
        let rt =
            self.rt_pool.as_ref().map(|f| format!(", those of the rt-pool in {}", f.display())).unwrap_or_default();
        format!("{}: {} operations in {:.1} s{why}{rt}", file.display(), self.operations, self.seconds)
    }
}

impl Event {
    /// Whether something is wrong.
    #[must_use]
    pub fn is_trouble(&self) -> bool {
        matches!(self, Event::Warning { .. } | Event::Left { .. } | Event::TakenOut { .. })
    }

    /// It in words; `guest` is what this host calls a VM.
    #[must_use]
    pub fn line(&self, guest: &str) -> String {
        match self {
            Event::Verified { program, walked, size } => {
                format!("{program}: {size} instructions; the verifier walked {walked} of at most 1000000")
            }
            Event::Scheduling { policy, kernel, pcpus, vms, kvm } => {
                let without = if *kvm { "" } else { "; KVM is not loaded yet" };
                format!("{policy} schedules this host: Linux {kernel}, {pcpus} PCPUs, {vms} VMs found{without}")
            }
            Event::Watching { cpupools } => {
                let names: Vec<_> = cpupools.iter().map(|p| format!("cpupool {} by {}", p.id, p.policy)).collect();
                format!("the hypervisor schedules {}; monitoring what its domains send", names.join(", "))
            }
            Event::KvmLoaded => "KVM is loaded; its VMs are monitored".into(),
            Event::VmFound { name, tgid, domid } => {
                let process = tgid.map(|tgid| format!(", process {tgid}")).unwrap_or_default();
                let number = domid.map(|domid| format!(", number {domid}")).unwrap_or_default();
                format!("{guest} {name}: found{process}{number}")
            }
            Event::VmGone { name } => format!("{guest} {name}: gone"),
            Event::RealTime { name, rule } => format!("{guest} {name}: real-time ({rule})"),
            Event::NotRealTime { name } => format!("{guest} {name}: no longer real-time"),
            Event::Share { name, weight, cap } => {
                let cap = if *cap == 0 { String::new() } else { format!(", cap {cap} %") };
                format!("{guest} {name}: weight {weight}{cap} from its cgroups")
            }
            Event::Reloaded { parameters, settings } => {
                format!("configuration read again: {parameters} parameters and {settings} settings of {guest}s changed")
            }
            Event::RtPool { pcpus } => format!("rt-pool: {}", list(pcpus)),
            Event::Moved { name, rt } => {
                format!("{guest} {name}: {} the rt-pool", if *rt { "in" } else { "outside" })
            }
            Event::Partition { text } | Event::Warning { text } => text.clone(),
            Event::Recorded(done) => done.line(&done.file),
            Event::Unloaded { uptime_s, switches, kicks, refused } => format!(
                "unloaded after {uptime_s:.1} s: {switches} switches, {kicks} kicks, {refused} picks refused; \
                 the kernel's default scheduler is back"
            ),
            Event::Left { reason } => format!(
                "{reason}: the scheduler unloaded itself because this may hang the machine; the kernel's default scheduler is back"
            ),
            Event::TakenOut { reason } => {
                format!("the kernel disabled the scheduler: {reason}; the kernel's default scheduler is back")
            }
            Event::Ended => "ended; reported real-time states expire within a second".into(),
        }
    }
}

/// `PCPU 3`, `PCPUs 2, 3`.
fn list(pcpus: &[u16]) -> String {
    let all: Vec<_> = pcpus.iter().map(ToString::to_string).collect();
    match all.len() {
        0 => "no PCPU".into(),
        1 => format!("PCPU {}", all[0]),
        _ => format!("PCPUs {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_said_in_the_words_of_its_host() {
        let name = || "web".to_owned();
        let reason = || "a thread waits".to_owned();
        let scheduling = |kvm| {
            let (policy, kernel) = ("doris".to_owned(), "6.12".to_owned());
            Event::Scheduling { policy, kernel, pcpus: 4, vms: 2, kvm }
        };
        let recorded =
            |cut, rt_pool| Event::Recorded(Done { file: "a".into(), operations: 7, seconds: 1.5, cut, rt_pool });
        for (event, guest, trouble, want) in [
            (Event::VmFound { name: name(), tgid: Some(7), domid: None }, "VM", false, "VM web: found, process 7"),
            (
                Event::VmFound { name: name(), tgid: None, domid: Some(3) },
                "domain",
                false,
                "domain web: found, number 3",
            ),
            (Event::RealTime { name: name(), rule: "rtp".into() }, "domain", false, "domain web: real-time (rtp)"),
            (Event::Share { name: name(), weight: 256, cap: 0 }, "VM", false, "VM web: weight 256 from its cgroups"),
            (
                Event::Share { name: name(), weight: 1, cap: 50 },
                "VM",
                false,
                "VM web: weight 1, cap 50 % from its cgroups",
            ),
            (
                Event::Reloaded { parameters: 1, settings: 0 },
                "VM",
                false,
                "configuration read again: 1 parameters and 0 settings of VMs changed",
            ),
            (scheduling(true), "VM", false, "doris schedules this host: Linux 6.12, 4 PCPUs, 2 VMs found"),
            (
                scheduling(false),
                "VM",
                false,
                "doris schedules this host: Linux 6.12, 4 PCPUs, 2 VMs found; KVM is not loaded yet",
            ),
            (recorded(false, None), "VM", false, "a: 7 operations in 1.5 s"),
            (
                recorded(true, Some("b".into())),
                "VM",
                false,
                "a: 7 operations in 1.5 s (the maximum of a recording), those of the rt-pool in b",
            ),
            (Event::RtPool { pcpus: vec![] }, "VM", false, "rt-pool: no PCPU"),
            (Event::RtPool { pcpus: vec![3] }, "VM", false, "rt-pool: PCPU 3"),
            (Event::RtPool { pcpus: vec![2, 3] }, "VM", false, "rt-pool: PCPUs 2, 3"),
            (Event::Moved { name: name(), rt: true }, "VM", false, "VM web: in the rt-pool"),
            (Event::Moved { name: name(), rt: false }, "VM", false, "VM web: outside the rt-pool"),
            (Event::Warning { text: "a".into() }, "VM", true, "a"),
            (
                Event::Left { reason: reason() },
                "VM",
                true,
                "a thread waits: the scheduler unloaded itself because this may hang the machine; \
                 the kernel's default scheduler is back",
            ),
            (
                Event::TakenOut { reason: reason() },
                "VM",
                true,
                "the kernel disabled the scheduler: a thread waits; the kernel's default scheduler is back",
            ),
        ] {
            assert_eq!(event.line(guest), want);
            assert_eq!(event.is_trouble(), trouble, "{want}");
        }
    }
}
