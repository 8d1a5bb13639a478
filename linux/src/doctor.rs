// SPDX-License-Identifier: GPL-2.0-only
//! `takt doctor`: whether `takt run` would start on this host, and what on it should be mended. It changes nothing.
//!
//! What `takt run` itself asks before it loads anything is asked by the same functions.

use crate::control::{names, unheeded};
use crate::core_sched::{self, Cookies};
use crate::environment as env;
use crate::net::found::{Found, Machine};
use crate::ops;
use anyhow::Result;
use std::path::Path;
use takt_control::doctor::{Examination, Verdict};
use takt_monitor::device::Handle;

/// Services that load another scheduler, as scx packages call them.
const SERVICES: [&str; 2] = ["scx.service", "scx_loader.service"];
/// Where systemd has links to the units that it starts.
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";
const UNITS: &str = "/sys/fs/cgroup/system.slice";
/// How long a VCPU polls before it sleeps, ns.
const HALT_POLL: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// The scheduler's name as the kernel has it begins with this.
const OURS: &str = "takt_";

/// A host, or a tree of a test's.
pub struct Host<'a> {
    /// `/`, or where the tree is.
    pub root: &'a Path,
    /// The user that asks.
    pub uid: u32,
    pub cookies: &'a dyn Cookies,
    /// The number of the character device that a path leads to; `None` if it is none.
    pub device: fn(&Path) -> Option<(u32, u32)>,
}

impl Host<'static> {
    /// The one that this runs on.
    #[must_use]
    pub fn live() -> Self {
        let Machine { root, device } = Machine::live();
        // SAFETY: no arguments, cannot fail.
        Self { root, uid: unsafe { libc::geteuid() }, cookies: &core_sched::Kernel, device }
    }
}

/// Looks at everything, whatever it finds.
#[must_use]
pub fn examine(host: &Host) -> Examination {
    let root = host.root;
    let mut all = Examination::default();
    let ours = env::name_below(root).filter(|name| name.starts_with(OURS));
    refuses(&mut all, "root", env::is_root(host.uid).map(|()| "takt run may replace the scheduler".into()));
    if let Err(e) = env::is_no_dom0(root) {
        refuses(&mut all, "xen", Err(e));
        return all;
    }
    let kernel = env::sched_ext(root).map(|release| format!("Linux {release} has sched_ext"));
    let has_sched_ext = kernel.is_ok();
    refuses(&mut all, "sched_ext", kernel);
    // Without sched_ext the kernel has nothing to describe of it.
    let btf = env::btf(root).and_then(|()| has_sched_ext.then(|| env::describes_itself(root)).transpose());
    let callbacks = btf.as_ref().ok().and_then(|btf| ops::cgroups(btf.as_ref()?).ok());
    refuses(&mut all, "btf", btf.map(|_| "the kernel describes its types and functions".into()));
    if has_sched_ext {
        let loaded = match &ours {
            Some(name) => Ok(format!("Takt itself is loaded ({name})")),
            None => env::no_scheduler(root).map(|()| "the kernel's own is in use".into()),
        };
        refuses(&mut all, "scheduler", loaded);
    }
    services(&mut all, root);
    refuses(&mut all, "cpus", cpus(root));
    kvm(&mut all, root);
    if host.uid != 0 {
        let text = "core scheduling, cgroups and VMs are not checked: only root can look at the processes of others";
        all.add("processes", Verdict::Warn, text);
        return all;
    }
    let tagged = core_sched::check(root, host.cookies).map(|()| "no thread has a core scheduling cookie".into());
    refuses(&mut all, "core scheduling", tagged);
    if let Some(callbacks) = callbacks {
        let heeded = unheeded::check(root, callbacks).map(|()| match callbacks.unheeded() {
            None => "the kernel reports cpu.weight and cpu.max to Takt".into(),
            Some(what) => format!("this kernel does not report {what} of ordinary threads, and none is set"),
        });
        refuses(&mut all, "cgroups", heeded);
    }
    vms(&mut all, host);
    all
}

/// Adds what `takt run` refuses.
fn refuses(all: &mut Examination, check: &str, found: Result<String>) {
    match found {
        Ok(text) => all.add(check, Verdict::Ok, text),
        Err(e) => all.add(check, Verdict::Fail, takt_control::printable(&format!("{e:#}"))),
    }
}

fn services(all: &mut Examination, root: &Path) {
    let there = |dir: &str, unit: &str| env::below(root, dir).join(unit).symlink_metadata().is_ok();
    let active: Vec<_> = SERVICES.into_iter().filter(|unit| there(UNITS, unit)).collect();
    let enabled: Vec<_> = SERVICES.into_iter().filter(|unit| there(WANTS, unit)).collect();
    let (verdict, text) = match (active.first(), enabled.first()) {
        (Some(unit), _) => {
            (Verdict::Warn, format!("{unit} is active and loads another scheduler: systemctl disable --now {unit}"))
        }
        (_, Some(unit)) => {
            (Verdict::Warn, format!("{unit} loads another scheduler when the host boots: systemctl disable {unit}"))
        }
        _ => (Verdict::Ok, "no service loads another scheduler".into()),
    };
    all.add("services", verdict, text);
}

fn cpus(root: &Path) -> Result<String> {
    let (possible, online) = (env::possible(root)?, env::online(root)?);
    Ok(format!("{} online, {} possible, {} supported", online.len(), possible.len(), takt_policy::NCPU))
}

fn kvm(all: &mut Examination, root: &Path) {
    if !env::below(root, "/dev/kvm").exists() {
        let text = "no /dev/kvm: no VM can run until the module kvm_intel or kvm_amd is loaded";
        return all.add("kvm", Verdict::Warn, text);
    }
    all.add("kvm", Verdict::Ok, "/dev/kvm is there");
    let ns: Option<u64> = env::read(root, HALT_POLL).and_then(|text| text.trim().parse().ok());
    match ns {
        None => all.add("halt_poll_ns", Verdict::Warn, format!("{HALT_POLL} cannot be read")),
        Some(0) => all.add("halt_poll_ns", Verdict::Ok, "VCPUs do not poll before they sleep"),
        Some(ns) => all.add(
            "halt_poll_ns",
            Verdict::Warn,
            format!(
                "a VCPU polls for up to {} us before it sleeps, at the expense of its share: echo 0 > {HALT_POLL}",
                ns.div_ceil(1000)
            ),
        ),
    }
}

/// Which of the VMs that run can be found real-time by their packets.
fn vms(all: &mut Examination, host: &Host) {
    let machine = Machine { root: host.root, device: host.device };
    let vmms = names::vmms(&env::below(host.root, "/proc"));
    let processes = vmms.iter().filter_map(|dir| dir.file_name()?.to_str()?.parse().ok());
    for process in processes {
        let name = names::name_of(host.root, process);
        let (verdict, text) = match Found::of(&machine, process) {
            Ok(found) => seen(&found),
            Err(e) => (Verdict::Warn, format!("cannot be looked at: {e}")),
        };
        if !names::lives(host.root, process) {
            continue; // it has ended meanwhile
        }
        all.add(format!("vm {name}"), verdict, takt_control::printable(&format!("process {process}: {text}")));
    }
    if vmms.is_empty() {
        all.add("vms", Verdict::Ok, "none runs");
    }
}

/// What is monitored of a VM, and what is not. No command is shown with the name: its VMM chooses that, and a running Takt may
/// call the VM otherwise.
fn seen(found: &Found) -> (Verdict, String) {
    let of = |all: &std::collections::BTreeSet<Handle>, kind: &str| {
        let name = |handle: &Handle| match handle {
            Handle::Name(name) | Handle::Numbered(_, name) => format!("{name} ({kind})"),
        };
        all.iter().map(name).collect::<Vec<_>>()
    };
    let devices = [of(&found.taps, "tap"), of(&found.macvtaps, "macvtap")].concat().join(", ");
    let unseen = found.unseen.iter().copied().collect::<Vec<_>>().join(", ");
    let by_hand = "if it is real-time, mark it by hand (takt set, rt=on)";
    match (devices.is_empty(), unseen.is_empty()) {
        (false, true) => (Verdict::Ok, format!("its packets pass {devices}")),
        (false, false) => {
            (Verdict::Warn, format!("its packets pass {devices}; those of {unseen} cannot be seen: {by_hand}"))
        }
        (true, false) => (Verdict::Warn, format!("its packets cannot be seen ({unseen}): {by_hand}")),
        (true, true) => (Verdict::Warn, format!("no network device found: {by_hand}")),
    }
}

#[cfg(test)]
mod tests;
