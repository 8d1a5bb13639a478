// SPDX-License-Identifier: GPL-2.0-only
//! Asking the hypervisor: hypercalls by `/dev/xen/privcmd`, with memory of `/dev/xen/hypercall` that does not move.

use crate::wire::{self, Act, CpupoolSysctl, DomainInfo, DomainsSysctl, Domctl, Plain, SchedulerSysctl, TaktOp};
use anyhow::{Result, anyhow};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A cpupool as the hypervisor lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpupool {
    pub id: u32,
    pub scheduler: u32,
    pub domains: u32,
    /// Its PCPUs, of the first 64.
    pub pcpus: u64,
}

/// What is done with cpupools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOp {
    /// With a number that no cpupool has.
    Create {
        pool: u32,
        scheduler: u32,
    },
    /// One without domains and PCPUs.
    Destroy {
        pool: u32,
    },
    /// Of those that are in no cpupool.
    AddCpu {
        pool: u32,
        cpu: u32,
    },
    RemoveCpu {
        pool: u32,
        cpu: u32,
    },
    MoveDomain {
        pool: u32,
        domain: u16,
    },
}

/// What Takt asks of a hypervisor; an error carries its number ([`Error::raw_os_error`]).
pub trait Hypervisor: Send + Sync {
    /// The cpupool with the least number from `id` on; `ENOENT`: there is none.
    ///
    /// # Errors
    /// The hypervisor's.
    fn cpupool(&self, id: u32) -> Result<Cpupool, Error>;

    /// Changes a cpupool.
    ///
    /// # Errors
    /// The hypervisor's.
    fn change(&self, op: PoolOp) -> Result<(), Error>;

    /// All domains, by number.
    ///
    /// # Errors
    /// The hypervisor's.
    fn domains(&self) -> Result<Vec<DomainInfo>, Error>;

    /// Asks the scheduler of a domain, which must be number `scheduler`, about that domain.
    ///
    /// # Errors
    /// The hypervisor's.
    fn domain(&self, domid: u16, scheduler: u32, act: Act, op: &mut TaktOp) -> Result<(), Error>;

    /// Asks the scheduler of a cpupool, which must be number `scheduler`; it may fill `buffer`.
    ///
    /// # Errors
    /// The hypervisor's.
    fn pool(&self, pool: u32, scheduler: u32, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error>;
}

const PRIVCMD: &str = "/dev/xen/privcmd";
const BUFFERS: &str = "/dev/xen/hypercall";
const PAGE: usize = 4096;
/// Domains asked for at a time.
const DOMAINS: usize = 128;

/// What every call about cpupools begins with.
const CPUPOOL: CpupoolSysctl = CpupoolSysctl {
    cmd: wire::SYSCTL_CPUPOOL_OP,
    interface_version: wire::SYSCTL_VERSION,
    op: 0,
    cpupool_id: 0,
    sched_id: 0,
    domid: 0,
    cpu: 0,
    n_dom: 0,
    cpumap: 0,
    nr_bits: 0,
    pad: 0,
    rest: [0; 11],
};

/// The hypervisor below this Dom0.
pub struct Privcmd {
    calls: File,
    buffers: File,
    /// For the call itself, and for what it fills.
    memory: Mutex<[Memory; 2]>,
}

impl Privcmd {
    /// Opens the devices.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub fn open() -> Result<Self> {
        let open = |path: &str| {
            OpenOptions::new().read(true).write(true).open(path).map_err(|e| match e.kind() {
                ErrorKind::NotFound => {
                    anyhow!("no {path}: this is not a Xen domain, or the kernel module xen-privcmd is not loaded")
                }
                ErrorKind::PermissionDenied => anyhow!("{path}: only root may access the hypervisor"),
                _ => anyhow!("{path}: {e}"),
            })
        };
        let (calls, buffers) = (open(PRIVCMD)?, open(BUFFERS)?);
        let memory = || Memory::new(&buffers, PAGE).map_err(|e| anyhow!("{BUFFERS}: {e}"));
        let memory = Mutex::new([memory()?, memory()?]);
        Ok(Self { calls, buffers, memory })
    }

    /// Makes hypercall `number` of `call`, which gets the address of a buffer that is copied to `data`.
    fn call<T: Plain>(&self, number: u64, data: &mut [u8], call: impl FnOnce(u64) -> T) -> Result<T, Error> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory[1].len < data.len() {
            memory[1] = Memory::new(&self.buffers, data.len())?;
        }
        let [own, filled] = &mut *memory;
        let at = own.at.cast::<T>();
        assert!(size_of::<T>() <= own.len);
        // SAFETY: the memory is ours alone while the lock is held, aligned to a page and (asserted) large enough.
        unsafe { at.write(call(filled.at.as_ptr() as u64)) };
        let mut hypercall = wire::PrivcmdHypercall { op: number, arg: [at.as_ptr() as u64, 0, 0, 0, 0] };
        // SAFETY: the descriptor is open; the hypervisor writes to `own` and to `filled`, at most as much as `call` says.
        let ret =
            unsafe { libc::ioctl(self.calls.as_raw_fd(), wire::IOCTL_PRIVCMD_HYPERCALL as _, &raw mut hypercall) };
        if ret < 0 {
            return Err(Error::last_os_error());
        }
        data.copy_from_slice(&filled.bytes()[..data.len()]);
        // SAFETY: as above; any bytes are a T.
        Ok(unsafe { at.read() })
    }
}

impl Hypervisor for Privcmd {
    fn cpupool(&self, id: u32) -> Result<Cpupool, Error> {
        let mut map = [0; 8];
        let answer = self.call(wire::HYPERCALL_SYSCTL, &mut map, |cpumap| CpupoolSysctl {
            op: wire::CPUPOOL_OP_INFO,
            cpupool_id: id,
            cpumap,
            nr_bits: u64::BITS,
            ..CPUPOOL
        })?;
        let pcpus = u64::from_le_bytes(map);
        Ok(Cpupool { id: answer.cpupool_id, scheduler: answer.sched_id, domains: answer.n_dom, pcpus })
    }

    fn change(&self, op: PoolOp) -> Result<(), Error> {
        let call = match op {
            PoolOp::Create { pool, scheduler } => {
                CpupoolSysctl { op: wire::CPUPOOL_OP_CREATE, cpupool_id: pool, sched_id: scheduler, ..CPUPOOL }
            }
            PoolOp::Destroy { pool } => CpupoolSysctl { op: wire::CPUPOOL_OP_DESTROY, cpupool_id: pool, ..CPUPOOL },
            PoolOp::AddCpu { pool, cpu } => {
                CpupoolSysctl { op: wire::CPUPOOL_OP_ADDCPU, cpupool_id: pool, cpu, ..CPUPOOL }
            }
            PoolOp::RemoveCpu { pool, cpu } => {
                CpupoolSysctl { op: wire::CPUPOOL_OP_RMCPU, cpupool_id: pool, cpu, ..CPUPOOL }
            }
            PoolOp::MoveDomain { pool, domain } => {
                CpupoolSysctl { op: wire::CPUPOOL_OP_MOVEDOMAIN, cpupool_id: pool, domid: domain.into(), ..CPUPOOL }
            }
        };
        self.call(wire::HYPERCALL_SYSCTL, &mut [], |_| call).map(drop)
    }

    fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        let mut data = vec![0; DOMAINS * size_of::<DomainInfo>()];
        all_domains(|first_domain| {
            let answer = self.call(wire::HYPERCALL_SYSCTL, &mut data, |buffer| DomainsSysctl {
                cmd: wire::SYSCTL_GETDOMAININFOLIST,
                interface_version: wire::SYSCTL_VERSION,
                first_domain,
                pad: 0,
                max_domains: DOMAINS as u32,
                buffer,
                num_domains: 0,
                pad2: 0,
                rest: [0; 13],
            })?;
            let n = (answer.num_domains as usize).min(DOMAINS);
            Ok(wire::read_all::<DomainInfo>(&data[..n * size_of::<DomainInfo>()]))
        })
    }

    fn domain(&self, domid: u16, scheduler: u32, act: Act, op: &mut TaktOp) -> Result<(), Error> {
        let answer = self.call(wire::HYPERCALL_DOMCTL, &mut [], |_| Domctl {
            cmd: wire::DOMCTL_SCHEDULER_OP,
            interface_version: wire::DOMCTL_VERSION,
            domain: domid,
            pad: [0; 3],
            sched_id: scheduler,
            act: act as u32,
            takt: *op,
            rest: [0; 10],
        })?;
        *op = answer.takt;
        Ok(())
    }

    fn pool(&self, pool: u32, scheduler: u32, act: Act, op: &mut TaktOp, data: &mut [u8]) -> Result<(), Error> {
        let answer = self.call(wire::HYPERCALL_SYSCTL, data, |buffer| SchedulerSysctl {
            cmd: wire::SYSCTL_SCHEDULER_OP,
            interface_version: wire::SYSCTL_VERSION,
            cpupool_id: pool,
            sched_id: scheduler,
            act: act as u32,
            pad: 0,
            takt: TaktOp { buffer, ..*op },
            rest: [0; 9],
        })?;
        *op = answer.takt;
        Ok(())
    }
}

/// All domains, from `some`, which gives at most [`DOMAINS`] of them, from a number on. The end is the first answer that is not full,
/// or that does not lead to a greater number.
///
/// # Errors
/// Those of `some`.
pub fn all_domains(mut some: impl FnMut(u16) -> Result<Vec<DomainInfo>, Error>) -> Result<Vec<DomainInfo>, Error> {
    let (mut all, mut first): (Vec<DomainInfo>, u16) = (Vec::new(), 0);
    loop {
        let found = some(first)?;
        let full = found.len() == DOMAINS;
        all.extend(found);
        let next = all.last().and_then(|d| d.domain.checked_add(1));
        match next.filter(|next| full && *next > first) {
            Some(next) => first = next,
            None => return Ok(all),
        }
    }
}

/// Pages that the hypervisor may write to: the kernel neither moves nor swaps them.
struct Memory {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory without thread affinity.
unsafe impl Send for Memory {}

impl Memory {
    fn new(device: &File, len: usize) -> Result<Self, Error> {
        let len = len.next_multiple_of(PAGE);
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open device, wherever the kernel wants it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, device.as_raw_fd(), 0) };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { at, len }),
            _ => Err(Error::last_os_error()),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: our mapping, of that length; `&mut self` says that nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nobody uses any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}
