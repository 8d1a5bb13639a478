// SPDX-License-Identifier: GPL-2.0-only
//! What `takt bench-host` reads of a host: counters of the threads of its VMs and of its CPUs, the same under every scheduler.

use crate::control::names;
use crate::environment as env;
use crate::status::{Status, VmStatus};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use takt_control::bench::{HostUse, Threads, VmUse};

/// Of `/proc/stat` in a second: a constant of the kernel's interface on x86-64.
const TICKS: f64 = 100.0;
/// As QEMU calls the thread of a VCPU, with its number between: what tells VCPUs if no Takt has ever run.
const VCPU_THREAD: (&str, &str) = ("CPU ", "/KVM");

/// The counters of a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// On the clock of the caller.
    pub at: Duration,
    cpus: Cpus,
    /// By process.
    vms: BTreeMap<u32, Vmm>,
}

/// `/proc/stat`, of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cpus {
    busy: u64,
    system: u64,
    irq: u64,
    steal: u64,
    switches: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Vmm {
    name: String,
    /// When it began: another process may get its number.
    began: u64,
    threads: BTreeMap<u32, Thread>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Thread {
    name: String,
    run_ns: u64,
    wait_ns: u64,
    slices: u64,
    voluntary: u64,
    involuntary: u64,
}

/// What the threads of VMs are for.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    vcpus: BTreeSet<u32>,
    io: BTreeSet<u32>,
}

impl Roles {
    /// Learns from what Takt has found. A thread that was a VCPU once is one in all phases.
    pub fn learn(&mut self, status: &Status) {
        let tids = |of: fn(&VmStatus) -> &Vec<crate::status::VcpuStatus>| status.vms.iter().flat_map(of).map(|v| v.tid);
        self.vcpus.extend(tids(|vm| &vm.vcpus));
        self.io.extend(tids(|vm| &vm.io));
    }

    fn is_vcpu(&self, tid: u32, thread: &Thread) -> bool {
        let (before, after) = VCPU_THREAD;
        let number = thread.name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        self.vcpus.contains(&tid) || number.is_some_and(|n| n.parse::<u32>().is_ok())
    }
}

impl Sample {
    /// Of the host with file systems below `root`, at `at`.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read. A process or thread that ends meanwhile is left out.
    pub fn of(root: &Path, at: Duration) -> Result<Self> {
        let vmms = names::vmms(&env::below(root, "/proc"));
        let processes = vmms.iter().filter_map(|dir| dir.file_name()?.to_str()?.parse().ok());
        let vms = processes.filter_map(|tgid| Some((tgid, vmm(root, tgid)?))).collect();
        Ok(Self { at, cpus: cpus(&env::read(root, "/proc/stat").context("/proc/stat cannot be read")?)?, vms })
    }

    /// Processes that run VMs, with the name of each VM, in order of their numbers.
    pub fn vms(&self) -> impl Iterator<Item = (u32, &str)> {
        self.vms.iter().map(|(tgid, vm)| (*tgid, vm.name.as_str()))
    }

    /// Whether the kernel counts how long threads wait.
    ///
    /// # Errors
    /// It does not.
    pub fn counts_waits(&self) -> Result<()> {
        let mut threads = self.vms.values().flat_map(|vm| vm.threads.values());
        ensure!(
            threads.any(|t| t.slices > 0),
            "this kernel does not count how long threads wait (/proc/PID/schedstat is 0); it needs CONFIG_SCHED_INFO"
        );
        Ok(())
    }

    /// What the host did until `now`.
    #[must_use]
    pub fn host_until(&self, now: &Self) -> HostUse {
        let s = |of: fn(&Cpus) -> u64| of(&now.cpus).saturating_sub(of(&self.cpus)) as f64 / TICKS;
        HostUse {
            busy_s: s(|c| c.busy),
            system_s: s(|c| c.system),
            irq_s: s(|c| c.irq),
            steal_s: s(|c| c.steal),
            switches: now.cpus.switches.saturating_sub(self.cpus.switches),
            bpf_run_s: None,
        }
    }

    /// What the VMs did until `now` that ran all the time, by process. Threads that have ended are not counted.
    #[must_use]
    pub fn vms_until(&self, now: &Self, roles: &Roles) -> BTreeMap<u32, VmUse> {
        let both = now.vms.iter().filter_map(|(tgid, vm)| {
            let was = self.vms.get(tgid).filter(|was| was.began == vm.began)?;
            Some((*tgid, was, vm))
        });
        both.map(|(tgid, was, vm)| (tgid, was.until(vm, roles))).collect()
    }
}

impl Vmm {
    fn until(&self, now: &Self, roles: &Roles) -> VmUse {
        let [mut vcpus, mut io, mut others] = [Threads::default(); 3];
        for (tid, thread) in &now.threads {
            let of = match tid {
                tid if roles.is_vcpu(*tid, thread) => &mut vcpus,
                tid if roles.io.contains(tid) => &mut io,
                _ => &mut others,
            };
            // A number that another thread has got since counts from 0.
            let was = self.threads.get(tid).filter(|was| was.run_ns <= thread.run_ns && was.slices <= thread.slices);
            let more = |of: fn(&Thread) -> u64| of(thread).saturating_sub(was.map_or(0, of));
            of.threads += 1;
            of.run_s += more(|t| t.run_ns) as f64 / 1e9;
            of.wait_s += more(|t| t.wait_ns) as f64 / 1e9;
            of.slices += more(|t| t.slices);
            of.voluntary += more(|t| t.voluntary);
            of.involuntary += more(|t| t.involuntary);
        }
        VmUse { vm: now.name.clone(), vcpus, io, others, waits: None }
    }
}

/// `None`: it is gone.
fn vmm(root: &Path, tgid: u32) -> Option<Vmm> {
    // The name of the program is in brackets, and may have anything in it.
    let stat = env::read(root, &format!("/proc/{tgid}/stat"))?;
    let began = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let tasks = names::entries(env::below(root, &format!("/proc/{tgid}/task")));
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let threads = tids.filter_map(|tid| Some((tid, thread(root, tgid, tid)?))).collect();
    Some(Vmm { name: names::name_of(root, tgid), began, threads })
}

fn thread(root: &Path, tgid: u32, tid: u32) -> Option<Thread> {
    let file = |name: &str| env::read(root, &format!("/proc/{tgid}/task/{tid}/{name}"));
    let times = file("schedstat")?;
    let mut times = times.split_whitespace().map_while(|n| n.parse().ok());
    let status = file("status")?;
    let count = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok());
    Some(Thread {
        name: file("comm")?.trim_end().to_owned(),
        run_ns: times.next()?,
        wait_ns: times.next()?,
        slices: times.next()?,
        voluntary: count("voluntary_ctxt_switches:")?,
        involuntary: count("nonvoluntary_ctxt_switches:")?,
    })
}

fn cpus(stat: &str) -> Result<Cpus> {
    let numbers = |key: &str| {
        let line = stat.lines().find_map(|l| l.strip_prefix(key));
        line.map(|l| l.split_whitespace().map_while(|n| n.parse::<u64>().ok()).collect::<Vec<_>>())
    };
    // user nice system idle iowait irq softirq steal guest guest_nice; the last two are part of the first two.
    let cpu = numbers("cpu ").filter(|c| c.len() >= 8).context("/proc/stat has no line `cpu` of 8 numbers")?;
    let switches = numbers("ctxt ").and_then(|c| c.first().copied()).context("/proc/stat has no line `ctxt`")?;
    let irq = cpu[5] + cpu[6];
    Ok(Cpus { busy: cpu[..3].iter().sum::<u64>() + irq, system: cpu[2], irq, steal: cpu[7], switches })
}

/// Model of the first CPU, as the kernel names it.
#[must_use]
pub fn cpu_model(root: &Path) -> String {
    let text = env::read(root, "/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    model.unwrap_or("unknown").to_owned()
}

/// CPUs that are online.
///
/// # Errors
/// The kernel does not say it.
pub fn cpus_online(root: &Path) -> Result<usize> {
    env::online(root).map(|all| all.len())
}

/// Whether a scheduler is loaded, Takt or another.
#[must_use]
pub fn is_loaded(root: &Path) -> bool {
    env::no_scheduler(root).is_err()
}

/// Has the kernel kill the process that `command` starts when this one ends, however it ends: what it has loaded goes with it.
pub fn dies_with_this(command: &mut Command) {
    let this = std::process::id();
    // SAFETY: two system calls, which take no memory.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // It may have ended before that.
            if libc::getppid() as u32 != this {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests;
