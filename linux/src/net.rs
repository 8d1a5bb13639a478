// SPDX-License-Identifier: GPL-2.0-only
//! The monitor on the VMs' network devices: finds them by what the VMMs hold, and attaches `bpf/net.bpf.c` to them.
//!
//! The programs tell the pool by themselves who is real-time; user space only says which device is whose.

pub(crate) mod found;
mod places;

pub use takt_monitor::device::{Times, Way};

use anyhow::{Context, Result, bail, ensure};
use found::{Found, Machine};
use libbpf_rs::{MapCore, MapFlags, Object};
use places::Places;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use takt_monitor::device::{self, Attached, Handle, Key, Netns};
use takt_monitor::object::{map, program, run, run_time};
use takt_monitor::{Config, Monitor};

/// A VM is looked at by each of its first scans, while its VMM opens its devices, and then by every so many.
const FIRST_SCANS: u32 = 25;
const EVERY: u32 = 5;

/// A VM as the scheduler found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vm {
    pub index: u32,
    /// Of its slot: another one is another VM.
    pub generation: u32,
    /// Process of its VMM.
    pub tgid: u32,
    /// It is real-time.
    pub rt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tap,
    Macvtap,
    /// Named by the user ([`Net::watch`]).
    Named,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Device {
    pub name: String,
    pub kind: Kind,
}

/// What the monitor can see of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Devices that are watched.
    pub devices: Vec<Device>,
    /// Why not all that the VM sends is seen: `vhost-user`, `vdpa`, `vfio`, or why a device could not be watched.
    pub unseen: Vec<String>,
    /// The VM is in none of the cgroups that may be inspected.
    pub excluded: bool,
}

impl Report {
    /// Why nothing that the VM sends can be seen; `None` if something can.
    #[must_use]
    pub fn blind(&self) -> Option<String> {
        if !self.devices.is_empty() {
            None
        } else if self.excluded {
            Some("not in a cgroup that may be inspected".into())
        } else if self.unseen.is_empty() {
            Some("no network device found".into())
        } else {
            Some(self.unseen.join(", "))
        }
    }
}

/// How a device was found: in which namespace, by which handle, of which kind.
type Place = (Netns, Handle, Kind);

struct Watched {
    generation: u32,
    tgid: u32,
    ports: BTreeSet<u16>,
    named: BTreeSet<String>,
    attached: BTreeMap<Place, Attached>,
    report: Report,
    scans: u32,
    /// Errors that have been told.
    told: BTreeSet<String>,
}

/// The monitor of the live host; dropped, it sees nothing any more.
pub struct Net {
    object: Object,
    cgroups: Vec<String>,
    vms: BTreeMap<u32, Watched>,
    places: Places,
}

impl Net {
    /// Starts the programs of `object`, which is `net.bpf.o`, loaded with the scheduler's maps. Only VMs in `cgroups`
    /// (paths of cgroup v2, with all below them) are inspected, all if there are none.
    ///
    /// # Errors
    /// The kernel refuses the timer.
    pub fn attach(object: Object, cgroups: Vec<String>) -> Result<Self> {
        let net = Self { object, cgroups, vms: BTreeMap::new(), places: Places::default() };
        let failed = run(&net.object, "net_start", &mut [])?;
        ensure!(failed == 0, "the monitor's timer: {}", std::io::Error::from_raw_os_error(-failed));
        Ok(net)
    }

    /// Compares devices with VMs; to be called five times per second. A device that a VM gets later is found within a
    /// second. Says what has gone wrong that had not before.
    pub fn scan(&mut self, vms: &[Vm]) -> Vec<String> {
        let known = |index: &u32, w: &Watched| {
            vms.iter().any(|v| (v.index, v.generation, v.tgid) == (*index, w.generation, w.tgid))
        };
        let gone: Vec<u32> = self.vms.iter().filter(|(i, w)| !known(i, w)).map(|(i, _)| *i).collect();
        gone.into_iter().for_each(|index| self.forget(index));
        let mut lines = Vec::new();
        for vm in vms {
            let mut errors = self.scan_vm(*vm).unwrap_or_else(|e| vec![format!("{e:#}")]);
            errors.extend(self.receive(*vm).err().map(|e| format!("{e:#}")));
            if !std::fs::exists(format!("/proc/{}", vm.tgid)).is_ok_and(|there| there) {
                errors.clear(); // its end is told by others
            }
            let told = self.vms.get_mut(&vm.index).map(|w| &mut w.told);
            lines.extend(told.into_iter().flat_map(|told| {
                let new = errors.iter().filter(|e| told.insert((*e).clone()));
                new.map(|e| format!("VM {} (process {}): {e}", vm.index, vm.tgid)).collect::<Vec<_>>()
            }));
        }
        lines
    }

    /// The verifier's work on its programs.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn verified(&self) -> Result<Vec<crate::Verified>> {
        crate::verified(&self.object)
    }

    /// What its programs have run while the kernel counted, ns, and how often.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn run_time(&self) -> Result<(u64, u64)> {
        run_time(&self.object)
    }

    /// What is seen of VM `index`; `None` before it is scanned.
    #[must_use]
    pub fn report(&self, index: u32) -> Option<&Report> {
        self.vms.get(&index).map(|w| &w.report)
    }

    /// When VM `index` was found real-time, and so on.
    ///
    /// # Errors
    /// No such VM.
    pub fn times(&self, index: u32) -> Result<Times> {
        let value = map(&self.object, "net_vms")?.lookup(&index.to_ne_bytes(), MapFlags::LOCK)?;
        let value = value.with_context(|| format!("no VM {index}"))?;
        let at = value.len().checked_sub(size_of::<Times>()).context("map net_vms is from another build")?;
        // SAFETY: `Times` consists of integers and lies within the value.
        Ok(unsafe { value.as_ptr().add(at).cast::<Times>().read_unaligned() })
    }

    /// Watches the network device `ifname` of this namespace for what VM `index` sends by it.
    ///
    /// # Errors
    /// No such VM or device; the device is another VM's.
    pub fn watch(&mut self, index: u32, ifname: &str) -> Result<()> {
        ensure!(self.vms.contains_key(&index), "no VM {index}");
        let place = (device::netns(None)?.0, Handle::Name(ifname.into()), Kind::Named);
        self.watch_place(index, None, place)?;
        if let Some(w) = self.vms.get_mut(&index) {
            w.named.insert(ifname.into());
            w.list_devices();
        }
        Ok(())
    }

    /// From now on these are the ports that the user names for VM `index`: what it sends from them is real-time.
    ///
    /// # Errors
    /// No such VM.
    pub fn ports(&mut self, index: u32, ports: &[u16]) -> Result<()> {
        let w = self.vms.get(&index).with_context(|| format!("no VM {index}"))?;
        let want: BTreeSet<u16> = ports.iter().copied().collect();
        for port in w.ports.symmetric_difference(&want) {
            let request = [index, w.generation, (*port).into(), want.contains(port).into()];
            let mut request: Vec<u8> = request.iter().flat_map(|n| n.to_ne_bytes()).collect();
            ensure!(run(&self.object, "net_port", &mut request)? == 0, "VM {index} is gone");
        }
        if let Some(w) = self.vms.get_mut(&index) {
            w.ports = want;
        }
        Ok(())
    }

    fn scan_vm(&mut self, vm: Vm) -> Result<Vec<String>> {
        if !self.vms.contains_key(&vm.index) {
            self.begin(vm)?;
        }
        if !self.vms.get_mut(&vm.index).is_some_and(Watched::is_due) {
            return Ok(Vec::new());
        }
        let machine = Machine::live();
        let excluded = !found::in_cgroups(&machine, vm.tgid, &self.cgroups);
        let found = if excluded { Found::default() } else { Found::of(&machine, vm.tgid).context("/proc")? };
        let mut places = BTreeSet::new();
        if !found.taps.is_empty() || !found.macvtaps.is_empty() {
            let there = device::netns(Some(vm.tgid))?.0;
            places.extend(found.taps.into_iter().map(|h| (there, h, Kind::Tap)));
            places.extend(found.macvtaps.into_iter().map(|h| (there, h, Kind::Macvtap)));
        }
        let here = device::netns(None)?.0;
        if let Some(w) = self.vms.get(&vm.index).filter(|_| !excluded) {
            places.extend(w.named.iter().map(|name| (here, Handle::Name(name.clone()), Kind::Named)));
        }
        self.unwatch(vm.index, |place, attached| !places.contains(place) || !attached.alive());
        let errors: Vec<String> = places
            .into_iter()
            .filter_map(|place| self.watch_place(vm.index, Some(vm.tgid), place).err())
            .map(|e| format!("{e:#}"))
            .collect();
        if let Some(w) = self.vms.get_mut(&vm.index) {
            w.list_devices();
            w.report.excluded = excluded;
            w.report.unseen = found.unseen.into_iter().map(String::from).chain(errors.iter().cloned()).collect();
        }
        Ok(errors)
    }

    /// A VM that has not been seen yet: its monitor knows nothing.
    fn begin(&mut self, vm: Vm) -> Result<()> {
        let monitor = Monitor::new(&Config::default())?;
        let mut value = [0, vm.generation].map(u32::to_ne_bytes).concat(); // the lock, the generation
        value.extend(monitor.state().iter().flat_map(|w| w.to_ne_bytes()));
        value.resize(value.len() + size_of::<Times>(), 0);
        map(&self.object, "net_vms")?.update(&vm.index.to_ne_bytes(), &value, MapFlags::LOCK)?;
        self.vms.insert(vm.index, Watched::new(vm));
        Ok(())
    }

    fn forget(&mut self, index: u32) {
        self.unwatch(index, |_, _| true);
        self.vms.remove(&index);
    }

    /// Lets go of those of a VM's devices that `which` selects.
    fn unwatch(&mut self, index: u32, which: impl Fn(&Place, &Attached) -> bool) {
        let Some(w) = self.vms.get_mut(&index) else {
            return;
        };
        let (gone, kept) = std::mem::take(&mut w.attached).into_iter().partition(|(p, a)| which(p, a));
        w.attached = kept;
        let gone: BTreeMap<Place, Attached> = gone;
        for attached in gone.values() {
            if let Some(at) = self.places.give_back(&attached.key) {
                // Of an array, nothing but a wrong size could fail.
                let _ = self.put(at, None);
            }
        }
    }

    /// Writes `struct net_place`: the key of a device and `struct device`, or that the place is free.
    fn put(&self, at: u32, device: Option<(&Key, [u32; 4])>) -> Result<()> {
        let value = match device {
            Some((key, of)) => [&key.bytes()[..], &of.map(u32::to_ne_bytes).concat()].concat(),
            None => vec![0; size_of::<Key>() + size_of::<[u32; 4]>()],
        };
        Ok(map(&self.object, "net_devices")?.update(&at.to_ne_bytes(), &value, MapFlags::ANY)?)
    }

    /// What a VM receives matters only while it is real-time. A program there would cost each packet
    /// some time, so there is none before.
    fn receive(&mut self, vm: Vm) -> Result<()> {
        let Some(w) = self.vms.get_mut(&vm.index) else {
            return Ok(());
        };
        for ((_, _, kind), attached) in &mut w.attached {
            let name = match attached.way() {
                Way::In => "net_tap_receives",
                Way::Out => "net_macvtap_receives",
            };
            let receives = if vm.rt { Some(program(&self.object, name)?) } else { None };
            let tgid = Some(vm.tgid).filter(|_| *kind != Kind::Named);
            attached.receive(tgid, receives.as_ref().map(AsFd::as_fd))?;
        }
        Ok(())
    }

    fn watch_place(&mut self, index: u32, tgid: Option<u32>, place: Place) -> Result<()> {
        let w = self.vms.get(&index).with_context(|| format!("no VM {index}"))?;
        if w.attached.contains_key(&place) {
            return Ok(());
        }
        let generation = w.generation;
        let (_, handle, kind) = &place;
        let way = match kind {
            Kind::Tap => Way::In,
            Kind::Macvtap => Way::Out,
            Kind::Named => way_of(handle),
        };
        let sends = match way {
            Way::In => program(&self.object, "net_tap_sends")?,
            Way::Out => program(&self.object, "net_macvtap_sends")?,
        };
        let attached = device::attach(tgid.filter(|_| *kind != Kind::Named), handle, way, sends.as_fd())?;
        for (other, w) in &self.vms {
            if w.attached.values().any(|a| a.key == attached.key) {
                bail!("{} is already monitored, for VM {other}", attached.name);
            }
        }
        let at = self.places.take(attached.key);
        let at = at.with_context(|| format!("{}: too many devices are monitored", attached.name))?;
        self.put(at, Some((&attached.key, [index, generation, attached.link_layer, 0])))?;
        if let Some(w) = self.vms.get_mut(&index) {
            w.attached.insert(place, attached);
        }
        Ok(())
    }
}

impl Watched {
    fn new(vm: Vm) -> Self {
        Self {
            generation: vm.generation,
            tgid: vm.tgid,
            ports: BTreeSet::new(),
            named: BTreeSet::new(),
            attached: BTreeMap::new(),
            report: Report::default(),
            scans: 0,
            told: BTreeSet::new(),
        }
    }

    /// Whether this scan is to look at the VM.
    fn is_due(&mut self) -> bool {
        self.scans = self.scans.wrapping_add(1);
        self.scans <= FIRST_SCANS || self.scans % EVERY == 0
    }

    fn list_devices(&mut self) {
        let device = |((_, _, kind), a): (&Place, &Attached)| Device { name: a.name.clone(), kind: *kind };
        self.report.devices = self.attached.iter().map(device).collect();
    }
}

/// Of a device that the user named: what a VM sends arrives at all but a macvtap.
fn way_of(handle: &Handle) -> Way {
    let macvtap =
        matches!(handle, Handle::Name(n) if std::fs::exists(format!("/sys/class/net/{n}/macvtap")).is_ok_and(|e| e));
    if macvtap { Way::Out } else { Way::In }
}

#[cfg(test)]
mod tests;
