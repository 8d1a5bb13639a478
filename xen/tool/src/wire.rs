// SPDX-License-Identifier: GPL-2.0-only
//! What goes to Xen 4.20 and comes back: the parts of `xen/include/public/{domctl,sysctl}.h` that are used here, and
//! `struct xen_takt_op`, which Takt's patch adds to both.

/// Versions of the two interfaces; a hypervisor that has others refuses every call.
pub const DOMCTL_VERSION: u32 = 0x17;
pub const SYSCTL_VERSION: u32 = 0x15;

/// Numbers of hypercalls.
pub const HYPERCALL_SYSCTL: u64 = 35;
pub const HYPERCALL_DOMCTL: u64 = 36;

pub const DOMCTL_SCHEDULER_OP: u32 = 16;
pub const SYSCTL_GETDOMAININFOLIST: u32 = 6;
pub const SYSCTL_CPUPOOL_OP: u32 = 18;
pub const SYSCTL_SCHEDULER_OP: u32 = 19;
pub const CPUPOOL_OP_CREATE: u32 = 1;
pub const CPUPOOL_OP_DESTROY: u32 = 2;
pub const CPUPOOL_OP_INFO: u32 = 3;
pub const CPUPOOL_OP_ADDCPU: u32 = 4;
pub const CPUPOOL_OP_RMCPU: u32 = 5;
pub const CPUPOOL_OP_MOVEDOMAIN: u32 = 6;

/// Schedulers by number.
pub const SCHEDULER_NULL: u32 = 9;
pub const SCHEDULER_TAKT: u32 = 10;

/// Flags of [`DomainInfo`].
pub const DOMINF_DYING: u32 = 1;
pub const DOMINF_HVM: u32 = 2;
pub const NO_VCPU: u32 = u32::MAX;

/// What [`TaktOp`] is about: of a domain or a cpupool.
pub const PARAM: u32 = 0;
/// Of a domain.
pub const RT: u32 = 1;
pub const INDEX: u32 = 2;
pub const GROUP: u32 = 8;
/// Of a cpupool.
pub const POLICY: u32 = 3;
pub const RECORD: u32 = 4;
pub const LOG: u32 = 5;
pub const POOL: u32 = 6;
pub const OVERHEAD: u32 = 7;
pub const WAITS: u32 = 9;

/// Whether a call changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Act {
    Put,
    Get,
}

/// `struct xen_takt_op`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaktOp {
    pub what: u32,
    pub pad: u32,
    pub arg: [u64; 3],
    /// Address of what the hypervisor fills.
    pub buffer: u64,
}

impl TaktOp {
    #[must_use]
    pub fn new(what: u32, arg: [u64; 3]) -> Self {
        Self { what, arg, ..Self::default() }
    }
}

/// `struct xen_domctl` with `struct xen_domctl_scheduler_op`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Domctl {
    pub cmd: u32,
    pub interface_version: u32,
    pub domain: u16,
    pub pad: [u16; 3],
    pub sched_id: u32,
    pub act: u32,
    pub takt: TaktOp,
    pub rest: [u64; 10],
}

/// `struct xen_sysctl` with `struct xen_sysctl_scheduler_op`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SchedulerSysctl {
    pub cmd: u32,
    pub interface_version: u32,
    pub cpupool_id: u32,
    pub sched_id: u32,
    pub act: u32,
    pub pad: u32,
    pub takt: TaktOp,
    pub rest: [u64; 9],
}

/// `struct xen_sysctl` with `struct xen_sysctl_cpupool_op`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CpupoolSysctl {
    pub cmd: u32,
    pub interface_version: u32,
    pub op: u32,
    pub cpupool_id: u32,
    pub sched_id: u32,
    pub domid: u32,
    pub cpu: u32,
    pub n_dom: u32,
    pub cpumap: u64,
    pub nr_bits: u32,
    pub pad: u32,
    pub rest: [u64; 11],
}

/// `struct xen_sysctl` with `struct xen_sysctl_getdomaininfolist`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DomainsSysctl {
    pub cmd: u32,
    pub interface_version: u32,
    pub first_domain: u16,
    pub pad: u16,
    pub max_domains: u32,
    pub buffer: u64,
    pub num_domains: u32,
    pub pad2: u32,
    pub rest: [u64; 13],
}

/// `struct xen_domctl_getdomaininfo` of x86.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DomainInfo {
    pub domain: u16,
    pub pad1: u16,
    pub flags: u32,
    pub pages: [u64; 6],
    /// ns
    pub cpu_time: u64,
    pub nr_online_vcpus: u32,
    pub max_vcpu_id: u32,
    pub ssidref: u32,
    pub handle: [u8; 16],
    pub cpupool: u32,
    pub gpaddr_bits: u8,
    pub pad2: [u8; 7],
    pub arch: [u32; 2],
}

/// `struct privcmd_hypercall` and the number of its ioctl.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PrivcmdHypercall {
    pub op: u64,
    pub arg: [u64; 5],
}
pub const IOCTL_PRIVCMD_HYPERCALL: u32 = (size_of::<PrivcmdHypercall>() as u32) << 16 | (b'P' as u32) << 8;

/// A structure of plain integers without padding, equal to its C twin.
///
/// # Safety
/// Every bit pattern is a value, and there are no bytes between the fields.
pub unsafe trait Plain: Copy {}

// SAFETY: integers only; their sizes and offsets, and so the absence of padding, are tested below.
unsafe impl Plain for Domctl {}
unsafe impl Plain for SchedulerSysctl {}
unsafe impl Plain for CpupoolSysctl {}
unsafe impl Plain for DomainsSysctl {}
unsafe impl Plain for DomainInfo {}
unsafe impl Plain for u8 {}
// SAFETY: the same, as the log format of docs/conformance.md relies on.
unsafe impl Plain for takt_policy::Record {}

/// The values that `bytes` hold, as many as are whole.
pub fn read_all<T: Plain>(bytes: &[u8]) -> Vec<T> {
    // SAFETY: each chunk has the size of a T, and any bytes are one.
    bytes.chunks_exact(size_of::<T>()).map(|c| unsafe { c.as_ptr().cast::<T>().read_unaligned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// As a C compiler lays out the headers of Xen 4.20 with Takt's patch.
    #[test]
    fn layouts_are_those_of_the_hypervisor() {
        assert_eq!(size_of::<TaktOp>(), 40);
        assert_eq!((offset_of!(TaktOp, arg), offset_of!(TaktOp, buffer)), (8, 32));
        assert_eq!(size_of::<Domctl>(), 144);
        assert_eq!((offset_of!(Domctl, domain), offset_of!(Domctl, sched_id)), (8, 16));
        assert_eq!((offset_of!(Domctl, act), offset_of!(Domctl, takt)), (20, 24));
        assert_eq!(size_of::<SchedulerSysctl>(), 136);
        assert_eq!((offset_of!(SchedulerSysctl, cpupool_id), offset_of!(SchedulerSysctl, takt)), (8, 24));
        assert_eq!(size_of::<CpupoolSysctl>(), 136);
        assert_eq!((offset_of!(CpupoolSysctl, n_dom), offset_of!(CpupoolSysctl, cpumap)), (8 + 20, 8 + 24));
        assert_eq!((offset_of!(CpupoolSysctl, domid), offset_of!(CpupoolSysctl, cpu)), (8 + 12, 8 + 16));
        assert_eq!(size_of::<DomainsSysctl>(), 136);
        assert_eq!((offset_of!(DomainsSysctl, buffer), offset_of!(DomainsSysctl, num_domains)), (8 + 8, 8 + 16));
        assert_eq!(size_of::<DomainInfo>(), 112);
        assert_eq!((offset_of!(DomainInfo, cpu_time), offset_of!(DomainInfo, nr_online_vcpus)), (56, 64));
        assert_eq!((offset_of!(DomainInfo, max_vcpu_id), offset_of!(DomainInfo, cpupool)), (68, 92));
        assert_eq!((size_of::<PrivcmdHypercall>(), IOCTL_PRIVCMD_HYPERCALL), (48, 0x0030_5000));
        assert_eq!(size_of::<takt_policy::Record>(), 104);
    }

    #[test]
    fn bytes_become_values() {
        let mut bytes = vec![0; 2 * size_of::<DomainInfo>() + 3];
        bytes[0] = 7;
        bytes[size_of::<DomainInfo>() + 92] = 2;
        let all: Vec<DomainInfo> = read_all(&bytes);
        assert_eq!((all.len(), all[0].domain, all[1].cpupool), (2, 7, 2));
    }
}
