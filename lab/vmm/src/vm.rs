// SPDX-License-Identifier: GPL-2.0-or-later
//! One VM: its threads, and what they are told before it runs.

use anyhow::{Context, Result, anyhow, bail};
use kvm_ioctls::{VcpuExit, VcpuFd};
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::time::ClockId;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};

use crate::clock::{self, Tsc, monotonic, sleep_until};
use crate::io::{Counters, Io, Msis};
use crate::layout::{PORT_PANIC, Shared};
use crate::machine::{Machine, Memory};
use crate::packet::{End, GUEST_PORT, PEER_IP, PEER_MAC, parse_mac, template};
use crate::spec::{Net, Program, Site, Spec, Workload};
use crate::wire::Wire;

pub const MS: u64 = 1_000_000;

/// A running VM.
pub struct Vm {
    pub name: String,
    pub spec: Spec,
    pub tsc: Tsc,
    pub tsc_error_ns: u64,
    pub memory: Memory,
    pub vcpus: Vec<Thread>,
    pub io: Option<(Thread, Arc<Counters>)>,
    /// When the VCPUs begin, ns of CLOCK_MONOTONIC.
    pub start: u64,
    pub msis: Arc<Msis>,
}

/// A thread with the CPU time of what it does.
pub struct Thread {
    pub name: String,
    pub cpu: Cpu,
}

pub enum Cpu {
    Own(ClockId),
    /// Of threads that have ended, ns.
    Ended(Arc<AtomicU64>),
}

impl Cpu {
    pub fn read(&self) -> u64 {
        match self {
            Self::Own(clock) => clock::read(*clock),
            Self::Ended(ns) => ns.load(Relaxed),
        }
    }
}

impl Thread {
    /// Starts a thread that only ends with the process; what goes wrong in it ends the process.
    fn start(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Result<Self> {
        let failure = name.clone();
        let run = move || match body() {
            Ok(()) => {}
            Err(e) => {
                eprintln!("takt-vmm: thread '{failure}': {e:#}");
                std::process::exit(1);
            }
        };
        let handle = thread::Builder::new().name(name.clone()).spawn(run).context("no thread")?;
        Ok(Self { name, cpu: Cpu::Own(cpu_clock(&handle)?) })
    }
}

fn cpu_clock<T>(handle: &JoinHandle<T>) -> Result<ClockId> {
    let mut clock = 0;
    // SAFETY: the thread exists (it does not end before the process), and `clock` is written only.
    let error = unsafe { libc::pthread_getcpuclockid(handle.as_pthread_t(), &mut clock) };
    if error != 0 {
        bail!("no clock of a thread's CPU time: {}", std::io::Error::from_raw_os_error(error));
    }
    Ok(ClockId::from_raw(clock))
}

impl Vm {
    /// Makes the VM and starts its threads; the VCPUs begin `start_ms` later.
    pub fn start(name: String, spec: Spec) -> Result<Self> {
        let wire = Wire::open(&spec.workload)?;
        let machine = Machine::new(spec.vcpus, if spec.workload.samples() { spec.samples } else { 1 })?;
        let Machine { vcpus, msis, tx, memory, tsc, tsc_error_ns, vm } = machine;
        let start = monotonic() + spec.start_ms * MS;
        configure(&spec, memory.shared(), tsc, start)?;
        let msis = Arc::new(Msis::new(memory.shared(), msis, vm));
        let io = match (wire, &spec.workload) {
            (Some(wire), _) => {
                let counters = Arc::<Counters>::default();
                let (msis, shared) = (msis.clone(), memory.shared());
                let io = Io { wire, tx, msis, shared, counters: counters.clone() };
                Some((Thread::start(spec.io_thread_name.clone(), move || io.run())?, counters))
            }
            (None, &Workload::Interrupts { msi_ns: Some(period), .. }) => {
                let msis = msis.clone();
                let thread = Thread::start(spec.io_thread_name.clone(), move || msis.repeat(start, period))?;
                Some((thread, Arc::default()))
            }
            _ => None,
        };
        let vcpus = vcpus
            .into_iter()
            .enumerate()
            .map(|(i, vcpu)| {
                let name = spec.vcpu_name(i);
                let Some(life) = spec.replace_ms else {
                    return Thread::start(name, move || {
                        sleep_until(start);
                        run(vcpu, u64::MAX).map(drop)
                    });
                };
                let (ran, threads) = (Arc::<AtomicU64>::default(), name.clone());
                let cpu = Cpu::Ended(ran.clone());
                Thread::start(format!("keeper {i}"), move || {
                    sleep_until(start);
                    replace(vcpu, &threads, life * MS, &ran)
                })?;
                Ok(Thread { name, cpu })
            })
            .collect::<Result<_>>()?;
        Ok(Self { name, spec, tsc, tsc_error_ns, memory, vcpus, io, start, msis })
    }
}

/// Runs a VCPU until a signal comes after `until`, ns of CLOCK_MONOTONIC.
fn run(mut vcpu: VcpuFd, until: u64) -> Result<VcpuFd> {
    loop {
        match vcpu.run() {
            Ok(VcpuExit::IoOut(PORT_PANIC, at)) => bail!("the guest met an exception, {at:02x?}"),
            Ok(exit) => bail!("the guest left in an unexpected way: {exit:?}"),
            Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => {
                if monotonic() >= until {
                    return Ok(vcpu);
                }
            }
            Err(e) => return Err(e).context("KVM_RUN"),
        }
    }
}

/// Has a VCPU run by one thread after the other, each for `life` ns, and adds their CPU time up. Only an error ends it.
fn replace(mut vcpu: VcpuFd, name: &str, life: u64, ran: &AtomicU64) -> Result<()> {
    extern "C" fn leave(_: libc::c_int) {}
    // Without SA_RESTART: KVM_RUN returns.
    let action = SigAction::new(SigHandler::Handler(leave), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGUSR2, &action) }.context("SIGUSR2")?;
    loop {
        let until = monotonic() + life;
        let body = move || run(vcpu, until).map(|vcpu| (vcpu, clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID)));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).context("no thread")?;
        sleep_until(until);
        while !thread.is_finished() {
            // A signal that comes before KVM_RUN does is lost. A thread that ends meanwhile is no error.
            let _ = pthread_kill(thread.as_pthread_t(), Signal::SIGUSR2);
            sleep_until(monotonic() + MS);
        }
        let (back, cpu) = thread.join().map_err(|_| anyhow!("a thread of a VCPU panicked"))??;
        vcpu = back;
        ran.fetch_add(cpu, Relaxed);
    }
}

/// The TSC at the last multiple of `tick` ns of CLOCK_MONOTONIC.
pub fn boundary(tsc: Tsc, tick: u64) -> u64 {
    let now = monotonic();
    tsc.at(now - now % tick)
}

/// Tells the guest what to do.
fn configure(spec: &Spec, shared: &Shared, tsc: Tsc, start: u64) -> Result<()> {
    let c = &shared.config;
    let set = |field: &AtomicU64, value| field.store(value, Relaxed);
    for (i, v) in shared.vcpu[..spec.vcpus].iter().enumerate() {
        set(&v.role, spec.role(i) as u64);
    }
    set(&c.start, tsc.at(start));
    match spec.workload {
        Workload::Idle {} | Workload::Hog {} => {}
        Workload::Dodge { tick_ns, guard_ns } => {
            set(&c.tick, tsc.cycles(tick_ns));
            set(&c.guard, tsc.cycles(guard_ns));
            set(&c.boundary, boundary(tsc, tick_ns));
        }
        Workload::Periodic { period_ns, work, phase_ns } => {
            set(&c.start, tsc.at(start + phase_ns));
            set(&c.period, tsc.cycles(period_ns));
            set(&c.work, work);
        }
        Workload::Echo { work, deadline_ns, .. } => {
            set(&c.work, work);
            set(&c.deadline, deadline_ns.map_or(0, |ns| tsc.cycles(ns)));
        }
        Workload::Source {
            ref net,
            period_ns,
            phase_ns,
            burst,
            gap_ns,
            compute,
            ports,
            first_port,
            payload_type,
            ..
        } => {
            set(&c.start, tsc.at(start + phase_ns));
            set(&c.period, tsc.cycles(period_ns));
            set(&c.burst, burst);
            set(&c.gap, tsc.cycles(gap_ns));
            set(&c.compute, compute.into());
            set(&c.ports, ports);
            set(&c.first_port, first_port.into());
            set(&c.ssrc, u64::from(u32::from(net.ip)));
            let frame = source_template(net, first_port, payload_type)?;
            set(&c.template_len, frame.len() as u64);
            // SAFETY: the guest does not run yet, and nobody else looks; a test says that the frame fits.
            unsafe { (&mut *c.template.get())[..frame.len()].copy_from_slice(&frame) };
        }
        Workload::Interrupts { timer_ns, .. } => {
            let period = timer_ns.map_or(0, |ns| tsc.cycles(ns));
            set(&c.start, tsc.at(start) + period);
            set(&c.period, period);
        }
        Workload::Parallel(Program { compute, spread, locks, held, barrier, spin, rounds, seed }) => {
            let t = &shared.team;
            set(&t.threads, spec.vcpus as u64);
            set(&t.compute, compute);
            set(&t.width, compute * spread / 100);
            set(&t.locks, locks);
            set(&t.held, held);
            set(&t.barrier, barrier.into());
            set(&t.spin, spin);
            set(&t.rounds, rounds);
            set(&t.seed, seed);
        }
        Workload::Fanout(Site { ref peers, stages, split, message, work, spread, background, seed, .. }) => {
            let t = &shared.site;
            set(&t.threads, spec.vcpus as u64);
            set(&t.peers, peers.len() as u64 - 1);
            set(&t.stages, stages);
            set(&t.split, split);
            set(&t.message, message);
            set(&t.work, work);
            set(&t.width, work * spread / 100);
            set(&t.background, background.into());
            set(&t.seed, seed);
        }
        Workload::Tasks { ref tasks, phase_ns } => {
            set(&c.start, tsc.at(start + phase_ns));
            set(&shared.set.tasks, tasks.len() as u64);
            for (x, task) in shared.set.task.iter().zip(tasks) {
                set(&x.work, task.work);
                set(&x.period, tsc.cycles(task.period_ns));
            }
        }
    }
    Ok(())
}

fn source_template(net: &Net, port: u16, payload_type: u8) -> Result<Vec<u8>> {
    let from = End { mac: parse_mac(&net.mac)?, ip: net.ip, port };
    let to = End { mac: PEER_MAC, ip: PEER_IP, port: GUEST_PORT };
    Ok(template(from, to, payload_type))
}
