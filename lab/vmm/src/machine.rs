// SPDX-License-Identifier: GPL-2.0-or-later
//! A VM in KVM: memory, long mode, the interrupt controller in the kernel, and a TSC that equals the host's.

use anyhow::{Context, Result, ensure};
use kvm_bindings::{
    CpuId, KVM_IRQ_ROUTING_MSI, KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET,
    KvmIrqRouting, Msrs, kvm_device_attr, kvm_irq_routing_entry, kvm_mp_state, kvm_msr_entry, kvm_regs, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{IoEventAddress, Kvm, NoDatamatch, VcpuFd, VmFd};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::clock::{Tsc, tsc};
use crate::layout::{self, Shared};

const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.bin"));

const TSS: usize = 0xfffb_d000; // three pages that old Intel processors need, out of everything's way
const IDENTITY_MAP: u64 = 0xfffb_c000;
const MSR_TSC: u32 = 0x10;
const LARGE_PAGE: u64 = 0x83; // present, writable, 2 MiB
const TABLE: u64 = 3;

nix::ioctl_write_ptr!(set_device_attr, 0xae, 0xe1, kvm_device_attr);

/// A VM that has not begun to run.
pub struct Machine {
    pub vcpus: Vec<VcpuFd>,
    /// A signal of number i sends an MSI to VCPU i.
    pub msis: Vec<EventFd>,
    /// The guest signals that the tx ring has packets.
    pub tx: EventFd,
    pub memory: Memory,
    pub tsc: Tsc,
    /// How far the guests' TSCs are from the host's at most, in ns, as measured.
    pub tsc_error_ns: u64,
    pub vm: VmFd,
}

/// Memory of the guest; it lives as long as the process.
#[derive(Clone, Copy)]
pub struct Memory {
    base: NonNull<u8>,
    size: usize,
    samples: usize,
}

// SAFETY: the address of a mapping that is never unmapped; what is shared there is accessed as `Shared` says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(vcpus: usize, samples: usize) -> Result<Self> {
        let size = layout::memory_size(vcpus, samples);
        let length = NonZeroUsize::new(size).context("no memory asked for")?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE,
            )
        };
        Ok(Self { base: base.with_context(|| format!("{size} bytes of guest memory"))?.cast(), size, samples })
    }

    fn write(self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.size);
        // SAFETY: within the mapping; the guest does not run yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
    }

    fn write_words(self, at: usize, words: impl IntoIterator<Item = u64>) {
        for (i, word) in words.into_iter().enumerate() {
            self.write(at + 8 * i, &word.to_le_bytes());
        }
    }

    pub fn shared(self) -> &'static Shared {
        // SAFETY: `Shared` lies within the mapping (asserted in `layout`), is aligned to a page and valid as zeros.
        unsafe { &*self.base.as_ptr().add(layout::SHARED).cast() }
    }

    /// How many latencies each VCPU keeps.
    pub fn capacity(self) -> u64 {
        self.samples as u64
    }

    /// Entry `i` of VCPU `index`'s latencies.
    pub fn sample(self, index: usize, i: u64) -> u64 {
        let at = layout::samples_at(index, self.samples) + 8 * (i as usize % self.samples);
        assert!(at + 8 <= self.size);
        // SAFETY: within the mapping, aligned; volatile because the guest may be writing another.
        unsafe { self.base.as_ptr().add(at).cast::<u64>().read_volatile() }
    }

    /// Writes what the guest expects to find: code, tables, descriptors.
    fn boot(self, vcpus: usize) {
        let tables = layout::PAGE_TABLES;
        self.write(layout::IMAGE, GUEST);
        self.write_words(tables, [(tables + layout::PAGE) as u64 | TABLE]);
        self.write_words(tables + layout::PAGE, (2..6).map(|i| (tables + i * layout::PAGE) as u64 | TABLE));
        self.write_words(tables + 2 * layout::PAGE, (0..2048).map(|i| i << 21 | LARGE_PAGE));
        self.write_words(layout::GDT, [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff]);
        for (i, v) in self.shared().vcpu[..vcpus].iter().enumerate() {
            v.this.store(self.vcpu_at(i), Relaxed);
            v.idt.store((layout::IDTS + i * layout::PAGE) as u64, Relaxed);
            v.samples.store(layout::samples_at(i, self.samples) as u64, Relaxed);
            v.sample_mask.store(self.samples as u64 - 1, Relaxed);
        }
    }

    /// Where the guest finds VCPU `i`'s structure.
    fn vcpu_at(self, i: usize) -> u64 {
        (&raw const self.shared().vcpu[i]) as u64 - self.base.as_ptr() as u64
    }
}

impl Machine {
    /// A VM of `vcpus` VCPUs which keep `samples` latencies each (a power of two).
    pub fn new(vcpus: usize, samples: usize) -> Result<Self> {
        let kvm = Kvm::new().context("/dev/kvm")?;
        let vm = kvm.create_vm().context("KVM makes no VM")?;
        vm.set_tss_address(TSS).context("KVM_SET_TSS_ADDR")?;
        vm.set_identity_map_address(IDENTITY_MAP).context("KVM_SET_IDENTITY_MAP_ADDR")?;
        vm.create_irq_chip().context("KVM_CREATE_IRQCHIP")?;
        let memory = Memory::new(vcpus, samples)?;
        let region = kvm_userspace_memory_region {
            memory_size: memory.size as u64,
            userspace_addr: memory.base.as_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: the mapping is as long as said, and is never unmapped.
        unsafe { vm.set_user_memory_region(region) }.context("KVM_SET_USER_MEMORY_REGION")?;
        memory.boot(vcpus);
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).context("KVM_GET_SUPPORTED_CPUID")?;
        let fds = (0..vcpus)
            .map(|i| vcpu(&vm, i, &cpuid, memory).with_context(|| format!("VCPU {i}")))
            .collect::<Result<Vec<_>>>()?;
        let tsc = Tsc { khz: fds[0].get_tsc_khz().context("KVM_GET_TSC_KHZ")?.into() };
        let error = fds.iter().map(tsc_error).collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        let msis = (0..vcpus).map(|_| EventFd::new(EFD_CLOEXEC)).collect::<Result<Vec<_>, _>>().context("eventfd")?;
        route(&vm, &msis)?;
        let tx = EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK).context("eventfd")?;
        vm.register_ioevent(&tx, &IoEventAddress::Pio(layout::PORT_TX), NoDatamatch).context("KVM_IOEVENTFD")?;
        Ok(Self { vcpus: fds, msis, tx, memory, tsc, tsc_error_ns: tsc.ns(error), vm })
    }
}

fn vcpu(vm: &VmFd, index: usize, supported: &CpuId, memory: Memory) -> Result<VcpuFd> {
    let vcpu = vm.create_vcpu(index as u64).context("KVM_CREATE_VCPU")?;
    // KVM checks system registers against CPUID: long mode is refused before it is set.
    let mut cpuid = supported.clone();
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            1 => {
                entry.ebx = entry.ebx & 0x00ff_ffff | (index as u32) << 24;
                entry.ecx |= 1 << 21 | 1 << 24; // x2APIC and the TSC deadline timer, which KVM has everywhere
            }
            0xb | 0x1f => entry.edx = index as u32,
            _ => {}
        }
    }
    vcpu.set_cpuid2(&cpuid).context("KVM_SET_CPUID2")?;
    let mut sregs = vcpu.get_sregs().context("KVM_GET_SREGS")?;
    let data =
        kvm_segment { limit: u32::MAX, selector: 16, type_: 3, present: 1, db: 1, s: 1, g: 1, ..Default::default() };
    sregs.cs = kvm_segment { selector: 8, type_: 11, db: 0, l: 1, ..data };
    (sregs.ds, sregs.es, sregs.fs, sregs.ss) = (data, data, data, data);
    sregs.gs = kvm_segment { base: memory.vcpu_at(index), ..data };
    sregs.gdt.base = layout::GDT as u64;
    sregs.gdt.limit = 3 * 8 - 1;
    sregs.cr3 = layout::PAGE_TABLES as u64;
    sregs.cr4 = 1 << 5; // PAE
    sregs.cr0 = 0x8005_0033; // paging, protection, and what goes with it
    sregs.efer = 0x500; // long mode
    vcpu.set_sregs(&sregs).context("KVM_SET_SREGS")?;
    let stack = (layout::STACKS + (index + 1) * layout::STACK) as u64;
    let regs = kvm_regs { rip: layout::IMAGE as u64, rsp: stack - 8, rflags: 2, ..Default::default() };
    vcpu.set_regs(&regs).context("KVM_SET_REGS")?;
    vcpu.set_mp_state(kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE }).context("KVM_SET_MP_STATE")?;
    // Setting the TSC by value would be off by what the call takes.
    let offset = 0u64;
    let attr = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: (&raw const offset) as u64,
        flags: 0,
    };
    // SAFETY: the attribute is a u64, which `offset` is.
    unsafe { set_device_attr(vcpu.as_raw_fd(), &attr) }.context("this kernel cannot set the guest's TSC offset")?;
    Ok(vcpu)
}

/// By how many cycles the guest's TSC is outside of what the host read before and after.
fn tsc_error(vcpu: &VcpuFd) -> Result<u64> {
    let mut msrs =
        Msrs::from_entries(&[kvm_msr_entry { index: MSR_TSC, ..Default::default() }]).context("KVM_GET_MSRS")?;
    let before = tsc();
    let read = vcpu.get_msrs(&mut msrs).context("KVM_GET_MSRS")?;
    let after = tsc();
    ensure!(read == 1, "KVM does not tell the guest's TSC");
    let guest = msrs.as_slice()[0].data;
    Ok(before.saturating_sub(guest).max(guest.saturating_sub(after)))
}

/// Address and data of an MSI to VCPU `index`.
pub fn msi(index: usize) -> (u32, u32) {
    (0xfee0_0000 | (index as u32) << 12, layout::VECTOR_MSI)
}

/// Interrupt i of the VM is an MSI to VCPU i, sent by a signal of its descriptor.
fn route(vm: &VmFd, msis: &[EventFd]) -> Result<()> {
    let entries: Vec<_> = (0..msis.len() as u32)
        .map(|i| {
            let mut entry = kvm_irq_routing_entry { gsi: i, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
            (entry.u.msi.address_lo, entry.u.msi.data) = msi(i as usize);
            entry
        })
        .collect();
    vm.set_gsi_routing(&KvmIrqRouting::from_entries(&entries).context("interrupt routes")?)
        .context("KVM_SET_GSI_ROUTING")?;
    for (i, fd) in msis.iter().enumerate() {
        vm.register_irqfd(fd, i as u32).context("KVM_IRQFD")?;
    }
    Ok(())
}
