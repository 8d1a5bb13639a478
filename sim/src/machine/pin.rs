// SPDX-License-Identifier: GPL-2.0-only
//! PCPUs of their own for the real-time VMs and Dom0's network VCPU: what operators do without a real-time scheduler.

use crate::scenario::{NetVcpu, Scenario};
use crate::vm::VmSpec;
use anyhow::{Result, bail};

/// The scenario's VCPUs in the order of the pool: VM's entry (`None` = Dom0) and number within the VM.
fn vcpus(s: &Scenario) -> impl Iterator<Item = (Option<usize>, u32)> + '_ {
    let dom0 = (0..s.machine.machines).flat_map(|_| (0..s.dom0_vcpus()).map(|n| (None, n)));
    let guests = s.vms.iter().enumerate();
    dom0.chain(guests.flat_map(|(i, vm)| (0..vm.count * vm.vcpus).map(move |n| (Some(i), n % vm.vcpus))))
}

fn dedicated(s: &Scenario, vm: Option<usize>, n: u32) -> bool {
    match vm {
        None => s.dom0.dedicated && (s.dom0.net_vcpu != NetVcpu::One || n == 0),
        Some(i) => s.vms[i].is_dedicated(),
    }
}

/// Hard-affinity mask of each VCPU; `pin` adds dedicated PCPUs to what the scenario says.
///
/// # Errors
/// Too few PCPUs; the message names the numbers.
pub fn masks(s: &Scenario, pin: bool) -> Result<Vec<u64>> {
    let all = u64::MAX >> (64 - s.machine.pcpus);
    let own = |vm: Option<usize>| -> u64 {
        let list = vm.map_or(&s.dom0.affinity, |i| &s.vms[i].affinity);
        if list.is_empty() { all } else { list.iter().fold(0, |m, &c| m | 1 << c) }
    };
    if !pin {
        let mut dom0 = 0;
        let mask = |(vm, n): (Option<usize>, u32)| {
            // Each Dom0 begins with its VCPU 0.
            dom0 += u32::from(vm.is_none() && n == 0);
            own(vm) << (s.machine.pcpus * (vm.map_or(dom0, |i| s.vms[i].on) - 1))
        };
        return Ok(vcpus(s).map(mask).collect());
    }
    let needs = vcpus(s).filter(|&(vm, n)| dedicated(s, vm, n)).count();
    // A VM that has named PCPUs is on those, and a Dom0 without one of its own goes anywhere: neither shares the rest.
    let named = |vm: Option<usize>| vm.map_or(&[][..], |i| s.vms[i].own_pcpus());
    let floats = |vm: Option<usize>| vm.is_none() && !s.dom0.dedicated;
    let taken = s.vms.iter().flat_map(VmSpec::own_pcpus).fold(0u64, |m, &c| m | 1 << c);
    let shares = |&(vm, n): &(Option<usize>, u32)| !dedicated(s, vm, n) && named(vm).is_empty() && !floats(vm);
    let rest = vcpus(s).filter(shares).count();
    let mut free: Vec<u32> = (0..s.machine.pcpus).filter(|c| taken >> c & 1 == 0).collect();
    let least = s.machine.pcpus as usize - free.len() + needs + usize::from(rest > 0);
    if least > s.machine.pcpus as usize {
        bail!(
            "policy pin: {needs} VCPUs need a dedicated PCPU each and {rest} share the others; machine.pcpus is {}; allowed: {least} to 64",
            s.machine.pcpus
        );
    }
    let shared = free.split_off(needs).iter().fold(0, |m, c| m | 1 << c);
    let mut next = free.into_iter();
    let mut mask = |(vm, n): (Option<usize>, u32)| match if dedicated(s, vm, n) { next.next() } else { None } {
        Some(cpu) => 1 << cpu,
        None if floats(vm) => own(vm),
        None if !named(vm).is_empty() => named(vm).iter().fold(0, |m, c| m | 1 << c),
        None if own(vm) & shared == 0 => shared,
        None => own(vm) & shared,
    };
    Ok(vcpus(s).map(&mut mask).collect())
}
