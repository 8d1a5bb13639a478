// SPDX-License-Identifier: GPL-2.0-only
//! The monitor in the kernel, driven by `BPF_PROG_TEST_RUN`: the same packets at the same times as a native [`Monitor`].

use crate::ffi::{Link as LinkLayer, Work};
use crate::monitor::{Monitor, Outcome, Packet};
use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info, bpf_program__attach_tcx};
use libbpf_rs::{AsRawLibbpf, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramMut};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// Compiles `bpf/monitor.bpf.c` of the crate at `crate_dir` to `object`.
///
/// # Errors
/// No clang, or what it said.
pub fn compile(crate_dir: &Path, object: &Path) -> Result<()> {
    let include = |dir: &str| format!("-I{}", crate_dir.join(dir).display());
    takt_bpf_build::compile(&crate_dir.join("bpf/monitor.bpf.c"), object, &[include("core"), include("../policy/core")])
}

/// The start of `struct __sk_buff` up to `hwtstamp`, of which a test run sets some fields.
#[derive(Clone, Default)]
#[repr(C)]
struct SkBuff {
    len_to_mark: [u32; 2],
    mark: u32,
    queue_to_vlan_proto: [u32; 5],
    priority: u32,
    ingress_ifindex: u32,
    ifindex: u32,
    tc_index: u32,
    cb: [u32; 5],
    hash_to_local_port: [u32; 17],
    data_meta: u32,
    pad0: u32,
    flow_keys: u64,
    tstamp: u64,
    wire_len: u32,
    gso_segs: u32,
    sk: u64,
    gso_size: u32,
    tstamp_type: u32,
    hwtstamp: u64,
}

/// `struct report` of the BPF program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelReport {
    pub vm: u32,
    pub events: u32,
    pub rule: u32,
    pub after: u32,
    pub now: u64,
    pub period: u64,
    pub lease: u64,
}

fn bytes_mut<T>(value: &mut T) -> &mut [u8] {
    // SAFETY: only used with the two structures above, which consist of integers and have no padding.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// A loaded BPF monitor.
pub struct BpfMonitor {
    object: Object,
}

impl BpfMonitor {
    /// Loads the object that [`compile`] made; the kernel verifies it.
    ///
    /// # Errors
    /// BPF is refused, or the verifier's verdict.
    pub fn load(object: &Path) -> Result<Self> {
        let object = ObjectBuilder::default().open_file(object)?.load()?;
        Ok(Self { object })
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>> {
        let mut programs = self.object.progs_mut();
        programs.find(|p| p.name() == name).with_context(|| format!("no program {name}"))
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        let mut maps = self.object.maps();
        maps.find(|m| m.name() == name).with_context(|| format!("no map {name}"))
    }

    /// Instructions that the verifier walked, per program.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn verified(&self) -> Result<Vec<(String, u32)>> {
        self.object
            .progs()
            .map(|p| {
                let mut info = bpf_prog_info::default();
                let mut size = size_of_val(&info) as u32;
                // SAFETY: the descriptor is open; the kernel fills at most `size` bytes of a structure of integers.
                let failed = unsafe { bpf_prog_get_info_by_fd(p.as_fd().as_raw_fd(), &mut info, &mut size) };
                ensure!(failed == 0, "cannot query {}", p.name().to_string_lossy());
                Ok((p.name().to_string_lossy().into_owned(), info.verified_insns))
            })
            .collect()
    }

    /// Gives VM `vm` the state of a native monitor: its configuration, ports and whatever it has learnt.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_state(&self, vm: u32, monitor: &Monitor) -> Result<()> {
        let mut value = vec![0u8; 8]; // the lock
        value.extend(monitor.state().iter().flat_map(|w| w.to_ne_bytes()));
        self.map("vms")?.update(&vm.to_ne_bytes(), &value, MapFlags::ANY)?;
        Ok(())
    }

    /// The state's bytes of VM `vm`, comparable with [`Monitor::state`].
    ///
    /// # Errors
    /// No such VM.
    pub fn state(&self, vm: u32) -> Result<Vec<u64>> {
        let value = self.map("vms")?.lookup(&vm.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.with_context(|| format!("no VM {vm}"))?;
        let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap_or_default());
        Ok(value[8..].chunks_exact(8).map(word).collect())
    }

    /// Says that what arrives at network device `ifindex` was sent by VM `vm`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_device(&self, ifindex: u32, vm: u32) -> Result<()> {
        let map = self.map("devices")?;
        map.update(&ifindex.to_ne_bytes(), &vm.to_ne_bytes(), MapFlags::ANY)?;
        Ok(())
    }

    /// Runs the test program on a packet (which the kernel must take for an Ethernet frame) sent by `vm` at `now`, `repeat`
    /// times; returns the outcome of the last run and the mean time of one.
    ///
    /// # Errors
    /// The kernel refuses the run.
    pub fn packet(&self, vm: u32, link: LinkLayer, data: &[u8], now: u64, repeat: u32) -> Result<(Outcome, Duration)> {
        self.packet_segments(vm, link, data, now, repeat, 0)
    }

    /// As [`Self::packet`], for a packet that the device is to cut into parts of `segment` bytes.
    ///
    /// # Errors
    /// As [`Self::packet`].
    pub fn packet_segments(
        &self,
        vm: u32,
        link: LinkLayer,
        data: &[u8],
        now: u64,
        repeat: u32,
        segment: u32,
    ) -> Result<(Outcome, Duration)> {
        let mut ctx = SkBuff { mark: vm, priority: link as u32, tstamp: now, gso_size: segment, ..SkBuff::default() };
        let mut out = SkBuff::default();
        let run = self.program("takt_test")?.test_run(ProgramInput {
            context_in: Some(bytes_mut(&mut ctx)),
            context_out: Some(bytes_mut(&mut out)),
            data_in: Some(data),
            repeat,
            ..ProgramInput::default()
        })?;
        let mut w: Work = (*Packet::new().0).clone();
        w.events = run.return_value;
        let duration = run.duration;
        (w.rule, w.after) = (out.cb[0], out.cb[1]);
        Ok((Outcome::of(&w), duration))
    }

    /// Attaches the live program to what arrives at network device `ifindex`, until the link is dropped.
    ///
    /// # Errors
    /// The kernel refuses (tcx came with Linux 6.6), or there is no such device.
    pub fn attach(&self, ifindex: u32) -> Result<Link> {
        let program = self.program("takt_tcx")?;
        // SAFETY: the program is loaded, and the link that comes back is ours.
        unsafe {
            let link = bpf_program__attach_tcx(program.as_libbpf_object().as_ptr(), ifindex as i32, std::ptr::null());
            let link = NonNull::new(link).with_context(|| {
                format!("cannot attach to network device {ifindex}: {}", std::io::Error::last_os_error())
            })?;
            Ok(Link::from_ptr(link))
        }
    }

    /// Mean time that a test run takes for a program that does nothing, of `repeat` runs.
    ///
    /// # Errors
    /// The kernel refuses the run.
    pub fn overhead(&self, repeat: u32) -> Result<Duration> {
        let run = self.program("takt_empty")?.test_run(ProgramInput {
            data_in: Some(&[0; 64]),
            repeat,
            ..ProgramInput::default()
        })?;
        Ok(run.duration)
    }

    /// As [`Self::packet`] with the live program, which reads the clock and tells user space what changed.
    ///
    /// # Errors
    /// The kernel refuses the run.
    pub fn live_packet(&self, ifindex: u32, data: &[u8]) -> Result<()> {
        let mut ctx = SkBuff { ifindex, ..SkBuff::default() };
        self.program("takt_tcx")?.test_run(ProgramInput {
            context_in: Some(bytes_mut(&mut ctx)),
            data_in: Some(data),
            ..ProgramInput::default()
        })?;
        Ok(())
    }

    /// What the live program told since the last call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn reports(&self) -> Result<Vec<KernelReport>> {
        let mut reports = Vec::new();
        let map = self.map("reports")?;
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        builder.add(&map, |data| {
            let mut report = KernelReport::default();
            let to = bytes_mut(&mut report);
            if let Some(from) = data.get(..to.len()) {
                to.copy_from_slice(from);
                reports.push(report);
            }
            0
        })?;
        builder.build()?.consume()?;
        Ok(reports)
    }

    /// Runs the timer of `vm` at `now`.
    ///
    /// # Errors
    /// The kernel refuses the run.
    pub fn timer(&self, vm: u32, now: u64) -> Result<Outcome> {
        let mut report = KernelReport { vm, now, ..KernelReport::default() };
        self.program("takt_timer")?
            .test_run(ProgramInput { context_in: Some(bytes_mut(&mut report)), ..ProgramInput::default() })?;
        ensure!(report.lease != 0, "no VM {vm}");
        let mut w: Work = (*Packet::new().0).clone();
        (w.events, w.rule, w.after) = (report.events, report.rule, report.after);
        (w.period, w.lease) = (report.period, report.lease);
        Ok(Outcome::of(&w))
    }
}
