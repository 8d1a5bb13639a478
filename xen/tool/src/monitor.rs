// SPDX-License-Identifier: GPL-2.0-only
//! The monitor on the domains' network backends: attaches `bpf/net.bpf.c` to them, and hands out what it reports.

use crate::backends::{Backends, Kind};
use crate::eyes::{Eyes, Report};
use crate::host::Domain;
use crate::status::DeviceStatus;
use crate::xenstore::Store;
use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBufferBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use takt_monitor::device::{self, Attached, Handle, Times, Way};
use takt_monitor::object::{self, map, program, run};
use takt_monitor::{Config, Monitor as State};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/net.bpf.o"));
/// `NVM` of the program.
const SLOTS: u32 = 256;
/// How often the thread that hands out reports looks whether it is still wanted.
const LOOK: Duration = Duration::from_secs(1);

/// A domain that is watched.
struct Watched {
    slot: u32,
    generation: u32,
    ports: BTreeSet<u16>,
    named: BTreeSet<String>,
    attached: BTreeMap<(String, Kind), Attached>,
    elsewhere: BTreeSet<String>,
    told: BTreeSet<String>,
}

/// The monitor; dropped, it sees nothing any more.
pub struct Monitor {
    object: Object,
    store: Arc<dyn Store>,
    domains: BTreeMap<u16, Watched>,
    generation: u32,
}

impl Monitor {
    /// Loads the programs, and starts their timer.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn start(store: Arc<dyn Store>) -> Result<Self> {
        let object = object::open(OBJECT)?.load().map_err(|e| {
            let why = object::last_lines(&object::complaints());
            anyhow!(e).context(format!("the kernel refused the monitor (it needs Linux 6.6 or later): {why}"))
        })?;
        let monitor = Self { object, store, domains: BTreeMap::new(), generation: 0 };
        let failed = run(&monitor.object, "net_start", &mut [])?;
        ensure!(failed == 0, "the monitor's timer: {}", std::io::Error::from_raw_os_error(-failed));
        Ok(monitor)
    }

    /// Hands every report to `hand`, from a thread of its own, until that says `false`.
    ///
    /// # Errors
    /// The kernel does not share the ring.
    pub fn reports(&self, hand: impl Fn(Report) -> bool + Send + 'static) -> Result<()> {
        let map = MapHandle::try_from(&map(&self.object, "reports")?)?;
        let wanted = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let still = wanted.clone();
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |data| {
            for report in crate::wire::read_all::<Report>(data) {
                if !hand(report) {
                    still.store(false, std::sync::atomic::Ordering::Relaxed);
                }
            }
            0
        })?;
        let ring = builder.build()?;
        std::thread::spawn(move || {
            while wanted.load(std::sync::atomic::Ordering::Relaxed) {
                // Interrupted by a signal, perhaps.
                let _ = ring.poll(LOOK);
            }
        });
        Ok(())
    }

    fn begin(&mut self, id: u16) -> Result<()> {
        let slot = (0..SLOTS).find(|s| self.domains.values().all(|w| w.slot != *s));
        let slot = slot.with_context(|| format!("too many domains to monitor; allowed: at most {SLOTS}"))?;
        self.generation += 1;
        let monitor = State::new(&Config::default())?;
        let mut value = [0, self.generation].map(u32::to_ne_bytes).concat(); // the lock, the generation
        value.extend(monitor.state().iter().flat_map(|w| w.to_ne_bytes()));
        value.resize(value.len() + size_of::<Times>(), 0);
        map(&self.object, "net_vms")?.update(&slot.to_ne_bytes(), &value, MapFlags::LOCK)?;
        let watched = Watched {
            slot,
            generation: self.generation,
            ports: BTreeSet::new(),
            named: BTreeSet::new(),
            attached: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            told: BTreeSet::new(),
        };
        self.domains.insert(id, watched);
        Ok(())
    }

    fn scan_domain(&mut self, id: u16) -> Result<Vec<String>> {
        if !self.domains.contains_key(&id) {
            self.begin(id)?;
        }
        let found = Backends::of(&*self.store, id)?;
        let mut want: BTreeSet<_> = found.here.into_iter().filter(|(name, _)| exists(name)).collect();
        if let Some(w) = self.domains.get_mut(&id) {
            want.extend(w.named.iter().map(|n| (n.clone(), Kind::Named)));
            w.elsewhere = found.elsewhere;
        }
        self.unwatch(id, |place, attached| !want.contains(place) || !attached.alive());
        Ok(want.into_iter().filter_map(|p| self.watch_place(id, p).err()).map(|e| format!("{e:#}")).collect())
    }

    /// Lets go of those of a domain's devices that `which` selects.
    fn unwatch(&mut self, id: u16, which: impl Fn(&(String, Kind), &Attached) -> bool) {
        let Some(w) = self.domains.get_mut(&id) else { return };
        let (gone, kept) = std::mem::take(&mut w.attached).into_iter().partition(|(p, a)| which(p, a));
        w.attached = kept;
        let gone: BTreeMap<(String, Kind), Attached> = gone;
        for attached in gone.values() {
            // It may be gone by itself.
            let _ = map(&self.object, "net_devices").and_then(|m| Ok(m.delete(&attached.key.ifindex.to_ne_bytes())?));
        }
    }

    fn watch_place(&mut self, id: u16, place: (String, Kind)) -> Result<()> {
        let w = self.domains.get(&id).context("no such domain")?;
        if w.attached.contains_key(&place) {
            return Ok(());
        }
        let (slot, generation) = (w.slot, w.generation);
        let by = self.domains.iter().find(|(_, w)| w.attached.keys().any(|(name, _)| *name == place.0));
        if let Some((by, _)) = by {
            bail!("{} is already monitored, for domain {by}", place.0);
        }
        let sends = program(&self.object, "net_sends")?;
        let attached = device::attach(None, &Handle::Name(place.0.clone()), Way::In, sends.as_fd())?;
        let value = [slot, generation, attached.link_layer, 0].map(u32::to_ne_bytes).concat();
        map(&self.object, "net_devices")?.update(&attached.key.ifindex.to_ne_bytes(), &value, MapFlags::ANY)?;
        if let Some(w) = self.domains.get_mut(&id) {
            w.attached.insert(place, attached);
        }
        Ok(())
    }
}

impl Eyes for Monitor {
    fn scan(&mut self, domains: &[Domain]) -> Vec<String> {
        let gone: Vec<u16> = self.domains.keys().filter(|id| domains.iter().all(|d| d.id != **id)).copied().collect();
        for id in gone {
            self.unwatch(id, |_, _| true);
            self.domains.remove(&id);
        }
        let mut lines = Vec::new();
        for domain in domains {
            let errors = self.scan_domain(domain.id).unwrap_or_else(|e| vec![format!("{e:#}")]);
            let Some(w) = self.domains.get_mut(&domain.id) else { continue };
            let new = errors.into_iter().filter(|e| w.told.insert(e.clone()));
            lines.extend(new.map(|e| format!("domain {}: {e}", domain.name)));
        }
        lines
    }

    fn domain_of(&self, report: &Report) -> Option<u16> {
        let is = |w: &Watched| (w.slot, w.generation) == (report.vm, report.generation);
        self.domains.iter().find(|(_, w)| is(w)).map(|(id, _)| *id)
    }

    fn devices(&self, id: u16) -> Vec<DeviceStatus> {
        let kind = |kind: Kind| match kind {
            Kind::Vif => "vif",
            Kind::Emulated => "emulated",
            Kind::Named => "named",
        };
        let all = self.domains.get(&id).into_iter().flat_map(|w| w.attached.keys());
        all.map(|(name, k)| DeviceStatus { name: name.clone(), kind: kind(*k).into() }).collect()
    }

    fn blind(&self, id: u16) -> Option<String> {
        match self.domains.get(&id) {
            None => Some("not looked at yet".into()),
            Some(w) if !w.attached.is_empty() => None,
            Some(w) if w.elsewhere.is_empty() => Some("no network backend found".into()),
            Some(w) => Some(w.elsewhere.iter().cloned().collect::<Vec<_>>().join(", ")),
        }
    }

    fn times(&self, id: u16) -> Option<Times> {
        let slot = self.domains.get(&id)?.slot;
        let value = map(&self.object, "net_vms").ok()?.lookup(&slot.to_ne_bytes(), MapFlags::LOCK).ok()??;
        let at = value.len().checked_sub(size_of::<Times>())?;
        // SAFETY: `Times` consists of integers and lies within the value.
        let times = unsafe { value.as_ptr().add(at).cast::<Times>().read_unaligned() };
        (times.first != 0).then_some(times)
    }

    fn ports(&mut self, id: u16, ports: &[u16]) -> Result<()> {
        let w = self.domains.get(&id).context("its monitor has not started yet")?;
        let want: BTreeSet<u16> = ports.iter().copied().collect();
        for port in w.ports.symmetric_difference(&want) {
            let request = [w.slot, w.generation, (*port).into(), want.contains(port).into()];
            let mut request: Vec<u8> = request.iter().flat_map(|n| n.to_ne_bytes()).collect();
            ensure!(run(&self.object, "net_port", &mut request)? == 0, "it is gone");
        }
        if let Some(w) = self.domains.get_mut(&id) {
            w.ports = want;
        }
        Ok(())
    }

    fn watch(&mut self, id: u16, ifname: &str) -> Result<()> {
        self.watch_place(id, (ifname.to_owned(), Kind::Named))?;
        if let Some(w) = self.domains.get_mut(&id) {
            w.named.insert(ifname.into());
        }
        Ok(())
    }
}

/// Whether there is a network device of that name.
fn exists(name: &str) -> bool {
    // SAFETY: a string that ends by 0.
    CString::new(name).is_ok_and(|c| unsafe { libc::if_nametoindex(c.as_ptr()) } != 0)
}
