// SPDX-License-Identifier: GPL-2.0-only
//! `struct host` of `bpf/host.h` as user space reads it: one snapshot, taken under the lock.

use anyhow::{Result, ensure};
use takt_control::Wait;
use takt_control::partition::Side;
use takt_policy::{NCPU, NVCPU, NVM, Pool};

/// VM 0: the host's ordinary threads; VCPU n below [`FIRST_GUEST`] is their entity on PCPU n.
pub const HOST_VM: u32 = 0;
pub const FIRST_GUEST: u32 = NCPU;

/// A structure of plain integers without padding, equal to its C twin.
///
/// # Safety
/// Every bit pattern is a value.
unsafe trait Plain: Copy {}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostVcpu {
    /// RT, BOOST, UNDER, OVER.
    pub wait: [Wait; 4],
    pub queued_at: u64,
    pub ops: u64,
    pub refused: u64,
    /// In its present run, by the kernel's account.
    pub ran: u64,
    pub ran_before: u64,
    pub owed: u64,
    pub kvm_vcpu: u64,
    /// Thread.
    pub pid: u32,
    /// VCPU number of its VM; for I/O threads 0.
    pub id: u32,
    pub in_dsq: u32,
    pub source: u32,
    pub misses: u16,
    woken_by: u16,
    pub class: u16,
    side: u16,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostVm {
    pub kvm: u64,
    /// When it last became real-time, and ceased to be, ns of the monotonic clock; 0 = never.
    pub rt_at: u64,
    pub gone_at: u64,
    tenant: u64,
    /// Process of its VMM.
    pub tgid: u32,
    /// A slot that is used again is another VM.
    pub generation: u32,
    /// `enum takt_rule` of the monitor, 0 = by hand.
    pub rule: u32,
    side: u32,
    /// Of its VCPUs and I/O threads together, ns.
    pub ran: u64,
    /// What the VM that had the slot before leaves to its tenant's next one.
    weight: u32,
    cap: u32,
    owed: u32,
    pad: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostCpu {
    pub slice_end: u64,
    pub allowance: i64,
    pub allowed_at: u64,
    pub outside: u32,
    pub topology: u32,
    pub node: u32,
    pub pinned: u32,
    pub resched: u32,
    pub turn: u32,
}

/// Since the scheduler was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[repr(C)]
pub struct Counts {
    pub switches: u64,
    /// PCPUs that the policy asked to decide again.
    pub kicks: u64,
    /// Picks of a thread that was not there yet.
    pub refused: u64,
    /// How often a thread was left alone for a moment for that reason.
    pub untracked: u64,
    /// Time of threads that bypass the pool, ns.
    pub bypass: u64,
    /// Threads that found no room in the pool's tables: they stay host threads.
    pub overflow: u64,
    /// How often a PCPU went offline.
    pub offline: u64,
    /// VMs and threads beyond their tenant's quota: likewise.
    #[serde(default)]
    pub quota: u64,
}

/// Most VMs, and most VCPU and I/O threads, that one tenant may have in the pool's tables: a cgroup with all below it that
/// its user may have made, or a user where there is no cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub vms: u32,
    pub threads: u32,
}

impl Quota {
    /// All that there are.
    pub const MOST: Self = Self { vms: NVM - 1, threads: NVCPU - FIRST_GUEST };
}

impl Default for Quota {
    /// Half of the tables.
    fn default() -> Self {
        Self { vms: NVM / 2, threads: Self::MOST.threads / 2 }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    lock: u32,
    recording: u32,
    vm_gen: u32,
    threads: u32,
    untracked: u32,
    measuring: u32,
    tenant_vms: u32,
    tenant_threads: u32,
    has: [u32; 2],
    vtime: u64,
    kicks_due: u64,
    host_idle: u64,
    weights: u64,
    gone: u64,
    bounce: u64,
    count: Counts,
}

// SAFETY: integers only, no padding (their sizes are checked by `Snapshot::new` through the whole).
unsafe impl Plain for Head {}
unsafe impl Plain for HostCpu {}
unsafe impl Plain for HostVcpu {}
unsafe impl Plain for HostVm {}
unsafe impl Plain for u16 {}

impl HostVcpu {
    /// Its pool. That of a PCPU is its host entity's.
    pub fn side(&self) -> Side {
        if self.side == 0 { Side::Rest } else { Side::Rt }
    }
}

impl HostVm {
    /// The pool of its VCPUs.
    pub fn side(&self) -> Side {
        if self.side == 0 { Side::Rest } else { Side::Rt }
    }
}

/// One consistent state of the host.
pub struct Snapshot {
    bytes: Vec<u8>,
    head: Head,
    /// The only one, or that of whoever is not in the rt-pool; all VMs are in it.
    pub pool: Pool,
    /// With Risa. All VMs are in it, too.
    pub rt: Option<Pool>,
}

impl Snapshot {
    /// From the value of map `hosts`.
    ///
    /// # Errors
    /// It is not a value of this build.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        let (one, two) = (layout(1).end, layout(2).end);
        ensure!(
            bytes.len() == one || bytes.len() == two,
            "the scheduler's state has {} bytes, but this build expects {one} or {two}",
            bytes.len()
        );
        let pool = |n| {
            let at = size_of::<Head>() + n * takt_policy::pool_size();
            let pool = Pool::from_bytes(&bytes[at..at + takt_policy::pool_size()]);
            pool.ok_or_else(|| anyhow::anyhow!("the scheduler's pool is from another build"))
        };
        let (first, rt) = (pool(0)?, if bytes.len() == two { Some(pool(1)?) } else { None });
        let head = read(&bytes, 0);
        Ok(Self { bytes, head, pool: first, rt })
    }

    /// Bytes of the state before and after the pools.
    pub fn initial(pools: &[Pool], quota: Quota) -> Vec<u8> {
        let mut bytes = vec![0; layout(pools.len()).end];
        let limits = [quota.vms, quota.threads].map(u32::to_ne_bytes).concat();
        let at = std::mem::offset_of!(Head, tenant_vms);
        bytes[at..at + limits.len()].copy_from_slice(&limits);
        for (n, pool) in pools.iter().enumerate() {
            let at = size_of::<Head>() + n * takt_policy::pool_size();
            bytes[at..at + takt_policy::pool_size()].copy_from_slice(pool.bytes());
        }
        bytes
    }

    fn layout(&self) -> Layout {
        layout(1 + usize::from(self.rt.is_some()))
    }

    pub fn quota(&self) -> Quota {
        Quota { vms: self.head.tenant_vms, threads: self.head.tenant_threads }
    }
    pub fn counts(&self) -> Counts {
        self.head.count
    }
    pub fn recording(&self) -> bool {
        self.head.recording != 0
    }
    /// The pools there are, that of [`Side::Rest`] first.
    pub fn pools(&self) -> impl Iterator<Item = (Side, &Pool)> {
        [(Side::Rest, Some(&self.pool)), (Side::Rt, self.rt.as_ref())].into_iter().filter_map(|(s, p)| Some((s, p?)))
    }
    /// Says in the bytes of a state with `pools` pools where VM `vm` is.
    #[cfg(test)]
    pub(crate) fn set_side(bytes: &mut [u8], pools: usize, vm: u32, side: Side) {
        Self::set_vm(bytes, pools, vm, |v| v.side = u32::from(side == Side::Rt));
    }
    /// Changes what the bytes of a state with `pools` pools say of VCPU `n`.
    #[cfg(test)]
    pub(crate) fn set_vcpu(bytes: &mut [u8], pools: usize, n: u32, change: impl Fn(&mut HostVcpu)) {
        edit(bytes, layout(pools).vcpu + n as usize * size_of::<HostVcpu>(), change);
    }
    /// Says there which pool VCPU `n` is in.
    #[cfg(test)]
    pub(crate) fn set_vcpu_side(bytes: &mut [u8], pools: usize, n: u32, side: Side) {
        Self::set_vcpu(bytes, pools, n, |v| v.side = u16::from(side == Side::Rt));
    }
    /// The same of VM `n`.
    #[cfg(test)]
    pub(crate) fn set_vm(bytes: &mut [u8], pools: usize, n: u32, change: impl Fn(&mut HostVm)) {
        edit(bytes, layout(pools).vm + n as usize * size_of::<HostVm>(), change);
    }
    /// The same of PCPU `n`.
    #[cfg(test)]
    pub(crate) fn set_cpu(bytes: &mut [u8], pools: usize, n: u32, change: impl Fn(&mut HostCpu)) {
        edit(bytes, layout(pools).cpu + n as usize * size_of::<HostCpu>(), change);
    }
    /// PCPUs that are offline and the last of their pool nevertheless.
    #[cfg(test)]
    pub(crate) fn set_gone(bytes: &mut [u8], gone: u64) {
        let at = std::mem::offset_of!(Head, gone);
        bytes[at..at + 8].copy_from_slice(&gone.to_ne_bytes());
    }
    /// The pool on that side.
    pub fn on(&self, side: Side) -> &Pool {
        self.rt.as_ref().filter(|_| side == Side::Rt).unwrap_or(&self.pool)
    }
    /// The pool that VCPU `n` is in.
    pub fn pool_of(&self, n: u32) -> &Pool {
        self.on(self.vcpu(n).side())
    }
    /// Offline, and in its pool nevertheless: it was the last one there.
    pub fn is_gone(&self, cpu: u32) -> bool {
        self.head.gone & 1 << cpu != 0
    }
    pub fn cpu(&self, n: u32) -> HostCpu {
        read(&self.bytes, self.layout().cpu + n as usize * size_of::<HostCpu>())
    }
    pub fn vcpu(&self, n: u32) -> HostVcpu {
        read(&self.bytes, self.layout().vcpu + n as usize * size_of::<HostVcpu>())
    }
    pub fn vm(&self, n: u32) -> HostVm {
        read(&self.bytes, self.layout().vm + n as usize * size_of::<HostVm>())
    }
}

fn layout(pools: usize) -> Layout {
    let cpu = size_of::<Head>() + pools * takt_policy::pool_size();
    let vcpu = cpu + size_of::<HostCpu>() * NCPU as usize;
    let vm = vcpu + size_of::<HostVcpu>() * NVCPU as usize;
    Layout { cpu, vcpu, vm, end: vm + size_of::<HostVm>() * NVM as usize }
}

struct Layout {
    cpu: usize,
    vcpu: usize,
    vm: usize,
    end: usize,
}

fn read<T: Plain>(bytes: &[u8], at: usize) -> T {
    assert!(at + size_of::<T>() <= bytes.len());
    // SAFETY: within the buffer (asserted), and any bytes are a T.
    unsafe { bytes.as_ptr().add(at).cast::<T>().read_unaligned() }
}

#[cfg(test)]
fn edit<T: Plain>(bytes: &mut [u8], at: usize, change: impl Fn(&mut T)) {
    let mut value: T = read(bytes, at);
    change(&mut value);
    // SAFETY: as in `read`, which has looked at the bounds.
    unsafe { bytes.as_mut_ptr().add(at).cast::<T>().write_unaligned(value) };
}

#[cfg(test)]
mod tests;
