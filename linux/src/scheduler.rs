// SPDX-License-Identifier: GPL-2.0-only
//! The loaded scheduler: programs, maps, links.

use crate::environment::Environment;
use crate::object;
use crate::ops::{self, Cgroups};
use crate::shared::{Quota, Snapshot};
use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object};
use std::sync::mpsc;
use takt_control::partition::Side;
use takt_control::pools::Size;
use takt_control::waits::CLASSES;
use takt_control::{PolicySpec, Pools};
use takt_monitor::object::{map, run, run_time};
use takt_policy::{Hist, NIL, Overhead, Pool};

/// The BPF objects for one policy, or for those of two pools.
struct Objects {
    policy: &'static str,
    /// The rt-pool's.
    rt: Option<&'static str>,
    sched: &'static [u8],
    kvm: &'static [u8],
    net: &'static [u8],
}

const OBJECTS: &[Objects] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The policies that this build can run on Linux.
pub fn policies() -> Vec<&'static str> {
    OBJECTS.iter().filter(|o| o.rt.is_none()).map(|o| o.policy).collect()
}

/// The objects for `policy`.
///
/// # Errors
/// One line with what there is instead.
fn objects(policy: &PolicySpec) -> Result<&'static Objects> {
    let all = || OBJECTS.iter().filter(|o| o.policy == policy.name);
    let Some(pools) = &policy.pools else {
        let found = all().find(|o| o.rt.is_none());
        return found.with_context(|| {
            format!("policy `{}` does not run on Linux; allowed: {}, risa", policy.name, policies().join(", "))
        });
    };
    match &pools.size {
        Size::Fixed { .. } => bail!("policy `{policy}` is for the simulator: on Linux, only risa has pools"),
        Size::Managed(s) if s.take_all => {
            bail!(
                "policy `{policy}`: rt_pool_may_take_all is for the simulator; on Linux, I/O threads of VMs stay outside"
            )
        }
        Size::Managed(_) => {}
    }
    let rt = || all().filter_map(|o| o.rt).collect::<Vec<_>>().join(", ");
    let found = all().find(|o| o.rt == Some(pools.rt.as_str()));
    found.with_context(|| format!("policy `{policy}`: on Linux, `rt` must be one of {} (got `{}`)", rt(), pools.rt))
}

/// Programs of the kvm object whose function a kernel may lack: one of the first two there must be, by the processor's
/// maker; without the IPIs' they count as what they look like, messages; without the last one I/O threads of a real-time
/// VM are promoted by what it receives only.
const KVM_EVENTS: [&str; 2] = ["takt_kvm_amd", "takt_kvm_intel"];
const KVM_OPTIONAL: [&str; 5] =
    ["takt_kvm_amd", "takt_kvm_intel", "takt_kvm_ipi", "takt_kvm_ipi_done", "takt_kvm_notify"];

/// `struct request` of `bpf/init.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Request {
    pub arg: [u64; 4],
    pub cpu: u32,
    pub vm: u32,
    pub ret: i32,
    pub pad: u32,
}

/// What the kernel records (`enum recording` of `bpf/host.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    Nothing = 0,
    /// Each operation of a pool.
    Operations = 1,
    /// Likewise, and events that change nothing, which are no operations else.
    Events = 3,
}

/// A VM came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub gone: bool,
    pub vm: u32,
    pub tgid: u32,
    pub generation: u32,
}

/// Why the kernel took the scheduler out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Ended {
    pub kind: i32,
    pub code: i64,
    pub reason: String,
    pub message: String,
    /// State of the PCPUs and threads as the kernel saw it, if that was an error.
    pub dump: String,
}

/// The scheduler while it runs. Dropping it detaches it.
pub struct Scheduler {
    pub(crate) object: Object,
    objects: &'static Objects,
    kvm: Option<Object>,
    kvm_attached: bool,
    links: Vec<Link>,
    policy: PolicySpec,
    cgroups: Cgroups,
}

impl Scheduler {
    /// Loads the scheduler with `policy`: the kernel's verification of it takes time, and is done before it has anything
    /// to schedule. The kernel will take it out when it lets a thread wait longer than `timeout_ms`.
    ///
    /// # Errors
    /// An unknown policy, or what the kernel refuses; nothing has changed then.
    pub fn load(environment: &Environment, policy: &PolicySpec, timeout_ms: u32, quota: Quota) -> Result<Self> {
        ensure!(!policy.pin, "policy `pin` is for the simulator: on Linux, pin VCPUs with taskset or cpusets");
        let names = [Some(policy.name.as_str()), policy.pools.as_ref().map(|p: &Pools| p.rt.as_str())];
        let pool = |name| Pool::new(name).with_context(|| format!("unknown policy `{name}`"));
        let pools = names.into_iter().flatten().map(pool).collect::<Result<Vec<_>>>()?;
        let objects = objects(policy)?;
        let mut open = object::open(objects.sched, None)?;
        let cgroups = ops::settle(&mut open, timeout_ms)?;
        let object = object::load(open)?;
        let hosts = map(&object, "hosts")?;
        let initial = Snapshot::initial(&pools, quota);
        ensure!(hosts.value_size() as usize == initial.len(), "the BPF objects are from another build");
        hosts.update(&0u32.to_ne_bytes(), &initial, MapFlags::ANY)?;
        let mut scheduler = Self {
            object,
            objects,
            kvm: None,
            kvm_attached: false,
            links: Vec::new(),
            policy: policy.clone(),
            cgroups,
        };
        for pcpu in &environment.online {
            let arg = [pcpu.core.into(), pcpu.llc.into(), pcpu.node.into(), 0];
            scheduler.call("takt_setup", Request { arg, cpu: pcpu.n, ..Request::default() })?;
        }
        let defaults = takt_policy::live(|p| p.linux).into_iter().map(|(p, value)| (p.key, value));
        for (key, value) in defaults.chain(policy.params.iter().copied()) {
            scheduler.adjust(NIL, key, value).with_context(|| format!("policy `{}`", policy.name))?;
        }
        scheduler.load_kvm()?;
        Ok(scheduler)
    }

    /// Hands it the machine. All threads of the host are scheduled by it when this returns.
    ///
    /// # Errors
    /// What the kernel refuses; nothing has changed then.
    pub fn attach(&mut self) -> Result<()> {
        let mut links = Vec::new();
        for program in self.object.progs_mut().filter(|p| p.section().to_string_lossy().starts_with("tp_btf")) {
            links.push(program.attach().with_context(|| program.name().to_string_lossy().into_owned())?);
        }
        let mut ops = self.object.maps_mut().find(|m| m.name() == "takt_ops").context("no map takt_ops")?;
        let attached = ops.attach_struct_ops();
        links.push(attached.map_err(|e| match (self.timer_error(), self.ended()) {
            (Some(why), _) => anyhow!("the kernel refused a timer to the scheduler: {why}"),
            (None, Some(end)) => anyhow!("the kernel refused the scheduler: {} {}", end.reason, end.message),
            (None, None) => anyhow!(e).context("the kernel refused the scheduler"),
        })?);
        self.links.extend(links);
        Ok(())
    }

    /// Gives the machine back to the kernel's own scheduler; what has happened can still be read.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Begins to watch KVM, if it is loaded and not watched yet; VMs that run already are found. Whether it is watched.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub fn watch_kvm(&mut self) -> Result<bool> {
        self.load_kvm()?;
        let Some(kvm) = self.kvm.as_ref().filter(|_| !self.kvm_attached) else { return Ok(self.kvm_attached) };
        for program in kvm.progs_mut().filter(|p| p.section().to_string_lossy().starts_with('f') && p.autoload()) {
            self.links.push(program.attach().with_context(|| program.name().to_string_lossy().into_owned())?);
        }
        self.kvm_attached = true;
        self.find_running()?;
        Ok(true)
    }

    fn load_kvm(&mut self) -> Result<()> {
        if self.kvm.is_some() || !std::path::Path::new("/sys/kernel/btf/kvm").exists() {
            return Ok(());
        }
        let mut open = object::open(self.objects.kvm, Some(&self.object))?;
        let functions = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let mut events = false;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let target = section.split('/').next_back().unwrap_or_default();
            let there = functions.contains(&format!(" {target}\t[kvm"));
            if KVM_OPTIONAL.contains(&name.as_str()) && !there {
                program.set_autoload(false);
            }
            events |= there && KVM_EVENTS.contains(&name.as_str());
        }
        if !events {
            return Ok(()); // kvm is there, kvm_amd or kvm_intel not yet
        }
        self.kvm = Some(object::load(open).context("monitoring KVM")?);
        Ok(())
    }

    /// Looks through all open files for the VCPUs of VMs that were there before.
    fn find_running(&self) -> Result<()> {
        let kvm = self.kvm.as_ref().filter(|_| self.kvm_attached);
        let Some(program) = kvm.and_then(|k| k.progs_mut().find(|p| p.name() == "takt_kvm_running")) else {
            return Ok(());
        };
        let link = program.attach().context("takt_kvm_running")?;
        let mut iter = libbpf_rs::Iter::new(&link)?;
        std::io::copy(&mut iter, &mut std::io::sink()).context("looking for running VMs")?;
        Ok(())
    }

    /// What the kernel tells it of cgroups.
    pub fn cgroups(&self) -> Cgroups {
        self.cgroups
    }

    pub fn policy(&self) -> &PolicySpec {
        &self.policy
    }

    /// The same policy has other parameters now.
    pub fn policy_is(&mut self, policy: PolicySpec) {
        self.policy = policy;
    }

    /// The verifier's work on every loaded program.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn verified(&self) -> Result<Vec<crate::Verified>> {
        let mut all = crate::verified(&self.object)?;
        if let Some(kvm) = &self.kvm {
            all.extend(crate::verified(kvm)?);
        }
        Ok(all)
    }

    /// What its programs have run while the kernel counted, ns, and how often.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn run_time(&self) -> Result<(u64, u64)> {
        let mut all = run_time(&self.object)?;
        if let Some(kvm) = &self.kvm {
            let (ns, runs) = run_time(kvm)?;
            all = (all.0 + ns, all.1 + runs);
        }
        Ok(all)
    }

    /// Pool and host as of one instant.
    ///
    /// # Errors
    /// The kernel does not hand it out.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let bytes = map(&self.object, "hosts")?.lookup(&0u32.to_ne_bytes(), MapFlags::LOCK)?;
        Snapshot::new(bytes.context("the scheduler's state is missing")?)
    }

    /// As [`Scheduler::snapshot`], but without the lock: what changes meanwhile may not fit together.
    ///
    /// # Errors
    /// The kernel does not hand it out.
    pub fn peek(&self) -> Result<Snapshot> {
        let bytes = map(&self.object, "hosts")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        Snapshot::new(bytes.context("the scheduler's state is missing")?)
    }

    /// How long the threads of VM `vm` have waited, by class; of VM 0 the host's entities.
    ///
    /// # Errors
    /// The kernel does not hand it out.
    pub fn waits(&self, vm: u32) -> Result<[Hist; CLASSES]> {
        let bytes = map(&self.object, "vm_waits")?.lookup(&vm.to_ne_bytes(), MapFlags::LOCK)?.context("vm_waits")?;
        // Its lock comes first.
        let all = bytes.get(size_of::<u64>()..).and_then(Hist::several);
        all.context("the BPF objects are from another build")
    }

    /// Loads the programs that look at packets, for [`crate::net::Net::attach`].
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn monitor(&self) -> Result<Object> {
        object::load(object::open(self.objects.net, Some(&self.object))?).context("the monitor")
    }

    /// Sets parameter `key` of VM `vm` ([`NIL`]: of the pool).
    ///
    /// # Errors
    /// The policy's refusal.
    pub fn adjust(&self, vm: u32, key: u32, value: u64) -> Result<()> {
        self.call("takt_adjust_vm", Request { arg: [key.into(), value, 0, 0], vm, ..Request::default() })
    }

    /// Marks a VM by hand as real-time with `period` (0 = unknown) for `lease`, or as not real-time (lease 0); ns.
    ///
    /// # Errors
    /// The policy's refusal.
    pub fn mark(&self, vm: u32, period: u64, lease: u64) -> Result<()> {
        let arg = [u64::from(lease != 0), period, lease, 0];
        self.call("takt_mark_vm", Request { arg, vm, ..Request::default() })
    }

    /// A VM enters a group and subgroup, as [`takt_control::groups::Groups`] numbers them, or leaves it (0).
    ///
    /// # Errors
    /// The policy's refusal.
    pub fn set_group(&self, vm: u32, group: u64) -> Result<()> {
        self.call("takt_group_vm", Request { arg: [group, 0, 0, 0], vm, ..Request::default() })
    }

    /// A PCPU goes to the pool on that side; one that is offline and the last of its pool, out of it.
    ///
    /// # Errors
    /// There is no such PCPU, or it is the last one of VCPUs that are there.
    pub fn move_cpu(&self, cpu: u32, to: Side) -> Result<()> {
        let arg = [u64::from(to == Side::Rt), 0, 0, 0];
        self.call("takt_move_cpu", Request { arg, cpu, ..Request::default() }).with_context(|| format!("PCPU {cpu}"))
    }

    /// The VCPUs of a VM go to the pool on that side.
    ///
    /// # Errors
    /// There is no such VM, or that pool has no PCPU.
    pub fn move_vm_to(&self, vm: u32, to: Side) -> Result<()> {
        let arg = [u64::from(to == Side::Rt), 0, 0, 0];
        self.call("takt_move_vm", Request { arg, vm, ..Request::default() }).with_context(|| format!("VM {vm}"))
    }

    /// From now on the kernel records that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn record(&self, what: Recording) -> Result<()> {
        self.call("takt_record", Request { arg: [what as u64, 0, 0, 0], ..Request::default() })
    }

    /// Begins to count what decisions and switches take, from nothing; the time, ns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin_measuring(&self) -> Result<u64> {
        self.measure(false)?;
        let counts = map(&self.object, "overheads")?;
        let none = vec![vec![0; counts.value_size() as usize]; libbpf_rs::num_possible_cpus()?];
        counts.update_percpu(&0u32.to_ne_bytes(), &none, MapFlags::ANY).context("overheads")?;
        self.measure(true)
    }

    /// Ends it: the time, ns, and what all PCPUs have counted.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn end_measuring(&self) -> Result<(u64, Overhead)> {
        let now = self.measure(false)?;
        let counts = map(&self.object, "overheads")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let mut all = Overhead::default();
        for bytes in counts.context("overheads")? {
            let own = bytes.get(..size_of::<Overhead>()).and_then(Overhead::from_bytes);
            all.merge(&own.context("the BPF objects are from another build")?);
        }
        Ok((now, all))
    }

    fn measure(&self, on: bool) -> Result<u64> {
        let mut request = Request { arg: [on.into(), 0, 0, 0], ..Request::default() };
        self.request("takt_measure", &mut request)?;
        ensure!(request.ret == 0, "the scheduler cannot measure its overhead");
        Ok(request.arg[1])
    }

    pub(crate) fn call(&self, program: &str, mut request: Request) -> Result<()> {
        self.request(program, &mut request)?;
        if request.ret < 0 {
            bail!(takt_policy::Error(request.ret));
        }
        Ok(())
    }

    pub(crate) fn request(&self, program: &str, request: &mut Request) -> Result<()> {
        // SAFETY: a structure of integers without padding.
        let bytes = unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(request).cast(), size_of::<Request>()) };
        run(&self.object, program, bytes).map(drop)
    }

    /// Why the kernel took the scheduler out, if it did.
    pub fn ended(&self) -> Option<Ended> {
        Ended::parse(&self.end()?)
    }

    /// `struct ended` of `sched.bpf.c`.
    fn end(&self) -> Option<Vec<u8>> {
        let bss = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(".bss"))?;
        bss.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()
    }

    /// Why the scheduler has no timers.
    fn timer_error(&self) -> Option<std::io::Error> {
        timer_error(&self.end()?)
    }

    /// VMs that come and go, as they do. Poll the buffer with [`libbpf_rs::RingBuffer::poll`].
    ///
    /// # Errors
    /// The kernel refuses the buffer.
    pub fn notices(&self) -> Result<(libbpf_rs::RingBuffer<'static>, mpsc::Receiver<Notice>)> {
        let (send, receive) = mpsc::channel();
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        let handle = libbpf_rs::MapHandle::try_from(&map(&self.object, "notices")?)?;
        builder.add(&handle, move |bytes| {
            if let Some(notice) = Notice::parse(bytes) {
                let _ = send.send(notice); // a receiver that has gone misses nothing
            }
            0
        })?;
        Ok((builder.build()?, receive))
    }

    /// A map of the scheduler by name; other objects share it.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn map(&self, name: &str) -> Result<Map<'_>> {
        map(&self.object, name)
    }
}

impl Notice {
    /// From `struct notice` of `bpf/host.h`.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |i: usize| bytes.get(4 * i..4 * i + 4)?.try_into().ok().map(u32::from_ne_bytes);
        Some(Self { gone: word(0)? == 1, vm: word(1)?, tgid: word(2)?, generation: word(3)? })
    }
}

impl Ended {
    /// From `struct ended` of `sched.bpf.c`: code, kind, reason, message.
    fn parse(b: &[u8]) -> Option<Self> {
        let code = i64::from_ne_bytes(b.get(0..8)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(b.get(8..12)?.try_into().ok()?);
        let text = |range: std::ops::Range<usize>| -> Option<String> {
            let s = b.get(range)?;
            Some(String::from_utf8_lossy(&s[..s.iter().position(|&c| c == 0).unwrap_or(s.len())]).into_owned())
        };
        let ended = Self { code, kind, reason: text(16..144)?, message: text(144..1168)?, dump: text(1168..33936)? };
        (kind != 0).then_some(ended)
    }
}

/// The error of a timer that could not be made, of `struct ended`.
fn timer_error(b: &[u8]) -> Option<std::io::Error> {
    let error = i32::from_ne_bytes(b.get(12..16)?.try_into().ok()?);
    (error != 0).then(|| std::io::Error::from_raw_os_error(-error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct ended` with the end's kind and the timers' error.
    fn end(kind: i32, timer: i32) -> Vec<u8> {
        let mut bytes = [&7i64.to_ne_bytes()[..], &kind.to_ne_bytes(), &timer.to_ne_bytes()].concat();
        bytes.extend(b"reason\0");
        bytes.resize(33936, 0);
        bytes[144..148].copy_from_slice(b"why\0");
        bytes
    }

    #[test]
    fn a_timer_that_cannot_be_made_is_told_by_its_error() {
        assert!(timer_error(&end(0, 0)).is_none());
        assert_eq!(timer_error(&end(1, -16)).unwrap().raw_os_error(), Some(16));
        assert!(timer_error(&[0; 15]).is_none());
    }

    #[test]
    fn an_end_is_one_that_has_a_kind() {
        assert_eq!(Ended::parse(&end(0, -16)), None);
        let ended = Ended::parse(&end(64, 0)).unwrap();
        assert_eq!((ended.kind, ended.code), (64, 7));
        assert_eq!((ended.reason.as_str(), ended.message.as_str()), ("reason", "why"));
    }
    #[test]
    fn an_end_has_four_parts() {
        let mut bytes = end(64, 0);
        bytes[143] = b'!'; // the last byte of a reason, which has a 0 before it
        bytes[1168..1172].copy_from_slice(b"dump");
        let ended = Ended::parse(&bytes).unwrap();
        let texts = (ended.reason.as_str(), ended.message.as_str(), ended.dump.as_str());
        assert_eq!(texts, ("reason", "why", "dump"));
        bytes[16..144].fill(b'r');
        bytes[144..1168].fill(b'm');
        bytes[1168..].fill(b'd');
        let ended = Ended::parse(&bytes).unwrap();
        let lengths = [ended.reason.len(), ended.message.len(), ended.dump.len()];
        assert_eq!(lengths, [128, 1024, 32768], "without an end each has its own room");
        assert!(ended.reason.chars().all(|c| c == 'r') && ended.message.chars().all(|c| c == 'm'));
        assert_eq!(Ended::parse(&bytes[..33935]), None);
    }

    #[test]
    fn a_notice_has_four_words() {
        let words = |list: &[u32]| list.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>();
        let notice = |gone| Some(Notice { gone, vm: 7, tgid: 8, generation: 9 });
        for (what, gone) in [(0, false), (1, true), (2, false)] {
            assert_eq!(Notice::parse(&words(&[what, 7, 8, 9])), notice(gone));
        }
        assert_eq!(Notice::parse(&words(&[1, 7, 8, 9, 10])), notice(true));
        assert_eq!(Notice::parse(&words(&[1, 7, 8, 9])[..15]), None);
    }

    #[test]
    fn each_policy_has_its_objects() {
        assert_eq!(policies(), ["bvt", "credit", "doris", "gang", "laxs", "poris", "rr", "rtxen", "sedf", "vgedf"]);
        let of = |text: &str| {
            objects(&PolicySpec::parse(text).unwrap()).map(|o| (o.policy, o.rt)).map_err(|e| e.to_string())
        };
        for (text, want) in [
            ("credit", ("credit", None)),
            ("credit-4.2", ("credit", None)),
            ("doris(slice=5ms)", ("doris", None)),
            ("risa", ("credit", Some("vgedf"))),
            ("risa(delay=1s)", ("credit", Some("vgedf"))),
        ] {
            assert_eq!(of(text), Ok(want), "{text}");
        }
        for (text, want) in [
            ("sp", "policy `sp` is for the simulator: on Linux, only risa has pools"),
            ("risa(rt=sedf)", "policy `risa(rt=sedf)`: on Linux, `rt` must be one of vgedf (got `sedf`)"),
            (
                "risa(rt_pool_may_take_all=on)",
                "policy `risa(rt_pool_may_take_all=on)`: rt_pool_may_take_all is for the simulator",
            ),
        ] {
            assert!(of(text).unwrap_err().starts_with(want), "{text}: {:?}", of(text));
        }
        let all: std::collections::BTreeSet<_> = OBJECTS.iter().map(|o| (o.policy, o.rt)).collect();
        assert_eq!(all.len(), OBJECTS.len());
        assert!(OBJECTS.iter().all(|o| [o.sched, o.kvm, o.net].iter().all(|b| b.starts_with(b"\x7fELF"))));
    }
}
